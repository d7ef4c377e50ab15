"""Branches: fork a table without copying data, and forget a fork.

A branch has snapshots, schemas and tags of its own; data files are shared and never copied. What always holds: a branch
exists once its `schema-0` does, and nobody sees half of one; a branch that is deleted is closed to writers first. Follows
`docs/protocols.md`.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from ..errors import (
    OUTCOME_UNKNOWN,
    AlreadyExists,
    CommitConflict,
    CommitOutcomeUnknown,
    CorruptData,
    NotFound,
    StorageError,
)
from ..file_io import Witness
from ..identifier import MAIN_BRANCH, Identifier, check_new_branch_name
from ..late_requests import with_generation
from ..metadata.branch_origin import BranchOrigin, origin_content, read_origin
from ..metadata.discard import delete_moved, discard
from ..metadata.history import identity_at
from ..metadata.main_branch import find_main
from ..metadata.pointed_schema import own_schema
from ..metadata.snapshot import Snapshot
from ..metadata.table_store import TableStore
from ..metadata.tag import Tag
from ..paths import TablePaths
from ..read.version import branch_names, on_branch
from ..store_errors import made_or_told, outcome
from ..write.close import (
    DELETION,
    RENAMING,
    REPLACEMENT,
    close,
    closed_for,
    decide,
    decision,
    is_closed_for,
    open_again,
    refuse_closed,
)
from .branch_tags import branch_tag, tags_of_branch
from .hold import held, is_kept
from .left_over import LeftOver, delete_left_over, files_of_branch
from .lost_schema import has_lost_schema
from .move_table import refuse_renaming

# What a branch begins with carries a mark, so that it is not taken for that of another branch of the same name.
_BRANCH_ID_KEY = "snapline.branch-id"
_TRIES = 20
_ABANDONED_MS = 3_600_000


def create_branch(
    store: TableStore, name: str, snapshot: Snapshot | None, tag: Tag | None = None, *, latest_schema: bool = False
) -> TableStore:
    """Fork at a snapshot (with the tag that names it, if given); None makes an empty branch.

    The branch has the snapshot's schema and those before, or all, the latest among them, if it is empty or `latest_schema`
    is set. Raises AlreadyExists if there is one of that name, NotFound if the snapshot expires meanwhile.
    """
    with drafted_branch(store, name, snapshot, tag, latest_schema=latest_schema) as give_name:
        return give_name()


@contextmanager
def drafted_branch(
    store: TableStore, name: str, snapshot: Snapshot | None, tag: Tag | None = None, *, latest_schema: bool = False
) -> Iterator[Callable[[], TableStore]]:
    """As `create_branch`, in two steps: what a branch has is written where nobody looks, and what this gives gives it its
    name, for which no file is written. Without that nothing of it stays. On object stores the second step does all.
    """
    check_new_branch_name(name)
    store.refuse_other_table()
    exists = AlreadyExists(
        f"Branch {name!r} of {store.identifier.full_name} exists. Delete it first, or choose another name."
    )
    if name in branch_names(store) or name == find_main(store.file_io, store.paths.root).branch:
        raise exists
    if has_lost_schema(store.file_io, store.paths.root, name):
        raise CorruptData(
            f"Branch {name!r} of {store.identifier.full_name} is there, and its schema is lost: restore it, or delete the branch."
        )

    def named(give_name: Callable[[], TableStore | None]) -> TableStore:
        made = give_name()
        if made is None:
            raise exists
        return made

    try:
        if snapshot is None:
            with _draft(store, name, None, None, store.clock.unique_name(), latest_schema=latest_schema) as give_name:
                yield partial(named, give_name)
        else:
            with (
                held(store, snapshot, lambda hold: is_kept(store, snapshot, hold)),
                _tagged_draft(store, name, snapshot, tag, latest_schema=latest_schema) as give_name,
            ):
                yield partial(named, give_name)
    except NotFound:
        # What it is made from has gone along with what the table was.
        store.refuse_other_table()
        raise


@contextmanager
def _tagged_draft(
    store: TableStore, name: str, snapshot: Snapshot, tag: Tag | None, *, latest_schema: bool
) -> Iterator[Callable[[], TableStore | None]]:
    """As `_draft`, with a tag where the branch is made; it goes again if there comes no branch."""
    identity = store.clock.unique_name()
    kept = store.tags.create(branch_tag(identity), snapshot)
    asked: list[bool] = []
    made: list[TableStore] = []

    def give_name() -> TableStore | None:
        asked.append(True)
        branch = given()
        made.extend([] if branch is None else [branch])
        return branch

    try:
        with _draft(store, name, snapshot, tag, identity, latest_schema=latest_schema) as given:
            yield give_name
    except BaseException as error:
        # It may be of another branch of a set.
        if not made and not (asked and isinstance(error, OUTCOME_UNKNOWN)):
            with suppress(StorageError, OSError):
                store.tags.delete_if(kept)
        raise
    if not made:
        store.tags.delete_if(kept)


@contextmanager
def _draft(
    store: TableStore, name: str, snapshot: Snapshot | None, tag: Tag | None, identity: str, *, latest_schema: bool
) -> Iterator[Callable[[], TableStore | None]]:
    """Write a branch where nobody looks; gives what gives it its name, None if somebody else has taken that meanwhile."""
    file_io, root = store.file_io, store.paths.root
    final = TablePaths(root, name)
    # Where a directory cannot be renamed at once, the branch is made in its place: who made its ORIGIN owns it.
    paths = TablePaths(root, name, making=identity) if file_io.moves_at_once else final
    begun_at = snapshot.id if snapshot else None
    origin = BranchOrigin(store.identifier.branch, tag.name if tag else None, begun_at, store.clock.now_ms(), identity)
    if snapshot is not None:
        with suppress(CorruptData):
            # What a tag has kept of another branch was forked off elsewhere.
            is_own = identity_at(store, snapshot.id) == snapshot.identity
            origin = origin.begun_at(snapshot, read_origin(file_io, store.paths) if is_own else None)
    own = Witness(paths.metadata_root, paths.origin, origin_content(origin))

    def write() -> None:
        _write(store, paths, final, own, identity, snapshot, tag, latest_schema=latest_schema)

    def give_name() -> TableStore | None:
        asked.append(True)
        if paths == final:
            refuse_renaming(store)
            if not _claim(store, final, own.content):
                return None
            write()
        elif not _name(store, paths, final, own):
            return None
        with outcome(f"Branch {name!r} of {store.identifier.full_name} is there."):
            return _made(store, name, paths, final, own)

    asked: list[bool] = []
    try:
        if paths != final:
            file_io.create_exclusively(paths.origin, own.content, of=store.read_witness())
            write()
        yield give_name
    finally:
        if paths != final and not asked:
            with suppress(StorageError, OSError):
                file_io.delete_directory(paths.metadata_root)


def _write(
    store: TableStore,
    paths: TablePaths,
    final: TablePaths,
    own: Witness,
    identity: str,
    snapshot: Snapshot | None,
    tag: Tag | None,
    *,
    latest_schema: bool,
) -> None:
    """Write what a branch has, but its ORIGIN."""
    file_io = store.file_io
    if snapshot is not None:
        begin = snapshot.without_others().with_others({_BRANCH_ID_KEY: identity})
        file_io.create_exclusively(paths.snapshot(snapshot.id), begin.to_json().encode(), of=own)
        for hint in ("EARLIEST", "LATEST"):
            file_io.raise_number(f"{paths.snapshot_directory}/{hint}", snapshot.id, of=own)
        named = {branch_tag(identity): snapshot.without_others()} | (
            {tag.name: tag.snapshot} if tag is not None else {}
        )
        for tag_name, tagged in named.items():
            file_io.create_exclusively(paths.tag(tag_name), tagged.to_json(f"tag-{tag_name}").encode(), of=own)
    schema_ids = store.schemas.ids()
    if snapshot is not None and not latest_schema:
        schema_ids = [schema_id for schema_id in schema_ids if schema_id <= max(snapshot.schema_id, 0)]
    try:
        schemas = {
            schema_id: with_generation(file_io, paths.schema(schema_id), own_schema(file_io, store.paths, schema_id))
            for schema_id in reversed(schema_ids)
        }
    except NotFound:
        # Main has been replaced, and what it was is dropped.
        if paths != final:
            file_io.delete_directory(paths.metadata_root)
        else:
            _take_away(store, final, own)
        raise
    for schema_id, content in schemas.items():
        # With the last of them, the branch is there.
        _create_schema(store, paths, schema_id, content, own)


def _create_schema(store: TableStore, paths: TablePaths, schema_id: int, content: bytes, own: Witness) -> None:
    path = paths.schema(schema_id)
    made_or_told(
        lambda: store.file_io.create_exclusively(path, content, of=own),
        lambda: store.file_io.read_bytes_or_none(path) == content,
        f"version {schema_id} of the schema of branch {paths.branch!r}",
    )


def _made(store: TableStore, name: str, paths: TablePaths, final: TablePaths, own: Witness) -> TableStore:
    """A branch that has its name; nobody has it if its table has gone meanwhile."""
    file_io, root = store.file_io, store.paths.root
    if not store.is_same_table():
        _take_away(store, final, own)
    if not file_io.moves_at_once:
        _refuse_renaming(store, final, own)
    table = store.identifier
    try:
        made = TableStore(file_io, root, Identifier(table.database, table.table, name), clock=store.clock)
    except (NotFound, CorruptData):
        store.refuse_moved(f"Branch {name!r}")
        raise
    if file_io.read_bytes_or_none(final.origin) != own.content:
        store.refuse_moved(f"Branch {name!r}")
        raise NotFound(
            f"Branch {name!r} of {table.full_name} was deleted as soon as it was made, and made anew by others."
        )
    return made


def _name(store: TableStore, made: TablePaths, final: TablePaths, own: Witness) -> bool:
    """Give a branch that is ready its name, if its table is still the same; False if it is taken."""
    file_io = store.file_io

    def move() -> bool:
        return made_or_told(
            lambda: file_io.move_directory_if_absent(made.metadata_root, final.metadata_root, of=store.read_witness()),
            lambda: file_io.read_bytes_or_none(final.origin) == own.content,
            f"branch {final.branch!r}",
        )

    try:
        if not move():
            _clear_remains(store, final)
            if not move():
                file_io.delete_directory(made.metadata_root)
                return False
    except NotFound:
        # The table has moved away, with what was begun or before that.
        file_io.delete_directory(made.metadata_root)
        store.refuse_other_table()
        raise NotFound(
            f"Branch {final.branch!r} took so long to be made that what was begun has been cleaned away. Nothing is done; create "
            "it again."
        ) from None
    return True


def _take_away(store: TableStore, made: TablePaths, own: Witness) -> None:
    """Take a branch away again, and raise NotFound, if it was made in another table, which came meanwhile: on an object
    store. Raise CommitOutcomeUnknown if it has gone along with its own.
    """
    if not store.file_io.moves_at_once and store.file_io.read_bytes_or_none(made.origin) == own.content:
        _discard(store, made, own.content)
        store.refuse_other_table()
    store.refuse_moved(f"Branch {made.branch!r}")


def _refuse_renaming(store: TableStore, made: TablePaths, own: Witness) -> None:
    """Take a branch away again, and raise CommitOutcomeUnknown, if its table is being copied to another place."""
    try:
        refuse_renaming(store)
    except CommitConflict as error:
        if store.file_io.read_bytes_or_none(made.origin) == own.content:
            _discard(store, made, own.content)
        raise CommitOutcomeUnknown(
            f"Branch {made.branch!r} was made while its table is being renamed, and may have gone along: {error}"
        ) from None


def _clear_remains(store: TableStore, paths: TablePaths) -> None:
    """Put away what is left of a branch that is no more: a main that was replaced leaves a mark."""
    origin = store.file_io.read_bytes_or_none(paths.origin)
    if origin is not None and not store.file_io.exists(paths.schema(0)):
        with suppress(NotFound):
            _move_away(store, paths, Witness(paths.root, paths.origin, origin))


def _move_away(store: TableStore, paths: TablePaths, of: Witness) -> None:
    """Delete a branch, by a name of its own first: who sleeps here deletes what he was asked to, and nothing of a later one."""
    gone = TablePaths(paths.root, paths.branch, making=f"{paths.branch}-{store.clock.unique_name()}").metadata_root
    store.file_io.move_directory_if(paths.metadata_root, gone, of)
    done = f"Branch {paths.branch!r} of {store.identifier.full_name} is deleted"
    delete_moved(store.file_io, gone, done, "orphan cleaning")


def _claim(store: TableStore, paths: TablePaths, content: bytes) -> bool:
    """Begin a branch in its place, on an object store, by creating its ORIGIN; False if there is one of that name.

    Raises CommitConflict if another process has begun it, and is not known to have died.
    """
    file_io = store.file_io
    before = file_io.read_bytes_or_none(paths.origin)
    begun = read_origin(file_io, paths)
    if file_io.exists(paths.schema(0)):
        return False
    is_new = begun is None or store.clock.now_ms() - begun.create_time_ms >= _ABANDONED_MS
    if not is_new or not file_io.replace_if(paths.origin, before, content):
        raise CommitConflict(
            f"Branch {paths.branch!r} of {store.identifier.full_name} is being created, or whoever did it has died. Choose "
            f"another name, or try again in an hour."
        )
    # Whose ORIGIN is there owns the rest: what is left of one that was begun or deleted before.
    for name in file_io.list_directories(paths.metadata_root):
        discard(file_io, f"{paths.metadata_root}/{name}", _is_other(store, paths, content))
    return True


def _discard(store: TableStore, paths: TablePaths, origin: bytes | None) -> bool:
    """On an object store: delete a branch file by file, its first schema before all others, as long as its ORIGIN is there;
    False if somebody else does.
    """
    is_other = _is_other(store, paths, origin)
    return discard(store.file_io, paths.metadata_root, is_other, first=(paths.schema_directory,), last=paths.origin)


def _is_other(store: TableStore, paths: TablePaths, origin: bytes | None) -> Callable[[], bool]:
    """What tells whether somebody else has begun a branch of a name."""
    return lambda: store.file_io.read_bytes_or_none(paths.origin) != origin


def delete_branches(origins: Sequence[tuple[TableStore, bytes | None]], name: str, refuse: Callable[[], None]) -> int:
    """Delete a branch of several tables, those that have it, and the files that nobody else needs; returns how many had it.

    All are closed before `refuse` is asked, which raises if they must stay, and it is decided for all that they go before the
    first does: who comes later finds them closed. `origins`: the tables, as `origins_of` gives them. Raises CommitConflict if one
    of them is becoming main, or has been deleted and made anew since `origins` were asked for, NotFound if a table is gone,
    CorruptData if a newest snapshot cannot be read; those that this call has closed are opened again then. The error says so if
    the branch has gone from some.
    """

    def refuse_others() -> None:
        for store, origin in origins:
            now = _origin(store, name)
            if now not in (None, origin):
                raise CommitConflict(
                    f"Branch {name!r} of {store.identifier.full_name} was made anew by others after this deletion had begun, and "
                    "stays. Delete it again if that one is to go."
                )
        refuse()

    return _delete((partial(_close, store, name) for store, _ in origins), name, refuse_others)


def origins_of(stores: Sequence[TableStore], name: str) -> list[tuple[TableStore, bytes | None]]:
    """Tables, each with what tells its branch from later ones of the name; asked before anything is decided about it."""
    return [(store, _origin(store, name)) for store in stores]


def _origin(store: TableStore, name: str) -> bytes | None:
    """By what a branch is told from others of its name."""
    return store.file_io.read_bytes_or_none(TablePaths(store.paths.root, name).origin)


def take_back_branch(made: TableStore, refuse: Callable[[], None]) -> None:
    """Delete a branch again that has just been made, and the files that nobody else needs. Raises CommitConflict, leaving it, if
    anything has come to it since, it is becoming main, or `refuse` raises once it is closed; NotFound if it has gone.
    """
    name = made.paths.branch

    def refuse_changed() -> None:
        _refuse_touched(made)
        refuse()

    _refuse_becoming_main(made, name)
    _delete([lambda *, over_lost: _close_untouched(made)], name, refuse_changed)


@dataclass(frozen=True, slots=True)
class _Closed:
    """A branch with the snapshot that closes it for its deletion, and whether this call has put that there."""

    branch: TableStore
    closing: Snapshot
    is_own: bool


class _Closer(Protocol):
    """Closes a branch; None, nothing being done, if its newest snapshot cannot be read, unless `over_lost`."""

    def __call__(self, *, over_lost: bool) -> list[_Closed] | None: ...


def _delete(closers: Iterable[_Closer], name: str, refuse: Callable[[], None]) -> int:
    closed: list[_Closed] = []
    waiting: list[_Closer] = []
    ended: list[TableStore] = []
    failed: list[StorageError] = []
    try:
        for close_one in closers:
            found = close_one(over_lost=False)
            if found is None:
                waiting.append(close_one)
            closed += found or []
        if waiting:
            # All that may refuse is asked before one is closed that cannot be read.
            for closing in closed:
                _refuse_becoming_main(closing.branch, name)
            refuse()
        for close_one in waiting:
            closed += close_one(over_lost=True) or []
        for closing in closed:
            _refuse_becoming_main(closing.branch, name)
        refuse()
        while closed:
            if not decide(closed[0].branch, closed[0].closing, "done"):
                raise CommitConflict(
                    f"Branch {name!r} of {closed[0].branch.identifier.full_name} has been opened again by whoever closed it."
                )
            ended.append(closed.pop(0).branch)
    except OUTCOME_UNKNOWN:
        raise
    except StorageError as error:
        # What others have closed is theirs: they may have let a part of it go.
        for closing in closed:
            with suppress(CorruptData, NotFound):
                # One that is damaged keeps no other closed.
                if (
                    closing.is_own
                    and closing.branch.is_same_table()
                    and decide(closing.branch, closing.closing, "opened")
                ):
                    open_again(closing.branch, closing.closing)
        if not ended:
            raise
        failed.append(error)
    unneeded: list[tuple[TableStore, LeftOver]] = []
    for branch in ended:
        try:
            unneeded += _remove(branch)
        except (CommitConflict, CorruptData, NotFound) as error:
            # It has been decided that the others go, too.
            failed.append(error)
    for main, left_over in unneeded:
        # The branch has gone, whatever becomes of them.
        delete_left_over(main, left_over, "The branch is deleted")
    if failed:
        gone = ", ".join(main.identifier.full_name for main, _ in unneeded) or "no table"
        raise type(failed[0])(
            f"{failed[0]} This call has deleted branch {name!r} from {gone}, not from the others. Delete it again."
        ) from failed[0]
    return len(unneeded)


def _close(store: TableStore, name: str, *, over_lost: bool) -> list[_Closed] | None:
    """Close a branch for its deletion; returns it, or nothing if there is no such branch.

    Where the lists of its newest snapshot are lost or damaged: None, nothing being done, unless `over_lost`: the closing shows
    what was before then.
    """
    reason = f"{DELETION} {name}"
    for _ in range(_TRIES):
        try:
            branch = on_branch(store, name)
        except NotFound:
            # Of this table, and not only where it was.
            store.refuse_other_table()
            return []
        try:
            latest = branch.snapshots.latest()
            branch.refuse_other_table()
            is_closed = latest is not None and closed_for(latest) == reason
            if is_closed_for(latest, RENAMING):
                refuse_closed(branch, latest)
            if branch.identifier.branch == MAIN_BRANCH:
                if latest is not None and is_closed:
                    # Somebody who was about to delete it before it became main has closed it, and died.
                    open_again(branch, latest)
                return []
            try:
                closing = latest if is_closed else close(branch, latest, reason)
            except (NotFound, CorruptData):
                before = None if latest is None else branch.snapshots.before(latest)
                if before is None or not branch.is_same_table():
                    raise
                if not over_lost:
                    # What can be told before: opened again, it may show less than it had.
                    branch.manifests_of(before)
                    _refuse_becoming_main(branch, name)
                    return None
                closing = close(branch, latest, reason, shows=before)
            if closing is not None and decision(branch, closing) == "opened":
                # Whoever decided that has died, or is about to do it.
                open_again(branch, closing)
            elif closing is not None:
                return [_Closed(branch, closing, not is_closed)]
        except NotFound:
            # Somebody else has deleted it: looked for again.
            if branch.is_same_table():
                raise
    raise CommitConflict(f"Writers of branch {name!r} come first each time. Stop them, then delete the branch.")


def _close_untouched(made: TableStore) -> list[_Closed]:
    """Close a branch that has just been made for its deletion. Raises CommitConflict if anything has come to it since."""
    latest = _refuse_touched(made)
    closing = close(made, latest, f"{DELETION} {made.paths.branch}")
    if closing is None:
        raise _touched(made)
    return [_Closed(made, closing, is_own=True)]


def _refuse_touched(made: TableStore) -> Snapshot | None:
    """Raise CommitConflict if a branch has commits, tags or schemas since it was made; returns its newest snapshot. That it is
    closed for its deletion is none.
    """
    latest, tags, schema = made.snapshots.latest(), made.tags.all(), made.schemas.latest()
    origin = read_origin(made.file_io, made.paths)
    made.refuse_other_table()
    begun = made.snapshots.before(latest) if latest is not None and is_closed_for(latest, DELETION) else latest
    is_as_made = begun is None or begun.others.get(_BRANCH_ID_KEY) is not None
    named = {origin.tag} if origin is not None else set()
    if not is_as_made or schema != made.schema or {tag.name for tag in tags} - named:
        raise _touched(made)
    return latest


def _touched(made: TableStore) -> CommitConflict:
    return CommitConflict(
        f"Branch {made.paths.branch!r} of {made.identifier.full_name} has been changed by others since it was made, and stays."
    )


def _refuse_becoming_main(branch: TableStore, name: str) -> None:
    """Raise CommitConflict if main is closed for a branch that is closed for its deletion.

    Who replaces main closes main first and then looks whether the branch is closed: one of both sees the other.
    """
    main = on_branch(branch, MAIN_BRANCH)
    if main.paths.branch == name or closed_for(main.snapshots.latest()) == f"{REPLACEMENT} {name}":
        raise CommitConflict(
            f"Branch {name!r} of {branch.identifier.full_name} is becoming main. Replace main with it again, which finishes it."
        )


def _remove(branch: TableStore) -> list[tuple[TableStore, LeftOver]]:
    """Make a branch go that is closed for good; returns main, and the files that only the branch may have needed, or why they
    cannot be told, unless somebody else came first.
    """
    main = on_branch(branch, MAIN_BRANCH)
    try:
        # It has been decided that the branch goes, whatever can be read of it.
        left_over = files_of_branch(branch)
        tags = tags_of_branch(branch)
        is_mine = _delete_metadata(branch)
        for store, tag in tags if is_mine else ():
            if store is not branch:
                store.tags.delete_if(tag)
    except NotFound:
        is_mine = False
        if branch.is_same_table():
            raise
    if is_mine:
        return [(main, left_over)]
    main.refuse_other_table()
    return []


def _delete_metadata(branch: TableStore) -> bool:
    """Delete a branch's metadata; False if somebody else has, where that can be told."""
    if not branch.file_io.moves_at_once:
        own = branch.file_io.read_bytes_or_none(branch.paths.origin)
        branch.refuse_other_table()
        return _discard(branch, branch.paths, own)
    _move_away(branch, branch.paths, branch.read_witness())
    return True
