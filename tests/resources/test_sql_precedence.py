"""Operators by the ranks that Spark gives them, and what reads like one thing and is another: the same on every engine."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from resources import Session
from storage import InvalidRequest


@pytest.fixture
def texts(session: Session) -> None:
    schema = pa.schema([("id", pa.int64()), ("g", pa.string()), ("b", pa.bool_()), ("f", pa.float32())])
    table = session.catalog.create_table("default.x", schema)
    given = {"id": [1, 2, 3], "g": ["a", "a", "b"], "b": [True, False, None], "f": [0.1, 16777.217, None]}
    table.write(pa.table(given, schema))


@pytest.mark.spark
@pytest.mark.usefixtures("texts")
def test_operators_of_bits_bind_as_in_spark(session: Session) -> None:
    asked = {
        "1 | 4 & 2": 1,
        "5 ^ 3 & 1": 4,
        "6 | 1 ^ 3": 6,
        "7 & 1 << 1": 2,
        "1 << 2 + 1": 8,
        "256 >> 1 + 1 & 255": 64,
    }
    answers = session.sql(f"SELECT {', '.join(asked)} FROM x WHERE id = 1", "spark").to_arrow().to_pylist()
    assert dict(zip(asked, map(int, answers[0].values()), strict=True)) == asked


@pytest.mark.spark
@pytest.mark.usefixtures("texts")
@pytest.mark.parametrize(("text", "expected"), [("'1' || 2 - 3", 9), ("'2' || 2 * 3 - 1", 25), ("id || 1 + id", 12)])
def test_texts_are_joined_where_numbers_are_added(
    sql: Callable[[str], Any], engine: str, text: str, expected: int
) -> None:
    if engine == "duckdb":
        # A text has no number there that is sure to be Spark's.
        with pytest.raises(InvalidRequest, match="Use the engine spark"):
            sql(f"SELECT {text} FROM x WHERE id = 1")
    else:
        assert [int(row[0]) for row in sql(f"SELECT {text} FROM x WHERE id = 1")] == [expected]


@pytest.mark.spark
@pytest.mark.usefixtures("texts")
def test_not_like_any_asks_each_pattern(sql: Callable[[str], Any]) -> None:
    def ids(condition: str) -> list[int]:
        return [row[0] for row in sql(f"SELECT id FROM x WHERE {condition} ORDER BY id")]

    assert ids("g NOT LIKE ALL ('a', 'c%')") == [3]
    assert ids("g NOT LIKE ANY ('a', 'b%')") == [1, 2, 3]
    assert ids("NOT g LIKE ANY ('a', 'c%')") == [3]
    assert ids("NOT g LIKE ALL ('a', 'b%')") == [1, 2, 3]


@pytest.mark.spark
@pytest.mark.usefixtures("texts")
def test_a_rollup_behind_the_columns_and_a_float_as_a_decimal(sql: Callable[[str], Any]) -> None:
    assert sorted(sql("SELECT g, count(*) FROM x GROUP BY g WITH ROLLUP"), key=str) == [("a", 2), ("b", 1), (None, 3)]
    assert len(sql("SELECT g, b, count(*) FROM x GROUP BY g, b WITH CUBE")) == 9
    rows = sql("SELECT CAST(f AS DECIMAL(20, 10)) FROM x WHERE id < 3 ORDER BY id")
    assert [str(row[0]) for row in rows] == ["0.1000000015", "16777.2167968750"]


@pytest.mark.usefixtures("texts")
@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("SELECT g, b, count(*) FROM x GROUP BY g, b GROUPING SETS ((g), (b))", "GROUP BY GROUPING SETS"),
        ("SELECT count(DISTINCT g) OVER () FROM x", "DISTINCT is not for a function with OVER"),
        ("SELECT DISTINCT g FROM x ORDER BY id", "columns of the SELECT alone"),
    ],
)
def test_what_duckdb_would_do_in_its_own_way_is_refused(session: Session, query: str, said: str) -> None:
    with pytest.raises(InvalidRequest, match=said):
        session.sql(query, "duckdb")
