"""A small platform for tests of recovery: orders as they come, cleaned by month, summed up."""

import os
import time
from pathlib import Path

import dagster as dg
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from resources import SparkResource, TablesResource, recovery_definitions, table_asset
from storage import Table

MONTHS = dg.MonthlyPartitionsDefinition("2024-01", end_date="2025-01", fmt="%Y-%m")
# What the next load of orders brings: set by tests. While the file `slow` lies in the home, days take their time.
INCOMING: list[dict[str, object]] = []


def _home() -> Path:
    return Path(os.environ.get("SNAPLINE_HOME", "/none"))


@table_asset("raw.orders", primary_key=["id"], mode="append")
def orders() -> pa.Table:
    schema = pa.schema([("id", pa.int64()), ("day", pa.string()), ("price", pa.float64())])
    return pa.Table.from_pylist(INCOMING, schema)


@table_asset("raw.rates")
def rates() -> pa.Table:
    return pa.table({"day": MONTHS.get_partition_keys(), "rate": [2.0] * 12})


@table_asset(
    "core.days",
    inputs={"orders": "raw.orders", "rates": "raw.rates"},
    primary_key=["day", "id"],
    partition_by=["day"],
    partitions_def=MONTHS,
    partition_column="day",
)
def days(context: dg.AssetExecutionContext, orders: DataFrame, rates: DataFrame) -> DataFrame:
    while (_home() / "slow").exists():
        time.sleep(0.1)
    wanted = orders.where(F.col("day").isin(context.partition_keys))
    return wanted.join(rates, "day").select("day", "id", (F.col("price") * F.col("rate")).alias("price"))


@table_asset("mart.totals", inputs={"days": "core.days"}, primary_key=["day"])
def totals(days: DataFrame) -> DataFrame:
    return days.groupBy("day").agg(F.sum("price").alias("total"), F.count("*").alias("orders"))


ASSETS = [orders, rates, days, totals]
_spark = SparkResource()
defs = dg.Definitions.merge(
    dg.Definitions(
        assets=ASSETS,
        resources={"tables": TablesResource(spark=_spark), "spark": _spark},
        executor=dg.in_process_executor,
    ),
    recovery_definitions(ASSETS),
)


def rows(table: Table) -> list[tuple[object, ...]]:
    return sorted(tuple(row.values()) for row in table.to_arrow().to_pylist())
