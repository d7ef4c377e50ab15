"""Everything that Dagster knows of this platform."""

import dagster as dg

from resources import (
    SparkResource,
    TablesResource,
    commits_of_others_sensor,
    lineage_sweep_sensors,
    recovery_definitions,
)

from . import flights, jobs, marts, raw, word_count
from .checks import checks

_spark = SparkResource()
_assets = dg.load_assets_from_modules([raw, flights, marts, word_count])

# Dagster wants one object of this kind in the module.
defs = dg.Definitions.merge(
    dg.Definitions(
        assets=_assets,
        asset_checks=checks,
        jobs=[jobs.demo, jobs.refresh],
        sensors=[
            *lineage_sweep_sensors(),
            # A load that was made by SQL is an event in Dagster like any other.
            commits_of_others_sensor(_assets, default_status=dg.DefaultSensorStatus.RUNNING),
        ],
        resources={"tables": TablesResource(spark=_spark), "spark": _spark},
        # One process for a run, and so one Spark session for all of its assets.
        executor=dg.in_process_executor,
    ),
    # For each asset a twin on branches with its checks, and the jobs that begin and end a recovery: docs/recovery.md.
    recovery_definitions(_assets, checks),
)
