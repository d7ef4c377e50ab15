"""Plain Parquet through pyarrow: the reference. It merges nothing, commits nothing, and keeps no history.

After the upserts its scan reads all files one after another, rows that were updated twice among them, so that its answer is
cut to the right number of rows: it stands for the time that reading takes, not for the rows.
"""

import glob
import os
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import workload
from side import Side

_ROW_GROUP_ROWS = 131_072


class Plain(Side):
    def __init__(self, directory: str) -> None:
        super().__init__(directory)
        self._numbers = count()
        self._rows = 0

    def _write(self, name: str, rows: pa.Table) -> None:
        os.makedirs(f"{self.directory}/{name}", exist_ok=True)
        path = f"{self.directory}/{name}/{next(self._numbers)}.parquet"
        pq.write_table(rows, path, compression="zstd", compression_level=1, row_group_size=_ROW_GROUP_ROWS)

    def _read(self, name: str, columns: list[str] | None = None) -> pa.Table:
        paths = sorted(glob.glob(f"{self.directory}/{name}/*.parquet"))
        with ThreadPoolExecutor(2) as pool:
            return pa.concat_tables(pool.map(lambda path: pq.ParquetFile(path).read(columns), paths))

    def load(self, rows: pa.Table) -> None:
        self._rows = rows.num_rows
        self._load("main", rows)

    def _load(self, name: str, rows: pa.Table) -> None:
        # One file for each bucket, as a table has them.
        step = -(-rows.num_rows // workload.BUCKETS)
        with ThreadPoolExecutor(workload.BUCKETS) as pool:
            list(pool.map(lambda start: self._write(name, rows.slice(start, step)), range(0, rows.num_rows, step)))

    def upsert(self, rows: pa.Table) -> None:
        self._rows += rows.num_rows - rows.num_rows // 2
        self._write("main", rows)

    def scan(self, columns: list[str] | None = None) -> pa.Table:
        return self._read("main", columns).slice(0, self._rows)

    def lookup(self, low: int, high: int) -> pa.Table:
        rows = self._read("main")
        matching = rows.filter(pc.and_(pc.greater_equal(rows["id"], low), pc.less(rows["id"], high)))
        return matching.slice(0, high - low)

    def compact(self) -> None:
        rows = self._read("main").slice(0, self._rows)
        for path in glob.glob(f"{self.directory}/main/*.parquet"):
            os.remove(path)
        self._write("main", rows)

    def load_text_keyed(self, rows: pa.Table) -> None:
        self._rows = rows.num_rows
        self._load("text", rows)

    def upsert_text_keyed(self, rows: pa.Table) -> None:
        self._rows += rows.num_rows - rows.num_rows // 2
        self._write("text", rows)

    def scan_text_keyed(self) -> pa.Table:
        return self._read("text").slice(0, self._rows)

    def make_small(self) -> None:
        """Files need no making."""

    def commit_small(self, rows: pa.Table) -> None:
        self._write(f"small/part={rows['part'][0].as_py()}", rows)

    def scan_small(self, part: int | None = None) -> pa.Table:
        return self._read("small/*" if part is None else f"small/part={part}")

    def make_appended(self) -> None:
        """Files need no making."""

    def append(self, rows: pa.Table) -> None:
        self._write(f"appended/part={rows['part'][0].as_py()}", rows)

    def scan_appended(self, part: int | None = None) -> pa.Table:
        return self._read("appended/*" if part is None else f"appended/part={part}")


side = Plain
