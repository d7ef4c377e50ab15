"""Every type in every format, written by one side and read and filtered by the other."""

import datetime as dt
import operator
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from storage import Catalog, Table, Unsupported
from storage.data_types import DataField, DataType, parse_type
from tests import scale
from tests.interop.java_paimon import JavaPaimon, plain, since_1_3, to_json
from tests.interop.second_reader import counted

_TEXTS = ["", "a", "ab", "B", "é", "\U0001f600", "more than sixteen characters, of which the last"]
_BYTES = [b"", b"\x00", b"\x01\x01", b"\x7f", b"\x80\x01", b"\xff", b"more than sixteen bytes, of which the last"]
_DAY_MS = 86_400_000
# Milliseconds of 0001-01-01, before and after 1970, 9999-12-31T23:59:59.999.
_MOMENTS = [-62_135_596_800_000, -1_500_000_000_123, -1, 0, 1, 1_700_000_000_123, 253_402_300_799_999]
# What 64 bits of nanoseconds can hold, not all of it whole microseconds.
_FINE_MOMENTS = [-(2**63) + 1000, -1_500_000_000_123_456_789, -1, 0, 1, 1_700_000_000_123_456_789, 2**63 - 1]


def _timestamps(precision: int) -> list[int]:
    if precision > 6:
        step = 10 ** (9 - precision)
        return [moment // step * step for moment in _FINE_MOMENTS]
    if precision > 3:
        step = 10 ** (6 - precision)
        return [(moment * 1000 + 457) // step * step for moment in _MOMENTS]
    return [moment // 10 ** (3 - precision) * 10 ** (3 - precision) for moment in _MOMENTS]


def _decimals(precision: int, scale_: int) -> list[Decimal]:
    # Not by arithmetic, which rounds to the digits of its context.
    most, least = Decimal(f"{10**precision - 1}E-{scale_}"), Decimal(f"1E-{scale_}")
    return [most.copy_negate(), least.copy_negate(), Decimal(0), least, Decimal(3), most]


# The values of each type, as Arrow takes them; times as whole numbers.
VALUES: dict[str, list[Any]] = {
    "BOOLEAN": [False, True],
    "TINYINT": [-128, -1, 0, 127],
    "SMALLINT": [-(2**15), 0, 2**15 - 1],
    "INT": [-(2**31), 0, 7, 2**31 - 1],
    "BIGINT": [-(2**63), -1, 0, 7, 2**63 - 1],
    "FLOAT": [float("-inf"), -1.5, 0.25, 3.0, float("inf")],
    "DOUBLE": [float("-inf"), -1.5e300, 0.1, 3.0, float("inf")],
    **{
        f"DECIMAL({p}, {s})": _decimals(p, s) for p, s in ((5, 2), (9, 0), (10, 2), (18, 4), (19, 2), (30, 2), (38, 10))
    },
    "CHAR(3)": ["abc", "abd", "é12"],
    "VARCHAR(60)": _TEXTS,
    "STRING": _TEXTS,
    "BINARY(2)": [b"\x00\x00", b"\x01\x01", b"\x80\x01", b"\xff\x00"],
    "VARBINARY(60)": _BYTES,
    "BYTES": _BYTES,
    "DATE": [-719_162, -1, 0, 1, 2_932_896],
    "TIME(0)": [0, 1000, _DAY_MS - 1000],
    "TIME(3)": [0, 1, _DAY_MS - 1],
    **{f"TIMESTAMP({p})": _timestamps(p) for p in (0, 3, 5, 6, 7, 9)},
    **{f"TIMESTAMP({p}) WITH LOCAL TIME ZONE": _timestamps(p) for p in (0, 3, 6, 9)},
}
_FINE = [name for name in VALUES if name.startswith(("TIMESTAMP(7)", "TIMESTAMP(9)"))]
# What a format has no place for: it is refused when a table is written.
NOT_IN = {"parquet": [], "orc": [], "avro": _FINE}
NESTED = [
    {"type": "ARRAY", "element": "DECIMAL(12, 3)"},
    {"type": "MAP", "key": "STRING", "value": "TIMESTAMP(6)"},
    {
        "type": "ROW",
        "fields": [{"id": 1, "name": "a", "type": "TIMESTAMP(3)"}, {"id": 2, "name": "b", "type": "DECIMAL(30, 5)"}],
    },
    {"type": "ARRAY", "element": {"type": "ROW", "fields": [{"id": 3, "name": "c", "type": "BYTES"}]}},
]
NESTED_FINE = [
    {"type": "ARRAY", "element": "TIMESTAMP(9)"},
    {
        "type": "ROW",
        "fields": [{"id": 5, "name": "d", "type": "TIMESTAMP(9)"}, {"id": 6, "name": "e", "type": "TIMESTAMP(6)"}],
    },
]
_COMPARED: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
OPERATORS = list(_COMPARED) if scale.FULL else ["=", "<", ">="]
ROWS = 96


def values_of(kind: DataType, file_format: str) -> list[Any]:
    """The values of a type that a format has a place for."""
    values = VALUES[str(kind)]
    if file_format != "orc" or not kind.is_timestamp:
        return values
    # PyArrow's ORC knows times as 64 bits of nanoseconds. Java cannot read its fractions of a millisecond before 1970, and reads
    # those that it writes itself in the last second before as ones of the first second after (decision 0020).
    unit = {"ms": 1000, "us": 10**6, "ns": 10**9}[kind.to_arrow().unit]
    held = [value for value in values if abs(value) * 10**9 // unit < 2**63]
    return [value for value in held if value >= 0 or value % unit == 0 or (kind.precision <= 3 and value < -unit)]


def columns_of(file_format: str) -> dict[str, DataType]:
    """A column of each type that a format has a place for."""
    names = [name for name in VALUES if name not in NOT_IN[file_format]]
    nested = [*NESTED, *([] if file_format == "avro" else NESTED_FINE)]
    types = [parse_type(name) for name in names] + [parse_type(nested_name) for nested_name in nested]
    return {"id": DataType("INT"), **{f"c{number}": data_type for number, data_type in enumerate(types)}}


def _nested_value(kind: DataType, number: int, file_format: str) -> Any:
    """A value of any type, made of those in VALUES; some of them null."""
    if number % 7 == 3:
        return None
    if kind.root == "ARRAY":
        assert kind.element is not None
        return [_nested_value(kind.element, number + more, file_format) for more in range(number % 4)]
    if kind.root == "MAP":
        assert kind.element is not None
        return [(f"k{more}", _nested_value(kind.element, number + more, file_format)) for more in range(number % 4)]
    if kind.root == "ROW":
        return {field.name: _nested_value(field.type, number + at, file_format) for at, field in enumerate(kind.fields)}
    if kind.root == "DECIMAL":
        values: list[Any] = _decimals(kind.precision, kind.scale)
    else:
        values = values_of(kind, file_format)
    return values[number % len(values)]


def rows_of(fields: tuple[DataField, ...], file_format: str) -> pa.Table:
    """Rows in which each column goes through its values, null among them."""
    arrays = [pa.array(range(ROWS), pa.int32())]
    for at, field in enumerate(fields[1:], start=1):
        if field.type.is_nested:
            values = [_nested_value(field.type, number + at, file_format) for number in range(ROWS)]
        else:
            known = [*values_of(field.type, file_format), None]
            values = [known[(number + at) % len(known)] for number in range(ROWS)]
        arrays.append(pa.array(values, field.type.to_arrow()))
    return pa.table(arrays, schema=pa.schema([pa.field(column.name, column.type.to_arrow()) for column in fields]))


def filters(fields: tuple[DataField, ...], rows: pa.Table) -> Iterator[tuple[list[Any], list[int]]]:
    """Filters as Java takes them, and the ids of the rows that they keep."""
    numbers = plain(rows)
    for field in fields[1:]:
        if field.type.is_nested:
            continue
        pairs = list(zip(range(ROWS), numbers.column(field.name).to_pylist(), strict=True))
        chosen = VALUES[str(field.type)]
        yield ["is null", field.name], [at for at, value in pairs if value is None]
        two = [chosen[0], chosen[-1]]
        yield (
            ["in", field.name, [to_json(bound, field.type) for bound in two]],
            [at for at, cell in pairs if cell in two],
        )
        for name in OPERATORS:
            value = chosen[len(chosen) // 2]
            kept = [at for at, cell in pairs if cell is not None and _COMPARED[name](_ordered(cell), _ordered(value))]
            yield [name, field.name, to_json(value, field.type)], kept


def _ordered(value: Any) -> Any:
    """A value in Java's order: texts by their bytes, but bytes as signed numbers (decision 0020)."""
    if isinstance(value, bytes):
        return [byte - 256 if byte > 127 else byte for byte in value]
    return value.encode() if isinstance(value, str) else value


def java_keeps_what_it_should(java: JavaPaimon, warehouse: str, table: Table, rows: pa.Table) -> None:
    fields = table.schema.fields
    wrong = []
    for where, kept in filters(fields, rows):
        try:
            ids = sorted(java.read(warehouse, "types.t", where=where, columns=["id"])["id"].to_pylist())
        except RuntimeError as error:
            ids = [str(error).splitlines()[0]]
        if ids != kept:
            kind = next(field.type for field in fields if field.name == where[1])
            wrong.append(f"{kind} {where}: {ids[:5]} … instead of {kept[:5]} …")
    assert not wrong, "\n".join(wrong)


@pytest.fixture(params=["parquet", "orc", "avro"])
def file_format(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=["plain", "keyed"])
def table(
    request: pytest.FixtureRequest, java: JavaPaimon, catalog: Catalog, warehouse: str, file_format: str
) -> Table:
    keyed = request.param == "keyed"
    java.create(
        warehouse,
        "types.t",
        columns_of(file_format),
        primary_key=["id"] if keyed else [],
        options={"file.format": file_format, **({"bucket": "1"} if keyed else {})},
    )
    return catalog.table("types.t")


@pytest.fixture
def warehouse(catalog: Catalog) -> str:
    return catalog.warehouse


def test_java_reads_and_filters_all_types_that_are_written_here(
    java: JavaPaimon, table: Table, warehouse: str, file_format: str
) -> None:
    rows = rows_of(table.schema.fields, file_format)
    table.write(rows)
    assert counted(table.to_arrow(), "ns") == counted(rows, "ns")
    java_keeps_what_it_should(java, warehouse, table, rows)


@since_1_3
def test_all_types_that_java_writes_are_read_here(
    java: JavaPaimon, table: Table, warehouse: str, file_format: str
) -> None:
    rows = rows_of(table.schema.fields, file_format)
    java.write(warehouse, "types.t", rows, table.schema.fields)
    assert counted(table.to_arrow(), "ns") == counted(rows, "ns")
    # That the expectations are right.
    java_keeps_what_it_should(java, warehouse, table, rows)


@pytest.mark.parametrize("year", [1, 9999])
def test_fine_timestamps_of_java_that_nanoseconds_have_no_place_for_are_refused(
    java: JavaPaimon, catalog: Catalog, warehouse: str, year: int
) -> None:
    java.create(warehouse, "types.t", {"id": "INT", "at": "TIMESTAMP(9)"})
    coarse = pa.table({"id": pa.array([1], pa.int32()), "at": pa.array([dt.datetime(year, 1, 1)], pa.timestamp("us"))})
    fields = [DataField(0, "id", DataType("INT")), DataField(1, "at", DataType("TIMESTAMP", precision=6))]
    java.write(warehouse, "types.t", coarse, fields)
    table = catalog.table("types.t")
    with pytest.raises(Unsupported, match="outside of the years 1678 to 2261"):
        table.to_arrow()
    assert table.to_arrow(columns=["id"])["id"].to_pylist() == [1]


@pytest.mark.pypaimon_differs("it turns all times of ORC into nanoseconds, which have no place for them")
@pytest.mark.parametrize("compression", ["zstd", "zlib", "snappy", "lz4", "none"] if scale.FULL else ["zstd", "lz4"])
@pytest.mark.parametrize("kind", ["TIMESTAMP(0)", "TIMESTAMP(3)", "TIMESTAMP(6)", "TIMESTAMP(6) WITH LOCAL TIME ZONE"])
def test_times_without_end_are_read_from_orc_by_both(
    java: JavaPaimon, catalog: Catalog, warehouse: str, kind: str, compression: str
) -> None:
    options = {"file.format": "orc", "file.compression": compression}
    java.create(warehouse, "types.t", {"id": "INT", "at": kind}, options=options)
    table = catalog.table("types.t")
    data_type = table.schema.field("at").type
    per_second = {"ms": 10**3, "us": 10**6}[data_type.to_arrow().unit]
    step = per_second // 10**data_type.precision
    # Java's own files have times before the Gregorian calendar two days off (decision 0020): none here.
    numbers = [-9_000_000_000, -1, 0, 1_700_000_000, 253_402_300_799]
    ticks = [number * per_second + (per_second - 1) // step * step * (number > 0) for number in numbers]
    listed = [*ticks, *[None, *ticks[2:]] * 700]
    rows = pa.table({"id": pa.array(range(len(listed)), pa.int32()), "at": pa.array(listed, data_type.to_arrow())})
    for write in (lambda: java.write(warehouse, "types.t", rows, table.schema.fields), lambda: table.write(rows)):
        table.overwrite(rows.slice(0, 0))
        write()
        assert counted(table.to_arrow(), "us") == counted(rows, "us")
        assert counted(java.read(warehouse, "types.t"), "us") == counted(rows, "us")
    assert table.check(deep=True) == []


@pytest.mark.java_differs("it has them")
@pytest.mark.pypaimon_differs("it turns all times of ORC into nanoseconds, which have no place for them")
@pytest.mark.parametrize("kind", ["TIMESTAMP(9)", {"type": "ARRAY", "element": "TIMESTAMP(3)"}])
def test_fine_and_nested_times_without_end_are_refused_in_orc(
    java: JavaPaimon, catalog: Catalog, warehouse: str, kind: Any
) -> None:
    element, is_nested = DataType("TIMESTAMP", precision=3), not isinstance(kind, str)
    coarse = DataType("ARRAY", element=element) if is_nested else element
    java.create(warehouse, "types.t", {"id": "INT", "at": parse_type(kind)}, options={"file.format": "orc"})
    moment = dt.datetime(9999, 12, 31)
    at = pa.array([[moment] if is_nested else moment], coarse.to_arrow())
    fields = [DataField(0, "id", DataType("INT")), DataField(1, "at", coarse)]
    java.write(warehouse, "types.t", pa.table({"id": pa.array([1], pa.int32()), "at": at}), fields)
    table = catalog.table("types.t")
    with pytest.raises(Unsupported, match="is sound, and has a time outside of the years 1678 to 2261"):
        table.to_arrow()
    assert table.to_arrow(columns=["id"])["id"].to_pylist() == [1]
