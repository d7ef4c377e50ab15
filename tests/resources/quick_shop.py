"""The shop of the recovery tests in Arrow alone, with a mart that another source feeds too: no Spark is started."""

import dagster as dg
import pyarrow as pa
import pyarrow.compute as pc

from resources import SparkResource, TablesResource, recovery_definitions, sql_check, table_asset

MONTHS = dg.MonthlyPartitionsDefinition("2024-01", end_date="2024-05", fmt="%Y-%m")
KEYS = MONTHS.get_partition_keys()


@table_asset("raw.orders", primary_key=["id"])
def orders() -> pa.Table:
    """Loading anew brings what the source has: nothing of a correction."""
    return pa.table({"id": [1, 2, 3, 4], "day": KEYS, "price": [1.0, 2.0, 3.0, 4.0]})


@table_asset("raw.weather", primary_key=["day"])
def weather() -> pa.Table:
    return pa.table({"day": KEYS, "rain": [0.0] * 4})


@table_asset(
    "core.days",
    inputs={"orders": "raw.orders"},
    primary_key=["day", "id"],
    partition_by=["day"],
    partitions_def=MONTHS,
    partition_column="day",
)
def days(context: dg.AssetExecutionContext, orders: pa.Table) -> pa.Table:
    return orders.filter(pc.is_in(orders["day"], pa.array(context.partition_keys)))


@table_asset("mart.rainy", inputs={"days": "core.days", "weather": "raw.weather"}, primary_key=["day"])
def rainy(days: pa.Table, weather: pa.Table) -> pa.Table:
    totals = days.group_by("day").aggregate([("price", "sum")])
    return totals.join(weather, "day").select(["day", "price_sum", "rain"])


@table_asset("mart.totals", inputs={"days": "core.days"}, primary_key=["day"])
def totals(days: pa.Table) -> pa.Table:
    return days.group_by("day").aggregate([("price", "sum")])


ASSETS = [orders, weather, days, rainy, totals]
CHECKS = [
    sql_check("core.days", "prices_are_small", "SELECT * FROM core.days WHERE price >= 1000", blocking=True),
    sql_check("core.days", "prices_are_known", "SELECT * FROM core.days WHERE price IS NULL"),
]
_spark = SparkResource()
defs = dg.Definitions.merge(
    dg.Definitions(
        assets=ASSETS,
        asset_checks=CHECKS,
        executor=dg.in_process_executor,
        resources={"tables": TablesResource(spark=_spark), "spark": _spark},
    ),
    recovery_definitions(ASSETS, CHECKS),
)
