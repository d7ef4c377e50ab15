"""Values of options that are accepted without effect: each is of the type that Paimon gives it, so that nothing mistyped is
left for whoever follows the option. Those that are not listed here take any text.
"""

from collections.abc import Callable

from .errors import InvalidRequest
from .option_texts import parse_boolean, parse_duration_ms, parse_size_bytes

_SIZES = """sort-spill-buffer-size write-buffer-spill.max-disk-size page-size cache-page-size local-merge-buffer-size
    lookup.cache-max-disk-size lookup.cache-max-memory-size sink.managed.writer-buffer-memory sink.cross-partition.managed-memory
    sink.writer-memory sink.committer-memory write.batch-memory compaction.total-size-threshold
    compaction.incremental-size-threshold file.block-size file-reader-async-threshold write-manifest-cache"""
_COUNTS = """sort-spill-threshold spill-compression.zstd-level write-max-writers-to-spill local-sort.max-num-file-handles
    lookup.merge-records-threshold sink.parallelism scan.parallelism scan.infer-parallelism.max scan.manifest.parallelism
    unaware-bucket.compaction.parallelism cross-partition-upsert.bootstrap-parallelism scan.max-splits-per-task
    file-operation.thread-num postpone.batch-write-fixed-bucket.max-parallelism lookup.async-thread-number
    lookup.bootstrap-parallelism changelog.precommit-compact.thread-num read.batch-size write.batch-size
    partition.expiration-batch-size compaction.file-num-limit lookup-compact.max-interval
    compaction.max.file-num compaction.early-max.file-num
    num-sorted-run.stop-trigger sort-compaction.local-sample.magnification zorder.var-length-contribution
    global-index.thread-num global-index.row-count-per-shard global-index.build.max-shard global-index.build.max-parallelism"""
_SWITCHES = """write-buffer-spillable write-buffer-for-append sink.use-managed-memory-allocator lookup.async
    scan.infer-parallelism sink.committer-operator-chaining sink.savepoint.auto-tag scan.dedicated-split-generation
    source.split.target-size-with-column-pruning lookup.dynamic-partition.refresh.async
    partition.mark-done.recover-from-state write.use-v2-write requiredSparkConfsCheck.enabled
    streaming-read.shuffle-bucket-with-partition read.shuffle-bucket-with-partition precommit-compact
    changelog.precommit-compact filesystem.job-level-settings.enabled async-file-write end-input.check-partition-expire
    compaction.force-rewrite-all-files commit.force-compact overwrite-upgrade lookup-wait file.suffix.include.compression
    metastore.partitioned-table scan.remove-normalize snapshot.clean-empty-directories scan.plan-sort-partition
    bucket-append-ordered parquet.enable.dictionary metadata.stats-dense-store manifest.delete-file-drop-stats
    alter-column-null-to-not-null.disabled tag.time-expire-enabled global-index.enabled lookup.remote-file.enabled"""
_DURATIONS = """partition.expiration-check-interval compaction.optimization-interval continuous.discovery-interval
    streaming.read.snapshot.delay snapshot.watermark-idle-timeout scan.watermark.idle-timeout lookup.cache-file-retention
    partition.idle-time-to-report-statistic scan.watermark.alignment.max-drift scan.watermark.alignment.update-interval
    source.checkpoint-align.timeout lookup.dynamic-partition.refresh-interval"""
_NUMBERS = "sink.writer-cpu sink.committer-cpu lookup.hash-load-factor compaction.delete-ratio-threshold"
_CHOICES = {
    "sort-engine": ("min-heap", "loser-tree"),
    "lookup-compact": ("radical", "gentle"),
    "lookup.cache": ("auto", "full"),
    "lookup.local-file-type": ("sort", "hash"),
    "snapshot.expire.execution-mode": ("sync", "async"),
    "scan.watermark.emit.strategy": ("on-periodic", "on-event"),
    "partition.sink-strategy": ("none", "hash"),
    "sort-compaction.range-strategy": ("size", "quantity"),
    "changelog-file.format": ("parquet", "orc", "avro"),
}


def _count(text: str) -> None:
    if not text.isdecimal() or not 1 <= int(text[:19]) < 2**31 or len(text) > len("2147483647"):
        raise InvalidRequest(f"{text!r} is no whole number from 1 to 2147483647.")


def _hour(text: str) -> None:
    if text != "-1" and not (text.isdecimal() and int(text[:9]) < 24):
        raise InvalidRequest(f"{text!r} is no hour: 0 to 23, or -1 for none.")


def _percentage(text: str) -> None:
    if not text.isdecimal() or int(text[:9]) > 100:
        raise InvalidRequest(f"{text!r} is no percentage: 0 to 100.")


def _number(text: str) -> None:
    try:
        is_wrong = not 0 <= float(text) < float("inf")
    except ValueError:
        is_wrong = True
    if is_wrong:
        raise InvalidRequest(f"{text!r} is no number of 0 or more.")


_TESTS: dict[str, Callable[[str], object]] = {
    **dict.fromkeys(_SIZES.split(), parse_size_bytes),
    **dict.fromkeys(_COUNTS.split(), _count),
    **dict.fromkeys(_SWITCHES.split(), parse_boolean),
    **dict.fromkeys(_DURATIONS.split(), parse_duration_ms),
    **dict.fromkeys(_NUMBERS.split(), _number),
    "compaction.offpeak.start.hour": _hour,
    "compaction.offpeak.end.hour": _hour,
    "compaction.offpeak-ratio": _percentage,
}
TYPED = (*_TESTS, *_CHOICES)


def check_accepted_value(key: str, text: str) -> None:
    """Raise InvalidRequest that names the option for a value that is not of its type."""
    if key in _CHOICES and text.strip().lower() not in _CHOICES[key]:
        raise InvalidRequest(f"Option {key!r} = {text!r}. Supported: {', '.join(_CHOICES[key])}.")
    if key in _TESTS:
        try:
            _TESTS[key](text)
        except InvalidRequest as error:
            raise InvalidRequest(f"Option {key!r}: {error}") from None
