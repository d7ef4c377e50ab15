"""Catalogs as users of Paimon write them down: what is kept elsewhere than in a warehouse is refused by name."""

from pathlib import Path

import pytest

from resources import Session
from storage import InvalidRequest


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Session:
    monkeypatch.setenv("SNAPLINE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SNAPLINE_WAREHOUSE", str(tmp_path / "warehouse"))
    return Session()


def create(session: Session, path: Path, **options: str) -> None:
    given = {
        "type": "paimon",
        "warehouse": str(path / "w"),
        **{key.replace("__", "-"): options[key] for key in options},
    }
    listed = ", ".join(f"'{key}' = '{value}'" for key, value in given.items())
    session.sql(f"CREATE CATALOG c WITH ({listed})", "duckdb")


def test_a_catalog_on_a_file_system_is_what_there_is(session: Session, tmp_path: Path) -> None:
    create(session, tmp_path, metastore="filesystem")
    session.sql("CREATE TABLE c.d.t (id INT)", "duckdb")
    session.sql("INSERT INTO c.d.t VALUES (1)", "duckdb")
    assert (tmp_path / "w" / "d.db" / "t" / "snapshot").is_dir()


@pytest.mark.parametrize("kind", ["hive", "jdbc", "rest", "glue"])
def test_a_catalog_that_a_server_keeps_is_refused_by_name(session: Session, tmp_path: Path, kind: str) -> None:
    with pytest.raises(InvalidRequest, match=rf"'metastore' = '{kind}': .* is not spoken to"):
        create(session, tmp_path, metastore=kind, uri="http://example.org")
    assert not (tmp_path / "w").exists()


@pytest.mark.parametrize("key", ["uri", "token", "dlf.region", "hive-conf-dir"])
def test_options_of_such_catalogs_are_refused(session: Session, tmp_path: Path, key: str) -> None:
    with pytest.raises(InvalidRequest, match=f"'{key}' is of catalogs that a server keeps"):
        create(session, tmp_path, **{key: "x"})


@pytest.mark.parametrize("key", ["cache-enabled", "cache.expiration-interval", "lock.enabled"])
def test_options_of_java_alone_are_refused_with_the_reason(session: Session, tmp_path: Path, key: str) -> None:
    with pytest.raises(InvalidRequest, match=f"'{key}' sets how Paimon's own library opens a catalog"):
        create(session, tmp_path, **{key: "true"})
