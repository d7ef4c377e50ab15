package snapline;

import java.io.StringWriter;
import java.math.BigDecimal;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

import org.apache.paimon.data.BinaryString;
import org.apache.paimon.data.Decimal;
import org.apache.paimon.data.GenericArray;
import org.apache.paimon.data.GenericMap;
import org.apache.paimon.data.GenericRow;
import org.apache.paimon.data.InternalArray;
import org.apache.paimon.data.InternalMap;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.data.Timestamp;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.core.JsonGenerator;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.node.ArrayNode;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.node.JsonNodeFactory;
import org.apache.paimon.types.ArrayType;
import org.apache.paimon.types.DataField;
import org.apache.paimon.types.DataType;
import org.apache.paimon.types.DataTypeJsonParser;
import org.apache.paimon.types.DataTypes;
import org.apache.paimon.types.MapType;
import org.apache.paimon.types.MultisetType;
import org.apache.paimon.types.RowType;

/**
 * Values to JSON and back without loss.
 *
 * <p>Floating point numbers and decimals are texts, bytes base64, dates days, times milliseconds, timestamps pairs of milliseconds and
 * nanoseconds within the millisecond, rows lists of their fields, maps and multisets lists of pairs.
 */
final class Values {
    private static final JsonNodeFactory NODES = JsonNodeFactory.instance;

    private Values() {}

    /** A type as it stands in a schema file. */
    static JsonNode typeToJson(DataType type) throws Exception {
        StringWriter text = new StringWriter();
        JsonGenerator generator = PaimonProcess.JSON.getFactory().createGenerator(text);
        type.serializeJson(generator);
        generator.close();
        return PaimonProcess.JSON.readTree(text.toString());
    }

    static DataType typeFromJson(JsonNode json) {
        return DataTypeJsonParser.parseDataType(json);
    }

    static ArrayNode rowToJson(InternalRow row, RowType type) {
        ArrayNode values = NODES.arrayNode();
        List<DataField> fields = type.getFields();
        for (int i = 0; i < fields.size(); i++) {
            DataType fieldType = fields.get(i).type();
            values.add(toJson(InternalRow.createFieldGetter(fieldType, i).getFieldOrNull(row), fieldType));
        }
        return values;
    }

    static GenericRow rowFromJson(JsonNode values, RowType type) {
        GenericRow row = new GenericRow(type.getFieldCount());
        for (int i = 0; i < type.getFieldCount(); i++) {
            row.setField(i, fromJson(values.get(i), type.getTypeAt(i)));
        }
        return row;
    }

    private static JsonNode toJson(Object value, DataType type) {
        if (value == null) {
            return NODES.nullNode();
        }
        switch (type.getTypeRoot()) {
            case BOOLEAN:
                return NODES.booleanNode((Boolean) value);
            case TINYINT:
            case SMALLINT:
            case INTEGER:
            case BIGINT:
            case DATE:
            case TIME_WITHOUT_TIME_ZONE:
                return NODES.numberNode(((Number) value).longValue());
            case FLOAT:
            case DOUBLE:
                return NODES.textNode(Double.toString(((Number) value).doubleValue()));
            case DECIMAL:
                return NODES.textNode(((Decimal) value).toBigDecimal().toPlainString());
            case CHAR:
            case VARCHAR:
                return NODES.textNode(value.toString());
            case BINARY:
            case VARBINARY:
                return NODES.textNode(Base64.getEncoder().encodeToString((byte[]) value));
            case TIMESTAMP_WITHOUT_TIME_ZONE:
            case TIMESTAMP_WITH_LOCAL_TIME_ZONE:
                Timestamp moment = (Timestamp) value;
                return NODES.arrayNode().add(moment.getMillisecond()).add(moment.getNanoOfMillisecond());
            case ARRAY:
                return arrayToJson((InternalArray) value, ((ArrayType) type).getElementType());
            case MAP:
                return mapToJson((InternalMap) value, ((MapType) type).getKeyType(), ((MapType) type).getValueType());
            case MULTISET:
                return mapToJson((InternalMap) value, ((MultisetType) type).getElementType(), DataTypes.INT());
            case ROW:
                return rowToJson((InternalRow) value, (RowType) type);
            default:
                if (isVariant(type)) {
                    return NODES.arrayNode().add((byte[]) call(value, "value")).add((byte[]) call(value, "metadata"));
                }
                throw new UnsupportedOperationException("No JSON for " + type);
        }
    }

    private static ArrayNode arrayToJson(InternalArray array, DataType type) {
        InternalArray.ElementGetter getter = InternalArray.createElementGetter(type);
        ArrayNode values = NODES.arrayNode();
        for (int i = 0; i < array.size(); i++) {
            values.add(toJson(getter.getElementOrNull(array, i), type));
        }
        return values;
    }

    private static ArrayNode mapToJson(InternalMap map, DataType keyType, DataType valueType) {
        ArrayNode keys = arrayToJson(map.keyArray(), keyType);
        ArrayNode values = arrayToJson(map.valueArray(), valueType);
        ArrayNode pairs = NODES.arrayNode();
        for (int i = 0; i < keys.size(); i++) {
            pairs.add(NODES.arrayNode().add(keys.get(i)).add(values.get(i)));
        }
        return pairs;
    }

    static Object fromJson(JsonNode json, DataType type) {
        if (json == null || json.isNull()) {
            return null;
        }
        switch (type.getTypeRoot()) {
            case BOOLEAN:
                return json.booleanValue();
            case TINYINT:
                return (byte) json.intValue();
            case SMALLINT:
                return (short) json.intValue();
            case INTEGER:
            case DATE:
            case TIME_WITHOUT_TIME_ZONE:
                return json.intValue();
            case BIGINT:
                return json.longValue();
            case FLOAT:
                return (float) Double.parseDouble(json.textValue());
            case DOUBLE:
                return Double.parseDouble(json.textValue());
            case DECIMAL:
                org.apache.paimon.types.DecimalType decimal = (org.apache.paimon.types.DecimalType) type;
                return Decimal.fromBigDecimal(new BigDecimal(json.textValue()), decimal.getPrecision(), decimal.getScale());
            case CHAR:
            case VARCHAR:
                return BinaryString.fromString(json.textValue());
            case BINARY:
            case VARBINARY:
                return Base64.getDecoder().decode(json.textValue());
            case TIMESTAMP_WITHOUT_TIME_ZONE:
            case TIMESTAMP_WITH_LOCAL_TIME_ZONE:
                return Timestamp.fromEpochMillis(json.get(0).longValue(), json.get(1).intValue());
            case ARRAY:
                return arrayFromJson(json, ((ArrayType) type).getElementType());
            case MAP:
                return mapFromJson(json, ((MapType) type).getKeyType(), ((MapType) type).getValueType());
            case MULTISET:
                return mapFromJson(json, ((MultisetType) type).getElementType(), DataTypes.INT());
            case ROW:
                return rowFromJson(json, (RowType) type);
            default:
                if (isVariant(type)) {
                    return variant(json);
                }
                throw new UnsupportedOperationException("No value of " + type + " from JSON");
        }
    }

    /** By name: earlier versions have none. */
    private static boolean isVariant(DataType type) {
        return type.getTypeRoot().name().equals("VARIANT");
    }

    /** Of a text as JSON, or of the two parts of one, in base 64. */
    private static Object variant(JsonNode json) {
        try {
            Class<?> kind = Class.forName("org.apache.paimon.data.variant.GenericVariant");
            if (json.isTextual()) {
                return kind.getMethod("fromJson", String.class).invoke(null, json.textValue());
            }
            return kind.getConstructor(byte[].class, byte[].class).newInstance(json.get(0).binaryValue(), json.get(1).binaryValue());
        } catch (ReflectiveOperationException | java.io.IOException error) {
            throw new UnsupportedOperationException(error);
        }
    }

    private static Object call(Object value, String method) {
        try {
            return value.getClass().getMethod(method).invoke(value);
        } catch (ReflectiveOperationException error) {
            throw new UnsupportedOperationException(error);
        }
    }

    private static GenericArray arrayFromJson(JsonNode json, DataType type) {
        Object[] values = new Object[json.size()];
        for (int i = 0; i < values.length; i++) {
            values[i] = fromJson(json.get(i), type);
        }
        return new GenericArray(values);
    }

    private static GenericMap mapFromJson(JsonNode json, DataType keyType, DataType valueType) {
        Map<Object, Object> map = new HashMap<>();
        for (JsonNode pair : json) {
            map.put(fromJson(pair.get(0), keyType), fromJson(pair.get(1), valueType));
        }
        return new GenericMap(map);
    }
}
