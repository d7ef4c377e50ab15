"""Who slept while others ended his publication, and began and ended more, learns from its tables how it ended."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from storage import Catalog, CommitConflict, CommitOutcomeUnknown, Table
from storage.branch_set import BranchSet
from storage.branches import Branches
from storage.journal import Journal
from storage.publications.finish import finish
from tests.storage.branched_tables import FIXED, NAMES, all_held, all_seen, fork_tables, half_publish, make_tables, rows

PUBLISHING: dict[str, Callable[[BranchSet], Any]] = {
    "merges": lambda branches: branches.publish(),
    "adopts": lambda branches: branches.adopt(dict.fromkeys(NAMES, 2), {}),
    "replaces": lambda branches: branches.replace_main(),
}
# Where the publisher falls asleep: the class, the method before which, and of which table.
ASLEEP: dict[str, tuple[type, str, str | None]] = {
    "with an entry": (BranchSet, "_refuse_replaced", None),
    "before the first table": (Branches, "merge", "a.one"),
    "before the last table": (Branches, "merge", "b.three"),
    "before the decision": (Journal, "decide", None),
    "before he closes the first main": (Branches, "close_main", "a.one"),
    "before he closes the last main": (Branches, "close_main", "b.three"),
    "before he looks again": (Branches, "settle_main", "a.one"),
    "before he replaces the last main": (Branches, "replace_closed_main", "b.three"),
    "before the last main adopts": (Branches, "adopt", "b.three"),
}
WAYS = [
    *(
        ("merges", point)
        for point in ("with an entry", "before the first table", "before the last table", "before the decision")
    ),
    *(("adopts", point) for point in ("with an entry", "before the last main adopts", "before the decision")),
    *(
        ("replaces", point)
        for point in (
            "with an entry",
            "before he closes the first main",
            "before he closes the last main",
            "before he looks again",
            "before the decision",
            "before he replaces the last main",
        )
    ),
]


@pytest.fixture
def forked(catalog: Catalog) -> list[Table]:
    return fork_tables(catalog, make_tables(catalog))


@contextmanager
def meanwhile(point: str, act: Callable[[], None]) -> Iterator[list[str]]:
    """Somebody acts once before a publisher comes to a point; yields where he came past."""
    kind, method, table = ASLEEP[point]
    original, reached = getattr(kind, method), []

    def stop(self: Any, *args: Any, **kwargs: Any) -> Any:
        is_there = table is None or self._store.identifier.full_name == table
        if is_there and not reached:
            reached.append(point)
            act()
        return original(self, *args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kind, method, stop)
        yield reached


def publish_another(catalog: Catalog, number: int) -> None:
    """A publication of another branch of two of the tables begins and ends."""
    another = catalog.branch_set(f"another-{number}", NAMES[1:])
    another.create()
    for name in another.tables:
        catalog.table(f"{name}$branch_another-{number}").write(rows(9, day="z", v=str(number)))
    another.publish()
    another.delete()


def is_on(catalog: Catalog) -> list[bool]:
    return [set(FIXED) <= set(held) for held in all_held(catalog)]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("expired", [False, True], ids=["kept", "expired"])
@pytest.mark.parametrize("ended", ["finish", "undo"])
@pytest.mark.parametrize(("action", "point"), WAYS)
def test_who_slept_until_others_had_ended_it_learns_how(
    catalog: Catalog, forked: list[Table], action: str, point: str, ended: str, expired: bool
) -> None:
    if (point, ended) == ("before he replaces the last main", "undo"):
        pytest.skip("it is decided by then")
    others = Catalog(catalog.warehouse)

    def end() -> None:
        others.recover(undo=ended == "undo")
        for number in range(2):
            publish_another(others, number)
        for name in NAMES if expired else ():
            others.table(name).write(rows(7, day="w"))
            others.table(name).expire(retain_last=1)

    with meanwhile(point, end) as reached:
        if ended == "finish":
            PUBLISHING[action](catalog.branch_set("fix", NAMES))
        else:
            with pytest.raises(CommitConflict, match=r"undone by somebody else.*Publish it again"):
                PUBLISHING[action](catalog.branch_set("fix", NAMES))
    assert reached
    assert is_on(catalog) == [ended == "finish"] * 3
    assert all_seen(catalog) == all_held(catalog)
    assert catalog.publications() == []
    assert [str(problem) for name in NAMES for problem in catalog.table(name).check()] == []
    if ended == "undo" and not expired:
        PUBLISHING["merges"](catalog.branch_set("fix", NAMES))
        assert is_on(catalog) == [True] * 3


@pytest.mark.parametrize("expired", [False, True], ids=["kept", "expired"])
@pytest.mark.parametrize("ended", ["finish", "undo"])
def test_it_is_told_where_mains_have_been_replaced_since(
    catalog: Catalog, forked: list[Table], ended: str, expired: bool
) -> None:
    others = Catalog(catalog.warehouse)

    def end() -> None:
        others.recover(undo=ended == "undo")
        publish_another(others, 0)
        other = others.branch_set("other", NAMES)
        other.create()
        for name in NAMES:
            others.table(f"{name}$branch_other").write(rows(9, day="v"))
        other.replace_main()
        for name in NAMES if expired else ():
            others.table(name).expire(retain_last=1)

    with meanwhile("before the last table", end) as reached:
        if ended == "finish":
            catalog.branch_set("fix", NAMES).publish()
        else:
            with pytest.raises(CommitConflict, match="undone by somebody else"):
                catalog.branch_set("fix", NAMES).publish()
    assert reached
    assert is_on(catalog) == [ended == "finish"] * 3


def test_who_replaced_mains_learns_it_where_they_have_been_replaced_again(
    catalog: Catalog, forked: list[Table]
) -> None:
    others = Catalog(catalog.warehouse)

    def end() -> None:
        others.recover()
        other = others.branch_set("other", NAMES)
        other.create()
        other.replace_main()

    with meanwhile("before he replaces the last main", end) as reached:
        catalog.branch_set("fix", NAMES).replace_main()
    assert reached
    assert is_on(catalog) == [True] * 3


@pytest.mark.parametrize("ended", ["finish", "undo"])
def test_a_branch_that_has_nothing_new_is_published_or_undone_without_a_commit(
    catalog: Catalog, forked: list[Table], ended: str
) -> None:
    others = Catalog(catalog.warehouse)
    others.branch_set("empty", NAMES).create()

    def end() -> None:
        others.recover(undo=ended == "undo")
        publish_another(others, 0)

    with meanwhile("before the last table", end) as reached:
        if ended == "finish":
            catalog.branch_set("empty", NAMES).publish()
        else:
            with pytest.raises(CommitConflict, match="undone by somebody else"):
                catalog.branch_set("empty", NAMES).publish()
    assert reached


@pytest.mark.parametrize("expired", [False, True], ids=["kept", "expired"])
@pytest.mark.parametrize(
    ("action", "has_more"), [("merges", False), ("adopts", False), ("merges", True), ("replaces", True)]
)
def test_a_branch_that_was_made_anew_under_its_name_is_not_the_one_that_was_undone(
    catalog: Catalog, forked: list[Table], action: str, has_more: bool, expired: bool
) -> None:
    others = Catalog(catalog.warehouse)

    def end() -> None:
        others.recover(undo=True)
        others.branch_set("fix", NAMES).delete()
        publish_another(others, 0)
        for name in NAMES if expired else ():
            others.table(name).write(rows(7, day="w"))
            others.table(name).expire(retain_last=1)
        others.branch_set("fix", NAMES).create()
        for name in NAMES if has_more else ():
            others.table(f"{name}$branch_fix").write(rows(5, day="new"))
        if action == "replaces":
            others.branch_set("fix", NAMES).replace_main()
        for name in NAMES if expired else ():
            others.table(name).write(rows(7, day="w"))
            others.table(name).expire(retain_last=1)

    # By a main that has been replaced, and has expired, it cannot be told.
    error = CommitOutcomeUnknown if action == "replaces" and expired else CommitConflict
    with meanwhile("with an entry", end) as reached, pytest.raises(error, match="by somebody else"):
        PUBLISHING[action](catalog.branch_set("fix", NAMES))
    assert reached
    assert is_on(catalog) == [False] * 3


def test_an_entry_that_does_not_say_which_branch_it_was_is_an_unknown_outcome_where_that_matters(
    catalog: Catalog, forked: list[Table]
) -> None:
    others = Catalog(catalog.warehouse)
    others.branch_set("empty", NAMES).create()

    def end() -> None:
        others.recover()
        publish_another(others, 0)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BranchSet, "_origins", lambda self: {})
        with meanwhile("before the last table", end), pytest.raises(CommitOutcomeUnknown, match="by somebody else"):
            catalog.branch_set("empty", NAMES).publish()


@pytest.mark.parametrize(
    ("action", "point", "gone"),
    [
        ("merges", "before the decision", "a.one"),
        ("merges", "with an entry", "a.one"),
        ("merges", "before the first table", "b.three"),
        ("adopts", "with an entry", "a.one"),
        ("replaces", "with an entry", "a.one"),
        ("replaces", "before he replaces the last main", "b.three"),
    ],
)
@pytest.mark.parametrize("ended", ["finish", "undo"])
def test_a_table_that_has_gone_since_keeps_the_others_from_telling_only_what_it_alone_could(
    catalog: Catalog, forked: list[Table], ended: str, action: str, point: str, gone: str
) -> None:
    if (point, ended) == ("before he replaces the last main", "undo"):
        pytest.skip("it is decided by then")
    others = Catalog(catalog.warehouse)

    def end() -> None:
        others.recover(undo=ended == "undo")
        publish_another(others, 0)
        others.drop_table(gone)

    error = CommitOutcomeUnknown if ended == "finish" else CommitConflict
    with meanwhile(point, end), pytest.raises(error, match="by somebody else"):
        PUBLISHING[action](catalog.branch_set("fix", NAMES))


def test_half_a_publication_whose_journal_is_lost_is_not_taken_for_a_whole_one(
    catalog: Catalog, forked: list[Table]
) -> None:
    def lose() -> None:
        shutil.rmtree(Path(catalog.warehouse) / ".journal")

    with meanwhile("before the last table", lose), pytest.raises(CommitOutcomeUnknown, match="Look at their rows"):
        catalog.branch_set("fix", NAMES).publish()


def test_a_number_that_was_forgotten_and_is_given_for_a_moment_wakes_nobody(
    catalog: Catalog, forked: list[Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = catalog._journal
    half_publish(catalog)
    (slept,) = journal.all_open()
    catalog.recover(undo=True)
    for number in range(2):
        publish_another(catalog, number)
    before, listed, named = all_held(catalog), Journal._names, []

    def names(self: Journal) -> list[str]:
        named.append(len(named))
        if named == [0]:
            # Who opens one has listed the journal before all that, and slept.
            return []
        if named == [0, 1]:
            assert (Path(catalog.warehouse) / ".journal" / f"open-{slept.name}").exists()
            with pytest.raises(CommitConflict, match="undone by somebody else"):
                finish(catalog.table, journal, slept)
        return listed(self)

    monkeypatch.setattr(Journal, "_names", names)
    opened = journal.open(replace(slept, token="another"))
    assert named[1:]
    assert opened.name == "00000004"
    assert all_held(catalog) == before
