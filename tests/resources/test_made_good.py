"""What made a table good again, that a bad snapshot had spoilt: what plans, commands and pages say is the newest that did."""

import pytest
from click.testing import CliRunner
from starlette.testclient import TestClient

from resources import Session
from resources.browser.app import browser_app
from resources.cli import cli
from resources.recovery import plan_recovery

BAD = (
    "CREATE TABLE raw.a (id BIGINT)",
    "INSERT INTO raw.a VALUES (1)",
    "CREATE TABLE core.b AS SELECT * FROM raw.a",
    "INSERT INTO raw.a VALUES (666)",
    "INSERT OVERWRITE core.b SELECT * FROM raw.a",
)
SPOIL, BACK, ANEW = "INSERT OVERWRITE core.b SELECT * FROM raw.a", "CALL sys.rollback('core.b', '{}')", "source is good"
GOOD_AGAIN = "CALL sys.rollback('raw.a', '1')"


@pytest.fixture
def session(tmp_path, monkeypatch: pytest.MonkeyPatch) -> Session:  # type: ignore[no-untyped-def]
    monkeypatch.setenv("SNAPLINE_HOME", str(tmp_path / "home"))
    return Session()


@pytest.mark.parametrize(
    ("then", "said"),
    [
        ((BACK.format(1),), "taken back by @3"),
        # Good again, spoilt again, and computed anew from what is good: the rollback of before is not what did it.
        ((BACK.format(1), SPOIL, GOOD_AGAIN, SPOIL), "production has made it good since"),
        ((GOOD_AGAIN, SPOIL), "production has made it good since"),
        # Back to what was computed anew after the bad one.
        (
            (GOOD_AGAIN, SPOIL, "CALL sys.rollback('raw.a', '2')", SPOIL, BACK.format(3)),
            "taken back by @5",
        ),
        # A rollback of what was good already did nothing.
        ((GOOD_AGAIN, SPOIL, BACK.format(1)), "production has made it good since"),
        # What came after the rollback is good as well.
        ((GOOD_AGAIN, BACK.format(1), SPOIL), "taken back by @3"),
    ],
)
def test_what_made_a_table_good_is_told_alike_by_plan_command_and_page(
    session: Session, then: tuple[str, ...], said: str
) -> None:
    for statement in (*BAD, *then):
        session.sql(statement, "duckdb")
    session = Session()
    bad = session.ref("raw.a@2")
    descriptions = {good_table.name: good_table.describe() for good_table in plan_recovery(session, bad).good}
    assert descriptions["core.b"] == f"stays: {said}"
    printed = CliRunner().invoke(cli, ["recovery", "plan", "raw.a@2"])
    assert printed.exit_code == 0, printed.output
    assert f"stays: {said}" in " ".join(printed.output.split())
    page = TestClient(browser_app(session), base_url="http://127.0.0.1").get("/spoilt?ref=snapline.raw.a@2").text
    assert f"{said[0].upper()}{said[1:]}." in page
