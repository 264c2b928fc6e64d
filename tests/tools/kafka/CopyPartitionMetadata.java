import java.io.File;
import org.apache.kafka.storage.internals.checkpoint.PartitionMetadataFile;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;

/** Apache Kafka reads one partition's partition.metadata, and writes it for another one. */
public class CopyPartitionMetadata {
    public static void main(String[] directories) throws Exception {
        PartitionMetadataFile written = file(directories[1]);
        written.record(file(directories[0]).read().topicId());
        written.maybeFlush();
    }

    private static PartitionMetadataFile file(String directory) {
        File absolute = new File(directory).getAbsoluteFile();
        return new PartitionMetadataFile(
            PartitionMetadataFile.newFile(absolute), new LogDirFailureChannel(1));
    }
}
