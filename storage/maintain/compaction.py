"""Compaction: merge sorted runs of a bucket into one of a higher level, and small files into larger ones.

What is merged is chosen by `lsm/universal.py`; the rows of the table do not change. The result is a snapshot of kind
COMPACT of its own. It conflicts with a writer or another compaction only if that took away one of the same files; then
nothing is committed and the new files are deleted. Follows `docs/format.md`, "Compaction".
"""

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from itertools import chain, groupby
from operator import attrgetter

import pyarrow as pa

from ..errors import CommitConflict, NotFound, RowsChanged
from ..format.deletion_vector import DeletionVector
from ..lsm.changelog import changelog
from ..lsm.merge_engines import merge_engine_of
from ..lsm.record_expiry import RecordExpiry, record_expiry_of
from ..lsm.sorted_run import Section, SortedRun, split_into_sections
from ..lsm.system_columns import LEVEL, SEQUENCE_NUMBER, VALUE_KIND
from ..lsm.universal import LevelRun, UniversalOptions, pick_all_of_level_0, pick_compaction, pick_everything
from ..metadata.change_tracking import is_tracked
from ..metadata.index_manifest import vectors_of
from ..metadata.live_files import live_files
from ..metadata.manifest import ADD, COMPACTED, LOOKUP_MARK, ManifestEntry, Place
from ..metadata.manifest_columns import FilePlace
from ..metadata.schema import KEY_PREFIX
from ..metadata.schema_check import refuse_unwritable
from ..metadata.snapshot import BATCH_COMMIT_IDENTIFIER, COMPACT, Snapshot
from ..metadata.table_store import TableStore
from ..metadata.way_back import told_of_way_back
from ..option_checks import refuse_unsupported
from ..options import TableOptions
from ..progress import progress_of_each
from ..read.split_read import ReadRequest, read_run, read_sections
from ..write.commit import TableCommit
from ..write.commit_id import CommitId
from ..write.data_file_sink import Bucket, DataFileSink
from ..write.listeners import CommitListener
from ..write.newer_columns import at_columns_of
from ..write.postponed import is_postponed
from ..write.table_write import CommitMessage, earliest
from ..write.vectors import MarkedFile
from .age import now_of_ages
from .expired_rows import expired_files
from .mark_replaced import marks_of
from .may_stay import LARGE_SHARE, may_stay
from .outdated import outdated_columns
from .settle_postponed import settle_postponed

_THREADS = max(2, min(4, os.cpu_count() or 2))
_ROWS_WORTH_THREADS = 20_000


@dataclass(frozen=True, slots=True)
class BucketCompaction:
    """Files of one bucket that become new ones of `output_level`. Pickles, so that it can travel to a task."""

    entries: tuple[ManifestEntry, ...]
    output_level: int
    drops_deletes: bool
    # Files of the bucket that stay as they are, where rows are looked up for the changelog, and to be merged.
    looked_up: tuple[ManifestEntry, ...] = ()
    # Files of this level and above hold what the changelog has told already; None: there is no changelog to write.
    told_level: int | None = None
    # The deletion vectors of all these files that have one, by the file's name.
    vectors: Mapping[str, DeletionVector] = field(default_factory=dict)
    # Names of files that are written anew, however large they are.
    outdated: frozenset[str] = frozenset()
    # What of the files is too old to be kept; None: rows do not expire.
    expiry: RecordExpiry | None = None

    @property
    def expiring(self) -> dict[str, RecordExpiry]:
        """By the file's name, what rows are left out of it: of those that are only looked up none are."""
        return {} if self.expiry is None else {entry.file.name: self.expiry for entry in self.entries}

    @property
    def place(self) -> Place:
        """Partition and bucket."""
        return self.entries[0].place


@dataclass(frozen=True, slots=True)
class BucketResult:
    """What a compaction of one bucket takes away and adds."""

    deleted: tuple[ManifestEntry, ...]
    message: CommitMessage


Run = Callable[[Sequence[BucketCompaction]], list[BucketResult]]


def compact(
    store: TableStore,
    *,
    full: bool,
    outdated: bool = False,
    wanted: Callable[[Place], bool] | None = None,
    listeners: Sequence[CommitListener] = (),
    run: Run | None = None,
) -> Snapshot | None:
    """Compact buckets (all, or those `wanted`) and commit; None if there is nothing to do.

    `full` merges every run; otherwise the triggers decide. `outdated`: files with `outdated_columns` are written anew as well.
    `run` carries the plans out elsewhere. Raises CommitConflict if another commit took away files meanwhile.
    """
    planned = store.newest()
    # Others may have written columns that have come since the table was opened.
    store = at_columns_of(store, planned)
    refuse_unsupported(store.schema.options, str(store.identifier), for_writing=True)
    refuse_unwritable(store.schema)
    settled = None
    if full and is_postponed(store.schema):
        settled = settle_postponed(store, wanted=wanted, listeners=listeners)
        planned = store.newest()
    try:
        plans = plan_compaction(store, planned, full=full, outdated=outdated, wanted=wanted)
        results = _run_all(store, plans) if run is None or not plans else run(plans)
    except NotFound as error:
        store.refuse_other_table()
        if planned is not None and store.snapshots.find(planned.id) is None:
            raise CommitConflict(
                f"{store.identifier}: snapshot {planned.id}, which was to be compacted, has expired meanwhile ({error}) "
                "Nothing is written; compact it again."
            ) from None
        raise
    results = [result for result in results if result.deleted]
    if not results:
        # Nothing to do in this table, and not in one that has gone.
        store.refuse_other_table()
        return settled
    commit_id = CommitId(store.clock.unique_name(), BATCH_COMMIT_IDENTIFIER)
    try:
        return TableCommit(store, commit_id, listeners).commit(
            [result.message for result in results],
            deleted=[entry for result in results for entry in result.deleted],
            kind=COMPACT,
            operation="COMPACT",
        )
    except RowsChanged as error:
        raise CommitConflict(
            f"{store.identifier}: another commit has changed what was to be compacted ({error}) Nothing is written; compact it "
            "again."
        ) from None


def plan_compaction(
    store: TableStore,
    snapshot: Snapshot | None,
    *,
    full: bool,
    outdated: bool = False,
    wanted: Callable[[Place], bool] | None = None,
) -> list[BucketCompaction]:
    """What to compact in a snapshot, bucket by bucket; arguments as those of `compact`."""
    if snapshot is None:
        return []
    now_ms = 0 if store.options.record_level_expire_time_ms is None else now_of_ages(store)
    expiry = record_expiry_of(store.schema, now_ms) if store.schema.primary_keys else None

    def keep(place: FilePlace) -> bool:
        return place.bucket >= 0 and (wanted is None or wanted(place.place))

    with told_of_way_back(store, snapshot):
        live = live_files(store.manifests_of(snapshot), store.manifests, keep)
        vectors = vectors_of(store, snapshot)
    live.sort(key=attrgetter("place"))
    plans: list[BucketCompaction] = []
    for _, group in groupby(live, attrgetter("place")):
        entries = list(group)
        if len({entry.total_buckets for entry in entries}) > 1:
            # `check` names it. Hashed to two numbers of buckets, a key may be in another bucket as well; one number for all
            # would hide that.
            continue
        old = frozenset(entry.file.name for entry in entries if outdated and outdated_columns(store, entry))
        if store.schema.primary_keys:
            aged = expired_files(store, expiry, entries) if full else frozenset()
            plans += _plan_keyed(entries, store.options, old, aged.union(vectors), full=full)
        else:
            plans += _plan_plain(entries, store.options, old.union(vectors if full else ()), full=full)
    if expiry is not None:
        plans = [replace(plan, expiry=expiry) for plan in plans]
    return [replace(plan, vectors=_of_plan(plan, vectors)) for plan in plans] if vectors else plans


def _of_plan(plan: BucketCompaction, vectors: Mapping[str, DeletionVector]) -> dict[str, DeletionVector]:
    names = (entry.file.name for entry in (*plan.entries, *plan.looked_up))
    return {name: vectors[name] for name in names if name in vectors}


def _plan_keyed(
    entries: Sequence[ManifestEntry],
    options: TableOptions,
    outdated: frozenset[str],
    lessened: Collection[str],
    *,
    full: bool,
) -> Iterator[BucketCompaction]:
    """`lessened`: names of files some rows of which are gone, by deletion vectors, or too old."""
    # Newest first: files of level 0 one by one, then a run for each level.
    ordered = sorted(entries, key=lambda live: (live.file.level, -live.file.max_sequence_number, live.file.name))
    runs = [[entry] for entry in ordered if entry.file.level == 0]
    runs += [
        list(group)
        for _, group in groupby((entry for entry in ordered if entry.file.level > 0), lambda live: live.file.level)
    ]
    sizes = [LevelRun(run[0].file.level, sum(file.file.size_bytes for file in run)) for run in runs]
    universal = universal_options(options)
    # Other readers take the files of a first-row table as they are, so that no key may be in two of them.
    everything = full or bool(outdated) or options.merge_engine == "first-row"
    commits = sum(size.level == 0 for size in sizes)
    if options.full_compaction_delta_commits is not None and commits >= options.full_compaction_delta_commits:
        everything = True
    pick_some = pick_all_of_level_0 if options.looks_up else pick_compaction
    pick = pick_everything(sizes, universal) if everything else pick_some(sizes, universal)
    if pick is None:
        marked = tuple(entry for entry in ordered if full and entry.file.name in lessened)
        if outdated:
            yield BucketCompaction(tuple(entries), options.top_level, drops_deletes=True, outdated=outdated)
        elif marked:
            # Files of the highest level alone: those with deleted rows are written anew.
            yield BucketCompaction(marked, options.top_level, drops_deletes=True)
        return
    picked = tuple(file for run in runs[: pick.run_count] for file in run)
    left = tuple(file for run in runs[pick.run_count :] for file in run)
    told_level = options.told_level
    if told_level is not None and pick.output_level < told_level:
        told_level = None
    # Deletes hide older rows; where no older run is left, there is nothing to hide.
    looked_up = left if told_level or options.looks_up else ()
    # With deletion vectors they hide nothing: the older rows are marked.
    drops_deletes = not left or options.deletion_vectors_enabled
    yield BucketCompaction(picked, pick.output_level, drops_deletes, looked_up, told_level, outdated=outdated)


def universal_options(options: TableOptions) -> UniversalOptions:
    """The options of a table that the triggers go by."""
    return UniversalOptions(
        run_count_trigger=options.compaction_run_count_trigger,
        level_count=options.top_level + 1,
        max_size_amplification_percent=options.compaction_max_size_amplification_percent,
        size_ratio_percent=options.compaction_size_ratio_percent,
    )


def _plan_plain(
    entries: Sequence[ManifestEntry], options: TableOptions, anew: frozenset[str], *, full: bool
) -> Iterator[BucketCompaction]:
    """Neighbouring small files, up to the target size; order is kept. Files that are to be written anew in any case alone, if
    they have no such neighbours.
    """
    target = options.target_file_size(has_primary_key=False)
    least = 2 if full else options.compaction_min_file_count
    group: list[ManifestEntry] = []
    for entry in [*sorted(entries, key=lambda live: (live.file.min_sequence_number, live.file.name)), None]:
        is_small = entry is not None and entry.file.size_bytes < LARGE_SHARE * target
        if group and (not is_small or sum(member.file.size_bytes for member in group) >= target):
            if len(group) >= least or any(member.file.name in anew for member in group):
                yield BucketCompaction(tuple(group), 0, False)
            group = []
        if is_small and entry is not None:
            group.append(entry)
        elif entry is not None and entry.file.name in anew:
            yield BucketCompaction((entry,), 0, False)


def _run_all(store: TableStore, plans: Sequence[BucketCompaction]) -> list[BucketResult]:
    results: list[BucketResult] = []
    row_count = sum(entry.file.row_count for plan in plans for entry in plan.entries)
    is_small = len(plans) < 2 or (row_count < _ROWS_WORTH_THREADS and store.file_io.is_local)
    try:
        with nullcontext() if is_small else ThreadPoolExecutor(_THREADS) as pool:
            made = (pool.map if pool else map)(lambda plan: compact_bucket(store, plan), plans)
            results += progress_of_each(made, str(store.identifier), "buckets compacted", len(plans))
    except BaseException:
        store.file_io.delete_quietly([path for result in results for path in result.message.paths])
        raise
    return results


def compact_bucket(store: TableStore, plan: BucketCompaction) -> BucketResult:
    """Carry out the compaction of one bucket: write the new files; nothing is visible yet."""
    partition, number = plan.place
    schema = store.schema
    bucket = Bucket(partition, number, plan.entries[0].total_buckets, store.bucket_directory(plan.place))
    name = store.clock.unique_name()
    mark = LOOKUP_MARK if schema.primary_keys and merge_engine_of(schema).looks_up else "-"
    sink = DataFileSink(store, f"data{mark}{name}", level=plan.output_level, source=COMPACTED)
    changelog_sink = DataFileSink(store, f"changelog-{name}", source=COMPACTED)
    changelog_entries: list[ManifestEntry] = []
    marked: list[MarkedFile] = []
    try:
        rewrite = _rewrite_keyed if schema.primary_keys else _rewrite_plain
        deleted, added = rewrite(store, plan, bucket, sink)
        if plan.told_level is not None and is_tracked(store, partition):
            changelog_entries = _tell_changes(store, plan, bucket, changelog_sink)
        if store.options.deletion_vectors_enabled:
            marked = marks_of(store, plan.entries, plan.looked_up, plan.vectors)
    except BaseException:
        sink.abort()
        changelog_sink.abort()
        raise
    paths, begun_ms = (*sink.paths, *changelog_sink.paths), earliest((sink.begun_ms, changelog_sink.begun_ms))
    message = CommitMessage(tuple(added), paths, tuple(changelog_entries), begun_ms=begun_ms, marked=tuple(marked))
    return BucketResult(tuple(deleted), message)


Rewritten = tuple[list[ManifestEntry], list[ManifestEntry]]


def _rewrite_plain(store: TableStore, plan: BucketCompaction, bucket: Bucket, sink: DataFileSink) -> Rewritten:
    request = ReadRequest(store, tuple(store.schema.column_names), None)
    by_name = {entry.file.name: entry.file for entry in plan.entries}
    sections = [Section((SortedRun((file,)),)) for file in by_name.values()]
    first = min(file.min_sequence_number for file in by_name.values())
    batches = read_sections(request, bucket.partition, bucket.directory, sections, plan.vectors, use_threads=False)
    added: list[ManifestEntry] = []
    for rows in _buffered(batches, store.options.write_buffer_size_bytes):
        added += sink.write_plain(bucket, rows.cast(store.schema.to_arrow()), first)
        first += rows.num_rows
    return list(plan.entries), added


def _rewrite_keyed(store: TableStore, plan: BucketCompaction, bucket: Bucket, sink: DataFileSink) -> Rewritten:
    entries = {(entry.file.name, entry.file.level): entry for entry in plan.entries}
    looked_up = [entry.file for entry in plan.looked_up] if merge_engine_of(store.schema).looks_up else []
    sections = split_into_sections([*(entry.file for entry in plan.entries), *looked_up], store.key_range)
    sections = [section for section in sections if any((file.name, file.level) in entries for file in section.files)]
    deleted: list[ManifestEntry] = []
    added: list[ManifestEntry] = []
    # Of a pick of the highest level alone, for the deleted rows in it, nothing may stay.
    is_for_marks = not plan.outdated and all(entry.file.level == plan.output_level for entry in plan.entries)
    aged = expired_files(store, plan.expiry, plan.entries)

    def may_stay_as_it_is(section: Section) -> bool:
        is_aged = any(file.name in aged for file in section.files)
        if is_for_marks or is_aged or any(file.name in plan.outdated for file in section.files):
            return False
        return may_stay(store, section, bucket.directory, plan.output_level, plan.vectors)

    for stays, group in groupby(sections, may_stay_as_it_is):
        together = list(group)
        files = [file for section in together for file in section.files]
        old = [entries[file.name, file.level] for file in files if (file.name, file.level) in entries]
        if stays:
            # The same file on another level is the same file.
            moved = [snapshot for snapshot in old if snapshot.file.level != plan.output_level]
            deleted += moved
            added += [replace(file, kind=ADD, file=replace(file.file, level=plan.output_level)) for file in moved]
            continue
        deleted += old
        for rows in _buffered(_merged(store, bucket, together, plan), store.options.write_buffer_size_bytes):
            added += _write_run(store, bucket, rows, sink)
    return deleted, added


def _tell_changes(store: TableStore, plan: BucketCompaction, bucket: Bucket, sink: DataFileSink) -> list[ManifestEntry]:
    """Write how the files that no changelog has told of change what those above them hold."""
    assert plan.told_level is not None
    told_level = plan.told_level
    merges_single_rows = _merges_single_rows(store, plan)
    options = store.options
    request = ReadRequest(store, tuple(store.schema.column_names), None)
    sections = split_into_sections([entry.file for entry in (*plan.entries, *plan.looked_up)], store.key_range)
    entries: list[ManifestEntry] = []
    for section in sections:
        if all(file.level >= told_level for file in section.files):
            continue
        old = [file for file in section.files if file.level >= told_level]
        before: Iterator[pa.RecordBatch] = iter(())
        for part in split_into_sections(old, store.key_range):
            run = read_run(
                request,
                bucket.partition,
                bucket.directory,
                part,
                plan.vectors,
                keep_deletes=False,
                expiring=plan.expiring,
            )
            before = chain(before, run)
        after = read_run(
            request,
            bucket.partition,
            bucket.directory,
            section,
            plan.vectors,
            keep_deletes=False,
            with_level=True,
            merges_single_rows=merges_single_rows,
            expiring=plan.expiring,
        )
        key_count = len(store.key_types)
        rows = changelog(
            before,
            after,
            key_count,
            told_level,
            drops_equal_pairs=options.changelog_row_deduplicate,
            tells_new_keys_alone=options.merge_engine == "first-row",
        )
        for table in _buffered(rows, options.write_buffer_size_bytes):
            entries += _write_run(store, bucket, table, sink)
    return entries


def _merged(
    store: TableStore, bucket: Bucket, sections: Iterable[Section], plan: BucketCompaction
) -> Iterator[pa.RecordBatch]:
    """The rows that the files of a compaction become. Of those that are only looked up none are among them."""
    request = ReadRequest(store, tuple(store.schema.column_names), None)
    looks_up = merge_engine_of(store.schema).looks_up
    # Not all below are of the output level or lower: the table may have had more levels.
    lowest_looked_up = min((entry.file.level for entry in plan.looked_up), default=None)
    for section in sections:
        batches = read_run(
            request,
            bucket.partition,
            bucket.directory,
            section,
            plan.vectors,
            keep_deletes=not plan.drops_deletes,
            with_level=looks_up,
            merges_single_rows=_merges_single_rows(store, plan),
            expiring=plan.expiring,
        )
        for rows in batches:
            if looks_up and lowest_looked_up is not None:
                rows = rows.filter(pa.array(rows.column(LEVEL).to_numpy() < lowest_looked_up))
            if rows.num_rows:
                yield rows


def _merges_single_rows(store: TableStore, plan: BucketCompaction) -> bool:
    """Whether rows that are the only ones of their keys are merged too, as Paimon does it where it looks up.

    Not those of a single file that becomes the only one of its bucket: Paimon leaves it as it is, unless it holds retractions.
    """
    stays = plan.drops_deletes and len(plan.entries) == 1 and plan.entries[0].file.delete_row_count == 0
    return not stays and merge_engine_of(store.schema).looks_up and any(entry.file.level == 0 for entry in plan.entries)


def _write_run(store: TableStore, bucket: Bucket, rows: pa.Table, sink: DataFileSink) -> list[ManifestEntry]:
    keys = set(store.schema.trimmed_primary_keys)
    columns = [
        rows.column(f"{KEY_PREFIX}{field.name}" if field.name in keys else field.name) for field in store.schema.fields
    ]
    values = pa.Table.from_arrays(columns, schema=store.schema.to_arrow())
    sequence, kinds = (rows.column(name).to_numpy() for name in (SEQUENCE_NUMBER, VALUE_KIND))
    return sink.write_run(bucket, values, sequence, kinds)


def _buffered(batches: Iterable[pa.RecordBatch], limit_bytes: int) -> Iterator[pa.Table]:
    """Tables of about `limit_bytes` each."""
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        held.append(batch)
        size += batch.nbytes
        if size >= limit_bytes:
            yield pa.Table.from_batches(held).combine_chunks()
            held, size = [], 0
    if held:
        yield pa.Table.from_batches(held).combine_chunks()
