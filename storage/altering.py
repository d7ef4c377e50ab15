"""Give a table a new version of its schema, by changes one after the other or by a whole new definition.

No data is rewritten. What always holds: two who alter at once both do, one on top of the other; a column is NOT NULL only once
nobody can commit a null of it any more.
"""

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from .derived import check_given
from .errors import CommitConflict, CorruptData, StorageError
from .iceberg.publish import follow_options, refuse_unpublishable
from .log.definition import alter_topic, check_log, refuse_changed_log, refuse_renamed_columns
from .lsm.merge_engines import check_merge_engine
from .metadata.history import at_latest
from .metadata.pointed_schema import point_at_main
from .metadata.schema import TableSchema
from .metadata.schema_change import DropNotNull, SchemaChange, next_schema
from .metadata.snapshot import Snapshot
from .metadata.table_store import TableStore
from .not_null import refuse_nulls_held
from .store_errors import outcome
from .write.close import beside_history, fence
from .write.incoming import shaped
from .write.required_columns import became_required


@outcome("What was done before stays done. Mend the store, then repeat the call.")
def alter(store: TableStore, changes: Sequence[SchemaChange]) -> TableStore:
    """The table under a new version of the schema: see `Table.alter`."""
    with beside_history(store, "The schema"):
        altered = _altered(store, changes)
    follow_options(store, altered)
    return altered


def refuse_unfit(store: TableStore, rows: pa.Table, changes: Sequence[SchemaChange]) -> None:
    """Raise InvalidRequest if rows would not fit the table once changes were made, which are not."""
    shaped(rows, next_schema(store.schema, changes, written=None, time_ms=store.clock.now_ms()))


def _altered(opened: TableStore, changes: Sequence[SchemaChange]) -> TableStore:
    while True:
        store = TableStore(opened.file_io, opened.paths.root, opened.identifier, clock=opened.clock)
        # Afterwards: what was read before that is of the same table.
        opened.refuse_other_table()
        written = _written_schema(store)
        changed = next_schema(store.schema, changes, written=written, time_ms=store.clock.now_ms())
        changed = replace(changed, uuid=store.clock.unique_name())
        check_merge_engine(changed)
        check_given(changed, store.schema)
        refuse_changed_log(store.schema, changed)
        refuse_renamed_columns(store.schema, changes)
        check_log(changed)
        refuse_unpublishable(store, changed)
        required = became_required(store.schema, changed)
        _refuse_nulls_held(store, required)
        alter_topic(store, changed)
        # Another change may take the same number first: then this one is made on top of it.
        if store.schemas.create(changed):
            with outcome(
                f"Version {changed.id} of the schema is there: look at the columns before you repeat the call."
            ):
                if not store.is_same_table() and store.schemas.delete_if(changed):
                    store.refuse_other_table()
                point_at_main(store.file_io, store.paths, store.read_witness)
                if required:
                    _look_again(opened, store, changed, required)
                return store.at_schema(changed)


def _written_schema(store: TableStore) -> TableSchema | None:
    """The schema of the newest snapshot; None if there is none."""
    if store.snapshots.latest_id() is None:
        return None
    try:
        latest = store.snapshots.latest()
        return None if latest is None else store.schemas.get(latest.schema_id)
    except CorruptData:
        # What can be read of the table has the newest at most.
        return store.schema


def _refuse_nulls_held(store: TableStore, required: Sequence[str]) -> None:
    def refuse(latest: Snapshot | None) -> None:
        refuse_nulls_held(store, latest, required)

    at_latest(store, store.snapshots.latest, refuse)


def _look_again(opened: TableStore, store: TableStore, changed: TableSchema, required: Sequence[str]) -> None:
    """Look for nulls that came while columns became NOT NULL, and take that back if there are any. Whoever commits after the
    fence has looked at the new schema.
    """
    fence(store, f"SET NOT NULL {', '.join(required)}")
    try:
        _refuse_nulls_held(store, required)
    except StorageError:
        names = {field.id: field.name for field in changed.fields}
        _altered(opened, [DropNotNull(names[store.schema.field(name).id]) for name in required])
        raise


def write_definition(store: TableStore) -> None:
    """Write the schema of a store, a new definition of its table, as the newest version. Raises CommitConflict if somebody has
    changed the table's own meanwhile.
    """
    with beside_history(store, "The definition"):
        if not store.schemas.create(store.schema):
            raise CommitConflict(
                f"The columns or options of {store.identifier} were changed meanwhile. Nothing is replaced; repeat it."
            )
        with outcome(redefined_only(store), of_whole=True):
            if not store.is_same_table() and store.schemas.delete_if(store.schema):
                store.refuse_other_table()
            point_at_main(store.file_io, store.paths, store.read_witness)


def redefined_only(store: TableStore) -> str:
    """What has become of an overwrite that has failed once the new definition of its table was written."""
    return (
        f"{store.identifier} has its new definition, version {store.schema.id} of its schema, and still the rows from before. "
        "Mend the store, then overwrite it again."
    )
