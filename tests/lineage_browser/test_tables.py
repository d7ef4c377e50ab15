"""The graph of tables: what is made from what, where it stands, and how new it is."""

import random
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest
from starlette.testclient import TestClient

from lineage import sources_property
from resources import Session
from resources.browser.facts import Facts
from resources.browser.history import read_history
from resources.browser.table_graph import Name, table_graph
from resources.browser.table_layout import lay_out_tables
from resources.recovery import RecoveryRecord, TableRecord
from resources.recovery.record import change_record, create_record
from storage import CommitId, SnapshotRef
from tests.lineage_browser.random_platform import SCHEMA, RandomPlatform
from tests.scale import seeds


def made(session: Session, name: str, *sources: SnapshotRef, job: str = "job", barrier: int) -> SnapshotRef:
    table = session.catalog.create_table(name, SCHEMA, if_not_exists=True)
    table.write(pa.table({"id": [barrier]}), commit_id=CommitId(job, barrier), properties=sources_property(sources))
    ref = table.ref()
    assert ref is not None
    return ref


@pytest.mark.parametrize("seed", seeds(3, 100, full=20))
def test_tables_are_joined_as_the_lineage_of_their_snapshots_says(session: Session, tmp_path: Path, seed: int) -> None:
    RandomPlatform(session, random.Random(seed), tmp_path).live(50)
    session = Session()
    platform = Facts(session).platform()
    expected: set[tuple[Name, Name]] = set()
    for place, history in platform.branches.items():
        for snapshot in [each for each in history.snapshots if each.changes_rows][-10:]:
            for edge in session.lineage(SnapshotRef(*place, snapshot.id), "up", 1).edges:
                source, sink = (
                    (ref.catalog, ref.database, ref.table) for ref in (edge.source, SnapshotRef(*place, snapshot.id))
                )
                expected.add((source, sink))
    there = {place[:3] for place in platform.branches}
    edges = {edge for edge in table_graph(platform).edges if edge[1] in there}
    assert edges == {edge for edge in expected if edge[0] != edge[1]}


def test_one_job_that_writes_two_tables_joins_neither_with_the_sources_of_the_other(session: Session) -> None:
    left, right = made(session, "raw.left", barrier=1), made(session, "raw.right", barrier=2)
    made(session, "core.left", left, barrier=3)
    made(session, "core.right", right, barrier=4)
    edges = {(source[2], sink[1:]) for source, sink in table_graph(Facts(session).platform()).edges}
    assert edges == {("left", ("core", "left")), ("right", ("core", "right"))}


def test_sources_stand_to_the_left_and_lines_have_places_where_they_pass() -> None:
    names = [("c", "d", letter) for letter in "abcd"]
    a, b, c, d = names
    layout = lay_out_tables(names, [(a, b), (b, c), (a, c), (d, c)])
    level = {spot.name: spot.level for column in layout.columns for spot in column if spot.is_table}
    assert level == {a: 0, d: 0, b: 1, c: 2}
    assert [len(column) for column in layout.columns] == [2, 3, 1]
    for chain in layout.chains:
        assert [spot.level for spot in chain] == list(range(chain[0].level, chain[-1].level + 1))


def test_tables_in_a_circle_and_in_a_long_chain_stand_somewhere() -> None:
    names = [("c", "d", f"t{number:04d}") for number in range(2_000)]
    chain = list(pairwise(names))
    layout = lay_out_tables(names, [*chain, (names[-1], names[0])])
    tables = [spot.name for column in layout.columns for spot in column if spot.is_table]
    assert sorted(tables) == names
    assert len(layout.columns) <= len(names)


def test_recoveries_that_are_open_are_said_of_their_tables(session: Session, client: TestClient) -> None:
    made(session, "raw.a", barrier=1)
    made(session, "raw.b", barrier=2)
    record = RecoveryRecord("mend-b", 0, {}, {"raw.a": TableRecord(1, 1)})
    create_record(session.catalog, record)
    page = client.get("/").text
    assert page.count(">mend-b<") == 1
    assert 'class="box mending"' in page
    change_record(session.catalog, record, lambda now: replace(now, status="published"))
    assert "mend" not in Facts(session).platform().recoveries.get(("snapline", "raw", "a"), ())


def test_what_has_not_changed_is_not_read_again(session: Session) -> None:
    moment = 0.0
    facts = Facts(session, lambda: moment)
    first = made(session, "raw.a", barrier=1)
    platform = facts.platform()
    moment = 5.0
    assert facts.platform() is platform
    second = made(session, "raw.a", barrier=2)
    assert facts.platform() is platform
    # What is asked by name is read at once.
    assert facts.platform([first]) is platform
    assert facts.platform([second]).fate(second) == ""
    moment = 100.0
    assert facts.platform() is not platform


def test_a_commit_after_the_tables_were_read_is_no_ghost(session: Session) -> None:
    made(session, "raw.a", barrier=1)
    platform = Facts(session).platform()
    late = made(session, "raw.a", barrier=2)
    other = made(session, "raw.b", barrier=3)
    history = read_history(platform, 100)
    assert history.dot_of(late) is None
    assert history.dot_of(other) is None
    assert len(history.dots) == 1


def behind(session: Session, name: str) -> int | None:
    graph = table_graph(Facts(Session()).platform())
    return next(node.behind for node in graph.nodes if node.shown == name)


@pytest.mark.parametrize("updates", [1, 6])
def test_a_table_that_was_updated_is_as_far_behind_as_before(session: Session, updates: int) -> None:
    for statement in (
        "CREATE DATABASE shop",
        "CREATE TABLE shop.orders AS SELECT 1 AS id",
        "CREATE TABLE shop.daily (id INT)",
        "INSERT INTO shop.daily SELECT id FROM shop.orders",
        *(["UPDATE shop.daily SET id = id WHERE id > 0", "DELETE FROM shop.daily WHERE id < 0"] * updates),
        "INSERT INTO shop.orders VALUES (2)",
        "INSERT INTO shop.orders VALUES (3)",
    ):
        session.sql(statement, "duckdb")
    assert [lag.snapshots_behind for lag in session.freshness("shop.daily")] == [2]
    assert behind(session, "shop.daily") == 2


def test_what_comes_of_a_table_that_is_behind_is_not_shown_as_fresh(session: Session, client: TestClient) -> None:
    raw = made(session, "z.a", barrier=1)
    core = made(session, "z.b", raw, barrier=2)
    made(session, "z.c", core, barrier=3)
    made(session, "z.a", barrier=4)
    graph = table_graph(Facts(session).platform())
    assert [(node.behind, node.sources_behind) for node in graph.nodes] == [(None, 0), (1, 0), (0, 1)]
    page = client.get("/").text
    assert "(1 before it)" in page
    assert page.count('class="box behind"') == 2
    assert [lag.snapshots_behind for lag in session.freshness("z.c")] == [1, 0]


def test_what_was_made_from_a_table_that_is_gone_is_as_far_behind_as_that_was(session: Session) -> None:
    for statement in (
        "CREATE DATABASE shop",
        "CREATE TABLE shop.orders AS SELECT 1 AS id",
        "CREATE TABLE shop.gone AS SELECT id FROM shop.orders",
        "CREATE TABLE shop.mart AS SELECT id FROM shop.gone",
        "DROP TABLE shop.gone",
        "INSERT INTO shop.orders VALUES (2)",
    ):
        session.sql(statement, "duckdb")
    assert behind(session, "shop.mart") == 1
    session.sql("CREATE TABLE shop.gone AS SELECT 5 AS id", "duckdb")
    assert behind(session, "shop.mart") == 1
    assert {lag.source.table_name: lag.snapshots_behind for lag in session.freshness("shop.mart")}["shop.orders"] == 1


def test_tables_are_listed_by_the_column_that_the_address_says(session: Session, client: TestClient) -> None:
    made(session, "raw.few", barrier=1)
    for barrier in (2, 3, 4):
        made(session, "raw.many", barrier=barrier)
    session.catalog.create_table("raw.none", SCHEMA)

    def listed(query: str) -> list[str]:
        page = client.get(f"/{query}").text
        return re.findall(r'history\?tables=snapline\.(raw\.\w+)"', page.partition('id="tables"')[2])

    assert listed("?sort=records") == ["raw.few", "raw.many", "raw.none"]
    assert listed("?sort=-records") == ["raw.many", "raw.few", "raw.none"]
    assert listed("?sort=-table") == ["raw.none", "raw.many", "raw.few"]
    page = client.get("/?sort=-records&find=raw").text
    # Numbers begin with the greatest; the search stays.
    assert 'aria-sort="descending"' in page and "?find=raw&amp;sort=records#tables" in page
    assert "?find=raw&amp;sort=-behind#tables" in page
    assert client.get("/?sort=nothing").status_code == 400
