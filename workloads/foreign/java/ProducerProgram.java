import java.io.IOException;
import java.time.Duration;
import java.util.Base64;
import java.util.List;
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
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * The Java client's producer as a program under test.
 *
 * <p>A record that {@code send} fails with, by its callback before it returns or by throwing, was
 * refused; what its callback is told later has failed. Whichever is first is said: with idempotence,
 * {@code send} may throw for a record that it has queued, whose callback follows.
 */
public final class ProducerProgram {
    /** The name of the only header of a tombstone, whose value says which record it is. */
    static final String TOMBSTONE_HEADER = "ackproof";
    /**
     * How long {@code send} may wait for metadata, or for room, unless told: what comes next waits
     * with it.
     */
    private static final String MAX_BLOCK_MS = "1000";
    private static final Duration CLOSE_WITHIN = Duration.ofSeconds(3);

    private final Lines lines;
    private final String topic;
    private final KafkaProducer<byte[], byte[]> producer;

    ProducerProgram(Lines lines, String topic, Properties properties) {
        this.lines = lines;
        this.topic = topic;
        properties.putIfAbsent(ProducerConfig.MAX_BLOCK_MS_CONFIG, MAX_BLOCK_MS);
        ByteArraySerializer serializer = new ByteArraySerializer();
        producer = new KafkaProducer<>(properties, serializer, serializer);
    }

    KafkaProducer<byte[], byte[]> client() {
        return producer;
    }

    void run() throws IOException {
        awaitMetadata();
        lines.ready();
        for (String line; (line = lines.next()) != null; ) {
            obey(line);
        }
        producer.close(CLOSE_WITHIN);
    }

    void obey(String line) {
        String[] words = line.split(" ", 2);
        switch (words[0]) {
            case "send", "keyed", "tombstone" -> send(words[0], words[1].split(" "));
            case "init" -> call(producer::initTransactions);
            case "begin" -> call(producer::beginTransaction);
            case "commit" -> call(producer::commitTransaction);
            case "abort" -> call(producer::abortTransaction);
            case "flush" -> new Thread(this::flush).start(); // its end may be the end of the input
            default -> throw Lines.unknown(line);
        }
    }

    /** A broker that has just started may not have heard of the topic. */
    void awaitMetadata() {
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

    private void send(String verb, String[] words) {
        long number = Long.parseLong(words[0]);
        ProducerRecord<byte[], byte[]> record = record(verb, words);
        AtomicBoolean told = new AtomicBoolean();
        Thread sending = Thread.currentThread();
        try {
            producer.send(
                record,
                (metadata, error) -> {
                    if (told.compareAndSet(false, true)) {
                        boolean refused = Thread.currentThread() == sending;
                        lines.say(
                            error == null ? acked(number, record, metadata) : failed(refused, number, error));
                    }
                });
        } catch (KafkaException | IllegalStateException error) {
            if (told.compareAndSet(false, true)) {
                lines.say(failed(true, number, error));
            }
        }
    }

    /** A record with a key, and without a partition, is for the client's default partitioner. */
    private ProducerRecord<byte[], byte[]> record(String verb, String[] words) {
        Integer partition = words[1].equals("-") ? null : Integer.valueOf(words[1]);
        int last = verb.equals("send") ? 2 : 3;
        byte[] key = last == 2 ? null : Base64.getDecoder().decode(words[2]);
        byte[] value = Base64.getDecoder().decode(words[last]);
        String to = words.length > last + 1 ? words[last + 1] : topic;
        if (verb.equals("tombstone")) {
            RecordHeader identity = new RecordHeader(TOMBSTONE_HEADER, value);
            return new ProducerRecord<>(to, partition, key, null, List.of(identity));
        }
        return new ProducerRecord<>(to, partition, key, value);
    }

    private static String acked(long number, ProducerRecord<?, ?> record, RecordMetadata metadata) {
        String chosen = record.partition() == null ? " " + metadata.partition() : "";
        return "acked " + number + " " + (metadata.hasOffset() ? metadata.offset() : "-") + chosen;
    }

    private static String failed(boolean refused, long number, Exception error) {
        String how = refused ? "refused " : "failed ";
        return how + number + " " + error.getClass().getSimpleName();
    }

    void call(Runnable ofTransaction) {
        try {
            ofTransaction.run();
        } catch (KafkaException | IllegalStateException error) {
            lines.say("undone " + remedy(error) + " " + error.getClass().getSimpleName());
            return;
        }
        lines.say("done");
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
        lines.say("flushed");
    }
}
