"""What every side of a comparison can do. A side that cannot do something raises `CannotDo`, and the figure is a dash."""

import pyarrow as pa


class CannotDo(Exception):
    """The system has no such operation."""


class Side:
    """One system under measurement, in a directory of its own.

    The main table has a primary key `id` and the columns of `workload.COLUMNS`. `small` is partitioned by `part` with the
    key (`part`, `id`); `appended` has no key and is partitioned by `part`.
    """

    def __init__(self, directory: str) -> None:
        self.directory = directory

    def load(self, rows: pa.Table) -> None:
        """Make the main table with its first rows."""
        raise CannotDo

    def upsert(self, rows: pa.Table) -> None:
        raise CannotDo

    def scan(self, columns: list[str] | None = None) -> pa.Table:
        """Open the main table anew and read it."""
        raise CannotDo

    def lookup(self, low: int, high: int) -> pa.Table:
        """Open the main table anew and read the rows with keys from `low` up to, but not including, `high`."""
        raise CannotDo

    def compact(self) -> None:
        raise CannotDo

    def load_text_keyed(self, rows: pa.Table) -> None:
        """Make the table `text` with the key (`region`, `code`) and its first rows."""
        raise CannotDo

    def upsert_text_keyed(self, rows: pa.Table) -> None:
        raise CannotDo

    def scan_text_keyed(self) -> pa.Table:
        raise CannotDo

    def upsert_compacting(self, base: pa.Table, changes: list[pa.Table]) -> dict[str, float]:
        """Load and upsert with a writer that compacts: seconds of the upserts, and bytes written and kept for each byte."""
        raise CannotDo

    def make_small(self) -> None:
        raise CannotDo

    def commit_small(self, rows: pa.Table) -> None:
        raise CannotDo

    def plan_small(self, part: int | None = None) -> int:
        """Open and plan; returns the number of files or splits."""
        raise CannotDo

    def scan_small(self, part: int | None = None) -> pa.Table:
        raise CannotDo

    def scan_small_at(self, commit: int) -> pa.Table:
        """The table as of the given commit, counted from 1."""
        raise CannotDo

    def tag_small(self, name: str) -> None:
        raise CannotDo

    def branch_small(self, name: str) -> None:
        raise CannotDo

    def snapshots_small(self) -> int:
        """Open, list the snapshots, and count them."""
        raise CannotDo

    def files_small(self) -> int:
        """Open, list the files, and count them."""
        raise CannotDo

    def make_appended(self) -> None:
        raise CannotDo

    def append(self, rows: pa.Table) -> None:
        raise CannotDo

    def scan_appended(self, part: int | None = None) -> pa.Table:
        raise CannotDo
