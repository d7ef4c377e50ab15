"""Functions mean what they mean in Spark: nothing that is typed of a call is dropped, and none becomes another one."""

from typing import Any

import pyarrow as pa
import pytest
import sqlglot

from resources import Session
from resources.sql.engine_dialects import spark_text
from storage import InvalidRequest
from storage.sql.dialect import SnaplineSql

# As typed, and as Spark gets it where the words are others.
CALLS = {
    "DATEDIFF(a, b)": "",
    "DATEDIFF(DAY, a, b)": "",
    "TIMESTAMPDIFF(HOUR, a, b)": "",
    "UNIX_DATE(a)": "",
    "PERCENTILE_CONT(0.25) WITHIN GROUP (ORDER BY a DESC)": "",
    "PERCENTILE_DISC(0.3) WITHIN GROUP (ORDER BY a)": "",
    "LISTAGG(a)": "",
    "STRING_AGG(DISTINCT a, '|') WITHIN GROUP (ORDER BY a)": "",
    "PERCENTILE(a, 0.5, b)": "",
    "DATE_TRUNC(a, b)": "",
    "TRUNC(a, b)": "",
    "TRUNC(a, 'Q')": "",
    "DATE_TRUNC('month', a)": "DATE_TRUNC('MONTH', a)",
    "FROM_UNIXTIME(a, 'YYYY')": "",
    "DATE_FORMAT(a, 'MMM %Y')": "",
    "TO_DATE(a, 'yyyy-MM-dd')": "",
    "PARSE_JSON(a)": "",
    "MAX_BY(a, b, 2)": "",
    "MAX(a, b)": "",
    "LEVENSHTEIN(a, b, 3)": "",
    "DATE_SUB(a, 3)": "DATE_ADD(a, 3 * -1)",
    "LAST_DAY(a, b)": "",
    "INITCAP(a, b)": "",
    "COLLECT_LIST(a, b)": "",
    "TO_CHAR(a, '999')": "",
}


@pytest.mark.parametrize("call", CALLS)
def test_spark_gets_what_was_typed(call: str) -> None:
    tree = sqlglot.parse_one(f"SELECT {call}", dialect=SnaplineSql)
    assert spark_text(tree) == f"SELECT {CALLS[call] or call}"


def test_quotes_in_a_pattern_stay() -> None:
    tree = sqlglot.parse_one("SELECT date_format(a, 'yyyy''y''HH')", dialect=SnaplineSql)
    assert spark_text(tree) == r"SELECT DATE_FORMAT(a, 'yyyy\'y\'HH')"


@pytest.fixture
def texts(session: Session) -> None:
    schema = pa.schema([("id", pa.int32()), ("g", pa.string()), ("times", pa.int32()), ("day", pa.date32())])
    table = session.catalog.create_table("default.x", schema)
    days = pa.array([19000, 19001, 19002, 19003], pa.int32()).cast(pa.date32())
    table.write(
        pa.table({"id": [1, 2, 3, 4], "g": ["a", "a", "b", "year"], "times": [1, 1, 1, 9], "day": days}, schema)
    )


@pytest.mark.spark
@pytest.mark.usefixtures("texts")
def test_aggregates_and_dates_are_sparks(session: Session) -> None:
    asked: dict[str, Any] = {
        "percentile_cont(0.5) WITHIN GROUP (ORDER BY id)": 2.5,
        "percentile_cont(0.25) WITHIN GROUP (ORDER BY id DESC)": 3.25,
        "percentile(id, 0.5, times)": 4.0,
        "listagg(g) WITHIN GROUP (ORDER BY g)": "aabyear",
        "typeof(max(datediff(day, DATE '2020-01-01')))": "int",
        "typeof(max(unix_date(day)))": "int",
        "date_format(TIMESTAMP '2024-02-09 15:04:05', 'yyyyMMdd''y''HHmmss')": "20240209y150405",
        "to_date('year 2024-01-02', '''year'' yyyy-MM-dd') = DATE '2024-01-02'": True,
        "typeof(parse_json('1'))": "variant",
    }
    answers = session.sql(f"SELECT {', '.join(asked)} FROM x", "spark").to_arrow().to_pylist()
    assert dict(zip(asked, answers[0].values(), strict=True)) == asked
    rows = session.sql("SELECT date_trunc(g, day) IS NULL AS n FROM x ORDER BY id", "spark").to_arrow().to_pylist()
    assert [row["n"] for row in rows] == [True, True, True, False]


@pytest.mark.usefixtures("texts")
@pytest.mark.parametrize("call", ["datediff(day, day, day)", "listagg(g)", "percentile(id, 0.5, times)", "max(id, id)"])
def test_duckdb_refuses_those_that_it_has_no_rule_for(session: Session, call: str) -> None:
    with pytest.raises(InvalidRequest, match="Use the engine spark"):
        session.sql(f"SELECT {call} FROM x", "duckdb")
    assert (
        session.sql("SELECT datediff(day, DATE '2022-01-01') AS n FROM x", "duckdb").to_arrow()["n"].type == pa.int32()
    )


@pytest.mark.spark
@pytest.mark.usefixtures("texts")
def test_views_hold_them_too(session: Session) -> None:
    session.sql("CREATE VIEW v AS SELECT listagg(g, '-') WITHIN GROUP (ORDER BY g) AS all_of_them FROM x", "spark")
    assert session.sql("SELECT all_of_them FROM v", "spark").to_arrow().to_pylist() == [{"all_of_them": "a-a-b-year"}]
