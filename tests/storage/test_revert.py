"""One commit is taken back alone: what came later stays, and stays the later one."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from storage import Catalog, CommitId, StoreUnavailable, Table
from storage.maintain.revert import revert
from storage.write import renumber

SCHEMA = pa.schema([("day", pa.string()), ("id", pa.int64()), ("v", pa.string())])


def rows(v: str, count: int = 1) -> pa.Table:
    return pa.table(
        {"day": ["x", "y"] * count, "id": [number for number in range(count) for _ in "xy"], "v": [v] * 2 * count}
    )


def files(table: Table) -> set[str]:
    return {str(path) for path in Path(table.store.paths.root).rglob("*.parquet")}


@pytest.fixture
def overwritten(catalog: Catalog) -> Table:
    """Of two days: rows with high numbers, which an overwrite took away, and a later row with a low one."""
    options = {"bucket": 1, "file.format": "parquet"}
    table = catalog.create_table("a.t", SCHEMA, primary_key=["day", "id"], partition_by=["day"], options=options)
    table.write(rows("first", 9))
    table.overwrite(rows("overwritten"))
    table.write(rows("later"))
    return table


def take_back(table: Table) -> None:
    revert(table.store, table.store.snapshots.get(2), CommitId("test", 1))


def test_rows_that_came_later_stay_the_later_ones(overwritten: Table) -> None:
    take_back(overwritten)
    held = {(row["day"], row["id"]): row["v"] for row in overwritten.to_arrow().to_pylist()}
    assert held == {(day, number): "first" if number else "later" for day in "xy" for number in range(9)}


def test_files_that_were_written_anew_go_if_a_later_one_fails(
    overwritten: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, copied = files(overwritten), []
    original: Callable[..., Any] = renumber._copy

    def fail_at_second(*args: Any) -> int:
        if copied:
            raise StoreUnavailable("the disk is full")
        copied.append(original(*args))
        return copied[-1]

    monkeypatch.setattr(renumber, "_copy", fail_at_second)
    with pytest.raises(StoreUnavailable, match="the disk is full"):
        take_back(overwritten)
    assert copied
    assert files(overwritten) == before
    monkeypatch.undo()
    take_back(overwritten)
    assert overwritten.check(deep=True) == []
