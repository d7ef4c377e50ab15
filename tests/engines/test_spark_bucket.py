"""The bucket that Spark computes for a row is the one that the store computes: look-ups and merges go by it."""

import random
from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

from storage import Catalog
from storage.format.binary_row import buckets_of, hash_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
BUCKETS = 7
ROWS = 2000


@pytest.fixture(scope="module")
def content() -> pa.Table:
    """Values of every type of key, from end to end of it."""
    chance = random.Random(5)

    def whole(bits: int) -> list[int]:
        half = 1 << (bits - 1)
        return [-half, half - 1, 0, -1, *(chance.randrange(-half, half) for _ in range(ROWS - 4))]

    texts = ["", "\0", "ä" * 4, "x" * 7, "x" * 8, "x" * 600]
    texts += ["".join(chance.choices("aäß😀 \0z", k=chance.randrange(24))) for _ in range(ROWS - len(texts))]
    columns = {
        "big": pa.array(whole(64), pa.int64()),
        "int": pa.array(whole(32), pa.int32()),
        "small": pa.array(whole(16), pa.int16()),
        "tiny": pa.array(whole(8), pa.int8()),
        "flag": pa.array([number % 3 == 0 for number in range(ROWS)]),
        "day": pa.array([number // 2**11 for number in whole(32)], pa.int32()).cast(pa.date32()),
        "text": pa.array(texts),
        "long": pa.array(["y" * chance.randrange(40) for _ in range(ROWS)]),
        "at": pa.array([number // 2**20 for number in whole(64)], pa.timestamp("us")),
        "price": pa.array([Decimal(number) / 100 for number in whole(32)], pa.decimal128(12, 2)),
        "raw": pa.array([text.encode() for text in texts], pa.binary()),
    }
    return pa.table(columns)


@pytest.mark.parametrize(
    "key",
    [
        ["big"],
        ["int"],
        ["small"],
        ["tiny"],
        ["flag"],
        ["day"],
        ["text"],
        ["text", "long"],
        ["int", "text", "big", "long", "day"],
        ["at"],
        ["price"],
        ["raw"],
        ["text", "at"],
    ],
    ids=",".join,
)
def test_spark_and_the_store_agree_on_the_bucket(
    spark: "SparkSession", catalog: Catalog, content: pa.Table, key: list[str]
) -> None:
    from storage.engines.spark_bucket import bucket_of

    table = catalog.create_table("a.t", content.schema, primary_key=key, options={"bucket": BUCKETS})
    frame = spark.createDataFrame(content)
    buckets = frame.select(bucket_of(frame, table).alias("bucket")).toArrow()["bucket"].to_numpy()
    columns = [content[name].combine_chunks() for name in key]
    expected = buckets_of(hash_rows(columns, table.store.key_types), BUCKETS)
    assert np.array_equal(buckets, expected)
    assert len(set(buckets)) == (2 if key == ["flag"] else BUCKETS)


def test_columns_of_another_type_or_that_may_be_null_are_hashed_as_the_table_holds_them(
    spark: "SparkSession", catalog: Catalog
) -> None:
    from storage.engines.spark_bucket import bucket_of

    rows = pa.table({"id": pa.array([1, 2, None, 300], pa.int64())})
    options = {"bucket": BUCKETS, "bucket-key": "id"}
    table = catalog.create_table("a.t", pa.schema([("id", pa.int32())]), options=options)
    frame = spark.createDataFrame(rows)
    buckets = frame.select(bucket_of(frame, table)).toArrow().column(0).to_numpy()
    ids = rows["id"].combine_chunks().cast(pa.int32())
    assert np.array_equal(buckets, buckets_of(hash_rows([ids], [table.schema.field("id").type]), BUCKETS))
