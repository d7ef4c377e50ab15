"""One entry point for SQL: statements of the dialect `storage.sql.dialect`, run on Spark, or on DuckDB without a JVM."""

from .engines import ENGINES
from .procedures import PROCEDURES
from .result import Result
from .statements import Statements

__all__ = ["ENGINES", "PROCEDURES", "Result", "Statements"]
