"""What tests of every room use."""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from storage import Catalog, FixedClock, Table

ROOT = Path(__file__).parent.parent
PYPAIMON = ROOT / ".venv" / "pypaimon" / "bin" / "python"
DAY_MS = 86_400_000


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock()


@pytest.fixture
def catalog(tmp_path: Path, clock: FixedClock) -> Catalog:
    return Catalog(str(tmp_path / "warehouse"), clock=clock)


@pytest.fixture
def orders(catalog: Catalog) -> Table:
    """A table with a primary key, two buckets, and no rows yet."""
    schema = pa.schema([("id", pa.int64()), ("item", pa.string())])
    return catalog.create_table("shop.orders", schema, primary_key=["id"], options={"bucket": 2})


@pytest.fixture
def events(catalog: Catalog) -> Table:
    """A table without a key, partitioned by day."""
    schema = pa.schema([("day", pa.string()), ("what", pa.string())])
    return catalog.create_table("shop.events", schema, partition_by=["day"])


@pytest.fixture(scope="session")
def run_pypaimon() -> Callable[..., str]:
    """Runs a Python script in pypaimon's environment and returns what it printed."""

    def run(script: str, *arguments: str) -> str:
        assert PYPAIMON.exists(), "pypaimon is not installed: `make test` does it"
        done = subprocess.run(
            [str(PYPAIMON), "-c", script, *arguments], capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout

    return run


@pytest.fixture(scope="session")
def spark_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """SNAPLINE_HOME of everything in this test run that uses Spark; set for the whole session."""
    home = tmp_path_factory.mktemp("snapline-home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SNAPLINE_HOME", str(home))
        patch.setenv("DAGSTER_HOME", str(home / "dagster"))
        (home / "dagster").mkdir()
        yield home
