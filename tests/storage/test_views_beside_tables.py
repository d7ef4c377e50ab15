"""A table and a view share their names, whoever else is at it: one operation is stopped before each call that it makes to the
file system, and another one runs to its end there. What was acknowledged is still there, and no name is both unless that is said.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from storage import Catalog, CommitConflict, View, ViewColumn
from tests.storage.interrupted import Act, Interrupted, each_stop

SCHEMA = pa.schema([("k", pa.int64())])
ROWS = pa.table({"k": [1]})


def view(query: str = "SELECT 1 AS x") -> View:
    return View(query, (ViewColumn("x", "INT"),))


URLS = pytest.mark.parametrize("scheme", ["", "memory:/"], ids=["local", "object store"])


def create_view(catalog: Catalog) -> None:
    catalog.views.create("d.n", view())


def create_and_write(catalog: Catalog) -> None:
    catalog.create_table("d.n", SCHEMA).write(ROWS)


def rename_table(catalog: Catalog) -> None:
    catalog.rename_table("d.t", "d.n")


def with_table(catalog: Catalog) -> None:
    catalog.create_table("d.t", SCHEMA).write(ROWS)


PAIRS = [
    (create_view, create_and_write),
    (create_view, rename_table),
    (create_and_write, create_view),
    (rename_table, create_view),
]


@URLS
@pytest.mark.parametrize(("first", "beside"), PAIRS)
def test_a_name_is_a_table_or_a_view(tmp_path: Path, scheme: str, first: Act, beside: Act) -> None:
    for call, catalog, done, done_beside in each_stop(f"{scheme}{tmp_path}", with_table, first, beside):
        is_view, is_table = catalog.views.exists("d.n"), catalog.exists("d.n")
        assert not (is_view and is_table), call
        assert done or done_beside or not (is_view or is_table), call
        for act, was in ((first, done), (beside, done_beside)):
            if was:
                assert is_view if act is create_view else is_table, call
        if (done and first is create_and_write) or (done_beside and beside is create_and_write):
            assert catalog.table("d.n").count() == 1, call
        assert catalog.table("d.n" if not catalog.exists("d.t") else "d.t").count() == 1, call


@URLS
def test_a_database_is_not_dropped_with_a_view_that_came_meanwhile(tmp_path: Path, scheme: str) -> None:
    def drop(catalog: Catalog) -> None:
        catalog.drop_database("d")

    for call, catalog, _, was_created in each_stop(
        f"{scheme}{tmp_path}", lambda opened: opened.create_database("d"), drop, create_view
    ):
        assert catalog.views.exists("d.n") or not was_created, call


def test_a_database_is_dropped_with_its_views(tmp_path: Path) -> None:
    catalog = Catalog(str(tmp_path))
    with_table(catalog)
    create_view(catalog)
    (tmp_path / "d.db" / "no name.view").write_text("somebody's")
    catalog.drop_database("d", cascade=True)
    assert catalog.databases() == []


@URLS
def test_a_view_whose_renaming_failed_takes_no_other_one_away(tmp_path: Path, scheme: str) -> None:
    def prepare(catalog: Catalog) -> None:
        catalog.create_database("d")
        catalog.views.create("d.v", view())

    def replace_both(catalog: Catalog) -> None:
        catalog.views.create("d.v", view("SELECT 2 AS x"), replaces=True)
        catalog.views.create("d.w", view("SELECT 3 AS x"), replaces=True)

    def rename(catalog: Catalog) -> None:
        catalog.views.rename("d.v", "d.w")

    for call, catalog, done, _ in each_stop(f"{scheme}{tmp_path}", prepare, rename, replace_both):
        kept = catalog.views.get("d.w")
        assert kept is not None and (done or kept.query == "SELECT 3 AS x"), call


def test_a_table_that_comes_second_to_a_view_and_has_been_written_stays(tmp_path: Path) -> None:
    """Three at once: the view is created, and acknowledged, before the table is there, and somebody writes to that."""
    warehouse = str(tmp_path)
    Catalog(warehouse).create_database("d")
    counted = Interrupted(None, lambda: None, warehouse)
    catalog = Catalog(warehouse, file_io=counted)
    catalog.create_table("d.other", SCHEMA)
    first_look, second_look = (
        number for number, call in enumerate(counted.calls) if call == f"exists {tmp_path}/d.db/other.view"
    )

    class Both(Interrupted):
        def _call(self, name: str, path: str, act: Callable[[], Any], torn: Callable[[], Any] | None = None) -> Any:
            if len(self.calls) == first_look + 1:
                create_view(Catalog(warehouse))
            if len(self.calls) == second_look:
                assert Catalog(warehouse).table("d.n").write(ROWS) is not None
            return super()._call(name, path, act, torn)

    with pytest.raises(CommitConflict, match="is a table and a view"):
        Catalog(warehouse, file_io=Both(None, lambda: None, warehouse)).create_table("d.n", SCHEMA)
    catalog = Catalog(warehouse)
    assert catalog.table("d.n").count() == 1 and catalog.views.exists("d.n")
    assert ["a table and a view" in str(line) for line in catalog.check()] == [True]
    catalog.views.drop("d.n")
    assert catalog.check() == []
