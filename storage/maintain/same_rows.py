"""Whether an overwrite brings what is there already, so that nothing need be committed, and whether two snapshots hold the same.

Files are compared bucket by bucket, and the first difference is the answer: numbers of rows that manifests tell first, then
rows in their order, and only where the order alone may differ, as without a key and after a merge, rows counted. Sums of columns
come before that, for they are cheap. What cannot be told for sure counts as different: then the commit is made, which is never
wrong.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter

import pyarrow as pa
import pyarrow.compute as pc

from ..errors import NotFound
from ..format.deletion_vector import DeletionVector
from ..lsm.row_multiset import difference
from ..lsm.sorted_run import Section, SortedRun, split_into_sections
from ..metadata.manifest import ManifestEntry
from ..metadata.snapshot import Snapshot
from ..metadata.table_store import TableStore
from ..read.scan import Scan
from ..read.split import Split
from ..read.split_read import ReadRequest, read_sections
from ..write.lift import lift_to_top
from ..write.overwrite import Overwrite
from ..write.table_write import CommitMessage

# Rows of a bucket beyond this are not counted, only compared in their order: counting holds them in memory.
_COUNTED_ROWS = 20_000_000
_BITS = {2: pa.int16(), 4: pa.int32(), 8: pa.int64()}


def brings_the_same(store: TableStore, messages: Sequence[CommitMessage], overwrite: Overwrite) -> bool:
    """Whether the rows of some messages are exactly those of the newest snapshot that the overwrite replaces, each as often.

    Floating-point numbers are the same if their bits are. Where rows are counted it holds a bucket in memory, else batches.
    """
    snapshot = store.snapshots.latest()
    if snapshot is None:
        return False
    added = [entry for message in messages for entry in message.added]
    if store.schema.primary_keys:
        added = lift_to_top(added, store.key_types, store.options.top_level)
    overwrite = overwrite.settled(frozenset(entry.partition for entry in added))
    try:
        # Rows that no compaction has lifted yet are replaced as well.
        scan = Scan(store, snapshot, lowest_level=0)
        covered = [entry for entry in scan.entries if overwrite.covers(store, entry.partition)]
        if {entry.total_buckets for entry in covered} - {entry.total_buckets for entry in added}:
            return False
        place = attrgetter("place")
        came = {where: list(group) for where, group in groupby(sorted(added, key=place), place)}
        there: dict[object, list[Split]] = {where: [] for where in came}
        for split in scan.splits:
            if overwrite.covers(store, split.partition):
                there.setdefault((split.partition, split.bucket), []).append(split)
        if there.keys() != came.keys():
            return False
        return all(_may_be_same(store, came[each], there[each]) for each in came) and all(
            _is_same(store, came[each], there[each]) for each in came
        )
    except NotFound:
        # It has expired or was replaced meanwhile: then the commit tells.
        return False


def _may_be_same(store: TableStore, came: Sequence[ManifestEntry], there: Sequence[Split]) -> bool:
    """Whether the numbers of rows are the same, as far as manifests tell."""
    is_merged = bool(store.schema.primary_keys) and any(entry.file.level == 0 for entry in came)
    if is_merged or not all(split.row_count_is_exact for split in there):
        return True
    return sum(entry.file.row_count for entry in came) == sum(split.row_count_unmerged for split in there)


def _is_same(store: TableStore, came: Sequence[ManifestEntry], there: Sequence[Split]) -> bool:
    def new_rows() -> Iterator[pa.RecordBatch]:
        request = ReadRequest(store, tuple(store.schema.column_names), None)
        files = [entry.file for entry in came]
        sections: Sequence[Section] = (
            split_into_sections(files, store.key_range)
            if store.schema.primary_keys
            else [Section((SortedRun((file,)),)) for file in files]
        )
        directory = store.bucket_directory(came[0].place)
        return read_sections(request, came[0].partition, directory, sections, use_threads=True)

    def old_rows() -> Iterator[pa.RecordBatch]:
        return (batch for split in there for batch in split.read(use_threads=True))

    if _is_same_in_order(new_rows(), old_rows()):
        return True
    return _is_same_counted(store, new_rows, old_rows, there, sum(entry.file.row_count for entry in came))


def _is_same_counted(
    store: TableStore,
    new_rows: Callable[[], Iterator[pa.RecordBatch]],
    old_rows: Callable[[], Iterator[pa.RecordBatch]],
    splits: Sequence[Split],
    row_count: int,
) -> bool:
    """Whether two streams that differ in their order hold the same rows, each as often; False if they are too many to count."""
    # Files of a table with a key come in its order, but what is merged does not.
    is_ordered = store.schema.primary_keys and not any(split.needs_merge for split in splits)
    if is_ordered or row_count > _COUNTED_ROWS:
        return False
    schema = store.schema.to_arrow()
    new, old = (_bits(pa.Table.from_batches(rows, schema)) for rows in (new_rows(), old_rows()))
    if any(_sums(new.column(name)) != _sums(old.column(name)) for name in schema.names):
        return False
    gone, more = difference(old, new)
    return not gone.num_rows and not more.num_rows


def hold_the_same(store: TableStore, before: Snapshot, after: Snapshot) -> bool:
    """Whether two snapshots hold the same rows, each as often, under the table's newest columns: only buckets whose files differ
    are read, up to their first difference. NotFound if one of them has expired.
    """
    old, new = (_by_place(store, snapshot) for snapshot in (before, after))
    places = [where for where in old.keys() | new.keys() if _files(old.get(where, [])) != _files(new.get(where, []))]
    return all(_hold_the_same(store, old.get(where, []), new.get(where, [])) for where in places)


def _by_place(store: TableStore, snapshot: Snapshot) -> dict[object, list[Split]]:
    """The splits of each bucket, with rows that no compaction has lifted yet."""
    places: dict[object, list[Split]] = {}
    for split in Scan(store, snapshot, lowest_level=0).splits:
        places.setdefault((split.partition, split.bucket), []).append(split)
    return places


def _files(splits: Sequence[Split]) -> set[tuple[str, DeletionVector | None]]:
    """What rows come from: the files, each with what is left out of it."""
    return {
        (file.name, split.deletion_vectors.get(file.name))
        for split in splits
        for section in split.sections
        for file in section.files
    }


def _hold_the_same(store: TableStore, old: Sequence[Split], new: Sequence[Split]) -> bool:
    both = [*old, *new]
    counts = [sum(split.row_count_unmerged for split in side) for side in (old, new)]
    if counts[0] != counts[1] and all(split.row_count_is_exact for split in both):
        return False

    def rows(side: Sequence[Split]) -> Iterator[pa.RecordBatch]:
        return (batch for split in side for batch in split.read(use_threads=True))

    if _is_same_in_order(rows(new), rows(old)):
        return True
    return _is_same_counted(store, lambda: rows(new), lambda: rows(old), both, max(counts))


def _is_same_in_order(batches: Iterable[pa.RecordBatch], other: Iterable[pa.RecordBatch]) -> bool:
    """Whether two streams hold the same rows in the same order, however they are cut into batches."""
    mine, theirs = iter(batches), iter(other)
    left = right = None
    while True:
        left = next(mine, None) if left is None or not left.num_rows else left
        right = next(theirs, None) if right is None or not right.num_rows else right
        if left is None or right is None:
            return left is None and right is None
        length = min(left.num_rows, right.num_rows)
        if not _bits(left.slice(0, length)).equals(_bits(right.slice(0, length))):
            return False
        left, right = left.slice(length), right.slice(length)


def _bits(rows: pa.RecordBatch | pa.Table) -> pa.RecordBatch | pa.Table:
    """Floating-point columns as whole numbers: not-a-number is the same as itself."""
    columns = [
        column.view(_BITS[column.type.bit_width // 8])
        if isinstance(column, pa.Array) and pa.types.is_floating(column.type)
        else pa.chunked_array(
            [chunk.view(_BITS[column.type.bit_width // 8]) for chunk in column.chunks],
            _BITS[column.type.bit_width // 8],
        )
        if pa.types.is_floating(column.type)
        else column
        for column in rows.columns
    ]
    return type(rows).from_arrays(columns, names=rows.schema.names)


def _sums(column: pa.ChunkedArray) -> tuple[object, ...]:
    """What equal columns have in common, whatever their order: cheap, and rarely so for others."""
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        extremes = pc.min_max(column).as_py()
        return column.null_count, pc.sum(pc.binary_length(column)).as_py(), *extremes.values()
    if pa.types.is_integer(kind):
        # Sums of int64 wrap around, which is as good.
        return column.null_count, pc.sum(column.cast(pa.int64())).as_py()
    return (column.null_count,)
