"""Where readers skip files of level 0: what was done is seen, at once or once it is done again, whoever died meanwhile."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pytest

from storage import Catalog, NotFound, Snapshot, Table
from storage.metadata.snapshot_files import SnapshotFiles

SCHEMA = pa.schema([pa.field("k", pa.int64(), False), pa.field("v", pa.int64())])
HIDING = [
    {"deletion-vectors.enabled": "true"},
    {"merge-engine": "first-row", "changelog-producer": "lookup"},
    {"merge-engine": "first-row"},
]


def rows(*keys: int, value: int = 1) -> pa.Table:
    return pa.table({"k": keys, "v": [value] * len(keys)}, SCHEMA)


def keys(table: Table) -> list[int]:
    return sorted(table.to_arrow()["k"].to_pylist())


def made(catalog: Catalog, options: dict[str, str]) -> Table:
    return catalog.create_table("a.t", SCHEMA, primary_key=["k"], options={"bucket": "1", **options})


class Died(BaseException):
    pass


@pytest.fixture
def dying(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """Runs something that dies right after its first commit."""

    def run(act: Callable[[], object]) -> None:
        with monkeypatch.context() as patch:
            original = SnapshotFiles.create

            def create(self: SnapshotFiles, snapshot: Snapshot, *needed: Any) -> bool:
                if original(self, snapshot, *needed):
                    raise Died
                return False

            patch.setattr(SnapshotFiles, "create", create)
            with suppress(Died):
                act()

    return run


@pytest.fixture
def states(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Table], list[list[int]]]]:
    """What readers see after each commit."""
    created: list[int] = []
    original = SnapshotFiles.create

    def create(self: SnapshotFiles, snapshot: Snapshot, *needed: Any) -> bool:
        is_new = original(self, snapshot, *needed)
        created.extend([snapshot.id] if is_new else [])
        return is_new

    monkeypatch.setattr(SnapshotFiles, "create", create)

    def seen(table: Table) -> list[list[int]]:
        shown = [sorted(table.at(number).to_arrow()["k"].to_pylist()) for number in created]
        created.clear()
        return shown

    yield seen


@pytest.mark.parametrize("options", HIDING, ids=["vectors", "first-row told", "first-row"])
def test_readers_beside_a_rollback_see_the_state_before_or_that_of_its_target(
    catalog: Catalog, options: dict[str, str], states: Callable[[Table], list[list[int]]]
) -> None:
    table = made(catalog, options)
    first = table.write(rows(1, 2))
    table.write(rows(1, 3))
    assert first is not None
    states(table)
    table.rollback_to(first.id)
    assert set(map(tuple, states(table))) == {(1, 2)}
    assert keys(table) == [1, 2] and table.check(deep=True) == []
    table.write(rows(4))
    table.expire(retain_last=1)
    assert keys(table) == [1, 2, 4] and table.check(deep=True) == []


@pytest.mark.parametrize("options", HIDING, ids=["vectors", "first-row told", "first-row"])
def test_who_dies_right_after_a_rollback_has_rolled_back(
    catalog: Catalog, options: dict[str, str], dying: Callable[[Callable[[], object]], None]
) -> None:
    table = made(catalog, options)
    first = table.write(rows(1, 2))
    table.write(rows(1, 3))
    assert first is not None
    dying(lambda: table.rollback_to(first.id))
    assert keys(catalog.table("a.t")) == [1, 2]


def test_a_tag_of_what_no_compaction_had_lifted_is_shown_by_the_one_that_follows(catalog: Catalog) -> None:
    table = made(catalog, HIDING[0])
    first = table.write(rows(1, 2))
    assert first is not None
    table.tags.create("kept", snapshot_id=first.id)
    table.write(rows(3))
    table.expire(retain_last=1)
    table.rollback_to("kept")
    assert keys(table) == [1, 2]


ACTS: list[Callable[[Table], object]] = [
    lambda table: table.delete("k = 2"),
    lambda table: table.update("k = 2", {"v": 9}),
    lambda table: table.write(rows(2, value=9)),
]


@pytest.mark.parametrize("act", ACTS, ids=["delete", "update", "write"])
def test_what_is_repeated_after_a_death_is_seen(
    catalog: Catalog, act: Callable[[Table], object], dying: Callable[[Callable[[], object]], None]
) -> None:
    table = made(catalog, HIDING[0])
    table.write(rows(1, 2, 3))
    dying(lambda: act(table))
    act(catalog.table("a.t"))
    shown = {row["k"]: row["v"] for row in catalog.table("a.t").to_arrow().to_pylist()}
    assert shown.get(2) in (None, 9) and len(shown) in (2, 3)


def test_what_a_failed_compaction_left_unseen_is_seen_once_it_is_repeated(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = made(catalog, HIDING[0])
    table.write(rows(1, 2, 3))

    def fails(*given: Any, **options: Any) -> None:
        raise OSError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr("storage.maintain.compact_in_tries.compact", fails)
        assert table.delete("k = 2") is not None
    assert table.delete("k = 2") is None
    assert keys(table) == [1, 3]


def taken_back(table: Table) -> None:
    target = table.snapshot()
    assert target is not None
    table.write(rows(8))
    table.rollback_to(target.id)


TAKEN_BACK: list[Callable[[Table], object]] = [
    lambda table: table.overwrite(rows(7)),
    lambda table: table.truncate(),
    taken_back,
]


@pytest.mark.parametrize("producer", ["lookup", "full-compaction", "input", "none"])
@pytest.mark.parametrize("act", TAKEN_BACK, ids=["overwrite", "truncate", "rollback"])
def test_an_overwrite_that_has_expired_is_missing_from_changes_by_name(
    catalog: Catalog, producer: str, act: Callable[[Table], object]
) -> None:
    """Also where changelogs are kept for longer: what it did was told by its files."""
    options = {
        "snapshot.num-retained.min": "1",
        "snapshot.num-retained.max": "3",
        "changelog.num-retained.min": "1",
        "changelog.num-retained.max": "20",
        "changelog-producer": producer,
    }
    table = made(catalog, options)
    table.write(rows(9))
    if producer == "full-compaction":
        table.compact(full=True)
    act(table)
    for key in range(20, 25):
        table.write(rows(key))
        if producer == "full-compaction":
            table.compact(full=True)
    with pytest.raises(NotFound, match="expired"):
        table.changes()
