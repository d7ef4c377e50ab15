"""Spark's writers and dynamic buckets: whichever task a row comes to, its key is in one bucket."""

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from storage import Catalog, Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
SCHEMA = pa.schema([("day", pa.string()), ("id", pa.int64()), ("n", pa.int64())])


def rows(first: int, last: int, turn: int) -> pa.Table:
    ids = list(range(first, last))
    return pa.table({"day": [f"d{number % 3}" for number in ids], "id": ids, "n": [turn] * len(ids)}, SCHEMA)


def checked(table: Table, expected: dict[int, int]) -> None:
    content = table.to_arrow()
    assert content.num_rows == len(expected)
    assert dict(zip(content["id"].to_pylist(), content["n"].to_pylist(), strict=True)) == expected
    assert table.check(deep=True) == []


@pytest.mark.parametrize("days", [False, True])
@pytest.mark.parametrize("assigners", [1, 3])
def test_jobs_write_each_key_to_one_bucket(spark: "SparkSession", catalog: Catalog, assigners: int, days: bool) -> None:
    from storage.engines.spark_writer import write_frame

    options = {"bucket": -1, "dynamic-bucket.target-row-num": 20, "dynamic-bucket.assigner-parallelism": assigners}
    table = catalog.create_table(
        "a.t",
        SCHEMA,
        primary_key=["day", "id"] if days else ["id"],
        partition_by=["day"] if days else [],
        options=options,
    )
    expected: dict[int, int] = {}
    for turn, (first, last) in enumerate([(0, 200), (100, 300), (290, 310)]):
        frame = spark.createDataFrame(rows(first, last, turn)).repartition(4)
        write_frame(frame, table, catalog.warehouse)
        expected |= dict.fromkeys(range(first, last), turn)
        checked(table, expected)
    files = table.system_table("files")
    assert len(set(files["bucket"].to_pylist())) >= (3 if days else 10)
    write_frame(spark.createDataFrame(rows(0, 50, 9)), table, catalog.warehouse, mode="overwrite")
    checked(table, dict.fromkeys(range(50), 9))


def test_rows_that_nobody_has_distributed(spark: "SparkSession", catalog: Catalog) -> None:
    """Written to the data source without its help, the same key comes to several tasks."""
    table = catalog.create_table(
        "a.t", SCHEMA, primary_key=["id"], options={"bucket": -1, "dynamic-bucket.target-row-num": 7}
    )
    again = pa.concat_tables([rows(0, 40, 1), rows(20, 60, 1), rows(10, 30, 1)])
    frame = spark.createDataFrame(again).repartition(5)
    for _ in range(2):
        writer = frame.write.format("snapline").option("warehouse", catalog.warehouse).mode("append")
        writer.save("a.t")
        checked(table, dict.fromkeys(range(60), 1))


def test_spark_reads_dynamic_buckets(spark: "SparkSession", catalog: Catalog) -> None:
    table = catalog.create_table(
        "a.t", SCHEMA, primary_key=["id"], options={"bucket": -1, "dynamic-bucket.target-row-num": 7}
    )
    table.write(rows(0, 30, 1))
    table.write(rows(20, 40, 2))
    frame = spark.read.format("snapline").option("warehouse", catalog.warehouse).load("a.t")
    assert frame.count() == 40
    assert [row.n for row in frame.where("id = 25").collect()] == [2]


def test_keys_that_move_are_written_by_one_task(spark: "SparkSession", catalog: Catalog) -> None:
    from storage.engines.spark_writer import write_frame

    table = catalog.create_table("a.t", SCHEMA, primary_key=["id"], partition_by=["day"], options={"bucket": -1})
    write_frame(spark.createDataFrame(rows(0, 60, 1)).repartition(4), table, catalog.warehouse)
    moved = spark.createDataFrame(rows(30, 90, 2)).selectExpr("'d7' AS day", "id", "n").repartition(4)
    write_frame(moved, table, catalog.warehouse)
    checked(table, dict.fromkeys(range(30), 1) | dict.fromkeys(range(30, 90), 2))
    assert table.count(where="day = 'd7'") == 60
    with pytest.raises(Exception, match="one writer"):
        moved.write.format("snapline").option("warehouse", catalog.warehouse).mode("append").save("a.t")
    checked(table, dict.fromkeys(range(30), 1) | dict.fromkeys(range(30, 90), 2))
