"""Write batches of rows into one file, as they come: what is in memory is a group of rows."""

import datetime as dt
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import orc

from storage import InvalidRequest

from .export_format import ExportFormat
from .text_values import json_objects, refuse_unwritable, texts

# A group of rows that is larger than this is written though it has fewer rows than it may have.
_GROUP_BYTES = 256 * 2**20
# The Gregorian calendar begins.
_FIRST_DAY = dt.date(1582, 10, 15)
_CODECS = {"gzip": "gzip", "bzip2": "bz2", "zstd": "zstd"}


def write_file(batches: Iterable[pa.RecordBatch], form: ExportFormat, path: str) -> int:
    """Write all rows; returns their number. There is one batch at the least, which may be empty: it tells the columns.

    Raises InvalidRequest for columns that the format does not hold, OSError with its reason alone; the file is not complete
    then.
    """
    left = iter(batches)
    first = next(left)
    refuse_unwritable(first.schema, form.name)
    try:
        return _WRITERS[form.name](first.schema, chain([first], left), form, path)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidRequest(f"The rows cannot be written as {form.name}: {str(error).splitlines()[0]}") from None
    except OSError as error:
        # Arrow tells the number of the error, and the name of a file that nobody has typed.
        raise OSError(error.errno, os.strerror(error.errno) if error.errno else str(error).splitlines()[0]) from None


def _write_parquet(schema: pa.Schema, batches: Iterable[pa.RecordBatch], form: ExportFormat, path: str) -> int:
    count, held, held_rows, held_bytes = 0, [], 0, 0
    with pq.ParquetWriter(
        path, schema, compression=form.compression, compression_level=form.compression_level, store_schema=False
    ) as writer:
        for batch in batches:
            held.append(batch)
            held_rows, held_bytes, count = held_rows + batch.num_rows, held_bytes + batch.nbytes, count + batch.num_rows
            if held_rows >= form.row_group_size or held_bytes >= _GROUP_BYTES:
                rows = pa.Table.from_batches(held, schema)
                whole = held_rows - held_rows % form.row_group_size or held_rows
                writer.write_table(rows.slice(0, whole), row_group_size=form.row_group_size)
                held = rows.slice(whole).to_batches()
                held_rows, held_bytes = held_rows - whole, sum(each.nbytes for each in held)
        if held_rows:
            writer.write_table(pa.Table.from_batches(held, schema), row_group_size=form.row_group_size)
    return count


def _write_orc(schema: pa.Schema, batches: Iterable[pa.RecordBatch], form: ExportFormat, path: str) -> int:
    count = 0
    with_days = [field.name for field in schema if _holds_days(field.type)]
    compression = "uncompressed" if form.compression == "none" else form.compression
    with pa.OSFile(path, "wb") as file, orc.ORCWriter(file, compression=compression) as writer:
        for batch in batches:
            for name in with_days:
                _refuse_old_days(name, batch.column(name))
            writer.write(pa.Table.from_batches([batch], schema))
            count += batch.num_rows
    return count


def _holds_days(kind: pa.DataType) -> bool:
    if pa.types.is_nested(kind):
        return any(_holds_days(kind.field(number).type) for number in range(kind.num_fields))
    return bool(pa.types.is_date(kind))


def _refuse_old_days(name: str, column: Any) -> None:
    """Readers count the days of before 1582 by another calendar, unless the file says so, which pyarrow does not."""
    kind = column.type
    if pa.types.is_date(kind):
        earliest = pc.min(column).as_py()
        if earliest is not None and earliest < _FIRST_DAY:
            raise InvalidRequest(
                f"Column {name!r} has the day {earliest}: days before {_FIRST_DAY} are others for readers of ORC. CAST it AS "
                "STRING, or write parquet."
            )
    elif pa.types.is_struct(kind):
        for part in column.flatten():
            _refuse_old_days(name, part)
    elif pa.types.is_map(kind):
        _refuse_old_days(name, column.keys)
        _refuse_old_days(name, column.items)
    elif pa.types.is_nested(kind):
        _refuse_old_days(name, column.flatten())


def _write_csv(schema: pa.Schema, batches: Iterable[pa.RecordBatch], form: ExportFormat, path: str) -> int:
    count = 0
    with _lines(path, form) as out:
        if form.header:
            names = [_quoted(pa.array([name]), form) for name in schema.names]
            _put(out, _rows_of_csv(names, form))
        for batch in batches:
            if batch.num_rows and batch.num_columns:
                if batch.num_columns == 1 and not form.null and batch.column(0).null_count:
                    raise InvalidRequest(
                        f"A null in the only column, {schema.names[0]!r}, would be an empty line, which readers leave out: give "
                        "the option 'null' a text."
                    )
                _put(out, _rows_of_csv([_quoted(texts(column), form) for column in batch.columns], form))
            count += batch.num_rows
    return count


def _rows_of_csv(columns: list[Any], form: ExportFormat) -> list[str]:
    joined = pc.binary_join_element_wise(*columns, form.delimiter, null_handling="replace", null_replacement=form.null)
    return [str(each) for each in joined.to_pylist()]


def _quoted(values: Any, form: ExportFormat) -> Any:
    """Texts as they stand in a line: quoted where a reader would take them for something else."""
    within = values
    if form.escape != form.quote:
        within = pc.replace_substring(within, form.escape, form.escape * 2)
    within = pc.replace_substring(within, form.quote, form.escape + form.quote)
    within = pc.binary_join_element_wise(form.quote, within, form.quote, "")
    if form.quote_all:
        return within
    apart = "|".join(re.escape(value) for value in (form.delimiter, form.quote, form.escape))
    needs = pc.match_substring_regex(values, rf"^$|^[\x00-\x20#]|[\x00-\x20]$|[\r\n]|{apart}")
    if form.null:
        needs = pc.or_(needs, pc.equal(values, form.null))
    return pc.if_else(needs, within, values)


def _write_json(schema: pa.Schema, batches: Iterable[pa.RecordBatch], form: ExportFormat, path: str) -> int:
    count = 0
    with _lines(path, form) as out:
        for batch in batches:
            if batch.num_rows:
                lines = json_objects(schema.names, batch.columns, batch.num_rows, without_nulls=form.ignore_nulls)
                _put(out, lines)
            count += batch.num_rows
    return count


@contextmanager
def _lines(path: str, form: ExportFormat) -> Iterator[pa.NativeFile]:
    with pa.OSFile(path, "wb") as file:
        if form.compression == "none":
            yield file
        else:
            with pa.CompressedOutputStream(file, _CODECS[form.compression]) as out:
                yield out


def _put(out: pa.NativeFile, lines: list[str]) -> None:
    out.write(("\n".join(lines) + "\n").encode())


_WRITERS = {"parquet": _write_parquet, "orc": _write_orc, "csv": _write_csv, "json": _write_json}
