"""Patterns of statements that packages add fit the parameters of what they call, and begin as no statement of the platform."""

import pytest
import sqlglot
from sqlglot.errors import ParseError

from storage import InvalidRequest
from storage.sql import dialect
from storage.sql.added_statements import FIRST_WORDS, Clause, read_pattern

REQUIRED = {"table": True, "rows": False, "deep": False}


def test_a_pattern_says_what_is_typed_and_what_may_be_left_out() -> None:
    statement = read_pattern("PEEK TABLE table [ROWS rows] [AND DEEP]", "peek", REQUIRED, {"deep"})
    assert statement.words == ("PEEK", "TABLE")
    assert statement.clauses == (
        Clause(("PEEK", "TABLE"), "table"),
        Clause(("ROWS",), "rows", is_optional=True),
        Clause(("AND", "DEEP"), "deep", is_optional=True, is_flag=True),
    )


@pytest.mark.parametrize(
    ("pattern", "says"),
    [
        ("", "begin with an upper-case word"),
        ("table PEEK", "no parameter follows|begin with"),
        ("PEEK", "no parameter follows"),
        ("[PEEK table]", "begin with|brackets"),
        ("PEEK table [ROWS rows", "not closed"),
        ("PEEK table [rows]", "bracket holds words"),
        ("PEEK table [[ROWS rows]]", "bracket holds words"),
        ("PEEK table ]", "bracket holds words"),
        ("PEEK table = rows", "make a statement"),
        ("PEEK table [ROWS other]", "no parameter"),
        ("PEEK table [ROWS rows] [AGAIN rows]", "twice"),
        ("PEEK table [ROWS]", "no flag"),
        ("PEEK table [WITH deep]", "a flag"),
        ("PEEK rows [OF table]", "has to be given"),
        ("PEEK rows", "left out"),
        ("SELECT table", "begins statements of the platform"),
        ("CREATE INDEX ON table", "begins statements of the platform"),
    ],
)
def test_a_pattern_that_fits_no_procedure_is_refused(pattern: str, says: str) -> None:
    with pytest.raises(InvalidRequest, match=says):
        read_pattern(pattern, "peek", REQUIRED, {"deep"})


def test_the_words_that_begin_statements_of_the_platform_are_all_known() -> None:
    assert {words[0] for words in dialect._STATEMENTS} <= FIRST_WORDS
    for word in {token.name for token in dialect._Parser.STATEMENT_PARSERS} - FIRST_WORDS - {"SEMICOLON", "STRING"}:
        with pytest.raises(ParseError):
            sqlglot.parse(f"{word} t", read=dialect.SnaplineSql)
