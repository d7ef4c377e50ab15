"""JSON objects ↔ Arrow through DuckDB, a batch of them in one statement."""

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from ..data_types import DataField
from ..messages.json_codec import Fault, JsonRows, JsonStyle, refuse_not_finite
from .duckdb_connection import private_duckdb
from .duckdb_json_read import NO_OBJECT, Check, read_query
from .duckdb_json_write import write_query

_LONGEST_SHOWN = 60
# What DuckDB takes beyond the standard: a comma behind the last element, numbers that are none. In texts it may mean nothing.
_BEYOND = r"(?i),\s*[}\]]|[:\[,]\s*-?(nan|inf|infinity)\s*[,}\]]"


@dataclass(frozen=True)
class DuckDbJson:
    """The codec. Holds nothing, so that it can be sent to tasks; each process opens DuckDB once."""

    def read(
        self, texts: pa.Array, fields: Sequence[DataField], style: JsonStyle, *, lenient: bool = False
    ) -> JsonRows:
        """See `JsonCodec.read`."""
        schema = pa.schema([_nullable(field.to_arrow()) for field in fields])
        rows: pa.Table
        with _Cursor("texts", pa.table({"text": texts})) as cursor:
            query, checks = read_query(fields, style, lenient=lenient)
            try:
                rows = cursor.sql(query).to_arrow_table()
            except duckdb.Error:
                # Some text is no JSON at all. Telling them apart takes longer, so it waits until there is one.
                query, checks = read_query(fields, style, lenient=lenient, broken=True)
                rows = cursor.sql(query).to_arrow_table()
        codes = rows.column(len(fields)).combine_chunks()
        rows = rows.select(range(len(fields))).rename_columns(schema.names).cast(_without_zone(schema)).cast(schema)
        faults = {fault.message: fault for fault in _faults(texts, codes, checks)}
        for fault in _more_than_json(texts):
            faults.setdefault(fault.message, fault)
        return JsonRows(rows, tuple(faults[message] for message in sorted(faults)))

    def write(self, rows: pa.Table, fields: Sequence[DataField], style: JsonStyle) -> pa.Array:
        """See `JsonCodec.write`."""
        refuse_not_finite(rows)
        plain = rows.cast(_without_zone(rows.schema))
        # Names of the statement's own: those of columns may differ in their case alone.
        with _Cursor("rows", plain.rename_columns([f"c{index}" for index in range(len(fields))])) as cursor:
            texts = cursor.sql(write_query(fields, style)).to_arrow_table().column(0)
        return texts.cast(pa.string()).combine_chunks()


class _Cursor:
    """A cursor of this process's connection that knows rows under a name."""

    def __init__(self, name: str, rows: pa.Table) -> None:
        self._name, self._rows = name, rows

    def __enter__(self) -> duckdb.DuckDBPyConnection:
        self._cursor = _connection(os.getpid()).cursor()
        self._cursor.register(self._name, self._rows)
        return self._cursor

    def __exit__(self, *_: object) -> None:
        self._cursor.close()


@lru_cache(maxsize=1)
def _connection(process: int) -> duckdb.DuckDBPyConnection:
    # By process, since a fork does not take the threads of DuckDB along.
    return private_duckdb()


def _nullable(field: pa.Field) -> pa.Field:
    return pa.field(field.name, _nullable_type(field.type))


def _nullable_type(arrow: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(arrow):
        return pa.struct([_nullable(field) for field in arrow])
    if pa.types.is_map(arrow):
        return pa.map_(arrow.key_type, pa.field("value", _nullable_type(arrow.item_type)))
    if pa.types.is_list(arrow):
        return pa.list_(pa.field("element", _nullable_type(arrow.value_type)))
    return arrow


def _without_zone(schema: pa.Schema) -> pa.Schema:
    return pa.schema([pa.field(field.name, _plain(field.type)) for field in schema])


def _plain(arrow: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(arrow):
        return pa.timestamp(arrow.unit)
    if pa.types.is_struct(arrow):
        return pa.struct([pa.field(field.name, _plain(field.type)) for field in arrow])
    if pa.types.is_map(arrow):
        return pa.map_(_plain(arrow.key_type), _plain(arrow.item_type))
    if pa.types.is_list(arrow):
        return pa.list_(pa.field("element", _plain(arrow.value_type)))
    return arrow


def _faults(texts: pa.Array, codes: pa.Array, checks: Sequence[Check]) -> Iterator[Fault]:
    """What is wrong with the texts that were found wrong, in words."""
    for index in pc.indices_nonzero(pc.is_valid(codes)).to_pylist():
        text, code = texts[index].as_py(), codes[index].as_py()
        if code == NO_OBJECT:
            yield Fault(index, _why_no_object(text))
            continue
        check = checks[code]
        value = _value_at(json.loads(text), check.path) if check.says_value else ""
        yield Fault(index, check.reason.format(value=value), ".".join(check.path))


def _more_than_json(texts: pa.Array) -> Iterator[Fault]:
    """Those of the texts that DuckDB reads, and no other reader of JSON does."""
    for index in pc.indices_nonzero(pc.match_substring_regex(texts, _BEYOND)).to_pylist():
        try:
            json.loads(texts[index].as_py(), parse_constant=_refuse_constant)
        except (ValueError, RecursionError) as error:
            yield Fault(index, f"It is no JSON: {error}.")


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no number")


def _why_no_object(text: str) -> str:
    try:
        value = json.loads(text)
    except ValueError as error:
        return f"It is no JSON: {error}."
    if isinstance(value, dict):
        return f"It holds a text that is none, such as half of a pair of surrogates: {_shown(value)}."
    return f"It is no JSON object: {_shown(value)}."


def _value_at(value: Any, path: Sequence[str]) -> str:
    for name in path:
        if not isinstance(value, dict) or name.endswith("[]"):
            return "a value in it"
        value = value.get(name)
    return _shown(value)


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False).encode(errors="backslashreplace").decode()
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"
