"""How many rows a snapshot has, for those who show it: from metadata alone, or by reading.

What a snapshot itself says, `totalRecordCount`, is the records of its files: rows that were replaced or deleted are among them
until a compaction takes them out.
"""

from ..metadata.table_store import TableStore
from .scan import Scan


def row_count(scan: Scan, *, reads: bool, partition: bytes | None = None) -> int | None:
    """The number of rows that a reader of a whole snapshot sees, or of one of its partitions; None where metadata do not tell,
    unless rows may be read (`reads`).
    """
    if partition is None:
        if scan.snapshot is None:
            return 0
        if scan.snapshot.index_manifest is None and _each_record_is_a_row(scan.store):
            return scan.snapshot.total_record_count
        return scan.count() if reads else scan.known_count()
    splits = [split for split in scan.splits if split.partition == partition]
    if all(split.row_count_is_exact for split in splits):
        return sum(split.row_count_unmerged for split in splits)
    return sum(rows.num_rows for split in splits for rows in split.read()) if reads else None


def _each_record_is_a_row(store: TableStore) -> bool:
    """Whether no record of a file replaces another one, and none is a part of a row."""
    return not store.schema.primary_keys and store.schema.options.get("data-evolution.enabled", "false") != "true"
