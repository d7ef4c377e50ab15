"""Run prepared queries on Spark, and write their rows. Importing this imports PySpark."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.utils import is_remote
from sqlglot import exp

from storage import Basis, Snapshot, Table, nullable_arrow
from storage.engines.merge_clauses import MergeClause
from storage.engines.spark_reader import read_scan
from storage.engines.spark_rows import delete_rows, merge_rows, replace_where, update_rows
from storage.engines.spark_types import arrow_schema_of, column_named, spark_schema
from storage.engines.spark_writer import write_frame
from storage.engines.storable import refuse_unstorable
from storage.sql.predicate_text import is_condition

from .engine import APPEND, DYNAMIC, OVERWRITE, Engine
from .engine_dialects import NATIVE, spark_text
from .fill import Fill
from .query import Input, Query
from .result import Result, spark_errors


class SparkEngine(Engine):
    """Spark, started when it is first needed."""

    def __init__(self, start: Callable[[], SparkSession]) -> None:
        self._start = start

    @property
    def session(self) -> SparkSession:
        """The Spark session, which starts with the first statement that needs it."""
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

    def frame(self, read: Input) -> DataFrame:
        """The rows that stand behind a view."""
        rows = read.rows
        if rows is not None:
            # Without it, times that have no zone would get the session's.
            return self.session.createDataFrame(rows, spark_schema(rows.schema))
        assert read.source.table is not None
        narrow = None if read.where is None else read.scan()
        # A long condition is left to Spark.
        where = read.where_text if is_condition(read.where_text) else ""
        return read_scan(
            self.session, read.source.table, read.unfiltered(), read.source.warehouse, narrow=narrow, where=where
        )

    def rows(self, query: Query) -> DataFrame:
        return self.over({source.view: self.frame(source) for source in query.inputs}, query.tree)

    def batches(self, query: Query) -> Iterator[pa.RecordBatch]:
        rows = self.rows(query)
        yield pa.RecordBatch.from_pylist([], self.columns(rows))
        yield from self._fetched(rows)

    def stored(self, rows: DataFrame, schema: pa.Schema, subject: str) -> Iterator[pa.Table]:
        types = spark_schema(schema).fields
        for given, held in zip(self.columns(rows), schema, strict=True):
            refuse_unstorable(given.type, held.type, held.name)
        names = [f"c{number}" for number in range(len(types))]
        cast = rows.toDF(*names).select(
            *[F.col(name).cast(field.dataType).alias(name) for name, field in zip(names, types, strict=True)]
        )
        for batch in self._fetched(cast):
            yield pa.Table.from_batches([batch]).rename_columns(schema.names).cast(schema)

    def _fetched(self, rows: DataFrame) -> Iterator[pa.RecordBatch]:
        """The rows of a frame, a batch at a time."""
        schema = self.columns(rows)
        # Names may occur twice.
        numbered = rows.toDF(*[f"c{number}" for number in range(len(rows.columns))])

        def packed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                sink = pa.BufferOutputStream()
                with pa.ipc.new_stream(sink, batch.schema) as writer:
                    writer.write_batch(batch)
                yield pa.RecordBatch.from_pydict({"packed": [sink.getvalue().to_pybytes()]})

        # A partition at a time, and of it a batch at a time, is in this process.
        with spark_errors():
            for row in numbered.mapInArrow(packed, "packed binary").toLocalIterator():
                for batch in pa.ipc.open_stream(row.packed):
                    yield from pa.Table.from_batches([batch]).rename_columns(schema.names).cast(schema).to_batches()

    def over(self, frames: Mapping[str, DataFrame], tree: exp.Expr) -> DataFrame:
        """A statement over views."""
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
        return {source.view: self.frame(source) for source in inputs}

    def result(self, rows: DataFrame) -> Result:
        return Result(frame=rows)

    def columns(self, rows: DataFrame) -> pa.Schema:
        return arrow_schema_of(rows.schema)

    def fill(self, rows: DataFrame, fills: Sequence[Fill]) -> DataFrame:
        # Names may occur twice: positions do not.
        numbered = rows.toDF(*[f"c{number}" for number in range(len(rows.columns))])

        def column(fill: Fill) -> Any:
            if fill.position is not None:
                return F.col(f"c{fill.position}")
            if isinstance(fill.value, pa.Scalar):
                (held,) = spark_schema(pa.schema([(fill.name, fill.value.type)])).fields
                return F.lit(fill.value.as_py()).cast(held.dataType)
            return F.lit(fill.value)

        return numbered.select(*[column(fill).alias(fill.name) for fill in fills])

    def write(
        self,
        rows: DataFrame,
        table: Table,
        warehouse: str,
        mode: str,
        partition: Mapping[str, Any],
        commit_details: Mapping[str, Any],
    ) -> Snapshot | None:
        frame = self.cast(rows, table, partition)
        listed = [dict(partition)] if partition else None
        if mode != APPEND:
            mode = DYNAMIC if partition or mode == DYNAMIC else OVERWRITE
        with spark_errors():
            return write_frame(
                frame, table, warehouse, mode=mode, partitions=listed if mode != APPEND else None, **commit_details
            )

    def cast(self, rows: DataFrame, table: Table, filled: Collection[str] | None = None) -> DataFrame:
        """Rows under the types of a table's columns of the same names; other columns stay as they are. Those that are `filled`
        are what the statement says of its partition. Raises InvalidRequest for values that are not stored, unless `filled` is
        None.
        """
        if filled is not None:
            for column in self.columns(rows):
                if column.name not in filled:
                    refuse_unstorable(column.type, table.schema.field(column.name).to_arrow().type, column.name)
        # Whether elements are null is asked of their values, as they are written: Spark would ask it of their types.
        nullable = pa.schema([nullable_arrow(field) for field in table.schema.to_arrow()])
        types = {field.name: field.dataType for field in spark_schema(nullable).fields}
        return rows.select(
            *[
                column_named(name).cast(types[name]).alias(name) if name in types else column_named(name)
                for name in rows.columns
            ]
        )

    def merge(
        self,
        source: DataFrame,
        table: Table,
        warehouse: str,
        on: str,
        clauses: Sequence[MergeClause],
        commit_details: Mapping[str, Any],
        basis: Basis,
    ) -> Snapshot | None:
        with spark_errors():
            return merge_rows(source, table, warehouse, on, clauses, basis=basis, **commit_details)

    def replace(
        self, rows: DataFrame, table: Table, warehouse: str, where: str, commit_details: Mapping[str, Any], basis: Basis
    ) -> Snapshot | None:
        with spark_errors():
            return replace_where(self.cast(rows, table, ()), table, warehouse, where, basis=basis, **commit_details)

    def delete(
        self, table: Table, warehouse: str, where: str, commit_details: Mapping[str, Any], basis: Basis
    ) -> Snapshot | None:
        with spark_errors():
            return delete_rows(self.session, table, warehouse, where, basis=basis, **commit_details)

    def update(
        self,
        table: Table,
        warehouse: str,
        where: str,
        values: Mapping[str, str],
        commit_details: Mapping[str, Any],
        basis: Basis,
    ) -> Snapshot | None:
        with spark_errors():
            return update_rows(self.session, table, warehouse, where, values, basis=basis, **commit_details)
