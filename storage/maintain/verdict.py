"""What becomes of main if a branch is taken over: judged before anything is done.

Each merge, replacement and fast-forward asks first, and refuses to lose anything that it was not told to lose.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ..errors import CommitConflict, InvalidRequest
from ..metadata.manifest import ADD, ManifestEntry, Place
from ..metadata.snapshot import Snapshot
from ..metadata.table_store import TableStore
from ..write.close import closed_for

# Key of the property by which one side knows what it has put on top of its own snapshots.
TAKEN_OVER_PROPERTY = "snapline.taken-over"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether main can take a branch over.

    clean: main has not moved since they parted, or was compacted at the most. disjoint: it has, in other partitions or
    buckets than the branch, so that both survive. diverged: in the same; `lost` are main's snapshots that would go. `new`
    are the branch's snapshots that main does not have yet; `common` is the last snapshot that both have, None if there is
    none.
    """

    kind: Literal["clean", "disjoint", "diverged"]
    common: int | None
    new: tuple[Snapshot, ...]
    lost: tuple[Snapshot, ...]

    def describe(self) -> str:
        """The verdict in a sentence, with the jobs whose work would be lost."""
        since = f"since snapshot {self.common or 0}"
        if self.kind == "clean":
            moved = "only been compacted" if self.lost else "not moved"
            return f"clean: main has {moved} {since}; {len(self.new)} snapshots to take over"
        if self.kind == "disjoint":
            return (
                f"disjoint: main has moved {since}, but elsewhere; {len(self.new)} snapshots are put on top of its "
                f"{len(self.lost)}"
            )
        lost = ", ".join(f"{one.id} ({one.operation or one.commit_kind} by {one.commit_user})" for one in self.lost)
        return f"diverged: main has moved {since}. Its snapshots that would be lost: {lost}"


def judge(main: TableStore, branch: TableStore) -> Verdict:
    """Compare a branch with main."""
    theirs = {snapshot.id: snapshot for snapshot in branch.snapshots.all()}
    ours = {snapshot.id: snapshot for snapshot in main.snapshots.all() if closed_for(snapshot) is None}
    common = _common(main, ours, branch, theirs)
    apart = [snapshot for number, snapshot in ours.items() if number > (common or 0)]
    later = [snapshot for number, snapshot in theirs.items() if number > (common or 0)]
    # What was put on top of the other side before is on both, under another number.
    lost, new = _only_here(main, apart, branch, later), _only_here(branch, later, main, apart)
    if not apart:
        return Verdict("clean", common, new, lost)
    if common in ours and len(lost) == len(apart) and not any(one.changes_rows for one in lost):
        return Verdict("clean", common, new, lost)
    same_schemas = all(
        schema_id in main.schemas.ids() and main.schemas.get(schema_id) == branch.schemas.get(schema_id)
        for schema_id in branch.schemas.ids()
    )
    # What has expired since cannot be judged.
    all_known = common is not None and min(one.id for one in apart) == common + 1
    untouched = all_known and same_schemas and not _meet(main, lost, branch, new)
    return Verdict("disjoint" if untouched else "diverged", common, new, lost)


def _common(
    main: TableStore, ours: Mapping[int, Snapshot], branch: TableStore, theirs: Mapping[int, Snapshot]
) -> int | None:
    """The last snapshot that both sides have, or remember by a tag."""
    known = [
        {**{tag.snapshot.id: tag.snapshot for tag in store.tags.all()}, **snapshots}
        for store, snapshots in ((main, ours), (branch, theirs))
    ]
    shared = [one for one in known[0].keys() & known[1].keys() if same_snapshot(known[0][one], known[1][one])]
    return max(shared, default=None)


def mark(store: TableStore, snapshot: Snapshot) -> str:
    """What the other side's copy of a snapshot carries, so that it is not made twice."""
    return f"{store.identifier.branch}@{snapshot.id} {snapshot.delta_manifest_list}"


def _only_here(
    store: TableStore, snapshots: Sequence[Snapshot], other: TableStore, others: Sequence[Snapshot]
) -> tuple[Snapshot, ...]:
    """Those of some snapshots that the other side neither made nor got."""
    made_there = {mark(other, one) for one in others}
    got_there = {_origin(one) for one in others}
    return tuple(one for one in snapshots if _origin(one) not in made_there and mark(store, one) not in got_there)


def _origin(snapshot: Snapshot) -> str | None:
    return (snapshot.properties or {}).get(TAKEN_OVER_PROPERTY)


def same_snapshot(one: Snapshot, other: Snapshot) -> bool:
    """Whether two snapshots of two branches are the same commit."""
    return (one.uuid, one.delta_manifest_list, one.commit_user) == (
        other.uuid,
        other.delta_manifest_list,
        other.commit_user,
    )


def refuse_if_diverged(main: TableStore, branch: TableStore) -> None:
    """Raise CommitConflict, naming what would be lost, if a branch cannot be taken over."""
    verdict = judge(main, branch)
    if verdict.kind == "diverged":
        raise CommitConflict(
            f"Branch {branch.identifier.branch!r} cannot be taken over by {main.identifier.full_name}. "
            f"{verdict.describe()}. Insist with discard-main, or apply the change to main again."
        )


def refuse_if_expired(branch: TableStore, verdict: Verdict) -> None:
    """Raise InvalidRequest if snapshots of a branch have expired that main would have to get."""
    earliest = branch.snapshots.earliest_id()
    if earliest is not None and earliest > (verdict.common or 0) + 1:
        raise InvalidRequest(
            f"Branch {branch.identifier.branch!r} of {branch.identifier.full_name} parted from main after snapshot "
            f"{verdict.common or 0}, and its snapshots before {earliest} have expired since: they cannot be made main's. "
            "Replace main with the branch."
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
