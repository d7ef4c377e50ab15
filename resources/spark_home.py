"""A home of Spark from which its Python processes take the installed pyspark.

In its own home lies pyspark as a zip file, which Spark puts before everything else in the path of the Python processes that it
starts. From there each compiles what it imports, for a second of a core; what is installed is compiled already.
"""

import os
import sys
from pathlib import Path

import pyspark

_LINKED = ("bin", "jars")


def spark_home() -> Path | None:
    """The directory of this interpreter's Spark, made if it is not there; None where none can be made."""
    home = Path(sys.prefix) / "share" / "snapline" / f"spark-{pyspark.__version__}"
    try:
        home.mkdir(parents=True, exist_ok=True)
        for name in _LINKED:
            _link(home / name, Path(pyspark.__file__).parent / name)
    except OSError:
        return None
    return home


def _link(link: Path, target: Path) -> None:
    if link.is_symlink() and link.readlink() == target:
        return
    temporary = link.with_name(f".{link.name}.{os.getpid()}")
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(target)
    # Others may make it at the same time.
    temporary.replace(link)
