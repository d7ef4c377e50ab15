"""Create a table where nothing is left of another one, and no view takes its name."""

from contextlib import suppress

from .directory_lock import Witness
from .drop_table import drop_unwritten
from .errors import AlreadyExists, CommitConflict, NotFound
from .identifier import Identifier
from .log.definition import with_topic
from .log.publish import hold
from .log_options import has_log
from .maintain.move_table import refuse_claimed
from .metadata.schema import SchemaFiles, TableSchema
from .metadata.table_store import TableStore
from .paths import TablePaths
from .store_errors import outcome
from .warehouse_contents import WarehouseContents


def create_table(
    contents: WarehouseContents, identifier: Identifier, first: TableSchema, *, if_not_exists: bool
) -> TableStore | None:
    """Create a table by its first schema, with the topic of its log if it has one. Raises AlreadyExists if there is a table or a
    view of its name; for a table None is returned if it is to be created `if_not_exists`.
    """
    taken = AlreadyExists(f"Table {identifier} exists. Drop it first, or create it if it does not exist.")
    try:
        if contents.exists(str(identifier)):
            raise taken
        with with_topic(identifier, first) as first:
            if not _create(contents, contents.path(identifier), first):
                raise taken
            _refuse_view_beside(contents, identifier, first)
    except AlreadyExists as error:
        if if_not_exists and error is taken:
            return None
        raise
    store = TableStore(contents.file_io, contents.path(identifier), identifier, first, contents.clock)
    if has_log(first.options):
        hold(store)
    return store


def _create(contents: WarehouseContents, path: str, first: TableSchema) -> bool:
    """Create a table where nothing is left of another one; False if somebody else came first."""
    schemas = SchemaFiles(contents.file_io, TablePaths(path), lambda: Witness(path))
    while True:
        contents.clear(path)
        contents.file_io.make_directory(path)
        # Somebody else may clear what is no table yet.
        with suppress(NotFound):
            return schemas.create(first) and _is_free(contents, schemas, first, path)


def _is_free(contents: WarehouseContents, schemas: SchemaFiles, first: TableSchema, path: str) -> bool:
    """Whether no table is on its way to a place where one was created: else that is taken away."""
    if not contents.file_io.moves_at_once:
        try:
            refuse_claimed(contents.file_io, path)
        except CommitConflict:
            schemas.delete_if(first)
            raise
    return True


def _refuse_view_beside(contents: WarehouseContents, identifier: Identifier, first: TableSchema) -> None:
    """Take a table away again, and raise AlreadyExists, if somebody has created a view of its name meanwhile."""
    try:
        with outcome(f"Table {identifier} is there."):
            contents.refuse_taken(identifier)
    except AlreadyExists:
        _withdraw(contents, identifier, first)
        raise


def _withdraw(contents: WarehouseContents, identifier: Identifier, first: TableSchema) -> None:
    """Take a table away that has come second to a view of its name. Raises CommitConflict if somebody has written to it."""
    store = TableStore(contents.file_io, contents.path(identifier), identifier, first, contents.clock)
    if drop_unwritten(contents, store):
        return
    files = SchemaFiles(contents.file_io, TablePaths(contents.path(identifier)))
    if contents.file_io.moves_at_once or store.snapshots.latest_id() is not None or not files.delete_if(first):
        raise CommitConflict(
            f"{identifier} is a table and a view: both were created at once, and the table has been written to. Drop one "
            "of them, or rename the table."
        )
