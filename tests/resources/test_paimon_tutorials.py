"""What Paimon's own documents show of Spark's quick start, of merge engines and of changelog producers, in statements of our own,
with the results that they give.

Sources: `spark/quick-start.md`, `primary-key-table/merge-engine/`, `primary-key-table/changelog-producer.md` of Paimon 1.4.
"""

from collections.abc import Callable
from typing import Any

import pytest

from resources import Session
from storage import InvalidRequest

pytestmark = [pytest.mark.spark, pytest.mark.pypaimon_differs("It knows neither sequence groups nor all functions.")]
Sql = Callable[[str], Any]


# --- Spark, quick start


def test_a_table_whose_key_is_a_property(sql: Sql, session: Session) -> None:
    sql("CREATE TABLE my_table (k INT, v STRING) TBLPROPERTIES ('primary-key' = 'k')")
    sql("INSERT INTO my_table VALUES (1, 'Hi'), (2, 'Hello')")
    assert sql("SELECT * FROM my_table ORDER BY k") == [(1, "Hi"), (2, "Hello")]
    sql("INSERT INTO my_table VALUES (2, 'Hello again')")
    assert sql("SELECT v FROM my_table WHERE k = 2") == [("Hello again",)]
    assert session.table("default.my_table").schema.primary_keys == ("k",)
    sql("CREATE TABLE other (k INT, v STRING) USING paimon TBLPROPERTIES ('primary-key' = 'k')")
    sql("INSERT OVERWRITE other SELECT * FROM my_table")
    assert sql("SELECT count(*) FROM other") == [(2,)]


# --- merge engines


def test_a_row_is_completed_by_partial_updates(sql: Sql) -> None:
    sql(
        """
        CREATE TABLE books (id BIGINT PRIMARY KEY NOT ENFORCED, price DOUBLE, pages INT, about STRING)
        WITH ('merge-engine' = 'partial-update');
        INSERT INTO books VALUES (1, 23.0, 10, NULL);
        INSERT INTO books VALUES (1, NULL, NULL, 'This is a book');
        INSERT INTO books VALUES (1, 25.2, NULL, NULL)
        """
    )
    assert sql("SELECT * FROM books") == [(1, 25.2, 10, "This is a book")]


def test_columns_of_a_sequence_group_follow_its_order(sql: Sql) -> None:
    sql(
        """
        CREATE TABLE t (k INT, a INT, b INT, g_1 INT, c INT, d INT, g_2 INT, PRIMARY KEY (k) NOT ENFORCED)
        WITH ('merge-engine' = 'partial-update', 'fields.g_1.sequence-group' = 'a,b', 'fields.g_2.sequence-group' = 'c,d');
        INSERT INTO t VALUES (1, 1, 1, 1, 1, 1, 1);
        INSERT INTO t VALUES (1, 2, 2, 2, 2, 2, CAST(NULL AS INT))
        """
    )
    assert sql("SELECT * FROM t") == [(1, 2, 2, 2, 1, 1, 1)]
    sql("INSERT INTO t VALUES (1, 3, 3, 1, 3, 3, 3)")
    assert sql("SELECT * FROM t") == [(1, 2, 2, 2, 3, 3, 3)]


def test_a_sequence_group_may_have_several_columns_of_order(sql: Sql) -> None:
    sql(
        """
        CREATE TABLE sg (k INT, a INT, b INT, g_1 INT, c INT, d INT, g_2 INT, g_3 INT, PRIMARY KEY (k) NOT ENFORCED)
        WITH ('merge-engine' = 'partial-update', 'fields.g_1.sequence-group' = 'a,b', 'fields.g_2,g_3.sequence-group' = 'c,d');
        INSERT INTO sg VALUES (1, 1, 1, 1, 1, 1, 1, 1);
        INSERT INTO sg VALUES (1, 2, 2, 2, 2, 2, 1, CAST(NULL AS INT))
        """
    )
    assert sql("SELECT * FROM sg") == [(1, 2, 2, 2, 1, 1, 1, 1)]
    sql("INSERT INTO sg VALUES (1, 3, 3, 1, 3, 3, 3, 1)")
    assert sql("SELECT * FROM sg") == [(1, 2, 2, 2, 3, 3, 3, 1)]


def test_functions_in_sequence_groups(sql: Sql) -> None:
    sql(
        """
        CREATE TABLE f (k INT, a INT, b INT, c INT, d INT, PRIMARY KEY (k) NOT ENFORCED)
        WITH ('merge-engine' = 'partial-update', 'fields.a.sequence-group' = 'b', 'fields.b.aggregate-function' = 'first_value',
              'fields.c.sequence-group' = 'd', 'fields.d.aggregate-function' = 'sum');
        INSERT INTO f VALUES (1, 1, 1, CAST(NULL AS INT), CAST(NULL AS INT));
        INSERT INTO f VALUES (1, CAST(NULL AS INT), CAST(NULL AS INT), 1, 1);
        INSERT INTO f VALUES (1, 2, 2, CAST(NULL AS INT), CAST(NULL AS INT));
        INSERT INTO f VALUES (1, CAST(NULL AS INT), CAST(NULL AS INT), 2, 2)
        """
    )
    assert sql("SELECT * FROM f") == [(1, 2, 1, 2, 3)]
    sql(
        """
        CREATE TABLE agg (k INT, a INT, b INT, g_1 INT, c STRING, g_2 INT, g_3 INT, PRIMARY KEY (k) NOT ENFORCED)
        WITH ('merge-engine' = 'partial-update', 'fields.a.aggregate-function' = 'sum', 'fields.g_1,g_3.sequence-group' = 'a',
              'fields.g_2.sequence-group' = 'c');
        INSERT INTO agg VALUES (1, 1, 1, 1, '1', 1, 1);
        INSERT INTO agg VALUES (1, 2, 2, 2, '2', CAST(NULL AS INT), 2)
        """
    )
    assert sql("SELECT * FROM agg") == [(1, 3, 2, 2, "1", 1, 2)]
    # What is late does not move the order, and is added all the same.
    sql("INSERT INTO agg VALUES (1, 3, 3, 2, '3', 3, 1)")
    assert sql("SELECT * FROM agg") == [(1, 6, 3, 2, "3", 3, 2)]


def test_columns_are_aggregated(sql: Sql) -> None:
    sql(
        """
        CREATE TABLE sales (product_id BIGINT, price DOUBLE, sales BIGINT, PRIMARY KEY (product_id) NOT ENFORCED)
        WITH ('merge-engine' = 'aggregation', 'fields.price.aggregate-function' = 'max',
              'fields.sales.aggregate-function' = 'sum');
        INSERT INTO sales VALUES (1, 23.0, 15);
        INSERT INTO sales VALUES (1, 30.2, 20)
        """
    )
    assert sql("SELECT * FROM sales") == [(1, 30.2, 35)]


@pytest.mark.parametrize("engine", ["spark"], indirect=True)
def test_orders_are_widened_by_a_nested_table(sql: Sql) -> None:
    sql(
        """
        CREATE TABLE orders (order_id BIGINT PRIMARY KEY NOT ENFORCED, user_name STRING, address STRING);
        CREATE TABLE sub_orders (order_id BIGINT, sub_order_id INT, product_name STRING, price BIGINT,
                                 PRIMARY KEY (order_id, sub_order_id) NOT ENFORCED);
        CREATE TABLE order_wide (order_id BIGINT PRIMARY KEY NOT ENFORCED, user_name STRING, address STRING,
                                 sub_orders ARRAY<STRUCT<sub_order_id: BIGINT, product_name: STRING, price: BIGINT>>)
        WITH ('merge-engine' = 'aggregation', 'fields.sub_orders.aggregate-function' = 'nested_update',
              'fields.sub_orders.nested-key' = 'sub_order_id');
        INSERT INTO orders VALUES (1, 'Ann', 'Mill Road');
        INSERT INTO sub_orders VALUES (1, 1, 'apple', 8), (1, 2, 'pear', 6);
        INSERT INTO order_wide
        SELECT order_id, user_name, address,
               CAST(NULL AS ARRAY<STRUCT<sub_order_id: BIGINT, product_name: STRING, price: BIGINT>>) FROM orders
        UNION ALL
        SELECT order_id, CAST(NULL AS STRING), CAST(NULL AS STRING),
               array(named_struct('sub_order_id', CAST(sub_order_id AS BIGINT), 'product_name', product_name, 'price', price))
        FROM sub_orders;
        INSERT INTO order_wide
        VALUES (1, NULL, NULL, array(named_struct('sub_order_id', 2L, 'product_name', 'plum', 'price', 7L)))
        """
    )
    rows = sql("SELECT order_id, user_name, address, o.* FROM order_wide LATERAL VIEW inline(sub_orders) o AS s, p, c")
    assert sorted(rows) == [(1, "Ann", "Mill Road", 1, "apple", 8), (1, "Ann", "Mill Road", 2, "plum", 7)]


def test_the_first_row_stays(sql: Sql) -> None:
    sql(
        """
        CREATE TABLE seen (id INT PRIMARY KEY NOT ENFORCED, v STRING) WITH ('merge-engine' = 'first-row');
        INSERT INTO seen VALUES (1, 'first');
        INSERT INTO seen VALUES (1, 'second'), (2, 'first')
        """
    )
    assert sorted(sql("SELECT * FROM seen")) == [(1, "first"), (2, "first")]
    for options in ("'changelog-producer' = 'input'", "'sequence.field' = 'v'"):
        with pytest.raises(InvalidRequest, match="first-row"):
            sql(
                f"CREATE TABLE no (id INT PRIMARY KEY NOT ENFORCED, v STRING) WITH ('merge-engine' = 'first-row', {options})"
            )


# --- changelog producers


@pytest.mark.parametrize(
    ("producer", "expected"),
    [
        ("none", [("+I", 1, 4), ("+I", 1, 6), ("+I", 2, 5)]),
        ("input", [("+I", 1, 4), ("+I", 1, 6), ("+I", 2, 5)]),
        ("lookup", [("+I", 1, 4), ("-U", 1, 4), ("+U", 1, 6), ("+I", 2, 5)]),
        ("full-compaction", [("+I", 1, 4), ("-U", 1, 4), ("+U", 1, 6), ("+I", 2, 5)]),
    ],
)
def test_what_readers_of_changes_are_told(
    sql: Sql, session: Session, producer: str, expected: list[tuple[Any, ...]]
) -> None:
    sql(f"CREATE TABLE v (k INT PRIMARY KEY NOT ENFORCED, n INT) WITH ('changelog-producer' = '{producer}')")
    for rows in ("(1, 4)", "(1, 6), (2, 5)"):
        sql(f"INSERT INTO v VALUES {rows}")
        if producer == "full-compaction":
            sql("CALL sys.compact(table => 'default.v')")
    rows = session.table("default.v").changes().to_pylist()
    assert [(row["rowkind"], row["k"], row["n"]) for row in rows] == expected


def test_updates_that_change_nothing_are_not_told_if_so_asked(sql: Sql, session: Session) -> None:
    for name, more in (("w", ""), ("x", ", 'changelog-producer.row-deduplicate' = 'true'")):
        sql(f"CREATE TABLE {name} (k INT PRIMARY KEY NOT ENFORCED, n INT) WITH ('changelog-producer' = 'lookup'{more})")
        sql(f"INSERT INTO {name} VALUES (1, 4)")
        sql(f"INSERT INTO {name} VALUES (1, 4)")
    counts = [session.table(f"default.{name}").changes().num_rows for name in ("w", "x")]
    assert counts == [3, 1]
