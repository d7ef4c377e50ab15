"""The joinery between tables, lineage, Spark and Dagster. Users of the template need what stands here.

Names are loaded when they are first used: Dagster and Spark cost seconds to import, and not everybody needs them.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .definition import TableDefinition
    from .external import commits_of_others_sensor, external_table, external_table_sensor
    from .lineage_checks import consistency_check, freshness_check
    from .openlineage import openlineage_sensor
    from .recovery.jobs import recovery_definitions
    from .session import Session
    from .settings import Settings
    from .spark import SparkResource
    from .sql_checks import sql_check
    from .sweep import lineage_sweep_sensors
    from .table_assets import function_of, table_asset
    from .tables import TablesResource
    from .upkeep import upkeep_schedule

__all__ = [
    "Session",
    "Settings",
    "SparkResource",
    "TableDefinition",
    "TablesResource",
    "commits_of_others_sensor",
    "consistency_check",
    "external_table",
    "external_table_sensor",
    "freshness_check",
    "function_of",
    "lineage_sweep_sensors",
    "openlineage_sensor",
    "recovery_definitions",
    "sql_check",
    "table_asset",
    "upkeep_schedule",
]

_MODULES = {
    "Session": "session",
    "Settings": "settings",
    "SparkResource": "spark",
    "TableDefinition": "definition",
    "TablesResource": "tables",
    "commits_of_others_sensor": "external",
    "consistency_check": "lineage_checks",
    "external_table": "external",
    "external_table_sensor": "external",
    "freshness_check": "lineage_checks",
    "function_of": "table_assets",
    "lineage_sweep_sensors": "sweep",
    "openlineage_sensor": "openlineage",
    "recovery_definitions": "recovery.jobs",
    "sql_check": "sql_checks",
    "table_asset": "table_assets",
    "upkeep_schedule": "upkeep",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f".{_MODULES[name]}", __name__), name)
    return value
