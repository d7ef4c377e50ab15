"""Which columns were computed from which, from SQL and from Spark's plans; what is not known is not said."""

from collections.abc import Callable
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lineage import columns_of
from resources import Session, table_asset
from tests.resources.test_table_asset import materialization

pytestmark = pytest.mark.dagster
Columns = dict[str, list[str]]


@table_asset("raw.orders")
def orders() -> pa.Table:
    return pa.table({"id": [1, 2], "item": ["tea", "cup"], "price": [2.0, 5.0], "tags": [["a", "b"], ["c"]]})


@table_asset("raw.items")
def items() -> pa.Table:
    return pa.table({"item": ["tea", "cup"], "kind": ["food", "ware"]})


def columns(session: Session, name: str) -> Columns:
    """What is told of each column, as `table.column`."""
    table = session.table(name)
    snapshot = table.snapshot()
    assert snapshot is not None
    declared = {
        key: [f"{source[2]}.{source[3]}" for source in sources] for key, sources in columns_of(snapshot).items()
    }
    stored: Columns = {}
    for row in session.lineage_store.columns(database=table.identifier.database, table=table.identifier.table):
        stored.setdefault(row.column, []).append(f"{row.source_table}.{row.source_column}")
    assert stored == declared
    return declared


def made(
    materialize: Callable[..., Any], session: Session, transform: Callable[[DataFrame, DataFrame], DataFrame]
) -> Columns:
    def body(orders: DataFrame, items: DataFrame) -> DataFrame:
        return transform(orders, items)

    asset = table_asset(
        "core.made", inputs={"orders": "raw.orders", "items": "raw.items"}, code_version="1", description="made"
    )(body)
    materialize(orders, items, asset)
    return columns(session, "core.made")


def test_projections_joins_and_aggregates(materialize: Callable[..., Any], session: Session) -> None:
    sources = made(
        materialize,
        session,
        lambda orders, items: (
            orders.join(items, "item")
            .groupBy(F.upper("kind").alias("kind"))
            .agg(
                F.sum(F.col("price") * F.col("id")).alias("worth"), F.count("*").alias("n"), F.max("item").alias("last")
            )
            .withColumn("rank", F.expr("row_number() OVER (ORDER BY worth)"))
            .withColumn("one", F.lit(1))
        ),
    )
    # A count and a constant are made of no column; a rank is made of what rows are ordered by.
    assert sources == {
        "kind": ["items.kind"],
        "last": ["orders.item"],
        "worth": ["orders.id", "orders.price"],
        "rank": ["orders.id", "orders.price"],
    }


def test_self_joins_unions_explosions_and_semi_joins(materialize: Callable[..., Any], session: Session) -> None:
    def transform(orders: DataFrame, items: DataFrame) -> DataFrame:
        known = orders.join(items, "item", "left_semi")
        pairs = known.alias("a").join(known.alias("b"), F.col("a.id") < F.col("b.id"))
        left = pairs.select(F.col("a.item").alias("what"), F.explode("b.tags").alias("tag"))
        return left.union(items.select("kind", "item")).distinct().orderBy("what")

    assert made(materialize, session, transform) == {
        "what": ["items.kind", "orders.item"],
        "tag": ["items.item", "orders.tags"],
    }


def test_what_goes_through_python_or_comes_from_elsewhere_is_not_told(
    materialize: Callable[..., Any], session: Session
) -> None:
    def transform(orders: DataFrame, items: DataFrame) -> DataFrame:
        through = orders.select("id", "price").mapInArrow(lambda batches: batches, "id bigint, price double")
        elsewhere = orders.sparkSession.createDataFrame([(1, "x")], "id bigint, note string")
        return through.join(elsewhere, "id").join(orders.select("id", "item"), "id").withColumn("same", F.col("item"))

    assert made(materialize, session, transform) == {"item": ["orders.item"], "same": ["orders.item"]}


def test_dagster_is_told_too(materialize: Callable[..., Any], session: Session) -> None:
    @table_asset("core.names", inputs={"items": "raw.items"})
    def names(items: DataFrame) -> DataFrame:
        return items.select(F.concat("item", "kind").alias("name"))

    event = materialization(materialize(items, names), "core", "names")
    shown = event.metadata["dagster/column_lineage"].value
    assert isinstance(shown, dg.TableColumnLineage)
    assert [(dependency.asset_key.path, dependency.column_name) for dependency in shown.deps_by_column["name"]] == [
        (["raw", "items"], "item"),
        (["raw", "items"], "kind"),
    ]


def test_statements(session: Session, sql: Callable[[str], Any], materialize: Callable[..., Any]) -> None:
    materialize(orders, items)
    sql(
        """
        CREATE TABLE core.made (kind STRING, worth DOUBLE, n BIGINT, note STRING);
        INSERT INTO core.made (worth, kind, n)
            WITH known AS (SELECT o.item, price * id AS worth FROM raw.orders AS o)
            SELECT sum(worth), i.kind, count(*) FROM known JOIN raw.items AS i ON known.item = i.item GROUP BY 2
        """
    )
    assert columns(session, "core.made") == {"kind": ["items.kind"], "worth": ["orders.id", "orders.price"]}
    rows = {tuple(row) for row in sql("SELECT column, source_column FROM paimon.column_lineage WHERE `table` = 'made'")}
    assert rows == {("kind", "kind"), ("worth", "id"), ("worth", "price")}
