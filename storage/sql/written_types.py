"""Types as statements write them: what sqlglot reads and says nothing of is refused by name, or read as what it says. Pure."""

from collections.abc import Sequence

from sqlglot import exp
from sqlglot.tokens import Token, TokenType

_Type = exp.DataType.Type
# Key of the meta data of a type in a tree: the words that it was written with, where they say something else than the tree.
_WRITTEN = "written"
# Key of the meta data of the type of elements, keys or values behind which NOT NULL stands.
REQUIRED = "required"
_WITH_ZONE, _WITHOUT_ZONE = "WITH TIME ZONE", "WITHOUT TIME ZONE"
_MOMENTS = "a moment is TIMESTAMP_LTZ, a time on a clock TIMESTAMP_NTZ"
_MISLEADING = {
    "INT8": "INT8 has one byte in some systems and eight in others: write TINYINT or BIGINT",
    "BLOB": "BLOB is a type of the format that is not written here: BYTES holds bytes of any length",
    "TIMESTAMPTZ": f"TIMESTAMPTZ is not known: {_MOMENTS}",
    "VARCHAR": "VARCHAR takes one whole number in parentheses",
    _WITH_ZONE: f"TIMESTAMP {_WITH_ZONE} is not known: {_MOMENTS}",
}
_CALLED = {
    _Type.TEXT: "STRING",
    _Type.TIMESTAMPTZ: "TIMESTAMP",
    _Type.TIMESTAMPNTZ: "TIMESTAMP_NTZ",
    _Type.TIMESTAMPLTZ: "TIMESTAMP_LTZ",
}
# How many numbers a type takes at the most; in tables those of the format as well.
_TAKES = {_Type.DECIMAL: 2, _Type.VARCHAR: 1, _Type.CHAR: 1}
_TAKES_IN_TABLES = dict.fromkeys(
    (
        _Type.BINARY,
        _Type.VARBINARY,
        _Type.TIME,
        _Type.TIMESTAMP,
        _Type.TIMESTAMPTZ,
        _Type.TIMESTAMPNTZ,
        _Type.TIMESTAMPLTZ,
    ),
    1,
)


def as_written(node: exp.DataType, tokens: Sequence[Token]) -> exp.DataType:
    """The tree of a type that was written with some tokens: what they say is kept where the tree does not."""
    words = [token.text.upper() for token in tokens]
    text = " ".join(words)
    if words[0] in ("INT8", "TIMESTAMPTZ", "BLOB"):
        node.meta[_WRITTEN] = words[0]
    elif tokens[0].token_type in (TokenType.VARCHAR, TokenType.CHAR):
        # In a query each is a text of any length, as in Spark: the tree has nothing of what stands in parentheses.
        within = [
            token.token_type for token in tokens if token.token_type not in (TokenType.L_PAREN, TokenType.R_PAREN)
        ]
        if node.this == _Type.TEXT and within[1:] not in ([], [TokenType.NUMBER]):
            node.meta[_WRITTEN] = "VARCHAR"
    elif words[0] == "TIMESTAMP" and _WITH_ZONE in text:
        node.meta[_WRITTEN] = _WITH_ZONE
    elif words[0] == "TIMESTAMP" and _WITHOUT_ZONE in text:
        node.set("this", _Type.TIMESTAMPNTZ)
    return node


def refusal(node: exp.DataType, *, stored: bool) -> str:
    """Why a type, without those inside of it, cannot be as it was written; "" if it can. `stored`: as the type of a column of a
    table, and not of a value in a query.
    """
    inner = node.expressions
    if _WRITTEN in node.meta:
        return _MISLEADING[node.meta[_WRITTEN]]
    if REQUIRED in node.meta and not stored:
        return "NOT NULL of elements, keys and values is part of a column's type in a table: leave it out of a query"
    if node.args.get("nullable"):
        return "NULLABLE(…) is not known: a type takes nulls unless NOT NULL is said"
    match node.this:
        case _Type.ARRAY:
            return "" if len(inner) == 1 else "ARRAY takes one type, that of its elements: ARRAY<INT>"
        case _Type.MAP:
            return "" if len(inner) == 2 else "MAP takes two types, of its keys and of its values: MAP<STRING, INT>"
        case _Type.STRUCT:
            return _refusal_of_fields(inner)
    return _refusal_of_arguments(node.this, inner, _TAKES | _TAKES_IN_TABLES if stored else _TAKES)


def _refusal_of_fields(fields: Sequence[exp.Expr]) -> str:
    if not fields or not all(isinstance(each, exp.ColumnDef) for each in fields):
        return "STRUCT takes fields, each with a name and a type: STRUCT<a INT, b STRING>"
    names = [each.name for each in fields]
    twice = next((name for name in names if names.count(name) > 1), None)
    return "" if twice is None else f"STRUCT has field {twice!r} twice: give each a name of its own"


def _refusal_of_arguments(kind: object, arguments: Sequence[exp.Expr], takes: dict[exp.DType, int]) -> str:
    if not arguments or not isinstance(kind, _Type):
        return ""
    name = _CALLED.get(kind, kind.value)
    numbers = [each.this if isinstance(each, exp.DataTypeParam) else each for each in arguments]
    most = takes.get(kind, 0)
    if not most:
        return f"{name} takes nothing in parentheses{' in a query' if kind in _TAKES_IN_TABLES else ''}: leave it out"
    if len(numbers) > most or not all(isinstance(each, exp.Literal) and each.is_int for each in numbers):
        return f"{name} takes {'one whole number' if most == 1 else 'up to two whole numbers'} in parentheses"
    return ""
