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
    with pytest.raises(InvalidRequest, match="is not a table name"):
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
            found = sensor(context)
        cursor = found.cursor if isinstance(found, dg.SensorResult) else cursor
        return found

    assert isinstance(tick(), dg.SkipReason)
    put(foreign, 1)
    first = tick()
    assert len(first.run_requests) == 1
    assert [one.metadata["snapshot"].value for one in first.asset_events] == [1]
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
    sensors = {one.name: one for one in lineage_sweep_sensors()}
    assert sorted(sensors) == ["sweep_lineage_of_canceled_runs", "sweep_lineage_of_failure_runs"]
    context = dg.build_run_status_sensor_context(
        sensor_name="sweep_lineage_of_failure_runs", dagster_instance=instance,
        dagster_run=instance.get_run_by_id(failed.run_id), resources=resources(),
        dagster_event=next(event for event in failed.all_events if event.is_failure),
    )  # fmt: skip
    with context:
        sensors["sweep_lineage_of_failure_runs"](context)
    assert not store.startups(job=failed.run_id)
    assert {row.job for row in store.tables("sink")} == {"core/copy"}


def test_checks_tell_what_is_late_and_what_does_not_belong_together(
    foreign: Session, materialize: Callable[..., Any]
) -> None:
    fresh = freshness_check("core.copy", at_most=timedelta(0))
    together = consistency_check("core.copy", ["core.other"], on="ext.orders")

    def results(*assets: Any) -> dict[str, tuple[bool, str]]:
        done = materialize(*assets, fresh, together)
        return {one.check_name: (one.passed, one.description) for one in done.get_asset_check_evaluations()}

    put(foreign, 1)
    assert results(copy, other) == {
        "is_fresh": (True, "Up to date"), "belongs_together_on_ext_orders": (True, "All belong together"),
    }  # fmt: skip
    put(foreign, 2)
    passed, told = results(copy)["belongs_together_on_ext_orders"]
    assert (passed, told) == (False, "core.copy have moved on: together they were last at core.copy@1, core.other@1")
    put(foreign, 3)
    (late,) = materialize(copy, fresh, selection=dg.AssetSelection.checks(fresh)).get_asset_check_evaluations()
    assert not late.passed
    assert str(late.description).startswith("Behind ext.orders by 0:00:0")
