"""The computed columns and the watermark of a table, checked before anybody runs them: when they are given, and when they
are read from a file that somebody else may have written.
"""

from types import ModuleType

from .errors import InvalidRequest, Unsupported
from .metadata.derived_columns import ComputedColumn, computed_columns, derived_texts
from .metadata.schema import TableSchema


def checked_columns(schema: TableSchema, table: str) -> list[ComputedColumn]:
    """The computed columns of a schema that was read. Raises CorruptData or Unsupported that names the table and the
    expression if one of them, or the watermark, is none over columns of the table by functions of the list.
    """
    if derived_texts(schema.options):
        expressions = _pure_expressions()
        try:
            expressions.check_derived(schema.options, None)
        except (InvalidRequest, Unsupported) as error:
            raise expressions.as_read(error, table) from None
    return computed_columns(schema.options)


def check_given(schema: TableSchema, before: TableSchema | None = None) -> None:
    """Refuse a schema that is about to be written whose computed columns or watermark cannot be; what was there `before` and
    still is as good or bad as it was is left alone. Raises InvalidRequest or Unsupported.
    """
    texts = derived_texts(schema.options)
    if not texts:
        return
    if (
        before is not None
        and texts == derived_texts(before.options)
        and set(before.column_names) <= set(schema.column_names)
    ):
        return
    _pure_expressions().check_derived(schema.options, schema.column_names)


def _pure_expressions() -> ModuleType:
    # sqlglot costs more to import than the whole store: only those whose tables have such columns pay for it.
    from .sql import pure_expression

    return pure_expression
