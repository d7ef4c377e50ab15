"""The quick shop as its users have it in the UI: what SQL does to its tables is an event of their assets."""

import dagster as dg

from resources import commits_of_others_sensor
from tests.resources import quick_shop

defs = dg.Definitions.merge(
    quick_shop.defs,
    dg.Definitions(
        sensors=[commits_of_others_sensor(quick_shop.ASSETS, default_status=dg.DefaultSensorStatus.RUNNING)]
    ),
)
