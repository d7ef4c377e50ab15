"""The Spark session of a process: one, started when it is first used.

Local by default; a master or a Spark Connect URL makes it a cluster's.
"""

import logging
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from storage import InvalidRequest, Secret, hidden, revealed
from storage.engines.spark_reader import register

from .class_archive import SPARK_CONF_DIRECTORY, java_options
from .java import java_home
from .java_launch import cause, launched
from .settings import Settings
from .spark_home import spark_home

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
_CLUSTER_DEFAULTS = {"spark.ui.showConsoleProgress": "false", "spark.log.level": "ERROR"}
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"


def start_spark(settings: Settings, app_name: str = "snapline") -> SparkSession:
    """The session of this process, with the format `snapline` registered. A second call returns the same one, unless its JVM has
    ended meanwhile: then a new one.

    Raises InvalidRequest for a warehouse that tasks on other hosts would not see.
    """
    if has_lost_java():
        _forget_java()
    config: dict[str, Any] = dict(_DEFAULTS)
    builder = SparkSession.builder.appName(app_name)
    if settings.runs_elsewhere:
        _refuse_warehouse_of_home(settings)
    if settings.spark_remote:
        builder = builder.remote(revealed(settings.spark_remote))
    else:
        builder = builder.master(settings.spark_master)
        config |= _of_driver(settings)
    config |= settings.spark_config
    if not settings.spark_remote:
        # On other hosts Spark looks below its home as the driver has it.
        home = None if settings.runs_elsewhere or "SPARK_HOME" in os.environ else spark_home()
        _start_java(
            {key: value for key, value in config.items() if not isinstance(value, Secret)}, _advice(settings), home
        )
    for key, value in config.items():
        builder = builder.config(key, revealed(value))
    try:
        session = builder.getOrCreate()
    except Py4JError as error:
        said = cause([line.removeprefix(": ") for line in str(error).splitlines()[1:]])
        raise InvalidRequest(f"Spark does not start: {hidden(said or str(error))}. {_advice(settings)}") from None
    # It writes each error in a statement, with the stack of the JVM, beside the error that is raised.
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    register(session)
    return session


def has_lost_java() -> bool:
    """Whether this process has started a JVM that has ended: no session of it answers any more."""
    gateway = SparkContext._gateway
    program = getattr(gateway, "proc", None)
    return program is not None and program.poll() is not None


def _forget_java() -> None:
    """Leave a JVM that has ended, with which pyspark would go on."""
    with SparkContext._lock:
        assert SparkContext._gateway is not None
        SparkContext._gateway.shutdown()
        SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
        SparkSession._instantiatedSession = None


def _refuse_warehouse_of_home(settings: Settings) -> None:
    """Each host would write files to a disk of its own, and commit what the others do not have."""
    if settings.warehouse == str(settings.home / "warehouse"):
        raise InvalidRequest(
            f"Spark's tasks run on other hosts, which do not see the warehouse {settings.warehouse}: set SNAPLINE_WAREHOUSE to "
            "a URL such as s3://bucket/warehouse, or to a directory that all hosts mount at the same path."
        )


def _of_driver(settings: Settings) -> dict[str, Any]:
    """What the driver's JVM is told, whose Java and Python are put into the environment of this process."""
    java = java_home(settings.home)
    os.environ["JAVA_HOME"] = str(java)
    # A Spark of one's own has its own settings, and may have its own options for the JVM.
    has_own = "SPARK_CONF_DIR" in os.environ or (settings.runs_elsewhere and "SPARK_HOME" in os.environ)
    if not has_own:
        os.environ["SPARK_CONF_DIR"] = str(SPARK_CONF_DIRECTORY)
        os.environ.setdefault(
            "LOG4J_CONFIGURATION_FILE", str(Path(__file__).parent / "spark_conf" / "log4j2.properties")
        )
    if settings.runs_elsewhere:
        _name_python()
        return dict(_CLUSTER_DEFAULTS) | ({} if has_own else {_JAVA_OPTIONS: java_options(java)})
    # Workers must run the interpreter that has the platform installed.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    return _LOCAL_DEFAULTS | {
        "spark.sql.warehouse.dir": str(settings.home / "spark-warehouse"),
        _JAVA_OPTIONS: java_options(java),
    }


def _name_python() -> None:
    """Let each host find the platform's interpreter in its own PATH: it may be installed at another path there, and Spark runs
    it under the same name on all hosts, this one too.
    """
    if "PYSPARK_PYTHON" not in os.environ:
        program = Path(sys.executable)
        os.environ["PYSPARK_PYTHON"] = "python3" if (program.parent / "python3").exists() else program.name
        os.environ["PATH"] = os.pathsep.join([str(program.parent), os.environ.get("PATH", os.defpath)])


def _advice(settings: Settings) -> str:
    """What to look at if there is no session: what was set, else the host."""
    given = [f"SNAPLINE_SPARK_MASTER ({settings.spark_master})"] if settings.spark_master != "local[*]" else []
    if settings.spark_config:
        given.append(f"SNAPLINE_SPARK_CONFIG ({', '.join(sorted(settings.spark_config))})")
    where = f"Look at {' and '.join(given)}, and at the host" if given else "Look at the host"
    return f"{where}: it has to resolve its own name, and to have the memory that Java is given."


def _start_java(config: Mapping[str, Any], advice: str, home: Path | None) -> None:
    """Start the JVM, if none runs: its settings stand on a command line, which everybody on the machine can read. Secrets
    are told to it afterwards.
    """
    if SparkContext._gateway is None:
        plain = SparkConf(loadDefaults=False)
        for key, value in config.items():
            plain.set(key, value)
        SparkContext._ensure_initialized(gateway=launched(plain, advice, home), conf=plain)
