"""Which files of a compaction hold rows that are too old, so that they are written anew, however large they are."""

from collections.abc import Iterable

from ..lsm.record_expiry import RecordExpiry
from ..metadata.manifest import ManifestEntry
from ..metadata.table_store import TableStore
from ..read.scan import FileStatistics


def expired_files(store: TableStore, expiry: RecordExpiry | None, entries: Iterable[ManifestEntry]) -> frozenset[str]:
    """Names of the files whose least time, by their statistics, is too old. One without that statistic is left as it is, as
    Java leaves it.
    """
    if expiry is None:
        return frozenset()
    name, statistics = expiry.field.name, FileStatistics(store)
    least = {entry.file.name: statistics.of(entry.file, {name}).get(name) for entry in entries}
    return frozenset(
        file
        for file, known in least.items()
        if known is not None and known.minimum is not None and expiry.is_past(known.minimum)
    )
