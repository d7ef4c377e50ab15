"""A stream with a consumer that dies at any step, before it has read or after, goes on where it was, whatever expires."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from storage import Catalog, Table
from tests.storage.interrupted import Interrupted

SCHEMA = pa.schema([("id", pa.int64())])
NAMED = {"consumer-id": "report"}


class Died(BaseException):
    """The process of the stream is gone."""


def write(table: Table, *ids: int) -> None:
    table.write(pa.table({"id": list(ids)}, SCHEMA))


def expire(catalog: Catalog) -> None:
    """Others go on, and all goes that may go."""
    table = catalog.table("d.t")
    for number in range(7, 10):
        write(table, number)
    table.expire(retain_last=1)


def reader(table: Table, **options: str) -> Any:
    # PySpark takes a second to import.
    from storage.engines.spark_stream import SnaplineStreamReader, stream_schema

    return SnaplineStreamReader(table, NAMED | options, stream_schema(table, {}))


def planned(stream: Any, checkpoint: list[Any]) -> None:
    """As Spark does it: where a step ends is in the checkpoint before it is read."""
    start = stream.initialOffset()
    end = json.loads(json.dumps(stream.latestOffset(start, None)))
    if end != start:
        checkpoint.append(end)


def rest(stream: Any, checkpoint: list[Any]) -> list[int]:
    """What a stream that is begun again reads: the step of its checkpoint, and all that has come since."""
    start, keys = stream.initialOffset(), []
    while True:
        end = checkpoint.pop(0) if checkpoint else json.loads(json.dumps(stream.latestOffset(start, None)))
        if end == start:
            return sorted(keys)
        for partition in stream.partitions(start, end):
            keys += [key for batch in stream.read(partition) for key in batch.column("id").to_pylist()]
        stream.commit(end)
        start = end


def prepare(warehouse: str) -> Catalog:
    catalog = Catalog(warehouse)
    table = catalog.create_table("d.t", SCHEMA, options={"snapshot.num-retained.min": 1})
    write(table, 1)
    write(table, 2)
    return catalog


@pytest.mark.parametrize("mode", ["latest-full", "from-snapshot"])
def test_a_stream_that_died_at_any_step_before_it_read_goes_on(tmp_path: Path, mode: str) -> None:
    options = {"scan.mode": "from-snapshot", "scan.snapshot-id": "1"} if mode == "from-snapshot" else {}
    number, calls = 0, None
    while calls is None or number <= len(calls):
        warehouse = str(tmp_path / f"{number}")
        prepare(warehouse)
        checkpoint: list[Any] = []

        def die() -> None:
            raise Died

        files = Interrupted(number, die, "file://")
        try:
            stream = reader(Catalog(warehouse, file_io=files).table("d.t"), **options)
            planned(stream, checkpoint)
            # It dies once all is in the checkpoint, before anything is read.
            calls = files.calls
        except Died:
            pass
        catalog = Catalog(warehouse)
        was_planned = bool(checkpoint)
        consumers = catalog.table("d.t").consumers.list()
        expire(catalog)
        if mode == "from-snapshot" and not consumers:
            # Nobody has been told that it is to stay.
            assert not was_planned
        else:
            assert rest(reader(catalog.table("d.t"), **options), checkpoint) == [1, 2, 7, 8, 9], (
                number,
                files.calls[-1],
            )
        number += 1
    assert number > 10


def test_a_consumer_that_has_read_nothing_keeps_its_snapshot_and_begins_with_the_whole(tmp_path: Path) -> None:
    catalog = prepare(str(tmp_path))
    checkpoint: list[Any] = []
    planned(reader(catalog.table("d.t")), checkpoint)
    expire(catalog)
    assert [each.next_snapshot_id for each in catalog.table("d.t").consumers.list()] == [2]
    # Its checkpoint is lost as well.
    assert rest(reader(catalog.table("d.t")), []) == [1, 2, 7, 8, 9]
    assert catalog.table("d.t").consumers.get("report").next_snapshot_id == 6
