"""Whatever Spark's parser takes is parsed here too, or refused by the name of its clause: a walk over Spark's whole grammar."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from resources import Session, Settings
from resources.spark_session import start_spark
from resources.sql.parsing import parse
from storage import InvalidRequest, StorageError
from tests.resources.spark_grammar import spark_grammar

pytestmark = pytest.mark.spark
# What the parser below says of any token that it did not expect.
_UNNAMED = re.compile(r"Invalid expression|Expecting|Required|Unsupported|<class|begins no statement")


@pytest.fixture(scope="module")
def sentences() -> list[str]:
    """Statements that Spark's parser takes, one at least for each way through a rule."""
    spark = start_spark(Settings.from_environment())
    parser = spark._jsparkSession.sessionState().sqlParser()
    known = []
    for text in spark_grammar(spark._jvm).sentences():
        try:
            parser.parsePlan(text)
        except Exception as error:
            assert type(error).__name__ in ("ParseException", "Py4JJavaError", "IllegalArgumentException"), error
            continue
        known.append(text)
    assert len(known) > 700
    return known


def test_each_is_parsed_or_refused_by_name(sentences: list[str]) -> None:
    unnamed = {}
    for text in sentences:
        try:
            parse(text)
        except StorageError as error:
            if _UNNAMED.search(str(error)):
                unnamed[text] = str(error)
    assert not unnamed


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("ALTER TABLE t ADD PARTITION (d = 1) LOCATION '/x'", "LOCATION is not known here: partitions lie in"),
        ("ALTER TABLE t DROP PARTITION (d = 1) PURGE", "PURGE is not known here"),
        (
            "ALTER TABLE t PARTITION (d = 1) RENAME TO PARTITION (d = 2)",
            "RENAME TO PARTITION is not known here: UPDATE",
        ),
        ("ALTER TABLE t PARTITION (d = 1) SET LOCATION '/x'", "SET LOCATION is not known here"),
        (
            "ALTER TABLE t ALTER COLUMN a COMMENT 'x', b COMMENT 'y'",
            "changes one column: write an ALTER TABLE for each",
        ),
        ("INSERT INTO t WITH SCHEMA EVOLUTION SELECT 1", "WITH SCHEMA EVOLUTION is not known here: ALTER TABLE"),
        ("INSERT OVERWRITE t PARTITION (d = 1) IF NOT EXISTS SELECT 1", "IF NOT EXISTS is not known here"),
        ("MSCK REPAIR TABLE t", "MSCK REPAIR is not known here: partitions are there"),
        ("DESCRIBE t AS JSON", "AS JSON is not known here"),
        ("SHOW CREATE TABLE t AS SERDE", "AS SERDE is not known here"),
        ("FROM t |> LIMIT 1 |> WHERE a > 1", "|> is not known here: write SELECT"),
        ("SELECT * FROM t CHANGES FROM VERSION 1", "CHANGES FROM is not known here: a streaming INSERT"),
        ("SELECT a FROM t WHERE JOIN > 1", "JOIN is a word of SQL, and no value: as a name it stands in back quotes"),
        ("SELECT * FROM t TIDY UP", "'UP' is no part of a statement that is known here"),
    ],
)
def test_what_is_not_known_is_refused_by_the_name_of_its_clause(text: str, named: str) -> None:
    with pytest.raises(InvalidRequest) as raised:
        parse(text)
    assert named in str(raised.value)


@pytest.mark.parametrize(
    "clause",
    [
        "FOR SYSTEM_VERSION AS OF 1",
        "FOR VERSION AS OF 1",
        "SYSTEM_TIME AS OF '2999-01-01'",
        "FOR TIMESTAMP AS OF '2999-01-01'",
    ],
)
def test_all_spellings_of_a_version_mean_it(sql: Callable[[str], Any], clause: str) -> None:
    sql("CREATE TABLE t (a INT); INSERT INTO t VALUES (1)")
    assert sql(f"SELECT x.a FROM t {clause} x") == [(1,)]
    assert sql("SELECT a FROM t WHERE a ! IN (2) AND ! a IS NULL") == [(1,)]
    sql("CREATE TABLE IF ! EXISTS t (b INT); ALTER TABLE t ALTER COLUMN a SET ! NULL")


def test_columns_of_a_lateral_view_need_no_as(session: Session) -> None:
    session.sql("CREATE TABLE t (a INT); INSERT INTO t VALUES (1)", "duckdb")
    rows = session.sql("SELECT a, c FROM t LATERAL VIEW explode(array(5, 6)) x c", "spark").to_arrow()
    assert rows.to_pylist() == [{"a": 1, "c": 5}, {"a": 1, "c": 6}]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("CREATE TABLE IF NOT EXISTS (a INT)", "Expected table name"),
        ("SELECT a FROM t WHERE b = '?' 5", "'5' is no part of a statement"),
        ("SELECT `location` 5 FROM t", "'5' is no part of a statement"),
        ("SELECT * FROM location 5", "'5' is no part of a statement"),
        ("SELECT a AS json b FROM t", "'b' is no part of a statement"),
        ("CREATE TABLE t (map STRING location INT)", "Expected ), and not 'location'"),
        ("DROP TABLE purge purge2", "'purge2' is no part of a statement"),
        ("CREATE TABLE t (watermark INT)", "a column of that name stands in back quotes"),
        ("SELECT a ! = b", "'!' is no part of a statement"),
        ("SELECT map(1, 2, 3)", "map does not take these arguments"),
        ("SELECT date_trunc()", "date_trunc does not take these arguments"),
        ("SELECT regexp_replace(1, 2)", "regexp_replace does not take these arguments"),
    ],
)
def test_names_and_texts_are_taken_for_no_clauses(text: str, said: str) -> None:
    with pytest.raises(InvalidRequest) as raised:
        parse(text)
    assert said in str(raised.value)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT map, location, stream, changes, declare, begin, commit, reduce, purge FROM t",
        "ALTER TABLE t ADD check INT",
        "SELECT * FROM map",
        "SELECT * FROM t LATERAL VIEW explode(c) x `e`",
    ],
)
def test_words_of_clauses_are_names(text: str) -> None:
    parse(text)
