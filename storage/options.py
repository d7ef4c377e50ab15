"""Options of a table: declared once, read from the text that the schema file holds.

All values on disk are strings: `"4"`, `"true"`, `"128 mb"`, `"1 h"`. A field of an options class is one option: its
key, type, default and meaning stand together, and `docs/options.md` is generated from these lines. A key that is not known
here, nor accepted by `known_options`, is refused when somebody sets it; what other writers have set is kept as it is.
"""

import dataclasses
import datetime as dt
import difflib
import re
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, Self

from .date_pattern import python_format
from .errors import InvalidRequest, Unsupported
from .known_options import accepted_for, refused_for
from .redaction import holds_secret

_SIZE_UNITS = {"": 1, "b": 1, "bytes": 1}
for _power, _letter in enumerate("kmgt", start=1):
    for _spelling in (
        _letter,
        f"{_letter}b",
        {"k": "kibibytes", "m": "mebibytes", "g": "gibibytes", "t": "tebibytes"}[_letter],
    ):
        _SIZE_UNITS[_spelling] = 1024**_power
_DURATION_UNITS_MS = {"ms": 1, "s": 1000, "sec": 1000, "second": 1000, "min": 60_000, "m": 60_000, "minute": 60_000}
_DURATION_UNITS_MS |= {"h": 3_600_000, "hour": 3_600_000, "d": 86_400_000, "day": 86_400_000}
_MOST_DAYS = 36_500
_DAY_MS = 86_400_000
# Of a length of time in milliseconds that 64 bits hold.
_MOST_DIGITS = 19
_QUANTITY = re.compile(r"\s*(\d+)\s*([a-zA-Z]*)\s*")


# Aggregate functions that cannot take a value back, as rows of kind -U and -D ask for.
_TAKES_NOTHING_BACK = frozenset(
    (
        "max",
        "min",
        "first_value",
        "first_non_null_value",
        "first_not_null_value",
        "bool_and",
        "bool_or",
        "listagg",
        "nested_partial_update",
        "merge_map_with_keytime",
        "rbm32",
    )
)


def takes_back(function: str) -> bool:
    """Whether an aggregate function can take values back; those that are not known are said to."""
    return function not in _TAKES_NOTHING_BACK


def parse_size_bytes(text: str) -> int:
    """Bytes of `128 mb`, `1024`, `2 GiB` … (powers of 1024)."""
    match = _QUANTITY.fullmatch(text)
    unit = match[2].lower().replace("ib", "b") if match else None
    if match is None or unit not in _SIZE_UNITS:
        raise InvalidRequest(f"{text!r} is not a size. Write a number and a unit, as in `128 mb`.")
    return int(match[1]) * _SIZE_UNITS[unit]


def parse_duration_ms(text: str) -> int:
    """Milliseconds of `1 h`, `10 s`, `30 min`, `1 d`, `500 ms` …"""
    match = _QUANTITY.fullmatch(text)
    unit = match[2].lower() if match else ""
    unit = unit if unit in _DURATION_UNITS_MS else unit.removesuffix("s")
    if match is None or unit not in _DURATION_UNITS_MS:
        raise InvalidRequest(f"{text!r} is not a duration. Write a number and a unit, as in `1 h`.")
    duration_ms = int(match[1][:_MOST_DIGITS]) * _DURATION_UNITS_MS[unit]
    if len(match[1]) > _MOST_DIGITS or duration_ms >= 2**63:
        raise InvalidRequest(f"{text[:40]!r} is longer than any duration: at most 2^63 - 1 ms are.")
    return duration_ms


def parse_boolean(text: str) -> bool:
    if text.strip().lower() not in ("true", "false"):
        raise InvalidRequest(f"{text!r} is neither `true` nor `false`.")
    return text.strip().lower() == "true"


def parse_by_level(text: str) -> tuple[tuple[int, str], ...]:
    """`0:avro,5:parquet` as values by level."""
    pairs = [part.partition(":") for part in parse_names(text)]
    if not all(level.strip().isdigit() and value.strip() for level, _, value in pairs):
        raise InvalidRequest(f"{text!r} does not give values by level. Write level:value, as in `0:avro,5:parquet`.")
    return tuple((int(level), value.strip().lower()) for level, _, value in pairs)


def parse_names(text: str) -> tuple[str, ...]:
    """The parts of a comma-separated list."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def parse_directory(text: str) -> str:
    """A directory inside of a table's, as `data` or `data/files`; what lies there must be no other file of the format's."""
    names = text.rstrip("/").split("/") if text else []
    for name in names:
        if not name.strip() or name.startswith(".") or "\\" in name or not name.isprintable():
            raise InvalidRequest(
                "name directories inside of the table's, separated by slashes, none of which begins with a dot."
            )
    if names and (names[0] in _TAKEN_DIRECTORIES or names[0].startswith("bucket-")):
        raise InvalidRequest(f"{names[0]!r} has files of another kind.")
    return "/".join(names)


# Directories of a table that hold something else than data files.
_OWN_DIRECTORIES = ("trouble", "committed", "cleaning")
_TAKEN_DIRECTORIES = (
    *("schema", "snapshot", "tag", "branch", "consumer", "changelog", "service", "manifest", "index", "statistics"),
    *_OWN_DIRECTORIES,
)
_READERS: dict[str, Any] = {
    "text": str,
    "whole number": int,
    "true or false": parse_boolean,
    "size": parse_size_bytes,
    "duration": parse_duration_ms,
    "names, separated by commas": parse_names,
    "values by level": parse_by_level,
    "directory": parse_directory,
}


# What Paimon's Java library reads: numbers of 32 bits, sizes and lengths of time of 64.
_MOST = {"whole number": 2**31 - 1, "size": 2**63 - 1, "duration": 2**63 - 1}


def option(
    key: str,
    default: str | None,
    meaning: str,
    kind: str = "text",
    *,
    least: int | None = None,
    most: int | None = None,
    choices: str = "",
) -> Any:
    """Declare one option as a dataclass field. `default` is written as a user would write it.

    `least` and `most`: the lowest and the highest value (by default what Paimon's Java library can read), and `choices`: the
    texts, separated by spaces, that make sense when the option is set.
    """
    value = None if default is None else _READERS[kind](default)
    most = _MOST.get(kind) if most is None else most
    metadata = {
        "key": key, "kind": kind, "default": default, "meaning": meaning, "least": least, "most": most, "choices": choices
    }  # fmt: skip
    return field(default=value, metadata=metadata)


@dataclass(frozen=True, kw_only=True)
class Options:
    """Base of option classes: reads its fields from a table's text options."""

    @classmethod
    def read(cls, texts: Mapping[str, str]) -> Self:
        """Return the options of `texts`, defaults filled in. Raises InvalidRequest that names the bad option."""
        values = {}
        for declared in dataclasses.fields(cls):
            key = declared.metadata["key"]
            if key in texts:
                try:
                    values[declared.name] = _READERS[declared.metadata["kind"]](texts[key])
                except (InvalidRequest, ValueError) as error:
                    kind = declared.metadata["kind"]
                    raise InvalidRequest(f"Option {key!r} = {texts[key]!r} is not a {kind}: {error}") from None
        return cls(**values)

    @classmethod
    def default_of(cls, key: str) -> str:
        """The default of an option as a user would write it; empty if it has none, or is not declared."""
        return next((str(one["default"] or "") for one in cls.declared() if one["key"] == key), "")

    @classmethod
    def declared(cls) -> list[Mapping[str, Any]]:
        """Key, kind, default text and meaning of each option, in the order of declaration."""
        return [declared.metadata for declared in dataclasses.fields(cls)]


@dataclass(frozen=True, kw_only=True)
class TableOptions(Options):
    """The options of a table that this store acts on."""

    bucket: int = option(
        "bucket", "-1", "Number of buckets rows are hashed to. -1: a table with a primary key gets buckets as its keys come "
        "(dynamic buckets); rows of an append-only table (or partition) go into one place, written by any number of writers.",
        "whole number",
    )  # fmt: skip
    postpone_default_bucket_num: int = option(
        "postpone.default-bucket-num", "1", "Buckets of a partition whose postponed rows are moved for the first time.",
        "whole number", least=1,
    )  # fmt: skip
    dynamic_bucket_target_row_num: int = option(
        "dynamic-bucket.target-row-num",
        "2000000",
        "Keys of a dynamic bucket from which on new keys go to another one.",
        "whole number",
        least=1,
        most=2**63 - 1,
    )
    dynamic_bucket_initial_buckets: int | None = option(
        "dynamic-bucket.initial-buckets",
        None,
        "Dynamic buckets over which the first keys of a partition are spread. Default: "
        "`dynamic-bucket.assigner-parallelism`.",
        "whole number",
        least=1,
    )
    dynamic_bucket_max_buckets: int = option(
        "dynamic-bucket.max-buckets",
        "-1",
        "Dynamic buckets of a partition at the most; once they are full, new keys are spread "
        "over them all. -1: as many as it takes.",
        "whole number",
        least=-1,
    )
    dynamic_bucket_assigner_parallelism: int | None = option(
        "dynamic-bucket.assigner-parallelism",
        None,
        "Tasks of a Spark job that share the rows of a partition with dynamic "
        "buckets; each fills buckets of its own. Default: 1.",
        "whole number",
        least=1,
    )
    bucket_key: tuple[str, ...] = option(
        "bucket-key", "", "Columns to hash. Default: the primary key without the partition columns; without a key all "
        "columns but those.",
        "names, separated by commas",
    )  # fmt: skip
    merge_engine: str = option(
        "merge-engine",
        "deduplicate",
        "What becomes of rows with equal keys: `deduplicate` (the last row stands), "
        "`partial-update`, `aggregation` (by `fields.<column>.aggregate-function`), `first-row`.",
    )
    changelog_producer: str = option(
        "changelog-producer", "none", "Who writes changelog files: `none` (readers of changes get rows as they were "
        "written), `input` (the writer stores what it gets), `lookup` (a compaction after each write stores complete "
        "pairs of -U and +U), `full-compaction` (each full compaction stores the difference to the one before).",
    )  # fmt: skip
    force_lookup: bool = option(
        "force-lookup", "false", "A compaction after each write lifts level 0 and merges it with what the levels above hold, "
        "as with the changelog producer `lookup`, but tells of no changes.", "true or false",
    )  # fmt: skip
    changelog_row_deduplicate: bool = option(
        "changelog-producer.row-deduplicate", "false", "Leave out updates that changed no value.", "true or false"
    )
    full_compaction_delta_commits: int | None = option(
        "full-compaction.delta-commits",
        None,
        "Compact a bucket fully after this many commits to it.",
        "whole number",
        least=1,
    )
    change_tracking: bool = option(
        "change-tracking", "true", "Commits produce changes for downstream readers.", "true or false"
    )
    change_tracking_off_partitions: tuple[str, ...] = option(
        "change-tracking.off-partitions", "", "Partitions (`day=2024-05-01/region=eu`) whose commits produce no changes.",
        "names, separated by commas",
    )  # fmt: skip
    streaming_read_overwrite: bool = option(
        "streaming-read-overwrite", "true", "Readers of changes see what an overwrite replaced as -D and what came as "
        "+I; `false` leaves overwrites out.", "true or false",
    )  # fmt: skip
    tag_automatic_creation: str = option(
        "tag.automatic-creation",
        "none",
        "Commits create a tag once a period is over: `none` or `process-time`.",
        choices="none process-time",
    )
    tag_creation_period: str = option(
        "tag.creation-period", "daily", "`daily`, `hourly` or `two-hours`.", choices="daily hourly two-hours"
    )
    tag_creation_delay_ms: int = option(
        "tag.creation-delay", "0 s", "How long after its end a period still takes in data that is late.", "duration"
    )
    tag_period_formatter: str = option(
        "tag.period-formatter", "with_dashes", "How tags of periods are named: `with_dashes`, `without_dashes`, "
        "`without_dashes_and_spaces` (a dot follows digits that would be a snapshot id).",
        choices="with_dashes without_dashes without_dashes_and_spaces",
    )  # fmt: skip
    tag_create_interval_ms: int | None = option(
        "tag.create-interval", None, "Create a tag every so many days, at `tag.create-time`.", "duration"
    )
    tag_create_time: str = option("tag.create-time", "00:00", "The local time of day at which the tag is created.")
    tag_num_retained_max: int | None = option(
        "tag.num-retained-max", None, "How many tags of periods are kept.", "whole number", least=1
    )
    tag_default_time_retained_ms: int | None = option(
        "tag.default-time-retained", None, "How long tags are kept that are created without a retention.", "duration"
    )
    snapshot_num_retained_min: int = option(
        "snapshot.num-retained.min",
        "10",
        "How many of the latest snapshots never expire by themselves.",
        "whole number",
        least=1,
    )
    snapshot_num_retained_max: int | None = option(
        "snapshot.num-retained.max",
        None,
        "How many of the latest snapshots are kept at the most.",
        "whole number",
        least=1,
    )
    snapshot_time_retained_ms: int = option(
        "snapshot.time-retained", "1 h", "How long snapshots are kept beyond the minimum. With this or one of "
        "`snapshot.num-retained.*` set, each commit of rows, compaction and rollback lets old snapshots go; else only "
        "`expire-snapshots` does.", "duration"
    )  # fmt: skip
    snapshot_expire_limit: int = option(
        "snapshot.expire.limit", "50", "How many snapshots go at the most with one commit.", "whole number", least=1
    )
    changelog_num_retained_min: int | None = option(
        "changelog.num-retained.min", None, "How many changelogs never expire. With this or one of the next two set, "
        "changelogs outlive their snapshots; what is not set is as for snapshots.", "whole number", least=0
    )  # fmt: skip
    changelog_num_retained_max: int | None = option(
        "changelog.num-retained.max", None, "How many changelogs are kept at the most.", "whole number", least=0
    )
    changelog_time_retained_ms: int | None = option(
        "changelog.time-retained", None, "How long changelogs are kept beyond the minimum.", "duration"
    )
    record_level_expire_time_ms: int | None = option(
        "record-level.expire-time", None, "Compactions leave out rows whose time is further back than this.", "duration"
    )
    record_level_time_field: str | None = option(
        "record-level.time-field", None, "The column that tells how old a row is: INT (seconds), BIGINT or TIMESTAMP."
    )
    partition_expiration_ms: int | None = option(
        "partition.expiration-time", None, "Partitions older than this are dropped by `expire_partitions`.", "duration"
    )
    partition_expiration_strategy: str = option(
        "partition.expiration-strategy",
        "values-time",
        "What tells a partition's age: `values-time` or `update-time`.",
        choices="values-time update-time",
    )
    partition_timestamp_pattern: str | None = option(
        "partition.timestamp-pattern",
        None,
        "How partition columns make up a time: `$day $hour:00`. Default: the first.",
    )
    partition_timestamp_formatter: str | None = option(
        "partition.timestamp-formatter", None, "How that text is read: `yyyyMMdd HH:mm`. Default: the usual ways."
    )
    consumer_expiration_ms: int | None = option(
        "consumer.expiration-time", None, "Forget consumers that have not moved for this long.", "duration"
    )
    rowkind_field: str | None = option(
        "rowkind.field", None, "A text column that holds the kind of each row: `+I`, `-U`, `+U`, `-D`."
    )
    ignore_delete: bool = option("ignore-delete", "false", "Drop rows of kind -U and -D when writing.", "true or false")
    ignore_update_before: bool = option(
        "ignore-update-before", "false", "Drop rows of kind -U when writing.", "true or false"
    )
    file_format: str = option("file.format", "parquet", "Format of data files: `parquet`, `orc` or `avro`.")
    file_format_per_level: tuple[tuple[int, str], ...] = option(
        "file.format.per.level", "", "Formats of some levels: `0:avro,5:parquet`.", "values by level"
    )
    file_compression: str = option(
        "file.compression",
        "zstd",
        "Compression of data files: zstd, snappy, lz4, gzip (Parquet), zlib (ORC), none; with Avro zstd, snappy, deflate, null.",
    )
    file_compression_per_level: tuple[tuple[int, str], ...] = option(
        "file.compression.per.level", "", "Compressions of some levels: `0:lz4,5:zstd`.", "values by level"
    )
    file_compression_zstd_level: int = option(
        "file.compression.zstd-level", "1", "Level of zstd: higher is smaller and slower.", "whole number", least=1,
        most=22,
    )  # fmt: skip
    target_file_size_bytes: int | None = option(
        "target-file-size", None, "Roll data files at about this size. Default: 128 mb with a primary key, else 256 mb.",
        "size", least=1,
    )  # fmt: skip
    parquet_row_group_rows: int = option(
        "parquet.row-group.rows", "131072", "Rows of a Parquet row group: what a point look-up reads at the least.",
        "whole number", least=1,
    )  # fmt: skip
    write_buffer_size_bytes: int = option(
        "write-buffer-size",
        "256 mb",
        "Memory that a writer collects for a bucket before it writes a file.",
        "size",
        least=1,
    )
    source_split_target_size_bytes: int = option(
        "source.split.target-size", "128 mb", "Pack files into splits of about this size for reading.", "size", least=1
    )
    source_split_open_file_cost_bytes: int = option(
        "source.split.open-file-cost", "4 mb", "Weight of a small file when files are packed into splits.", "size"
    )
    data_file_path_directory: str = option(
        "data-file.path-directory",
        "",
        "Directory inside of the table's that holds partitions and buckets; fixed.",
        "directory",
    )
    partition_default_name: str = option(
        "partition.default-name", "__DEFAULT_PARTITION__", "Directory for null and blank partition values."
    )
    partition_legacy_name: bool = option(
        "partition.legacy-name", "true", "Directory names of DATE partitions are day numbers (Paimon's default).",
        "true or false",
    )  # fmt: skip
    dynamic_partition_overwrite: bool = option(
        "dynamic-partition-overwrite", "true", "An overwrite replaces only the partitions that occur in the new rows.",
        "true or false",
    )  # fmt: skip
    manifest_compression: str = option("manifest.compression", "zstd", "Codec of manifests: zstd, deflate, null.",
        choices="zstd zstandard deflate snappy null none",
    )  # fmt: skip
    manifest_target_file_size_bytes: int = option(
        "manifest.target-file-size", "8 mb", "Merge manifests up to this size.", "size", least=1
    )
    manifest_full_compaction_threshold_size_bytes: int = option(
        "manifest.full-compaction-threshold-size", "16 mb", "Rewrite all manifests that hold deletes once they exceed this.",
        "size",
    )  # fmt: skip
    manifest_merge_min_count: int = option(
        "manifest.merge-min-count", "30", "Merge the small manifests at the end of the list once there are this many.",
        "whole number", least=1,
    )  # fmt: skip
    metadata_stats_mode: str = option(
        "metadata.stats-mode", "truncate(16)", "Column statistics in manifests: none, counts, truncate(n), full."
    )
    metadata_stats_mode_per_level: tuple[tuple[int, str], ...] = option(
        "metadata.stats-mode.per.level", "", "Column statistics of some levels: `0:none,5:full`.", "values by level"
    )
    metadata_stats_keep_first_n_columns: int = option(
        "metadata.stats-keep-first-n-columns",
        "-1",
        "Only so many columns have statistics, and those that `fields.<column>.stats-mode` names; -1: all.",
        "whole number",
        least=-1,
    )
    data_file_thin_mode: bool = option(
        "data-file.thin-mode",
        "false",
        "Data files hold the columns of the primary key once, not also as `_KEY_<column>`; both are read in any case.",
        "true or false",
    )
    write_only: bool = option(
        "write-only", "false", "Writers do not compact; somebody else does, by `compact`.", "true or false"
    )
    compaction_run_count_trigger: int = option(
        "num-sorted-run.compaction-trigger", "5", "Sorted runs of a bucket from which on it may be compacted.",
        "whole number", least=1,
    )  # fmt: skip
    level_count: int | None = option(
        "num-levels", None, "Levels of a bucket. Default: one more than `num-sorted-run.compaction-trigger`.",
        "whole number", least=2,
    )  # fmt: skip
    compaction_max_size_amplification_percent: int = option(
        "compaction.max-size-amplification-percent", "200",
        "Merge every run once the newer runs together exceed this share of the oldest run.", "whole number", least=0,
    )  # fmt: skip
    compaction_size_ratio_percent: int = option(
        "compaction.size-ratio", "1", "Merge a run with the newer ones unless it is larger than them by more than this.",
        "whole number", least=0,
    )  # fmt: skip
    compaction_min_file_count: int = option(
        "compaction.min.file-num", "5", "Small files of a table without a key from which on they become one.",
        "whole number", least=2,
    )  # fmt: skip
    commit_max_retries: int = option(
        "commit.max-retries", "10", "How often a commit that lost a race is tried again at the least. Appends go on "
        "for as long as others make progress, up to commit.timeout.", "whole number", least=0,
    )  # fmt: skip
    commit_timeout_ms: int = option(
        "commit.timeout", "10 min", "Give up a commit after this time.", "duration", least=1
    )
    commit_min_retry_wait_ms: int = option(
        "commit.min-retry-wait", "10 ms", "First wait after a lost race.", "duration"
    )
    commit_max_retry_wait_ms: int = option(
        "commit.max-retry-wait", "10 s", "Longest wait after a lost race.", "duration"
    )
    deletion_vectors_enabled: bool = option(
        "deletion-vectors.enabled",
        "false",
        "Rows that are replaced or deleted are marked in the file that holds them, which readers need not merge then: with a "
        "primary key by the compaction that follows each write, without one by DELETE, UPDATE and MERGE. Stands once there "
        "are rows.",
        "true or false",
    )
    deletion_vectors_bitmap64: bool = option(
        "deletion-vectors.bitmap64",
        "false",
        "Write deletion vectors with positions of 64 bits instead of 32, as Iceberg has them; both are read.",
        "true or false",
    )
    deletion_vectors_merge_on_read: bool = option(
        "deletion-vectors.merge-on-read",
        "false",
        "Readers of a table with a primary key and deletion vectors merge what no compaction has seen yet, instead of not "
        "showing it.",
        "true or false",
    )
    deletion_vector_file_size_bytes: int = option(
        "deletion-vector.index-file.target-size",
        "2 mb",
        "Roll files of deletion vectors at about this size, in tables without buckets; a bucket has one.",
        "size",
        least=1,
    )
    sequence_field: tuple[str, ...] = option(
        "sequence.field", "", "Columns that order rows of a key before arrival does; nulls come first.",
        "names, separated by commas",
    )  # fmt: skip

    file_index_in_manifest_threshold_bytes: int = option(
        "file-index.in-manifest-threshold",
        "500 b",
        "File indexes of a data file up to this size stand in its manifest, larger ones in a file beside it.",
        "size",
    )
    file_index_read_enabled: bool = option(
        "file-index.read.enabled",
        "true",
        "Readers with a filter leave out data files by their file indexes.",
        "true or false",
    )

    sequence_field_sort_order: str = option(
        "sequence.field.sort-order",
        "ascending",
        "Which of the rows of a key comes last by `sequence.field`: the one with the "
        "highest value (`ascending`) or with the lowest (`descending`); nulls come first in both.",
        choices="ascending descending",
    )

    def format_of_level(self, level: int) -> str:
        """The format of data files on a level. Raises InvalidRequest for one that cannot be written."""
        wanted = dict(self.file_format_per_level).get(level, self.file_format).lower()
        if wanted not in ("parquet", "orc", "avro"):
            given = "file.format.per.level" if level in dict(self.file_format_per_level) else "file.format"
            raise InvalidRequest(f"Option {given!r} has {wanted!r}. Supported: parquet, orc, avro.")
        return wanted

    def compression_of_level(self, level: int) -> str:
        """The compression of data files on a level."""
        return dict(self.file_compression_per_level).get(level, self.file_compression).lower()

    def stats_modes(self, texts: Mapping[str, str], columns: Sequence[str], level: int | None) -> list[str]:
        """How statistics of each column are kept in files of a level, or of none. `texts`: all options of the table."""
        by_level: dict[int | None, str] = dict(self.metadata_stats_mode_per_level)
        general = by_level.get(level, self.metadata_stats_mode)
        most = self.metadata_stats_keep_first_n_columns
        return [
            texts.get(f"fields.{name}.stats-mode", general if most < 0 or place < most else "none").strip().lower()
            for place, name in enumerate(columns)
        ]

    @property
    def top_level(self) -> int:
        """The highest level of a bucket, whose files are the oldest."""
        return (self.level_count or self.compaction_run_count_trigger + 1) - 1

    @property
    def told_level(self) -> int | None:
        """Files of this level and above hold rows that a changelog has told of; None if compactions tell of nothing."""
        return {"lookup": 1, "full-compaction": self.top_level}.get(self.changelog_producer)

    @property
    def looks_up(self) -> bool:
        """Whether a compaction of level 0 looks up what the levels above hold and stores what becomes of both: of a key, only
        the lowest row above level 0 counts.
        """
        # With `full-compaction`, Java's compactions do not, though its readers take them to: all levels count there.
        if self.deletion_vectors_enabled:
            return True
        return self.changelog_producer == "lookup" or (
            self.force_lookup and self.changelog_producer != "full-compaction"
        )

    @property
    def hides_level_0(self) -> bool:
        """Whether readers of a table with a primary key see the rows of level 0 only once a compaction has lifted them."""
        if self.merge_engine == "first-row":
            return True
        return self.deletion_vectors_enabled and not self.deletion_vectors_merge_on_read

    def target_file_size(self, has_primary_key: bool) -> int:
        """Bytes at which data files are rolled."""
        return self.target_file_size_bytes or (128 if has_primary_key else 256) * 1024 * 1024


_OF_FILES = {"file.format", "file.format.per.level", "file.compression", "file.compression.per.level"}
# What each format of data files calls the compressions that options name.
COMPRESSIONS: dict[str, dict[str, str]] = {
    "parquet": {
        "zstd": "zstd", "snappy": "snappy", "lz4": "lz4", "gzip": "gzip", "none": "none", "uncompressed": "none"
    },
    "orc": {"zstd": "zstd", "snappy": "snappy", "lz4": "lz4", "zlib": "zlib", "none": "uncompressed"},
    "avro": {
        "zstd": "zstd", "snappy": "snappy", "gzip": "deflate", "zlib": "deflate", "deflate": "deflate", "none": "none",
        "null": "none",
    },
}  # fmt: skip
# Names of Avro's that Paimon's Java library does not know: tables that have them are written as before, others get none.
_NOT_OF_JAVA = {"avro": ("gzip", "zlib", "none")}
STATS_MODE = re.compile(r"none|counts|full|truncate\([1-9]\d*\)")

# Options that change how the bytes of a table must be read or written, and the values that this store understands.
_UNDERSTOOD_FOR_READING: dict[str, tuple[str, ...]] = {
    "bucket-function.type": ("default",),
    "chain-table.enabled": ("false",),
    "pk-clustering-override": ("false",),
    "sequence.snapshot-ordering": ("false",),
    "type": ("table",),
    "query-auth.enabled": ("false",),
    "merge-engine": ("deduplicate", "partial-update", "aggregation", "first-row"),
    "manifest.format": ("avro",),
}
_UNDERSTOOD_FOR_WRITING: dict[str, tuple[str, ...]] = {
    "data-evolution.enabled": ("false",),
    "row-tracking.enabled": ("false",),
    "changelog-producer": ("none", "input", "lookup", "full-compaction"),
    "file.format": ("parquet", "orc", "avro"),
}
_REFUSED_FOR_READING = ("scan.fallback-branch",)
_REFUSED_FOR_WRITING = (*_REFUSED_FOR_READING, "data-file.external-paths")
# Those of single merge engines.
_OF_ENGINES = (
    "aggregation.remove-record-on-delete", "partial-update.remove-record-on-delete",
    "partial-update.remove-record-on-sequence-group",
)  # fmt: skip
# Keys that name a column, or a computed one, or a kind of file index.
_KEYS_OF_COLUMNS = re.compile(
    r"fields\.(default-aggregate-function|.+\.(aggregate-function|ignore-retract|list-agg-delimiter|distinct|sequence-group|stats-mode|nested-key|count-limit|ts-field))"
    r"|schema\.\d+\.(name|expr|data-type|comment)|schema\.watermark\.0\.(rowtime|strategy\.expr|strategy\.data-type)"
    r"|file-index\..+"
)


def refuse_unsupported(options: Mapping[str, str], table: str, *, for_writing: bool) -> None:
    """Raise Unsupported, naming the option, if this store would misread (or miswrite) the table."""
    understood = _UNDERSTOOD_FOR_READING | (_UNDERSTOOD_FOR_WRITING if for_writing else {})
    doing = "written" if for_writing else "read"
    for key, values in understood.items():
        found = options.get(key, values[0]).strip().lower()
        if found not in values:
            supported = f"Supported: {', '.join(repr(value) for value in values)}."
            raise Unsupported(
                f"Table {table} has {key!r} = {found!r}, with which it cannot be {doing} here. {supported}"
            )
    for key in _REFUSED_FOR_WRITING if for_writing else _REFUSED_FOR_READING:
        if options.get(key):
            raise Unsupported(f"Table {table} has {key!r} = {options[key]!r}, with which it cannot be {doing} here.")


def check_table_options(options: Mapping[str, str], table: str, *, before: Mapping[str, str] | None = None) -> None:
    """Raise InvalidRequest for a key that nobody follows or a value that cannot be read or followed, Unsupported for what
    cannot be written. What other writers of the format follow may stay as it was `before`.
    """
    changed = {key for key in options if options[key] != (before or {}).get(key)}
    # First: whoever hands a secret over is told so, whatever the key is.
    _refuse_secrets({key: options[key] for key in changed})
    _check_keys(changed, options)
    _check_values(TableOptions.read(options), options, changed)
    refuse_unsupported(options, table, for_writing=True)


def _refuse_secrets(options: Mapping[str, str]) -> None:
    """Raise InvalidRequest for a secret, which everybody who reads the table would read."""
    for key, value in options.items():
        if holds_secret(key, value):
            raise InvalidRequest(
                f"Option {key!r} holds a secret: options of a table lie in the warehouse, for all its readers. Give it to the "
                "catalog: SNAPLINE_STORAGE_OPTIONS, or CREATE CATALOG … WITH ('storage.<key>' = '${env:NAME}')."
            )


def _check_removals(options: Mapping[str, str], keys: AbstractSet[str]) -> None:
    """A column that ignores retractions has no meaning where a delete removes the row: Paimon does not read such tables."""
    removes = "aggregation.remove-record-on-delete"
    ignoring = [
        key for key, value in options.items() if key.endswith(".ignore-retract") and value.strip().lower() == "true"
    ]
    if ignoring and options.get(removes, "").strip().lower() == "true" and not keys.isdisjoint((removes, *ignoring)):
        raise InvalidRequest(f"Options {removes!r} and {ignoring[0]!r} exclude each other: leave one out.")


def _check_values(read: TableOptions, texts: Mapping[str, str], keys: AbstractSet[str]) -> None:
    """Raise InvalidRequest for values of some keys that make no sense: whoever follows them would fail after each commit."""
    for declared in dataclasses.fields(read):
        key, least, most, choices = (declared.metadata[name] for name in ("key", "least", "most", "choices"))
        value = getattr(read, declared.name)
        if key not in keys or value is None:
            continue
        if least is not None and value < least:
            raise InvalidRequest(f"Option {key!r} = {value!r}: it is {least} at the least.")
        if most is not None and value > most:
            raise InvalidRequest(f"Option {key!r} = {value!r}: it is {most} at the most.")
        if choices and value not in choices.split():
            raise InvalidRequest(f"Option {key!r} = {value!r}. Supported: {choices.replace(' ', ', ')}.")
    if "bucket" in keys and (read.bucket == 0 or read.bucket < -2):
        raise InvalidRequest(f"Option 'bucket' = {read.bucket}: use a positive number, -1 or -2.")
    if "bucket-key" in keys and len(set(read.bucket_key)) < len(read.bucket_key):
        raise InvalidRequest(f"Option 'bucket-key' = {texts['bucket-key']!r} names a column twice.")
    _check_removals(texts, keys)
    lookups = {"force-lookup", "changelog-producer"}
    if not keys.isdisjoint(lookups) and read.force_lookup and read.changelog_producer == "full-compaction":
        raise InvalidRequest(
            "Options 'force-lookup' and 'changelog-producer' = 'full-compaction' exclude each other: Paimon's Java library loses "
            "rows with both. Leave one out."
        )
    if not keys.isdisjoint(("deletion-vectors.enabled", "merge-engine", "changelog-producer")):
        _check_deletion_vectors(read)
    for kind in ("snapshot", "changelog"):
        names = (f"{kind}.num-retained.min", f"{kind}.num-retained.max")
        fewest, most = (getattr(read, re.sub(r"[.-]", "_", name)) for name in names)
        if not keys.isdisjoint(names) and most is not None and fewest is not None and most < fewest:
            raise InvalidRequest(f"Option {names[1]!r} = {most} is below {names[0]!r} = {fewest}: set both.")
    if not keys.isdisjoint(_OF_FILES):
        _check_files(read)
    _check_stats_modes(read, texts, keys)
    if "partition.timestamp-formatter" in keys and read.partition_timestamp_formatter is not None:
        try:
            python_format(read.partition_timestamp_formatter)
        except InvalidRequest as error:
            shown = read.partition_timestamp_formatter
            raise InvalidRequest(f"Option 'partition.timestamp-formatter' = {shown!r}: {error}") from None
    interval_ms = read.tag_create_interval_ms
    days = None if interval_ms is None else interval_ms / _DAY_MS
    if "tag.create-interval" in keys and days is not None and not (1 <= days <= _MOST_DAYS and days == int(days)):
        raise InvalidRequest(f"Option 'tag.create-interval' is a whole number of days, 1 d to {_MOST_DAYS} d.")
    if "tag.create-time" in keys:
        try:
            dt.datetime.strptime(read.tag_create_time, "%H:%M")
        except ValueError:
            raise InvalidRequest(
                f"Option 'tag.create-time' = {read.tag_create_time!r} is no time such as 03:30."
            ) from None


def _check_deletion_vectors(read: TableOptions) -> None:
    """Raise InvalidRequest for options that Paimon does not take together with deletion vectors."""
    if not read.deletion_vectors_enabled:
        return
    for key, value in (("merge-engine", "first-row"), ("changelog-producer", "full-compaction")):
        if value in (read.merge_engine, read.changelog_producer):
            raise InvalidRequest(f"Options 'deletion-vectors.enabled' and {key!r} = {value!r} exclude each other.")


def _check_stats_modes(read: TableOptions, texts: Mapping[str, str], keys: AbstractSet[str]) -> None:
    """Raise InvalidRequest for statistics modes, of the table, a level or a column, that there are not."""
    given = {"metadata.stats-mode": read.metadata_stats_mode}
    wrong = [mode for _, mode in read.metadata_stats_mode_per_level if not STATS_MODE.fullmatch(mode)]
    given |= {"metadata.stats-mode.per.level": wrong[0]} if wrong else {}
    of_columns = [key for key in keys if key.startswith("fields.") and key.endswith(".stats-mode")]
    given |= {key: texts[key].strip().lower() for key in of_columns}
    for key, mode in given.items():
        if key in keys and not STATS_MODE.fullmatch(mode):
            raise InvalidRequest(
                f"Option {key!r} = {texts[key]!r}: it is none, counts, truncate(n) with n from 1 on, or full."
            )


def _check_files(read: TableOptions) -> None:
    """Raise InvalidRequest for formats and compressions of files, of any level, that are not written, or not together."""
    if read.file_format.lower() not in COMPRESSIONS:
        # It is refused by its own name.
        return
    levels = {level for level, _ in (*read.file_format_per_level, *read.file_compression_per_level)}
    for level in (-1, *sorted(levels)):
        kind, compression = read.format_of_level(level), read.compression_of_level(level)
        supported = [name for name in COMPRESSIONS[kind] if name not in _NOT_OF_JAVA.get(kind, ())]
        if compression not in supported:
            raise InvalidRequest(
                f"Option 'file.compression' = {compression!r} is not supported for {kind}. Supported: {', '.join(supported)}."
            )


def _check_keys(keys: AbstractSet[str], options: Mapping[str, str]) -> None:
    declared = [str(declared["key"]) for declared in TableOptions.declared()]
    known = {*declared, *_UNDERSTOOD_FOR_READING, *_UNDERSTOOD_FOR_WRITING, *_REFUSED_FOR_WRITING, *_OF_ENGINES}
    for key in sorted(keys):
        if key in known or _KEYS_OF_COLUMNS.fullmatch(key) or accepted_for(key) is not None:
            continue
        refused = refused_for(key)
        if refused is not None:
            if options[key].strip().lower() in refused.harmless:
                continue
            raise Unsupported(f"Option {key!r} = {options[key]!r}: {refused.reason}")
        if key.startswith("log.scan"):
            raise Unsupported(
                f"Option {key!r}: where a stream begins is said where it reads, OPTIONS('log.scan' = 'latest') behind the table."
            )
        if key.startswith("log."):
            raise Unsupported(f"Option {key!r}: tables have no log store, only files. Leave the option out.")
        close = difflib.get_close_matches(key, known, n=1, cutoff=0.75)
        hint = (
            f" Did you mean {close[0]!r}?" if close else " Leave it out; docs/options.md lists the options there are."
        )
        raise InvalidRequest(f"Unknown option {key!r}.{hint}")
