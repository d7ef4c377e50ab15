"""A statement's tree that remembers which of its parts were asked for. What nobody has asked for is refused by name.

A statement is planned first and acted upon then; between the two, whatever the plan has not asked for is an error. So a clause
that the parser takes and nobody carries out cannot be ignored, whichever it is. A part that is copied is passed on whole: who
takes the copy (the compiler of a query for an engine) answers for it.
"""

from collections.abc import Iterator
from typing import Any

from sqlglot import exp

from storage import InvalidRequest, StorageError
from storage.sql.commands import Export
from storage.sql.dialect import HINT_OPTIONS, shown

from .place import at

# How a name or a text is written means nothing; that a type has types inside is said by them.
_WITHOUT_MEANING = {"quoted", "is_string", "nested"}
_NAMES_OF_CLAUSES = {
    "alternative": "OR REPLACE | OR IGNORE",
    "by_name": "BY NAME",
    "conflict": "ON CONFLICT",
    "default": "DEFAULT VALUES",
    "exists": "IF [NOT] EXISTS",
    "from_": "FROM",
    "is_database": "DATABASE",
    "is_function": "FUNCTION",
    "joins": "JOIN",
    "laterals": "LATERAL VIEW",
    "order": "ORDER BY",
    "properties": "with COMMENT, LOCATION or properties",
    "pivots": "PIVOT",
    "replace": "OR REPLACE",
    "sample": "TABLESAMPLE",
    "stored": "STORED AS",
    "tables": "without FROM",
    "using_cond": "USING (columns)",
    "version": "VERSION AS OF",
    "where": "REPLACE WHERE",
    HINT_OPTIONS: "OPTIONS(…)",
}
_ADVICE = {
    "alias": "The statement takes the name of a table alone.",
    "conflict": "Rows of a table with a primary key replace those with the same key; otherwise use MERGE INTO.",
    "from_": "Use MERGE INTO.",
    "tables": "Write DELETE FROM t.",
    "where": "EXPLAIN its query.",
    "using": "Use MERGE INTO.",
    "with_": "Use MERGE INTO … USING (WITH … SELECT …).",
}
_ADVICE_ABOUT: dict[str, str] = {
    "TemporaryProperty": "There are no temporary tables: create one, and drop it afterwards.",
    "ExternalProperty": "Every table lies in the warehouse of its catalog: leave EXTERNAL out.",
    "FileFormatProperty": "The format of data files is an option: WITH ('file.format' = 'parquet').",
    "LocationProperty": "Every table lies in the warehouse of its catalog: CREATE CATALOG makes another.",
    "ClusteredByProperty": "Buckets are options: WITH ('bucket' = '4', 'bucket-key' = 'a').",
    "RowFormatDelimitedProperty": "The format of data files is an option: WITH ('file.format' = 'parquet').",
    "RowFormatSerdeProperty": "The format of data files is an option: WITH ('file.format' = 'parquet').",
}


class _Asked(dict[str, Any]):
    """The parts of a node, and which of them were asked for. Walking over a tree asks for none."""

    def __init__(self, parts: dict[str, Any]) -> None:
        super().__init__(parts)
        self.asked: set[str] = set()
        self.copied = False

    def get(self, key: str, default: Any = None) -> Any:
        self.asked.add(key)
        return super().get(key, default)

    def __getitem__(self, key: str) -> Any:
        self.asked.add(key)
        return super().__getitem__(key)

    def items(self) -> Any:
        self.copied = True
        return super().items()


def watch(tree: exp.Expr) -> exp.Expr:
    """The tree, which remembers from now on what it is asked for."""
    for node in list(tree.walk()):
        options = node.meta_get(HINT_OPTIONS)
        node.args = _Asked({**dict(node.args), **({HINT_OPTIONS: options} if options else {})})
    return tree


def take(node: exp.Expr) -> exp.Expr:
    """A node of which the caller answers for every part."""
    if isinstance(node.args, _Asked):
        node.args.copied = True
    return node


def plain(tree: exp.Expr) -> exp.Expr:
    """A copy that remembers nothing; the tree itself has not been asked for anything by it."""
    before = [(node, set(node.args.asked), node.args.copied) for node in tree.walk() if isinstance(node.args, _Asked)]
    copy = tree.copy()
    for node, asked, copied in before:
        assert isinstance(node.args, _Asked)
        node.args.asked, node.args.copied = asked, copied
    for node in copy.walk():
        node.args.pop(HINT_OPTIONS, None)
    return copy


def refuse_unread(tree: exp.Expr) -> None:
    """Raise InvalidRequest for a part of a statement that nobody has asked for, with its name and place."""
    for node, key in _unread(tree, in_list=False):
        raise _refusal(tree, node, key)


def refuse_clauses(tree: exp.Expr, *read: str) -> None:
    """Raise InvalidRequest for a clause of a statement other than those that are read: before what they say is looked at."""
    for key, value in dict.items(tree.args):
        if value and key not in read:
            raise _refusal(tree, tree, key)


def _unread(node: exp.Expr, *, in_list: bool) -> Iterator[tuple[exp.Expr, str | None]]:
    parts = node.args
    if not isinstance(parts, _Asked):
        for child in node.iter_expressions():
            yield from _unread(child, in_list=False)
        return
    if parts.copied:
        return
    if in_list and not parts.asked:
        # Nobody has looked at this one.
        yield node, None
        return
    for key, value in dict.items(parts):
        if not value or key in _WITHOUT_MEANING:
            continue
        if key not in parts.asked:
            yield node, key
        elif isinstance(value, exp.Expr):
            yield from _unread(value, in_list=False)
        elif isinstance(value, list):
            for child in value:
                if isinstance(child, exp.Expr):
                    yield from _unread(child, in_list=True)


def _refusal(tree: exp.Expr, node: exp.Expr, key: str | None) -> StorageError:
    """The error about a part, which points at it, or else at the statement."""
    statement = statement_name(tree)
    name = _NAMES_OF_CLAUSES.get(key or "", (key or "").strip("_").upper())
    if key == "mode" and node is tree:
        name = str(dict.__getitem__(node.args, key))
    advice = _ADVICE.get(key or "", "Leave it out.")
    if key == HINT_OPTIONS:
        name = f"the option {dict.__getitem__(node.args, key)[0][0]!r}"
    if key is None:
        advice = _ADVICE_ABOUT.get(type(node).__name__, "Leave it out.")
        sentence = f"{statement} … {shown(plain(node))} is not supported here. {advice}"
    elif node is tree:
        sentence = f"{statement} … {name} is not supported here. {advice}"
    elif isinstance(node, exp.Table):
        sentence = f"{statement}: {name} has no place behind {node.name!r} here. {advice}"
    else:
        sentence = f"{statement} … {shown(plain(node))} is not supported here as it stands ({name}). {advice}"
    return at(tree, at(node, InvalidRequest(sentence)))


def statement_name(tree: exp.Expr) -> str:
    """The words that a statement begins with."""
    words = [type(tree).key.upper()]
    if isinstance(tree, Export):
        return "INSERT OVERWRITE DIRECTORY" if dict.get(tree.args, "as_spark") else "COPY"
    kind = dict.get(tree.args, "kind")
    if isinstance(kind, str):
        words.append(kind.upper())
    return " ".join(_STATEMENT_NAMES.get(word, word) for word in words)


_STATEMENT_NAMES = {
    "ALTERTABLE": "ALTER TABLE",
    "ALTERVIEW": "ALTER VIEW",
    "ANALYZETABLE": "ANALYZE TABLE",
    "CREATECATALOG": "CREATE CATALOG",
    "DESCRIBETABLE": "DESCRIBE",
    "DROPCATALOG": "DROP CATALOG",
    "RESETOPTION": "RESET",
    "SETOPTION": "SET",
    "TRUNCATETABLE": "TRUNCATE TABLE",
    "USECATALOG": "USE CATALOG",
}
