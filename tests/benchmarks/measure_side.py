"""Run all workloads on one side and print its figures as one JSON object: seconds by workload, bytes where it says so.

    python measure_side.py SIDE DIRECTORY BASE_ROWS

Runs in the environment of that side, so it imports nothing of this project. Every answer is checked.
"""

import contextlib
import importlib
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import workload
from side import CannotDo, Side

UPSERTS, UPSERT_SHARE = 20, 100
COMMITS, COMMIT_ROWS, PARTS = 500, 1000, 50
APPENDS = 10
BUDGET_SECONDS = 120


class Measurement:
    """The figures of a side."""

    def __init__(self, side: Side) -> None:
        self.side = side
        self.found: dict[str, float] = {}

    @contextlib.contextmanager
    def may_be_missing(self) -> Iterator[None]:
        with contextlib.suppress(CannotDo):
            yield

    def timed(self, key: str, act: Callable[[], Any], times: int = 1) -> Any:
        """Measure the best of some runs (the first fills the page cache); returns the last answer."""
        seconds = []
        for _ in range(times):
            start = time.perf_counter()
            answer = act()
            seconds.append(time.perf_counter() - start)
        self.found[key] = min(seconds)
        return answer


def keyed(measurement: Measurement, base: int) -> None:
    """W1 to W5: load, upserts, scans, look-ups, compaction."""
    side, count = measurement.side, base // UPSERT_SHARE
    loaded = [workload.base(base)]
    measurement.timed("load", lambda: side.load(loaded.pop()))
    total, done = 0.0, 0
    for number in range(UPSERTS):
        changes = workload.upsert(number, base, count)
        start = time.perf_counter()
        side.upsert(changes)
        total += time.perf_counter() - start
        done += 1
        if total > BUDGET_SECONDS:
            break
    measurement.found["upserts"] = total * UPSERTS / done
    expected = base + done * (count - count // 2)
    scanned = measurement.timed("scan", side.scan, 3)
    assert scanned.num_rows == expected, (scanned.num_rows, expected)
    narrow = measurement.timed("scan_2_columns", lambda: side.scan(["id", "price"]), 3)
    assert (narrow.num_rows, narrow.num_columns) == (expected, 2)
    seconds = []
    for number in range(10):
        key = number * 1000 + 7
        start = time.perf_counter()
        answer = side.lookup(key, key + 1)
        seconds.append(time.perf_counter() - start)
        assert answer["id"].to_pylist() == [key]
    measurement.found["lookup"] = statistics.median(seconds)
    low, width = base // 2, base // 100
    assert measurement.timed("range", lambda: side.lookup(low, low + width), 3).num_rows == width
    with measurement.may_be_missing():
        measurement.timed("compaction", side.compact)
        assert measurement.timed("scan_after", side.scan, 3).num_rows == expected


def text_keyed(measurement: Measurement, base: int) -> None:
    """W3 with a key of two texts, on a fifth of the rows."""
    side, base = measurement.side, base // 5
    count = base // UPSERT_SHARE
    side.load_text_keyed(workload.text_keyed(workload.base(base)))
    for number in range(UPSERTS):
        side.upsert_text_keyed(workload.text_keyed(workload.upsert(number, base, count)))
    scanned = measurement.timed("scan_text", side.scan_text_keyed, 3)
    assert scanned.num_rows == base + UPSERTS * (count - count // 2)


def history(measurement: Measurement) -> None:
    """W6, W8 and W9: many small commits, and what there is to ask of them."""
    side = measurement.side
    side.make_small()
    seconds = []
    for number in range(COMMITS):
        rows = workload.small_commit(number, COMMIT_ROWS, PARTS)
        start = time.perf_counter()
        side.commit_small(rows)
        seconds.append(time.perf_counter() - start)
        if sum(seconds) > BUDGET_SECONDS:
            # Growing costs are not extrapolated: this is less than it would be.
            measurement.found["commits"] = sum(seconds) * COMMITS / len(seconds)
            measurement.found["commit_first"] = statistics.median(seconds[5:25])
            return
    measurement.found["commits"] = sum(seconds)
    measurement.found["commit_first"] = statistics.median(seconds[5:25])
    measurement.found["commit_last"] = statistics.median(seconds[-20:])
    measurement.found["metadata_bytes"] = metadata_bytes(side.directory)
    with measurement.may_be_missing():
        measurement.timed("plan", side.plan_small, 3)
        measurement.timed("plan_1_part", lambda: side.plan_small(7), 3)
    with measurement.may_be_missing():
        assert (
            measurement.timed("scan_1_part", lambda: side.scan_small(7), 3).num_rows == COMMITS * COMMIT_ROWS // PARTS
        )
    with measurement.may_be_missing():
        middle = COMMITS // 2
        assert (
            measurement.timed("scan_at_middle", lambda: side.scan_small_at(middle), 2).num_rows == middle * COMMIT_ROWS
        )
    for key, act in (("tag", side.tag_small), ("branch", side.branch_small)):
        with measurement.may_be_missing():
            measurement.timed(key, lambda act=act: act("made"))
    with measurement.may_be_missing():
        assert measurement.timed("list_snapshots", side.snapshots_small, 3) >= COMMITS
    with measurement.may_be_missing():
        assert measurement.timed("list_files", side.files_small, 3) > 0


def appended(measurement: Measurement, base: int) -> None:
    """W7: appends to partitions."""
    side = measurement.side
    side.make_appended()
    measurement.found["append"] = 0.0
    for number in range(APPENDS):
        rows = workload.appended(number, base // APPENDS)
        start = time.perf_counter()
        side.append(rows)
        measurement.found["append"] += time.perf_counter() - start
    assert measurement.timed("append_scan", side.scan_appended, 3).num_rows == base
    assert measurement.timed("append_1_part", lambda: side.scan_appended(3), 3).num_rows == base // APPENDS


def metadata_bytes(directory: str) -> float:
    """Bytes of everything that is no data."""
    total = 0
    for root, _, names in os.walk(directory):
        if "small" in root:
            total += sum(
                os.path.getsize(f"{root}/{name}") for name in names if not name.endswith((".parquet", ".lance"))
            )
    return total


def main(name: str, directory: str, base: int) -> None:
    side = importlib.import_module(f"sides.{name}").side(directory)
    measurement = Measurement(side)
    with measurement.may_be_missing():
        keyed(measurement, base)
    with measurement.may_be_missing():
        text_keyed(measurement, base)
    with measurement.may_be_missing():
        changes = [workload.upsert(number, base, base // UPSERT_SHARE) for number in range(UPSERTS)]
        measurement.found.update(side.upsert_compacting(workload.base(base), changes))
    with measurement.may_be_missing():
        history(measurement)
    with measurement.may_be_missing():
        appended(measurement, base)
    print(json.dumps(measurement.found))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
