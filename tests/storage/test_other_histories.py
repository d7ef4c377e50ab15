"""A number of a snapshot means another one on another branch, or once main has been replaced: who goes by a number is told so,
and a mirror that is fed by changes is equal to the table, or refused.
"""

import datetime as dt
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from storage import Catalog, CommitConflict, CorruptData, InvalidRequest, NotFound, Table, operation_of
from storage.consumers import Consumption
from storage.metadata import manifest
from storage.metadata.consumer import ConsumerFiles
from storage.metadata.snapshot import Snapshot
from storage.metadata.table_store import TableStore
from storage.read.split_read import ReadRequest
from storage.read.stream_scan import next_position, plan_step

SCHEMA = pa.schema([("day", pa.string()), ("id", pa.int64()), ("item", pa.string())])
NAME = "a.t"


def batch(*ids: int, item: str = "main", day: str = "x") -> pa.Table:
    return pa.table({"day": [day] * len(ids), "id": list(ids), "item": [item] * len(ids)}, SCHEMA)


def rows(table: Table, **options: Any) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in table.to_arrow(**options).to_pylist())


@pytest.fixture(params=["keyed", "plain"])
def table(request: pytest.FixtureRequest, catalog: Catalog) -> Table:
    keyed = {"primary_key": ["day", "id"], "options": {"bucket": 1}} if request.param == "keyed" else {}
    made = catalog.create_table(NAME, SCHEMA, partition_by=["day"], **keyed)
    made.write(batch(1))
    made.write(batch(2))
    return made


class Mirror:
    """What a reader of changes makes of them, as the consumer `mirror`."""

    def __init__(self, table: Table) -> None:
        self.counts = Counter(rows(table))
        table.consumers.reset("mirror", (table.store.snapshots.latest_id() or 0) + 1)

    def follow(self, table: Table) -> None:
        store = table.store
        reader = Consumption(store, "mirror")
        position = reader.position()
        assert position is not None
        end = next_position(store, position, snapshots_at_once=None)
        reader.record(position)
        for split in plan_step(ReadRequest(store, tuple(SCHEMA.names), None), position, end):
            for change in pa.Table.from_batches(list(split.read())).to_pylist() if split else []:
                kind, _ = change.pop("rowkind"), change.pop("snapshot_id")
                key = tuple(change.values())
                if kind in ("+I", "+U") and table.schema.primary_keys:
                    self.counts = Counter({row: 1 for row in self.counts if row[:2] != key[:2]} | {key: 1})
                elif kind in ("+I", "+U"):
                    self.counts[key] += 1
                else:
                    self.counts[key] -= 1
        reader.record(end)

    @property
    def rows(self) -> list[tuple[Any, ...]]:
        return sorted(self.counts.elements())


def test_a_mirror_goes_on_from_what_main_and_the_branch_have_in_common(catalog: Catalog, table: Table) -> None:
    mirror = Mirror(table)
    table.branches.create("fix")
    for number in (5, 6):
        table.on_branch("fix").write(batch(number, item="fixed"))
    table.branches.replace_main("fix")
    table = catalog.table(NAME)
    mirror.follow(table)
    assert mirror.rows == rows(table)


def test_a_mirror_that_has_read_a_compaction_of_main_goes_on_from_before(catalog: Catalog, table: Table) -> None:
    mirror = Mirror(table)
    table.branches.create("fix")
    for number in (5, 6):
        table.on_branch("fix").write(batch(number, item="fixed"))
    assert table.compact(full=True) is not None
    mirror.follow(table)
    assert table.consumers.get("mirror").next_snapshot_id == 4
    table.branches.replace_main("fix")
    table = catalog.table(NAME)
    assert table.consumers.get("mirror").next_snapshot_id == 3
    mirror.follow(table)
    assert mirror.rows == rows(table)


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("elsewhere", [True, False])
def test_a_mirror_that_has_read_what_only_main_had_is_refused(
    catalog: Catalog, table: Table, elsewhere: bool, count: int
) -> None:
    """Whether the new main has come to that number already, or not: snapshot 3 of it is another one than it has read."""
    mirror = Mirror(table)
    table.branches.create("fix")
    for number in range(count):
        table.on_branch("fix").write(batch(5 + number, item="fixed"))
    table.write(batch(9, day="y" if elsewhere else "x"))
    mirror.follow(table)
    table.branches.replace_main("fix", discard_main=not elsewhere)
    table = catalog.table(NAME)
    for _ in range(2):
        with pytest.raises(
            NotFound, match=r"'mirror' has read .* up to a snapshot 3 that is not in its history.*reset"
        ):
            mirror.follow(table)
        table.write(batch(20))
    # What it says is what helps.
    mirror = Mirror(table)
    table.write(batch(21))
    mirror.follow(table)
    assert mirror.rows == rows(table)


def test_a_consumer_of_before_is_handed_over_by_what_main_has_under_its_number(catalog: Catalog, table: Table) -> None:
    """Files that an earlier version, or another program, wrote say nothing but a number."""
    table.branches.create("fix")
    table.on_branch("fix").write(batch(5, item="fixed"))
    table.write(batch(9, day="y"))
    for name, number in (("early", 2), ("late", 4)):
        Path(table.store.paths.consumer_directory).mkdir(exist_ok=True)
        Path(table.store.paths.consumer(name)).write_text(f'{{"nextSnapshot": {number}}}')
    table.branches.replace_main("fix")
    table = catalog.table(NAME)
    assert Consumption(table.store, "early").position() == 1
    with pytest.raises(NotFound, match="not in its history"):
        Consumption(table.store, "late").position()


def test_a_consumer_of_a_history_that_another_program_cut_short_is_refused(table: Table) -> None:
    """As Java Paimon rolls back: the numbers are given again."""
    mirror = Mirror(table)
    kept = Path(table.store.paths.snapshot(2))
    kept.unlink()
    (kept.parent / "LATEST").write_text("1")
    with pytest.raises(NotFound, match="up to a snapshot 2 that is not in its history"):
        mirror.follow(table)
    table.write(batch(8))
    with pytest.raises(NotFound, match="up to a snapshot 2 that is not in its history"):
        mirror.follow(table)


def test_a_consumer_whose_last_snapshot_has_expired_goes_on(table: Table) -> None:
    mirror = Mirror(table)
    for number in range(4):
        table.write(batch(10 + number))
    table.expire(retain_last=1)
    assert table.store.snapshots.ids()[0] == 3
    mirror.follow(table)
    assert mirror.rows == rows(table)


def test_a_consumer_is_reset_beyond_a_damaged_snapshot(table: Table) -> None:
    mirror = Mirror(table)
    for number in range(3):
        table.write(batch(10 + number))
    Path(table.store.paths.snapshot(3)).write_text("{")
    with pytest.raises(CorruptData, match="snapshot-3"):
        mirror.follow(table)
    table.consumers.reset("mirror", 4)
    mirror.follow(table)
    assert [row[1] for row in mirror.rows] == [1, 2, 11, 12]


# --- tags of another branch


@pytest.fixture
def tagged(table: Table) -> Table:
    """Main has a tag of snapshot 3 of the branch `fix`, and a snapshot 3 of its own."""
    table.tags.create("fork")
    table.branches.create("fix", tag="fork")
    table.on_branch("fix").write(batch(5, item="fixed"))
    table.on_branch("fix").tags.create("theirs")
    table.on_branch("fix").write(batch(6, item="fixed"))
    table.write(batch(9, day="y"))
    table.branches.merge("fix")
    return table


THEIRS = [("x", 1, "main"), ("x", 2, "main"), ("x", 5, "fixed")]


def test_a_rollback_to_a_tag_of_another_branch_is_to_that_very_snapshot(tagged: Table) -> None:
    tagged.rollback_to("theirs")
    assert rows(tagged) == THEIRS
    assert tagged.check(deep=True) == []
    # Nothing of main's own snapshot 3 is in it: a merge that goes by the number would count on its rows.
    tagged.branches.create("next")
    tagged.on_branch("next").write(batch(7))
    tagged.branches.merge("next")
    assert rows(tagged) == [*THEIRS, ("x", 7, "main")]


@pytest.mark.parametrize("insist", [True, False])
def test_a_merge_after_a_rollback_to_a_tag_of_another_branch_loses_no_rows_unseen(tagged: Table, insist: bool) -> None:
    tagged.branches.create("own", snapshot_id=3)
    tagged.on_branch("own").write(batch(30, day="z"))
    tagged.rollback_to("theirs")
    verdict = tagged.branches.verdict("own")
    # Main's own snapshot 3, with 9 of y, is not what its rows are made of any more.
    assert verdict.common != 3
    if insist:
        tagged.branches.merge("own", discard_main=True)
        assert rows(tagged) == [("x", 1, "main"), ("x", 2, "main"), ("y", 9, "main"), ("z", 30, "main")]
    elif verdict.kind == "diverged":
        with pytest.raises(CommitConflict, match="diverged"):
            tagged.branches.merge("own")
        assert rows(tagged) == THEIRS
    else:
        tagged.branches.merge("own")
        assert set(rows(tagged)) >= {*THEIRS, ("z", 30, "main")}
    assert tagged.check(deep=True) == []


def test_files_that_a_rollback_to_a_tag_brought_back_are_not_added_twice(tagged: Table) -> None:
    tagged.rollback_to(2)
    made = tagged.rollback_to("theirs")
    assert made is not None
    assert operation_of(made) == "ROLLBACK to 3 of branch fix"
    assert rows(tagged) == THEIRS
    assert [snapshot.id for snapshot in tagged.branches.verdict("fix").new] == [4]
    tagged.branches.merge("fix", discard_main=bool(tagged.schema.primary_keys))
    assert rows(tagged) == [*THEIRS, ("x", 6, "fixed")]
    assert tagged.check(deep=True) == []


def test_a_rollback_of_a_branch_says_nothing_about_main_once_it_is_merged(table: Table) -> None:
    """It is to a number of the branch, which only a tag has kept."""
    table.tags.create("fork")
    table.branches.create("fix", tag="fork")
    fix = table.on_branch("fix")
    for number in (5, 6, 7):
        fix.write(batch(number, item="fixed"))
        fix.tags.create(f"at {number}")
    fix.expire(retain_last=1)
    fix.rollback_to("at 5")
    table.branches.merge("fix")
    assert rows(table) == rows(fix) == [("x", 1, "main"), ("x", 2, "main"), ("x", 5, "fixed")]
    merged = table.snapshot()
    assert merged is not None
    assert "snapline.rolled-back-to" not in dict(merged.properties or {})
    assert not table.is_taken_back(1)


def test_a_number_is_never_that_of_a_tag_of_another_branch(tagged: Table, catalog: Catalog) -> None:
    for number in range(6):
        tagged.write(batch(40 + number))
    tagged.expire(retain_last=1)
    assert rows(tagged, version="theirs") == THEIRS
    with pytest.raises(NotFound, match=r"Snapshot 3 of .* does not exist"):
        tagged.to_arrow(version=3)
    assert rows(tagged, version=2) == rows(tagged, version="fork")


def test_changes_after_a_tag_of_another_branch_are_refused(tagged: Table) -> None:
    for ask in (
        lambda: tagged.changes(after="theirs"),
        lambda: tagged.changes(until="theirs"),
        lambda: tagged.changes(after="fix.theirs"),
        lambda: tagged.changed_partitions(after="theirs"),
    ):
        with pytest.raises(InvalidRequest, match=r"not in the history of .*branch 'fix'|version of branch 'fix'"):
            ask()
    assert tagged.changes(after="fork").num_rows == 3


def test_tags_of_what_both_had_are_those_of_the_new_main(catalog: Catalog, table: Table) -> None:
    table.tags.create("old", snapshot_id=1)
    table.write(batch(3))
    table.expire(retain_last=1)
    table.branches.create("fix")
    table.on_branch("fix").write(batch(5, item="fixed"))
    table.branches.replace_main("fix")
    table = catalog.table(NAME)
    assert rows(table, version=1) == [("x", 1, "main")]
    table.rollback_to("old")
    assert rows(table) == [("x", 1, "main")]


# --- a consumer that begins, and dies


def test_who_dies_before_it_is_sure_that_a_consumer_can_begin_leaves_none(
    table: Table, monkeypatch: pytest.MonkeyPatch, clock: Any
) -> None:
    table.write(batch(3))
    table.consumers.reset("known", 3)
    put = ConsumerFiles.put

    def die(self: ConsumerFiles, *given: Any, **named: Any) -> bytes | None:
        raise KeyboardInterrupt

    for name in ("new", "known"):
        monkeypatch.setattr(ConsumerFiles, "put", die)
        with pytest.raises(KeyboardInterrupt):
            table.consumers.reset(name, 1)
        monkeypatch.setattr(ConsumerFiles, "put", put)
    assert [(consumer.name, consumer.next_snapshot_id) for consumer in table.consumers.list()] == [("known", 3)]
    with pytest.raises(NotFound):
        table.consumers.delete("new")
    # What they were to read is kept until it is known that they have died.
    table.expire(retain_last=1)
    assert table.store.snapshots.ids() == [1, 2, 3]
    table.remove_orphan_files(older_than=dt.timedelta(0), no_writers=True)
    table.expire(retain_last=1)
    assert table.store.snapshots.ids() == [3]
    assert [(consumer.name, consumer.next_snapshot_id) for consumer in table.consumers.list()] == [("known", 3)]
    assert table.check() == []


def test_a_reset_that_comes_after_one_that_died_goes_on(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    put = ConsumerFiles.put

    def die(self: ConsumerFiles, *given: Any, **named: Any) -> bytes | None:
        raise KeyboardInterrupt

    monkeypatch.setattr(ConsumerFiles, "put", die)
    with pytest.raises(KeyboardInterrupt):
        table.consumers.reset("new", 1)
    monkeypatch.setattr(ConsumerFiles, "put", put)
    table.consumers.reset("new", 2)
    assert table.consumers.get("new").next_snapshot_id == 2


# --- what expires while it is read


def test_a_reader_whose_snapshot_expires_is_told_so(table: Table) -> None:
    scan, late = table.scan(), table.scan()
    splits = scan.splits
    table.overwrite(batch(7), partition={"day": "x"})
    table.expire(retain_last=1)
    for read in (lambda: [list(split.read()) for split in splits], late.to_arrow, late.count):
        manifest.forget()
        with pytest.raises(
            NotFound, match=r"Snapshot 2 of a\.t has expired while it was read\. Existing snapshot: 3\."
        ):
            read()


def test_a_tagged_snapshot_whose_file_is_missing_has_not_expired(table: Table) -> None:
    table.tags.create("kept")
    table.overwrite(batch(7), partition={"day": "x"})
    table.expire(retain_last=1)
    scan = table.scan(version="kept")
    Path(scan.splits[0].file_paths[0]).unlink()
    with pytest.raises(NotFound, match=r"^(?!.*has expired while)"):
        scan.to_arrow()


def test_a_merge_whose_judged_snapshots_expire_is_judged_again(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    table.tags.create("fork")
    table.branches.create("fix", tag="fork")
    table.on_branch("fix").write(batch(5, item="fixed"))
    for number in range(3):
        table.write(batch(20 + number, day="y"))
    original, first = TableStore.delta_of, iter([True])

    def late(self: TableStore, snapshot: Snapshot) -> Any:
        if next(first, False):
            table.overwrite(batch(25, day="y"), partition={"day": "y"})
            table.expire(retain_last=1)
        return original(self, snapshot)

    monkeypatch.setattr(TableStore, "delta_of", late)
    try:
        table.branches.merge("fix")
    except CommitConflict as error:
        # What has expired cannot be judged any more.
        assert "diverged" in str(error)
    assert table.check(deep=True) == []


def test_who_holds_a_main_that_was_replaced_is_told_so_whatever_he_asks(catalog: Catalog, table: Table) -> None:
    table.tags.create("two")
    table.branches.create("fix")
    table.on_branch("fix").write(batch(5, item="fixed"))
    held, scan = catalog.table(NAME), catalog.table(NAME).scan()
    table.branches.replace_main("fix")
    for ask in (
        lambda: held.to_arrow(version="two"),
        lambda: held.to_arrow(version=1),
        lambda: held.tags.get("two"),
        lambda: held.changes(after=1),
        lambda: held.tags.delete("two"),
        lambda: held.branches.create("b", tag="two"),
        lambda: held.rollback_to("two"),
        lambda: held.tags.create("b", snapshot_id=1),
        lambda: held.consumers.reset("c", 1),
    ):
        with pytest.raises(CommitConflict, match="Open it again"):
            ask()
    assert scan is not None
