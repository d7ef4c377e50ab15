"""Drop a table that cannot be opened, because its schema or the name of its main cannot be read."""

from functools import partial

from ..clock import Clock
from ..errors import CommitConflict, CorruptData, InvalidRequest, NotFound
from ..file_io import FileIO, Witness
from ..identifier import Identifier
from ..journal import Journal
from ..metadata.discard import discard
from ..metadata.table_store import TableStore
from ..paths import TablePaths


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
        file_io.delete_directory(discarded)
        return
    discard(
        file_io, root, lambda: file_io.read_bytes_or_none(first) not in (None, held),
        first=(paths.schema_directory, paths.main_branch_file),
    )  # fmt: skip


def _refuse_published(journal: Journal, name: str) -> None:
    # One whose entry is damaged as well is undone on the other tables: that needs none that are gone.
    numbers = [int(one.name) for one in journal.all_open() if name in one.before]
    if numbers:
        raise CommitConflict(f"Publication {numbers[0]} of {name} is open: end it by `snapline branch recover` first.")
