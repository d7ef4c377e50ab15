"""Hints of joins on the engine spark: those that would be ignored are refused."""

from collections.abc import Callable
from typing import Any

import pytest
from sqlglot import parse_one

from resources.sql.engine_dialects import spark_text
from storage import InvalidRequest


@pytest.mark.parametrize(
    "query",
    [
        "SELECT /*+ BROADCAST(w) */ * FROM t JOIN d.w AS w ON t.a = w.a",
        "SELECT /*+ MERGE(T, w) */ * FROM t JOIN w ON t.a = w.a",
        "SELECT /*+ SHUFFLE_HASH(s) */ * FROM t JOIN (SELECT 1 AS a) AS s ON t.a = s.a",
        "WITH c AS (SELECT 1 AS a) SELECT /*+ BROADCAST(c) */ * FROM c JOIN t ON t.a = c.a",
        "SELECT /*+ COALESCE(3) */ * FROM t",
    ],
)
def test_hints_of_tables_that_are_read_reach_spark(query: str) -> None:
    assert "/*+" in spark_text(parse_one(query, dialect="spark"))


@pytest.mark.parametrize(
    ("hint", "said"),
    [
        ("BROADCAST(x)", "reads no table 'x'"),
        ("NOTHING(t)", "is not known"),
        ("INDEX(t i)", "is not known"),
        ("COALESCE(1", "is not known"),
    ],
)
def test_hints_that_mean_nothing_are_refused(hint: str, said: str) -> None:
    with pytest.raises(InvalidRequest, match=said):
        spark_text(parse_one(f"SELECT /*+ {hint} */ * FROM t JOIN w ON t.a = w.a", dialect="spark"))


@pytest.mark.spark
@pytest.mark.parametrize(
    "query",
    [
        "WITH c AS (SELECT * FROM t) SELECT * FROM c /*+ OPTIONS('scan.snapshot-id' = '1') */",
        "SELECT * FROM (WITH c AS (SELECT * FROM t) SELECT * FROM c /*+ OPTIONS('nosuch' = 'x') */)",
        "WITH t AS (SELECT 7 AS a) SELECT * FROM t /*+ OPTIONS('scan.snapshot-id' = '1') */",
        "INSERT INTO t WITH c AS (SELECT * FROM t) SELECT a + 10 FROM c /*+ OPTIONS('scan.snapshot-id' = '1') */",
    ],
)
def test_options_of_a_query_of_with_are_refused(sql: Callable[[str], Any], query: str) -> None:
    sql("CREATE TABLE t (a INT); INSERT INTO t VALUES (1); INSERT INTO t VALUES (2)")
    with pytest.raises(InvalidRequest, match=r"[ct] is a query of WITH, which takes no OPTIONS"):
        sql(query)
    assert sql("WITH c AS (SELECT * FROM t /*+ OPTIONS('scan.snapshot-id' = '1') */) SELECT * FROM c") == [(1,)]
