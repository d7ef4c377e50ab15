"""Create a branch: fork a table without copying data.

A branch has snapshots, schemas and tags of its own; data files are shared and never copied. What always holds: a branch
exists once its `schema-0` does, and nobody sees half of one. Follows `docs/protocols.md`.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial

from ..directory_lock import Witness
from ..errors import (
    OUTCOME_UNKNOWN,
    AlreadyExists,
    CommitConflict,
    CommitOutcomeUnknown,
    CorruptData,
    InvalidRequest,
    NotFound,
    StorageError,
)
from ..identifier import Identifier, check_new_branch_name
from ..late_requests import with_generation
from ..metadata.branch_origin import BranchOrigin, origin_content, read_origin
from ..metadata.discard import discard
from ..metadata.history import identity_at
from ..metadata.main_branch import find_main
from ..metadata.pointed_schema import own_schema
from ..metadata.snapshot import Snapshot
from ..metadata.table_store import TableStore
from ..metadata.tag import Tag
from ..paths import TablePaths
from ..read.version import branch_names
from ..store_errors import made_or_told, outcome
from ..write.close import closed_for, refuse_closed
from .branch_directory import BRANCH_ID_KEY, discard_branch, is_other_branch, move_branch_away
from .branch_tags import branch_tag
from .hold import held, is_kept
from .lost_schema import has_lost_schema
from .move_table import refuse_renaming

_ABANDONED_MS = 3_600_000


def create_branch(
    store: TableStore, name: str, snapshot: Snapshot | None, tag: Tag | None = None, *, schema_id: int | None
) -> TableStore:
    """Fork at a snapshot (with the tag that names it, if given); None makes an empty branch.

    `schema_id`: the last schema that the branch has; None: the latest there is. Raises AlreadyExists if there is one of that
    name, NotFound if the snapshot expires meanwhile.
    """
    with drafted_branch(store, name, snapshot, tag, schema_id=schema_id) as give_name:
        return give_name()


@contextmanager
def drafted_branch(
    store: TableStore, name: str, snapshot: Snapshot | None, tag: Tag | None = None, *, schema_id: int | None
) -> Iterator[Callable[[], TableStore]]:
    """As `create_branch`, in two steps: what a branch has is written where nobody looks, and what this gives gives it its
    name, for which no file is written. Without that nothing of it stays. On object stores the second step does all.
    """
    check_new_branch_name(name)
    store.refuse_other_table()
    _refuse_closing(store, snapshot)
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
            with _draft(store, name, None, None, store.clock.unique_name(), schema_id=schema_id) as give_name:
                yield partial(named, give_name)
        else:
            with (
                held(store, snapshot, lambda hold: is_kept(store, snapshot, hold)),
                _tagged_draft(store, name, snapshot, tag, schema_id=schema_id) as give_name,
            ):
                yield partial(named, give_name)
    except NotFound:
        # What it is made from has gone along with what the table was.
        store.refuse_other_table()
        raise


def _refuse_closing(store: TableStore, snapshot: Snapshot | None) -> None:
    """Raise an error if a branch would begin closed, and go along with what has been closed."""
    if snapshot is None or closed_for(snapshot) is None:
        return
    latest = store.snapshots.latest()
    if latest is not None and latest.identity == snapshot.identity:
        refuse_closed(store, latest)
    raise InvalidRequest(
        f"Snapshot {snapshot.id} of {store.identifier} changed nothing, and closed it for {closed_for(snapshot)}: begin the "
        "branch at another one."
    )


@contextmanager
def _tagged_draft(
    store: TableStore, name: str, snapshot: Snapshot, tag: Tag | None, *, schema_id: int | None
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
        with _draft(store, name, snapshot, tag, identity, schema_id=schema_id) as given:
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
    store: TableStore, name: str, snapshot: Snapshot | None, tag: Tag | None, identity: str, *, schema_id: int | None
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
        _write(store, paths, final, own, identity, snapshot, tag, schema_id=schema_id)

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
    schema_id: int | None,
) -> None:
    """Write what a branch has, but its ORIGIN."""
    file_io = store.file_io
    if snapshot is not None:
        begin = snapshot.without_others().with_others({BRANCH_ID_KEY: identity})
        file_io.create_exclusively(paths.snapshot(snapshot.id), begin.to_json().encode(), of=own)
        for hint in ("EARLIEST", "LATEST"):
            file_io.raise_number(f"{paths.snapshot_directory}/{hint}", snapshot.id, of=own)
        named = {branch_tag(identity): snapshot.without_others()} | (
            {tag.name: tag.snapshot} if tag is not None else {}
        )
        for tag_name, tagged in named.items():
            file_io.create_exclusively(paths.tag(tag_name), tagged.to_json(f"tag-{tag_name}").encode(), of=own)
    schema_ids = store.schemas.ids()
    if schema_id is not None:
        schema_ids = [known for known in schema_ids if known <= max(schema_id, 0)]
    try:
        schemas = {
            known: with_generation(file_io, paths.schema(known), own_schema(file_io, store.paths, known))
            for known in reversed(schema_ids)
        }
    except NotFound:
        # Main has been replaced, and what it was is dropped.
        if paths != final:
            file_io.delete_directory(paths.metadata_root)
        else:
            _take_away(store, final, own)
        raise
    for known, content in schemas.items():
        # With the last of them, the branch is there.
        _create_schema(store, paths, known, content, own)


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
        discard_branch(store, made, own.content)
        store.refuse_other_table()
    store.refuse_moved(f"Branch {made.branch!r}")


def _refuse_renaming(store: TableStore, made: TablePaths, own: Witness) -> None:
    """Take a branch away again, and raise CommitOutcomeUnknown, if its table is being copied to another place."""
    try:
        refuse_renaming(store)
    except CommitConflict as error:
        if store.file_io.read_bytes_or_none(made.origin) == own.content:
            discard_branch(store, made, own.content)
        raise CommitOutcomeUnknown(
            f"Branch {made.branch!r} was made while its table is being renamed, and may have gone along: {error}"
        ) from None


def _clear_remains(store: TableStore, paths: TablePaths) -> None:
    """Put away what is left of a branch that is no more: a main that was replaced leaves a mark."""
    origin = store.file_io.read_bytes_or_none(paths.origin)
    if origin is not None and not store.file_io.exists(paths.schema(0)):
        with suppress(NotFound):
            move_branch_away(store, paths, Witness(paths.root, paths.origin, origin))


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
        discard(file_io, f"{paths.metadata_root}/{name}", is_other_branch(store, paths, content))
    return True
