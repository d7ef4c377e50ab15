"""Streams over tables whose rows change: after each step the sink holds what a batch query makes of the source."""

import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from resources import Session
from storage import InvalidRequest, StorageError, Table
from tests.scale import amount

SOURCES = """
    CREATE TABLE src (id INT PRIMARY KEY NOT ENFORCED, g STRING, amt BIGINT);
    CREATE TABLE dim (g STRING PRIMARY KEY NOT ENFORCED, label STRING);
    CREATE TABLE plain (id INT, amt BIGINT)
"""
STREAMING = "SET 'execution.runtime-mode' = 'streaming'; SET 'pipeline.name' = 'job1'"


def rows(table: Table) -> list[tuple[Any, ...]]:
    return sorted((tuple(row.values()) for row in table.to_arrow().to_pylist()), key=repr)


def expected(session: Session, query: str) -> list[tuple[Any, ...]]:
    """What a batch query says, by an engine that knows nothing of streams."""
    connection = duckdb.connect()
    for name in ("src", "dim", "plain"):
        connection.register(name, session.table(f"default.{name}").to_arrow())
    return sorted(connection.sql(query).fetchall(), key=repr)


def change(session: Session, chosen: random.Random) -> None:
    """One commit to the source: rows that come, change, move between groups, and go; or rows that are overwritten."""
    ids = [chosen.randrange(12) for _ in range(4)]
    values = ", ".join(
        f"({row_id}, '{chosen.choice('abcd')}', {chosen.randrange(40)})" for row_id in dict.fromkeys(ids)
    )
    kind = chosen.randrange(5)
    if kind == 0:
        session.sql(f"DELETE FROM src WHERE id % 3 = {chosen.randrange(3)}", "duckdb")
    elif kind == 1:
        session.sql(f"UPDATE src SET g = 'd', amt = amt + 1 WHERE id < {chosen.randrange(12)}", "duckdb")
    elif kind == 2:
        session.sql(f"INSERT OVERWRITE src VALUES {values}", "duckdb")
    else:
        session.sql(f"INSERT INTO src VALUES {values}", "duckdb")


def stream(session: Session, job: str, insert: str) -> None:
    """Carry a job on until there is nothing left to read."""
    session.sql(f"SET 'execution.runtime-mode' = 'streaming'; SET 'pipeline.name' = '{job}'", "duckdb")
    try:
        query = session.sql(insert).stream
        assert query is not None
        query.awaitTermination()
    finally:
        session.sql("RESET", "duckdb")


# Sink, its columns, and the query; the hint is added where src is read.
FOLLOWED = {
    "totals": (
        "g STRING PRIMARY KEY NOT ENFORCED, s BIGINT, n BIGINT, d BIGINT, most BIGINT",
        "SELECT g, sum(amt), count(*), count(DISTINCT amt), max(amt) FROM src{} GROUP BY g",
    ),
    "mirror": (
        "id INT PRIMARY KEY NOT ENFORCED, g STRING, amt BIGINT",
        "SELECT id, upper(g), amt * 2 FROM (SELECT * FROM src{} WHERE amt > 10) AS t",
    ),
    "few": (
        "g STRING PRIMARY KEY NOT ENFORCED, n BIGINT",
        "WITH t AS (SELECT * FROM src{}) SELECT g, count(*) AS n FROM t WHERE id < 9 GROUP BY g HAVING sum(amt) > 20",
    ),
    "labels": (
        "label STRING PRIMARY KEY NOT ENFORCED, s BIGINT",
        "SELECT coalesce(d.label, 'none'), sum(s.amt) FROM src{} AS s LEFT JOIN dim AS d ON s.g = d.g "
        "GROUP BY coalesce(d.label, 'none')",
    ),
    "both": (
        "side STRING, id INT, g STRING, PRIMARY KEY (side, id) NOT ENFORCED",
        "SELECT 'a', s.id, d.label FROM src{} AS s JOIN dim AS d ON s.g = d.g UNION ALL SELECT 'b', id, g FROM src{}",
    ),
    "one": ("k INT PRIMARY KEY NOT ENFORCED, s BIGINT", "SELECT 1, sum(amt) FROM src{}"),
    "pairs": ("g STRING, amt BIGINT, PRIMARY KEY (g, amt) NOT ENFORCED", "SELECT DISTINCT g, amt FROM src{}"),
}


@pytest.mark.spark
@pytest.mark.one_in(2)
@pytest.mark.parametrize("producer", ["none", "lookup"])
def test_sinks_follow_a_source_whose_rows_change(session: Session, producer: str) -> None:
    seed = int(os.environ.get("SNAPLINE_TEST_SEED") or random.randrange(2**32))
    print(f"SNAPLINE_TEST_SEED={seed}")
    chosen = random.Random(seed)
    session.sql(SOURCES, "duckdb")
    if producer != "none":
        session.sql(f"ALTER TABLE src SET ('changelog-producer' = '{producer}')", "duckdb")
    # Each kind of query with one producer or the other: what they differ in is where changes are read from.
    names = ["totals", "mirror", "both", "one"] if producer == "none" else ["few", "labels", "pairs"]
    # Two of them by the seed; all of them in `make test-full`.
    names = chosen.sample(names, amount(2, len(names), full=len(names)))
    for name in names:
        session.sql(f"CREATE TABLE {name} ({FOLLOWED[name][0]})", "duckdb")
    for step in range(2):
        session.sql(f"INSERT INTO dim VALUES ('{'ab'[step]}', 'l{chosen.randrange(2)}')", "duckdb")
        if step == 1:
            session.sql("DELETE FROM dim WHERE g = 'a'", "duckdb")
        for _ in range(3):
            change(session, chosen)
        for name in names:
            query = FOLLOWED[name][1]
            # A micro-batch may end between a commit and the compaction that tells of it.
            hinted = query.replace("{}", f" /*+ OPTIONS('snapshots-per-batch' = '{chosen.choice([1, 2, 4])}') */")
            stream(session, name, f"INSERT INTO {name} {hinted}")
            assert rows(session.table(f"default.{name}")) == expected(session, query.replace("{}", "")), (name, step)


@pytest.mark.spark
def test_a_batch_that_is_made_again_lands_once_wherever_the_stream_has_died(
    session: Session, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from storage.engines import spark_stream

    session.sql(SOURCES, "duckdb")
    session.sql("CREATE TABLE totals (g STRING PRIMARY KEY NOT ENFORCED, s BIGINT)", "duckdb")
    session.sql("INSERT INTO src VALUES (1, 'a', 10), (2, 'a', 20), (3, 'b', 5)", "duckdb")
    insert = "INSERT INTO totals SELECT g, sum(amt) FROM src GROUP BY g"
    commit = spark_stream.write_frame
    real: Callable[..., Any] = commit

    def dies_before(*given: Any, **named: Any) -> None:
        raise KeyError("died before")

    def dies_after(*given: Any, **named: Any) -> None:
        real(*given, **named)
        raise KeyError("died after")

    changes = ["UPDATE src SET g = 'c' WHERE id = 1", "DELETE FROM src WHERE id = 3"]
    for dies, said in zip((dies_before, dies_after), changes, strict=True):
        session.sql(said, "duckdb")
        monkeypatch.setattr(spark_stream, "write_frame", dies)
        with pytest.raises(Exception, match="died"):
            stream(session, "job1", insert)
        monkeypatch.setattr(spark_stream, "write_frame", commit)
        stream(session, "job1", insert)
        assert rows(session.table("default.totals")) == expected(session, "SELECT g, sum(amt) FROM src GROUP BY g")
    # As after a crash between the commit and Spark's own note of it.
    done = sorted(
        (tmp_path / "home" / "checkpoints" / "job1" / "commits").glob("[0-9]*"), key=lambda path: int(path.name)
    )
    done[-1].unlink()
    # Else Hadoop finds its checksum, and takes the file for one that another stream is writing.
    done[-1].with_name(f".{done[-1].name}.crc").unlink(missing_ok=True)
    before = session.table("default.totals").snapshot()
    stream(session, "job1", insert)
    assert session.table("default.totals").snapshot() == before


VICTIM = """
import os, signal, sys
from resources import Session
from storage.engines import spark_stream

commit = spark_stream.write_frame
def killed(*given, **how):
    if sys.argv[1] == "after":
        commit(*given, **how)
    os.kill(os.getpid(), signal.SIGKILL)
spark_stream.write_frame = killed
session = Session()
session.sql("SET 'execution.runtime-mode' = 'streaming'; SET 'pipeline.name' = 'job1'", "duckdb")
session.sql("INSERT INTO copy SELECT * FROM src /*+ OPTIONS('scan.mode' = 'latest') */").stream.awaitTermination()
"""


@pytest.mark.spark
def test_a_stream_that_is_killed_loses_nothing_of_what_came_since_it_began(session: Session) -> None:
    session.sql(SOURCES, "duckdb")
    session.sql("CREATE TABLE copy (id INT PRIMARY KEY NOT ENFORCED, g STRING, amt BIGINT)", "duckdb")
    session.sql("INSERT INTO src VALUES (1, 'a', 10), (2, 'a', 20)", "duckdb")
    root = Path(__file__).parent.parent.parent
    victim = subprocess.run(
        [sys.executable, "-c", VICTIM, "before"],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert victim.returncode == -signal.SIGKILL, victim.stderr[-2000:]
    session.sql("DELETE FROM src WHERE id = 1; INSERT INTO src VALUES (3, 'c', 30)", "duckdb")
    stream(session, "job1", "INSERT INTO copy SELECT * FROM src /*+ OPTIONS('scan.mode' = 'latest') */")
    # Where it began is remembered, though nothing was committed: what came meanwhile is there, what was there before is not.
    assert rows(session.table("default.copy")) == [(3, "c", 30)]


@pytest.mark.spark
def test_kinds_reach_any_table_that_has_a_key(session: Session) -> None:
    session.sql(SOURCES, "duckdb")
    session.sql("CREATE TABLE copy (id INT PRIMARY KEY NOT ENFORCED, amt BIGINT)", "duckdb")
    session.sql("INSERT INTO src VALUES (1, 'a', 10), (2, 'a', 20)", "duckdb")
    insert = (
        "INSERT INTO copy SELECT rowkind, id, amt + 1 FROM src /*+ OPTIONS('read.changelog' = 'true') */ WHERE id > 0"
    )
    stream(session, "job1", insert)
    session.sql("DELETE FROM src WHERE id = 1", "duckdb")
    stream(session, "job1", insert)
    assert rows(session.table("default.copy")) == [(2, 21)]


@pytest.mark.spark
def test_a_source_without_a_key_whose_rows_go_stops_the_stream(session: Session) -> None:
    session.sql(SOURCES, "duckdb")
    session.sql("CREATE TABLE copy (id INT PRIMARY KEY NOT ENFORCED, amt BIGINT)", "duckdb")
    session.sql("INSERT INTO plain VALUES (1, 10), (2, 20)", "duckdb")
    insert = "INSERT INTO copy SELECT * FROM plain"
    stream(session, "job1", insert)
    session.sql("DELETE FROM plain WHERE id = 1", "duckdb")
    with pytest.raises(Exception, match=r"Snapshot 2 of default.plain takes rows away.*another name"):
        stream(session, "job1", insert)


@pytest.mark.parametrize(
    ("sink", "query", "message"),
    [
        (
            "id INT, amt BIGINT",
            "SELECT id, amt FROM src",
            "has no primary key, by which a stream would find rows again",
        ),
        (
            "id INT, amt BIGINT",
            "SELECT id, sum(amt) FROM plain GROUP BY id",
            "each new value of a group would be one more row",
        ),
        ("g STRING PRIMARY KEY NOT ENFORCED", "SELECT g FROM src", r"told apart by its primary key \(id\)"),
        ("g STRING PRIMARY KEY NOT ENFORCED, n BIGINT", "SELECT upper(g), count(*) FROM src GROUP BY g", "grouped by"),
        ("g STRING PRIMARY KEY NOT ENFORCED, n BIGINT", "SELECT g, first(amt) FROM src GROUP BY g", r"first\(\)"),
        ("id INT PRIMARY KEY NOT ENFORCED, n DOUBLE", "SELECT id, rand() FROM src", r"rand\(\)"),
        ("id INT PRIMARY KEY NOT ENFORCED, n DATE", "SELECT id, current_date() FROM src", r"current_date\(\)"),
        (
            "id INT PRIMARY KEY NOT ENFORCED, n INT",
            "SELECT id, row_number() OVER (ORDER BY id) FROM src",
            "window functions",
        ),
        (
            "id INT PRIMARY KEY NOT ENFORCED",
            "SELECT id FROM src WHERE id IN (SELECT id FROM plain)",
            "inside of an expression",
        ),
        ("id INT PRIMARY KEY NOT ENFORCED", "SELECT id FROM src ORDER BY id LIMIT 3", "ORDER|LIMIT"),
        ("id INT PRIMARY KEY NOT ENFORCED", "SELECT id FROM src UNION SELECT id FROM src", "UNION"),
        ("id INT PRIMARY KEY NOT ENFORCED", "SELECT id FROM src UNION ALL SELECT id FROM src", "constant of its own"),
        ("id INT PRIMARY KEY NOT ENFORCED", "SELECT s.id FROM src s FULL JOIN dim d ON s.g = d.g", "FULL JOIN"),
        ("id INT PRIMARY KEY NOT ENFORCED", "SELECT s.id FROM src s JOIN dim d ON s.g > d.g", r"primary key \(g\)"),
        (
            "id INT PRIMARY KEY NOT ENFORCED",
            "SELECT s.id FROM src s JOIN plain p ON s.id = p.id",
            "plain, which has no",
        ),
        ("g STRING PRIMARY KEY NOT ENFORCED, n BIGINT", "SELECT g, count(*) FROM src GROUP BY ROLLUP (g)", "ROLLUP"),
        (
            "id INT PRIMARY KEY NOT ENFORCED, amt BIGINT) "
            "WITH ('merge-engine'='aggregation', 'fields.amt.aggregate-function'='sum'",
            "SELECT id, amt FROM src",
            "'merge-engine' = 'aggregation'",
        ),
        (
            "id INT PRIMARY KEY NOT ENFORCED, v BIGINT) WITH ('sequence.field'='v'",
            "SELECT id, amt FROM src",
            "'sequence.field' = 'v'",
        ),
    ],
)
def test_what_cannot_be_right_is_refused_before_anything_begins(
    session: Session, sink: str, query: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("resources.spark_session.start_spark", lambda *_: pytest.fail("Spark was started"))
    session.sql(SOURCES, "duckdb")
    session.sql(f"CREATE TABLE sink ({sink})", "duckdb")
    session.sql(STREAMING, "duckdb")
    with pytest.raises(StorageError, match=message):
        session.sql(f"INSERT INTO sink {query}")
    assert session.table("default.sink").snapshot() is None


@pytest.mark.parametrize(
    ("hint", "message"),
    [
        ("'log.scan' = 'later'", "Use one of: full, latest"),
        ("'log.scan' = 'latest', 'scan.mode' = 'full'", "are one option"),
        ("'scan.tag-name' = 'x'", "no way for a stream to begin"),
        ("'log.scan' = 'from-timestamp'", "needs one"),
    ],
)
def test_where_a_stream_begins_is_checked_before_it_does(session: Session, hint: str, message: str) -> None:
    session.sql(SOURCES, "duckdb")
    session.sql("CREATE TABLE sink (id INT, amt BIGINT)", "duckdb")
    session.table("default.plain").write(pa.table({"id": pa.array([1], pa.int32()), "amt": [1]}))
    session.table("default.plain").tags.create("x")
    session.sql(STREAMING, "duckdb")
    with pytest.raises(StorageError, match=message):
        session.sql(f"INSERT INTO sink SELECT * FROM plain /*+ OPTIONS({hint}) */")


def test_a_sink_is_not_its_own_source(session: Session) -> None:
    session.sql(SOURCES, "duckdb")
    session.sql(STREAMING, "duckdb")
    with pytest.raises(InvalidRequest, match="its own source"):
        session.sql("INSERT INTO src SELECT * FROM src")


def test_a_stream_does_not_go_on_with_another_query(session: Session) -> None:
    session.sql(SOURCES, "duckdb")
    session.sql("CREATE TABLE sink (id INT PRIMARY KEY NOT ENFORCED, amt BIGINT)", "duckdb")
    session.sql("CREATE TABLE other (id INT PRIMARY KEY NOT ENFORCED, amt BIGINT)", "duckdb")
    session.sql("INSERT INTO src VALUES (1, 'a', 10), (2, 'b', 20)", "duckdb")
    stream(session, "job1", "INSERT INTO sink SELECT id, amt FROM src")
    for another in (
        "INSERT INTO sink SELECT id, amt + 1 FROM src",
        "INSERT INTO sink SELECT id, amt FROM src WHERE id > 1",
        "INSERT INTO sink (amt, id) SELECT amt, id FROM src",
        "INSERT INTO other SELECT id, amt FROM src",
    ):
        with pytest.raises(InvalidRequest, match=r"'job1' began with another query, INSERT INTO default.sink"):
            stream(session, "job1", another)
    session.sql("INSERT INTO src VALUES (3, 'c', 30)", "duckdb")
    # Another way to write it, and to take it, is no other query.
    stream(
        session, "job1", "INSERT INTO sink SELECT id, amt -- all\n FROM src /*+ OPTIONS('snapshots-per-batch' = '2') */"
    )
    assert rows(session.table("default.sink")) == [(1, 10), (2, 20), (3, 30)]
    assert rows(session.table("default.other")) == []


def test_two_streams_do_not_make_the_rows_of_one_table_anew(session: Session) -> None:
    """Each would take the rows of the other for gone, unless a constant of the key keeps them apart."""
    session.sql(SOURCES, "duckdb")
    session.sql(
        "CREATE TABLE other LIKE src; CREATE TABLE sink (p STRING, id INT, amt BIGINT, PRIMARY KEY (p, id) NOT ENFORCED)",
        "duckdb",
    )
    session.sql("INSERT INTO src VALUES (1, 'a', 10); INSERT INTO other VALUES (1, 'a', 10), (2, 'b', 20)", "duckdb")
    stream(session, "first", "INSERT INTO sink SELECT 'x', id, amt FROM src")
    for query in ("SELECT 'x', id, amt FROM other", "SELECT g, id, amt FROM other"):
        with pytest.raises(InvalidRequest, match="The stream 'first' makes the rows of"):
            stream(session, "second", f"INSERT INTO sink {query}")
    stream(session, "second", "INSERT INTO sink SELECT 'y', id, amt FROM other")
    session.sql("DELETE FROM src; DELETE FROM other WHERE id = 2", "duckdb")
    stream(session, "first", "INSERT INTO sink SELECT 'x', id, amt FROM src")
    stream(session, "second", "INSERT INTO sink SELECT 'y', id, amt FROM other")
    assert session.sql("SELECT * FROM sink", "duckdb").to_arrow().to_pylist() == [{"p": "y", "id": 1, "amt": 10}]


def test_rows_that_wait_in_postponed_buckets_are_made_anew_once_they_are_moved(session: Session) -> None:
    table = session.catalog.create_table(
        "default.waits", pa.schema([("k", pa.int64()), ("v", pa.int64())]), primary_key=["k"], options={"bucket": "-2"}
    )
    for sink in ("anew", "told"):
        session.sql(f"CREATE TABLE {sink} (k BIGINT PRIMARY KEY NOT ENFORCED, v BIGINT)", "duckdb")
    inserts = {
        "anew": "INSERT INTO anew SELECT k, v FROM waits",
        "told": "INSERT INTO told SELECT rowkind, k, v FROM waits /*+ OPTIONS('read.changelog' = 'true') */",
    }
    table.write(pa.table({"k": [1, 2, 3], "v": [1, 1, 1]}))
    table.compact()
    table.write(pa.table({"k": [1], "v": [1], "kind": ["-D"]}), row_kind_column="kind")
    for value in (2, 3):
        table.write(pa.table({"k": [3], "v": [value]}))
    for name, insert in inserts.items():
        stream(session, name, insert)
    table.compact()
    for name, insert in inserts.items():
        stream(session, name, insert)
        assert rows(session.table(f"default.{name}")) == rows(table) == [(2, 1), (3, 3)]
