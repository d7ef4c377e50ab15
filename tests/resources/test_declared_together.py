"""A code location that has all of it, some twice, is loaded: Dagster compares names only once it has everything."""

import datetime as dt

import dagster as dg
import pyarrow as pa

from resources import (
    SparkResource,
    TablesResource,
    commits_of_others_sensor,
    consistency_check,
    external_table,
    external_table_sensor,
    freshness_check,
    lineage_sweep_sensors,
    openlineage_sensor,
    recovery_definitions,
    sql_check,
    table_asset,
    upkeep_schedule,
)


def test_everything_is_loaded_together() -> None:
    @table_asset("core.one", inputs={"rows": "raw.rows"}, primary_key=["id"])
    def first(rows: pa.Table) -> pa.Table:
        return rows

    @table_asset("core.two", inputs={"rows": "core.one"}, primary_key=["id"])
    def second(rows: pa.Table) -> pa.Table:
        return rows

    assets = [first, second, external_table("raw.rows"), external_table("raw.others")]
    checks = [
        *(
            sql_check(table, name, f"SELECT * FROM {table} WHERE id < 0")
            for table in ("core.one", "core.two")
            for name in ("positive", "still_positive")
        ),
        *(
            freshness_check(table, at_most=dt.timedelta(hours=hours))
            for table, hours in (("core.one", 1), ("core.two", 2))
        ),
        consistency_check("core.one", ["core.two"], on="raw.rows"),
    ]
    target = dg.AssetSelection.assets(first)
    definitions = dg.Definitions.merge(
        dg.Definitions(
            assets=assets,
            asset_checks=checks,
            schedules=[
                upkeep_schedule(name, tables, cron_schedule="0 3 * * *")
                for name, tables in (("nightly", ["core.one", "core.two"]), ("weekly", ["core.one"]))
            ],
            sensors=[
                *lineage_sweep_sensors(),
                commits_of_others_sensor(assets[:2]),
                commits_of_others_sensor(assets[:1], name="of_one"),
                external_table_sensor("rows", ["raw.rows"], target=target),
                external_table_sensor("others", ["raw.others"], target=target),
                openlineage_sensor(url="http://localhost:1"),
                openlineage_sensor("second", url="http://localhost:2"),
            ],
            resources={"tables": TablesResource(spark=SparkResource())},
        ),
        recovery_definitions(assets[:2], checks),
    )
    dg.Definitions.validate_loadable(definitions)
