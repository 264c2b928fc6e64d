import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.common.protocol.types.BoundField;
import org.apache.kafka.common.protocol.types.Schema;
import org.apache.kafka.common.protocol.types.TaggedFields;
import org.apache.kafka.common.protocol.types.Type;

/**
 * Prints how this release of Apache Kafka encodes the records of KRaft's metadata log, a line for
 * each version of each record: the record's id, its name, the version, and its fields as JSON, with
 * tabs between them.
 */
public class ListRecords {
    private static final String PACKAGE = "org.apache.kafka.common.metadata.";

    public static void main(String[] none) throws Exception {
        Class<?> types = Class.forName(PACKAGE + "MetadataRecordType");
        for (Object type : types.getEnumConstants()) {
            Object id = types.getMethod("id").invoke(type);
            Class<?> record = types.getMethod("newMetadataRecord").invoke(type).getClass();
            Schema[] schemas = (Schema[]) record.getField("SCHEMAS").get(null);
            for (int version = 0; version < schemas.length; version++) {
                if (schemas[version] != null) {
                    System.out.println(String.join("\t", id.toString(), record.getSimpleName(),
                        Integer.toString(version), described(schemas[version])));
                }
            }
        }
    }

    private static String described(Type type) throws Exception {
        if (type instanceof Schema) {
            List<String> fields = new ArrayList<>();
            for (BoundField field : ((Schema) type).fields()) {
                fields.add(pair(field.def.name, field.def.type));
            }
            return "{\"fields\": [" + String.join(", ", fields) + "]}";
        }
        if (type instanceof TaggedFields) {
            List<String> tags = new ArrayList<>();
            for (Map.Entry<Integer, ?> tag : tagged((TaggedFields) type).entrySet()) {
                org.apache.kafka.common.protocol.types.Field field =
                    (org.apache.kafka.common.protocol.types.Field) tag.getValue();
                tags.add("\"" + tag.getKey() + "\": " + pair(field.name, field.type));
            }
            return "{\"tags\": {" + String.join(", ", tags) + "}}";
        }
        if (type.isArray()) {
            boolean compact = type.getClass().getSimpleName().startsWith("Compact");
            return "{\"array\": " + described(type.arrayElementType().get())
                + ", \"compact\": " + compact + "}";
        }
        return "\"" + type + "\"";
    }

    private static String pair(String name, Type type) throws Exception {
        return "[\"" + name + "\", " + described(type) + "]";
    }

    /** Return the fields by tag. They only have an accessor since Apache Kafka 4.0. */
    private static Map<Integer, ?> tagged(TaggedFields type) throws Exception {
        Field fields = TaggedFields.class.getDeclaredField("fields");
        fields.setAccessible(true);
        return new TreeMap<Integer, Object>((Map<Integer, ?>) fields.get(type));
    }
}
