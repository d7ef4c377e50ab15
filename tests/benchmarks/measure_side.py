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


def keyed(one: Measurement, base: int) -> None:
    """W1 to W5: load, upserts, scans, look-ups, compaction."""
    side, count = one.side, base // UPSERT_SHARE
    loaded = [workload.base(base)]
    one.timed("load", lambda: side.load(loaded.pop()))
    total, done = 0.0, 0
    for number in range(UPSERTS):
        changes = workload.upsert(number, base, count)
        start = time.perf_counter()
        side.upsert(changes)
        total += time.perf_counter() - start
        done += 1
        if total > BUDGET_SECONDS:
            break
    one.found["upserts"] = total * UPSERTS / done
    expected = base + done * (count - count // 2)
    found = one.timed("scan", side.scan, 3)
    assert found.num_rows == expected, (found.num_rows, expected)
    narrow = one.timed("scan_2_columns", lambda: side.scan(["id", "price"]), 3)
    assert (narrow.num_rows, narrow.num_columns) == (expected, 2)
    seconds = []
    for number in range(10):
        key = number * 1000 + 7
        start = time.perf_counter()
        answer = side.lookup(key, key + 1)
        seconds.append(time.perf_counter() - start)
        assert answer["id"].to_pylist() == [key]
    one.found["lookup"] = statistics.median(seconds)
    low, width = base // 2, base // 100
    assert one.timed("range", lambda: side.lookup(low, low + width), 3).num_rows == width
    with one.may_be_missing():
        one.timed("compaction", side.compact)
        assert one.timed("scan_after", side.scan, 3).num_rows == expected


def text_keyed(one: Measurement, base: int) -> None:
    """W3 with a key of two texts, on a fifth of the rows."""
    side, base = one.side, base // 5
    count = base // UPSERT_SHARE
    side.load_text_keyed(workload.text_keyed(workload.base(base)))
    for number in range(UPSERTS):
        side.upsert_text_keyed(workload.text_keyed(workload.upsert(number, base, count)))
    found = one.timed("scan_text", side.scan_text_keyed, 3)
    assert found.num_rows == base + UPSERTS * (count - count // 2)


def history(one: Measurement) -> None:
    """W6, W8 and W9: many small commits, and what there is to ask of them."""
    side = one.side
    side.make_small()
    seconds = []
    for number in range(COMMITS):
        rows = workload.small_commit(number, COMMIT_ROWS, PARTS)
        start = time.perf_counter()
        side.commit_small(rows)
        seconds.append(time.perf_counter() - start)
        if sum(seconds) > BUDGET_SECONDS:
            # Growing costs are not extrapolated: this is less than it would be.
            one.found["commits"] = sum(seconds) * COMMITS / len(seconds)
            one.found["commit_first"] = statistics.median(seconds[5:25])
            return
    one.found["commits"] = sum(seconds)
    one.found["commit_first"] = statistics.median(seconds[5:25])
    one.found["commit_last"] = statistics.median(seconds[-20:])
    one.found["metadata_bytes"] = metadata_bytes(side.directory)
    with one.may_be_missing():
        one.timed("plan", side.plan_small, 3)
        one.timed("plan_1_part", lambda: side.plan_small(7), 3)
    with one.may_be_missing():
        assert one.timed("scan_1_part", lambda: side.scan_small(7), 3).num_rows == COMMITS * COMMIT_ROWS // PARTS
    with one.may_be_missing():
        middle = COMMITS // 2
        assert one.timed("scan_at_middle", lambda: side.scan_small_at(middle), 2).num_rows == middle * COMMIT_ROWS
    for key, act in (("tag", side.tag_small), ("branch", side.branch_small)):
        with one.may_be_missing():
            one.timed(key, lambda act=act: act("made"))
    with one.may_be_missing():
        assert one.timed("list_snapshots", side.snapshots_small, 3) >= COMMITS
    with one.may_be_missing():
        assert one.timed("list_files", side.files_small, 3) > 0


def appended(one: Measurement, base: int) -> None:
    """W7: appends to partitions."""
    side = one.side
    side.make_appended()
    one.found["append"] = 0.0
    for number in range(APPENDS):
        rows = workload.appended(number, base // APPENDS)
        start = time.perf_counter()
        side.append(rows)
        one.found["append"] += time.perf_counter() - start
    assert one.timed("append_scan", side.scan_appended, 3).num_rows == base
    assert one.timed("append_1_part", lambda: side.scan_appended(3), 3).num_rows == base // APPENDS


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
    one = Measurement(side)
    with one.may_be_missing():
        keyed(one, base)
    with one.may_be_missing():
        text_keyed(one, base)
    with one.may_be_missing():
        changes = [workload.upsert(number, base, base // UPSERT_SHARE) for number in range(UPSERTS)]
        one.found.update(side.upsert_compacting(workload.base(base), changes))
    with one.may_be_missing():
        history(one)
    with one.may_be_missing():
        appended(one, base)
    print(json.dumps(one.found))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
