"""INSERT INTO in streaming mode: a query that goes on, and commits each micro-batch once.

SET 'execution.runtime-mode' = 'streaming';
SET 'pipeline.name' = 'job1';
INSERT INTO word_count SELECT word, count(*) FROM words GROUP BY word;
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace

from pyspark.sql import DataFrame
from sqlglot import exp

from lineage import offsets_property, sources_property, startups_of
from storage import InvalidRequest, SnapshotRef
from storage.engines.kafka_stream import ORDER_COLUMN, batch_ranges
from storage.engines.spark_options import INSERTS_ONLY
from storage.engines.spark_stream import read_stream, write_stream

from . import changes
from .engine import APPEND, Engine
from .fill import Fill
from .names import Place, Source
from .query import Input, Query
from .renewal import branches, is_renewed, key_constants, keys_of, reads_kinds
from .renewed_rows import KIND, RenewedRows
from .result import Result
from .settings import JOB_OPTION, TRIGGER, trigger
from .spark_engine import SparkEngine
from .statement_context import StatementContext
from .stream_query import refuse_other_query
from .stream_sources import ROW_KIND, STREAM_OPTIONS
from .topic_stream import ordered_rows, topic_frame, topics_of

_Planned = tuple[DataFrame, str | None, Callable[[DataFrame, int], AbstractContextManager[DataFrame]] | None]
_KIND = "__snapline_kind"


def insert_stream(
    context: StatementContext, query: Query, target: changes.Target, place: Place, engine: Engine
) -> Result:
    """Start the query. Raises InvalidRequest without a name for the job, by which it is found again."""
    options = context.settings.options
    if not isinstance(engine, SparkEngine):
        raise InvalidRequest("A stream needs the engine spark.")
    if JOB_OPTION not in options:
        raise InvalidRequest(f"A streaming INSERT needs a name that stays the same: SET '{JOB_OPTION}' = 'job1'.")
    if target.mode != APPEND:
        raise InvalidRequest("A stream cannot overwrite: SET 'execution.runtime-mode' = 'batch', or INSERT INTO.")
    job = options[JOB_OPTION]
    constants = key_constants(query, target) if is_renewed(query) else None
    refuse_other_query(context.checkpoint(job), job, query, target, constants)
    rows, kind, made = _planned_rows(engine, query, target, context.checkpoint(job))
    if not rows.isStreaming:
        raise InvalidRequest(
            "A streaming INSERT reads a table. For rows that are given: SET 'execution.runtime-mode' = 'batch'."
        )
    sources = [_planned(each.source) for each in query.inputs if each.source.table or each.source.kafka]
    identifier = target.table.identifier
    sink = SnapshotRef(place.catalog, identifier.database, identifier.table, identifier.branch, 0)
    recorder = context.recorder(place.catalog)
    recorder.record_job(job, sources, [sink])

    def properties(refs: list[SnapshotRef]) -> dict[str, str]:
        # Of a job that goes on from its checkpoint, what it once began with stays.
        recorder.record_startup(job, refs)
        return sources_property(sorted({context.changed(ref) for ref in refs}))

    def offsets(batch_id: int) -> dict[str, str]:
        ranges = batch_ranges(context.checkpoint(job), batch_id)
        recorder.record_startup(job, startups_of(ranges))
        return offsets_property(ranges)

    stream = write_stream(
        rows,
        target.table,
        context.warehouse(place),
        commit_user=job,
        checkpoint=context.checkpoint(job),
        trigger=trigger(options.get(TRIGGER, "available-now")),
        properties=properties,
        batch_properties_of=offsets,
        order_column=ORDER_COLUMN if ORDER_COLUMN in rows.columns else None,
        row_kind_column=kind,
        made=made,
        output_mode="update" if made is None and _is_aggregated(query) else "append",
        change_tracking=target.change_tracking,
    )
    ends = "availableNow" in trigger(options.get(TRIGGER, "available-now"))
    return Result(f"The stream {job} writes to {identifier}.", stream=stream, ends=ends)


def _planned_rows(engine: SparkEngine, query: Query, target: changes.Target, checkpoint: str) -> _Planned:
    """What Spark is to stream, the column that holds kinds, and what makes the rows to commit of it, if they are not it."""
    if is_renewed(query):
        if topics := topics_of(query):
            raise InvalidRequest(
                f"{topics[0].identifier} is a Kafka table, and another table of this query has rows that change: a stream "
                "follows both together only from tables of the store. Stream the Kafka table into one first."
            )
        query_branches, fills = branches(query, target)
        renewed = RenewedRows(query_branches, fills, target.table, checkpoint)
        renewed.check(engine)
        return renewed.stream(lambda read, given: _frame(engine, read, given)), KIND, renewed.made
    ordered = ordered_rows(engine, query, target)
    if ordered is not None:
        return *ordered, None
    if _is_aggregated(query) and not target.table.schema.primary_keys:
        raise InvalidRequest(
            f"{target.table.identifier} has no primary key: each new value of a group would be one more row. Give it the columns "
            "of GROUP BY as its primary key."
        )
    unread = [
        source.source.name for source in query.inputs if keys_of(source.source) and not reads_kinds(source.source)
    ]
    if unread:
        raise InvalidRequest(
            f"{unread[0]} has a primary key, and its changes are read without their kinds beside others with theirs: "
            "OPTIONS('read.changelog' = 'true') for all, or for none."
        )
    frames = {
        source.view: _frame(engine, source, {} if reads_kinds(source.source) else {INSERTS_ONLY: "true"})
        for source in query.inputs
    }
    rows = engine.over(frames, query.tree)
    kinds = any(reads_kinds(source.source) for source in query.inputs) and rows.columns[:1] == [ROW_KIND]
    if kinds and len(rows.columns) == len(target.columns) + 1 and not target.by_name:
        fills = changes.fitted(rows.columns[1:], target)
        fills = [fill if fill.position is None else replace(fill, position=fill.position + 1) for fill in fills]
        return engine.cast(engine.fill(rows, [*fills, Fill(_KIND, 0)]), target.table), _KIND, None
    return engine.cast(engine.fill(rows, changes.fitted(rows.columns, target)), target.table), None, None


def _is_aggregated(query: Query) -> bool:
    return query.tree.find(exp.AggFunc, exp.Group) is not None


def _frame(engine: SparkEngine, read: Input, more: Mapping[str, str]) -> DataFrame:
    table = read.source.table
    if read.source.kafka is not None:
        return topic_frame(engine, read)
    if table is None:
        return engine.frame(read)
    given: dict[str, str] = {key: value for key, value in read.source.options.items() if key in STREAM_OPTIONS}
    if read.columns is not None and not reads_kinds(read.source):
        given["columns"] = ",".join(read.columns)
    return read_stream(engine.session, table, read.source.warehouse, read.source.catalog, {**given, **more})


def _planned(source: Source) -> SnapshotRef:
    """The table of a source; which of its snapshots are read is known batch by batch."""
    held = source.table or source.kafka
    assert held is not None
    identifier = held.identifier
    return SnapshotRef(source.catalog, identifier.database, identifier.table, identifier.branch, 0)
