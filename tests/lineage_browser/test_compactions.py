"""A compaction holds rows that the change before it made: pages asked from it answer as the commands do."""

import html
import json
import random
import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner
from starlette.testclient import TestClient

from resources import Session
from resources.browser.alone import alone_page
from resources.browser.facts import Facts
from resources.browser.history import read_history
from resources.browser.path import path_through
from resources.cli import cli
from resources.links.address import text_of
from resources.recovery import plan_recovery
from tests.lineage_browser.random_platform import RandomPlatform
from tests.scale import seeds


def text_at(client: TestClient, path: str, **parameters: str) -> str:
    answer = client.get(path, params=parameters)
    assert answer.status_code == 200, answer.text
    without_pictures = re.sub("<svg.*?</svg>", "", answer.text, flags=re.S)
    return re.sub(r"\s+", " ", html.unescape(re.sub("<[^>]*>", " ", without_pictures)))


@pytest.fixture
def compacted(session: Session) -> Session:
    """`k.src@3` is a compaction of what `k.src@2` made, from which `k.fin@1` was made."""
    session.sql("CREATE DATABASE k", "duckdb")
    for name in ("src", "fin"):
        session.sql(f"CREATE TABLE k.{name} (id INT PRIMARY KEY NOT ENFORCED, v STRING)", "duckdb")
    for row in ("(1, 'a')", "(2, 'b')"):
        session.sql(f"INSERT INTO k.src VALUES {row}", "duckdb")
    session.sql("INSERT OVERWRITE k.fin SELECT * FROM k.src", "duckdb")
    session.sql("ALTER TABLE k.src COMPACT", "duckdb")
    return session


def test_what_the_rows_of_a_compaction_have_spoilt(compacted: Session, client: TestClient) -> None:
    page = text_at(client, "/spoilt", ref="k.src@3")
    assert "2 spoilt now" in page and "k.fin@1" in page
    assert "The rows of k.src@3 were made by k.src@2" in page
    plan = text_at(client, "/plan", ref="k.src@3")
    assert "nothing to recover" not in plan and "Start the recovery" in plan and "--bad k.src@2" in plan


def test_the_page_of_a_compaction_says_what_its_rows_were_made_from_and_fed(
    compacted: Session, client: TestClient
) -> None:
    page = text_at(client, "/snapshot", ref="k.src@3")
    assert "Fed k.fin@1" in page and "Its rows were made by k.src@2 :" in page
    assert "k.fin@1" in text_at(client, "/ancestry", ref="k.src@3")
    compaction = replace(compacted.ref("k.src@2"), snapshot_id=3)
    assert "k.fin@1" in alone_page(compacted, compaction)
    history = text_at(client, "/history", select="snapline.k.src@3", compactions="1")
    assert "Snapshots that led to it: 0. Made from it: 1." in history


@pytest.mark.parametrize("seed", seeds(3, 50, full=6))
def test_every_snapshot_is_answered_as_the_command_line_does(
    session: Session, client: TestClient, tmp_path: Path, seed: int
) -> None:
    platform = RandomPlatform(session, random.Random(seed + 500), tmp_path)
    platform.live(50)
    for name in session.catalog.tables():
        session.catalog.table(name).compact(full=True)
    history = read_history(Facts(Session()).platform(), 10_000)
    asked = [dot for dot in history.dots if not dot.changes_rows and not dot.fate]
    asked += random.Random(seed).sample([dot for dot in history.dots if not dot.fate], 4)
    for dot in asked:
        target = str(dot.ref)
        graph = {
            way: json.loads(
                CliRunner().invoke(cli, ["lineage", target, f"--{way}", "--format", "json"], obj=Session()).stdout
            )
            for way in ("up", "down")
        }
        own = Session().known_ref(target)
        index = history.dot_of(dot.ref)
        assert index is not None
        for way, side in (("up", "source"), ("down", "sink")):
            path = path_through(history, index, way, None)
            reached = {history.dots[each].ref for each in (path.upstream if way == "up" else path.downstream)}
            printed = {f"{row[side]}@{row[f'{side}_snapshot_id']}" for row in graph[way]}
            assert {str(ref) for ref in reached} == printed - {str(own)}
        page = text_at(client, "/spoilt", ref=text_of(dot.ref))
        for ref in Session().impact(own):
            assert str(ref) in page, (target, ref)
        if dot.ref.catalog == "snapline" and dot.ref.branch == "main":
            shown = text_at(client, "/plan", ref=text_of(dot.ref), mode="full")
            for row in plan_recovery(Session(), own).rows():
                assert " ".join(str(each) for each in row if each != "") in shown


def test_a_compaction_whose_change_has_expired_is_told_of_that(compacted: Session, client: TestClient) -> None:
    compacted.catalog.table("k.src").expire(retain_last=1, older_than=timedelta(0))
    assert str(Session().known_ref("k.src@3")) == "k.src@2"
    printed = CliRunner().invoke(cli, ["impact", "k.src@3"], obj=Session()).stdout
    assert "k.fin" in printed
    assert "Fed k.fin@1" in text_at(client, "/snapshot", ref="k.src@3")
    assert "k.fin@1" in text_at(client, "/spoilt", ref="k.src@3")
