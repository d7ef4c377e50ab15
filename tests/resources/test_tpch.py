"""The 22 queries of TPC-H over tables of the store: Spark and DuckDB give the same rows, as DuckDB does over plain Parquet."""

import math
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from resources import Session
from resources.sql.parsing import parse
from tests.tpch import KEYS, QUERIES, generate

pytestmark = pytest.mark.spark
TEXTS = [statement.sql("databricks") for statement in parse(QUERIES.read_text())]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made: Path = tmp_path_factory.mktemp("tpch")
    generate("0.01", made)
    return made


@pytest.fixture(scope="module")
def shop(spark_home: Path, directory: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """The tables, with keys and several buckets, some of their rows written twice so that reading has to merge."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SNAPLINE_HOME", str(tmp_path_factory.mktemp("tpch-home")))
        session = Session()
        for name, key in KEYS.items():
            rows = pq.read_table(directory / f"{name}.parquet")
            rows = rows.cast(
                pa.schema([pa.field(field.name, field.type, field.name not in key) for field in rows.schema])
            )
            table = session.catalog.create_table(
                f"tpch.{name}", rows.schema, primary_key=key, options={"bucket": 2, "write-only": True}
            )
            table.write(rows)
            table.write(rows.slice(0, rows.num_rows // 3))
        session.sql("USE tpch", "duckdb")
        yield session


def test_there_are_22_queries() -> None:
    assert len(TEXTS) == 22


@pytest.mark.one_in(4)
@pytest.mark.parametrize("number", range(22), ids=lambda number: f"Q{number + 1}")
def test_spark_and_duckdb_agree(shop: Session, directory: Path, number: int) -> None:
    text = TEXTS[number]
    here = rows_of(shop.sql(text, "duckdb").to_arrow())
    with duckdb.connect() as connection:
        for name in KEYS:
            connection.execute(f"CREATE VIEW {name} AS SELECT * FROM read_parquet('{directory / f'{name}.parquet'}')")
        [tree] = parse(text)
        expected = rows_of(connection.sql(tree.sql("duckdb")).to_arrow_table())
    assert_same(here, expected)
    assert_same(rows_of(shop.sql(text, "spark").to_arrow()), expected)


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in table.to_pylist()]


def assert_same(actual: list[tuple[Any, ...]], expected: list[tuple[Any, ...]]) -> None:
    assert len(actual) == len(expected)
    for actual_row, other in zip(actual, expected, strict=True):
        for value, wanted in zip(actual_row, other, strict=True):
            if isinstance(wanted, float | Decimal):
                # Engines differ in how many digits an average or a quotient keeps.
                assert math.isclose(float(value), float(wanted), rel_tol=1e-4, abs_tol=1e-6), (actual_row, other)
            else:
                assert value == wanted, (actual_row, other)


def test_only_what_a_query_needs_is_read(shop: Session) -> None:
    rows = shop.sql(f"EXPLAIN {TEXTS[5]}", "duckdb").to_arrow().to_pylist()
    assert [row["columns"] for row in rows] == ["l_quantity, l_extendedprice, l_discount, l_shipdate"]
    assert "l_shipdate" in rows[0]["condition"] and "l_quantity" in rows[0]["condition"]
