"""Where a compaction follows each write: what one that failed has left unseen is seen once anybody writes again."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pytest

from storage import Catalog, CommitConflict, Table
from storage.maintain import compaction
from storage.metadata.trouble import COMPACTION

SCHEMA = pa.schema([pa.field("p", pa.string(), False), pa.field("k", pa.int64(), False), pa.field("v", pa.int64())])
LIFTING = {
    "vectors": {"deletion-vectors.enabled": "true"},
    "first-row told": {"merge-engine": "first-row", "changelog-producer": "lookup"},
    "first-row": {"merge-engine": "first-row"},
    "lookup": {"changelog-producer": "lookup"},
}
Failing = Callable[[str | None], Any]


@pytest.fixture(params=LIFTING.values(), ids=LIFTING.keys())
def table(catalog: Catalog, request: pytest.FixtureRequest) -> Table:
    return made(catalog, request.param)


def made(catalog: Catalog, options: dict[str, str]) -> Table:
    """A table with a bucket for each of its partitions."""
    return catalog.create_table(
        "a.t", SCHEMA, primary_key=["p", "k"], partition_by=["p"], options={"bucket": "1", **options}
    )


def rows(partition: str, *keys: int) -> pa.Table:
    return pa.table({"p": [partition] * len(keys), "k": keys, "v": [1] * len(keys)}, SCHEMA)


def seen(table: Table) -> list[tuple[str, int]]:
    """What readers, and those of changes, see, which is the same here."""
    keys = sorted((row["p"], row["k"]) for row in table.to_arrow().to_pylist())
    if table.store.options.changelog_producer == "lookup":
        assert sorted((row["p"], row["k"]) for row in table.changes().to_pylist()) == keys
    return keys


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Failing:
    """Lets compactions fail within a block: all, or those of a partition."""

    @contextmanager
    def within(partition: str | None) -> Iterator[None]:
        original = compaction.compact_bucket

        def compact_bucket(store: Any, plan: compaction.BucketCompaction) -> compaction.BucketResult:
            if partition in (None, store.partition_values(plan.place[0])["p"]):
                raise OSError("the disk is full")
            return original(store, plan)

        with monkeypatch.context() as patch:
            patch.setattr(compaction, "compact_bucket", compact_bucket)
            yield

    return within


def test_the_next_writer_of_another_bucket_compacts_what_a_failure_has_left(table: Table, failing: Failing) -> None:
    with failing(None):
        assert table.write(rows("one", 1)) is not None
        assert table.write(rows("two", 2)) is not None
    assert [trouble.kind for trouble in table.troubles()] == [COMPACTION]
    table.write(rows("three", 3))
    assert seen(table) == [("one", 1), ("three", 3), ("two", 2)]
    assert table.troubles() == [] and table.check(deep=True) == []


def test_a_bucket_that_cannot_be_compacted_keeps_no_other_from_it(table: Table, failing: Failing) -> None:
    with failing(None):
        table.write(rows("bad", 1))
        table.write(rows("good", 2))
    with failing("bad"):
        table.write(pa.concat_tables([rows("other", 3), rows("bad", 4)]))
        lifted = {entry.partition for entry in table.scan().entries if entry.file.level}
        assert len(lifted) == 2
        assert [trouble.kind for trouble in table.troubles()] == [COMPACTION]
    table.write(rows("other", 5))
    assert seen(table) == [("bad", 1), ("bad", 4), ("good", 2), ("other", 3), ("other", 5)]
    assert table.troubles() == []


def test_a_failed_delete_is_seen_after_the_next_write_elsewhere(catalog: Catalog, failing: Failing) -> None:
    table = made(catalog, LIFTING["vectors"])
    table.write(pa.concat_tables([rows("one", 1, 2), rows("two", 3)]))
    with failing(None):
        table.delete("k = 1")
    assert seen(table) == [("one", 1), ("one", 2), ("two", 3)]
    table.overwrite(rows("two", 4), partition={"p": "two"})
    assert seen(table) == [("one", 2), ("two", 4)] and table.troubles() == []


def test_compacting_another_partition_by_hand_ends_no_trouble(table: Table, failing: Failing) -> None:
    table.write(rows("two", 2))
    with failing(None):
        table.write(rows("one", 1))
    table.compact(partition={"p": "two"})
    assert [trouble.kind for trouble in table.troubles()] == [COMPACTION]
    table.compact(full=False)
    assert table.troubles() == [] and seen(table) == [("one", 1), ("two", 2)]


BY: dict[str, tuple[str, int, Callable[[Table], object]]] = {
    # A writer compacts his own bucket first, then those that wait.
    "writer": ("storage.maintain.compact_in_tries.compact", 2, lambda table: table.write(rows("one", 9))),
    "by hand": ("storage.table_maintenance.compact_in_tries", 1, lambda table: table.compact()),
}


@pytest.mark.parametrize(("name", "at", "act"), BY.values(), ids=BY.keys())
def test_what_fails_for_another_meanwhile_is_kept(
    table: Table,
    failing: Failing,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    at: int,
    act: Callable[[Table], object],
) -> None:
    """He has failed after the buckets that wait were looked for."""
    table.write(rows("one", 1))
    with failing(None):
        table.write(rows("two", 2))
    calls = iter(range(1, 100))
    module, _, function = name.rpartition(".")
    original = getattr(sys.modules[module], function)

    def compact(*given: Any, **named: Any) -> Any:
        made = original(*given, **named)
        if next(calls) == at:
            with failing(None):
                table.write(rows("three", 3))
        return made

    with monkeypatch.context() as patch:
        patch.setattr(name, compact)
        act(table)
    assert [trouble.kind for trouble in table.troubles()] == [COMPACTION]
    table.write(rows("one", 4))
    assert {("one", 1), ("one", 4), ("three", 3), ("two", 2)} <= set(seen(table)) and table.troubles() == []


def test_a_compaction_that_comes_second_each_time_is_a_trouble(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    def compact(*given: Any, **named: Any) -> None:
        raise CommitConflict("somebody came first")

    with monkeypatch.context() as patch:
        patch.setattr("storage.maintain.compact_in_tries.compact", compact)
        assert table.write(rows("one", 1)) is not None
    assert [trouble.kind for trouble in table.troubles()] == [COMPACTION]
    table.write(rows("two", 2))
    assert seen(table) == [("one", 1), ("two", 2)] and table.troubles() == []


@pytest.mark.parametrize("kind", ["vectors", "first-row"])
def test_readers_that_miss_rows_say_so(
    catalog: Catalog, failing: Failing, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Rows of level 0 are not there for readers until they are lifted; where that fails, they are not missing unsaid."""
    table = made(catalog, LIFTING[kind])
    table.write(rows("one", 1))
    with failing(None):
        table.write(rows("one", 2))
    caplog.clear()
    assert seen(table) == [("one", 1)]
    assert "rows that wait for a compaction are not read" in caplog.text and "the disk is full" in caplog.text
    table.write(rows("two", 3))
    caplog.clear()
    assert len(seen(table)) == 3 and not caplog.text
