"""Tables are looked after by a schedule."""

import datetime as dt
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

if TYPE_CHECKING:
    import dagster as dg

    from resources import Session


@pytest.fixture
def run(session: "Session", instance: "dg.DagsterInstance") -> Any:
    from resources import SparkResource, TablesResource, upkeep_schedule

    def run(*tables: str, **arguments: Any) -> "dg.ExecuteInProcessResult":
        schedule = upkeep_schedule("upkeep", tables, cron_schedule="0 3 * * *", **arguments)
        assert schedule.cron_schedule == "0 3 * * *"
        resources = {"tables": TablesResource(spark=SparkResource())}
        return schedule.job.execute_in_process(instance=instance, resources=resources, raise_on_error=False)

    return run


def test_tags_come_and_go_and_tables_are_compacted_and_expired(session: "Session", run: Any) -> None:
    schema = pa.schema([("day", pa.string()), ("id", pa.int64())])
    options = {"bucket": 1, "write-only": True, "tag.create-interval": "1 d", "partition.expiration-time": "30 d"}
    table = session.catalog.create_table(
        "a.t", schema, primary_key=["day", "id"], partition_by=["day"], options=options
    )
    for number in range(6):
        table.write(pa.table({"day": ["2001-01-01", "9999-01-01"], "id": [number, number]}))
    table.tags.create("short", time_retained=dt.timedelta(milliseconds=1))
    result = run("a.t", compact=True, retain_last=1, partitions=True)
    assert result.success
    assert [tag.name for tag in table.tags.list()] == []
    assert table.count() == 6
    assert len(table.store.snapshots.ids()) == 1
    assert {row["level"] for row in table.system_table("files").to_pylist()} != {0}


def test_a_table_that_fails_does_not_keep_the_others_from_their_turn(session: "Session", run: Any) -> None:
    table = session.catalog.create_table("a.t", pa.schema([("id", pa.int64())]))
    for number in range(3):
        table.write(pa.table({"id": [number]}))
    result = run("a.missing", "a.t", retain_last=1)
    assert not result.success
    assert len(table.store.snapshots.ids()) == 1


def test_the_log_of_a_run_says_how_far_long_work_has_come(
    session: "Session", run: Any, instance: "dg.DagsterInstance", monkeypatch: pytest.MonkeyPatch
) -> None:
    from resources.assets import run_progress

    options = {"bucket": 3, "write-only": True}
    table = session.catalog.create_table("a.t", pa.schema([("id", pa.int64())]), primary_key=["id"], options=options)
    for _ in range(6):
        table.write(pa.table({"id": range(9)}))
    said = "a.t: 3 of 3 buckets compacted"
    for pause_s, lines in ((run_progress.PAUSE_S, 0), (0.0, 1)):
        monkeypatch.setattr(run_progress, "PAUSE_S", pause_s)
        result = run("a.t", compact=True)
        assert result.success
        assert sum(said in entry.user_message for entry in instance.all_logs(result.run_id)) == lines
        for _ in range(6):
            table.write(pa.table({"id": range(9)}))
