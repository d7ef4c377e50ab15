"""A damaged table stops those recoveries alone that it concerns: others begin beside it, and name it."""

from pathlib import Path

import pytest

from resources import Session
from resources.recovery import Recovery, plan_recovery
from resources.recovery.publish import publish
from storage import CorruptData
from tests.resources.shop import rows

pytestmark = pytest.mark.dagster
LOG = "INSERT OVERWRITE db.log SELECT src.k, src.v FROM db.src JOIN db.names ON src.k = names.k"


@pytest.fixture
def session(session: Session) -> Session:
    """A bad row in a source, a table that is made from that and from another one, and one that has nothing to do with them."""
    session.sql("CREATE DATABASE db", "duckdb")
    for name in ("src", "log", "names", "alone"):
        session.sql(f"CREATE TABLE db.{name} (k INT, v INT)", "duckdb")
    session.sql("INSERT INTO db.src VALUES (1, 10); INSERT INTO db.src VALUES (2, 666)", "duckdb")
    session.sql(f"INSERT INTO db.names VALUES (1, 1), (2, 2); INSERT INTO db.alone VALUES (7, 7); {LOG}", "duckdb")
    return session


def damaged(session: Session, name: str, file: str) -> tuple[Path, bytes]:
    path = Path(session.table(name).store.paths.root) / file
    content = path.read_bytes()
    path.write_bytes(b"garbage")
    return path, content


@pytest.mark.parametrize("file", ["schema/schema-0", "snapshot/snapshot-1"])
def test_a_recovery_begins_beside_a_damaged_table_and_names_it(
    session: Session, caplog: pytest.LogCaptureFixture, file: str
) -> None:
    path, content = damaged(session, "db.alone", file)
    recovery = Recovery.start(session, "fix", plan_recovery(session, session.ref("db.src@2")))
    (warning,) = [each.getMessage() for each in caplog.records if "takes no part in the recovery" in each.getMessage()]
    assert "db.alone is damaged" in warning
    assert path.name in warning
    recovery.correct(f"UPDATE db.src SET v = 20 WHERE k = 2; {LOG}")
    assert recovery.changed() == ["db.src", "db.log"]
    path.write_bytes(content)
    # Which snapshot it would be read at nobody knows: neither an empty branch nor another state.
    with pytest.raises(CorruptData, match=r"db.alone was damaged when recovery 'fix' began.*Drop the recovery"):
        recovery.branched("db.alone")
    publish(session, recovery, {})
    assert rows(session.table("db.log")) == [(1, 10), (2, 20)]


def test_a_damaged_table_that_is_read_by_what_is_to_be_recovered_is_named(session: Session) -> None:
    plan = plan_recovery(session, session.ref("db.src@2"))
    damaged(session, "db.names", "schema/schema-0")
    with pytest.raises(CorruptData, match="names/schema/schema-0 is damaged"):
        Recovery.start(session, "fix", plan)


def test_a_recovery_beside_a_damaged_table_is_dropped(session: Session) -> None:
    recovery = Recovery.start(session, "fix", plan_recovery(session, session.ref("db.src@2")))
    damaged(session, "db.alone", "schema/schema-0")
    assert recovery.drop() == ["db.src", "db.log"]
