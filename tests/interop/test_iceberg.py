"""What readers of Iceberg see of tables with `metadata.iceberg.storage`: the rows, whatever was done to the table."""

import datetime as dt
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from storage import Catalog, SetOptions, Table, Unsupported
from tests.interop.iceberg_reader import IcebergReader, assert_seen_alike

IN_TABLE = {"metadata.iceberg.storage": "table-location"}
IN_CATALOG = {"metadata.iceberg.storage": "hadoop-catalog"}

ALL_TYPES = pa.schema(
    [
        ("id", pa.int32()),
        ("truth", pa.bool_()),
        ("tiny", pa.int8()),
        ("small", pa.int16()),
        ("big", pa.int64()),
        ("single", pa.float32()),
        ("number", pa.float64()),
        ("price", pa.decimal128(9, 2)),
        ("amount", pa.decimal128(25, 3)),
        ("word", pa.string()),
        ("data", pa.binary()),
        ("day", pa.date32()),
        ("coarse", pa.timestamp("ms")),
        ("moment", pa.timestamp("us")),
        ("instant", pa.timestamp("us", tz="UTC")),
        ("list", pa.list_(pa.int32())),
        ("map", pa.map_(pa.string(), pa.list_(pa.int64()))),
        ("row", pa.struct([("x", pa.int64()), ("y", pa.list_(pa.struct([("z", pa.string())])))])),
    ]
)


def all_types(number: int) -> pa.Table:
    """Two rows, one of them of nulls."""
    moment = dt.datetime(2024, 1, number, 1, 2, 3, 4000)
    values = [
        number,
        number % 2 == 0,
        -number,
        300 + number,
        number * 10**12,
        number + 0.5,
        -number / 3,
        Decimal(number) / 4,
        Decimal(f"-12345678901234567890.{number}"),
        f"ab\u00fc{number}" * 9,
        bytes([0, number]),
        dt.date(1969, 1, number),
        moment,
        moment.replace(year=1969, microsecond=4567),
        moment.replace(tzinfo=dt.UTC),
        [number, None],
        [("k", [number])],
        {"x": number, "y": [{"z": "deep"}]},
    ]
    columns = zip(ALL_TYPES, values, strict=True)
    return pa.table([pa.array([value, None], field.type) for field, value in columns], ALL_TYPES)


@pytest.mark.parametrize("options", [IN_TABLE, IN_CATALOG], ids=["in table", "in catalog"])
def test_every_commit_is_seen(catalog: Catalog, iceberg: IcebergReader, options: dict[str, str]) -> None:
    table = catalog.create_table("shop.t", ALL_TYPES, options=options)
    for number in range(1, 5):
        table.write(all_types(number))
        assert_seen_alike(iceberg, table)
    table.delete("id = 2")
    assert_seen_alike(iceberg, table)
    table.overwrite(all_types(9))
    assert_seen_alike(iceberg, table)
    table.truncate()
    assert iceberg.read(table).num_rows == 0
    assert table.check() == []


@pytest.mark.parametrize(
    "where",
    [
        "truth = true",
        "tiny = -2",
        "small > 302",
        "big >= 3000000000000",
        "single = 2.5",
        "number < -0.9",
        "price = 0.75",
        "amount < -12345678901234567890.200",
        "word = 'nobody'",
        "day = '1969-01-02'",
        "moment < '1969-01-02T01:02:04'",
        "instant >= '2024-01-03T00:00:00+00:00'",
        "coarse = '2024-01-02T01:02:03.004'",
        "id IS NULL",
        "id IN (1, 4)",
        "word > 'ab'",
    ],
)
def test_filters_find_the_rows_of_every_type(catalog: Catalog, iceberg: IcebergReader, where: str) -> None:
    table = catalog.create_table("shop.t", ALL_TYPES, options=IN_TABLE)
    for number in range(1, 5):
        table.write(all_types(number))
    assert_seen_alike(iceberg, table, where)


def test_files_are_skipped_by_bounds_and_partitions(catalog: Catalog, iceberg: IcebergReader) -> None:
    schema = pa.schema([("id", pa.int64()), ("day", pa.date32()), ("word", pa.string())])
    table = catalog.create_table("shop.t", schema, partition_by=["day"], options=IN_TABLE)
    for number in range(1, 6):
        day = dt.date(2024, 1, number)
        table.write(pa.table([[number, number + 100], [day, day], ["a", f"w{number}"]], schema=schema))
    for where, files in (("day = '2024-01-03'", 1), ("id = 105", 1), ("word = 'w2'", 4), ("day > '2024-01-03'", 2)):
        assert_seen_alike(iceberg, table, where)
        assert iceberg.read(table, where=where).num_rows == table.count(where=where)
        assert iceberg.files <= files, where


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.int32(), [1, -5, None]),
        (pa.int64(), [2**40, 0, None]),
        (pa.string(), ["x", "a/b=c \u00fc", None]),
        (pa.bool_(), [True, False, None]),
        (pa.date32(), [dt.date(2024, 2, 29), dt.date(1969, 12, 31), None]),
        (pa.timestamp("us"), [dt.datetime(2024, 2, 29, 1, 2, 3), dt.datetime(1969, 1, 1), None]),
        (pa.timestamp("ms"), [dt.datetime(2024, 2, 29, 1, 2, 3), None]),
        (pa.int8(), [1, -1, None]),
    ],
    ids=lambda value: str(value) if isinstance(value, pa.DataType) else "",
)
def test_partitions_of_every_type(catalog: Catalog, iceberg: IcebergReader, kind: pa.DataType, values: list) -> None:
    schema = pa.schema([("id", pa.int64()), ("p-1", kind)])
    table = catalog.create_table("shop.t", schema, partition_by=["p-1"], options=IN_TABLE)
    table.write(pa.table([range(len(values)), pa.array(values, kind)], schema=schema))
    table.delete("id = 0")
    table.write(pa.table([range(len(values)), pa.array(values, kind)], schema=schema))
    assert_seen_alike(iceberg, table)


def test_parquet_files_tell_the_ids_of_their_fields(catalog: Catalog, tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64()), ("list", pa.list_(pa.int32())), ("row", pa.struct([("x", pa.int32())]))])
    catalog.create_table("shop.t", schema, primary_key=["id"], options={"bucket": "1"}).write(
        pa.table([[1], [[1]], [{"x": 1}]], schema=schema)
    )
    arrow_schema = pq.ParquetFile(next(tmp_path.rglob("data-*.parquet"))).schema_arrow

    def field_id(field: pa.Field) -> int:
        return int(field.metadata[b"PARQUET:field_id"])

    # As Paimon's Java library numbers them.
    ids = {field.name: field_id(field) for field in arrow_schema}
    assert ids == {
        "_KEY_id": 1073741823,
        "_SEQUENCE_NUMBER": 2147483646,
        "_VALUE_KIND": 2147483645,
        "id": 0,
        "list": 1,
        "row": 2,
    }
    assert field_id(arrow_schema.field("list").type.value_field) == 536870911 + 1024 + 1
    assert field_id(arrow_schema.field("row").type.field("x")) == 3


def test_decimals_of_partitions_are_refused(catalog: Catalog) -> None:
    schema = pa.schema([("id", pa.int64()), ("p", pa.decimal128(7, 2))])
    with pytest.raises(Unsupported, match=r"'p' is of type DECIMAL.*different ways"):
        catalog.create_table("shop.t", schema, partition_by=["p"], options=IN_TABLE)


@pytest.mark.parametrize(
    ("column", "match"),
    [
        (pa.field("c", pa.time32("ms")), "'c' is of type TIME.*microseconds"),
        (pa.field("c", pa.timestamp("ns")), "'c' is of type TIMESTAMP.9.*precision"),
        (pa.field("c", pa.struct([("d", pa.timestamp("s"))])), "'c.d' is of type TIMESTAMP.0"),
    ],
)
def test_types_that_its_readers_lack_are_refused(catalog: Catalog, column: pa.Field, match: str) -> None:
    schema = pa.schema([("id", pa.int64()), column])
    with pytest.raises(Unsupported, match=match):
        catalog.create_table("shop.t", schema, options=IN_TABLE)
    table = catalog.create_table("shop.t", schema)
    with pytest.raises(Unsupported, match=match):
        set_options(table, IN_TABLE)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"metadata.iceberg.storage": "hive-catalog"}, "'hive-catalog'.*Supported: 'disabled', 'table-location'"),
        ({"metadata.iceberg.storage": "rest-catalog"}, "'rest-catalog'"),
        ({"metadata.iceberg.uri": "thrift://x"}, "metadata.iceberg.uri.*no catalog is told"),
        ({"metadata.iceberg.database": "x"}, "metadata.iceberg.database"),
        ({**IN_TABLE, "metadata.iceberg.format-version": "3"}, "format-version.*version 2"),
        ({**IN_TABLE, "deletion-vectors.enabled": "true"}, "deletion-vectors.enabled.*deleted"),
        ({**IN_TABLE, "file.format": "orc"}, "file.format.*ids"),
        ({**IN_TABLE, "file.format.per.level": "5:avro"}, "file.format.*ids"),
    ],
)
def test_what_is_not_carried_out_is_refused_by_name(catalog: Catalog, options: dict[str, str], match: str) -> None:
    with pytest.raises(Unsupported, match=match):
        catalog.create_table("shop.t", pa.schema([("id", pa.int64())]), options=options)


def set_options(table: Table, options: dict[str, str]) -> Table:
    return table.alter(SetOptions(options))
