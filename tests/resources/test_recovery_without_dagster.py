"""A recovery from the command line while Dagster's databases are damaged: what was done is told, and done once."""

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from resources import Session
from resources.cli import cli
from resources.recovery import Recovery
from storage import StoreUnavailable

pytestmark = pytest.mark.dagster


@pytest.fixture
def run(session: Session) -> Callable[..., Result]:
    def run(*words: str) -> Result:
        return CliRunner().invoke(cli, words, obj=session)

    return run


def test_what_was_carried_out_is_no_failure_where_dagster_cannot_be_told(
    session: Session, run: Callable[..., Result], caplog: pytest.LogCaptureFixture
) -> None:
    session.sql(
        "CREATE TABLE q.s (id BIGINT, v BIGINT); INSERT INTO q.s VALUES (1, 1); INSERT INTO q.s VALUES (2, 2)", "duckdb"
    )
    session.sql("CREATE TABLE q.u (id INT); INSERT INTO q.u VALUES (1)", "duckdb")
    assert run("recovery", "start", "f", "--bad", "q.s@2").exit_code == 0
    kept = {path: path.read_bytes() for path in Path(session.settings.home, "dagster").rglob("*.db")}
    assert kept
    for path in kept:
        path.write_bytes(b"\x07" * 8192)
    corrected = run("recovery", "correct", "f", "--sql", "UPDATE q.s SET v = v + 5 WHERE id = 2")
    assert (corrected.exit_code, "Snapshot 3 of q.s" in corrected.output) == (0, True), corrected.output
    assert "is done, but Dagster could not be told all of it: " in caplog.text
    published = run("recovery", "publish", "f")
    assert published.exit_code == 0, published.output
    assert "Published f; Dagster was not told all of it." in published.output
    assert session.table("q.s").to_arrow(where="id = 2").to_pylist() == [{"id": 2, "v": 7}]
    begun = run("recovery", "start", "g", "--bad", "q.u@1")
    assert begun.exit_code == 0, begun.output
    assert "Recovery 'g' has begun, but Dagster could not be told all of it: " in caplog.text
    for path, content in kept.items():
        path.write_bytes(content)
    assert "Dagster was told of" in run("recovery", "publish", "f").output


def test_an_error_of_the_store_says_how_to_go_on(
    session: Session, run: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    session.sql("CREATE TABLE q.s (id BIGINT); INSERT INTO q.s VALUES (1); INSERT INTO q.s VALUES (2)", "duckdb")
    assert run("recovery", "start", "f", "--bad", "q.s@2").exit_code == 0
    assert run("recovery", "correct", "f", "--undo-bad").exit_code == 0

    def away(*_: object) -> None:
        raise StoreUnavailable("The store does not answer.")

    with monkeypatch.context() as patch:
        patch.setattr(Recovery, "as_seen", away)
        said = run("recovery", "publish", "f").exception
        assert isinstance(said, StoreUnavailable)
        assert str(said).endswith("stays done. Mend the store, then repeat the call, which goes on from there.")
    assert run("recovery", "publish", "f").exit_code == 0
