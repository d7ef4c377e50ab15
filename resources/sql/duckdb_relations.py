"""What a query reads and gives: names and types of columns."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from sqlglot import exp

from storage import InvalidRequest

from . import spark_types as st
from .duckdb_decimals import Typed
from .place import at
from .spark_types import NULL, SparkType


@dataclass(frozen=True)
class Relation:
    """What a FROM reads under a name: columns with their types, in order. Columns that are `hidden` are no part of `*`."""

    alias: str
    columns: tuple[tuple[str, SparkType], ...]
    hidden: frozenset[str] = frozenset()
    # What they are called on DuckDB, where several have one name.
    held: tuple[str, ...] = ()

    def column(self, name: str) -> Typed | None:
        """Raises InvalidRequest for a name that several columns have."""
        numbers = [number for number, (column, _) in enumerate(self.columns) if column.lower() == name.lower()]
        if len(numbers) > 1:
            where = "The query" if self.alias.startswith("__") else repr(self.alias)
            raise InvalidRequest(f"{where} has {len(numbers)} columns {name!r}. Give them different names.")
        return self.at(numbers[0]) if numbers else None

    def at(self, number: int) -> Typed:
        """The column of a number."""
        column, kind = self.columns[number]
        return Typed(f"{quoted(self.alias)}.{quoted(self.held[number] if self.held else column)}", kind)


@dataclass(frozen=True)
class Compiled:
    """A query in DuckDB's SQL, with the names and types of its columns."""

    sql: str
    names: tuple[str, ...]
    types: tuple[SparkType, ...]

    @property
    def held(self) -> tuple[str, ...]:
        """Names of the columns of which none is there twice."""
        lower = [name.lower() for name in self.names]
        if len(set(lower)) == len(lower):
            return self.names
        taken: set[str] = set()
        names_held = []
        for number, name in enumerate(self.names):
            unique = name
            while unique.lower() in taken or (unique != name and unique.lower() in lower):
                unique = f"{unique}_{number}"
            taken.add(unique.lower())
            names_held.append(unique)
        return tuple(names_held)

    def relation(self, alias: str) -> Relation:
        """The query's columns as what a FROM clause has under an alias."""
        return Relation(alias, tuple(zip(self.names, self.types, strict=True)), held=self.held)


def relation_of(alias: str, schema: pa.Schema) -> Relation:
    """The columns of a table, or of rows."""
    return Relation(alias, tuple((field.name, st.of_arrow(field.type)) for field in schema))


def renamed(node: exp.Expr, inner: Compiled, names: Sequence[str]) -> Compiled:
    """A query under other names for its columns. Raises InvalidRequest."""
    if not names:
        return inner
    if len(names) != len(inner.names):
        raise at(node, InvalidRequest(f"{len(names)} columns are named, and {len(inner.names)} are there."))
    return Compiled(inner.sql, tuple(names), inner.types)


def with_one_zero(value: Typed) -> Typed:
    """A float in which -0.0 is 0.0: what Spark shows of values that it has compared as keys."""
    if not value.type.is_float:
        return value
    return replace(value, sql=f"CASE WHEN {value.sql} = 0 THEN CAST(0 AS {value.type.duckdb}) ELSE {value.sql} END")


def one_zero(inner: Compiled) -> Compiled:
    """The same for each column of a query."""
    if not any(kind.is_float for kind in inner.types):
        return inner
    names = [f"c{number}" for number in range(len(inner.names))]
    shown = [
        f"{with_one_zero(Typed(held, kind)).sql} AS {quoted(name)}"
        for held, name, kind in zip(names, inner.names, inner.types, strict=True)
    ]
    return replace(inner, sql=f"SELECT {', '.join(shown)} FROM ({inner.sql}) AS __rows ({', '.join(names)})")


def quoted(name: str) -> str:
    """A name as DuckDB takes it."""
    return '"' + name.replace('"', '""') + '"'


def as_results(rows: pa.Table, compiled: Compiled) -> pa.Table:
    """Rows that DuckDB gave, under the names and types of the query. Raises InvalidRequest for a value that does not fit."""
    arrays: list[Any] = []
    for column, kind in zip(rows.columns, compiled.types, strict=True):
        target = kind.arrow if kind.is_known else column.type
        if not column.type.equals(target, check_metadata=True):
            # By its mark a variant is known from a struct.
            column = pa.chunked_array([pa.nulls(len(column))]) if kind == NULL else column.cast(target)
        arrays.append(column)
    return pa.Table.from_arrays(arrays, list(compiled.names))
