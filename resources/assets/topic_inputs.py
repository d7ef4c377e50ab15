"""What an asset reads of a Kafka table: all of it, or what has come since its own newest snapshot, which says how far it was.

Rows are in memory, as all increments are.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from lineage import offsets_of, offsets_property, ranges_of_text, ranges_text, topic_texts
from storage import InvalidRequest, KafkaTable, NotFound, Snapshot, TopicRange
from storage.engines.kafka_rows import TopicReading, holds_changes

from ..session import Session
from ..warehouse.snapshot_properties import POSITION_PROPERTY
from .increments import ReadAll, own_newest
from .step_commit import Context, step_of

_BOUND = "scan.bounded.mode"


@dataclass(frozen=True)
class TopicIncrement:
    """The records that have come. `grown_from`: the snapshot whose rows they are added to; None if they are all that there are.
    `position`: what is in the table with them.
    """

    rows: pa.Table
    ranges: Sequence[TopicRange]
    reason: str
    grown_from: int | None
    position: Sequence[TopicRange]


@dataclass
class TopicsTaken:
    """What a step has read of topics."""

    ranges: list[TopicRange] = field(default_factory=list)
    position: Sequence[TopicRange] = ()

    @property
    def properties(self) -> dict[str, str]:
        """Properties of its commit: the records that the snapshot is made from, and what of topics is in the table with them."""
        read_on = {POSITION_PROPERTY: ranges_text(self.position)} if self.position else {}
        return {**offsets_property(self.ranges), **read_on}


class TopicReads:
    """What the steps of a process have read of topics, until they commit."""

    def __init__(self) -> None:
        self._of_steps: dict[tuple[str, str], TopicsTaken] = {}

    def rows(self, session: Session, context: Context, name: str) -> pa.Table:
        """The rows of a Kafka table. Raises NotFound for a name that is none of one."""
        table = session.catalog.kafka_tables.get(name)
        if table is None:
            raise NotFound(f"{name} is no Kafka table.")
        reading = TopicReading(bounded(table), session.catalog.name)
        rows = reading.rows()
        self._of_step(context).ranges += reading.ranges
        context.log.info(f"reading {'; '.join(topic_texts(reading.ranges))}")
        return rows

    def increment(
        self, session: Session, context: Context, table: KafkaTable, sink: str, job: str, code_version: str
    ) -> TopicIncrement:
        """See `topic_since`."""
        came = topic_since(session, table, sink, job, code_version)
        taken = self._of_step(context)
        taken.ranges += came.ranges
        taken.position = came.position
        context.log.info(f"reading {came.reason}")
        return came

    def taken(self, context: Context) -> TopicsTaken:
        """What a step has read, which is done with it."""
        return self._of_steps.pop(step_of(context), TopicsTaken())

    def _of_step(self, context: Context) -> TopicsTaken:
        return self._of_steps.setdefault(step_of(context), TopicsTaken())


def topics_metadata(snapshot: Snapshot | None) -> dict[str, str]:
    """What a snapshot was made from of topics, for Dagster."""
    ranges = [] if snapshot is None else offsets_of(snapshot)
    return {"topics": "; ".join(topic_texts(ranges))} if ranges else {}


def bounded(table: KafkaTable) -> KafkaTable:
    """A Kafka table that ends where the topic ends now, unless it has an end."""
    return replace(table, options={_BOUND: "latest-offset", **table.options})


def topic_since(session: Session, table: KafkaTable, sink: str, job: str, code_version: str) -> TopicIncrement:
    """What has come to a Kafka table since an asset's newest snapshot.

    Raises InvalidRequest for a table of changes, and for records that are gone: of those that have come since, or, where all
    would have to be read, of those that the table was made from.
    """
    if holds_changes(table):
        raise InvalidRequest(
            f"{table.identifier} holds changes, which an increment cannot apply: stream them into a table with a primary key "
            "(INSERT INTO … SELECT, execution.runtime-mode = streaming), and read that."
        )
    catalog = session.catalog.name
    try:
        newest = own_newest(session, code_version, sink, job)
        before = _position(newest, table, catalog)
        if not before:
            raise ReadAll(f"snapshot {newest.id} of {sink} does not say how far it has read {table.identifier}")
    except ReadAll as why:
        reading = TopicReading(bounded(table), catalog)
        _refuse_lost(session, sink, reading, why)
        return _increment(reading, f"all of {table.identifier}: {why}", None, ())
    reading = TopicReading(table, catalog, before, f"Nothing is written. {_may_begin_anew(sink)}")
    return _increment(reading, f"what came to {table.identifier} after snapshot {newest.id}", newest.id, before)


def _increment(
    reading: TopicReading, reason: str, grown_from: int | None, before: Sequence[TopicRange]
) -> TopicIncrement:
    rows = reading.rows()
    begun = {each.place: each.start for each in before}
    position = [replace(each, start=begun.get(each.place, each.start)) for each in reading.ranges]
    read = ", ".join(f"{each.place} [{each.start}, {each.end})" for each in reading.ranges)
    return TopicIncrement(rows, reading.ranges, f"{rows.num_rows} rows, {reason}: {read}", grown_from, position)


def _position(snapshot: Snapshot, table: KafkaTable, catalog: str) -> list[TopicRange]:
    own = catalog, table.identifier.database, table.identifier.table
    listed = ranges_of_text((snapshot.properties or {}).get(POSITION_PROPERTY))
    return [each for each in listed if (each.catalog, each.database, each.table) == own]


def _refuse_lost(session: Session, sink: str, reading: TopicReading, why: ReadAll) -> None:
    """Raise InvalidRequest if the rows that a full run would replace were made from records that it does not read any more."""
    if not session.catalog.exists(sink):
        return
    snapshots = session.table(sink).snapshots.backwards()
    known = next((listed for each in snapshots if (listed := _position(each, reading.table, reading.catalog))), [])
    now = {each.place: each for each in reading.ranges}
    for each in known:
        there = now.get(each.place)
        if there is None or there.topic_id != each.topic_id or (there.start > each.start and each.start < each.end):
            what = "the topic was made again" if there is None or there.topic_id != each.topic_id else "they are gone"
            raise InvalidRequest(
                f"All of {reading.table.identifier} would have to be read again ({why}), and {sink} was made from records of "
                f"{each.place} from offset {each.start} on: {what}. Nothing is written. {_may_begin_anew(sink)}"
            )


def _may_begin_anew(sink: str) -> str:
    return f"DROP TABLE {sink} if it may begin anew."
