"""A branch becomes main of several tables, or of none, whoever writes to one of them meanwhile and wherever it dies."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from storage import Catalog, CommitConflict
from storage.file_io import FileIO

NAMES = ["d.a", "d.b"]
CHANGES = ("create_exclusively", "overwrite", "delete", "delete_if", "replace_if")


class Died(BaseException):
    """The process is gone."""


def rows(*ids: int, v: str) -> pa.Table:
    return pa.table({"id": list(ids), "v": [v] * len(ids)})


def held(catalog: Catalog) -> list[list[tuple[int, str]]]:
    return [sorted((row["id"], row["v"]) for row in catalog.read(name).to_pylist()) for name in NAMES]


@pytest.fixture
def forked(catalog: Catalog) -> Catalog:
    schema = pa.schema([("id", pa.int64()), ("v", pa.string())])
    for name in NAMES:
        catalog.create_table(name, schema, primary_key=["id"], options={"bucket": 1}).write(rows(1, v="main"))
    catalog.branch_set("fix", NAMES).create()
    for name in NAMES:
        catalog.table(name).on_branch("fix").write(rows(88, v="fix"))
    return catalog


@contextmanager
def stopping(at: int, act: Callable[[], None]) -> Iterator[list[str]]:
    """Before that change of a file `act` is done, which may change files itself; yields the changes."""
    seen: list[str] = []
    is_acting = [False]

    def wrap(original: Any) -> Any:
        def call(self: FileIO, path: Any, *rest: Any, **named: Any) -> Any:
            if not is_acting[0]:
                seen.append(str(path))
                if len(seen) == at + 1:
                    is_acting[0] = True
                    act()
                    is_acting[0] = False
            return original(self, path, *rest, **named)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for name in CHANGES:
            patch.setattr(FileIO, name, wrap(getattr(FileIO, name)))
        yield seen


def write_to(catalog: Catalog, name: str, landed: list[bool]) -> None:
    try:
        Catalog(catalog.warehouse).table(name).write(rows(88, v="late"))
        landed.append(True)
    except CommitConflict as error:
        assert "closed to writers" in str(error)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("way", ["lives", "recover", "undo"])
def test_a_write_beside_leaves_all_mains_replaced_or_none(forked: Catalog, tmp_path: Path, name: str, way: str) -> None:
    ended = set()
    for at in count():
        copy = Catalog(str(shutil.copytree(forked.warehouse, tmp_path / f"copy-{at}")))
        landed: list[bool] = []

        def act(copy: Catalog = copy, landed: list[bool] = landed) -> None:
            write_to(copy, name, landed)
            if way != "lives":
                raise Died

        refusal = ""
        with stopping(at, act) as seen:
            try:
                copy.branch_set("fix", NAMES).replace_main()
            except CommitConflict as error:
                refusal = str(error)
            except Died:
                pass
        if len(seen) <= at:
            break
        try:
            copy.recover(undo=way == "undo")
        except CommitConflict as error:
            assert "cannot be undone. Finish it" in str(error) if way == "undo" else "of no table" in str(error), at
            copy.recover()
        assert copy.publications() == [], (at, seen[-1])
        mains = [copy.table(table_name).store.paths.branch == "fix" for table_name in NAMES]
        assert len(set(mains)) == 1, (at, seen[-1])
        assert not (refusal and mains[0]), refusal
        late = [(88, "late")] if landed else []
        wanted = [[(1, "main"), (88, "fix")] if mains[0] else [(1, "main")] for _ in NAMES]
        if landed:
            # Whoever wrote to the branch that is main by then wrote over its row.
            wanted[NAMES.index(name)] = [(1, "main"), *late]
        assert held(copy) == wanted, (at, seen[-1])
        for table_name in NAMES:
            table = copy.table(table_name)
            table.write(rows(7, v="next"))
            branches = [table, *([] if mains[0] else [table.on_branch("fix")])]
            assert not any("publication" in tag.name for branch in branches for tag in branch.tags.list())
            assert table.check() == []
        ended.add(mains[0])
        shutil.rmtree(copy.warehouse)
    assert True in ended and False in ended
