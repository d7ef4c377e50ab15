"""Statements that change rows: INSERT, DELETE, UPDATE, MERGE. Each is a job: its commit carries the snapshots that it read.

A change of rows that others have changed meanwhile is computed anew, from the newer snapshot.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from sqlglot import exp

from lineage import columns_property, offsets_property, startups_of
from storage import (
    Basis,
    InvalidRequest,
    Snapshot,
    SnapshotRef,
    StorageError,
    Table,
)
from storage.engines.merge_clauses import SOURCE, TARGET, MergeClause
from storage.sql.dialect import SnaplineSql

from ..warehouse.snapshot_properties import PLACE_PROPERTY, STATEMENT_PROPERTY
from . import changed_rows, changes
from .columns import column_sources
from .engine import Engine
from .fill import Fill
from .names import Place
from .place import at
from .query import Query
from .query_preparation import Prepare
from .result import Act, Result
from .row_metadata import refuse_row_metadata
from .settings import JOB_OPTION, RUNTIME_MODE
from .statement_context import StatementContext
from .unread import plain, refuse_clauses
from .views import without_temporary


class RowStatements:
    """Plans changes of rows; what a plan returns carries the change out."""

    def __init__(self, context: StatementContext, prepare: Prepare) -> None:
        self._context = context
        self._prepare = prepare

    def insert(self, tree: exp.Insert, engine: Engine) -> Act:
        """INSERT, in batch or as a stream. Raises InvalidRequest for what makes no sense."""
        refuse_clauses(tree, "this", "expression", "overwrite", "partition", "by_name", "with_", "where")
        written = plain(tree)
        target = changes.target_of(tree, self._context.names)
        place = self._context.names.place(target.node)
        if tree.args.get("where") is not None:
            changes.refuse_beside_condition(target, streams=self._streams)
            return self._replace(tree, written, target, engine)
        if self._streams:
            of_stream = self._prepare(changes.query_of(tree, target), streaming=True)
            return lambda: self._stream(of_stream, target, place, engine)
        query = self._prepare(changes.query_of(tree, target), writes_to=self._written(target.node, target.table))
        return lambda: self.write(self.properties_of(written), target, query, engine.rows(query), engine)

    def _stream(self, query: Query, target: changes.Target, place: Place, engine: Engine) -> Result:
        # PySpark waits behind it.
        from .streams import insert_stream

        return insert_stream(self._context, query, target, place, engine)

    @property
    def _streams(self) -> bool:
        return self._context.settings.options.get(RUNTIME_MODE) == "streaming"

    def _replace(self, tree: exp.Insert, written: exp.Expr, target: changes.Target, engine: Engine) -> Act:
        """INSERT … REPLACE WHERE."""
        table, place = target.table, self._context.names.place(target.node)
        condition = tree.args["where"]
        changed_rows.without_place(condition, target.node, place)
        refuse_row_metadata(condition, _columns_of(table), "REPLACE WHERE")
        names = {target.node.name.lower(): "target"}

        def read() -> tuple[Query, str]:
            sources = self._sources(target.node, table, names, "target", engine)
            query = self._prepare(changes.query_of(tree, target), writes_to=self._written(target.node, table))
            return query, sources.condition(changes.condition_of(tree))

        read()

        def replace(basis: Basis) -> Snapshot | None:
            # The query may read the table itself, so that it is computed anew each time.
            query, where = read()
            rows, fills = self._fitted(engine.rows(query), target, engine)
            self._record_startup(place, query)
            refs = sorted({*_own(table, basis), *changes.references(query)})
            made = {**self.properties_of(written), **columns_property(column_sources(query, fills))}
            made |= offsets_property(changes.topic_ranges(query))
            with self._job(place.catalog, table, refs, made) as commit_details:
                return engine.replace(rows, table, self._context.names.warehouse(place), where, commit_details, basis)

        def act() -> Result:
            try:
                return changes.written(table, table.repeated(replace), "replace")
            except StorageError as error:
                raise at(target.node, error) from None

        return act

    def _fitted(self, rows: Any, target: changes.Target, engine: Engine) -> tuple[Any, list[Fill]]:
        """The rows of a query under the columns of the table, and where those come from."""
        fills = changes.fitted(engine.columns(rows).names, target)
        return engine.fill(rows, fills), fills

    def _record_startup(self, place: Place, query: Query) -> None:
        """Note what a job that has a name begins with."""
        job = self._context.settings.options.get(JOB_OPTION)
        if job is not None:
            begun = [*changes.references(query), *startups_of(changes.topic_ranges(query))]
            self._context.recorder(place.catalog).record_startup(job, begun, anew=True)

    def write(
        self, properties: Mapping[str, str], target: changes.Target, query: Query, rows: Any, engine: Engine
    ) -> Result:
        """Commit the rows of a query, with the statement's text and what its columns are computed from."""
        place = self._context.names.place(target.node)
        rows, fills = self._fitted(rows, target, engine)
        self._record_startup(place, query)
        made = {**properties, **columns_property(column_sources(query, fills))}
        made |= offsets_property(changes.topic_ranges(query))
        try:
            with self._job(place.catalog, target.table, changes.references(query), made) as commit_details:
                commit_details["change_tracking"] = target.change_tracking
                warehouse = self._context.names.warehouse(place)
                snapshot = engine.write(rows, target.table, warehouse, target.mode, target.partition, commit_details)
        except StorageError as error:
            raise at(target.node, error) from None
        return changes.written(target.table, snapshot, "insert")

    def properties_of(self, tree: exp.Expr) -> dict[str, str]:
        """The properties by which a change can be made again."""
        tree = without_temporary(tree, self._context.names)
        return {STATEMENT_PROPERTY: tree.sql(SnaplineSql), PLACE_PROPERTY: self._context.settings.place}

    @contextmanager
    def _job(
        self, catalog: str, table: Table, sources: Sequence[SnapshotRef], properties: Mapping[str, str] | None = None
    ) -> Iterator[dict[str, Any]]:
        """What a change's commit carries. The tables of its job are recorded; forgotten if a new job never commits."""
        job = changes.Job(
            changes.job_name(self._context.settings.options, catalog, table), self._context.session.recorder_of(catalog)
        )
        identifier = table.identifier
        with job.recorder.job(
            job.name, sources, [SnapshotRef(catalog, identifier.database, identifier.table, identifier.branch, 0)]
        ):
            yield job.commit_details(sources, properties or {})

    def change_rows(self, tree: exp.Delete | exp.Update, engine: Engine) -> Act:
        """DELETE and UPDATE, computed anew if others change the same rows meanwhile."""
        refuse_clauses(tree, "this", "expressions", "where")
        written = plain(tree)
        node = tree.this
        table = changes.changed_table(node, self._context.names)
        place = self._context.names.place(node)
        warehouse = self._context.names.warehouse(place)
        changed_rows.without_place(tree, node, place)
        refuse_row_metadata(tree, _columns_of(table), tree.key.upper())
        names = {node.alias_or_name.lower(): TARGET}
        clause = tree.args.get("where")
        condition = None if clause is None else clause.this
        assigned = tree.expressions if isinstance(tree, exp.Update) else None

        def read() -> tuple[changed_rows.Sources, str, dict[str, str] | None]:
            sources = self._sources(node, table, names, "target", engine)
            where = "TRUE" if condition is None else sources.condition(condition)
            values = None if assigned is None else changed_rows.assignments(assigned, names, sources)
            return sources, where, values

        # Once for what is wrong with it; then anew each time, for its queries may read the table itself.
        read()

        def change(basis: Basis) -> Snapshot | None:
            sources, where, values = read()
            refs = sorted({*_own(table, basis), *sources.references})
            with self._job(place.catalog, table, refs, self.properties_of(written)) as commit_details:
                if condition is None and values is None:
                    return table.truncate(**commit_details)
                commit_details["views"] = engine.views(sources.inputs)
                if values is not None:
                    return engine.update(table, warehouse, where, values, commit_details, basis)
                return engine.delete(table, warehouse, where, commit_details, basis)

        return lambda: changes.written(table, table.repeated(change), "change")

    def _sources(
        self,
        node: exp.Table,
        table: Table,
        names: Mapping[str, str],
        default: str | None,
        engine: Engine,
        others: Mapping[str, pa.Schema] | None = None,
    ) -> changed_rows.Sources:
        tables = {"target": table.schema.to_arrow(), **(others or {})}
        return changed_rows.Sources(self._inner(node, table), names, default, engine, tables, table.schema.fields)

    def _inner(self, node: exp.Table, table: Table) -> Callable[[exp.Expr], Query]:
        """Prepares a query inside of a statement that changes a table."""
        columns, written = table.schema.column_names, self._written(node, table)
        return lambda tree: self._prepare(tree, columns, writes_to=written)

    def _written(self, node: exp.Table, table: Table) -> Place:
        """The place of a table that a statement changes."""
        return Place(self._context.names.place(node).catalog, table.identifier)

    def merge(self, tree: exp.Merge, engine: Engine) -> Act:
        """MERGE, computed anew if others change the same rows meanwhile."""
        refuse_clauses(tree, "this", "using", "on", "whens")
        written = plain(tree)
        node, using = tree.this, tree.args["using"]
        table = changes.changed_table(node, self._context.names)
        place = self._context.names.place(node)
        changed_rows.without_place(tree, node, place)
        refuse_row_metadata(tree, _columns_of(table), "MERGE", node.alias_or_name)
        names = {node.alias_or_name.lower(): TARGET, using.alias_or_name.lower(): SOURCE}

        source_tree = exp.select("*").from_(using.copy())

        def read() -> tuple[changed_rows.Sources, list[MergeClause], str]:
            source = {"source": engine.schema(self._prepare(source_tree))}
            sources = self._sources(node, table, names, None, engine, source)
            fixed = {*table.schema.primary_keys, *table.schema.partition_keys}
            clauses = changed_rows.merge_clauses(tree, names, table.schema.column_names, sources, fixed)
            return sources, clauses, sources.condition(tree.args["on"], (TARGET, SOURCE))

        if node.alias_or_name.lower() == using.alias_or_name.lower():
            raise at(using, InvalidRequest("MERGE: the table and the source need different names: give one an alias."))
        read()

        def merge(basis: Basis) -> Snapshot | None:
            # The source may be the table itself, so that it is computed anew each time.
            sources, clauses, on = read()
            query = self._prepare(source_tree, writes_to=self._written(node, table))
            source = engine.rows(query)
            refs = sorted({*_own(table, basis), *changes.references(query), *sources.references})
            made = {**self.properties_of(written), **offsets_property(changes.topic_ranges(query))}
            with self._job(place.catalog, table, refs, made) as commit_details:
                commit_details["views"] = engine.views(sources.inputs)
                return engine.merge(
                    source, table, self._context.names.warehouse(place), on, clauses, commit_details, basis
                )

        return lambda: changes.written(table, table.repeated(merge), "merge")


def _columns_of(table: Table) -> list[str]:
    return [*table.schema.column_names, *(column.name for column in table.computed_columns)]


def _own(table: Table, basis: Basis) -> list[SnapshotRef]:
    """The snapshot whose rows a change begins with."""
    ref = None if basis.snapshot is None else table.last_change(basis.snapshot)
    return [] if ref is None else [ref]
