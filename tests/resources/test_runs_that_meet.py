"""Two runs of one asset at once, as a sensor and a click start them: no row is there twice, no tag goes back."""

from collections.abc import Callable
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest
from dagster._core.definitions.job_base import InMemoryJob
from dagster._core.execution.api import execute_run_iterator

from resources import Session, SparkResource, TablesResource, table_asset
from resources.assets import partition_tags
from storage import Table
from storage.tags import Tags
from tests.resources.shop import rows

pytestmark = pytest.mark.dagster
Materialize = Callable[..., Any]
DAYS = dg.StaticPartitionsDefinition(["d1", "d2"])


@pytest.mark.parametrize("spark", [False, pytest.param(True, marks=pytest.mark.spark)], ids=["arrow", "spark"])
def test_an_increment_is_committed_once(materialize: Materialize, session: Session, spark: bool) -> None:
    beside: list[Callable[[], object]] = []

    def committed(orders: Any) -> Any:
        if beside:
            beside.pop()()
        return orders

    if spark:
        from pyspark.sql import DataFrame

        @table_asset("core.copy", inputs={"orders": "raw.orders"}, incremental="orders")
        def copy(context: dg.AssetExecutionContext, orders: DataFrame) -> DataFrame:
            return committed(orders)

    else:

        @table_asset("core.copy", inputs={"orders": "raw.orders"}, incremental="orders")
        def copy(orders: pa.Table) -> pa.Table:
            return committed(orders)

    session.sql(
        "CREATE DATABASE raw; CREATE TABLE raw.orders (id INT, v INT); INSERT INTO raw.orders VALUES (1, 1)", "duckdb"
    )
    materialize(copy)
    session.sql("INSERT INTO raw.orders VALUES (2, 2); INSERT INTO raw.orders VALUES (3, 3)", "duckdb")
    beside.append(lambda: materialize(copy))
    assert not materialize(copy, raise_on_error=False).success
    assert rows(session.table("core.copy")) == [(1, 1), (2, 2), (3, 3)]
    session.sql("INSERT INTO raw.orders VALUES (4, 4)", "duckdb")
    materialize(copy)
    assert rows(session.table("core.copy")) == [(1, 1), (2, 2), (3, 3), (4, 4)]


def test_a_tag_of_a_partition_names_the_newest_snapshot_that_was_made_for_it(
    materialize: Materialize, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    value = [0]

    @table_asset("core.p", partitions_def=DAYS, partition_column="day", partition_by=["day"])
    def parts(context: dg.AssetExecutionContext) -> pa.Table:
        return pa.table({"day": [context.partition_key], "v": [value[0]]})

    @table_asset("core.whole", partitions_def=DAYS)
    def whole(context: dg.AssetExecutionContext) -> pa.Table:
        return pa.table({"v": [value[0]]})

    look, create = partition_tags._newest_for, Tags.create
    for asset, name in ((parts, "core.p"), (whole, "core.whole")):
        for moment in (look, create):
            materialize(asset, partition_key="d1")
            beside = [True]

            def stopped(
                *given: Any, _moment: Any = moment, _asset: Any = asset, _beside: Any = beside, **named: Any
            ) -> Any:
                # Stopped before the tag is looked at, or after that and before it is set.
                if _beside:
                    _beside.pop()
                    value[0] += 1
                    materialize(_asset, partition_key="d1")
                return _moment(*given, **named)

            with monkeypatch.context() as stopping:
                stopping.setattr(*((partition_tags, "_newest_for") if moment is look else (Tags, "create")), stopped)
                value[0] += 1
                materialize(asset, partition_key="d1")
            table: Table = session.table(name)
            assert table.to_arrow(version="d1")["v"].to_pylist() == table.to_arrow()["v"].to_pylist() == [value[0]]
    table.rollback_to(table.tags.get("d1").snapshot.id - 1)
    partition_tags.tag_newest(table, "d1", 1)
    assert table.tags.get("d1").snapshot.id == table.snapshots.backwards().__next__().id - 2


def test_a_run_that_is_executed_again_commits_nothing_twice_though_its_snapshot_has_expired(
    session: Session, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    from resources.assets.materialization import Materialization

    @table_asset("core.app", mode="append")
    def app() -> pa.Table:
        return pa.table({"v": [101]})

    spark = SparkResource()
    defs = dg.Definitions(
        assets=[app], executor=dg.in_process_executor, resources={"tables": TablesResource(spark=spark), "spark": spark}
    )
    job = defs.resolve_implicit_global_asset_job_def()

    def dying(*_: Any, **__: Any) -> None:
        raise RuntimeError("the machine went down")

    def again(run_id: str) -> None:
        run = instance.create_run_for_job(job, parent_run_id=run_id, root_run_id=run_id)
        list(execute_run_iterator(InMemoryJob(job), run, instance))

    with monkeypatch.context() as at_the_end:
        at_the_end.setattr(Materialization, "result", dying)
        died = job.execute_in_process(instance=instance, raise_on_error=False)
    assert not died.success
    table = session.table("core.app")
    table.write(pa.table({"v": [7]}))
    table.expire(retain_last=1)
    assert table.snapshots.find(1) is None
    again(died.run_id)
    assert rows(table) == [(7,), (101,)]
    # What Dagster has heard of is made anew when it is asked for.
    made = job.execute_in_process(instance=instance)
    table.write(pa.table({"v": [8]}))
    table.expire(retain_last=1)
    again(made.run_id)
    assert rows(table) == [(7,), (8,), (101,), (101,), (101,)]


@pytest.mark.parametrize("mode", ["overwrite", "append"])
def test_a_run_that_is_executed_again_tells_what_its_snapshot_was_made_from(
    session: Session, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    from resources.assets.materialization import Materialization

    source = session.catalog.create_table("raw.src", pa.schema([("v", pa.int64())]))
    source.write(pa.table({"v": [1]}))

    @table_asset("core.copy", inputs={"src": "raw.src"}, mode=mode)
    def copy(src: pa.Table) -> pa.Table:
        return src

    spark = SparkResource()
    resources = {"tables": TablesResource(spark=spark), "spark": spark}
    defs = dg.Definitions(assets=[copy], executor=dg.in_process_executor, resources=resources)
    job = defs.resolve_implicit_global_asset_job_def()
    with monkeypatch.context() as at_the_end:
        at_the_end.setattr(Materialization, "result", lambda *_, **__: 1 / 0)
        died = job.execute_in_process(instance=instance, raise_on_error=False)
    assert not died.success
    source.write(pa.table({"v": [2]}))
    run = instance.create_run_for_job(job, parent_run_id=died.run_id, root_run_id=died.run_id)
    list(execute_run_iterator(InMemoryJob(job), run, instance))
    table = session.table("core.copy")
    assert rows(table) == [(1,)]
    assert [str(ref) for ref in session.lineage(table.ref(), "up").snapshots if ref.table == "src"] == ["raw.src@1"]
    event = instance.get_latest_materialization_event(dg.AssetKey(["core", "copy"]))
    assert event is not None and event.run_id == run.run_id
    materialization = event.asset_materialization
    assert materialization is not None
    assert (materialization.tags or {})["dagster/input_data_version/raw/src"] == "main@1"
    [source_row] = materialization.metadata["sources"].value.records  # type: ignore[union-attr]
    assert source_row.data["snapshot"] == 1
    # Dagster knows that it is stale, and the next run brings the row.
    assert job.execute_in_process(instance=instance).success
    assert [v for (v,) in rows(session.table("core.copy"))].count(2) == 1


def test_a_run_that_dies_after_its_event_is_committed_once_by_those_that_repeat_it(
    session: Session, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dagster writes that an asset was made, and then that its step has succeeded: between the two a process may die."""
    run_again, job = appending(instance)
    handle = instance.handle_new_event

    def dying(event: dg.EventLogEntry, **more: Any) -> None:
        if event.dagster_event and event.dagster_event.event_type == dg.DagsterEventType.STEP_SUCCESS:
            raise RuntimeError("the machine went down")
        handle(event, **more)

    run = instance.create_run_for_job(job)
    with monkeypatch.context() as at_the_end:
        at_the_end.setattr(instance, "handle_new_event", dying)
        list(execute_run_iterator(InMemoryJob(job), run, instance))
    died = run.run_id
    events = instance.get_records_for_run(died, of_type=dg.DagsterEventType.ASSET_MATERIALIZATION).records
    assert len(events) == 1
    instance.report_run_failed(instance.get_run_by_id(died))  # type: ignore[arg-type]
    second = run_again(died)
    table = session.table("core.app")
    assert rows(table) == [(101,)]
    # All have succeeded: whoever asks for it again gets new rows, and those that repeat that do not.
    third = run_again(died)
    assert rows(table) == [(101,), (101,)]
    run_again(second)
    run_again(third)
    assert rows(table) == [(101,)] * 4


def test_a_run_that_was_taken_for_dead_and_wakes_up_commits_nothing_twice(
    session: Session, instance: dg.DagsterInstance
) -> None:
    beside: list[Callable[[], object]] = []
    run_again, job = appending(instance, beside)
    run = instance.create_run_for_job(job)

    def taken_for_dead() -> None:
        instance.report_run_failed(instance.get_run_by_id(run.run_id))  # type: ignore[arg-type]
        run_again(run.run_id)

    beside.append(taken_for_dead)
    list(execute_run_iterator(InMemoryJob(job), run, instance))
    assert rows(session.table("core.app")) == [(101,)]


def appending(
    instance: dg.DagsterInstance, beside: list[Callable[[], object]] | None = None
) -> tuple[Callable[[str], str], dg.JobDefinition]:
    """What executes a run again, and returns the id of the new one; and the job of an asset that appends a row."""

    @table_asset("core.app", mode="append")
    def app() -> pa.Table:
        if beside:
            beside.pop()()
        return pa.table({"v": [101]})

    spark = SparkResource()
    resources = {"tables": TablesResource(spark=spark), "spark": spark}
    defs = dg.Definitions(assets=[app], executor=dg.in_process_executor, resources=resources)
    job = defs.resolve_implicit_global_asset_job_def()

    def run_again(run_id: str) -> str:
        repeated = instance.get_run_by_id(run_id)
        assert repeated is not None
        root = repeated.root_run_id or run_id
        again = instance.create_run_for_job(job, parent_run_id=run_id, root_run_id=root)
        list(execute_run_iterator(InMemoryJob(job), again, instance))
        return again.run_id

    return run_again, job
