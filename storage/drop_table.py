"""Drop a table: at once where a directory can be moved, file by file on object stores."""

import logging
from dataclasses import replace
from functools import partial

from .branches import Branches
from .errors import AlreadyExists, NotFound, StoreUnavailable
from .iceberg.clean_up import withdraw
from .identifier import MAIN_BRANCH, Identifier
from .journal import Journal
from .log.definition import drop_topic
from .maintain.beside_publication import refuse_open
from .maintain.drop_damaged import drop_damaged, refuse_damaged
from .maintain.move_table import refuse_renaming
from .metadata.discard import delete_moved, discard
from .metadata.table_store import TableStore
from .paths import TablePaths
from .store_errors import outcome
from .warehouse_contents import WarehouseContents

_log = logging.getLogger(__name__)


def drop_table(
    contents: WarehouseContents, journal: Journal, identifier: Identifier, *, if_exists: bool, discard_damaged: bool
) -> None:
    """Delete a table with all its snapshots, tags, branches and files: see `Catalog.drop_table`."""
    if not contents.exists(identifier.full_name):
        is_left = bool(contents.file_io.list_directories(contents.path(identifier)))
        contents.clear(contents.path(identifier), discard_damaged=discard_damaged)
        if if_exists or (discard_damaged and is_left):
            return
        raise contents.missing(identifier)
    root = contents.path(identifier)
    if discard_damaged:
        drop_damaged(contents.file_io, root, identifier, contents.clock, journal, contents.discarded())
        return
    refuse_damaged(contents.file_io, root, identifier, contents.clock)
    store: TableStore | None = None
    try:
        store = TableStore(contents.file_io, root, replace(identifier, branch=MAIN_BRANCH), clock=contents.clock)
        refuse = partial(refuse_open, journal, [store])
        refuse()
        # To a place of its own first: who sleeps here deletes what was asked for, and nothing of a later table.
        discarded = contents.discarded()
        if not contents.file_io.moves_at_once:
            refuse_renaming(store)
        try:
            if contents.file_io.moves_at_once:
                contents.file_io.move_directory_if(root, discarded, store.read_witness(), refuse)
            else:
                _drop_file_by_file(contents, store)
        except StoreUnavailable as error:
            _refuse_undropped(contents, identifier, error)
    except NotFound:
        gone = contents.gone(identifier, store)
        if if_exists and isinstance(gone, NotFound):
            return
        raise gone from None
    if contents.file_io.moves_at_once:
        delete_moved(contents.file_io, discarded, f"{identifier} is dropped", "the next table that is dropped")
        contents.delete_discarded()
    withdraw(store)
    drop_topic(store.schema.options, str(identifier))


def _drop_file_by_file(contents: WarehouseContents, store: TableStore) -> None:
    """Without schemas there is no table: a crash in the middle leaves none, and what is left goes before the next one."""
    first = TablePaths(store.paths.root).schema(0)
    held = contents.file_io.read_bytes_or_none(first)
    store.refuse_other_table()
    paths = TablePaths(store.paths.root)
    if not discard(
        contents.file_io,
        paths.root,
        lambda: contents.file_io.read_bytes_or_none(first) not in (None, held),
        first=(paths.schema_directory, paths.main_branch_file),
        at_once=True,
    ):
        raise NotFound(f"{store.identifier} was dropped meanwhile.")
    if contents.has_schema(paths):
        # Of others, who came after the listing: unless it is another table by now.
        discard(contents.file_io, paths.root, lambda: contents.file_io.exists(first))


def _refuse_undropped(contents: WarehouseContents, identifier: Identifier, error: StoreUnavailable) -> None:
    """After an error in the middle of a drop on an object store: only told if the table is dropped by then."""
    with outcome(f"Whether {identifier} is dropped cannot be known: drop it again. ({error})"):
        is_there = contents.exists(identifier.full_name)
    if is_there:
        with outcome(f"{identifier} is not dropped, or not all of it: drop it again."):
            raise error
    _log.warning(
        "%s is dropped, but files of it may be left, which the next drop, or table of its name, deletes: %s",
        identifier,
        error,
    )


def drop_unwritten(contents: WarehouseContents, store: TableStore) -> bool:
    """Drop a table that its creator could not fill, unless somebody has written to it since, or branched it, or it is
    another one by now; says whether it has. Local disks alone: on object stores nobody can be kept out meanwhile, and the
    table stays.
    """

    def refuse() -> None:
        if store.snapshots.latest_id() is not None or Branches(store, ()).names():
            raise AlreadyExists(f"{store.identifier} has been written to.")

    if not contents.file_io.moves_at_once:
        return False
    discarded = contents.discarded()
    try:
        contents.file_io.move_directory_if(store.paths.root, discarded, store.read_witness(), refuse)
    except (NotFound, AlreadyExists):
        return False
    delete_moved(contents.file_io, discarded, f"{store.identifier} is dropped", "the next table that is dropped")
    drop_topic(store.schema.options, str(store.identifier))
    return True
