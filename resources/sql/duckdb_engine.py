"""Run prepared queries on DuckDB in this process, and write their rows. No JVM."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from storage import Basis, InvalidRequest, Snapshot, Table
from storage.engines.duckdb_connection import sealed_duckdb
from storage.engines.duckdb_merge import merge_rows, replace_where
from storage.engines.duckdb_views import add_views
from storage.engines.merge_clauses import MergeClause
from storage.engines.storable import refuse_unstorable

from .duckdb_aggregates import function_names
from .duckdb_casts import cast
from .duckdb_expressions import implied
from .duckdb_failure import failure
from .duckdb_queries import compile_condition, compile_expression, compile_query
from .duckdb_relations import Compiled, Relation, as_results, quoted, relation_of
from .engine import APPEND, DYNAMIC, Engine
from .fill import Fill
from .query import Input, Query
from .result import Result
from .spark_types import of_arrow

# What it says of statements, not of rows.
_OF_DUCKDB_ALONE = (duckdb.ParserException, duckdb.BinderException, duckdb.NotImplementedException)
_OTHER_ENGINE = "Use the engine spark."


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
                (name, kind.arrow if kind.is_known else pa.null())
                for name, kind in zip(compiled.names, compiled.types, strict=True)
            ]
        )

    def columns_of(self, query: Query) -> pa.Schema:
        return self.schema(query)

    def rows(self, query: Query) -> pa.Table:
        with self._ran(query) as (relation, compiled):
            return as_results(relation.to_arrow_table(), compiled)

    def batches(self, query: Query) -> Iterator[pa.RecordBatch]:
        with self._ran(query) as (relation, compiled):
            reader = relation.to_arrow_reader()
            yield pa.RecordBatch.from_pylist([], as_results(reader.schema.empty_table(), compiled).schema)
            for batch in reader:
                yield from as_results(pa.Table.from_batches([batch]), compiled).to_batches()

    @contextmanager
    def _ran(self, query: Query) -> Iterator[tuple[duckdb.DuckDBPyRelation, Compiled]]:
        """A query as DuckDB holds it; what fails while it is read is said in a line."""
        compiled = compile_query(query.tree, _schemas(query.inputs))
        add = partial(add_views, "main", self.views(query.inputs))
        try:
            with sealed_duckdb(add, settings=("SET TimeZone = 'UTC'",)) as connection:
                yield connection.sql(compiled.sql), compiled
        except duckdb.Error as error:
            advice = f" {_OTHER_ENGINE}" if isinstance(error, _OF_DUCKDB_ALONE) else ""
            raise InvalidRequest(f"DuckDB cannot run the query: {failure(error)}{advice}") from None
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise InvalidRequest(
                f"A value of the result does not fit its type in Spark: {str(error).rstrip('.')}. {_OTHER_ENGINE}"
            ) from None

    def views(self, inputs: Sequence[Input]) -> Mapping[str, Any]:
        return {source.view: source.scan() if (rows := source.rows) is None else rows for source in inputs}

    def result(self, rows: pa.Table) -> Result:
        return Result(rows=rows)

    def columns(self, rows: pa.Table) -> pa.Schema:
        return rows.schema

    def fill(self, rows: pa.Table, fills: Sequence[Fill]) -> pa.Table:
        columns = [
            rows.column(fill.position) if fill.position is not None else pa.repeat(_scalar(fill.value), rows.num_rows)
            for fill in fills
        ]
        return pa.table(columns, [fill.name for fill in fills])

    def write(
        self,
        rows: pa.Table,
        table: Table,
        warehouse: str,
        mode: str,
        partition: Mapping[str, Any],
        commit_details: Mapping[str, Any],
    ) -> Snapshot | None:
        rows = _cast(rows, table, partition)
        if mode == APPEND:
            return table.write(rows, **commit_details)
        return table.overwrite(
            rows, partition=partition or None, dynamic=mode == DYNAMIC if not partition else None, **commit_details
        )

    def stored(self, rows: pa.Table, schema: pa.Schema, subject: str) -> Iterator[pa.Table]:
        yield _cast_to(rows, list(schema), subject, ())

    def merge(
        self,
        source: pa.Table,
        table: Table,
        warehouse: str,
        on: str,
        clauses: Sequence[MergeClause],
        commit_details: Mapping[str, Any],
        basis: Basis,
    ) -> Snapshot | None:
        return merge_rows(table, source, on, clauses, basis=basis, **commit_details)

    def replace(
        self, rows: pa.Table, table: Table, warehouse: str, where: str, commit_details: Mapping[str, Any], basis: Basis
    ) -> Snapshot | None:
        return replace_where(table, _cast(rows, table, ()), where, basis=basis, **commit_details)

    def delete(
        self, table: Table, warehouse: str, where: str, commit_details: Mapping[str, Any], basis: Basis
    ) -> Snapshot | None:
        return self._change(
            table, MergeClause("not matched by source", "delete", where), "DELETE", commit_details, basis
        )

    def update(
        self,
        table: Table,
        warehouse: str,
        where: str,
        values: Mapping[str, str],
        commit_details: Mapping[str, Any],
        basis: Basis,
    ) -> Snapshot | None:
        clause = MergeClause("not matched by source", "update", where, dict(values))
        return self._change(table, clause, "UPDATE", commit_details, basis)

    def _change(
        self, table: Table, clause: MergeClause, operation: str, commit_details: Mapping[str, Any], basis: Basis
    ) -> Snapshot | None:
        nothing = pa.table({"__none": pa.array([], pa.int64())})
        return merge_rows(table, nothing, "FALSE", [clause], operation=operation, basis=basis, **commit_details)

    def functions(self) -> list[str]:
        return function_names()


def _scalar(value: Any) -> pa.Scalar:
    return value if isinstance(value, pa.Scalar) else pa.scalar(value)


def _relations(tables: Mapping[str, pa.Schema]) -> list[Relation]:
    return [relation_of(name, schema) for name, schema in tables.items()]


def _schemas(inputs: Sequence[Input]) -> dict[str, pa.Schema]:
    """The columns that views hold: those that a query needs."""
    return {
        read.view: pa.schema([field for field in read.schema if read.columns is None or field.name in read.columns])
        for read in inputs
    }


def _cast(rows: pa.Table, table: Table, filled: Collection[str]) -> pa.Table:
    """Rows under the types of a table's columns; those that are `filled` are what the statement says of its partition."""
    fields = [table.schema.field(name).to_arrow() for name in rows.column_names]
    return _cast_to(rows, fields, str(table.identifier), filled)


def _cast_to(rows: pa.Table, fields: Sequence[pa.Field], subject: str, filled: Collection[str]) -> pa.Table:
    """Rows under the types of fields, by position. Raises InvalidRequest for values that are not stored, or do not fit."""
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
            said = re.sub(r'\bcolumn "?c(\d+)"?', lambda match: f"column {fields[int(match[1])].name}", failure(error))
            # Spark stores NULL for what is no number, and Infinity for what is too large for a FLOAT.
            advice = f" {_OTHER_ENGINE}" if re.search(r'"-?(nan|inf)|type FLOAT', said) else ""
            raise InvalidRequest(f"{subject} cannot hold the values: {said.rstrip('.')}.{advice}") from None
    columns = []
    for field, column in zip(fields, rows.columns, strict=True):
        try:
            columns.append(pc.cast(column, field.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise InvalidRequest(f"Column {field.name!r} of {subject} cannot hold the values: {error}") from None
    return pa.Table.from_arrays(columns, schema=pa.schema([pa.field(field.name, field.type) for field in fields]))
