"""Types of columns at every depth, NOT NULL and comments inside of them too: as they are declared, kept, shown and made again."""

import json
import os
import random
from collections.abc import Callable
from typing import Any

import pytest

from resources import Session
from storage import InvalidRequest

pytestmark = pytest.mark.spark
Sql = Callable[[str], Any]
PLAIN = (
    *("TINYINT", "INT", "BIGINT", "DOUBLE", "BOOLEAN", "STRING", "VARCHAR(7)", "BYTES", "BINARY(3)", "VARBINARY(4)"),
    *("DATE", "TIME(3)", "DECIMAL(9, 2)", "TIMESTAMP(3)", "TIMESTAMP_LTZ(6)"),
)
COMMENTS = ("yy", "", "it''s", "a > b, `c` <d>", "NOT NULL", r"back\\slash", "\u00fc \u6f22")


def _type(random_: random.Random, depth: int) -> str:
    kind = random_.choice(("ARRAY", "MAP", "ROW", "ROW")) if depth and random_.random() < 0.8 else "plain"
    required = random_.choice(("", " NOT NULL"))
    match kind:
        case "ARRAY":
            return f"ARRAY<{_type(random_, depth - 1)}>{required}"
        case "MAP":
            return f"MAP<{_type(random_, 0)}, {_type(random_, depth - 1)}>{required}"
        case "ROW":
            fields = (
                f"`f {number}` {_type(random_, depth - 1)}{_comment(random_)}"
                for number in range(random_.randrange(1, 4))
            )
            return f"ROW<{', '.join(fields)}>{required}"
    return random_.choice(PLAIN) + required


def _comment(random_: random.Random) -> str:
    return random_.choice(("", f" COMMENT '{random_.choice(COMMENTS)}'"))


@pytest.mark.parametrize("engine", ["duckdb"])
def test_what_show_create_table_prints_makes_the_same_table(sql: Sql, session: Session) -> None:
    seed = int(os.environ.get("SNAPLINE_TEST_SEED") or random.randrange(2**32))
    print(f"SNAPLINE_TEST_SEED={seed}")
    random_ = random.Random(seed)
    for number in range(25):
        declared = [f"c{column} {_type(random_, 4)}{_comment(random_)}" for column in range(3)]
        sql(f"CREATE TABLE t{number} ({', '.join(declared)})")
        ((text,),) = sql(f"SHOW CREATE TABLE t{number}")
        sql(text.replace(f"`t{number}`", f"`u{number}`", 1))
        first, second = (json.loads(session.table(f"default.{name}{number}").schema.to_json()) for name in "tu")
        assert first["fields"] == second["fields"], text
        # And what was declared is there: no word of it is lost on both ways.
        kept, words = json.dumps(first["fields"]), " ".join(declared)
        assert kept.count("NOT NULL") == words.count("NOT NULL"), text
        assert kept.count('"description"') == words.count(" COMMENT ")


@pytest.mark.parametrize("engine", ["duckdb"])
def test_comments_and_not_null_inside_of_types_are_described(sql: Sql) -> None:
    sql(
        "CREATE TABLE t (a STRUCT<y: STRING COMMENT 'yy'>, m MAP<STRING, STRUCT<q: INT NOT NULL>>, x ARRAY<INT NOT NULL>)"
    )
    sql("ALTER TABLE t ALTER COLUMN a.y COMMENT 'zz'")
    shown = ["ROW<`y` STRING COMMENT 'zz'>", "MAP<STRING, ROW<`q` INT NOT NULL>>", "ARRAY<INT NOT NULL>"]
    assert [row[1] for row in sql("DESCRIBE t")] == shown
    assert all(kind in sql("SHOW CREATE TABLE t")[0][0] for kind in shown)


def test_elements_that_are_not_null_take_no_nulls(sql: Sql) -> None:
    sql("CREATE TABLE t (x ARRAY<INT NOT NULL>); INSERT INTO t SELECT array(1, 2)")
    with pytest.raises(InvalidRequest, match=r"x\.element is NOT NULL|cannot cast"):
        sql("INSERT INTO t SELECT array(1, CAST(NULL AS INT))")
    assert sql("SELECT x FROM t") == [([1, 2],)]


@pytest.mark.parametrize("engine", ["duckdb"])
@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("CREATE TABLE t (a STRUCT<x: INT PRIMARY KEY>)", "'x' of a struct takes NOT NULL and COMMENT"),
        ("CREATE TABLE t (a STRUCT<x: INT DEFAULT 5>)", "'x' of a struct takes NOT NULL and COMMENT"),
        ("CREATE TABLE t (a STRUCT<x: INT COMMENT 'a' COMMENT 'b'>)", "COMMENT of field 'x' is given twice"),
        ("CREATE TABLE t (a INT COMMENT 'a' COMMENT 'b')", r"COMMENT is given twice\. Give it once\.$"),
        ("SELECT CAST(array(1) AS ARRAY<INT NOT NULL>)", "leave it out of a query"),
    ],
)
def test_what_a_type_does_not_take_is_refused(sql: Sql, statement: str, reason: str) -> None:
    with pytest.raises(InvalidRequest, match=reason):
        sql(statement)
