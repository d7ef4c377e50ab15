"""Conditions as users give them: as text, or as a predicate."""

from .metadata.schema import TableSchema
from .read.metadata_columns import refuse_metadata
from .read.predicate import Predicate

Where = str | Predicate | None


def as_predicate(where: str | Predicate) -> Predicate:
    """The predicate that a condition is. Raises InvalidRequest for a text that is none."""
    if isinstance(where, Predicate):
        return where
    # sqlglot costs more to import than the whole store: only those who write conditions as text pay for it.
    from .sql.predicate_text import parse_predicate

    return parse_predicate(where)


def bound(where: str | Predicate, schema: TableSchema) -> Predicate:
    """The condition with the columns that it names. Raises InvalidRequest if there are none of those names, or they are metadata
    of the rows.
    """
    predicate = as_predicate(where)
    refuse_metadata(schema, sorted(predicate.columns()), "a condition")
    return predicate.bind(schema)
