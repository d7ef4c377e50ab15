"""Statements at random in plain Spark over plain views, and here on both engines: the same rows and types, or refused by name."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from resources import Session
from resources.spark_session import start_spark
from storage import StorageError
from storage.engines.spark_types import spark_schema
from tests.resources.sql_corpus import Grammar, tables
from tests.scale import blocks, seeds

pytestmark = pytest.mark.spark
# Of so many statements, the engine Spark runs one: what it is given is what was written.
_RUN_ON_SPARK = 8
_EACH = 40


def answer(run: Any) -> tuple[list[str], list[Any]] | None:
    """Types and rows, in an order of their own; None if there is an error."""
    try:
        table = run()
    except Exception as error:
        if type(error).__name__ == "AssertionError":
            raise
        # What ends a task while its rows are fetched comes from Py4J as it is.
        if not isinstance(error, StorageError) and not type(error).__module__.startswith(("pyspark", "py4j")):
            raise
        return None
    rows = [tuple(map(plain, row)) for row in zip(*[values(column) for column in table.columns], strict=True)]
    return [str(kind(field.type)) for field in table.schema], sorted(rows, key=repr)


def values(column: pa.ChunkedArray) -> list[Any]:
    """Values of Python; days and moments as numbers, for Spark has more of them than Python."""
    if pa.types.is_date(column.type):
        return list(column.cast(pa.int32()).to_pylist())
    if pa.types.is_timestamp(column.type):
        return list(column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64()).to_pylist())
    return list(column.to_pylist())


def kind(given: pa.DataType) -> pa.DataType:
    if pa.types.is_list(given) or pa.types.is_large_list(given):
        return pa.list_(pa.field("element", given.value_type))
    return given


def plain(value: Any) -> Any:
    if isinstance(value, float):
        if math.isnan(value):
            return "NaN"
        return 0.0 if value == 0 else float(f"{value:.12g}")
    return value


def differences(session: Session, texts: Sequence[str], data: dict[str, pa.Table]) -> tuple[list[str], dict[str, int]]:
    """The statements whose answers differ, and how many were answered or refused."""
    spark = start_spark(session.settings)
    counts = {"wrong in Spark": 0, "equal": 0, "refused": 0}
    wrong = []
    for name, rows in data.items():
        # Rows that are known would be computed while a statement is planned, errors and all.
        frame = spark.createDataFrame(rows, spark_schema(rows.schema)).coalesce(1).localCheckpoint()
        frame.createOrReplaceTempView(name)
        session.catalog.create_table(f"default.{name}", rows.schema).write(rows)
    for number, text in enumerate(texts):
        expected = answer(lambda text=text: spark.sql(text).toArrow())
        for engine in ("duckdb", "spark") if number % _RUN_ON_SPARK == 0 else ("duckdb",):
            actual = answer(lambda text=text, engine=engine: session.sql(text, engine).to_arrow())
            if actual is None:
                counts["refused" if expected else "wrong in Spark"] += 1
                if expected and engine == "spark":
                    wrong.append(f"spark refuses: {text}")
            elif actual == expected:
                counts["equal"] += 1
            else:
                wrong.append(f"{engine}: {text}\n  plain Spark: {expected}\n  here:        {actual}")
    for name in data:
        spark.catalog.dropTempView(name)
    return wrong, counts


@pytest.mark.parametrize("chosen", blocks(seeds(1, 200, full=5), 5), ids=str)
def test_statements_mean_what_they_mean_in_plain_spark(session: Session, chosen: Sequence[int]) -> None:
    for seed in chosen:
        grammar = Grammar(seed)
        wrong, counts = differences(_fresh(session, seed), [grammar.query() for _ in range(_EACH)], tables(seed))
        print(seed, counts)
        assert not wrong, f"seed {seed}, {counts}:\n" + "\n".join(wrong)
        assert counts["equal"] >= _EACH // 4


def _fresh(session: Session, seed: int) -> Session:
    """A session with a warehouse of its own."""
    return Session(
        replace(
            session.settings, home=session.settings.home / str(seed), warehouse=str(session.settings.home / f"w{seed}")
        )
    )
