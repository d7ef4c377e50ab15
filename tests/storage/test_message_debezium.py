"""Debezium's JSON: each op, what is missing, what is broken, and what it tells about the change."""

import base64
import json
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from storage import DataField, InvalidRequest, parse_type
from storage.engines.duckdb_json import DuckDbJson
from storage.messages.debezium_json import DebeziumJson
from storage.messages.message_format import Decoded, MessageFormat
from storage.messages.registry import message_format

KINDS = ("+I", "-U", "+U", "-D")
MYSQL = json.loads(
    """{"version": "1.1.1.Final", "connector": "mysql", "name": "dbserver1", "ts_ms": 1589362330000, "snapshot": "false",
        "db": "inventory", "table": "products", "server_id": 223344, "gtid": null, "file": "mysql-bin.000003", "pos": 154,
        "row": 0, "thread": 2, "query": null}"""
)
POSTGRES = json.loads(
    """{"version": "1.2.1.Final", "connector": "postgresql", "name": "pg", "ts_ms": 1596006416402, "snapshot": "true",
        "db": "postgres", "schema": "inventory", "table": "products", "txId": 557, "lsn": 33987216, "xmin": null}"""
)


def debezium(options: dict[str, str] | None = None, **types: Any) -> MessageFormat:
    types = types or {"id": "INT", "name": "STRING"}
    fields = [DataField(index, name, parse_type(type_)) for index, (name, type_) in enumerate(types.items())]
    return message_format("debezium-json", fields, options or {}, DuckDbJson())


def decode(format_: MessageFormat, *messages: Any, metadata: tuple[str, ...] = ()) -> Decoded:
    values = [each if isinstance(each, bytes | None) else json.dumps(each).encode() for each in messages]
    return format_.decode(pa.array(values, pa.binary()), metadata)


def changes(decoded: Decoded) -> list[tuple[Any, ...]]:
    assert decoded.malformed == ()
    rows = zip(decoded.kinds.to_pylist(), decoded.rows.to_pylist(), decoded.messages.to_pylist(), strict=True)
    return [(KINDS[kind], *row.values(), message) for kind, row, message in rows]


def test_each_op_is_its_rows_in_the_order_of_the_messages() -> None:
    first, two = {"id": 1, "name": "one"}, {"id": 1, "name": "two"}
    got = decode(
        debezium(),
        {"before": None, "after": first, "op": "r", "ts_ms": 1, "transaction": None},
        {"before": first, "after": two, "op": "u"},
        None,
        {"before": two, "after": None, "op": "d"},
        {"after": first, "op": "c"},
        b"",
    )
    assert changes(got) == [
        ("+I", 1, "one", 0),
        ("-U", 1, "one", 1),
        ("+U", 1, "two", 1),
        ("-D", 1, "two", 3),
        ("+I", 1, "one", 4),
    ]


def test_an_update_is_written_as_a_delete_and_an_insert() -> None:
    rows = pa.table({"id": pa.array([1, 1, 1, 1], pa.int32()), "name": ["a", "a", "b", "b"]})
    messages = debezium().encode(rows, pa.array([0, 1, 2, 3], pa.int8()))
    assert messages.to_pylist() == [
        b'{"before":null,"after":{"id":1,"name":"a"},"op":"c"}',
        b'{"before":{"id":1,"name":"a"},"after":null,"op":"d"}',
        b'{"before":null,"after":{"id":1,"name":"b"},"op":"c"}',
        b'{"before":{"id":1,"name":"b"},"after":null,"op":"d"}',
    ]
    decoded = debezium().decode(messages.combine_chunks())
    assert decoded.kinds.to_pylist() == [0, 3, 0, 3]
    assert decoded.rows.to_pylist() == rows.to_pylist()


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ({"before": None, "after": {"id": 1}, "op": "u"}, 'The "before" field of the UPDATE message is null'),
        ({"before": None, "after": None, "op": "d"}, 'The "before" field of the DELETE message is null'),
        ({"before": None, "after": None, "op": "c"}, 'Its "op" is \'c\', and "after" is null.'),
        ({"op": "t"}, "Unknown \"op\" 't': c, r, u and d are read."),
        ({"op": "m"}, "Unknown \"op\" 'm'"),
        ({"after": {"id": 1}}, 'It has no "op".'),
        ({"before": None, "after": {"id": "x"}, "op": "c"}, "Field 'after.id': \"x\" is no INT."),
        ({"before": None, "after": [], "op": "c"}, "Field 'after': [] is no object."),
        (b"nonsense", "It is no JSON"),
    ],
)
def test_a_broken_message_is_named_among_good_ones(message: Any, reason: str) -> None:
    good = {"before": None, "after": {"id": 1, "name": "one"}, "op": "c"}
    got = decode(debezium(), good, message, good)
    assert [each.message for each in got.malformed] == [1]
    assert got.malformed[0].reason.startswith(reason)
    assert got.messages.to_pylist() == [0, 2]


def test_where_errors_are_ignored_a_broken_field_is_null_and_an_unknown_op_is_passed_over() -> None:
    ignoring = debezium({"ignore-parse-errors": "true"})
    got = decode(ignoring, {"op": "t"}, {"after": {"id": "x", "name": "one"}, "op": "c"}, b"nonsense")
    assert got.rows.to_pylist() == [{"id": None, "name": "one"}]
    assert [each.message for each in got.malformed] == [0, 2]


def test_an_upsert_reader_needs_no_row_before_an_update() -> None:
    fields = (DataField(0, "id", parse_type("INT NOT NULL")), DataField(1, "name", parse_type("STRING")))
    upsert = DebeziumJson(fields, {}, DuckDbJson(), is_upsert=True)
    got = decode(
        upsert,
        {"before": None, "after": {"id": 1, "name": "one"}, "op": "u"},
        {"before": {"id": 1, "name": "one"}, "after": {"id": 1, "name": "two"}, "op": "u"},
        {"before": {"id": 1}, "after": None, "op": "d"},
    )
    assert changes(got) == [("+U", 1, "one", 0), ("+U", 1, "two", 1), ("-D", 1, None, 2)]


def test_what_a_message_tells_of_its_change_goes_with_each_of_its_rows() -> None:
    row = {"id": 1, "name": "one"}
    keys = tuple(debezium().readable_metadata)
    got = decode(
        debezium(),
        {"before": row, "after": row, "source": MYSQL, "op": "u", "ts_ms": 1589362330904},
        {"before": None, "after": row, "source": POSTGRES, "op": "c", "ts_ms": 1596006416500},
        {"before": None, "after": row, "source": {"db": "m", "collection": "c", "ts_ms": "soon"}, "op": "c"},
        metadata=keys,
    )
    metadata = {key: column.to_pylist() for key, column in got.metadata.items()}
    assert list(metadata) == [
        *("schema", "ingestion-timestamp", "source.timestamp", "source.database", "source.schema", "source.table"),
        "source.properties",
    ]
    assert metadata["schema"] == [None] * 4
    moment = datetime(2020, 5, 13, 9, 32, 10, 904000, tzinfo=UTC)
    assert metadata["ingestion-timestamp"][:2] == [moment, moment] and metadata["ingestion-timestamp"][3] is None
    assert metadata["source.timestamp"][:2] == [datetime(2020, 5, 13, 9, 32, 10, tzinfo=UTC)] * 2
    assert metadata["source.timestamp"][3] is None
    assert metadata["source.database"] == ["inventory", "inventory", "postgres", "m"]
    assert metadata["source.schema"] == [None, None, "inventory", None]
    assert metadata["source.table"] == ["products", "products", "products", "c"]
    properties = dict(metadata["source.properties"][0])
    assert len(properties) == 14
    assert properties["gtid"] is None and properties["server_id"] == "223344" and properties["snapshot"] == "false"
    assert len(metadata["source.properties"][2]) == 11


def test_only_the_metadata_that_is_asked_for_is_read() -> None:
    message = {"before": None, "after": {"id": 1}, "source": {"db": "d"}, "op": "c", "ts_ms": "broken"}
    got = decode(debezium(), message, metadata=("source.database",))
    assert list(got.metadata) == ["source.database"] and got.malformed == ()
    with pytest.raises(InvalidRequest, match=r"has no metadata 'source.host'\. It has: schema, ingestion-timestamp"):
        decode(debezium(), message, metadata=("source.host",))


def test_a_message_with_its_schema_lies_under_payload() -> None:
    payload = {"before": None, "after": {"id": 1, "name": "one"}, "op": "c", "ts_ms": 5}
    message = {"schema": {"type": "struct"}, "payload": payload}
    got = decode(debezium({"schema-include": "true"}), message, metadata=("schema", "ingestion-timestamp"))
    assert changes(got) == [("+I", 1, "one", 0)]
    assert got.metadata["schema"].to_pylist() == ['{"type":"struct"}']
    assert got.metadata["ingestion-timestamp"].to_pylist() == [datetime(1970, 1, 1, microsecond=5000, tzinfo=UTC)]
    # A table may have a column of that name.
    got = decode(debezium(payload="INT"), {"before": None, "after": {"payload": 3}, "op": "c"})
    assert changes(got) == [("+I", 3, 0)]


@pytest.mark.parametrize("unscaled", [0, 1, -1, 127, 128, -128, -129, 125, 10**30 + 7, -(10**37)])
def test_decimals_of_unscaled_bytes_are_read_where_that_is_said(unscaled: int) -> None:
    size = max(1, (unscaled.bit_length() + 8) // 8)
    text = base64.b64encode(unscaled.to_bytes(size, "big", signed=True)).decode()
    got = decode(debezium({"decimal": "base64"}, a="DECIMAL(38, 2)"), {"after": {"a": text}, "op": "c"})
    assert changes(got) == [("+I", Decimal(f"{unscaled}e-2"), 0)]


def test_numbers_for_times_are_debeziums_encoding() -> None:
    format_ = debezium(a="DATE", b="TIME(3)", c="TIMESTAMP(3)", d="TIMESTAMP(6)", e="TIMESTAMP_LTZ(3)", f="DATE")
    after = {"a": 19844, "b": 43200123000, "c": 1714564800123, "d": 1714564800123456}
    after |= {"e": "2024-05-01T12:00:00Z", "f": "2024-05-01"}
    moment = datetime(2024, 5, 1, 12, 0, 0, 123000)
    assert changes(decode(format_, {"after": after, "op": "c"})) == [
        (
            *("+I", date(2024, 5, 1), time(12, 0, 0, 123000), moment, moment.replace(microsecond=123456)),
            *(datetime(2024, 5, 1, 12, tzinfo=UTC), date(2024, 5, 1), 0),
        )
    ]
    # A text of digits is no number.
    got = decode(debezium(a="TIMESTAMP(3)"), {"after": {"a": "1714564800123"}, "op": "c"})
    assert got.malformed[0].reason == "Field 'after.a': \"1714564800123\" is no TIMESTAMP(3)."
