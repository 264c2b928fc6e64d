package ackproof;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.server.log.remote.storage.LocalTieredStorage;
import org.apache.kafka.server.log.remote.storage.LogSegmentData;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata.CustomMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteStorageException;
import org.apache.kafka.server.log.remote.storage.RemoteStorageManager;

/**
 * A remote tier that can be disturbed: Kafka's own LocalTieredStorage, which keeps segments in a
 * directory that all brokers share.
 *
 * <p>A broker obeys the file {@code faults/ID} below that directory, unless it is empty: a token, one
 * of absent, read-only and slow, and milliseconds. It appends each operation to {@code
 * operations/ID}: its name, the token or a hyphen, and passed, refused or delayed.
 */
public final class RemoteTier implements RemoteStorageManager {
    private final LocalTieredStorage store = new LocalTieredStorage();
    private Path faults;
    private Path operations;

    @Override
    public void configure(Map<String, ?> configs) {
        Path directory = Path.of(configs.get("dir").toString());
        String broker = configs.get("broker.id").toString();
        faults = directory.resolve("faults").resolve(broker);
        operations = directory.resolve("operations").resolve(broker);
        Map<String, Object> own = new HashMap<>(configs);
        own.put("dir", directory.resolve("segments").toString());
        store.configure(own);
    }

    @Override
    public Optional<CustomMetadata> copyLogSegmentData(
            RemoteLogSegmentMetadata segment, LogSegmentData data) throws RemoteStorageException {
        admit("copy", true);
        return store.copyLogSegmentData(segment, data);
    }

    @Override
    public InputStream fetchLogSegment(RemoteLogSegmentMetadata segment, int start)
            throws RemoteStorageException {
        admit("fetch", false);
        return store.fetchLogSegment(segment, start);
    }

    @Override
    public InputStream fetchLogSegment(RemoteLogSegmentMetadata segment, int start, int end)
            throws RemoteStorageException {
        admit("fetch", false);
        return store.fetchLogSegment(segment, start, end);
    }

    @Override
    public InputStream fetchIndex(RemoteLogSegmentMetadata segment, IndexType kind)
            throws RemoteStorageException {
        admit("fetch-index", false);
        return store.fetchIndex(segment, kind);
    }

    @Override
    public void deleteLogSegmentData(RemoteLogSegmentMetadata segment)
            throws RemoteStorageException {
        admit("delete", true);
        store.deleteLogSegmentData(segment);
    }

    @Override
    public void close() throws IOException {
        store.close();
    }

    /** Lets an operation begin, now or later. Throws RemoteStorageException if it must fail. */
    private void admit(String operation, boolean writes) throws RemoteStorageException {
        try {
            String[] words = fault();
            if (words.length < 3 || words[1].equals("read-only") && !writes) {
                note(operation, "-", "passed");
            } else if (words[1].equals("slow")) {
                note(operation, words[0], "delayed");
                Thread.sleep(Long.parseLong(words[2]));
            } else {
                note(operation, words[0], "refused");
                throw new RemoteStorageException("the remote tier is " + words[1]);
            }
        } catch (IOException error) {
            throw new RemoteStorageException(error);
        } catch (InterruptedException ended) {
            Thread.currentThread().interrupt();
            throw new RemoteStorageException(ended);
        }
    }

    /** Returns the words of the file with the fault; fewer than three if there is no fault. */
    private String[] fault() throws IOException {
        try {
            return Files.readString(faults).trim().split(" ");
        } catch (NoSuchFileException none) {
            return new String[0];
        }
    }

    private synchronized void note(String operation, String token, String outcome)
            throws IOException {
        Files.createDirectories(operations.getParent());
        Files.writeString(
                operations,
                operation + " " + token + " " + outcome + "\n",
                StandardOpenOption.CREATE,
                StandardOpenOption.APPEND);
    }
}
