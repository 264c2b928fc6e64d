import java.io.IOException;
import java.io.UncheckedIOException;
import java.time.Duration;
import java.util.Arrays;
import java.util.Base64;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.errors.FencedInstanceIdException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * The Java client's consumer as a member of a group. It does one thing at a time, as it is told. In
 * the callback of a rebalance it goes on to obey until it is told to proceed.
 *
 * <p>Offsets are committed, and read on from, with the leader epoch of the last record. Without it a
 * log that was truncated could not be told from one that is complete (KAFKA-20507), and the group
 * would begin again.
 */
final class MemberProgram implements ConsumerRebalanceListener {
    private static final Duration POLL = Duration.ofMillis(100);
    private static final Duration ANSWER_WITHIN = Duration.ofSeconds(10);

    private final Lines lines;
    private final String topic;
    private final KafkaConsumer<byte[], byte[]> consumer;
    private final Map<Integer, Optional<Integer>> epochs = new HashMap<>();
    private final Map<TopicPartition, OffsetAndMetadata> committed = new HashMap<>();

    MemberProgram(Lines lines, String topic, Properties properties) {
        this.lines = lines;
        this.topic = topic;
        ByteArrayDeserializer deserializer = new ByteArrayDeserializer();
        consumer = new KafkaConsumer<>(properties, deserializer, deserializer);
    }

    KafkaConsumer<byte[], byte[]> client() {
        return consumer;
    }

    void subscribe() {
        consumer.subscribe(List.of(topic), this);
    }

    void run() throws IOException {
        subscribe();
        lines.ready();
        for (String line; (line = lines.next()) != null; ) {
            obey(line);
        }
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
        report("assigned", partitions);
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        report("revoked", partitions);
    }

    @Override
    public void onPartitionsLost(Collection<TopicPartition> partitions) {
        report("lost", partitions);
    }

    private void report(String event, Collection<TopicPartition> partitions) {
        String numbers = partitions.stream()
            .map(TopicPartition::partition)
            .sorted()
            .map(number -> " " + number)
            .collect(Collectors.joining());
        lines.say(event + numbers);
        try {
            for (String line; !"proceed".equals(line = lines.next()) && line != null; ) {
                obey(line);
            }
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    void obey(String line) {
        long[] numbers = Lines.numbers(line);
        switch (line.split(" ", 2)[0]) {
            case "poll" -> poll();
            case "commit" -> call(() -> consumer.commitSync(offsets(numbers), ANSWER_WITHIN));
            case "committed" -> call(() -> committed(numbers));
            case "seek" -> call(() -> seek(partition(numbers[0]), numbers[1]));
            case "end" -> call(() -> end(numbers[0]));
            case "close" -> call(this::close);
            default -> throw Lines.unknown(line);
        }
    }

    @SuppressWarnings("deprecation") // CloseOptions, which replace the time-out, came with 4.1
    private void close() {
        consumer.close(ANSWER_WITHIN);
    }

    private void poll() {
        for (ConsumerRecord<byte[], byte[]> record : consumer.poll(POLL)) {
            epochs.put(record.partition(), record.leaderEpoch());
            String epoch = record.leaderEpoch().map(String::valueOf).orElse("-");
            Header identity = record.headers().lastHeader(ProducerProgram.TOMBSTONE_HEADER);
            boolean deletes = record.value() == null && identity != null && identity.value() != null;
            byte[] told = deletes ? identity.value() : record.value();
            String value = told == null ? "-" : Base64.getEncoder().encodeToString(told);
            String kind = deletes ? "tombstone " : "record ";
            lines.say(kind + record.partition() + " " + record.offset() + " " + epoch + " " + value);
        }
        lines.say("polled");
    }

    private void committed(long[] numbers) {
        Set<TopicPartition> asked =
            Arrays.stream(numbers).mapToObj(this::partition).collect(Collectors.toSet());
        committed.putAll(consumer.committed(asked, ANSWER_WITHIN));
        for (TopicPartition one : asked) {
            OffsetAndMetadata offset = committed.get(one);
            lines.say("offset " + one.partition() + " " + (offset == null ? "-" : offset.offset()));
        }
    }

    private void seek(TopicPartition one, long offset) {
        OffsetAndMetadata known = committed.get(one);
        boolean same = known != null && known.offset() == offset;
        consumer.seek(one, same ? known : new OffsetAndMetadata(offset));
    }

    private void end(long number) {
        TopicPartition one = partition(number);
        long position = consumer.position(one, ANSWER_WITHIN);
        long end = consumer.endOffsets(Set.of(one), ANSWER_WITHIN).get(one);
        lines.say("end " + number + " " + position + " " + end);
    }

    private void call(Runnable what) {
        try {
            what.run();
        } catch (KafkaException | IllegalStateException error) {
            boolean fatal =
                error instanceof AuthorizationException || error instanceof FencedInstanceIdException;
            String remedy = fatal ? "fatal " : "retriable ";
            lines.say("undone " + remedy + error.getClass().getSimpleName());
            return;
        }
        lines.say("done");
    }

    Map<TopicPartition, OffsetAndMetadata> offsets(long[] numbers) {
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        for (int place = 0; place < numbers.length; place += 2) {
            TopicPartition one = partition(numbers[place]);
            Optional<Integer> epoch = epochs.getOrDefault(one.partition(), Optional.empty());
            offsets.put(one, new OffsetAndMetadata(numbers[place + 1], epoch, ""));
        }
        return offsets;
    }

    private TopicPartition partition(long number) {
        return new TopicPartition(topic, (int) number);
    }
}
