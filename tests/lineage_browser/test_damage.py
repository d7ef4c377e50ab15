"""What the browser says is spoilt, and where two snapshots part, over random histories: against the commands and SQL."""

import random
from pathlib import Path

import pytest
from click.testing import CliRunner
from starlette.testclient import TestClient

from resources import Session
from resources.browser.spoilt import damage_of
from resources.cli import cli
from resources.links.address import text_of
from resources.recovery import plan_recovery
from resources.sql.duckdb_select import run_query
from storage import InvalidRequest, NotFound, SnapshotRef, StorageError
from tests.lineage_browser.random_platform import RandomPlatform
from tests.lineage_browser.test_actions import text
from tests.scale import seeds


@pytest.fixture
def platform(session: Session, tmp_path: Path, request: pytest.FixtureRequest) -> RandomPlatform:
    random_platform = RandomPlatform(session, random.Random(request.param), tmp_path)
    random_platform.live(60)
    return random_platform


def check_damage(session: Session, bad: SnapshotRef) -> None:
    damage = damage_of(session, bad)
    every = [*damage.spoilt, *damage.good_again, *damage.in_recovery]
    assert {affected.first for affected in every} == set(session.impact(bad))
    reached = {f"{ref.catalog}.{ref.database}.{ref.table}" for ref in session.impact(bad)}
    assert set(damage.sound) == {
        f"{catalog}.{name}"
        for catalog in session.catalog_names()
        if catalog not in damage.silent
        for name in session.catalog_of(catalog).tables()
        if f"{catalog}.{name}" not in {*reached, *damage.unknown}
    }
    if bad.catalog == "snapline" and bad.branch == "main":
        plan = plan_recovery(session, bad)
        on_main = {row.first.table_name for row in damage.spoilt if row.first.catalog == "snapline" and row.newest}
        mains = {name for name in on_main if "$" not in name and session.catalog.exists(name)}
        assert mains == {table.name for table in plan.tables}
        good = {row.first.table_name for row in damage.good_again if row.newest and row.first.catalog == "snapline"}
        assert {name for name in good if "$" not in name} == {table.name for table in plan.good}
    for row in every:
        if row.rows is not None and row.first.catalog == "snapline":
            counted = run_query(session, f'SELECT count(*) FROM "{row.first.database}"."{_named(row.first)}"')
            assert row.rows == counted[0][0].as_py()


def _named(ref: SnapshotRef) -> str:
    return ref.table_name.partition(".")[2]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("platform", seeds(4, 200, full=20), indirect=True)
def test_what_is_spoilt_is_what_impact_and_plans_say(
    platform: RandomPlatform, session: Session, client: TestClient
) -> None:
    session = Session()
    chance = random.Random(1)
    known = 0
    for bad in chance.sample(platform.refs, min(12, len(platform.refs))):
        try:
            session.known_ref(text_of(bad))
        except (NotFound, InvalidRequest):
            # Its table has another name by now, or nobody knows its number any more.
            continue
        known += 1
        check_damage(session, bad)
        answer = client.get("/spoilt", params={"ref": text_of(bad)})
        assert answer.status_code == 200, answer.text
        listed = CliRunner().invoke(cli, ["impact", str(bad)])
        assert listed.exit_code == 0, listed.output
        for ref in session.impact(bad):
            assert str(ref) in text(answer.text)
    assert known > 3


@pytest.mark.parametrize("platform", seeds(3, 200, full=20), indirect=True)
def test_two_snapshots_part_on_the_page_as_in_the_command(
    platform: RandomPlatform, session: Session, client: TestClient
) -> None:
    chance = random.Random(2)
    session = Session()
    compared = 0
    for _ in range(12):
        left, right = chance.choice(platform.refs), chance.choice(platform.refs)
        command = CliRunner().invoke(cli, ["lineage", "--compare", str(left), str(right)])
        answer = client.get("/compare", params={"left": str(left), "right": str(right)})
        if command.exit_code or command.exception:
            # A page follows a table that was renamed; a command says what it is called now.
            expected = (200,) if "It was renamed to" in str(command.exception) else (400, 404)
            assert isinstance(command.exception, StorageError) and answer.status_code in expected
            continue
        compared += 1
        said = session.compare_ancestries(session.known_ref(str(left)), session.known_ref(str(right)))
        assert said.describe() in command.output
        assert answer.status_code == 200 and said.describe() in text(answer.text)
        above = {
            side: set(session.lineage(ref, "up").snapshots) | {ref}
            for side, ref in (("left", said.left), ("right", said.right))
        }
        assert set(said.only_left) == above["left"] - above["right"]
        assert set(said.only_right) == above["right"] - above["left"]
        assert set(said.both) == above["left"] & above["right"]
    assert compared > 3
