"""JSON messages: every type there and back, what Python's json reads, and each fault where it is."""

import base64
import json
import math
import random
import string
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from storage import DataField, DataType, InvalidRequest, Unsupported, parse_type
from storage.engines.duckdb_json import DuckDbJson
from storage.messages.message_format import MessageFormat
from storage.messages.registry import message_format
from tests.scale import seeds

ROW = {"type": "ROW", "fields": [{"id": 0, "name": "x y", "type": "INT"}, {"id": 1, "name": "q'\"", "type": "BYTES"}]}
TYPES: dict[str, Any] = {
    "boolean": "BOOLEAN",
    "tiny": "TINYINT",
    "small": "SMALLINT",
    "int": "INT",
    "big": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "price": "DECIMAL(10, 2)",
    "wide": "DECIMAL(38, 9)",
    "text": "STRING",
    "bytes": "BYTES",
    "day": "DATE",
    "time": "TIME(3)",
    "millis": "TIMESTAMP(3)",
    "micros": "TIMESTAMP(6)",
    "nanos": "TIMESTAMP(9)",
    "local": "TIMESTAMP(3) WITH LOCAL TIME ZONE",
    "local_nanos": "TIMESTAMP(9) WITH LOCAL TIME ZONE",
    "list": {"type": "ARRAY", "element": "DECIMAL(38, 9)"},
    "rows": {"type": "ARRAY", "element": ROW},
    "map": {"type": "MAP", "key": "STRING", "value": "TIMESTAMP(6)"},
    "row": ROW,
    "deep": {"type": "ROW", "fields": [{"id": 0, "name": "inner", "type": ROW}]},
}


def columns(**types: Any) -> list[DataField]:
    return [DataField(index, name, parse_type(type_)) for index, (name, type_) in enumerate(types.items())]


def json_format(name: str = "json", options: dict[str, str] | None = None, **types: Any) -> MessageFormat:
    return message_format(name, columns(**types), options or {}, DuckDbJson())


def read(texts: list[str], options: dict[str, str] | None = None, **types: Any) -> list[Any]:
    decoded = json_format("json", options, **types).decode(pa.array([text.encode() for text in texts]))
    assert not decoded.malformed, decoded.malformed
    return [list(row.values()) if len(types) > 1 else row[next(iter(types))] for row in decoded.rows.to_pylist()]


def faults(texts: list[str], options: dict[str, str] | None = None, **types: Any) -> list[tuple[int, str]]:
    decoded = json_format("json", options, **types).decode(pa.array([text.encode() for text in texts]))
    return [(each.message, each.reason) for each in decoded.malformed]


def random_value(type_: DataType, chance: random.Random) -> Any:
    if chance.random() < 0.2:
        return None
    bits = {"TINYINT": 7, "SMALLINT": 15, "INT": 31, "BIGINT": 63}
    match type_.root:
        case "BOOLEAN":
            return chance.random() < 0.5
        case "TINYINT" | "SMALLINT" | "INT" | "BIGINT":
            width = bits[type_.root]
            return chance.choice([-(2**width), 2**width - 1, chance.randrange(-(2**width), 2**width)])
        case "FLOAT":
            return pa.scalar(chance.uniform(-1e30, 1e30) * 10.0 ** -chance.randrange(60), pa.float32()).as_py()
        case "DOUBLE":
            return chance.choice([0.1, -0.0, 5e-324, 1.7976931348623157e308, chance.uniform(-1e9, 1e9)])
        case "DECIMAL":
            return Decimal(chance.randrange(-(10**type_.precision) + 1, 10**type_.precision)).scaleb(-type_.scale)
        case "VARCHAR":
            return "".join(chance.choices('aé漢😀"\\/\n\t\x01 {}' + string.digits, k=chance.randrange(8)))
        case "VARBINARY":
            return chance.randbytes(chance.randrange(5))
        case "ARRAY":
            assert type_.element is not None
            return [random_value(type_.element, chance) for _ in range(chance.randrange(3))]
        case "MAP":
            assert type_.element is not None
            return [(f"k{index}'\"", random_value(type_.element, chance)) for index in range(chance.randrange(3))]
        case "ROW":
            return {each.name: random_value(each.type, chance) for each in type_.fields}
    units = {"DATE": 1, "TIME": 86_400_000, "TIMESTAMP": 1, "TIMESTAMP_LTZ": 1}
    if type_.root == "TIME":
        return pa.scalar(chance.randrange(units["TIME"]), pa.time32("ms")).as_py()
    if type_.root == "DATE":
        return pa.scalar(chance.randrange(-719162, 2932896), pa.date32()).as_py()
    unit = 10 ** (3 if type_.precision <= 3 else 6 if type_.precision <= 6 else 9)
    most = 8_000_000_000 if unit < 10**9 else 9_000_000_000
    return chance.randrange(-most, most) * unit + chance.randrange(unit)


@pytest.mark.parametrize("standard", ["SQL", "ISO-8601"])
@pytest.mark.parametrize("ignore_null", ["false", "true"])
@pytest.mark.parametrize("name", ["json", "debezium-json"])
@pytest.mark.parametrize("seed", seeds(2, 200))
def test_every_type_comes_back_as_it_was(name: str, standard: str, ignore_null: str, seed: int) -> None:
    chance = random.Random(seed)
    options = {"timestamp-format.standard": standard, "encode.ignore-null-fields": ignore_null}
    format_ = json_format(name, options, **TYPES)
    fields = columns(**TYPES)
    made = {each.name: [random_value(each.type, chance) for _ in range(40)] for each in fields}
    rows = pa.table({each.name: pa.array(made[each.name], each.type.to_arrow()) for each in fields})
    messages = format_.encode(rows)
    decoded = format_.decode(messages.combine_chunks())
    assert decoded.malformed == ()
    assert decoded.messages.to_pylist() == list(range(40))
    for each in fields:
        # Values without null come back in the type that was declared.
        got = decoded.rows.column(each.name).cast(each.type.to_arrow())
        assert got.equals(rows.column(each.name)), each.name


@pytest.mark.parametrize("seed", seeds(2, 200))
def test_what_is_written_is_what_pythons_json_reads(seed: int) -> None:
    format_ = json_format(**TYPES)
    fields = columns(**TYPES)
    chance = random.Random(seed)
    rows = {each.name: [random_value(each.type, chance) for _ in range(30)] for each in fields}
    table = pa.table({each.name: pa.array(rows[each.name], each.type.to_arrow()) for each in fields})
    for index, message in enumerate(format_.encode(table).to_pylist()):
        value = json.loads(message, parse_float=Decimal)
        assert list(value) == list(TYPES)
        for name in ("boolean", "tiny", "big", "text"):
            assert value[name] == rows[name][index]
        for name in ("price", "wide"):
            assert value[name] == rows[name][index], name
        if rows["double"][index] is not None:
            assert float(value["double"]) == rows["double"][index]
        if rows["bytes"][index] is not None:
            assert base64.b64decode(value["bytes"]) == rows["bytes"][index]
        if rows["row"][index] is not None:
            assert value["row"]["x y"] == rows["row"][index]["x y"]


def test_numbers_are_read_from_numbers_and_from_texts() -> None:
    assert read(['{"a": 5}', '{"a": " 5 "}', '{"a": 5.0}', '{"a": null}', "{}"], a="INT") == [5, 5, 5, None, None]
    assert read(['{"a": 1.5}', '{"a": "1.5"}', '{"a": 15e-1}', '{"a": 2}'], a="DOUBLE") == [1.5, 1.5, 1.5, 2.0]
    wide = "12345678901234567890.123456789"
    got = read([f'{{"a": {wide}}}', f'{{"a": "{wide}"}}', '{"a": 2.7E-1}', '{"a": 1.50}'], a="DECIMAL(38, 9)")
    assert got == [Decimal(wide), Decimal(wide), Decimal("0.27"), Decimal("1.5")]
    assert read(['{"a": "TRUE"}', '{"a": false}'], a="BOOLEAN") == [True, False]


def test_a_text_takes_what_stands_there() -> None:
    assert read(['{"a": 5}', '{"a": true}', '{"a": {"b": [1, 2.50]}}', '{"a": "x"}'], a="STRING") == [
        "5",
        "true",
        '{"b":[1,2.50]}',
        "x",
    ]


def test_names_are_told_apart_by_their_case_and_unknown_ones_are_left_out() -> None:
    assert read(['{"A": 1, "a": 2, "z": 3}'], a="INT") == [2]


@pytest.mark.parametrize(
    ("type_", "value", "reason"),
    [
        ("INT", '"x"', '"x" is no INT.'),
        ("INT", "1.5", "1.5 is no INT."),
        ("TINYINT", "128", "128 is no TINYINT."),
        ("BIGINT", "9223372036854775808", "9223372036854775808 is no BIGINT."),
        ("DECIMAL(4, 2)", "123.45", "123.45 is no DECIMAL(4, 2)."),
        ("DECIMAL(4, 2)", "1.234", "1.234 is no DECIMAL(4, 2)."),
        ("DOUBLE", '"many"', '"many" is no DOUBLE.'),
        ("BOOLEAN", '"yes"', '"yes" is no BOOLEAN.'),
        ("BOOLEAN", "1", "1 is no BOOLEAN."),
        ("BYTES", '"@"', '"@" is no base64.'),
        ("DATE", '"2024-13-01"', '"2024-13-01" is no DATE.'),
        ("DATE", "19844", "19844 is no DATE."),
        ("TIMESTAMP(3)", "1714564800000", "1714564800000 is no TIMESTAMP(3)."),
        ("TIMESTAMP(3)", '"2024-05-01 12:00:00Z"', '"2024-05-01 12:00:00Z" is no TIMESTAMP(3).'),
        ("TIMESTAMP(3)", '"0000-00-00 00:00:00"', '"0000-00-00 00:00:00" is no TIMESTAMP(3).'),
        ("TIME(3)", '"noon"', '"noon" is no TIME(3).'),
        ({"type": "ARRAY", "element": "INT"}, '{"b": 1}', "a value in it is no ARRAY."),
        ({"type": "MAP", "key": "STRING", "value": "INT"}, '{"b": 1, "b": 2}', "a value in it is no MAP."),
        (ROW, "[]", "[] is no object."),
    ],
)
def test_a_value_of_another_type_is_named_and_null_if_errors_are_ignored(type_: Any, value: str, reason: str) -> None:
    texts = ['{"b": 1}', f'{{"a": {value}, "b": 2}}', '{"b": 3}']
    path = "a[]" if "a value in it" in reason else "a"
    assert faults(texts, a=type_, b="INT") == [(1, f"Field '{path}': {reason}")]
    ignoring = {"ignore-parse-errors": "true"}
    assert read(texts, ignoring, a=type_, b="INT") == [[None, 1], [None, 2], [None, 3]]


def test_a_fault_deep_inside_names_its_path() -> None:
    deep = {"type": "ROW", "fields": [{"id": 0, "name": "inner", "type": ROW}]}
    assert faults(['{"a": {"inner": {"x y": "no"}}}'], a=deep) == [(0, "Field 'a.inner.x y': \"no\" is no INT.")]
    rows = {"type": "ARRAY", "element": ROW}
    assert faults(['{"a": [{"x y": 1}, {"x y": []}]}'], a=rows) == [(0, "Field 'a[].x y': a value in it is no INT.")]
    lists = {"type": "ARRAY", "element": {"type": "ARRAY", "element": "INT"}}
    assert faults(['{"a": [[1], ["x"]]}'], a=lists) == [(0, "Field 'a[][]': a value in it is no INT.")]


@pytest.mark.parametrize("ignore", ["false", "true"])
def test_messages_that_are_no_objects_are_left_out_among_good_ones(ignore: str) -> None:
    values = [b'{"a": 1}', b"no", b"[1]", b"null", b'{"a": 2', b"\xff\xfe", b'{"a": 3}', b"", None, b"{} {}"]
    decoded = json_format("json", {"ignore-parse-errors": ignore}, a="INT").decode(pa.array(values, pa.binary()))
    assert decoded.rows.column("a").to_pylist() == [1, 3]
    assert decoded.messages.to_pylist() == [0, 6]
    assert [each.message for each in decoded.malformed] == [1, 2, 3, 4, 5, 7, 9]
    assert decoded.malformed[0].reason == "It is no JSON: Expecting value: line 1 column 1 (char 0)."
    assert decoded.malformed[1].reason == "It is no JSON object: [1]."
    assert decoded.malformed[4].reason == "It is no UTF-8: byte 0 is 0xff."


def test_a_missing_field_is_a_fault_where_that_is_asked_for() -> None:
    options = {"fail-on-missing-field": "true"}
    assert faults(['{"a": null}', "{}"], options, a="INT") == [(1, "Field 'a': It is missing.")]
    assert faults(['{"a": {"x y": 1}}'], options, a=ROW) == [(0, "Field 'a.q'\"': It is missing.")]
    with pytest.raises(InvalidRequest, match="both true"):
        json_format("json", {**options, "ignore-parse-errors": "true"}, a="INT")


def test_an_option_that_says_nothing_without_another_is_refused() -> None:
    literal = {"map-null-key.literal": "none"}
    with pytest.raises(InvalidRequest, match=r"goes with 'json.map-null-key.mode' = 'LITERAL', and that is 'FAIL'"):
        json_format("json", literal, a="INT")
    json_format("json", {**literal, "map-null-key.mode": "literal"}, a="INT")


def test_a_column_that_is_not_null_takes_none_whatever_is_ignored() -> None:
    for ignore in ("false", "true"):
        got = faults(['{"a": 1}', "{}", '{"a": null}'], {"ignore-parse-errors": ignore}, a="INT NOT NULL")
        assert got == [(1, "Field 'a': It is NOT NULL, and there is no value."), (2, got[0][1])]


def test_mysqls_zero_times_are_null_where_that_is_asked_for() -> None:
    options = {"zero-timestamp.behavior": "CONVERT_TO_NULL"}
    assert read(['{"a": "0000-00-00 00:00:00"}'], options, a="TIMESTAMP(3)") == [None]


def test_times_with_an_offset_are_moved_to_utc() -> None:
    got = read(['{"a": "2024-05-01T12:00:00+02:00"}', '{"a": "2024-05-01 10:00:00.5Z"}'], a="TIMESTAMP_LTZ(3)")
    assert [each.isoformat() for each in got] == ["2024-05-01T10:00:00+00:00", "2024-05-01T10:00:00.500000+00:00"]
    got = read(['{"a": "2024-05-01T12:00:00-00:30"}'], a="TIMESTAMP_LTZ(3)")
    assert got[0].isoformat() == "2024-05-01T12:30:00+00:00"


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_json_does_not_have_is_not_written(value: float) -> None:
    with pytest.raises(InvalidRequest, match="row 1, holds NaN or an infinity"):
        json_format(a="DOUBLE").encode(pa.table({"a": [1.0, value]}))
    listed = {"type": "ARRAY", "element": "DOUBLE"}
    with pytest.raises(InvalidRequest, match="'a' holds NaN or an infinity"):
        json_format(a=listed).encode(pa.table({"a": pa.array([[1.0], [value]])}))


def test_columns_without_a_form_in_json_are_refused() -> None:
    with pytest.raises(Unsupported, match="Declare the keys of the map as STRING"):
        json_format(a={"type": "MAP", "key": "INT", "value": "INT"})
    with pytest.raises(Unsupported, match="has no form in JSON"):
        json_format(a={"type": "MULTISET", "element": "STRING"})
    with pytest.raises(Unsupported, match="differ in their case alone"):
        json_format(a="INT", A="INT")


def test_json_can_only_insert() -> None:
    with pytest.raises(InvalidRequest, match="row 1 is -D"):
        json_format(a="INT").encode(pa.table({"a": [1, 2]}), pa.array([0, 3], pa.int8()))


def test_numbers_are_never_written_with_an_exponent() -> None:
    key = "encode.decimal-as-plain-number"
    for name in ("json", "debezium-json"):
        with pytest.raises(InvalidRequest, match=rf"Option '{name}\.{key}' = 'false'\. Supported: true\."):
            json_format(name, {key: "false"}, d="DECIMAL(38, 18)")
    format_ = json_format("json", {key: "true"}, d="DECIMAL(38, 18)")
    rows = pa.table({"d": pa.array(["0.000000000000000001"]).cast(pa.decimal128(38, 18))})
    assert format_.encode(rows).to_pylist() == [b'{"d":0.000000000000000001}']


def test_options_of_a_format_are_checked() -> None:
    with pytest.raises(
        InvalidRequest, match=r"Format 'json' has no option 'json.ignore-errors'\. It has: 'json.ignore-parse"
    ):
        json_format("json", {"ignore-errors": "true"}, a="INT")
    with pytest.raises(InvalidRequest, match=r"'json.timestamp-format.standard' = 'RFC'\. Supported: SQL, ISO-8601."):
        json_format("json", {"timestamp-format.standard": "RFC"}, a="INT")
    with pytest.raises(InvalidRequest, match=r"Format 'yaml' is not known\. Formats: json, debezium-json"):
        json_format("yaml", a="INT")


def test_where_no_column_is_read_messages_are_counted() -> None:
    decoded = message_format("json", [], {}, DuckDbJson()).decode(pa.array([b"{}", b"x", b'{"a": 1}']))
    assert len(decoded.kinds) == 2 and [each.message for each in decoded.malformed] == [1]


def test_no_messages_are_no_rows() -> None:
    for name in ("json", "debezium-json"):
        decoded = json_format(name, a="INT", b=ROW).decode(pa.array([None, b""], pa.binary()))
        assert decoded.rows.num_rows == 0 and decoded.rows.column_names == ["a", "b"]
        assert json_format(name, a="INT").encode(pa.table({"a": pa.array([], pa.int32())})).to_pylist() == []
