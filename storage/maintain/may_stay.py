"""Which files of a table with a key a compaction can move to another level as they are."""

from collections.abc import Container
from typing import Final

from ..format.parquet_file import ParquetReader
from ..lsm.sorted_run import Section
from ..lsm.system_columns import INSERT, UPDATE_AFTER, VALUE_KIND
from ..metadata.table_store import TableStore

# A file of this share of the target size is large enough to be left as it is.
LARGE_SHARE: Final = 0.7


def may_stay(store: TableStore, section: Section, directory: str, level: int, marked: Container[str]) -> bool:
    """Whether the files of a section of the bucket in `directory` can be moved to a level as they are. `marked`: names of those
    that have deletion vectors.
    """
    if len(section.runs) > 1:
        return False
    wanted = store.options.format_of_level(level)
    large = LARGE_SHARE * store.options.target_file_size(has_primary_key=True)
    # What reaches the highest level loses its deleted rows.
    if level == store.options.top_level and any(file.name in marked for file in section.files):
        return False
    return all(
        file.size_bytes >= large
        and file.format == wanted == "parquet"
        and not _holds_deletes(store, f"{directory}/{file.name}")
        for file in section.files
    )


def _holds_deletes(store: TableStore, path: str) -> bool:
    """By the statistics in the file itself: the manifest's count is no proof, and above level 0 nobody looks again."""
    with ParquetReader(store.file_io, path) as reader:
        return reader.extremes(VALUE_KIND) not in ((INSERT, INSERT), (UPDATE_AFTER, UPDATE_AFTER))
