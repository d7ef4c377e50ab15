"""A damaged journal stops only what has to do with that publication, names the way out, and is kept aside by it."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from storage import Catalog, CommitConflict, CorruptData, InvalidRequest, KeptAside, Table
from storage.journal import REPLACING, Journal, Publication
from storage.publications import finish as finishing
from storage.publications import undo as undoing_publication
from storage.write import attempt
from tests.storage.branched_tables import (
    FIXED,
    NAMES,
    OLD,
    SCHEMA,
    Died,
    all_held,
    all_seen,
    dying_before,
    fork_tables,
    half_publish,
    held,
    make_tables,
    rows,
)

WAY_OUT = "snapline branch recover --discard-damaged"


@pytest.fixture
def forked(catalog: Catalog) -> list[Table]:
    return fork_tables(catalog, make_tables(catalog))


@pytest.fixture
def aside(catalog: Catalog) -> Table:
    """A table that no publication has to do with."""
    table = catalog.create_table("a.aside", rows(1).schema, primary_key=["day", "id"], options={"bucket": 1})
    table.write(rows(1))
    return table


def journal(catalog: Catalog) -> Path:
    return Path(catalog.warehouse) / ".journal"


def damage(catalog: Catalog, name: str = "open-00000001") -> None:
    (journal(catalog) / name).write_bytes(b'{"branch": \xff')


@pytest.mark.parametrize("replacing", [False, True])
def test_a_damaged_journal_stops_only_what_it_has_come_to(
    catalog: Catalog, forked: list[Table], aside: Table, replacing: bool
) -> None:
    half_publish(catalog, replacing=replacing)
    aside.branches.create("fix")
    damage(catalog)
    acts: dict[str, Callable[[], Any]] = {
        "view": lambda: catalog.consistent(["a.one"]),
        "publish": lambda: catalog.branch_set("fix", ["a.aside", "a.one"]).publish(),
        "rename": lambda: catalog.rename_table("a.one", "a.moved"),
        "drop": lambda: catalog.drop_table("a.one"),
        "rollback": lambda: catalog.table("a.one").rollback_to(1),
        "recover": lambda: catalog.recover(),
    }
    for act in acts.values():
        with pytest.raises(CorruptData, match=rf"open-00000001.*`{WAY_OUT}`"):
            act()
    catalog.table("a.one").write(rows(9))
    assert catalog.publications() == []
    if replacing:
        # All mains were closed before the first was replaced.
        with pytest.raises(CorruptData, match=rf"open-00000001.*`{WAY_OUT}`"):
            catalog.consistent(["b.three"])
        assert [table.count() for table in catalog.consistent(["a.aside"]).values()] == [1]
        return
    assert [table.count() for table in catalog.consistent(["a.aside", "a.two"]).values()] == [1, 2]
    catalog.branch_set("fix", ["a.aside", "b.three"]).publish()
    assert held(catalog.table("b.three")) == FIXED
    assert catalog.table("a.one").expire(retain_last=1) is not None
    assert WAY_OUT in str(catalog.check()[0])
    aside.branches.delete("fix")
    catalog.rename_table("a.aside", "a.moved")


@pytest.mark.parametrize("later", [False, True])
def test_what_a_damaged_publication_has_done_is_undone_and_the_file_kept_aside(
    catalog: Catalog, forked: list[Table], later: bool
) -> None:
    half_publish(catalog)
    more = [("y", 9, "main")] if later else []
    if later:
        catalog.table("a.one").write(rows(9, day="y"))
    damage(catalog)
    (ended,) = catalog.discard_damaged()
    assert "it is undone on a.one." in str(ended)
    assert all_held(catalog) == all_seen(catalog) == [[*OLD, *more], OLD, OLD]
    (kept,) = catalog.check()
    assert isinstance(kept, KeptAside)
    assert Path(kept.where) == Path(ended.path) == journal(catalog) / "damaged-open-00000001"
    assert Path(ended.path).read_bytes() == b'{"branch": \xff'
    assert catalog.discard_damaged() == catalog.recover() == []
    assert not any("publication" in tag.name for name in NAMES for tag in catalog.table(name).tags.list())
    if not later:
        catalog.branch_set("fix", NAMES).publish()
        assert all_seen(catalog) == [FIXED] * 3
    Path(kept.where).unlink()
    assert catalog.check() == []
    assert [catalog.table(table_name).check(deep=True) for table_name in NAMES] == [[]] * 3


def test_what_was_adopted_by_a_damaged_publication_is_undone(catalog: Catalog, forked: list[Table]) -> None:
    for table in forked:
        table.write(rows(2, v="bad"))
    with dying_before("b.three"):
        catalog.branch_set("fix", NAMES).adopt(dict.fromkeys(NAMES, 3), {})
    damage(catalog)
    assert "it is undone on a.one, a.two." in str(catalog.discard_damaged()[0])
    bad = [("x", 1, "main"), ("x", 2, "bad")]
    assert all_held(catalog)[:2] == [bad, bad]


def test_mains_that_a_damaged_publication_has_closed_to_replace_them_are_replaced(
    catalog: Catalog, forked: list[Table]
) -> None:
    half_publish(catalog, replacing=True)
    damage(catalog)
    (ended,) = catalog.discard_damaged()
    assert "a.one, a.two, b.three that were closed for it are replaced" in str(ended)
    assert all_held(catalog) == all_seen(catalog) == [FIXED] * 3
    assert not any("publication" in tag.name for name in NAMES for tag in catalog.table(name).tags.list())


def test_a_publisher_whose_journal_is_damaged_and_discarded_does_nothing_any_more(
    catalog: Catalog, forked: list[Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It sleeps after each look for the decision, while the operator ends the publication."""
    original = finishing._pinned
    for sleeps in range(1, 7):
        looks = [0]

        def pinned(
            keeper: Any, own: Journal, publication: Publication, refuse: Any, looks: list[int] = looks, at: int = sleeps
        ) -> Any:
            def look(latest: Any) -> None:
                refuse(latest)
                looks[0] += 1
                if looks[0] == at:
                    damage(catalog, f"open-{publication.name}")
                    Catalog(catalog.warehouse).discard_damaged()

            return original(keeper, own, publication, look)

        with monkeypatch.context() as patch:
            patch.setattr(finishing, "_pinned", pinned)
            with pytest.raises(CommitConflict, match="on no table"):
                catalog.branch_set("fix", NAMES).publish()
        assert all_held(catalog) == all_seen(catalog) == [OLD] * 3


@pytest.mark.parametrize("before", [*NAMES, None])
@pytest.mark.parametrize("undoing", [False, True])
def test_how_a_publication_ends_whose_outcome_is_damaged_is_told_by_its_tables(
    catalog: Catalog, forked: list[Table], monkeypatch: pytest.MonkeyPatch, before: str | None, undoing: bool
) -> None:
    def die(*_: object) -> None:
        raise Died

    with monkeypatch.context() as patch:
        patch.setattr(finishing, "clean_up", die)
        if before is None:
            with pytest.raises(Died):
                catalog.branch_set("fix", NAMES).publish()
        else:
            half_publish(catalog, before=before)
    if undoing and before is not None:
        with monkeypatch.context() as patch, pytest.raises(Died):
            patch.setattr(undoing_publication, "clean_up", die)
            catalog.recover(undo=True)
    damage(catalog, "outcome-00000001")
    if before == "b.three":
        with pytest.raises(CorruptData, match=rf"outcome-00000001.*`{WAY_OUT}`"):
            catalog.consistent(NAMES)
    (ended,) = catalog.discard_damaged()
    assert ended.path.endswith("damaged-outcome-00000001")
    assert all_held(catalog) == all_seen(catalog) == [FIXED if before is None else OLD] * 3
    assert catalog.recover() == []


def test_a_replacement_whose_outcome_is_damaged_goes_on(catalog: Catalog, forked: list[Table]) -> None:
    half_publish(catalog, replacing=True)
    damage(catalog, "outcome-00000001")
    assert "finish that by `snapline branch recover`" in str(catalog.discard_damaged()[0])
    assert [publication.outcome for publication in catalog.publications()] == [REPLACING]
    catalog.recover()
    assert all_seen(catalog) == [FIXED] * 3


def test_a_damaged_journal_of_what_has_ended_stops_nobody_and_is_cleaned_up(
    catalog: Catalog, forked: list[Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*_: object) -> None:
        raise Died

    with monkeypatch.context() as patch, pytest.raises(Died):
        patch.setattr(finishing, "clean_up", die)
        catalog.branch_set("fix", NAMES).publish()
    damage(catalog)
    assert all_seen(catalog) == [FIXED] * 3
    assert catalog.recover() == []
    assert "had ended" in str(catalog.discard_damaged()[0])
    assert not any("publication" in tag.name for name in NAMES for tag in catalog.table(name).tags.list())


def test_neither_file_of_a_publication_can_be_read(catalog: Catalog, forked: list[Table]) -> None:
    half_publish(catalog)
    damage(catalog)
    damage(catalog, "outcome-00000001")
    catalog.discard_damaged()
    assert all_seen(catalog) == all_held(catalog) == [OLD] * 3
    kept = sorted(path.name for path in journal(catalog).glob("damaged-*"))
    assert kept == ["damaged-open-00000001", "damaged-outcome-00000001"]


@pytest.mark.parametrize("undoing", [False, True])
def test_neither_file_of_a_publication_that_has_ended_can_be_read(
    catalog: Catalog, forked: list[Table], monkeypatch: pytest.MonkeyPatch, undoing: bool
) -> None:
    """It stays as it ended, and so do rows that have come since."""

    def die(*_: object) -> None:
        raise Died

    if undoing:
        half_publish(catalog)
    with monkeypatch.context() as patch, pytest.raises(Died):
        patch.setattr(Journal, "forget", die)
        if undoing:
            catalog.recover(undo=True)
        else:
            catalog.branch_set("fix", NAMES).publish()
    catalog.table("a.one").write(rows(9, day="y"))
    before = all_held(catalog)
    for name in ("open-00000001", "outcome-00000001"):
        damage(catalog, name)
    assert "had ended" in str(catalog.discard_damaged()[0])
    assert all_held(catalog) == all_seen(catalog) == before
    assert before[1:] == [OLD if undoing else FIXED] * 2
    assert (journal(catalog) / "outcome-00000001").read_text() == ("undone" if undoing else "published")
    assert all(isinstance(problem, KeptAside) for problem in catalog.check())


@pytest.mark.parametrize("name", ["a.one", "a.two"])
def test_a_publisher_does_not_come_to_a_main_without_snapshots_after_its_journal_was_discarded(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Such a main bears no tag: it sleeps with its commit made ready, while the operator ends the publication."""
    names = ["a.one", "a.two"]
    for table_name in names:
        catalog.create_table(table_name, SCHEMA, primary_key=["day", "id"], options={"bucket": 1})
    catalog.branch_set("fix", names).create()
    for table_name in names:
        catalog.table(f"{table_name}$branch_fix").write(rows(1))
    original, pending = attempt.Attempt.prepare, [True]

    def prepare(self: Any) -> Any:
        snapshot = original(self)
        if pending and self._id.user == f"publication/fix/{name.replace('.', '/')}":
            pending.clear()
            damage(catalog)
            Catalog(catalog.warehouse).discard_damaged()
        return snapshot

    with monkeypatch.context() as patch, pytest.raises(CommitConflict, match="on no table"):
        patch.setattr(attempt.Attempt, "prepare", prepare)
        catalog.branch_set("fix", names).publish()
    assert [held(catalog.table(table_name)) for table_name in names] == [[], []]
    assert [tag.name for table_name in names for tag in catalog.table(table_name).tags.list()] == []
    # What one of them had, and has not any more, counts as something that main did.
    catalog.branch_set("fix", names).publish(discard_main=name == "a.two")
    assert [held(catalog.table(table_name)) for table_name in names] == [[("x", 1, "main")]] * 2


def test_the_tag_of_a_publication_whose_journal_is_damaged_is_damaged_too(
    catalog: Catalog, forked: list[Table]
) -> None:
    half_publish(catalog)
    damage(catalog)
    Path(forked[0].store.paths.tag("snapline-publication-00000001")).write_bytes(b"garbage")
    with pytest.raises(InvalidRequest, match=WAY_OUT):
        forked[0].tags.delete("snapline-publication-00000001")
    catalog.discard_damaged()
    assert all_held(catalog) == all_seen(catalog) == [OLD] * 3
    assert forked[0].tags.list() == []


def test_the_tag_of_a_damaged_publication_is_not_deleted_by_hand(catalog: Catalog, forked: list[Table]) -> None:
    half_publish(catalog)
    damage(catalog)
    with pytest.raises(InvalidRequest, match=WAY_OUT):
        catalog.table("a.one").tags.delete("snapline-publication-00000001")


def test_a_journal_keeps_the_files_of_the_newest_publication_alone(catalog: Catalog, forked: list[Table]) -> None:
    branches = catalog.branch_set("fix", NAMES)
    for number in range(3):
        forked[0].on_branch("fix").write(rows(10 + number))
        branches.publish()
    half_publish(catalog)
    catalog.recover(undo=True)
    assert sorted(path.name for path in journal(catalog).iterdir()) == ["closed-00000004", "outcome-00000004"]
    forked[0].on_branch("fix").write(rows(20))
    branches.publish()
    assert [path.name[-1] for path in journal(catalog).iterdir()] == ["5", "5"]


def test_who_has_slept_through_a_publication_and_more_neither_repeats_nor_undoes_it(
    catalog: Catalog, forked: list[Table]
) -> None:
    own = catalog._journal
    half_publish(catalog)
    (slept,) = own.all_open()
    catalog.recover(undo=True)
    for number in range(2):
        forked[1].on_branch("fix").write(rows(10 + number))
        catalog.branch_set("fix", ["a.two"]).publish()
    before = all_held(catalog)
    with pytest.raises(CommitConflict, match="was undone by somebody else"):
        finishing.finish(catalog.table, own, slept)
    assert not undoing_publication.undo(catalog.table, own, slept)
    assert all_held(catalog) == before
    assert own.open(slept).name == "00000004"
    files = sorted(path.name for path in journal(catalog).iterdir())
    assert files == ["closed-00000003", "open-00000004", "outcome-00000003"]


@pytest.mark.parametrize("left", ["history", "memory", "undo", "half"])
def test_where_the_journal_is_gone_no_number_is_given_twice(
    catalog: Catalog, forked: list[Table], aside: Table, left: str
) -> None:
    branches = catalog.branch_set("fix", NAMES)
    if left in ("undo", "half"):
        half_publish(catalog)
    else:
        branches.publish()
    if left == "undo":
        catalog.recover(undo=True)
    if left == "memory":
        for table in forked:
            table.write(rows(20))
            table.expire(retain_last=1)
    shutil.rmtree(journal(catalog))
    branches.delete()
    branches.create()
    for table in forked:
        table.on_branch("fix").write(rows(9))
    assert all(verdict.made is not None for verdict in branches.publish().values())
    assert all(("x", 9, "main") in held_rows for held_rows in all_held(catalog))
    assert [path.name for path in sorted(journal(catalog).iterdir())] == ["closed-00000002", "outcome-00000002"]
    aside.branches.create("fix")
    catalog.table("a.aside$branch_fix").write(rows(9))
    catalog.branch_set("fix", ["a.aside"]).publish()
    assert (journal(catalog) / "closed-00000003").exists()


@pytest.mark.parametrize("name", ["open-00000001-backup", "outcome-00000001.old", "closed-7-x", "open-\u0661"])
def test_a_copy_beside_a_journal_is_no_entry(catalog: Catalog, forked: list[Table], name: str) -> None:
    journal(catalog).mkdir()
    (journal(catalog) / name).write_text("{}")
    assert catalog.recover() == catalog.discard_damaged() == catalog.check() == []
    assert catalog.publications() == [] and catalog.damaged_publications() == {}
    forked[0].rollback_to(1)
    catalog.branch_set("fix", NAMES[1:]).publish()
    catalog.rename_table("a.two", "a.moved")
    assert all(table.count() == 3 for table in catalog.consistent(["a.moved", "b.three"]).values())
    assert (journal(catalog) / name).exists() and (journal(catalog) / "closed-00000001").exists()


@pytest.mark.parametrize("damaged", ["schema/schema-0", "snapshot/snapshot-1"])
@pytest.mark.parametrize("first", ["recover", "drop"])
def test_a_table_that_cannot_be_read_and_a_damaged_journal_do_not_wait_for_each_other(
    catalog: Catalog, forked: list[Table], aside: Table, damaged: str, first: str
) -> None:
    half_publish(catalog)
    damage(catalog)
    (Path(catalog.warehouse) / "a.db/aside" / damaged).write_text("garbage")
    if first == "recover" or damaged != "schema/schema-0":
        (ended,) = Catalog(catalog.warehouse).discard_damaged()
        assert "a.aside is left as it is, for it cannot be read" in ended.what
    anew = Catalog(catalog.warehouse)
    anew.drop_table("a.aside", discard_damaged=damaged == "schema/schema-0")
    anew.discard_damaged()
    assert all_held(anew) == [OLD] * 3 and anew.consistent(NAMES) and not anew.damaged_publications()


def test_a_table_that_cannot_be_read_and_has_the_tag_is_not_passed_by(catalog: Catalog, forked: list[Table]) -> None:
    half_publish(catalog)
    damage(catalog)
    (Path(catalog.warehouse) / "a.db/one/schema/schema-0").write_text("garbage")
    anew = Catalog(catalog.warehouse)
    with pytest.raises(CorruptData, match=r"schema-0.*a\.one has the tag.*drop-table a\.one --discard-damaged"):
        anew.discard_damaged()
    anew.drop_table("a.one", discard_damaged=True)
    anew.discard_damaged()
    assert not anew.damaged_publications()


def test_a_publication_that_is_refused_keeps_no_other_from_being_finished(
    catalog: Catalog, forked: list[Table]
) -> None:
    for name in NAMES:
        with dying_before(name):
            catalog.branch_set("fix", [name]).publish()
    for table in (forked[0], forked[1]):
        table.write(rows(1))
    with pytest.raises(CommitConflict, match=r"a\.one cannot take it over.*a\.two cannot take it over"):
        catalog.recover()
    assert [publication.tables for publication in catalog.publications()] == [("a.one",), ("a.two",)]
    assert held(forked[2]) == FIXED
