"""Make the archive of the classes that Spark loads: a rehearsal says which, the JVM writes them down. Run by `make`.

`python -m resources.archive_classes` does nothing if the archive is there, and never fails: without it Spark starts slower.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from .class_archive import QUICK_START, archive_of
from .java import java_home

_PATIENCE_SECONDS = 600


def archive_classes() -> Path:
    """The archive for the Java of this machine, made if it is not there: one to two minutes of a core, about 180 MB.

    Raises OSError or subprocess.SubprocessError if it cannot be made.
    """
    with tempfile.TemporaryDirectory(prefix="snapline-classes-") as scratch:
        java = java_home(Path(scratch))
        archive = archive_of(java)
        if archive.exists():
            return archive
        names = Path(scratch) / "classes"
        class_path = _rehearse(scratch, names)
        archive.parent.mkdir(parents=True, exist_ok=True)
        temporary = archive.with_name(f".{archive.name}.{os.getpid()}")
        try:
            _run(
                [
                    str(java / "bin" / "java"),
                    *QUICK_START.split(),
                    "-Xlog:disable",
                    "-Xshare:dump",
                    f"-XX:SharedClassListFile={names}",
                    f"-XX:SharedArchiveFile={temporary}",
                    "-cp",
                    class_path,
                ],
                {},
            )
            temporary.replace(archive)
        finally:
            temporary.unlink(missing_ok=True)
    return archive


def _rehearse(home: str, names: Path) -> str:
    """Let Spark do what runs do, and have the names of its classes written down. Returns the class path."""
    recording = {"spark.driver.extraJavaOptions": f"{QUICK_START} -Xshare:off -XX:DumpLoadedClassList={names}"}
    return _run(
        [sys.executable, "-m", "resources.rehearsal"],
        {"SNAPLINE_HOME": home, "SNAPLINE_SPARK_CONFIG": json.dumps(recording)},
    ).splitlines()[-1]


def _run(command: list[str], settings: dict[str, str]) -> str:
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("SNAPLINE_")}
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=_PATIENCE_SECONDS,
        check=True,
        stdin=subprocess.DEVNULL,
        env={**inherited, **settings},
    )
    return done.stdout


if __name__ == "__main__":
    try:
        archive_classes()
    except (OSError, subprocess.SubprocessError) as error:
        print(f"Spark starts slower: no archive of its classes could be made ({error}).", file=sys.stderr)
