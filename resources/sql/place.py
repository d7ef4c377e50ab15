"""Point at the place in a statement that an error is about."""

from sqlglot import exp
from sqlglot.errors import ParseError

from storage import InvalidRequest, StorageError


def parse_failure(error: ParseError) -> InvalidRequest:
    """What the parser says, with line and column, and the text around."""
    found = error.errors[0] if error.errors else {}
    line, column = found.get("line"), found.get("col")
    if column is not None:
        column = max(1, column - len(found.get("highlight") or " ") + 1)
    near = f"{found.get('start_context') or ''}⟦{found.get('highlight') or ''}⟧{found.get('end_context') or ''}"
    said = (found.get("description") or str(error).splitlines()[0]).rstrip(".")
    where = f"line {line}, column {column}" if line else "the statement"
    return InvalidRequest(f"SQL error at {where}: {said}. Near: {' '.join(near.split())[-120:]}")


def at(node: exp.Expr, error: StorageError) -> StorageError:
    """The same error, saying where in the statement the node stands, unless it says so already."""
    line, column = _position(node)
    return (
        error
        if line is None or str(error).startswith("Line ")
        else type(error)(f"Line {line}, column {column}: {error}")
    )


def _position(node: exp.Expr) -> tuple[int | None, int | None]:
    for one in (node, *node.find_all(exp.Identifier)):
        if "line" in one.meta:
            # The parser counts to the end of a name.
            return one.meta["line"], one.meta["col"] - (one.meta["end"] - one.meta["start"])
    return None, None
