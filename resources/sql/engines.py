"""The engines of a session of SQL, each made when a statement first needs it."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from storage import InvalidRequest

from ..settings import Settings
from .duckdb_engine import DuckDbEngine
from .engine import Engine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from .spark_engine import SparkEngine

ENGINES = ("spark", "duckdb")


class Engines:
    """Spark and DuckDB by name."""

    def __init__(self, settings: Settings, start_spark: "Callable[[], SparkSession] | None" = None) -> None:
        """`start_spark` gives the Spark session; by default one is started from the settings."""
        self._settings = settings
        self._start = start_spark or self._start_spark
        self._made: dict[str, Engine] = {}
        self._session: SparkSession | None = None

    def named(self, name: str) -> Callable[[], Engine]:
        """What gives the engine of a name once it is needed. Raises InvalidRequest for a name that is none's."""
        if name not in ENGINES:
            raise InvalidRequest(f"Engine {name!r} is unknown. Engines: {', '.join(ENGINES)}.")

        def engine() -> Engine:
            if name not in self._made:
                self._made[name] = DuckDbEngine() if name == "duckdb" else self._spark_engine()
            return self._made[name]

        return engine

    def _spark_engine(self) -> "SparkEngine":
        # PySpark waits behind it: statements that no engine runs, and DuckDB's, do without.
        from .spark_engine import SparkEngine

        return SparkEngine(self._start)

    def _start_spark(self) -> "SparkSession":
        # Dagster's resource for Spark waits behind it: only those who start a session pay.
        from ..spark_session import has_lost_java, start_spark

        if self._session is None or has_lost_java():
            self._session = start_spark(self._settings)
        return self._session
