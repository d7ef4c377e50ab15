"""Assets are materialized whether or not the lineage database can be used."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest

from lineage import LineageUnavailable
from resources import Session, TableDefinition, TablesResource
from resources.assets.lineage_checks import consistency_check, freshness_check
from resources.assets.tables import STARTUP_TAG

pytestmark = pytest.mark.dagster
SCHEMA = pa.schema([("id", pa.int64())])


@dg.asset(key=["core", "copy"], deps=[dg.AssetKey(["raw", "words"])])
def copy(context: dg.AssetExecutionContext, tables: TablesResource) -> dg.MaterializeResult[Any]:
    """Reads twice, while somebody else writes."""
    first = tables.read_arrow(context, "raw.words")
    tables.session.catalog.table("raw.words").write(pa.table({"id": [9]}))
    assert tables.read_arrow(context, "raw.words").equals(first)
    return tables.write(context, first, TableDefinition("core.copy"))


@dg.asset(key=["core", "again"], deps=[copy])
def again(context: dg.AssetExecutionContext, tables: TablesResource) -> dg.MaterializeResult[Any]:
    return tables.write(context, tables.read_arrow(context, "core.copy"), TableDefinition("core.again"))


@dg.asset(key=["core", "broken"])
def broken(context: dg.AssetExecutionContext, tables: TablesResource) -> dg.MaterializeResult[Any]:
    return tables.write(context, pa.table({"other": ["x"]}), TableDefinition("raw.words"))


@pytest.fixture
def away(session: Session) -> Path:
    """The lineage database, which is garbage; `raw.words` has one snapshot."""
    session.catalog.create_table("raw.words", SCHEMA).write(pa.table({"id": [1]}))
    file = session.settings.home / "lineage.db"
    file.write_bytes(b"garbage" * 1000)
    return file


def test_a_run_reads_one_snapshot_and_commits_and_lineage_catches_up(
    materialize: Callable[..., Any], session: Session, away: Path
) -> None:
    assert materialize(copy, again).success
    assert session.catalog.table("core.again").to_arrow()["id"].to_pylist() == [1]
    with pytest.raises(LineageUnavailable):
        session.lineage(session.ref("core.again"), "up")
    Session().rebuild_lineage()
    upstream = Session().lineage(session.ref("core.again"), "up").snapshots
    assert [str(ref) for ref in upstream] == ["core.copy@1", "raw.words@1"]


def test_a_run_that_fails_fails_with_its_own_error(
    materialize: Callable[..., Any], session: Session, away: Path
) -> None:
    result = materialize(broken, raise_on_error=False)
    [failure] = [event for event in result.all_events if event.is_step_failure]
    assert failure.step_failure_data.error.cause.cls_name == "InvalidRequest"


def test_a_run_that_is_to_begin_like_another_does_not_begin_otherwise(
    materialize: Callable[..., Any], away: Path
) -> None:
    with pytest.raises(LineageUnavailable):
        materialize(copy, tags={STARTUP_TAG: "other"})


def test_checks_that_lineage_answers_warn_and_stop_nobody(
    materialize: Callable[..., Any], session: Session, away: Path
) -> None:
    checks = [
        freshness_check("core.copy", at_most=timedelta(days=1), blocking=True),
        consistency_check("core.copy", ["raw.words"], on="raw.pages", blocking=True),
    ]
    result = materialize(copy, again, *checks)
    assert result.success
    evaluations = result.get_asset_check_evaluations()
    assert [evaluation.passed for evaluation in evaluations] == [False, False]
    assert {evaluation.severity for evaluation in evaluations} == {dg.AssetCheckSeverity.WARN}
    assert session.catalog.table("core.again").to_arrow().num_rows == 1


@pytest.mark.pypaimon_differs("a snapshot is damaged on purpose")
@pytest.mark.java_differs("a snapshot is damaged on purpose")
def test_a_check_of_freshness_names_a_source_that_is_damaged(materialize: Callable[..., Any], session: Session) -> None:
    words = session.catalog.create_table("raw.words", SCHEMA)
    words.write(pa.table({"id": [1]}))
    materialize(copy)
    Path(words.store.paths.snapshot(1)).write_bytes(b"{")
    result = materialize(again, freshness_check("core.again", at_most=timedelta(days=1)))
    (evaluation,) = result.get_asset_check_evaluations()
    assert not evaluation.passed
    assert evaluation.description is not None
    assert "behind raw.words cannot be told" in evaluation.description
