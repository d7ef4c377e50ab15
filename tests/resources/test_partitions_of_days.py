"""Partitions whose values users do not write as the store holds them: dates and times, in assets, recoveries and messages."""

from collections.abc import Callable
from typing import Any

import dagster as dg
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from resources import Session, SparkResource, TablesResource, commits_of_others_sensor, table_asset
from resources.assets.table_asset import table_assets
from resources.recovery import Recovery, plan_recovery
from resources.recovery.left_to_do import left_to_do, wanted_keys
from storage import InvalidRequest, NotFound

pytestmark = pytest.mark.dagster
DAYS = dg.DailyPartitionsDefinition("2024-01-01", end_date="2024-01-04")
MOMENTS = dg.StaticPartitionsDefinition([f"2024-01-0{day} 10:00:00.123" for day in (1, 2, 3)])
KINDS = {"date": (pa.date32(), DAYS), "timestamp": (pa.timestamp("ms"), MOMENTS)}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def assets_of(kind: str) -> tuple[dg.AssetsDefinition, dg.AssetsDefinition, list[str]]:
    """A load, and a table that has a part of it for each day."""
    data_type, partitions = KINDS[kind]
    keys = list(partitions.get_partition_keys())

    @table_asset("raw.loads", primary_key=["id"])
    def loads() -> pa.Table:
        return pa.table({"id": [1, 2, 3], "day": pa.array(keys).cast(data_type)})

    @table_asset(
        "core.days",
        inputs={"loads": "raw.loads"},
        primary_key=["day", "id"],
        partition_by=["day"],
        partitions_def=partitions,
        partition_column="day",
        tag_partitions=False,
        skip_unchanged=False,
    )
    def days(context: dg.AssetExecutionContext, loads: pa.Table) -> pa.Table:
        return loads.filter(pc.is_in(loads["day"], pa.array(context.partition_keys).cast(data_type)))

    return loads, days, keys


def all_keys(keys: list[str]) -> dict[str, str]:
    return {"dagster/asset_partition_range_start": keys[0], "dagster/asset_partition_range_end": keys[-1]}


def test_each_partition_has_its_numbers_and_its_events(
    session: Session, instance: dg.DagsterInstance, materialize: Callable[..., Any], kind: str
) -> None:
    loads, days, keys = assets_of(kind)
    materialize(loads)
    for kinds in ([1, 0], [0, 0]):
        result = materialize(days, selection=[days], tags=all_keys(keys))
        events = [
            event.step_materialization_data.materialization for event in result.get_asset_materialization_events()
        ]
        assert sorted(str(event.partition) for event in events) == keys
        for event in events:
            assert "warning" not in event.metadata
            assert event.metadata["dagster/partition_row_count"].value == 1
            assert [event.metadata[name].value for name in ("rows_inserted", "rows_deleted")] == kinds
    spark = SparkResource()
    resources = {"tables": TablesResource(spark=spark), "spark": spark}
    sensor = commits_of_others_sensor([loads, days], default_status=dg.DefaultSensorStatus.RUNNING)
    with dg.build_sensor_context(instance=instance, resources=resources) as context:
        cursor = sensor(context).cursor
    session.sql("DELETE FROM core.days WHERE id >= 2", "duckdb")
    with dg.build_sensor_context(instance=instance, cursor=cursor, resources=resources) as context:
        others = list(sensor(context).asset_events)
    assert sorted(str(event.partition) for event in others) == keys[1:]
    assert [event.metadata["rows_deleted"].value for event in others] == [1, 1]


def test_a_recovery_has_the_partitions_left_to_do(session: Session, materialize: Callable[..., Any], kind: str) -> None:
    loads, days, keys = assets_of(kind)
    known = table_assets([loads, days])
    materialize(loads)
    materialize(days, selection=[days], tags=all_keys(keys[:2]))
    plan = plan_recovery(session, session.ref("raw.loads@1"))
    [planned] = [table for table in plan.tables if table.name == "core.days"]
    assert planned.partitions is not None
    assert [partition["day"] for partition in planned.partitions] == keys[:2]
    recovery = Recovery.start(session, "fix", plan)
    assert wanted_keys(recovery, known["core.days"], planned.partitions) == set(keys[:2])
    recovery.correct("DELETE FROM raw.loads WHERE id = 1")
    assert left_to_do(recovery, known) == ["core.days"]


def test_messages_name_partitions_as_they_are_typed(session: Session) -> None:
    session.sql("CREATE TABLE p (id INT, day DATE) PARTITIONED BY (day)", "duckdb")
    session.sql("INSERT INTO p VALUES (1, DATE '2024-01-01')", "duckdb")

    def said(text: str) -> str:
        return session.sql(text, "duckdb").message

    assert said("CALL sys.mark_partition_done('p', 'day=2024-01-01')") == "Marked day=2024-01-01 of p as done."
    with pytest.raises(NotFound, match=r"has no partition day=2024-05-05\. Partitions: day=2024-01-01\."):
        said("DESCRIBE p PARTITION (day = '2024-05-05')")
    shown = session.sql("DESCRIBE p PARTITION (day = '2024-01-01')", "duckdb").to_arrow().to_pylist()
    assert "day=2024-01-01" in {row.get("value") for row in shown}
    table = session.table("default.p")
    other = pa.table({"id": [1], "day": pa.array(["2024-01-02"]).cast(pa.date32())})
    with pytest.raises(
        InvalidRequest, match=r"A row is of partition day=2024-01-02, but the overwrite is of day=2024-01-01"
    ):
        table.overwrite(other, partition={"day": "2024-01-01"})
    with table.new_write() as writer:
        writer.write(other)
        message = writer.prepare_commit()
    guard = table.only_in_partitions([message], [{"day": "2024-01-01"}])
    with pytest.raises(InvalidRequest, match=r"partition day=2024-01-02, which is none of those .* \(day=2024-01-01\)"):
        table.commit_messages([message], guard=guard)
    with pytest.raises(NotFound, match="no rows in partition day=2024-05-05"):
        table.compact(partition={"day": "2024-05-05"})
    session.sql("ALTER TABLE p SET ('partition.expiration-time' = '7 d')", "duckdb")
    assert session.table("default.p").expire_partitions(dry_run=True) == [{"day": "2024-01-01"}]
    assert session.table("default.p").partitions() == [{"day": "2024-01-01"}]


# --- time windows of a time zone

SUMMER_ENDS = dg.HourlyPartitionsDefinition("2024-10-27-00:00", end_date="2024-10-27-04:00", timezone="Europe/Berlin")
# The moments, in UTC, at which the hours begin: the third local hour occurs twice.
HOURS = {
    "2024-10-27-00:00": "2024-10-26T22:00Z",
    "2024-10-27-01:00": "2024-10-26T23:00Z",
    "2024-10-27-02:00": "2024-10-27T00:00Z",
    "2024-10-27-02:00+0100": "2024-10-27T01:00Z",
    "2024-10-27-03:00": "2024-10-27T02:00Z",
}
DAYS_OF_TOKYO = dg.DailyPartitionsDefinition("2024-01-01", end_date="2024-01-04", timezone="Asia/Tokyo")


def of_moments(definition: dg.PartitionsDefinition[Any], moments: dict[str, str]) -> list[dg.AssetsDefinition]:
    """A load of a row for each moment, and the table of their windows."""

    @table_asset("raw.loads", primary_key=["id"])
    def loads() -> pa.Table:
        starts = pa.array(moments.values()).cast(pa.timestamp("us", tz="UTC"))
        return pa.table({"id": range(len(moments)), "h": starts})

    @table_asset(
        "core.hours",
        inputs={"loads": "raw.loads"},
        partition_by="h",
        partitions_def=definition,
        partition_column="h",
        skip_unchanged=False,
    )
    def hours(context: dg.AssetExecutionContext, loads: pa.Table) -> pa.Table:
        wanted = [moments[key] for key in context.partition_keys]
        return loads.filter(pc.is_in(loads["h"], pa.array(wanted).cast(pa.timestamp("us", tz="UTC"))))

    return [loads, hours]


@pytest.mark.parametrize(
    ("definition", "moments"),
    [
        (SUMMER_ENDS, HOURS),
        (DAYS_OF_TOKYO, {f"2024-01-0{day + 1}": f"2024-01-0{day}T15:00Z" for day in (1, 2)}),
        (
            dg.HourlyPartitionsDefinition("2024-01-01-05:00"),
            {f"2024-01-01-0{hour}:00": f"2024-01-01T0{hour}:00Z" for hour in (7, 8)},
        ),
    ],
)
def test_a_window_over_moments_begins_in_its_own_time_zone(
    session: Session,
    instance: dg.DagsterInstance,
    materialize: Callable[..., Any],
    definition: dg.TimeWindowPartitionsDefinition,
    moments: dict[str, str],
) -> None:
    loads, hours = of_moments(definition, moments)
    materialize(loads)
    for key in moments:
        assert materialize(hours, selection=[hours], partition_key=key).success
    table = session.table("core.hours")
    # No window took the rows of another.
    assert sorted(row["id"] for row in table.to_arrow().to_pylist()) == list(range(len(moments)))
    assert sorted(tag.name for tag in table.tags.list()) == sorted(moments)
    known = table_assets([loads, hours])
    assert {known["core.hours"].partition_key(partition, table) for partition in table.partitions()} == set(moments)
    # What others change is told of the windows, and is what a recovery computes anew.
    spark = SparkResource()
    resources = {"tables": TablesResource(spark=spark), "spark": spark}
    sensor = commits_of_others_sensor([loads, hours], default_status=dg.DefaultSensorStatus.RUNNING)
    with dg.build_sensor_context(instance=instance, resources=resources) as context:
        cursor = sensor(context).cursor
    session.sql("DELETE FROM core.hours WHERE id = 0", "duckdb")
    with dg.build_sensor_context(instance=instance, cursor=cursor, resources=resources) as context:
        assert [event.partition for event in sensor(context).asset_events] == [next(iter(moments))]
    plan = plan_recovery(session, session.ref("raw.loads@1"))
    [planned] = [each for each in plan.tables if each.name == "core.hours"]
    recovery = Recovery.start(session, "fix", plan)
    assert wanted_keys(recovery, known["core.hours"], planned.partitions) == set(moments)


def test_hours_of_one_local_time_are_refused_by_name_without_a_time_zone(
    session: Session, materialize: Callable[..., Any]
) -> None:
    @table_asset("core.local", partition_by="h", partitions_def=SUMMER_ENDS, partition_column="h")
    def local(context: dg.AssetExecutionContext) -> pa.Table:
        return pa.table(
            {"h": pa.array([f"{context.partition_key[:10]}T{context.partition_key[11:16]}"]).cast("timestamp[us]")}
        )

    for key in ("2024-10-27-01:00", "2024-10-27-03:00"):
        assert materialize(local, partition_key=key).success
    said = r"Partitions '2024-10-27-02:00(\+0100)?' and '2024-10-27-02:00(\+0100)?' begin at one local time of Europe/Berlin"
    for key in ("2024-10-27-02:00", "2024-10-27-02:00+0100"):
        with pytest.raises(Exception, match=said):
            materialize(local, partition_key=key)
    assert len(session.table("core.local").partitions()) == 2


@pytest.mark.parametrize(
    ("data_type", "keys"),
    [(pa.int32(), ["1", "01"]), (pa.date32(), ["2024-01-01", "20240101"]), (pa.decimal128(5, 2), ["1.5", "1.50"])],
)
@pytest.mark.parametrize("is_dynamic", [False, True])
def test_two_keys_that_are_one_value_of_the_column_are_refused_by_name(
    session: Session,
    instance: dg.DagsterInstance,
    materialize: Callable[..., Any],
    data_type: pa.DataType,
    keys: list[str],
    is_dynamic: bool,
) -> None:
    static = dg.StaticPartitionsDefinition(keys)
    definition = dg.DynamicPartitionsDefinition(name="values") if is_dynamic else static

    @table_asset("core.values", partition_by="p", partitions_def=definition, partition_column="p")
    def values() -> pa.Table:
        return pa.table({"p": pa.array([keys[0]]).cast(data_type)})

    if is_dynamic:
        instance.add_dynamic_partitions("values", keys[:1])
        assert materialize(values, partition_key=keys[0]).success
        instance.add_dynamic_partitions("values", keys[1:])
    for key in keys:
        with pytest.raises(Exception, match=rf"Partitions '{min(keys)}' and '{max(keys)}' are one value of column 'p'"):
            materialize(values, partition_key=key)
    assert (session.catalog.exists("core.values") and session.table("core.values").count()) == int(is_dynamic)
