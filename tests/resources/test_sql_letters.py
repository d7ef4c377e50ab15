"""Texts in upper and lower case: every letter of Unicode is written as in Spark, or refused."""

import re

import pyarrow as pa
import pytest

from resources import Session
from resources.sql.duckdb_letters import LOWER_DIFFERS, UPPER_DIFFERS
from storage import InvalidRequest

pytestmark = pytest.mark.spark
LETTERS = [chr(code) for code in range(1, 0x20000) if not 0xD800 <= code < 0xE000]


@pytest.mark.parametrize(("word", "differs"), [("upper", UPPER_DIFFERS), ("lower", LOWER_DIFFERS)])
def test_case(session: Session, word: str, differs: str) -> None:
    other = re.compile("[" + re.sub(r"\\x\{([0-9a-f]+)\}", lambda match: rf"\U{int(match[1], 16):08x}", differs) + "]")
    alike = [character for character in LETTERS if not other.search(character)]
    assert len(LETTERS) - len(alike) < 400
    session.catalog.create_table("default.t", pa.schema([("letter", pa.string())])).write(pa.table({"letter": alike}))
    statement = f"SELECT letter, {word}(letter) AS changed FROM t ORDER BY 1"
    spark, duckdb = (session.sql(statement, engine).to_arrow() for engine in ("spark", "duckdb"))
    assert duckdb.equals(spark.cast(duckdb.schema))
    [letter] = [character for character in ("ΐ", "Σ") if other.search(character)]
    with pytest.raises(InvalidRequest, match="is not the same on DuckDB as in Spark"):
        session.sql(f"SELECT {word}('a{letter}')", "duckdb").to_arrow()


def test_ilike_of_a_letter_that_becomes_two_is_refused_on_duckdb(session: Session) -> None:
    session.catalog.create_table("default.t", pa.schema([("s", pa.string())])).write(pa.table({"s": ["İß", "Abc"]}))
    statement = "SELECT s FROM t WHERE s ILIKE 'i__' OR s ILIKE 'a%'"
    assert session.sql(statement, "spark").to_arrow().num_rows == 2
    with pytest.raises(InvalidRequest, match="ILIKE of such letters is not the same"):
        session.sql(statement, "duckdb").to_arrow()
    assert session.sql("SELECT s FROM t WHERE s LIKE 'A%' AND 'ABC' ILIKE 'a_c'", "duckdb").to_arrow().num_rows == 1
