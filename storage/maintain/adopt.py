"""Main takes over what a branch holds, as one commit on top of what main has become. No file is copied, no snapshot goes.

Where neither side has changed rows since they parted, main keeps its own files: it may have compacted them.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

from ..errors import CommitConflict, NotFound
from ..metadata.branch_origin import read_origin
from ..metadata.earlier_files import seen_up_to
from ..metadata.history import has_expired, stands_at
from ..metadata.index_manifest import marked_places, vectors_of
from ..metadata.manifest import ManifestEntry, Place
from ..metadata.snapshot import Snapshot, standing
from ..metadata.table_store import TableStore
from ..write.attempt import Guard
from ..write.close import refuse_closed
from ..write.commit import TableCommit
from ..write.commit_id import CommitId
from ..write.listeners import CommitListener
from ..write.taken_over import ids_of_branch, ids_property
from .become import Moved, become, live_entries
from .follow import tell_after
from .merge_branch import back_properties, copy_schemas, hold_taken
from .verdict import judge, refuse_altered


def adopt(
    main: TableStore,
    branch: TableStore,
    *,
    until: int,
    point: tuple[int, str] | None = None,
    given_up: int | None = None,
    up_to: tuple[int, str] | None = None,
    commit_id: CommitId,
    properties: Mapping[str, str] | None = None,
    guard: Guard | None = None,
    listeners: Sequence[CommitListener] = (),
) -> Snapshot | None:
    """Commit to main what makes its rows those of the branch, and the commit ids of the branch; returns the snapshot, None
    if the rows are the same already, and there are no ids and nothing is given up.

    What main did up to the snapshot `until` is replaced. Raises CommitConflict if it has changed rows since then, or does not
    have the snapshot that the branch began at, or `point`, by number and identity. A repeated `commit_id` changes nothing.
    What main did after the snapshot `given_up` counts as taken back, and there is a commit in any case, by which whoever repeats
    it knows what came later. `guard` is asked before each try. `up_to`: the snapshot of
    the branch, by number and identity, that is taken over, whatever came after it; by default its newest.
    """
    points = made_for(branch, point)

    def refuse_later(latest: Snapshot | None) -> None:
        refuse_other_main(main, branch.identifier.branch, points, until)
        refuse_later_changes(main, branch.identifier.branch, until, latest)
        if guard is not None:
            guard(latest)

    while True:
        earlier = TableCommit(main, commit_id).find_committed()
        if earlier is not None:
            return earlier
        with suppress(Moved):
            back = {} if given_up is None else back_properties(main, given_up)
            own = {**(properties or {}), **back}
            return _adopt_once(main, branch, up_to, refuse_later, commit_id, own, listeners, leaves_trace=bool(back))


def _adopt_once(
    main: TableStore,
    branch: TableStore,
    up_to: tuple[int, str] | None,
    refuse_later: Guard,
    commit_id: CommitId,
    properties: Mapping[str, str],
    listeners: Sequence[CommitListener],
    *,
    leaves_trace: bool,
) -> Snapshot | None:
    """One try, on top of what main is now; `leaves_trace`: also if it changes nothing. Raises Moved if main has become something
    else meanwhile.
    """
    seen = seen_up_to(branch, up_to)
    judged, taken = main.snapshots.latest(), seen.snapshots.latest()
    refuse_later(judged)
    refuse_closed(branch, branch.snapshots.latest())
    refuse_altered(main, branch)
    copy_schemas(branch, main)
    newest = main.schemas.latest()
    target = main if newest is None else main.at_schema(newest)
    try:
        theirs, ours = live_entries(branch, taken), live_entries(main, judged)
        common = judge(main, seen).common
        touched = _touched(main, seen, common, [*theirs, *ours])
        later = [snapshot for snapshot in standing(seen.snapshots.all()) if snapshot.id > (common or 0)]
        # Whoever repeats on main what has landed on the branch finds it.
        ids = ids_of_branch(branch, later)
    except NotFound:
        if has_expired(main, judged) or has_expired(branch, taken):
            raise Moved(f"What {main.identifier} or its branch had has expired meanwhile.") from None
        raise
    # What the branch has may expire, or go with it, as soon as it is not needed there.
    with hold_taken(main, branch, judged, taken) as still_held:
        adopted = become(
            target,
            theirs,
            judged,
            operation="ADOPT",
            commit_id=commit_id,
            properties={**properties, **ids_property(ids)},
            listeners=listeners,
            touches=touched.__contains__,
            guard=refuse_later,
            even_empty=leaves_trace or bool(ids),
            held=still_held,
            back_to=common or 0,
            vectors=vectors_of(branch, taken),
        )
    tell_after(target, adopted, listeners)
    return adopted


def made_for(branch: TableStore, point: tuple[int, str] | None) -> list[tuple[int, str]]:
    """Number and identity of the snapshots of main that a branch was made for: where it began, and `point`."""
    origin = read_origin(branch.file_io, branch.paths)
    begun = [] if origin is None else list(origin.points[-1:])
    return begun if point is None else [*begun, point]


def refuse_other_main(main: TableStore, branch: str, points: Iterable[tuple[int, str]], until: int) -> None:
    """Raise CommitConflict if a snapshot that a branch was made for is not in main's history (any more)."""
    for number, identity in points:
        if stands_at(main, number, identity):
            continue
        meaning = f"its numbers, of which {until} is one, mean others now"
        raise CommitConflict(
            f"Main of {main.identifier.full_name} was replaced, or made anew, since branch {branch!r} was made for its snapshot "
            f"{number}: {meaning}."
        )


def refuse_later_changes(main: TableStore, branch: str, until: int, latest: Snapshot | None) -> None:
    """Raise CommitConflict if a main has changed rows after the snapshot up to which a branch replaces it."""
    later = []
    for snapshot in main.snapshots.backwards(latest):
        if snapshot.id <= until:
            break
        if snapshot.changes_rows:
            later.append(snapshot)
    if later:
        listed = ", ".join(
            f"{snapshot.id} ({snapshot.operation or snapshot.commit_kind} by {snapshot.commit_user})"
            for snapshot in later[::-1]
        )
        raise CommitConflict(
            f"Main of {main.identifier.full_name} has moved beyond snapshot {until}, up to which branch {branch!r} replaces "
            f"it: {listed}."
        )


def _touched(main: TableStore, branch: TableStore, common: int | None, live: Sequence[ManifestEntry]) -> set[Place]:
    """The buckets in which either side has changed rows since they parted; all of them if that cannot be told."""
    places: set[Place] = set()
    for store in (main, branch):
        snapshots = [snapshot for snapshot in store.snapshots.all() if snapshot.id > (common or 0)]
        if common is None or (snapshots and min(snapshot.id for snapshot in snapshots) > common + 1):
            return {entry.place for entry in live}
        for snapshot in snapshots:
            if snapshot.changes_rows:
                places |= {entry.place for entry in store.delta_of(snapshot)} | marked_places(store, [snapshot])
    return places
