"""Every call to the file system fails in turn while a table is made, dropped or renamed: what is said of it is true."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from storage import Catalog, CommitOutcomeUnknown, StorageError
from tests.crash.failing_files import BEFORE, MODES, TORN, FailingFileIO

pytestmark = [
    pytest.mark.pypaimon_differs("tables are left half dropped on purpose"),
    pytest.mark.java_differs("tables are left half dropped on purpose"),
]
SCHEMA = pa.schema([("k", pa.int64())])
BEGUN = pa.table({"k": [1, 2]})


class OfObjectStore(FailingFileIO):
    """Without directories that move in one step."""

    moves_at_once = False


def prepare(warehouse: Path) -> None:
    table = Catalog(str(warehouse)).create_table("d.t", SCHEMA, primary_key=["k"], options={"bucket": 1})
    table.write(BEGUN)
    table.tags.create("kept")
    table.branches.create("fix")


ACTS: dict[str, tuple[Callable[[Catalog], object], set[str]]] = {
    "drop": (lambda catalog: catalog.drop_table("d.t"), set()),
    "drop the database": (lambda catalog: catalog.drop_database("d", cascade=True), set()),
    "create": (lambda catalog: catalog.create_table("d.new", SCHEMA), {"d.t", "d.new"}),
    "rename": (lambda catalog: catalog.rename_table("d.t", "d.new"), {"d.new"}),
}


@pytest.mark.parametrize("kind", [FailingFileIO, OfObjectStore])
@pytest.mark.parametrize("name", ACTS)
def test_any_call_of_the_catalog_may_fail(tmp_path: Path, name: str, kind: type[FailingFileIO]) -> None:
    act, after = ACTS[name]
    template = tmp_path / "template"
    prepare(template)
    counted = kind()
    shutil.copytree(template, tmp_path / "done")
    act(Catalog(str(tmp_path / "done"), file_io=counted))
    assert len(counted.calls) > 5
    for number, call in enumerate(counted.calls):
        for mode in (BEFORE,) if call.startswith(("read", "exists", "list")) else MODES:
            if mode == TORN and call.startswith(("delete /", "delete  ", "replace")):
                continue
            warehouse = tmp_path / f"{number}-{mode}"
            shutil.copytree(template, warehouse)
            where = f"{call} failed {mode}"
            error = fail(warehouse, kind(number, mode), act, where)
            catalog = Catalog(str(warehouse), file_io=kind())
            there = set(catalog.tables())
            if error is None:
                assert there == after, f"{where}: nothing was raised, but it is not done"
            elif there == after and name.startswith("drop") and not isinstance(error, CommitOutcomeUnknown):
                said = str(error)
                assert "cannot be known" in said or "database" in said.lower(), (
                    f"{where}: it is done, but told is {said}"
                )
            finish(Catalog(str(warehouse), file_io=kind()), name, where)
            shutil.rmtree(warehouse)


def fail(warehouse: Path, failing: FailingFileIO, act: Callable[[Catalog], object], where: str) -> Exception | None:
    try:
        act(Catalog(str(warehouse), file_io=failing))
    except (StorageError, OSError) as error:
        return error
    except Exception as error:
        raise AssertionError(where) from error
    return None


def finish(catalog: Catalog, name: str, where: str) -> None:
    """Done again, it is done, and the names can be used."""
    if name.startswith("drop"):
        catalog.drop_table("d.t", if_exists=True)
        catalog.drop_database("d", if_exists=True, cascade=True)
        assert catalog.tables() == [], where
        catalog.create_database("d")
        assert catalog.create_table("d.t", SCHEMA).to_arrow().num_rows == 0, where
        return
    if name == "create":
        catalog.create_table("d.new", SCHEMA, if_not_exists=True)
    elif "d.t" in catalog.tables():
        catalog.rename_table("d.t", "d.new")
    moved = catalog.table("d.new")
    if name == "rename":
        assert sorted(moved.to_arrow()["k"].to_pylist()) == [1, 2], where
        assert sorted(moved.at("kept").to_arrow()["k"].to_pylist()) == [1, 2], where
        assert sorted(moved.on_branch("fix").to_arrow()["k"].to_pylist()) == [1, 2], where
    moved.write(pa.table({"k": [3]}))
