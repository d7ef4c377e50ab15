"""Views: kept in the warehouse, read on both engines, and never trusted."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from resources import Session
from resources.sql.duckdb_select import run_query
from storage import AlreadyExists, CorruptData, InvalidRequest, NotFound, StorageError, Unsupported
from storage.document import CHECKSUM

Sql = Callable[[str], Any]
pytestmark = pytest.mark.spark


@pytest.fixture
def shop(sql: Sql) -> Sql:
    sql(
        "CREATE TABLE shop.orders (id INT, `a b` STRING, price DECIMAL(10, 2), tags ARRAY<STRING>);"
        "INSERT INTO shop.orders (id, `a b`, price) VALUES (1, 'it''s', 1.50), (2, 'x', 2.50), (3, 'x', 3.50)"
    )
    return sql


def test_a_view_is_read_as_its_query(shop: Sql, session: Session, engine: str) -> None:
    assert shop("CREATE VIEW shop.dear AS SELECT id, `a b`, price * 2 AS twice FROM shop.orders WHERE price > 2") == (
        "Created view shop.dear."
    )
    assert shop("SELECT id FROM shop.dear ORDER BY id") == [(2,), (3,)]
    assert shop("SELECT d.`a b`, count(*) FROM shop.dear AS d JOIN shop.orders o ON d.id = o.id GROUP BY 1") == [
        ("x", 2)
    ]
    shop(
        "USE shop; CREATE VIEW named (n COMMENT 'how many', `w;` COMMENT 'it''s') COMMENT 'of dear' AS "
        "WITH dear AS (SELECT * FROM dear) SELECT count(*), `a b` FROM dear GROUP BY 2"
    )
    assert shop("SELECT n + 1, `w;` FROM named") == [(3, "x")]
    # Names of the query around are none of a view's.
    assert shop("WITH orders AS (SELECT 7 AS id) SELECT id FROM orders WHERE id NOT IN (SELECT id FROM dear)") == [(7,)]
    assert shop("SELECT id FROM orders o WHERE EXISTS (SELECT 1 FROM dear WHERE dear.id = o.id) ORDER BY 1") == [
        (2,),
        (3,),
    ]
    shop("INSERT INTO orders (id, `a b`, price) VALUES (4, 'y', 9.00)")
    assert shop("SELECT sum(n) FROM named") == [(3,)]
    assert shop("SHOW VIEWS") == [("dear",), ("named",)]
    assert shop("SHOW VIEWS IN shop LIKE 'd*'") == [("dear",)]
    assert shop("SHOW TABLES") == [("orders",)]
    assert [row[0:2] + row[5:] for row in shop("DESCRIBE named")] == [
        ("n", "BIGINT", "how many"),
        ("w;", "STRING", "it's"),
    ]
    assert ("property", "comment", "of dear") in shop("DESCRIBE EXTENDED named")
    assert shop("SELECT table_name, table_type FROM information_schema.tables ORDER BY 1") == [
        ("dear", "VIEW"),
        ("named", "VIEW"),
        ("orders", "BASE TABLE"),
    ]
    [(text,)] = shop("SHOW CREATE TABLE named")
    shop("DROP VIEW named")
    shop(text)
    assert shop("SHOW CREATE TABLE named") == [(text,)]
    assert shop("SELECT sum(n) FROM named") == [(3,)]
    # Another session, by another name of the catalog, reads the same.
    assert Session(session.settings).sql("SELECT count(*) FROM shop.dear", engine).to_arrow().column(0).to_pylist() == [
        3
    ]


def test_what_reads_a_view_was_made_from_the_tables_below(shop: Sql, session: Session) -> None:
    shop("CREATE VIEW shop.v AS SELECT id FROM shop.orders; CREATE VIEW shop.w AS SELECT id FROM shop.v")
    shop("CREATE TABLE shop.made (id INT); INSERT INTO shop.made SELECT id FROM shop.w")
    shop("DELETE FROM shop.made WHERE id IN (SELECT id FROM shop.w WHERE id > 2)")
    assert shop("SELECT count(*) FROM shop.made") == [(2,)]
    catalog = session.catalog
    snapshot = catalog.table("shop.made").snapshot(1)
    assert snapshot is not None
    assert "orders" in str(snapshot.properties)
    assert [row[0] for row in shop("EXPLAIN SELECT * FROM shop.w")] == ["shop.orders"]


def test_views_are_altered_and_dropped(shop: Sql, session: Session) -> None:
    shop("USE shop; CREATE VIEW v TBLPROPERTIES ('k' = '1') AS SELECT id FROM orders")
    assert shop("CREATE VIEW IF NOT EXISTS v AS SELECT 1 AS one") == "View shop.v exists already; it stays as it is."
    shop("ALTER VIEW v AS SELECT max(id) AS top FROM orders")
    assert shop("SELECT top FROM v") == [(3,)]
    assert shop("SHOW TBLPROPERTIES v") == [("k", "1")]
    shop("ALTER VIEW v SET TBLPROPERTIES ('a' = 'b'); ALTER VIEW v UNSET TBLPROPERTIES ('k')")
    assert shop("SHOW TBLPROPERTIES v") == [("a", "b")]
    shop("ALTER VIEW v RENAME TO w; CREATE OR REPLACE VIEW w AS SELECT 1 AS one")
    assert shop("SELECT * FROM w") == [(1,)]
    assert shop("SHOW VIEWS") == [("w",)]
    with pytest.raises(InvalidRequest, match="Database 'v2' has views"):
        shop("CREATE DATABASE v2; CREATE VIEW v2.x AS SELECT 1 AS one; DROP DATABASE v2")
    shop("DROP DATABASE v2 CASCADE; DROP VIEW w")
    assert shop("DROP VIEW IF EXISTS w") == "There is no view shop.w; nothing was dropped."
    assert session.catalog.views.names("shop") == session.catalog.views.names("v2") == []


@pytest.mark.parametrize(
    ("statement", "error", "said"),
    [
        ("SELECT * FROM v VERSION AS OF 1", InvalidRequest, "is a view, which has no versions"),
        ("SELECT * FROM v /*+ OPTIONS('scan.snapshot-id'='1') */", InvalidRequest, "which has no versions"),
        ("INSERT INTO v VALUES (1)", InvalidRequest, "is a view, which can only be read"),
        ("DELETE FROM v", InvalidRequest, "is a view"),
        ("UPDATE v SET id = 1", InvalidRequest, "is a view"),
        ("MERGE INTO v USING orders AS o ON v.id = o.id WHEN MATCHED THEN DELETE", InvalidRequest, "is a view"),
        ("TRUNCATE TABLE v", InvalidRequest, "is a view"),
        ("ALTER TABLE v ADD COLUMN a INT", InvalidRequest, "is a view"),
        ("DROP TABLE v", InvalidRequest, "is a view: DROP VIEW"),
        ("DROP VIEW orders", InvalidRequest, "is a table"),
        ("CREATE TABLE v (a INT)", AlreadyExists, "is a view"),
        ("ALTER TABLE orders RENAME TO v", AlreadyExists, "is a view"),
        ("CREATE VIEW orders AS SELECT 1 AS a", AlreadyExists, "is a table"),
        ("DROP VIEW nope", NotFound, "does not exist"),
        ("ALTER VIEW v RENAME TO orders", AlreadyExists, "is a table"),
        ("ALTER VIEW nope AS SELECT 1", NotFound, "exist"),
        ("ALTER VIEW v AS SELECT id FROM v", InvalidRequest, "would read itself"),
        ("ALTER VIEW v AS SELECT id FROM w", InvalidRequest, "would read itself"),
        ("CREATE VIEW x (a, b) AS SELECT 1", InvalidRequest, "names 2 columns"),
        ("CREATE VIEW x (a INT) AS SELECT 1", InvalidRequest, "names and comments"),
        ("CREATE VIEW x AS SELECT 1 AS a, 2 AS a", InvalidRequest, "two columns of one name"),
        ("CREATE VIEW x AS SELECT NULL AS a", InvalidRequest, "has no type"),
        ("CREATE VIEW x AS SELECT nope FROM orders", InvalidRequest, "nope"),
        ("CREATE VIEW x", StorageError, "query|Expect|AS"),
        ("CREATE VIEW x AS SELECT count(*) FROM orders", InvalidRequest, "a name by AS"),
        ("CREATE VIEW x AS SELECT * FROM nope", NotFound, "nope"),
        ("CREATE OR REPLACE VIEW IF NOT EXISTS x AS SELECT 1 AS a", InvalidRequest, "say one of the two"),
        ("CREATE VIEW x WITH SCHEMA EVOLUTION AS SELECT 1 AS a", InvalidRequest, "not supported"),
        ("CREATE VIEW x AS SELECT * FROM `orders$snapshots`", StorageError, "system table|cannot name"),
        ("CREATE VIEW x AS SELECT * FROM paimon.source_job_lineage", Unsupported, "system table"),
        ("CREATE VIEW x AS SELECT current_catalog() AS a", Unsupported, "not allowed in a view"),
        ("CREATE VIEW x AS SELECT reflect('a', 'b') AS a", StorageError, "not allowed"),
        ("CREATE VIEW x AS SELECT rand() AS a", StorageError, "not allowed|rand|RAND"),
        (
            "CREATE VIEW x AS SELECT * FROM orders /*+ OPTIONS('scan.snapshot-id'='1') */",
            Unsupported,
            "no place in a view",
        ),
        ("CREATE VIEW x TBLPROPERTIES ('password' = 'abcdefghij') AS SELECT 1 AS a", InvalidRequest, "secret"),
    ],
)
def test_what_a_view_is_not_is_refused_by_name(
    shop: Sql, session: Session, engine: str, statement: str, error: type[Exception], said: str
) -> None:
    if engine == "spark" and "AS SELECT" not in statement:
        pytest.skip("nothing of it is the engine's")
    session.sql("USE shop; CREATE VIEW v AS SELECT id FROM orders; CREATE VIEW w AS SELECT id FROM v", "duckdb")
    with pytest.raises(error, match=said):
        shop(statement)
    assert session.catalog.views.names("shop") == ["v", "w"]
    assert session.catalog.table("shop.orders").to_arrow().num_rows == 3


def test_a_forged_view_runs_nothing(shop: Sql, session: Session, engine: str, tmp_path: Path) -> None:
    shop("CREATE VIEW shop.v AS SELECT id FROM shop.orders; CREATE VIEW shop.w AS SELECT id FROM shop.v")
    path = Path(session.settings.warehouse) / "shop.db/v.view"
    plain = {key: value for key, value in json.loads(path.read_text()).items() if key != CHECKSUM}
    (tmp_path / "canary").write_text("mine")

    def reads(**changed: Any) -> Any:
        path.write_text(json.dumps({**plain, **changed}))
        return sorted(shop("SELECT * FROM shop.v"))

    assert reads() == [(1,), (2,), (3,)]
    for query in (
        "DROP TABLE shop.orders",
        "SELECT 1 AS id; DROP TABLE shop.orders",
        "SELECT id FROM orders",
        "INSERT INTO shop.orders VALUES (1)",
        f"SELECT content AS id FROM read_text('{tmp_path}/canary')",
        "SELECT reflect('java.util.UUID', 'randomUUID') AS id",
        f"SELECT TRANSFORM(id) USING 'touch {tmp_path}/ran' AS (id) FROM shop.orders",
        f"SELECT * FROM csv.`{tmp_path}/canary`",
        f"SELECT * FROM '{tmp_path}/canary'",
        "SELECT * FROM other.shop.orders",
        "SELECT id FROM shop.w",
        "SELECT id FROM shop.v",
        "SELECT * FROM paimon.catalog_options",
        "SELECT id FROM shop.nope",
        "SELECT nope AS id FROM shop.orders",
        "(" * 5000,
        "",
        "SELECT id FROM `../../x`.y",
        "WITH orders AS (SELECT * FROM orders) SELECT id FROM orders",
        "SELECT 1 AS other",
    ):
        with pytest.raises(StorageError) as failed:
            reads(query=query)
        assert "mine" not in str(failed.value)
    for wrong in (
        {"columns": []},
        {"columns": 3},
        {"query": 3},
        {"version": 2},
        {"options": []},
        {"comment": {}},
        {"columns": [{"name": "id", "type": "NOPE"}]},
    ):
        with pytest.raises(CorruptData, match=r"v\.view"):
            reads(**wrong)
    # Neither is what a query around a view has to do with it.
    path.write_text(json.dumps({**plain, "query": "SELECT price AS id FROM shop.v2"}))
    shop("CREATE OR REPLACE VIEW shop.v2 AS SELECT id FROM shop.orders")
    with pytest.raises(StorageError):
        shop("SELECT id FROM shop.orders WHERE id IN (SELECT id FROM shop.v)")
    assert shop("SELECT count(*) FROM shop.orders") == [(3,)]
    assert not (tmp_path / "ran").exists()
    shop("DROP VIEW shop.v")


def test_quick_reads_say_who_reads_views(session: Session) -> None:
    session.sql("CREATE TABLE q (k INT); CREATE VIEW v AS SELECT k FROM q", "duckdb")
    with pytest.raises(Unsupported, match=r"default\.v is a view.*snapline sql"):
        run_query(session, 'SELECT * FROM "default".v')


@pytest.mark.spark
def test_temporary_views_are_there_until_the_session_ends(sql: Sql, session: Session) -> None:
    sql("CREATE TABLE t (a INT, b STRING); INSERT INTO t VALUES (1, 'x'), (2, 'y'); CREATE TABLE sink (a INT)")
    sql("CREATE TEMPORARY VIEW big AS SELECT a FROM t WHERE a > 1; CREATE TEMP VIEW more (n) AS SELECT a + 10 FROM big")
    assert sql("SELECT * FROM big x JOIN more ON more.n = x.a + 10") == [(2, 12)]
    assert sql("SHOW VIEWS") == [("big",), ("more",)] and sql("DESCRIBE more")[0][0] == "n"
    assert sql("SHOW CREATE TABLE big")[0][0].startswith("CREATE TEMPORARY VIEW `big`")
    sql("INSERT INTO sink SELECT n FROM more; DELETE FROM sink WHERE a IN (SELECT a FROM big)")
    assert sql("SELECT * FROM sink") == [(12,)]
    # What the commit tells means the same in other sessions.
    table = session.catalog.table("default.sink")
    newest = table.snapshot()
    assert newest is not None and "WHERE a > 1" in (newest.properties or {})["snapline.statement"]
    with pytest.raises(AlreadyExists, match="CREATE OR REPLACE"):
        sql("CREATE TEMPORARY VIEW big AS SELECT 1 AS a")
    sql("CREATE OR REPLACE TEMPORARY VIEW big AS SELECT a FROM t")
    assert sql("SELECT sum(n) FROM more") == [(23,)]
    # It comes before a table of its name, and its own query reads that table.
    sql("CREATE TEMPORARY VIEW t AS SELECT b FROM t WHERE a = 1")
    assert sql("SELECT * FROM t") == [("x",)] and sql("SELECT count(*) FROM default.t") == [(2,)]
    assert sql("WITH big AS (SELECT 7 AS a) SELECT a FROM big") == [(7,)]
    for wrong in (
        "CREATE VIEW v AS SELECT * FROM big",
        "INSERT INTO big VALUES (1)",
        "DROP TABLE big",
        "ALTER VIEW big AS SELECT 1 AS a",
        "CREATE OR REPLACE TEMPORARY VIEW big AS SELECT * FROM more",
        "SELECT * FROM big VERSION AS OF 1",
    ):
        with pytest.raises(StorageError, match=r"temporary view|read itself|no versions"):
            sql(wrong)
    sql("DROP VIEW t, more, big; DROP VIEW IF EXISTS big")
    with pytest.raises(NotFound):
        sql("SELECT * FROM big")
    assert sql("SELECT count(*) FROM t") == [(2,)]
    assert session.catalog.views.names("default") == []


def test_all_of_several_are_dropped_or_none(shop: Sql, session: Session) -> None:
    shop(
        "CREATE TABLE t (a INT); CREATE TABLE u (a INT); CREATE VIEW v AS SELECT 1 AS a; CREATE VIEW w AS SELECT 2 AS a"
    )
    for statement, message in (
        ("DROP TABLE t, nope", r"nope does not exist"),
        ("DROP TABLE t, v", r"v is a view: DROP VIEW"),
        ("DROP TABLE t, u, t", r"\.t is named twice"),
        ("DROP TABLE IF EXISTS t, v", r"v is a view: DROP VIEW"),
        ("DROP VIEW v, nope", r"nope does not exist"),
        ("DROP VIEW v, t", r"t is a table: DROP TABLE"),
        ("DROP VIEW v, w, v", r"\.v is named twice"),
    ):
        with pytest.raises(StorageError, match=message):
            shop(statement)
        assert shop("SELECT count(*) FROM t, u, v, w") == [(0,)]
    shop("DROP TABLE IF EXISTS t, nope, u; DROP VIEW IF EXISTS v, nope, w")
    for name in ("t", "u", "v", "w"):
        with pytest.raises(NotFound):
            shop(f"SELECT * FROM {name}")


def test_a_database_that_is_there_is_not_created(sql: Sql) -> None:
    assert sql("CREATE DATABASE IF NOT EXISTS fresh") == "Created database fresh."
    assert sql("CREATE DATABASE IF NOT EXISTS fresh") == "Database fresh is there already; it stays as it is."


def test_a_view_is_described_as_it_is_read_now(sql: Sql) -> None:
    sql("CREATE TABLE t (id INT, v INT); CREATE VIEW w AS SELECT id, v FROM t")
    sql("CREATE OR REPLACE TABLE t AS SELECT 1 AS id, DATE'2024-01-01' AS v")
    assert [row[:2] for row in sql("DESCRIBE w")] == [("id", "INT"), ("v", "DATE")]
    # What cannot be read is described as it was made.
    sql("ALTER TABLE t DROP COLUMN v")
    assert [row[:2] for row in sql("DESCRIBE w")] == [("id", "INT"), ("v", "INT")]
