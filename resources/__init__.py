"""The joinery between tables, lineage, Spark and Dagster. Users of the template need what stands here.

Names are loaded when they are first used: Dagster and Spark cost seconds to import, and not everybody needs them.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .assets.external_tables import commits_of_others_sensor, external_table, external_table_sensor
    from .assets.lineage_checks import consistency_check, freshness_check
    from .assets.lineage_sweep import lineage_sweep_sensors
    from .assets.maintenance_schedule import upkeep_schedule
    from .assets.openlineage_sensor import openlineage_sensor
    from .assets.sql_checks import sql_check
    from .assets.table_asset import function_of, table_asset
    from .assets.table_declaration import TableDefinition
    from .assets.tables import TablesResource
    from .recovery.jobs import recovery_definitions
    from .session import Session
    from .settings import Settings
    from .spark_resource import SparkResource

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
    "SparkResource": "spark_resource",
    "TableDefinition": "assets.table_declaration",
    "TablesResource": "assets.tables",
    "commits_of_others_sensor": "assets.external_tables",
    "consistency_check": "assets.lineage_checks",
    "external_table": "assets.external_tables",
    "external_table_sensor": "assets.external_tables",
    "freshness_check": "assets.lineage_checks",
    "function_of": "assets.table_asset",
    "lineage_sweep_sensors": "assets.lineage_sweep",
    "openlineage_sensor": "assets.openlineage_sensor",
    "recovery_definitions": "recovery.jobs",
    "sql_check": "assets.sql_checks",
    "table_asset": "assets.table_asset",
    "upkeep_schedule": "assets.maintenance_schedule",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f".{_MODULES[name]}", __name__), name)
    return value
