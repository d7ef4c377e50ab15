"""Options of a table: declared once, read from the text that the schema file holds.

All values on disk are strings: `"4"`, `"true"`, `"128 mb"`, `"1 h"`. A field of an options class is one option: its
key, type, default and meaning stand together, and `docs/options.md` is generated from these lines. Two groups have files
of their own: `retention_options` and `iceberg_options`. A key that is not known here, nor accepted by `known_options`, is
refused when somebody sets it; what other writers have set is kept as it is.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .errors import InvalidRequest
from .file_formats import added_format, file_format_names
from .iceberg_options import IcebergOptions
from .option_declaration import option
from .retention_options import RetentionOptions

_DEFAULT_COMPRESSION = "zstd"


@dataclass(frozen=True, kw_only=True)
class TableOptions(IcebergOptions, RetentionOptions):
    """The options of a table that this store acts on."""

    bucket: int = option(
        "bucket",
        "-1",
        "Number of buckets rows are hashed to. -1: a table with a primary key gets buckets as its keys come "
        "(dynamic buckets); rows of an append-only table (or partition) go into one place, written by any number of writers. "
        "SQL and assets give a table with a primary key one bucket, where nothing is said.",
        "whole number",
    )
    postpone_default_bucket_num: int = option(
        "postpone.default-bucket-num",
        "1",
        "Buckets of a partition whose postponed rows are moved for the first time.",
        "whole number",
        least=1,
    )
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
        "bucket-key",
        "",
        "Columns to hash. Default: the primary key without the partition columns; without a key all columns but those.",
        "names, separated by commas",
    )
    merge_engine: str = option(
        "merge-engine",
        "deduplicate",
        "What becomes of rows with equal keys: `deduplicate` (the last row stands), "
        "`partial-update`, `aggregation` (by `fields.<column>.aggregate-function`), `first-row`.",
    )
    changelog_producer: str = option(
        "changelog-producer",
        "none",
        "Who writes changelog files: `none` (readers of changes get rows as they were "
        "written), `input` (the writer stores what it gets), `lookup` (a compaction after each write stores complete "
        "pairs of -U and +U), `full-compaction` (each full compaction stores the difference to the one before).",
    )
    force_lookup: bool = option(
        "force-lookup",
        "false",
        "A compaction after each write lifts level 0 and merges it with what the levels above hold, "
        "as with the changelog producer `lookup`, but tells of no changes.",
        "true or false",
    )
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
        "change-tracking.off-partitions",
        "",
        "Partitions (`day=2024-05-01/region=eu`) whose commits produce no changes.",
        "names, separated by commas",
    )
    streaming_read_overwrite: bool = option(
        "streaming-read-overwrite",
        "true",
        "Readers of changes see what an overwrite replaced as -D and what came as +I; `false` leaves overwrites out. Java's "
        "readers see them only where `true` is written, which it takes with a key, without lookup or full-compaction.",
        "true or false",
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
        _DEFAULT_COMPRESSION,
        "Compression of data files: zstd, snappy, lz4, gzip (Parquet), zlib (ORC), none; with Avro zstd, snappy, deflate, null.",
    )
    file_compression_per_level: tuple[tuple[int, str], ...] = option(
        "file.compression.per.level", "", "Compressions of some levels: `0:lz4,5:zstd`.", "values by level"
    )
    file_compression_zstd_level: int = option(
        "file.compression.zstd-level",
        "1",
        "Level of zstd: higher is smaller and slower.",
        "whole number",
        least=1,
        most=22,
    )
    target_file_size_bytes: int | None = option(
        "target-file-size",
        None,
        "Roll data files at about this size. Default: 128 mb with a primary key, else 256 mb.",
        "size",
        least=1,
    )
    parquet_row_group_rows: int | None = option(
        "parquet.row-group.rows",
        None,
        "Rows of a Parquet row group: what a point look-up reads at the least. Default: 131072, with deletion vectors 32768.",
        "whole number",
        least=1,
    )
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
        "partition.default-name",
        "__DEFAULT_PARTITION__",
        "Directory for null and blank partition values; fixed.",
    )
    partition_legacy_name: bool = option(
        "partition.legacy-name",
        "true",
        "Directory names of DATE partitions are day numbers (Paimon's default); fixed.",
        "true or false",
    )
    dynamic_partition_overwrite: bool = option(
        "dynamic-partition-overwrite",
        "true",
        "An overwrite replaces only the partitions that occur in the new rows.",
        "true or false",
    )
    manifest_compression: str = option(
        "manifest.compression",
        "zstd",
        "Codec of manifests: zstd, deflate, null.",
        choices="zstd zstandard deflate snappy null none",
    )
    manifest_target_file_size_bytes: int = option(
        "manifest.target-file-size", "8 mb", "Merge manifests up to this size.", "size", least=1
    )
    manifest_full_compaction_threshold_size_bytes: int = option(
        "manifest.full-compaction-threshold-size",
        "16 mb",
        "Rewrite all manifests that hold deletes once they exceed this.",
        "size",
    )
    manifest_merge_min_count: int = option(
        "manifest.merge-min-count",
        "30",
        "Merge the small manifests at the end of the list once there are this many.",
        "whole number",
        least=1,
    )
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
        "num-sorted-run.compaction-trigger",
        "5",
        "Sorted runs of a bucket from which on it may be compacted.",
        "whole number",
        least=1,
    )
    level_count: int | None = option(
        "num-levels",
        None,
        "Levels of a bucket; fixed with `changelog-producer` = `full-compaction`. Default: one more than "
        "`num-sorted-run.compaction-trigger`.",
        "whole number",
        least=2,
    )
    compaction_max_size_amplification_percent: int = option(
        "compaction.max-size-amplification-percent",
        "200",
        "Merge every run once the newer runs together exceed this share of the oldest run.",
        "whole number",
        least=0,
    )
    compaction_size_ratio_percent: int = option(
        "compaction.size-ratio",
        "1",
        "Merge a run with the newer ones unless it is larger than them by more than this.",
        "whole number",
        least=0,
    )
    compaction_min_file_count: int = option(
        "compaction.min.file-num",
        "5",
        "Small files of a table without a key from which on they become one.",
        "whole number",
        least=2,
    )
    commit_max_retries: int = option(
        "commit.max-retries",
        "10",
        "How often a commit that lost a race is tried again at the least. Appends go on "
        "for as long as others make progress, up to commit.timeout.",
        "whole number",
        least=0,
    )
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
        "sequence.field",
        "",
        "Columns that order rows of a key before arrival does; nulls come first.",
        "names, separated by commas",
    )

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
        if wanted not in file_format_names():
            given = "file.format.per.level" if level in dict(self.file_format_per_level) else "file.format"
            raise InvalidRequest(f"Option {given!r} has {wanted!r}. Supported: {', '.join(file_format_names())}.")
        return wanted

    def compression_of_level(self, level: int) -> str:
        """The compression of data files on a level. A format of another package that does not know the default has its own."""
        wanted = dict(self.file_compression_per_level).get(level, self.file_compression).lower()
        if wanted == _DEFAULT_COMPRESSION:
            added = added_format(self.format_of_level(level))
            return wanted if added is None or wanted in added.compressions else added.compressions[0]
        return wanted

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

    @property
    def lifts_each_write(self) -> bool:
        """Whether a compaction of level 0 follows each write to a table with a primary key: until then readers, or readers of
        changes, miss its rows, or find them dearer.
        """
        return self.looks_up or self.merge_engine == "first-row"

    @property
    def row_group_rows(self) -> int:
        """Rows of a Parquet row group. With deletion vectors nothing is merged, and a look-up costs what it decodes."""
        return self.parquet_row_group_rows or (32768 if self.deletion_vectors_enabled else 131072)

    def target_file_size(self, has_primary_key: bool) -> int:
        """Bytes at which data files are rolled."""
        return self.target_file_size_bytes or (128 if has_primary_key else 256) * 1024 * 1024
