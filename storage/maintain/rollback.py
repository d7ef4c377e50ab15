"""Roll a branch back to a snapshot or tag: one commit on top, by which its rows are those of then.

What came in between is taken back and stays in the history until it expires: the rollback can be rolled back, and readers of
changes follow it. Schemas stay: a rollback undoes no change of columns. Follows `docs/protocols.md`.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial

from ..errors import CommitConflict, CorruptData, NotFound
from ..metadata.history import (
    REVERTED_PROPERTY,
    ROLLED_BACK_IDENTITY_PROPERTY,
    ROLLED_BACK_PROPERTY,
    rolled_back_properties,
)
from ..metadata.index_manifest import vectors_of
from ..metadata.snapshot import BATCH_COMMIT_IDENTIFIER, COMPACT, Snapshot
from ..metadata.table_store import TableStore
from ..metadata.tag import TAG_BRANCH_KEY, Tag
from ..write.attempt import Guard, Held
from ..write.close import refuse_closed
from ..write.commit import TableCommit
from ..write.commit_id import CommitId
from ..write.listeners import CommitListener
from ..write.taken_over import SOURCES_PROPERTY, TAKEN_NEWEST_PROPERTY, marks_of, marks_of_tag
from .become import Moved, become, live_entries
from .follow import tell_after
from .hold import held, is_kept
from .lost_files import take_back_lost

ROLLBACK = "ROLLBACK"


def rollback_to(
    store: TableStore,
    target: Snapshot,
    *,
    kept_by: Tag | None = None,
    judged: Snapshot | None = None,
    commit_id: CommitId | None = None,
    properties: dict[str, str] | None = None,
    guard: Guard | None = None,
    listeners: Sequence[CommitListener] = (),
) -> Snapshot | None:
    """Make the rows of a snapshot, or of a tag, the latest state again; returns the snapshot, None if they are.

    `kept_by`: the tag that keeps the target, if it is none that users have given. `judged`: the newest snapshot that may be
    taken back, by default the one that is the newest now; compactions after it do not matter. A newest snapshot whose files
    are not there is taken back first. `guard` is asked with the newest snapshot before each try. Raises NotFound if the
    target is none of this branch or expires meanwhile, CommitConflict if rows were committed after the judged snapshot:
    nothing is done then.
    """
    latest = store.snapshots.latest()
    refuse_closed(store, latest)
    judged = judged or latest
    if latest is None or judged is None:
        raise NotFound(f"{store.identifier} has no snapshot to roll back to.")
    inherited = _inherited(store, target)
    with (
        held(store, target, partial(_is_there, store, target, kept_by)) as target_held,
        _seen(store, target, target_held) as (shown, still_held),
    ):
        taken_back: Snapshot | None = None
        while True:
            _refuse_later(store, judged, latest)
            on_top = take_back_lost(store, latest, target, guard)
            if on_top is not None:
                latest = taken_back = on_top
                if _shows(on_top, target):
                    made = None
                    break
                refuse_closed(store, latest)
                continue
            try:
                made = become(
                    store,
                    live_entries(store, shown),
                    latest,
                    operation=ROLLBACK,
                    commit_id=commit_id or CommitId(store.clock.unique_name(), BATCH_COMMIT_IDENTIFIER),
                    properties={**inherited, **(properties or {}), **rolled_back_properties(target)},
                    listeners=listeners,
                    guard=guard,
                    held=still_held,
                    back_to=0 if TAG_BRANCH_KEY in target.others else shown,
                    vectors=vectors_of(store, shown),
                )
                break
            except Moved:
                latest = _moved_on(store, latest, guard)
    return _tell(store, made, taken_back, listeners)


def _inherited(store: TableStore, target: Snapshot) -> dict[str, str]:
    """The properties that a rollback takes over from what it goes back to."""
    said = target.properties or {}
    inherited = {key: said[key] for key in (SOURCES_PROPERTY, TAKEN_NEWEST_PROPERTY) if said.get(key)}
    return inherited | marks_of_tag(store, target)


def _is_there(store: TableStore, target: Snapshot, kept_by: Tag | None, hold: str) -> bool:
    return is_kept(store, target, hold) or (kept_by is not None and store.tags.find(kept_by.name) == kept_by)


def _tell(
    store: TableStore, made: Snapshot | None, taken_back: Snapshot | None, listeners: Sequence[CommitListener]
) -> Snapshot | None:
    """Tell who follows the table of the rollback, or else of what alone was done: a lost snapshot taken back; returns either."""
    if made is None and taken_back is not None:
        TableCommit(store, CommitId(taken_back.commit_user), listeners).notify(taken_back)
    tell_after(store, made, listeners)
    return made or taken_back


def _moved_on(store: TableStore, latest: Snapshot, guard: Guard | None) -> Snapshot:
    """The newest snapshot, once others have committed. Raises CommitConflict if nothing may be put on top of it."""
    newest = store.snapshots.latest()
    refuse_closed(store, newest)
    if guard is not None:
        # Whose publication it was says more than that somebody came first.
        guard(newest or latest)
    return newest or latest


@contextmanager
def _seen(store: TableStore, target: Snapshot, target_held: Held) -> Iterator[tuple[Snapshot, Held]]:
    """The snapshot by which readers see the rows of a target that is held, and what tells whether both are kept."""
    lifted = _lifted(store, target)
    with ExitStack() as stack:
        if lifted is not target:
            try:
                lifted_held = stack.enter_context(held(store, lifted, partial(is_kept, store, lifted)))
            except NotFound:
                # It has expired: only a tag keeps the target.
                lifted = target
        yield lifted, target_held if lifted is target else lambda: target_held() and lifted_held()


def _lifted(store: TableStore, target: Snapshot) -> Snapshot:
    """Where readers skip level 0, the compaction that has lifted the rows of a snapshot, if nothing else came in between: else
    one follows the rollback, and until then readers see what they saw at the target.
    """
    here = store.snapshots.find(target.id)
    is_own = TAG_BRANCH_KEY not in target.others and here is not None and here.identity == target.identity
    lifted = target
    hides = is_own and store.options.hides_level_0 and bool(store.schema.primary_keys)
    while hides and any(entry.file.level == 0 for entry in live_entries(store, lifted)):
        following = None
        with suppress(CorruptData):
            following = store.snapshots.find(lifted.id + 1)
        if following is None or following.follows not in (None, lifted.identity) or not _only_compacts(following):
            break
        lifted = following
    return lifted


def _only_compacts(snapshot: Snapshot) -> bool:
    return snapshot.commit_kind == COMPACT and snapshot.operation in (None, COMPACT) and not snapshot.changes_rows


def _shows(snapshot: Snapshot, target: Snapshot) -> bool:
    """Whether a snapshot is a commit that took another one back and put that state on top."""
    identity = (snapshot.properties or {}).get(ROLLED_BACK_IDENTITY_PROPERTY)
    return snapshot.number(ROLLED_BACK_PROPERTY) == target.id and identity == target.identity


def effective_history(history: Sequence[Snapshot]) -> list[Snapshot]:
    """The snapshots of a history whose work is still in its last one: without rollbacks, and what was taken back."""
    newest, _ = _chains(history)
    return [chain.snapshot for chain in _unrolled(newest)][::-1]


def taken_back_in(history: Sequence[Snapshot]) -> set[int]:
    """The numbers of those snapshots of a history whose work is not in its last one any more."""
    known = {snapshot.id for snapshot in history if snapshot.operation != ROLLBACK}
    return known - {snapshot.id for snapshot in effective_history(history)}


def standing_rollbacks(history: Sequence[Snapshot]) -> list[Snapshot]:
    """The rollbacks of a history whose state its last snapshot builds on. They have the rows of what they went back to, and
    branches may begin at them.
    """
    newest, chains = _chains(history)
    below = {id(chain) for chain in _unrolled(newest)}
    return [
        snapshot
        for snapshot in history
        if snapshot.operation == ROLLBACK and snapshot.id in chains and id(chains[snapshot.id]) in below
    ]


def _chains(history: Sequence[Snapshot]) -> "tuple[_Chain | None, dict[int, _Chain]]":
    """What the rows of the last snapshot build on, and those of each by its number."""
    # Each snapshot with the one that its rows build on: chains, so that one can go back to what was taken back before.
    chains: dict[int, _Chain] = {}
    newest: _Chain | None = None
    identities: dict[int, str] = {}
    for snapshot in history:
        properties = snapshot.properties or {}
        identities[snapshot.id] = snapshot.identity
        target_id, reverted_id = snapshot.number(ROLLED_BACK_PROPERTY), snapshot.number(REVERTED_PROPERTY)
        if reverted_id is not None:
            newest = _without(newest, reverted_id)
        if target_id is None:
            newest = _Chain(snapshot, newest)
        else:
            below = chains.get(target_id)
            if properties.get(ROLLED_BACK_IDENTITY_PROPERTY) not in (None, identities.get(target_id)):
                # A tag kept it, of another branch: what has its number here is something else.
                below = None
            # What also took a branch over, or went back to what has expired, counts itself.
            counts = below is None or bool(marks_of(snapshot)) or snapshot.operation == "ADOPT"
            newest = _Chain(snapshot, below) if counts else below
        if newest is not None:
            chains[snapshot.id] = newest
    return newest, chains


@dataclass(frozen=True, slots=True)
class _Chain:
    snapshot: Snapshot
    below: "_Chain | None"


def _unrolled(chain: "_Chain | None") -> "Iterator[_Chain]":
    while chain is not None:
        yield chain
        chain = chain.below


def _without(chain: "_Chain | None", snapshot_id: int) -> "_Chain | None":
    links = list(_unrolled(chain))
    at = next((number for number, link in enumerate(links) if link.snapshot.id == snapshot_id), None)
    if at is None:
        return chain
    rebuilt = links[at].below
    for link in reversed(links[:at]):
        rebuilt = _Chain(link.snapshot, rebuilt)
    return rebuilt


def _refuse_later(store: TableStore, judged: Snapshot, latest: Snapshot | None) -> None:
    for snapshot in store.snapshots.backwards(latest):
        if snapshot.id <= judged.id:
            return
        if snapshot.changes_rows:
            raise CommitConflict(
                f"A writer came first: {store.identifier} has snapshot {snapshot.id} by {snapshot.commit_user} by now, and "
                f"{judged.id} was the last that may be taken back. Nothing is done; ask again."
            )
