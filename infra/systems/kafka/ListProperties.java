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
        list("broker", find("kafka.server.KafkaConfig", "configDef"));
        list("topic", topics());
    }

    private static ConfigDef topics() throws Exception {
        try {
            return find("org.apache.kafka.storage.internals.log.LogConfig", "configDefCopy");
        } catch (ClassNotFoundException before35) {
            return find("kafka.log.LogConfig", "configDef");
        }
    }

    private static ConfigDef find(String holder, String method) throws Exception {
        try {
            return (ConfigDef) Class.forName(holder).getMethod(method).invoke(null);
        } catch (NoSuchMethodException beforeItWasForAll) {
            Class<?> object = Class.forName(holder + "$");
            return (ConfigDef) own(object, holder, method).invoke(object.getField("MODULE$").get(null));
        }
    }

    /** Return a method of a Scala object, whose name may or may not contain the class. */
    private static Method own(Class<?> object, String holder, String method) throws Exception {
        try {
            return object.getMethod(holder.replace('.', '$') + "$$" + method);
        } catch (NoSuchMethodException forAll) {
            return object.getMethod(method);
        }
    }

    private static void list(String kind, ConfigDef definition) {
        Map<String, ConfigDef.ConfigKey> keys = new TreeMap<>(definition.configKeys());
        for (ConfigDef.ConfigKey key : keys.values()) {
            if (key.internalConfig) {
                continue;
            }
            // Other validators accept more than their text says: versions without their "-IV0".
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
