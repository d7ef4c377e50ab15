"""A publication of a recovery that died is named wherever the recovery is shown, with what ends it, and the recovery is not to be
dropped.
"""

import pytest
from click.testing import CliRunner
from starlette.testclient import TestClient

from resources import Session
from resources.assets.launchpad import Launchpads
from resources.browser.app import browser_app
from resources.browser.spoilt import damage_of
from resources.cli import cli
from resources.recovery import Recovery, plan_recovery
from resources.recovery.pages import list_page, state_page
from resources.recovery.progress import progress, recoveries
from resources.recovery.publish import publish
from tests.lineage_browser.test_actions import text
from tests.resources.recovery_schedules import Died, corrected_recovery, watched

pytestmark = pytest.mark.dagster
PAGE = "/recoveries/fix"
# Before what publishing dies, and what is said then.
BEFORE_ALL = ("create_exclusively", "/src/snapshot/snapshot-3")
BETWEEN = ("create_exclusively", "/log/snapshot/snapshot-3")
AFTER_ALL = ("create_exclusively", "/.journal/outcome-")
NOT_WRITTEN = ("replace_if", "/.recovery/fix")
ENDS = "Unless somebody is at it, publishing again finishes it; `snapline branch recover --undo` takes it back instead."
SAID = {
    BEFORE_ALL: f"Publication 1 is open, and has come to none of db.src, db.log yet. {ENDS}",
    BETWEEN: f"Publication 1 is open, and has come to db.src, not to db.log. {ENDS}",
    AFTER_ALL: f"Publication 1 is open, and has come to all of its tables: db.src, db.log. {ENDS}",
    NOT_WRITTEN: "nobody has written down that it is published",
}


@pytest.fixture
def recovery(session: Session) -> Recovery:
    """A row had been deleted by mistake; the branch has it again, and so has what is made of that."""
    return corrected_recovery(session)


def die(session: Session, recovery: Recovery, stop: tuple[str, str], *, undo: bool = False) -> None:
    """The process that publishes, or undoes that, is killed before a call to the file system."""

    def before(_: int, call: str) -> None:
        if all(part in call for part in stop):
            raise Died

    with pytest.raises(Died), watched(before):
        if undo:
            session.catalog.recover(undo=True)
        else:
            publish(session, recovery, {})


def listed() -> str:
    result = CliRunner().invoke(cli, ["recovery", "list"])
    assert result.exit_code == 0, result.output
    return " ".join(result.output.split())


@pytest.mark.parametrize("stop", SAID, ids=["before all", "between", "after all", "not written down"])
def test_a_publication_that_died_is_named_with_what_ends_it(
    session: Session, recovery: Recovery, client: TestClient, stop: tuple[str, str]
) -> None:
    assert "To be published" in text(client.get(PAGE).text) and 'action="/recoveries/fix/drop"' in client.get(PAGE).text
    die(session, recovery, stop)
    page = client.get(PAGE).text
    assert SAID[stop] in text(page) and "Being published." in text(page)
    assert "Publish again: all tables, or none" in page and "published → next" in text(page)
    assert "not needed any more" not in page and "/drop" not in page and "recovery drop" not in page
    assert f"being published: {SAID[stop]}" in text(client.get("/recoveries").text) or stop == NOT_WRITTEN
    assert "being published" in text(client.get("/recoveries").text) and SAID[stop].split(";")[0] in listed()
    if stop != NOT_WRITTEN:
        assert f"Recovery fix : {SAID[stop]}" in text(client.get("/").text)
        assert f"Recovery fix: {SAID[stop]}" in text(client.get("/spoilt?ref=snapline.db.src@2").text)
    come, pads = progress(session, "fix", {}), Launchpads("shop")
    for shown in (state_page(come, pads), list_page(recoveries(session, {}), pads)):
        assert "being published" in shown and "Publish it again" in shown and "recovery\\_drop" not in shown
        assert "Drop it" not in shown
    publish(session, recovery, {})
    page = client.get(PAGE).text
    assert "Published." in text(page) and 'id="unfinished"' not in page and "/drop" in page
    assert "being published" not in listed()
    # What there is is read again after some seconds; another browser reads it at once.
    assert "Publication" not in text(TestClient(browser_app(session), base_url="http://127.0.0.1").get("/").text)


def test_what_is_undone_is_to_be_published_again(session: Session, recovery: Recovery, client: TestClient) -> None:
    die(session, recovery, AFTER_ALL)
    assert "Being published." in text(client.get(PAGE).text)
    die(session, recovery, ("create_exclusively", "/src/snapshot/snapshot-4"), undo=True)
    said = "Publication 1 is being undone"
    assert said in text(client.get(PAGE).text) and said in listed()
    session.catalog.recover(undo=True)
    page = client.get(PAGE).text
    assert "To be published." in text(page) and 'id="unfinished"' not in page and "/drop" in page


def test_a_recovery_is_needed_as_long_as_what_repaired_its_tables_may_be_taken_back(
    session: Session, recovery: Recovery, client: TestClient
) -> None:
    other = Recovery.start(session, "other", plan_recovery(session, session.ref("db.src@2")))
    die(session, recovery, AFTER_ALL)
    assert "not needed any more" not in client.get(f"/recoveries/{other.branch}").text
    publish(session, recovery, {})
    assert "repaired by recovery fix" in text(client.get(f"/recoveries/{other.branch}").text)
    assert "This recovery is not needed any more: drop it." in text(client.get(f"/recoveries/{other.branch}").text)


def test_a_publication_that_dies_after_another_one_is_named_too(
    session: Session, recovery: Recovery, client: TestClient
) -> None:
    publish(session, recovery, {})
    session.sql("INSERT INTO db.`src$branch_fix` VALUES (3, 30)", "duckdb")
    session.sql("INSERT OVERWRITE db.`log$branch_fix` SELECT * FROM db.`src$branch_fix`", "duckdb")
    die(session, recovery, ("create_exclusively", "/log/snapshot/snapshot-4"))
    page = client.get(PAGE).text
    assert "is open, and has come to db.src, not to db.log" in text(page)
    assert "Publish again: all tables, or none" in page and "/drop" not in page


def test_a_damaged_journal_keeps_a_recovery_from_being_dropped(
    session: Session, recovery: Recovery, client: TestClient
) -> None:
    die(session, recovery, BETWEEN)
    (journal,) = (session.settings.home / "warehouse" / ".journal").glob("open-*")
    journal.write_text("{")
    page = client.get(PAGE).text
    assert "`snapline branch recover --discard-damaged` ends it" in text(page)
    assert "not needed any more" not in page and "/drop" not in page


def test_what_is_right_on_the_branch_of_a_recovery_is_not_good_again_before_it_is_published(
    session: Session, recovery: Recovery, client: TestClient
) -> None:
    bad, branches = session.ref("db.src@2"), {"db.src$branch_fix", "db.log$branch_fix"}
    damage = damage_of(session, bad)
    assert {affected.first.table_name for affected in damage.spoilt} == {"db.src", "db.log"}
    assert not damage.good_again
    assert {affected.first.table_name for affected in damage.in_recovery} <= branches and damage.in_recovery
    page = text(client.get("/spoilt?ref=snapline.db.src@2").text)
    assert "0 good again" in page and "Repaired by recovery" not in page
    assert "not on main yet Right on the branch of recovery fix, which is not published." in page
    publish(session, recovery, {})
    damage = damage_of(session, bad)
    assert not damage.spoilt and not damage.in_recovery
    assert {affected.why for affected in damage.good_again} == {"Repaired by recovery fix."}


def test_what_comes_to_a_published_recovery_by_other_ways_is_shown(
    session: Session, recovery: Recovery, client: TestClient
) -> None:
    session.table("db.log").branches.delete("fix")
    page = text(client.get(PAGE).text)
    assert "Branch fix of db.log is gone, or was never made" in page and "branched ✗ left out" in page
    assert "db.log has no branch 'fix' (any more): there is nothing to compare." in page
    assert "Branch fix of db.log is gone" in text(client.get("/recoveries").text)
    session.sql("DROP TABLE db.log; CREATE TABLE db.log (k INT, v INT)", "duckdb")
    page = text(client.get(PAGE).text)
    assert "db.log was made anew since the recovery began, and is no part of it any more." in page
    assert "branched ✓ done" in page and "To be published." in page
    publish(session, recovery, {})
    session.sql("DELETE FROM db.`src$branch_fix` WHERE k = 1", "duckdb")
    page = client.get(PAGE).text
    assert "Published, changed since." in text(page) and "changed since it was published → next" in text(page)
    assert "is corrected; changed since it was published: 1 rows removed" in text(page)
    assert 'action="/recoveries/fix/publish"' in page and "left out" not in page
    assert "db.src changed since it was published" in text(client.get("/recoveries").text)
    come, pads = progress(session, "fix", {}), Launchpads("shop")
    for shown in (state_page(come, pads), list_page(recoveries(session, {}), pads)):
        assert "changed since it was published" in shown and "Publish it again" in shown
    publish(session, recovery, {})
    page = client.get(PAGE).text
    assert "Published." in text(page) and "changed since" not in page
