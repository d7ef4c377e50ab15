"""What the store measures of its own work: every commit, plan and call, with what became of it, and nothing without a meter."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest

from storage import Catalog, CommitConflict, CommitId, CommitOutcomeUnknown, StoreUnavailable
from storage import metrics as measured
from storage.file_io import FileIO
from storage.metrics import Metric, set_meter

ROWS = pa.table({"id": range(100), "item": ["a"] * 100})


@dataclass
class Taken:
    """A meter that keeps all it is given."""

    values: list[tuple[Metric, float, dict[str, str]]] = field(default_factory=list)

    def take(self, metric: Metric, value: float, attributes: dict[str, str]) -> None:
        self.values.append((metric, value, attributes))

    def of(self, metric: Metric, **attributes: str) -> list[float]:
        return [value for taken, value, said in self.values if taken is metric and attributes.items() <= said.items()]


@pytest.fixture
def meter() -> Iterator[Taken]:
    taken = Taken()
    set_meter(taken)
    yield taken
    set_meter(None)


def test_a_commit_is_measured_with_what_it_added_and_what_became_of_it(tmp_path: Path, meter: Taken) -> None:
    table = Catalog(str(tmp_path)).create_table("shop.orders", ROWS.schema, primary_key=["id"], options={"bucket": 2})
    assert not meter.of(measured.COMMIT_DURATION)
    table.write(ROWS)
    of_table = {"table": "shop.orders", "kind": "APPEND"}
    assert len(meter.of(measured.COMMIT_DURATION, **of_table, outcome="committed")) == 1
    assert meter.of(measured.COMMIT_ROWS, **of_table) == [100]
    files = [entry.file for entry in table.scan().entries]
    assert meter.of(measured.COMMIT_BYTES, **of_table) == [sum(file.size_bytes for file in files)]
    table.compact(full=True)
    assert len(meter.of(measured.COMMIT_DURATION, table="shop.orders", kind="COMPACT", outcome="committed")) == 1


def test_a_repeated_commit_adds_nothing_again(tmp_path: Path, meter: Taken) -> None:
    table = Catalog(str(tmp_path)).create_table("shop.orders", ROWS.schema)
    for _ in range(2):
        table.write(ROWS, commit_id=CommitId("me", 7, exact=True))
    assert len(meter.of(measured.COMMIT_DURATION, outcome="committed")) == 1
    assert len(meter.of(measured.COMMIT_DURATION, outcome="was there already")) == 1
    assert meter.of(measured.COMMIT_ROWS) == [100]


def test_lost_races_are_counted_and_conflicts_have_a_name(
    tmp_path: Path, meter: Taken, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"commit.timeout": "1 s", "commit.min-retry-wait": "1 ms"}
    table = Catalog(str(tmp_path)).create_table("shop.orders", ROWS.schema, options=options)
    table.write(ROWS)
    monkeypatch.setattr("storage.write.commit.create_on_top", lambda *_: False)
    with pytest.raises(CommitConflict):
        table.write(ROWS)
    assert len(meter.of(measured.COMMIT_DURATION, outcome="conflict")) == 1
    assert sum(meter.of(measured.COMMIT_RETRIES, table="shop.orders")) >= 1


@pytest.mark.parametrize(("error", "outcome"), [(CommitOutcomeUnknown, "unknown"), (StoreUnavailable, "failed")])
def test_a_commit_that_fails_is_told_from_one_whose_end_nobody_knows(
    tmp_path: Path, meter: Taken, monkeypatch: pytest.MonkeyPatch, error: type[Exception], outcome: str
) -> None:
    table = Catalog(str(tmp_path)).create_table("shop.orders", ROWS.schema)

    def fail(*_: object) -> bool:
        raise error("The store is away.")

    monkeypatch.setattr("storage.write.commit.create_on_top", fail)
    with pytest.raises(error):
        table.write(ROWS)
    assert len(meter.of(measured.COMMIT_DURATION, outcome=outcome)) == 1
    assert not meter.of(measured.COMMIT_ROWS)


def test_a_plan_counts_the_files_that_are_left_to_read(tmp_path: Path, meter: Taken) -> None:
    table = Catalog(str(tmp_path)).create_table("shop.orders", ROWS.schema)
    table.write(ROWS)
    table.write(pa.table({"id": range(1000, 1010), "item": ["b"] * 10}))
    table.to_arrow(where="id >= 1000")
    assert meter.of(measured.PLAN_FILES, table="shop.orders") == [1]
    assert meter.of(measured.PLAN_ROWS, table="shop.orders") == [10]
    assert len(meter.of(measured.PLAN_DURATION, table="shop.orders")) == 1
    assert meter.of(measured.PLAN_BYTES, table="shop.orders")[0] > 0


def test_calls_say_what_they_were_and_whether_they_were_answered(
    tmp_path: Path, meter: Taken, monkeypatch: pytest.MonkeyPatch
) -> None:
    file_io = FileIO(str(tmp_path))
    file_io.write_bytes(f"{tmp_path}/a", b"a")
    assert file_io.read_bytes_or_none(f"{tmp_path}/none") is None
    assert len(meter.of(measured.STORE_CALL_DURATION, operation="write", protocol="file", outcome="answered")) == 1
    assert len(meter.of(measured.STORE_CALL_DURATION, operation="read", outcome="answered")) == 1
    monkeypatch.setattr("storage.file_io.write_file", lambda *_: (_ for _ in ()).throw(OSError(5, "gone")))
    with pytest.raises(StoreUnavailable):
        file_io.write_bytes(f"{tmp_path}/b", b"b")
    assert len(meter.of(measured.STORE_CALL_DURATION, operation="write", outcome="failed")) == 1


def test_nothing_is_measured_without_a_meter(tmp_path: Path, meter: Taken) -> None:
    set_meter(None)
    table = Catalog(str(tmp_path)).create_table("shop.orders", ROWS.schema)
    table.write(ROWS)
    table.to_arrow()
    assert not meter.values
