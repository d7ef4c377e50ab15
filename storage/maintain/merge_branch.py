"""Merge a branch into main: one commit on top of main by which the branch's work is in it. The branch lives on.

If main has moved elsewhere, the commit does what the branch's commits did, of the same files; if main has only been
compacted, or is to be discarded, it makes main's files those of the branch. Either acts on what was judged: who commits in
between makes the verdict be asked again. Follows `docs/protocols.md`, "History only grows".
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from functools import partial

from ..errors import CommitConflict, CorruptData, NotFound
from ..identifier import MAIN_BRANCH, RESERVED_TAGS
from ..metadata.earlier_files import seen_up_to
from ..metadata.history import ROLLED_BACK_PROPERTY, despite_expiry, has_expired, rolled_back_properties
from ..metadata.index_manifest import marked_places, refuse_index, vectors_of
from ..metadata.live_files import merge_entries
from ..metadata.manifest import ADD, ManifestEntry, Place
from ..metadata.pointed_schema import point_at_main
from ..metadata.schema_check import refuse_moving_keys
from ..metadata.snapshot import APPEND, BATCH_COMMIT_IDENTIFIER, COMPACT, OVERWRITE, Snapshot
from ..metadata.table_store import TableStore
from ..metadata.tag import TAG_BRANCH_KEY, Tag
from ..write.attempt import Guard, Held
from ..write.close import refuse_closed
from ..write.commit import TableCommit
from ..write.commit_id import CommitId
from ..write.listeners import CommitListener
from ..write.required_columns import refuse_nulls
from ..write.table_write import CommitMessage
from ..write.taken_over import taken_over_properties
from ..write.vectors import GivenVector, given_vectors
from .become import Moved, become, live_entries
from .brought_back import hand_over_tags
from .follow import tell_after
from .hold import held, is_kept
from .verdict import Verdict, judge, origin_of, refuse_altered, refuse_diverged

_TRIES = 20


def merge_branch(
    main: TableStore,
    branch: TableStore,
    *,
    discard_main: bool = False,
    commit_id: CommitId | None = None,
    guard: Guard | None = None,
    listeners: Sequence[CommitListener] = (),
    up_to: tuple[int, str] | None = None,
) -> Verdict:
    """Take a branch over into main, with the tags of what it did; returns the verdict. A repeated `commit_id` changes nothing.
    `up_to`: the snapshot of the branch, by number and identity, that is taken over, whatever came after it.

    Raises CommitConflict, naming what would be lost, if main has diverged, unless `discard_main`. What main did in other
    partitions and buckets stays in any case.
    """

    def refuse(verdict: Verdict) -> None:
        if not discard_main:
            refuse_diverged(main, branch, verdict)

    return _take_over(main, branch, refuse, commit_id, guard, listeners, up_to=up_to)


def fast_forward(
    main: TableStore,
    branch: TableStore,
    *,
    discard_main: bool = False,
    guard: Guard | None = None,
    listeners: Sequence[CommitListener] = (),
) -> Verdict:
    """Make main what the branch is; returns the verdict.

    Raises CommitConflict, naming what would be lost, if main has moved at all, unless `discard_main`.
    """

    def refuse(verdict: Verdict) -> None:
        if discard_main:
            return
        refuse_diverged(main, branch, verdict)
        if verdict.kind == "disjoint" and verdict.lost:
            raise CommitConflict(
                f"{main.identifier.full_name} cannot be fast-forwarded to branch {branch.identifier.branch!r}: "
                f"{replace(verdict, kind='diverged').describe()}. Merge the branch, which keeps both, or insist with "
                "discard-main."
            )

    return _take_over(main, branch, refuse, None, guard, listeners, becomes=discard_main)


def _take_over(
    main: TableStore,
    branch: TableStore,
    refuse: Callable[[Verdict], None],
    commit_id: CommitId | None,
    guard: Guard | None,
    listeners: Sequence[CommitListener],
    *,
    becomes: bool = False,
    up_to: tuple[int, str] | None = None,
) -> Verdict:
    def try_once() -> Verdict:
        seen = seen_up_to(branch, up_to)
        verdict = judge(main, seen)
        # What is empty because it was renamed or dropped has nothing to say.
        main.refuse_other_table()
        branch.refuse_other_table()
        refuse(verdict)
        refuse_closed(branch, branch.snapshots.latest())
        taken, discards = verdict.taken, verdict.kind == "diverged" or (becomes and bool(verdict.lost))
        if taken is None and not discards:
            return verdict
        # What the branch has may expire, or go with it, as soon as it is not needed there.
        with hold_taken(main, branch, verdict.judged, taken) as still_held:
            refuse_altered(main, branch)
            copy_schemas(branch, main)
            newest = main.schemas.latest()
            target = main if newest is None else main.at_schema(newest)
            made: Snapshot | None = None
            if discards or _must_become(main, verdict):
                since = verdict.since or verdict.common or _begun_at(main, branch)
                back = back_properties(main, since) if verdict.lost else {}
                made = become(
                    target,
                    live_entries(branch, taken),
                    verdict.judged,
                    operation="MERGE",
                    commit_id=commit_id or _new_id(main),
                    properties={**taken_over_properties(branch, verdict.new, taken, whole=True), **back},
                    listeners=listeners,
                    guard=guard,
                    held=still_held,
                    back_to=verdict.common or 0,
                    vectors=vectors_of(branch, taken),
                )
            elif verdict.new:
                made = put_on_top(target, seen, verdict, commit_id, guard, listeners, held=still_held)
            copy_tags(branch, main, after=verdict.common or 0, up_to=None if up_to is None else up_to[0])
        tell_after(target, made, listeners)
        return replace(verdict, made=made, kind="diverged" if discards else verdict.kind)

    for tries_left in reversed(range(_TRIES)):
        try:
            return despite_expiry((main, branch), try_once)
        except Moved:
            if not tries_left:
                raise
    raise AssertionError("the last try raises")


def refuse_unmergeable(main: TableStore, branch: TableStore, verdict: Verdict) -> None:
    """Raise what a merge would raise whoever comes first, whatever is discarded: Unsupported for indexes of other kinds,
    CommitConflict for nulls of the branch in a column that takes none on main by now.
    """
    newest = main.schemas.latest()
    if not verdict.new or newest is None:
        return
    try:
        refuse_index(branch, *verdict.new)
        there = {entry.identity for entry in live_entries(main, verdict.judged)}
        brought = [entry for entry in live_entries(branch, verdict.taken) if entry.identity not in there]
    except NotFound:
        if has_expired(main, verdict.judged) or has_expired(branch, verdict.taken):
            return
        raise
    known = set(main.schemas.ids())
    store = main if all(entry.file.schema_id in known for entry in brought) else branch
    refuse_nulls(store, newest, brought)


def hold_taken(
    main: TableStore, branch: TableStore, judged: Snapshot | None, taken: Snapshot | None
) -> AbstractContextManager[Held | None]:
    """Hold what main takes over; if that is nothing, what main is: by the hold others see that somebody is at it."""
    if taken is not None:
        return held(main, taken, partial(is_there, branch, taken))
    return nullcontext() if judged is None else held(main, judged, lambda hold: True)


def _begun_at(main: TableStore, branch: TableStore) -> int | None:
    """The snapshot of main that a branch began at, if main still has it, though it may have taken it back: what main becomes
    holds its rows.
    """
    origin = origin_of(branch)
    with suppress(CorruptData):
        for number, identity in reversed(() if origin is None else origin.points):
            snapshot = main.snapshots.find(number)
            if snapshot is not None and snapshot.identity == identity:
                return number
    return None


def back_properties(main: TableStore, common: int | None) -> dict[str, str]:
    """The properties of a commit that takes back what main did since a snapshot; None: all."""
    snapshot = main.snapshots.find(common) if common is not None else None
    return {ROLLED_BACK_PROPERTY: str(common or 0)} if snapshot is None else rolled_back_properties(snapshot)


def is_there(branch: TableStore, taken: Snapshot, hold: str = "") -> bool:
    """Whether a branch is still the one that was judged, with its newest snapshot then."""
    if not branch.is_same_table():
        return False
    refuse_closed(branch, branch.snapshots.latest())
    return is_kept(branch, taken, hold)


def _must_become(main: TableStore, verdict: Verdict) -> bool:
    """Whether single commits of the branch cannot be done on main: they take away files that main has compacted, have expired
    themselves, or are of a table whose keys move between partitions.
    """
    if verdict.kind != "clean" or not verdict.new:
        return False
    if main.schema.crosses_partitions:
        # What main has been since both have in common, so that no key comes to be in two partitions.
        return True
    numbers = [snapshot.id for snapshot in verdict.new]
    return bool(verdict.lost) or numbers[0] != (verdict.common or 0) + 1 or numbers[-1] - numbers[0] + 1 > len(numbers)


def put_on_top(
    store: TableStore,
    other: TableStore,
    verdict: Verdict,
    commit_id: CommitId | None,
    guard: Guard | None,
    listeners: Sequence[CommitListener],
    *,
    snapshots: Sequence[Snapshot] | None = None,
    held: Held | None = None,
) -> Snapshot | None:
    """Do what snapshots of another branch did, by default the new ones of a verdict, in one commit of the same files.
    `held`: see `TableCommit.commit`.

    Raises Moved if the verdict has changed, CommitConflict if it cannot be.
    """
    taken = verdict.new if snapshots is None else snapshots
    judged = judge_again(store, other, verdict, swapped=snapshots is not None)
    refuse_index(other, *taken)
    refuse_moving_keys(store.schema, "A merge of commits of another branch")
    delta = merge_entries(entry for snapshot in taken for entry in other.delta_of(snapshot))
    vectors = _vectors_of(other, taken, {entry.place for entry in delta})

    def refuse(latest: Snapshot | None) -> None:
        judged(latest)
        if guard is not None:
            guard(latest)

    kind = _kind(taken)
    last = taken[-1]
    if commit_id is None:
        commit_id = (
            CommitId(last.commit_user, last.commit_identifier, exact=True) if len(taken) == 1 else _new_id(store)
        )
        if TableCommit(store, commit_id).find_committed() is not None:
            # There is a commit of that number of its own.
            commit_id = CommitId(last.commit_user, BATCH_COMMIT_IDENTIFIER)
    return TableCommit(store, commit_id, listeners).commit(
        # Without paths: the files are the other branch's too, and stay whatever happens here.
        [
            CommitMessage(
                tuple(entry for entry in delta if entry.kind == ADD), (), tuple(_changelog(other, taken, kind))
            )
        ],
        deleted=[entry for entry in delta if entry.kind != ADD],
        kind=kind,
        operation=last.operation if len(taken) == 1 else "MERGE",
        own_properties=taken_over_properties(
            other, taken, verdict.taken if snapshots is None else verdict.judged, whole=verdict.kind == "clean"
        ),
        watermark=max((snapshot.watermark for snapshot in taken if snapshot.watermark is not None), default=None),
        guard=refuse,
        adds_again=True,
        back_to=verdict.common or 0,
        held=held,
        # What has left no trace in the files is not to land again when it is repeated.
        even_empty=any(snapshot.commit_identifier != BATCH_COMMIT_IDENTIFIER for snapshot in taken),
        vectors=vectors,
    )


def _vectors_of(store: TableStore, taken: Sequence[Snapshot], places: set[Place]) -> list[GivenVector]:
    """The deletion vectors that the files of the touched buckets have after some snapshots."""
    if not store.options.deletion_vectors_enabled:
        return []
    touched = places | marked_places(store, taken)
    live = [entry for entry in live_entries(store, taken[-1]) if entry.place in touched]
    return given_vectors(live, vectors_of(store, taken[-1]))


def judge_again(store: TableStore, other: TableStore, verdict: Verdict, *, swapped: bool) -> Guard:
    """A guard that raises Moved if a verdict would be another one by now. `swapped`: the store is the branch's side."""

    def refuse_changed(latest: Snapshot | None) -> None:
        before = verdict.taken if swapped else verdict.judged
        if (latest.identity if latest else None) == (before.identity if before else None):
            return
        again = judge(other, store) if swapped else judge(store, other)
        if (again.kind, again.new, again.common, again.since) != (
            verdict.kind,
            verdict.new,
            verdict.common,
            verdict.since,
        ):
            raise Moved("The verdict has changed: a writer came in between. Ask for it again.")
        if again.kind == "clean" and again.lost:
            raise Moved("Main was compacted in between. Ask for the verdict again.")

    return refuse_changed


def _kind(taken: Sequence[Snapshot]) -> str:
    """The kind of one commit that holds several."""
    kinds = {snapshot.commit_kind for snapshot in taken}
    return kinds.pop() if len(kinds) == 1 and kinds <= {APPEND, COMPACT, OVERWRITE} else OVERWRITE


def _changelog(other: TableStore, taken: Sequence[Snapshot], kind: str) -> list[ManifestEntry]:
    """The changelog of several commits; none for those that are seen by comparing."""
    if kind == OVERWRITE and len(taken) > 1:
        return []
    lists = [snapshot.changelog_manifest_list for snapshot in taken if snapshot.changelog_manifest_list is not None]
    manifests = other.manifests
    return [entry for name in lists for listed in manifests.read_list(name) for entry in manifests.read(listed.name)]


def _new_id(store: TableStore) -> CommitId:
    return CommitId(store.clock.unique_name(), BATCH_COMMIT_IDENTIFIER)


def restore_earlier(main: TableStore, branch: TableStore, *, from_id: int = 0) -> None:
    """Give a branch main's snapshots from before its own earliest one, back to an id."""
    earliest = branch.snapshots.earliest_id()
    hand_over_tags(main, branch, earliest or 0)
    # From the newest to the oldest, so that the branch's history never has a gap.
    for snapshot in sorted(main.snapshots.all(), key=lambda main_snapshot: -main_snapshot.id):
        if earliest is not None and from_id <= snapshot.id < earliest:
            try:
                with held(branch, snapshot, partial(_stands, main, snapshot)):
                    branch.snapshots.restore(snapshot)
            except NotFound:
                # Unless somebody else has replaced main meanwhile, who goes on from there.
                main.refuse_other_table()
                # It has expired meanwhile, and those before it as well.
                return


def _stands(store: TableStore, snapshot: Snapshot, hold: str) -> bool:
    """Whether a branch still has a snapshot: what only a tag keeps, as a hold does, is no part of its history."""
    here = store.snapshots.find(snapshot.id)
    return here is not None and here.identity == snapshot.identity


def copy_tags(
    source: TableStore,
    target: TableStore,
    *,
    after: int = 0,
    up_to: int | None = None,
    common: int | None = None,
    damaged_too: bool = False,
) -> None:
    """Give a branch the tags of another, but for names that it has; those of snapshots after an id, and up to one. `common`:
    the last snapshot that both have. `damaged_too`: those that cannot be read come there as they are.

    What both have in common each side names itself, or does not any more.
    """
    if damaged_too:
        source.tags.hand_over_damaged(target.tags)
    for tag in source.tags.readable() if damaged_too else source.tags.all():
        is_between = after < tag.snapshot.id and (up_to is None or tag.snapshot.id <= up_to)
        is_wanted = is_between and not tag.name.startswith(RESERVED_TAGS)
        if is_wanted and not (damaged_too and target.tags.is_damaged(tag.name)) and target.tags.find(tag.name) is None:
            snapshot = tag.snapshot
            here = target.snapshots.find(snapshot.id)
            has_expired_there = here is None and snapshot.id <= (common or 0)
            if not has_expired_there and (here is None or here.identity != snapshot.identity):
                snapshot = snapshot.with_others({TAG_BRANCH_KEY: source.identifier.branch})
            with suppress(NotFound), held(target, tag.snapshot, partial(_is_still, source, tag)):
                target.tags.create(tag.name, snapshot)


def _is_still(source: TableStore, tag: Tag, hold: str) -> bool:
    """Whether a tag is what it was when it was read."""
    return source.tags.find(tag.name) == tag


def copy_schemas(source: TableStore, target: TableStore) -> None:
    """Give a branch the versions of the schema that another has and it lacks. Raises BothAltered if somebody gives it another
    one of the same number meanwhile.
    """
    known = target.schemas.ids()
    if not known:
        # It is being deleted.
        target.refuse_other_table()
        return
    for schema_id in source.schemas.ids():
        if schema_id not in known and not target.schemas.create(source.schemas.get(schema_id)):
            refuse_altered(*((target, source) if source.identifier.branch != MAIN_BRANCH else (source, target)))
    point_at_main(target.file_io, target.paths, target.read_witness)
