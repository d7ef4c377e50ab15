"""DELETE, UPDATE and MERGE on Spark, for any amount of rows.

With a primary key, changed rows are written as changes by key. Without one, the files that hold them are written anew:
their other rows, and what has become of the changed ones. Each change is computed from one snapshot, its basis, and if
others change the same rows before it is committed, again from a newer one.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import ArrayType, LongType, MapType, StringType, StructField, StructType
from pyspark.sql.utils import is_remote

from ..basis import MERGE, REPLACE_WHERE, Basis
from ..clock import Clock
from ..errors import InvalidRequest
from ..format.deletion_vector import DeletionVector
from ..metadata.manifest import ManifestEntry
from ..metadata.snapshot import Snapshot
from ..metadata.table_store import TableStore
from ..read.scan import Scan
from ..row_changes import addressed_rows, refuse_sinking
from ..table import Table
from ..write.commit_id import CommitId
from ..write.own_properties import refuse_own_properties
from .merge_clauses import (
    CLAUSE,
    DELETE,
    FILE,
    INSERT,
    KIND_OF,
    MOVES,
    REPLACED,
    ROW,
    SINKS,
    UPDATE,
    MergeClause,
    ambiguous,
    check_clauses,
    has_order,
    merge_query,
    outside_query,
    refuse_moving,
    refuse_no_condition,
    refuse_outside,
    refuse_repeated,
    replacing,
    seeing_query,
    seen_by,
)
from .spark_errors import own_error
from .spark_jobs import rows_of_tasks
from .spark_reader import read_scan
from .spark_types import arrow_schema_of, as_spark_expects, column_named, spark_schema
from .spark_writer import write_frame
from .storable import refuse_unstorable

_KIND = "__kind"


def delete_rows(spark: SparkSession, table: Table, warehouse: str, where: str, **options: Any) -> Snapshot | None:
    """Delete the rows for which a condition in Spark's SQL is true; None if there are none.

    `options`: the commit's `commit_id` and `properties`, the change's `basis` and `views`, as for `merge_rows`.
    """
    clause = MergeClause("not matched by source", DELETE, where)
    return _change(spark, table, warehouse, None, "FALSE", [clause], "DELETE", options)


def update_rows(
    spark: SparkSession, table: Table, warehouse: str, where: str, values: Mapping[str, str], **options: Any
) -> Snapshot | None:
    """Set columns of the rows for which a condition is true to expressions in Spark's SQL; None if there are none.

    `options`: the commit's `commit_id` and `properties`, the change's `basis` and `views`, as for `merge_rows`.
    """
    clause = MergeClause("not matched by source", UPDATE, where, dict(values))
    return _change(spark, table, warehouse, None, "FALSE", [clause], "UPDATE", options)


def merge_rows(
    source: DataFrame,
    table: Table,
    warehouse: str,
    on: str | Sequence[str],
    clauses: Sequence[MergeClause],
    *,
    commit_id: CommitId | None = None,
    properties: Mapping[str, str] | None = None,
    basis: Basis | None = None,
    views: Mapping[str, DataFrame] | None = None,
) -> Snapshot | None:
    """Merge a DataFrame into a table in one commit; None if nothing changes.

    `on`: the columns that have to be equal, or a condition over `target.` and `source.`. `basis`: what the table's rows are
    taken from; by default the newest snapshot, and a newer one if others change the same rows meanwhile (`Table.repeated`).
    `views`: what queries inside of the conditions and values read, by name.

    Raises InvalidRequest for clauses that cannot be, and if several rows of the source would change one row; CommitConflict
    if others changed the same rows each time; RowsChanged if they have since the `basis` that was given.
    """
    options = {"commit_id": commit_id, "properties": properties, "basis": basis, "views": views}
    return _change(source.sparkSession, table, warehouse, source, on, clauses, MERGE, options)


def replace_where(
    source: DataFrame, table: Table, warehouse: str, where: str, *, basis: Basis, **options: Any
) -> Snapshot | None:
    """Put the rows of a DataFrame in the place of those for which a condition over `target.` is true, in one commit; None if
    there are neither. `options`: the commit's `commit_id` and `properties`.

    Raises InvalidRequest if the condition is not true of a row of the DataFrame, or several have one key; RowsChanged if
    others have changed the same rows since the `basis`.
    """
    on, clauses = replacing(table.schema, where)
    return _change(
        source.sparkSession, table, warehouse, source, on, clauses, REPLACE_WHERE, {**options, "basis": basis}, where
    )


def _change(
    spark: SparkSession,
    table: Table,
    warehouse: str,
    source: DataFrame | None,
    on: str | Sequence[str] | None,
    clauses: Sequence[MergeClause],
    operation: str,
    options: Mapping[str, Any],
    replaced_where: str | None = None,
) -> Snapshot | None:
    refuse_own_properties(options.get("properties"))
    check_clauses(table.schema, source.columns if source is not None else (), clauses)
    given = {name: value for name, value in options.items() if name not in ("basis", "views")}
    inner = options.get("views") or {}
    keyed = bool(table.schema.primary_keys)

    def change(basis: Basis) -> Snapshot | None:
        if basis.snapshot is None and source is None:
            return None
        scan = basis.scan()
        target = read_scan(spark, table, scan, warehouse) if keyed else _addressed(spark, table, scan)
        plan = _planned(spark, table, target, source, on, clauses, keyed, inner).persist()
        try:
            if replaced_where is not None:
                _refuse_unfit(spark, plan, replaced_where, _keys_of(table))
            return _commit(plan, table, warehouse, basis, target, clauses, operation, keyed, given)
        except PySparkException as error:
            raise own_error(error) or _said_by_spark(error) from None
        finally:
            plan.unpersist()

    basis = options.get("basis")
    return table.repeated(change) if basis is None else change(basis)


def _keys_of(table: Table) -> list[Column]:
    """The columns of the key, by which rows are told apart: 0.0 and -0.0 are two keys of the format, and one group of Spark."""
    key_columns = []
    for name in table.schema.primary_keys:
        column = column_named(name)
        key_columns.append(column.cast("string").alias(name) if table.schema.field(name).type.is_float else column)
    return key_columns


def _refuse_unfit(spark: SparkSession, plan: DataFrame, where: str, keys: Sequence[Column]) -> None:
    """Raise InvalidRequest for new rows outside of what is replaced, and for keys that come twice."""
    view = f"snapline_{Clock().unique_name().replace('-', '')}_plan"
    plan.createOrReplaceTempView(view)
    try:
        refuse_outside(spark.sql(outside_query(where, view)).collect()[0][0])
    finally:
        spark.catalog.dropTempView(view)
    if keys:
        came = plan.where(F.col(CLAUSE) != REPLACED)
        refuse_repeated(came.groupBy(*keys).count().where("count > 1").count())


def _said_by_spark(error: PySparkException) -> Exception:
    """An error in the caller's SQL, in one line; others as they are."""
    condition = error.getCondition() or ""
    if condition.startswith(("UNRESOLVED", "PARSE", "DATATYPE", "MISSING", "AMBIGUOUS", "INVALID")):
        return InvalidRequest(f"Spark cannot compute the change: {str(error).splitlines()[0]}")
    return error


def _commit(
    plan: DataFrame,
    table: Table,
    warehouse: str,
    basis: Basis,
    target: DataFrame,
    clauses: Sequence[MergeClause],
    operation: str,
    keyed: bool,
    options: Mapping[str, Any],
) -> Snapshot | None:
    actions = F.create_map(
        *[F.lit(value) for number, clause in enumerate(clauses, 1) for value in (number, clause.then)]
    )
    plan = plan.withColumn("__action", actions[F.col(CLAUSE)])
    identity = _keys_of(table) if keyed else [column_named(name) for name in (FILE, ROW)]
    changed = plan.where(F.col("__action") != INSERT)
    twice = changed.groupBy(*identity).count().where("count > 1").count()
    if twice:
        raise ambiguous(twice)
    if plan.isEmpty():
        return None
    if MOVES in plan.columns:
        refuse_moving(table.schema, plan.where(MOVES).count())
    if has_order(table.schema):
        refuse_sinking(table.store, plan.where(SINKS).count())
    columns = [column_named(name) for name in table.schema.column_names]
    if keyed:
        kinds = F.create_map(*[F.lit(each) for pair in KIND_OF.items() for each in pair])
        rows = plan.select(*columns, kinds[F.col("__action")].alias(_KIND))
        return write_frame(
            rows, table, warehouse, row_kind_column=_KIND, operation=operation, basis=basis.mark, **options
        )
    files = [row[0] for row in changed.select(FILE).distinct().collect()]
    rows = plan.where(F.col("__action") != DELETE).select(*columns)
    marked = None
    if table.schema.table_options.deletion_vectors_enabled:
        marked = changed.select(FILE, ROW).toArrow()
    else:
        held = target.where(F.col(FILE).isin(files)) if files else target.limit(0)
        kept = held.join(changed.select(FILE, ROW), [FILE, ROW], "left_anti").select(*columns)
        rows = kept.unionByName(rows)
    replaced = (basis.snapshot.id, files) if basis.snapshot is not None else None
    inserts = any(clause.then == INSERT for clause in clauses)
    return write_frame(
        rows,
        table,
        warehouse,
        operation=operation,
        replaced=replaced,
        marked=marked,
        basis=basis.mark if inserts else None,
        **options,
    )


def _planned(
    spark: SparkSession,
    table: Table,
    target: DataFrame,
    source: DataFrame | None,
    on: str | Sequence[str] | None,
    clauses: Sequence[MergeClause],
    keyed: bool,
    inner: Mapping[str, DataFrame],
) -> DataFrame:
    name = f"snapline_{Clock().unique_name().replace('-', '')}"
    views = {f"{name}_target": target} | ({} if source is None else {f"{name}_source": source}) | dict(inner)
    for view, frame in views.items():
        frame.createOrReplaceTempView(view)
    sides = {view.rpartition("_")[2]: view for view in list(views)[: 1 if source is None else 2]}
    try:
        for clause in clauses:
            _check_condition(spark, clause, sides)
        clauses = [_cast_values(spark, table, clause, sides) for clause in clauses]
        query = merge_query(
            table.schema,
            on,
            clauses,
            _quoted,
            target=f"{name}_target",
            source=None if source is None else f"{name}_source",
            addressed=not keyed,
        )
        return spark.sql(query)
    except PySparkException as error:
        raise _said_by_spark(error) from None
    finally:
        # By now the plan holds what stands behind the views; Spark Connect looks them up later.
        for view in views if not is_remote() else ():
            spark.catalog.dropTempView(view)


def _check_condition(spark: SparkSession, clause: MergeClause, sides: Mapping[str, str]) -> None:
    """Raise InvalidRequest for what Spark itself takes as no condition, and that joined to others would be cast to one."""
    if clause.condition is not None:
        schema = spark.sql(seeing_query(clause.condition, clause.when, sides)).schema
        refuse_no_condition(clause.condition, schema[0].dataType.simpleString())


def _cast_values(spark: SparkSession, table: Table, clause: MergeClause, sides: Mapping[str, str]) -> MergeClause:
    """A clause whose values have the types of their columns. Raises InvalidRequest for those that a column does not take."""
    if clause.then == DELETE:
        return clause
    values = clause.values
    if values is None:
        fixed = clause.fixed_columns(table.schema)
        clause = replace(clause, unset={name: f"source.{_quoted(name)}" for name in fixed})
        values = {name: f"source.{_quoted(name)}" for name in table.schema.column_names if name not in fixed}
    if not values:
        return clause
    chosen = ", ".join(f"({value}) AS {_quoted(name)}" for name, value in values.items())
    places = [f"{sides[side]} AS {side}" for side in seen_by(clause.when) if side in sides]
    given = arrow_schema_of(spark.sql(f"SELECT {chosen} FROM {' CROSS JOIN '.join(places)}").schema)
    held = spark_schema(table.schema.to_arrow())
    for field in given:
        refuse_unstorable(field.type, table.schema.field(field.name).to_arrow().type, field.name)
    cast = {name: f"CAST(({value}) AS {_type_text(held[name].dataType)})" for name, value in values.items()}
    return replace(clause, values=cast)


def _type_text(kind: Any) -> str:
    """A type in Spark's SQL, with the names of structs quoted."""
    match kind:
        case ArrayType():
            return f"ARRAY<{_type_text(kind.elementType)}>"
        case MapType():
            return f"MAP<{_type_text(kind.keyType)}, {_type_text(kind.valueType)}>"
        case StructType():
            return (
                f"STRUCT<{', '.join(f'{_quoted(field.name)}: {_type_text(field.dataType)}' for field in kind.fields)}>"
            )
    return str(kind.simpleString())


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _addressed(spark: SparkSession, table: Table, scan: Scan) -> DataFrame:
    """The rows of the files of a table without a key, each with its file and its position in it."""
    schema = spark_schema(table.schema.to_arrow())
    schema = StructType([*schema.fields, StructField(FILE, StringType()), StructField(ROW, LongType())])
    if not scan.entries:
        return spark.createDataFrame([], schema)
    vectors = scan.deletion_vectors
    pieces = [(table.store, entry, vectors.get(entry.file.name), schema) for entry in scan.entries]
    return rows_of_tasks(spark, pieces, _rows_of_file, schema)


def _rows_of_file(
    piece: tuple[TableStore, ManifestEntry, DeletionVector | None, StructType],
) -> Iterator[pa.RecordBatch]:
    store, entry, vector, schema = piece
    rows = addressed_rows(store, entry, {} if vector is None else {entry.file.name: vector}, FILE, ROW)
    expected = to_arrow_schema(schema, timezone="UTC", prefers_large_types=False)
    for batch in () if rows is None else rows.to_batches():
        yield as_spark_expects(batch, expected)
