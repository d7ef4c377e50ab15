"""Whoever writes to a table that is renamed, and named back, meanwhile commits all of it or nothing.

The table is the same before and after. What is written under its name in between lies in no table, and is lost.
"""

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from storage import Catalog, CommitOutcomeUnknown, FailedWork, StoreUnavailable, Table
from storage.metadata.table_store import TableStore
from tests.storage.interrupted import Interrupted, acknowledged, calls_of

SCHEMA = pa.schema([pa.field("k", pa.int64(), False), pa.field("v", pa.int64())])


def rows(*keys: int) -> pa.Table:
    return pa.table({"k": list(keys), "v": list(keys)}, schema=SCHEMA)


def contents(table: Table) -> list[tuple[int, int]]:
    return sorted((row["k"], row["v"]) for row in table.to_arrow().to_pylist())


OPERATIONS: dict[str, tuple[list[str], dict[str, str], Callable[[Table], object]]] = {
    "append": ([], {}, lambda table: table.write(rows(3, 4))),
    "upsert": (["k"], {"bucket": "2", "changelog-producer": "input"}, lambda table: table.write(rows(1, 3, 4))),
    "delete": ([], {}, lambda table: table.delete("k = 1")),
    "mark": ([], {"deletion-vectors.enabled": "true"}, lambda table: table.delete("k = 1")),
    "overwrite": ([], {}, lambda table: table.overwrite(rows(9))),
    "compact": (["k"], {"bucket": "1", "write-only": "true"}, lambda table: table.compact(full=True)),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_table_that_is_renamed_and_named_back_has_all_or_nothing(name: str, tmp_path: Path) -> None:
    key, options, change = OPERATIONS[name]
    base = f"{tmp_path}/base"
    table = Catalog(base).create_table("a.t", SCHEMA, primary_key=key, options=options)
    for given in (rows(1, 2), rows(2, 5)):
        table.write(given)
    before = contents(table)

    def prepare(catalog: Catalog) -> None:
        shutil.copytree(base, catalog.warehouse)

    def act(catalog: Catalog) -> None:
        change(catalog.table("a.t"))

    calls = len(calls_of(str(tmp_path), prepare, act))
    after = contents(Catalog(f"{tmp_path}/whole").table("a.t"))
    outcomes = {True: 0, False: 0}
    for gone in range(calls):
        for back in range(gone + 1, calls + 1):
            catalog = Catalog(f"{tmp_path}/{gone}-{back}")
            prepare(catalog)
            files = Interrupted(gone, lambda: rename_and_back(catalog, files, back), catalog.warehouse)  # noqa: B023
            has_landed = acknowledged(act, Catalog(catalog.warehouse, file_io=files))
            if catalog.exists("a.other"):
                catalog.rename_table("a.other", "a.t")
            opened = Catalog(catalog.warehouse).table("a.t")
            assert contents(opened) in ([after] if has_landed else [before, after]), (gone, back)
            # A hint may tell of a snapshot that was taken away: it is not believed. What failed after a commit is told.
            lines = [line for line in opened.check(deep=True) if not isinstance(line, FailedWork)]
            assert [line for line in lines if "hint" not in line.where] == [], (gone, back)
            outcomes[has_landed] += 1
    assert outcomes[True] and outcomes[False], outcomes


def rename_and_back(catalog: Catalog, files: Interrupted, back: int) -> None:
    """Rename the table now, and give it its name back before a later call."""
    catalog.rename_table("a.t", "a.other")
    files.stop_at(back, lambda: catalog.rename_table("a.other", "a.t"))


def test_a_store_that_fails_while_it_is_looked_where_a_snapshot_has_gone_takes_no_files_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = Catalog(str(tmp_path))
    table = catalog.create_table("a.t", SCHEMA)
    before = set(tmp_path.rglob("*"))
    answers = iter([False])

    def is_same_table(_: TableStore) -> bool:
        if (answer := next(answers, None)) is None:
            raise StoreUnavailable("no answer")
        return answer

    with monkeypatch.context() as patch:
        patch.setattr(TableStore, "refuse_other_table", lambda _: None)
        patch.setattr(TableStore, "is_same_table", is_same_table)
        with pytest.raises(CommitOutcomeUnknown, match="Look for a snapshot of user"):
            table.write(rows(1))
    assert {path.parent.name for path in set(tmp_path.rglob("*")) - before} >= {"snapshot", "manifest", "bucket-0"}
    assert contents(catalog.table("a.t")) == [(1, 1)]
