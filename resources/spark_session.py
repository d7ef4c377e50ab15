"""The Spark session of a process: one, started when it is first used.

Local by default; a master or a Spark Connect URL makes it a cluster's.
"""

import logging
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from storage import Secret, revealed
from storage.engines.spark_reader import register

from .class_archive import SPARK_CONF_DIRECTORY, java_options
from .java import java_home
from .settings import Settings

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
            java = java_home(settings.home)
            config |= _LOCAL_DEFAULTS | {
                "spark.sql.warehouse.dir": str(settings.home / "spark-warehouse"),
                "spark.driver.extraJavaOptions": java_options(java),
            }
            os.environ["JAVA_HOME"] = str(java)
            if "SPARK_CONF_DIR" not in os.environ:
                os.environ["SPARK_CONF_DIR"] = str(SPARK_CONF_DIRECTORY)
                os.environ.setdefault(
                    "LOG4J_CONFIGURATION_FILE", str(Path(__file__).parent / "spark_conf" / "log4j2.properties")
                )
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
