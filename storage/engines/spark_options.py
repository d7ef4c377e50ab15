"""Options of the data source: which of them each use of it takes, and their values. Others are refused by name."""

import difflib
import json
from collections.abc import Mapping

from ..arguments import shown
from ..errors import InvalidRequest
from ..identifier import whole_number
from ..metadata.schema import TableSchema
from ..read.metadata_columns import METADATA_COLUMNS, PREFIX, metadata_among, metadata_of, refuse_metadata
from ..read.version import BRANCH_OPTIONS, VERSION_OPTIONS

READ, WRITE = "a read", "a write"
STREAM_READ, STREAM_WRITE = "a streaming read", "a streaming write"
METADATA = "metadata-columns"
TOUCHED_KEYS, INSERTS_ONLY, SOURCE_NUMBER = "read.touched-keys", "read.inserts-only", "source-number"
# What `splits` says: those alone that Spark's own scan of Parquet cannot read as they are; and of those the ones that it cannot
# read where it knows which rows stand.
MERGED, UNREADABLE = "merged", "unreadable"

_STORAGE = "storage."
# `catalog` names what is read in the offsets of streams. Spark itself gives the path and the checkpoint.
_PLACE = frozenset({"path", "warehouse", "catalog", "lock-directory", "external-roots", *BRANCH_OPTIONS})
_TAKES = {
    READ: _PLACE | {"version", *VERSION_OPTIONS, "schema-id", "columns", METADATA, "where", "splits", "lowest-level"},
    STREAM_READ: _PLACE
    | {
        "scan.mode",
        "scan.snapshot-id",
        "scan.timestamp-millis",
        "snapshots-per-batch",
        "consumer-id",
        "columns",
        METADATA,
    }
    | {"read.changelog", TOUCHED_KEYS, INSERTS_ONLY, SOURCE_NUMBER},
    WRITE: _PLACE
    | {"commit-user", "commit-identifier", "commit-exact", "commit-not-before-ms", "commit-new", "row-kind-column"}
    | {"change-tracking", "properties", "operation", "overwrite", "only-partitions", "unless-same"}
    | {"replaced-snapshot", "replaced-files", "marked-rows", "basis", "unless-changed-since", "new-schema"},
    STREAM_WRITE: _PLACE | {"commit-user", "checkpointlocation", "row-kind-column", "change-tracking", "properties"},
}


def refuse_untaken(options: Mapping[str, str], *uses: str) -> None:
    """Raise InvalidRequest for an option that none of these uses of the data source takes, and for two that contradict."""
    taken = frozenset[str]().union(*(_TAKES[use] for use in uses))
    for key in options:
        if key.lower() in taken or key.startswith(_STORAGE):
            continue
        others = [use for use, keys in _TAKES.items() if key in keys]
        near = difflib.get_close_matches(key, sorted(taken), n=1, cutoff=0.6)
        what = (
            f" It is for {' and '.join(others)}."
            if others
            else f" Did you mean {near[0]!r}?"
            if near
            else f" It takes {', '.join(sorted(taken))} and {_STORAGE}*."
        )
        raise InvalidRequest(f"The format `snapline` has no option {key!r} for {uses[0]}.{what}")
    if "version" in options and (more := [key for key in VERSION_OPTIONS if key in options]):
        raise InvalidRequest(f"Options 'version' and {more[0]!r} ask for a version both: say one.")
    branches = [key for key in BRANCH_OPTIONS if options.get(key)]
    if len({options[key] for key in branches}) > 1:
        raise InvalidRequest(f"Options {' and '.join(map(repr, branches))} name different branches: say one.")


def storage_options(options: Mapping[str, str]) -> dict[str, str]:
    """What goes to fsspec."""
    return {key.removeprefix(_STORAGE): value for key, value in options.items() if key.startswith(_STORAGE)}


def is_true(options: Mapping[str, str], key: str, *, default: bool = False) -> bool:
    """An option that is `true` or `false`. Raises InvalidRequest for other words."""
    text = options.get(key)
    if text is None:
        return default
    if text.strip().lower() not in ("true", "false"):
        raise InvalidRequest(f"Option {key!r} is true or false, not {shown(text)}.")
    return text.strip().lower() == "true"


def number_of(options: Mapping[str, str], key: str) -> int | None:
    """An option that is a whole number, zero or more; None if it is not given. Raises InvalidRequest."""
    text = options.get(key)
    if text is None:
        return None
    number = whole_number(text.strip())
    if number is None or number < 0:
        raise InvalidRequest(f"Option {key!r} = {shown(text)} is not a whole number.")
    return number


def columns_of(options: Mapping[str, str], schema: TableSchema) -> tuple[str, ...] | None:
    """The columns that are wanted, in that order, None for all those of the table: `columns`, and then `metadata-columns`.

    Raises InvalidRequest for metadata among the former, and for what is none among the latter.
    """
    columns, metadata = names_of(options, "columns"), names_of(options, METADATA)
    refuse_metadata(schema, columns, "the option 'columns'", f"Name it in the option {METADATA!r}.")
    if not metadata:
        return tuple(columns) or None
    metadata_names = metadata_among(schema, metadata)
    for name in metadata:
        if name not in metadata_names:
            raise InvalidRequest(
                f"Option {METADATA!r}: {name!r} is a column of the table. {PREFIX}{metadata_of(name)} is the metadata."
                if metadata_of(name)
                else f"Option {METADATA!r}: {name!r} is no metadata of rows. Those are {', '.join(METADATA_COLUMNS)}."
            )
    return (*(columns if "columns" in options else schema.column_names), *metadata)


def names_of(options: Mapping[str, str], key: str) -> list[str]:
    """What an option lists, in that order: names with commas between them, or in a JSON list; empty if it is not given."""
    text = options.get(key, "")
    if not text.startswith("["):
        return [name for name in text.split(",") if name]
    try:
        names = json.loads(text)
    except (ValueError, RecursionError):
        names = None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise InvalidRequest(f"Option {key!r} = {shown(text)} must be names with commas between them, or a JSON list.")
    return names
