import java.io.BufferedInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/** The lines of docs/client-protocol.md, from standard input and to standard output. */
final class Lines {
    private final InputStream in;
    private final PrintStream out;
    private byte[] line = new byte[1 << 16];
    private String version = "1";

    Lines(InputStream in, PrintStream out) {
        this.in = new BufferedInputStream(in, 1 << 16);
        this.out = new PrintStream(out, false, StandardCharsets.UTF_8);
    }

    /** Returns the next line, or null at the end of the input. */
    String next() throws IOException {
        for (int used = 0, read; (read = in.read()) >= 0; ) {
            if (read == '\n') {
                return new String(line, 0, used, StandardCharsets.UTF_8);
            }
            if (used == line.length) {
                line = Arrays.copyOf(line, 2 * used);
            }
            line[used++] = (byte) read;
        }
        return null;
    }

    synchronized void say(String text) {
        out.print(text + "\n");
        out.flush();
    }

    void expectVersion(String told) {
        if (!told.equals("1") && !told.equals("2")) {
            throw new IllegalArgumentException("version " + told + " of the protocol is not known");
        }
        version = told;
    }

    void ready() {
        say(version.equals("1") ? "ready" : "ready " + version);
    }

    /** Returns the numbers that follow the first word of a line. */
    static long[] numbers(String line) {
        return Arrays.stream(line.split(" ")).skip(1).mapToLong(Long::parseLong).toArray();
    }

    static IllegalArgumentException unknown(String line) {
        return new IllegalArgumentException("told what is no line: " + line.split(" ", 2)[0]);
    }
}
