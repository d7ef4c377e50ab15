"""Replace main with a branch: main is the branch from then on, and what main was is dropped.

Jobs that write to the branch go on as if nothing had happened; readers of main see it at once. The steps, each of which
leaves a valid table and can be repeated: main is closed, so that nothing changes any more but the branch; the branch gets
what main has and it lacks (what main did elsewhere, older snapshots, schemas, tags); it is decided that main goes; the branch
gets its consumers; the file MAIN-BRANCH names the branch; the old main goes. Source: the branch document. Follows
`docs/protocols.md`.
"""

import posixpath
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from ..directory_lock import Witness
from ..errors import OUTCOME_UNKNOWN, CommitConflict, CorruptData, MainReplaced, NotFound, StorageError
from ..iceberg.publish import publish_after
from ..identifier import MAIN_BRANCH, Identifier
from ..log.publish import send_after
from ..metadata.consumer import Consumer
from ..metadata.discard import delete_moved, discard
from ..metadata.history import identity_at
from ..metadata.main_branch import find_main, name_main, unname_main
from ..metadata.pointed_schema import point_at_main
from ..metadata.schema import TableSchema, points_at
from ..metadata.snapshot import Snapshot, standing
from ..metadata.table_store import TableStore
from ..metadata.trouble import RESCALING, afterwards
from ..paths import TablePaths
from ..read.version import on_branch
from ..write.attempt import Guard
from ..write.close import (
    REPLACEMENT,
    close,
    close_again,
    closed_by,
    closed_for,
    decide,
    is_closed_for,
    open_again,
    refuse_closed,
)
from ..write.listeners import CommitListener, tell_of_commit
from ..write.required_columns import became_required, refuse_nulls
from ..write.taken_over import ids_of
from .become import Moved, guard_of, live_entries
from .branch_tags import tags_of_branch
from .follow import tell_after
from .hold import delete_hold
from .left_over import LeftOver, delete_left_over, files_of_branch
from .merge_branch import copy_schemas, copy_tags, put_on_top, restore_earlier
from .rescale import behind, rescale_behind
from .verdict import Verdict, judge, refuse_altered, refuse_diverged

_TRIES = 100


def replace_main(
    store: TableStore,
    name: str,
    *,
    discard_main: bool = False,
    guard: Guard | None = None,
    listeners: Sequence[CommitListener] = (),
) -> Verdict:
    """Make a branch the main of its table; returns the verdict. What main did elsewhere is put on top of the branch.

    `guard` is asked with main's newest snapshot before main is closed, and once it is. Raises NotFound that lists the
    branches, CommitConflict that names what would be lost if main has diverged, unless `discard_main`.
    """
    branch = on_branch(store, name)
    main = on_branch(store, MAIN_BRANCH)
    if main.paths.branch == name:
        _drop_old(main)
        return judge(main, main)
    reason = f"{REPLACEMENT} {name}"
    verdict: Verdict | None = None
    put: Snapshot | None = None
    for tries_left in reversed(range(_TRIES)):
        latest = main.snapshots.latest()
        closing = latest if latest is not None and closed_for(latest) == reason else None
        if guard is not None and closed_by(closing) is not None:
            # A publication alone opens again what it has closed, as long as it is open.
            guard(closing)
        try:
            verdict = judge(main, branch)
            refuse(main, branch, latest, verdict, discard_main=discard_main)
            if guard is not None:
                guard(latest)
            if closing is None:
                refuse_closed(main, latest)
                close(main, latest, reason)
                # Judged again: the branch may have moved, or be about to be deleted, and schemas are not in the history.
                continue
            put = _complete(main, branch, verdict, listeners, with_schemas=takes_schemas(verdict)) or put
        except OUTCOME_UNKNOWN:
            raise
        except StorageError as error:
            main.refuse_other_table()
            if _has_moved(error, branch) and tries_left:
                continue
            if closing is None:
                raise
            if decide(main, closing, "opened"):
                open_again(main, closing)
                raise
            # Somebody else has decided otherwise, and given the branch everything before.
            if verdict is None:
                raise
        left_out = _left_out(main, latest)
        if decide(main, closing, "done"):
            _name(main, branch, verdict)
            _end(branch, verdict, put, listeners, left_out)
            return verdict
        open_again(main, closing)
    raise CommitConflict(f"Writers of {main.identifier.full_name} come first each time. Stop them, then replace main.")


def _has_moved(error: StorageError, branch: TableStore) -> bool:
    """Whether an error says that somebody has written, or that snapshots have expired."""
    return isinstance(error, Moved) or (isinstance(error, NotFound) and branch.is_same_table())


def replace_closed(
    store: TableStore, name: str, *, guard: Guard, publication: int, listeners: Sequence[CommitListener] = ()
) -> Verdict:
    """Replace a main that a publication has closed for it, once that has decided that mains are replaced: nothing is refused
    for what it would lose, and main is not opened any more.

    `guard` is asked before each try. Raises CommitConflict if main is not closed by that publication.
    """
    put: Snapshot | None = None
    for tries_left in reversed(range(_TRIES)):
        branch, main = on_branch(store, name), on_branch(store, MAIN_BRANCH)
        if main.paths.branch == name:
            _drop_old(main)
            return judge(main, main)
        latest = main.snapshots.latest()
        guard(latest)
        if latest is None or closed_by(latest) != publication:
            raise CommitConflict(f"{main.identifier.full_name} is not closed by publication {publication}.")
        try:
            verdict = judge(main, branch)
            main.refuse_other_table()
            branch.refuse_other_table()
            # What it had elsewhere the branch has been given before, unless somebody has rolled the branch back.
            with_schemas = verdict.kind == "disjoint"
            put = _complete(main, branch, verdict, listeners, with_schemas=with_schemas, is_decided=True) or put
        except (Moved, NotFound):
            main.refuse_other_table()
            # Somebody has written, or snapshots have expired.
            if not tries_left or not branch.is_same_table():
                raise
            continue
        left_out = _left_out(main, latest)
        if decide(main, latest, "done"):
            _name(main, branch, verdict)
            _end(branch, verdict, put, listeners, left_out)
            return verdict
        # Closed late, by somebody who has died before he could close it once more: nobody writes in between.
        close_again(main, latest)
    raise CommitConflict(f"What becomes of {store.identifier.full_name} was decided otherwise. Replace its main again.")


def refuse(
    main: TableStore, branch: TableStore, latest: Snapshot | None, verdict: Verdict, *, discard_main: bool
) -> None:
    """Raise Moved unless a verdict is about the latest snapshot of main, CommitConflict if main must not be replaced."""
    main.refuse_other_table()
    branch.refuse_other_table()
    guard_of(latest)(verdict.judged)
    refuse_closed(branch, verdict.taken)
    if not discard_main:
        refuse_diverged(main, branch, verdict)
    if takes_schemas(verdict):
        refuse_altered(main, branch)
        refuse_nulls_of(main, branch, verdict.taken)


def refuse_nulls_of(main: TableStore, branch: TableStore, taken: Snapshot | None) -> None:
    """Raise CommitConflict if a branch that is given the schema of main may hold nulls that this does not allow."""
    newest = main.schemas.latest()
    if (
        newest is None
        or taken is None
        or not any(became_required(branch.schemas.get(number), newest) for number in branch.schemas.ids())
    ):
        return
    refuse_nulls(branch, newest, live_entries(branch, taken))


def takes_schemas(verdict: Verdict) -> bool:
    """Whether a branch that becomes main is given the schemas that main has and it lacks: with the snapshots and tags that are
    written with them. Of a main that has diverged it takes those alone that it has parted from.
    """
    return verdict.kind != "diverged"


def _complete(
    main: TableStore,
    branch: TableStore,
    verdict: Verdict,
    listeners: Sequence[CommitListener],
    *,
    with_schemas: bool,
    is_decided: bool = False,
) -> Snapshot | None:
    """Give a branch what it lacks of a main that is closed; returns the commit that puts main's rows there, None if there are
    none. Can be done again after a crash. Once it `is_decided` that main goes, tags, kept changelogs and remembered commit ids
    that cannot be read are handed over as they are.
    """
    put = give_rows(main, branch, verdict, listeners, with_schemas=with_schemas)
    up_to = (verdict.common or 0) if verdict.kind == "diverged" else None
    copy_tags(main, branch, up_to=up_to, common=verdict.common, damaged_too=is_decided)
    _restore_earlier(main, branch, verdict)
    earliest = branch.snapshots.earliest_id()
    if not is_decided:
        # What cannot be read opens main again.
        list(main.changelogs.all())
    if verdict.common is not None:
        main.changelogs.hand_over(branch.changelogs, below=earliest or 0)
    # What is in the branch since it was made, and was not given back to it. Read before what main remembers, since what
    # expires meanwhile goes there first.
    here = {snapshot.identity for snapshot in branch.snapshots.all()}
    others = [snapshot for snapshot in standing(main.snapshots.all()) if snapshot.identity not in here]
    # Those whose rows go with main as well: who repeats one of them must not bring them back.
    if is_decided:
        main.committed.hand_over(branch.committed, ids_of(others))
    else:
        branch.committed.remember([*ids_of(others), *main.committed.all()])
    return put


def give_rows(
    main: TableStore, branch: TableStore, verdict: Verdict, listeners: Sequence[CommitListener], *, with_schemas: bool
) -> Snapshot | None:
    """Give a branch the schemas of a main that is closed and what that did elsewhere: what could be refused. Returns the
    commit, None if there is none. Can be done again after a crash.
    """
    if with_schemas:
        copy_schemas(main, branch)
        # From here on no commit brings nulls to the branch that its newest schema does not allow; one may have before.
        refuse_nulls_of(main, branch, branch.snapshots.latest())
        newest = branch.schemas.latest()
        # Under the schema that it has now.
        branch = branch if newest is None else branch.at_schema(newest)
    if verdict.kind == "disjoint" and verdict.lost:
        return put_on_top(branch, main, verdict, None, None, listeners, snapshots=verdict.lost)
    return None


def _restore_earlier(main: TableStore, branch: TableStore, verdict: Verdict) -> None:
    """Give a branch main's snapshots from before they parted, unless what the branch did next has expired there."""
    earliest = branch.snapshots.earliest_id()
    if verdict.common is not None and earliest is not None and earliest <= verdict.common + 1:
        restore_earlier(main, branch)


def _hand_over_consumers(main: TableStore, branch: TableStore, verdict: Verdict) -> None:
    """Give a branch the consumers of main, but for names that it has, once main is closed: who changes one on main looks
    afterwards whether main is closed, and says so.
    """
    main.consumers.hand_over(
        branch.consumers, lambda consumer: _going_on(main, branch, consumer, verdict), branch.clock.unique_name()
    )
    # What expired on the branch before they came there.
    _restore_earlier(main, branch, verdict)


def _going_on(main: TableStore, branch: TableStore, consumer: Consumer, verdict: Verdict) -> Consumer:
    """A consumer of main as the branch goes on with it: after the last snapshot that it has read, if the branch has that as
    well; after the last that both have, if its rows are those that the consumer knows. Else it is told of a snapshot that is
    none of the branch, and its next reading is refused.
    """
    position, common = consumer.next_snapshot_id - 1, verdict.common or 0
    last_read = consumer.last_read or identity_at(main, position)
    if position == 0 or (last_read is not None and identity_at(branch, position) == last_read):
        return replace(consumer, last_read=last_read)
    if position > common and _tells_nothing(main, common, position):
        return replace(consumer, next_snapshot_id=common + 1, last_read=identity_at(branch, common))
    if last_read is None and position > common:
        # By a number alone it would be taken for the branch's own.
        last_read = f"snapshot {position} of what was main"
    return replace(consumer, last_read=last_read)


def _tells_nothing(main: TableStore, after: int, until: int) -> bool:
    """Whether readers of changes know the same rows after both of two snapshots of a main: nothing that came in between has
    told of any.
    """
    between = [snapshot for snapshot in main.snapshots.all() if after < snapshot.id <= until]
    telling = [
        snapshot for snapshot in between if snapshot.changes_rows or snapshot.changelog_manifest_list is not None
    ]
    return len(between) == until - after and not telling


def _name(main: TableStore, branch: TableStore, verdict: Verdict) -> None:
    """Let everybody know that a branch is main, and drop what was main. Raises CommitOutcomeUnknown if the table has been
    dropped or renamed meanwhile.
    """
    # Unless somebody else has named it, and handed them over before.
    with suppress(MainReplaced):
        _hand_over_consumers(main, branch, verdict)
    try:
        named = name_main(main.file_io, main.paths, branch.paths, branch.read_witness())
    except NotFound:
        branch.refuse_moved("The name of a new main branch")
        raise
    if named and not branch.is_same_table():
        # In the place of the table that was, where there may be another one by now.
        unname_main(main.file_io, branch.paths)
    branch.refuse_moved("The name of a new main branch")
    if not named:
        raise CommitConflict(
            f"Main of {main.identifier.full_name} has been replaced with another branch since. Open the table again."
        )


def _left_out(main: TableStore, latest: Snapshot | None) -> frozenset[bytes]:
    """The partitions of a main that a rescale has left out, as far as they can be read."""
    with suppress(NotFound, CorruptData):
        return behind(main, latest)
    return frozenset()


def _end(
    branch: TableStore,
    verdict: Verdict,
    put: Snapshot | None,
    listeners: Sequence[CommitListener],
    left_out: frozenset[bytes],
) -> None:
    """Drop what was main, tell of what main has now, and do what follows once its rows and schemas have come to the branch.
    `left_out`: the partitions whose files had another number of buckets than main had by its schema.
    """
    try:
        main = on_branch(branch, MAIN_BRANCH)
        _drop_old(main)
        for store, tag in tags_of_branch(main):
            delete_hold(store, tag)
        for snapshot in (*verdict.new, *(() if put is None else (put,))):
            # They were told of it as the branch's alone.
            tell_of_commit(main, listeners, snapshot)
        publish_after(main, None)
        send_after(main, None)
        tell_after(main, put, listeners)
        afterwards(main, RESCALING, lambda: rescale_behind(main, left_out, listeners), None)
    except (NotFound, CorruptData):
        # What was main has gone along with the table.
        if branch.is_same_table():
            raise


def _drop_old(main: TableStore) -> None:
    """Let others find what is main, and drop whatever was before, with the files that nobody needs then."""
    point_at_main(main.file_io, main.paths, main.read_witness)
    for old, schemas, closing in _closed_for_good(main):
        numbers = [number for number in old.snapshots.listed_ids() if number < closing.id]
        tags = [old.paths.tag(name) for name in old.tags.names()]
        contents = {path: old.file_io.read_bytes_or_none(path) for path in [*tags, *map(old.paths.snapshot, numbers)]}
        left_over: LeftOver = ()
        with suppress(MainReplaced):
            left_over = files_of_branch(old)
        if _content(old, closing) is None:
            # Somebody else drops it.
            continue
        if isinstance(left_over, NotFound):
            # Whoever began to drop it has died, and others have cleaned since: nobody needs its files any more.
            left_over = ()
        # Without its first schema it is no branch any more.
        for schema in schemas:
            if points_at(schema) is None:
                old.schemas.delete_if(schema)
        for path in tags:
            _delete_if(old, path, contents[path])
        for directory in (
            old.paths.consumer_directory,
            old.paths.changelog_directory,
            old.paths.trouble_directory,
            old.paths.committed_directory,
        ):
            _delete_directory(old, directory, closing)
        for number in numbers:
            path = old.paths.snapshot(number)
            _delete_if(old, path, contents[path])
        # By the last of them a replacement that died is known, and writers who have the old main at hand are stopped.
        with suppress(MainReplaced):
            old.snapshots.end(closing, main.paths.branch)
        delete_left_over(main, left_over, "What was main is dropped")


def _delete_if(old: TableStore, path: str, content: bytes | None) -> None:
    """Delete a file of what was main, damaged or not, unless it has become another one."""
    if content is not None:
        old.file_io.delete_if(path, content)


def _content(old: TableStore, closing: Snapshot) -> bytes | None:
    """What the snapshot holds that closes what was main; None if somebody else has dropped that."""
    with suppress(MainReplaced):
        return old.snapshots.content_if(closing)
    return None


def _delete_directory(old: TableStore, directory: str, closing: Snapshot) -> None:
    """Delete a directory of what was main: not of a table that may have come to that place meanwhile."""
    file_io = old.file_io
    if not file_io.moves_at_once:
        discard(file_io, directory, lambda: _content(old, closing) is None)
        return
    content, path = _content(old, closing), old.paths.snapshot(closing.id)
    place = f"{old.paths.branch_directory}/.old-{old.clock.unique_name()}"
    gone = f"{place}/{posixpath.basename(directory)}"
    if content is not None and file_io.exists(directory):
        with suppress(NotFound):
            file_io.move_directory_if(directory, gone, Witness(old.paths.root, path, content))
            done = f"What was main of {old.identifier.full_name} is dropped"
            delete_moved(file_io, place, done, "orphan cleaning")


def _closed_for_good(main: TableStore) -> list[tuple[TableStore, list[TableSchema], Snapshot]]:
    """What was main before main was replaced, and is not dropped yet, with its schemas and the snapshot that closes it."""
    file_io, root = main.file_io, main.paths.root
    names = [name.removeprefix("branch-") for name in file_io.list_directories(main.paths.branch_directory)]
    closed = []
    for name in [MAIN_BRANCH, *names]:
        paths = TablePaths(root, name)
        if paths == find_main(file_io, root):
            continue
        identifier = Identifier(main.identifier.database, main.identifier.table, name)
        old = TableStore(file_io, root, identifier, main.schema, main.clock, paths)
        try:
            # Before the snapshot: so they are those of the table that is closed, and not of one that came later.
            schemas = [old.schemas.get(schema_id) for schema_id in old.schemas.ids()]
            latest = old.snapshots.latest()
        except (CommitConflict, CorruptData, NotFound):
            # It is dropped, or being dropped by somebody else.
            continue
        if latest is not None and is_closed_for(latest, REPLACEMENT):
            closed.append((old, schemas, latest))
    return closed
