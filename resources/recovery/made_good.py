"""How rows that came from a bad snapshot became good again: by a recovery, by a rollback, or because production made them anew.

Pure but for what a judge asks: the snapshots are given, and the newest event that made a table good is what is told.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise

from storage import Snapshot, SnapshotRef

from .spoilt import ROLLED_BACK, Spoilt


@dataclass(frozen=True, slots=True)
class MadeGood:
    """`recovery`: the one whose publication did, or empty; of one that is not published (`is_published` False) the branch alone
    is right. `rollback`: the number of the snapshot that took the bad rows back, if that did. Neither: production has computed
    them anew.
    """

    recovery: str = ""
    rollback: int | None = None
    is_published: bool = True

    def describe(self) -> str:
        """What did, in words that follow another one."""
        if self.recovery and not self.is_published:
            return f"right on the branch of recovery {self.recovery}, which is not published"
        if self.recovery:
            return f"repaired by recovery {self.recovery}"
        if self.rollback is not None:
            return f"taken back by @{self.rollback}"
        return "production has made it good since"


def made_good(judge: Spoilt, first: SnapshotRef, newest: SnapshotRef, snapshots: Iterable[Snapshot]) -> MadeGood:
    """What made a table good that was spoilt from `first` on, and is not at `newest`. `snapshots`: those of its branch, newest
    first; none before `first` is asked for.
    """
    if recovery := judge.recovery_on(first):
        # On its branch, which is not published yet, or was.
        return MadeGood(recovery, is_published=not judge.is_in_open_recovery(first))
    later: list[SnapshotRef] = []
    changes = (snapshot for snapshot in snapshots if snapshot.changes_rows and snapshot.id <= newest.snapshot_id)
    for snapshot, before in pairwise(chain(changes, [None])):
        if snapshot is None or snapshot.id < first.snapshot_id:
            break
        if recovery := judge.repair(snapshot):
            return _unless_spoilt_again(MadeGood(recovery), judge, later)
        ref = _ref(first, snapshot)
        if snapshot.number(ROLLED_BACK) is not None and not judge.is_spoilt(ref) and _was_spoilt(judge, first, before):
            return _unless_spoilt_again(MadeGood(rollback=snapshot.id), judge, later)
        later.append(ref)
    return MadeGood()


def _was_spoilt(judge: Spoilt, first: SnapshotRef, before: Snapshot | None) -> bool:
    """Whether the snapshot before a rollback was; one that has expired was, or nothing would have been taken back."""
    return before is None or (before.id >= first.snapshot_id and judge.is_spoilt(_ref(first, before)))


def _unless_spoilt_again(event: MadeGood, judge: Spoilt, later: Sequence[SnapshotRef]) -> MadeGood:
    return MadeGood() if any(map(judge.is_spoilt, later)) else event


def _ref(like: SnapshotRef, snapshot: Snapshot) -> SnapshotRef:
    return SnapshotRef(like.catalog, like.database, like.table, like.branch, snapshot.id, snapshot.time_ms)
