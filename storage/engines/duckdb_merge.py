"""MERGE of rows in memory: DuckDB joins and computes, the store commits. For large inputs see `spark_rows`."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..basis import MERGE, REPLACE_WHERE, Basis
from ..errors import InvalidRequest
from ..metadata.case_twins import refuse_read_twins
from ..metadata.manifest import ManifestEntry
from ..metadata.snapshot import Snapshot
from ..read.scan import Scan
from ..row_changes import refuse_sinking, replace_rows, rows_with_addresses
from ..table import Table
from ..write.commit_id import CommitId
from ..write.own_properties import refuse_own_properties
from .duckdb_connection import sealed_duckdb
from .duckdb_views import add_views, quoted
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
    SOURCE,
    TARGET,
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
)

THREADS = 2


def merge_rows(
    table: Table,
    source: pa.Table,
    on: str | Sequence[str],
    clauses: Sequence[MergeClause],
    *,
    operation: str = MERGE,
    commit_id: CommitId | None = None,
    properties: Mapping[str, str] | None = None,
    basis: Basis | None = None,
    views: Mapping[str, Scan | pa.Table] | None = None,
) -> Snapshot | None:
    """Merge a source into a table in one commit; None if nothing changes.

    `on`: the columns that have to be equal, or a condition over `target.` and `source.`. With a primary key the changes
    are rows by key, else the files that hold changed rows are written anew. `basis`: what the table's rows are taken from;
    by default the newest snapshot, and a newer one if others change the same rows meanwhile (`Table.repeated`). `views`: what
    queries inside of the conditions and values read, by name.

    Raises InvalidRequest for clauses that cannot be, and if several rows of the source would change one row; CommitConflict
    if others changed the same rows each time; RowsChanged if they have since the `basis` that was given.
    """
    refuse_own_properties(properties)
    check_clauses(table.schema, source.column_names, clauses)

    def merge(basis: Basis) -> Snapshot | None:
        return _merge(table, basis, source, on, clauses, operation, commit_id, properties, views or {})

    return table.repeated(merge) if basis is None else merge(basis)


def replace_where(
    table: Table,
    source: pa.Table,
    where: str,
    *,
    basis: Basis,
    commit_id: CommitId | None = None,
    properties: Mapping[str, str] | None = None,
) -> Snapshot | None:
    """Put the rows of a source in the place of those for which a condition over `target.` is true, in one commit; None if
    there are neither.

    Raises InvalidRequest if the condition is not true of a row of the source, or several have one key; RowsChanged if others
    have changed the same rows since the `basis`.
    """
    refuse_own_properties(properties)
    on, clauses = replacing(table.schema, where)
    check_clauses(table.schema, source.column_names, clauses)
    return _merge(table, basis, source, on, clauses, REPLACE_WHERE, commit_id, properties, {}, where)


def _merge(
    table: Table,
    basis: Basis,
    source: pa.Table,
    on: str | Sequence[str] | None,
    clauses: Sequence[MergeClause],
    operation: str,
    commit_id: CommitId | None,
    properties: Mapping[str, str] | None,
    views: Mapping[str, Scan | pa.Table],
    replaced_where: str | None = None,
) -> Snapshot | None:
    schema = table.schema
    keyed = bool(schema.primary_keys)
    entries: list[ManifestEntry] = []
    if keyed:
        target = basis.scan().to_arrow()
    else:
        entries, target = rows_with_addresses(table.store, basis.snapshot, FILE, ROW)
    plan = _plan(table, target, source, on, clauses, keyed, views)
    if not plan.num_rows:
        return None
    actions = np.array(["", *(clause.then for clause in clauses)])[plan.column(CLAUSE).to_numpy()]
    if replaced_where is not None:
        _refuse_unfit(plan, replaced_where, schema.primary_keys)
    _check_unique(plan, actions, schema.primary_keys if keyed else (FILE, ROW))
    refuse_moving(schema, pc.sum(plan.column(MOVES)).as_py())
    rows = plan.select(schema.column_names)
    if has_order(schema):
        refuse_sinking(table.store, pc.sum(plan.column(SINKS)).as_py())
    if keyed:
        kinds = pa.array([KIND_OF[action] for action in actions])
        rows = rows.append_column("__kind", kinds)
        return table.write_changes(rows, "__kind", operation, commit_id=commit_id, properties=properties, basis=basis)
    gone = plan.filter(pa.array(actions != INSERT)).select([FILE, ROW])
    came = rows.filter(pa.array(actions != DELETE))
    deleted, message = replace_rows(table.store, basis.snapshot, entries, gone.column(FILE), gone.column(ROW), came)
    guard = basis.guard([message], inserts=bool((actions == INSERT).any()))
    return table.commit_messages(
        [message], commit_id=commit_id, deleted=deleted, operation=operation, properties=properties, guard=guard
    )


def _plan(
    table: Table,
    target: pa.Table,
    source: pa.Table,
    on: str | Sequence[str] | None,
    clauses: Sequence[MergeClause],
    keyed: bool,
    views: Mapping[str, Scan | pa.Table],
) -> pa.Table:
    refuse_read_twins(str(table.identifier), target.schema)
    refuse_read_twins("The source", source.schema)

    def add(connection: duckdb.DuckDBPyConnection) -> list[str]:
        paths = add_views("main", views, connection)
        connection.register("__target_rows", target)
        connection.register("__source_rows", source)
        return paths

    query = merge_query(
        table.schema, on, clauses, quoted, target="__target_rows", source="__source_rows", addressed=not keyed
    )
    return _rows_of(query, add, partial(_check, on, clauses))


def _check(
    on: str | Sequence[str] | None, clauses: Sequence[MergeClause], connection: duckdb.DuckDBPyConnection
) -> None:
    """Raise an error for a condition that is none, and for what names a side of which there is no row."""
    views = {TARGET: "__target_rows", SOURCE: "__source_rows"}
    conditions = [(clause.condition, clause.when) for clause in clauses if clause.condition is not None]
    if isinstance(on, str):
        conditions.append((on, "matched"))
    for text, when in conditions:
        refuse_no_condition(text, str(connection.sql(seeing_query(text, when, views)).types[0]))
    for each in clauses:
        for text in (each.values or {}).values():
            connection.sql(seeing_query(text, each.when, views))


def _rows_of(
    query: str,
    add: Callable[[duckdb.DuckDBPyConnection], list[str]],
    check: Callable[[duckdb.DuckDBPyConnection], None] | None = None,
) -> pa.Table:
    try:
        with sealed_duckdb(add, threads=THREADS, settings=("SET TimeZone = 'UTC'",)) as connection:
            if check is not None:
                check(connection)
            return connection.sql(query).to_arrow_table()
    except duckdb.Error as error:
        raise InvalidRequest(f"DuckDB cannot compute the change: {str(error).splitlines()[0]}") from None


def _refuse_unfit(plan: pa.Table, where: str, keys: Sequence[str]) -> None:
    """Raise InvalidRequest for new rows outside of what is replaced, and for keys that come twice."""

    def add(connection: duckdb.DuckDBPyConnection) -> list[str]:
        connection.register("__plan", plan)
        return []

    refuse_outside(_rows_of(outside_query(where, "__plan"), add).column(0)[0].as_py())
    if keys:
        refuse_repeated(_twice(plan.filter(pc.not_equal(plan.column(CLAUSE), REPLACED)), keys))


def _check_unique(plan: pa.Table, actions: np.ndarray, identity: Sequence[str]) -> None:
    twice = _twice(plan.filter(pa.array(actions != INSERT)), identity)
    if twice:
        raise ambiguous(twice)


def _twice(rows: pa.Table, identity: Sequence[str]) -> int:
    """How many values of some columns occur more than once."""
    counts = rows.group_by(list(identity)).aggregate([([], "count_all")])
    return pc.sum(pc.greater(counts.column("count_all"), 1)).as_py() or 0
