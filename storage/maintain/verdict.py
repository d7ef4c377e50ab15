"""What becomes of main if a branch is taken over: judged before anything is done.

Each merge, replacement and fast-forward asks first, and refuses to lose anything that it was not told to lose.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ..errors import CommitConflict
from ..metadata.manifest import ADD, ManifestEntry, Place
from ..metadata.snapshot import COMPACT, Snapshot
from ..metadata.table_store import TableStore
from ..write.close import closed_for
from ..write.operation import operation_of
from ..write.taken_over import mark, marks_of
from .rollback import effective_history, standing_rollbacks

INSIST = "Insist with discard-main, or apply the change to main again."


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether main can take a branch over.

    clean: main has not moved since they parted, or was compacted at the most. disjoint: it has, in other partitions or
    buckets than the branch, so that both survive. diverged: in the same; `lost` are main's snapshots that would go. `new`
    are the branch's snapshots that main does not have yet; `common` is the last snapshot that both have, None if there is
    none. `judged` and `taken` are the newest snapshots of main and of the branch that this was judged by; `made` is the one
    by which main has taken the branch over, once it has.
    """

    kind: Literal["clean", "disjoint", "diverged"]
    common: int | None
    new: tuple[Snapshot, ...]
    lost: tuple[Snapshot, ...]
    judged: Snapshot | None = None
    taken: Snapshot | None = None
    made: Snapshot | None = None

    def describe(self) -> str:
        """The verdict in a sentence, with the jobs whose work would be lost."""
        since = f"since snapshot {self.common or 0}"
        if self.kind == "clean":
            return f"clean: main has {_at_rest(self.lost)} {since}; {len(self.new)} snapshots to take over"
        if self.kind == "disjoint":
            return (
                f"disjoint: main has moved {since}, but elsewhere; {len(self.new)} snapshots are put on top of its "
                f"{len(self.lost)}"
            )
        lost = ", ".join(f"{one.id} ({operation_of(one) or one.commit_kind} by {one.commit_user})" for one in self.lost)
        return f"diverged: main has moved {since}. Its snapshots that would be lost: {lost}"


def _at_rest(snapshots: Sequence[Snapshot]) -> str:
    """What a main has done by snapshots that changed no row."""
    said = {operation_of(one) or one.commit_kind: None for one in snapshots}
    if not said:
        return "not moved"
    return "only been compacted" if [*said] == [COMPACT] else f"changed no row ({', '.join(said)})"


def judge(main: TableStore, branch: TableStore) -> Verdict:
    """Compare a branch with main. What a rollback has taken back on a side does not count there."""
    histories = [list(store.snapshots.all()) for store in (main, branch)]
    judged, taken = (history[-1] if history else None for history in histories)
    ours, theirs = (
        {snapshot.id: snapshot for snapshot in effective_history(history) if closed_for(snapshot) is None}
        for history in histories
    )
    # A branch may begin at a rollback, which is no work of its own.
    shown = [
        {**{one.id: one for one in standing_rollbacks(history)}, **effective}
        for history, effective in zip(histories, (ours, theirs), strict=True)
    ]
    common = _common(main, shown[0], branch, shown[1])
    apart = [snapshot for number, snapshot in ours.items() if number > (common or 0)]
    later = [snapshot for number, snapshot in theirs.items() if number > (common or 0)]
    # What was put on top of the other side before is on both, under another number.
    lost, new = _only_here(main, apart, branch, later), _only_here(branch, later, main, apart)

    def verdict(kind: Literal["clean", "disjoint", "diverged"]) -> Verdict:
        return Verdict(kind, common, new, lost, judged, taken)

    # What has expired since cannot be judged.
    all_known = common is not None and bool(histories[0]) and histories[0][0].id <= common + 1
    # Of a main that was empty where the branch began nothing is known only if its first snapshots have expired.
    is_whole = all_known or (common is None and histories[0][:1] != [] and histories[0][0].id == 1)
    if not apart or (is_whole and not any(snapshot.changes_rows for snapshot in lost)):
        return verdict("clean")
    same_schemas = all(
        schema_id in main.schemas.ids() and main.schemas.get(schema_id) == branch.schemas.get(schema_id)
        for schema_id in branch.schemas.ids()
    )
    untouched = all_known and same_schemas and not _meet(main, lost, branch, new)
    return verdict("disjoint" if untouched else "diverged")


def _common(
    main: TableStore, ours: Mapping[int, Snapshot], branch: TableStore, theirs: Mapping[int, Snapshot]
) -> int | None:
    """The last snapshot that both sides have, or remember by a tag."""
    known = [
        {**{tag.snapshot.id: tag.snapshot for tag in store.tags.all() if tag.is_of_its_branch}, **snapshots}
        for store, snapshots in ((main, ours), (branch, theirs))
    ]
    shared = [one for one in known[0].keys() & known[1].keys() if same_snapshot(known[0][one], known[1][one])]
    return max(shared, default=None)


def _only_here(
    store: TableStore, snapshots: Sequence[Snapshot], other: TableStore, others: Sequence[Snapshot]
) -> tuple[Snapshot, ...]:
    """Those of some snapshots that the other side neither made nor got."""
    made_there = {mark(other, snapshot) for snapshot in others}
    got_there = {text for snapshot in others for text in marks_of(snapshot)}
    return tuple(
        snapshot
        for snapshot in snapshots
        if not marks_of(snapshot) & made_there and mark(store, snapshot) not in got_there
    )


def same_snapshot(one: Snapshot, other: Snapshot) -> bool:
    """Whether two snapshots of two branches are the same commit."""
    return (one.uuid, one.delta_manifest_list, one.commit_user) == (
        other.uuid,
        other.delta_manifest_list,
        other.commit_user,
    )


def refuse_diverged(main: TableStore, branch: TableStore, verdict: Verdict) -> None:
    """Raise CommitConflict, naming what would be lost, if a branch cannot be taken over."""
    if verdict.kind == "diverged":
        raise CommitConflict(
            f"Branch {branch.identifier.branch!r} cannot be taken over by {main.identifier.full_name}. "
            f"{verdict.describe()}. {INSIST}"
        )


def _meet(main: TableStore, ours: Sequence[Snapshot], branch: TableStore, theirs: Sequence[Snapshot]) -> bool:
    """Whether both sides did something to one bucket that cannot stand side by side."""
    mine = [entry for snapshot in ours for entry in main.delta_of(snapshot)]
    others = [entry for snapshot in theirs for entry in branch.delta_of(snapshot)]
    if main.schema.primary_keys:
        return bool(_places(mine) & _places(others))
    # Without a key, rows that were added by both are all there; only files that one side took away are in the way.
    gone = [entry for entry in mine if entry.kind != ADD], [entry for entry in others if entry.kind != ADD]
    return bool(_places(gone[0]) & _places(others) or _places(mine) & _places(gone[1]))


def _places(entries: Sequence[ManifestEntry]) -> set[Place]:
    return {entry.place for entry in entries}
