"""Read a table and then its log, step by step, each change once.

A position is a snapshot and, for each partition of the topic, the offset behind which later snapshots are. What always holds: a
step ends where a snapshot does, so that whoever keeps the position with what he made of the step goes on behind exactly that,
from the log or, where that does not have it any more, from the files, which tell the same. Follows `docs/log.md`, "Reading".
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ..errors import InvalidRequest, MainReplaced, NotFound
from ..identifier import MAIN_BRANCH
from ..log_options import has_log
from ..metadata.history import identity_at, stands_at
from ..metadata.snapshot import Snapshot
from ..metadata.table_store import TableStore
from ..read.changes import (
    ROW_KIND,
    SNAPSHOT_ID,
    ChangeSplit,
    changes_schema,
    latest_schema,
    plan_changes,
    plan_first_reading,
)
from ..read.split_read import ReadRequest
from ..read.stream_scan import FULL, NOTHING_READ, StartUp, first_position, refuse_beyond
from .debezium import decode_values
from .definition import UPSERT, changelog_mode, log_options, own_topic
from .log_store import Position, Topic
from .log_systems import open_log
from .normalize import Normalizer


@dataclass(frozen=True, slots=True)
class ReadPosition:
    """Behind which snapshot a reader stands. `offsets` None: from the files, as of a table without a log. `topic`: the id of the
    topic that they are of.
    """

    snapshot_id: int
    identity: str | None
    topic: str | None = None
    offsets: tuple[int, ...] | None = None

    def to_json(self) -> dict[str, Any]:
        """As users keep it: plain values for JSON."""
        log = None if self.offsets is None else {str(number): offset for number, offset in enumerate(self.offsets)}
        return {"snapshot": self.snapshot_id, "identity": self.identity, "topic": self.topic, "log": log}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "ReadPosition":
        """Raises InvalidRequest for what `to_json` did not make."""
        try:
            log = value.get("log")
            offsets = None if log is None else tuple(int(log[str(number)]) for number in range(len(log)))
            return cls(int(value["snapshot"]), value.get("identity"), value.get("topic"), offsets)
        except (LookupError, TypeError, ValueError, AttributeError):
            raise InvalidRequest(
                f"{value!r} is no position: keep `step.position` as it is, {{'snapshot': 3, …, 'log': {{'0': 17}}}}."
            ) from None


@dataclass(frozen=True, slots=True)
class Step:
    """What was read between two positions: rows with `rowkind` and `snapshot_id`, and the position behind them, to be kept."""

    rows: pa.Table
    position: dict[str, Any]


class LogStream:
    """Reads a table and what follows. Iterating over it ends when nothing has come that was not read."""

    def __init__(self, store: TableStore, begin: StartUp | ReadPosition, *, remove_normalize: bool = False) -> None:
        """`begin`: how a new stream begins, or where an earlier one has come to. `remove_normalize`: changes of an upsert log are
        left as they are, so that no rows are held here.
        """
        if store.identifier.branch != MAIN_BRANCH:
            raise InvalidRequest(f"{store.identifier} is a branch: main is what the log is of. Follow the table.")
        if isinstance(begin, StartUp):
            refuse_beyond(store, begin)
        self._store = store
        self._request = ReadRequest(store, (), None)
        self._is_upsert = has_log(store.schema.options) and changelog_mode(store.schema) == UPSERT
        self._normalizes = self._is_upsert and not remove_normalize
        self._normalizer: Normalizer | None = None
        self._begin = begin if isinstance(begin, StartUp) else None
        self._position = begin if isinstance(begin, ReadPosition) else None

    @property
    def position(self) -> dict[str, Any] | None:
        """Behind the last step; None before the first one."""
        return None if self._position is None else self._position.to_json()

    def __iter__(self) -> Iterator[Step]:
        while (step := self.step()) is not None:
            yield step

    def step(self) -> Step | None:
        """All that has come since the last step; None if nothing has. Held in memory. If it raises, nothing was read.

        Raises NotFound if this is another table by now, or if what follows the position is neither in the log nor in the files
        any more, or is of another history; InvalidRequest for a position that the log does not have.
        """
        self._open()
        if self._position is None:
            return self._first()
        where = self._end()
        position = self._position
        if not self._stands(position):
            return self._anew(where)
        self._refuse_misfit(position, where)
        if where is None or where.snapshot_id <= position.snapshot_id:
            return None
        normalizer = self._known() if self._normalizes else None
        changes = self._from_log(position, where)
        if changes is None:
            changes = self._from_files(position, where)
        elif isinstance(changes, str):
            return self._anew(where)
        kinds, numbers, rows = changes
        if normalizer is not None:
            kinds, rows, places = normalizer.apply(kinds, rows)
            numbers = numbers.take(places)
        return self._done(kinds, numbers, rows, where)

    def _open(self) -> None:
        """Take the table as it is by now: main may be another branch, and have other columns."""
        before = self._store
        with suppress(MainReplaced):
            before.refuse_other_table()
        store = TableStore(before.file_io, before.paths.root, before.identifier, clock=before.clock)
        self._store = latest_schema(store)
        if self._request.columns != tuple(self._store.schema.column_names):
            self._normalizer = None
        self._request = ReadRequest(self._store, tuple(self._store.schema.column_names), None)

    @property
    def _names(self) -> tuple[str, ...]:
        return self._request.columns

    # --- where the log ends

    def _topic(self) -> Topic | None:
        schema = self._store.schema
        return own_topic(schema, str(self._store.identifier)) if has_log(schema.options) else None

    def _end(self) -> ReadPosition | None:
        """How far can be read: what the log has, or the newest snapshot of a table without one."""
        topic = self._topic()
        if topic is None:
            latest = self._store.snapshots.latest()
            return None if latest is None else ReadPosition(latest.id, latest.identity)
        position: Position | None = open_log(self._store.schema.options).position(topic)
        return (
            None if position is None else ReadPosition(position.snapshot_id, position.identity, topic.id, position.ends)
        )

    def _refuse_misfit(self, position: ReadPosition, where: ReadPosition | None) -> None:
        """Raise InvalidRequest for a position whose partitions or offsets are not those of the topic that it is of."""
        if where is None or where.offsets is None or position.offsets is None or position.topic != where.topic:
            # It is gone on from files, or nothing is known of the log.
            return
        name, files = self._store.identifier, "to go on from the table's files, give the position with 'log': None."
        given, count = len(position.offsets), len(where.offsets)
        if given != count:
            places = range(min(given, count), max(given, count))
            listed = f"partition{'s' if len(places) > 1 else ''} {', '.join(map(str, places))}"
            what = (
                f"has no offset of {listed}"
                if given < count
                else f"has offsets of {listed}, which the log does not have"
            )
            raise InvalidRequest(
                f"The position {what}: the log of {name} has {count} partitions. Keep `step.position` as it is; {files}"
            )
        for number, (offset, end) in enumerate(zip(position.offsets, where.offsets, strict=True)):
            if offset > end:
                raise InvalidRequest(
                    f"{name} is to be read from offset {offset} of partition {number} of its log, which ends at {end}. Was the "
                    f"topic deleted and made again, or has the broker lost records? Keep `step.position` as it is; {files}"
                )

    # --- the first step

    def _first(self) -> Step | None:
        assert self._begin is not None
        # Before the snapshot is looked for: what the log has of it or earlier ones is told by its header.
        end = self._end()
        number = first_position(self._store, self._begin)
        if number != NOTHING_READ:
            is_end = self._begin.mode == "latest" and end is not None
            self._position = end if is_end else ReadPosition(number, identity_at(self._store, number))
            return self.step()
        wanted = self._begin.snapshot_id
        snapshot = self._store.snapshots.latest() if wanted is None else self._store.snapshots.get(wanted)
        if snapshot is None:
            return None
        # Rows that come, and what waits in postponed buckets with the kinds that it was written with.
        kinds, _, rows = self._of(plan_first_reading(self._request, snapshot))
        if self._normalizes:
            self._normalizer = self._new_normalizer(rows)
        at = ReadPosition(snapshot.id, snapshot.identity)
        if end is not None and end.snapshot_id <= snapshot.id:
            at = ReadPosition(snapshot.id, snapshot.identity, end.topic, end.offsets)
        return self._done(kinds, _numbers(snapshot.id, rows.num_rows), rows, at)

    def _rows_at(self, snapshot: Snapshot) -> pa.Table:
        return self._of(plan_first_reading(self._request, snapshot))[2]

    # --- the others

    def _from_log(
        self, position: ReadPosition, where: ReadPosition
    ) -> tuple[pa.Array, pa.Array, pa.Table] | str | None:
        """Kinds, snapshots and rows between two positions; None if the log does not have them all, a text if it says that readers
        begin anew.
        """
        if position.offsets is None or where.offsets is None or position.topic != where.topic:
            return None
        topic = Topic(log_options(self._store.schema).topic or "", where.topic or "", len(where.offsets))
        log = open_log(self._store.schema.options)
        try:
            parts = list(log.read(topic, position.offsets, where.offsets))
        except NotFound:
            # Retention has passed the position.
            return None
        plain = changes_schema(self._request)
        if not parts:
            return pa.array([], pa.string()), pa.array([], pa.int64()), _columns(plain).empty_table()
        read = pa.concat_tables(parts)
        # What others have written has no snapshot.
        read = read.filter(pc.fill_null(pc.greater(read["snapshot_id"], position.snapshot_id), False))
        if read["reset"].null_count < read.num_rows:
            return str(read["reset"].drop_null()[-1])
        read = read.filter(read["value"].is_valid())
        order = pc.sort_indices(
            read, [("snapshot_id", "ascending"), ("partition", "ascending"), ("offset", "ascending")]
        )
        read = read.take(order).combine_chunks()
        rows, _ = decode_values(_whole(read["value"]), _columns(plain))
        return _whole(read["kind"]), _whole(read["snapshot_id"]), rows

    def _from_files(self, position: ReadPosition, where: ReadPosition) -> tuple[pa.Array, pa.Array, pa.Table]:
        kinds, numbers, rows = self._of(plan_changes(self._request, position.snapshot_id, where.snapshot_id))
        dropped = ["-U"] if self._is_upsert else []
        if log_options(self._store.schema).ignore_delete:
            dropped = ["-D", "-U"]
        stays = pc.invert(pc.is_in(kinds, pa.array(dropped, pa.string())))
        return kinds.filter(stays), numbers.filter(stays), rows.filter(stays)

    def _of(self, splits: Iterator[ChangeSplit]) -> tuple[pa.Array, pa.Array, pa.Table]:
        schema = changes_schema(self._request)
        read = pa.Table.from_batches([batch for split in splits for batch in split.read()], schema).combine_chunks()
        rows = read.select(list(self._names)).cast(_columns(schema))
        return _whole(read[ROW_KIND]), _whole(read[SNAPSHOT_ID]), rows

    # --- what is known, and beginning anew

    def _stands(self, position: ReadPosition) -> bool:
        if position.snapshot_id == 0 or position.identity is None:
            return True
        return stands_at(self._store, position.snapshot_id, position.identity)

    def _known(self) -> Normalizer:
        """The rows that stand at the position: the table says them, as long as it has that snapshot."""
        assert self._position is not None
        if self._normalizer is None:
            number = self._position.snapshot_id
            rows = changes_schema(self._request)
            at = _columns(rows).empty_table()
            if number > 0:
                try:
                    at = self._rows_at(self._store.snapshots.get(number))
                except NotFound as error:
                    raise NotFound(
                        f"What {self._store.identifier} held at snapshot {number}, from which changes are completed, expired: "
                        f"follow it with remove_normalize=True, or begin anew. ({error})"
                    ) from None
            self._normalizer = self._new_normalizer(at)
        return self._normalizer

    def _new_normalizer(self, rows: pa.Table) -> Normalizer:
        return Normalizer(tuple(self._store.schema.primary_keys), rows)

    def _anew(self, where: ReadPosition | None) -> Step | None:
        """After a reset: what the rows that stand have become, where they are known."""
        assert self._position is not None
        normalizer: Normalizer | None = None
        if self._normalizes:
            # Unless they were held, the history that they were of is no more.
            normalizer = self._normalizer
            with suppress(NotFound):
                normalizer = self._known() if normalizer is None and self._stands(self._position) else normalizer
        if normalizer is None:
            raise NotFound(
                f"{self._store.identifier} begins anew behind snapshot {self._position.snapshot_id}: main was replaced, or "
                "snapshots could not be sent to the log. What has changed since cannot be told: read the table anew with "
                "follow(scan='full')."
            )
        if where is None or not self._stands(where):
            return None
        kinds, rows = normalizer.become(self._rows_at(self._store.snapshots.get(where.snapshot_id)))
        return self._done(kinds, _numbers(where.snapshot_id, rows.num_rows), rows, where)

    def _done(self, kinds: pa.Array, numbers: pa.Array, rows: pa.Table, position: ReadPosition) -> Step:
        self._position = position
        arrays = [kinds, numbers, *rows.columns]
        return Step(pa.table(arrays, names=[ROW_KIND, SNAPSHOT_ID, *rows.column_names]), position.to_json())


def _columns(schema: pa.Schema) -> pa.Schema:
    """The columns of a table alone, each of which may be null."""
    names = (ROW_KIND, SNAPSHOT_ID)
    return pa.schema([field.with_nullable(True) for field in schema if field.name not in names])


def _numbers(number: int, count: int) -> pa.Array:
    return pa.array([number] * count, pa.int64())


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def begin_at(
    scan: str, *, timestamp_ms: int | None, snapshot_id: int | None, position: Mapping[str, Any] | None
) -> StartUp | ReadPosition:
    """How a stream begins, as users say it. Raises InvalidRequest for what does not go together."""
    if position is None:
        return StartUp(scan, snapshot_id, timestamp_ms)
    if scan != FULL or timestamp_ms is not None or snapshot_id is not None:
        raise InvalidRequest("A stream goes on from a position, or begins by `scan`: give one of them.")
    return ReadPosition.from_json(position)
