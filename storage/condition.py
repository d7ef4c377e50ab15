"""Conditions as users give them: as text, or as a predicate."""

from .read.predicate import Predicate


def as_predicate(where: str | Predicate) -> Predicate:
    """The predicate that a condition is. Raises InvalidRequest for a text that is none."""
    if isinstance(where, Predicate):
        return where
    # sqlglot costs more to import than the whole store: only those who write conditions as text pay for it.
    from .sql.predicate_text import parse_predicate

    return parse_predicate(where)
