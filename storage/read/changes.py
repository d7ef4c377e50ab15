"""Changes: what commits did to a table, as rows with a kind each.

Where a changelog was written, it is the answer. Else a commit that only added files shows its rows as they were
written: not merged with older ones, so that an update shows its new row only (`+I` or `+U`), and a merge engine's
increments show as such. A commit that replaced files shows the rows that went as `-D` and those that came as `+I`.
Compactions change nothing, and commits without change tracking show nothing.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from operator import attrgetter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import NotFound, Unsupported
from ..format.deletion_vector import DeletionVector
from ..lsm.moving_keys import in_order_of_moves
from ..lsm.row_multiset import difference
from ..lsm.sorted_run import Section, SortedRun, split_into_sections
from ..lsm.system_columns import DELETE, INSERT, KINDS, UPDATE_BEFORE, VALUE_KIND
from ..metadata.change_tracking import tracks
from ..metadata.history import told_of_expiry
from ..metadata.index_manifest import vectors_of
from ..metadata.live_files import live_files, postponed_files
from ..metadata.manifest import ADD, POSTPONED_BUCKET, DataFile, ManifestEntry
from ..metadata.manifest_columns import FilePlace
from ..metadata.schema import KEY_PREFIX
from ..metadata.snapshot import COMPACT, OVERWRITE, Snapshot
from ..metadata.table_store import TableStore
from ..option_checks import refuse_unsupported
from .arrival import in_order_of_arrival
from .change_metadata import (
    origins_of_changelog,
    snapshots_of_changes,
    tells_of_commits,
    told_by,
    with_metadata,
)
from .origins import FileOrigin, Origins, origins_of
from .positions import read_vector
from .scan import Scan
from .split import Split
from .split_read import ReadRequest, read_file, read_sections

ROW_KIND = "rowkind"
SNAPSHOT_ID = "snapshot_id"


@dataclass(frozen=True)
class Marks:
    """The deletion vectors of data files, by name, before a snapshot and after it."""

    before: Mapping[str, DeletionVector]
    after: Mapping[str, DeletionVector]

    @property
    def changed(self) -> set[str]:
        """The files whose vector may be another one."""
        names = self.before.keys() | self.after.keys()
        return {name for name in names if self.before.get(name) != self.after.get(name)}

    def between(self, store: TableStore, file: DataFile) -> tuple[np.ndarray, np.ndarray]:
        """The positions of a file's rows that are marked since, and of those that are not any more (int64, ascending)."""
        sides = [self.before.get(file.name), self.after.get(file.name)]
        old, new = [np.empty(0, np.int64) if each is None else read_vector(store, file, each) for each in sides]
        return np.setdiff1d(new, old, assume_unique=True), np.setdiff1d(old, new, assume_unique=True)


@dataclass(frozen=True)
class ChangeSplit:
    """What one snapshot did to one bucket, or by replacing files to one partition, as a task can read it.

    The rows of the files with the kinds they have; if it `compares`, what they and the rows of those `replaced` differ in;
    or all rows of `current`, as a first reading of the table; or what the `parts` of a snapshot tell, where keys move from one
    partition to another: a key leaves before it comes. With deletion vectors, `marks` are those of the bucket, or the
    partition, before and after, and `marked` the files that stay and have other ones.
    """

    request: ReadRequest
    snapshot_id: int
    partition: bytes
    entries: tuple[ManifestEntry, ...] = ()
    replaced: tuple[ManifestEntry, ...] = ()
    current: Split | None = None
    # Which snapshots made the changes, if somebody asks; this one where nothing else is said of a file.
    origins: Origins = field(default_factory=Origins)
    marks: "Marks" = field(default_factory=lambda: Marks({}, {}))
    marked: tuple[ManifestEntry, ...] = ()
    parts: "tuple[ChangeSplit, ...]" = ()
    compares: bool = False

    def read(self) -> Iterator[pa.RecordBatch]:
        """Batches of `changes_schema`; none of them empty. The order of commits is kept within a bucket."""
        schema, names = changes_schema(self.request), self.request.schema.names
        predicate = self.request.predicate
        for kinds, rows in self._told():
            ids = pa.array(np.full(rows.num_rows, self.snapshot_id))
            arrays = [kinds, ids, *(rows.column(name) for name in names)]
            batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
            batch = batch if predicate is None else batch.filter(predicate.mask(rows))
            if batch.num_rows:
                yield batch

    def _told(self) -> Iterator[tuple[pa.Array, pa.RecordBatch]]:
        store = self.request.store
        with told_of_expiry(store, self.request.snapshot):
            try:
                yield from self._rows()
            except NotFound:
                # What was replaced is in files of the snapshot before, which may have expired with them.
                compares = any(value.replaced or value.marked for value in (self, *self.parts))
                if compares and store.snapshots.find(self.snapshot_id - 1) is None:
                    raise before_has_expired(store, self.snapshot_id) from None
                raise

    def _rows(self) -> Iterator[tuple[pa.Array, pa.RecordBatch]]:
        if self.current is not None:
            for rows in self.current.read(use_threads=False):
                yield self._of_commit(_kind(INSERT, rows), rows)
        elif self.parts:
            yield from self._together()
        elif self.compares:
            yield from self._difference()
        else:
            for entry in self.entries:
                yield from self._rows_of(entry)

    def _of_commit(
        self, kinds: pa.Array, rows: pa.RecordBatch, ids: np.ndarray | None = None
    ) -> tuple[pa.Array, pa.RecordBatch]:
        """Changes with what is asked for of the commits that made them, by default this one."""
        if not self.request.metadata:
            return kinds, rows
        made_by = np.full(rows.num_rows, self.snapshot_id) if ids is None else ids
        partition = self.request.store.partition_path(self.partition)
        return kinds, with_metadata(rows, kinds, made_by, partition, self.request.metadata, self.origins)

    def _together(self) -> Iterator[tuple[pa.Array, pa.RecordBatch]]:
        """What all parts tell, in memory, in an order in which it can be applied."""
        pairs = [pair for part in self.parts for pair in part._rows()]
        if not pairs:
            return
        kinds = pa.chunked_array([kinds for kinds, _ in pairs]).combine_chunks()
        # Rows that were compared have columns that are NOT NULL.
        rows = pa.concat_tables([pa.Table.from_batches([rows]) for _, rows in pairs], promote_options="default")
        schema = self.request.store.schema
        keys, partitions = (rows.select(list(names)) for names in (schema.primary_keys, schema.partition_keys))
        retracts = pc.is_in(kinds, pa.array([KINDS[UPDATE_BEFORE], KINDS[DELETE]])).to_numpy(zero_copy_only=False)
        order = pa.array(in_order_of_moves(keys, partitions, retracts))
        for batch in rows.take(order).combine_chunks().to_batches():
            yield kinds.take(order), batch

    def _difference(self) -> Iterator[tuple[pa.Array, pa.RecordBatch]]:
        if self.request.store.schema.primary_keys:
            came = list(self._merged(self.entries, self.marks.after))
            went = list(self._merged(self.replaced, self.marks.before))
        else:
            came = [rows for entry in self.entries for rows in self._plain(entry, self.marks.after)]
            went = [rows for entry in self.replaced for rows in self._plain(entry, self.marks.before)]
            for entry in self.marked:
                gone, back = self.marks.between(self.request.store, entry.file)
                went += [rows.take(pa.array(places)) for rows, places in self._placed(entry, gone)]
                came += [rows.take(pa.array(places)) for rows, places in self._placed(entry, back)]
        schema = self.request.store.schema.to_arrow()
        removed, added = difference(_table(went, schema), _table(came, schema))
        for kind, table in ((DELETE, removed), (INSERT, added)):
            for rows in table.combine_chunks().to_batches():
                yield self._of_commit(_kind(kind, rows), rows)

    def _placed(self, entry: ManifestEntry, positions: np.ndarray) -> Iterator[tuple[pa.RecordBatch, np.ndarray]]:
        """Batches of a file that hold rows at some positions, with the places of those in them."""
        start = 0
        for rows in self._plain(entry, {}) if len(positions) else ():
            low, high = np.searchsorted(positions, [start, start + rows.num_rows])
            if low < high:
                yield rows, positions[low:high] - start
            start += rows.num_rows

    def _plain(self, entry: ManifestEntry, vectors: Mapping[str, DeletionVector]) -> Iterator[pa.RecordBatch]:
        """The rows of a file of a table without a key, whole."""
        store = self.request.store
        request = ReadRequest(store, tuple(store.schema.column_names), None)
        section = Section((SortedRun((entry.file,)),))
        directory = store.bucket_directory(entry.place)
        return read_sections(request, entry.partition, directory, [section], vectors, use_threads=False)

    def _merged(
        self, entries: Sequence[ManifestEntry], vectors: Mapping[str, DeletionVector]
    ) -> Iterator[pa.RecordBatch]:
        """What merging makes of the files of buckets."""
        store = self.request.store
        request = ReadRequest(store, tuple(store.schema.column_names), None)
        for place, group in groupby(sorted(entries, key=attrgetter("place")), attrgetter("place")):
            sections = split_into_sections([entry.file for entry in group], store.key_range)
            yield from read_sections(
                request, self.partition, store.bucket_directory(place), sections, vectors, use_threads=False
            )

    def _rows_of(self, entry: ManifestEntry) -> Iterator[tuple[pa.Array, pa.RecordBatch]]:
        store = self.request.store
        request = ReadRequest(store, tuple(_columns_needed(self.request)), None)
        directory = store.bucket_directory(entry.place)
        origin = self.origins.files.get(entry.file.name, FileOrigin(self.snapshot_id))
        if not store.schema.primary_keys:
            section = Section((SortedRun((entry.file,)),))
            vectors = self.marks.after
            for rows in read_sections(request, entry.partition, directory, [section], vectors, use_threads=False):
                yield self._of_commit(_kind(INSERT, rows), rows, origin.of(None, rows.num_rows))
            return
        keys = set(store.schema.trimmed_primary_keys)
        names = [f"{KEY_PREFIX}{name}" if name in keys else name for name in request.columns]
        runs = read_file(request, entry.partition, directory, entry.file)
        for run in runs if origin.starts is None else _with_whole_updates(runs):
            rows = run.select(names).rename_columns(list(request.columns))
            ids = snapshots_of_changes(run, origin) if self.request.metadata else None
            yield self._of_commit(pa.array(KINDS).take(run.column(VALUE_KIND)), rows, ids)


def _with_whole_updates(runs: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows, of which no batch ends with a row that the next one replaces."""
    held: pa.RecordBatch | None = None
    for run in runs:
        rows = run if held is None else pa.concat_batches([held, run])
        held = rows.slice(rows.num_rows - 1) if rows.column(VALUE_KIND)[-1].as_py() == UPDATE_BEFORE else None
        rows = rows if held is None else rows.slice(0, rows.num_rows - 1)
        if rows.num_rows:
            yield rows
    if held is not None:
        yield held


def changes_schema(request: ReadRequest) -> pa.Schema:
    """`rowkind` and `snapshot_id`, then the columns that are asked for."""
    head = [pa.field(ROW_KIND, pa.string(), False), pa.field(SNAPSHOT_ID, pa.int64(), False)]
    return pa.schema([*head, *request.schema])


def plan_changes(request: ReadRequest, after: int, until: int) -> Iterator[ChangeSplit]:
    """What the snapshots after one id and up to another did, in order. Raises NotFound if one of them has expired."""
    store = request.store
    refuse_unsupported(store.schema.options, str(store.identifier), for_writing=False)
    following = store.snapshots.find(after + 1)
    for snapshot_id in range(after + 1, until + 1):
        snapshot, following = following, store.snapshots.find(snapshot_id + 1)
        if following is not None and following.takes_back(snapshot):
            # Its rows are not there, nor in any later snapshot.
            continue
        if snapshot is not None and store.snapshots.is_in_history(snapshot, following):
            with told_of_expiry(store, snapshot):
                yield from _plan_snapshot(replace(request, snapshot=snapshot), snapshot)
            continue
        changelog = store.changelogs.find(snapshot_id)
        if changelog is None:
            store.refuse_other_table()
            raise store.snapshots.missing(snapshot_id)
        # Of a snapshot that has expired only this is left.
        if changelog.changelog_manifest_list is not None:
            yield from _plan_snapshot(request, changelog)
        elif _told_of_files(store, changelog) and (
            changelog.commit_kind == OVERWRITE or not _told_level(store, changelog)
        ):
            # Those have expired with it. Of what was only added a compaction tells, which has a changelog of its own.
            raise store.snapshots.missing(snapshot_id)


def has_untold(store: TableStore, snapshot: Snapshot) -> bool:
    """Whether a snapshot has files of whose rows a later compaction tells."""
    level = store.options.told_level
    if level is None or not store.schema.primary_keys:
        return False
    return any(entry.file.level < level for entry in live_files(store.manifests_of(snapshot), store.manifests))


def plan_first_reading(request: ReadRequest, snapshot: Snapshot) -> Iterator[ChangeSplit]:
    """All rows of a snapshot, as a reader of changes begins with them."""
    columns = (*_columns_needed(request), *request.metadata)
    options = request.store.options
    for split in Scan(request.store, snapshot, columns, request.predicate, lowest_level=options.told_level or 0).splits:
        yield ChangeSplit(request, snapshot.id, split.partition, current=split)
    if (
        request.store.schema.primary_keys
        and options.bucket == POSTPONED_BUCKET
        and options.changelog_producer == "none"
    ):
        # Compactions do not tell of them.
        waiting = postponed_files(request.store.manifests_of(snapshot), request.store.manifests)
        postponed = in_order_of_arrival(request.store, snapshot, waiting)
        origins = origins_of(request.store, snapshot, postponed) if tells_of_commits(request) else None
        yield from _plan(request, snapshot, postponed, [], origins=origins)


def before_has_expired(store: TableStore, snapshot_id: int) -> NotFound:
    """The error that says that changes cannot be told, since the snapshot before has expired."""
    return NotFound(
        f"What snapshot {snapshot_id} of {store.identifier} changed is told by snapshot {snapshot_id - 1} as well, which has "
        f"expired. Read the table anew, at {snapshot_id} or later. A consumer keeps what it has not read."
    )


def reads_before(store: TableStore, snapshot: Snapshot) -> bool:
    """Whether the changes of a snapshot are told by files of the one before as well, which has to be there."""
    is_told = snapshot.changelog_manifest_list is None and _tells_by_its_files(store, snapshot)
    return is_told and snapshot.commit_kind in (OVERWRITE, COMPACT)


def latest_schema(store: TableStore) -> TableStore:
    """The store under the newest version of its schema, in which changes of all versions are shown."""
    newest = store.schemas.latest()
    return store if newest is None else store.at_schema(replace(newest, options=store.schema.options))


def _plan_snapshot(request: ReadRequest, snapshot: Snapshot) -> Iterator[ChangeSplit]:
    store, manifests = request.store, request.store.manifests
    if store.schema.options.get("data-evolution.enabled", "false") == "true":
        raise Unsupported(
            f"{store.identifier} has 'data-evolution.enabled': which rows a commit changed is not told here."
        )
    if snapshot.changelog_manifest_list is not None:
        listed = manifests.read_list(snapshot.changelog_manifest_list)
        entries = [entry for each in listed for entry in manifests.read(each.name)]
        level = _told_level(store, snapshot)
        origins = origins_of_changelog(store, snapshot, entries, level) if tells_of_commits(request) else None
        yield from _plan(request, snapshot, entries, [], origins=origins)
        return
    if not _tells_by_its_files(store, snapshot):
        return
    delta = store.delta_of(snapshot)
    if store.options.changelog_producer != "none":
        # They are told of once a compaction moves them.
        delta = [entry for entry in delta if entry.bucket != POSTPONED_BUCKET]
    added = [entry for entry in delta if entry.kind == ADD]
    removed = [entry for entry in delta if entry.kind != ADD]
    told_level = _told_level(store, snapshot)
    marks = _marks_of(store, snapshot)
    marked = _marked(store, snapshot, marks, added) if marks.changed else []
    # Where changes are complete, what comes on top of other rows is told with those that it replaces.
    is_complete = store.options.told_level is not None and snapshot.commit_kind in (OVERWRITE, COMPACT)
    if store.schema.primary_keys and (removed or marked or is_complete):
        # Files may have gone from between others, or their rows by marks: what merging makes of the buckets tells, before and
        # after.
        added, removed = _around(store, snapshot, [*delta, *marked])
        marked = []
    yield from _plan(
        request,
        snapshot,
        [entry for entry in added if entry.file.level >= told_level],
        [entry for entry in removed if entry.file.level >= told_level],
        marks,
        marked,
        compares=is_complete,
    )


def _marks_of(store: TableStore, snapshot: Snapshot) -> "Marks":
    """The deletion vectors before and after a snapshot. Raises NotFound if the one before has expired and had others."""
    if not store.options.deletion_vectors_enabled or snapshot.commit_kind not in (OVERWRITE, COMPACT):
        return Marks({}, {})
    before = store.snapshots.find(snapshot.id - 1)
    if before is None and snapshot.id > 1:
        raise before_has_expired(store, snapshot.id)
    return Marks(vectors_of(store, before), vectors_of(store, snapshot))


def _marked(
    store: TableStore, snapshot: Snapshot, marks: "Marks", added: Sequence[ManifestEntry]
) -> list[ManifestEntry]:
    """The files that a snapshot has left where they are with other deletion vectors."""
    came = {entry.file.name for entry in added}
    live = live_files(store.manifests_of(snapshot), store.manifests)
    return [entry for entry in live if entry.file.name in marks.changed and entry.file.name not in came]


def _tells_by_its_files(store: TableStore, snapshot: Snapshot) -> bool:
    """Whether readers of changes read what a snapshot did off the files that it added and took away."""
    return _told_of_files(store, snapshot) or _lifts_untold(store, snapshot)


def _told_of_files(store: TableStore, snapshot: Snapshot) -> bool:
    """The same, of a commit of rows."""
    if snapshot.commit_kind == OVERWRITE and not store.options.streaming_read_overwrite:
        return False
    return snapshot.changes_rows


def _lifts_untold(store: TableStore, snapshot: Snapshot) -> bool:
    """Whether a compaction that tells of nothing has lifted rows that nobody was told of. Java's overwrites write such rows, and
    commit their compaction without a changelog.
    """
    told_level = _told_level(store, snapshot)
    if snapshot.commit_kind != COMPACT or not told_level or not store.options.streaming_read_overwrite:
        return False
    delta = store.delta_of(snapshot)
    lifted = any(entry.kind == ADD and entry.file.level >= told_level for entry in delta)
    return lifted and any(entry.kind != ADD and entry.file.level < told_level for entry in delta)


def _told_level(store: TableStore, snapshot: Snapshot) -> int:
    """Below this level nobody was told of rows yet: the compaction that lifts them there tells."""
    return store.schemas.get(snapshot.schema_id).table_options.told_level or 0


def _around(
    store: TableStore, snapshot: Snapshot, changed: Sequence[ManifestEntry]
) -> tuple[list[ManifestEntry], list[ManifestEntry]]:
    """The live files after a commit and before it, in the buckets in which files have changed."""
    touched = {entry.place for entry in changed}

    def is_touched(place: FilePlace) -> bool:
        return place.place in touched

    before = store.manifests.read_list(snapshot.base_manifest_list)
    files = store.manifests
    return live_files(store.manifests_of(snapshot), files, is_touched), live_files(before, files, is_touched)


def _plan(
    request: ReadRequest,
    snapshot: Snapshot,
    added: Sequence[ManifestEntry],
    removed: Sequence[ManifestEntry],
    marks: "Marks | None" = None,
    marked: Sequence[ManifestEntry] = (),
    origins: Origins | None = None,
    *,
    compares: bool = False,
) -> Iterator[ChangeSplit]:
    store = request.store
    if origins is None and tells_of_commits(request):
        origins = told_by(snapshot)
    compared = {entry.partition for entry in (*removed, *marked, *(added if compares else ()))}

    def place(entry: ManifestEntry) -> tuple[bytes, int]:
        # What replaces a row may lie in another bucket, if their number changed.
        return entry.partition, -1 if entry.partition in compared else entry.bucket

    def order(entry: ManifestEntry) -> tuple[object, ...]:
        if entry.bucket == POSTPONED_BUCKET:
            # Each file has numbers of its own: they stay in the order in which they came.
            return (*place(entry), entry.bucket, 0, "")
        return (*place(entry), entry.bucket, entry.file.min_sequence_number, entry.file.name)

    came = {where: tuple(group) for where, group in groupby(sorted(added, key=order), place)}
    went = {where: tuple(group) for where, group in groupby(sorted(removed, key=order), place)}
    stayed = {where: tuple(group) for where, group in groupby(sorted(marked, key=order), place)}
    tracked = [where for where in sorted(came.keys() | went.keys() | stayed.keys()) if tracks(snapshot, where[0])]
    together = store.schema.crosses_partitions and len({partition for partition, _ in tracked}) > 1
    asked = replace(request, columns=_columns_with_keys(request)) if together else request
    parts = tuple(
        ChangeSplit(
            asked,
            snapshot.id,
            where[0],
            came.get(where, ()),
            went.get(where, ()),
            origins=origins or Origins(),
            marks=marks or Marks({}, {}),
            marked=stayed.get(where, ()),
            compares=where[0] in compared,
        )
        for where in tracked
    )
    if together:
        yield ChangeSplit(request, snapshot.id, tracked[0][0], parts=parts)
    else:
        yield from parts


def _columns_needed(request: ReadRequest) -> list[str]:
    """The wanted columns, and those that the filter needs."""
    wanted = set(request.columns) | (request.predicate.columns() if request.predicate else set())
    return [name for name in request.store.schema.column_names if name in wanted]


def _columns_with_keys(request: ReadRequest) -> tuple[str, ...]:
    """Those, and the columns that tell a row from others and its partition."""
    schema = request.store.schema
    needed = {*_columns_needed(request), *schema.primary_keys, *schema.partition_keys}
    return tuple(name for name in schema.column_names if name in needed)


def _kind(kind: int, rows: pa.RecordBatch) -> pa.Array:
    return pa.repeat(pa.scalar(KINDS[kind]), rows.num_rows)


def _table(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    arrays = [
        pa.chunked_array([pc.cast(batch.column(field.name), field.type) for batch in batches], field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(arrays, schema=schema)
