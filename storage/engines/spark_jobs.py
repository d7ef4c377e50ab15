"""Work of the store as Spark tasks: pickled pieces go out, and rows or pickled results come back."""

import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from ..maintain.compaction import BucketCompaction, BucketResult, compact_bucket
from ..metadata.snapshot import Snapshot
from ..table import Table
from .spark_errors import own_error


def rows_of_tasks(
    spark: SparkSession,
    pieces: Sequence[Any],
    read: Callable[[Any], Iterator[pa.RecordBatch]],
    schema: StructType,
) -> DataFrame:
    """What `read`, a function at the top of a module, gives for each piece, a task for each."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for piece in batch.column("piece"):
                yield from read(pickle.loads(piece.as_py()))

    return _spread(spark, pieces).mapInArrow(run, schema)


def _spread(spark: SparkSession, pieces: Sequence[Any]) -> DataFrame:
    """The pieces, pickled and numbered, each in a partition of its own."""
    packed = [(number, pickle.dumps(piece)) for number, piece in enumerate(pieces)]
    frame = spark.createDataFrame(packed, "number int, piece binary")
    return frame.repartitionById(max(len(packed), 1), F.col("number"))


def results_of_tasks(spark: SparkSession, pieces: Sequence[Any], work: Callable[[Any], Any]) -> list[Any]:
    """What `work` makes of each piece, a task for each. Raises the store's own error if a task did."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            results = [pickle.dumps(work(pickle.loads(piece.as_py()))) for piece in batch.column("piece")]
            yield pa.RecordBatch.from_arrays(
                [batch.column("number"), pa.array(results, pa.binary())], ["number", "result"]
            )

    try:
        rows = _spread(spark, pieces).mapInArrow(run, "number int, result binary").collect()
    except PySparkException as error:
        raise own_error(error) or error from None
    return [pickle.loads(row["result"]) for row in sorted(rows, key=lambda row: row["number"])]


def compact_on_spark(spark: SparkSession, table: Table, *, full: bool = True, **options: Any) -> Snapshot | None:
    """Compact as `Table.compact` does (same options), with a task for each bucket; the driver commits."""

    def run(plans: Sequence[BucketCompaction]) -> list[BucketResult]:
        return results_of_tasks(spark, [(table.store, plan) for plan in plans], _compact_one)

    return table.compact(full=full, run=run, **options)


def _compact_one(piece: tuple[Any, BucketCompaction]) -> BucketResult:
    return compact_bucket(*piece)
