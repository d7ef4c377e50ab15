"""Tables for assets: read at a pinned snapshot, write as one commit that knows what it was made from.

    @dg.asset(deps=["raw"])
    def cleaned(context, tables: TablesResource):
        frame = tables.read(context, "raw.orders")
        return tables.write(context, frame.dropna(), TableDefinition("core.orders", primary_key=["id"]))

What always holds: a run reads each table at one snapshot, chosen when the run first needs a table; what the run itself
wrote since is what it reads. The snapshots read stand in the commit, in the lineage tables and in Dagster's own
provenance, and are the same in all three.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
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
    check_jdbc_url,
    columns_property,
    sources_property,
)
from storage import CommitId, InvalidRequest, KafkaTable, NotFound, Snapshot, SnapshotRef, Table
from storage.engines import spark_reader, spark_stream, spark_writer
from storage.engines.spark_types import arrow_schema_of

from ..resource_fields import refuse_unknown_fields, refuse_values
from ..session import Session
from ..setting_values import check_warehouse
from ..settings import Settings
from ..spark_resource import SparkResource, check_spark
from ..sql import Statements
from ..sql.duckdb_select import run_query
from ..warehouse.snapshot_properties import BACKFILL_PROPERTY, CODE_PROPERTY, PARTITIONS_PROPERTY
from .commit_rows import Rows, commit_rows
from .increments import Increment, ReadAll, consumed, rows_since
from .materialization import Materialization, check_tags, tag_name
from .partition_tags import tags_property
from .partition_values import values_in
from .provenance import made_from, provenance_tags
from .repeated_runs import BACKFILL_TAG
from .run_inputs import inputs_of_run, newest_at_start
from .schema_policy import REFUSE, columns_told, left_null, with_columns_of
from .spark_column_lineage import column_sources, marked
from .step_commit import Context, code_version_of, step_commit_id, step_of, unless_long_ago
from .table_declaration import TableDefinition, unless_left_empty
from .topic_inputs import TopicReads, topics_metadata

# A run with this tag starts at the versions that another run, or any job, started at.
STARTUP_TAG = "snapline/startup-of"


def _key_of(ref: SnapshotRef) -> dg.AssetKey:
    return dg.AssetKey([ref.database, ref.table])


@dataclass(frozen=True)
class OnBranch:
    """Where a materialization goes: by default to main.

    `branch` gives for a table what is written to. `part`: a step that commits several times says by it which of its commits this
    is. `event_key` gives for a key of the partitions the partition that Dagster's event is about, `source_key` for a snapshot
    that was read the asset that it belongs to.
    """

    branch: Callable[[Table], Table] = lambda table: table
    part: str = ""
    event_key: Callable[[str], str] = str
    source_key: Callable[[SnapshotRef], dg.AssetKey] = _key_of


class TablesResource(dg.ConfigurableResource[Any]):
    """Reads and commits tables on behalf of runs. Empty fields are taken from the environment (`resources.settings`)."""

    spark: dg.ResourceDependency[SparkResource]
    warehouse: str = ""
    lineage_url: str = ""

    _session: Session | None = PrivateAttr(default=None)
    _pins: dict[tuple[str, ...], int] = PrivateAttr(default_factory=dict)
    _reads: dict[tuple[str, ...], dict[SnapshotRef, None]] = PrivateAttr(default_factory=dict)
    _grown_from: dict[tuple[str, ...], int] = PrivateAttr(default_factory=dict)
    _topics: TopicReads = PrivateAttr(default_factory=TopicReads)

    def __init__(self, **fields: Any) -> None:
        refuse_unknown_fields("TablesResource", type(self).model_fields, fields)
        refuse_values("TablesResource", fields, {"warehouse": check_warehouse, "lineage_url": check_jdbc_url})
        check_spark("TablesResource: spark", fields.get("spark"))
        super().__init__(**fields)

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
                    lineage_setting="lineage_url of TablesResource" if self.lineage_url else given.lineage_setting,
                )
            )
        return self._session

    # --- reading

    def topic(self, name: str) -> KafkaTable | None:
        """The Kafka table of a name, if it is one."""
        return self.session.catalog.kafka_tables.get(name)

    def read_topic(self, context: Context, name: str) -> pa.Table:
        """The rows of a Kafka table, up to where its topic ends now unless it has a bound; computed columns are left out. What
        was read stands in the commit. Raises NotFound for a name that is none of a Kafka table.
        """
        return self._topics.rows(self.session, context, name)

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
                pinned = newest_at_start(context, table)
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
            self._pin_first(context, [*inputs_of_run(context), name])
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
        if other is not None:
            if not other.strip():
                raise InvalidRequest(f"Run tag {STARTUP_TAG} = {other!r} names no run and no job: leave it out.")
            store = self.session.lineage_store
            rows = [replace(startup, job=context.run.run_id) for startup in store.startups(job=other)]
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
        for snapshot in table.snapshots.backwards():
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
        scan = table.after_commit(ref.snapshot_id).scan(columns=columns)
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
        return table.after_commit(ref.snapshot_id).to_arrow(columns=columns, where=where)

    def increment(self, context: Context, name: str, sink: str, asset_key: dg.AssetKey) -> Increment:
        """What has come to a table between the snapshot that an asset consumed last and the run's: rows with their latest
        values, in memory. No rows, but why, if all of the table has to be read.

        That is so the first time; when the code has changed since, or somebody else has written to `sink`; and when rows of
        the table went, of which an increment cannot tell. A partition that was overwritten brings the rows that it did not
        have.
        """
        code_version = code_version_of(context) or ""  # type: ignore[arg-type]
        topic = self.topic(name)
        if topic is not None:
            came = self._topics.increment(self.session, context, topic, sink, "/".join(asset_key.path), code_version)
            if came.grown_from is not None:
                self._grown_from[step_of(context)] = came.grown_from
            return Increment(came.rows, came.reason, is_all=came.grown_from is None)
        ref = self.pin(context, name)
        try:
            known, grown_from = consumed(self.session, code_version, sink, "/".join(asset_key.path), ref)
            rows = rows_since(self.session, self._existing(name), known, name, ref, sink)
        except ReadAll as reason:
            context.log.info(f"reading all of {name} at {ref}: {reason}")
            return Increment(None, f"all of {ref}: {reason}")
        self._reads.setdefault((*step_of(context), ""), {})[ref] = None
        # Another run may commit the same rows before this one does.
        self._grown_from[step_of(context)] = grown_from
        description = f"{rows.num_rows} rows that came to {name} after snapshot {known.snapshot_id}, up to {ref}"
        context.log.info(f"reading {description}")
        return Increment(rows, description)

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
            return table.after_commit(ref.snapshot_id)

        return run_query(self.session, sql, open_table)

    def sql(self, context: Context, select: str) -> DataFrame:
        """The rows of a SELECT in the platform's SQL, run by Spark over tables at the run's snapshots."""

        def open_table(name: str) -> Table:
            table, ref = self._use(context, name)
            return table.after_commit(ref.snapshot_id)

        statements = Statements(self.session, lambda: self.spark.spark_session, open_table)
        result = statements.select(select)
        assert result.frame is not None
        return result.frame

    def _use(
        self, context: Context, name: str, ref: SnapshotRef | None = None, part: str = ""
    ) -> tuple[Table, SnapshotRef]:
        ref = ref or self.pin(context, name)
        self._reads.setdefault((*step_of(context), part), {})[ref] = None
        context.log.info(f"reading {ref}")
        return self.session.table(name), ref

    def read_stream(self, context: Context, name: str, *, row_kinds: bool = False) -> DataFrame:
        """The changes of a table as a streaming DataFrame, one snapshot in each micro-batch; the first is the whole table.

        `row_kinds`: with the column `rowkind` first, and with rows that were deleted.
        """
        table = self._existing(name)
        return spark_stream.read_stream(
            self.spark.spark_session,
            table,
            self.session.settings.warehouse,
            self.session.catalog.name,
            {"read.changelog": str(row_kinds).lower()},
        )

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
        to: OnBranch | None = None,
        unless_same: bool = True,
        on_schema_change: str = REFUSE,
    ) -> dg.MaterializeResult[Any]:
        """Commit rows as one snapshot and say so to Dagster.

        `mode`: append (an upsert with a primary key), overwrite, overwrite-partitions. `partitions` maps the Dagster partition
        keys of the step to values of partition columns: rows are appended to these, or exactly these are replaced, rows of
        others are refused, and each key becomes a tag. `tags` are set besides. A step that is run again commits nothing twice,
        nor do runs that are executed again for it. An overwrite that brings exactly the rows that it would replace commits
        nothing, unless `unless_same` is False: the files that were written are compared with those that are there.
        `on_schema_change` says what becomes of columns that the table does not have, before the rows are written: refuse, add,
        evolve (see `schema_policy`). `to`: a branch, instead of main.
        """
        check_tags(partitions or () if tag_partitions else (), tags)
        key = asset_key or context.asset_key
        to = to or OnBranch()
        step = (*step_of(context), to.part)
        named = [*(tag_name(partition) for partition in partitions or () if tag_partitions), *tags]
        properties = {**(properties or {}), **tags_property(named), **self._topics.taken(context).properties}
        sources = list(self._reads.get(step, {}))
        given = rows if isinstance(rows, pa.Table) else arrow_schema_of(rows.schema).empty_table()
        job = "/".join(key.path)
        try:
            # Runs of other partitions may be at a table that one of them has created: then it stays.
            with unless_left_empty(self.session.catalog) as created:
                new = created if partitions is None else None
                table, altered = self._opened(definition, given, to, new, on_schema_change)
                changed = columns_told(context, table, altered, left_null(table, given.schema))
                planned = SnapshotRef(self.session.catalog.name, *_place(table), 0)
                placed = None if partitions is None else values_in(table, partitions)
                with self.session.recorder.job(job, sources, [planned]):
                    commit_id = step_commit_id(context, job, table, key, to.part)
                    snapshot = self._commit(
                        context, rows, table, mode, placed, commit_id, sources, properties, unless_same
                    )
        finally:
            self._reads.pop(step, None)
            self._grown_from.pop(step_of(context), None)
        # An overwrite that commits nothing brings what there is.
        is_same = snapshot is None and mode != spark_writer.APPEND
        snapshot = unless_long_ago(context, snapshot, commit_id, f"{job} to {table.identifier}")
        if snapshot is not None:
            sources = made_from(context, self.session, snapshot, sources)
        provenance = provenance_tags(context.instance, {to.source_key(ref): ref for ref in sources})
        made = Materialization(context, key, table, provenance, placed or {}, tag_partitions, to.event_key, tags)
        result = made.result(snapshot, sources, is_same=is_same)
        return result._replace(metadata={**(result.metadata or {}), **changed, **topics_metadata(snapshot)})

    def _opened(
        self,
        definition: TableDefinition,
        rows: pa.Table,
        to: OnBranch,
        new: Callable[[Table], None] | None,
        on_schema_change: str,
    ) -> tuple[Table, list[str]]:
        """The table that rows go to, created if it is not there, and what was changed of its columns for them."""
        return with_columns_of(
            lambda: to.branch(definition.open_or_create(self.session.catalog, rows.schema, new)),
            rows,
            on_schema_change,
            definition.column_descriptions,
        )

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
        static = list(self._reads.pop((*step_of(context), ""), {}))
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
            sources = [self.session.table(ref.table_name).last_change(ref.snapshot_id) or ref for ref in refs] + static
            recorder.record_startup(job, sources)
            made[:] = sources
            return {
                RUN_PROPERTY: context.run.run_id,
                CODE_PROPERTY: code_version_of(context) or "",
                **sources_property(sources),
            }

        before = table.snapshot()
        query = spark_stream.write_stream(
            rows,
            table,
            self.session.settings.warehouse,
            commit_user=job,
            row_kind_column=row_kind_column,
            checkpoint=self.session.settings.checkpoint(job),
            trigger={"availableNow": True},
            output_mode=output_mode,
            properties=properties,
        )
        query.awaitTermination()
        newest = table.last_change()
        grown = newest is not None and (before is None or newest.snapshot_id > before.id)
        snapshot = table.snapshot(newest.snapshot_id) if newest is not None and grown else None
        provenance = provenance_tags(context.instance, {_key_of(ref): ref for ref in made})
        return Materialization(context, key, table, provenance).result(snapshot, made)

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
            CODE_PROPERTY: code_version_of(context) or "",
            **({BACKFILL_PROPERTY: backfill} if (backfill := context.run.tags.get(BACKFILL_TAG)) else {}),
            **({PARTITIONS_PROPERTY: ",".join(partitions)} if partitions else {}),
            **sources_property(sources),
            **(columns_property(column_sources(rows)) if isinstance(rows, DataFrame) else {}),
            **(properties or {}),
        }
        listed = None if partitions is None else list(partitions.values())
        return commit_rows(
            rows,
            table,
            self.session.settings.warehouse,
            mode,
            listed,
            commit_id,
            recorded,
            unless_same=unless_same,
            unless_changed_since=self._grown_from.get(step_of(context)),
        )


def _key(name: str) -> dg.AssetKey:
    return dg.AssetKey(name.split("$")[0].split("."))


def _place(table: Table) -> tuple[str, str, str]:
    return table.identifier.database, table.identifier.table, table.identifier.branch
