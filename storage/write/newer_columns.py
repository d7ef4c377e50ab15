"""Columns that have come to a table since a writer opened it.

Files that were written with them hold values that he knows nothing of. Rows that he writes anew, or computes from such files,
would lose those: he is refused, and has to open the table again. What is only added goes on, as if it had come first.
"""

from collections.abc import Callable, Sequence

from ..errors import CommitConflict
from ..metadata.manifest import ManifestEntry
from ..metadata.schema import TableSchema
from ..metadata.snapshot import Snapshot
from ..metadata.table_store import TableStore
from .vectors import MarkedFile

_OPEN_AGAIN = "Nothing is committed. Open the table again and repeat it."


def at_columns_of(store: TableStore, snapshot: Snapshot | None) -> TableStore:
    """The table under the newest schema that files of a snapshot are written with, unless its own is newer."""
    if snapshot is None or snapshot.schema_id <= store.schema.id:
        return store
    return store.at_schema(store.schemas.get(snapshot.schema_id))


def refuse_unknown_columns(store: TableStore, snapshot: Snapshot | None) -> None:
    """Raise CommitConflict if rows of a snapshot may have values of columns that the table was opened without."""
    if snapshot is not None and snapshot.schema_id > store.schema.id:
        _refuse(store, store.schema, store.schemas.get(snapshot.schema_id))


def refuse_lost_columns(
    store: TableStore,
    latest: Snapshot | None,
    added: Sequence[ManifestEntry],
    deleted: Sequence[ManifestEntry],
    marked: Sequence[MarkedFile],
    live: Callable[[], list[ManifestEntry]],
) -> None:
    """Raise CommitConflict if rows of files that a commit takes away, or marks as deleted, have been written anew without columns
    that they had. A file that is moved to another level is the same file.
    """
    moved = {entry.file.name for entry in deleted}
    oldest = min((entry.file.schema_id for entry in added if entry.file.name not in moved), default=None)
    if latest is None or oldest is None or oldest >= latest.schema_id:
        return
    names = {mark.name for mark in marked if len(mark.positions)}
    taken = [*deleted, *(entry for entry in (live() if names else ()) if entry.file.name in names)]
    newest = max((entry.file.schema_id for entry in taken), default=oldest)
    if oldest < newest:
        _refuse(store, store.schemas.get(oldest), store.schemas.get(newest))


def refuse_replaced_columns(store: TableStore, newest: TableSchema) -> None:
    """Raise CommitConflict if a column has been dropped and another one of its name added: what is written goes to the former."""
    ids = {field.name: field.id for field in newest.fields}
    for field in store.schema.fields:
        if ids.get(field.name, field.id) != field.id:
            raise CommitConflict(
                f"Column {field.name!r} of {store.identifier} has been dropped since it was opened, and another one of that name "
                f"added. {_OPEN_AGAIN}"
            )


def _refuse(store: TableStore, own: TableSchema, newer: TableSchema) -> None:
    known = {field.id: field.type.not_null() for field in own.fields}
    unknown = [field.name for field in newer.fields if known.get(field.id) != field.type.not_null()]
    if unknown:
        raise CommitConflict(
            f"Columns of {store.identifier} have been added or changed since schema {own.id}, with which these rows were read: "
            f"{', '.join(map(repr, unknown))}. Their values would be lost. {_OPEN_AGAIN}"
        )
