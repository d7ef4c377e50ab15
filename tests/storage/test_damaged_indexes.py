"""Damage of the files beside the rows, hash indexes and file indexes: nobody writes or reads by them, and `check` names them."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from storage import Catalog, CorruptData, Table
from storage.metadata.hash_index import HashFile, read_hashes

SCHEMA = pa.schema([pa.field("p", pa.string(), False), pa.field("k", pa.int64(), False), pa.field("v", pa.int64())])
Damage = Callable[[bytes], bytes]


def rows(value: int) -> pa.Table:
    return pa.table({"p": ["a"] * 8, "k": range(8), "v": [value + offset for offset in range(8)]}, SCHEMA)


@pytest.fixture
def table(catalog: Catalog) -> Table:
    options = {
        "bucket": "-1",
        "dynamic-bucket.target-row-num": "3",
        "file-index.bloom-filter.columns": "v",
        "file-index.bitmap.columns": "k",
        "file-index.in-manifest-threshold": "1 b",
    }
    made = catalog.create_table("a.t", SCHEMA, primary_key=["p", "k"], partition_by=["p"], options=options)
    made.write(rows(0))
    return made


def files(table: Table, pattern: str) -> list[Path]:
    return sorted(Path(table.store.paths.root).rglob(pattern))


DAMAGES: dict[str, Damage] = {
    "a bit": lambda data: bytes([data[0] ^ 1]) + data[1:],
    "zeros": lambda data: bytes(len(data)),
    "garbage": lambda data: bytes(number % 251 for number in range(7, 7 + len(data))),
    "half": lambda data: data[: len(data) // 2],
    "empty": lambda data: b"",
    "longer": lambda data: data + data[:4],
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_nobody_writes_by_a_damaged_hash_index(catalog: Catalog, table: Table, damage: Damage) -> None:
    (path, *_) = files(table, "index-*")
    path.write_bytes(damage(path.read_bytes()))
    again = catalog.table("a.t")
    with pytest.raises(CorruptData, match=path.name):
        again.write(rows(1000))
    assert any(path.name in str(problem) for problem in again.check())
    assert len(again.to_arrow()) == 8
    again.overwrite(rows(1000), partition={"p": "a"})
    again.write(rows(2000))
    again.expire(retain_last=1)
    assert catalog.table("a.t").to_arrow().num_rows == 8 and again.check(deep=True) == []


def test_hash_indexes_that_were_swapped_are_noticed(catalog: Catalog, table: Table) -> None:
    first, second, *_ = (path for path in files(table, "index-*") if path.stat().st_size == 12)
    content, other = first.read_bytes(), second.read_bytes()
    first.write_bytes(other)
    second.write_bytes(content)
    with pytest.raises(CorruptData, match="checksum"):
        catalog.table("a.t").write(rows(1000))


def test_a_hash_that_another_writer_has_twice_is_damage(catalog: Catalog, table: Table) -> None:
    """Names that tell no checksum are those of other writers, who have each hash once."""
    path = Path(table.store.paths.index("index-of-java"))
    path.write_bytes(b"\0\0\0\1" * 2)
    with pytest.raises(CorruptData, match="more than once"):
        read_hashes(table.store, HashFile(path.name, str(path), 2, (b"", 0)))


@pytest.mark.parametrize("damage", [harm for name, harm in DAMAGES.items() if name not in ("longer",)])
def test_check_names_a_damaged_file_index(catalog: Catalog, table: Table, damage: Damage) -> None:
    (path, *_) = files(table, "*.index")
    path.write_bytes(damage(path.read_bytes()))
    lines = [str(problem) for problem in catalog.table("a.t").check(deep=True)]
    assert len(lines) == 1 and path.name in lines[0]


def test_file_indexes_that_are_sound_are_no_damage(table: Table) -> None:
    assert files(table, "*.index") and table.check(deep=True) == []


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_nobody_skips_rows_by_a_damaged_file_index(catalog: Catalog, table: Table, damage: Damage) -> None:
    for path in files(table, "*.index"):
        path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(CorruptData, match=r"\.index is damaged"):
        catalog.table("a.t").to_arrow(where="v = 3")
    assert len(catalog.table("a.t").to_arrow()) == 8


def test_file_indexes_that_were_swapped_are_noticed(catalog: Catalog, table: Table) -> None:
    first, second, *_ = files(table, "*.index")
    content, other = first.read_bytes(), second.read_bytes()
    first.write_bytes(other)
    second.write_bytes(content)
    with pytest.raises(CorruptData, match="checksum"):
        catalog.table("a.t").to_arrow(where="v = 3")
