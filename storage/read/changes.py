"""Changes: what commits did to a table, as rows with a kind each.

A commit that only added files shows its rows as they were written. A commit that replaced files shows the rows that were
there as `-D` and those that came as `+I`. Compactions change nothing. Rows of a table with a key are not merged with
older ones, so that an update shows its new row only (`+I` or `+U`), and a merge engine's increments show as such.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from ..data_types import arrow_schema
from ..errors import Unsupported
from ..lsm.sorted_run import Section, SortedRun
from ..lsm.system_columns import DELETE, INSERT, VALUE_KIND
from ..metadata.manifest import ADD, ManifestEntry
from ..metadata.schema import KEY_PREFIX
from ..metadata.snapshot import ANALYZE, COMPACT, Snapshot
from ..metadata.table_store import TableStore
from .predicate import Predicate
from .scan import Scan
from .split_read import ReadRequest, read_run, read_sections

ROW_KIND = "rowkind"
SNAPSHOT_ID = "snapshot_id"
# In the order of their values in `_VALUE_KIND`.
_KINDS = ("+I", "-U", "+U", "-D")


def changes_schema(store: TableStore, columns: Sequence[str]) -> pa.Schema:
    """`rowkind` and `snapshot_id`, then the columns."""
    head = [pa.field(ROW_KIND, pa.string(), False), pa.field(SNAPSHOT_ID, pa.int64(), False)]
    return pa.schema([*head, *arrow_schema(store.schema.fields_named(columns))])


def read_changes(
    store: TableStore, after: int, until: int, columns: Sequence[str], predicate: Predicate | None
) -> Iterator[pa.RecordBatch]:
    """Batches of `changes_schema`, in the order of commits. Raises NotFound if a snapshot in between has expired."""
    if store.schema.options.get("deletion-vectors.enabled", "false") == "true":
        raise Unsupported(
            f"Table {store.identifier} has 'deletion-vectors.enabled': rows that are marked as deleted leave no change to read."
        )
    schema = changes_schema(store, columns)
    for snapshot_id in range(after + 1, until + 1):
        snapshot = store.snapshots.get(snapshot_id)
        if snapshot.commit_kind in (COMPACT, ANALYZE):
            continue
        for kinds, rows in _changes_of(store, snapshot):
            mask = None if predicate is None else predicate.mask(rows)
            ids = pa.array(np.full(rows.num_rows, snapshot_id))
            arrays = [kinds, ids, *(rows.column(name) for name in columns)]
            batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
            batch = batch if mask is None else batch.filter(mask)
            if batch.num_rows:
                yield batch


def _changes_of(store: TableStore, snapshot: Snapshot) -> Iterator[tuple[pa.Array, pa.RecordBatch]]:
    manifests = store.manifests
    delta = [one for listed in manifests.read_list(snapshot.delta_manifest_list) for one in manifests.read(listed.name)]
    removed = [one for one in delta if one.kind != ADD]
    for rows in _rows_before(store, snapshot, removed) if removed else ():
        yield pa.repeat(pa.scalar(_KINDS[DELETE]), rows.num_rows), rows
    added = sorted(
        (one for one in delta if one.kind == ADD),
        key=lambda one: (one.partition, one.bucket, one.file.min_sequence_number, one.file.name),
    )
    scan = Scan(store, snapshot)
    for entry in added:
        yield from _rows_of(scan, entry)


def _rows_before(store: TableStore, snapshot: Snapshot, removed: Sequence[ManifestEntry]) -> Iterator[pa.RecordBatch]:
    """The rows that a commit took away: those of its files; with a key, what merging had left of the buckets."""
    scan = Scan(store, snapshot)
    if not store.schema.primary_keys:
        for entry in removed:
            for _, rows in _rows_of(scan, entry):
                yield rows
        return
    places = {(one.partition, one.bucket) for one in removed}
    for split in Scan(store, store.snapshots.get(snapshot.id - 1)).splits:
        if (split.partition, split.bucket) in places:
            yield from split.read()


def _rows_of(scan: Scan, entry: ManifestEntry) -> Iterator[tuple[pa.Array, pa.RecordBatch]]:
    store = scan.store
    request = ReadRequest(store, tuple(store.schema.column_names), None)
    directory = store.paths.bucket(scan.partition_path(entry.partition), entry.bucket)
    section = Section((SortedRun((entry.file,)),))
    if not store.schema.primary_keys:
        for rows in read_sections(request, entry.partition, directory, [section], use_threads=True):
            yield pa.repeat(pa.scalar(_KINDS[INSERT]), rows.num_rows), rows
        return
    keys = set(store.schema.trimmed_primary_keys)
    for run in read_run(request, entry.partition, directory, section, keep_deletes=True):
        names = [f"{KEY_PREFIX}{name}" if name in keys else name for name in store.schema.column_names]
        rows = run.select(names).rename_columns(store.schema.column_names)
        yield pa.array(_KINDS).take(run.column(VALUE_KIND)), rows


def latest_schema(store: TableStore) -> TableStore:
    """The store under the newest version of its schema, in which changes of all versions are shown."""
    newest = store.schemas.latest()
    return store if newest is None else store.at_schema(replace(newest, options=store.schema.options))
