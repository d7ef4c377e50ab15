"""The Spark session of a run: one for a process, started when it is first used.

Local by default; a master or a Spark Connect URL makes it a cluster's. Built on dagster-pyspark's resource, so an asset
may ask for `PySparkResource` and get this one.
"""

import logging
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from dagster import InitResourceContext
from dagster_pyspark import PySparkResource
from pydantic import Field
from pyspark.sql import SparkSession

from storage.engines.spark_reader import register

from .java import java_home
from .settings import Settings

# Short runs spend their time on starting: the quick compiler and the plain collector halve it.
_QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto -XX:-UsePerfData"
_DEFAULTS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
}
_LOCAL_DEFAULTS = {
    "spark.sql.shuffle.partitions": str(2 * (os.cpu_count() or 2)),
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.extraJavaOptions": _QUICK_START,
    "spark.log.level": "ERROR",
}


def start_spark(settings: Settings, app_name: str = "snapline") -> SparkSession:
    """The session of this process, with the format `snapline` registered. A second call returns the same one."""
    config = dict(_DEFAULTS)
    # Workers must run the interpreter that has the platform installed.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(app_name)
    if settings.spark_remote:
        builder = builder.remote(settings.spark_remote)
    else:
        builder = builder.master(settings.spark_master)
        if settings.spark_master.startswith("local"):
            config |= _LOCAL_DEFAULTS | {"spark.sql.warehouse.dir": str(settings.home / "spark-warehouse")}
            os.environ["JAVA_HOME"] = str(java_home(settings.home))
            os.environ.setdefault("SPARK_CONF_DIR", str(Path(__file__).parent / "spark_conf"))
    for key, value in (config | dict(settings.spark_config)).items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    # It writes each error in a statement, with the stack of the JVM, beside the error that is raised.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL + 1)
    register(session)
    return session


class SparkResource(PySparkResource):
    """Gives a run its Spark session. Nothing starts before an asset uses it; a local session outlives the run."""

    master: str = ""
    remote: str = ""
    spark_config: dict[str, Any] = Field(default_factory=dict)

    def setup_for_execution(self, context: InitResourceContext) -> None:
        """Start nothing yet: not every step uses Spark."""

    @property
    def spark_session(self) -> SparkSession:
        if self._spark_session is None:
            given = Settings.from_environment()
            settings = replace(
                given,
                spark_master=self.master or given.spark_master,
                spark_remote=self.remote or given.spark_remote,
                spark_config={**given.spark_config, **{key: str(value) for key, value in self.spark_config.items()}},
            )
            self._spark_session = start_spark(settings)
        return self._spark_session

    def teardown_after_execution(self, context: InitResourceContext) -> None:
        if self._spark_session is not None and (self.remote or Settings.from_environment().spark_remote):
            self._spark_session.stop()
            self._spark_session = None
