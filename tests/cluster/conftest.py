"""One platform on several hosts for all tests."""

import os
import shutil
from collections.abc import Iterator
from glob import glob

import pytest

from tests.contracts.versitygw import why_missing

from .cluster import Cluster


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """An object store, PostgreSQL, Spark with two workers, and two code locations."""
    missing = why_missing()
    if not glob("/usr/lib/postgresql/*/bin/initdb"):
        missing = "PostgreSQL is not installed: apt-get install postgresql"
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        missing = "the services of a cluster need Java: apt-get install default-jdk-headless"
    if missing:
        if os.environ.get("CI") == "true":
            pytest.fail(missing)
        pytest.skip(missing)
    started = Cluster(tmp_path_factory.mktemp("cluster"))
    try:
        started.begin()
        yield started
    finally:
        started.end()
