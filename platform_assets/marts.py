"""What people ask of the flights: delays by day, airlines compared, and what the weather has to do with it."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from resources import table_asset


@table_asset(
    "marts.daily_delays", inputs={"flights": "core.flights", "airports": "raw.airports"}, primary_key=["day", "origin"]
)
def daily_delays(flights: DataFrame, airports: DataFrame) -> DataFrame:
    """Flights, cancellations and delays for each day and airport of departure."""
    names = airports.select(F.col("faa").alias("origin"), F.col("name").alias("airport"))
    daily = flights.groupBy("day", "origin").agg(
        F.count("*").alias("flights"),
        F.sum(F.col("cancelled").cast("int")).alias("cancelled"),
        F.avg("dep_delay").alias("mean_dep_delay"),
        F.percentile_approx("dep_delay", 0.9).alias("dep_delay_p90"),
        _share("dep_delay > 15").alias("share_delayed_15_min"),
    )
    return daily.join(names, "origin", "left").select("day", "origin", "airport", *daily.columns[2:])


@table_asset(
    "marts.carrier_performance",
    inputs={"flights": "core.flights", "airlines": "raw.airlines", "planes": "raw.planes"},
    primary_key=["carrier"],
)
def carrier_performance(flights: DataFrame, airlines: DataFrame, planes: DataFrame) -> DataFrame:
    """Airlines compared: punctuality, cancellations, distance, and the age of their planes."""
    built = planes.select("tailnum", F.col("year").alias("built"))
    by_carrier = (
        flights.join(built, "tailnum", "left")
        .groupBy("carrier")
        .agg(
            F.count("*").alias("flights"),
            _share("cancelled").alias("share_cancelled"),
            F.avg("arr_delay").alias("mean_arr_delay"),
            _share("dep_delay > 15").alias("share_delayed_15_min"),
            F.sum("distance").alias("miles"),
            F.avg(2013 - F.col("built")).alias("mean_plane_age"),
        )
    )
    return by_carrier.join(airlines, "carrier", "left").withColumnRenamed("name", "airline")


@table_asset(
    "marts.delay_by_weather",
    inputs={"flights": "core.flights", "weather": "raw.weather"},
    primary_key=["origin", "visibility", "wind"],
    column_descriptions={
        "visibility": "poor (< 3 miles), fair (< 9), good",
        "wind": "calm (< 10 mph), windy (< 20), strong",
    },
)
def delay_by_weather(flights: DataFrame, weather: DataFrame) -> DataFrame:
    """Delays at each airport against visibility and wind in the hour of departure."""
    visibility = F.when(F.col("visib") < 3, "poor").when(F.col("visib") < 9, "fair").otherwise("good")
    wind = F.when(F.col("wind_speed") < 10, "calm").when(F.col("wind_speed") < 20, "windy").otherwise("strong")
    hourly = (
        weather.where("visib IS NOT NULL AND wind_speed IS NOT NULL")
        .select("origin", "time_hour", "precip", visibility.alias("visibility"), wind.alias("wind"))
        .dropDuplicates(["origin", "time_hour"])
    )
    return (
        flights.join(hourly, ["origin", "time_hour"])
        .groupBy("origin", "visibility", "wind")
        .agg(
            F.count("*").alias("flights"),
            F.avg("dep_delay").alias("mean_dep_delay"),
            _share("dep_delay > 15").alias("share_delayed_15_min"),
            _share("cancelled").alias("share_cancelled"),
            F.avg("precip").alias("mean_precipitation_inches"),
        )
    )


def _share(condition: str) -> Column:
    """The share of rows that meet a condition, of those where it is known."""
    return F.avg(F.expr(condition).cast("double"))
