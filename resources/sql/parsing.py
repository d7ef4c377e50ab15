"""From the text of SQL statements to trees."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, TokenError

from storage import (
    InvalidRequest,
    remember,
    secrets_in,
)
from storage.sql.dialect import SnaplineSql
from storage.sql.predicate_text import MOST_NESTED

from .ends import open_piece
from .numbers import with_doubles
from .place import parse_failure

if TYPE_CHECKING:
    pass


@contextmanager
def bounded_depth() -> Iterator[None]:
    """Raise InvalidRequest for a statement that is nested deeper than it can be read."""
    try:
        yield
    except RecursionError:
        raise InvalidRequest(
            f"The statement is nested too deeply: parentheses and NOT may stand in each other up to {MOST_NESTED} deep, and a "
            "few hundred conditions in a row. Write IN (…) instead of many conditions with OR."
        ) from None


def parse(text: str) -> list[exp.Expr]:
    """The statements of a text. Raises InvalidRequest that points at the place that is wrong."""
    # What an error quotes of the text may be a half of what says that it is a secret.
    for secret in secrets_in(text, of_statement=True):
        remember(secret)
    try:
        with bounded_depth():
            trees = sqlglot.parse(text, read=SnaplineSql)
    except ParseError as error:
        raise parse_failure(error) from None
    except TokenError as error:
        unclosed = open_piece(text)
        if unclosed is not None:
            raise InvalidRequest(
                f"SQL error at line {unclosed.line}, column {unclosed.column}: {unclosed.what} begins here and is not closed."
            ) from None
        raise InvalidRequest(f"SQL error: {str(error).splitlines()[0]}") from None
    statement_trees = (tree for tree in trees if tree is not None and not isinstance(tree, exp.Semicolon))
    statements = [with_doubles(_schema_as_database(each), text) for each in statement_trees]
    if not statements:
        raise InvalidRequest("There is no statement in the text.")
    return statements


def _schema_as_database(tree: exp.Expr) -> exp.Expr:
    """CREATE and DROP SCHEMA, which are those of a database."""
    if isinstance(tree, exp.Create | exp.Drop) and tree.args.get("kind") == "SCHEMA":
        tree.set("kind", "DATABASE")
        for table in tree.args.get("tables") or [tree.this]:
            if isinstance(table, exp.Table) and table.args.get("this") is None:
                table.set("this", table.args.get("db"))
                table.set("db", table.args.get("catalog"))
                table.set("catalog", None)
    return tree
