"""A platform of its own for each test: warehouse, lineage and Dagster instance."""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.resources.sql_runner import runner

if TYPE_CHECKING:
    import dagster as dg

    from resources import Session


@pytest.fixture
def session(spark_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> "Session":
    from resources import Session

    monkeypatch.setenv("SNAPLINE_HOME", str(tmp_path / "home"))
    return Session()


@pytest.fixture
def instance(tmp_path: Path) -> "dg.DagsterInstance":
    import dagster as dg

    return dg.DagsterInstance.ephemeral(tempdir=str(tmp_path))


@pytest.fixture
def materialize(session: "Session", instance: "dg.DagsterInstance") -> Callable[..., Any]:
    """Runs assets in this process, all on one instance."""
    import dagster as dg

    from resources import SparkResource, TablesResource

    def materialize(*assets: Any, **arguments: Any) -> "dg.ExecuteInProcessResult":
        spark = SparkResource()
        resources = {"tables": TablesResource(spark=spark), "spark": spark}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", dg.BetaWarning)
            return dg.materialize([*assets], instance=instance, resources=resources, **arguments)

    return materialize


@pytest.fixture(params=["duckdb", "spark"])
def engine(request: pytest.FixtureRequest) -> str:
    """Each engine in turn."""
    return str(request.param)


@pytest.fixture
def sql(session: "Session", engine: str) -> Callable[[str], Any]:
    """Runs statements; rows as tuples, or the sentence about what was done."""
    return runner(session, engine)
