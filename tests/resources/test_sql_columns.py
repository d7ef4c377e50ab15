"""What ALTER TABLE says of columns, on both engines: NOT NULL and defaults."""

import datetime as dt
import decimal
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from resources import Session
from storage import CommitConflict, InvalidRequest, StorageError
from storage.document import CHECKSUM

pytestmark = pytest.mark.spark
Sql = Callable[[str], Any]
KEYS = ["PRIMARY KEY NOT ENFORCED", ""]


@pytest.mark.parametrize("key", KEYS)
def test_a_column_without_nulls_becomes_not_null(sql: Sql, session: Session, key: str) -> None:
    sql(f"CREATE TABLE t (id INT {key}, v BIGINT)")
    sql("INSERT INTO t VALUES (1, 1), (2, NULL)")
    with pytest.raises(InvalidRequest, match="null in 1 rows"):
        sql("ALTER TABLE t ALTER COLUMN v SET NOT NULL")
    sql("UPDATE t SET v = 2 WHERE id = 2")
    sql("ALTER TABLE t COMPACT")
    sql("ALTER TABLE t ALTER COLUMN v SET NOT NULL")
    assert not session.table("default.t").schema.field("v").type.nullable
    for wrong in ("INSERT INTO t VALUES (3, NULL)", "INSERT INTO t (id) VALUES (3)"):
        with pytest.raises(StorageError, match="NOT NULL"):
            sql(wrong)
    sql("INSERT INTO t VALUES (3, 3)")
    assert sorted(sql("SELECT * FROM t WHERE v IS NOT NULL")) == [(1, 1), (2, 2), (3, 3)]
    assert sorted(sql("SELECT v FROM t VERSION AS OF 1"), key=str) == [(1,), (None,)]
    sql("ALTER TABLE t ALTER COLUMN v DROP NOT NULL")
    sql("INSERT INTO t (id) VALUES (4)")
    assert sql("SELECT id FROM t WHERE v IS NULL") == [(4,)]


@pytest.mark.parametrize("engine", ["duckdb"])
def test_rows_that_came_before_a_column_was_not_null_do_not_come_back_with_nulls(sql: Sql, session: Session) -> None:
    sql("CREATE TABLE t (id INT, v BIGINT); INSERT INTO t VALUES (1, NULL); INSERT INTO t VALUES (2, 2)")
    sql("DELETE FROM t WHERE v IS NULL; ALTER TABLE t ALTER COLUMN v SET NOT NULL")
    table = session.table("default.t")
    with pytest.raises(CommitConflict, match="DROP NOT NULL"):
        table.rollback_to(2)
    assert sql("SELECT * FROM t") == [(2, 2)]
    sql("INSERT OVERWRITE t VALUES (3, 3)")
    table.rollback_to(3)
    assert sql("SELECT * FROM t") == [(2, 2)]


@pytest.mark.parametrize("engine", ["duckdb"])
def test_what_cannot_become_not_null_says_why(sql: Sql) -> None:
    sql("CREATE TABLE t (id INT PRIMARY KEY NOT ENFORCED, v BIGINT, s ROW<a INT>) WITH ('write-only' = 'true')")
    sql("INSERT INTO t (id) VALUES (1); INSERT INTO t (id, v) VALUES (1, 2)")
    with pytest.raises(InvalidRequest, match="COMPACT"):
        sql("ALTER TABLE t ALTER COLUMN v SET NOT NULL")
    with pytest.raises(InvalidRequest, match="field of a ROW"):
        sql("ALTER TABLE t ALTER COLUMN s.a SET NOT NULL")
    with pytest.raises(InvalidRequest, match="no column 'nobody'"):
        sql("ALTER TABLE t ALTER COLUMN nobody SET NOT NULL")
    sql("CREATE TABLE p (id INT PRIMARY KEY NOT ENFORCED, v BIGINT) WITH ('merge-engine' = 'partial-update')")
    with pytest.raises(StorageError, match="partial-update"):
        sql("ALTER TABLE p ALTER COLUMN v SET NOT NULL")


DEFAULTS = "n INT DEFAULT 5, s STRING DEFAULT 'a b', d DATE DEFAULT DATE '2024-05-01', m DECIMAL(5, 2) DEFAULT -1.5, "
DEFAULTS += "f DOUBLE DEFAULT 0.25, b BOOLEAN NOT NULL DEFAULT true, at TIMESTAMP DEFAULT '2024-05-01 12:00:00'"


@pytest.mark.parametrize("key", KEYS)
def test_columns_that_are_left_out_get_their_defaults(sql: Sql, session: Session, key: str) -> None:
    sql(f"CREATE TABLE t (id INT {key}, {DEFAULTS})")
    sql("INSERT INTO t (id) VALUES (1)")
    sql("INSERT INTO t VALUES (2, DEFAULT, DEFAULT, default, DEFAULT, DEFAULT, DEFAULT, DEFAULT)")
    sql("INSERT INTO t SELECT 3, DEFAULT, NULL, NULL, 7, NULL, false, NULL")
    sql("INSERT INTO t BY NAME SELECT 4 AS id, 8 AS n")
    session.table("default.t").write(pa.table({"id": pa.array([5], pa.int32())}))
    day, noon = dt.date(2024, 5, 1), dt.datetime(2024, 5, 1, 12)
    whole = (5, "a b", day, decimal.Decimal("-1.50"), 0.25, True, noon)
    assert sorted(sql("SELECT * FROM t")) == [
        (1, *whole),
        (2, *whole),
        (3, 5, None, None, decimal.Decimal("7.00"), None, False, None),
        (4, 8, *whole[1:]),
        (5, *whole),
    ]
    sql(
        "MERGE INTO t USING (SELECT 6 AS id) AS s ON t.id = s.id WHEN NOT MATCHED THEN INSERT (id, n) VALUES (s.id, DEFAULT)"
    )
    assert sql("SELECT * FROM t WHERE id = 6") == [(6, *whole)]
    sql("UPDATE t SET n = 0, s = DEFAULT, at = DEFAULT WHERE id = 3")
    assert sql("SELECT n, s, at FROM t WHERE id = 3") == [(0, "a b", noon)]


def test_defaults_change_for_rows_to_come_and_are_shown(sql: Sql, session: Session) -> None:
    sql("CREATE TABLE t (id INT, n INT, s STRING); INSERT INTO t (id) VALUES (1)")
    sql("ALTER TABLE t ALTER COLUMN n SET DEFAULT 7; ALTER TABLE t ALTER COLUMN s SET DEFAULT 'x'")
    sql("INSERT INTO t (id) VALUES (2)")
    sql(
        "ALTER TABLE t RENAME COLUMN n TO m; ALTER TABLE t ALTER COLUMN s DROP DEFAULT; ALTER TABLE t ALTER COLUMN m TYPE BIGINT"
    )
    sql("INSERT INTO t (id) VALUES (3)")
    assert sorted(sql("SELECT * FROM t")) == [(1, None, None), (2, 7, "x"), (3, 7, None)]
    kept = json.loads(session.table("default.t").schema.to_json())
    assert [field.get("defaultValue") for field in kept["fields"]] == [None, "7", None]
    ((text,),) = sql("SHOW CREATE TABLE t")
    assert "`m` BIGINT DEFAULT 7" in text
    assert ("column", "m", "BIGINT default 7") in sql("DESCRIBE EXTENDED t")
    defaults = sql(
        "SELECT column_name, column_default FROM information_schema.columns WHERE table_name = 't' AND column_name = 'm'"
    )
    assert defaults == [("m", "7")]
    sql("CREATE TABLE u LIKE t; INSERT INTO u (id) VALUES (1)")
    assert sql("SELECT m FROM u") == [(7,)]


NO_DEFAULTS = {
    "CREATE TABLE u (a INT DEFAULT 'x')": "leave the quotes out",
    "CREATE TABLE u (a TINYINT DEFAULT 300)": "go from -128",
    "CREATE TABLE u (a INT DEFAULT 1 + 1)": "not a constant",
    "CREATE TABLE u (a TIMESTAMP DEFAULT current_timestamp())": "not a constant",
    "CREATE TABLE u (a VARCHAR(2) DEFAULT 'abc')": "3 characters",
    "CREATE TABLE u (a STRING DEFAULT 'it''s')": "quote",
    "CREATE TABLE u (a BYTES DEFAULT 'x')": "takes no DEFAULT",
    "CREATE TABLE u (a TIMESTAMP_LTZ DEFAULT '2024-05-01 12:00:00')": "takes no DEFAULT",
    "CREATE TABLE u (a INT DEFAULT 1 DEFAULT 2)": "given twice",
    "CREATE TABLE u (a INT DEFAULT 1 PRIMARY KEY NOT ENFORCED, b INT)": "where a row lies",
    "CREATE TABLE u (a INT DEFAULT 1, b INT) PARTITIONED BY (a)": "where a row lies",
    "CREATE TABLE u (a INT PRIMARY KEY NOT ENFORCED, b INT DEFAULT 1) WITH ('merge-engine' = 'partial-update')": "leaves out",
    "ALTER TABLE t ADD COLUMN c INT DEFAULT 5": "SET DEFAULT",
    "ALTER TABLE t ALTER COLUMN s.x SET DEFAULT 5": "field of a ROW",
    "ALTER TABLE t ALTER COLUMN nobody SET DEFAULT 5": "no column 'nobody'",
    "INSERT INTO t SELECT DEFAULT + 1, NULL": "(?i)default",
}


@pytest.mark.parametrize("engine", ["duckdb"])
@pytest.mark.parametrize("text", NO_DEFAULTS)
def test_a_default_that_cannot_be_is_refused(sql: Sql, text: str) -> None:
    sql("CREATE TABLE t (a INT, s ROW<x INT>)")
    with pytest.raises(StorageError, match=NO_DEFAULTS[text]):
        sql(text)


@pytest.mark.parametrize("engine", ["duckdb"])
def test_a_default_that_others_gave_and_that_cannot_be_read_is_named_where_it_is_needed(
    sql: Sql, session: Session
) -> None:
    sql("CREATE TABLE t (id INT, n INT DEFAULT 5, s STRING DEFAULT 'x')")
    path = Path(session.table("default.t").location.removeprefix("file://")) / "schema" / "schema-0"
    kept = json.loads(path.read_text())
    kept["fields"][1]["defaultValue"], kept["fields"][2]["defaultValue"] = "no number", "plain"
    path.write_text(json.dumps({key: value for key, value in kept.items() if key != CHECKSUM}))
    sql("INSERT INTO t (id, n) VALUES (1, 1)")
    with pytest.raises(StorageError, match="'no number', which cannot be read"):
        sql("INSERT INTO t (id) VALUES (2)")
    assert sql("SELECT * FROM t") == [(1, 1, "plain")]


def test_binary_without_a_length_holds_bytes_of_any_length(sql: Sql, session: Session) -> None:
    sql("CREATE TABLE b (id INT, x BINARY)")
    sql("INSERT INTO b VALUES (1, x'0102'), (2, x'')")
    assert sorted(sql("SELECT id, x FROM b")) == [(1, b"\x01\x02"), (2, b"")]
    assert str(session.table("default.b").schema.field("x").type) == "BYTES"
