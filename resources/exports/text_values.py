"""Columns as texts: of CSV, and of JSON.

Numbers as Spark and DuckDB read them, times in ISO 8601 (with a zone: in UTC, ending with Z), bytes in base 64 (in JSON; CSV
has none).
"""

import base64
import json
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from storage import InvalidRequest, is_variant

Column = Any
_is_nested = pa.types.is_nested


def is_bytes(kind: pa.DataType) -> bool:
    """Whether values of a type are bytes."""
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind))


def refuse_unwritable(schema: pa.Schema, form: str) -> None:
    """Raise InvalidRequest for a column that files of a format cannot hold, or whose name is there twice."""
    seen: dict[str, str] = {}
    for field in schema:
        if field.name.lower() in seen:
            raise InvalidRequest(f"Two columns are named {field.name!r}, letters apart: give one another name with AS.")
        seen[field.name.lower()] = field.name
        kind = field.type
        if pa.types.is_duration(kind) or pa.types.is_interval(kind):
            raise InvalidRequest(f"Column {field.name!r} is an interval, which files do not hold: CAST it AS STRING.")
        if _holds_variants(kind):
            raise InvalidRequest(
                f"Column {field.name!r} is a VARIANT, which files hold in forms of their own: write to_json(…) in the query."
            )
        if form == "csv" and (_is_nested(kind) or is_bytes(kind)):
            kind_text = "bytes" if is_bytes(kind) else "of a nested type"
            advice = "base64(…) or hex(…)" if is_bytes(kind) else "to_json(…)"
            raise InvalidRequest(
                f"Column {field.name!r} is {kind_text}, which CSV does not hold: write {advice} in the query."
            )
        if form in ("parquet", "orc") and pa.types.is_null(kind):
            raise InvalidRequest(f"Column {field.name!r} is NULL without a type, which {form} does not hold: CAST it.")
        if form == "orc" and _holds_times(kind):
            raise InvalidRequest(
                f"Column {field.name!r} holds times, which readers of ORC understand in different ways: CAST it AS STRING, or "
                "write parquet."
            )


def _holds_variants(kind: pa.DataType) -> bool:
    return is_variant(kind) or any(_holds_variants(kind.field(number).type) for number in range(kind.num_fields))


def _holds_times(kind: pa.DataType) -> bool:
    if pa.types.is_nested(kind):
        return any(_holds_times(kind.field(number).type) for number in range(kind.num_fields))
    return bool(pa.types.is_timestamp(kind) or pa.types.is_time(kind))


def texts(column: Column) -> pa.Array:
    """Values of a plain type as texts; nulls stay null."""
    kind = column.type
    if pa.types.is_floating(kind):
        values = pc.cast(column, pa.string())
        whole = pc.match_substring_regex(values, r"^-?\d+$")
        values = pc.if_else(whole, pc.binary_join_element_wise(values, ".0", ""), values)
        for word, name in (("^nan$", "NaN"), ("^inf$", "Infinity"), ("^-inf$", "-Infinity")):
            values = pc.replace_substring_regex(values, word, name)
        return values
    if pa.types.is_timestamp(kind):
        utc = column if kind.tz is None else column.cast(pa.timestamp(kind.unit, "UTC"))
        values = pc.replace_substring(pc.cast(utc, pa.string()), " ", "T")
        return _without_zeros(values)
    if pa.types.is_time(kind):
        return _without_zeros(pc.cast(column, pa.string()))
    return pc.cast(column, pa.string())


def _without_zeros(moments: Column) -> Column:
    """Moments without digits of a second that say nothing."""
    shorter = pc.replace_substring_regex(moments, r"\.0+(Z?)$", r"\1")
    return pc.replace_substring_regex(shorter, r"(\.\d*[1-9])0+(Z?)$", r"\1\2")


def json_texts(column: Column, *, without_nulls: bool) -> list[str]:
    """Values of any type as JSON. `without_nulls`: fields of structs that are null are left out."""
    kind = column.type
    if pa.types.is_struct(kind):
        values = json_objects(
            [field.name for field in kind], column.flatten(), len(column), without_nulls=without_nulls
        )
    elif pa.types.is_map(kind):
        keys = [json.dumps(text, ensure_ascii=False) for text in _key_texts(column.keys)]
        items = json_texts(column.items, without_nulls=without_nulls)
        pairs = [f"{key}:{item}" for key, item in zip(keys, items, strict=True)]
        values = _joined(column, pairs, "{", "}")
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        values = _joined(column, json_texts(column.values, without_nulls=without_nulls), "[", "]")
    elif pa.types.is_fixed_size_list(kind):
        return json_texts(column.cast(pa.list_(kind.value_type)), without_nulls=without_nulls)
    else:
        values = _plain_json(column)
    if column.null_count == 0:
        return values
    valid = column.is_valid().to_pylist()
    return [value if is_there else "null" for value, is_there in zip(values, valid, strict=True)]


def json_objects(names: list[str], columns: list[Column], count: int, *, without_nulls: bool) -> list[str]:
    """An object of JSON for each row of columns."""
    parts = []
    for name, column in zip(names, columns, strict=True):
        key = json.dumps(name, ensure_ascii=False)
        pairs = [f"{key}:{text}" for text in json_texts(column, without_nulls=without_nulls)]
        if without_nulls and column.null_count:
            valid = column.is_valid().to_pylist()
            pairs = [pair if is_there else "" for pair, is_there in zip(pairs, valid, strict=True)]
        parts.append(pairs)
    if not parts:
        return ["{}"] * count
    return ["{" + ",".join(each for each in row if each) + "}" for row in zip(*parts, strict=True)]


def _key_texts(keys: Column) -> list[str]:
    if pa.types.is_nested(keys.type):
        return json_texts(keys, without_nulls=False)
    if is_bytes(keys.type):
        return [base64.b64encode(key).decode() for key in keys.to_pylist()]
    return [str(text) for text in texts(keys).to_pylist()]


def _joined(column: Column, inner: list[str], before: str, behind: str) -> list[str]:
    offsets = column.offsets.to_pylist()
    return [before + ",".join(inner[start:end]) + behind for start, end in pairwise(offsets)]


def _plain_json(column: Column) -> list[str]:
    kind = column.type
    if pa.types.is_null(kind):
        return ["null"] * len(column)
    if is_bytes(kind):
        return [f'"{base64.b64encode(each or b"").decode()}"' for each in column.to_pylist()]
    values = texts(column).to_pylist()
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_decimal(kind):
        return [str(value) for value in values]
    if pa.types.is_floating(kind):
        return [f'"{value}"' if value in ("NaN", "Infinity", "-Infinity") else str(value) for value in values]
    return [json.dumps(value, ensure_ascii=False) for value in values]
