"""What must hold for the tables. Each check selects the rows that break it."""

from resources import sql_check

checks = [
    sql_check(
        "core.flights",
        "months_are_complete",
        """SELECT month, count(*) AS flights FROM core.flights GROUP BY month
           HAVING flights < (SELECT 0.8 * count(*) / 12 FROM raw.flights) AND count(*) > 0""",
        description="No month has far fewer flights than the others",
    ),
    sql_check(
        "core.flights",
        "airlines_are_known",
        """SELECT DISTINCT carrier FROM core.flights
           WHERE carrier NOT IN (SELECT carrier FROM raw.airlines)""",
        description="Every carrier code has a name",
    ),
    sql_check(
        "core.flights",
        "times_make_sense",
        """SELECT time_hour, carrier, flight, air_time, distance FROM core.flights
           WHERE air_time <= 0 OR distance <= 0 OR (cancelled AND air_time IS NOT NULL)""",
        description="Flights that took place took time, cancelled ones did not",
    ),
    sql_check(
        "marts.daily_delays",
        "adds_up",
        """SELECT a.flights, b.flights FROM (SELECT sum(flights) AS flights FROM marts.daily_delays) a,
           (SELECT count(*) AS flights FROM core.flights) b WHERE a.flights <> b.flights""",
        description="The days hold as many flights as there are",
    ),
    sql_check(
        "marts.carrier_performance",
        "shares_are_shares",
        """SELECT carrier FROM marts.carrier_performance
           WHERE share_cancelled NOT BETWEEN 0 AND 1 OR share_delayed_15_min NOT BETWEEN 0 AND 1""",
        description="Shares lie between 0 and 1",
    ),
    sql_check(
        "marts.delay_by_weather",
        "airports_are_of_new_york",
        "SELECT DISTINCT origin FROM marts.delay_by_weather WHERE origin NOT IN ('EWR', 'JFK', 'LGA')",
        description="Only the three airports that flights left from",
    ),
]
