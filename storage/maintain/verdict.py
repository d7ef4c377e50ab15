"""What becomes of main if a branch is taken over: judged before anything is done.

Each merge, replacement and fast-forward asks first, and refuses to lose anything that it was not told to lose.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Literal

from ..errors import CommitConflict, CorruptData
from ..identifier import MAIN_BRANCH
from ..metadata.branch_origin import BranchOrigin, read_origin
from ..metadata.history import ROLLED_BACK_IDENTITY_PROPERTY
from ..metadata.index_manifest import marked_places
from ..metadata.manifest import ADD, ManifestEntry, Place
from ..metadata.schema import TableSchema
from ..metadata.snapshot import COMPACT, Snapshot
from ..metadata.table_store import TableStore
from ..write.close import closed_for
from ..write.operation import operation_of
from ..write.taken_from import Reach, reach_of
from ..write.taken_over import mark, marks_of
from .rollback import effective_history, standing_rollbacks

INSIST = "Insist with discard-main, or apply the change to main again."


class BothAltered(CommitConflict):
    """Main and a branch have different schemas: neither can be put on top of the other."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether main can take a branch over.

    clean: main has not moved since they parted, or was compacted at the most. disjoint: it has, in other partitions or
    buckets than the branch, so that both survive. diverged: in the same; `lost` are main's snapshots that would go. `new`
    are the branch's snapshots that main does not have yet; `common` is the last snapshot that both have, None if there is
    none. `judged` and `taken` are the newest snapshots of main and of the branch that this was judged by; `made` is the one
    by which main has taken the branch over, once it has. `since`: main's snapshot after which its work is judged, if that is
    not `common` but a later one, by which main had become what the branch was. `expired_below`: the branch's earliest
    snapshot, if what it did before has expired and is not on main: it can become main, but not be put on top of it.
    `given_up`: main's snapshots, among `lost`, that it has in common with the branch or has taken over from it, and that the
    branch has taken back since: diverged, for main still has those rows and the branch has parted from them. `altered`: the
    first version of the schema that is another one on each side: diverged, and main can only become the branch.
    """

    kind: Literal["clean", "disjoint", "diverged"]
    common: int | None
    new: tuple[Snapshot, ...]
    lost: tuple[Snapshot, ...]
    judged: Snapshot | None = None
    taken: Snapshot | None = None
    made: Snapshot | None = None
    since: int | None = None
    expired_below: int | None = None
    given_up: tuple[Snapshot, ...] = ()
    altered: int | None = None

    def describe(self) -> str:
        """The verdict in a sentence, with the jobs whose work would be lost."""
        since = f"since snapshot {self.since or self.common or 0}"
        if self.kind == "clean":
            return f"clean: main has {_at_rest(self.lost)} {since}; {len(self.new)} snapshots to take over"
        if self.kind == "disjoint":
            return (
                f"disjoint: main has moved {since}, but elsewhere; {len(self.new)} snapshots are put on top of its "
                f"{len(self.lost)}"
            )
        lost = ", ".join(
            f"{snapshot.id} ({operation_of(snapshot) or snapshot.commit_kind} by {snapshot.commit_user})"
            for snapshot in self.lost
        )
        altered = f"; both were altered: version {self.altered} of the schema" if self.altered is not None else ""
        expired = (
            f"; what the branch did before its snapshot {self.expired_below} has expired, and cannot be put on top of them"
            if self.expired_below is not None
            else ""
        )
        ids = ", ".join(str(snapshot.id) for snapshot in self.given_up)
        given_up = f"; what main has by {ids} the branch had as well, and has taken back" if ids else ""
        return f"diverged: main has moved {since}. Its snapshots that would be lost: {lost or 'none'}{altered}{given_up}{expired}"


def _at_rest(snapshots: Sequence[Snapshot]) -> str:
    """What a main has done by snapshots that changed no row."""
    said = {operation_of(snapshot) or snapshot.commit_kind: None for snapshot in snapshots}
    if not said:
        return "not moved"
    return "only been compacted" if [*said] == [COMPACT] else f"changed no row ({', '.join(said)})"


def judge(main: TableStore, branch: TableStore) -> Verdict:
    """Compare a branch with main. What a rollback has taken back on a side does not count there; of what main still has, that
    is a change of the branch in the same places.
    """
    histories = [list(store.snapshots.all()) for store in (main, branch)]
    judged, taken = (history[-1] if history else None for history in histories)
    ours, theirs = (_effective(history) for history in histories)
    # A branch may begin at a rollback, which is no work of its own.
    shown = [
        {**{rollback.id: rollback for rollback in standing_rollbacks(history)}, **effective}
        for history, effective in zip(histories, (ours, theirs), strict=True)
    ]
    origin = origin_of(branch)
    common = _common(main, histories[0], shown[0], branch, histories[1], shown[1])
    earliest = [history[0].id if history else 0 for history in histories]
    altered = first_other_version(main, branch)
    merged = _merged(ours, origin) | _gone_back_to(ours, theirs)
    given_up = _given_up(ours, branch, [history for history in histories[1] if history.id not in shown[1]])
    kept = {number: reach for number, reach in merged.items() if reach.whole and ours[number] not in given_up}
    since, until = _parting(common, earliest, kept)
    given_up = tuple(snapshot for snapshot in given_up if snapshot.id > since)
    apart = [snapshot for number, snapshot in ours.items() if number > since]
    later = [snapshot for number, snapshot in theirs.items() if number > until]
    # What was put on top of the other side before is on both, under another number.
    lost, new = _only_here(main, apart, branch, later), _only_here(branch, later, main, apart)
    gone_there = {number for number, reach in merged.items() if reach.until < earliest[1]}
    lost = tuple(
        snapshot for snapshot in apart if snapshot in given_up or (snapshot in lost and snapshot.id not in gone_there)
    )
    covered = max([until, *(reach.until for reach in merged.values())])
    expired_below = earliest[1] if earliest[1] > covered + 1 else None

    def verdict(kind: Literal["clean", "disjoint", "diverged"]) -> Verdict:
        return Verdict(
            kind,
            common,
            new,
            lost,
            judged,
            taken,
            since=since if since > (common or 0) else None,
            expired_below=expired_below if kind == "diverged" else None,
            given_up=given_up,
            altered=altered,
        )

    if altered is not None:
        return verdict("diverged")
    # What has expired since cannot be judged.
    all_known = (common is not None or since > 0) and bool(histories[0]) and earliest[0] <= since + 1
    # Of a main that was empty where the branch began nothing is known only if its first snapshots have expired.
    is_whole = all_known or (common is None and earliest[0] == 1)
    if not apart or (is_whole and not any(snapshot.changes_rows for snapshot in lost)):
        return verdict("clean")
    may_be_untouched = all_known and not given_up and expired_below is None
    untouched = may_be_untouched and _has_schemas_of(main, branch) and not _meet(main, lost, branch, new)
    return verdict("disjoint" if untouched else "diverged")


def _parting(common: int | None, earliest: Sequence[int], merged: Mapping[int, Reach]) -> tuple[int, int]:
    """The snapshots of main and of the branch after which they are compared. `earliest`: the first that each has;
    `merged`: those by which main became what the branch was.
    """
    since, until = common or 0, common or 0
    if common is None or earliest[0] > since + 1 or earliest[1] > until + 1:
        # What they parted by can be told no more, or not what came then: main was what the branch was once more, later.
        for number, reach in merged.items():
            if number > since:
                since, until = number, max(until, reach.until)
    return since, until


def _effective(history: Sequence[Snapshot]) -> dict[int, Snapshot]:
    """The snapshots of a history that no rollback has taken back and that close nothing, by number."""
    return {snapshot.id: snapshot for snapshot in effective_history(history) if closed_for(snapshot) is None}


def _has_schemas_of(main: TableStore, branch: TableStore) -> bool:
    """Whether main has each schema of a branch under the same number."""
    return all(
        schema_id in main.schemas.ids() and main.schemas.get(schema_id) == branch.schemas.get(schema_id)
        for schema_id in branch.schemas.ids()
    )


def origin_of(store: TableStore) -> BranchOrigin | None:
    """What a branch was made from, as far as that can be read: without it, less is in common."""
    with suppress(CorruptData):
        return read_origin(store.file_io, store.paths)
    return None


def _known(store: TableStore, history: Sequence[Snapshot], shown: Mapping[int, Snapshot]) -> dict[int, str]:
    """The identities, by number, of the snapshots that a side's state builds on: of those that have expired, what it began
    at, what its tags keep, as far as they can be read, and what its earliest one was put on top of.
    """
    origin = origin_of(store)
    expired = dict(origin.points) if origin is not None else {}
    expired |= {tag.snapshot.id: tag.snapshot.identity for tag in store.tags.readable() if tag.is_of_its_branch}
    begun = 0 if store.paths.branch == MAIN_BRANCH else None if origin is None else origin.snapshot_id
    # What a branch's first one was put on top of is none of its own: main may have taken the first one back.
    if history and history[0].follows is not None and begun is not None and history[0].id > begun:
        expired[history[0].id - 1] = history[0].follows
    # What is in the history and not shown was taken back.
    known = {number: identity for number, identity in expired.items() if not history or number < history[0].id}
    return known | {number: snapshot.identity for number, snapshot in shown.items()}


def _common(
    main: TableStore,
    history: Sequence[Snapshot],
    ours: Mapping[int, Snapshot],
    branch: TableStore,
    branch_history: Sequence[Snapshot],
    theirs: Mapping[int, Snapshot],
) -> int | None:
    """The last snapshot that both sides' states build on, also if it has expired since. None if main has taken back what the
    branch began at: what lies below is nothing that the branch could be put on.
    """
    here, there = _known(main, history, ours), _known(branch, branch_history, theirs)
    origin = origin_of(branch)
    points = dict(origin.points) if origin is not None else {}
    if any(snapshot.id not in ours and points.get(snapshot.id) == snapshot.identity for snapshot in history):
        there = {number: identity for number, identity in there.items() if number in theirs}
    shared = [number for number in here.keys() & there.keys() if here[number] == there[number]]
    if origin is not None and not points and origin.snapshot_id is not None and origin.snapshot_id not in there:
        # Made by a version that noted the number alone. A main that never was another branch gives none twice.
        begun = ours.get(origin.snapshot_id)
        never_replaced = origin.branch == MAIN_BRANCH == main.paths.branch
        shared += [begun.id] if never_replaced and begun is not None and begun.time_ms <= origin.create_time_ms else []
    return max(shared, default=None)


def _merged(ours: Mapping[int, Snapshot], origin: BranchOrigin | None) -> dict[int, Reach]:
    """The snapshots of main by which it has taken the branch over, with how far."""
    uuid = None if origin is None else origin.uuid
    reaches = {number: reach_of(snapshot, uuid) for number, snapshot in ours.items()}
    return {number: reach for number, reach in reaches.items() if reach is not None}


def _gone_back_to(ours: Mapping[int, Snapshot], theirs: Mapping[int, Snapshot]) -> dict[int, Reach]:
    """The rollbacks of main to a snapshot of the branch, which a tag has kept: main was what the branch was."""
    by_identity = {snapshot.identity: number for number, snapshot in theirs.items()}
    targets = {
        number: by_identity.get((snapshot.properties or {}).get(ROLLED_BACK_IDENTITY_PROPERTY, ""))
        for number, snapshot in ours.items()
    }
    return {number: Reach(target, whole=True) for number, target in targets.items() if target is not None}


def _given_up(ours: Mapping[int, Snapshot], branch: TableStore, taken_back: Sequence[Snapshot]) -> tuple[Snapshot, ...]:
    """Those of main's snapshots that changed rows and are, or hold, what the branch has taken back."""
    identities = {number.identity for number in taken_back}
    marks = {mark(branch, number) for number in taken_back if number.changes_rows}
    return tuple(
        snapshot
        for snapshot in ours.values()
        if snapshot.changes_rows and (snapshot.identity in identities or marks_of(snapshot) & marks)
    )


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


def first_other_version(main: TableStore, branch: TableStore) -> int | None:
    """The first version of the schema that both sides have and that is not the same; None if there is none."""
    both = sorted(set(main.schemas.ids()) & set(branch.schemas.ids()))
    return next((snapshot for snapshot in both if _definition(main, snapshot) != _definition(branch, snapshot)), None)


def _definition(store: TableStore, schema_id: int) -> TableSchema:
    """A version of the schema, whoever made it, and whenever."""
    return replace(store.schemas.get(schema_id), time_ms=0, uuid=None)


def refuse_altered(main: TableStore, branch: TableStore) -> None:
    """Raise BothAltered if a version of the schema is another one on each side."""
    version = first_other_version(main, branch)
    if version is not None:
        raise BothAltered(
            f"Version {version} of the schema of {main.identifier.full_name} is another one on branch "
            f"{branch.identifier.branch!r} than on main: both were altered, and main cannot have both. Give up main's by "
            "replacing main with the branch, with discard-main; or alter main likewise, and write the rows of the branch to it."
        )


def refuse_diverged(main: TableStore, branch: TableStore, verdict: Verdict) -> None:
    """Raise CommitConflict, naming what would be lost, if a branch cannot be taken over."""
    if verdict.altered is not None:
        refuse_altered(main, branch)
    if verdict.kind == "diverged":
        raise CommitConflict(
            f"Branch {branch.identifier.branch!r} cannot be taken over by {main.identifier.full_name}. "
            f"{verdict.describe()}. {INSIST}"
        )


def _meet(main: TableStore, ours: Sequence[Snapshot], branch: TableStore, theirs: Sequence[Snapshot]) -> bool:
    """Whether both sides did something to one bucket that cannot stand side by side."""
    mine = [entry for snapshot in ours for entry in main.delta_of(snapshot)]
    others = [entry for snapshot in theirs for entry in branch.delta_of(snapshot)]
    if main.schema.crosses_partitions:
        # A key may be anywhere.
        return bool(mine and others)
    if main.schema.has_dynamic_buckets:
        # In any bucket of its partition: which one each side has chosen.
        return not {entry.partition for entry in mine}.isdisjoint(entry.partition for entry in others)
    if main.schema.primary_keys:
        return bool(_places(mine) & _places(others))
    # Without a key, rows that were added by both are all there; only files that one side took away are in the way.
    gone = [entry for entry in mine if entry.kind != ADD], [entry for entry in others if entry.kind != ADD]
    lost = [_places(gone[0]) | marked_places(main, ours), _places(gone[1]) | marked_places(branch, theirs)]
    return bool(lost[0] & (_places(others) | lost[1]) or _places(mine) & lost[1])


def _places(entries: Sequence[ManifestEntry]) -> set[Place]:
    return {entry.place for entry in entries}
