"""Canal's, Maxwell's and GoldenGate's JSON, CSV, Avro and raw bytes: what they read, write, and say of a broken message."""

import io
import json
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from storage import DataField, InvalidRequest, Unsupported, extensions, parse_type
from storage.engines.duckdb_json import DuckDbJson
from storage.messages import registry
from storage.messages.message_format import Decoded, MessageFormat
from storage.messages.raw_format import RawFormat
from storage.messages.registry import MakeFormat, message_format
from storage.messages.testing import MessageFormatContract

KINDS = ("+I", "-U", "+U", "-D")
FORMATS = ("json", "debezium-json", "canal-json", "maxwell-json", "ogg-json", "csv", "avro")


def made(name: str, options: dict[str, str] | None = None, /, **types: Any) -> MessageFormat:
    types = types or {"id": "INT", "name": "STRING"}
    fields = [DataField(index, column, parse_type(type_)) for index, (column, type_) in enumerate(types.items())]
    return message_format(name, fields, options or {}, DuckDbJson())


def decode(format_: MessageFormat, *messages: Any, metadata: tuple[str, ...] = ()) -> Decoded:
    values = [each if isinstance(each, bytes | None) else json.dumps(each).encode() for each in messages]
    return format_.decode(pa.array(values, pa.binary()), metadata)


def changes(decoded: Decoded) -> list[tuple[Any, ...]]:
    assert decoded.malformed == ()
    rows = zip(decoded.kinds.to_pylist(), decoded.rows.to_pylist(), decoded.messages.to_pylist(), strict=True)
    return [(KINDS[kind], *row.values(), message) for kind, row, message in rows]


@pytest.mark.parametrize("name", FORMATS)
class TestOwnFormats(MessageFormatContract):
    @pytest.fixture
    def make(self, name: str) -> MakeFormat:
        return lambda fields, options, codec: message_format(name, fields, options, codec)

    @pytest.fixture
    def codec(self) -> DuckDbJson:
        return DuckDbJson()


class TestRawFormat(MessageFormatContract):
    @pytest.fixture
    def make(self) -> MakeFormat:
        return RawFormat

    @pytest.fixture
    def types(self) -> dict[str, str]:
        return {"data": "BYTES"}


class Added:
    """An entry point of a package."""

    name = "shouted"

    def __init__(self, package: str, fails: bool = False) -> None:
        self.dist, self._fails = SimpleNamespace(name=package), fails

    def load(self) -> Any:
        if self._fails:
            raise ModuleNotFoundError("No module named 'nowhere'")
        return lambda fields, options, codec: ("shouted", fields, options)


def installed(patch: pytest.MonkeyPatch, *points: Added) -> None:
    patch.setattr(extensions, "_installed", lambda group, path: points if group == registry.ENTRY_POINT else ())


def test_a_package_adds_a_format_by_an_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, Added("loud"))
    assert message_format("shouted", [], {"a": "b"}, DuckDbJson()) == ("shouted", (), {"a": "b"})
    with pytest.raises(InvalidRequest, match=r"canal-json.* raw, shouted"):
        message_format("whispered", [], {}, DuckDbJson())


def test_a_format_that_cannot_be_loaded_names_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, Added("loud", fails=True))
    with pytest.raises(InvalidRequest, match=r"'shouted' of package loud cannot be loaded: ModuleNotFoundError"):
        message_format("shouted", [], {}, DuckDbJson())
    message_format("json", [], {}, DuckDbJson())


def test_a_format_that_two_packages_add_is_neither(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, Added("loud"), Added("louder"))
    with pytest.raises(InvalidRequest, match="added by the packages loud and louder"):
        message_format("shouted", [], {}, DuckDbJson())


def test_nobody_takes_the_place_of_our_own_format(monkeypatch: pytest.MonkeyPatch) -> None:
    other = Added("loud")
    other.name = "json"
    installed(monkeypatch, other)
    with pytest.raises(InvalidRequest, match="is Snapline's own, and package loud adds another one"):
        message_format("json", [], {}, DuckDbJson())


def test_canals_messages_hold_several_rows_and_what_they_were() -> None:
    update = {
        "data": [{"id": "1", "name": "new"}, {"id": "2", "name": None}, {"id": "3", "name": "same"}],
        "old": [{"name": "old"}, {"name": None, "id": "22"}, {}],
        "type": "UPDATE",
        "database": "shop",
        "table": "products",
        "es": 1589373546000,
        "ts": 1589373546301,
        "isDdl": False,
        "pkNames": ["id"],
        "sqlType": {"id": 4, "name": 12},
    }
    insert = {"data": [{"id": "5", "name": "five"}], "old": None, "type": "INSERT", "database": "other", "table": "t"}
    delete = {"data": [{"id": "5", "name": "five"}], "old": None, "type": "DELETE"}
    ddl = {"data": None, "isDdl": True, "type": "ALTER", "sql": "ALTER …"}
    got = decode(made("canal-json"), update, insert, ddl, delete, {"type": "CREATE"})
    assert changes(got) == [
        *(("-U", 1, "old", 0), ("+U", 1, "new", 0), ("-U", 22, None, 0), ("+U", 2, None, 0)),
        *(("-U", 3, "same", 0), ("+U", 3, "same", 0), ("+I", 5, "five", 1), ("-D", 5, "five", 3)),
    ]
    format_ = made("canal-json")
    metadata = decode(format_, update, insert, metadata=tuple(format_.readable_metadata)).metadata
    assert metadata["database"].to_pylist() == ["shop"] * 6 + ["other"]
    assert metadata["event-timestamp"][0].as_py() == datetime(2020, 5, 13, 12, 39, 6, tzinfo=UTC)
    assert metadata["pk-names"][0].as_py() == ["id"] and metadata["sql-type"][0].as_py() == [("id", 4), ("name", 12)]
    assert metadata["ingestion-timestamp"][6].as_py() is None
    only = decode(made("canal-json", {"database.include": "sh.*", "table.include": "products"}), update, insert)
    assert only.messages.to_pylist() == [0] * 6 and only.malformed == ()


def test_canals_broken_messages_are_named() -> None:
    good = {"data": [{"id": "1", "name": "a"}], "type": "INSERT"}
    broken: list[tuple[Any, str]] = [
        ({"data": [{"id": "1"}], "old": [], "type": "UPDATE"}, 'Its "type" is UPDATE, and "data" is null, or "old"'),
        ({"data": None, "type": "INSERT"}, 'Its "type" is INSERT, and "data" is null'),
        ({"data": [], "type": "TRUNCATE"}, "Unknown \"type\" 'TRUNCATE'"),
        ({"data": [{"id": "1"}, {"id": "x"}], "type": "INSERT"}, "Field 'data.id': \"x\" is no INT."),
        ({"data": [{"id": "1"}], "old": [{"id": "x"}], "type": "UPDATE"}, "Field 'data.id': \"x\" is no INT."),
        (b"no", "It is no JSON"),
    ]
    for message, reason in broken:
        got = decode(made("canal-json"), good, message, good)
        assert got.messages.to_pylist() == [0, 2], message
        assert [each.message for each in got.malformed] == [1] and got.malformed[0].reason.startswith(reason)
    lenient = decode(made("canal-json", {"ignore-parse-errors": "true"}), broken[3][0])
    assert changes(lenient) == [("+I", 1, None, 0), ("+I", None, None, 0)]


def test_maxwells_messages_hold_a_row_and_what_it_was() -> None:
    head = {"database": "shop", "table": "t", "ts": 1596684904, "primary_key_columns": ["id"]}
    format_ = made("maxwell-json")
    messages = [
        {**head, "type": "insert", "data": {"id": 1, "name": "a"}},
        {**head, "type": "update", "data": {"id": 1, "name": "b"}, "old": {"name": "a"}},
        {**head, "type": "delete", "data": {"id": 1, "name": "b"}},
    ]
    got = decode(format_, *messages, metadata=tuple(format_.readable_metadata))
    assert changes(got) == [("+I", 1, "a", 0), ("-U", 1, "a", 1), ("+U", 1, "b", 1), ("-D", 1, "b", 2)]
    # Maxwell counts seconds.
    assert got.metadata["ingestion-timestamp"][0].as_py() == datetime(2020, 8, 6, 3, 35, 4, tzinfo=UTC)
    assert got.metadata["primary-key-columns"][0].as_py() == ["id"]
    assert made("maxwell-json").encode(pa.table({"id": pa.array([1], pa.int32()), "name": ["a"]})).to_pylist() == [
        b'{"data":{"id":1,"name":"a"},"type":"insert"}'
    ]


def test_goldengates_messages_hold_the_row_before_and_after() -> None:
    head = {
        "table": "T",
        "op_ts": "2020-05-13 15:40:06.000000",
        "current_ts": "2020-05-13 15:40:07",
        "primary_keys": ["ID"],
    }
    first, two = {"id": 1, "name": "a"}, {"id": 1, "name": "b"}
    format_ = made("ogg-json")
    got = decode(
        format_,
        {**head, "op_type": "I", "after": first},
        {**head, "op_type": "U", "before": first, "after": two},
        {**head, "op_type": "D", "before": two},
        {**head, "op_type": "T"},
        metadata=("primary-keys", "event-timestamp"),
    )
    assert [each.reason for each in got.malformed] == ["Unknown \"op_type\" 'T': I, U and D are read."]
    assert [KINDS[kind] for kind in got.kinds.to_pylist()] == ["+I", "-U", "+U", "-D"]
    assert got.metadata["event-timestamp"][0].as_py() == datetime(2020, 5, 13, 15, 40, 6, tzinfo=UTC)
    assert got.metadata["primary-keys"][0].as_py() == ["ID"]


def test_lines_of_csv_are_read_by_the_rules_of_texts() -> None:
    got = decode(made("csv"), b"1,a", b'2,"x,y"', b'3,"say ""hi"""', b",", None, b'5,"two\nlines"')
    assert changes(got) == [
        ("+I", 1, "a", 0),
        ("+I", 2, "x,y", 1),
        ("+I", 3, 'say "hi"', 2),
        ("+I", None, None, 3),
        ("+I", 5, "two\nlines", 5),
    ]
    got = decode(made("csv"), b"1,a", b"2", b"x,y", b"3,a,b", b"4,d")
    assert got.rows.to_pylist() == [{"id": 1, "name": "a"}, {"id": 4, "name": "d"}]
    assert [(each.message, each.reason) for each in got.malformed] == [
        (1, "It has 1 values, and not one line of 2 values."),
        (2, "Field 'id': \"x\" is no INT."),
        (3, "It has 3 values, and not one line of 2 values."),
    ]
    got = decode(made("csv", {"field-delimiter": ";", "null-literal": "n/a"}), b"n/a;", b"2;n/a")
    assert changes(got) == [("+I", None, "", 0), ("+I", 2, None, 1)]
    with pytest.raises(Unsupported, match="no form for column 'a'"):
        made("csv", a={"type": "ARRAY", "element": "INT"})


@pytest.mark.parametrize("type_", ["FLOAT", "DOUBLE"])
def test_numbers_of_csv_that_are_not_finite_are_written_as_java_does_and_read(type_: str) -> None:
    format_ = made("csv", a=type_)
    values = [float("inf"), float("-inf"), 1.5, None]
    messages = format_.encode(pa.table({"a": pa.array([*values, float("nan")], parse_type(type_).to_arrow())}))
    assert messages.to_pylist() == [b"Infinity", b"-Infinity", b"1.5", b"", b"NaN"]
    assert format_.decode(messages.combine_chunks()).malformed == ()
    rows = format_.decode(messages.combine_chunks()).rows["a"].to_pylist()
    assert rows[:4] == values and rows[4] != rows[4]
    # Earlier builds wrote `nan` and `inf`.
    assert decode(format_, b"inf", b"-inf").rows["a"].to_pylist() == values[:2]
    assert [each.message for each in decode(format_, b"nano", b"1e999", b"infinite").malformed] == [0, 1, 2]


def test_a_quoted_text_of_csv_stays_one_beside_messages_that_are_broken() -> None:
    got = decode(made("csv"), b'1,""', b"2,", b"3")
    assert got.rows.to_pylist() == [{"id": 1, "name": ""}, {"id": 2, "name": None}]
    got = decode(made("csv", {"null-literal": "NULL"}), b'1,"NULL"', b"2,NULL", b"3")
    assert got.rows.to_pylist() == [{"id": 1, "name": "NULL"}, {"id": 2, "name": None}]
    # Messages are not put together where one of them does not end what it begins, or is two.
    got = decode(made("csv"), b'1,"a', b'b"', b"3,c\n4,d")
    assert (got.rows.num_rows, [each.message for each in got.malformed]) == (0, [0, 1, 2])


def test_rows_of_one_column_are_read_as_they_were_written_to_csv() -> None:
    rows = pa.table({"name": [None, "", "a", '"']})
    format_ = made("csv", name="STRING")
    messages = format_.encode(rows)
    assert messages.to_pylist() == [b"", b'""', b"a", b'""""']
    assert format_.decode(messages.combine_chunks()).rows == rows


def test_values_of_csv_that_are_no_texts_are_quoted_as_those_are() -> None:
    format_ = made("csv", {"null-literal": "1", "field-delimiter": "."}, id="INT", x="DOUBLE", b="BYTES")
    rows = pa.table({"id": pa.array([1, None], pa.int32()), "x": [1.5, None], "b": pa.array([b"", None], pa.binary())})
    assert format_.decode(format_.encode(rows).combine_chunks()).rows.to_pylist() == rows.to_pylist()
    plain = made("csv", id="INT", b="BYTES")
    rows = pa.table({"id": pa.array([1], pa.int32()), "b": pa.array([b""], pa.binary())})
    assert plain.decode(plain.encode(rows).combine_chunks()).rows.to_pylist() == rows.to_pylist()
    unquoted = made("csv", {"disable-quote-character": "true"})
    with pytest.raises(InvalidRequest, match="null-literal"):
        unquoted.encode(pa.table({"id": pa.array([1], pa.int32()), "name": [""]}))


def test_an_empty_message_is_told_and_a_tombstone_is_no_row() -> None:
    for name in ("json", "csv"):
        got = decode(made(name), b"", None)
        assert (got.rows.num_rows, [each.message for each in got.malformed]) == (0, [0])
    (broken,) = decode(made("json"), b'{"id": 1, "name": "\\ud800"}').malformed
    assert "half of a pair of surrogates" in broken.reason
    broken.reason.encode()


def test_what_is_no_avro_is_told_in_words() -> None:
    (broken,) = decode(made("avro"), b"zz").malformed
    assert "IndexError" not in broken.reason


def test_avro_is_what_another_library_reads() -> None:
    format_ = made("avro", id="INT NOT NULL", name="STRING", price="DECIMAL(10, 2)", at="TIMESTAMP(3)")
    rows = pa.table(
        {
            "id": pa.array([7], pa.int32()),
            "name": ["x"],
            "price": pa.array(["-1.50"]).cast(pa.decimal128(10, 2)),
            "at": pa.array([1714564800123], pa.timestamp("ms")),
        }
    )
    [message] = format_.encode(rows).to_pylist()
    price = {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}
    schema = {
        "type": "record",
        "name": "r",
        "fields": [
            {"name": "id", "type": "int"},
            {"name": "name", "type": ["null", "string"]},
            {"name": "price", "type": ["null", price]},
            {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}]},
        ],
    }
    read: Any = fastavro.schemaless_reader(io.BytesIO(message), schema, None)
    assert (read["id"], read["name"], str(read["price"])) == (7, "x", "-1.50")
    assert read["at"] == datetime(2024, 5, 1, 12, 0, 0, 123000, tzinfo=UTC)
    got = format_.decode(pa.array([message, message + b"x", b""], pa.binary()))
    assert got.rows.num_rows == 1 and [each.message for each in got.malformed] == [1, 2]
    nested = made("avro", a={"type": "ARRAY", "element": {"type": "MAP", "key": "STRING", "value": "DATE"}})
    days = pa.table({"a": pa.array([[[("k", 5), ("l", None)]], None], pa.list_(pa.map_(pa.string(), pa.date32())))})
    assert nested.decode(nested.encode(days).combine_chunks()).rows.to_pylist() == days.to_pylist()


@pytest.mark.parametrize(
    ("type_", "value", "bytes_"),
    [
        ("STRING", "é", "é".encode()),
        ("BYTES", b"\xff", b"\xff"),
        ("BOOLEAN", True, b"\x01"),
        ("SMALLINT", -2, b"\xff\xfe"),
        ("BIGINT", 258, b"\0\0\0\0\0\0\x01\x02"),
        ("DOUBLE", 1.0, b"\x3f\xf0\0\0\0\0\0\0"),
    ],
)
def test_raw_bytes_are_the_value(type_: str, value: Any, bytes_: bytes) -> None:
    format_ = made("raw", a=type_)
    rows = pa.table({"a": pa.array([value, None], parse_type(type_).to_arrow())})
    assert format_.encode(rows).to_pylist() == [bytes_, None]
    got = format_.decode(pa.array([bytes_, None], pa.binary()))
    assert got.rows.column("a").to_pylist() == [value, None]
    little = made("raw", {"endianness": "little-endian"}, a=type_)
    assert little.decode(little.encode(rows).combine_chunks()).rows.column("a").to_pylist() == [value, None]


def test_raw_bytes_that_are_none_are_named() -> None:
    got = decode(made("raw", a="INT"), b"\0\0\0\x01", b"\0\0")
    assert got.rows.column("a").to_pylist() == [1]
    assert [(each.message, each.reason) for each in got.malformed] == [(1, "It has 2 bytes, INT has 4.")]
    got = decode(made("raw", a="STRING"), b"\xff", b"b")
    assert got.rows.column("a").to_pylist() == ["b"] and got.malformed[0].reason == "It is no UTF-8: byte 0 is 0xff."
    with pytest.raises(InvalidRequest, match="is for one column, and there are 2"):
        made("raw")
