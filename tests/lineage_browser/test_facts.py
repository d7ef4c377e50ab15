"""Every fact on a page is what the command line and SQL answer, over random histories."""

import csv
import io
import json
import random
import time
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner
from sqlalchemy import create_engine, inspect, text
from starlette.testclient import TestClient

from lineage import sources_property
from resources import Session
from resources.browser.facts import Facts
from resources.browser.history import read_history
from resources.browser.path import path_through
from resources.cli import cli
from resources.links.address import text_of
from resources.sql.duckdb_select import run_query
from tests.lineage_browser.random_platform import SCHEMA, RandomPlatform
from tests.scale import seeds


def asked(client: TestClient, path: str, **parameters: str) -> str:
    answer = client.get(path, params=parameters)
    assert answer.status_code == 200, answer.text
    return answer.text


@pytest.mark.parametrize("seed", seeds(3, 200, full=20))
def test_pages_say_what_commands_and_sql_say(session: Session, client: TestClient, tmp_path: Path, seed: int) -> None:
    platform = RandomPlatform(session, random.Random(seed), tmp_path)
    platform.live(60)
    session = Session()
    history = read_history(Facts(session).platform(), 10_000)
    assert len(history.dots) > 10
    assert not history.troubles
    times = [dot.time_ms for dot in history.dots]
    assert times == sorted(times)
    for index, dot in enumerate(history.dots):
        assert dot.fate == session.fate(dot.ref), dot
        assert history.dot_of(dot.ref) == index
        path = path_through(history, index, "both", None)
        for direction, reached in (("up", path.upstream), ("down", path.downstream)):
            asked_for = dot.ref if dot.changes_rows else session.known_ref(str(dot.ref))
            expected = {ref for ref in session.lineage(asked_for, direction).snapshots if ref != asked_for}
            assert {history.dots[each].ref for each in reached} == expected, (dot.ref, direction)
    _compare_with_sql(session, history)
    chosen = random.Random(seed).sample(history.dots, 6)
    for dot in chosen:
        rows = list(csv.DictReader(io.StringIO(asked(client, "/ancestry.csv", ref=text_of(dot.ref), direction="up"))))
        shown = {row["snapshot"] for row in rows}
        own = dot.ref if dot.changes_rows else session.known_ref(str(dot.ref))
        assert shown == {str(ref) for ref in session.lineage(own, "up").snapshots if ref != own}
        page = asked(client, "/snapshot", ref=text_of(dot.ref))
        for ref in session.lineage(own, "up", 1).snapshots + session.lineage(own, "down", 1).snapshots:
            assert ref == own or str(ref).replace("'", "&#39;") in page


def _compare_with_sql(session: Session, history: object) -> None:
    """The catalog's own lineage tables, read by DuckDB, know the same commits."""
    rows = run_query(
        session, 'SELECT DISTINCT database, "table", branch, snapshot_id FROM paimon.sink_snapshot_lineage'
    )
    known = {tuple(row.values()) for row in rows.to_pylist()}
    for dot in history.dots:  # type: ignore[attr-defined]
        ref = dot.ref
        if ref.catalog == "snapline" and dot.job and dot.changes_rows and ref.branch == "main":
            assert (ref.database, ref.table, ref.branch, ref.snapshot_id) in known, ref


@pytest.mark.parametrize("seed", seeds(3, 50, full=6))
def test_what_commands_print_is_on_the_pages(session: Session, client: TestClient, tmp_path: Path, seed: int) -> None:
    RandomPlatform(session, random.Random(seed + 1000), tmp_path).live(40)
    history = read_history(Facts(Session()).platform(), 10_000)
    for dot in random.Random(seed).sample(history.dots, 5):
        if "~" in dot.ref.branch:
            continue
        printed = CliRunner().invoke(cli, ["lineage", str(dot.ref), "--format", "json"], obj=Session())
        if printed.exit_code:
            # A branch that is gone, and was never the target of a command.
            continue
        sources = {f"{row['source']}@{row['source_snapshot_id']}" for row in json.loads(printed.stdout)}
        page = asked(client, "/ancestry.csv", ref=text_of(dot.ref), direction="up")
        shown = {row["snapshot"] for row in csv.DictReader(io.StringIO(page))}
        assert shown == sources - {str(Session().known_ref(str(dot.ref)))}


def test_a_limit_shows_the_newest_and_says_that_there_are_earlier_ones(session: Session, tmp_path: Path) -> None:
    RandomPlatform(session, random.Random(7), tmp_path).live(40)
    platform = Facts(Session()).platform()
    whole, part = read_history(platform, 10_000), read_history(platform, 5)
    assert part.has_earlier and not whole.has_earlier
    commits = [dot.ref for dot in whole.dots if dot.changes_rows and dot.job]
    assert {dot.ref for dot in part.dots} >= set(commits[-3:])
    assert len(part.dots) < len(whole.dots)


@pytest.mark.parametrize("seed", seeds(2, 100, full=12))
def test_what_was_read_bit_by_bit_is_what_is_read_at_once(session: Session, tmp_path: Path, seed: int) -> None:
    moment = 0.0
    facts = Facts(session, lambda: moment)
    happening = RandomPlatform(session, random.Random(seed), tmp_path)
    for _ in range(20):
        happening.live(3)
        moment += 5.0
        platform, fresh = facts.platform(), Facts(Session()).platform()
        assert platform.branches == fresh.branches
        shown, expected = read_history(platform, 10_000), read_history(fresh, 10_000)
        assert (shown.dots, shown.arcs, shown.joins, shown.lanes) == (
            expected.dots,
            expected.arcs,
            expected.joins,
            expected.lanes,
        )


def test_lineage_that_is_lacking_is_made_up_for_though_no_table_has_changed(session: Session) -> None:
    moment = 0.0
    facts = Facts(session, lambda: moment)
    source = session.catalog.create_table("raw.a", SCHEMA)
    source.write(pa.table({"id": [1]}))
    sink = session.catalog.create_table("core.b", SCHEMA)
    sink.write(pa.table({"id": [1]}), properties=sources_property([session.ref("raw.a")]))
    assert len(read_history(facts.platform(), 10).arcs) == 1
    forget_lineage(session)
    moment = 31.0
    facts.platform()
    until = time.monotonic() + 30
    while not read_history(facts.platform(), 10).arcs:
        assert time.monotonic() < until
        time.sleep(0.05)


def forget_lineage(session: Session) -> None:
    """As if the commits had never been told of."""
    with create_engine(
        session.settings.lineage_url.removeprefix("jdbc:").replace("sqlite:", "sqlite:///", 1)
    ).begin() as connection:
        for table in inspect(connection).get_table_names():
            if table != "lineage_schema_version":
                connection.execute(text(f'DELETE FROM "{table}"'))
    assert not session.lineage_store.has_snapshots("sink")
