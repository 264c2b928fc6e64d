import java.lang.reflect.Method;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.common.config.ConfigDef;

/**
 * Prints the properties of Apache Kafka's brokers and topics, a line each: which of the two, name,
 * type, what values it takes, default (nothing where there is none), with tabs between them.
 */
public class ListProperties {
    public static void main(String[] none) throws Exception {
        list("broker", "kafka.server.KafkaConfig", "configDef");
        list("topic", "org.apache.kafka.storage.internals.log.LogConfig", "configDefCopy");
    }

    private static void list(String kind, String holder, String method) throws Exception {
        Method definition = Class.forName(holder).getMethod(method);
        Map<String, ConfigDef.ConfigKey> keys =
            new TreeMap<>(((ConfigDef) definition.invoke(null)).configKeys());
        for (ConfigDef.ConfigKey key : keys.values()) {
            if (key.internalConfig) {
                continue;
            }
            // Others take more than they say of themselves: versions without their "-IV0".
            boolean says = key.validator instanceof ConfigDef.Range
                || key.validator instanceof ConfigDef.ValidString;
            String takes = says ? key.validator.toString() : "";
            String otherwise = key.defaultValue == null || !key.hasDefault()
                ? ""
                : ConfigDef.convertToString(key.defaultValue, key.type);
            System.out.println(String.join("\t",
                kind, key.name, key.type.toString(), takes, otherwise));
        }
    }
}
