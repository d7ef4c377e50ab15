"""The watermark of the latest written data, in the snapshot of each commit."""

import datetime as dt

import pyarrow as pa
import pytest

from storage import Catalog, Watermark
from storage.metadata.first_schema import new_schema
from storage.write.watermark import row_time

SCHEMA = pa.schema([("id", pa.int32()), ("at", pa.timestamp("us")), ("a b`", pa.timestamp("ms", "UTC"))])
_MINUTE_MS = 60_000


def rows(*minutes: int | None) -> pa.Table:
    start = dt.datetime(1970, 1, 1)
    times = [None if minute is None else start + dt.timedelta(minutes=minute) for minute in minutes]
    return pa.table({"id": range(len(times)), "at": times, "a b`": times}, SCHEMA)


@pytest.mark.parametrize("keyed", [False, True])
def test_each_commit_of_rows_says_how_far_their_time_has_come(catalog: Catalog, keyed: bool) -> None:
    table = catalog.create_table(
        "w.t",
        SCHEMA,
        primary_key=["id"] if keyed else (),
        options={"bucket": 1} if keyed else {},
        watermark=Watermark("at", "`at` - INTERVAL '30' SECOND"),
    )
    marks = []
    for minutes in ((1, 5, 3), (2,), (None,), (9,)):
        snapshot = table.write(rows(*minutes))
        assert snapshot is not None
        marks.append(snapshot.watermark)
    assert marks == [4.5 * _MINUTE_MS] * 3 + [8.5 * _MINUTE_MS]
    table.compact()
    table.overwrite(rows(4))
    latest = table.snapshot()
    assert latest is not None
    assert latest.watermark == 8.5 * _MINUTE_MS
    assert table.system_table("snapshots").column("watermark").to_pylist()[-1] == 8.5 * _MINUTE_MS
    assert "1970-01-01" in str(table.describe()["watermark"])
    read = table.pinned("watermark-270001").snapshot()
    assert read is not None
    assert read.id == 4
    table.write_changes(rows(20).append_column("kind", pa.array(["+I"])), "kind", "WRITE")
    latest = table.snapshot()
    assert latest is not None
    assert latest.watermark == 19.5 * _MINUTE_MS


def test_a_table_without_a_watermark_has_none(catalog: Catalog) -> None:
    snapshot = catalog.create_table("w.t", SCHEMA).write(rows(1))
    assert snapshot is not None
    assert snapshot.watermark is None


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("at", 5 * _MINUTE_MS),
        ("AT", 5 * _MINUTE_MS),
        ("(`at`)", 5 * _MINUTE_MS),
        ("at - INTERVAL '1' MINUTE", 4 * _MINUTE_MS),
        ("at - INTERVAL 2 minutes", 3 * _MINUTE_MS),
        ("`at` - INTERVAL '0.5' SECOND", 5 * _MINUTE_MS - 500),
        ("`a b``` - INTERVAL '1' DAY", 5 * _MINUTE_MS - 86_400_000),
        ("at - INTERVAL '1' MONTH", None),
        ("id", None),
        ("at + INTERVAL '1' SECOND", None),
        ("greatest(at, at)", None),
        ("nope", None),
        ("at - INTERVAL '1' SECOND OR 1", None),
    ],
)
def test_a_time_and_what_it_lags_behind_is_known(expression: str, expected: int | None) -> None:
    options = {"schema.watermark.0.rowtime": "at", "schema.watermark.0.strategy.expr": expression}
    event_time = row_time(
        new_schema(SCHEMA, primary_keys=(), partition_keys=(), options=options, comment=None, time_ms=0)
    )
    assert (event_time.of(rows(1, 5)) if event_time else None) == expected
