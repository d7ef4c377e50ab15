"""Whether columns of a table hold nulls: what is asked before they become NOT NULL, and once more after."""

from collections.abc import Sequence

from .errors import InvalidRequest, Unsupported
from .lsm.sorted_run import Section, SortedRun
from .metadata.manifest import ManifestEntry
from .metadata.snapshot import Snapshot
from .metadata.table_store import TableStore
from .read.predicate import IsNull
from .read.scan import Scan
from .read.split_read import ReadRequest, read_file, read_sections
from .write.required_columns import nulls_told

# Those that show rows as they were written. The others make rows of several, and null where one of them says nothing.
_OF_WHOLE_ROWS = ("deduplicate", "first-row")


def refuse_nulls_held(store: TableStore, snapshot: Snapshot | None, names: Sequence[str]) -> None:
    """Raise InvalidRequest if columns hold nulls at a snapshot, in rows that are replaced by later ones too: until a compaction
    takes them away they are merged, and written anew. Raises Unsupported for merge engines that make nulls.
    """
    engine = store.schema.table_options.merge_engine
    if names and store.schema.primary_keys and engine not in _OF_WHOLE_ROWS:
        raise Unsupported(
            f"Column {names[0]!r} of {store.identifier} cannot become NOT NULL: the merge engine {engine} makes null of what no "
            "row says."
        )
    for name in names if snapshot is not None else ():
        held = sum(_nulls(store, entry, name) for entry in Scan(store, snapshot).entries)
        if not held:
            continue
        shown = Scan(store, snapshot, (name,), IsNull(name).bind(store.schema)).count()
        if shown:
            raise InvalidRequest(
                f"Column {name!r} of {store.identifier} cannot become NOT NULL: it is null in {shown} rows. UPDATE them first."
            )
        raise InvalidRequest(
            f"Column {name!r} of {store.identifier} cannot become NOT NULL: {held} rows that others have replaced hold null "
            "there. ALTER TABLE … COMPACT takes them away."
        )


def _nulls(store: TableStore, entry: ManifestEntry, name: str) -> int:
    """How many nulls of a column a live file holds: told by its statistics, or counted."""
    null_count = nulls_told(store.schemas.get(entry.file.schema_id), entry.file, store.schema.field(name).id)
    if null_count is not None:
        return null_count
    request, directory = ReadRequest(store, (name,), None), store.bucket_directory(entry.place)
    if store.schema.primary_keys:
        batches = read_file(request, entry.partition, directory, entry.file)
    else:
        section = Section((SortedRun((entry.file,)),))
        batches = read_sections(request, entry.partition, directory, [section], use_threads=False)
    return sum(batch.column(name).null_count for batch in batches)
