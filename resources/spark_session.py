"""The Spark session of a run: one for a process, started when it is first used.

Local by default; a master or a Spark Connect URL makes it a cluster's. Built on dagster-pyspark's resource, so an asset
may ask for `PySparkResource` and get this one.
"""

import logging
import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from dagster import InitResourceContext
from dagster_pyspark import PySparkResource
from pydantic import Field
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from storage import Secret, revealed
from storage.engines.spark_reader import register

from .java import java_home
from .resource_fields import refuse_unknown_fields
from .settings import Settings

# Short runs spend their time on starting: the quick compiler and the plain collector halve it.
_QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto -XX:-UsePerfData"
_SECRET_NAMES = (
    r"(?i)password|passwd|passphrase|secret|credential|token|jaas|(access|account|api|private|shared)[._-]?key|\bsas\b|"
    r"^storage[.]|jdbc[.]url|^url$|://[^\s:@/]*:[^\s@]*@"
)
_DEFAULTS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    # Besides Spark's own words, what goes to a file system (a key is half of a secret there), and passwords in URLs.
    "spark.redaction.regex": _SECRET_NAMES,
    "spark.sql.redaction.options.regex": f"{_SECRET_NAMES}|url",
    # Else csv.`/any/path` would be a table.
    "spark.sql.runSQLOnFiles": "false",
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
    config: dict[str, Any] = dict(_DEFAULTS)
    # Workers must run the interpreter that has the platform installed.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(app_name)
    if settings.spark_remote:
        builder = builder.remote(revealed(settings.spark_remote))
    else:
        builder = builder.master(settings.spark_master)
        if settings.spark_master.startswith("local"):
            config |= _LOCAL_DEFAULTS | {"spark.sql.warehouse.dir": str(settings.home / "spark-warehouse")}
            os.environ["JAVA_HOME"] = str(java_home(settings.home))
            os.environ.setdefault("SPARK_CONF_DIR", str(Path(__file__).parent / "spark_conf"))
    config |= settings.spark_config
    if not settings.spark_remote:
        _start_java({key: value for key, value in config.items() if not isinstance(value, Secret)})
    for key, value in config.items():
        builder = builder.config(key, revealed(value))
    session = builder.getOrCreate()
    # It writes each error in a statement, with the stack of the JVM, beside the error that is raised.
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    register(session)
    return session


def _start_java(config: Mapping[str, Any]) -> None:
    """Start the JVM, if none runs: its settings stand on a command line, which everybody on the machine can read. Secrets
    are told to it afterwards.
    """
    if SparkContext._gateway is None:
        plain = SparkConf(loadDefaults=False)
        for key, value in config.items():
            plain.set(key, value)
        SparkContext._ensure_initialized(conf=plain)


class SparkResource(PySparkResource):
    """Gives a run its Spark session. Nothing starts before an asset uses it; a local session outlives the run."""

    master: str = ""
    remote: str = ""
    spark_config: dict[str, Any] = Field(default_factory=dict)

    def __init__(self, **fields: Any) -> None:
        refuse_unknown_fields("SparkResource", type(self).model_fields, fields)
        super().__init__(**fields)

    def setup_for_execution(self, context: InitResourceContext) -> None:
        """Start nothing yet: not every step uses Spark."""

    @property
    def spark_session(self) -> SparkSession:
        """The session, started when it is first asked for; the resource's settings count before those of the environment."""
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
        """Stop a session of a Spark Connect server. A local one stays for the next step of this process."""
        if self._spark_session is not None and (self.remote or Settings.from_environment().spark_remote):
            self._spark_session.stop()
            self._spark_session = None
