"""Known bugs, each put back into the code by a patch: what the audit of November 2026 found, and the harness has to find.

The causes are those of the protocol as it is now: what each step of it is for, is seen where the step is left out.
"""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass

import pytest

from storage import branch_set, tags
from storage.consumers import Consumers
from storage.maintain import branch, rollback
from storage.metadata.consumer import Consumer
from storage.metadata.snapshot import SnapshotFiles
from storage.metadata.table_store import TableStore
from storage.write import commit, landing
from tests.interleavings.operations import HALF, KEYED, PLAIN
from tests.interleavings.schedules import Place

LOCAL = Place(KEYED, is_local=True)
Patch = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True)
class Bug:
    """A cause, and a pair of operations that shows it."""

    name: str
    patch: Patch
    first: str
    second: str
    place: Place = LOCAL


def _instead(target: object, name: str, value: object) -> Patch:
    return lambda patch: patch.setattr(target, name, value)


def _create_tag_blindly(
    store: TableStore, name: str, snapshot: object, *, replace: bool = False, retained_ms: int | None = None
) -> object:
    return store.tags.create(name, snapshot, replace=replace, retained_ms=retained_ms, now_ms=0)  # type: ignore[arg-type]


def _without_hold(*_: object) -> object:
    return nullcontext()


def _record_blindly(self: Consumers, name: str, next_snapshot_id: int) -> None:
    self._store.consumers.record(Consumer(name, next_snapshot_id))


BUGS = [
    Bug("A1: a commit lands on a number that has expired", _instead(landing, "_stands", lambda *_: True),
        "write", "writes and expiry"),
    Bug("A3: an undo and whoever finishes do not see each other", _instead(branch_set, "fence", lambda *_: None),
        "recover", "undo", Place(HALF, is_local=True)),
    Bug("A4: a rollback does not hold what it goes back to", _instead(rollback, "held", _without_hold),
        "rollback", "expire"),
    Bug("A6: an expiry that has slept deletes what it did not judge",
        _instead(SnapshotFiles, "delete_if", lambda self, snapshot: self._file_io.delete(self._paths.snapshot(snapshot.id))),
        "expire", "drop and create"),
    Bug("A7: a handle of a table that is gone is believed", _instead(TableStore, "is_same_table", lambda self: True),
        "write", "drop and create"),
    Bug("A12: a tag of a snapshot that is expiring", _instead(tags, "create_tag", _create_tag_blindly),
        "create tag", "expire"),
    Bug("A12: a branch of a snapshot that is expiring", _instead(branch, "held", _without_hold), "create branch", "expire"),
    Bug("A16: a commit id that is in the history lands again",
        _instead(commit.TableCommit, "find_committed", lambda self, latest=None: None), "write", "writes and expiry",
        Place(PLAIN, is_local=True)),
    Bug("a tag of a main that is closed", _instead(tags, "beside_history", _without_hold), "replace main", "create tag",
        Place(HALF, is_local=True)),
    Bug("a new consumer of snapshots that are expiring", _instead(Consumers, "reset", _record_blindly),
        "new consumer", "expire"),
]  # fmt: skip
