"""Hints of joins on the engine spark: those that would be ignored are refused."""

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


@pytest.mark.parametrize(("hint", "said"), [("BROADCAST(x)", "reads no table 'x'"), ("NOTHING(t)", "is not known")])
def test_hints_that_mean_nothing_are_refused(hint: str, said: str) -> None:
    with pytest.raises(InvalidRequest, match=said):
        spark_text(parse_one(f"SELECT /*+ {hint} */ * FROM t JOIN w ON t.a = w.a", dialect="spark"))
