"""Rows that are too old are left out by compactions, and are there until then: what is left is the same whoever compacts."""

import random
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from storage import Catalog, InvalidRequest, SetOptions
from storage.clock import Clock
from tests.interop.java_paimon import JavaPaimon, since_1_3

HOUR = 3600
OPTIONS = {"bucket": "1", "record-level.expire-time": "1 h", "record-level.time-field": "t"}
TYPES = {
    "INT": (pa.int32(), lambda seconds: seconds),
    "BIGINT": (pa.int64(), lambda seconds: seconds),
    "BIGINT milliseconds": (pa.int64(), lambda seconds: seconds * 1000),
    "TIMESTAMP(3)": (pa.timestamp("ms"), lambda seconds: datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None)),
    "TIMESTAMP(6) WITH LOCAL TIME ZONE": (
        pa.timestamp("us", "UTC"),
        lambda seconds: datetime.fromtimestamp(seconds, UTC),
    ),
}


def _held(table: pa.Table) -> list[tuple[Any, ...]]:
    return sorted((tuple(row.values()) for row in table.to_pylist()), key=repr)


@since_1_3
@pytest.mark.parametrize("producer", ["none", "lookup", "full-compaction"])
@pytest.mark.parametrize("kind", TYPES)
def test_the_same_rows_are_left_whoever_compacts(java: JavaPaimon, tmp_path: Path, kind: str, producer: str) -> None:
    arrow, made = TYPES[kind]
    chance, warehouse = random.Random(f"{kind} {producer}"), str(tmp_path)
    engine = chance.choice(["deduplicate", "partial-update"])
    fields: dict[str, Any] = {"id": "INT NOT NULL", "v": "STRING", "t": kind.split(" mill")[0]}
    options = OPTIONS | {"changelog-producer": producer, "merge-engine": engine}
    for name in ("m.ours", "m.java"):
        java.create(warehouse, name, fields, primary_key=["id"], options=options)
    ours = Catalog(warehouse, clock=Clock()).table("m.ours")
    now = int(time.time())
    times = [None, now - 10 * HOUR, now - HOUR - 300, now - HOUR + 300, now, now + HOUR]
    for step in range(8):
        rows = [
            {"id": number, "v": f"{step}", "t": None if (moment := chance.choice(times)) is None else made(moment)}
            for number in chance.sample(range(8), 4)
        ]
        table = pa.Table.from_pylist(rows, pa.schema([("id", pa.int32()), ("v", pa.string()), ("t", arrow)]))
        java.write(warehouse, "m.java", table, ours.schema.fields)
        ours.write(table)
        if step == 3 or step == 7:
            java.ask(warehouse, "m.java", "compact", full=True)
            ours.compact()
            # Those of the highest level alone are gone through again.
            assert (
                _held(ours.to_arrow()) == _held(java.read(warehouse, "m.ours")) == _held(java.read(warehouse, "m.java"))
            )
    if producer == "none":
        left = ours.to_arrow()["t"].to_pylist()
        assert all(moment is None or moment >= made(now - HOUR) for moment in left)
    else:
        changes = [java.changes(warehouse, name, 1) for name in ("m.ours", "m.java")]
        assert changes[0] == changes[1]


def test_a_file_of_the_highest_level_is_written_anew_once_rows_are_too_old(catalog: Catalog) -> None:
    schema = pa.schema([("id", pa.int32()), ("t", pa.int64())])
    table = catalog.create_table("m.t", schema, primary_key=["id"], options={"bucket": 1})
    now = table.store.clock.now_ms() // 1000
    table.write(pa.table({"id": pa.array([1, 2], pa.int32()), "t": [now, now - 2 * HOUR]}))
    table.compact()
    assert table.compact() is None
    table = table.alter(SetOptions({"record-level.expire-time": "1 h", "record-level.time-field": "t"}))
    assert table.to_arrow().num_rows == 2
    assert table.compact() is not None
    assert table.to_arrow()["id"].to_pylist() == [1]
    assert table.compact() is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"record-level.expire-time": "1 h"}, "needs 'record-level.time-field'"),
        ({"record-level.expire-time": "1 h", "record-level.time-field": "v"}, "of type STRING tells no time"),
        ({"record-level.time-field": "v"}, "of type STRING tells no time"),
        ({"record-level.expire-time": "1 h", "record-level.time-field": "x"}, "no column 'x'"),
    ],
)
def test_what_tells_no_time_is_refused(catalog: Catalog, options: dict[str, str], message: str) -> None:
    schema = pa.schema([("id", pa.int32()), ("v", pa.string())])
    with pytest.raises(InvalidRequest, match=message):
        catalog.create_table("m.t", schema, primary_key=["id"], options=options)
