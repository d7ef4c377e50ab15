"""Plain Parquet through pyarrow: the reference. It merges nothing and commits nothing."""

from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

_ROW_GROUP_ROWS = 131_072


class PlainSide:
    """Files in a directory: one for each write."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True)
        self._directory = directory
        self._numbers = count()

    def write(self, rows: pa.Table) -> None:
        path = self._directory / f"{next(self._numbers)}.parquet"
        pq.write_table(rows, path, compression="zstd", compression_level=1, row_group_size=_ROW_GROUP_ROWS)


def read_files(paths: list[str], columns: list[str]) -> pa.Table:
    """The rows of files as they are."""
    with ThreadPoolExecutor(2) as pool:
        return pa.concat_tables(pool.map(lambda path: pq.ParquetFile(path).read(columns), paths))


def filter_files(paths: list[str], columns: list[str], low: int, high: int) -> pa.Table:
    """The rows of files with a key in a range, found by reading all of them."""
    rows = read_files(paths, columns)
    return rows.filter(pc.and_(pc.greater_equal(rows["id"], low), pc.less(rows["id"], high)))
