"""What people found who had not written it, about expiry, branches that become main, and what they remember."""

import datetime as dt
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from storage import AddColumn, Catalog, CommitConflict, CommitId, NotFound, Table
from storage.journal import UNDONE
from storage.metadata import manifest
from tests.storage.branched_tables import half_publish

# A publication of the branch `b` that dies before the second of two tables has it.
PAIR: dict[str, Any] = {"branch": "b", "tables": ["shop.first", "shop.second"], "before": "shop.second"}
SCHEMA = pa.schema([("day", pa.string()), ("id", pa.int64()), ("n", pa.int64())])


def batch(id: int, n: int = 0, day: str = "x") -> pa.Table:
    return pa.table({"day": [day], "id": [id], "n": [n]}, SCHEMA)


def rows(table: Table) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in table.to_arrow().to_pylist())


HISTORIES: dict[str, Callable[[Table, int], Any]] = {
    "writes": lambda table, turn: table.write(batch(1, turn)),
    "overwrites": lambda table, turn: table.overwrite(batch(turn)),
    "rollbacks": lambda table, turn: (
        table.write(batch(1, turn)) if turn % 3 else table.rollback_to(table.snapshot().id - 1)
    ),  # type: ignore[union-attr]
    "truncations": lambda table, turn: table.write(batch(1, turn)) if turn % 2 else table.truncate(),
}


@pytest.mark.parametrize("producer", ["none", "input", "lookup", "full-compaction"])
@pytest.mark.parametrize("history", HISTORIES)
def test_kept_changelogs_expire_in_processes_that_have_read_nothing(
    catalog: Catalog, history: str, producer: str
) -> None:
    options = {
        "bucket": 1,
        "changelog-producer": producer,
        "snapshot.num-retained.min": 1,
        "snapshot.num-retained.max": 3,
        "changelog.num-retained.min": 2,
        "changelog.num-retained.max": 5,
    }
    table = catalog.create_table("shop.t", SCHEMA, primary_key=["id"], options=options)
    for turn in range(1, 10):
        # Each process begins with an empty cache.
        manifest.forget()
        HISTORIES[history](table, turn)
        manifest.forget()
        assert table.check(deep=True) == []
    manifest.forget()
    table.expire(retain_last=1)
    assert len(table.store.changelogs.ids()) <= 5
    assert table.check(deep=True) == []


@pytest.fixture
def keyed(catalog: Catalog) -> Table:
    table = catalog.create_table("shop.t", SCHEMA, primary_key=["id"], options={"bucket": 1})
    table.write(batch(1))
    table.branches.create("b")
    return table


@pytest.mark.parametrize("discard", [True, False])
@pytest.mark.parametrize("taken", ["merge", "fast_forward"])
def test_a_tag_of_columns_that_the_branch_lacks_is_read_once_the_branch_is_main(
    catalog: Catalog, keyed: Table, taken: str, discard: bool
) -> None:
    keyed.alter(AddColumn("x", "INT"))
    main = catalog.table("shop.t")
    main.on_branch("b").write(batch(1, 5))
    main.write(batch(2).append_column("x", pa.array([7], pa.int32())))
    main.tags.create("keep")
    before = rows(main.at("keep"))
    getattr(main.branches, taken)("b", discard_main=True)
    main.branches.replace_main("b", discard_main=discard)
    replaced = catalog.table("shop.t")
    assert rows(replaced.at("keep")) == before
    assert replaced.check(deep=True) == []


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("empty", [True, False])
@pytest.mark.parametrize("expired", [True, False])
def test_a_commit_that_was_given_up_with_main_is_not_repeated(
    catalog: Catalog, keyed: Table, expired: bool, empty: bool, exact: bool
) -> None:
    if empty:
        keyed.branches.delete("b")
        keyed.branches.create("b", empty=True)
    keyed.write(batch(2), commit_id=CommitId("job", 4, exact))
    keyed.on_branch("b").write(batch(3), commit_id=CommitId("job", 3, exact))
    if expired:
        keyed.write(batch(4))
        keyed.expire(retain_last=1)
    keyed.branches.replace_main("b", discard_main=True)
    main = catalog.table("shop.t")
    kept = rows(main)
    main.write(batch(2), commit_id=CommitId("job", 4, exact))
    assert rows(main) == kept
    main.write(batch(5), commit_id=CommitId("job", 5, exact))
    assert len(rows(main)) == len(kept) + 1


def test_a_table_that_has_gone_is_not_compacted_in_vain(catalog: Catalog, keyed: Table) -> None:
    keyed.compact()
    catalog.drop_table("shop.t")
    with pytest.raises(NotFound, match="not the table any more"):
        keyed.compact()


def test_changes_after_a_snapshot_that_has_expired_are_those_of_the_next(keyed: Table) -> None:
    keyed.write(batch(2))
    keyed.write(batch(3))
    keyed.expire(retain_last=1)
    assert [row["id"] for row in keyed.changes(after=2).to_pylist()] == [3]
    assert keyed.changed_partitions(after=2) == [{}]
    for after in (1, 0, 4):
        with pytest.raises(NotFound):
            keyed.changes(after=after)


@pytest.mark.parametrize("side", ["main", "branch"])
@pytest.mark.parametrize("producer", ["none", "lookup"])
def test_an_expiry_leaves_what_an_open_publication_is_judged_by(catalog: Catalog, producer: str, side: str) -> None:
    for name in ("shop.first", "shop.second"):
        table = catalog.create_table(
            name,
            SCHEMA,
            primary_key=["day", "id"],
            partition_by=["day"],
            options={"bucket": 1, "changelog-producer": producer},
        )
        table.write(batch(1, day="kept"))
        table.write(batch(2, day="kept"))
    branches = catalog.branch_set("b", ["shop.first", "shop.second"])
    branches.create()
    for name in branches.tables:
        table = catalog.table(name)
        for n in range(2):
            table.on_branch("b").write(batch(1, n, day="fixed"))
            table.write(batch(3 + n, day="kept"))

    half_publish(catalog, **PAIR)
    # It cannot be undone any more.
    catalog.table("shop.first").write(batch(9, day="kept"))
    second = catalog.table("shop.second")
    (second if side == "main" else second.on_branch("b")).expire(retain_last=1)
    with pytest.raises(CommitConflict):
        catalog.recover(undo=True)
    catalog.recover()
    assert rows(catalog.table("shop.second")) == [("fixed", 1, 1), *(("kept", id, 0) for id in (1, 2, 3, 4))]


@pytest.fixture
def pair(catalog: Catalog) -> Catalog:
    for name in ("shop.first", "shop.second"):
        table = catalog.create_table(name, SCHEMA, primary_key=["id"], options={"bucket": 1})
        for n in range(3):
            table.write(pa.concat_tables([batch(1, n), batch(2, n), batch(3, n)]))
    catalog.branch_set("b", ["shop.first", "shop.second"]).create()
    return catalog


@pytest.mark.parametrize("writes", [1, 3])
def test_what_is_written_while_a_publication_is_undone_stays_the_latest(pair: Catalog, writes: int) -> None:
    for name in ("shop.first", "shop.second"):
        pair.table(name).on_branch("b").overwrite(batch(1, 100))
    half_publish(pair, **PAIR)
    [publication] = pair._journal.all_open()
    pair._journal.decide(publication, UNDONE)
    first = pair.table("shop.first")
    for n in range(writes):
        first.write(batch(2, 777 + n))
    pair.recover(undo=True)
    assert rows(first) == [("x", 1, 2), ("x", 2, 776 + writes), ("x", 3, 2)]
    first.write(batch(2, 5))
    assert rows(first)[1] == ("x", 2, 5)
    first.compact()
    assert rows(first) == [("x", 1, 2), ("x", 2, 5), ("x", 3, 2)]
    assert first.check(deep=True) == []
    assert first.remove_orphan_files(no_writers=True, older_than=dt.timedelta(0)) == []


def test_a_publication_of_a_branch_without_rows_of_its_own_is_undone(pair: Catalog) -> None:
    pair.table("shop.first").on_branch("b").alter(AddColumn("w", "INT"))
    pair.table("shop.second").on_branch("b").write(batch(9, 9))
    for name in ("shop.first", "shop.second"):
        pair.table(name).write(batch(2, 22))
    half_publish(pair, discard_main=True, **PAIR)
    pair.recover(undo=True)
    for name in ("shop.first", "shop.second"):
        assert [row[:3] for row in rows(pair.table(name))] == [("x", 1, 2), ("x", 2, 22), ("x", 3, 2)]


def test_what_a_main_was_replaced_with_is_not_replaced_by_numbers_of_the_one_before(
    catalog: Catalog, keyed: Table
) -> None:
    keyed.branches.create("other")
    for n in range(8):
        keyed.write(batch(2, n))
    keyed.branches.create("fix")
    keyed.on_branch("fix").write(batch(1, 100))
    newest = keyed.snapshot()
    assert newest is not None
    keyed.on_branch("other").write(batch(3))
    keyed.branches.replace_main("other", discard_main=True)
    main = catalog.table("shop.t")
    main.write(batch(4, 444))
    before = rows(main)
    with pytest.raises(CommitConflict, match="was replaced, or made anew, since"):
        main.branches.adopt("fix", until=newest.id, commit_id=CommitId("adopter", 1, exact=True))
    assert rows(main) == before
