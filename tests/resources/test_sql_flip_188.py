"""The statements of FLIP-188, with its placeholders filled in: table definitions, reading, writing, describing."""

from collections.abc import Callable
from typing import Any

import pytest

from resources import Session
from storage import AlreadyExists, InvalidRequest, NotFound, Unsupported

pytestmark = pytest.mark.spark
Sql = Callable[[str], Any]


@pytest.fixture
def orders(sql: Sql) -> Sql:
    sql("CREATE DATABASE IF NOT EXISTS db_name; USE db_name")
    sql(
        """
        CREATE TABLE IF NOT EXISTS snapline.db_name.orders (
            id BIGINT NOT NULL COMMENT 'number of the order',
            day STRING,
            price DECIMAL(10, 2),
            quantity INT,
            at TIMESTAMP(3),
            cost AS price * quantity COMMENT 'what is paid',
            WATERMARK FOR at AS at - INTERVAL '5' SECOND,
            CONSTRAINT pk PRIMARY KEY (id, day) NOT ENFORCED
        )
        COMMENT 'all orders'
        PARTITIONED BY (day)
        WITH ('change-tracking' = 'false')
        """
    )
    sql("ALTER TABLE orders RESET ('change-tracking')")
    sql(
        """
        INSERT INTO orders VALUES
            (1, '2024-05-01', 1.50, 2, TIMESTAMP '2024-05-01 10:00:00'),
            (2, '2024-05-01', 2.50, 1, NULL),
            (3, '2024-05-02', 3.00, 4, NULL)
        """
    )
    return sql


def test_a_table_is_really_created(orders: Sql, session: Session) -> None:
    table = session.table("db_name.orders")
    assert table.schema.primary_keys == ("id", "day")
    assert table.schema.partition_keys == ("day",)
    assert table.schema.comment == "all orders"
    facts = table.describe()
    assert facts["computed-columns"] == "cost AS price * quantity"
    assert facts["watermark-definition"].startswith("at AS at - INTERVAL")
    assert orders("SELECT count(*), sum(price) FROM orders")[0][0] == 3
    again = orders("SHOW CREATE TABLE orders")[0][0].replace("orders", "copied", 1)
    orders(again)
    assert session.table("db_name.copied").schema.fields == table.schema.fields
    with pytest.raises(AlreadyExists, match="Line 1, column 14"):
        orders("CREATE TABLE orders (a INT)")
    assert "exists already" in orders("CREATE TABLE IF NOT EXISTS orders (a INT)")
    with pytest.raises(InvalidRequest, match="partition"):
        orders("CREATE TABLE wrong (id INT PRIMARY KEY NOT ENFORCED, day STRING) PARTITIONED BY (day)")


def test_a_computed_column_is_computed_when_it_is_read(orders: Sql) -> None:
    assert sorted(orders("SELECT id, CAST(cost AS DOUBLE) FROM orders")) == [(1, 3.0), (2, 2.5), (3, 12.0)]
    assert orders("SELECT o.id FROM orders AS o JOIN orders p ON o.id = p.id WHERE p.cost > 10") == [(3,)]
    assert len(orders("SELECT * FROM orders VERSION AS OF 1 LIMIT 1")[0]) == 6
    read = orders("EXPLAIN SELECT cost FROM orders WHERE id = 3")[0]
    assert "price, quantity" in read[2]


def test_session_wide_defaults(sql: Sql, session: Session) -> None:
    sql("SET table-storage.bucket = 10; CREATE TABLE wide (id INT PRIMARY KEY NOT ENFORCED)")
    assert session.table("default.wide").store.options.bucket == 10
    assert sql("SET 'table-storage.bucket'") == [("table-storage.bucket", "10")]
    sql("RESET 'table-storage.bucket'; CREATE TABLE narrow (id INT PRIMARY KEY NOT ENFORCED)")
    assert session.table("default.narrow").store.options.bucket == 1


def test_rows_are_inserted_and_overwritten(orders: Sql) -> None:
    def held() -> list[Any]:
        return sorted((row[0], row[1]) for row in orders("SELECT id, day FROM orders"))

    orders("INSERT INTO orders PARTITION (day='2024-05-03') (id, price) SELECT 4, 9")
    assert (4, "2024-05-03") in held()
    orders("INSERT OVERWRITE orders PARTITION (day='2024-05-01') (id, price) VALUES (7, 1.0)")
    assert held() == [(3, "2024-05-02"), (4, "2024-05-03"), (7, "2024-05-01")]
    orders("INSERT OVERWRITE orders SELECT 8, '2024-05-02', 1, 1, NULL")
    assert held() == [(4, "2024-05-03"), (7, "2024-05-01"), (8, "2024-05-02")]
    with pytest.raises(InvalidRequest, match="takes 5 columns"):
        orders("INSERT INTO orders SELECT 1, 'x'")
    with pytest.raises(InvalidRequest, match="NOT NULL and gets no value"):
        orders("INSERT INTO orders (day, price) VALUES ('x', 1)")
    assert len(held()) == 3


def test_the_value_of_a_partition_keeps_its_sign(sql: Sql) -> None:
    sql("CREATE TABLE signed (id INT, n INT) PARTITIONED BY (n)")
    sql("INSERT INTO signed PARTITION (n=-5) (id) VALUES (1); INSERT INTO signed PARTITION (n=5) (id) VALUES (2)")
    assert sorted(sql("SELECT id, n FROM signed")) == [(1, -5), (2, 5)]
    sql("ALTER TABLE signed DROP PARTITION (n=-5)")
    assert sql("SELECT id, n FROM signed") == [(2, 5)]


def test_changes_are_not_tracked_for_a_table_a_partition_or_one_write(orders: Sql, session: Session) -> None:
    table = session.table("db_name.orders")
    before = table.snapshot()
    assert before is not None
    orders("INSERT INTO orders /*+ OPTIONS('change-tracking' = 'false') */ VALUES (5, 'x', 1, 1, NULL)")
    orders("INSERT OVERWRITE /*+ OPTIONS('change-tracking' = 'false') */ orders SELECT 6, 'x', 1, 1, NULL")
    orders("ALTER TABLE orders PARTITION (day='y') SET ('change-tracking' = 'false')")
    orders("INSERT INTO orders VALUES (7, 'y', 1, 1, NULL)")
    table = session.table("db_name.orders")
    assert table.changes(after=before.id).num_rows == 0
    orders("ALTER TABLE orders PARTITION (day='y') RESET ('change-tracking')")
    orders("INSERT INTO orders VALUES (8, 'y', 1, 1, NULL)")
    assert session.table("db_name.orders").changes(after=before.id)["id"].to_pylist() == [8]


def test_rows_are_deleted_updated_and_merged(orders: Sql) -> None:
    orders("UPDATE orders SET price = price * 2, quantity = 0 WHERE day = '2024-05-01' AND id = 1")
    orders("DELETE FROM orders WHERE id = 2")
    orders(
        """
        MERGE INTO orders AS o USING (SELECT 3 AS id, '2024-05-02' AS day, 7 AS quantity UNION ALL SELECT 9, 'z', 1) AS s
        ON o.id = s.id AND o.day = s.day
        WHEN MATCHED AND s.quantity > 5 THEN UPDATE SET quantity = s.quantity
        WHEN NOT MATCHED THEN INSERT (id, day, quantity) VALUES (s.id, s.day, s.quantity)
        WHEN NOT MATCHED BY SOURCE AND o.id = 1 THEN UPDATE SET quantity = 100
        """
    )
    assert sorted(orders("SELECT id, CAST(price AS DOUBLE), quantity FROM orders")) == [
        (1, 3.0, 100),
        (3, 3.0, 7),
        (9, None, 1),
    ]


def test_a_table_is_altered(orders: Sql, session: Session) -> None:
    orders("ALTER TABLE orders ADD COLUMN note STRING COMMENT 'free' AFTER id")
    orders("ALTER TABLE orders ADD COLUMNS (a INT, b ROW<x INT, y STRING>)")
    orders("ALTER TABLE orders RENAME COLUMN note TO remark; ALTER TABLE orders DROP COLUMN a")
    orders(
        "ALTER TABLE orders ALTER COLUMN quantity TYPE BIGINT; ALTER TABLE orders SET ('snapshot.num-retained.min'='3')"
    )
    orders("ALTER TABLE orders MODIFY COLUMN remark COMMENT 'text'; ALTER TABLE orders ALTER COLUMN remark FIRST")
    schema = session.table("db_name.orders").schema
    assert schema.column_names == ["remark", "id", "day", "price", "quantity", "at", "b"]
    assert schema.options["snapshot.num-retained.min"] == "3"
    assert orders("SELECT remark, b FROM orders WHERE id = 1") == [(None, None)]
    orders("ALTER TABLE orders DROP PARTITION (day='2024-05-01')")
    assert orders("SELECT id FROM orders") == [(3,)]
    orders("ALTER TABLE orders COMPACT; ALTER TABLE orders PARTITION (day='2024-05-02') COMPACT")
    orders("ALTER TABLE orders RENAME TO old_orders; TRUNCATE TABLE old_orders")
    assert orders("SELECT count(*) FROM old_orders") == [(0,)]
    orders("DROP TABLE IF EXISTS orders; DROP TABLE old_orders; DROP TEMPORARY TABLE IF EXISTS old_orders")
    assert orders("SHOW TABLES") == []
    with pytest.raises(NotFound):
        orders("DROP TABLE old_orders")
    orders("USE default; DROP DATABASE db_name")
    assert "db_name" not in [row[0] for row in orders("SHOW DATABASES")]


def test_a_table_and_a_partition_are_described(orders: Sql) -> None:
    columns = orders("DESCRIBE orders")
    assert columns[0] == ("id", "BIGINT", "NO", "PRI", "", "number of the order")
    facts = {row[1]: row[2] for row in orders("DESCRIBE TABLE EXTENDED db_name.orders") if row[0] == "property"}
    assert {
        "file.path",
        "file.format",
        "bucket",
        "change-tracking",
        "watermark",
        "log.system",
        "num-files",
    } <= facts.keys()
    assert facts["num-partitions"] == "2"
    facts = dict(orders("DESCRIBE DETAIL TABLE db_name.orders PARTITION (day='2024-05-01')"))
    assert {"file.path", "last-modified", "num-files", "compacted"} <= facts.keys()
    assert facts["record-count-unmerged"] == "2"
    with pytest.raises(NotFound, match="Partitions: day=2024-05-01"):
        orders("DESCRIBE TABLE EXTENDED orders PARTITION (day='nope')")


def test_a_query_becomes_a_table(orders: Sql, session: Session) -> None:
    orders("CREATE TABLE per_day WITH ('file.format' = 'orc') AS SELECT day, count(*) AS n FROM orders GROUP BY day")
    assert sorted(orders("SELECT * FROM per_day")) == [("2024-05-01", 2), ("2024-05-02", 1)]
    ref = session.table("db_name.per_day").ref()
    assert ref is not None
    assert [str(source) for source in session.lineage(ref, "up").snapshots] == ["db_name.orders@1"]


def test_a_table_of_another_connector_is_refused_by_name(sql: Sql) -> None:
    with pytest.raises(Unsupported, match="'jdbc'"):
        sql("CREATE TABLE k (id INT) WITH ('connector' = 'jdbc')")
