"""INSERT INTO in streaming mode: a query that goes on, and commits each micro-batch once.

SET 'execution.runtime-mode' = 'streaming';
SET 'pipeline.name' = 'job1';
INSERT INTO word_count SELECT word, count(*) FROM words GROUP BY word;
"""

from typing import TYPE_CHECKING

from sqlglot import exp

from storage import InvalidRequest, SnapshotRef

from . import changes
from .engines import Engine, SparkEngine
from .names import Place, Source
from .query import Input, Query
from .result import Result
from .settings import JOB_OPTION, TRIGGER, trigger

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from .statements import Statements

_STREAM_OPTIONS = (
    "scan.mode",
    "scan.snapshot-id",
    "scan.timestamp-millis",
    "consumer-id",
    "snapshots-per-batch",
    "read.changelog",
)


def insert_stream(
    statements: "Statements", query: Query, target: changes.Target, place: Place, engine: Engine
) -> Result:
    """Start the query. Raises InvalidRequest without a name for the job, by which it is found again."""
    from storage.engines.spark_stream import write_stream

    options = statements.settings.options
    if not isinstance(engine, SparkEngine):
        raise InvalidRequest("A stream needs the engine spark.")
    if JOB_OPTION not in options:
        raise InvalidRequest(f"A streaming INSERT needs a name that stays the same: SET '{JOB_OPTION}' = 'job1'.")
    if target.mode != changes.APPEND:
        raise InvalidRequest("A stream cannot overwrite: SET 'execution.runtime-mode' = 'batch', or INSERT INTO.")
    job = options[JOB_OPTION]
    frames = {one.view: _frame(engine, one) for one in query.inputs}
    rows = engine.over(frames, query.tree)
    rows = engine.cast(engine.fill(rows, changes.fitted(rows.columns, target)), target.table)
    sources = [_planned(one.source) for one in query.inputs if one.source.table is not None]
    one = target.table.identifier
    sink = SnapshotRef(place.catalog, one.database, one.table, one.branch, 0)
    recorder = statements.recorder(place.catalog)
    recorder.record_job(job, sources, [sink])

    def properties(refs: list[SnapshotRef]) -> dict[str, str]:
        # Of a job that goes on from its checkpoint, what it once began with stays.
        recorder.record_startup(job, refs)
        return changes.sources_property([statements.changed(one) for one in refs])

    aggregated = query.tree.find(exp.AggFunc, exp.Group) is not None
    stream = write_stream(
        rows, target.table, statements.warehouse(place), commit_user=job, checkpoint=statements.checkpoint(job),
        trigger=trigger(options.get(TRIGGER, "available-now")), output_mode="update" if aggregated else "append",
        properties=properties,
    )  # fmt: skip
    return Result(f"The stream {job} writes to {one}.", stream=stream)


def _frame(engine: SparkEngine, one: Input) -> "DataFrame":
    from storage.engines.spark_stream import read_stream

    table = one.source.table
    if table is None:
        return engine.frame(one)
    given: dict[str, str] = {key: value for key, value in one.source.options.items() if key in _STREAM_OPTIONS}
    if one.columns is not None and "read.changelog" not in given:
        given["columns"] = ",".join(one.columns)
    return read_stream(engine.session, table, one.source.warehouse, one.source.catalog, given)


def _planned(source: Source) -> SnapshotRef:
    """The table of a source; which of its snapshots are read is known batch by batch."""
    assert source.table is not None
    one = source.table.identifier
    return SnapshotRef(source.catalog, one.database, one.table, one.branch, 0)
