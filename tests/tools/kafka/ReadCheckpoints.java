import java.io.File;
import org.apache.kafka.storage.internals.checkpoint.LeaderEpochCheckpointFile;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;

/** Prints what Apache Kafka reads in leader-epoch-checkpoint files: "epoch start-offset" lines. */
public class ReadCheckpoints {
    public static void main(String[] paths) throws Exception {
        for (String path : paths) {
            File file = new File(path).getAbsoluteFile();
            new LeaderEpochCheckpointFile(file, new LogDirFailureChannel(1))
                .read()
                .forEach(entry -> System.out.println(entry.epoch + " " + entry.startOffset));
        }
    }
}
