"""Options that would have no effect on a table: whoever sets one is told, and does not take it for carried out."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from .errors import InvalidRequest
from .log_options import NO_LOG, SYSTEM, is_of_log
from .option_spelling import own_key
from .options import TableOptions

_Holds = Callable[[TableOptions], bool]
_KEY: Final = "a primary key: leave it out, or declare a PRIMARY KEY"
_OF_KEYS = {
    "merge-engine",
    "sequence.field",
    "changelog-producer",
    "changelog-producer.row-deduplicate",
    "force-lookup",
    "full-compaction.delta-commits",
    "num-sorted-run.compaction-trigger",
    "num-levels",
    "compaction.max-size-amplification-percent",
    "compaction.size-ratio",
    "aggregation.remove-record-on-delete",
    "partial-update.remove-record-on-delete",
    "partial-update.remove-record-on-sequence-group",
    "dynamic-bucket.target-row-num",
    "dynamic-bucket.initial-buckets",
    "dynamic-bucket.max-buckets",
    "dynamic-bucket.assigner-parallelism",
    "record-level.expire-time",
    "record-level.time-field",
}
_OF_PARTITIONS = {
    "partition.expiration-time",
    "partition.expiration-max-num",
    "partition.expiration-strategy",
    "partition.timestamp-pattern",
    "partition.timestamp-formatter",
    "partition.default-name",
    "partition.legacy-name",
    "dynamic-partition-overwrite",
    "change-tracking.off-partitions",
}


def _has_expiration(options: TableOptions) -> bool:
    return options.partition_expiration_ms is not None


def _has_automatic_tags(options: TableOptions) -> bool:
    return options.tag_automatic_creation != "none"


def _has_zstd(options: TableOptions) -> bool:
    return "zstd" in {
        options.file_compression.lower(),
        *(name.lower() for _, name in options.file_compression_per_level),
    }


def _has_iceberg(options: TableOptions) -> bool:
    return options.metadata_iceberg_storage != "disabled"


def _has_dynamic_buckets(options: TableOptions) -> bool:
    return options.bucket == -1


# What an option goes with, and how that is said.
_NEEDS: dict[str, tuple[_Holds, str]] = {
    "tag.create-time": (lambda options: options.tag_create_interval_ms is not None, "'tag.create-interval'"),
    "tag.creation-period": (_has_automatic_tags, "'tag.automatic-creation'"),
    "tag.creation-delay": (_has_automatic_tags, "'tag.automatic-creation'"),
    "tag.period-formatter": (_has_automatic_tags, "'tag.automatic-creation'"),
    "tag.num-retained-max": (
        lambda options: _has_automatic_tags(options) or options.tag_create_interval_ms is not None,
        "'tag.automatic-creation' or 'tag.create-interval'",
    ),
    "sequence.field.sort-order": (lambda options: bool(options.sequence_field), "'sequence.field'"),
    "changelog-producer.row-deduplicate": (
        lambda options: options.changelog_producer in ("lookup", "full-compaction"),
        "'changelog-producer' = 'lookup' or 'full-compaction'",
    ),
    "file.compression.zstd-level": (_has_zstd, "'file.compression' = 'zstd'"),
    **dict.fromkeys(
        (
            "dynamic-bucket.target-row-num",
            "dynamic-bucket.initial-buckets",
            "dynamic-bucket.max-buckets",
            "dynamic-bucket.assigner-parallelism",
        ),
        (_has_dynamic_buckets, "'bucket' = '-1'"),
    ),
    **{
        str(option["key"]): (_has_iceberg, "'metadata.iceberg.storage'")
        for option in TableOptions.declared()
        if option["key"].startswith("metadata.iceberg.") and option["key"] != "metadata.iceberg.storage"
    },
    "partition.expiration-max-num": (_has_expiration, "'partition.expiration-time'"),
    "partition.expiration-strategy": (_has_expiration, "'partition.expiration-time'"),
    "partition.timestamp-pattern": (_has_expiration, "'partition.expiration-time'"),
    "partition.timestamp-formatter": (_has_expiration, "'partition.expiration-time'"),
}


def with_an_effect(
    given: Mapping[str, str], own: Mapping[str, Any], *, keyed: bool, partitioned: bool
) -> dict[str, str]:
    """Those of some options that mean something for a table with or without a primary key and partitions; those of a log if
    the table's `own` options do not say that it has none.
    """
    effective = {}
    said = {own_key(key) for key in own}
    without_log = own.get(SYSTEM) == NO_LOG
    for key, value in given.items():
        # What the table says itself counts, however it is spelled.
        if own_key(key) in said or (without_log and is_of_log(key)):
            continue
        of_keys = key in _OF_KEYS or (key.startswith("fields.") and not key.endswith(".stats-mode"))
        of_partitions = key in _OF_PARTITIONS
        void = (of_keys and not keyed) or (of_partitions and not partitioned)
        if not void and not (keyed and key == "compaction.min.file-num"):
            effective[key] = value
    return effective


def refuse_without_effect(
    given: Mapping[str, str], others: Mapping[str, str], *, keyed: bool, partitioned: bool
) -> None:
    """Raise InvalidRequest for an option among those `given` that has no effect on a table with or without a primary key and
    partitions, beside the `others` that it has; one at its default may stand.
    """
    options = TableOptions.read({**others, **given})
    for key, value in given.items():
        if value.strip().lower() == TableOptions.default_of(key) and not key.startswith("fields."):
            continue
        if not keyed and (key in _OF_KEYS or (key.startswith("fields.") and not key.endswith(".stats-mode"))):
            raise InvalidRequest(f"Option {key!r} has no effect on a table without {_KEY}.")
        if not partitioned and key in _OF_PARTITIONS:
            raise InvalidRequest(f"Option {key!r} has no effect on a table without partitions: leave it out.")
        if keyed and key == "compaction.min.file-num":
            raise InvalidRequest(f"Option {key!r} has no effect on a table with a primary key: leave it out.")
        holds, wanted = _NEEDS.get(key, (None, ""))
        if holds is not None and not holds(options):
            raise InvalidRequest(f"Option {key!r} has no effect without {wanted}: set that as well, or leave it out.")
