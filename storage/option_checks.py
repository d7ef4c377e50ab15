"""Which options of a table may be set, and which values: whatever nobody follows is refused by name."""

import dataclasses
import datetime as dt
import difflib
import re
from collections.abc import Mapping
from collections.abc import Set as AbstractSet

from .accepted_values import check_accepted_value
from .client_properties import check_property
from .date_pattern import python_format
from .errors import InvalidRequest, Unsupported
from .extensions import INSTALL_IT, extension_names
from .file_formats import compressions_of, file_format_names
from .known_options import accepted_for, refused_for
from .log_options import AT_READ, CLIENT_OPTIONS, SYSTEM, LogOptions, has_log
from .option_declaration import Options
from .option_spelling import in_one_spelling, refuse_two_spellings
from .options import TableOptions
from .redaction import holds_secret

_MOST_DAYS = 36_500

_DAY_MS = 86_400_000

_OF_FILES = {"file.format", "file.format.per.level", "file.compression", "file.compression.per.level"}

STATS_MODE = re.compile(r"none|counts|full|truncate\([1-9]\d*\)")

MERGE_ENGINES = ("deduplicate", "partial-update", "aggregation", "first-row")
# The group of entry points by which packages add others.
MERGE_ENGINES_OF_OTHERS = "snapline.merge_engines"

# Options that change how the bytes of a table must be read or written, and the values that this store understands.
_UNDERSTOOD_FOR_READING: dict[str, tuple[str, ...]] = {
    "bucket-function.type": ("default",),
    "chain-table.enabled": ("false",),
    "pk-clustering-override": ("false",),
    "sequence.snapshot-ordering": ("false",),
    "type": ("table",),
    "query-auth.enabled": ("false",),
    "manifest.format": ("avro",),
    # With it, indexes of deletion vectors and keys lie in the directories of buckets, where they are not looked for.
    "index-file-in-data-file-dir": ("false",),
}

_UNDERSTOOD_FOR_WRITING: dict[str, tuple[str, ...]] = {
    "data-evolution.enabled": ("false",),
    "row-tracking.enabled": ("false",),
    "changelog-producer": ("none", "input", "lookup", "full-compaction"),
    # Of the others, a metastore would have to be told.
    "metadata.iceberg.storage": ("disabled", "table-location", "hadoop-catalog"),
}

_REFUSED_FOR_READING = ("scan.fallback-branch",)

_REFUSED_FOR_WRITING = (*_REFUSED_FOR_READING, "data-file.external-paths")

# Those of single merge engines.
_OF_ENGINES = (
    "aggregation.remove-record-on-delete",
    "partial-update.remove-record-on-delete",
    "partial-update.remove-record-on-sequence-group",
)

# Keys that name a column, or a computed one, or a kind of file index.
_KEYS_OF_COLUMNS = re.compile(
    r"fields\.(default-aggregate-function|.+\.(aggregate-function|ignore-retract|list-agg-delimiter|distinct|sequence-group|stats-mode|nested-key|count-limit|ts-field))"
    r"|schema\.\d+\.(name|expr|data-type|comment)|schema\.watermark\.0\.(rowtime|strategy\.expr|strategy\.data-type)"
    r"|file-index\..+"
)


# Followed by other writers of the format alone, as what the names of their files begin with.
_PREFIXES_OF_FILES = {"data-file.prefix", "changelog-file.prefix"}


def merge_engine_names() -> list[str]:
    """All merge engines: those of this package, then those of others."""
    return [*MERGE_ENGINES, *extension_names(MERGE_ENGINES_OF_OTHERS)]


def refuse_unsupported(options: Mapping[str, str], table: str, *, for_writing: bool) -> None:
    """Raise Unsupported, naming the option, if this store would misread (or miswrite) the table."""
    understood = _UNDERSTOOD_FOR_READING | (_UNDERSTOOD_FOR_WRITING if for_writing else {})
    understood |= {"merge-engine": tuple(merge_engine_names())}
    understood |= {"file.format": tuple(file_format_names())} if for_writing else {}
    doing = "written" if for_writing else "read"
    for key, values in understood.items():
        given = options.get(key, values[0]).strip().lower()
        if given not in values:
            supported = f"Supported: {', '.join(repr(value) for value in values)}."
            if key in ("merge-engine", "file.format"):
                supported = f"{supported} {INSTALL_IT}"
            raise Unsupported(
                f"Table {table} has {key!r} = {given!r}, with which it cannot be {doing} here. {supported}"
            )
    for key in _REFUSED_FOR_WRITING if for_writing else _REFUSED_FOR_READING:
        if options.get(key):
            raise Unsupported(f"Table {table} has {key!r} = {options[key]!r}, with which it cannot be {doing} here.")
    if for_writing:
        _refuse_for_iceberg(options, table)


def _refuse_for_iceberg(options: Mapping[str, str], table: str) -> None:
    """Raise Unsupported for options of a table whose rows readers of Iceberg are to see and would not, or not rightly."""
    if options.get("metadata.iceberg.storage", "disabled").strip().lower() == "disabled":
        return
    wanted = {"metadata.iceberg.format-version": "2", "deletion-vectors.enabled": "false", "file.format": "parquet"}
    reasons = {
        "metadata.iceberg.format-version": "metadata are written in version 2",
        "deletion-vectors.enabled": "readers would see the rows that are marked as deleted",
        "file.format": "readers find columns by ids, which Parquet files alone hold",
    }
    given = {key: options.get(key, value).strip().lower() for key, value in wanted.items()}
    for _, kind in TableOptions.read(options).file_format_per_level:
        given["file.format"] = kind if kind != "parquet" else given["file.format"]
    for key, value in given.items():
        if value != wanted[key]:
            raise Unsupported(
                f"Table {table} has 'metadata.iceberg.storage' and {key!r} = {value!r}, which do not go together here: "
                f"{reasons[key]}. Leave one of them out."
            )


def check_table_options(options: Mapping[str, str], table: str, *, before: Mapping[str, str] | None = None) -> None:
    """Raise InvalidRequest for a key that nobody follows or a value that cannot be read or followed, Unsupported for what
    cannot be written. What other writers of the format follow may stay as it was `before`.
    """
    refuse_two_spellings(options)
    options = in_one_spelling(options)
    changed = {key for key in options if options[key] != (before or {}).get(key)}
    # First: whoever hands a secret over is told so, whatever the key is.
    _refuse_secrets({key: options[key] for key in changed})
    _check_keys(changed, options)
    _check_values(TableOptions.read(options), options, changed)
    _check_declared(LogOptions.read(options), options, changed)
    _check_log(LogOptions.read(options), options, changed)
    refuse_unsupported(options, table, for_writing=True)


def check_option_of_log(key: str, value: str | None) -> None:
    """Raise InvalidRequest or Unsupported for an option of a log that nobody follows, or a value that none can have: what it goes
    with is another question. Without a value, the key is looked at alone.
    """
    options = in_one_spelling({key: value or ""})
    _refuse_secrets(options)
    if value is None:
        _check_keys(options.keys() - CLIENT_OPTIONS, options)
        return
    _check_keys(options.keys(), options)
    _check_declared(LogOptions.read(options), options, options.keys())


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
    _check_declared(read, texts, keys)
    if "bucket" in keys and (read.bucket == 0 or read.bucket < -2):
        raise InvalidRequest(f"Option 'bucket' = {read.bucket}: use a positive number, -1 or -2.")
    if "bucket-key" in keys and len(set(read.bucket_key)) < len(read.bucket_key):
        raise InvalidRequest(f"Option 'bucket-key' = {texts['bucket-key']!r} names a column twice.")
    for key in sorted(keys & _PREFIXES_OF_FILES):
        if not re.fullmatch(r"[\w.-]+", texts[key]):
            raise InvalidRequest(
                f"Option {key!r} = {texts[key]!r} cannot begin the name of a file: letters, digits, '.', '_' and '-' can."
            )
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
        _check_files(read, texts)
    _check_levels(read, texts, keys)
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


def _check_declared(read: Options, texts: Mapping[str, str], keys: AbstractSet[str]) -> None:
    """Raise InvalidRequest for values of some keys that are not among those that were declared for them."""
    for declared in dataclasses.fields(read):
        key, least, most, choices = (declared.metadata[name] for name in ("key", "least", "most", "choices"))
        value = getattr(read, declared.name)
        if key not in keys or value is None:
            continue
        if declared.metadata["kind"] != "text" and texts[key] != texts[key].strip():
            raise InvalidRequest(
                f"Option {key!r} = {texts[key]!r}: leave out the blanks around it, which Paimon does not read."
            )
        if declared.metadata["kind"] == "text" and declared.metadata["default"] and not texts[key].strip():
            raise InvalidRequest(f"Option {key!r} = {texts[key]!r}: a name is needed, not a blank text.")
        if least is not None and value < least:
            raise InvalidRequest(f"Option {key!r} = {value!r}: it is {least} at the least.")
        if most is not None and value > most:
            raise InvalidRequest(f"Option {key!r} = {value!r}: it is {most} at the most.")
        if choices and value not in choices.split():
            raise InvalidRequest(f"Option {key!r} = {value!r}. Supported: {choices.replace(' ', ', ')}.")


def _check_log(read: LogOptions, texts: Mapping[str, str], keys: AbstractSet[str]) -> None:
    """Raise InvalidRequest or Unsupported for options of a log that do not go together, or without a log."""
    own = sorted(key for key in keys if key in CLIENT_OPTIONS or key.startswith("log.") or key == "kafka.topic")
    if not own:
        return
    if not has_log(texts):
        for key in own:
            if key != SYSTEM:
                raise InvalidRequest(
                    f"Option {key!r} = {texts[key]!r} is for tables with a log: set 'log.system' = 'kafka' too."
                )
        return
    if read.consistency == "eventual":
        if read.changelog_mode == "all":
            raise InvalidRequest(
                "Options 'log.changelog-mode' = 'all' and 'log.consistency' = 'eventual' exclude each other: leave one out."
            )
        raise Unsupported(
            "Option 'log.consistency' = 'eventual': rows are sent to a log once they are committed. Leave the option out."
        )
    if read.system == "kafka" and not read.servers:
        raise InvalidRequest("Option 'log.system' = 'kafka' needs 'kafka.bootstrap.servers' = 'host:port'.")
    if read.topic is not None and not re.fullmatch(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}", read.topic):
        raise InvalidRequest(
            f"Option 'kafka.topic' = {read.topic!r} names no topic: letters, digits, '.', '_' and '-' can, 249 at the most."
        )


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


def _check_levels(read: TableOptions, texts: Mapping[str, str], keys: AbstractSet[str]) -> None:
    """Raise InvalidRequest for values by level that name a level twice, or one that no file has."""
    by_level = {
        "file.format.per.level": read.file_format_per_level,
        "file.compression.per.level": read.file_compression_per_level,
        "metadata.stats-mode.per.level": read.metadata_stats_mode_per_level,
    }
    for key, pairs in by_level.items():
        levels = [level for level, _ in pairs]
        wrong = [level for level in levels if levels.count(level) > 1 or level > read.top_level]
        if key in keys and wrong:
            reason = "is there twice" if levels.count(wrong[0]) > 1 else f"is none: they go from 0 to {read.top_level}"
            raise InvalidRequest(f"Option {key!r} = {texts[key]!r}: level {wrong[0]} {reason}.")


def _check_files(read: TableOptions, texts: Mapping[str, str]) -> None:
    """Raise InvalidRequest for formats and compressions of files, of any level, that are not written, or not together."""
    if read.file_format.lower() not in file_format_names():
        # It is refused by its own name.
        return
    levels = {level for level, _ in (*read.file_format_per_level, *read.file_compression_per_level)}
    for level in (-1, *sorted(levels)):
        kind, compression = read.format_of_level(level), read.compression_of_level(level)
        supported = compressions_of(kind)
        if level == -1:
            # What is asked for by name is not what a format has by itself.
            compression = texts.get("file.compression", compression).lower()
        if compression not in supported:
            raise InvalidRequest(
                f"Option 'file.compression' = {compression!r} is not supported for {kind}. Supported: {', '.join(supported)}."
            )


def _check_keys(keys: AbstractSet[str], options: Mapping[str, str]) -> None:
    declared = [str(each["key"]) for each in (*TableOptions.declared(), *LogOptions.declared())]
    known = {*declared, *_UNDERSTOOD_FOR_READING, *_UNDERSTOOD_FOR_WRITING, *_REFUSED_FOR_WRITING, *_OF_ENGINES}
    known |= CLIENT_OPTIONS
    for key in sorted(keys):
        if accepted_for(key) is not None:
            check_accepted_value(key, options[key])
            continue
        if key in CLIENT_OPTIONS:
            check_property(key, key.removeprefix("kafka."), options[key])
        if key in known or _KEYS_OF_COLUMNS.fullmatch(key):
            continue
        refused = refused_for(key)
        if refused is not None:
            if options[key].strip().lower() in refused.harmless:
                continue
            raise Unsupported(f"Option {key!r} = {options[key]!r}: {refused.reason}")
        if AT_READ.fullmatch(key):
            raise Unsupported(
                f"Option {key!r}: where a reading begins is said where it reads: OPTIONS('log.scan' = 'latest') behind the "
                "table, or follow(scan='latest')."
            )
        if key.startswith("kafka."):
            raise Unsupported(
                f"Option {key!r}: a table says of clients of Kafka how they find the brokers and how much they send at once: "
                f"{', '.join(sorted(CLIENT_OPTIONS))}."
            )
        close = difflib.get_close_matches(key, known, n=1, cutoff=0.75)
        hint = (
            f" Did you mean {close[0]!r}?" if close else " Leave it out; docs/options.md lists the options there are."
        )
        raise InvalidRequest(f"Unknown option {key!r}.{hint}")
