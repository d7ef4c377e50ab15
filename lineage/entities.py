"""What lineage is made of: which job read and wrote which tables, and which snapshots at which barrier.

A job is a commit user, a barrier a commit identifier: they stand in the snapshot itself, next to the list of sources,
so that every row here can be read off the tables again.

Numbers of snapshots are given again after a rollback, or when a table is dropped and made anew. A snapshot whose number
now belongs to another is told by its commit time, which becomes part of its branch: `main~20241103T081500123`.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from hashlib import sha1
from typing import Literal

from storage import MAIN_BRANCH, Snapshot, SnapshotRef, TopicRange

Side = Literal["source", "sink"]
# Keys of the snapshot properties that list the snapshots it was made from, and the columns.
SOURCES_PROPERTY = "snapline.sources"
COLUMNS_PROPERTY = "snapline.columns"
# And the one that lists the records of topics.
OFFSETS_PROPERTY = "snapline.offsets"
# What Kafka allows; others in somebody else's snapshot are no topics.
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_LONGEST = 249
# Characters of a name that every database keeps: MySQL takes 3072 bytes for a key, four names of four bytes a character.
NAME_LENGTH = 190
_EPOCH = datetime(1970, 1, 1)
# No branch has such a name.
_REPLACED = "~"


@dataclass(frozen=True, slots=True, order=True)
class TableLineage:
    """A job reads (source) or writes (sink) a table."""

    job: str
    database: str
    table: str
    branch: str
    create_time: datetime


@dataclass(frozen=True, slots=True, order=True)
class SnapshotLineage:
    """A job consumed (source) or produced (sink) a snapshot at a barrier.

    `create_time`: when the barrier's commit was made. `snapshot_time`: when the snapshot itself was, if known.
    """

    job: str
    barrier_id: int
    database: str
    table: str
    branch: str
    snapshot_id: int
    create_time: datetime
    snapshot_time: datetime | None = field(default=None, compare=False)

    def ref(self, catalog: str) -> SnapshotRef:
        """The snapshot, with the time of its commit if that is known."""
        time_ms = None if self.snapshot_time is None else ms_of_moment(self.snapshot_time)
        return SnapshotRef(catalog, self.database, self.table, self.branch, self.snapshot_id, time_ms)


@dataclass(frozen=True, slots=True, order=True)
class ColumnLineage:
    """A job computes a column of a table from a column of another. A column without a row: not known, or a constant."""

    job: str
    database: str
    table: str
    branch: str
    column: str
    source_catalog: str
    source_database: str
    source_table: str
    source_column: str


@dataclass(frozen=True, slots=True, order=True)
class OffsetLineage:
    """A job consumed records of a partition of a topic at a barrier, through a Kafka table: from an offset to before another."""

    job: str
    barrier_id: int
    database: str
    table: str
    topic: str
    partition: int
    offset_start: int
    offset_end: int
    topic_id: str
    create_time: datetime

    def range_in(self, catalog: str) -> TopicRange:
        """What was read, of a catalog."""
        offsets = self.partition, self.offset_start, self.offset_end
        return TopicRange(catalog, self.database, self.table, self.topic, *offsets, self.topic_id)


@dataclass(frozen=True, slots=True, order=True)
class JobStartup:
    """The snapshot of a table that a job began with. Of a Kafka table: `branch` is a partition, `topic/0`, and `snapshot_id` the
    offset.
    """

    job: str
    database: str
    table: str
    branch: str
    snapshot_id: int


@dataclass(frozen=True, slots=True, order=True)
class Reconciled:
    """Up to this snapshot of a branch, lineage is known to hold all that the table's snapshots say."""

    database: str
    table: str
    branch: str
    snapshot_id: int
    snapshot_time: datetime


def sources_property(sources: Sequence[SnapshotRef]) -> dict[str, str]:
    """The snapshot property that names the sources of a commit, with their commit times where they are known."""
    rows = {
        (source.catalog, source.database, source.table, source.branch, source.snapshot_id): source.time_ms
        for source in sources
    }
    listed = [[*key] if time_ms is None else [*key, time_ms] for key, time_ms in sorted(rows.items())]
    return {SOURCES_PROPERTY: json.dumps(listed, ensure_ascii=False)}


def sources_of(snapshot: Snapshot) -> list[SnapshotRef]:
    """The snapshots that a snapshot was made from, as its properties tell."""
    text = (snapshot.properties or {}).get(SOURCES_PROPERTY)
    return [SnapshotRef(*row) for row in json.loads(text)] if text else []


def offsets_property(ranges: Iterable[TopicRange]) -> dict[str, str]:
    """The snapshot property that names the records of topics that a commit was made from; none for none. Ranges may be empty."""
    listed = ranges_text(each for each in ranges if each.start < each.end)
    return {OFFSETS_PROPERTY: listed} if listed != "[]" else {}


def offsets_of(snapshot: Snapshot) -> list[TopicRange]:
    """The records of topics that a snapshot was made from, as its properties tell."""
    return ranges_of_text((snapshot.properties or {}).get(OFFSETS_PROPERTY))


def ranges_text(ranges: Iterable[TopicRange]) -> str:
    """Ranges as a property keeps them."""
    listed = [
        [each.catalog, each.database, each.table, each.topic, each.partition, each.start, each.end, each.topic_id]
        for each in sorted(set(ranges))
    ]
    return json.dumps(listed, ensure_ascii=False)


def ranges_of_text(text: str | None) -> list[TopicRange]:
    """The ranges of a `ranges_text`. What is none there is left out."""
    try:
        listed = json.loads(text) if text else []
    except (ValueError, RecursionError):
        return []
    rows = listed if isinstance(listed, list) else []
    return [TopicRange(*row) for row in rows if _is_range(row)]


def _is_range(row: object) -> bool:
    if not isinstance(row, list) or len(row) != 8:
        return False
    if not all(isinstance(each, int) and 0 <= each < 1 << 63 for each in row[4:7]) or row[4] >= 1 << 31:
        return False
    names = [*row[:4], row[7]]
    are_names = all(isinstance(each, str) and each.isprintable() and len(each) <= _LONGEST for each in names)
    return are_names and bool(_TOPIC.fullmatch(row[3]))


def startups_of(ranges: Iterable[TopicRange]) -> list[SnapshotRef]:
    """Where a job begins that reads ranges first, in the form of `JobStartup`."""
    return [SnapshotRef(each.catalog, each.database, each.table, each.place, each.start) for each in ranges]


# Catalog, database, table and name of a column.
SourceColumn = tuple[str, str, str, str]


def columns_property(columns: Mapping[str, Iterable[SourceColumn]]) -> dict[str, str]:
    """The snapshot property that tells for each column of the sink the columns it was computed from."""
    known = {name: sorted(set(sources)) for name, sources in columns.items()}
    return {COLUMNS_PROPERTY: json.dumps(known, ensure_ascii=False)} if any(known.values()) else {}


def columns_of(snapshot: Snapshot) -> dict[str, list[SourceColumn]]:
    """The columns that the columns of a snapshot were computed from, as its properties tell."""
    text = (snapshot.properties or {}).get(COLUMNS_PROPERTY)
    columns: dict[str, list[list[str]]] = json.loads(text) if text else {}
    return {name: [(row[0], row[1], row[2], row[3]) for row in rows] for name, rows in columns.items()}


def moment_of_ms(time_ms: int) -> datetime:
    """A time in milliseconds as lineage keeps it: UTC, without time zone."""
    moment = datetime.fromtimestamp(time_ms // 1000, UTC).replace(tzinfo=None)
    return moment.replace(microsecond=time_ms % 1000 * 1000)


def ms_of_moment(moment: datetime) -> int:
    """The milliseconds that `moment_of_ms` was given."""
    return round((moment - _EPOCH) / timedelta(milliseconds=1))


def commit_time(snapshot: Snapshot) -> datetime:
    """When a snapshot was committed."""
    return moment_of_ms(snapshot.time_ms)


def replaced_branch(branch: str, committed: datetime) -> str:
    """The branch under which lineage keeps a snapshot whose number now belongs to another."""
    name, moment = branch.partition(_REPLACED)[0], f"{committed:%Y%m%dT%H%M%S}{committed.microsecond // 1000:03d}"
    most = NAME_LENGTH - len(_REPLACED) - len(moment)
    if len(name) > most:
        # What is cut off is told apart.
        digest = sha1(name.encode()).hexdigest()[:8]
        name = f"{name[: most - len(digest) - 1]}-{digest}"
    return f"{name}{_REPLACED}{moment}"


def is_of_main(ref: SnapshotRef) -> bool:
    """Whether a snapshot is one that main has, or had under a number that belongs to another one now."""
    return ref.branch.partition(_REPLACED)[0] == MAIN_BRANCH


def was_replaced(ref: SnapshotRef) -> bool:
    """Whether the number of a snapshot belongs to another one now."""
    return _REPLACED in ref.branch
