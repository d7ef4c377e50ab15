"""Point at the place in a statement that an error is about."""

import re

from sqlglot import exp
from sqlglot.errors import ParseError

from storage import InvalidRequest, StorageError

_MISSING = re.compile(r"Required (?:keyword|argument): '\w+' missing for <class '[\w.]*?(\w+)'>")

_TOKEN = re.compile(r" but got (?:<Token .*|None)$")


def parse_failure(error: ParseError) -> InvalidRequest:
    """What the parser says, with line and column, and the text around."""
    details = error.errors[0] if error.errors else {}
    line, column = details.get("line"), details.get("col")
    if column is not None:
        column = max(1, column - len(details.get("highlight") or " ") + 1)
    near = f"{details.get('start_context') or ''}⟦{details.get('highlight') or ''}⟧{details.get('end_context') or ''}"
    message = _MISSING.sub(_missing, details.get("description") or str(error).splitlines()[0])
    message = _TOKEN.sub("", message).rstrip(".")
    where = f"line {line}, column {column}" if line else "the statement"
    return InvalidRequest(f"SQL error at {where}: {message}. Near: {' '.join(near.split())[-120:]}")


def _missing(match: re.Match[str]) -> str:
    return f"{'WHEN' if match[1] == 'Whens' else 'a value or a clause'} is missing here"


def at(node: exp.Expr, error: StorageError) -> StorageError:
    """The same error, saying where in the statement the node stands, unless it says so already."""
    line, column = _position(node)
    return (
        error
        if line is None or str(error).startswith("Line ")
        else type(error)(f"Line {line}, column {column}: {error}")
    )


def _position(node: exp.Expr) -> tuple[int | None, int | None]:
    for part in (node, *node.find_all(exp.Identifier)):
        if "line" in part.meta:
            # The parser counts to the end of a name.
            return part.meta["line"], part.meta["col"] - (part.meta["end"] - part.meta["start"])
    return None, None
