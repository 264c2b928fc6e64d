import java.io.BufferedInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Base64;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.errors.OutOfOrderSequenceException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * The Java client as a program under test; docs/client-protocol.md has the lines. Properties go to
 * the client as they are told: their names are its own.
 *
 * <p>A record that {@code send} fails with, by its callback before it returns or by throwing, was
 * refused; what its callback is told later has failed. Whichever is first is said: with idempotence,
 * {@code send} may throw for a record that it has queued, whose callback follows.
 */
public final class ProducerProgram {
    /**
     * How long {@code send} may wait for metadata, or for room, unless told: what comes next waits
     * with it.
     */
    private static final String MAX_BLOCK_MS = "1000";
    private static final Duration CLOSE_WITHIN = Duration.ofSeconds(3);

    private final PrintStream said;
    private final Properties properties = new Properties();
    private String topic;
    private KafkaProducer<byte[], byte[]> producer;

    private ProducerProgram(PrintStream said) {
        this.said = said;
        properties.put(ProducerConfig.MAX_BLOCK_MS_CONFIG, MAX_BLOCK_MS);
    }

    public static void main(String[] arguments) throws IOException {
        PrintStream said = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        System.setOut(System.err); // what else may be printed is no line of the protocol
        ProducerProgram program = new ProducerProgram(said);
        try {
            program.run(new BufferedInputStream(System.in, 1 << 16));
        } catch (KafkaException | IllegalArgumentException error) {
            program.say("fatal " + error.toString().replace('\n', ' '));
            System.exit(1);
        }
        System.exit(0); // whatever thread of a library is left
    }

    private void run(InputStream lines) throws IOException {
        byte[] line = new byte[1 << 16];
        for (int used = 0, read; (read = lines.read()) >= 0; ) {
            if (read == '\n') {
                obey(new String(line, 0, used, StandardCharsets.UTF_8));
                used = 0;
                continue;
            }
            if (used == line.length) {
                line = java.util.Arrays.copyOf(line, 2 * used);
            }
            line[used++] = (byte) read;
        }
        if (producer != null) {
            producer.close(CLOSE_WITHIN);
        }
    }

    private void obey(String line) {
        String[] words = line.split(" ", 2);
        switch (words[0]) {
            case "send" -> send(words[1].split(" ", 3));
            case "init" -> call(producer::initTransactions);
            case "begin" -> call(producer::beginTransaction);
            case "commit" -> call(producer::commitTransaction);
            case "abort" -> call(producer::abortTransaction);
            case "topic" -> topic = words[1];
            case "property" -> set(words[1].split(" ", 2));
            case "open" -> open();
            case "flush" -> new Thread(this::flush).start(); // its end may be the end of the input
            case "protocol" -> expectVersion(words[1]);
            default -> throw new IllegalArgumentException("told what is no line: " + words[0]);
        }
    }

    private static void expectVersion(String version) {
        if (!version.equals("1")) {
            throw new IllegalArgumentException("version " + version + " of the protocol is not known");
        }
    }

    private void set(String[] property) {
        if (!ProducerConfig.configNames().contains(property[0])) {
            throw new IllegalArgumentException("no such property: " + property[0]);
        }
        properties.put(property[0], property[1]);
    }

    private void open() {
        ByteArraySerializer serializer = new ByteArraySerializer();
        producer = new KafkaProducer<>(properties, serializer, serializer);
        awaitMetadata();
        say("ready");
    }

    /** A broker that has just started may not have heard of the topic. */
    private void awaitMetadata() {
        for (int left = 30; ; left--) {
            try {
                producer.partitionsFor(topic);
                return;
            } catch (TimeoutException error) {
                if (left == 0) {
                    throw error;
                }
            }
        }
    }

    private void send(String[] words) {
        long number = Long.parseLong(words[0]);
        byte[] value = Base64.getDecoder().decode(words[2]);
        AtomicBoolean told = new AtomicBoolean();
        Thread sending = Thread.currentThread();
        try {
            producer.send(
                new ProducerRecord<>(topic, Integer.valueOf(words[1]), null, value),
                (metadata, error) -> {
                    if (told.compareAndSet(false, true)) {
                        boolean refused = Thread.currentThread() == sending;
                        say(error == null ? acked(number, metadata) : failed(refused, number, error));
                    }
                });
        } catch (KafkaException | IllegalStateException error) {
            if (told.compareAndSet(false, true)) {
                say(failed(true, number, error));
            }
        }
    }

    private static String acked(long number, RecordMetadata metadata) {
        return "acked " + number + " " + (metadata.hasOffset() ? metadata.offset() : "-");
    }

    private static String failed(boolean refused, long number, Exception error) {
        String how = refused ? "refused " : "failed ";
        return how + number + " " + error.getClass().getSimpleName();
    }

    private void call(Runnable ofTransaction) {
        try {
            ofTransaction.run();
        } catch (KafkaException | IllegalStateException error) {
            say("undone " + remedy(error) + " " + error.getClass().getSimpleName());
            return;
        }
        say("done");
    }

    /** As KafkaProducer's own documentation has it: what is not known to be fatal is aborted. */
    private static String remedy(RuntimeException error) {
        if (error instanceof TimeoutException) {
            return "retriable";
        }
        boolean fatal = error instanceof ProducerFencedException
            || error instanceof OutOfOrderSequenceException
            || error instanceof AuthorizationException
            || error instanceof IllegalStateException;
        return fatal ? "fatal" : "abortable";
    }

    private void flush() {
        producer.flush(); // returns behind the last callback
        say("flushed");
    }

    private synchronized void say(String line) {
        said.print(line + "\n");
        said.flush();
    }
}
