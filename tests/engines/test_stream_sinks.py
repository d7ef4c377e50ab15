"""What a stream writes to is the table that it has written to before, and holds what Spark's output modes say."""

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from storage import AddColumn, Catalog, InvalidRequest, SetOptions, Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.string())])


@pytest.mark.parametrize("keyed", [True, False], ids=["keyed", "without a key"])
@pytest.mark.parametrize("by", ["write_stream", "the data source"])
@pytest.mark.parametrize("fate", ["dropped", "renamed"])
def test_a_sink_that_was_made_anew_is_refused(
    catalog: Catalog, spark: "SparkSession", tmp_path: Path, keyed: bool, by: str, fate: str
) -> None:
    from storage.engines.spark_stream import write_stream

    def made(name: str) -> Table:
        return catalog.create_table(name, SCHEMA, primary_key=["id"] if keyed else [])

    warehouse, checkpoint = str(tmp_path / "warehouse"), str(tmp_path / "checkpoint")
    source, sink = made("a.source"), made("a.sink")

    def run(name: str) -> None:
        frame = spark.readStream.format("snapline").option("warehouse", warehouse).load("a.source")
        if by == "write_stream":
            query = write_stream(
                frame,
                catalog.table(name),
                warehouse,
                commit_user="j",
                checkpoint=checkpoint,
                trigger={"availableNow": True},
            )
        else:
            writer = frame.writeStream.format("snapline").option("warehouse", warehouse)
            query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start(name)
        query.awaitTermination()

    source.write(pa.table({"id": [0, 1], "v": ["a", "b"]}))
    run("a.sink")
    assert sink.count() == 2
    if fate == "dropped":
        catalog.drop_table("a.sink")
        made("a.sink")
    else:
        catalog.rename_table("a.sink", "a.other")
        made("a.sink")
    source.write(pa.table({"id": [2], "v": ["c"]}))
    with pytest.raises(Exception, match=r"has written to another table than a[.]sink is now"):
        run("a.sink")
    assert catalog.table("a.sink").count() == 0
    if fate == "renamed":
        # The table of before is gone on with, whatever it is called.
        run("a.other")
        assert catalog.table("a.other").count() == 3


@pytest.mark.parametrize("by", ["alter", "replace main", "overwrite", "rename"])
def test_a_sink_that_stays_the_same_table_is_gone_on_with(
    catalog: Catalog, spark: "SparkSession", tmp_path: Path, by: str
) -> None:
    from storage.engines.spark_stream import write_stream

    warehouse = str(tmp_path / "warehouse")
    source, sink = (catalog.create_table(f"a.{name}", SCHEMA, primary_key=["id"]) for name in ("source", "sink"))

    def run(table: Table) -> list[int]:
        frame = spark.readStream.format("snapline").option("warehouse", warehouse).load("a.source")
        checkpoint = str(tmp_path / "checkpoint")
        write_stream(
            frame, table, warehouse, commit_user="j", checkpoint=checkpoint, trigger={"availableNow": True}
        ).awaitTermination()
        return sorted(table.to_arrow()["id"].to_pylist())

    source.write(pa.table({"id": [0, 1], "v": ["a", "b"]}))
    assert run(sink) == [0, 1]
    if by == "alter":
        sink.alter(SetOptions({"snapshot.num-retained.min": "3"}), AddColumn("more", "STRING"))
    elif by == "replace main":
        sink.branches.create("b")
        sink.on_branch("b").delete("id = 0")
        sink.branches.replace_main("b")
    elif by == "overwrite":
        sink.overwrite(pa.table({"id": [1], "v": ["b"]}))
    else:
        catalog.rename_table("a.sink", "a.other")
    source.write(pa.table({"id": [2], "v": ["c"]}))
    kept = [1] if by in ("replace main", "overwrite") else [0, 1]
    assert run(catalog.table("a.other" if by == "rename" else "a.sink")) == [*kept, 2]


def test_output_modes_mean_what_spark_says(catalog: Catalog, spark: "SparkSession", tmp_path: Path) -> None:
    from storage.engines.spark_stream import write_stream

    warehouse = str(tmp_path / "warehouse")
    source = catalog.create_table("a.source", SCHEMA)
    counts = pa.schema([("v", pa.string()), ("n", pa.int64())])
    plain = catalog.create_table("a.plain", counts)
    keyed = catalog.create_table("a.keyed", counts, primary_key=["v"])

    def run(sink: Table, mode: str) -> list[tuple[str, int]]:
        frame = spark.readStream.format("snapline").option("warehouse", warehouse).load("a.source")
        write_stream(
            frame.groupBy("v").count().withColumnRenamed("count", "n"),
            sink,
            warehouse,
            commit_user=mode,
            checkpoint=f"{tmp_path}/{sink.identifier.table}-{mode}",
            trigger={"availableNow": True},
            output_mode=mode,
        ).awaitTermination()
        return sorted((row["v"], row["n"]) for row in sink.to_arrow().to_pylist())

    source.write(pa.table({"id": [0, 1], "v": ["a", "b"]}))
    for sink, mode in ((plain, "complete"), (keyed, "update")):
        assert run(sink, mode) == [("a", 1), ("b", 1)]
    source.write(pa.table({"id": [2], "v": ["a"]}))
    for sink, mode in ((plain, "complete"), (keyed, "update"), (keyed, "complete")):
        assert run(sink, mode) == [("a", 2), ("b", 1)]
    for mode, match in (("update", "has no primary key"), ("all", "'all' is unknown")):
        with pytest.raises(InvalidRequest, match=match):
            run(plain, mode)


def test_values_that_mean_nothing_are_refused(catalog: Catalog, spark: "SparkSession", tmp_path: Path) -> None:
    warehouse = str(tmp_path / "warehouse")
    catalog.create_table("a.source", SCHEMA).write(pa.table({"id": [0], "v": ["a"]}))
    catalog.create_table("a.sink", SCHEMA)

    def run(reading: dict[str, str], writing: dict[str, str]) -> None:
        frame = spark.readStream.format("snapline").option("warehouse", warehouse).options(**reading).load("a.source")
        writer = frame.writeStream.format("snapline").option("warehouse", warehouse).options(**writing)
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
        writer.start("a.sink").awaitTermination()

    with pytest.raises(Exception, match="is no date and time"):
        run({"scan.timestamp-millis": "99999999999999999999"}, {})
    with pytest.raises(Exception, match="'commit-user' is empty"):
        run({}, {"commit-user": ""})
