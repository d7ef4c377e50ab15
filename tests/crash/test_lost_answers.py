"""A network disk carries a call out and loses its answer: what has landed is told as done."""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from storage import AddColumn, Catalog, StorageError, View, ViewColumn
from tests.crash.failing_files import AFTER, FailingFileIO

pytestmark = [
    pytest.mark.pypaimon_differs("calls to the file system fail on purpose"),
    pytest.mark.java_differs("calls to the file system fail on purpose"),
]
SCHEMA = pa.schema([("k", pa.int64())])
# What gives a file or a directory its name, or takes it away.
_CALLS = ("link", "rename", "replace", "unlink", "mkdir")


def view(query: str = "SELECT k FROM d.t") -> View:
    return View(query, (ViewColumn("k", "BIGINT"),))


def prepare(warehouse: str) -> None:
    catalog = Catalog(warehouse)
    table = catalog.create_table("d.t", SCHEMA)
    table.write(pa.table({"k": [1]}, SCHEMA))
    table.tags.create("kept")
    catalog.views.create("d.v", view())


ACTS: dict[str, tuple[Callable[[Catalog], object], Callable[[Catalog], object]]] = {
    "create": (lambda catalog: catalog.create_table("d.n", SCHEMA), lambda catalog: catalog.exists("d.n")),
    "create a database": (lambda catalog: catalog.create_database("e"), lambda catalog: "e" in catalog.databases()),
    "rename": (lambda catalog: catalog.rename_table("d.t", "d.n"), lambda catalog: catalog.tables() == ["d.n"]),
    "drop": (lambda catalog: catalog.drop_table("d.t"), lambda catalog: catalog.tables() == []),
    "alter": (
        lambda catalog: catalog.table("d.t").alter(AddColumn("x", pa.int32())),
        lambda catalog: catalog.table("d.t").schema.column_names == ["k", "x"],
    ),
    "branch": (
        lambda catalog: catalog.table("d.t").branches.create("b"),
        lambda catalog: catalog.table("d.t").branches.names() == ["b"],
    ),
    "tag": (
        lambda catalog: catalog.table("d.t").tags.create("t"),
        lambda catalog: "t" in {tag.name for tag in catalog.table("d.t").tags.list()},
    ),
    "drop a tag": (
        lambda catalog: catalog.table("d.t").tags.delete("kept"),
        lambda catalog: catalog.table("d.t").tags.list() == [],
    ),
    "view": (
        lambda catalog: catalog.views.create("d.w", view()),
        lambda catalog: catalog.views.names("d") == ["v", "w"],
    ),
    "replace a view": (
        lambda catalog: catalog.views.create("d.v", view("SELECT 1 AS k"), replaces=True),
        lambda catalog: catalog.views.get("d.v").query == "SELECT 1 AS k",
    ),
    "rename a view": (
        lambda catalog: catalog.views.rename("d.v", "d.w"),
        lambda catalog: catalog.views.names("d") == ["w"],
    ),
    "drop a view": (lambda catalog: catalog.views.drop("d.v"), lambda catalog: catalog.views.names("d") == []),
}


class Calls:
    """Calls of the operating system, one of which is carried out and fails."""

    def __init__(self, fails_at: int | None, patch: pytest.MonkeyPatch) -> None:
        self.count = 0
        for name in _CALLS:
            patch.setattr(os, name, self._counted(getattr(os, name), fails_at))

    def _counted(self, call: Any, fails_at: int | None) -> Any:
        def counted(*given: Any, **named: Any) -> Any:
            number, self.count = self.count, self.count + 1
            answer = call(*given, **named)
            if number == fails_at:
                raise OSError(errno.EIO, "Input/output error", given[0])
            return answer

        return counted


def count_of(act: Callable[[Catalog], object], warehouse: str) -> int:
    with pytest.MonkeyPatch.context() as patch:
        calls = Calls(None, patch)
        act(Catalog(warehouse))
    return calls.count


@pytest.mark.parametrize("name", ACTS)
def test_what_has_landed_is_done_though_its_answer_is_lost(tmp_path: Path, name: str) -> None:
    act, is_done = ACTS[name]
    prepare(str(tmp_path / "first"))
    count = count_of(act, str(tmp_path / "first"))
    assert count
    wrong = []
    for number in range(count):
        warehouse = str(tmp_path / f"{number}")
        prepare(warehouse)
        with pytest.MonkeyPatch.context() as patch:
            Calls(number, patch)
            try:
                act(Catalog(warehouse))
            except StorageError as error:
                wrong.append(f"{number}: {error}")
        if not is_done(Catalog(warehouse)):
            wrong.append(f"{number}: it is not done")
    assert not wrong, "\n".join([f"{len(wrong)} of {count}", *wrong])


@pytest.mark.parametrize("name", ["create", "rename", "alter", "branch", "view", "drop a view"])
def test_an_error_says_whether_it_is_done(tmp_path: Path, name: str) -> None:
    act, is_done = ACTS[name]
    prepare(str(tmp_path / "first"))
    counted = FailingFileIO(url=str(tmp_path / "first"))
    act(Catalog(str(tmp_path / "first"), file_io=counted))
    wrong = []
    for number, call in enumerate(counted.calls):
        warehouse = str(tmp_path / f"{number}")
        prepare(warehouse)
        try:
            act(Catalog(warehouse, file_io=FailingFileIO(number, AFTER, warehouse)))
        except StorageError as error:
            done, said = is_done(Catalog(warehouse)), str(error)
            says_done = any(
                words in said for words in ("is there", "called d.n now", "was changed all the same", "cannot be known")
            )
            if done and not says_done:
                wrong.append(f"{call}: it is done, and told is {said}")
            if not done and ("is there." in said or " now." in said):
                wrong.append(f"{call}: it is not done, and told is {said}")
        else:
            if not is_done(Catalog(warehouse)):
                wrong.append(f"{call}: nothing is raised, and it is not done")
    assert not wrong, "\n".join([f"{len(wrong)} of {len(counted.calls)}", *wrong])
