"""The disk is full from each write of an operation on: the error is one of the store and says what has become of it, and once
there is room the operation can be repeated as the error says.
"""

import os
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from storage import AddColumn, Catalog, StorageError, StoreUnavailable, Table, View, ViewColumn, parse_type
from tests.crash.full_disk import FullDisk

pytestmark = [
    pytest.mark.pypaimon_differs("what a full disk has left is there on purpose"),
    pytest.mark.java_differs("what a full disk has left is there on purpose"),
]
SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.int64())])
TABLES = ["d.t", "d.u"]


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids), "v": list(ids)}, SCHEMA)


def prepare(catalog: Catalog) -> None:
    options = {"bucket": 1, "num-sorted-run.compaction-trigger": 3}
    for name in TABLES:
        table = catalog.create_table(name, SCHEMA, primary_key=["id"], options=options)
        table.write(rows(1))
        table.write(rows(2))
        table.tags.create("one", snapshot_id=1)
    catalog.branch_set("fix", TABLES).create()
    for name in TABLES:
        catalog.table(name).on_branch("fix").write(rows(5))
    catalog.table("d.t").branches.create("other")


def redefined(table: Table) -> Table:
    return table.redefined(replace(table.schema, options={**table.schema.options, "file.format": "orc"}))


Act = Callable[[Catalog], Any]
ACTS: dict[str, Act] = {
    "write": lambda catalog: catalog.table("d.t").write(rows(7)),
    "overwrite": lambda catalog: catalog.table("d.t").overwrite(rows(7)),
    "update": lambda catalog: catalog.table("d.t").update("id = 1", {"v": "9"}),
    "delete": lambda catalog: catalog.table("d.t").delete("id = 1"),
    "compact": lambda catalog: catalog.table("d.t").compact(full=True),
    "rescale": lambda catalog: catalog.table("d.t").rescale(2),
    "redefine": lambda catalog: redefined(catalog.table("d.t")).overwrite(rows(7)),
    "alter": lambda catalog: catalog.table("d.t").alter(AddColumn("w", parse_type("INT"))),
    "tag": lambda catalog: catalog.table("d.t").tags.create("x"),
    "branch": lambda catalog: catalog.table("d.t").branches.create("b"),
    "branch set": lambda catalog: catalog.branch_set("both", TABLES).create(),
    "delete branch": lambda catalog: catalog.table("d.t").branches.delete("other"),
    "merge": lambda catalog: catalog.table("d.t").branches.merge("fix"),
    "fast forward": lambda catalog: catalog.table("d.t").branches.fast_forward("fix"),
    "replace main": lambda catalog: catalog.table("d.t").branches.replace_main("fix"),
    "publish": lambda catalog: catalog.branch_set("fix", TABLES).publish(),
    "rollback": lambda catalog: catalog.table("d.t").rollback_to("one"),
    "rename": lambda catalog: catalog.rename_table("d.u", "d.w"),
    "create": lambda catalog: catalog.create_table("d.n", SCHEMA),
    "view": lambda catalog: catalog.views.create("d.v", View("SELECT id FROM d.t", (ViewColumn("id", "BIGINT"),))),
    "consumer": lambda catalog: catalog.table("d.t").consumers.reset("feed", 2),
    "orphan cleaning": lambda catalog: catalog.table("d.t").remove_orphan_files(),
}


def seen(catalog: Catalog) -> Any:
    """What an operation may change."""
    contents = {}
    for name in catalog.tables():
        table = catalog.table(name)
        branches = {each: len(table.on_branch(each).schema.fields) for each in table.branches.names()}
        tags = [tag.name for tag in table.tags.list() if not tag.name.startswith("snapline-")]
        rows_there = sorted(map(str, table.to_arrow().to_pylist()))
        contents[name] = (rows_there, branches, tags, len(table.schema.fields), dict(table.schema.options))
    return contents, catalog.views.names("d")


@pytest.mark.parametrize("name", ACTS)
def test_a_full_disk_is_told_with_what_has_become_of_it(tmp_path: Path, name: str) -> None:
    begun, now = tmp_path / "begun", tmp_path / "now"
    prepare(Catalog(str(begun)))
    shutil.copytree(begun, now)
    whole = FullDisk()
    with whole.used():
        ACTS[name](Catalog(str(now)))
    before, after = seen(Catalog(str(begun))), seen(Catalog(str(now)))
    assert whole.writes
    for number, path in enumerate(whole.writes):
        shutil.rmtree(now)
        shutil.copytree(begun, now)
        error = _on_a_full_disk(ACTS[name], str(now), number)
        there = seen(Catalog(str(now)))
        where = f"full from write {number}, of {path}: {error}"
        if error is None:
            assert there == after, where
            continue
        assert isinstance(error, StoreUnavailable), where
        assert error.says_outcome, where
        assert "The disk is full: make room." in str(error), where
        # The file, and so the table.
        assert str(now) in str(error), where
        if error.landed is False:
            assert there == before, where
        if name == "rescale" and there != before:
            assert "d.t has 2 buckets by its schema" in str(error) and "rescale d.t --buckets 2" in str(error), where
        _go_on(Catalog(str(now)), name, str(error))
        assert seen(Catalog(str(now))) == after, where


def _on_a_full_disk(act: Act, warehouse: str, number: int) -> StorageError | None:
    with FullDisk(number).used():
        try:
            act(Catalog(warehouse))
        except StorageError as error:
            return error
    return None


def _go_on(catalog: Catalog, name: str, said: str) -> None:
    """What an error says is to be done, once there is room."""
    for table, branch in re.findall(r"`snapline delete-branch (\S+) --name (\w+)`", said):
        catalog.table(table).branches.delete(branch)
    if name == "publish" and catalog.publications():
        catalog.recover()
    else:
        ACTS[name](catalog)


def test_a_branch_set_that_finds_no_room_is_on_no_table_and_made_by_the_next_call(tmp_path: Path) -> None:
    """All that needs room is written before the first of the branches has its name."""
    begun, now = tmp_path / "begun", tmp_path / "now"
    prepare(Catalog(str(begun)))
    shutil.copytree(begun, now)
    whole = FullDisk()
    with whole.used():
        ACTS["branch set"](Catalog(str(now)))
    failed = 0
    for number in range(len(whole.writes)):
        shutil.rmtree(now)
        shutil.copytree(begun, now)
        error = _on_a_full_disk(ACTS["branch set"], str(now), number)
        catalog = Catalog(str(now))
        has = {name for name in TABLES if "both" in catalog.table(name).branches.names()}
        if error is None:
            assert has == set(TABLES)
            continue
        failed += 1
        assert not has and "delete-branch" not in str(error), error
        for name in TABLES:
            directory = catalog.table(name).store.paths.branch_directory
            assert [each for each in os.listdir(directory) if each.startswith(".")] == []
            assert not [tag for tag in catalog.table(name).store.tags.names() if tag.startswith("snapline-hold")]
        ACTS["branch set"](catalog)
        assert all("both" in catalog.table(name).branches.names() for name in TABLES)
    assert failed > len(TABLES)
