"""Delete and update single rows: by key where there is one, else by writing the files that hold them anew, or by marking the
rows where the table has deletion vectors.

Both read file by file and leave alone those in which nothing matches. They conflict with a writer only if that took away one
of the same files, or marked rows of it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .data_types import DataType
from .errors import CommitConflict, CommitOutcomeUnknown, InvalidRequest, NotFound, Unsupported
from .format.deletion_vector import DeletionVector
from .lsm.key_order import ranks, reversed_ranks
from .lsm.row_multiset import occurrences, row_codes
from .lsm.sorted_run import Section, SortedRun
from .metadata.history import has_expired
from .metadata.index_manifest import vectors_of
from .metadata.manifest import ManifestEntry
from .metadata.snapshot import Snapshot
from .metadata.table_store import TableStore
from .read.predicate import Comparison, Predicate, all_of
from .read.scan import FileStatistics, Scan
from .read.split_read import ReadRequest, read_sections
from .values import from_literal, to_arrow
from .write.attempt import Guard
from .write.commit import TableCommit
from .write.table_write import CommitMessage, TableWrite
from .write.vectors import MarkedFile

_COMMIT_TRIES = 10
Change = Callable[[pa.Table, pa.Array], pa.Table]


def assignments(store: TableStore, values: Mapping[str, Any]) -> dict[str, pa.Scalar]:
    """The values to set, each as its column holds it. Raises InvalidRequest for keys, unknown columns, other types."""
    schema = store.schema
    scalars = {}
    for name, value in values.items():
        field = schema.field(name)
        if name in schema.primary_keys or name in schema.partition_keys:
            raise InvalidRequest(
                f"Column {name!r} says where a row lies and cannot be updated. Delete the row and write it anew."
            )
        if value is None and not field.type.nullable:
            raise InvalidRequest(f"Column {name!r} is NOT NULL.")
        scalars[name] = _scalar(value, field.type)
    if not scalars:
        raise InvalidRequest("An update sets at least one column.")
    return scalars


def _scalar(value: Any, data_type: DataType) -> pa.Scalar:
    if data_type.is_nested:
        return pa.scalar(value, data_type.to_arrow())
    return to_arrow([from_literal(value, data_type)], data_type)[0]


def with_values(rows: pa.Table, mask: pa.Array | pa.ChunkedArray, values: Mapping[str, pa.Scalar]) -> pa.Table:
    """The rows, with some columns set where the mask is."""
    for name, value in values.items():
        place = rows.column_names.index(name)
        field = rows.schema.field(name)
        rows = rows.set_column(place, field, pc.if_else(mask, value, rows.column(name)).cast(field.type))
    return rows


def sinking(before: pa.Table, after: pa.Table, names: Sequence[str], sort_order: str = "ascending") -> int:
    """How many rows, each compared with the one before it, have come to lie lower by some columns, in which nulls come first;
    where these are `descending`, higher.
    """
    order_of = reversed_ranks if sort_order == "descending" else ranks
    is_lower, is_equal = np.zeros(before.num_rows, bool), np.ones(before.num_rows, bool)
    for name in names:
        numbers = order_of(pa.concat_tables([before.select([name]), after.select([name])]).column(0))
        old, new = numbers[: before.num_rows], numbers[before.num_rows :]
        is_lower |= is_equal & (new < old)
        is_equal &= new == old
    return int(is_lower.sum())


def refuse_sinking(store: TableStore, count: int) -> None:
    """Raise Unsupported if changed rows would not be shown, for those that are there count as later ones."""
    if count:
        options = store.schema.table_options
        fields = ", ".join(options.sequence_field)
        side = "higher" if options.sequence_field_sort_order == "descending" else "lower"
        raise Unsupported(
            f"{count} rows of {store.identifier} would get a {side} value, or NULL, in 'sequence.field' = {fields} than they "
            f"have: readers would go on showing the rows as they are. Nothing is written. Set a value that is not {side}, or "
            "overwrite the rows."
        )


def rewrite_files(
    store: TableStore, snapshot: Snapshot, predicate: Predicate, change: Change
) -> tuple[list[ManifestEntry], CommitMessage]:
    """Write anew each file of a table without a key in which rows match: `change` gets its rows and which of them match.

    Returns the files to take away, and what to add. With deletion vectors the rows that match are marked instead, and only what
    `change` makes of them is written.
    """
    if store.options.deletion_vectors_enabled:
        return _mark_matching(store, snapshot, predicate, change)
    scan = Scan(store, snapshot, None, predicate)
    statistics = FileStatistics(store)
    deleted: list[ManifestEntry] = []
    with TableWrite(store, ignore_existing=True) as writer:
        for entry in scan.entries:
            rows = _rows_of(store, entry) if statistics.may_match(predicate, entry.file) else None
            if rows is None:
                continue
            (batch,) = rows.to_batches()
            mask = pc.fill_null(predicate.mask(batch), False)
            if not pc.any(mask).as_py():
                continue
            deleted.append(entry)
            writer.write(change(rows, mask))
        return deleted, writer.prepare_commit()


def _mark_matching(
    store: TableStore, snapshot: Snapshot, predicate: Predicate, change: Change
) -> tuple[list[ManifestEntry], CommitMessage]:
    scan = Scan(store, snapshot, None, predicate)
    statistics = FileStatistics(store)
    marks = _Marks(scan.deletion_vectors)
    with TableWrite(store) as writer:
        for entry in scan.entries:
            if not statistics.may_match(predicate, entry.file):
                continue
            rows, positions = live_rows(store, entry, scan.deletion_vectors)
            if not rows.num_rows:
                continue
            (batch,) = rows.to_batches()
            mask = pc.fill_null(predicate.mask(batch), False)
            matching = rows.filter(mask)
            if matching.num_rows:
                marks.add(entry, positions[mask.to_numpy(zero_copy_only=False)])
                writer.write(change(matching, pa.repeat(pa.scalar(True), matching.num_rows)))
        return marks.deleted, replace(writer.prepare_commit(), marked=tuple(marks.marked))


class _Marks:
    """Rows to be marked as deleted; a file of which no row is left goes as a whole."""

    def __init__(self, vectors: Mapping[str, DeletionVector]) -> None:
        self._vectors = vectors
        self.deleted: list[ManifestEntry] = []
        self.marked: list[MarkedFile] = []

    def add(self, entry: ManifestEntry, positions: np.ndarray) -> None:
        vector = self._vectors.get(entry.file.name)
        before = 0 if vector is None else vector.cardinality
        if before is not None and before + len(positions) == entry.file.row_count:
            self.deleted.append(entry)
            positions = positions[:0]
        self.marked.append(MarkedFile(entry.place, entry.file.name, vector, np.sort(positions)))


def marks_of_rows(
    entries: Sequence[ManifestEntry], vectors: Mapping[str, DeletionVector], positions: Mapping[str, np.ndarray]
) -> tuple[list[ManifestEntry], list[MarkedFile]]:
    """The files that lose their last rows by the positions (int64) of some that are deleted, by file name; and what to mark in
    the others.
    """
    marks = _Marks(vectors)
    for entry in entries:
        if entry.file.name in positions:
            marks.add(entry, positions[entry.file.name])
    return marks.deleted, marks.marked


def live_rows(
    store: TableStore, entry: ManifestEntry, vectors: Mapping[str, DeletionVector]
) -> tuple[pa.Table, np.ndarray]:
    """The rows of a data file of a table without a key, those that are marked as deleted left out, in one chunk; and the
    position of each in the file (int64).
    """
    schema = store.schema.to_arrow()
    request = ReadRequest(store, tuple(store.schema.column_names), None)
    section = Section((SortedRun((entry.file,)),))
    directory = store.bucket_directory(entry.place)
    batches = list(read_sections(request, entry.partition, directory, [section], vectors, use_threads=True))
    positions = np.arange(entry.file.row_count)
    vector = vectors.get(entry.file.name)
    if vector is not None:
        positions = np.delete(positions, vector.read(store.file_io))
    rows = pa.Table.from_batches(batches).combine_chunks() if batches else schema.empty_table()
    return rows, positions


def _rows_of(store: TableStore, entry: ManifestEntry) -> pa.Table | None:
    """The rows of a data file of a table without a key, which has no deletion vectors, in one chunk; None if it has none."""
    rows, _ = live_rows(store, entry, {})
    return rows if rows.num_rows else None


class _AskedGuard:
    """A guard that remembers whether it has refused a commit."""

    def __init__(self, guard: Guard | None) -> None:
        self._guard = guard
        self.has_refused = False

    def __call__(self, latest: Snapshot | None) -> None:
        try:
            if self._guard is not None:
                self._guard(latest)
        except CommitConflict:
            self.has_refused = True
            raise


def commit_counted(
    store: TableStore,
    commit: TableCommit,
    messages: Sequence[CommitMessage],
    properties: Mapping[str, str] | None,
    operation: str | None,
    change_tracking: bool,
    guard: Guard | None,
    watermark: int | None = None,
) -> Snapshot | None:
    """Commit rows of a table without a key of which some take others away: for each, one equal row goes.

    Files that hold such rows are written anew, those of this commit among them; another commit that takes away the same
    files makes it start again. Raises InvalidRequest if a row to be taken away is not there, and what `guard` raises; nothing is
    written then.
    """
    earlier = commit.find_earlier()
    own_paths = [path for message in messages for path in message.paths]
    if earlier is not None:
        store.file_io.delete_quietly(own_paths)
        return earlier
    retracted = pa.concat_tables([rows for message in messages for rows in message.retracted])
    own = [entry for message in messages for entry in message.added]
    asked = _AskedGuard(guard)
    try:
        for attempt in range(_COMMIT_TRIES):
            snapshot = store.newest()
            try:
                deleted, kept, rewritten = _take_away(store, snapshot, own, retracted)
                # The files of this commit go with the caller's own message, so that they outlive a lost race.
                return commit.commit(
                    [CommitMessage(tuple(kept)), rewritten],
                    deleted=deleted,
                    operation=operation,
                    properties=properties,
                    change_tracking=change_tracking,
                    guard=asked,
                    watermark=watermark,
                )
            except CommitConflict:
                # What the guard refuses is no race that another try may win.
                if asked.has_refused or attempt + 1 == _COMMIT_TRIES:
                    raise
            except NotFound as error:
                if not has_expired(store, snapshot):
                    raise
                if attempt + 1 == _COMMIT_TRIES:
                    raise CommitConflict(
                        f"{store.identifier}: each snapshot in which the rows to be taken away were looked for expired "
                        f"meanwhile. Nothing is written; repeat it when fewer write. The last time: {error}"
                    ) from None
        raise AssertionError("the last try raises")
    except CommitOutcomeUnknown:
        raise
    except BaseException:
        store.file_io.delete_quietly(own_paths)
        raise


def _take_away(
    store: TableStore, snapshot: Snapshot | None, own: Sequence[ManifestEntry], retracted: pa.Table
) -> tuple[list[ManifestEntry], list[ManifestEntry], CommitMessage]:
    """Live files to delete, files of the commit to keep, and what is written in place of the others."""
    predicate = _range_of(store, retracted)
    scan = None if snapshot is None else Scan(store, snapshot, None, predicate)
    live, vectors = ([], {}) if scan is None else (scan.entries, scan.deletion_vectors)
    statistics = FileStatistics(store)
    marks = _Marks(vectors)
    deleted: list[ManifestEntry] = []
    kept: list[ManifestEntry] = []
    left = retracted
    own_names = {entry.file.name for entry in own}
    with TableWrite(store, ignore_existing=True) as writer:
        for entry in [*own, *live]:
            is_own = entry.file.name in own_names
            may_hold = left.num_rows > 0 and (predicate is None or statistics.may_match(predicate, entry.file))
            rows, positions = live_rows(store, entry, vectors) if may_hold else (None, None)
            taken = None
            if rows is not None and rows.num_rows:
                codes = row_codes([rows, left])
                taken = occurrences(codes[: rows.num_rows], codes[rows.num_rows :])
            if rows is None or positions is None or taken is None or not taken.any():
                kept += [entry] if is_own else []
                continue
            left = left.filter(pa.array(~occurrences(codes[rows.num_rows :], codes[: rows.num_rows][taken])))
            if not is_own and store.options.deletion_vectors_enabled:
                marks.add(entry, positions[taken])
                continue
            deleted += [] if is_own else [entry]
            writer.write(rows.filter(pa.array(~taken)))
        if left.num_rows:
            raise InvalidRequest(
                f"{left.num_rows} rows of kind -U or -D are not in {store.identifier}, the first is "
                f"{left.slice(0, 1).to_pylist()[0]}. "
                "Each takes away one row that equals it in every column. Set 'ignore-delete' to drop them."
            )
        message = replace(writer.prepare_commit(), marked=tuple(marks.marked))
        return [*deleted, *marks.deleted], kept, message


def _range_of(store: TableStore, rows: pa.Table) -> Predicate | None:
    """What all of some rows have in common, to skip files by: the ranges of columns of plain types without nulls."""
    bounds: list[Predicate] = []
    for field in store.schema.fields:
        column = rows.column(field.name)
        if column.null_count or not (pa.types.is_integer(column.type) or pa.types.is_string(column.type)):
            continue
        extremes = pc.min_max(column).as_py()
        bounds += [Comparison(field.name, ">=", extremes["min"]), Comparison(field.name, "<=", extremes["max"])]
    predicate = all_of(bounds)
    return None if predicate is None else predicate.bind(store.schema)


def rows_with_addresses(
    store: TableStore, snapshot: Snapshot | None, file_column: str, row_column: str
) -> tuple[list[ManifestEntry], pa.Table]:
    """The files of a table without a key, and their rows with where each lies: the file's name, and its position in it."""
    scan = None if snapshot is None else Scan(store, snapshot)
    entries, vectors = ([], {}) if scan is None else (scan.entries, scan.deletion_vectors)
    tables = [
        rows
        for entry in entries
        if (rows := addressed_rows(store, entry, vectors, file_column, row_column)) is not None
    ]
    fields = [pa.field(file_column, pa.string()), pa.field(row_column, pa.int64())]
    empty = pa.schema([*store.schema.to_arrow(), *fields]).empty_table()
    return entries, pa.concat_tables([empty, *tables])


def addressed_rows(
    store: TableStore, entry: ManifestEntry, vectors: Mapping[str, DeletionVector], file_column: str, row_column: str
) -> pa.Table | None:
    """The rows of a data file that are not marked as deleted, with its name, and with their positions in it; None if it has
    none.
    """
    rows, positions = live_rows(store, entry, vectors)
    if not rows.num_rows:
        return None
    rows = rows.cast(store.schema.to_arrow())
    rows = rows.append_column(file_column, pa.repeat(pa.scalar(entry.file.name), rows.num_rows))
    return rows.append_column(row_column, pa.array(positions))


def replace_rows(
    store: TableStore,
    snapshot: Snapshot | None,
    entries: Sequence[ManifestEntry],
    files: pa.ChunkedArray,
    numbers: pa.ChunkedArray,
    came: pa.Table,
) -> tuple[list[ManifestEntry], CommitMessage]:
    """Write files of a snapshot anew without the rows at some addresses, or mark those if the table has deletion vectors, and
    new rows beside them.
    """
    touched = pa.table({"file": files, "row": numbers})
    names = set(touched.column("file").unique().to_pylist())
    deleted = [entry for entry in entries if entry.file.name in names]

    def gone(entry: ManifestEntry) -> np.ndarray:
        rows = touched.filter(pc.equal(touched.column("file"), entry.file.name)).column("row").to_numpy()
        return np.asarray(rows)

    if store.options.deletion_vectors_enabled:
        positions = {entry.file.name: gone(entry) for entry in deleted}
        lost, marked = marks_of_rows(entries, vectors_of(store, snapshot), positions)
        with TableWrite(store) as writer:
            writer.write(came)
            return lost, replace(writer.prepare_commit(), marked=tuple(marked))
    with TableWrite(store, ignore_existing=True) as writer:
        for entry in deleted:
            rows = _rows_of(store, entry)
            assert rows is not None, "a file without rows has no row to replace"
            kept = np.ones(rows.num_rows, bool)
            kept[gone(entry)] = False
            writer.write(rows.filter(pa.array(kept)))
        writer.write(came)
        return deleted, writer.prepare_commit()
