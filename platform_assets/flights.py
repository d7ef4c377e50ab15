"""Flights, cleaned: a table with a key, one partition for each month."""

import dagster as dg
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from resources import table_asset

from .partitions import months


@table_asset(
    "core.flights",
    inputs={"raw": "raw.flights"},
    primary_key=["month", "time_hour", "carrier", "flight"],
    partition_by=["month"],
    partitions_def=months,
    partition_column="month",
    column_descriptions={
        "month": "Month of departure in New York, as 2013-01",
        "time_hour": "Scheduled hour of departure, UTC",
        "day": "Scheduled day of departure in New York",
        "cancelled": "Whether the flight never left",
        "dep_delay": "Minutes; negative for early",
        "arr_delay": "Minutes; negative for early",
        "air_time": "Minutes",
        "distance": "Miles",
    },
)
def flights(context: dg.AssetExecutionContext, raw: DataFrame) -> DataFrame:
    """Every scheduled flight once, by scheduled hour, carrier and flight number. No flight is dropped."""
    day = F.make_date("year", "month", "day")
    cleaned = raw.select(
        F.date_format(day, "yyyy-MM").alias("month"),
        "time_hour",
        "carrier",
        "flight",
        day.alias("day"),
        "tailnum",
        "origin",
        "dest",
        F.col("dep_time").isNull().alias("cancelled"),
        F.col("dep_delay").cast("int").alias("dep_delay"),
        F.col("arr_delay").cast("int").alias("arr_delay"),
        F.col("air_time").cast("int").alias("air_time"),
        "distance",
    )
    return cleaned.where(F.col("month").isin(list(context.partition_keys)))
