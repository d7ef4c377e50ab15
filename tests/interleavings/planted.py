"""Known bugs, each put back into the code by a patch: what the audit of November 2026 found, and the harness has to find.

The causes are those of the protocol as it is now: what each step of it is for, is seen where the step is left out. What is
no matter of interleavings is found by a test elsewhere.
"""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from storage import basis, consumers, drop_table, table_maintenance, tags
from storage.consumers import Consumers, Consumption
from storage.errors import CorruptData, StorageError
from storage.format import seal
from storage.maintain import create_branch, follow, merge_branch, references, replace_main, rollback
from storage.metadata.cleaning import CleaningFiles
from storage.metadata.consumer import Consumer, ConsumerFiles
from storage.metadata.schema import SchemaFiles, TableSchema
from storage.metadata.snapshot import Snapshot
from storage.metadata.snapshot_files import SnapshotFiles
from storage.metadata.table_store import TableStore
from storage.metadata.tag import Tag, TagFiles
from storage.paths import TablePaths
from storage.publications import finish, undo
from storage.read.version import branch_names, on_branch
from storage.write import attempt, close, commit, commit_id, commit_time, find_commit, landing, lost_to_cleaning
from storage.write.renumber import NumberedFiles
from tests.interleavings.operations import COMPACTED, HALF, KEYED, LATE, PLAIN
from tests.interleavings.schedules import Place

LOCAL = Place(KEYED, is_local=True)
HALF_LOCAL = Place(HALF, is_local=True)
COMPACTED_LOCAL = Place(COMPACTED, is_local=True)
Patch = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True)
class Bug:
    """A cause, and a pair of operations that shows it."""

    name: str
    patch: Patch
    first: str
    second: str
    place: Place = LOCAL


@dataclass(frozen=True)
class Fault:
    """A cause that needs no other process, and a test that fails of it."""

    name: str
    patch: Patch
    test: str


def _instead(target: object, name: str, value: object) -> Patch:
    return lambda patch: patch.setattr(target, name, value)


def _both(*patches: Patch) -> Patch:
    def apply(patch: pytest.MonkeyPatch) -> None:
        for plant in patches:
            plant(patch)

    return apply


def _create_tag_blindly(
    store: TableStore, name: str, snapshot: object, *, replace: bool = False, retained_ms: int | None = None
) -> object:
    return store.tags.create(name, snapshot, replace=replace, retained_ms=retained_ms, now_ms=0)  # type: ignore[arg-type]


def _without_hold(*_: object) -> object:
    return nullcontext()


def _record_blindly(self: Consumers, name: str, next_snapshot_id: int) -> None:
    self._store.consumers.put(Consumer(name, next_snapshot_id), None, "blind")


def _begin_at_once(store: TableStore, consumer: Consumer, before: bytes | None, is_kept: Any) -> Any:
    """For good, before it is looked whether what it is to read is kept."""
    content = store.consumers.put(consumer, before, store.clock.unique_name())
    if content is not None and not is_kept(None):
        store.consumers.replace(consumer.name, content, before)
        return None, False
    return content, True


def _record_whatever_is_there(self: Consumption, position: int) -> None:
    store, name = self._store, self._name
    store.consumers.put(Consumer(name, position + 1), store.consumers.content(name), store.clock.unique_name())


def _close_after_consumers(store: TableStore, latest: Snapshot | None, reason: str) -> Snapshot | None:
    if reason.startswith(close.REPLACEMENT):
        branch = TablePaths(store.paths.root, reason.removeprefix(f"{close.REPLACEMENT} "))
        for consumer in store.consumers.all():
            ConsumerFiles(store.file_io, branch).put(consumer, None, "early")
    return close.close(store, latest, reason)


def _rename_by_copy(self: TagFiles, tag: Tag, new_name: str, taken: Exception) -> Tag | None:
    return self._rename_in_two_steps(tag, new_name, "copy", taken)  # type: ignore[arg-type]


_become, _rollback_to = merge_branch.become, rollback.rollback_to


def _become_on_the_newest(store: TableStore, target: Any, judged: Snapshot | None, **arguments: Any) -> Snapshot | None:
    """What came after the verdict is taken for what was judged."""
    return _become(store, target, store.snapshots.latest(), **arguments)


def _close_and_roll_back(store: TableStore, target: Snapshot, **arguments: Any) -> Snapshot | None:
    """In two steps: whoever repeats the first alone goes on."""
    reason = f"a rollback to snapshot {target.id}"
    latest = store.snapshots.latest()
    closing = latest if close.closed_for(latest) == reason else close.close(store, latest, reason)
    if closing is not None:
        close.open_again(store, closing)
    return _rollback_to(store, target, **arguments)


def _roll_back_whatever_came(
    store: TableStore, target: Snapshot, *, judged: Snapshot | None = None, **arguments: Any
) -> Snapshot | None:
    return _rollback_to(store, target, **arguments)


def _guard_nothing(*_: object, **__: object) -> Callable[[object], None]:
    return lambda latest: None


def _let_it_fail(
    store: object, kind: str, act: Callable[[], Any], default: object, snapshot_id: int | None = None
) -> Any:
    return act()


def _latest_as_listed(self: SchemaFiles) -> TableSchema | None:
    ids = self.ids()
    try:
        return self.get(ids[-1]) if ids else None
    except StorageError as error:
        raise CorruptData(str(error)) from None


def _every_branch_listed(store: TableStore) -> list[TableStore]:
    return [store, *(on_branch(store, name) for name in branch_names(store))]


def _bound_by_any_clock(commit_id: commit_id.CommitId, now_ms: int) -> int | None:
    bound = commit_id.not_before_ms
    return None if bound is None else bound - find_commit.CLOCK_SKEW_MS


def _pin_nothing(keeper: object, journal: object, publication: object, refuse: Any) -> Any:
    return refuse


BUGS = [
    Bug(
        "A1: a commit lands on a number that has expired",
        _instead(landing, "_stands", lambda *_: True),
        "write",
        "writes and expiry",
    ),
    Bug(
        "A2: a merge takes back what came after its verdict",
        _instead(merge_branch, "become", _become_on_the_newest),
        "merge",
        "write elsewhere",
        COMPACTED_LOCAL,
    ),
    Bug(
        "A2: a fast-forward takes back what came after its verdict",
        _instead(merge_branch, "become", _become_on_the_newest),
        "fast forward",
        "write",
        COMPACTED_LOCAL,
    ),
    Bug(
        "A3: an undo and whoever finishes do not see each other",
        _instead(undo, "fence", lambda *_: None),
        "recover",
        "undo",
        HALF_LOCAL,
    ),
    Bug(
        "A4: a rollback does not hold what it goes back to",
        _instead(rollback, "held", _without_hold),
        "rollback",
        "expire",
    ),
    Bug(
        "A5: a rollback that dies leaves the table closed, and its target expires",
        _instead(table_maintenance, "rollback_to", _close_and_roll_back),
        "rollback",
        "expire",
    ),
    Bug(
        "A6: an expiry that has slept deletes what it did not judge",
        _instead(
            SnapshotFiles, "delete_if", lambda self, snapshot: self._file_io.delete(self._paths.snapshot(snapshot.id))
        ),
        "expire",
        "drop and create",
    ),
    Bug(
        "A6: an undo takes back what came after it was judged",
        _instead(undo, "rollback_to", _roll_back_whatever_came),
        "undo",
        "write elsewhere",
        HALF_LOCAL,
    ),
    Bug(
        "A7: a handle of a table that is gone is believed",
        _both(
            _instead(TableStore, "is_same_table", lambda self: True),
            _instead(TableStore, "read_witness", lambda self: None),
        ),
        "write",
        "drop and create",
    ),
    Bug(
        "A8: an update does not see that others have changed its rows",
        _instead(basis, "refuse_overtaken", _guard_nothing),
        "update",
        "update other",
    ),
    Bug(
        "A8: a MERGE does not see that others have changed its rows",
        _instead(basis, "refuse_overtaken", _guard_nothing),
        "merge into",
        "update",
    ),
    Bug(
        "A9: a commit keeps sequence numbers that others have by now",
        _instead(NumberedFiles, "raise_above", lambda self, latest: None),
        "write without id",
        "update",
    ),
    Bug(
        "A11: a snapshot that a dead writer left below the history counts as part of it",
        _instead(SnapshotFiles, "ids", SnapshotFiles.listed_ids),
        "write",
        "writes and expiry",
    ),
    Bug(
        "A12: a tag of a snapshot that is expiring",
        _instead(tags, "create_tag", _create_tag_blindly),
        "create tag",
        "expire",
    ),
    Bug(
        "A12: a branch of a snapshot that is expiring",
        _instead(create_branch, "held", _without_hold),
        "create branch",
        "expire",
    ),
    Bug(
        "A16: a commit id that is in the history lands again",
        _instead(commit.TableCommit, "find_committed", lambda self, latest=None: None),
        "write",
        "writes and expiry",
        Place(PLAIN, is_local=True),
    ),
    Bug(
        "a tag of a main that is closed", _instead(tags, "beside_history", _without_hold), "replace main", "create tag"
    ),
    Bug(
        "a branch of a main that is closed",
        _instead(create_branch, "_refuse_closing", lambda *_: None),
        "replace main",
        "branch from latest",
    ),
    Bug(
        "two read as one consumer",
        _instead(Consumption, "record", _record_whatever_is_there),
        "stream read",
        "stream read",
    ),
    Bug(
        "a consumer that is changed while main is replaced",
        _both(
            _instead(consumers, "_look_back", lambda *_: None),
            _instead(consumers, "_begin", _begin_at_once),
        ),
        "new consumer",
        "replace main",
    ),
    Bug(
        "who dies before it is sure that a consumer can begin leaves one",
        _instead(consumers, "_begin", _begin_at_once),
        "new consumer",
        "writes and expiry",
    ),
    Bug(
        "consumers handed over before main is closed",
        _instead(replace_main, "close", _close_after_consumers),
        "replace main",
        "delete consumer",
    ),
    Bug(
        "a tag that is renamed by a copy",
        _instead(TagFiles, "_rename_at_once", _rename_by_copy),
        "rename tag",
        "delete tag",
    ),
    Bug(
        "C1: a table goes that an open publication needs",
        _both(
            _instead(drop_table, "refuse_open", lambda *_, **__: None),
            _instead(undo, "table_or_none", lambda open_table, name: open_table(name)),
        ),
        "recover",
        "drop table",
        HALF_LOCAL,
    ),
    Bug(
        "C1: a publication does not keep what readers of a view are shown",
        _instead(finish, "_pinned", _pin_nothing),
        "expire",
        "read",
        HALF_LOCAL,
    ),
    Bug(
        "C5: a branch that goes while it is opened is called damaged",
        _instead(SchemaFiles, "latest", _latest_as_listed),
        "read fix",
        "delete branch",
    ),
    Bug(
        "C5: who reads all branches fails if one of them goes",
        _instead(references, "all_branches", _every_branch_listed),
        "expire",
        "delete branch",
    ),
    Bug(
        "a late writer does not look how old files are that cleaning takes",
        _instead(lost_to_cleaning, "_written_until", lambda *_: None),
        "clean",
        "commit late",
        Place(LATE, is_local=True),
    ),
    Bug(
        "cleaning does not say how old files it takes",
        _instead(CleaningFiles, "begin", lambda *_: "nowhere"),
        "clean",
        "commit late",
        Place(LATE, is_local=True),
    ),
    Bug(
        "a new consumer of snapshots that are expiring",
        _instead(Consumers, "reset", _record_blindly),
        "new consumer",
        "expire",
    ),
]
FAULTS = [
    Fault(
        "A10: what fails after a commit looks like a failed commit",
        _instead(follow, "afterwards", _let_it_fail),
        "storage/test_troubles.py::test_a_write_whose_compaction_fails_has_landed",
    ),
    Fault(
        "A13: names of users are taken for the store's own",
        _instead(tags, "refuse_reserved_tag", lambda name: name),
        "storage/test_branches.py::test_what_users_name_is_not_taken_for_what_the_store_names",
    ),
    Fault(
        "A14: the checksum of a data file is not looked at",
        _instead(seal, "zlib", SimpleNamespace(crc32=lambda *_: 0)),
        "storage/test_damage.py::test_a_flipped_bit_of_a_data_file_is_noticed_by_every_reader[orc-to_arrow]",
    ),
    Fault(
        "A15: a clock years ahead is believed",
        _instead(commit_time, "HOUR_MS", 2**62),
        "storage/test_clocks.py::test_one_commit_of_a_clock_years_ahead_does_not_pin_the_history",
    ),
    Fault(
        "A15: a commit by a clock that went back since its run began is not found",
        _both(
            _instead(
                attempt, "commit_time", lambda now_ms, latest, bound: commit_time.commit_time(now_ms, latest, None)
            ),
            _instead(find_commit, "search_bound", _bound_by_any_clock),
        ),
        "storage/test_clocks.py::test_a_commit_is_found_though_the_clock_went_back_hours_since_its_run_began",
    ),
]
