"""Rows for people and programs: a table on the terminal, JSON, CSV."""

import json
import math
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import click
import pyarrow as pa
from rich import box
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from storage import InvalidRequest, is_variant

from ..links.shown_text import in_terminal

FORMATS = ("table", "json", "csv")
# A pipe or a file has no width to fit into.
_WIDE = 10_000


def console() -> Console:
    """Standard output: coloured and fitted on a terminal, plain and unbroken elsewhere."""
    return Console(soft_wrap=True) if sys.stdout.isatty() else Console(width=_WIDE, soft_wrap=True)


def rendered_table(names: Sequence[str], rows: Sequence[Sequence[Any]], title: str | None = None) -> RichTable:
    """A table to print; columns of numbers stand to the right."""
    shown_title = None if title is None else Text(in_terminal(title))
    table = RichTable(title=shown_title, title_justify="left", header_style="bold", box=box.ROUNDED)
    for index, name in enumerate(names):
        values = [row[index] for row in rows]
        numeric = any(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
        table.add_column(Text(in_terminal(name)), justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(_text(value) for value in row))
    return table


def say(text: str, *, err: bool = False) -> None:
    """Print a text as it is, but for what a terminal would obey: names and values of tables are other people's."""
    click.echo(in_terminal(text), err=err)


def print_rows(rows: pa.Table, form: str) -> None:
    """Print rows in one of `FORMATS`."""
    names, values = rows.column_names, _rows_of(rows)
    if form == "table":
        console().print(rendered_table(names, values))
    else:
        print_objects(names, values, form)


def print_objects(names: Sequence[str], rows: Sequence[Sequence[Any]], form: str) -> None:
    """Print rows of plain values for programs, as `json` or `csv`. Raises InvalidRequest if JSON has no place for them."""
    if form == "csv":
        print(_csv(names, rows), end="")
        return
    twice = [name for number, name in enumerate(names) if name in names[:number]]
    if twice:
        raise InvalidRequest(
            f"JSON has no place for two columns of the name {twice[0]!r}. Give one another name, by AS."
        )
    objects = [{name: _plain(value) for name, value in zip(names, row, strict=True)} for row in rows]
    print(json.dumps(objects, ensure_ascii=False, indent=2))


def _rows_of(rows: pa.Table) -> list[tuple[Any, ...]]:
    """The values by row, whatever the columns are called."""
    return list(zip(*map(_values, rows.columns), strict=True)) if rows.num_columns else [()] * rows.num_rows


def _values(column: pa.ChunkedArray) -> list[Any]:
    if is_variant(column.type):
        return _variants(column)
    try:
        return list(column.to_pylist())
    except (ValueError, OverflowError):
        # Dates that Python does not have, and texts that are no UTF-8, are shown as text.
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            return [
                None if each is None else each.decode(errors="replace") for each in column.cast(pa.binary()).to_pylist()
            ]
        try:
            return list(column.cast(pa.string()).to_pylist())
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            raise InvalidRequest(
                f"A value of type {column.type} cannot be shown: give it as a text, by CAST(… AS STRING)."
            ) from None


def _variants(column: pa.ChunkedArray) -> list[Any]:
    """Variants as what JSON says they are, where Spark is installed, whose decoder is used; else their bytes."""
    try:
        from pyspark.sql.variant_utils import VariantUtils  # Heavy: waits for the first variant that is shown.
    except ImportError:
        return list(column.to_pylist())
    return [
        None if each is None else json.loads(VariantUtils.to_json(each["value"], each["metadata"]))
        for each in column.to_pylist()
    ]


def _csv(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    return "".join(",".join(map(_csv_cell, row)) + "\n" for row in (names, *rows))


def _csv_cell(value: Any) -> str:
    """A value: null is nothing at all, an empty text is quoted."""
    plain = _plain(value)
    if plain is None:
        return ""
    text = json.dumps(plain, ensure_ascii=False) if isinstance(plain, list | dict) else str(plain)
    quoted = text.replace('"', '""')
    return f'"{quoted}"' if not text or any(mark in text for mark in ',"\r\n') else text


def _plain(value: Any) -> Any:
    """A value as JSON has it: text for NaN, the infinite, and what JSON has no type for. Decimals stay exact, as text."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        # As Spark writes them: JSON has no number for these.
        return (
            value if math.isfinite(value) else "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        )
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, bytes):
        return value.hex()
    if hasattr(value, "as_tuple"):
        return int(value) if value == value.to_integral_value() and value.as_tuple().exponent >= 0 else str(value)
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def _text(value: Any) -> Text:
    if value is None:
        return Text("null", style="dim")
    if isinstance(value, float):
        return Text(f"{value:.6g}")
    plain = _plain(value)
    return Text(in_terminal(json.dumps(plain, ensure_ascii=False) if isinstance(plain, list | dict) else str(plain)))
