"""`make kafka-demo`: the flights of a day in a topic, streamed into a table with a log, and a mart that follows.

The broker is that of the tests. The platform lies in a directory of its own, which is made anew each time.
"""

import json
import logging
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console
from rich.table import Table as Listing

from lineage import text_tree
from platform_assets.raw import flights as raw_flights
from resources import Session, function_of
from tests.kafka.broker_process import BrokerProcess, why_missing

DAY = (2013, 7, 1)
TOPIC = "flights"
COLUMNS = "carrier STRING, flight INT, origin STRING, dest STRING, sched_hour INT, dep_delay INT"
KEY = "PRIMARY KEY (carrier, flight, origin, sched_hour) NOT ENFORCED"
_STREAMED = {
    "store": "INSERT INTO flights SELECT carrier, flight, origin, dest, sched_hour, dep_delay FROM departures",
    "mart": """INSERT INTO delays_by_hour SELECT sched_hour, count(*), round(avg(dep_delay), 1), max(dep_delay)
        FROM flights GROUP BY sched_hour""",
}
_SETTINGS = "SET 'execution.runtime-mode' = 'streaming'; SET 'pipeline.name' = '{job}'"


def flights_of_day() -> pa.Table:
    """The flights that were to leave New York on DAY, by the hour."""
    flights = function_of(raw_flights)()
    of_day = [pc.equal(flights[name], value) for name, value in zip(("year", "month", "day"), DAY, strict=True)]
    picked = flights.filter(pc.and_(pc.and_(of_day[0], of_day[1]), of_day[2]))
    columns = picked.select(["carrier", "flight", "origin", "dest", "hour", "dep_delay"])
    named = columns.rename_columns(["carrier", "flight", "origin", "dest", "sched_hour", "dep_delay"])
    return named.sort_by([("sched_hour", "ascending"), ("carrier", "ascending"), ("flight", "ascending")])


def send(address: str, flights: pa.Table) -> None:
    """Send flights as a program that knows nothing of the store does: JSON, the flight as the key."""
    producer = Producer({"bootstrap.servers": address})
    for row in flights.to_pylist():
        producer.produce(TOPIC, json.dumps(row).encode(), f"{row['carrier']}{row['flight']}".encode())
    assert producer.flush(60) == 0


def define(session: Session, address: str) -> None:
    """The topic as a table, the table that it is streamed into, whose changes go on into a log, and the mart."""
    topic = {"connector": "kafka", "topic": TOPIC, "properties.bootstrap.servers": address}
    topic |= {"format": "json", "scan.startup.mode": "earliest-offset"}
    log = {"log.system": "kafka", "kafka.bootstrap.servers": address, "bucket": "2", "log.system.partitions": "2"}
    session.sql(f"CREATE TABLE departures ({COLUMNS}) WITH ({_options(topic)})", "duckdb")
    session.sql(f"CREATE TABLE flights ({COLUMNS}, {KEY}) WITH ({_options(log)})", "duckdb")
    session.sql(
        "CREATE TABLE delays_by_hour (sched_hour INT PRIMARY KEY NOT ENFORCED, flights BIGINT, delay DOUBLE, longest INT)",
        "duckdb",
    )


def follow(session: Session) -> None:
    """Carry both jobs on until there is nothing new: the topic into the table, the table into the mart."""
    for job, statement in _STREAMED.items():
        session.sql(_SETTINGS.format(job=job), "duckdb")
        stream = session.sql(statement, "spark").stream
        assert stream is not None
        stream.awaitTermination()
        session.sql("RESET 'execution.runtime-mode'; RESET 'pipeline.name'", "duckdb")


def run(out: Console, address: str) -> Session:
    """Everything but the broker, told as it goes."""
    admin = AdminClient({"bootstrap.servers": address})
    admin.create_topics([NewTopic(TOPIC, 2, 1)])[TOPIC].result(60)
    session = Session()
    define(session, address)
    flights = flights_of_day()
    morning = flights.filter(pc.less(flights["sched_hour"], 12))
    afternoon = flights.filter(pc.greater_equal(flights["sched_hour"], 12))
    # One hour comes in seconds instead of minutes.
    is_bad = pc.equal(afternoon["sched_hour"], 15)
    spoilt = pc.if_else(is_bad, pc.multiply(afternoon["dep_delay"].cast(pa.int64()), 60), afternoon["dep_delay"])
    at = afternoon.column_names.index("dep_delay")
    for title, part in (
        (f"The morning: {morning.num_rows} flights", morning),
        (
            f"The afternoon: {afternoon.num_rows} flights, those of 15:00 with delays in seconds",
            _with(afternoon, at, spoilt),
        ),
        (f"The flights of 15:00 again, in minutes: {afternoon.filter(is_bad).num_rows}", afternoon.filter(is_bad)),
    ):
        send(address, part)
        follow(session)
        _show(out, session, title)
    log = session.table("default.flights").log.status()
    out.print(f"\nThe log of flights, a topic too, has come to snapshot {log.sent} of {log.latest}.", highlight=False)
    return session


def _with(rows: pa.Table, at: int, column: Any) -> pa.Table:
    return rows.set_column(at, "dep_delay", column)


def _options(options: dict[str, str]) -> str:
    return ", ".join(f"'{key}' = '{value}'" for key, value in options.items())


def _show(out: Console, session: Session, title: str) -> None:
    out.print(f"\n[bold]{title}[/]")
    query = "SELECT * FROM delays_by_hour WHERE sched_hour IN (6, 9, 15, 18) ORDER BY sched_hour"
    rows = session.sql(query, "duckdb").rows
    assert rows is not None
    _print(out, rows.column_names, [tuple(row.values()) for row in rows.to_pylist()])
    ref = session.table("default.delays_by_hour").last_change()
    assert ref is not None
    out.print(text_tree(session.lineage(ref, "up", 2)), highlight=False, markup=False)


def _print(out: Console, names: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> None:
    listing = Listing(*names)
    for row in rows:
        listing.add_row(*map(str, row))
    out.print(listing)


@contextmanager
def started_broker(home: Path) -> Iterator[str]:
    """A broker for as long as the block goes on; its address."""
    if missing := why_missing():
        raise SystemExit(missing)
    broker = BrokerProcess(home / "broker")
    broker.start()
    try:
        yield broker.address
    finally:
        broker.stop()


def main() -> None:
    """Run the demo."""
    logging.getLogger("snapline").setLevel(logging.WARNING)
    home = Path(os.environ.get("SNAPLINE_HOME", ".snapline")).absolute() / "kafka-demo"
    shutil.rmtree(home, ignore_errors=True)
    os.environ["SNAPLINE_HOME"] = str(home)
    os.environ["SNAPLINE_WAREHOUSE"] = str(home / "warehouse")
    out = Console()
    out.print("Starting a broker")
    with started_broker(home) as address:
        run(out, address)
    out.print(f"\nThe platform is in {home}, and the broker has ended.")


if __name__ == "__main__":
    main()
    # As the command line: behind it libraries would only take themselves apart, not all of them in silence.
    sys.stdout.flush()
    os._exit(0)
