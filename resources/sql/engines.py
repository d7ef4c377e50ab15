"""Run a prepared query on Spark or on DuckDB."""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from storage import Basis, InvalidRequest, Snapshot, Table
from storage.engines.merge_clauses import MergeClause
from storage.engines.storable import refuse_unstorable
from storage.sql.predicate_text import is_condition

from .duckdb_casts import cast
from .duckdb_expressions import implied
from .duckdb_failure import failure
from .duckdb_queries import compile_condition, compile_expression, compile_query, function_names
from .duckdb_relations import Relation, as_results, quoted, relation_of
from .engine_dialects import NATIVE, spark_text
from .fill import Fill
from .query import Input, Query
from .result import Result, spark_errors
from .spark_types import of_arrow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

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
        self, rows: Rows, table: Table, warehouse: str, mode: str, partition: Mapping[str, Any], how: Mapping[str, Any]
    ) -> Snapshot | None:
        """Commit rows by position: append, or replace the table, the partition, or the partitions that occur."""

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
        how: Mapping[str, Any],
        basis: Basis,
    ) -> Snapshot | None:
        """Merge rows into a table as it was at a basis. Raises RowsChanged if others have changed the same rows since."""

    @abstractmethod
    def replace(
        self, rows: Rows, table: Table, warehouse: str, where: str, how: Mapping[str, Any], basis: Basis
    ) -> Snapshot | None:
        """Put rows in the place of those for which a condition over `target.` is true. Raises InvalidRequest if it is not true
        of one of them; otherwise like `merge`.
        """

    @abstractmethod
    def delete(self, table: Table, warehouse: str, where: str, how: Mapping[str, Any], basis: Basis) -> Snapshot | None:
        """Delete the rows for which a condition over `target.` is true; otherwise like `merge`."""

    @abstractmethod
    def update(
        self, table: Table, warehouse: str, where: str, values: Mapping[str, str], how: Mapping[str, Any], basis: Basis
    ) -> Snapshot | None:
        """Set columns of the rows for which a condition is true to expressions; otherwise like `merge`."""


class DuckDbEngine(Engine):
    """DuckDB in this process; no JVM. It runs what is known to mean there what it means in Spark: see `duckdb_queries`."""

    def text(self, query: Query) -> str:
        return compile_query(query.tree, _schemas(query.inputs)).sql

    def expression(
        self,
        node: exp.Expr,
        tables: Mapping[str, pa.Schema],
        inputs: Sequence[Input],
        to: pa.DataType,
        column: str,
    ) -> str:
        typed = compile_expression(node, _relations(tables), _schemas(inputs))
        if typed.type.is_known:
            refuse_unstorable(typed.type.arrow, to, column)
        return implied(typed, of_arrow(to), node)

    def condition(self, node: exp.Expr, tables: Mapping[str, pa.Schema], inputs: Sequence[Input]) -> str:
        return compile_condition(node, _relations(tables), _schemas(inputs))

    def schema(self, query: Query) -> pa.Schema:
        compiled = compile_query(query.tree, _schemas(query.inputs))
        return pa.schema(
            [
                (name, one.arrow if one.is_known else pa.null())
                for name, one in zip(compiled.names, compiled.types, strict=True)
            ]
        )

    def columns_of(self, query: Query) -> pa.Schema:
        return self.schema(query)

    def rows(self, query: Query) -> pa.Table:
        from storage.engines.duckdb_connection import sealed_duckdb
        from storage.engines.duckdb_views import add_views

        compiled = compile_query(query.tree, _schemas(query.inputs))
        add = partial(add_views, "main", self.views(query.inputs))
        try:
            with sealed_duckdb(add, settings=("SET TimeZone = 'UTC'",)) as connection:
                return as_results(connection.sql(compiled.sql).to_arrow_table(), compiled)
        except duckdb.Error as error:
            raise InvalidRequest(f"DuckDB cannot run the query: {failure(error)}") from None
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise InvalidRequest(f"A value of the result does not fit its type in Spark: {error}") from None

    def views(self, inputs: Sequence[Input]) -> Mapping[str, Any]:
        return {one.view: one.source.rows if one.source.rows is not None else one.scan() for one in inputs}

    def result(self, rows: pa.Table) -> Result:
        return Result(rows=rows)

    def columns(self, rows: pa.Table) -> pa.Schema:
        return rows.schema

    def fill(self, rows: pa.Table, fills: Sequence[Fill]) -> pa.Table:
        columns = [
            rows.column(one.position) if one.position is not None else pa.repeat(_scalar(one.value), rows.num_rows)
            for one in fills
        ]
        return pa.table(columns, [one.name for one in fills])

    def write(
        self,
        rows: pa.Table,
        table: Table,
        warehouse: str,
        mode: str,
        partition: Mapping[str, Any],
        how: Mapping[str, Any],
    ) -> Snapshot | None:
        rows = _cast(rows, table, partition)
        if mode == APPEND:
            return table.write(rows, **how)
        return table.overwrite(
            rows, partition=partition or None, dynamic=mode == DYNAMIC if not partition else None, **how
        )

    def merge(
        self,
        source: pa.Table,
        table: Table,
        warehouse: str,
        on: str,
        clauses: Sequence[MergeClause],
        how: Mapping[str, Any],
        basis: Basis,
    ) -> Snapshot | None:
        from storage.engines.duckdb_merge import merge_rows

        return merge_rows(table, source, on, clauses, basis=basis, **how)

    def replace(
        self, rows: pa.Table, table: Table, warehouse: str, where: str, how: Mapping[str, Any], basis: Basis
    ) -> Snapshot | None:
        from storage.engines.duckdb_merge import replace_where

        return replace_where(table, _cast(rows, table, ()), where, basis=basis, **how)

    def delete(self, table: Table, warehouse: str, where: str, how: Mapping[str, Any], basis: Basis) -> Snapshot | None:
        return self._change(table, MergeClause("not matched by source", "delete", where), "DELETE", how, basis)

    def update(
        self, table: Table, warehouse: str, where: str, values: Mapping[str, str], how: Mapping[str, Any], basis: Basis
    ) -> Snapshot | None:
        clause = MergeClause("not matched by source", "update", where, dict(values))
        return self._change(table, clause, "UPDATE", how, basis)

    def _change(
        self, table: Table, clause: MergeClause, operation: str, how: Mapping[str, Any], basis: Basis
    ) -> Snapshot | None:
        from storage.engines.duckdb_merge import merge_rows

        nothing = pa.table({"__none": pa.array([], pa.int64())})
        return merge_rows(table, nothing, "FALSE", [clause], operation=operation, basis=basis, **how)

    def functions(self) -> list[str]:
        return function_names()


class SparkEngine(Engine):
    """Spark, started when it is first needed."""

    def __init__(self, start: "Callable[[], SparkSession]") -> None:
        self._start = start

    @property
    def session(self) -> "SparkSession":
        return self._start()

    def text(self, query: Query) -> str:
        return spark_text(query.tree)

    def expression(
        self,
        node: exp.Expr,
        tables: Mapping[str, pa.Schema],
        inputs: Sequence[Input],
        to: pa.DataType,
        column: str,
    ) -> str:
        return spark_text(node)

    def condition(self, node: exp.Expr, tables: Mapping[str, pa.Schema], inputs: Sequence[Input]) -> str:
        return spark_text(node)

    def schema(self, query: Query) -> pa.Schema:
        return pa.schema([])

    def functions(self) -> list[str]:
        rows = self.session.sql("SHOW SYSTEM FUNCTIONS").collect()
        return sorted({row[0] for row in rows} - {*NATIVE})

    def frame(self, one: Input) -> "DataFrame":
        """The rows that stand behind a view."""
        from storage.engines.spark_reader import read_scan
        from storage.engines.spark_types import spark_schema

        rows = one.source.rows
        if rows is not None:
            # Without it, times that have no zone would get the session's.
            return self.session.createDataFrame(rows, spark_schema(rows.schema))
        assert one.source.table is not None
        narrow = None if one.where is None else one.scan()
        # A long condition is left to Spark.
        where = one.where_text if is_condition(one.where_text) else ""
        return read_scan(
            self.session, one.source.table, one.unfiltered(), one.source.warehouse, narrow=narrow, where=where
        )

    def rows(self, query: Query) -> "DataFrame":
        return self.over({one.view: self.frame(one) for one in query.inputs}, query.tree)

    def over(self, frames: "Mapping[str, DataFrame]", tree: exp.Expr) -> "DataFrame":
        """A statement over views."""
        from pyspark.sql.utils import is_remote

        for view, frame in frames.items():
            frame.createOrReplaceTempView(view)
        text = spark_text(tree)
        try:
            with spark_errors():
                return self.session.sql(text)
        finally:
            # By now the plan holds what stands behind the views; Spark Connect looks them up later.
            for view in frames if not is_remote() else ():
                self.session.catalog.dropTempView(view)

    def views(self, inputs: Sequence[Input]) -> Mapping[str, Any]:
        return {one.view: self.frame(one) for one in inputs}

    def result(self, rows: "DataFrame") -> Result:
        return Result(frame=rows)

    def columns(self, rows: "DataFrame") -> pa.Schema:
        from storage.engines.spark_types import arrow_schema_of

        return arrow_schema_of(rows.schema)

    def fill(self, rows: "DataFrame", fills: Sequence[Fill]) -> "DataFrame":
        from pyspark.sql import functions as F

        from storage.engines.spark_types import spark_schema

        # Names may occur twice: positions do not.
        numbered = rows.toDF(*[f"c{number}" for number in range(len(rows.columns))])

        def column(one: Fill) -> Any:
            if one.position is not None:
                return F.col(f"c{one.position}")
            if isinstance(one.value, pa.Scalar):
                (held,) = spark_schema(pa.schema([(one.name, one.value.type)])).fields
                return F.lit(one.value.as_py()).cast(held.dataType)
            return F.lit(one.value)

        return numbered.select(*[column(one).alias(one.name) for one in fills])

    def write(
        self,
        rows: "DataFrame",
        table: Table,
        warehouse: str,
        mode: str,
        partition: Mapping[str, Any],
        how: Mapping[str, Any],
    ) -> Snapshot | None:
        from storage.engines.spark_writer import write_frame

        frame = self.cast(rows, table, partition)
        listed = [dict(partition)] if partition else None
        if mode != APPEND:
            mode = DYNAMIC if partition or mode == DYNAMIC else OVERWRITE
        with spark_errors():
            return write_frame(frame, table, warehouse, mode=mode, partitions=listed if mode != APPEND else None, **how)

    def cast(self, rows: "DataFrame", table: Table, filled: Collection[str] | None = None) -> "DataFrame":
        """Rows under the types of a table's columns of the same names; other columns stay as they are. Those that are `filled`
        are what the statement says of its partition. Raises InvalidRequest for values that are not stored, unless `filled` is
        None.
        """
        from storage.engines.spark_types import column_named, spark_schema

        if filled is not None:
            for one in self.columns(rows):
                if one.name not in filled:
                    refuse_unstorable(one.type, table.schema.field(one.name).to_arrow().type, one.name)
        types = {field.name: field.dataType for field in spark_schema(table.schema.to_arrow()).fields}
        return rows.select(
            *[
                column_named(name).cast(types[name]).alias(name) if name in types else column_named(name)
                for name in rows.columns
            ]
        )

    def merge(
        self,
        source: "DataFrame",
        table: Table,
        warehouse: str,
        on: str,
        clauses: Sequence[MergeClause],
        how: Mapping[str, Any],
        basis: Basis,
    ) -> Snapshot | None:
        from storage.engines.spark_rows import merge_rows

        with spark_errors():
            return merge_rows(source, table, warehouse, on, clauses, basis=basis, **how)

    def replace(
        self, rows: "DataFrame", table: Table, warehouse: str, where: str, how: Mapping[str, Any], basis: Basis
    ) -> Snapshot | None:
        from storage.engines.spark_rows import replace_where

        with spark_errors():
            return replace_where(self.cast(rows, table, ()), table, warehouse, where, basis=basis, **how)

    def delete(self, table: Table, warehouse: str, where: str, how: Mapping[str, Any], basis: Basis) -> Snapshot | None:
        from storage.engines.spark_rows import delete_rows

        with spark_errors():
            return delete_rows(self.session, table, warehouse, where, basis=basis, **how)

    def update(
        self, table: Table, warehouse: str, where: str, values: Mapping[str, str], how: Mapping[str, Any], basis: Basis
    ) -> Snapshot | None:
        from storage.engines.spark_rows import update_rows

        with spark_errors():
            return update_rows(self.session, table, warehouse, where, values, basis=basis, **how)


def _scalar(value: Any) -> pa.Scalar:
    return value if isinstance(value, pa.Scalar) else pa.scalar(value)


def _relations(tables: Mapping[str, pa.Schema]) -> list[Relation]:
    return [relation_of(name, schema) for name, schema in tables.items()]


def _schemas(inputs: Sequence[Input]) -> dict[str, pa.Schema]:
    """The columns that views hold: those that a query needs."""
    return {
        one.view: pa.schema([field for field in one.source.schema if one.columns is None or field.name in one.columns])
        for one in inputs
    }


def _cast(rows: pa.Table, table: Table, filled: Collection[str]) -> pa.Table:
    """Rows under the types of a table's columns; those that are `filled` are what the statement says of its partition.

    Raises InvalidRequest for values that are not stored, or do not fit.
    """
    from storage.engines.duckdb_connection import sealed_duckdb

    fields = [table.schema.field(name).to_arrow() for name in rows.column_names]
    chosen, differs = [], False
    for position, (field, column) in enumerate(zip(fields, rows.columns, strict=True)):
        given, held = of_arrow(column.type), of_arrow(field.type)
        value = quoted(f"c{position}")
        if field.name not in filled:
            refuse_unstorable(column.type, field.type, field.name)
        if given != held and given.word != "null" and not (given.inner and column.type.equals(field.type)):
            differs = True
            value = cast(value, given, held, exp.column(field.name), implied=True) if held.is_known else value
        chosen.append(f"{value} AS {quoted(f'c{position}')}")
    if differs:
        numbered = rows.rename_columns([f"c{position}" for position in range(rows.num_columns)])

        def add(connection: duckdb.DuckDBPyConnection) -> list[str]:
            connection.register("__rows", numbered)
            return []

        try:
            with sealed_duckdb(add, settings=("SET TimeZone = 'UTC'",)) as connection:
                text = f"SELECT {', '.join(chosen)} FROM __rows"
                rows = connection.sql(text).to_arrow_table().rename_columns(rows.column_names)
        except duckdb.Error as error:
            said = re.sub(r'\bcolumn "?c(\d+)"?', lambda found: f"column {fields[int(found[1])].name}", failure(error))
            raise InvalidRequest(f"{table.identifier} cannot hold the values: {said}") from None
    columns = []
    for field, column in zip(fields, rows.columns, strict=True):
        try:
            columns.append(pc.cast(column, field.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise InvalidRequest(
                f"Column {field.name!r} of {table.identifier} cannot hold the values: {error}"
            ) from None
    return pa.Table.from_arrays(columns, schema=pa.schema([pa.field(field.name, field.type) for field in fields]))
