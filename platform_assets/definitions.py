"""Everything that Dagster knows of this platform."""

import dagster as dg

from resources import SparkResource, TablesResource

from . import flights, jobs, marts, raw, word_count
from .checks import checks
from .recovery import recovery

_spark = SparkResource()

_pipeline = dg.Definitions(
    assets=dg.load_assets_from_modules([raw, flights, marts, word_count]),
    asset_checks=checks,
    jobs=[jobs.demo, jobs.refresh],
    resources={"tables": TablesResource(spark=_spark), "spark": _spark},
    # One process for a run, and so one Spark session for all of its assets.
    executor=dg.in_process_executor,
)

defs = dg.Definitions.merge(_pipeline, recovery)
