"""Options of Paimon that this store does not act on: those that change nothing here are accepted, the others refused, each with
the reason. `docs/options.md` lists them.

A `*` at the end of a key stands for whatever follows. A refused option may be given with the value that it has anyway.
"""

import fnmatch
from typing import NamedTuple


class Refused(NamedTuple):
    """Why an option cannot be followed, and the values, in lower case, that ask for nothing."""

    reason: str
    harmless: tuple[str, ...] = ()


_MEMORY = (
    "Says how Flink and Java share their memory and spill to disk; writers here sort a buffer of `write-buffer-size`."
)
_LOOKUP_CACHE = "Concerns the cache of Java's look-ups; compactions here merge sorted files and keep no cache."
_PARALLEL = "Says how many tasks of Flink or Spark work at once."
_FLINK_JOB = "Concerns how a job of Flink or Spark is laid out; it changes neither files nor rows."
_BATCHES = "Rows are read and written in batches of a size that this store chooses."
_BY_COMMAND = "Partitions expire by a command, `expire_partitions`, and not in the middle of a job."
_TRIGGERS = "Compactions are picked by the number and the size of runs; the option would only pick them at other times."
_NAMES = "Files are named by this store; readers go by what manifests say."
_NO_HIVE = "There is no Hive metastore to tell: the warehouse is its own catalog."
_FLINK_SOURCE = "Concerns when a Flink source looks for snapshots; streams here have settings of their own."
_ONLY_ORDER = "Concerns how Flink and Spark sort before they write; what is written holds the same rows."
_NO_GLOBAL = "Concerns global indexes, which nobody reads here; rows are found without them."

_ACCEPTED_BY_REASON: dict[str, str] = {
    "sort-engine sort-spill-threshold sort-spill-buffer-size spill-compression spill-compression.zstd-level "
    "write-buffer-spillable write-buffer-spill.max-disk-size write-buffer-for-append write-max-writers-to-spill "
    "local-sort.max-num-file-handles page-size cache-page-size local-merge-buffer-size lookup.merge-buffer-size "
    "lookup.merge-records-threshold sink.use-managed-memory-allocator sink.managed.writer-buffer-memory "
    "sink.cross-partition.managed-memory sink.writer-cpu sink.writer-memory sink.committer-cpu sink.committer-memory": _MEMORY,
    "lookup.cache-* lookup.cache.* lookup.hash-load-factor lookup.local-file-type lookup.remote-file.* lookup.async "
    "lookup.async-thread-number lookup.dynamic-partition.refresh.async "
    "lookup.bootstrap-parallelism lookup.cache lookup.dynamic-partition.refresh-interval lookup.refresh.*": _LOOKUP_CACHE,
    "sink.parallelism scan.parallelism scan.infer-parallelism scan.infer-parallelism.* scan.manifest.parallelism "
    "unaware-bucket.compaction.parallelism cross-partition-upsert.bootstrap-parallelism scan.max-splits-per-task "
    "file-operation.thread-num postpone.batch-write-fixed-bucket.max-parallelism": _PARALLEL,
    "sink.operator-uid.suffix source.operator-uid.suffix sink.writer-coordinator.* sink.committer-operator-chaining "
    "sink.savepoint.auto-tag scan.dedicated-split-generation scan.split-enumerator.* source.checkpoint-align.* "
    "streaming-read.shuffle-bucket-with-partition read.shuffle-bucket-with-partition partition.sink-strategy "
    "precommit-compact changelog.precommit-compact changelog.precommit-compact.thread-num "
    "filesystem.job-level-settings.enabled partition.mark-done.recover-from-state sink.writer-refresh-detectors "
    "write.use-v2-write requiredSparkConfsCheck.enabled": _FLINK_JOB,
    "source.split.target-size-with-column-pruning "
    "read.batch-size write.batch-size write.batch-memory file-reader-async-threshold async-file-write "
    "write-manifest-cache": _BATCHES,
    "partition.expiration-check-interval partition.expiration-batch-size end-input.check-partition-expire": _BY_COMMAND,
    "compaction.optimization-interval compaction.total-size-threshold compaction.incremental-size-threshold "
    "compaction.offpeak.start.hour compaction.offpeak.end.hour compaction.offpeak-ratio compaction.file-num-limit "
    "compaction.delete-ratio-threshold compaction.force-rewrite-all-files commit.force-compact lookup-compact "
    "lookup-compact.max-interval overwrite-upgrade compaction.max.file-num compaction.early-max.file-num": _TRIGGERS,
    "num-sorted-run.stop-trigger lookup-wait": "Writers never wait for a compaction of others: theirs follows the commit.",
    "data-file.prefix changelog-file.prefix file.suffix.include.compression commit.user-prefix": _NAMES,
    "metastore.partitioned-table metastore.tag-to-partition metastore.tag-to-partition.preview "
    "partition.idle-time-to-report-statistic": _NO_HIVE,
    "continuous.discovery-interval streaming.read.snapshot.delay snapshot.watermark-idle-timeout scan.watermark.alignment.* "
    "scan.watermark.emit.strategy scan.watermark.idle-timeout scan.remove-normalize": _FLINK_SOURCE,
    "sort-compaction.range-strategy sort-compaction.local-sample.magnification zorder.var-length-contribution "
    "sink.clustering.*": _ONLY_ORDER,
    "global-index.enabled global-index.thread-num global-index.row-count-per-shard global-index.build.max-shard "
    "global-index.build.max-parallelism": _NO_GLOBAL,
    "snapshot.expire.execution-mode": "Snapshots expire with the commit that lets them go, before it returns.",
    "snapshot.clean-empty-directories": "Directories without files are left: removing them would race with writers.",
    "scan.plan-sort-partition": "Splits are always planned in the order of partitions and buckets.",
    "bucket-append-ordered": "Compactions of a bucket keep the order of rows in any case.",
    "file.block-size": "Row groups of Parquet are counted in rows: `parquet.row-group.rows`.",
    "parquet.enable.dictionary": "Whether a column has a dictionary is decided by its values.",
    "changelog-file.format changelog-file.compression changelog-file.stats-mode": "Changelog files are written as data files "
    "are; readers go by the name of each.",
    "metadata.stats-dense-store": "Statistics name the columns they are for if they are not for all; readers take both forms.",
    "manifest.delete-file-drop-stats": "Entries that take a file away keep its statistics.",
    "sink.watermark-time-zone": "Tags are created by the clock, not by watermarks.",
    "alter-column-null-to-not-null.disabled": "A column becomes NOT NULL if no file holds a null of it, in any case.",
    "tag.time-expire-enabled": "Tags expire by a command, `expire_tags`, or with the commits that create them.",
}

_AT_READ = "it says what a single read reads, and would do so for every reader of the table. Say it where you read."
_AT_WRITE = "columns are added by ALTER TABLE … ADD COLUMNS, and not by whatever is written."
_NO_BLOB = "columns of blobs and vectors are not written here."
_NO_VARIANT = "variants are written whole, none of their fields in columns of their own."
_NO_CLUSTERS = "rows are not sorted by clusters here."
_NO_CALLBACK = "it names Java classes or addresses to call after a commit, and nothing here calls them."
_NO_DONE = "partitions are marked as done by commits ('partition.end-input-to-done') and by `partition mark-done`, with a file."
_NO_CHAIN = "tables that are made of several branches are not read here."
_FORMAT_TABLE = "tables of plain files are not kept in this warehouse."
_MATERIALIZED = "materialized tables are not kept in this warehouse; views are."
_POSTPONE = "rows of a table with postponed buckets are all given their buckets by compactions."
_EXTERNAL = "files that lie elsewhere are read, and not written, here."

_REFUSED_BY_REASON: dict[str, tuple[str, str]] = {
    # Keys, each with the value that asks for nothing behind `=`; reason.
    "reading": (
        "scan.mode=default scan.timestamp scan.timestamp-millis scan.watermark scan.file-creation-time-millis "
        "scan.creation-time-millis scan.snapshot-id scan.tag-name scan.version scan.bounded.watermark scan.bounded "
        "scan.partitions incremental-between incremental-between-scan-mode=auto incremental-between-timestamp "
        "incremental-to-auto-tag incremental-between-tag-to-snapshot=false consumer-id consumer.mode=exactly-once "
        "consumer.ignore-progress=false consumer.changelog-only=false stream-scan-mode=none batch-scan-mode=none "
        "streaming-read-mode streaming-read-append-overwrite=false end-input.watermark "
        "read.changelog=false read.allow.fullScan=true read.stream.* scan.max-snapshot.count",
        _AT_READ,
    ),
    "of a writer": ("write.merge-schema=false write.merge-schema.explicit-cast=false", _AT_WRITE),
    "blobs": ("blob.* blob-* vector.* vector-field", _NO_BLOB),
    "variants": ("variant.*", _NO_VARIANT),
    "clusters": (
        "clustering.columns clustering.strategy=auto clustering.incremental=false clustering.history-partition.limit "
        "clustering.history-partition.idle-to-full-sort clustering.incremental.optimize-write=false "
        "clustering.incremental.mode",
        _NO_CLUSTERS,
    ),
    "callbacks": (
        "commit.callbacks= commit.callback.* commit.custom-listeners "
        "tag.callbacks= tag.callback.* visibility-callback.enabled=false "
        "visibility-callback.timeout visibility-callback.check-interval",
        _NO_CALLBACK,
    ),
    "done": (
        "partition.mark-done-action.* partition.idle-time-to-done partition.time-interval",
        _NO_DONE,
    ),
    "branches": (
        "scan.fallback-snapshot-branch scan.fallback-delta-branch scan.primary-branch chain-table.chain-partition-keys",
        _NO_CHAIN,
    ),
    "files": ("format-table.*", _FORMAT_TABLE),
    "materialized": ("materialized-table.*", _MATERIALIZED),
    "dynamic": (
        "cross-partition-upsert.index-ttl",
        "no index of keys is kept that could forget some: each write reads where the keys are.",
    ),
    "vectors": (
        "deletion-vectors.modifiable=false",
        "whether a table has deletion vectors is fixed once it has rows.",
    ),
    "postpone": ("postpone.batch-write-fixed-bucket=false", _POSTPONE),
    "external": (
        "data-file.external-paths.strategy=none data-file.external-paths.specific-fs data-file.external-paths.weights "
        "index-file-in-data-file-dir=false global-index.external-path global-index.column-update-action object-location",
        _EXTERNAL,
    ),
    "iceberg": (
        "metadata.iceberg.*",
        "metadata for readers of Iceberg lie in directories (`metadata.iceberg.storage`), and no catalog is told of them.",
    ),
    "path": ("path", "tables lie where their catalog and database say."),
    "branch": ("branch=main", "a branch is named with the table: `t$branch_b`."),
    "upserts": ("upsert-key", "rows of a table without a key are never replaced. Give it a primary key."),
    "level 0": ("compaction.force-up-level-0=false", "`force-lookup` lifts level 0 here."),
    "deduplicate": (
        "changelog-producer.row-deduplicate-ignore-fields",
        "updates are compared by all columns.",
    ),
    "numbers": (
        "table-read.sequence-number.enabled=false key-value.sequence_number.enabled=false",
        "sequence numbers are no column of a table here.",
    ),
    "damage": (
        "scan.ignore-corrupt-files=false scan.ignore-lost-files=false",
        "files that are damaged or missing are an error: rows are not left out silently. `snapline check` names them.",
    ),
    "creation": ("auto-create=false", "tables are created by CREATE TABLE alone."),
    "tags": (
        "tag.creation-period-duration tag.automatic-completion=false tag.batch.customized-name sink.process-time-zone",
        "tags of periods are daily, hourly or two-hourly, by the clock of the machine.",
    ),
    "success files": ("tag.create-success-file=false", "no file beside a tag says that it is there; `$tags` does."),
    "empty": (
        "commit.force-create-snapshot=false snapshot.ignore-empty-commit",
        "which commits without rows make a snapshot is fixed.",
    ),
    "strict": (
        "commit.strict-mode.last-safe-snapshot commit.discard-duplicate-files=false delete.force-produce-changelog=false",
        "commits are checked against all snapshots since their own, in one way.",
    ),
    "patterns": ("partition.timestamp-format.strict=false", "a partition whose time cannot be read never expires."),
    "casts": (
        "disable-explicit-type-casting=false add-column-before-partition=false",
        "changes of columns have one set of rules here.",
    ),
}

ACCEPTED: dict[str, str] = {key: reason for keys, reason in _ACCEPTED_BY_REASON.items() for key in keys.split()}
REFUSED: dict[str, Refused] = {
    item.partition("=")[0]: Refused(reason, (item.partition("=")[2],) if "=" in item else ())
    for keys, reason in _REFUSED_BY_REASON.values()
    for item in keys.split()
}


def accepted_for(key: str) -> str | None:
    """The reason for which an option is accepted without effect; None if it is not."""
    return next((reason for pattern, reason in ACCEPTED.items() if fnmatch.fnmatchcase(key, pattern)), None)


def refused_for(key: str) -> Refused | None:
    """Why an option is refused; None if no reason is known."""
    return next((refused for pattern, refused in REFUSED.items() if fnmatch.fnmatchcase(key, pattern)), None)
