"""Columns that options of tables name: as elsewhere in SQL, case tells no two apart."""

from collections.abc import Callable
from pathlib import Path

import pytest

from resources.session import Session
from storage import InvalidRequest

Options = Callable[[str], dict[str, str]]


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Session:
    monkeypatch.setenv("SNAPLINE_HOME", str(tmp_path / "home"))
    return Session()


def options(session: Session, name: str = "t") -> dict[str, str]:
    return dict(session.catalog.table(f"default.{name}").schema.options)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("'bucket' = '2', 'bucket-key' = 'ID, Ts'", {"bucket-key": "id,Ts"}),
        ("'fields.V.stats-mode' = 'none'", {"fields.v.stats-mode": "none"}),
        (
            "'file-index.bloom-filter.columns' = 'ID,v', 'file-index.bloom-filter.Id.fpp' = '0.1'",
            {"file-index.bloom-filter.columns": "id,v", "file-index.bloom-filter.id.fpp": "0.1"},
        ),
    ],
)
def test_options_of_a_new_table_name_columns_in_any_case(session: Session, given: str, kept: dict[str, str]) -> None:
    session.sql(f"CREATE TABLE t (id INT, v INT, `Ts` INT) TBLPROPERTIES ({given})", "duckdb")
    assert kept.items() <= options(session).items()
    session.sql("CREATE TABLE u (id INT, v INT, `Ts` INT)", "duckdb")
    session.sql(f"CREATE TABLE w LIKE u TBLPROPERTIES ({given})", "duckdb")
    assert kept.items() <= options(session, "w").items()


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("'sequence.field' = 'TS'", {"sequence.field": "ts"}),
        ("'rowkind.field' = 'KIND'", {"rowkind.field": "kind"}),
        (
            "'merge-engine' = 'aggregation', 'fields.V.aggregate-function' = 'sum'",
            {"fields.v.aggregate-function": "sum"},
        ),
        ("'merge-engine' = 'partial-update', 'fields.TS.sequence-group' = 'V'", {"fields.ts.sequence-group": "v"}),
        (
            "'partition.timestamp-pattern' = '$DAY', 'partition.expiration-time' = '9999 d'",
            {"partition.timestamp-pattern": "$day"},
        ),
    ],
)
def test_options_of_a_table_with_a_key_name_columns_in_any_case(
    session: Session, given: str, kept: dict[str, str]
) -> None:
    columns = "day STRING, id INT, v INT, ts INT, kind STRING"
    session.sql(
        f"CREATE TABLE t ({columns}, PRIMARY KEY (DAY, Id)) PARTITIONED BY (Day) TBLPROPERTIES ({given})", "duckdb"
    )
    assert kept.items() <= options(session).items()
    kind = "'+I'" if "rowkind" in given else "'x'"
    session.sql(f"INSERT INTO t VALUES ('2026-11-25', 1, 2, 3, {kind})", "duckdb")
    assert session.sql("SELECT v FROM t", "duckdb").to_arrow()["v"].to_pylist() == [2]


def test_keys_can_be_options_in_any_case(session: Session) -> None:
    session.sql("CREATE TABLE t (id INT, v INT) TBLPROPERTIES ('primary-key' = 'ID,V', 'partition' = 'V')", "duckdb")
    schema = session.catalog.table("default.t").schema
    assert (schema.primary_keys, schema.partition_keys) == (("id", "v"), ("v",))


def test_options_that_are_set_and_reset_name_columns_in_any_case(session: Session) -> None:
    session.sql("CREATE TABLE t (id INT, v INT)", "duckdb")
    session.sql("ALTER TABLE t SET ('fields.V.stats-mode' = 'none')", "duckdb")
    assert options(session) == {"fields.v.stats-mode": "none"}
    session.sql("ALTER TABLE t RESET ('fields.V.stats-mode')", "duckdb")
    assert options(session) == {}
    with pytest.raises(InvalidRequest, match="'W'"):
        session.sql("ALTER TABLE t SET ('fields.W.stats-mode' = 'none')", "duckdb")


@pytest.mark.parametrize(("key", "what"), [("primary-key", "primary key"), ("partition", "partition columns")])
def test_keys_do_not_change(session: Session, key: str, what: str) -> None:
    session.sql("CREATE TABLE t (id INT, v INT)", "duckdb")
    for statement in (f"ALTER TABLE t SET ('{key}' = 'id')", f"ALTER TABLE t SET TBLPROPERTIES ('{key}' = '')"):
        with pytest.raises(InvalidRequest, match=f"The {what} of a table cannot change: make another table"):
            session.sql(statement, "duckdb")
