"""The default of a column, which an INSERT takes that gives the column no value: a constant, kept as text in the schema.

The text is what Paimon's writers cast to the column's type: numbers and booleans as they are, all else in single quotes. It
never changes rows that are there. Follows `docs/format.md`, "Schema files".
"""

import math
from typing import Any

import numpy as np
import pyarrow as pa

from ..arguments import shown
from ..data_types import MAX_LENGTH, DataField, DataType
from ..errors import InvalidRequest, Unsupported
from ..values import from_literal, to_arrow
from .schema import TableSchema

# A default of any other type would mean something else to another reader: moments by his time zone.
_WITH_DEFAULTS = "numbers, booleans, texts, DATE, TIME and TIMESTAMP"
# Rows are made of several there: what a row leaves out is left alone.
_OF_PARTS = ("partial-update", "aggregation")


def default_text(value: Any, data_type: DataType, name: str) -> str | None:
    """The text of a default from a constant; None for NULL. Raises InvalidRequest for one that the column cannot hold, or that
    readers would not agree on.
    """
    if value is None:
        return None
    if not _is_known(data_type):
        raise Unsupported(f"Column {name!r} of type {data_type} takes no DEFAULT: only {_WITH_DEFAULTS} do.")
    try:
        constant = from_literal(value, data_type)
    except InvalidRequest as error:
        raise InvalidRequest(f"The DEFAULT of column {name!r}: {error}") from None
    if data_type.root == "BOOLEAN":
        return str(constant).lower()
    if data_type.is_integer or data_type.is_float:
        if not math.isfinite(constant):
            raise InvalidRequest(f"The DEFAULT of column {name!r} is {constant}: give a number.")
        return str(np.float32(constant)) if data_type.root == "FLOAT" else repr(constant)
    if data_type.root == "DECIMAL":
        return format(constant, "f")
    text = constant if data_type.is_text else str(to_arrow([constant], data_type).cast(pa.string())[0].as_py())
    if "'" in text or "\\" in text:
        raise Unsupported(
            f"The DEFAULT of column {name!r}, {shown(text)}, holds a quote or a backslash, which readers of the format take in "
            "different ways. Give the column its values in the INSERT."
        )
    if data_type.is_text and len(text) > data_type.length != MAX_LENGTH:
        raise InvalidRequest(f"The DEFAULT of column {name!r} has {len(text)} characters; the type is {data_type}.")
    return f"'{text}'"


def default_of(field: DataField) -> pa.Scalar | None:
    """The default of a column as a value of its type; None if it has none. Raises Unsupported for one that others gave it and
    that cannot be read.
    """
    text = field.default_value
    if text is None:
        return None
    if len(text) > 1 and text[0] == text[-1] == "'":
        text = text[1:-1]
    try:
        if not _is_known(field.type):
            raise InvalidRequest(f"only {_WITH_DEFAULTS} have one here")
        return to_arrow([from_literal(text, field.type)], field.type)[0]
    except InvalidRequest as error:
        raise Unsupported(
            f"Column {field.name!r} of type {field.type} has the DEFAULT {shown(field.default_value)}, which cannot be read "
            f"({error}). Give the column a value, or ALTER COLUMN {field.name} DROP DEFAULT."
        ) from None


def check_defaults(schema: TableSchema) -> None:
    """Raise InvalidRequest or Unsupported for defaults of columns that cannot have one."""
    engine = schema.table_options.merge_engine
    for field in (field for field in schema.fields if field.default_value is not None):
        if field.name in (*schema.primary_keys, *schema.partition_keys):
            raise InvalidRequest(
                f"Column {field.name!r} says where a row lies and takes no DEFAULT: every row gives it a value."
            )
        if schema.primary_keys and engine in _OF_PARTS:
            raise Unsupported(
                f"Column {field.name!r} takes no DEFAULT: with the merge engine {engine} a column that a row leaves out stays "
                "as it is."
            )


def _is_known(data_type: DataType) -> bool:
    return not (data_type.is_nested or data_type.is_bytes or data_type.root == "TIMESTAMP_LTZ")
