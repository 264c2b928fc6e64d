import java.io.IOException;
import java.lang.reflect.InvocationTargetException;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.TopicPartition;

/**
 * The Java client as a transformer: a member of a group and a transactional producer at once, which
 * sends what it makes of the records together with their offsets (KIP-98, KIP-447).
 */
final class TransformerProgram {
    private final Lines lines;
    private final ProducerProgram producer;
    private final MemberProgram member;

    TransformerProgram(Lines lines, String topic, Properties ofProducer, Properties ofConsumer) {
        this.lines = lines;
        producer = new ProducerProgram(lines, topic, ofProducer);
        member = new MemberProgram(lines, topic, ofConsumer);
    }

    void run() throws IOException {
        producer.awaitMetadata();
        member.subscribe();
        lines.ready();
        for (String line; (line = lines.next()) != null; ) {
            obey(line);
        }
    }

    private void obey(String line) {
        switch (line.split(" ", 2)[0]) {
            case "poll", "committed", "seek", "close" -> member.obey(line);
            case "offsets" -> producer.call(() -> sendOffsets(member.offsets(Lines.numbers(line))));
            default -> producer.obey(line);
        }
    }

    private void sendOffsets(Map<TopicPartition, OffsetAndMetadata> offsets) {
        sendOffsets(producer.client(), offsets, member.client());
    }

    /**
     * Calls {@code producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata())} by its name.
     * The program must also compile with release 2.4, which does not have it.
     */
    private static void sendOffsets(
        KafkaProducer<?, ?> producer,
        Map<TopicPartition, OffsetAndMetadata> offsets,
        KafkaConsumer<?, ?> consumer
    ) {
        try {
            var metadata = KafkaConsumer.class.getMethod("groupMetadata");
            var send = KafkaProducer.class.getMethod(
                "sendOffsetsToTransaction", Map.class, metadata.getReturnType());
            send.invoke(producer, offsets, metadata.invoke(consumer));
        } catch (InvocationTargetException error) {
            if (error.getCause() instanceof RuntimeException thrown) {
                throw thrown;
            }
            throw new IllegalStateException(error.getCause());
        } catch (ReflectiveOperationException error) {
            throw new IllegalArgumentException("this release has no metadata of groups: " + error);
        }
    }
}
