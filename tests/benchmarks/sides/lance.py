"""Lance."""

import lance as library
import pyarrow as pa
from side import Side


class Lance(Side):
    def _path(self, name: str) -> str:
        return f"{self.directory}/{name}.lance"

    def load(self, rows: pa.Table) -> None:
        library.write_dataset(rows, self._path("main"))

    def upsert(self, rows: pa.Table) -> None:
        merge = library.dataset(self._path("main")).merge_insert("id")
        merge.when_matched_update_all().when_not_matched_insert_all().execute(rows)

    def scan(self, columns: list[str] | None = None) -> pa.Table:
        return library.dataset(self._path("main")).to_table(columns=columns)

    def lookup(self, low: int, high: int) -> pa.Table:
        return library.dataset(self._path("main")).to_table(filter=f"id >= {low} AND id < {high}")

    def compact(self) -> None:
        library.dataset(self._path("main")).optimize.compact_files()

    def make_small(self) -> None:
        """The first commit makes it."""

    def commit_small(self, rows: pa.Table) -> None:
        library.write_dataset(rows, self._path("small"), mode="append")

    def plan_small(self, part: int | None = None) -> int:
        return len(library.dataset(self._path("small")).get_fragments())

    def scan_small(self, part: int | None = None) -> pa.Table:
        return library.dataset(self._path("small")).to_table(filter=f"part = {part}")

    def scan_small_at(self, commit: int) -> pa.Table:
        return library.dataset(self._path("small"), version=commit).to_table()

    def tag_small(self, name: str) -> None:
        dataset = library.dataset(self._path("small"))
        dataset.tags.create(name, dataset.version)

    def snapshots_small(self) -> int:
        return len(library.dataset(self._path("small")).versions())

    def files_small(self) -> int:
        return sum(len(fragment.data_files()) for fragment in library.dataset(self._path("small")).get_fragments())

    def make_appended(self) -> None:
        """The first commit makes it."""

    def append(self, rows: pa.Table) -> None:
        library.write_dataset(rows, self._path("appended"), mode="append")

    def scan_appended(self, part: int | None = None) -> pa.Table:
        return library.dataset(self._path("appended")).to_table(filter=None if part is None else f"part = {part}")


side = Lance
