"""Tables for assets: read at a pinned snapshot, write as one commit that knows what it was made from.

    @dg.asset(deps=["raw"])
    def cleaned(context, tables: TablesResource):
        frame = tables.read(context, "raw.orders")
        return tables.write(context, frame.dropna(), TableDefinition("core.orders", primary_key=["id"]))

What always holds: a run reads each table at one snapshot, chosen when the run first needs a table; what the run itself
wrote since is what it reads. The snapshots read stand in the commit, in the lineage tables and in Dagster's own
provenance, and are the same in all three.
"""

import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import dagster as dg
import pyarrow as pa
from pydantic import PrivateAttr
from pyspark.sql import DataFrame

from lineage import (
    RUN_PROPERTY,
    JobStartup,
    LineageUnavailable,
    columns_property,
    sources_of,
    sources_property,
)
from storage import CommitId, NotFound, Snapshot, SnapshotRef, Table, Unsupported
from storage.engines import spark_reader, spark_stream, spark_writer
from storage.engines.spark_types import arrow_schema_of

from ..session import Session
from ..settings import Settings
from ..spark_session import SparkResource
from ..sql import Statements
from ..sql.duckdb_select import run_query
from ..warehouse.snapshot_properties import BACKFILL_PROPERTY, CODE_PROPERTY, PARTITIONS_PROPERTY
from .commit_rows import Rows, commit_rows
from .launchpad import Launchpads, if_it_is_bad
from .schema_policy import REFUSE, left_null, with_columns_of
from .spark_column_lineage import column_sources, marked
from .table_declaration import TableDefinition, unless_left_empty
from .ui_metadata import CommitNumbers, partition_metadata, table_metadata

# A run with this tag starts at the versions that another run, or any job, started at.
STARTUP_TAG = "snapline/startup-of"
_BACKFILL_TAG = "dagster/backfill"
_PARENT_BACKFILL_TAG = "dagster/parent_backfill_id"
Context = dg.AssetExecutionContext | dg.AssetCheckExecutionContext
# A barrier is the run's creation time in milliseconds, then this many bits that tell its steps apart.
_STEP_BITS = 20
# Below, it is of no account that looking for what has changed reads more than there is.
_ROWS_WORTH_READING_ALL = 100_000


@dataclass(frozen=True)
class Increment:
    """The rows of an input that an incremental asset has not read, or None if it has to read all of it; and the reason."""

    rows: pa.Table | None
    told: str


class _ReadAll(Exception):
    """Says why an increment would not be right."""


class TablesResource(dg.ConfigurableResource):
    """Reads and commits tables on behalf of runs. Empty fields are taken from the environment (`resources.settings`)."""

    spark: dg.ResourceDependency[SparkResource]
    warehouse: str = ""
    lineage_url: str = ""

    _session: Session | None = PrivateAttr(default=None)
    _pins: dict[tuple[str, ...], int] = PrivateAttr(default_factory=dict)
    _reads: dict[tuple[str, ...], dict[SnapshotRef, None]] = PrivateAttr(default_factory=dict)

    @property
    def session(self) -> Session:
        """The warehouse and its lineage."""
        if self._session is None:
            given = Settings.from_environment()
            self._session = Session(
                replace(
                    given,
                    warehouse=self.warehouse or given.warehouse,
                    lineage_url=self.lineage_url or given.lineage_url,
                )
            )
        return self._session

    # --- reading

    def pin(self, context: Context, name: str) -> SnapshotRef:
        """The snapshot of a table that this run reads, fixed before anything is read.

        The first call of a run pins every table that any of its assets reads. Raises NotFound, saying what to
        materialize, if the table has no snapshot.
        """
        table = self._existing(name)
        run = context.run.run_id
        key = (run, *_place(table))
        if key not in self._pins:
            try:
                pinned = self._pinned(context, name, table)
            except LineageUnavailable as error:
                if STARTUP_TAG in context.run.tags:
                    raise
                error.say_once()
                pinned = _newest_at_start(context, table)
            if pinned is None:
                raise NotFound(f"{name} has no snapshot yet. Materialize the asset {'/'.join(_key(name).path)} first.")
            self._pins[key] = pinned
        ref = table.ref(self._written_by(run, table, self._pins[key]))
        assert ref is not None
        return ref

    def _pinned(self, context: Context, name: str, table: Table) -> int | None:
        """The snapshot that all processes of the run read, agreed on in the lineage store. Raises LineageUnavailable."""
        store = self.session.lineage_store
        run = context.run.run_id
        if not store.startups(job=run):
            self._pin_like_another(context)
            self._pin_first(context, [*_inputs_of_run(context), name])
        identifier = table.identifier
        where = {"database": identifier.database, "table": identifier.table, "branch": identifier.branch}
        pinned = store.startups(job=run, **where)
        if not pinned:
            self._pin_first(context, [name])
            pinned = store.startups(job=run, **where)
        return pinned[0].snapshot_id if pinned else None

    def _pin_like_another(self, context: Context) -> None:
        """Begin with the versions that another run began with, if the run's tags name one. Raises NotFound."""
        other = context.run.tags.get(STARTUP_TAG)
        if other:
            store = self.session.lineage_store
            rows = [replace(one, job=context.run.run_id) for one in store.startups(job=other)]
            if not rows:
                raise NotFound(f"Run tag {STARTUP_TAG} = {other!r}: no job of that name has begun with any table.")
            store.store_startups(rows)

    def _pin_first(self, context: Context, names: Iterable[str]) -> None:
        rows = []
        for name in dict.fromkeys(names):
            if self.session.catalog.exists(name):
                # What a compaction left is what the change before it made, and that one has a lineage.
                ref = self.session.table(name).last_change()
                if ref is not None:
                    rows.append(JobStartup(context.run.run_id, ref.database, ref.table, ref.branch, ref.snapshot_id))
        # The first to pin a table wins, also among the processes of a run.
        self.session.lineage_store.store_startups(rows)

    def _written_by(self, run: str, table: Table, pinned: int) -> int:
        """The newest snapshot after the pinned one that the run itself made, or else the pinned one."""
        for snapshot in table.store.snapshots.backwards():
            if snapshot.id <= pinned:
                break
            if (snapshot.properties or {}).get(RUN_PROPERTY) == run:
                return snapshot.id
        return pinned

    def _existing(self, name: str) -> Table:
        try:
            return self.session.table(name)
        except NotFound as error:
            raise NotFound(f"{error} Materialize the asset {'/'.join(_key(name).path)} first.") from None

    def read(
        self,
        context: Context,
        name: str,
        *,
        columns: Sequence[str] | None = None,
        ref: SnapshotRef | None = None,
        part: str = "",
    ) -> DataFrame:
        """The table at the run's snapshot, or at `ref`, as a Spark DataFrame. `name` may be that of a branch
        (`db.t$branch_b`). A step that commits several times says by `part` which of its commits the read is for.
        """
        table, ref = self._use(context, name, ref, part)
        scan = table.scan(columns=columns, version=ref.snapshot_id)
        frame = spark_reader.read_scan(self.spark.spark_session, table, scan, self.session.settings.warehouse)
        return marked(frame, ref)

    def read_arrow(
        self,
        context: Context,
        name: str,
        *,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        ref: SnapshotRef | None = None,
        part: str = "",
    ) -> pa.Table:
        """The table at the run's snapshot, or at `ref`, in memory; else as `read`."""
        table, ref = self._use(context, name, ref, part)
        return table.to_arrow(columns=columns, where=where, version=ref.snapshot_id)

    def increment(self, context: Context, name: str, sink: str, asset_key: dg.AssetKey) -> Increment:
        """What has come to a table between the snapshot that an asset consumed last and the run's: rows with their latest
        values, in memory. No rows, but why, if all of the table has to be read.

        That is so the first time; when the code has changed since, or somebody else has written to `sink`; and when rows of
        the table went, of which an increment cannot tell. A partition that was overwritten brings the rows that it did not
        have.
        """
        ref = self.pin(context, name)
        try:
            known = self._consumed(context, sink, "/".join(asset_key.path), ref)
            rows = self._came(known, name, ref, sink)
        except _ReadAll as reason:
            context.log.info(f"reading all of {name} at {ref}: {reason}")
            return Increment(None, f"all of {ref}: {reason}")
        self._reads.setdefault((*_step(context), ""), {})[ref] = None
        told = f"{rows.num_rows} rows that came to {name} after snapshot {known.snapshot_id}, up to {ref}"
        context.log.info(f"reading {told}")
        return Increment(rows, told)

    def _came(self, known: SnapshotRef, name: str, ref: SnapshotRef, sink: str) -> pa.Table:
        """The rows that came to a table since a snapshot. Raises _ReadAll."""
        table = self._existing(name)
        if table.schema.primary_keys and not self.session.table(sink).schema.primary_keys:
            raise _ReadAll(f"rows of {name} may change, and {sink} has no key by which they could be replaced")
        then = table.store.snapshots.find(known.snapshot_id)
        if then is None or then.time_ms != known.time_ms:
            raise _ReadAll(f"{known}, which was read last, has expired or is another one now")
        _refuse_more_than_all(table, known, ref)
        try:
            came, went = table.net_changes(known.snapshot_id, ref.snapshot_id)
        except (NotFound, Unsupported) as error:
            raise _ReadAll(str(error)) from None
        if went.num_rows:
            raise _ReadAll(f"{went.num_rows} rows that {known} had were deleted, or replaced by others")
        return came

    def _consumed(self, context: Context, sink: str, job: str, ref: SnapshotRef) -> SnapshotRef:
        """The snapshot of a source that the newest rows of an asset's table were made from. Raises _ReadAll if that is not
        the whole story of these rows.
        """
        made = self.session.table(sink).last_change() if self.session.catalog.exists(sink) else None
        snapshot = None if made is None else self.session.table(sink).snapshot(made.snapshot_id)
        if snapshot is None:
            raise _ReadAll(f"{sink} has no rows yet")
        if snapshot.commit_user != job:
            raise _ReadAll(f"snapshot {snapshot.id} of {sink} was written by {snapshot.commit_user}")
        if (snapshot.properties or {}).get(CODE_PROPERTY) != (_code_version(context) or ""):  # type: ignore[arg-type]
            raise _ReadAll(f"the code has changed since snapshot {snapshot.id} of {sink}")
        for source in sources_of(snapshot):
            if (source.database, source.table, source.branch) == (ref.database, ref.table, ref.branch):
                return source
        raise _ReadAll(f"snapshot {snapshot.id} of {sink} was not made from {ref.table_name}")

    def as_of(self, context: Context, name: str, partition: str) -> DataFrame:
        """The table as it was when a partition was made: at the tag that the partition became, as a Spark DataFrame.

        Raises NotFound that lists the tags.
        """
        table = self._existing(name)
        ref = table.last_change(tag_name(partition))
        assert ref is not None
        return self.read(context, name, ref=ref)

    def query(self, context: Context, sql: str) -> pa.Table:
        """The rows of a SELECT, run by DuckDB over tables at the run's snapshots."""

        def open_table(name: str) -> Table:
            table, ref = self._use(context, name)
            return table.at(ref.snapshot_id)

        return run_query(self.session, sql, open_table)

    def sql(self, context: Context, select: str) -> DataFrame:
        """The rows of a SELECT in the platform's SQL, run by Spark over tables at the run's snapshots."""

        def open_table(name: str) -> Table:
            table, ref = self._use(context, name)
            return table.at(ref.snapshot_id)

        statements = Statements(self.session, lambda: self.spark.spark_session, open_table)
        result = statements.select(select)
        assert result.frame is not None
        return result.frame

    def _use(
        self, context: Context, name: str, ref: SnapshotRef | None = None, part: str = ""
    ) -> tuple[Table, SnapshotRef]:
        ref = ref or self.pin(context, name)
        self._reads.setdefault((*_step(context), part), {})[ref] = None
        context.log.info(f"reading {ref}")
        return self.session.table(name), ref

    def read_stream(self, context: Context, name: str, *, row_kinds: bool = False) -> DataFrame:
        """The changes of a table as a streaming DataFrame, one snapshot in each micro-batch; the first is the whole table.

        `row_kinds`: with the column `rowkind` first, and with rows that were deleted.
        """
        table = self._existing(name)
        return spark_stream.read_stream(
            self.spark.spark_session, table, self.session.settings.warehouse, self.session.catalog.name,
            {"read.changelog": str(row_kinds).lower()},
        )  # fmt: skip

    # --- writing

    def write(
        self,
        context: dg.AssetExecutionContext,
        rows: Rows,
        definition: TableDefinition,
        *,
        mode: str = spark_writer.OVERWRITE_TABLE,
        partitions: Mapping[str, Mapping[str, Any]] | None = None,
        tag_partitions: bool = True,
        tags: Sequence[str] = (),
        asset_key: dg.AssetKey | None = None,
        properties: Mapping[str, str] | None = None,
        on: Callable[[Table], Table] | None = None,
        part: str = "",
        event_key: Callable[[str], str] = str,
        source_key: Callable[[SnapshotRef], dg.AssetKey] | None = None,
        unless_same: bool = True,
        on_schema_change: str = REFUSE,
    ) -> dg.MaterializeResult[Any]:
        """Commit rows as one snapshot and say so to Dagster.

        `mode`: append (an upsert with a primary key), overwrite, overwrite-partitions. `partitions` maps the Dagster
        partition keys of the step to values of partition columns: exactly these are replaced, rows of others are
        refused, and each key becomes a tag. `tags` are set besides. A step that is run again commits
        nothing twice, nor does a run that is executed again after it died between its commit and Dagster's event. An overwrite
        that brings exactly the rows that it would replace commits nothing, unless `unless_same` is False: the files that were
        written are compared with those that are there.

        `on_schema_change` says what becomes of columns that the table does not have: refuse, add, evolve (see `schema_policy`);
        it is carried out before the rows are written.

        `on` gives for the table its branch to write to. `part`: as in `read`. `event_key` gives for a key of `partitions` the
        partition that Dagster's event is about, `source_key` for a snapshot that was read the asset it belongs to.
        """
        key = asset_key or context.asset_key
        step = (*_step(context), part)
        sources = list(self._reads.get(step, {}))
        columns = rows.schema if isinstance(rows, pa.Table) else arrow_schema_of(rows.schema)

        def opened() -> Table:
            table = definition.open_or_create(self.session.catalog, columns, created if partitions is None else None)
            return table if on is None else on(table)

        job = "/".join(key.path)
        try:
            # Runs of other partitions may be at a table that one of them has created: then it stays.
            with unless_left_empty(self.session.catalog) as created:
                table, altered = with_columns_of(opened, columns, on_schema_change, definition.column_descriptions)
                columns_told = _told(context, table, altered, left_null(table, columns))
                planned = SnapshotRef(self.session.catalog.name, *_place(table), 0)
                with self.session.recorder.job(job, sources, [planned]):
                    commit_id = _commit_id(context, job, table, key, part)
                    snapshot = self._commit(
                        context, rows, table, mode, partitions, commit_id, sources, properties, unless_same
                    )
        finally:
            self._reads.pop(step, None)
        # An overwrite that commits nothing brings what there is.
        is_same = snapshot is None and (mode != spark_writer.APPEND or partitions is not None)
        if snapshot is not None and not commit_id.made(snapshot):
            context.log.warning(
                f"commit {commit_id.identifier} of {job} to {table.identifier} landed long ago, and its snapshot has expired: "
                "nothing is committed again"
            )
            snapshot = None
            is_same = False
        current = table.last_change() if is_same else None
        held = snapshot.id if snapshot is not None else None if current is None else current.snapshot_id
        for name in tags if held is not None else ():
            table.tags.create(name, snapshot_id=held, replace=True)
        provenance = provenance_tags(context.instance, {(source_key or _key_of)(ref): ref for ref in sources})
        result = self._result(
            context, key, table, snapshot, sources, partitions or {}, tag_partitions, provenance, event_key, is_same
        )
        return result._replace(metadata={**(result.metadata or {}), **columns_told})

    def write_stream(
        self,
        context: dg.AssetExecutionContext,
        rows: DataFrame,
        definition: TableDefinition,
        *,
        row_kind_column: str | None = None,
        output_mode: str = "append",
    ) -> dg.MaterializeResult[Any]:
        """Commit what a streaming DataFrame has that is new, then stop: a snapshot for each micro-batch, its barrier the
        batch's number. A run that is started again goes on from the checkpoint, and commits no batch twice.
        """
        static = list(self._reads.pop((*_step(context), ""), {}))
        with unless_left_empty(self.session.catalog) as created:
            table = definition.open_or_create(self.session.catalog, arrow_schema_of(rows.schema), created)
            return self._written_stream(context, rows, table, static, row_kind_column, output_mode)

    def _written_stream(
        self,
        context: dg.AssetExecutionContext,
        rows: DataFrame,
        table: Table,
        static: list[SnapshotRef],
        row_kind_column: str | None,
        output_mode: str,
    ) -> dg.MaterializeResult[Any]:
        key = context.asset_key
        job = "/".join(key.path)
        recorder = self.session.recorder
        made: list[SnapshotRef] = []

        def properties(refs: list[SnapshotRef]) -> dict[str, str]:
            sources = [self.session.table(one.table_name).last_change(one.snapshot_id) or one for one in refs] + static
            recorder.record_startup(job, sources)
            made[:] = sources
            return {
                RUN_PROPERTY: context.run.run_id, CODE_PROPERTY: _code_version(context) or "", **sources_property(sources)
            }  # fmt: skip

        before = table.snapshot()
        query = spark_stream.write_stream(
            rows, table, self.session.settings.warehouse, commit_user=job, row_kind_column=row_kind_column,
            checkpoint=str(self.session.settings.home / "checkpoints" / job), trigger={"availableNow": True},
            output_mode=output_mode, properties=properties,
        )  # fmt: skip
        query.awaitTermination()
        newest = table.last_change()
        grown = newest is not None and (before is None or newest.snapshot_id > before.id)
        snapshot = table.snapshot(newest.snapshot_id) if newest is not None and grown else None
        provenance = provenance_tags(context.instance, {_key_of(ref): ref for ref in made})
        return self._result(context, key, table, snapshot, made, {}, False, provenance, str)

    def _commit(
        self,
        context: dg.AssetExecutionContext,
        rows: Rows,
        table: Table,
        mode: str,
        partitions: Mapping[str, Mapping[str, Any]] | None,
        commit_id: CommitId,
        sources: Sequence[SnapshotRef],
        properties: Mapping[str, str] | None,
        unless_same: bool,
    ) -> Snapshot | None:
        recorded = {
            RUN_PROPERTY: context.run.run_id,
            CODE_PROPERTY: _code_version(context) or "",
            **({BACKFILL_PROPERTY: backfill} if (backfill := context.run.tags.get(_BACKFILL_TAG)) else {}),
            **({PARTITIONS_PROPERTY: ",".join(partitions)} if partitions else {}),
            **sources_property(sources),
            **(columns_property(column_sources(rows)) if isinstance(rows, DataFrame) else {}),
            **(properties or {}),
        }
        listed = None if partitions is None else list(partitions.values())
        return commit_rows(
            rows, table, self.session.settings.warehouse, mode, listed, commit_id, recorded, unless_same=unless_same
        )

    def _result(
        self,
        context: dg.AssetExecutionContext,
        key: dg.AssetKey,
        table: Table,
        snapshot: Snapshot | None,
        sources: Sequence[SnapshotRef],
        partitions: Mapping[str, Mapping[str, Any]],
        tag_partitions: bool,
        tags: Mapping[str, str],
        event_key: Callable[[str], str],
        is_same: bool = False,
    ) -> dg.MaterializeResult[Any]:
        if snapshot is None:
            return self._unchanged(context, key, table, partitions, tag_partitions, tags, event_key, is_same)
        ref = table.ref(snapshot.id)
        assert ref is not None
        numbers = CommitNumbers.of(table, snapshot)
        way_out = if_it_is_bad(Launchpads.of_run(context.run), ref)
        metadata = way_out | table_metadata(table, snapshot, sources, numbers)
        if numbers.given.get("duplicate_keys"):
            context.log.warning(
                f"{numbers.given['rows_given']} rows were given to {ref}, {numbers.given['duplicate_keys']} of them under a key "
                f"that a later row has: {metadata['rows_added']} are written"
            )
        if "warning" in metadata:
            context.log.warning(f"{ref} is committed, but {metadata['warning']}")
        context.log.info(f"committed {ref}: {metadata['rows_added']} rows added, {metadata['rows_removed']} removed")
        if partitions:
            metadata = self._of_partitions(
                context, key, table, snapshot, partitions, tag_partitions, event_key, metadata, numbers
            )
        return dg.MaterializeResult(
            asset_key=key, metadata=metadata, data_version=dg.DataVersion(ref.data_version), tags=tags
        )

    def _unchanged(
        self,
        context: dg.AssetExecutionContext,
        key: dg.AssetKey,
        table: Table,
        partitions: Mapping[str, Mapping[str, Any]],
        tag_partitions: bool,
        tags: Mapping[str, str],
        event_key: Callable[[str], str],
        is_same: bool,
    ) -> dg.MaterializeResult[Any]:
        """The result of a run that committed nothing: downstream must not take the table for changed."""
        current = table.last_change()
        version = current.data_version if current else f"{table.identifier.branch}@0"
        why = "no other rows than there are" if is_same else "no rows"
        context.log.info(f"nothing to commit to {table.identifier}, which got {why}; it stays at {version}")
        snapshot = None if current is None else table.snapshot(current.snapshot_id)
        numbers = CommitNumbers.none(table)
        metadata: dict[str, Any] = {**numbers.total, "nothing_committed": f"got {why}, stays at {version}"}
        if is_same and snapshot is not None:
            metadata = table_metadata(table, snapshot, sources_of(snapshot), numbers) | metadata
            if partitions:
                metadata = self._of_partitions(
                    context, key, table, snapshot, partitions, tag_partitions, event_key, metadata, numbers
                )
        return dg.MaterializeResult(asset_key=key, metadata=metadata, data_version=dg.DataVersion(version), tags=tags)

    def _of_partitions(
        self,
        context: dg.AssetExecutionContext,
        key: dg.AssetKey,
        table: Table,
        snapshot: Snapshot,
        partitions: Mapping[str, Mapping[str, Any]],
        tag_partitions: bool,
        event_key: Callable[[str], str],
        metadata: dict[str, Any],
        numbers: CommitNumbers,
    ) -> dict[str, Any]:
        """Tag partitions and tell the numbers of each; returns what is true of all of them."""
        for partition_key, values in partitions.items():
            if tag_partitions:
                table.tags.create(tag_name(partition_key), snapshot_id=snapshot.id, replace=True)
            context.add_asset_metadata(
                partition_metadata(table, snapshot, values, numbers),
                asset_key=key, partition_key=event_key(partition_key),
            )  # fmt: skip
        # Numbers of the whole table and the whole commit would be read as those of the partition.
        metadata = {name: value for name, value in metadata.items() if name not in (*numbers.total, "rows_given")}
        metadata["table_rows"] = metadata.pop("dagster/row_count")
        if len(partitions) == 1 and numbers.given:
            metadata["rows_given"] = numbers.given["rows_given"]
        if tag_partitions:
            metadata["tags"] = ", ".join(tag_name(one) for one in partitions)
        return metadata


def tag_name(partition_key: str) -> str:
    """The tag of a Dagster partition: its key, unless that is a number, which would hide a snapshot id."""
    return f"p-{partition_key}" if partition_key.isdigit() else partition_key


def _refuse_more_than_all(table: Table, known: SnapshotRef, ref: SnapshotRef) -> None:
    """Raise _ReadAll if more was written and taken away since a snapshot than there is."""
    snapshots = table.store.snapshots
    later = [snapshots.find(number) for number in range(known.snapshot_id + 1, ref.snapshot_id + 1)]
    changes = [table.changes_of(one) for one in later if one is not None and one.changes_rows]
    moved, there = sum(one.rows_added + one.rows_deleted for one in changes), table.snapshot(ref.snapshot_id)
    if there is not None and moved > max(there.total_record_count, _ROWS_WORTH_READING_ALL):
        raise _ReadAll(f"{moved} rows were written and taken away since {known}, which is more than there are")


def _key(name: str) -> dg.AssetKey:
    return dg.AssetKey(name.split("$")[0].split("."))


def _told(context: dg.AssetExecutionContext, table: Table, altered: list[str], null: list[str]) -> dict[str, str]:
    """What became of columns, for the metadata of a run; its log says it too."""
    told = {name: ", ".join(what) for name, what in (("schema_change", altered), ("columns_left_null", null)) if what}
    for name, what in told.items():
        context.log.info(f"{table.identifier}: {name.replace('_', ' ')}: {what}")
    return told


def _place(table: Table) -> tuple[str, str, str]:
    return table.identifier.database, table.identifier.table, table.identifier.branch


def _step(context: Context) -> tuple[str, str]:
    return context.run.run_id, str(context.op_execution_context.op_handle)


def _newest_at_start(context: Context, table: Table) -> int | None:
    """The newest change of a table when the run began, which all of its processes find without asking each other; of a table
    that is younger, the newest; None without any.
    """
    record = context.instance.get_run_record_by_id(context.run.run_id)
    began = (record.start_time or record.create_timestamp.timestamp()) if record else 0
    before = (one.id for one in table.store.snapshots.backwards() if one.time_ms <= began * 1000)
    ref = table.last_change(next(before, None))
    return None if ref is None else ref.snapshot_id


def _code_version(context: dg.AssetExecutionContext) -> str | None:
    return context.assets_def.get_asset_spec(context.asset_key).code_version if context.has_assets_def else None


def _inputs_of_run(context: Context) -> list[str]:
    """Names of all tables that assets of the run read. The asset layer is not public API: used here alone."""
    layer = context.job_def.asset_layer
    keys = {parent for key in layer.executable_asset_keys for parent in layer.asset_graph.get(key).parent_keys}
    return sorted(".".join(key.path) for key in keys if len(key.path) == 2)


def _key_of(ref: SnapshotRef) -> dg.AssetKey:
    return dg.AssetKey([ref.database, ref.table])


def _commit_id(context: dg.AssetExecutionContext, job: str, table: Table, key: dg.AssetKey, part: str) -> CommitId:
    """The barrier of a step: the same whenever the step is tried again, another for any other step.

    A run that was started because an earlier one died takes the barrier of that one, if it had committed and died before
    Dagster heard of it: then nothing is committed twice.
    """
    for run in _earlier_runs(context):
        earlier = _barrier(context, run, job, part)
        made = table.new_commit(earlier).find_committed()
        # One that has expired is none to go on from.
        ref = table.ref(made.id) if made is not None and earlier.made(made) else None
        if ref is not None and not _is_reported(context.instance, key, ref):
            return earlier
    return _barrier(context, context.run, job, part)


def _barrier(context: dg.AssetExecutionContext, run: dg.DagsterRun, job: str, part: str) -> CommitId:
    record = context.instance.get_run_record_by_id(run.run_id)
    created_ms = int(record.create_timestamp.timestamp() * 1000) if record else 0
    keys = ",".join(context.partition_keys) if context.has_partition_key or context.has_partition_key_range else ""
    step = f"{run.run_id}/{context.op_execution_context.op_handle}/{keys}/{part}"
    identifier = (created_ms << _STEP_BITS) | (zlib.crc32(step.encode()) & ((1 << _STEP_BITS) - 1))
    return CommitId(job, identifier, exact=True, not_before_ms=created_ms or None)


def _earlier_runs(context: dg.AssetExecutionContext) -> Iterator[dg.DagsterRun]:
    """The runs that this one repeats: those it was re-executed from, and those of the backfills that its own repeats."""
    run: dg.DagsterRun | None = context.run
    while run is not None and run.parent_run_id:
        run = context.instance.get_run_by_id(run.parent_run_id)
        if run is not None:
            yield run
    backfill = context.run.tags.get(_BACKFILL_TAG)
    while backfill:
        found = context.instance.get_backfill(backfill)
        backfill = found.tags.get(_PARENT_BACKFILL_TAG) if found and found.tags else None
        if backfill:
            yield from context.instance.get_runs(dg.RunsFilter(tags={_BACKFILL_TAG: backfill}))


def _is_reported(instance: dg.DagsterInstance, key: dg.AssetKey, ref: SnapshotRef) -> bool:
    """Whether Dagster has an event of a snapshot."""
    for _, snapshot_id in _events(instance, key, ref.branch):
        if snapshot_id <= ref.snapshot_id:
            return snapshot_id == ref.snapshot_id
    return False


def provenance_tags(instance: dg.DagsterInstance, sources: Mapping[dg.AssetKey, SnapshotRef]) -> dict[str, str]:
    """Tags that tell Dagster which versions of which assets were read. Its own, taken as a step starts, can be wrong."""
    tags = {}
    for key, ref in sources.items():
        tags[f"dagster/input_data_version/{key.to_user_string()}"] = ref.data_version
        pointer = event_of(instance, key, ref)
        if pointer is not None:
            tags[f"dagster/input_event_pointer/{key.to_user_string()}"] = str(pointer)
    return tags


def event_of(instance: dg.DagsterInstance, key: dg.AssetKey, ref: SnapshotRef) -> int | None:
    """The newest materialization of a table that is not newer than a snapshot."""
    for storage_id, snapshot_id in _events(instance, key, ref.branch):
        if snapshot_id <= ref.snapshot_id:
            return storage_id
    return None


def newest_told(instance: dg.DagsterInstance, key: dg.AssetKey, branch: str) -> int:
    """The snapshot of the newest materialization of a branch of a table; 0 without any."""
    return next((snapshot_id for _, snapshot_id in _events(instance, key, branch)), 0)


def _events(instance: dg.DagsterInstance, key: dg.AssetKey, branch: str) -> Iterator[tuple[int, int]]:
    """Storage id and snapshot of the materializations of a branch of a table, newest first."""
    cursor = None
    while True:
        page = instance.fetch_materializations(key, limit=100, cursor=cursor)
        for record in page.records:
            event = record.asset_materialization
            if event is None:
                continue
            snapshot, of_branch = event.metadata.get("snapshot"), event.metadata.get("branch")
            if snapshot is not None and of_branch is not None and of_branch.value == branch:
                yield record.storage_id, int(str(snapshot.value))
        if not page.has_more:
            return
        cursor = page.cursor
