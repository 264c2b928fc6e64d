import java.io.IOException;
import java.util.Properties;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.config.SaslConfigs;

/**
 * The Java client as a program under test; docs/client-protocol.md has the lines. It is told to be a
 * producer, a member of a group, or a transformer, which is both. Properties go to the client as they
 * are told: their names are its own. A token for OAUTHBEARER needs {@link TokenHandler} besides.
 */
public final class Program {
    private Program() {}

    public static void main(String[] arguments) throws IOException {
        Lines lines = new Lines(System.in, System.out);
        System.setOut(System.err); // what else may be printed is no line of the protocol
        try {
            run(lines);
        } catch (KafkaException | IllegalArgumentException error) {
            lines.say("fatal " + error.toString().replace('\n', ' '));
            System.exit(1);
        }
        System.exit(0); // whatever thread of a library is left
    }

    private static void run(Lines lines) throws IOException {
        Properties properties = new Properties();
        Properties ofConsumer = new Properties();
        String topic = null;
        for (String line; (line = lines.next()) != null; ) {
            String[] words = line.split(" ", 3);
            switch (words[0]) {
                case "protocol" -> lines.expectVersion(words[1]);
                case "topic" -> topic = words[1];
                case "property" -> properties.put(words[1], words[2]);
                case "consumer" -> ofConsumer.put(words[1], words[2]);
                case "open" -> {
                    prepare(properties, ProducerConfig.configNames());
                    prepare(ofConsumer, ConsumerConfig.configNames());
                    if (ofConsumer.isEmpty()) {
                        new ProducerProgram(lines, topic, properties).run();
                    } else {
                        new TransformerProgram(lines, topic, properties, ofConsumer).run();
                    }
                    return;
                }
                case "subscribe" -> {
                    prepare(properties, ConsumerConfig.configNames());
                    new MemberProgram(lines, topic, properties).run();
                    return;
                }
                default -> throw Lines.unknown(line);
            }
        }
    }

    private static void prepare(Properties properties, Set<String> known) {
        for (String name : properties.stringPropertyNames()) {
            if (!known.contains(name)) {
                throw new IllegalArgumentException("no such property: " + name);
            }
        }
        if ("OAUTHBEARER".equals(properties.getProperty(SaslConfigs.SASL_MECHANISM))) {
            String handler = SaslConfigs.SASL_LOGIN_CALLBACK_HANDLER_CLASS;
            properties.putIfAbsent(handler, TokenHandler.class.getName());
        }
    }
}
