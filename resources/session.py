"""The composition root: one warehouse with its lineage, and the SQL on it, put together from settings. No Dagster, no Spark."""

from functools import cached_property
from typing import TYPE_CHECKING

from .warehouse.warehouse_session import WarehouseSession

if TYPE_CHECKING:
    from .sql import Result, Statements


class Session(WarehouseSession):
    """Everything that the platform does with tables goes through one of these. Cheap to make, and may be shared."""

    def sql(self, text: str, engine: str = "spark") -> "Result":
        """Run SQL statements; the result of the last. `engine`: spark, or duckdb (for reading, without a JVM).

        What SET and USE say stands for the session. Raises InvalidRequest that points at the place in the statement.
        """
        return self.statements.run(text, engine)[-1]

    @cached_property
    def statements(self) -> "Statements":
        """What runs the SQL of this session."""
        # sqlglot costs time to import: only those who use SQL pay.
        from .sql import Statements

        return Statements(self)
