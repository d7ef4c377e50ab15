"""The joinery between tables, lineage, Spark and Dagster. Users of the template need what stands here."""

from .definition import TableDefinition
from .session import Session
from .settings import Settings
from .spark import SparkResource
from .sql_check import sql_check
from .table_asset import table_asset
from .tables import TablesResource

__all__ = ["Session", "Settings", "SparkResource", "TableDefinition", "TablesResource", "sql_check", "table_asset"]
