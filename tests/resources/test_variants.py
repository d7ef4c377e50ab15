"""Columns of type VARIANT in SQL: written and looked into on Spark, carried over whole on DuckDB, shown as JSON."""

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from resources import Session
from resources.cli.rendering import print_rows
from storage import InvalidRequest, StorageError, is_variant

pytestmark = pytest.mark.spark
JSON = '{"a":[1,"x"],"b":{"c":2.5}}'


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    monkeypatch.setenv("SNAPLINE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SNAPLINE_WRITABLE_DIRECTORIES", json.dumps([str(tmp_path)]))
    monkeypatch.setenv("SNAPLINE_WAREHOUSE", str(tmp_path / "warehouse"))
    with closing(Session()) as opened:
        yield opened


@pytest.fixture(params=["plain", "keyed"])
def table(request: pytest.FixtureRequest, session: Session) -> str:
    options = " TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1')" if request.param == "keyed" else ""
    session.sql(f"CREATE TABLE d.t (id INT, v VARIANT){options}", "duckdb")
    session.sql(f"INSERT INTO d.t VALUES (1, parse_json('{JSON}')), (2, NULL), (3, parse_json('7'))", "spark")
    return "d.t"


def texts(session: Session, table: str) -> dict[int, str | None]:
    rows = session.sql(f"SELECT id, to_json(v) AS v FROM {table}", "spark").to_arrow().to_pylist()
    return {row["id"]: row["v"] for row in rows}


def test_variants_are_written_read_and_changed_on_spark(session: Session, table: str) -> None:
    assert texts(session, table) == {1: JSON, 2: None, 3: "7"}
    within = session.sql(f"SELECT id FROM {table} WHERE variant_get(v, '$.b.c', 'double') = 2.5", "spark").to_arrow()
    assert within["id"].to_pylist() == [1]
    session.sql(f"UPDATE {table} SET v = parse_json('[1]') WHERE id = 2", "spark")
    session.sql(f"DELETE FROM {table} WHERE variant_get(v, '$.b.c', 'double') = 2.5", "spark")
    session.sql(
        f"MERGE INTO {table} AS t USING (SELECT 3 AS id, parse_json('{{}}') AS v UNION ALL SELECT 4, NULL) AS s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
        "spark",
    )
    assert texts(session, table) == {2: "[1]", 3: "{}", 4: None}
    session.sql(f"CALL sys.compact(table => '{table}')", "duckdb")
    assert texts(session, table) == {2: "[1]", 3: "{}", 4: None}
    assert session.table(table).check(deep=True) == []


def test_duckdb_carries_variants_over_whole_and_refuses_to_look_into_them(session: Session, table: str) -> None:
    session.sql(f"INSERT INTO {table} SELECT id + 10, v FROM {table}", "duckdb")
    session.sql(f"DELETE FROM {table} WHERE id = 2 OR (id > 10 AND v IS NULL)", "duckdb")
    assert texts(session, table) == {1: JSON, 3: "7", 11: JSON, 13: "7"}
    for asked in ("to_json(v)", "variant_get(v, '$.a', 'int')", "CAST(v AS STRING)", "v:a"):
        with pytest.raises(StorageError, match="Use the engine spark"):
            session.sql(f"SELECT {asked} FROM {table}", "duckdb").to_arrow()
    for engine in ("duckdb", "spark"):
        with pytest.raises(InvalidRequest, match=r"Column 'v' holds variants; .* parse_json makes one of a text"):
            session.sql(f"INSERT INTO {table} SELECT 9, '{{}}'", engine)


def test_a_query_of_variants_gives_them_null_or_not_and_they_are_shown_as_json(
    session: Session, table: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = session.sql(
        f"SELECT id, v, array(v) AS many, named_struct('w', v) AS within FROM {table} ORDER BY id", "spark"
    ).to_arrow()
    assert is_variant(rows.schema.field("v").type)
    assert rows["v"].is_null().to_pylist() == [False, True, False]
    assert rows["many"].to_pylist()[1] == [None]
    print_rows(rows.select(["id", "v"]), "json")
    shown = json.loads(capsys.readouterr().out)
    assert shown == [{"id": 1, "v": json.loads(JSON)}, {"id": 2, "v": None}, {"id": 3, "v": 7}]


def test_a_table_made_of_a_query_has_variants_at_any_depth(session: Session, table: str) -> None:
    session.sql(f"CREATE TABLE d.c AS SELECT id, v, array(v) AS many, map('k', v) AS m FROM {table}", "spark")
    described = session.sql("DESCRIBE d.c", "duckdb").to_arrow().to_pylist()
    # Keys of Spark are never null.
    assert [row["type"] for row in described] == ["INT", "VARIANT", "ARRAY<VARIANT>", "MAP<STRING NOT NULL, VARIANT>"]
    rows = session.sql("SELECT id, to_json(many) AS many, to_json(m) AS m FROM d.c ORDER BY id", "spark").to_arrow()
    assert rows["many"].to_pylist() == [f"[{JSON}]", "[null]", "[7]"]
    assert rows["m"].to_pylist()[0] == f'{{"k":{JSON}}}'


def test_duckdb_knows_a_variant_from_the_struct_of_its_parts(session: Session, table: str) -> None:
    session.sql(f"CREATE TABLE d.c AS SELECT v, array(v) AS many FROM {table}", "duckdb")
    described = session.sql("DESCRIBE d.c", "duckdb").to_arrow().to_pylist()
    assert [row["type"] for row in described] == ["VARIANT", "ARRAY<VARIANT>"]
    for query in (
        "SELECT x.v.value FROM {0} AS x",
        "SELECT DISTINCT v FROM {0}",
        "SELECT count(*) FROM {0} GROUP BY v",
        "SELECT count(*) OVER (PARTITION BY v) FROM {0}",
        "SELECT v FROM {0} EXCEPT SELECT v FROM {0}",
        "SELECT id FROM {0} WHERE v = v",
    ):
        with pytest.raises(InvalidRequest, match=r"\bv(ariant)?\b"):
            session.sql(query.format(table), "duckdb")


@pytest.mark.parametrize(
    "options",
    [
        "'primary-key' = 'v'",
        "'primary-key' = 'id', 'sequence.field' = 'v'",
        "'bucket' = '2', 'bucket-key' = 'v'",
        "'file.format' = 'orc'",
        "'file.format.per.level' = '0:avro'",
        "'parquet.variant.shreddingSchema' = 'x'",
    ],
)
def test_what_variants_cannot_be_is_refused_by_name(session: Session, options: str) -> None:
    with pytest.raises(StorageError, match=r"(?i)variant"):
        session.sql(f"CREATE TABLE d.t (id INT, v VARIANT) TBLPROPERTIES ({options})", "duckdb")


def test_a_file_of_variants_is_refused_with_what_to_do(session: Session, table: str, tmp_path: Path) -> None:
    for form in ("csv", "json", "parquet"):
        with pytest.raises(StorageError, match="is a VARIANT"):
            session.sql(f"COPY (SELECT v FROM {table}) TO '{tmp_path}/x.{form}'", "spark")
