"""Kafka tables as assets on a real broker: observed, and read on by what a table's own snapshots say."""

import json
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest
from confluent_kafka import KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from lineage import offsets_of
from resources import Session, SparkResource, TablesResource, external_table, external_table_sensor, table_asset
from resources.assets import tables as tables_module
from resources.assets.reproduce import Reproducer
from resources.assets.table_asset import table_assets
from resources.spark_session import start_spark
from storage import InvalidRequest

pytestmark = pytest.mark.dagster
EVENTS = {"events": "raw.events"}


@pytest.fixture
def topic(broker: str, topic_name: str) -> str:
    admin = AdminClient({"bootstrap.servers": broker})
    admin.create_topics([NewTopic(topic_name, 2, 1)])[topic_name].result(30)
    return topic_name


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broker: str, topic: str) -> Session:
    """With the Kafka table `raw.events`, read from its start."""
    monkeypatch.setenv("SNAPLINE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SNAPLINE_WAREHOUSE", str(tmp_path / "warehouse"))
    session = Session()
    options = {"connector": "kafka", "topic": topic, "properties.bootstrap.servers": broker, "format": "json"}
    options["scan.startup.mode"] = "earliest-offset"
    listed = ", ".join(f"'{key}' = '{value}'" for key, value in options.items())
    session.sql(f"CREATE DATABASE raw; CREATE TABLE raw.events (id BIGINT, name STRING) WITH ({listed})", "duckdb")
    return session


@pytest.fixture
def send(broker: str, topic: str) -> Callable[..., None]:
    producer = Producer({"bootstrap.servers": broker})

    def run(*numbers: int, partition: int = 0) -> None:
        for number in numbers:
            producer.produce(topic, json.dumps({"id": number, "name": "a"}).encode(), partition=partition)
        assert producer.flush(30) == 0

    return run


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as opened:
        yield opened


@pytest.fixture
def materialize(session: Session, instance: dg.DagsterInstance) -> Callable[..., dg.ExecuteInProcessResult]:
    def run(*assets: Any, **arguments: Any) -> dg.ExecuteInProcessResult:
        spark = SparkResource()
        resources = {"tables": TablesResource(spark=spark), "spark": spark}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", dg.BetaWarning)
            return dg.materialize([*assets], instance=instance, resources=resources, **arguments)

    return run


@table_asset("core.events", inputs=EVENTS, incremental="events", code_version="1")
def core_events(events: pa.Table) -> pa.Table:
    return events.append_column("double", pa.array([2 * each for each in events["id"].to_pylist()], pa.int64()))


def ids(session: Session, name: str = "core.events") -> list[int]:
    return sorted(session.table(name).to_arrow()["id"].to_pylist())


def metadata(result: dg.ExecuteInProcessResult, name: str) -> Any:
    [event] = result.get_asset_materialization_events()
    return event.step_materialization_data.materialization.metadata[name].value


def test_an_asset_reads_what_has_come_since_its_newest_snapshot(
    session: Session, send: Callable[..., None], materialize: Callable[..., Any]
) -> None:
    send(1, 2)
    result = materialize(core_events)
    assert metadata(result, "incremental").startswith("2 rows, all of raw.events: core.events has no rows yet")
    send(3, partition=1)
    result = materialize(core_events)
    assert "1 rows, what came to raw.events after snapshot 1" in metadata(result, "incremental")
    # The partition without records has its place all the same.
    send(4)
    materialize(core_events)
    assert ids(session) == [1, 2, 3, 4]
    assert "stays at" in metadata(materialize(core_events), "nothing_committed")
    made = [offsets_of(each) for each in session.table("core.events").snapshots.all()]
    assert [[(each.partition, each.start, each.end) for each in listed] for listed in made] == [
        [(0, 0, 2)],
        [(1, 0, 1)],
        [(0, 2, 3)],
    ]


def test_a_run_that_dies_around_its_commit_neither_loses_nor_doubles_records(
    session: Session, send: Callable[..., None], materialize: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    send(1)
    materialize(core_events)
    commit = tables_module.commit_rows
    for number, commits in ((2, False), (3, True)):
        send(number)

        def dying(*given: Any, commits: bool = commits, **named: Any) -> None:
            if commits:
                commit(*given, **named)
            raise KeyboardInterrupt

        with monkeypatch.context() as patch, pytest.raises(BaseException):  # noqa: B017
            patch.setattr(tables_module, "commit_rows", dying)
            materialize(core_events)
        send(10 * number, partition=1)
    materialize(core_events)
    assert ids(session) == [1, 2, 3, 20, 30]


def test_a_full_run_is_refused_where_records_are_gone(
    session: Session, send: Callable[..., None], materialize: Callable[..., Any], broker: str, topic: str
) -> None:
    @table_asset("core.events", inputs=EVENTS, incremental="events", code_version="2")
    def changed(events: pa.Table) -> pa.Table:
        return events

    @table_asset("core.all", inputs=EVENTS)
    def everything(events: pa.Table) -> pa.Table:
        return events

    send(1, 2, 3)
    materialize(core_events)
    session.sql("DELETE FROM core.events WHERE id = 3", "duckdb")
    materialize(core_events)
    assert ids(session) == [1, 2, 3]
    admin = AdminClient({"bootstrap.servers": broker})
    [deleted] = admin.delete_records([TopicPartition(topic, 0, 2)]).values()
    deleted.result(30)
    with pytest.raises(Exception, match=rf"was made from records of {topic}/0 from offset 0 on: they are gone"):
        materialize(changed)
    assert ids(session) == [1, 2, 3]
    result = materialize(everything)
    assert ids(session, "core.all") == [3]
    assert metadata(result, "topics") == f"raw.events: topic {topic}, offsets 0 [2, 3)"


@pytest.mark.parametrize("loss", ["retention", "made again", "shorter"])
def test_an_asset_whose_position_is_lost_is_told_how_it_may_begin_anew(
    session: Session, send: Callable[..., None], materialize: Callable[..., Any], broker: str, topic: str, loss: str
) -> None:
    send(1, 2)
    materialize(core_events)
    admin = AdminClient({"bootstrap.servers": broker})
    if loss == "retention":
        send(3, 4)
        [deleted] = admin.delete_records([TopicPartition(topic, 0, 3)]).values()
        deleted.result(30)
    else:
        admin.delete_topics([topic])[topic].result(30)
        _make_again(admin, topic, 1 if loss == "shorter" else 2)
        send(9)
    with pytest.raises(
        Exception, match=r"Nothing is written\. DROP TABLE core\.events if it may begin anew\."
    ) as raised:
        materialize(core_events)
    assert "another name" not in str(raised.value) and "earliest-offset" not in str(raised.value)
    assert ids(session) == [1, 2]
    session.sql("DROP TABLE core.events", "duckdb")
    materialize(core_events)
    assert ids(session) == ([4] if loss == "retention" else [9])


def _make_again(admin: AdminClient, topic: str, partitions: int) -> None:
    """Make a topic that is being deleted."""
    for _ in range(100):
        try:
            admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(30)
            return
        except KafkaException:
            time.sleep(0.1)
    raise AssertionError(f"{topic} is not made again")


def test_a_kafka_table_is_observed_and_starts_runs(
    session: Session, send: Callable[..., None], instance: dg.DagsterInstance, topic: str
) -> None:
    observed = external_table("raw.events")
    resources = {"tables": TablesResource(spark=SparkResource())}
    send(1, 2)
    defs = dg.Definitions(assets=[observed, core_events], resources=resources, executor=dg.in_process_executor)
    result = defs.resolve_implicit_global_asset_job_def().execute_in_process(
        instance=instance, asset_selection=[dg.AssetKey(["raw", "events"])]
    )
    [event] = result.get_asset_observation_events()
    assert event.asset_observation_data.asset_observation.tags["dagster/data_version"] == f"{topic}/0@2;{topic}/1@0"
    sensor = external_table_sensor("new_events", ["raw.events"], target=[core_events])

    def look(cursor: str | None) -> Any:
        with dg.build_sensor_context(instance=instance, cursor=cursor, resources=resources) as context:
            return sensor(context)

    first = look(None)
    assert len(first.run_requests) == 1
    assert isinstance(look(first.cursor), dg.SkipReason)
    send(3, partition=1)
    assert len(look(first.cursor).run_requests) == 1


def test_what_was_made_from_a_topic_is_not_made_again(
    session: Session, send: Callable[..., None], materialize: Callable[..., Any], topic: str
) -> None:
    reproducer = Reproducer(session, lambda: table_assets([core_events]), lambda: start_spark(session.settings))
    session.sql("CREATE TABLE raw.kept (id BIGINT, name STRING); INSERT INTO raw.kept VALUES (0, 'none')", "duckdb")
    session.sql("CREATE TABLE raw.till_now LIKE raw.events WITH ('scan.bounded.mode' = 'latest-offset')", "duckdb")
    events = "SELECT * FROM raw.till_now"
    # The topic has no records yet, so that the snapshot has no offsets either.
    session.sql(f"INSERT INTO raw.kept SELECT * FROM raw.kept WHERE id = 0 UNION ALL {events}", "duckdb")
    assert reproducer.reproduce(session.ref("raw.kept@2")).comparison.identical
    send(1)
    materialize(core_events)
    session.sql(f"INSERT INTO raw.kept {events}", "duckdb")
    send(2)
    for target, name in (("core.events@1", "events"), ("raw.kept@3", "till_now")):
        with pytest.raises(
            InvalidRequest, match=rf"made from records of a topic \(raw\.{name}: topic {topic}, offsets 0 \[0, 1\)\)"
        ):
            reproducer.reproduce(session.ref(target))
    with pytest.raises(InvalidRequest, match="would now be made from records of a topic"):
        reproducer.reproduce(session.ref("raw.kept@2"))
    assert session.table("raw.kept").branches.names() == []
