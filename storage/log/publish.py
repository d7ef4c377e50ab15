"""Copy the changes of snapshots into a table's log, in their order, once they are committed.

The snapshot is the truth, and the log follows it. What always holds: of each snapshot readers of the log see all changes or none;
the position, which moves in the same step, says which snapshot was the last, so that whoever comes after a crash goes on exactly
there. A commit never fails since its log cannot follow. While a table has a log, its consumer `log` keeps snapshots from expiring
that were not sent yet. Follows `docs/log.md`.
"""

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import CorruptData, NotFound, StorageError, StoreUnavailable
from ..format.binary_row import buckets_of, hash_rows
from ..identifier import MAIN_BRANCH
from ..log_options import has_log
from ..metadata.consumer import Consumer
from ..metadata.history import ROLLED_BACK_PROPERTY, identity_at, stands_at
from ..metadata.snapshot import STAND_IN, TAKE_BACK, Snapshot
from ..metadata.table_store import TableStore
from ..metadata.trouble import LOG, afterwards
from ..progress import progress_of
from ..read.changes import ROW_KIND, latest_schema, plan_changes
from ..read.split_read import ReadRequest
from .debezium import encode_keys, encode_values
from .definition import UPSERT, changelog_mode, log_options, own_topic, partition_count
from .log_store import SENT, Fenced, LogStore, Position, Publisher, Topic, Undecided
from .log_systems import open_log

LOG_CONSUMER = "log"
# How long a system that did not answer is left alone by commits.
_REST_SECONDS = 30.0
# How far back from its end a log is looked at for its last record.
_LOOK_BACK = 1000
_log = logging.getLogger(__name__)
# Until when a system that did not answer is left alone, and what became of the last try.
_resting_until: dict[str, tuple[float, str]] = {}
_one_at_a_time: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)


def send_after(store: TableStore, snapshot_id: int | None) -> None:
    """Send what has been committed, if the table has a log. Raises nothing: what fails is kept as a trouble."""
    if not _is_logged(store):
        return

    def send() -> bool:
        if (cause := _why_it_rests(store)) is not None:
            raise StoreUnavailable(f"{cause} It is left alone for {_REST_SECONDS:.0f} s.")
        try:
            return catch_up(store) is not None
        except StoreUnavailable as error:
            _let_rest(store, error)
            raise

    afterwards(store, LOG, send, default=False, snapshot_id=snapshot_id)


def end_of_log(store: TableStore) -> dict[str, int] | None:
    """For each partition of a table's log, the offset behind its last record: what snapshots that are not there yet will be
    told of comes behind it. None without a log, or if nobody answers.
    """
    if not _is_logged(store) or _why_it_rests(store) is not None:
        return None
    options, count = log_options(store.schema), partition_count(store.schema)
    topic = Topic(options.topic or "", options.topic_id or "", count)
    try:
        ends = open_log(store.schema.options).end_offsets(topic, committed=False)
    except StorageError as error:
        if isinstance(error, StoreUnavailable):
            _let_rest(store, error)
        return None
    return {str(number): end for number, end in enumerate(ends)}


def catch_up(opened: TableStore, *, begin_anew: bool = False) -> Position | None:
    """Send all that has not been sent; returns how far the log has come then. None if somebody else does it, or the table is
    gone. `begin_anew`: readers begin anew at the newest snapshot. Raises StoreUnavailable if the log does not answer.
    """
    try:
        store = TableStore(opened.file_io, opened.paths.root, opened.identifier, clock=opened.clock)
    except NotFound:
        return None
    if not _is_logged(store):
        return None
    hold(store)
    topic = own_topic(store.schema, str(store.identifier))
    with _one_at_a_time[topic.id]:
        log = open_log(store.schema.options)
        try:
            with log.publisher(topic) as publisher:
                sending = _Sending(store, log, topic, publisher)
                position = sending.run(begin_anew=begin_anew)
        except Fenced:
            # He has come later, and sees all that is there now.
            return None
    _resting_until.pop(_system_of(store), None)
    return position


def hold(store: TableStore) -> None:
    """Keep what is to be sent from expiring, if nothing does yet."""
    content = store.consumers.content(LOG_CONSUMER)
    if content is None:
        first = store.snapshots.earliest_id() or 1
        store.consumers.put(Consumer(LOG_CONSUMER, first), None, store.clock.unique_name())


def sent_until(store: TableStore) -> int | None:
    """The last snapshot that is known to be in the log, without asking it; None if that is not known."""
    consumer = store.consumers.find(LOG_CONSUMER)
    return None if consumer is None else consumer.next_snapshot_id - 1


def unsent(store: TableStore) -> str | None:
    """What is missing in the log of a table, as a sentence; None if nothing is known to be. The log is not asked."""
    latest = store.snapshots.latest_id() or 0
    if not _is_logged(store) or not latest:
        return None
    sent = sent_until(store) or 0
    if sent >= latest:
        return None
    return (
        f"the log has come to snapshot {sent or 'none'}, the table to {latest}: the next commit sends what is missing, or "
        f"`snapline log catch-up {store.identifier.full_name}`; `snapline log status` asks what keeps it"
    )


def _is_logged(store: TableStore) -> bool:
    return store.identifier.branch == MAIN_BRANCH and has_log(store.schema.options)


def _system_of(store: TableStore) -> str:
    return f"{log_options(store.schema).system} {log_options(store.schema).servers}"


def _let_rest(store: TableStore, error: StoreUnavailable) -> None:
    _resting_until[_system_of(store)] = time.monotonic() + _REST_SECONDS, str(error)


def _why_it_rests(store: TableStore) -> str | None:
    """What became of the last try, while the system is left alone."""
    until, cause = _resting_until.get(_system_of(store), (0.0, ""))
    return cause if time.monotonic() < until else None


class _Sending:
    """What one publisher does."""

    def __init__(self, store: TableStore, log: LogStore, topic: Topic, publisher: Publisher) -> None:
        self._store = store
        self._log = log
        self._topic = topic
        self._publisher = publisher
        self._request = ReadRequest(latest_schema(store), tuple(store.schema.column_names), None)
        # Snapshots of which nothing was sent since the next one says that their files are not there.
        self._left_out: set[int] = set()

    def run(self, *, begin_anew: bool) -> Position | None:
        position = None
        try:
            position = self._publisher.position()
        except Undecided as error:
            _log.warning("%s Readers begin anew at the newest snapshot.", error)
            begin_anew = True
        if position is None and not begin_anew:
            position = self._recovered()
            if position is not None:
                self._publisher.go_on_from(position)
        # Only now: whoever was ended by this publisher has left his snapshots to it.
        latest = self._store.snapshots.latest()
        if latest is None:
            return position
        if begin_anew or position is None or not self._goes_on(position):
            position = self._reset(latest)
        first = position.snapshot_id
        with progress_of(str(self._store.identifier), "snapshots sent to the log") as tell:
            while position.snapshot_id < latest.id:
                position = self._next(position, latest)
                self._note(position)
                tell(position.snapshot_id - first, latest.id - first)
        self._note(position)
        return position

    def _goes_on(self, position: Position) -> bool:
        return position.snapshot_id == 0 or stands_at(self._store, position.snapshot_id, position.identity)

    def _next(self, position: Position, latest: Snapshot) -> Position:
        """Send the next snapshot, or let readers begin anew where that cannot be told by its changes."""
        number = position.snapshot_id + 1
        snapshot = latest if number == latest.id else self._store.snapshots.find(number)
        identity = latest.identity if number == latest.id else identity_at(self._store, number)
        if identity is None or (snapshot is not None and self._breaks(snapshot)):
            return self._reset(latest)
        following = None if number == latest.id else self._store.snapshots.find(number + 1)
        if following is not None and following.takes_back(snapshot):
            self._left_out.add(number)
        try:
            return self._publisher.publish(number, identity, self._records(number))
        except NotFound:
            if self._store.snapshots.find(number) is not None or self._store.changelogs.find(number) is not None:
                raise
            return self._reset(latest)

    def _breaks(self, snapshot: Snapshot) -> bool:
        """Whether a snapshot makes rows other ones without a change of its own: it shows an earlier state."""
        if snapshot.operation == TAKE_BACK:
            return snapshot.id - 1 not in self._left_out
        shows_earlier = ROLLED_BACK_PROPERTY in (snapshot.properties or {}) and not snapshot.changes_rows
        return snapshot.operation == STAND_IN or (shows_earlier and not self._store.delta_of(snapshot))

    def _reset(self, latest: Snapshot) -> Position:
        return self._publisher.reset(latest.id, latest.identity)

    def _note(self, position: Position) -> None:
        """Let go what has been sent. Somebody else may have come further."""
        files = self._store.consumers
        wanted = Consumer(LOG_CONSUMER, position.snapshot_id + 1, position.identity or None)
        content = files.content(LOG_CONSUMER)
        with suppress(CorruptData):
            if files.parsed(LOG_CONSUMER, content) == wanted:
                return
        files.put(wanted, content, self._store.clock.unique_name())

    def _recovered(self) -> Position | None:
        """Where a log stands whose position is lost; None if that cannot be told for sure."""
        known = self._store.consumers.find(LOG_CONSUMER)
        sent = 0 if known is None else known.next_snapshot_id - 1
        identity = None if known is None else known.last_read
        ends = self._log.end_offsets(self._topic, committed=True)
        if sent > 0 and max(ends) == 0:
            # Another topic than that to which they were sent.
            return None
        newest = self._newest_in_log(ends)
        if newest is None and identity is None:
            # Nothing was ever sent.
            return Position(0, "", tuple(0 for _ in ends)) if max(ends) == 0 or self._is_unused(ends) else None
        if sent > 0 and (identity is None or not stands_at(self._store, sent, identity)):
            return None
        if newest is not None and newest > sent + 1:
            return None
        number = max(sent, newest or 0)
        at = identity_at(self._store, number)
        return None if at is None else Position(number, at, ends)

    def _is_unused(self, ends: tuple[int, ...]) -> bool:
        """Whether retention has taken nothing: what is below the end was never to be read."""
        return max(self._log.first_offsets(self._topic)) == 0

    def _newest_in_log(self, ends: tuple[int, ...]) -> int | None:
        """The highest snapshot of which the log has records, all of which are there then; None if it has none."""
        first = self._log.first_offsets(self._topic)
        back = _LOOK_BACK
        while True:
            start = tuple(max(low, end - back) for low, end in zip(first, ends, strict=True))
            numbers = [pc.max(part["snapshot_id"]).as_py() for part in self._log.read(self._topic, start, ends)]
            held = [number for number in numbers if number is not None]
            if held or start == first:
                return max(held, default=None)
            back *= 10

    # --- records

    def _records(self, number: int) -> Iterator[pa.Table]:
        """The records (`SENT`) of a snapshot, in the order of its changes."""
        schema = self._store.schema
        mode, ignore_delete = changelog_mode(schema), log_options(schema).ignore_delete
        dropped = {"-U"} if mode == UPSERT else set()
        dropped |= {"-U", "-D"} if ignore_delete else set()
        for split in plan_changes(self._request, number - 1, number):
            for batch in split.read():
                rows = pa.Table.from_batches([batch])
                if dropped:
                    rows = rows.filter(pc.invert(pc.is_in(rows[ROW_KIND], pa.array(sorted(dropped)))))
                if rows.num_rows:
                    yield self._sent(rows)

    def _sent(self, rows: pa.Table) -> pa.Table:
        schema = self._store.schema
        kinds = rows[ROW_KIND].combine_chunks()
        plain = rows.select(schema.column_names)
        values, keys = encode_values(plain, kinds), encode_keys(plain, schema.primary_keys)
        return pa.table([pa.array(self._partitions(plain), pa.int32()), keys, values, kinds], schema=SENT)

    def _partitions(self, rows: pa.Table) -> np.ndarray:
        """The bucket of each row."""
        schema = self._store.schema
        if schema.table_options.bucket < 1:
            return np.zeros(rows.num_rows, np.int32)
        fields = schema.fields_named(schema.bucket_keys)
        columns = [rows[field.name].combine_chunks() for field in fields]
        return buckets_of(hash_rows(columns, [field.type for field in fields]), schema.table_options.bucket)
