"""The properties by which the store knows what a commit was: no public call lets anybody else set them."""

import importlib
import inspect
import pkgutil
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import storage
from storage import Basis, Catalog, CommitId, InvalidRequest, Table
from storage.branch_set import BranchSet
from storage.branches import Branches
from storage.engines import duckdb_merge
from storage.engines.merge_clauses import MergeClause
from storage.write.commit import TableCommit

OWN = {"snapline.rolled-back-to": "1"}
ID = CommitId("job", 1, exact=True)
ROWS = pa.table({"id": [1, 2], "item": ["x", "y"]})
INSERT = [MergeClause("not matched", "insert", None, {"id": "source.id", "item": "source.item"})]
NOTHING = [MergeClause("matched", "delete", "source.id > 100")]
# What needs Spark, by test: `tests/engines/test_spark.py` and `test_stream.py`.
BY_SPARK = {"spark_writer.write_frame", "spark_rows.merge_rows", "spark_stream.write_stream"}

CALLS: dict[str, Callable[[Catalog, Table, dict[str, str]], Any]] = {
    "Table.write": lambda c, t, p: t.write(ROWS, properties=p),
    "Table.overwrite": lambda c, t, p: t.overwrite(ROWS, properties=p),
    "Table.truncate": lambda c, t, p: t.truncate(properties=p),
    "Table.write_changes": lambda c, t, p: t.write_changes(
        ROWS.append_column("op", pa.array(["+I", "+I"])), "op", "MERGE", properties=p
    ),
    "Table.commit_messages": lambda c, t, p: t.commit_messages([], properties=p),
    "TableCommit.commit": lambda c, t, p: t.new_commit().commit([], properties=p),
    "Branches.adopt": lambda c, t, p: t.branches.adopt("fix", until=1, commit_id=ID, properties=p),
    "BranchSet.adopt": lambda c, t, p: c.branch_set("fix", [str(t.identifier)]).adopt(
        {str(t.identifier): 1}, {str(t.identifier): p}
    ),
    "duckdb_merge.merge_rows": lambda c, t, p: (
        duckdb_merge.merge_rows(t, ROWS, ["id"], NOTHING, properties=p),
        duckdb_merge.merge_rows(t, ROWS, ["id"], INSERT, properties=p),
    ),
    "duckdb_merge.replace_where": lambda c, t, p: duckdb_merge.replace_where(
        t, ROWS, "target.id < 5", basis=Basis(t.store, t.snapshot()), properties=p
    ),
}


def taking_properties() -> Iterator[str]:
    """Every public call of the store that takes the properties of a commit: of both of its doors, and of what they return."""
    offered = [getattr(storage, name) for name in storage.__all__]
    for kind in dict.fromkeys([*filter(inspect.isclass, offered), Branches, BranchSet, TableCommit]):
        if inspect.isclass(kind):
            for name, member in inspect.getmembers(kind, inspect.isfunction):
                if not name.startswith("_") and "properties" in inspect.signature(member).parameters:
                    yield f"{kind.__name__}.{name}"
    for module in pkgutil.iter_modules(storage.engines.__path__):
        there = importlib.import_module(f"storage.engines.{module.name}")
        for name, member in vars(there).items():
            is_own = isinstance(member, types.FunctionType) and member.__module__ == there.__name__
            if is_own and not name.startswith("_") and "properties" in inspect.signature(member).parameters:
                yield f"{module.name}.{name}"


def test_every_public_call_that_takes_properties_is_tried() -> None:
    assert sorted(taking_properties()) == sorted(CALLS.keys() | BY_SPARK)


@pytest.fixture(params=["keyed", "plain"])
def table(request: pytest.FixtureRequest, catalog: Catalog) -> Table:
    keyed = {"primary_key": ["id"], "options": {"bucket": 1}} if request.param == "keyed" else {}
    made = catalog.create_table("a.t", ROWS.schema, **keyed)
    made.write(pa.table({"id": [1], "item": ["first"]}))
    made.branches.create("fix")
    made.on_branch("fix").write(pa.table({"id": [7], "item": ["fixed"]}))
    return made


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("properties", [OWN, {"snapline.sources": "none"}, {"a": 1}], ids=str)
def test_it_refuses_those_of_the_store_and_leaves_nothing(
    catalog: Catalog, table: Table, call: str, properties: dict[str, str], tmp_path: Path
) -> None:
    before = {path for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(InvalidRequest, match=r"Propert(y|ies)|'?properties'?"):
        CALLS[call](catalog, table, properties)
    assert {path for path in tmp_path.rglob("*") if path.is_file()} == before
    assert [snapshot.commit_user for snapshot in table.store.snapshots.all()].count("job") == 0
    assert catalog.publications() == []


@pytest.mark.parametrize("call", CALLS)
def test_it_takes_those_of_others(catalog: Catalog, table: Table, call: str) -> None:
    CALLS[call](catalog, table, {"app.why": "because"})


def test_an_undo_empties_a_table_that_was_empty_before_its_publication(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["a.t", "a.u"]
    for name in names:
        catalog.create_table(name, ROWS.schema, primary_key=["id"], options={"bucket": 1})
    catalog.branch_set("fix", names).create()
    for name in names:
        catalog.table(name).on_branch("fix").write(ROWS)
    original = Branches.merge

    def die_on_the_second(self: Branches, *given: Any, **named: Any) -> Any:
        if self._store.identifier.table == "u":
            raise KeyboardInterrupt
        return original(self, *given, **named)

    with monkeypatch.context() as patch:
        patch.setattr(Branches, "merge", die_on_the_second)
        with pytest.raises(KeyboardInterrupt):
            catalog.branch_set("fix", names).publish()
    assert catalog.table("a.t").count() == 2
    catalog.recover(undo=True)
    assert [catalog.table(name).count() for name in names] == [0, 0]
    assert catalog.publications() == []
