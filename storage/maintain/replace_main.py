"""Replace main with a branch: main is the branch from then on, and what main was is dropped.

Jobs that write to the branch go on as if nothing had happened; readers of main see it at once. The steps, each of which
leaves a valid table and can be repeated: the branch gets what main has and it lacks (what main did elsewhere, older
snapshots, schemas, tags, consumers); main is closed to writers; the file MAIN-BRANCH names the branch; the old main goes.
Source: the branch document.
"""

from collections.abc import Sequence

from ..errors import CommitConflict, CorruptData, NotFound
from ..identifier import MAIN_BRANCH, Identifier
from ..metadata.discard import discard
from ..metadata.main_branch import find_main, name_main
from ..metadata.snapshot import Snapshot
from ..metadata.table_store import TableStore
from ..paths import TablePaths
from ..read.version import on_branch
from ..write.close import DELETION, REPLACEMENT, close, closed_for, decide, is_closed_for, open_again, refuse_closed
from ..write.commit import CommitListener, Guard
from .become import Moved
from .merge_branch import copy_schemas, copy_tags, put_on_top, refuse_other_schemas, restore_earlier
from .references import delete_unneeded, last_needed
from .verdict import Verdict, judge, refuse_diverged


def replace_main(
    store: TableStore,
    name: str,
    *,
    discard_main: bool = False,
    guard: Guard | None = None,
    listeners: Sequence[CommitListener] = (),
) -> Verdict:
    """Make a branch the main of its table; returns the verdict. What main did elsewhere is put on top of the branch.

    `guard` is asked with main's newest snapshot before main is closed.

    Raises NotFound that lists the branches, CommitConflict that names what would be lost if main has diverged, unless
    `discard_main`.
    """
    branch = on_branch(store, name)
    main = on_branch(store, MAIN_BRANCH)
    if main.paths.branch == name:
        _drop_old(main)
        return judge(main, main)
    reason = f"{REPLACEMENT} {name}"
    closing: Snapshot | None = None
    while closing is None:
        verdict = judge(main, branch)
        latest = verdict.judged
        if latest is not None and closed_for(latest) == reason:
            # What a replacement that died has left: everything is on the branch.
            closing = latest
            break
        refuse_closed(main, latest)
        refuse_closed(branch, verdict.taken)
        if not discard_main:
            refuse_diverged(main, branch, verdict)
        if verdict.kind == "disjoint" or not discard_main:
            refuse_other_schemas(main, branch)
            copy_schemas(main, branch)
            newest = branch.schemas.latest()
            # Under the schema that it has now.
            branch = branch if newest is None else branch.at_schema(newest)
        try:
            _complete(main, branch, verdict, listeners)
        except Moved:
            continue
        if guard is not None:
            guard(latest)
        closing = close(main, latest, reason)
    _refuse_deleted(main, branch, closing, name)
    _hand_over_consumers(main, branch)
    if not name_main(main.file_io, main.paths, branch.paths, branch.read_witness()):
        raise CommitConflict(
            f"Main of {main.identifier.full_name} has been replaced with another branch since. Open the table again."
        )
    _drop_old(on_branch(branch, MAIN_BRANCH))
    return verdict


def _refuse_deleted(main: TableStore, branch: TableStore, closing: Snapshot, name: str) -> None:
    """Open main again, and raise CommitConflict, if somebody is deleting the branch that main was closed for.

    Who deletes it closes it first and then looks whether main is closed for it: one of both sees the other. What has been
    decided for this closing holds, whoever repeats the call.
    """
    is_deleted = not branch.is_same_table() or closed_for(branch.snapshots.latest()) == f"{DELETION} {name}"
    if not is_deleted and decide(main, closing, "done"):
        return
    if is_deleted and not decide(main, closing, "opened"):
        # It was decided before the deletion began, which gives up then.
        return
    open_again(main, closing)
    raise CommitConflict(
        f"Branch {name!r} of {main.identifier.full_name} is being deleted. Main stays what it is; if the deletion has died, "
        "delete the branch again."
    )


def _complete(main: TableStore, branch: TableStore, verdict: Verdict, listeners: Sequence[CommitListener]) -> None:
    """Give a branch what it lacks of main."""
    if verdict.kind == "disjoint" and verdict.lost:
        put_on_top(branch, main, verdict, None, None, listeners, snapshots=verdict.lost)
    copy_tags(main, branch, up_to=(verdict.common or 0) if verdict.kind == "diverged" else None)
    earliest = branch.snapshots.earliest_id()
    if verdict.common is not None and earliest is not None and earliest <= verdict.common + 1:
        restore_earlier(main, branch)
    for changelog in main.changelogs.all():
        if verdict.common is not None and changelog.id < (earliest or 0):
            branch.changelogs.keep(changelog)
    branch.committed.take_over(main.committed)


def _hand_over_consumers(main: TableStore, branch: TableStore) -> None:
    """Give a branch the consumers of main, but for names that it has, once main is closed: who changes one on main looks
    afterwards whether main is closed, and says so.
    """
    for consumer in main.consumers.all():
        branch.consumers.put(consumer, None, branch.clock.unique_name())
    # What expired on the branch before they came there.
    restore_earlier(main, branch)


def _drop_old(main: TableStore) -> None:
    """Drop whatever was main before, with the files that nobody needs then."""
    for old in _closed_for_good(main):
        try:
            snapshots = list(old.snapshots.all())
            tags = old.tags.all()
            candidates = last_needed(old, snapshots)
            for tag in tags:
                candidates |= last_needed(old, [tag.snapshot])
            schemas = [old.schemas.get(schema_id) for schema_id in old.schemas.ids()]
        except (NotFound, CommitConflict, CorruptData):
            # Somebody else has dropped it, or the table.
            if main.is_same_table() and any(one.paths == old.paths for one in _closed_for_good(main)):
                raise
            continue
        # Asked once all is read: what is deleted is compared with it, and of a later table nothing is.
        if not main.is_same_table():
            return
        if not snapshots or not is_closed_for(snapshots[-1], REPLACEMENT):
            continue
        # Without its first schema it is no branch any more.
        for schema in schemas:
            old.schemas.delete_if(schema)
        for tag in tags:
            old.tags.delete_if(tag)
        for directory in (
            old.paths.consumer_directory, old.paths.changelog_directory, old.paths.trouble_directory,
            old.paths.committed_directory,
        ):  # fmt: skip
            # Who sleeps here deletes nothing of a table that has the name later.
            discard(old.file_io, directory, lambda: not main.is_same_table())
        for snapshot in snapshots[:-1]:
            old.snapshots.delete_if(snapshot)
        for hint in ("EARLIEST", "LATEST"):
            old.file_io.delete(f"{old.paths.snapshot_directory}/{hint}")
        # By the last of them a replacement that died is known, and writers who have the old main at hand are stopped.
        old.snapshots.end(snapshots[-1], main.paths.branch)
        delete_unneeded(main, candidates)


def _closed_for_good(main: TableStore) -> list[TableStore]:
    """What was main before main was replaced, and is not dropped yet."""
    file_io, root = main.file_io, main.paths.root
    names = [name.removeprefix("branch-") for name in file_io.list_directories(main.paths.branch_directory)]
    found = []
    for name in [MAIN_BRANCH, *names]:
        paths = TablePaths(root, name)
        if paths == find_main(file_io, root):
            continue
        identifier = Identifier(main.identifier.database, main.identifier.table, name)
        old = TableStore(file_io, root, identifier, main.schema, main.clock, paths)
        try:
            latest = old.snapshots.latest()
        except CommitConflict:
            continue
        if is_closed_for(latest, REPLACEMENT):
            found.append(old)
    return found
