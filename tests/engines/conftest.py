"""One Spark session for all tests of this folder."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark(spark_home: Path) -> "Iterator[SparkSession]":
    from resources import Settings
    from resources.spark_session import start_spark

    # Stays up for the rest of the test run: starting it again costs seconds.
    yield start_spark(Settings.from_environment())
