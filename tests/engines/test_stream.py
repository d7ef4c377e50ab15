"""Tables in Spark Structured Streaming: every change once, every micro-batch one commit."""

import json
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from storage import Catalog, CommitId, InvalidRequest, NotFound, Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark
SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.string())])


@pytest.fixture
def warehouse(tmp_path: Path) -> str:
    return str(tmp_path / "warehouse")


@pytest.fixture
def source(catalog: Catalog) -> Table:
    return catalog.create_table("a.source", SCHEMA, primary_key=["id"], options={"bucket": 2, "write-only": True})


@pytest.fixture
def sink(catalog: Catalog) -> Table:
    return catalog.create_table("a.sink", SCHEMA, primary_key=["id"], options={"bucket": 2, "write-only": True})


def batch(*rows: tuple[Any, ...]) -> pa.Table:
    names = [*SCHEMA.names, "op"] if len(rows[0]) == 3 else SCHEMA.names
    return pa.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))


@pytest.fixture
def stream(spark: "SparkSession", warehouse: str) -> "Callable[..., DataFrame]":
    def stream(name: str = "a.source", **options: str) -> "DataFrame":
        named = {key.replace("_", "."): value for key, value in options.items()}
        return spark.readStream.format("snapline").option("warehouse", warehouse).options(**named).load(name)

    return stream


@pytest.fixture
def run(warehouse: str, tmp_path: Path) -> Callable[..., None]:
    """Carry a stream on until there is nothing left to read."""
    from storage.engines.spark_stream import write_stream

    def run(frame: "DataFrame", sink: Table, checkpoint: str = "checkpoint", **options: Any) -> None:
        query = write_stream(
            frame,
            sink,
            warehouse,
            commit_user="job",
            checkpoint=str(tmp_path / checkpoint),
            trigger={"availableNow": True},
            **options,
        )
        query.awaitTermination()

    return run


def rows(table: Table, **options: Any) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in table.to_arrow(**options).to_pylist())


def barriers(table: Table) -> list[tuple[str, int]]:
    return [(snapshot.commit_user, snapshot.commit_identifier) for snapshot in table.store.snapshots.all()]


def test_a_stream_begins_with_the_table_and_goes_on_with_changes(
    source: Table, sink: Table, stream: "Callable[..., DataFrame]", run: Callable[..., None]
) -> None:
    source.write(batch((1, "a"), (2, "b")))
    source.write(batch((2, "B"), (3, "c")))
    run(stream(), sink)
    assert rows(sink) == [(1, "a"), (2, "B"), (3, "c")]
    source.write(batch((3, "C")))
    source.write(batch((4, "d")))
    run(stream(), sink)
    assert rows(sink) == rows(source)
    # The first reading, then one micro-batch for each snapshot: the batch's number is the barrier.
    assert barriers(sink) == [("job", 0), ("job", 1), ("job", 2)]


def test_changes_tell_of_the_commits_that_made_them(
    catalog: Catalog, stream: "Callable[..., DataFrame]", run: Callable[..., None]
) -> None:
    options = {"bucket": 1, "write-only": True, "changelog-producer": "lookup"}
    source = catalog.create_table("a.told", SCHEMA, primary_key=["id"], options=options)
    log_schema = pa.schema([("kind", pa.string()), *SCHEMA, ("snapshot_id", pa.int64()), ("job", pa.string())])
    log = catalog.create_table("a.log", log_schema)
    named = {"read.changelog": "true", "metadata-columns": "snapshot_id,job"}
    for number, data in enumerate((batch((1, "a"), (2, "a")), batch((2, "b"))), start=1):
        source.write(data, commit_id=CommitId(f"job {number}"))
    source.compact(full=True)
    columns = ["rowkind AS kind", "id", "v", "snapshot_id", "job"]
    run(stream("a.told", **named).selectExpr(*columns), log)
    source.write(batch((1, "c")), commit_id=CommitId("job 3"))
    source.write(batch((2, "-D", "-D")), row_kind_column="op", commit_id=CommitId("job 4"))
    source.compact(full=True)
    run(stream("a.told", **named).selectExpr(*columns), log)
    assert rows(log) == [
        ("+I", 1, "a", 1, "job 1"),
        ("+I", 2, "b", 2, "job 2"),
        ("+U", 1, "c", 4, "job 3"),
        ("-D", 2, "b", None, None),
        ("-U", 1, "a", 4, "job 3"),
    ]
    plain = catalog.create_table("a.plain", pa.schema([("v", pa.string()), ("job", pa.string())]))
    run(stream("a.told", columns="v", **{"metadata-columns": "job"}), plain, "plain")
    assert rows(plain) == [("c", "job 3")]


def test_several_snapshots_are_taken_at_once_on_demand(
    source: Table, sink: Table, stream: "Callable[..., DataFrame]", run: Callable[..., None]
) -> None:
    for number in range(5):
        source.write(batch((number, "x")))
    run(stream(**{"scan.mode": "from-snapshot", "scan.snapshot-id": "1", "snapshots-per-batch": "3"}), sink)
    assert [snapshot.delta_record_count for snapshot in sink.store.snapshots.all()] == [3, 2]


def test_a_branch_is_streamed_like_a_table(
    source: Table, sink: Table, stream: "Callable[..., DataFrame]", run: Callable[..., None]
) -> None:
    source.write(batch((1, "a")))
    source.branches.create("fix")
    source.on_branch("fix").write(batch((1, "fixed")))
    source.write(batch((2, "b")))
    sink.branches.create("fix", empty=True)
    run(stream(branch="fix"), sink.on_branch("fix"))
    source.on_branch("fix").write(batch((3, "fixed")))
    run(stream(branch="fix"), sink.on_branch("fix"))
    assert rows(sink.on_branch("fix")) == [(1, "fixed"), (3, "fixed")]
    assert sink.snapshot() is None


def test_start_up_modes(
    source: Table, catalog: Catalog, clock: Any, stream: "Callable[..., DataFrame]", run: Callable[..., None]
) -> None:
    times = []
    for number in range(1, 4):
        clock.advance_ms(1000)
        times.append(clock.now_ms())
        source.write(batch((number, f"v{number}")))
    expected = {
        "full": ({}, [1, 2, 3, 4]),
        "latest": ({}, [4]),
        "from-snapshot": ({"scan.snapshot-id": "2"}, [2, 3, 4]),
        "from-timestamp": ({"scan.timestamp-millis": str(times[1] + 1)}, [3, 4]),
    }
    for mode, (options, _) in expected.items():
        made = catalog.create_table(
            f"sinks.{mode.replace('-', '_')}", SCHEMA, primary_key=["id"], options={"bucket": 1}
        )
        run(stream(**{"scan.mode": mode, **options}), made, mode)
    source.write(batch((4, "v4")))
    for mode, (options, ids) in expected.items():
        made = catalog.table(f"sinks.{mode.replace('-', '_')}")
        run(stream(**{"scan.mode": mode, **options}), made, mode)
        assert [row[0] for row in rows(made)] == ids, mode


def test_kinds_travel_with_the_rows(
    source: Table, sink: Table, stream: "Callable[..., DataFrame]", run: Callable[..., None]
) -> None:
    source.write(batch((1, "a"), (2, "b")))
    run(stream(**{"read.changelog": "true"}), sink, row_kind_column="rowkind")
    source.write(batch((1, "a", "-D"), (2, "B", "+U")), row_kind_column="op")
    run(stream(**{"read.changelog": "true"}), sink, row_kind_column="rowkind")
    assert rows(sink) == [(2, "B")]


def test_without_kinds_rows_that_went_are_left_out(
    source: Table, sink: Table, stream: "Callable[..., DataFrame]", run: Callable[..., None]
) -> None:
    source.write(batch((1, "a", "+I"), (2, "b", "-D")), row_kind_column="op")
    run(stream(columns="id", **{"scan.mode": "from-snapshot", "scan.snapshot-id": "1"}), sink)
    assert rows(sink) == [(1, None)]


def test_a_replayed_batch_commits_once(
    source: Table, sink: Table, stream: "Callable[..., DataFrame]", run: Callable[..., None], tmp_path: Path
) -> None:
    for number in range(3):
        source.write(batch((number, "x")))
    options = {"scan.mode": "from-snapshot", "scan.snapshot-id": "1"}
    run(stream(**options), sink)
    # As after a crash between the commit and Spark's own note of it.
    for done in sorted((tmp_path / "checkpoint" / "commits").glob("*2*")):
        done.unlink()
    source.write(batch((3, "y")))
    run(stream(**options), sink)
    assert barriers(sink) == [("job", 0), ("job", 1), ("job", 2), ("job", 3)]
    assert rows(sink) == rows(source)
    # As after losing the checkpoint: all batches come again.
    shutil.rmtree(tmp_path / "checkpoint")
    run(stream(**options), sink)
    assert len(barriers(sink)) == 4


def test_a_batch_that_is_replayed_after_its_snapshot_expired_does_not_land_again(
    source: Table, stream: "Callable[..., DataFrame]", run: Callable[..., None], tmp_path: Path, catalog: Catalog
) -> None:
    # Without a key a batch that lands twice is there twice.
    sink = catalog.create_table("a.log", SCHEMA)
    source.write(batch((1, "a")))
    source.write(batch((2, "b")))
    run(stream(), sink)
    sink.write(batch((0, "by another")))
    sink.expire(retain_last=1)
    before = rows(sink)
    for done in (tmp_path / "checkpoint" / "commits").glob("*0*"):
        done.unlink()
    run(stream(), sink)
    assert rows(sink) == before
    source.write(batch((3, "c")))
    run(stream(), sink)
    assert rows(sink) == sorted([*before, (3, "c")])


def test_the_sink_commits_a_micro_batch_under_its_number(
    source: Table, sink: Table, stream: "Callable[..., DataFrame]", warehouse: str, tmp_path: Path
) -> None:
    source.write(batch((1, "a")))
    for number in (2, 3):
        writer = stream().writeStream.format("snapline").option("warehouse", warehouse)
        query = (
            writer.option("path", "a.sink")
            .option("commit-user", "plain")
            .option("checkpointLocation", str(tmp_path / "c"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        source.write(batch((number, "b")))
    assert barriers(sink) == [("plain", 0), ("plain", 1)]
    assert rows(sink) == [(1, "a"), (2, "b")]


@pytest.mark.parametrize(
    ("reads", "writes", "said"),
    [
        ({"where": "id = 1"}, {}, r"'where' for a streaming read\. It is for a read"),
        ({"version": "1"}, {}, r"'version' for a streaming read\. It is for a read"),
        ({"snapshots-per-batch": "0"}, {}, "a snapshot at least"),
        ({"read.changelog": "yes"}, {}, "'read.changelog' is true or false"),
        ({}, {"unless-same": "true"}, r"'unless-same' for a streaming write\. It is for a write"),
        ({}, {"commit-identifier": "7"}, "It is for a write"),
        ({}, {"change-tracking": "no"}, "'change-tracking' is true or false"),
    ],
)
def test_an_option_that_a_stream_does_not_take_is_refused(
    source: Table,
    sink: Table,
    stream: "Callable[..., DataFrame]",
    warehouse: str,
    tmp_path: Path,
    reads: dict[str, str],
    writes: dict[str, str],
    said: str,
) -> None:
    source.write(batch((1, "a")))
    with pytest.raises(Exception, match=said):
        writer = stream(**reads).writeStream.format("snapline").option("warehouse", warehouse).options(**writes)
        query = (
            writer.option("path", "a.sink")
            .option("commit-user", "plain")
            .option("checkpointLocation", str(tmp_path / "c"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
    assert sink.snapshot() is None


def test_a_stream_runs_while_another_writes(
    source: Table, sink: Table, stream: "Callable[..., DataFrame]", warehouse: str, tmp_path: Path
) -> None:
    from storage.engines.spark_stream import write_stream

    def write() -> None:
        for number in range(12):
            source.write(batch((number % 5, f"v{number}")))

    writer = threading.Thread(target=write)
    query = write_stream(
        stream(),
        sink,
        warehouse,
        commit_user="job",
        checkpoint=str(tmp_path / "c"),
        trigger={"processingTime": "0 seconds"},
    )
    writer.start()
    writer.join()
    query.processAllAvailable()
    query.stop()
    assert rows(sink) == rows(source)
    assert len({identifier for _, identifier in barriers(sink)}) == len(barriers(sink))


def test_a_consumer_is_remembered_and_protects_what_it_has_not_read(
    source: Table, sink: Table, stream: "Callable[..., DataFrame]", run: Callable[..., None]
) -> None:
    for number in range(4):
        source.write(batch((number, "x")))
    run(stream(**{"consumer-id": "report"}), sink)
    # Spark tells of a batch when the next begins: the last one read may come again, but is never lost.
    assert source.consumers.get("report").next_snapshot_id in (4, 5)
    for number in range(4, 8):
        source.write(batch((number, "y")))
    source.expire(retain_last=1)
    run(stream(**{"consumer-id": "report"}), sink)
    assert rows(sink) == rows(source)


def test_a_stream_stops_when_another_reader_has_its_consumer(
    source: Table, sink: Table, stream: "Callable[..., DataFrame]", warehouse: str, tmp_path: Path
) -> None:
    from pyspark.errors import StreamingQueryException

    from storage.consumers import Consumption
    from storage.engines.spark_stream import write_stream

    source.write(batch((1, "a")))
    query = write_stream(
        stream(**{"consumer-id": "report"}),
        sink,
        warehouse,
        commit_user="job",
        checkpoint=str(tmp_path / "c"),
        trigger={"processingTime": "0 seconds"},
    )
    query.processAllAvailable()
    Consumption(source.store, "report").record(1)
    source.write(batch((2, "b")))
    with pytest.raises(StreamingQueryException, match="One reader at a time has a consumer"):
        query.processAllAvailable()
    assert rows(sink) == [(1, "a")]
    assert source.consumers.get("report").next_snapshot_id == 2


def test_a_stream_stops_when_its_table_has_gone(
    catalog: Catalog, source: Table, sink: Table, stream: "Callable[..., DataFrame]", warehouse: str, tmp_path: Path
) -> None:
    from pyspark.errors import StreamingQueryException

    from storage.engines.spark_stream import write_stream

    source.write(batch((1, "a")))
    query = write_stream(
        stream(),
        sink,
        warehouse,
        commit_user="job",
        checkpoint=str(tmp_path / "c"),
        trigger={"processingTime": "0 seconds"},
    )
    query.processAllAvailable()
    catalog.rename_table("a.source", "a.other")
    with pytest.raises(StreamingQueryException, match="not the table any more"):
        query.awaitTermination(60)


def test_a_snapshot_that_has_expired_is_an_error_that_says_so(
    source: Table, sink: Table, stream: "Callable[..., DataFrame]", run: Callable[..., None]
) -> None:
    from pyspark.errors import StreamingQueryException

    source.write(batch((1, "a")))
    run(stream(), sink)
    for number in range(4):
        source.write(batch((number, "x")))
    source.expire(retain_last=1)
    with pytest.raises(StreamingQueryException, match=r"Snapshot 2 does not exist. Existing snapshot: 5"):
        run(stream(), sink)


def _replace_main(catalog: Catalog) -> None:
    source = catalog.table("a.source")
    source.branches.create("fix", snapshot_id=1)
    for number in range(3):
        source.on_branch("fix").write(batch((10 + number, "fixed")))
    source.branches.replace_main("fix", discard_main=True)


def _make_anew(catalog: Catalog) -> None:
    catalog.drop_table("a.source")
    made = catalog.create_table("a.source", SCHEMA, primary_key=["id"], options={"bucket": 2, "write-only": True})
    for number in range(3):
        made.write(batch((10 + number, "anew")))


def _followed(table: Table, options: dict[str, str], offset: Any = None) -> tuple[Any, list[tuple[Any, ...]]]:
    """One step of a stream's reader, as Spark has it done, from an offset of its checkpoint: where it ends, what it reads."""
    from storage.engines.spark_stream import SnaplineStreamReader, stream_schema

    reader = SnaplineStreamReader(table, options, stream_schema(table, {}))
    start = reader.initialOffset() if offset is None else offset
    end = json.loads(json.dumps(reader.latestOffset(start, None)))  # type: ignore[arg-type]
    batches = [rows for partition in reader.partitions(start, end) for rows in reader.read(partition)]
    reader.commit(end)
    return end, sorted(tuple(row.values()) for record_batch in batches for row in record_batch.to_pylist())


@pytest.mark.parametrize("consumer", [{}, {"consumer-id": "report"}], ids=["checkpoint", "consumer"])
@pytest.mark.parametrize("become_another", [_replace_main, _make_anew])
def test_a_stream_is_refused_where_its_number_means_another_snapshot(
    catalog: Catalog, source: Table, consumer: dict[str, str], become_another: Callable[[Catalog], None]
) -> None:
    source.write(batch((1, "a")))
    source.write(batch((2, "b")))
    offset, first = _followed(source, consumer)
    assert first == [(1, "a"), (2, "b")]
    become_another(catalog)
    with pytest.raises(NotFound, match=r"snapshot 2 that is not in its history.*another checkpoint"):
        _followed(catalog.table("a.source"), consumer, offset)


def test_a_stream_goes_on_where_main_was_replaced_with_what_it_has_read(catalog: Catalog, source: Table) -> None:
    source.write(batch((1, "a")))
    source.write(batch((2, "b")))
    offset, _ = _followed(source, {})
    source.branches.create("fix")
    source.on_branch("fix").write(batch((1, "fixed")))
    source.branches.replace_main("fix")
    assert _followed(catalog.table("a.source"), {}, offset)[1] == [(1, "fixed")]


@pytest.mark.parametrize("properties", ['{"snapline.fence": "x"}', "[1]", "{"])
def test_properties_of_the_store_are_no_option_of_a_streaming_write(sink: Table, properties: str) -> None:
    from storage.engines.spark_stream import SnaplineStreamWriter

    with pytest.raises(
        InvalidRequest, match=r"Property 'snapline.fence' is the store's own|'properties' is a JSON object"
    ):
        SnaplineStreamWriter(sink, {"commit-user": "plain", "properties": properties}, overwrite=False)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scan.mode": "newest"}, "Start-up mode 'newest' is unknown"),
        ({"scan.mode": "latest", "scan.snapshot-id": "3"}, "belongs to the start-up mode `from-snapshot`"),
        ({"scan.snapshot-id": "three"}, "'scan.snapshot-id' = 'three' is not a whole number"),
    ],
)
def test_options_that_cannot_be_are_refused(
    source: Table,
    sink: Table,
    stream: "Callable[..., DataFrame]",
    run: Callable[..., None],
    options: dict[str, str],
    message: str,
) -> None:
    source.write(batch((1, "a")))
    with pytest.raises(Exception, match=message):
        run(stream(**options), sink)


def test_start_up_is_checked_without_spark() -> None:
    from storage.read.stream_scan import StartUp

    with pytest.raises(InvalidRequest, match="Use one of: full, latest"):
        StartUp("later")


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"scan.mode": "from-snapshot", "scan.snapshot-id": "999"}, NotFound, "the latest is 1.* with 2, the next"),
        ({"consumer-id": "a/b"}, InvalidRequest, "'a/b' cannot name a consumer"),
    ],
)
def test_a_beginning_that_cannot_be_is_refused_before_a_stream_begins(
    spark: "SparkSession", source: Table, warehouse: str, options: dict[str, str], error: type[Exception], said: str
) -> None:
    from storage.engines.spark_stream import read_stream

    source.write(batch((1, "a")))
    with pytest.raises(error, match=said):
        read_stream(spark, source, warehouse, "snapline", options)


def _begun_elsewhere(source: Table, sink: Table, run: Callable[[str], None], *, expires: bool = False) -> None:
    source.write(batch((1, "a")))
    run("one")
    source.write(batch((2, "b")))
    run("one")
    source.write(batch((3, "c")))
    if expires:
        sink.expire(retain_last=1)
    # As if the checkpoint was lost: it begins with batch 0, which was committed with other rows.
    with pytest.raises(Exception, match="with other rows") as refused:
        run("another")
    assert "begin under another name" in str(refused.value)
    assert rows(sink) == [(1, "a"), (2, "b")]
    run("one")
    assert rows(sink) == rows(source)


@pytest.mark.parametrize("expires", [False, True])
def test_a_stream_whose_checkpoint_was_lost_leaves_no_rows_out_in_silence(
    source: Table, catalog: Catalog, stream: "Callable[..., DataFrame]", run: Callable[..., None], expires: bool
) -> None:
    plain = catalog.create_table("a.plain", SCHEMA)
    _begun_elsewhere(source, plain, lambda checkpoint: run(stream(), plain, checkpoint), expires=expires)


def test_a_stream_by_the_data_source_whose_checkpoint_was_lost_is_refused(
    source: Table, catalog: Catalog, warehouse: str, tmp_path: Path, stream: "Callable[..., DataFrame]"
) -> None:
    plain = catalog.create_table("a.plain", SCHEMA)

    def run(checkpoint: str) -> None:
        place = {"warehouse": warehouse, "commit-user": "job", "checkpointLocation": str(tmp_path / checkpoint)}
        writer = stream().writeStream.format("snapline").options(**place, path="a.plain").trigger(availableNow=True)
        writer.start().awaitTermination()

    _begun_elsewhere(source, plain, run)
