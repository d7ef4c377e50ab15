"""Tables written elsewhere, sweeping, and the checks that lineage answers."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest

from resources import (
    Session,
    SparkResource,
    TablesResource,
    commits_of_others_sensor,
    consistency_check,
    external_table,
    external_table_sensor,
    freshness_check,
    lineage_sweep_sensors,
    table_asset,
)
from storage import InvalidRequest

pytestmark = pytest.mark.dagster


@pytest.fixture
def foreign(session: Session) -> Session:
    """A table that somebody else writes."""
    session.catalog.create_table(
        "ext.orders", pa.schema([("id", pa.int64())]), primary_key=["id"], options={"bucket": 1}
    )
    return session


def put(session: Session, number: int) -> None:
    session.catalog.table("ext.orders").write(pa.table({"id": [number]}))


def resources() -> dict[str, Any]:
    spark = SparkResource()
    return {"tables": TablesResource(spark=spark), "spark": spark}


@table_asset("core.copy", inputs={"orders": "ext.orders"})
def copy(orders: pa.Table) -> pa.Table:
    return orders


@table_asset("core.other", inputs={"orders": "ext.orders"})
def other(orders: pa.Table) -> pa.Table:
    return orders


def test_an_external_table_is_observed_at_its_snapshot(
    foreign: Session, instance: dg.DagsterInstance, materialize: Callable[..., Any]
) -> None:
    source = external_table("ext.orders")
    put(foreign, 1)
    put(foreign, 2)
    foreign.table("ext.orders").compact(full=True)
    defs = dg.Definitions(assets=[source, copy], resources=resources(), executor=dg.in_process_executor)
    result = defs.resolve_implicit_global_asset_job_def().execute_in_process(
        instance=instance, asset_selection=[dg.AssetKey(["ext", "orders"])]
    )
    (event,) = result.get_asset_observation_events()
    seen = event.asset_observation_data.asset_observation
    # The compaction is no new version.
    assert (seen.metadata["snapshot"].value, seen.metadata["dagster/row_count"].value) == (2, 2)
    assert seen.tags["dagster/data_version"] == "main@2"
    tags = materialize(copy).get_asset_materialization_events()[0].step_materialization_data.materialization.tags
    assert tags["dagster/input_data_version/ext/orders"] == "main@2"
    with pytest.raises(InvalidRequest, match="is no name of a table"):
        external_table("orders")


def test_new_snapshots_of_an_external_table_start_runs(foreign: Session, instance: dg.DagsterInstance) -> None:
    sensor = external_table_sensor(
        "orders_came",
        ["ext.orders"],
        target=dg.AssetSelection.assets(copy),
        default_status=dg.DefaultSensorStatus.RUNNING,
    )
    assert sensor.default_status == dg.DefaultSensorStatus.RUNNING
    cursor: str | None = None

    def tick() -> Any:
        nonlocal cursor
        with dg.build_sensor_context(instance=instance, cursor=cursor, resources=resources()) as context:
            outcome = sensor(context)
        cursor = outcome.cursor if isinstance(outcome, dg.SensorResult) else cursor
        return outcome

    assert isinstance(tick(), dg.SkipReason)
    put(foreign, 1)
    first = tick()
    assert len(first.run_requests) == 1
    assert [event.metadata["snapshot"].value for event in first.asset_events] == [1]
    assert isinstance(tick(), dg.SkipReason)
    foreign.table("ext.orders").compact(full=True)
    assert isinstance(tick(), dg.SkipReason)
    put(foreign, 2)
    assert tick().run_requests[0].run_key != first.run_requests[0].run_key


def test_what_a_failed_run_left_behind_is_swept_up(
    foreign: Session, instance: dg.DagsterInstance, materialize: Callable[..., Any]
) -> None:
    @table_asset("core.broken", inputs={"orders": "ext.orders"})
    def broken(orders: pa.Table) -> pa.Table:
        raise RuntimeError("no")

    put(foreign, 1)
    materialize(copy)
    failed = materialize(broken, raise_on_error=False)
    store = foreign.lineage_store
    assert store.startups(job=failed.run_id)
    # A process that died before it could forget its job.
    foreign.recorder.record_job("core/died", [foreign.ref("ext.orders")], [foreign.ref("ext.orders")])
    sensors = {sensor.name: sensor for sensor in lineage_sweep_sensors()}
    assert sorted(sensors) == ["sweep_lineage_of_canceled_runs", "sweep_lineage_of_failure_runs"]
    context = dg.build_run_status_sensor_context(
        sensor_name="sweep_lineage_of_failure_runs",
        dagster_instance=instance,
        dagster_run=instance.get_run_by_id(failed.run_id),
        resources=resources(),
        dagster_event=next(event for event in failed.all_events if event.is_failure),
    )
    with context:
        skipped = sensors["sweep_lineage_of_failure_runs"](context)
    assert isinstance(skipped, dg.SkipReason)
    assert skipped.skip_message == f"Deleted 3 rows of lineage of run {failed.run_id}."
    assert not store.startups(job=failed.run_id)
    assert {row.job for row in store.tables("sink")} == {"core/copy"}


def test_checks_tell_what_is_late_and_what_does_not_belong_together(
    foreign: Session, materialize: Callable[..., Any]
) -> None:
    fresh = freshness_check("core.copy", at_most=timedelta(0))
    together = consistency_check("core.copy", ["core.other"], on="ext.orders")

    def results(*assets: Any) -> dict[str, tuple[bool, str]]:
        done = materialize(*assets, fresh, together)
        return {
            evaluation.check_name: (evaluation.passed, evaluation.description)
            for evaluation in done.get_asset_check_evaluations()
        }

    put(foreign, 1)
    assert results(copy, other) == {
        "is_fresh": (True, "Up to date"),
        "belongs_together_on_ext_orders": (True, "All belong together"),
    }
    put(foreign, 2)
    passed, description = results(copy)["belongs_together_on_ext_orders"]
    assert (passed, description) == (
        False,
        "core.copy have moved on: together they were last at core.copy@1, core.other@1",
    )
    put(foreign, 3)
    (late,) = materialize(copy, fresh, selection=dg.AssetSelection.checks(fresh)).get_asset_check_evaluations()
    assert not late.passed
    assert str(late.description).startswith("Behind ext.orders by 0:00:0")


# --- what others write to tables that have assets

MONTHS = dg.StaticPartitionsDefinition(["2024-01", "2024-02", "2024-03"])


@table_asset("raw.loads", primary_key=["id"])
def loads() -> pa.Table:
    return pa.table({"id": [1, 2, 3]})


@table_asset(
    "core.months",
    inputs={"loads": "raw.loads"},
    primary_key=["month", "id"],
    partition_by=["month"],
    partitions_def=MONTHS,
    partition_column="month",
)
def months(context: dg.AssetExecutionContext, loads: pa.Table) -> pa.Table:
    keys = context.partition_keys
    return pa.table({"month": keys, "id": [1] * len(keys)})


def test_snapshots_that_others_make_of_a_table_are_events_of_its_asset(
    session: Session, instance: dg.DagsterInstance, materialize: Callable[..., Any]
) -> None:
    assert materialize(loads).success
    tags = {"dagster/asset_partition_range_start": "2024-01", "dagster/asset_partition_range_end": "2024-03"}
    assert materialize(months, selection=[months], tags=tags).success
    sensor = commits_of_others_sensor([loads, months], default_status=dg.DefaultSensorStatus.RUNNING)
    cursor: str | None = None

    def tick() -> list[Any]:
        nonlocal cursor
        with dg.build_sensor_context(instance=instance, cursor=cursor, resources=resources()) as context:
            outcome = sensor(context)
        cursor = outcome.cursor
        for event in outcome.asset_events:
            instance.report_runless_asset_event(event)
        return list(outcome.asset_events)

    assert tick() == []
    session.sql("DELETE FROM raw.loads WHERE id = 2", "duckdb")
    session.sql("DELETE FROM core.months WHERE month >= '2024-02'", "duckdb")
    (load, *parts) = tick()
    assert (load.asset_key, load.partition) == (dg.AssetKey(["raw", "loads"]), None)
    assert load.tags["dagster/data_version"] == "main@2"
    shown = {name: load.metadata[name].value for name in ("snapshot", "dagster/row_count", "rows_deleted", "statement")}
    assert shown == {
        "snapshot": 2,
        "dagster/row_count": 2,
        "rows_deleted": 1,
        "statement": "DELETE FROM raw.loads WHERE id = 2",
    }
    assert sorted(part.partition for part in parts) == ["2024-02", "2024-03"]
    assert [part.metadata["rows_deleted"].value for part in parts] == [1, 1]
    # Dagster's newest event is the bad load, and what was made before it is stale.
    newest = instance.fetch_materializations(dg.AssetKey(["raw", "loads"]), limit=1).records[0].asset_materialization
    assert newest is not None
    assert newest.metadata["snapshot"].value == 2
    assert tick() == []
    # A run that came between is what the table is now.
    session.sql("INSERT INTO raw.loads VALUES (9)", "duckdb")
    assert materialize(loads).success
    (overtaken,) = tick()
    assert isinstance(overtaken, dg.AssetObservation)
    assert overtaken.metadata["snapshot"].value == 3
    assert tick() == []


def test_what_was_made_again_with_the_same_rows_is_neither_late_nor_apart(
    session: Session, materialize: Callable[..., Any]
) -> None:
    given = {"note": "a"}

    @table_asset("raw.notes", code_version="1")
    def notes() -> pa.Table:
        return pa.table({"id": [1], "note": [given["note"]]})

    def made(name: str, source: str) -> Any:
        return table_asset(name, inputs={"rows": source}, code_version="1")(_ids)

    ids, more = made("core.ids", "raw.notes"), made("mart.ids", "core.ids")
    checks = [
        freshness_check("core.ids", at_most=timedelta(0)),
        freshness_check("mart.ids", at_most=timedelta(0)),
        consistency_check("mart.ids", ["core.ids"], on="raw.notes"),
    ]
    materialize(notes, ids, more, *checks)
    given["note"] = "b"
    result = materialize(notes, ids, more, *checks)
    assert [session.ref(name).snapshot_id for name in ("raw.notes", "core.ids", "mart.ids")] == [2, 1, 1]
    assert [evaluation.passed for evaluation in result.get_asset_check_evaluations()] == [True] * 3
    # A source that is newer than what was made from it is still one.
    given["note"] = "c"
    materialize(notes, selection=[notes])
    late = materialize(notes, ids, more, *checks, selection=dg.AssetSelection.checks(*checks))
    assert {
        (evaluation.asset_key.path[0], evaluation.check_name): evaluation.passed
        for evaluation in late.get_asset_check_evaluations()
    } == {
        ("core", "is_fresh"): False,
        ("mart", "is_fresh"): False,
        ("mart", "belongs_together_on_raw_notes"): True,
    }


def _ids(rows: pa.Table) -> pa.Table:
    return rows.select(["id"])
