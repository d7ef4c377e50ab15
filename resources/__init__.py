"""The joinery between tables, lineage, Spark and Dagster. Users of the template need what stands here."""

from .definition import TableDefinition
from .session import Session
from .settings import Settings
from .spark import SparkResource
from .table_asset import table_asset
from .tables import TablesResource

__all__ = ["Session", "Settings", "SparkResource", "TableDefinition", "TablesResource", "table_asset"]
