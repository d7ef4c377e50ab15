"""What runs queries and writes their rows: what Spark and DuckDB have in common."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from sqlglot import exp

from storage import Basis, Snapshot, Table
from storage.engines.merge_clauses import MergeClause

from .fill import Fill
from .query import Input, Query
from .result import Result

APPEND, OVERWRITE, DYNAMIC = "append", "overwrite", "overwrite-partitions"
Rows = Any


class Engine(ABC):
    """What runs queries and writes their rows."""

    @abstractmethod
    def text(self, query: Query) -> str:
        """A query in the engine's own SQL. Raises InvalidRequest for what it cannot say."""

    @abstractmethod
    def expression(
        self,
        node: exp.Expr,
        tables: Mapping[str, pa.Schema],
        inputs: Sequence[Input],
        to: pa.DataType,
        column: str,
    ) -> str:
        """The value of a `column` of a type, over columns of tables, in the engine's own SQL; queries inside of it read inputs.
        Raises InvalidRequest for what is not stored in it.
        """

    @abstractmethod
    def condition(self, node: exp.Expr, tables: Mapping[str, pa.Schema], inputs: Sequence[Input]) -> str:
        """A condition in the engine's own SQL, likewise. Raises InvalidRequest for what is no boolean, if that is known before
        the statement runs.
        """

    @abstractmethod
    def schema(self, query: Query) -> pa.Schema:
        """Names and types of a query's columns, as far as the engine needs to know them before it runs."""

    def columns_of(self, query: Query) -> pa.Schema:
        """Names and types of a query's columns."""
        return self.columns(self.rows(query))

    @abstractmethod
    def rows(self, query: Query) -> Rows:
        """The rows of a query, as the engine holds them. Raises InvalidRequest with what the engine says."""

    @abstractmethod
    def batches(self, query: Query) -> Iterator[pa.RecordBatch]:
        """The rows of a query as they come, under one schema; a first batch is there in any case, and may be empty. Raises
        InvalidRequest with what the engine says.
        """

    @abstractmethod
    def views(self, inputs: Sequence[Input]) -> Mapping[str, Any]:
        """What the queries inside of a change read, by the names of the views."""

    @abstractmethod
    def result(self, rows: Rows) -> Result:
        """Rows as a result."""

    @abstractmethod
    def columns(self, rows: Rows) -> pa.Schema:
        """Names and types of rows."""

    @abstractmethod
    def fill(self, rows: Rows, fills: Sequence[Fill]) -> Rows:
        """The columns of a table, made from those of a query."""

    @abstractmethod
    def write(
        self,
        rows: Rows,
        table: Table,
        warehouse: str,
        mode: str,
        partition: Mapping[str, Any],
        commit_details: Mapping[str, Any],
    ) -> Snapshot | None:
        """Commit rows by position: append, or replace the table, the partition, or the partitions that occur."""

    @abstractmethod
    def stored(self, rows: Rows, schema: pa.Schema, subject: str) -> Iterator[pa.Table]:
        """Rows in the types of a schema, by position, a part at a time, in this process. Raises InvalidRequest for values that
        are not stored in them; `subject` is what takes them.
        """

    @abstractmethod
    def functions(self) -> list[str]:
        """The names of the functions that queries may call, sorted."""

    @abstractmethod
    def merge(
        self,
        source: Rows,
        table: Table,
        warehouse: str,
        on: str,
        clauses: Sequence[MergeClause],
        commit_details: Mapping[str, Any],
        basis: Basis,
    ) -> Snapshot | None:
        """Merge rows into a table as it was at a basis. Raises RowsChanged if others have changed the same rows since."""

    @abstractmethod
    def replace(
        self, rows: Rows, table: Table, warehouse: str, where: str, commit_details: Mapping[str, Any], basis: Basis
    ) -> Snapshot | None:
        """Put rows in the place of those for which a condition over `target.` is true. Raises InvalidRequest if it is not true
        of one of them; otherwise like `merge`.
        """

    @abstractmethod
    def delete(
        self, table: Table, warehouse: str, where: str, commit_details: Mapping[str, Any], basis: Basis
    ) -> Snapshot | None:
        """Delete the rows for which a condition over `target.` is true; otherwise like `merge`."""

    @abstractmethod
    def update(
        self,
        table: Table,
        warehouse: str,
        where: str,
        values: Mapping[str, str],
        commit_details: Mapping[str, Any],
        basis: Basis,
    ) -> Snapshot | None:
        """Set columns of the rows for which a condition is true to expressions; otherwise like `merge`."""
