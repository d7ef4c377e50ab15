"""Files that Paimon's Java library reads otherwise than this store: those of earlier builds, and some of pypaimon's.

Here they are read as what they hold. `check` names them, with the command that writes them anew. Follows `docs/format.md`,
"Types", and `docs/decisions/0020`, "Lookups".
"""

from collections.abc import Iterator, Sequence
from itertools import groupby

from ..data_types import DataType
from ..errors import StorageError
from ..lsm.merge_engines import merge_engine_of
from ..metadata.manifest import ManifestEntry
from ..metadata.table_store import TableStore
from ..read.split_read import is_whole, open_data_file

_MOST_DIGITS_OF_COARSE_TIMESTAMPS = 6


def outdated_columns(store: TableStore, entry: ManifestEntry) -> list[str]:
    """The columns of a data file whose physical type in Parquet is not the one that Java reads, in the file's order; nested ones
    by their path. One look at the end of the file, and none if the table has no such columns. Raises CorruptData, NotFound.
    """
    file = entry.file
    if file.format != "parquet" or not any(
        _has_forms(field.type) for field in store.schemas.get(file.schema_id).fields
    ):
        return []
    with open_data_file(store, store.bucket_directory(entry.place), file) as reader:
        return reader.outdated_columns


def misread_by_java(store: TableStore, entries: Sequence[ManifestEntry]) -> Iterator[tuple[ManifestEntry, str]]:
    """The files among all of a snapshot that Java reads wrongly, each with why, and what mends it. Files that cannot be read are
    left out.
    """
    for entry in entries:
        try:
            columns = outdated_columns(store, entry)
        except (StorageError, OSError):
            continue
        if columns:
            yield (
                entry,
                f"an earlier build or pypaimon has written it, with {', '.join(columns)} in a form that Paimon's Java library "
                f"reads wrongly or not at all. Write it anew (snapline compact {store.identifier} --outdated)",
            )
    # With deletion vectors the rows that a file was made of are marked.
    looks_up = store.schema.primary_keys and merge_engine_of(store.schema).looks_up
    if looks_up and not store.options.deletion_vectors_enabled:
        for entry in _not_whole(store, entries):
            yield (
                entry,
                "an earlier build has compacted it, without the rows of the levels above: Paimon's Java library reads "
                f"the table wrongly. Compact it fully (snapline compact {store.identifier})",
            )


def _has_forms(data_type: DataType) -> bool:
    """Whether a type is one that earlier builds stored otherwise, or has one inside of it."""
    is_fine = data_type.is_timestamp and data_type.precision > _MOST_DIGITS_OF_COARSE_TIMESTAMPS
    inner = (*(field.type for field in data_type.fields), data_type.key, data_type.element)
    return is_fine or data_type.root == "DECIMAL" or any(part is not None and _has_forms(part) for part in inner)


def _not_whole(store: TableStore, entries: Sequence[ManifestEntry]) -> Iterator[ManifestEntry]:
    """Files that Java takes for more than they hold."""
    for _, group in groupby(sorted(entries, key=lambda entry: entry.place), lambda entry: entry.place):
        bucket = list(group)
        for entry in bucket:
            low, high = store.key_range(entry.file)
            above = (store.key_range(other.file) for other in bucket if other.file.level > entry.file.level > 0)
            if any(first <= high and low <= last for first, last in above) and not _is_whole(store, entry):
                yield entry


def _is_whole(store: TableStore, entry: ManifestEntry) -> bool:
    try:
        with open_data_file(store, store.bucket_directory(entry.place), entry.file) as reader:
            return is_whole(entry.file, reader)
    except (StorageError, OSError):
        return True
