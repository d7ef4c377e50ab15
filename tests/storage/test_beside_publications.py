"""What is done by hand to a table of a publication that is open is refused by name, whenever the publication begins."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from storage import Catalog, CommitConflict, CorruptData, InvalidRequest, Table, drop_table, rename_table
from storage.journal import Journal, Publication
from storage.maintain import beside_publication
from storage.metadata.tag import Tag, TagFiles
from storage.publications import undo as undoing
from storage.write.close import REPLACEMENT, close
from tests.storage.branched_tables import (
    FIXED,
    NAMES,
    OLD,
    SCHEMA,
    all_held,
    all_seen,
    dying_before,
    fork_tables,
    half_publish,
    held,
    make_tables,
    rows,
)

# By hand, on the main of a table.
BY_HAND: dict[str, Callable[[Table], Any]] = {
    "rollback": lambda table: table.rollback_to(1),
    "rollback to a tag": lambda table: table.rollback_to("first"),
    "merge": lambda table: table.branches.merge("other"),
    "merge of the branch that is published": lambda table: table.branches.merge("fix"),
    "fast forward": lambda table: table.branches.fast_forward("other", discard_main=True),
    "fast forward to an empty branch": lambda table: table.branches.fast_forward("empty", discard_main=True),
    "replace main": lambda table: table.branches.replace_main("other", discard_main=True),
    "replace main with the branch that is published": lambda table: table.branches.replace_main("fix"),
}


@pytest.fixture
def forked(catalog: Catalog) -> list[Table]:
    """All tables with the branches `fix`, `other` (of another day) and `empty`, and a tag."""
    tables = fork_tables(catalog, make_tables(catalog))
    for table in tables:
        table.tags.create("first", snapshot_id=1)
        table.branches.create("other")
        table.on_branch("other").write(rows(8, day="y", v="other"))
        table.branches.create("empty", empty=True)
    return tables


@pytest.mark.one_in(2)
@pytest.mark.parametrize("way", ["finish", "undo"])
@pytest.mark.parametrize("name", ["a.one", "b.three"])
@pytest.mark.parametrize("act", BY_HAND)
def test_what_is_done_by_hand_beside_an_open_publication_is_refused(
    catalog: Catalog, forked: list[Table], act: str, name: str, way: str
) -> None:
    half_publish(catalog)
    before = all_held(catalog)
    with pytest.raises(CommitConflict, match=r"Publication 1 of branch 'fix' is open.*`snapline branch recover`"):
        BY_HAND[act](catalog.table(name))
    assert all_held(catalog) == before
    assert all_seen(catalog) == [OLD] * 3
    catalog.recover(undo=way == "undo")
    assert all_held(catalog) == all_seen(catalog) == [FIXED if way == "finish" else OLD] * 3
    BY_HAND[act](catalog.table(name))
    assert [catalog.table(table_name).check(deep=True) for table_name in NAMES] == [[]] * 3


def test_writers_and_other_branches_and_tables_go_on_beside_an_open_publication(
    catalog: Catalog, forked: list[Table]
) -> None:
    aside = catalog.create_table("a.aside", forked[0].schema.fields, primary_key=["day", "id"], options={"bucket": 1})
    aside.write(rows(1))
    aside.write(rows(2))
    half_publish(catalog)
    aside.rollback_to(1)
    catalog.rename_table("a.aside", "a.elsewhere")
    three = catalog.table("b.three")
    three.write(rows(7, day="y"))
    three.delete("id = 7")
    three.on_branch("other").rollback_to(2)
    three.branches.delete("empty")
    catalog.recover()
    assert all_held(catalog) == [FIXED] * 3


@pytest.mark.parametrize("name", ["a.one", "b.three"])
@pytest.mark.parametrize(
    ("act", "look"),
    [
        ("rollback", 1),
        ("rollback to a tag", 1),
        ("merge", 1),
        ("merge", 2),
        ("merge of the branch that is published", 2),
        ("fast forward", 2),
        ("fast forward to an empty branch", 2),
        ("replace main", 2),
        ("replace main", 3),
        ("replace main with the branch that is published", 2),
        ("replace main with the branch that is published", 3),
    ],
)
def test_a_publication_that_opens_right_after_somebody_has_looked_for_one_is_done_on_all_tables_or_none(
    catalog: Catalog, forked: list[Table], monkeypatch: pytest.MonkeyPatch, act: str, look: int, name: str
) -> None:
    original, looks, ended = beside_publication.refuse_open, [0], list[str]()

    def then_publish(*arguments: Any, **named: Any) -> None:
        original(*arguments, **named)
        if named.get("before") is not None:
            return
        looks[0] += 1
        if looks[0] == look:
            try:
                half_publish(Catalog(catalog.warehouse))
                ended.append("died")
            except CommitConflict as error:
                ended.append(str(error))

    monkeypatch.setattr(beside_publication, "refuse_open", then_publish)
    refusal = None
    try:
        BY_HAND[act](catalog.table(name))
    except CommitConflict as error:
        refusal = str(error)
    monkeypatch.undo()
    if ended != ["died"]:
        # Who publishes was refused, and whoever worked by hand goes on.
        assert "on no table, for main is closed to writers" in ended[0]
        assert refusal is None and catalog.publications() == []
    else:
        # What the publication has done already is no work any more.
        is_done = (act, name) == ("merge of the branch that is published", "a.one")
        assert is_done or "Publication 1 of branch 'fix' is open" in str(refusal)
        assert all_seen(catalog) == [OLD] * 3
        catalog.recover()
        assert all_held(catalog) == [FIXED] * 3
    assert [catalog.table(table_name).check(deep=True) for table_name in NAMES] == [[]] * 3


@pytest.mark.parametrize("later_replaces", [False, True], ids=["merges later", "replaces later"])
@pytest.mark.parametrize("replacing", [False, True], ids=["merges", "replaces"])
def test_whoever_has_made_an_entry_with_a_higher_number_and_died_is_in_nobodys_way(
    catalog: Catalog, forked: list[Table], replacing: bool, later_replaces: bool
) -> None:
    half_publish(catalog, replacing=replacing)
    # He had looked before the first began, and dies before he looks for lower numbers.
    journal = Journal.of_table(forked[0].store.file_io, forked[0].store.paths.root)
    journal.open(Publication("", "fix", dict.fromkeys(NAMES, 1), False, replaces=later_replaces))
    assert [publication.number for publication in catalog.publications()] == [1, 2]
    assert all_seen(catalog) == [OLD] * 3
    catalog.recover()
    assert catalog.publications() == []
    assert all_held(catalog) == all_seen(catalog) == [FIXED] * 3
    assert [catalog.table(table_name).check(deep=True) for table_name in NAMES] == [[]] * 3


@pytest.mark.parametrize("act", ["rename", "drop"])
@pytest.mark.parametrize("name", ["a.one", "b.three"])
def test_a_table_does_not_move_beside_a_publication_that_opens_right_after_the_look(
    catalog: Catalog, forked: list[Table], monkeypatch: pytest.MonkeyPatch, act: str, name: str
) -> None:
    module = rename_table if act == "rename" else drop_table
    original, looks = module.refuse_open, [0]

    def then_publish(*arguments: Any, **named: Any) -> None:
        original(*arguments, **named)
        looks[0] += 1
        if looks[0] == 1:
            half_publish(Catalog(catalog.warehouse))

    with monkeypatch.context() as patch:
        patch.setattr(module, "refuse_open", then_publish)
        with pytest.raises(CommitConflict, match="Publication 1 of branch 'fix' is open"):
            if act == "rename":
                catalog.rename_table(name, "a.moved")
            else:
                catalog.drop_table(name)
    assert all_seen(catalog) == [OLD] * 3
    catalog.recover()
    assert all_held(catalog) == [FIXED] * 3
    assert held(catalog.rename_table(name, "a.moved")) == FIXED


def test_a_table_that_is_closed_right_after_the_look_is_not_renamed(
    catalog: Catalog, forked: list[Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    original, store = rename_table.write_former_names, forked[0].store

    def close_then_write(*arguments: Any) -> None:
        close(store, store.snapshots.latest(), f"{REPLACEMENT} fix")
        original(*arguments)

    monkeypatch.setattr(rename_table, "write_former_names", close_then_write)
    with pytest.raises(CommitConflict, match="closed to writers"):
        catalog.rename_table("a.one", "a.moved")
    forked[0].branches.replace_main("fix")
    assert held(catalog.table("a.one")) == FIXED


@pytest.mark.parametrize("replacing", [False, True])
def test_a_main_that_somebody_closed_is_published_to_on_no_table(
    catalog: Catalog, forked: list[Table], replacing: bool
) -> None:
    store = forked[2].store
    close(store, store.snapshots.latest(), f"{REPLACEMENT} other")
    branches = catalog.branch_set("fix", NAMES)
    with pytest.raises(CommitConflict, match=r"on no table, for main is closed to writers: b\.three"):
        branches.replace_main() if replacing else branches.publish()
    assert catalog.publications() == []
    assert all_held(catalog) == [OLD] * 3
    forked[2].branches.replace_main("other")
    branches.publish(discard_main=True)
    assert [held(catalog.table(name)) for name in NAMES[:2]] == [FIXED] * 2


TAG = "snapline-publication-00000001"


def fork_empty(catalog: Catalog, *names: str) -> None:
    """Tables without snapshots, with a branch `fix` that has rows."""
    for name in names:
        catalog.create_table(name, SCHEMA, primary_key=["day", "id"], options={"bucket": 1})
    catalog.branch_set("fix", names).create()
    for name in names:
        catalog.table(f"{name}$branch_fix").write(rows(1))


@pytest.mark.parametrize("discard_main", [False, True])
def test_what_is_written_while_an_empty_main_is_emptied_again_stays(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch, discard_main: bool
) -> None:
    fork_empty(catalog, "a.one", "a.two")
    with dying_before("a.two"):
        catalog.branch_set("fix", ["a.one", "a.two"]).publish()
    original, pending = undoing.since, [True]

    def then_write(main: Any, *arguments: Any) -> Any:
        history = original(main, *arguments)
        if main.identifier.table == "one" and pending:
            pending.clear()
            Catalog(catalog.warehouse).table("a.one").write(rows(77))
        return history

    with monkeypatch.context() as patch:
        patch.setattr(undoing, "since", then_write)
        catalog.recover(undo=True, discard_main=discard_main)
    assert not pending
    assert held(catalog.table("a.one")) == ([] if discard_main else [("x", 77, "main")])
    assert held(catalog.table("a.two")) == []


@pytest.mark.parametrize("way", ["finish", "undo"])
@pytest.mark.parametrize("loss", ["damaged", "gone"])
def test_an_open_publication_whose_tag_is_lost_ends_on_what_was_before_it(
    catalog: Catalog, forked: list[Table], way: str, loss: str
) -> None:
    half_publish(catalog)
    table = forked[0]
    table.expire(retain_last=1)
    path = Path(table.store.paths.tag(TAG))
    if loss == "gone":
        path.unlink()
    else:
        path.write_bytes(b"garbage")
        with pytest.raises(CorruptData, match=r"`snapline branch recover`.*`--undo`"):
            catalog.consistent(["a.one"])
        with pytest.raises(InvalidRequest, match=r"before publication 1 of branch 'fix'.*`snapline branch recover`"):
            table.tags.delete(TAG)
    assert catalog.foresee_recovery(undo=True)[1]["a.one"] == "goes back to snapshot 2"
    catalog.recover(undo=way == "undo")
    assert all_held(catalog) == all_seen(catalog) == [FIXED if way == "finish" else OLD] * 3
    assert not any(tag.name == TAG for name in NAMES for tag in catalog.table(name).tags.list())
    assert [catalog.table(name).check(deep=True) for name in NAMES] == [[]] * 3


def test_an_undo_is_refused_before_it_is_decided_if_nothing_tells_what_was_before(
    catalog: Catalog, forked: list[Table]
) -> None:
    half_publish(catalog)
    store = forked[0].store
    Path(store.paths.tag(TAG)).write_bytes(b"garbage")
    for number in (1, 2):
        Path(store.paths.snapshot(number)).unlink()
    assert catalog.foresee_recovery(undo=True)[1]["a.one"].startswith("refused: ")
    for discard_main in (False, True):
        with pytest.raises(CommitConflict, match=r"cannot be undone on a\.one: .*snapshot 2, .* has expired"):
            catalog.recover(undo=True, discard_main=discard_main)
    catalog.recover()
    assert all_held(catalog) == [FIXED] * 3


@pytest.mark.parametrize("way", ["finish", "undo"])
def test_whoever_slept_before_making_the_tag_of_a_publication_leaves_none_once_it_has_ended(
    catalog: Catalog, forked: list[Table], monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    original, pending = TagFiles.create, [True]

    def end_then_create(self: TagFiles, name: str, *arguments: Any, **named: Any) -> Tag:
        if name == TAG and pending:
            pending.clear()
            Catalog(catalog.warehouse).recover(undo=way == "undo")
        return original(self, name, *arguments, **named)

    with monkeypatch.context() as patch:
        patch.setattr(TagFiles, "create", end_then_create)
        if way == "undo":
            with pytest.raises(CommitConflict, match="on no table"):
                catalog.branch_set("fix", NAMES).publish()
        else:
            catalog.branch_set("fix", NAMES).publish()
    assert all_held(catalog) == [FIXED if way == "finish" else OLD] * 3
    assert [tag.name for name in NAMES for tag in catalog.table(name).tags.list()] == ["first"] * 3
    assert catalog.publications() == []
