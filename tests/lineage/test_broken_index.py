"""A lineage database that is away, locked, full, read-only or garbage stops nobody; lineage catches up, or is made anew."""

import os
import pickle
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pytest

from lineage import GuardedStore, LineageUnavailable, sources_property
from lineage.entities import replaced_branch
from resources import Session
from resources.cli import main
from resources.warehouse.catalog_options import open_catalog
from resources.warehouse.catalogs import CATALOG_NAME
from storage import Catalog, CommitId, CorruptData, FixedClock, InvalidRequest, SnapshotRef, Table
from tests.lineage.conftest import options_of

ROOT = Path(__file__).parent.parent.parent
Open = Callable[[], Session]
Warned = Callable[[], list[str]]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SNAPLINE_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def opened(home: Path) -> Iterator[Open]:
    """Opens a session anew, as another process would."""
    sessions: list[Session] = []

    def opened() -> Session:
        sessions.append(Session())
        return sessions[-1]

    yield opened
    for session in sessions:
        session.close()


@pytest.fixture
def warned(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> Warned:
    """What has been warned of since the last call: one line each, without a traceback."""
    monkeypatch.setattr("lineage.guarded_store._warned", set())

    def warned() -> list[str]:
        records = list(caplog.records)
        caplog.clear()
        assert [record.getMessage() for record in records if record.exc_info or "\n" in record.getMessage()] == []
        return [record.getMessage() for record in records]

    return warned


def chain(session: Session) -> None:
    """`core.b`, made from `raw.a`, both with one snapshot."""
    session.sql(
        "CREATE DATABASE raw; CREATE DATABASE core; CREATE TABLE raw.a (id BIGINT); CREATE TABLE core.b (id BIGINT)"
    )
    more(session)


def more(session: Session) -> None:
    """One more snapshot of `raw.a` and of `core.b`."""
    session.sql("INSERT INTO raw.a VALUES (1); INSERT INTO core.b SELECT id FROM raw.a", "duckdb")


def upstream(session: Session, target: str) -> list[str]:
    return [str(ref) for ref in session.lineage(session.ref(target), "up").snapshots]


def garbage(database: Path) -> None:
    database.write_bytes(os.urandom(20_000))


def truncated(database: Path) -> None:
    os.truncate(database, database.stat().st_size // 2)


def zeroed_pages(database: Path) -> None:
    """All pages but the first, which has the schema."""
    size = database.stat().st_size
    os.truncate(database, 4096)
    os.truncate(database, size)


def of_somebody_else(database: Path) -> None:
    database.unlink()
    with sqlite3.connect(database) as connection:
        connection.execute("CREATE TABLE source_snapshot_lineage (what TEXT)")
        connection.execute("CREATE TABLE lineage_schema_version (version INTEGER)")
        connection.execute("INSERT INTO lineage_schema_version VALUES (2)")
    connection.close()


def leftovers(database: Path) -> None:
    """Garbage, with a log and an index of it beside."""
    garbage(database)
    for end in ("-wal", "-shm", "-journal"):
        database.with_name(database.name + end).write_bytes(os.urandom(9_000))


def changed(database: Path, statements: str) -> None:
    with sqlite3.connect(database) as connection:
        connection.executescript(statements)
    connection.close()


def with_a_foreign_table(database: Path) -> None:
    database.unlink()
    changed(database, "CREATE TABLE source_snapshot_lineage (x)")


def with_a_foreign_version_table(database: Path) -> None:
    database.unlink()
    changed(database, "CREATE TABLE lineage_schema_version (x)")


def without_version_and_a_table(database: Path) -> None:
    changed(database, "DROP TABLE lineage_schema_version; DROP TABLE sink_snapshot_lineage")


def without_a_version(database: Path) -> None:
    changed(
        database,
        "DROP TABLE lineage_schema_version; CREATE TABLE lineage_schema_version (version TEXT);"
        "INSERT INTO lineage_schema_version VALUES ('two')",
    )


UNREADABLE = [
    garbage,
    truncated,
    zeroed_pages,
    of_somebody_else,
    leftovers,
    with_a_foreign_table,
    with_a_foreign_version_table,
    without_version_and_a_table,
    without_a_version,
]


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (with_a_foreign_table, "no such table|is missing"),
        (with_a_foreign_version_table, "no column named version"),
        (without_version_and_a_table, "table sink_snapshot_lineage is missing"),
        (without_a_version, "its version is 'two', no number"),
    ],
)
def test_what_is_wrong_with_the_tables_of_a_database_is_said(
    opened: Open, home: Path, damage: Callable[[Path], None], why: str
) -> None:
    chain(opened())
    damage(home / "lineage.db")
    with pytest.raises(LineageUnavailable, match=f"({why}).*Its tables are not those of lineage.*lineage rebuild"):
        upstream(opened(), "core.b")


def emptied(database: Path) -> None:
    os.truncate(database, 0)


def logs_of_another(database: Path) -> None:
    for end in ("-wal", "-shm"):
        database.with_name(database.name + end).write_bytes(os.urandom(9_000))


@pytest.mark.parametrize("damage", UNREADABLE)
def test_a_database_that_cannot_be_read_stops_no_writer_and_is_replaced_by_rebuild(
    opened: Open, home: Path, damage: Callable[[Path], None], warned: Warned
) -> None:
    chain(opened())
    damage(home / "lineage.db")
    session = opened()
    more(session)
    assert session.table("core.b").to_arrow()["id"].to_pylist() == [1, 1, 1]
    [warning] = warned()
    assert f"catalog {CATALOG_NAME!r}" in warning
    assert str(home / "lineage.db") in warning
    with pytest.raises(LineageUnavailable, match="snapline lineage rebuild"):
        upstream(opened(), "core.b")
    warned()
    count, [aside] = opened().rebuild_lineage()
    assert count == 4
    assert aside.name.startswith("lineage.db.unreadable-")
    assert aside.exists()
    assert upstream(opened(), "core.b") == ["raw.a@2"]
    assert opened().rebuild_lineage() == (4, [])
    assert warned() == []


@pytest.mark.parametrize("damage", [emptied, logs_of_another, Path.unlink])
def test_what_sqlite_can_get_over_needs_no_rebuild(
    opened: Open, home: Path, damage: Callable[[Path], None], warned: Warned
) -> None:
    chain(opened())
    damage(home / "lineage.db")
    session = opened()
    more(session)
    assert upstream(session, "core.b") == ["raw.a@2"]
    assert upstream(opened(), "core.b@1") == ["raw.a@1"]
    assert opened().rebuild_lineage() == (4, [])
    assert warned() == []


def test_a_database_that_vanishes_while_a_session_is_open_is_made_again(opened: Open, home: Path) -> None:
    session = opened()
    chain(session)
    (home / "lineage.db").unlink()
    more(session)
    more(session)
    assert upstream(opened(), "core.b@1") == ["raw.a@1"]
    assert upstream(opened(), "core.b") == ["raw.a@3"]


def test_a_directory_that_is_missing_stops_nobody_and_lineage_catches_up(
    opened: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, warned: Warned
) -> None:
    missing = tmp_path / "missing"
    monkeypatch.setenv("SNAPLINE_LINEAGE_URL", f"jdbc:sqlite:{missing / 'lineage.db'}")
    chain(opened())
    more(opened())
    assert len(warned()) == 1
    with pytest.raises(LineageUnavailable, match="missing"):
        opened().rebuild_lineage()
    missing.mkdir()
    assert upstream(opened(), "core.b") == ["raw.a@2"]
    assert upstream(opened(), "core.b@1") == ["raw.a@1"]


@pytest.fixture
def small_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The lineage database lies on a disk of its own, which can be filled or made read-only."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", disk], capture_output=True).returncode:
        pytest.skip("this user cannot mount")
    monkeypatch.setenv("SNAPLINE_LINEAGE_URL", f"jdbc:sqlite:{disk / 'lineage.db'}")
    yield disk
    subprocess.run(["umount", "-l", disk], check=True)


def fill(disk: Path) -> None:
    with (disk / "filler").open("wb", buffering=0) as filler, pytest.raises(OSError):
        while True:
            filler.write(bytes(4096))


def test_a_full_disk_stops_nobody_what_is_known_is_told_and_lineage_catches_up(
    opened: Open, small_disk: Path, warned: Warned
) -> None:
    chain(opened())
    fill(small_disk)
    session = opened()
    more(session)
    assert session.table("core.b").to_arrow().num_rows == 3
    assert len(warned()) == 1
    (small_disk / "filler").unlink()
    assert upstream(opened(), "core.b") == ["raw.a@2"]
    assert warned() == []


def test_a_disk_that_is_full_from_the_start_stops_nobody(opened: Open, small_disk: Path, warned: Warned) -> None:
    fill(small_disk)
    chain(opened())
    assert len(warned()) == 1
    (small_disk / "filler").unlink()
    assert upstream(opened(), "core.b") == ["raw.a@1"]


def test_a_read_only_directory_stops_nobody_and_lineage_catches_up(
    opened: Open, small_disk: Path, warned: Warned
) -> None:
    chain(opened())
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    session = opened()
    more(session)
    assert session.table("core.b").to_arrow().num_rows == 3
    assert len(warned()) == 1
    subprocess.run(["mount", "-o", "remount,rw", small_disk], check=True)
    assert upstream(opened(), "core.b") == ["raw.a@2"]


def test_a_lock_is_waited_for_within_bounds_and_not_again_at_once(
    opened: Open, home: Path, monkeypatch: pytest.MonkeyPatch, warned: Warned
) -> None:
    monkeypatch.setattr("lineage.sql_store._BUSY_TIMEOUT_SECONDS", 2)
    chain(opened())
    locker = sqlite3.connect(home / "lineage.db", isolation_level=None)
    locker.execute("BEGIN EXCLUSIVE")
    session = opened()
    began = time.monotonic()
    more(session)
    more(session)
    assert time.monotonic() - began < 2 * 2 + 4
    [warning] = warned()
    assert "locked" in warning
    # What is known can be read, and a warning says that it is not all.
    assert upstream(session, "core.b@1") == ["raw.a@1"]
    [warning] = warned()
    assert CATALOG_NAME in warning
    locker.execute("ROLLBACK")
    locker.close()
    assert upstream(opened(), "core.b") == ["raw.a@3"]


class _Answer:
    """A store in the place of one: how long it takes to fail, and what with."""

    def __init__(self, clock: FixedClock) -> None:
        self.clock, self.calls, self.error = clock, 0, TimeoutError("no answer")

    def startups(self, **where: object) -> list[object]:
        self.calls += 1
        self.clock.advance_ms(10_000)
        raise self.error

    def close(self) -> None:
        pass


def test_a_store_that_fails_slowly_is_left_alone_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = FixedClock()
    answer = _Answer(clock)
    monkeypatch.setattr("lineage.guarded_store.open_lineage_store", lambda _: answer)
    store = GuardedStore("far", {"lineage-meta": "mine"}, clock)
    for _ in range(5):
        with pytest.raises(LineageUnavailable, match=r"'far'.*\(mine\): no answer"):
            store.startups(job="j")
    assert answer.calls == 1
    clock.advance_ms(20_000)
    with pytest.raises(LineageUnavailable):
        store.startups(job="j")
    assert answer.calls == 2


def test_that_lineage_is_unavailable_survives_pickling() -> None:
    error = pickle.loads(pickle.dumps(LineageUnavailable("gone", "c", "jdbc:sqlite:x")))
    assert (str(error), error.catalog, error.store) == ("gone", "c", "jdbc:sqlite:x")


def test_what_lineage_cannot_keep_is_committed_all_the_same(opened: Open, warned: Warned) -> None:
    session = opened()
    table = session.catalog.create_table("raw.a", pa.schema([("id", pa.int64())]))
    assert table.write(pa.table({"id": [1]}), commit_id=CommitId("x" * 300, 1)) is not None
    [warning] = warned()
    assert "Choose a shorter name" in warning


def test_streams_and_renames_are_not_stopped(opened: Open, home: Path) -> None:
    chain(opened())
    garbage(home / "lineage.db")
    session = opened()
    ref = session.ref("raw.a")
    session.recorder.record_job("stream", [ref], [session.ref("core.b")])
    session.recorder.record_startup("stream", [ref], anew=True)
    session.catalog.rename_table("raw.a", "raw.first")
    assert session.catalog.tables("raw") == ["raw.first"]


# --- servers


def test_a_server_that_is_away_stops_nobody(
    opened: Open, monkeypatch: pytest.MonkeyPatch, warned: Warned, server_url: str
) -> None:
    monkeypatch.setenv("SNAPLINE_LINEAGE_URL", server_url)
    chain(opened())
    [warning] = warned()
    assert CATALOG_NAME in warning
    assert "secret" not in warning
    assert "Check SNAPLINE_LINEAGE_URL" in warning and "jdbc.url" not in warning
    with pytest.raises(LineageUnavailable, match="the server runs"):
        upstream(opened(), "core.b")


@pytest.fixture(params=["postgresql", "mysql"])
def server_url(request: pytest.FixtureRequest) -> str:
    return nobody_listens(request.param)


def nobody_listens(kind: str) -> str:
    """The URL of a server that does not run."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return f"jdbc:{kind}://me:secret@127.0.0.1:{listener.getsockname()[1]}/lineage?password=secret"


@pytest.mark.parametrize("kind", ["postgresql", "mariadb"])
def test_lineage_catches_up_when_the_server_is_back(
    opened: Open, kind: str, tmp_path: Path, request: pytest.FixtureRequest, warned: Warned
) -> None:
    options = options_of(kind, request.getfixturevalue, tmp_path)
    session = opened()
    catalog_of(session, "far", tmp_path / "far", **options)
    into(session, "far")
    assert upstream(session, "far.core.b") == ["far.raw.a@1"]
    assert warned() == []
    known = session.registry.all()
    session.registry.home.write({"far": known["far"] | {"jdbc.url": nobody_listens(kind)}})
    session = opened()
    into(session, "far")
    [warning] = warned()
    assert "'far'" in warning
    session.registry.home.write(known)
    assert upstream(opened(), "far.core.b") == ["far.raw.a@2"]


def test_a_driver_that_is_not_installed_stops_nobody(
    opened: Open, monkeypatch: pytest.MonkeyPatch, warned: Warned
) -> None:
    monkeypatch.setattr("lineage.jdbc_url.find_spec", lambda name: None)
    monkeypatch.setenv("SNAPLINE_LINEAGE_URL", "jdbc:postgresql://127.0.0.1:1/lineage")
    chain(opened())
    [warning] = warned()
    assert "extra 'postgres'" in warning


# --- several catalogs


def catalog_of(session: Session, name: str, warehouse: Path, **options: str) -> None:
    """A further catalog with the tables of `chain`, empty."""
    given = {"warehouse": str(warehouse), "table-lineage": "true", "data-lineage": "true", **options}
    session.registry.create(name, given)
    for table in ("raw.a", "core.b"):
        open_catalog(name, given).create_table(table, pa.schema([("id", pa.int64())]))


def into(session: Session, catalog: str) -> None:
    session.sql(
        f"INSERT INTO {catalog}.raw.a VALUES (1); INSERT INTO {catalog}.core.b SELECT id FROM {catalog}.raw.a", "duckdb"
    )


def from_before(session: Session, name: str, warehouse: Path, **options: str) -> None:
    """A catalog that an earlier version has let in."""
    given = {"warehouse": str(warehouse), "table-lineage": "true", "data-lineage": "true", **options}
    session.registry.home.write({**session.registry.all(), name: given})


DEAD: list[tuple[dict[str, str], str]] = [
    ({"lineage-meta": "jdbc", "jdbc.url": "XXXXX"}, "XXXXX"),
    ({"lineage-meta": "custom"}, "custom"),
    ({"jdbc.url": "jdbc:postgresql://host:many/db"}, "cannot be read"),
    ({"jdbc.url": "jdbc:mysql://host/db?useSSL=true"}, "useSSL"),
    ({"jdbc.url": ""}, "set 'jdbc.url'"),
]


@pytest.mark.parametrize(("options", "message"), DEAD)
def test_a_catalog_that_can_have_no_lineage_store_is_refused(
    opened: Open, tmp_path: Path, options: dict[str, str], message: str
) -> None:
    session = opened()
    given = {"warehouse": str(tmp_path / "dead"), "table-lineage": "true", **options}
    listed = ", ".join(f"'{key}'='{value}'" for key, value in given.items())
    with pytest.raises(InvalidRequest, match=f"'dead'.*{message}"):
        session.sql(f"CREATE CATALOG dead WITH ({listed})")
    assert session.catalog_names() == [CATALOG_NAME]


def test_a_catalog_whose_server_is_away_can_be_made(
    opened: Open, tmp_path: Path, server_url: str, warned: Warned
) -> None:
    opened().sql(f"CREATE CATALOG far WITH ('warehouse'='{tmp_path / 'far'}', 'jdbc.url'='{server_url}')")
    [warning] = warned()
    assert "'far'" in warning
    assert "secret" not in warning.replace("***", "")


@pytest.mark.parametrize(("options", "message"), DEAD[:2])
def test_a_dead_catalog_from_before_is_named_and_concerns_no_other(
    opened: Open, tmp_path: Path, options: dict[str, str], message: str, warned: Warned
) -> None:
    from_before(opened(), "dead", tmp_path / "dead", **options)
    chain(opened())
    [warning] = warned()
    assert "'dead'" in warning
    assert message in warning
    assert upstream(opened(), "core.b") == ["raw.a@1"]
    [warning] = warned()
    assert "leaves out" in warning
    assert "'dead'" in warning
    assert opened().forget_job("nobody", CATALOG_NAME, snapshots=True) == 0
    [job] = {row.job for row in opened().lineage_store.snapshots("sink", table="b")}
    # The others are done before.
    with pytest.raises(LineageUnavailable, match="'dead'"):
        opened().forget_job(job, snapshots=True)
    assert upstream(opened(), "core.b") == []
    with pytest.raises(LineageUnavailable, match="'dead'"):
        opened().rebuild_lineage()
    assert opened().rebuild_lineage(CATALOG_NAME) == (2, [])
    # The tables of the dead one can be read and written.
    open_catalog("dead", opened().registry.get("dead")).create_table("d.t", pa.schema([("id", pa.int64())]))
    session = opened()
    session.sql("INSERT INTO dead.d.t SELECT id FROM raw.a; DELETE FROM dead.d.t WHERE id = 1", "duckdb")
    session.sql("DROP CATALOG dead")
    warned()
    assert upstream(opened(), "core.b") == ["raw.a@1"]
    assert warned() == []


def test_what_was_read_in_a_catalog_that_was_away_is_recorded_there_later(opened: Open, tmp_path: Path) -> None:
    session = opened()
    catalog_of(session, "other", tmp_path / "other")
    into(session, "other")
    session.sql("CREATE DATABASE core; CREATE TABLE core.c (id BIGINT)")
    alive = session.registry.get("other")
    from_before(session, "other", tmp_path / "other", **{"jdbc.url": "XXXXX"})
    opened().sql("INSERT INTO core.c SELECT id FROM other.core.b", "duckdb")
    # An answer is given without it, and does not make anybody believe that all is recorded.
    assert upstream(opened(), "core.c") == []
    session.registry.home.write({"other": alive})
    sources = opened().lineage(opened().ref("core.c"), "up").snapshots
    assert [(ref.catalog, ref.table_name) for ref in sources] == [("other", "core.b"), ("other", "raw.a")]


# --- what a crash leaves out


def plainly(session: Session, name: str, *sources: SnapshotRef) -> Table:
    """Commit as a process does that dies before it can tell."""
    table = Catalog(session.catalog.warehouse, name=CATALOG_NAME).table(name)
    table.write(pa.table({"id": [7]}), commit_id=CommitId("died", 7), properties=sources_property(sources))
    return table


def test_sql_sees_what_a_crash_left_out(opened: Open) -> None:
    chain(opened())
    source = opened().ref("raw.a")
    plainly(opened(), "core.b", source)
    from resources.sql.duckdb_select import run_query

    for name, expected in [
        ("sink_snapshot_lineage", "core.b"),
        ("source_snapshot_lineage", "raw.a"),
        ("sink_job_lineage", "core.b"),
        ("source_job_lineage", "raw.a"),
    ]:
        text = f"""SELECT database || '.' || "table" AS t FROM paimon.{name} WHERE job = 'died'"""
        assert opened().sql(text.replace('"', "`"), "duckdb").rows["t"].to_pylist() == [expected]
        assert run_query(opened(), text)["t"].to_pylist() == [expected]


def test_lineage_tables_in_sql_see_a_commit_that_nobody_told_of(opened: Open) -> None:
    session = opened()
    chain(session)
    for number in range(2):
        plainly(session, "core.b", session.ref("raw.a"))
        text = "SELECT max(snapshot_id) AS n FROM paimon.sink_snapshot_lineage WHERE `table` = 'b'"
        expected = session.catalog.table("core.b").ref()
        assert expected is not None
        assert session.sql(text, "duckdb").rows["n"].to_pylist() == [expected.snapshot_id], number


def test_options_of_a_catalog_are_told_without_its_lineage(opened: Open, home: Path) -> None:
    home.mkdir()
    garbage(home / "lineage.db")
    assert opened().sql("SELECT * FROM paimon.catalog_options", "duckdb").rows.num_rows == 3
    with pytest.raises(LineageUnavailable):
        opened().sql("SELECT * FROM paimon.job_startup", "duckdb")


def test_a_table_that_is_broken_concerns_no_other(opened: Open, warned: Warned) -> None:
    chain(opened())
    opened().sql("CREATE TABLE raw.bad (id BIGINT); INSERT INTO raw.bad VALUES (1)", "duckdb")
    for file in Path(opened().catalog.warehouse, "raw.db", "bad", "snapshot").glob("snapshot-*"):
        file.write_text("{}")
    (Path(opened().settings.home) / "lineage.db").unlink()
    assert upstream(opened(), "core.b") == ["raw.a@1"]
    [warning] = warned()
    assert "raw.bad" in warning


# --- renames


def test_a_table_that_was_renamed_while_lineage_was_away_keeps_its_lineage(
    opened: Open, home: Path, warned: Warned
) -> None:
    chain(opened())
    upstream(opened(), "core.b")
    database = (home / "lineage.db").read_bytes()
    garbage(home / "lineage.db")
    session = opened()
    session.sql("ALTER TABLE raw.a RENAME TO raw.first")
    session.sql("INSERT INTO raw.first VALUES (2); INSERT INTO core.b SELECT id FROM raw.first", "duckdb")
    assert len(warned()) == 1
    (home / "lineage.db").write_bytes(database)
    assert upstream(opened(), "core.b@1") == ["raw.first@1"]
    assert upstream(opened(), "core.b@2") == ["raw.first@2"]
    rows = opened().lineage_store.snapshots("sink", database="raw")
    assert {row.table for row in rows} == {"first"}


def test_a_table_takes_the_name_of_one_that_was_dropped(opened: Open, warned: Warned) -> None:
    session = opened()
    chain(session)
    upstream(session, "core.b")
    session.sql("DROP TABLE raw.a; CREATE TABLE raw.x (id BIGINT); INSERT INTO raw.x VALUES (3)", "duckdb")
    upstream(session, "core.b")
    session.sql("ALTER TABLE raw.x RENAME TO raw.a")
    session.sql("INSERT INTO core.b SELECT id FROM raw.a", "duckdb")
    assert upstream(opened(), "core.b") == ["raw.a@1"]
    assert warned() == []


# --- the command line


def snapline(*arguments: str) -> tuple[int, str, str]:
    """As a user would run it: with what really comes to standard error."""
    program = "from resources.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", program, *arguments], cwd=ROOT, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def test_the_command_line_writes_and_says_so_in_one_line(opened: Open, home: Path) -> None:
    chain(opened())
    garbage(home / "lineage.db")
    code, out, error = snapline("sql", "--engine", "duckdb", "INSERT INTO raw.a VALUES (9)")
    assert (code, error.count("\n")) == (0, 1)
    assert "Snapshot 2 of raw.a" in out
    assert "'snapline'" in error


def test_the_command_line_answers_in_one_line_and_rebuilds(
    opened: Open, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], warned: Warned
) -> None:
    def snapline(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["snapline", *arguments])
        with pytest.raises(SystemExit) as leaving:
            main()
        shown = capsys.readouterr()
        # What is logged comes to standard error as well.
        return int(leaving.value.code or 0), shown.out, "".join(f"{message}\n" for message in warned()) + shown.err

    chain(opened())
    garbage(home / "lineage.db")
    for question in (
        ["lineage", "core.b"],
        ["lineage", "core.b", "--tables"],
        ["impact", "raw.a@1"],
        ["freshness", "core.b"],
        ["aligned", "core.b", "--on", "raw.a"],
        ["delete-data-lineage", "--job", "x"],
        ["query", "SELECT * FROM paimon.sink_job_lineage"],
        ["sql", "--engine", "duckdb", "SELECT * FROM paimon.sink_job_lineage"],
    ):
        code, out, error = snapline(*question)
        assert (code, out, error.count("\n")) == (2, "", 1), (question, error)
        assert error.startswith("Error: ")
        assert "snapline lineage rebuild" in error
    code, out, error = snapline("snapshots", "core.b")
    assert code == 0
    assert "raw.a@1" in out
    code, out, error = snapline("lineage", "rebuild")
    assert (code, error) == (0, "")
    assert "lineage.db.unreadable-" in out
    assert "2 snapshots" in out
    code, out, error = snapline("lineage", "core.b")
    assert (code, error) == (0, "")
    assert "raw.a@1" in out


def test_the_command_line_names_a_catalog_that_an_answer_leaves_out(opened: Open, tmp_path: Path) -> None:
    chain(opened())
    from_before(opened(), "dead", tmp_path / "dead", **{"jdbc.url": "XXXXX"})
    code, out, error = snapline("lineage", "core.b")
    assert code == 0
    assert "raw.a@1" in out
    assert "'dead'" in error
    assert "Traceback" not in error
    code, out, error = snapline("lineage", "rebuild")
    assert code == 2
    assert "'dead'" in error
    assert "Traceback" not in error


def test_a_rebuild_that_cannot_write_does_not_advise_itself(
    opened: Open, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain(opened())
    with sqlite3.connect(home / "lineage.db") as database:
        database.execute(
            "CREATE TRIGGER no BEFORE INSERT ON sink_snapshot_lineage BEGIN SELECT RAISE(ABORT, 'read-only'); END"
        )
    with pytest.raises(
        LineageUnavailable, match=r"read-only.*It is not made anew: see that it can be written"
    ) as raised:
        opened().rebuild_lineage()
    assert "lineage rebuild" not in str(raised.value)


def test_a_directory_in_the_place_of_the_database_is_named_with_what_to_remove(opened: Open, home: Path) -> None:
    (home / "lineage.db").mkdir(parents=True)
    with pytest.raises(
        LineageUnavailable, match=r"is a directory: correct SNAPLINE_HOME, or move .*lineage\.db away"
    ) as raised:
        opened().rebuild_lineage()
    assert "lineage rebuild" not in str(raised.value)
    (home / "lineage.db").rmdir()
    chain(opened())
    assert opened().rebuild_lineage()[1] == []


@pytest.mark.pypaimon_differs("a schema is damaged on purpose")
@pytest.mark.java_differs("a schema is damaged on purpose")
def test_a_damaged_table_is_named_in_the_lineage_of_others(opened: Open) -> None:
    session = opened()
    session.sql("CREATE TABLE a (k BIGINT); INSERT INTO a VALUES (1); CREATE TABLE b AS SELECT * FROM a", "duckdb")
    made, source = (session.known_ref(f"default.{name}@1") for name in "ba")
    Path(session.table("default.a").store.paths.schema(0)).write_bytes(b"{")
    session = opened()
    assert [session.fate(ref) for ref in (made, source)] == ["", "damaged"]
    assert source in {edge.source for edge in session.lineage(made, "up").edges}
    assert session.rebuild_lineage()[0] == 1


@pytest.mark.pypaimon_differs("a snapshot is damaged on purpose")
@pytest.mark.java_differs("a snapshot is damaged on purpose")
def test_how_far_a_table_is_behind_others_is_told_beside_a_damaged_one(
    opened: Open, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    session = opened()
    session.sql("CREATE TABLE a (k BIGINT); INSERT INTO a VALUES (1); CREATE TABLE b AS SELECT * FROM a", "duckdb")
    session.sql("CREATE TABLE c AS SELECT a.k FROM a JOIN b ON a.k = b.k; INSERT INTO b VALUES (2)", "duckdb")
    assert [(lag.source.table, lag.snapshots_behind) for lag in session.freshness("default.c")] == [("a", 0), ("b", 1)]
    Path(session.table("default.a").store.paths.snapshot(1)).write_bytes(b"{")
    session, messages = opened(), list[str]()
    assert [lag.source.table for lag in session.freshness("default.c", messages.append)] == ["b"]
    assert len(messages) == 1 and "behind default.a cannot be told: " in messages[0] and "snapshot-1" in messages[0]
    with pytest.raises(CorruptData, match="snapshot-1"):
        session.freshness("default.c")
    monkeypatch.setattr(sys, "argv", ["snapline", "freshness", "default.c", "--format", "json"])
    with pytest.raises(SystemExit) as leaving:
        main()
    shown = capsys.readouterr()
    assert leaving.value.code == 1 and "default.b" in shown.out and "default.a cannot be told" in shown.err


def test_names_that_lineage_cannot_keep_leave_out_nothing_else(opened: Open, warned: Warned) -> None:
    session = opened()
    branch, column = "b" * 195, "c" * 195
    for statement in (
        f"CREATE TABLE db.a (`{column}` BIGINT)",
        "INSERT INTO db.a VALUES (1)",
        f"CALL sys.create_branch('db.a', '{branch}')",
        f"CREATE TABLE db.b AS SELECT `{column}` AS x FROM db.a",
    ):
        session.sql(statement, "duckdb")
    session.catalog.table(f"db.a$branch_{branch}").write(pa.table({column: [2]}), commit_id=CommitId("nightly", 1))
    assert any("has 195 characters, and it keeps names of at most 190" in message for message in warned())
    session.sql("INSERT INTO db.a VALUES (3)", "duckdb")
    again = opened()
    assert again.rebuild_lineage()[0] == 5
    for reader in (session, again):
        (made,) = [ref for ref in reader.impact(reader.ref("db.a@1")) if ref.table == "b"]
        assert made.snapshot_id == 1
        assert reader.lineage_stores[CATALOG_NAME].has_snapshots("sink", database="db", table="a", snapshot_id=2)


def test_what_replaced_a_branch_of_a_long_name_has_a_name_that_lineage_keeps() -> None:
    moment = datetime(2024, 11, 3, 8, 15)
    names = {replaced_branch(letter * 190, moment) for letter in "ab"}
    assert len(names) == 2 and all(len(name) <= 190 and name.endswith("~20241103T081500000") for name in names)
    assert replaced_branch(next(iter(names)), moment) in names
