"""Options of what is kept and for how long: tags of periods, snapshots, changelogs, old rows, partitions, consumers."""

from dataclasses import dataclass

from .option_declaration import Options, option


@dataclass(frozen=True, kw_only=True)
class RetentionOptions(Options):
    """The options that say which tags are created by themselves, and when what is old goes."""

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
        "tag.period-formatter",
        "with_dashes",
        "How tags of periods are named: `with_dashes`, `without_dashes`, "
        "`without_dashes_and_spaces` (a dot follows digits that would be a snapshot id).",
        choices="with_dashes without_dashes without_dashes_and_spaces",
    )
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
        "snapshot.time-retained",
        "1 h",
        "How long snapshots are kept beyond the minimum. With this or one of "
        "`snapshot.num-retained.*` set, each commit of rows, compaction and rollback lets old snapshots go; else only "
        "`expire-snapshots` does.",
        "duration",
    )
    snapshot_expire_limit: int = option(
        "snapshot.expire.limit", "50", "How many snapshots go at the most with one commit.", "whole number", least=1
    )
    changelog_num_retained_min: int | None = option(
        "changelog.num-retained.min",
        None,
        "How many changelogs never expire. With this or one of the next two set, "
        "changelogs outlive their snapshots; what is not set is as for snapshots.",
        "whole number",
        least=0,
    )
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
    partition_expiration_most: int | None = option(
        "partition.expiration-max-num",
        None,
        "Partitions that one `expire_partitions` drops at the most, the oldest first. Default: all that are too old.",
        "whole number",
        least=1,
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
        "How partition columns make up a time: `$day $hour:00:00`. Default: the first.",
    )
    partition_timestamp_formatter: str | None = option(
        "partition.timestamp-formatter", None, "How that text is read: `yyyyMMdd HH:mm`. Default: the usual ways."
    )
    partition_mark_done_action: str = option(
        "partition.mark-done-action",
        "success-file",
        "How partitions are marked as done: `success-file` writes `_SUCCESS` into the directory of each.",
        choices="success-file",
    )
    partition_end_input_to_done: bool = option(
        "partition.end-input-to-done",
        "false",
        "Each commit to main marks the partitions that it has written to as done.",
        "true or false",
    )
    consumer_expiration_ms: int | None = option(
        "consumer.expiration-time", None, "Forget consumers that have not moved for this long.", "duration"
    )
