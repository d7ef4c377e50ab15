"""Every fact on a page is what the command line and SQL answer, over random histories."""

import csv
import io
import json
import random
from pathlib import Path

import pytest
from click.testing import CliRunner
from starlette.testclient import TestClient

from resources import Session
from resources.browser.facts import Facts
from resources.browser.history import read_history
from resources.browser.path import path_through
from resources.browser.view import ref_of, target_of, text_of
from resources.cli import cli
from resources.quick_reads import run_query
from tests.lineage_browser.random_platform import RandomPlatform
from tests.scale import seeds


def asked(client: TestClient, path: str, **parameters: str) -> str:
    answer = client.get(path, params=parameters)
    assert answer.status_code == 200, answer.text
    return answer.text


@pytest.mark.parametrize("seed", seeds(6, 200, full=20))
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
        for direction, found in (("up", path.upstream), ("down", path.downstream)):
            expected = {ref for ref in session.lineage(dot.ref, direction).snapshots if ref != dot.ref}
            assert {history.dots[each].ref for each in found} == expected, (dot.ref, direction)
    _compare_with_sql(session, history)
    chosen = random.Random(seed).sample(history.dots, 6)
    for dot in chosen:
        rows = list(csv.DictReader(io.StringIO(asked(client, "/ancestry.csv", ref=text_of(dot.ref), direction="up"))))
        shown = {row["snapshot"] for row in rows}
        assert shown == {target_of(ref) for ref in session.lineage(dot.ref, "up").snapshots if ref != dot.ref}
        page = asked(client, "/snapshot", ref=text_of(dot.ref))
        for ref in session.lineage(dot.ref, "up", 1).snapshots + session.lineage(dot.ref, "down", 1).snapshots:
            assert ref == dot.ref or target_of(ref).replace("'", "&#39;") in page


def _compare_with_sql(session: Session, history: object) -> None:
    """The catalog's own lineage tables, read by DuckDB, know the same commits."""
    found = run_query(
        session, 'SELECT DISTINCT database, "table", branch, snapshot_id FROM paimon.sink_snapshot_lineage'
    )
    known = {tuple(row.values()) for row in found.to_pylist()}
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
        printed = CliRunner().invoke(cli, ["lineage", target_of(dot.ref), "--format", "json"], obj=Session())
        if printed.exit_code:
            # A branch that is gone, and was never the target of a command.
            continue
        sources = {(row["source"], row["source_snapshot_id"]) for row in json.loads(printed.stdout)}
        page = asked(client, "/ancestry.csv", ref=text_of(dot.ref), direction="up")
        refs = [ref_of(f"snapline.{row['snapshot']}" if row["snapshot"].count(".") == 1 else row["snapshot"])
                for row in csv.DictReader(io.StringIO(page))]  # fmt: skip
        own = (dot.ref.table_name, dot.ref.snapshot_id)
        assert {(ref.table_name, ref.snapshot_id) for ref in refs} == sources - {own}


def test_a_limit_shows_the_newest_and_says_that_there_are_earlier_ones(session: Session, tmp_path: Path) -> None:
    RandomPlatform(session, random.Random(7), tmp_path).live(40)
    platform = Facts(Session()).platform()
    whole, part = read_history(platform, 10_000), read_history(platform, 5)
    assert part.has_earlier and not whole.has_earlier
    commits = [dot.ref for dot in whole.dots if dot.changes_rows and dot.job]
    assert {dot.ref for dot in part.dots} >= set(commits[-3:])
    assert len(part.dots) < len(whole.dots)
