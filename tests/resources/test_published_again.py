"""Who publishes a published recovery once more changes nothing, whatever production has written since."""

import pytest
from click.testing import CliRunner

from resources import Session
from resources.cli import cli
from resources.recovery import Recovery, plan_recovery
from resources.recovery.progress import progress
from resources.recovery.publish import publish
from storage import InvalidRequest

CORRECTED = {
    "kept": "DELETE FROM d.other WHERE id = 1",
    "taken back": "DELETE FROM d.other WHERE id = 1; CALL sys.rollback(table => 'd.other', version => '1')",
    "no row": "DELETE FROM d.other WHERE id = 77",
    "added": "INSERT INTO d.other VALUES (5, 5)",
}


@pytest.fixture
def recovery(session: Session) -> Recovery:
    """A source that is bad from snapshot 2 on and corrected, and a table beside it that no plan knows."""
    session.catalog.create_database("d")
    session.sql("CREATE TABLE d.raw (id INT); INSERT INTO d.raw VALUES (1); INSERT INTO d.raw VALUES (2)", "duckdb")
    session.sql("CREATE TABLE d.other (id INT, v INT); INSERT INTO d.other VALUES (1, 1), (2, 2)", "duckdb")
    recovery = Recovery.start(session, "fix", plan_recovery(session, session.ref("d.raw@2")))
    recovery.correct("DELETE FROM d.raw WHERE id = 2")
    return recovery


def said(session: Session, *, discard_main: bool = False) -> list[str]:
    """What a publication says, of the second table behind its name."""
    tables = publish(session, Recovery.open(session, "fix"), {}, discard_main=discard_main)
    assert [each.name for each in tables] == ["d.raw", "d.other"]
    return [each.verdict for each in tables]


@pytest.mark.parametrize(
    ("way", "between"),
    [
        ("kept", ""),
        ("taken back", ""),
        ("taken back", "INSERT INTO d.other VALUES (3, 3)"),
        ("no row", ""),
        ("added", "INSERT INTO d.other VALUES (3, 3)"),
    ],
)
def test_what_production_wrote_after_a_publication_is_not_given_up_by_its_repetition(
    session: Session, recovery: Recovery, way: str, between: str
) -> None:
    recovery.correct(CORRECTED[way])
    if between:
        session.sql(between, "duckdb")
    said(session)
    at = session.table("d.other").snapshot()
    assert said(session) == ["published already"] * 2
    assert session.table("d.other").snapshot() == at
    session.sql("UPDATE d.other SET v = 100 WHERE id = 2; INSERT INTO d.other VALUES (4, 4)", "duckdb")
    rows = session.table("d.other").to_arrow().sort_by("id")
    assert said(session, discard_main=True) == ["published already"] * 2
    assert session.table("d.other").to_arrow().sort_by("id") == rows
    assert not [text for text in Recovery.open(session, "fix").record.overrides if "given up" in text]


def test_what_comes_to_a_branch_after_a_publication_is_told_and_published(session: Session, recovery: Recovery) -> None:
    recovery.correct(CORRECTED["kept"])
    said(session)
    assert progress(session, "fix", {}).state == "published"
    session.sql("CALL sys.rollback(table => 'd.`other$branch_fix`', version => '1')", "duckdb")
    come = progress(session, "fix", {})
    assert (come.state, come.changed, come.left) == ("published, changed since", ("d.other",), ())
    for command in ("list", "compare"):
        shown = CliRunner().invoke(cli, ["recovery", command, *(["fix"] if command == "compare" else [])])
        assert shown.exit_code == 0, shown.output
        assert "d.other changed since it was published" in " ".join(shown.output.split())
    assert "d.other changed since it was published: 1 rows added." in " ".join(shown.output.split())
    assert said(session)[1] != "published already"
    assert session.table("d.other").to_arrow()["id"].to_pylist() == [1, 2]
    assert progress(session, "fix", {}).changed == ()


def test_a_published_recovery_takes_no_corrections(session: Session, recovery: Recovery) -> None:
    said_before = "Recovery 'fix' is published: .*recovery start <name> --bad d.raw@<snapshot>.*Nothing has been done"
    recovery.correct(CORRECTED["kept"])
    said(session)
    before = [session.ref(f"d.{name}$branch_fix") for name in ("raw", "other")]
    for correct in (
        lambda: recovery.correct("DELETE FROM d.raw"),
        lambda: recovery.correct("INSERT INTO d.other VALUES (9, 9)"),
        recovery.undo_bad,
    ):
        with pytest.raises(InvalidRequest, match=said_before):
            correct()
    assert [session.ref(f"d.{name}$branch_fix") for name in ("raw", "other")] == before
    assert progress(session, "fix", {}).state == "published"
    # What main has taken back is to be published once more: it is gone on with.
    session.table("d.other").rollback_to(1)
    assert progress(session, "fix", {}).changed == ()
    recovery.correct("DELETE FROM d.other WHERE id = 2")
    assert progress(session, "fix", {}).changed == ("d.other",)


def test_a_table_that_had_all_of_the_branch_is_said_to_have_it(session: Session, recovery: Recovery) -> None:
    recovery.correct(CORRECTED["taken back"])
    text = "main has what the branch has already, which snapshot 2 notes: no row was changed"
    assert said(session)[1] == text
    assert session.table("d.other").snapshot().operation == "ADOPT"
