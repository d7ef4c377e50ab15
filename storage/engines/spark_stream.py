"""Tables in Spark Structured Streaming: changes as a stream, and one commit for each micro-batch.

    spark.readStream.format("snapline").option("warehouse", uri).option("scan.mode", "latest").load("shop.orders")

Each micro-batch holds one snapshot more, so that what it makes is made from exactly one version of the table
(`snapshots-per-batch` takes more at once). The checkpoint remembers the position; a batch that is replayed reads the same
snapshots and, since the batch's number is the commit identifier, lands once.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import (
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from ..consumers import Consumption
from ..errors import InvalidRequest, NotFound
from ..file_io import FileIO
from ..file_system import split_url
from ..identifier import SnapshotRef
from ..maintain.left_over import delete_left_over
from ..metadata.consumer import check_consumer_name
from ..metadata.history import identity_at, refuse_other_history
from ..read.all_rows import as_told
from ..read.change_metadata import metadata_of_changes
from ..read.changes import ROW_KIND, ChangeSplit, latest_schema
from ..read.split_read import ReadRequest
from ..read.stream_scan import (
    FROM_SNAPSHOT,
    FROM_TIMESTAMP,
    FULL,
    NOTHING_READ,
    StartUp,
    first_position,
    next_position,
    plan_step,
    refuse_beyond,
)
from ..read.touched import plan_touched, readable_snapshot, refuse_untold
from ..read.version import moment_of
from ..table import Table
from ..write.commit_id import CommitId
from .spark_checkpoint import batch_properties, check_sink
from .spark_options import INSERTS_ONLY, METADATA, SOURCE_NUMBER, TOUCHED_KEYS, columns_of, is_true, number_of
from .spark_task import FilesWritten, change_tracking_of, properties_of, write_rows
from .spark_types import FORMAT, as_spark_expects, spark_schema, storage_texts
from .spark_writer import APPEND, OVERWRITE_TABLE, write_frame

_OUTPUT_MODES = ("append", "update", "complete")
_POSITION, _IDENTITY = "snapshot", "identity"
# The position before it, and which of a query's sources it is one of.
_BEFORE, _SOURCE = "before", "source"
# The positions before and after a micro-batch, as JSON, in the properties of its commit.
STEP_PROPERTY = "snapline.stream-step"


@dataclass
class ChangePartition(InputPartition):
    """A bucket's changes on their way to a task."""

    split: ChangeSplit


def stream_schema(table: Table, options: Mapping[str, str]) -> StructType:
    """The columns of a stream: those wanted, and first `rowkind` with `read.changelog`."""
    fields = list(_request(table, options).schema)
    if _with_kinds(options):
        fields.insert(0, pa.field(ROW_KIND, pa.string(), False))
    return spark_schema(pa.schema(fields))


def _request(table: Table, options: Mapping[str, str]) -> ReadRequest:
    """What a stream reads. Raises InvalidRequest for metadata that changes do not have."""
    names = columns_of(options, table.schema) or tuple(table.schema.column_names)
    metadata = metadata_of_changes(table.schema, names)
    if metadata and is_true(options, TOUCHED_KEYS):
        raise InvalidRequest(
            f"Options {METADATA!r} and {TOUCHED_KEYS!r}: keys that are looked at again tell no metadata."
        )
    own = tuple(name for name in names if name not in metadata)
    return ReadRequest(table.store, own, None, None, metadata, names)


def _with_kinds(options: Mapping[str, str]) -> bool:
    return is_true(options, "read.changelog")


def _start_up(options: Mapping[str, str]) -> StartUp:
    snapshot_id, timestamp = options.get("scan.snapshot-id"), options.get("scan.timestamp-millis")
    mode = options.get("scan.mode")
    if mode is None:
        mode = FROM_SNAPSHOT if snapshot_id else FROM_TIMESTAMP if timestamp else FULL
    number = number_of(options, "scan.timestamp-millis")
    if timestamp is not None:
        # Beyond any date nothing would ever come.
        moment_of(timestamp.strip())
    return StartUp(mode, number_of(options, "scan.snapshot-id"), number)


class SnaplineStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads changes, a snapshot in each micro-batch."""

    def __init__(self, table: Table, options: Mapping[str, str], schema: StructType) -> None:
        self._table = table
        self._start = _start_up(options)
        self._with_kinds = _with_kinds(options)
        self._touched = is_true(options, TOUCHED_KEYS)
        self._inserts_only = is_true(options, INSERTS_ONLY)
        self._number = number_of(options, SOURCE_NUMBER)
        consumer = options.get("consumer-id")
        self._consumption = Consumption(table.store, consumer) if consumer else None
        self._catalog = options.get("catalog", "")
        at_once = number_of(options, "snapshots-per-batch")
        if at_once == 0:
            raise InvalidRequest("Option 'snapshots-per-batch' = 0: a micro-batch holds a snapshot at least.")
        self._snapshots_at_once = at_once or 1
        self._arrow_schema = to_arrow_schema(schema, timezone="UTC", prefers_large_types=False)
        self._request = _request(table, options)
        self._until: int | None = None

    def initialOffset(self) -> dict[str, Any]:
        known = self._consumption.position() if self._consumption else None
        position = first_position(self._table.store, self._start) if known is None else known
        return self._offset(position, position)

    def _offset(self, position: int, before: int) -> dict[str, Any]:
        """A position, with the table that it is one of: by it a batch knows what it was made from. And with what tells its
        snapshot from others that come to have its number, and where its step began: Spark remembers no first position, and
        another one may be the first when a batch is replayed.
        """
        identifier = self._table.identifier
        identity = identity_at(self._table.store, position) if position > 0 else None
        named: dict[str, Any] = {} if identity is None else {_IDENTITY: identity}
        if self._number is not None:
            named[_SOURCE] = self._number
        place = [self._catalog, identifier.database, identifier.table, identifier.branch]
        return {_POSITION: position, _BEFORE: before, "table": place, **named}

    def _refuse_other_history(self, offset: Mapping[str, Any]) -> None:
        refuse_other_history(
            self._table.store,
            offset[_POSITION],
            offset.get(_IDENTITY),
            "This stream",
            "Read the table anew: begin with another checkpoint.",
        )

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        position = next_position(
            self._table.store,
            start[_POSITION],
            snapshots_at_once=self._snapshots_at_once,
            until=self._until,
            first=self._start.snapshot_id,
        )
        self._refuse_other_history(start)
        if position == start[_POSITION]:
            # Nothing ever comes to where a table was.
            self._table.store.refuse_other_table()
            return start
        is_first = start[_POSITION] == NOTHING_READ
        if is_first and position == 0:
            # An empty table has nothing to begin with: its first snapshot is the first reading.
            return start
        if self._consumption:
            # The checkpoint remembers this step before it is read: whoever dies in between finds it again.
            kept = position - 1 if is_first else max(self._kept(start[_POSITION]), 0)
            self._consumption.begin(kept, is_whole=is_first)
        return self._offset(position, start[_POSITION])

    def reportLatestOffset(self) -> dict[str, Any]:
        latest = self._table.store.snapshots.latest_id() or 0
        return self._offset(latest, latest)

    def prepareForTriggerAvailableNow(self) -> None:
        self._until = self._table.store.snapshots.latest_id() or 0

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        # A batch that is replayed reads what it has read before, or nothing.
        for offset in (start, end):
            self._refuse_other_history(offset)
        first, last = start[_POSITION] if start == end else end.get(_BEFORE, start[_POSITION]), end[_POSITION]
        # By now the checkpoint remembers this step. What it reads, and all after it, does not expire.
        self._record(self._kept(first) if first != NOTHING_READ else last - 1)
        request = replace(self._request, store=latest_schema(self._table.store))
        if self._touched and first != NOTHING_READ:
            return [ChangePartition(split) for split in plan_touched(request, first, last)]
        return [ChangePartition(split) for split in plan_step(request, first, last)]

    def _kept(self, position: int) -> int:
        """What a consumer has done with at a position: whoever asks for keys reads the rows that they had there."""
        return position - 1 if self._touched else position

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, ChangePartition)
        for batch in partition.split.read():
            if not self._with_kinds and not self._touched:
                if self._inserts_only:
                    _refuse_retractions(batch, partition.split)
                # Without their kind, rows that went would look like rows that came.
                batch = batch.filter(pc.is_in(batch.column(ROW_KIND), pa.array(["+I", "+U"])))
            # The second column, of the snapshot that told of the change, is in no stream, and metadata may have its name.
            rows = batch.remove_column(1)
            yield as_spark_expects(rows.select(self._arrow_schema.names), self._arrow_schema)

    def commit(self, end: dict[str, int]) -> None:
        self._record(self._kept(end[_POSITION]))

    def stop(self) -> None:
        """Nothing is open."""

    def _record(self, position: int) -> None:
        if self._consumption and position >= 0:
            self._consumption.record(position)


def _refuse_retractions(batch: pa.RecordBatch, split: ChangeSplit) -> None:
    """Raise InvalidRequest if rows have changed or gone."""
    count = pc.sum(pc.is_in(batch.column(ROW_KIND), pa.array(["-U", "+U", "-D"]))).as_py()
    if count:
        raise InvalidRequest(
            f"Snapshot {split.snapshot_id} of {split.request.store.identifier} takes rows away, or changes them: what this "
            "stream has made of them cannot be taken back. Give the source a primary key, or empty the sink and begin under "
            "another name."
        )


class SnaplineStreamWriter(DataSourceStreamArrowWriter):
    """Commits one snapshot for each micro-batch, under the batch's number."""

    def __init__(self, table: Table, options: Mapping[str, str], overwrite: bool) -> None:
        if overwrite:
            raise InvalidRequest("A streaming write has no output mode `complete`: use `append` or `update`.")
        if options.get("commit-user") == "":
            raise InvalidRequest("Option 'commit-user' is empty: give the stream a name, or leave the option out.")
        user = options.get("commit-user") or options.get("checkpointlocation") or options.get("checkpointLocation")
        if not user:
            raise InvalidRequest(
                'A streaming write needs a name that stays the same when it is started again: .option("commit-user", "job").'
            )
        self._table = table
        self._options = dict(options)
        self._user = user
        self._properties = properties_of(options)
        self._checkpoint = options.get("checkpointlocation") or options.get("checkpointLocation")
        self._write_name = table.store.clock.unique_name()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return write_rows(self._table, self._options, self._write_name, iterator, replaces=False)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        commit_id = CommitId(self._user, batchId)
        own: Mapping[str, str] = {}
        if self._checkpoint:
            check_sink(self._table, self._checkpoint)
            own = batch_properties(self._table, commit_id, self._checkpoint)
        self._table.commit_messages(
            [message.message for message in messages if isinstance(message, FilesWritten)],
            None,
            commit_id,
            {**self._properties, **own},
            "WRITE",
            change_tracking_of(self._options),
        )

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        # Spark aborts also what may have landed.
        paths = [path for message in messages if isinstance(message, FilesWritten) for path in message.message.paths]
        delete_left_over(self._table.store, paths, "The write has failed")


def _has_landed(table: Table, commit_id: CommitId, step: str) -> bool:
    """Whether a micro-batch was committed. Raises InvalidRequest if another one was under its number."""
    committed = table.new_commit(commit_id).find_committed()
    if committed is None:
        return False
    known = (committed.properties or {}).get(STEP_PROPERTY, step) if commit_id.made(committed) else step
    if known != step:
        raise InvalidRequest(
            f"Stream {commit_id.user!r} has committed its batch {commit_id.identifier} to {table.identifier} already, of other "
            f"positions ({known}, now {step}): its checkpoint was lost, or belongs to another stream. Begin under another name."
        )
    return True


def batch_sources(checkpoint: str, batch_id: int) -> list[SnapshotRef]:
    """The snapshots that a micro-batch has come to, as its checkpoint tells: one for each table that it reads.

    The file of a batch's offsets is written before the batch runs, and holds a line for each source.
    """
    file_io = FileIO(checkpoint)
    text = file_io.read_text_or_none(f"{split_url(checkpoint)}/offsets/{batch_id}")
    sources = []
    for line in (text or "").splitlines():
        value = json.loads(line) if line.startswith("{") else {}
        if "table" in value and value.get(_POSITION, 0) > 0:
            sources.append(_ref(value["table"], value[_POSITION]))
    return sources


def batch_spans(checkpoint: str, batch_id: int) -> dict[int, tuple[int | None, int]]:
    """The positions before and after a micro-batch, as its checkpoint tells, by the numbers of its sources. Before the first
    reading of a whole table there is none.
    """
    earlier, spans = _offsets(checkpoint, batch_id - 1), {}
    for number, offset in _offsets(checkpoint, batch_id).items():
        position = offset[_POSITION]
        # The offset of a source that gave nothing stays what it was.
        before = position if earlier.get(number) == offset else offset[_BEFORE]
        spans[number] = (None if before == NOTHING_READ else before, position)
    return spans


def at_position(table: Table, position: int | None) -> Table | None:
    """A table as a stream has it at a position, with the columns that it has now; None before it has rows. Raises NotFound if
    that has expired.
    """
    try:
        snapshot = readable_snapshot(table.store, position or 0)
    except NotFound as error:
        raise NotFound(
            f"A stream compares what it reads with what it has read, and that has expired. {error} Fill the sink anew under "
            "another name; OPTIONS('consumer-id' = 'job1') keeps what the stream still needs."
        ) from None
    return None if snapshot is None else table.at(as_told(table.store, snapshot))


def _offsets(checkpoint: str, batch_id: int) -> dict[int, dict[str, Any]]:
    text = (
        FileIO(checkpoint).read_text_or_none(f"{split_url(checkpoint)}/offsets/{batch_id}") if batch_id >= 0 else None
    )
    values = [json.loads(line) for line in (text or "").splitlines() if line.startswith("{")]
    return {value[_SOURCE]: value for value in values if _SOURCE in value and _BEFORE in value}


def _ref(table: Sequence[str], snapshot_id: int) -> SnapshotRef:
    catalog, database, name, branch = table
    return SnapshotRef(catalog, database, name, branch, snapshot_id)


def read_stream(
    session: SparkSession, table: Table, warehouse: str, catalog: str, options: Mapping[str, str]
) -> DataFrame:
    """The changes of a branch of a table as a streaming DataFrame. `options`: `scan.mode` and the like."""
    # What is wrong with it is said before anything begins.
    refuse_beyond(table.store, _start_up(options))
    if "consumer-id" in options:
        check_consumer_name(options["consumer-id"])
    if is_true(options, TOUCHED_KEYS):
        refuse_untold(table.store)
    place = {
        "warehouse": warehouse,
        "catalog": catalog,
        "branch": table.identifier.branch,
        "external-roots": json.dumps(table.store.file_io.external_roots),
        **storage_texts(table.store.file_io.storage_options),
    }
    return session.readStream.format(FORMAT).options(**place, **options).load(table.identifier.full_name)


def write_stream(
    frame: DataFrame,
    table: Table,
    warehouse: str,
    *,
    commit_user: str,
    checkpoint: str,
    row_kind_column: str | None = None,
    trigger: Mapping[str, Any] | None = None,
    output_mode: str = "append",
    properties: Callable[[list[SnapshotRef]], Mapping[str, str]] | None = None,
    batch_properties_of: Callable[[int], Mapping[str, str]] | None = None,
    order_column: str | None = None,
    made: "Callable[[DataFrame, int], AbstractContextManager[DataFrame]] | None" = None,
    change_tracking: bool = True,
) -> StreamingQuery:
    """Start a query that commits each micro-batch of a streaming DataFrame once, whatever is replayed.

    Rows of a bucket are brought to one task and sorted, as in a batch. `commit_user` names the job: it must stay the same
    as long as the checkpoint does. `trigger` is what `DataStreamWriter.trigger` takes, `{"availableNow": True}` say.
    `properties` are those of each commit, given the snapshots that its micro-batch has come to, and `batch_properties_of`
    further ones, given its number. `order_column`: as in `write_frame`. `made` gives the rows to
    commit for those of a micro-batch and its number; by default they are the same. `output_mode`: what Spark gives for each
    micro-batch: append, its rows; update, the groups that have changed; complete, all groups, which replace what the table holds.

    Raises InvalidRequest for another mode, for `update` of a table without a key, and if the checkpoint is that of a stream that
    wrote to another table.
    """
    _refuse_mode(table, output_mode)
    check_sink(table, checkpoint)

    def write(batch: DataFrame, batch_id: int) -> None:
        commit_id = CommitId(commit_user, batch_id)
        given = dict(properties(batch_sources(checkpoint, batch_id)) if properties else {})
        if batch_properties_of is not None:
            given |= batch_properties_of(batch_id)
        if made is not None:
            given[STEP_PROPERTY] = json.dumps(sorted(batch_spans(checkpoint, batch_id).items()))
            if _has_landed(table, commit_id, given[STEP_PROPERTY]):
                return
        else:
            given |= batch_properties(table, commit_id, checkpoint)
        with nullcontext(batch) if made is None else made(batch, batch_id) as rows:
            write_frame(
                rows,
                table,
                warehouse,
                commit_id=commit_id,
                mode=OVERWRITE_TABLE if output_mode == "complete" else APPEND,
                row_kind_column=row_kind_column,
                properties=given,
                change_tracking=change_tracking,
                order_column=order_column,
            )

    writer = frame.writeStream.foreachBatch(write).option("checkpointLocation", checkpoint).queryName(commit_user)
    writer = writer.outputMode(output_mode)
    return writer.trigger(**(trigger or {"processingTime": "1 second"})).start()


def _refuse_mode(table: Table, output_mode: str) -> None:
    if output_mode not in _OUTPUT_MODES:
        raise InvalidRequest(f"Output mode {output_mode!r} is unknown. Use one of: {', '.join(_OUTPUT_MODES)}.")
    if output_mode == "update" and not table.schema.primary_keys:
        raise InvalidRequest(
            f"{table.identifier} has no primary key: in mode 'update' each new value of a group would be one more row. Give it "
            "the columns that are grouped by as its primary key, or use mode 'complete'."
        )
