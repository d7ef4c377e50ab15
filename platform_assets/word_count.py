"""The smallest pipeline there is: words, and how often each occurs."""

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from resources import table_asset

_TEXT = (
    "a snapshot knows the snapshots that it was made from and a snapshot that was wrong leads to every snapshot it fed"
)


@table_asset("example.words", kinds={"arrow", "paimon"})
def words() -> pa.Table:
    """One row for each word, in no order."""
    return pa.table({"word": _TEXT.split()})


@table_asset("example.word_counts", inputs={"words": "example.words"}, primary_key=["word"])
def word_counts(words: DataFrame) -> DataFrame:
    """How often each word occurs."""
    return words.groupBy("word").agg(F.count("*").alias("count"))
