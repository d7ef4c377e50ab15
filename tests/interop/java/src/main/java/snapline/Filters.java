package snapline;

import java.util.ArrayList;
import java.util.List;

import org.apache.paimon.predicate.Predicate;
import org.apache.paimon.predicate.PredicateBuilder;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.paimon.types.RowType;

/** Filters from JSON: {@code ["and", f, g]}, {@code ["or", f, g]}, {@code ["=", column, value]}, {@code ["is null", column]} and the like. */
final class Filters {
    private Filters() {}

    static Predicate fromJson(JsonNode json, RowType type) {
        String operator = json.get(0).textValue();
        if (operator.equals("and") || operator.equals("or")) {
            List<Predicate> parts = new ArrayList<>();
            for (int i = 1; i < json.size(); i++) {
                parts.add(fromJson(json.get(i), type));
            }
            return operator.equals("and") ? PredicateBuilder.and(parts) : PredicateBuilder.or(parts);
        }
        PredicateBuilder builder = new PredicateBuilder(type);
        int column = builder.indexOf(json.get(1).textValue());
        if (operator.equals("in") || operator.equals("not in")) {
            List<Object> values = new ArrayList<>();
            for (JsonNode value : json.get(2)) {
                values.add(Values.fromJson(value, type.getTypeAt(column)));
            }
            return operator.equals("in") ? builder.in(column, values) : builder.notIn(column, values);
        }
        Object value = json.size() > 2 ? Values.fromJson(json.get(2), type.getTypeAt(column)) : null;
        switch (operator) {
            case "=":
                return builder.equal(column, value);
            case "<>":
                return builder.notEqual(column, value);
            case "<":
                return builder.lessThan(column, value);
            case "<=":
                return builder.lessOrEqual(column, value);
            case ">":
                return builder.greaterThan(column, value);
            case ">=":
                return builder.greaterOrEqual(column, value);
            case "starts with":
                return builder.startsWith(column, value);
            case "is null":
                return builder.isNull(column);
            case "is not null":
                return builder.isNotNull(column);
            default:
                throw new IllegalArgumentException("Unknown operator " + operator);
        }
    }
}
