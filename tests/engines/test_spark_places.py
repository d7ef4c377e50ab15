"""Files with rows that do not stand, read by Spark's own scan, against the same tables read in Arrow."""

import random
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from storage import AddColumn, Catalog, Table
from storage.data_types import parse_type
from tests.scale import seeds
from tests.storage.row_histories import History, made, settle

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


def rows(frame: "DataFrame") -> list[tuple[object, ...]]:
    return sorted((tuple(row) for row in frame.collect()), key=str)


def arrow_rows(table: Table, **options: object) -> list[tuple[object, ...]]:
    return sorted((tuple(row.values()) for row in table.to_arrow(**options).to_pylist()), key=str)  # type: ignore[arg-type]


def is_native(frame: "DataFrame") -> bool:
    plan = frame._jdf.queryExecution().toString()
    return "parquet" in plan and "snapline" not in plan


@pytest.mark.parametrize("seed", seeds(2, 100, full=10))
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"write-only": "true"},
        {"sequence.field": "ts", "write-only": "true"},
        {"deletion-vectors.enabled": "true"},
        {"merge-engine": "partial-update"},
    ],
    ids=str,
)
def test_a_random_history_is_read_as_in_arrow(
    spark: "SparkSession", tmp_path: Path, options: dict[str, str], seed: int
) -> None:
    from storage.engines.spark_reader import read_scan

    dice = random.Random(seed)
    history = History(made(tmp_path, options, key=True, partitioned=seed % 2 == 1), dice, key=True)
    for _ in range(8):
        history.step()
    settle(history.table)
    tables = [history.table, *([history.table.on_branch("b")] if history.of_branch else [])]
    for table in tables:
        frame = read_scan(spark, table, table.scan(), str(tmp_path))
        assert rows(frame) == arrow_rows(table)
        assert rows(frame.where("v > 50 AND k < 30").select("v", "k")) == arrow_rows(
            table, where="v > 50 AND k < 30", columns=["v", "k"]
        )
        assert frame.count() == table.to_arrow().num_rows
        where = f"k = {dice.randrange(40)} OR v < 20"
        narrowed = read_scan(spark, table, table.scan(), str(tmp_path), narrow=table.scan(where=where), where=where)
        assert rows(narrowed.where(where)) == arrow_rows(table, where=where)


def test_replaced_and_deleted_rows_are_left_out_by_spark_itself(
    spark: "SparkSession", catalog: Catalog, tmp_path: Path
) -> None:
    """Of many files, some of one size, with more row groups than one, and with a column that is called as Spark's metadata."""
    from storage.engines.spark_reader import read_scan

    schema = pa.schema([("id", pa.int64()), ("_metadata", pa.string()), ("v", pa.int64())])
    options = {"bucket": 2, "write-only": True, "parquet.row-group.rows": 1000}
    table = catalog.create_table("a.b", schema, primary_key=["id"], options=options)
    table.write(pa.table({"id": range(10_000), "_metadata": ["old"] * 10_000, "v": range(10_000)}))
    for v in range(150):
        table.write(pa.table({"id": [v * 7, 20_000 + v % 9], "_metadata": ["new"] * 2, "v": [v, v]}))
    table.write(
        pa.table({"id": [3, 4, 30_000], "_metadata": [""] * 3, "v": [0] * 3, "op": ["-D"] * 3}), row_kind_column="op"
    )
    sizes = [file.size_bytes for split in table.scan().splits for file in split.files]
    assert len(set(sizes)) < len(sizes)
    frame = read_scan(spark, table, table.scan(), str(tmp_path / "warehouse"))
    assert is_native(frame)
    assert rows(frame) == arrow_rows(table)
    assert rows(frame.where("v BETWEEN 4990 AND 5010")) == arrow_rows(table, where="v BETWEEN 4990 AND 5010")
    # Who reads it twice in a query gets the same rows both times.
    assert frame.join(frame.select("id"), "id").count() == frame.count() == table.to_arrow().num_rows


def test_rows_that_vectors_mark_are_left_out_by_spark_itself(
    spark: "SparkSession", catalog: Catalog, tmp_path: Path
) -> None:
    from storage.engines.spark_reader import read_scan

    schema = pa.schema([("id", pa.int64()), ("item", pa.string())])
    warehouse = str(tmp_path / "warehouse")
    for name, key, bits in (("keyed", ["id"], False), ("wide", ["id"], True), ("plain", [], False)):
        options = {"bucket": 1 if key else -1, "deletion-vectors.enabled": True, "deletion-vectors.bitmap64": bits}
        table = catalog.create_table(f"shop.{name}", schema, primary_key=key, options=options)
        table.write(pa.table({"id": list(range(1000)), "item": ["old"] * 1000}, schema))
        table.write(pa.table({"id": [3, 2000], "item": ["new"] * 2}, schema))
        table.delete("id = 70")
        frame = read_scan(spark, table, table.scan(), warehouse)
        assert rows(frame) == rows(read_scan(spark, table, table.scan(), warehouse, native=False)) == arrow_rows(table)
        assert is_native(frame), name


def test_what_keys_do_not_tell_goes_through_the_source_beside_the_rest(
    spark: "SparkSession", catalog: Catalog, tmp_path: Path
) -> None:
    """The source plans in another process, which has to leave out the same splits: each row comes once."""
    from storage.engines.spark_reader import read_scan

    schema = pa.schema([("day", pa.string()), ("id", pa.int64())])
    options = {"bucket": 1, "write-only": True}
    table = catalog.create_table("a.b", schema, primary_key=["day", "id"], partition_by=["day"], options=options)
    table.write(pa.table({"day": ["x", "x", "z"], "id": [1, 2, 1]}))
    table.write(pa.table({"day": ["x", "z"], "id": [2, 2], "op": ["-D", "+I"]}), row_kind_column="op")
    table = table.alter(AddColumn("v", parse_type("INT")))
    for v in (1, 2):
        table.write(pa.table({"day": ["y", "y"], "id": [1, 1 + v], "v": pa.array([v, v], pa.int32())}))
    frame = read_scan(spark, table, table.scan(), str(tmp_path / "warehouse"))
    assert rows(frame) == arrow_rows(table)
    plan = frame._jdf.queryExecution().toString()
    assert "parquet" in plan
    assert "snapline" in plan
