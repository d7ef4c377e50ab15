"""What comes back, by a rollback, a merge, an undo, survives Java's expiry of what took it away, which takes deletions for final.

A tag of the store's own keeps it, which goes once what came before has expired.
"""

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from storage import Catalog, InvalidRequest, Table
from storage.maintain.revert import revert
from storage.write.commit_id import CommitId
from storage.write.take_back import take_back
from tests.interop.java_paimon import JavaPaimon

SCHEMA = pa.schema([pa.field("id", pa.int64(), False), ("item", pa.string())])
KEYED: tuple[dict[str, str], list[str]] = {"bucket": "1"}, ["id"]
TABLES = [KEYED, ({}, []), ({"bucket": "1", "deletion-vectors.enabled": "true"}, ["id"])]
NAMES = ["keyed", "without a key", "with vectors"]
NOW = "shop.t"


def row(number: int, item: str = "a") -> pa.Table:
    return pa.table({"id": [number], "item": [item]}, SCHEMA)


def of_three(catalog: Catalog, options: dict[str, Any] = KEYED[0], key: list[str] = KEYED[1]) -> Table:
    """Of three rows, by snapshots 1 to 3."""
    table = catalog.create_table(NOW, SCHEMA, primary_key=key, options=options)
    for number in range(3):
        table.write(row(number))
    return table


def last(table: Table) -> int:
    snapshot = table.snapshot()
    assert snapshot is not None
    return snapshot.id


def own_tags(table: Table) -> list[str]:
    return [name for name in table.store.tags.names() if name.startswith("snapline-back-")]


def rolled_back(table: Table) -> None:
    target = last(table)
    table.overwrite(row(7))
    table.rollback_to(target)


def rolled_back_twice(table: Table) -> None:
    """With a tag of a state in between, which does not have the rows, so that the first target does not keep them."""
    target = last(table)
    for name in ("one", "two"):
        table.overwrite(row(7))
        table.tags.create(name)
        table.rollback_to(target)


def rolled_back_to_a_tag_that_java_deletes(table: Table) -> None:
    table.tags.create("kept")
    table.overwrite(row(7))
    table.expire(retain_last=1)
    table.rollback_to("kept")


def rolled_back_behind_compactions(table: Table) -> None:
    target = last(table)
    table.compact(full=True)
    table.write(row(8))
    table.compact(full=True)
    table.rollback_to(target)


def merged_over_main(table: Table) -> None:
    table.branches.create("b")
    table.on_branch("b").write(row(0, "b"))
    table.overwrite(row(7))
    table.branches.merge("b", discard_main=True)
    table.branches.delete("b")


def forwarded_over_main(table: Table) -> None:
    table.branches.create("b")
    table.overwrite(row(7))
    table.branches.fast_forward("b", discard_main=True)
    table.branches.delete("b")


def merged_over_compaction(table: Table) -> None:
    table.branches.create("b")
    table.on_branch("b").write(row(0, "b"))
    table.compact(full=True)
    table.branches.merge("b")
    table.branches.delete("b")


def merged_over_a_tag_of_the_branch(table: Table) -> None:
    """The tag has a number that is another snapshot here, between what went and what came back."""
    table.branches.create("b")
    branch = table.on_branch("b")
    branch.overwrite(row(5))
    branch.write(row(6))
    branch.tags.create("other")
    table.tags.create("mine")
    target = last(table)
    table.branches.merge("b")
    # As long as it is there, files that both have are nobody's alone (decision 0020).
    table.branches.delete("b")
    table.write(row(8))
    table.overwrite(row(7))
    table.rollback_to(target)


def taken_back_alone(table: Table) -> None:
    table.overwrite(row(7))
    table.write(row(8))
    revert(table.store, table.store.snapshots.get(last(table) - 1), CommitId("test", 1))


def taken_back_late(table: Table) -> None:
    """As whoever committed so late that his files may be gone takes his commit back."""
    snapshots = table.store.snapshots
    before = snapshots.latest()
    table.overwrite(row(7))
    newest = snapshots.latest()
    assert newest is not None
    assert take_back(table.store, newest, before) is not None


def emptied_and_refilled(table: Table) -> None:
    """Back to before an expiry's earliest snapshot, then on with writes."""
    rolled_back(table)
    table.write(row(8))
    table.compact(full=True)


Scene = Callable[[Table], None]
SCENES: list[Scene] = [
    rolled_back,
    rolled_back_twice,
    rolled_back_to_a_tag_that_java_deletes,
    rolled_back_behind_compactions,
    merged_over_main,
    forwarded_over_main,
    merged_over_compaction,
    merged_over_a_tag_of_the_branch,
    taken_back_alone,
    taken_back_late,
    emptied_and_refilled,
]


def readable(table: Table) -> dict[int, list[dict[str, Any]]]:
    """What each snapshot has."""
    contents = {}
    for number in table.store.snapshots.ids():
        contents[number] = sorted(table.at(number).to_arrow().to_pylist(), key=lambda record: record["id"])
    return contents


@pytest.mark.parametrize("deletes_tags", [False, True], ids=["", "then tags"])
@pytest.mark.parametrize(("options", "key"), TABLES, ids=NAMES)
@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
def test_what_came_back_survives_each_step_of_javas_expiry(
    java: JavaPaimon, catalog: Catalog, scene: Scene, options: dict[str, Any], key: list[str], deletes_tags: bool
) -> None:
    if scene is taken_back_alone and "deletion-vectors.enabled" in options:
        pytest.skip("refused for tables with deletion vectors")
    scene(of_three(catalog, options, key))
    table = catalog.table(NOW)
    shown, tags = readable(table), [tag.name for tag in table.tags.list()]
    for retain in range(len(shown), 0, -1):
        java.ask(catalog.warehouse, NOW, "expire", retain=retain)
        if deletes_tags and retain == 1:
            for tag in tags:
                java.ask(catalog.warehouse, NOW, "delete tag", tag=tag)
        table = catalog.table(NOW)
        there = readable(table)
        assert there == {number: shown[number] for number in there} and last(table) in there
        assert table.check(deep=True) == []
    # Here, once all has expired, nothing is left of it.
    table.write(row(20))
    table.expire(retain_last=1)
    for left in table.tags.list():
        table.tags.delete(left.name)
    table.tags.expire()
    assert own_tags(table) == []
    if scene is taken_back_late:
        # The files of who came late are left to orphan cleaning.
        return
    left_over = table.remove_orphan_files(older_than=dt.timedelta(), no_writers=True, dry_run=True)
    # What was decided of closed branches goes only so.
    assert [file.path for file in left_over if "/.closed-" not in file.path] == []


def test_what_keeps_it_goes_with_what_came_before_and_is_no_tag_of_users(catalog: Catalog) -> None:
    table = of_three(catalog)
    table.tags.create("mine")
    rolled_back(table)
    (name,) = own_tags(table)
    assert name.startswith("snapline-back-4-")
    assert [tag.name for tag in table.tags.list()] == ["mine"] == table.system_table("tags")["tag_name"].to_pylist()
    with pytest.raises(InvalidRequest, match="goes once what came before"):
        table.tags.delete(name)
    table.tags.delete("mine")
    table.write(row(8))
    removal = table.expire(retain_last=3, dry_run=True)
    assert removal == table.expire(retain_last=3) and own_tags(table) == [name]
    table.compact(full=True)
    removal = table.expire(retain_last=1, dry_run=True)
    files = {path.name for path in Path(table.store.paths.root).rglob("data-*")}
    assert removal == table.expire(retain_last=1) and own_tags(table) == []
    assert len(files) == 6 and len([*Path(table.store.paths.root).rglob("data-*")]) == 1


def test_it_goes_also_where_java_has_let_all_expire(java: JavaPaimon, catalog: Catalog) -> None:
    rolled_back(of_three(catalog))
    java.ask(catalog.warehouse, NOW, "expire", retain=1)
    table = catalog.table(NOW)
    assert len(own_tags(table)) == 1
    table.tags.expire()
    assert own_tags(table) == [] and table.check(deep=True) == []


def test_where_nothing_comes_back_there_is_no_tag(catalog: Catalog) -> None:
    table = of_three(catalog)
    table.branches.create("b")
    table.on_branch("b").write(row(9))
    table.branches.merge("b")
    table.rollback_to(last(table) - 1)
    assert own_tags(table) == []


def test_a_branch_that_becomes_main_has_what_main_had(catalog: Catalog) -> None:
    table = of_three(catalog)
    rolled_back(table)
    names = own_tags(table)
    table.branches.create("b")
    table.branches.replace_main("b")
    table = catalog.table(NOW)
    assert own_tags(table) == names and table.check(deep=True) == []
    table.write(row(8))
    table.expire(retain_last=1)
    assert own_tags(table) == [] and table.check(deep=True) == []
