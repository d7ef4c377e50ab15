"""Branches of several tables: published all or none, whatever dies in between, and seen all or none."""

import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from storage import (
    AddColumn,
    AlreadyExists,
    Catalog,
    CommitConflict,
    CommitId,
    InvalidRequest,
    NotFound,
    StorageError,
    StoreUnavailable,
    Table,
    branch_set,
    store_errors,
)
from storage.branches import Branches
from storage.file_io import FileIO
from storage.journal import Publication
from storage.maintain import delete_branch
from storage.maintain.delete_branch import delete_branches, origins_of
from storage.metadata.snapshot import Snapshot
from storage.metadata.table_store import TableStore
from storage.write.close import DELETION, close, closed_for
from tests.scale import FULL
from tests.storage.branched_tables import (
    FIXED,
    NAMES,
    OLD,
    SCHEMA,
    all_held,
    dying_before,
    fork_tables,
    half_publish,
    held,
    make_tables,
    rows,
)


@pytest.fixture
def tables(catalog: Catalog) -> list[Table]:
    return make_tables(catalog)


@pytest.fixture
def forked(catalog: Catalog, tables: list[Table]) -> list[Table]:
    return fork_tables(catalog, tables)


def test_versions_of_other_tables_are_refused_and_numbers_of_any_kind_are_numbers(catalog: Catalog) -> None:
    schema = pa.schema([("id", pa.int64())])
    table = catalog.create_table("a.one", schema, primary_key=["id"], options={"bucket": 1})
    table.write(pa.table({"id": [1]}, schema))
    table.write(pa.table({"id": [2]}, schema))
    with pytest.raises(InvalidRequest, match=r"a\.typo"):
        catalog.branch_set("fix", ["a.one"]).create({"a.typo": 1})
    catalog.branch_set("fix", ["a.one"]).create({"a.one": np.int64(1)})  # type: ignore[dict-item]
    assert catalog.read("a.one$branch_fix")["id"].to_pylist() == [1]


def test_all_tables_are_published_together(catalog: Catalog, forked: list[Table]) -> None:
    verdicts = catalog.branch_set("fix", NAMES).publish()
    assert {verdict.kind for verdict in verdicts.values()} == {"clean"}
    assert [held(table) for table in forked] == [FIXED] * 3
    assert catalog.recover() == []
    catalog.branch_set("fix", NAMES).delete()
    assert [table.branches.names() for table in forked] == [[]] * 3
    assert [held(table) for table in forked] == [FIXED] * 3


def test_a_set_is_created_at_versions_and_on_all_or_none(catalog: Catalog, tables: list[Table]) -> None:
    tables[0].tags.create("first")
    tables[0].write(rows(9))
    catalog.branch_set("old", NAMES).create({"a.one": "first", "a.two": 1})
    assert held(tables[0].on_branch("old")) == OLD
    tables[1].branches.create("half")
    with pytest.raises(AlreadyExists, match=r"a\.two"):
        catalog.branch_set("half", NAMES).create()
    assert "half" not in tables[0].branches.names()
    with pytest.raises(StorageError):
        catalog.branch_set("none", NAMES).create({"b.three": 77})
    assert all("none" not in table.branches.names() for table in tables)
    with pytest.raises(InvalidRequest, match="each once"):
        catalog.branch_set("x", ["a.one", "a.one"])


def test_main_keeps_what_it_did_elsewhere(catalog: Catalog, forked: list[Table]) -> None:
    for table in forked:
        table.write(rows(7, day="y"), commit_id=CommitId("nightly", 1))
    verdicts = catalog.branch_set("fix", NAMES).verdicts()
    assert {verdict.kind for verdict in verdicts.values()} == {"disjoint"}
    assert "elsewhere" in verdicts["a.one"].describe()
    catalog.branch_set("fix", NAMES).publish()
    for table in forked:
        assert held(table) == [*FIXED, ("y", 7, "main")]
        assert [snapshot.commit_user for snapshot in table.store.snapshots.all()].count("nightly") == 1
        assert table.branches.verdict("fix").new == ()
        assert table.check(deep=True) == []
    catalog.branch_set("fix", NAMES).publish()
    assert [held(table) for table in forked] == [[*FIXED, ("y", 7, "main")]] * 3
    # What comes on the branch afterwards is taken over as well.
    forked[0].on_branch("fix").write(rows(5, v="later"))
    catalog.branch_set("fix", ["a.one"]).publish()
    assert held(forked[0]) == sorted([*FIXED, ("x", 5, "later"), ("y", 7, "main")])


def test_nothing_is_published_if_one_main_has_diverged(catalog: Catalog, forked: list[Table]) -> None:
    forked[1].write(rows(2, v="nightly"), commit_id=CommitId("nightly", 4))
    with pytest.raises(CommitConflict, match=r"a\.two has diverged.*WRITE by nightly"):
        catalog.branch_set("fix", NAMES).publish()
    assert [held(table) for table in (forked[0], forked[2])] == [OLD, OLD]
    catalog.branch_set("fix", NAMES).publish(discard_main=True)
    assert [held(table) for table in forked] == [FIXED] * 3


def test_appends_on_both_sides_stand_side_by_side(catalog: Catalog, tables: list[Table]) -> None:
    table = tables[2]
    table.branches.create("more")
    table.on_branch("more").write(rows(10))
    table.write(rows(11))
    assert table.branches.merge("more").kind == "disjoint"
    assert sorted(row[1] for row in held(table)) == [1, 2, 10, 11]


def test_a_main_adopts_what_a_branch_holds_and_keeps_its_history(catalog: Catalog, forked: list[Table]) -> None:
    for table in forked:
        table.write(rows(2, 9, v="bad"))
    forked[0].compact(full=True)
    before = {str(table.identifier): [snapshot.id for snapshot in table.store.snapshots.all()] for table in forked}
    until = {name: ids[-1] for name, ids in before.items()}
    catalog.branch_set("fix", NAMES).adopt(until, {"a.one": {"why": "fix"}})
    assert [held(table) for table in forked] == [FIXED] * 3
    for table in forked:
        ids = [snapshot.id for snapshot in table.store.snapshots.all()]
        assert ids == [*before[str(table.identifier)], ids[-1]]
        assert held(table.at(ids[-2])) != FIXED
        assert table.check(deep=True) == []
    last = forked[0].snapshot()
    assert last is not None
    assert (last.operation, last.commit_user, (last.properties or {})["why"]) == ("ADOPT", "recovery/fix/a/one", "fix")
    # What comes now is on top, and stays when the branch goes.
    forked[0].write(rows(4))
    catalog.branch_set("fix", NAMES).delete()
    assert held(forked[0]) == [*FIXED, ("x", 4, "main")]
    assert [table.check(deep=True) for table in forked] == [[]] * 3


def test_a_main_that_moved_beyond_what_it_may_give_up_adopts_nothing(catalog: Catalog, forked: list[Table]) -> None:
    heads = {name: catalog.table(name).snapshot() for name in NAMES}
    forked[1].write(rows(7))
    with pytest.raises(CommitConflict, match=r"a.two has moved beyond snapshot 2.*3 \("):
        catalog.branch_set("fix", NAMES).adopt({name: head.id if head else 0 for name, head in heads.items()}, {})
    assert [held(table) for table in catalog.consistent(NAMES).values()] == [OLD, [*OLD, ("x", 7, "main")], OLD]
    catalog.recover(undo=True)
    assert [held(table) for table in forked] == [OLD, [*OLD, ("x", 7, "main")], OLD]


@pytest.mark.parametrize("known", [True, False], ids=["known", "of a version before"])
def test_a_main_that_was_replaced_by_a_branch_made_since_adopts_nothing(
    catalog: Catalog, forked: list[Table], known: bool
) -> None:
    for table in forked:
        table.write(rows(2, v="bad"))
    heads = {name: catalog.table(name).snapshot() for name in NAMES}
    points = {name: (head.id, head.identity) for name, head in heads.items() if head is not None}
    # It begins where the first branch does, and has other snapshots of the same numbers.
    forked[1].branches.create("since", snapshot_id=2)
    for other in range(8, 10):
        forked[1].on_branch("since").write(rows(other))
    forked[1].branches.replace_main("since", discard_main=True)
    before = all_held(catalog)
    until = {name: catalog.table(name).snapshot().id for name in NAMES}  # type: ignore[union-attr]
    fix = catalog.branch_set("fix", NAMES)
    if not known:
        fix.adopt(until, {})
        assert all_held(catalog) == [FIXED] * 3
        return
    with pytest.raises(
        CommitConflict, match=r"Main of a\.two was replaced, or made anew, since branch 'fix' .* snapshot 3"
    ):
        fix.adopt(until, {}, points=points)
    assert all_held(catalog) == before
    assert catalog.publications() == []


@pytest.mark.parametrize("given", ["until", "properties", "points"])
def test_what_is_given_for_another_table_is_no_adoption(catalog: Catalog, forked: list[Table], given: str) -> None:
    until = dict.fromkeys(NAMES, 2)
    adopt = {
        "until": lambda fix: fix.adopt({**until, "a.four": 2}, {}),
        "properties": lambda fix: fix.adopt(until, {"a.four": {"why": "fix"}}),
        "points": lambda fix: fix.adopt(until, {}, points={"a.four": (2, "abc")}),
    }[given]
    with pytest.raises(InvalidRequest, match=rf"{given} names a\.four, no table of this branch: it is one of a\.one"):
        adopt(catalog.branch_set("fix", NAMES))
    assert catalog.publications() == []
    assert all_held(catalog) == [OLD] * 3


def test_who_finishes_an_adoption_asks_for_the_same_main(catalog: Catalog, forked: list[Table]) -> None:
    heads = {name: catalog.table(name).snapshot() for name in NAMES}
    points = {name: (head.id, head.identity) for name, head in heads.items() if head is not None}
    until = {name: number for name, (number, _) in points.items()}
    with dying_before("a.two"):
        catalog.branch_set("fix", NAMES).adopt(until, {}, points=points)
    (entry,) = (Path(catalog.warehouse) / ".journal").glob("open-*")
    publication = Publication.from_json("00000001", entry.read_text(), str(entry))
    assert publication.points == points
    other = replace(publication, points={**points, "a.two": (2, "another")})
    entry.write_text(other.to_json())
    with pytest.raises(CommitConflict, match=r"a\.two was replaced"):
        catalog.recover()
    entry.write_text(publication.to_json())
    catalog.recover()
    assert all_held(catalog) == [FIXED] * 3


@pytest.mark.parametrize("way", ["discard", "undo", "undo with more"])
def test_a_writer_who_comes_in_between_is_not_lost(
    catalog: Catalog, forked: list[Table], monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    original = Branches.merge
    late = iter([True])

    def merge(self: Branches, name: str, **named: Any) -> Any:
        if self._store.identifier.full_name == "a.two" and next(late, False):
            catalog.table("a.two").write(rows(2, v="late"), commit_id=CommitId("late", 1))
        return original(self, name, **named)

    monkeypatch.setattr(Branches, "merge", merge)
    with pytest.raises(CommitConflict, match="stays open"):
        catalog.branch_set("fix", NAMES).publish()
    view = catalog.consistent(["a.one", "b.three"])
    assert [held(table) for table in view.values()] == [OLD, OLD]
    with pytest.raises(CommitConflict, match="Finish or undo it first"):
        catalog.branch_set("fix", NAMES).publish()
    with pytest.raises(CommitConflict, match="stays open"):
        catalog.recover()
    if way == "undo":
        catalog.recover(undo=True)
        after = [OLD, [("x", 1, "main"), ("x", 2, "late")], OLD]
    elif way == "undo with more":
        # What has been written on top of the publication stays.
        catalog.table("a.one").write(rows(7, day="y"))
        with pytest.raises(CommitConflict, match="has written snapshot"):
            catalog.recover(undo=True)
        catalog.recover(undo=True, discard_main=True)
        after = [OLD, [("x", 1, "main"), ("x", 2, "late")], OLD]
    else:
        catalog.recover(discard_main=True)
        after = [FIXED] * 3
    assert [held(table) for table in catalog.consistent(NAMES).values()] == after
    assert [held(catalog.table(name)) for name in NAMES] == after
    assert [catalog.table(name).check(deep=True) for name in NAMES] == [[]] * 3


@pytest.mark.parametrize("way", ["finish", "undo"])
def test_the_commits_of_a_publication_that_is_open_do_not_expire(
    catalog: Catalog, forked: list[Table], way: str
) -> None:
    half_publish(catalog)
    main = catalog.table("a.one")
    main.write(rows(7, day="y"))
    # What main was before stays along with the commit: an undo may find no tag.
    assert main.expire(retain_last=1).snapshot_ids == (1,)
    assert [held(table) for table in catalog.consistent(NAMES).values()] == [OLD] * 3
    if way == "undo":
        with pytest.raises(CommitConflict, match="has written snapshot"):
            catalog.recover(undo=True)
        catalog.recover(undo=True, discard_main=True)
        after = [OLD] * 3
    else:
        newest = main.snapshot()
        catalog.recover()
        assert catalog.table("a.one").snapshot() == newest
        after = [[*FIXED, ("y", 7, "main")], FIXED, FIXED]
    assert [held(table) for table in catalog.consistent(NAMES).values()] == after
    assert [held(catalog.table(name)) for name in NAMES] == after
    assert [catalog.table(name).check(deep=True) for name in NAMES] == [[]] * 3
    assert 3 in main.expire(retain_last=1).snapshot_ids


def test_a_branch_that_is_being_deleted_is_published_on_no_table(catalog: Catalog, forked: list[Table]) -> None:
    branch = forked[1].on_branch("fix").store
    close(branch, branch.snapshots.latest(), f"{DELETION} fix")
    with pytest.raises(CommitConflict, match=r"it is being deleted from a\.two"):
        catalog.branch_set("fix", NAMES).publish()
    assert catalog.recover() == []
    assert [held(table) for table in forked] == [OLD] * 3
    catalog.branch_set("fix", NAMES).delete()
    assert [table.branches.names() for table in forked] == [[]] * 3


def test_branches_that_must_stay_are_all_opened_again(catalog: Catalog, forked: list[Table]) -> None:
    asked = []

    def refuse() -> None:
        asked.append([closed_for(table.on_branch("fix").store.snapshots.latest()) for table in forked])
        raise CommitConflict("A publication is open.")

    with pytest.raises(CommitConflict, match="is open"):
        delete_branches(origins_of([table.store for table in forked], "fix"), "fix", refuse)
    assert asked == [[f"{DELETION} fix"] * 3]
    for table in forked:
        table.on_branch("fix").write(rows(9))
        assert ("x", 9, "main") in held(table.on_branch("fix"))


def test_a_set_is_not_half_deleted_where_a_table_is_gone(catalog: Catalog, forked: list[Table]) -> None:
    stale = [table.store for table in forked]
    catalog.rename_table("b.three", "b.four")
    with pytest.raises(NotFound):
        delete_branches(origins_of(stale, "fix"), "fix", lambda: None)
    for name in ("a.one", "a.two", "b.four"):
        catalog.table(f"{name}$branch_fix").write(rows(9))
        assert catalog.table(name).branches.names() == ["fix"]


def test_who_is_refused_leaves_closed_what_others_delete(
    catalog: Catalog, forked: list[Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    stores = [table.store for table in forked]
    original = delete_branch._remove
    calls = iter([False, True])

    def refuse() -> None:
        raise CommitConflict("A publication of the third is open.")

    def remove(*arguments: Any) -> Any:
        if next(calls, False):
            with pytest.raises(CommitConflict, match="of the third is open"):
                delete_branches(origins_of(stores, "fix"), "fix", refuse)
        return original(*arguments)

    monkeypatch.setattr(delete_branch, "_remove", remove)
    assert delete_branches(origins_of(stores[:2], "fix"), "fix", lambda: None) == 2
    assert [table.branches.names() for table in forked] == [[], [], ["fix"]]
    forked[2].on_branch("fix").write(rows(9))


def test_who_cannot_delete_all_of_a_set_says_what_has_gone(
    catalog: Catalog, forked: list[Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    original = delete_branch.decide

    def decide(store: TableStore, closing: Snapshot, outcome: Any) -> bool:
        if store.identifier.full_name == "a.two" and outcome == "done":
            assert original(store, closing, "opened")
        return original(store, closing, outcome)

    monkeypatch.setattr(delete_branch, "decide", decide)
    with pytest.raises(
        CommitConflict, match=r"of a\.two has been opened again.*has deleted branch 'fix' from a\.one, not"
    ):
        catalog.branch_set("fix", NAMES).delete()
    monkeypatch.undo()
    forked[2].on_branch("fix").write(rows(9))
    catalog.branch_set("fix", NAMES).delete()
    assert [table.branches.names() for table in forked] == [[], [], []]


@pytest.mark.parametrize("change", ["commit", "tag", "schema", "another branch"])
def test_a_set_that_cannot_be_made_takes_away_what_it_made_and_nothing_of_others(
    catalog: Catalog, tables: list[Table], monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    original = branch_set.draft_branch

    @contextmanager
    def drafted(branches: Branches, name: str, **named: Any) -> Iterator[Any]:
        with original(branches, name, **named) as give_name:

            def name_last() -> Any:
                if branches._store.identifier.full_name == "b.three":
                    other = catalog.table("a.one$branch_fix")
                    if change == "commit":
                        other.write(rows(9))
                    elif change == "tag":
                        other.tags.create("mine")
                    elif change == "schema":
                        other.alter(AddColumn("more", "INT"))
                    else:
                        tables[0].branches.delete("fix")
                        tables[0].branches.create("fix")
                    tables[2].branches.create("fix")
                return give_name()

            yield name_last

    monkeypatch.setattr(branch_set, "draft_branch", drafted)
    with pytest.raises(AlreadyExists, match=r"of b\.three exists.*of a\.one was not taken away again"):
        catalog.branch_set("fix", NAMES).create()
    monkeypatch.undo()
    assert [table.branches.names() for table in tables] == [["fix"], [], ["fix"]]
    assert len(held(tables[0].on_branch("fix"))) == (3 if change == "commit" else 2)
    tables[0].on_branch("fix").write(rows(10))
    assert [table.check(deep=True) for table in tables] == [[], [], []]


def test_an_empty_branch_of_a_set_that_cannot_be_made_is_taken_away(catalog: Catalog) -> None:
    for name in NAMES[:2]:
        catalog.create_table(name, SCHEMA)
    with pytest.raises(NotFound):
        catalog.branch_set("fix", NAMES[:2]).create({"a.two": "no tag"})
    assert catalog.table("a.one").branches.names() == []


@pytest.mark.one_in(4)
@pytest.mark.parametrize("way", ["finish", "undo"])
@pytest.mark.parametrize(
    "case",
    [
        "clean",
        "compacted",
        "disjoint",
        "discarding",
        "replacing",
        "replacing a main that moved",
        "adopting",
        "adopting over what main did",
    ],
)
def test_a_publication_that_dies_anywhere_is_seen_all_or_none_and_recovered(
    catalog: Catalog, forked: list[Table], monkeypatch: pytest.MonkeyPatch, way: str, case: str, tmp_path: Path
) -> None:
    more: list[Any] = []
    old, new = [OLD, OLD, OLD], [FIXED, FIXED, FIXED]
    if case in ("disjoint", "replacing a main that moved"):
        forked[1].write(rows(7, day="y"))
        more = [("y", 7, "main")]
        old[1], new[1] = [*OLD, *more], [*FIXED, *more]
    if case == "compacted":
        for forked_table in forked:
            assert forked_table.compact() is not None or forked_table is forked[2]
    if case in ("discarding", "adopting over what main did"):
        forked[1].write(rows(2, v="nightly"), commit_id=CommitId("nightly", 4))
        old[1] = [("x", 1, "main"), ("x", 2, "nightly")]

    def publish(catalog: Catalog) -> object:
        branches = catalog.branch_set("fix", NAMES)
        if case.startswith("replacing"):
            return branches.replace_main()
        if case.startswith("adopting"):
            heads = {name: catalog.table(name).snapshot() for name in NAMES}
            return branches.adopt({name: head.id if head else 0 for name, head in heads.items()}, {})
        return branches.publish(discard_main=case == "discarding")

    source = Path(catalog.warehouse)
    changes = ("create_exclusively", "write_bytes", "raise_number", "overwrite", "delete", "delete_if", "replace_if")

    def dying(allowed: int) -> Callable[[str], Callable[..., Any]]:
        left = [allowed]

        def wrap(name: str) -> Callable[..., Any]:
            original = getattr(FileIO, name)

            def call(self: FileIO, *arguments: Any, **named: Any) -> Any:
                left[0] -= 1
                if left[0] < 0:
                    raise KeyboardInterrupt
                return original(self, *arguments, **named)

            return call

        return wrap

    # Of two steps one is finished and the other undone; both are of each in `make test-full`.
    for step in range(1000) if FULL else range(int(way == "undo"), 1000, 2):
        copy = tmp_path / f"copy-{step}"
        shutil.copytree(source, copy)
        with monkeypatch.context() as patch:
            wrap = dying(step)
            for name in changes:
                patch.setattr(FileIO, name, wrap(name))
            try:
                publish(Catalog(str(copy)))
                died = False
            except KeyboardInterrupt:
                died = True
        fresh = Catalog(str(copy))
        seen = [held(table) for table in fresh.consistent(NAMES).values()]
        assert seen in (old, new), step
        try:
            fresh.recover(undo=way == "undo")
        except CommitConflict as error:
            assert way == "undo" and "cannot be undone" in str(error)
            fresh.recover()
        after = [held(fresh.table(name)) for name in NAMES]
        assert after in (old, new)
        if way == "finish" and seen == new:
            assert after == new
        assert [held(table) for table in fresh.consistent(NAMES).values()] == after
        assert not any("publication" in tag.name for name in NAMES for tag in fresh.table(name).tags.list()), step
        publish(fresh)
        assert [held(fresh.table(name)) for name in NAMES] == new, step
        assert [fresh.table(name).check() for name in NAMES] == [[]] * 3
        shutil.rmtree(copy)
        if not died:
            break
    assert step > 6


def test_a_view_of_a_table_without_snapshots_stays_empty(catalog: Catalog) -> None:
    for name in NAMES[:2]:
        catalog.create_table(name, SCHEMA, primary_key=["id"], options={"bucket": 1})
    catalog.table("a.two").write(rows(1))
    catalog.branch_set("fix", NAMES[:2]).create()
    for name in NAMES[:2]:
        catalog.table(f"{name}$branch_fix").write(rows(5))

    def check(view: dict[str, Table]) -> None:
        assert [held(table) for table in view.values()] == [[], [("x", 1, "main")]]
        assert view["a.one"].count() == 0 and view["a.one"].snapshot() is None and view["a.one"].ref() is None
        assert view["a.one"].changes().num_rows == 0
        with pytest.raises(InvalidRequest, match="can only be read"):
            view["a.one"].write(rows(9))

    before = catalog.consistent(NAMES[:2])
    with dying_before("a.two"):
        catalog.branch_set("fix", NAMES[:2]).publish()
    assert len(held(catalog.table("a.one"))) == 1
    half = catalog.consistent(NAMES[:2])
    check(half)
    # A branch made of it begins where it was.
    catalog.branch_set("other", NAMES[:2]).create()
    assert [held(catalog.table(f"{name}$branch_other")) for name in NAMES[:2]] == [[], [("x", 1, "main")]]
    catalog.recover()
    assert [len(held(table)) for table in catalog.consistent(NAMES[:2]).values()] == [1, 2]
    check(before)
    check(half)


def test_readers_of_a_view_never_see_half_of_a_publication(catalog: Catalog, forked: list[Table]) -> None:
    seen: set[tuple[bool, ...]] = set()
    stop = threading.Event()

    def read() -> None:
        reader = Catalog(catalog.warehouse)
        while not stop.is_set():
            view = reader.consistent(NAMES)
            seen.add(tuple(held(table) == FIXED for table in view.values()))

    readers = [threading.Thread(target=read) for _ in range(3)]
    for thread in readers:
        thread.start()
    catalog.branch_set("fix", NAMES).publish()
    stop.wait(0.3)
    stop.set()
    for thread in readers:
        thread.join()
    assert seen <= {(False,) * 3, (True,) * 3}
    assert (True,) * 3 in seen


def test_an_error_after_the_mains_were_replaced_does_not_say_that_nothing_was_changed(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("d.one", "d.two"):
        catalog.create_table(name, pa.schema([("k", pa.int64())])).write(pa.table({"k": [1]}))
    branches = catalog.branch_set("fix", ["d.one", "d.two"])
    branches.create()

    @store_errors.outcome("Nothing was changed.")
    def failing(*_: object) -> None:
        raise StoreUnavailable("The disk failed.")

    monkeypatch.setattr(branch_set, "made_by", failing)
    with pytest.raises(
        StoreUnavailable, match=r"The disk failed\. Whether the branch is published is not known"
    ) as raised:
        branches.replace_main()
    assert "Nothing was changed" not in str(raised.value)
    monkeypatch.undo()
    assert catalog.publications() == []
    assert [catalog.table(name).branches.names() for name in ("d.one", "d.two")] == [[], []]
