"""Whether a change may be committed on top of what is there. Pure: compares entries, touches no file.

Follows `docs/format.md`, "Conflict checks".
"""

from collections.abc import Sequence
from itertools import pairwise

from ..data_types import DataType
from ..errors import CommitConflict, RowsChanged
from ..format.binary_row import decode
from ..metadata.manifest import ADD, POSTPONED_BUCKET, ManifestEntry


def check_conflicts(
    base: Sequence[ManifestEntry], delta: Sequence[ManifestEntry], key_types: Sequence[DataType], *, rescales: bool
) -> None:
    """Raise CommitConflict if the delta cannot be put on the base, RowsChanged if a file has gone that it takes away. Of the base
    the files of the partitions of the delta are enough.

    Every file to be deleted must be live, no file may be added twice, files of a level above 0 may not overlap, and
    the number of buckets of a partition may change only where the commit replaces it (`rescales`).
    """
    live = {entry.identity: entry for entry in base}
    for entry in delta:
        if entry.kind == ADD:
            if entry.identity in live:
                raise CommitConflict(f"Data file {entry.file.name} is in the table already.")
            live[entry.identity] = entry
        elif live.pop(entry.identity, None) is None:
            raise RowsChanged(
                f"Data file {entry.file.name} was to be deleted, but another commit has deleted it since. "
                "Read the table again and repeat the operation."
            )
    touched = {(entry.partition, entry.bucket) for entry in delta}
    _check_bucket_counts(list(live.values()), {entry.partition for entry in delta}, rescales)
    if key_types:
        _check_levels([entry for entry in live.values() if (entry.partition, entry.bucket) in touched], key_types)


def _check_bucket_counts(live: Sequence[ManifestEntry], partitions: set[bytes], rescales: bool) -> None:
    counts: dict[bytes, int] = {}
    for entry in live:
        if (
            entry.partition in partitions
            and entry.bucket != POSTPONED_BUCKET
            and counts.setdefault(entry.partition, entry.total_buckets) != entry.total_buckets
        ):
            what = "overwrite the whole partition" if rescales else "overwrite the partition first"
            raise CommitConflict(
                f"Files of one partition would have {counts[entry.partition]} and {entry.total_buckets} buckets: {what}."
            )


def _check_levels(live: Sequence[ManifestEntry], key_types: Sequence[DataType]) -> None:
    levels: dict[tuple[bytes, int, int], list[ManifestEntry]] = {}
    for entry in live:
        if entry.file.level > 0:
            levels.setdefault((entry.partition, entry.bucket, entry.file.level), []).append(entry)
    for (_, bucket, level), entries in levels.items():
        ranges = sorted(
            (decode(e.file.min_key, key_types), decode(e.file.max_key, key_types), e.file.name) for e in entries
        )
        for (_, high, name), (low, _, other) in pairwise(ranges):
            if low <= high:
                raise CommitConflict(
                    f"Data files {name} and {other} would overlap at level {level} of bucket {bucket}."
                )
