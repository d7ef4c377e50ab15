"""What tests of every room use."""

import gc
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest

from storage import Catalog, FixedClock, StorageError, Table
from storage.metadata import manifest
from tests.interop.java_paimon import JavaPaimon, why_missing
from tests.interop.second_reader import JavaReader, PypaimonReader, SecondReader, read_alike, tables_under
from tests.scale import FULL
from tests.turns import in_turn, is_time_over, left_out_of

ROOT = Path(__file__).parent.parent
PYPAIMON = ROOT / ".venv" / "pypaimon" / "bin" / "python"
DAY_MS = 86_400_000
NO_TIME = "SNAPLINE_TEST_UNTIL is past"
_MEMORY = "/dev/shm"
_ROOM = 6 << 30


def pytest_configure() -> None:
    """Thousands of small files are made: in memory, where there is room, that takes a fraction of the time."""
    if os.access(_MEMORY, os.W_OK) and shutil.disk_usage(_MEMORY).free > _ROOM:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", _MEMORY)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of the cases of a test that is marked `one_in(n)`, and of those that try on Spark what another case tries on DuckDB, a part
    is run; all in `make test-full`, and whichever is named.
    """
    if FULL or any("::" in word for word in config.args):
        return
    left_out = set(left_out_of(items))
    items[:] = in_turn([item for item in items if item not in left_out])
    config.hook.pytest_deselected(items=list(left_out))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Begin no test when time is over: what it needs is not even set up."""
    if is_time_over():
        pytest.skip(NO_TIME)


def pytest_collection_finish() -> None:
    """What was imported and collected lives to the end: the collector of garbage need not walk through it again and again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def pytest_unconfigure() -> None:
    """What is left is taken apart as ever."""
    gc.unfreeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One more than there are cores: a third of the time tests wait for processes of their own."""
    return len(os.sched_getaffinity(0)) + 1


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say which second reader has read nothing."""
    if missing := why_missing():
        terminalreporter.write_line(f"No table was read by Java: {missing}.")
    if not_reached := sum(NO_TIME in str(report.longrepr) for report in terminalreporter.stats.get("skipped", [])):
        terminalreporter.write_line(f"Time was over before {not_reached} tests began: another turn begins with them.")


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
def java() -> Iterator[JavaPaimon]:
    """Paimon's Java library; a test that needs it is skipped where it is not built, and fails in CI."""
    missing = why_missing()
    if missing and os.environ.get("CI") == "true":
        pytest.fail(missing)
    if missing:
        pytest.skip(missing)
    paimon = JavaPaimon()
    yield paimon
    paimon.close()


@pytest.fixture(scope="session")
def second_readers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[SecondReader]]:
    """The other readers of the format that are installed. In CI none may be missing."""
    readers: list[SecondReader] = []
    if PYPAIMON.exists():
        readers.append(PypaimonReader(PYPAIMON, tmp_path_factory.mktemp("second-reader")))
    missing = why_missing()
    if missing is None:
        readers.append(JavaReader(JavaPaimon()))
    elif os.environ.get("CI") == "true":
        pytest.fail(missing)
    yield readers
    for reader in readers:
        reader.close()


@pytest.fixture(autouse=True)
def tables_read_alike(request: pytest.FixtureRequest, second_readers: list[SecondReader]) -> Iterator[None]:
    """Every table that a test leaves behind is read by pypaimon and Java as well, and must hold the same rows.

    A test marked `pypaimon_differs` or `java_differs` says why not. What a reader calls unsupported is left out, and so is
    what is broken.
    """
    directory = request.getfixturevalue("tmp_path") if "tmp_path" in request.fixturenames else None
    yield
    readers = [
        second_reader for second_reader in second_readers if not request.node.get_closest_marker(second_reader.differs)
    ]
    if directory is None or not readers:
        return
    # What is remembered of a table would hide that a test has broken its files.
    manifest.forget()
    for warehouse, name, table in tables_under(directory):
        ours = None
        with suppress(StorageError, OSError):
            ours = table.to_arrow()
        for reader in readers if ours is not None else ():
            read_alike(reader, warehouse, name, ours)


@pytest.fixture(scope="session")
def spark_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """SNAPLINE_HOME of everything in this test run that uses Spark; set for the whole session."""
    home = tmp_path_factory.mktemp("snapline-home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SNAPLINE_HOME", str(home))
        patch.setenv("DAGSTER_HOME", str(home / "dagster"))
        (home / "dagster").mkdir()
        yield home
