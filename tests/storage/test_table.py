"""What users of a table see: writing, reading, overwriting, deleting."""

import random
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from storage import AlreadyExists, Catalog, InvalidRequest, NotFound, Table, Unsupported


def rows(table: Table, **options: object) -> list[tuple[object, ...]]:
    values = [tuple(row.values()) for row in table.to_arrow(**options).to_pylist()]  # type: ignore[arg-type]
    return sorted(values, key=str)


def orders_of(*pairs: tuple[int, str | None]) -> pa.Table:
    return pa.table({"id": [pair[0] for pair in pairs], "item": pa.array([pair[1] for pair in pairs], pa.string())})


def test_a_table_without_snapshots_is_empty(orders: Table) -> None:
    assert orders.snapshot() is None
    assert rows(orders) == []
    assert orders.count() == 0


def test_the_last_row_of_a_key_wins_within_a_write_and_between_writes(orders: Table) -> None:
    orders.write(orders_of((1, "first"), (2, "two"), (1, "second")))
    orders.write(orders_of((2, "TWO"), (3, "three")))
    assert rows(orders) == [(1, "second"), (2, "TWO"), (3, "three")]
    assert orders.count() == 3


def test_row_kinds_delete_and_bring_back(orders: Table) -> None:
    orders.write(orders_of((1, "a"), (2, "b"), (3, "c")))
    changes = orders_of((1, "a"), (2, "B"), (4, "d")).append_column("op", pa.array(["-D", "+U", "+I"]))
    orders.write(changes, row_kind_column="op")
    assert rows(orders) == [(2, "B"), (3, "c"), (4, "d")]
    orders.write(orders_of((1, "again")))
    assert rows(orders) == [(1, "again"), (2, "B"), (3, "c"), (4, "d")]


def test_an_unknown_row_kind_is_refused_and_nothing_is_committed(orders: Table) -> None:
    changes = orders_of((1, "a")).append_column("op", pa.array(["X"]))
    with pytest.raises(InvalidRequest, match="X"):
        orders.write(changes, row_kind_column="op")
    assert orders.snapshot() is None


def test_deleting_by_condition_keeps_the_rest(orders: Table) -> None:
    orders.write(orders_of(*((number, f"item {number}") for number in range(100))))
    orders.delete("id >= 10 AND id != 50")
    assert orders.count() == 11
    assert rows(orders, where="id > 9") == [(50, "item 50")]
    assert orders.delete("id = 1000") is None


def test_appended_rows_are_all_kept(events: Table) -> None:
    batch = pa.table({"day": ["d1", "d1", "d2"], "what": ["x", "x", None]})
    events.write(batch)
    events.write(batch)
    assert rows(events) == sorted([("d1", "x")] * 4 + [("d2", None)] * 2, key=str)


def test_an_overwrite_replaces_only_the_partitions_that_it_writes(events: Table) -> None:
    events.write(pa.table({"day": ["d1", "d2"], "what": ["old", "old"]}))
    events.overwrite(pa.table({"day": ["d2", "d3"], "what": ["new", "new"]}))
    assert rows(events) == [("d1", "old"), ("d2", "new"), ("d3", "new")]


def test_an_overwrite_of_the_whole_table_replaces_everything(events: Table) -> None:
    events.write(pa.table({"day": ["d1", "d2"], "what": ["old", "old"]}))
    events.overwrite(pa.table({"day": ["d2"], "what": ["new"]}), dynamic=False)
    assert rows(events) == [("d2", "new")]


def test_an_overwrite_of_one_partition_fills_the_column_in_and_may_empty_it(events: Table) -> None:
    events.write(pa.table({"day": ["d1", "d2"], "what": ["old", "old"]}))
    events.overwrite(pa.table({"what": ["new"]}), partition={"day": "d1"})
    assert rows(events) == [("d1", "new"), ("d2", "old")]
    events.overwrite(pa.table({"what": pa.array([], pa.string())}), partition={"day": "d1"})
    assert rows(events) == [("d2", "old")]


def test_rows_of_another_partition_are_refused_by_a_partition_overwrite(events: Table) -> None:
    events.write(pa.table({"day": ["d1"], "what": ["old"]}))
    with pytest.raises(InvalidRequest, match="d9"):
        events.overwrite(pa.table({"day": ["d9"], "what": ["new"]}), partition={"day": "d1"})
    with pytest.raises(InvalidRequest, match="Partition columns: day"):
        events.overwrite(pa.table({"what": ["new"]}), partition={"month": "d1"})
    assert rows(events) == [("d1", "old")]


def test_truncating_empties_the_table_and_keeps_history(orders: Table) -> None:
    orders.write(orders_of((1, "a")))
    orders.truncate()
    assert rows(orders) == []
    assert rows(orders, version=1) == [(1, "a")]


def test_no_file_of_a_refused_write_stays(orders: Table, tmp_path: Path) -> None:
    orders.write(orders_of((1, "a")))
    before = sorted(tmp_path.rglob("*.parquet"))
    with pytest.raises(InvalidRequest, match="null"):
        orders.write(pa.table({"id": pa.array([None], pa.int64()), "item": ["x"]}))
    assert sorted(tmp_path.rglob("*.parquet")) == before


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        (pa.table({"item": ["a"]}), "id"),
        (pa.table({"id": [1], "item": ["a"], "more": [1]}), "more"),
        (pa.table({"id": ["one"], "item": ["a"]}), "id"),
        (pa.table({"id": [1.5], "item": ["a"]}), "does not fit"),
    ],
)
def test_rows_that_do_not_fit_are_refused_by_column(orders: Table, batch: pa.Table, message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        orders.write(batch)


def test_only_wanted_columns_and_rows_come_back(orders: Table) -> None:
    orders.write(orders_of(*((number, f"item {number % 10}") for number in range(1000))))
    orders.write(orders_of((7, "changed")))
    assert rows(orders, columns=["id"], where="item = 'item 7' AND id < 30") == [(17,), (27,)]
    assert rows(orders, columns=["item"], where="id = 7") == [("changed",)]
    assert rows(orders, columns=["item", "id"], where="id IN (7, 8)") == [("changed", 7), ("item 8", 8)]
    assert orders.count(where="item LIKE 'item 1%'") == 100


def test_a_version_that_was_filtered_out_does_not_bring_up_an_older_row(orders: Table) -> None:
    orders.write(orders_of((1, "keep")))
    orders.write(orders_of((1, "gone")))
    assert rows(orders, where="item = 'keep'") == []


def test_unknown_columns_and_conditions_are_explained(orders: Table) -> None:
    with pytest.raises(InvalidRequest, match=r"'itme'.*id, item"):
        orders.to_arrow(columns=["itme"])
    with pytest.raises(InvalidRequest, match="nope"):
        orders.to_arrow(where="nope = 1")
    with pytest.raises(InvalidRequest, match="not a condition"):
        orders.to_arrow(where="id = = 1")


def test_a_stream_of_batches_is_one_commit(orders: Table) -> None:
    parts = orders_of(*((number, "x") for number in range(10_000))).to_batches(max_chunksize=700)
    orders.write(pa.RecordBatchReader.from_batches(parts[0].schema, parts))
    assert orders.snapshot().id == 1  # type: ignore[union-attr]
    assert orders.count() == 10_000


def test_a_full_write_buffer_makes_several_files_of_one_commit(catalog: Catalog) -> None:
    table = catalog.create_table(
        "a.b", pa.schema([("id", pa.int64())]), primary_key=["id"], options={"bucket": 1, "write-buffer-size": "8 kb"}
    )
    parts = [pa.record_batch({"id": list(range(start, start + 1000))}) for start in (0, 500, 1000)]
    table.write(pa.RecordBatchReader.from_batches(parts[0].schema, parts))
    assert table.count() == 2000
    assert table.changes_of(table.snapshot()).files_added == 2  # type: ignore[arg-type]


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_all_primitive_types_come_back_as_they_went_in(catalog: Catalog, file_format: str) -> None:
    columns = {
        "boolean": pa.array([True, None], pa.bool_()),
        "tinyint": pa.array([-128, None], pa.int8()),
        "smallint": pa.array([2**15 - 1, None], pa.int16()),
        "int": pa.array([-(2**31), None], pa.int32()),
        "bigint": pa.array([2**63 - 1, None], pa.int64()),
        "float": pa.array([1.5, None], pa.float32()),
        "double": pa.array([float("-inf"), None], pa.float64()),
        "decimal": pa.array([Decimal("-1.25"), None], pa.decimal128(10, 2)),
        "wide_decimal": pa.array([Decimal("9" * 28 + "." + "1" * 10), None], pa.decimal128(38, 10)),
        "text": pa.array(["ünï\x00code", None], pa.string()),
        "bytes": pa.array([b"\x00\xff", None], pa.binary()),
        "fixed": pa.array([b"abc", None], pa.binary(3)),
        "date": pa.array([-1, None], pa.date32()),
        "time": pa.array([86_399_999, None], pa.time32("ms")),
        "timestamp_s": pa.array([-1, None], pa.timestamp("s")),
        "timestamp_ms": pa.array([1, None], pa.timestamp("ms")),
        # In ORC, Java's reader goes wrong by a second below 1970 beyond milliseconds: refused.
        "timestamp_us": pa.array([-1000 if file_format == "orc" else -1, None], pa.timestamp("us")),
        "timestamp_ns": pa.array([1, None], pa.timestamp("ns")),
        "local": pa.array([1, None], pa.timestamp("us", tz="UTC")),
        "list": pa.array([[1, None], None], pa.list_(pa.int32())),
        "map": pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int64())),
        "struct": pa.array([{"a": 1, "b": None}, None], pa.struct([("a", pa.int32()), ("b", pa.string())])),
    }
    if file_format == "avro":
        # Its timestamps end at microseconds.
        del columns["timestamp_ns"]
    given = pa.table({"id": pa.array([1, 2]), **columns})
    for key in ([], ["id"]):
        name = f"types.{'keyed' if key else 'plain'}"
        options = {"file.format": file_format} | ({"bucket": 1} if key else {})
        table = catalog.create_table(name, given.schema, primary_key=key, options=options)
        table.write(given)
        table.write(given)
        read = table.to_arrow().to_pylist()
        expected = given.cast(table.schema.to_arrow()).to_pylist()
        assert read == expected if key else sorted(read, key=str) == sorted(expected * 2, key=str)


@pytest.mark.parametrize("kind", [pa.string(), pa.int32(), pa.date32(), pa.bool_(), pa.decimal128(12, 2)])
def test_a_table_may_be_partitioned_by_any_plain_type(catalog: Catalog, kind: pa.DataType) -> None:
    values = pa.array([0, 1, None], pa.int32()).cast(kind)
    table = catalog.create_table("p.t", pa.schema([("p", kind), ("n", pa.int64())]), partition_by=["p"])
    table.write(pa.table({"p": values, "n": [1, 2, 3]}))
    assert sorted(table.to_arrow().to_pylist(), key=lambda row: row["n"]) == [
        {"p": value, "n": number} for number, value in enumerate(values.to_pylist(), 1)
    ]
    assert table.system_table("partitions").num_rows == 3


def test_a_table_is_refused_with_a_reason(catalog: Catalog) -> None:
    columns = pa.schema([("id", pa.int64()), ("day", pa.string())])
    for arguments, message in (
        ({"primary_key": ["id"], "partition_by": ["day"], "options": {"bucket": 1}}, "add day"),
        ({"primary_key": ["key"]}, "'key' is not a column"),
        ({"primary_key": ["id"], "options": {"bucket": -3}}, "'bucket'"),
        ({"options": {"bukcet": 1}}, "Did you mean 'bucket'"),
        ({"options": {"bucket": "many"}}, "whole number"),
        ({"primary_key": ["id"], "options": {"bucket": 1, "merge-engine": "guess"}}, "merge-engine"),
        ({"primary_key": ["id"], "options": {"bucket": 1, "row-tracking.enabled": True}}, "row-tracking"),
        ({"options": {"file.format": "csv"}}, "file.format"),
    ):
        with pytest.raises((InvalidRequest, Unsupported), match=message):
            catalog.create_table("a.refused", columns, **arguments)  # type: ignore[arg-type]
    assert catalog.tables() == []


def test_a_table_is_created_once(catalog: Catalog, orders: Table) -> None:
    columns = pa.schema([("id", pa.int64())])
    with pytest.raises(AlreadyExists):
        catalog.create_table("shop.orders", columns)
    assert catalog.create_table("shop.orders", columns, if_not_exists=True).schema == orders.schema


def test_a_missing_table_names_those_that_exist(catalog: Catalog, orders: Table) -> None:
    with pytest.raises(NotFound, match=r"shop\.orders"):
        catalog.table("shop.oders")
    with pytest.raises(NotFound, match=r"Databases of .*: shop"):
        catalog.table("shopp.orders")
    with pytest.raises(InvalidRequest, match=r"core\.orders"):
        catalog.table("orders")


def test_a_dropped_table_is_gone_with_its_files(catalog: Catalog, orders: Table, tmp_path: Path) -> None:
    orders.write(orders_of((1, "a")))
    catalog.drop_table("shop.orders")
    assert catalog.tables() == []
    assert list(tmp_path.rglob("*.parquet")) == []
    catalog.drop_table("shop.orders", if_exists=True)
    with pytest.raises(NotFound):
        catalog.drop_table("shop.orders")


def test_options_of_lineage_cannot_change_and_others_can(tmp_path: Path) -> None:
    path = str(tmp_path / "w")
    Catalog(path, options={"table-lineage": True, "table-storage.bucket": "3"})
    with pytest.raises(InvalidRequest, match="table-lineage"):
        Catalog(path, options={"table-lineage": False})
    table = Catalog(path).create_table("a.b", pa.schema([("id", pa.int64())]), primary_key=["id"])
    assert table.schema.table_options.bucket == 3


def test_split_reads_travel_between_processes(orders: Table) -> None:
    import pickle

    orders.write(orders_of((1, "a"), (2, "b"), (3, "c")))
    orders.write(orders_of((3, "C")))
    splits = pickle.loads(pickle.dumps(orders.scan(where="id > 1").splits))
    read = [row for split in splits for batch in split.read() for row in batch.to_pylist()]
    assert sorted(read, key=lambda row: row["id"]) == [{"id": 2, "item": "b"}, {"id": 3, "item": "C"}]


@pytest.mark.pypaimon_differs("it believes the count of deletes in the manifest: decision 0004")
@pytest.mark.java_differs("it believes the count of deletes in the manifest: decision 0004")
def test_a_cancelled_delete_count_of_another_writer_hides_no_delete(orders: Table) -> None:
    """pypaimon writes 0 as the number of deletes of every file."""
    from dataclasses import replace

    writer = orders.new_write()
    writer.write(orders_of((1, "a"), (2, "b")).append_column("op", pa.array(["+I", "-D"])), "op")
    message = writer.prepare_commit()
    unaware = tuple(replace(entry, file=replace(entry.file, delete_row_count=0)) for entry in message.added)
    orders.commit_messages([replace(message, added=unaware)])
    assert rows(orders) == [(1, "a")]
    assert orders.count() == 1


def test_whole_numbers_fit_into_decimals_if_their_values_do(catalog: Catalog) -> None:
    table = catalog.create_table("a.b", pa.schema([("amount", pa.decimal128(5, 2))]))
    table.write(pa.table({"amount": [999, None]}))
    assert table.to_arrow()["amount"].to_pylist() == [Decimal("999.00"), None]
    with pytest.raises(InvalidRequest, match="does not fit"):
        table.write(pa.table({"amount": [1000]}))


@pytest.mark.parametrize("bucket", [1, 3])
def test_keys_may_lie_as_far_apart_as_their_type_allows(catalog: Catalog, bucket: int) -> None:
    table = catalog.create_table(
        "a.far", pa.schema([("id", pa.int64()), ("v", pa.int64())]), primary_key=["id"], options={"bucket": bucket}
    )
    chosen = random.Random(3)
    keys = [-(2**63), 2**63 - 1, 0, -1, 1, *(chosen.randrange(-(2**63), 2**63) for _ in range(500))]
    for version, part in enumerate((keys, keys[::2], keys[::3], [*keys[::5]])):
        shuffled = chosen.sample(part, len(part))
        table.write(pa.table({"id": shuffled, "v": [version] * len(part)}))
        table.write(pa.table({"id": sorted(part), "v": [version] * len(part)}))
    expected = {
        key: 3 if index % 5 == 0 else 2 if index % 3 == 0 else 1 if index % 2 == 0 else 0
        for index, key in enumerate(keys)
    }
    assert {row["id"]: row["v"] for row in table.to_arrow().to_pylist()} == expected
    assert table.count() == len(expected)
    assert table.check(deep=True) == []
    assert table.to_arrow(where=f"id = {2**63 - 1}")["v"].to_pylist() == [expected[2**63 - 1]]
