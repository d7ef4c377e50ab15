"""Drop a table, or a branch, that cannot be opened, because its schema or the name of its main cannot be read."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from ..clock import Clock
from ..directory_lock import Witness
from ..errors import CommitConflict, CorruptData, InvalidRequest, NotFound
from ..file_io import FileIO
from ..identifier import MAIN_BRANCH, Identifier
from ..journal import Journal
from ..metadata.discard import delete_moved, discard
from ..metadata.table_store import TableStore
from ..paths import TablePaths
from ..write.close import REPLACEMENT, closed_for


def refuse_damaged(file_io: FileIO, root: str, identifier: Identifier, clock: Clock) -> None:
    """Raise CorruptData, naming what ends that, for a table that cannot be opened."""
    try:
        TableStore(file_io, root, identifier, clock=clock)
    except NotFound:
        return
    except CorruptData as error:
        raise CorruptData(
            f"{str(error).rstrip('.')}. Nothing is dropped: restore the file, or drop the table by `snapline drop-table "
            f"{identifier.full_name} --discard-damaged`."
        ) from None


def drop_damaged(
    file_io: FileIO, root: str, identifier: Identifier, clock: Clock, journal: Journal, discarded: str
) -> None:
    """Delete a table that cannot be opened, by way of the place `discarded`, where a directory can be moved at once.

    Raises InvalidRequest if it can be opened, CommitConflict if it is part of a publication that is open.
    """
    name = identifier.full_name
    try:
        refuse_damaged(file_io, root, identifier, clock)
    except CorruptData:
        _refuse_published(journal, name)
    else:
        raise InvalidRequest(f"{name} can be opened: drop it without --discard-damaged.")
    paths = TablePaths(root)
    first = paths.schema(0)
    held = file_io.read_bytes_or_none(first)
    if file_io.moves_at_once and held is not None:
        file_io.move_directory_if(
            root, discarded, Witness(root, first, held), partial(_refuse_published, journal, name)
        )
        delete_moved(file_io, discarded, f"{name} is dropped", "the next table that is dropped")
        return
    discard(
        file_io,
        root,
        lambda: file_io.read_bytes_or_none(first) not in (None, held),
        first=(paths.schema_directory, paths.main_branch_file),
    )


def delete_damaged_branch(store: TableStore, name: str, refuse: Callable[[], None]) -> None:
    """Delete a branch that cannot be opened; the files that only it needed are left to orphan cleaning. `refuse` raises if it
    must stay. Raises CommitConflict if it is main, or is becoming main.
    """
    file_io, paths = store.file_io, TablePaths(store.paths.root, name)
    main = TableStore(file_io, store.paths.root, replace(store.identifier, branch=MAIN_BRANCH), clock=store.clock)
    if main.paths.branch == name or closed_for(main.snapshots.latest()) == f"{REPLACEMENT} {name}":
        raise CommitConflict(f"Branch {name!r} of {store.identifier.full_name} is main, or is becoming it. It stays.")
    refuse()
    held = file_io.read_bytes_or_none(paths.schema(0))
    if not file_io.moves_at_once:
        discard(
            file_io,
            paths.metadata_root,
            lambda: file_io.read_bytes_or_none(paths.schema(0)) not in (None, held),
            first=(paths.schema_directory,),
        )
        return
    gone = TablePaths(paths.root, name, making=f"{name}-{store.clock.unique_name()}").metadata_root
    witness = Witness(paths.metadata_root) if held is None else Witness(paths.metadata_root, paths.schema(0), held)
    file_io.move_directory_if(paths.metadata_root, gone, witness)
    delete_moved(file_io, gone, f"Branch {name!r} of {store.identifier.full_name} is deleted", "orphan cleaning")


def _refuse_published(journal: Journal, name: str) -> None:
    # One whose entry is damaged as well is undone on the other tables: that needs none that are gone.
    numbers = [int(entry.name) for entry in journal.all_open() if name in entry.before]
    if numbers:
        raise CommitConflict(f"Publication {numbers[0]} of {name} is open: end it by `snapline branch recover` first.")
