"""Computed columns and watermarks beside changes of the columns that they are computed from."""

import re
from collections.abc import Collection, Sequence

import pyarrow as pa
from sqlglot import exp, parse_one

from storage import ComputedColumn, InvalidRequest, SchemaChange, SetOptions, StorageError, Table
from storage.engines.storable import refuse_unstorable
from storage.sql.declared_types import declared_type, refuse_length
from storage.sql.dialect import HeldSql, SnaplineSql
from storage.sql.pure_expression import parse_expression
from storage.sql.table_definition import TableDefinition

from .duckdb_queries import compile_expression
from .duckdb_relations import relation_of

_EXPRESSION = re.compile(r"schema\.\d+\.expr|schema\.watermark\.0\.strategy\.expr")
_NAME = re.compile(r"schema\.(\d+)\.name")
_ROWTIME = "schema.watermark.0.rowtime"
# What is no function of a row's columns.
_OTHERS = (exp.Query, exp.AggFunc, exp.Window, exp.Anonymous, exp.Star, exp.Rand, exp.Uuid)


def check_computed(definition: TableDefinition, columns: Collection[str]) -> None:
    """Raise InvalidRequest for a computed column, or a watermark, that no row has a value for."""
    known = {name.lower() for name in columns}
    for column in definition.computed_columns:
        _check(f"Computed column {column.name!r}", column.expression, known, columns)
        _check_type(column, definition)
    mark = definition.watermark
    if mark is not None:
        known |= {column.name.lower() for column in definition.computed_columns}
        _check("The watermark", mark.expression, known, columns)
        for field in definition.fields:
            if field.name == mark.column and not field.type.is_timestamp:
                raise InvalidRequest(
                    f"The watermark is for {mark.column!r} of type {field.type}: it needs a TIMESTAMP."
                )


def _check_type(column: ComputedColumn, definition: TableDefinition) -> None:
    """Raise InvalidRequest for a computed column whose values are not stored in its type, as Spark sees it."""
    refuse_length(column)
    declared = declared_type(column)
    if declared is None:
        return
    tree = parse_expression(column.expression, None, f"Computed column {column.name!r}")
    schema = pa.schema([field.to_arrow() for field in definition.fields])
    try:
        actual = compile_expression(tree, [relation_of("t", schema)], {}).type
    except StorageError:
        # Its type is known to Spark alone, which casts it when it is read.
        return
    if actual.is_known:
        refuse_unstorable(actual.arrow, declared.to_arrow(), column.name)


def _check(subject: str, expression: str, known: Collection[str], columns: Collection[str]) -> None:
    tree = _parsed(expression)
    for node in tree.walk():
        if isinstance(node, exp.Column) and node.name.lower() not in known:
            raise InvalidRequest(f"{subject} names {node.name!r}, which is no column. Columns: {', '.join(columns)}.")
        if isinstance(node, _OTHERS) and not (isinstance(node, exp.Anonymous) and node.name.lower() == "positive"):
            shown = node.sql(SnaplineSql)
            raise InvalidRequest(f"{subject}: {shown!r} is no function of a row's columns that is known here.")


def _parsed(expression: str) -> exp.Expr:
    return parse_one(expression, dialect=HeldSql, into=exp.Condition)


def with_renamed(table: Table, name: str, new_name: str) -> list[SchemaChange]:
    """What follows when a column gets another name: the expressions that name it do so anew."""
    changed = {}
    for key, value in table.schema.options.items():
        if _EXPRESSION.fullmatch(key):
            tree = _parsed(value)
            named = [each for each in tree.find_all(exp.Column) if each.name.lower() == name.lower()]
            for column in named:
                column.set("this", exp.to_identifier(new_name, quoted=True))
            if named:
                changed[key] = tree.sql(SnaplineSql)
        elif key == _ROWTIME and value == name:
            changed[key] = new_name
    return [SetOptions(changed)] if changed else []


def without(table: Table, names: Sequence[str]) -> tuple[list[str], list[SchemaChange]]:
    """Columns to drop: those of files, and the changes that drop the computed ones among them.

    Raises InvalidRequest for a column that another one is computed from.
    """
    options = table.schema.options
    numbers = {value.lower(): match[1] for key, value in options.items() if (match := _NAME.fullmatch(key))}
    computed = [name for name in names if name.lower() in numbers]
    removed = [
        f"schema.{numbers[name.lower()]}.{part}"
        for name in computed
        for part in ("name", "expr", "data-type", "comment")
    ]
    held = [name for name in names if name not in computed]
    for key, value in options.items():
        if key in removed or not (_EXPRESSION.fullmatch(key) or key == _ROWTIME):
            continue
        used = (
            {each.name.lower() for each in _parsed(value).find_all(exp.Column)} if key != _ROWTIME else {value.lower()}
        )
        for name in names:
            if name.lower() in used:
                raise InvalidRequest(
                    f"Column {name!r} cannot be dropped: option {key!r} = {value!r} needs it. Drop that first."
                )
    return held, [SetOptions({}, tuple(removed))] if removed else []
