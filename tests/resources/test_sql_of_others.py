"""What other systems write in SELECT and Spark does not is refused by name, on both engines; `v:a` takes a part of a VARIANT."""

from collections.abc import Callable
from typing import Any

import pytest

from resources import Session
from resources.sql.engine_dialects import spark_text
from resources.sql.parsing import parse
from storage import InvalidRequest

pytestmark = pytest.mark.spark
Sql = Callable[[str], Any]


@pytest.mark.parametrize(
    ("query", "advice"),
    [
        ("SELECT {{'a': 1}} FROM k", "named_struct"),
        ("SELECT {{a: 1}} FROM k", "named_struct"),
        ("SELECT MAP {{'a': 1}} FROM k", "named_struct"),
        ("SELECT [1, 2]", "array"),
        ("SELECT [x FOR x IN array(1, 2)]", "array"),
        ("SELECT array(x FOR x IN array(1, 2))", "transform"),
        ("SELECT ARRAY<INT>[1]", "CAST"),
        ("SELECT STRUCT<a INT>(1)", "CAST"),
        ("SELECT s[1:2] FROM k", "slice"),
        ("SELECT s -> '$.a' FROM k", "get_json_object"),
        ("SELECT s ->> '$.a' FROM k", "get_json_object"),
        ("SELECT s #> 'a' FROM k", "get_json_object"),
        ("SELECT s ~* 'a' FROM k", "RLIKE"),
        ("SELECT s GLOB 'a*' FROM k", "RLIKE"),
        ("SELECT s SIMILAR TO 'a' FROM k", "RLIKE"),
        ("SELECT * EXCLUDE (s) FROM k", "EXCEPT"),
        ("SELECT * EXCLUDE s FROM k", "EXCEPT"),
        ("SELECT k.* EXCLUDE (s) FROM k", "EXCEPT"),
        ("SELECT * REPLACE (id + 1 AS id) FROM k", "EXCEPT"),
        ("SELECT * RENAME (id AS i) FROM k", "EXCEPT"),
        ("SELECT * ILIKE 'i%' FROM k", "name the columns"),
        ("SELECT id INTO x FROM k", "CREATE TABLE t AS"),
        ("SELECT id FROM k WITH (NOLOCK)", "leave it out"),
        ("SELECT x FROM UNNEST(array(1)) AS t(x)", "explode"),
        ("SELECT id FROM k CROSS APPLY (SELECT 1)", "CROSS JOIN LATERAL"),
        ("SELECT id FROM k OUTER APPLY (SELECT 1)", "LEFT JOIN LATERAL"),
        ("SELECT AS STRUCT 1 AS a", "struct"),
        ("SELECT count(*) FILTER (id > 1) FROM k", "WHERE"),
        ("SELECT id FROM k UNION ALL CORRESPONDING SELECT id FROM k", "BY NAME"),
        ("WITH x AS MATERIALIZED (SELECT 1 AS a) SELECT * FROM x", "leave it out"),
        ("SELECT id IN [1, 2] FROM k", "parentheses"),
        ("SELECT id = ANY (array(1)) FROM k", "array_contains"),
        ("SELECT id = ANY (SELECT 1) FROM k", "array_contains"),
        ("SELECT * FROM k USING SAMPLE 50%", "TABLESAMPLE"),
        ("SELECT * FROM k TABLESAMPLE BERNOULLI (50)", "TABLESAMPLE"),
        ("SELECT * FROM k TABLESAMPLE (10)", "TABLESAMPLE"),
        ("SELECT * FROM k WHERE s NOT NULL", "v IS NOT NULL"),
        ("SELECT s NOT IS NULL FROM k", "v IS NOT NULL"),
        ("SELECT s LIKE 'a' NOT NULL FROM k", "v IS NOT NULL"),
        ("DELETE FROM k WHERE s NOT NULL", "v IS NOT NULL"),
        ("UPDATE k SET id = 1 WHERE NOT s NOT NULL", "v IS NOT NULL"),
        ("MERGE INTO k USING k AS l ON k.s NOT NULL WHEN MATCHED THEN DELETE", "v IS NOT NULL"),
        ("CREATE TABLE 'c' (id INT)", "back quotes"),
        ('CREATE TABLE "c" (id INT)', "back quotes"),
        ("SELECT * FROM 'k'", "back quotes"),
        ("SELECT * FROM k AS 'l'", "back quotes"),
        ("SELECT * FROM k 'l'", "back quotes"),
        ("INSERT INTO 'k' VALUES (1)", "back quotes"),
        ("DROP TABLE 'k'", "back quotes"),
        ("USE 'db'", "back quotes"),
        ("CREATE TABLE c (id INT, b AS id + 1 NOT NULL)", "computed column takes no NOT NULL"),
        ("CREATE TABLE c (id INT, b INT AS (id + 1) NOT NULL COMMENT 'x')", "computed column takes no NOT NULL"),
    ],
)
def test_what_other_systems_write_is_refused_with_what_spark_has(query: str, advice: str) -> None:
    with pytest.raises(InvalidRequest, match=advice) as raised:
        spark_text(parse(query.replace("{{", "{").replace("}}", "}"))[0])
    assert "\n" not in str(raised.value).split("Near:")[0]


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("SELECT v:a.b, v:['a b'][0]", "SELECT v:a.b, v:['a b'][0]"),
        ("SELECT t.v:A::INT FROM t", "SELECT CAST(t.v:A AS INT) FROM t"),
        ("SELECT parse_json(s):a:b FROM k", "SELECT PARSE_JSON(s):a:b FROM k"),
        ("SELECT get_json_object(s, '$.a') FROM k", "SELECT GET_JSON_OBJECT(s, '$.a') FROM k"),
        ("SELECT `array`[0] FROM t", "SELECT `array`[0] FROM t"),
        ("SELECT DATE '2024-05-01'::STRING", "SELECT CAST(CAST('2024-05-01' AS DATE) AS STRING)"),
        ("SELECT id NOTNULL FROM k", "SELECT id AS NOTNULL FROM k"),
        (
            "SELECT s IS NOT NULL, NOT s IS NULL, s NOT IN ('a'), s NOT LIKE 'a' FROM k",
            "SELECT NOT s IS NULL, NOT s IS NULL, NOT s IN ('a'), s NOT LIKE 'a' FROM k",
        ),
        (
            "SELECT * FROM k TABLESAMPLE (10 ROWS) REPEATABLE (1)",
            "SELECT * FROM k TABLESAMPLE (10 ROWS) REPEATABLE (1)",
        ),
        ("SELECT transform(a, x -> x + 1) FROM k", "SELECT TRANSFORM(a, x -> x + 1) FROM k"),
    ],
)
def test_what_spark_has_is_written_as_it_means(query: str, text: str) -> None:
    assert spark_text(parse(query)[0]) == text


def test_a_part_of_a_variant_is_taken_on_spark_and_texts_have_none(session: Session) -> None:
    session.sql("CREATE TABLE v (id INT, v VARIANT, s STRING)", "duckdb")
    session.sql("""INSERT INTO v SELECT 1, parse_json('{"a":{"b":5}}'), '{"a":5}'""", "spark")
    query = "SELECT v:a.b::INT AS b, parse_json(s):a::INT AS a FROM v WHERE v:a.b::INT = 5"
    assert session.sql(query, "spark").to_arrow().to_pylist() == [{"b": 5, "a": 5}]
    with pytest.raises(InvalidRequest, match="VARIANT"):
        session.sql("INSERT INTO v SELECT id, v, s:a FROM v", "spark")
    for query in ("SELECT s:a FROM v", "SELECT v:a FROM v"):
        with pytest.raises(InvalidRequest, match="Use the engine spark"):
            session.sql(query, "duckdb")


def test_types_before_texts_go_before_casts_on_both_engines(sql: Sql) -> None:
    assert sql("SELECT DATE '2024-05-01'::STRING AS r") == [("2024-05-01",)]
