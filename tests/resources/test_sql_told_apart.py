"""What tells rows apart: GROUP BY, DISTINCT, sets, windows and IN, of maps, of variants, and of floats inside of other values."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from resources import Session
from storage import InvalidRequest, StorageError

pytestmark = pytest.mark.spark
Sql = Callable[[str], Any]
MAP = pa.map_(pa.string(), pa.int32())
# The same entries, in two orders.
MAPS = [[("a", 1), ("b", 2)], [("b", 2), ("a", 1)]]


@pytest.fixture
def maps(session: Session) -> None:
    session.sql("CREATE TABLE mm (id INT, m MAP<STRING, INT>, s STRUCT<m MAP<STRING, INT>>)", "duckdb")
    held = pa.array([{"m": each} for each in MAPS], pa.struct([("m", MAP)]))
    session.table("default.mm").write(
        pa.table({"id": pa.array([1, 2], pa.int32()), "m": pa.array(MAPS, MAP), "s": held})
    )


@pytest.mark.one_in(2)
@pytest.mark.parametrize("column", ["m", "s"])
@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ("SELECT count(*) FROM (SELECT {0}, count(*) AS c FROM mm GROUP BY {0})", [(1,)]),
        ("SELECT count(*) FROM (SELECT {0}, count(*) AS c FROM mm GROUP BY ALL)", [(1,)]),
        ("SELECT count(*) FROM (SELECT {0}, count(*) AS c FROM mm GROUP BY 1)", [(1,)]),
        ("SELECT count(*) FROM (SELECT {0}, count(*) AS c FROM mm GROUP BY ROLLUP ({0}))", [(2,)]),
        ("SELECT count(DISTINCT {0}) FROM mm", [(1,)]),
        ("SELECT count(DISTINCT {0}, 1) FROM mm", [(1,)]),
    ],
)
def test_groups_of_maps_are_those_of_their_entries(
    session: Session, maps: None, engine: str, column: str, query: str, rows: list[tuple[int]]
) -> None:
    text = query.format(column)
    if engine == "duckdb":
        with pytest.raises(InvalidRequest, match="Use the engine spark"):
            session.sql(text, engine)
    else:
        assert [tuple(row.values()) for row in session.sql(text, engine).to_arrow().to_pylist()] == rows


@pytest.mark.parametrize("column", ["m", "s"])
@pytest.mark.parametrize(
    "query",
    [
        "SELECT DISTINCT {0} FROM mm",
        "SELECT {0} FROM mm UNION SELECT {0} FROM mm",
        "SELECT {0} FROM mm INTERSECT SELECT {0} FROM mm",
        "SELECT {0} FROM mm EXCEPT ALL SELECT {0} FROM mm",
        "SELECT row_number() OVER (PARTITION BY {0} ORDER BY id) FROM mm",
        "SELECT row_number() OVER w FROM mm WINDOW w AS (PARTITION BY {0} ORDER BY id)",
        "SELECT row_number() OVER (ORDER BY {0}) FROM mm",
        "SELECT id FROM mm WHERE {0} IN (SELECT {0} FROM mm)",
        "SELECT a.id FROM mm AS a JOIN mm AS b USING ({0})",
        "SELECT a.id FROM mm AS a JOIN mm AS b ON a.{0} = b.{0}",
        "SELECT max({0}) FROM mm",
        "SELECT greatest({0}, {0}) FROM mm",
        "SELECT nullif({0}, {0}) FROM mm",
        "INSERT INTO mm SELECT DISTINCT 3, m, s FROM mm",
    ],
)
def test_what_compares_maps_is_refused_as_spark_refuses_it(
    session: Session, maps: None, engine: str, column: str, query: str
) -> None:
    with pytest.raises(StorageError, match=r"(?i)\b[ms]\b|map"):
        session.sql(query.format(column), engine).to_arrow()
    assert session.table("default.mm").snapshots.latest().id == 1


def test_maps_that_nobody_compares_are_read_on_both_engines(sql: Sql, maps: None) -> None:
    assert sql("SELECT count(m), count(*) FROM mm") == [(2, 2)]
    assert sql("SELECT id FROM mm WHERE m IS NOT NULL ORDER BY id") == [(1,), (2,)]
    assert sql("SELECT count(*) FROM (SELECT m FROM mm UNION ALL SELECT m FROM mm)") == [(4,)]


@pytest.mark.parametrize("engine", ["duckdb"])
@pytest.mark.parametrize(
    "query",
    [
        "SELECT {0}, count(*) FROM z GROUP BY {0}",
        "SELECT DISTINCT {0} FROM z",
        "SELECT {0} FROM z UNION SELECT {0} FROM z",
    ],
)
@pytest.mark.parametrize("column", ["a", "s"])
def test_zeros_inside_of_keys_are_left_to_spark(sql: Sql, query: str, column: str) -> None:
    sql("CREATE TABLE z (a ARRAY<DOUBLE>, s STRUCT<f FLOAT>)")
    with pytest.raises(InvalidRequest, match="Use the engine spark"):
        sql(query.format(column))
