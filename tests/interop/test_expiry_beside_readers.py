"""Java and pypaimon read every snapshot that is listed, before each step of an expiry and after it."""

import datetime as dt
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from storage import Catalog, Table
from storage.directory_lock import Witness
from storage.file_io import FileIO
from tests import scale
from tests.interop.java_paimon import since_1_3
from tests.interop.second_reader import SecondReader, read_alike

NAME = "shop.orders"
SCHEMA = pa.schema([("id", pa.int64()), ("item", pa.string())])
# Each how many steps it is looked.
STRIDE = scale.amount(6, 1, full=1)
OPTIONS = [
    {"bucket": "2"},
    {"bucket": "1", "changelog-producer": "input"},
    {"bucket": "1", "num-sorted-run.compaction-trigger": "2", "manifest.merge-min-count": "2"},
]


class WatchedFileIO(FileIO):
    """Calls `look` before each change of a file."""

    def __init__(self, look: Callable[[], None]) -> None:
        super().__init__("file://")
        self._look = look

    def write_bytes(self, path: str, data: bytes) -> None:
        self._look()
        super().write_bytes(path, data)

    def create_exclusively(self, path: str, data: bytes, *, of: Witness | None = None) -> bool:
        self._look()
        return super().create_exclusively(path, data, of=of)

    def overwrite(self, path: str, data: bytes, *, of: Witness | None = None) -> None:
        self._look()
        super().overwrite(path, data, of=of)

    def raise_number(self, path: str, number: int, *, of: Witness | None = None) -> int:
        self._look()
        return super().raise_number(path, number, of=of)

    def delete(self, path: str) -> None:
        self._look()
        super().delete(path)

    def delete_if(self, path: str, expected: bytes) -> bool:
        self._look()
        return super().delete_if(path, expected)

    def delete_empty_directory(self, path: str) -> bool:
        self._look()
        return super().delete_empty_directory(path)

    def delete_quietly(self, paths: list[str]) -> None:
        for path in paths:
            self._look()
            super().delete_quietly([path])


def made_table(directory: Path, options: dict[str, str]) -> Table:
    """A table with upserts, deletes, an overwrite, compactions, tags and a branch."""
    table = Catalog(str(directory)).create_table(NAME, SCHEMA, primary_key=["id"], options=options)
    for number in range(4):
        table.write(pa.table({"id": [number, number + 1], "item": [f"round {number}"] * 2}))
    table.tags.create("early", snapshot_id=2)
    table.branches.create("aside", tag="early")
    table.on_branch("aside").write(pa.table({"id": [50], "item": ["aside"]}))
    table.delete("id = 2")
    table.overwrite(pa.table({"id": [7, 8], "item": ["new"] * 2}))
    table.compact()
    table.write(pa.table({"id": [9], "item": ["last"]}))
    return table


@since_1_3
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_every_listed_snapshot_is_read_alike_beside_an_expiry(
    tmp_path: Path, options: dict[str, str], second_readers: list[SecondReader]
) -> None:
    if not second_readers:
        pytest.skip("neither Java Paimon nor pypaimon is installed")
    table = made_table(tmp_path, options)
    warehouse = str(tmp_path)
    held: dict[int, pa.Table] = {version: table.to_arrow(version=version) for version in table.store.snapshots.ids()}
    tagged, aside = table.to_arrow(version="early"), table.on_branch("aside").to_arrow()
    steps = 0

    def listed() -> list[int]:
        directory = Path(table.store.paths.root, "snapshot")
        return sorted(int(path.name.rpartition("-")[2]) for path in directory.glob("snapshot-*"))

    def look_at_all() -> None:
        for reader in second_readers:
            read_alike(reader, warehouse, NAME, held[max(held)])
            read_alike(reader, warehouse, NAME, tagged, {"scan.tag-name": "early"})
            read_alike(reader, warehouse, f"{NAME}$branch_aside", aside)
            for snapshot_id in listed():
                read_alike(reader, warehouse, NAME, held[snapshot_id], {"scan.snapshot-id": str(snapshot_id)})

    def look() -> None:
        nonlocal steps
        steps += 1
        if steps % STRIDE == 0:
            look_at_all()

    before = listed()
    assert before == sorted(held)
    assert len(before) > 7
    watched = Catalog(warehouse, file_io=WatchedFileIO(look)).table(NAME)
    watched.expire(retain_last=3)
    assert steps > 20
    assert listed() == before[-3:]
    watched.remove_orphan_files(older_than=dt.timedelta(0), no_writers=True)
    look_at_all()
