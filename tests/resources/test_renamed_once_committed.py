"""A table that others rename or drop right after a commit: the commit is told as one that landed, since it did."""

from collections.abc import Callable
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest

from resources import Session, table_asset
from resources.assets.materialization import Materialization
from storage import StoreUnavailable, Table
from storage.snapshots import Snapshots
from tests.resources.shop import rows

_STATEMENTS = {
    "INSERT INTO d.t VALUES (3, 'c')": 3,
    "INSERT INTO d.t REPLACE WHERE id = 1 VALUES (1, 'new')": 2,
    "INSERT OVERWRITE d.t VALUES (9, 'z')": 1,
    "UPDATE d.t SET v = 'x' WHERE id = 1": 2,
    "DELETE FROM d.t WHERE id = 1": 1,
    "MERGE INTO d.t USING (SELECT 7 AS id) s ON d.t.id = s.id WHEN NOT MATCHED THEN INSERT (id, v) VALUES (7, 'm')": 3,
}


@pytest.fixture
def table(session: Session) -> Table:
    session.sql(
        "CREATE DATABASE d; CREATE TABLE d.t (id INT, v STRING); INSERT INTO d.t VALUES (1, 'a'), (2, 'b')", "duckdb"
    )
    return session.table("d.t")


@pytest.mark.parametrize("statement", _STATEMENTS)
def test_a_statement_whose_table_is_renamed_once_it_has_landed_says_that_it_has(
    session: Session, table: Table, statement: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = Snapshots.changes_of

    def beside(self: Snapshots, snapshot: Any) -> Any:
        monkeypatch.setattr(Snapshots, "changes_of", asked)
        session.catalog.rename_table("d.t", "d.renamed")
        return asked(self, snapshot)

    monkeypatch.setattr(Snapshots, "changes_of", beside)
    answer = str(session.sql(statement, "duckdb"))
    assert "is committed; how many rows it added is not told" in answer, answer
    assert len(rows(session.table("d.renamed"))) == _STATEMENTS[statement]


def test_a_store_that_is_away_once_a_statement_has_landed_does_not_make_it_fail(
    session: Session, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(self: Snapshots, snapshot: Any) -> Any:
        raise StoreUnavailable("The store does not answer.")

    monkeypatch.setattr(Snapshots, "changes_of", away)
    assert "is committed; how many rows it added cannot be read" in str(
        session.sql("INSERT INTO d.t VALUES (3, 'c')", "duckdb")
    )
    assert len(rows(table)) == 3


def test_a_compaction_whose_table_is_renamed_once_it_has_landed_says_that_it_has(
    session: Session, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    session.sql("INSERT INTO d.t VALUES (3, 'c')", "duckdb")
    compact = Table.compact

    def beside(self: Table, **given: Any) -> Any:
        snapshot = compact(self, **given)
        session.catalog.rename_table("d.t", "d.renamed")
        return snapshot

    monkeypatch.setattr(Table, "compact", beside)
    assert "is compacted; how many files are left is not told" in str(
        session.sql("CALL sys.compact(table => 'd.t')", "duckdb")
    )


@pytest.mark.dagster
@pytest.mark.parametrize("partitioned", [False, True])
def test_a_run_whose_table_is_renamed_once_it_has_landed_succeeds_with_a_warning(
    session: Session, materialize: Callable[..., Any], partitioned: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    days = dg.StaticPartitionsDefinition(["d1"]) if partitioned else None
    named = {"partitions_def": days, "partition_column": "day", "partition_by": ["day"]} if partitioned else {}

    @table_asset("core.t", tags={}, **named)
    def made() -> pa.Table:
        return pa.table({"day": ["d1"], "v": [1]})

    result = Materialization.result

    def beside(self: Materialization, *arguments: Any, **others: Any) -> Any:
        session.catalog.rename_table("core.t", "core.renamed")
        return result(self, *arguments, **others)

    monkeypatch.setattr(Materialization, "result", beside)
    run = materialize(made, **({"partition_key": "d1"} if partitioned else {}))
    assert run.success
    event = run.asset_materializations_for_node(made.node_def.name)[0]
    assert "is committed; its tags and numbers are not" in str(event.metadata["warning"].value)
    assert event.metadata["snapshot"].value == 1
    assert len(rows(session.table("core.renamed"))) == 1
