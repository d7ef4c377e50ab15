"""Catalogs of a platform whose lineage lies on a database server: what one host creates, all of them know."""

import multiprocessing
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from lineage import LineageUnavailable
from lineage.database_url import database_url
from resources import Session
from resources.warehouse import catalog_registry
from storage import AlreadyExists, CorruptData, InvalidRequest, NotFound
from tests.lineage.test_broken_index import Warned, nobody_listens, upstream, warned

__all__ = ["warned"]
Host = Callable[[str], Session]


@pytest.fixture(params=["postgresql", "mariadb"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """`jdbc:` URL of a lineage database that is not there yet."""
    user = "snapline" if request.param == "postgresql" else "root"
    return f"{request.getfixturevalue(request.param)}lineage_{abs(hash(str(tmp_path))) % 10**12}?user={user}"


@pytest.fixture
def postgresql_server(postgresql: str, tmp_path: Path) -> str:
    return f"{postgresql}lineage_{abs(hash(str(tmp_path))) % 10**12}?user=snapline"


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    """Opens a session on a host of that name, which has a home of its own; the default warehouse is the same for all."""
    monkeypatch.setenv("SNAPLINE_WAREHOUSE", str(tmp_path / "warehouse"))
    monkeypatch.setattr(catalog_registry, "_said", set())
    sessions: list[Session] = []

    def host(name: str) -> Session:
        monkeypatch.setenv("SNAPLINE_HOME", str(tmp_path / name))
        sessions.append(Session())
        return sessions[-1]

    yield host
    for session in sessions:
        session.close()


@pytest.fixture
def platform(monkeypatch: pytest.MonkeyPatch, postgresql_server: str) -> str:
    monkeypatch.setenv("SNAPLINE_LINEAGE_URL", postgresql_server)
    return postgresql_server


def create(name: str, warehouse: Path, *options: str) -> str:
    given = [f"'warehouse'='{warehouse}'", "'table-lineage'='true'", "'data-lineage'='true'", *options]
    return f"CREATE CATALOG {name} WITH ({', '.join(given)})"


def run(session: Session, statement: str) -> str:
    return str(session.sql(statement, "duckdb"))


def executed(url: str, statement: str) -> None:
    engine = create_engine(database_url({"jdbc.url": url}))
    with engine.begin() as connection:
        connection.execute(text(statement))
    engine.dispose()


def test_a_catalog_of_one_host_is_known_opened_and_dropped_on_another(
    host: Host, server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, warned: Warned
) -> None:
    monkeypatch.setenv("SNAPLINE_LINEAGE_URL", server)
    first, second = host("first"), host("second")
    assert second.catalog_names() == ["snapline"]
    run(first, create("far", tmp_path / "far"))
    assert ["which each of them has to mount" in each for each in warned()] == [True]
    run(first, "CREATE DATABASE far.a; CREATE TABLE far.a.t (id BIGINT); CREATE TABLE far.a.u (id BIGINT)")
    run(first, "INSERT INTO far.a.t VALUES (1); INSERT INTO far.a.u SELECT id FROM far.a.t")
    # Its list is of a moment ago: a name that it lacks is looked up all the same.
    assert second.catalog_of("far").tables() == ["a.t", "a.u"]
    assert second.catalog_names() == ["snapline", "far"]
    run(second, "CREATE DATABASE b; CREATE TABLE b.v (id BIGINT); INSERT INTO b.v SELECT id FROM far.a.u")
    for session in (first, second, host("third")):
        assert upstream(session, "far.a.u") == ["far.a.t@1"]
        assert sorted(upstream(session, "b.v")) == ["far.a.t@1", "far.a.u@1"]
    with pytest.raises(InvalidRequest, match="exists"):
        run(second, create("far", tmp_path / "other"))
    assert "stays as it is" in run(second, create("IF NOT EXISTS far", tmp_path / "far"))
    assert not list(tmp_path.glob("*/catalogs.json"))
    assert not list(tmp_path.glob("*/lineage-far.db"))
    assert "forgotten" in run(second, "DROP CATALOG far")
    assert "nothing was dropped" in run(first, "DROP CATALOG IF EXISTS far")
    with pytest.raises(NotFound, match="Catalogs: snapline"):
        host("fourth").catalog_of("far")
    assert warned() == []


def test_of_many_that_create_one_name_at_once_one_does(host: Host, platform: str, tmp_path: Path) -> None:
    sessions = [host(f"host{number}") for number in range(6)]

    def attempt(number: int) -> bool:
        try:
            sessions[number].registry.create("far", {"warehouse": str(tmp_path / f"w{number}")})
        except AlreadyExists:
            return False
        return True

    with ThreadPoolExecutor(6) as pool:
        done = list(pool.map(attempt, range(6)))
    assert done.count(True) == 1
    assert host("last").registry.get("far")["warehouse"] == str(tmp_path / f"w{done.index(True)}")
    for session in sessions:
        session.registry.create("far", {"warehouse": str(tmp_path / "w")}, if_not_exists=True)


def _created(home: Path, warehouse: Path) -> None:
    os.environ["SNAPLINE_HOME"] = str(home)
    session = Session()
    try:
        session.registry.create("far", {"warehouse": str(warehouse)})
        (home / "done").touch()
    except AlreadyExists:
        pass
    finally:
        session.close()


def test_of_two_processes_that_create_one_name_one_does(host: Host, platform: str, tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    processes = [
        context.Process(target=_created, args=(tmp_path / name, tmp_path / f"{name}-warehouse"))
        for name in ("first", "second")
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
    assert [process.exitcode for process in processes] == [0, 0]
    [done] = tmp_path.glob("*/done")
    assert host("third").registry.get("far")["warehouse"] == f"{done.parent}-warehouse"


@pytest.mark.parametrize(
    "option",
    [
        "'jdbc.password'='s3cretword'",
        "'jdbc.password'='${env:SNAPLINE_TEST_PW}x'",
        "'storage.key'='mine1234'",
        "'storage.client_kwargs'='{\"aws_secret_access_key\": \"s3cretword\"}'",
        "'jdbc.url'='jdbc:postgresql://me:s3cretword@127.0.0.1:1/db'",
        "'jdbc.url'='jdbc:postgresql://127.0.0.1:1/db?password=s3cretword'",
    ],
)
def test_a_secret_is_no_option_of_a_catalog_that_all_hosts_know(
    host: Host, platform: str, tmp_path: Path, option: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SNAPLINE_TEST_PW", "s3cretword")
    session = host("first")
    with pytest.raises(
        InvalidRequest, match=r"SNAPLINE_LINEAGE_URL, where others read it\. Write '\$\{env:NAME\}'"
    ) as raised:
        run(session, create("far", tmp_path / "far", option))
    assert option.split("'")[1] in str(raised.value)
    assert "s3cretword" not in str(raised.value)
    assert session.catalog_names() == ["snapline"]
    assert not (tmp_path / "far").exists()


def test_references_are_looked_up_on_each_host_and_concern_no_other_catalog(
    host: Host, platform: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SNAPLINE_TEST_DIRECTORY", str(tmp_path / "there"))
    monkeypatch.setenv("SNAPLINE_TEST_PW", "anything")
    own = platform.replace("/lineage_", "/far_")
    options = [f"'jdbc.url'='{own}&password=${{env:SNAPLINE_TEST_PW}}'", "'storage.auto_mkdir'='true'"]
    run(host("first"), create("far", Path("${env:SNAPLINE_TEST_DIRECTORY}/far"), *options))
    run(host("first"), create("near", tmp_path / "near"))
    run(host("second"), "CREATE DATABASE far.a; CREATE TABLE far.a.t (id BIGINT); INSERT INTO far.a.t VALUES (1)")
    assert (tmp_path / "there/far/a.db/t").is_dir()
    monkeypatch.delenv("SNAPLINE_TEST_DIRECTORY")
    monkeypatch.delenv("SNAPLINE_TEST_PW")
    session = host("third")
    for name in ("near.a", "a"):
        run(session, f"CREATE DATABASE {name}; CREATE TABLE {name}.t (id BIGINT); INSERT INTO {name}.t VALUES (1)")
    run(session, "CREATE TABLE a.u (id BIGINT); INSERT INTO a.u SELECT id FROM near.a.t")
    assert upstream(session, "a.u") == ["near.a.t@1"]
    assert str(tmp_path / "near") in session.own_places()
    with pytest.raises(InvalidRequest, match="SNAPLINE_TEST_DIRECTORY of the environment is not set"):
        run(session, "SELECT * FROM far.a.t")


@pytest.mark.parametrize(
    ("name", "option", "message"),
    [
        ("far", "'jdbc.url'='jdbc:sqlite:/data/lineage.db'", "each host would have for itself"),
        ("far", "'jdbc.url'='{url}'", "tells tables apart by their names alone"),
        ("far", "'jdbc.database'='{database}'", "tells tables apart by their names alone"),
        ("`so far`", "'type'='paimon'", "Give 'jdbc.database'"),
        ("f" * 60, "'type'='paimon'", "63 at the most"),
        ("f" * 191, "'jdbc.database'='long'", "191 characters"),
    ],
)
def test_lineage_that_hosts_or_catalogs_cannot_share_is_refused(
    host: Host, platform: str, tmp_path: Path, name: str, option: str, message: str
) -> None:
    database = platform.partition("?")[0].rpartition("/")[2]
    session = host("first")
    with pytest.raises(InvalidRequest, match=message):
        run(session, create(name, tmp_path / "far", option.format(url=platform, database=database)))
    assert session.catalog_names() == ["snapline"]


def test_a_user_who_may_create_no_database_is_told_which_it_takes(
    host: Host, platform: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host("first").lineage_store.has_snapshots("sink")
    database = platform.partition("?")[0].rpartition("/")[2]
    executed(platform, f"CREATE ROLE {database}_few LOGIN; GRANT ALL ON ALL TABLES IN SCHEMA public TO {database}_few")
    monkeypatch.setenv("SNAPLINE_LINEAGE_URL", platform.replace("user=snapline", f"user={database}_few"))
    with pytest.raises(
        InvalidRequest, match=f"needs a lineage database of its own.*let it be made.*{database}_catalog_far"
    ):
        run(host("second"), create("far", tmp_path / "far"))
    admin = platform.replace(f"/{database}?", "/postgres?")
    engine = create_engine(database_url({"jdbc.url": admin}), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {database}_catalog_far OWNER {database}_few"))
    engine.dispose()
    run(host("second"), create("far", tmp_path / "far"))
    assert host("third").catalog_names() == ["snapline", "far"]


def test_what_a_home_kept_before_stays_that_hosts_own(
    host: Host, postgresql_server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, warned: Warned
) -> None:
    for name in ("old", "both"):
        run(host("first"), create(name, tmp_path / name, "'jdbc.password'='s3cretword'"))
    run(host("first"), "CREATE DATABASE old.a; CREATE TABLE old.a.t (id BIGINT); INSERT INTO old.a.t VALUES (1)")
    monkeypatch.setenv("SNAPLINE_LINEAGE_URL", postgresql_server)
    run(host("second"), create("both", tmp_path / "shared"))
    run(host("second"), create("new", tmp_path / "new"))
    warned()
    session = host("first")
    assert session.catalog_names() == ["snapline", "both", "new", "old"]
    [warning] = warned()
    assert "Catalog 'both' is the platform's" in warning and str(tmp_path / "shared") in warning
    assert session.registry.get("both")["warehouse"] == str(tmp_path / "shared")
    run(session, "CREATE TABLE old.a.u (id BIGINT); INSERT INTO old.a.u SELECT id FROM old.a.t")
    assert upstream(session, "old.a.u") == ["old.a.t@1"]
    assert (tmp_path / "first/lineage-old.db").exists()
    assert host("second").catalog_names() == ["snapline", "both", "new"]
    with pytest.raises(InvalidRequest, match="exists"):
        run(host("first"), create("old", tmp_path / "old"))
    # It is gone wherever it was kept.
    run(host("first"), "DROP CATALOG both; DROP CATALOG old; DROP CATALOG new")
    assert host("first").catalog_names() == ["snapline"]
    assert host("second").catalog_names() == ["snapline"]
    assert warned() == []


@pytest.mark.parametrize("content", ["", "[1]", '{"x": 1}', '{"warehouse": 3}', '{"type": "paimon"}'])
def test_a_catalog_that_is_damaged_there_is_named_and_can_be_dropped(host: Host, platform: str, content: str) -> None:
    run(host("first"), "CREATE DATABASE a; CREATE TABLE a.t (id BIGINT); INSERT INTO a.t VALUES (1)")
    executed(platform, f"INSERT INTO registered_catalog VALUES ('far', '{content}', now())".replace(":", r"\:"))
    session = host("second")
    # Whoever needs no other catalog does not notice.
    run(session, "INSERT INTO a.t SELECT id FROM a.t")
    with pytest.raises(CorruptData, match=r"'far'.*registered_catalog.*DROP CATALOG far"):
        session.catalog_names()
    run(session, "DROP CATALOG far")
    assert session.catalog_names() == ["snapline"]


def test_a_database_that_is_away_stops_nobody_who_needs_no_other_catalog(
    host: Host, platform: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, warned: Warned
) -> None:
    lasting = host("first")
    run(lasting, create("far", tmp_path / "far"))
    run(lasting, "CREATE DATABASE far.a; CREATE TABLE far.a.t (id BIGINT)")
    run(lasting, "CREATE DATABASE a; CREATE TABLE a.t (id BIGINT); CREATE TABLE a.u (id BIGINT)")
    monkeypatch.setenv("SNAPLINE_LINEAGE_URL", nobody_listens("postgresql"))
    warned()
    session = host("second")
    run(
        session,
        "INSERT INTO a.t VALUES (1); INSERT INTO a.u SELECT id FROM a.t; UPDATE a.u SET id = 2; SELECT * FROM a.u",
    )
    [warning] = warned()
    assert "'snapline' is out of reach" in warning
    for statement in (
        "SELECT * FROM far.a.t",
        "USE CATALOG far",
        "INSERT INTO a.t SELECT id FROM far.a.t",
        "DROP CATALOG far",
        "DROP CATALOG IF EXISTS far",
        create("far", tmp_path / "far"),
        create("IF NOT EXISTS far", tmp_path / "far"),
    ):
        with pytest.raises(
            LineageUnavailable, match=r"'far' cannot be looked up.*Check SNAPLINE_LINEAGE_URL"
        ) as raised:
            run(session, statement)
        assert "secret" not in str(raised.value)
    warned()
    assert session.catalog_names() == ["snapline"]
    [warning] = warned()
    assert "registered cannot be listed" in warning and warning.count("cannot be listed") == 1
    monkeypatch.setenv("SNAPLINE_WRITABLE_DIRECTORIES", f'["{tmp_path}"]')
    with pytest.raises(LineageUnavailable, match="Nothing is written to where a warehouse of theirs may be"):
        run(host("second"), f"COPY a.t TO '{tmp_path}/t.parquet' (FORMAT parquet)")
    # A process that knows the catalog goes on with it.
    store = lasting.registry._platform
    assert store is not None

    def away() -> None:
        raise LineageUnavailable("gone", "snapline", "x")

    monkeypatch.setattr(store._records, "all", away)
    store._read_ms = 0
    run(lasting, "INSERT INTO far.a.t SELECT id FROM a.t")
    assert lasting.catalog_names() == ["snapline", "far"]
    # What it could not record of that is recorded when the database is back.
    monkeypatch.setenv("SNAPLINE_LINEAGE_URL", platform)
    assert upstream(host("third"), "far.a.t") == ["a.t@1"]
    assert sorted(upstream(host("third"), "a.u@2"), reverse=True) == ["a.u@1", "a.t@1"]


def test_whoever_needs_the_default_catalog_alone_asks_for_no_other(
    host: Host, platform: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr("lineage.catalog_records.CatalogRecords.all", lambda self: asked.append("all") or {})
    session = host("first")
    run(session, "CREATE DATABASE a; CREATE TABLE a.t (id BIGINT); INSERT INTO a.t VALUES (1); SELECT * FROM a.t")
    run(
        session,
        "CREATE TABLE a.u AS SELECT id FROM a.t; DELETE FROM a.u WHERE id = 1; DROP TABLE a.u; SHOW TABLES IN a",
    )
    assert asked == []
    for _ in range(3):
        session.catalog_names()
    assert asked == ["all"]
