"""Merge a branch into main: main gets the branch's snapshots, and the branch lives on.

If main has moved elsewhere, the branch's commits are made again on top of it, of the same files, on a branch that nobody
sees. Then main follows that branch, or at once the branch itself if it has not moved. All snapshots are to be seen at once:
main is closed to writers by a snapshot that shows what it is, the new ones are put behind it from the last to the first,
and with the first of them readers see the last. A crash before leaves main closed and as it was, a crash after leaves it
with one snapshot to be filled in; calling it again does either.
"""

from collections.abc import Sequence
from dataclasses import replace

from ..errors import CommitConflict, InvalidRequest
from ..metadata.manifest import ADD, ManifestEntry
from ..metadata.snapshot import BATCH_COMMIT_IDENTIFIER, Snapshot
from ..metadata.table_store import TableStore
from ..read.version import branch_names, on_branch
from ..write.close import MERGE, ROLLBACK, close, closed_for, is_closed_for, own_files, refuse_closed
from ..write.commit import CommitId, CommitListener, TableCommit
from ..write.table_write import CommitMessage
from .branch import create_branch, delete_branch
from .references import delete_unneeded
from .rollback import rollback_to
from .verdict import (
    TAKEN_OVER_PROPERTY,
    Verdict,
    judge,
    mark,
    refuse_if_diverged,
    refuse_if_expired,
    same_snapshot,
)

_TRIES = 5


def merge_branch(
    main: TableStore, branch: TableStore, *, discard_main: bool = False, listeners: Sequence[CommitListener] = ()
) -> Verdict:
    """Take a branch over into main; returns the verdict.

    Raises CommitConflict, naming what would be lost, if main has diverged, unless `discard_main`.
    """
    _mend(main, branch)
    verdict = judge(main, branch)
    refuse_if_expired(branch, verdict)
    if verdict.kind == "disjoint":
        if len(verdict.new) == 1:
            put_on_top(main, branch, verdict.new, listeners)
        elif verdict.new:
            _put_on_top_at_once(main, branch, listeners)
        copy_tags(branch, main)
        return verdict
    if not discard_main:
        refuse_if_diverged(main, branch)
    return _follow(main, branch, verdict, listeners, discard_main=discard_main)


def fast_forward(
    main: TableStore, branch: TableStore, *, discard_main: bool = False, listeners: Sequence[CommitListener] = ()
) -> Verdict:
    """Make main what the branch is; returns the verdict.

    Raises CommitConflict, naming what would be lost, if main has moved at all, unless `discard_main`.
    """
    _mend(main, branch)
    verdict = judge(main, branch)
    refuse_if_expired(branch, verdict)
    if not discard_main:
        refuse_if_diverged(main, branch)
        if verdict.kind == "disjoint":
            raise CommitConflict(
                f"{main.identifier.full_name} cannot be fast-forwarded to branch {branch.identifier.branch!r}: "
                f"{replace(verdict, kind='diverged').describe()}. Merge the branch, which keeps both, or insist with "
                "discard-main."
            )
    return _follow(main, branch, verdict, listeners, discard_main=discard_main)


def _follow(
    main: TableStore,
    branch: TableStore,
    verdict: Verdict,
    listeners: Sequence[CommitListener],
    *,
    discard_main: bool,
) -> Verdict:
    """Take main's own snapshots away, if the verdict names any, and make the branch's its own."""
    latest = main.snapshots.latest()
    # What a merge that died was about to take away goes now.
    if closed_for(latest) != f"{ROLLBACK} {verdict.common}" and not (discard_main and is_closed_for(latest, ROLLBACK)):
        refuse_closed(main, latest)
    if not discard_main:
        refuse_other_schemas(branch, main)
    if latest is not None and latest.id > (verdict.common or 0):
        if verdict.common is None:
            raise InvalidRequest(
                f"Main of {main.identifier.full_name} and the branch have no snapshot in common: roll back or truncate main."
            )
        rollback_to(main, _remembered(main, verdict.common), seen=latest.id)
        verdict = replace(verdict, new=judge(main, branch).new)
        latest = main.snapshots.latest()
    if discard_main:
        _replace_schemas(branch, main)
    copy_schemas(branch, main)
    if verdict.new:
        _append(main, latest, verdict.new, branch.identifier.branch)
        for snapshot in verdict.new:
            TableCommit(main, CommitId(snapshot.commit_user), listeners).notify(snapshot)
    copy_tags(branch, main)
    return verdict


def _remembered(main: TableStore, snapshot_id: int) -> Snapshot:
    """A snapshot of main that is there, or of which there is a tag."""
    found = main.snapshots.find(snapshot_id)
    return found or next(tag.snapshot for tag in main.tags.all() if tag.snapshot.id == snapshot_id)


def _append(main: TableStore, latest: Snapshot | None, new: Sequence[Snapshot], branch: str) -> None:
    """Put snapshots behind the latest, so that readers see all of them at once. Raises CommitConflict if a writer came first."""
    first, *others = new
    follows = first.id == (latest.id + 1 if latest else first.id)
    closing: Snapshot | None = None
    if follows and not others:
        follows = main.snapshots.create(first)
    elif follows:
        closing = close(main, latest, f"{MERGE} {branch}", shows=latest, snapshot_id=first.id)
        follows = closing is not None
    if not follows:
        raise CommitConflict(
            f"A writer came first: {main.identifier.full_name} has another snapshot {first.id} than branch {branch!r}. "
            "Nothing of it is lost; ask for the verdict again."
        )
    if closing is not None:
        for snapshot in reversed(others):
            main.snapshots.restore(snapshot)
        _open(main, closing, first, others)
        main.snapshots.write_hint("LATEST", others[-1].id)
    if latest is None:
        main.snapshots.write_hint("EARLIEST", first.id)


def _open(main: TableStore, closing: Snapshot, first: Snapshot, others: Sequence[Snapshot] = ()) -> None:
    """Put a snapshot in the place of the one that closed main.

    Raises CommitConflict if somebody else, who merges the same branch, took it for what a merge that died had left.
    """
    found = main.snapshots.find(first.id)
    if found is not None and found.uuid == closing.uuid:
        main.snapshots.replace(first)
    elif found is None or not same_snapshot(found, first):
        if found is None:
            for snapshot in reversed(others):
                main.snapshots.delete(snapshot.id)
        raise CommitConflict(
            f"Somebody else merges the same branch into {main.identifier.full_name}. Ask for the verdict again."
        )
    delete_unneeded(main, own_files(main, closing))


def _mend(main: TableStore, branch: TableStore) -> None:
    """Finish, or undo, what a merge that died has left of itself."""
    name = branch.identifier.branch
    sources = [branch]
    if _hidden(name) in branch_names(main):
        sources.append(on_branch(main, _hidden(name)))
    for closing in [one for one in main.snapshots.all() if closed_for(one) == f"{MERGE} {name}"]:
        following = main.snapshots.find(closing.id + 1)
        if following is None:
            for snapshot_id in [one for one in main.snapshots.ids() if one > closing.id][::-1]:
                main.snapshots.delete(snapshot_id)
            main.snapshots.delete(closing.id)
            main.snapshots.write_hint("LATEST", closing.id - 1)
            delete_unneeded(main, own_files(main, closing))
            continue
        for source in sources:
            found, after = source.snapshots.find(closing.id), source.snapshots.find(closing.id + 1)
            if found is not None and after is not None and same_snapshot(after, following):
                _open(main, closing, found)
                break
    for source in sources[1:]:
        delete_branch(main, source.identifier.branch)


def _hidden(branch: str) -> str:
    return f"merge-of-{branch}"


def _put_on_top_at_once(main: TableStore, branch: TableStore, listeners: Sequence[CommitListener]) -> None:
    """Make the commits of a branch that main lacks again on top of main, all at once. Raises CommitConflict if a writer
    comes first each time.
    """
    for tries_left in reversed(range(_TRIES)):
        verdict = judge(main, branch)
        refuse_if_diverged(main, branch)
        latest = main.snapshots.latest()
        refuse_closed(main, latest)
        hidden = create_branch(main, _hidden(branch.identifier.branch), latest, latest_schema=True)
        try:
            restore_earlier(main, hidden, from_id=verdict.common or 0)
            put_on_top(hidden, branch, verdict.new, ())
            _append(main, latest, judge(main, hidden).new, branch.identifier.branch)
        except CommitConflict:
            delete_branch(main, hidden.identifier.branch)
            if not tries_left:
                raise
            continue
        made = list(hidden.snapshots.all())
        # Only now: what dies before needs it to finish.
        delete_branch(main, hidden.identifier.branch)
        for snapshot in made:
            if latest is None or snapshot.id > latest.id:
                TableCommit(main, CommitId(snapshot.commit_user), listeners).notify(snapshot)
        return


def put_on_top(
    store: TableStore, other: TableStore, snapshots: Sequence[Snapshot], listeners: Sequence[CommitListener]
) -> None:
    """Commit what snapshots of another branch did, of the same files. Raises CommitConflict if that cannot be."""
    for snapshot in snapshots:
        _put_on_top(store, other, snapshot, listeners)


def _put_on_top(store: TableStore, other: TableStore, snapshot: Snapshot, listeners: Sequence[CommitListener]) -> None:
    delta = other.delta_of(snapshot)
    changelog: list[ManifestEntry] = []
    if snapshot.changelog_manifest_list is not None:
        listed = other.manifests.read_list(snapshot.changelog_manifest_list)
        changelog = [entry for one in listed for entry in other.manifests.read(one.name)]
    commit_id = CommitId(snapshot.commit_user, snapshot.commit_identifier, exact=True)
    if TableCommit(store, commit_id).find_committed() is not None:
        # There is a commit of that number of its own.
        commit_id = CommitId(snapshot.commit_user, BATCH_COMMIT_IDENTIFIER)
    TableCommit(store, commit_id, listeners).commit(
        # Without paths: the files are the other branch's too, and stay whatever happens here.
        [CommitMessage(tuple(entry for entry in delta if entry.kind == ADD), (), tuple(changelog))],
        deleted=[entry for entry in delta if entry.kind != ADD],
        kind=snapshot.commit_kind,
        operation=snapshot.operation,
        properties={**(snapshot.properties or {}), TAKEN_OVER_PROPERTY: mark(other, snapshot)},
        watermark=snapshot.watermark,
        guard=lambda _: refuse_if_diverged(store, other),
    )


def restore_earlier(main: TableStore, branch: TableStore, *, from_id: int = 0) -> None:
    """Give a branch main's snapshots from before its own earliest one, back to an id."""
    earliest = branch.snapshots.earliest_id()
    # From the newest to the oldest, so that the branch's history never has a gap.
    for snapshot in sorted(main.snapshots.all(), key=lambda one: -one.id):
        if earliest is not None and from_id <= snapshot.id < earliest:
            branch.snapshots.restore(snapshot)
            branch.snapshots.write_hint("EARLIEST", snapshot.id)


def copy_tags(source: TableStore, target: TableStore, *, up_to: int | None = None) -> None:
    """Give a branch the tags of another, but for names that it has; those of snapshots up to an id."""
    for tag in source.tags.all():
        if (up_to is None or tag.snapshot.id <= up_to) and target.tags.find(tag.name) is None:
            target.tags.create(tag.name, tag.snapshot)


def copy_schemas(source: TableStore, target: TableStore) -> None:
    """Give a branch the versions of the schema that another has and it lacks."""
    known = target.schemas.ids()
    for schema_id in source.schemas.ids():
        if schema_id not in known:
            target.schemas.create(source.schemas.get(schema_id))


def refuse_other_schemas(source: TableStore, target: TableStore) -> None:
    """Raise CommitConflict if both branches have a version of the schema that is not the same."""
    if other := _other_schemas(source, target):
        raise CommitConflict(
            f"Version {other[0]} of the schema of {source.identifier.full_name} is another one on branch "
            f"{source.identifier.branch!r} than on {target.identifier.branch!r}: both were altered. Apply the branch's "
            "changes of columns to main by hand, or insist with discard-main."
        )


def _other_schemas(source: TableStore, target: TableStore) -> list[int]:
    both = sorted(set(source.schemas.ids()) & set(target.schemas.ids()))
    return [one for one in both if source.schemas.get(one) != target.schemas.get(one)]


def _replace_schemas(branch: TableStore, main: TableStore) -> None:
    """Give main the branch's versions of the schema in the place of its own; those beyond go, the newest first."""
    for schema_id in sorted(set(main.schemas.ids()) - set(branch.schemas.ids()), reverse=True):
        main.schemas.delete(schema_id)
    for schema_id in _other_schemas(branch, main):
        main.schemas.replace(branch.schemas.get(schema_id))
