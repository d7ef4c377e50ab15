"""Rename a table: at once where a directory can be moved; an object store copies each file, and the table is closed meanwhile."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from .errors import AlreadyExists, CorruptData, NotFound
from .iceberg.clean_up import withdraw
from .iceberg.publish import publish_after
from .identifier import MAIN_BRANCH, Identifier
from .journal import Journal
from .maintain.beside_publication import refuse_open
from .maintain.move_table import move_table
from .maintain.rescale import refuse_rescaling
from .metadata.former_names import FormerName, former_names, refuse_name_of_late, write_former_names
from .metadata.table_store import TableStore
from .read.version import all_branches
from .store_errors import made_or_told, outcome
from .warehouse_contents import WarehouseContents
from .write.close import RENAMING, closed_for, refuse_closed
from .write.listeners import CommitListener, tell_listeners


def rename_table(
    contents: WarehouseContents,
    journal: Journal,
    identifier: Identifier,
    target: Identifier,
    listeners: Sequence[CommitListener],
    *,
    goes_back: bool = False,
) -> TableStore:
    """Give a table another name: see `Catalog.rename_table`. `goes_back`: at once after it got the name that it has, without a
    look at what may be deleted late.
    """
    taken = AlreadyExists(f"Table {target.full_name} exists. Drop it first, or choose another name.")
    renaming = _begin(contents, journal, identifier, target, taken)
    store, file_io, clock = renaming.store, contents.file_io, contents.clock
    # Before the move: a name that is still its own does no harm, one that is lost cannot be told any more.
    names = former_names(file_io, store.paths.root)
    try:
        if not renaming.is_under_way:
            if not goes_back:
                refuse_name_of_late(file_io, names, target, clock.now_ms())
            names.append(FormerName(identifier.full_name, clock.now_ms()))
            with outcome(f"Nothing is done: the table is called {identifier.full_name}.", landed=False):
                write_former_names(file_io, store.paths.root, names, store.read_witness())
        renaming.move()
    except NotFound:
        raise contents.gone(identifier, store) from None
    except AlreadyExists:
        contents.refuse_taken(target)
        raise taken from None
    with outcome(f"The table is called {target.full_name} now."):
        _refuse_view_since(contents, journal, identifier, target, listeners)
        withdraw(store)
        renamed = contents.open(target)
        if not file_io.moves_at_once:
            # Until now requests were sent that delete what it left.
            until = FormerName(identifier.full_name, clock.now_ms())
            write_former_names(file_io, renamed.paths.root, [*names[:-1], until], renamed.read_witness())
        publish_after(renamed, None)
    tell_listeners(renamed, listeners, lambda listener: listener.notify_table_renamed(identifier, target))
    return renamed


def _begin(
    contents: WarehouseContents, journal: Journal, identifier: Identifier, target: Identifier, taken: AlreadyExists
) -> "_Renaming":
    """A renaming that nothing speaks against yet."""
    if not contents.exists(identifier.full_name):
        raise contents.missing(identifier)
    own = replace(identifier, branch=MAIN_BRANCH)
    store = TableStore(contents.file_io, contents.path(identifier), own, clock=contents.clock)
    is_under_way = closed_for(store.snapshots.latest()) == f"{RENAMING} {target.full_name}"
    if contents.exists(target.full_name) and not is_under_way:
        if not contents.exists(identifier.full_name):
            # Somebody has just given it that name.
            raise contents.missing(identifier)
        raise taken
    contents.refuse_taken(target)
    contents.make_database(target.database)
    renaming = _Renaming(contents, journal, identifier, store, target, is_under_way)
    renaming.refuse()
    return renaming


@dataclass(frozen=True, slots=True)
class _Renaming:
    """A table on its way to another name; `is_under_way`: somebody has begun to copy it there, on an object store."""

    contents: WarehouseContents
    journal: Journal
    identifier: Identifier
    store: TableStore
    target: Identifier
    is_under_way: bool

    def refuse(self) -> None:
        """Raise what speaks against it. Asked again once nothing is written into the table any more: who publishes, or closes
        main, comes first then.
        """
        self.contents.refuse_taken(self.target)
        refuse_open(self.journal, [self.store])
        if self.contents.file_io.moves_at_once or not self.is_under_way:
            # Whoever replaces main would not find the table any more, and leave it closed.
            refuse_closed(self.store, self.store.snapshots.latest())
            with suppress(CorruptData, NotFound):
                # Nor would whoever deletes a branch of several tables find this one's.
                for branch in all_branches(self.store):
                    refuse_closed(branch, branch.snapshots.latest())
        self._refuse_rescaled()

    def _refuse_rescaled(self) -> None:
        # Nor would whoever rescales a branch.
        with suppress(CorruptData, NotFound):
            for branch in all_branches(self.store):
                refuse_rescaling(branch)

    def _refuse_moving(self) -> None:
        refuse_open(self.journal, [self.store])
        self._refuse_rescaled()

    def move(self) -> None:
        """Give the directory its new name, or copy it there file by file."""
        place = self.contents.path(self.target)
        if self.contents.file_io.moves_at_once:
            self.contents.clear(place)
            self._move_at_once(place)
        else:
            with outcome(f"{self.identifier} may be closed to writers until that is done: rename it again."):
                move_table(self.store, self.target, place, self._refuse_moving)

    def _move_at_once(self, place: str) -> None:
        file_io, of, source = self.contents.file_io, self.store.read_witness(), self.store.paths.root

        def move() -> bool:
            file_io.move_directory_if(source, place, of, self.refuse)
            return True

        def has_arrived() -> bool:
            known = None if of.path is None else file_io.read_bytes_or_none(place + of.path.removeprefix(source))
            return known is not None and known == of.content

        made_or_told(move, has_arrived, f"table {self.target.full_name}")


def _refuse_view_since(
    contents: WarehouseContents,
    journal: Journal,
    identifier: Identifier,
    target: Identifier,
    listeners: Sequence[CommitListener],
) -> None:
    """Give a table its old name back if somebody has created a view of the new one while it was moved. Raises AlreadyExists
    that says which name it has.
    """
    try:
        contents.refuse_taken(target)
    except AlreadyExists as error:
        with outcome(
            f"The table is called {target.full_name} now, as the view is: drop the view, or rename the table."
        ):
            rename_table(contents, journal, target, identifier, listeners, goes_back=True)
        raise AlreadyExists(f"{error} The table is still called {identifier.full_name}.") from None
