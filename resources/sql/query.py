"""A query that is ready to run: what it reads, each source at a snapshot, and the views that stand for them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.qualify import qualify
from sqlglot.schema import MappingSchema

from storage import InvalidRequest, Predicate, Scan, metadata_field
from storage.sql.dialect import SnaplineSql

from .names import Source

_SQL_TYPES: list[tuple[Callable[[pa.DataType], bool], str]] = [
    (pa.types.is_integer, "BIGINT"),
    (pa.types.is_floating, "DOUBLE"),
    (pa.types.is_decimal, "DECIMAL"),
    (pa.types.is_date, "DATE"),
    (pa.types.is_timestamp, "TIMESTAMP"),
    (pa.types.is_boolean, "BOOLEAN"),
    (pa.types.is_binary, "BINARY"),
]


@dataclass(frozen=True)
class Input:
    """A source of a query, the view that stands for it, and what is read of it."""

    view: str
    source: Source
    columns: tuple[str, ...] | None = None
    where: Predicate | None = None
    # The same as text: as the statement has it, and of the columns' names alone.
    condition: str = ""
    where_text: str = ""
    # Columns, in lower case, that are read whatever the query needs: others are computed from them.
    needed: frozenset[str] = frozenset()
    # Metadata of the rows that is read beside the table's columns.
    metadata: tuple[str, ...] = ()

    @property
    def schema(self) -> pa.Schema:
        """The columns that the view may have."""
        return pa.schema([*self.source.schema, *map(metadata_field, self.metadata)])

    @property
    def rows(self) -> pa.Table | None:
        """The rows that are read as they are, rather than planned: those that are given, and those of a topic."""
        if self.source.reading is not None:
            return self.source.reading.rows(self.columns)
        return self.source.rows

    def scan(self) -> Scan:
        """The read that the query needs, planned."""
        assert self.source.table is not None
        return self.source.table.scan(columns=self._read_columns, where=self.where)

    def unfiltered(self) -> Scan:
        """The same read without its filter."""
        assert self.source.table is not None
        return self.source.table.scan(columns=self._read_columns)

    @property
    def _read_columns(self) -> tuple[str, ...] | None:
        return tuple(self.schema.names) if self.metadata and self.columns is None else self.columns


@dataclass(frozen=True)
class Query:
    """A statement that reads views, and what they stand for."""

    tree: exp.Expr
    inputs: tuple[Input, ...]


def refuse_open(query: Query, statement: str) -> None:
    """Raise InvalidRequest for a query that may name columns of others around it."""
    schema = {source.view: {field.name: sql_type(field.type) for field in source.schema} for source in query.inputs}
    try:
        qualify(query.tree.copy(), schema=known_columns(schema), dialect=SnaplineSql, identify=False)
    except SqlglotError as error:
        raise InvalidRequest(
            f"{statement} cannot be read inside of another query: {str(error).splitlines()[0]}"
        ) from None


def known_columns(schema: Mapping[str, Mapping[str, str]]) -> MappingSchema:
    """Columns and their types by view, as sqlglot takes them.

    It would read names as SQL, of which a semicolon or a comment ends some; those in statements are in lower case by then.
    """
    lower: dict[str, object] = {
        view: {name.lower(): kind for name, kind in columns.items()} for view, columns in schema.items()
    }
    return MappingSchema(lower, dialect=SnaplineSql, normalize=False)


def sql_type(kind: pa.DataType) -> str:
    """The name that sqlglot's type checks know for an Arrow type; TEXT for those without one."""
    return next((name for matches, name in _SQL_TYPES if matches(kind)), "TEXT")


def described(given: Input) -> dict[str, Any]:
    """What is read of an input, for EXPLAIN: snapshot, columns, condition, files read and skipped."""
    if given.source.table is None:
        return {
            "table": given.source.name,
            "snapshot": None,
            "columns": "",
            "condition": "",
            "files": None,
            "skipped": None,
        }
    scan, everything = given.scan(), given.source.table.scan()
    read = sum(len(split.file_paths) for split in scan.splits)
    total = sum(len(split.file_paths) for split in everything.splits)
    return {
        "table": given.source.name,
        "snapshot": scan.snapshot.id if scan.snapshot else None,
        "columns": ", ".join(given.columns or given.schema.names),
        "condition": given.condition,
        "files": read,
        "skipped": total - read,
    }
