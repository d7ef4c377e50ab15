"""What questions cost when a lineage database has grown large.

    python -m tests.benchmarks.lineage [--rows 1000000]

Fills a SQLite database with rows of snapshot lineage, checks by the database's own plan that questions are answered from
indexes, and prints one line for each figure, with its ratio to looking one row up by its primary key.
"""

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from statistics import median

from rich.console import Console
from sqlalchemy import create_engine, insert, text

from lineage import LineageStore, impact, open_lineage_store, trace
from lineage.database_url import database_url
from lineage.schema import sink_snapshot_lineage, source_snapshot_lineage
from storage import SnapshotRef

CHAIN = 11
SOURCES = 3
ROUNDS = 30
_BATCH = 50_000
_START = datetime(2020, 1, 1)
out = Console()


def barriers(rows: int) -> Iterator[tuple[int, int, int]]:
    """Group of tables, place in its chain, barrier: each barrier consumes `SOURCES` snapshots and produces one."""
    groups = 20
    for barrier in range(1, rows // (groups * (CHAIN - 1) * (SOURCES + 1)) + 2):
        for group in range(groups):
            for place in range(1, CHAIN):
                yield group, place, barrier


def fill(options: dict[str, str], rows: int) -> int:
    """Tables `t<group>_<place>` in chains: each is made from the one before it and from two tables besides. Returns the
    number of rows.
    """
    open_lineage_store(options).close()
    engine = create_engine(database_url(options))
    sources: list[dict[str, object]] = []
    sinks: list[dict[str, object]] = []
    count = 0

    def flush() -> None:
        nonlocal count
        with engine.begin() as connection:
            for table, pending in ((source_snapshot_lineage, sources), (sink_snapshot_lineage, sinks)):
                if pending:
                    connection.execute(insert(table), pending)
                count += len(pending)
                pending.clear()

    for group, place, barrier in barriers(rows):
        moment = _START + timedelta(seconds=barrier)
        row = {
            "job": f"job{group}_{place}",
            "barrier_id": barrier,
            "database": "d",
            "branch": "main",
            "snapshot_id": barrier,
            "create_time": moment,
            "snapshot_time": moment,
        }
        sinks.append(row | {"table": f"t{group}_{place}"})
        names = (f"t{group}_{place - 1}", f"side{group}", f"side{(group + 1) % 20}")
        sources += [row | {"table": name} for name in names]
        if len(sources) >= _BATCH:
            flush()
    flush()
    with engine.connect() as connection:
        connection.execute(text("ANALYZE"))
    engine.dispose()
    return count


def plan(options: dict[str, str], query: str) -> str:
    engine = create_engine(database_url(options))
    with engine.connect() as connection:
        plan_lines = [str(row[-1]) for row in connection.execute(text(f"EXPLAIN QUERY PLAN {query}"))]
    engine.dispose()
    return "; ".join(plan_lines)


def timed_ms(act: Callable[[int], object]) -> float:
    times = []
    for number in range(ROUNDS):
        start = time.perf_counter()
        act(number)
        times.append((time.perf_counter() - start) * 1000)
    return median(times)


def measure(options: dict[str, str], store: LineageStore, rows: int) -> None:
    stores = {"c": store}
    last = max(row.snapshot_id for row in store.snapshots("sink", job="job0_1"))

    def ref(number: int, place: int) -> SnapshotRef:
        return SnapshotRef("c", "d", f"t{number % 20}_{place}", "main", last - number)

    graph = trace(stores, ref(0, CHAIN - 1), "up", hops=CHAIN - 1)
    assert len(graph.edges) == (CHAIN - 1) * SOURCES
    for what in (
        "SELECT * FROM sink_snapshot_lineage "
        "WHERE \"database\" = 'd' AND \"table\" = 't' AND branch = 'm' AND snapshot_id IN (1)",
        "SELECT * FROM source_snapshot_lineage WHERE job = 'j' AND barrier_id IN (1, 2)",
    ):
        query_plan = plan(options, what)
        assert "USING INDEX" in query_plan, query_plan
        out.print(f"plan: {query_plan}")
    look_up_ms = timed_ms(
        lambda number: store.snapshots(
            "sink",
            job=f"job{number % 20}_1",
            barrier_id=last - number,
            database="d",
            table=f"t{number % 20}_1",
            branch="main",
        )
    )
    out.print(f"{rows} rows of snapshot lineage; one row by its primary key: {look_up_ms:.2f} ms")
    for name, act in {
        "one hop upstream": lambda number: trace(stores, ref(number, CHAIN - 1), "up", hops=1),
        "one hop downstream": lambda number: trace(stores, ref(number, 1), "down", hops=1),
        "graph of ten hops upstream": lambda number: trace(stores, ref(number, CHAIN - 1), "up", hops=10),
        "graph of ten hops downstream": lambda number: trace(stores, ref(number, 0), "down", hops=10),
        "what a snapshot has spoilt, of the last 100": lambda number: impact(stores, ref(100, 0)),
    }.items():
        taken = timed_ms(act)
        out.print(f"{name}: {taken:.1f} ms ({taken / look_up_ms:.0f}x the look-up)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=1_000_000)
    rows = parser.parse_args().rows
    with tempfile.TemporaryDirectory() as directory:
        options = {"jdbc.url": f"jdbc:sqlite:{Path(directory) / 'lineage.db'}"}
        count = fill(options, rows)
        store = open_lineage_store(options)
        measure(options, store, count)
        store.close()


if __name__ == "__main__":
    main()
