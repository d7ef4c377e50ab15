"""Rows as Debezium JSON, and back: values of records are envelopes with `before`, `after` and `op`, keys are plain objects.

Whole columns are made into text by Arrow; nested values one by one. An update is two records, `d` and `c`. NaN and infinities,
which JSON does not have, are the texts "NaN", "Infinity" and "-Infinity": a log that refused them would stand still behind a
table that takes them. Source: the formats of Flink, `docs/log.md`.
"""

import base64
import decimal
import io
import json
import math
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from ..errors import CorruptData

_RETRACTS = ("-U", "-D")
_NOT_FINITE = {"nan": '"NaN"', "inf": '"Infinity"', "-inf": '"-Infinity"'}


def encode_values(rows: pa.Table, kinds: pa.Array) -> pa.Array:
    """The envelope (binary) of each row, by the kind of each (+I -U +U -D)."""
    objects = _objects(rows)
    retracts = pc.is_in(kinds, pa.array(_RETRACTS))
    head = pc.if_else(retracts, '{"before":', '{"before":null,"after":')
    tail = pc.if_else(retracts, ',"after":null,"op":"d"}', ',"op":"c"}')
    return pc.binary_join_element_wise(head, objects, tail, "").cast(pa.binary())


def encode_keys(rows: pa.Table, key_columns: Sequence[str]) -> pa.Array:
    """The key (binary) of each row: an object of the key columns in their order; null without any."""
    if not key_columns:
        return pa.nulls(rows.num_rows, pa.binary())
    return _objects(rows.select(list(key_columns))).cast(pa.binary())


def decode_values(values: pa.Array, schema: pa.Schema) -> tuple[pa.Table, pa.Array]:
    """The row (`schema`, columns nullable) in each envelope, and a mask of those that were taken away (`op` d). Columns that
    an envelope does not have are null. Raises CorruptData that shows an envelope which cannot be read.
    """
    if any(_is_nested(field.type) for field in schema):
        return _decode_slowly(values, schema)
    try:
        return _decode_quickly(values, schema)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError):
        return _decode_slowly(values, schema)


# --- to text


def _objects(rows: pa.Table) -> pa.Array:
    """A JSON object (string) for each row."""
    if not rows.num_columns:
        return pa.array(["{}"] * rows.num_rows, pa.string())
    parts: list[Any] = []
    for number, (name, column) in enumerate(zip(rows.column_names, rows.columns, strict=True)):
        whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        parts += [f"{'{' if number == 0 else ','}{json.dumps(name, ensure_ascii=False)}:", _texts(whole)]
    return pc.binary_join_element_wise(*parts, "}", "")


def _texts(column: pa.Array) -> pa.Array:
    """The JSON text of each value; `null` for nulls."""
    kind = column.type
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind):
        made = column.cast(pa.string())
    elif pa.types.is_decimal(kind):
        made = _decimals(column)
    elif pa.types.is_floating(kind):
        made = _floats(column)
    elif pa.types.is_string(kind) or pa.types.is_large_string(kind):
        made = _escaped(column.cast(pa.string()))
    elif pa.types.is_timestamp(kind) and kind.tz is not None:
        made = _quoted(column.cast(pa.timestamp(kind.unit)).cast(pa.string()), 'Z"')
    elif pa.types.is_temporal(kind):
        made = _quoted(column.cast(pa.string()))
    else:
        made = pa.array(
            [
                None if value is None else json.dumps(_plain(value, kind), ensure_ascii=False)
                for value in column.to_pylist()
            ],
            pa.string(),
        )
    return pc.fill_null(made, "null")


def _quoted(texts: pa.Array, end: str = '"') -> pa.Array:
    return pc.binary_join_element_wise('"', texts, end, "")


def _floats(column: pa.Array) -> pa.Array:
    made = column.cast(pa.string())
    for text, shown in _NOT_FINITE.items():
        made = pc.if_else(pc.equal(made, text), shown, made)
    return made


def _decimals(column: pa.Array) -> pa.Array:
    """All digits, without an exponent, which Arrow writes for small numbers."""
    scale = column.type.scale
    if scale <= 0:
        return column.cast(pa.string())
    # The same numbers without their point, which are made into text digit by digit.
    whole = pa.decimal128(column.type.precision, 0)
    digits = pa.Array.from_buffers(whole, len(column), column.buffers(), offset=column.offset).cast(pa.string())
    sign = pc.if_else(pc.starts_with(digits, "-"), "-", "")
    padded = pc.utf8_lpad(pc.utf8_ltrim(digits, "-"), scale + 1, "0")
    before, after = pc.utf8_slice_codeunits(padded, 0, -scale), pc.utf8_slice_codeunits(padded, -scale)
    return pc.binary_join_element_wise(pc.binary_join_element_wise(sign, before, ""), after, ".")


def _escaped(texts: pa.Array) -> pa.Array:
    made = pc.replace_substring(pc.replace_substring(texts, "\\", "\\\\"), '"', '\\"')
    quoted = _quoted(made)
    odd = pc.match_substring_regex(texts, "[\\x00-\\x1f]")
    if not pc.any(odd).as_py():
        return quoted
    each = [json.dumps(text, ensure_ascii=False) for text in texts.filter(odd).to_pylist()]
    return pc.replace_with_mask(quoted, pc.fill_null(odd, False), pa.array(each, pa.string()))


def _plain(value: Any, kind: pa.DataType) -> Any:
    """A value as JSON can say it."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return {field.name: _plain(value[field.name], field.type) for field in kind}
    if pa.types.is_map(kind):
        return {str(_plain(key, kind.key_type)): _plain(item, kind.item_type) for key, item in value}
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [_plain(item, kind.value_type) for item in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, float):
        return value if math.isfinite(value) else {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[repr(value)]
    if isinstance(value, decimal.Decimal):
        return f"{value:f}"
    if isinstance(value, bool | int | str):
        return value
    # A time: as a column of its type is written.
    return json.loads(_texts(pa.array([value], kind))[0].as_py())


# --- from text


def _is_nested(kind: pa.DataType) -> bool:
    return bool(pa.types.is_nested(kind))


def _decode_quickly(values: pa.Array, schema: pa.Schema) -> tuple[pa.Table, pa.Array]:
    """All at once. Raises an error of Arrow's if some value is not in the form in which it is written here."""
    shipped = pa.struct([pa.field(field.name, _shipped(field.type)) for field in schema])
    envelope = pa.schema([("before", shipped), ("after", shipped), ("op", pa.string())])
    lines = b"\n".join(values.to_pylist())
    options = pa.json.ParseOptions(explicit_schema=envelope, unexpected_field_behavior="ignore")
    size = pa.json.ReadOptions(block_size=max(1 << 20, min(len(lines) + 1, 1 << 30)))
    read = pa.json.read_json(io.BytesIO(lines), read_options=size, parse_options=options).combine_chunks()
    if read.num_rows != len(values):
        raise ValueError("a message is not one object")
    gone = pc.equal(read["op"], "d")
    if not pc.all(pc.is_in(read["op"], pa.array(["c", "d", "r"]))).as_py() or read["op"].null_count:
        raise ValueError("another op")
    columns = []
    before, after = read["before"].combine_chunks(), read["after"].combine_chunks()
    for place, field in enumerate(schema):
        chosen = pc.if_else(gone, _child(before, place), _child(after, place))
        columns.append(_arrived(chosen, field.type))
    return pa.table(columns, schema=_nullable(schema)), _flat(gone)


def _child(structs: pa.Array, place: int) -> pa.Array:
    return pc.struct_field(structs, [place])


def _flat(column: Any) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _shipped(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_decimal(kind):
        return kind
    return pa.float64() if pa.types.is_floating(kind) else pa.string()


def _arrived(column: Any, kind: pa.DataType) -> pa.Array:
    column = _flat(column)
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return pc.replace_substring_regex(column, "Z$", "").cast(pa.timestamp(kind.unit)).cast(kind)
    if pa.types.is_time(kind):
        # Arrow reads a text as a time of day only behind a day.
        moments = pc.binary_join_element_wise("1970-01-01", column, " ").cast(pa.timestamp(kind.unit))
        return moments.cast(kind)
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return pa.array([None if text is None else base64.b64decode(text) for text in column.to_pylist()], kind)
    return column.cast(kind)


def _decode_slowly(values: pa.Array, schema: pa.Schema) -> tuple[pa.Table, pa.Array]:
    """Message by message."""
    rows: list[dict[str, Any]] = []
    gone: list[bool] = []
    for value in values.to_pylist():
        try:
            message = json.loads(value, parse_float=decimal.Decimal)
            gone.append({"c": False, "r": False, "d": True}[message["op"]])
            rows.append(message["before" if gone[-1] else "after"])
            rows[-1].get("")
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            shown = value[:200].decode(errors="replace")
            raise CorruptData(f"Corrupt Debezium JSON message {shown!r}: {error}.") from None
    columns = []
    for field in schema:
        try:
            back = _back(field.type)
            given = [row.get(field.name) for row in rows]
            columns.append(pa.array([None if value is None else back(value) for value in given], field.type))
        except (ValueError, TypeError, ArithmeticError, pa.ArrowException) as error:
            raise CorruptData(f"A message of the log has no {field.type} in {field.name!r}: {error}.") from None
    return pa.table(columns, schema=_nullable(schema)), pa.array(gone, pa.bool_())


def _back(kind: pa.DataType) -> Callable[[Any], Any]:
    """From what JSON says of a value that is not null to what Arrow makes an array of."""
    if pa.types.is_struct(kind):
        parts = [(field.name, _nulls_too(_back(field.type))) for field in kind]
        return lambda value: {name: back(value.get(name)) for name, back in parts}
    if pa.types.is_map(kind):
        key, item = _back(kind.key_type), _nulls_too(_back(kind.item_type))
        return lambda value: [(key(each), item(other)) for each, other in value.items()]
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        element = _nulls_too(_back(kind.value_type))
        return lambda value: [element(each) for each in value]
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return lambda value: base64.b64decode(value)
    if pa.types.is_integer(kind):
        return int
    if pa.types.is_floating(kind):
        return float
    if pa.types.is_decimal(kind):
        return lambda value: decimal.Decimal(str(value)).quantize(decimal.Decimal(1).scaleb(-kind.scale), context=_WIDE)
    if pa.types.is_temporal(kind):
        return lambda value: _arrived(pa.array([value], pa.string()), kind)[0].as_py()
    if pa.types.is_boolean(kind):
        return lambda value: value if isinstance(value, bool) else {"true": True, "false": False}[value]
    return str


_WIDE = decimal.Context(prec=80)


def _nulls_too(back: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else back(value)


def _nullable(schema: pa.Schema) -> pa.Schema:
    return pa.schema([field.with_nullable(True) for field in schema])
