"""The seam between tables and the systems that their logs are in.

A topic has one partition for each bucket; a publisher appends the changes of one snapshot after the other to it. What always
holds: of a snapshot's records and the position that names it readers see all or nothing; of two publishers the one that was
opened first can append nothing any more. `storage.log.testing.LogStoreContract` tries an implementation.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from ..errors import CommitConflict, StoreUnavailable

# What is sent: the partition of each record, its key and value (null: none), and the kind of its row (+I -U +U -D).
SENT = pa.schema(
    [
        pa.field("partition", pa.int32(), False),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("kind", pa.string(), False),
    ]
)
# What is read: besides, where each record lies, the snapshot that it is of (null: somebody else wrote it), and of a reset the
# identity of the snapshot at which readers begin anew.
READ = pa.schema(
    [
        pa.field("partition", pa.int32(), False),
        pa.field("offset", pa.int64(), False),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("kind", pa.string()),
        pa.field("snapshot_id", pa.int64()),
        pa.field("reset", pa.string()),
    ]
)


class Fenced(CommitConflict):
    """Somebody else publishes to the topic since: he does what is left."""


class Undecided(StoreUnavailable):
    """What an earlier publisher was committing hangs, and how far the topic had come is lost: only `reset` goes on from there."""


@dataclass(frozen=True, slots=True)
class TopicDefinition:
    """A topic as a table asks for it. `retention_ms` None: as the system has it."""

    name: str
    partitions: int
    replication: int = 1
    retention_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic that there is. `id`: what no other topic has, a later one of the same name neither."""

    name: str
    id: str
    partitions: int
    retention_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Position:
    """How far a topic has come: the last snapshot that was published, by its number and identity, and for each partition the
    offset behind its records. All of lower offsets is of that snapshot or earlier ones, all of higher ones of later snapshots.
    """

    snapshot_id: int
    identity: str
    ends: tuple[int, ...]


class Publisher(Protocol):
    """Appends to a topic. Every method raises Fenced once another publisher was opened, StoreUnavailable if the system does not
    answer in time.
    """

    def position(self) -> Position | None:
        """How far the topic has come; None if nobody knows. What an earlier publisher has left is ended before. Raises
        Undecided.
        """

    def go_on_from(self, position: Position) -> None:
        """Where the topic stands, by somebody who has looked, since its position is lost."""

    def publish(self, snapshot_id: int, identity: str, records: Iterable[pa.Table]) -> Position:
        """Append the records (`SENT`) of a snapshot and move the position to it, in one step: whatever `records` raises, nothing
        of them is ever read.
        """

    def reset(self, snapshot_id: int, identity: str) -> Position:
        """Append to each partition a record that tells readers to begin anew at a snapshot, and move the position to it."""


class LogStore(Protocol):
    """A system that logs are in. Every method raises StoreUnavailable if it does not answer in time."""

    def create_topic(self, topic: TopicDefinition) -> Topic:
        """Make a topic. Raises AlreadyExists."""

    def find_topic(self, name: str) -> Topic | None:
        """The topic of a name, or None."""

    def set_retention(self, name: str, retention_ms: int | None) -> None:
        """How long records of a topic stay; None: as the system has it. Raises NotFound."""

    def drop_topic(self, name: str) -> bool:
        """Delete a topic with all records; False if there was none."""

    def publisher(self, topic: Topic) -> AbstractContextManager[Publisher]:
        """Who appends to a topic from now on: what an earlier one has not finished is undone."""

    def position(self, topic: Topic) -> Position | None:
        """How far a topic has come; None if nothing was published yet, or the position is lost."""

    def end_offsets(self, topic: Topic, *, committed: bool) -> tuple[int, ...]:
        """The offset behind the last record of each partition, of those that can be read (`committed`), or of all."""

    def first_offsets(self, topic: Topic) -> tuple[int, ...]:
        """The offset of the first record of each partition that retention has left."""

    def read(self, topic: Topic, start: Sequence[int], end: Sequence[int]) -> Iterator[pa.Table]:
        """The records (`READ`) from one offset up to another of each partition, in order within a partition. Raises NotFound if
        retention has passed the first of them.
        """


# Opens a system of logs from the options of a table.
OpenLog = Callable[[Mapping[str, str]], LogStore]
