"""Documents without a checksum, as other writers make them, that make no sense: each is named, by `check` as well."""

import datetime as dt
import json
import struct
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from storage import Catalog, CommitId, CorruptData, Table, Unsupported
from storage.file_io import FileIO
from storage.format.data_file import damage_named
from storage.format.deletion_vector import DeletionVector
from tests.storage.branched_tables import rows


@pytest.fixture
def aside(catalog: Catalog) -> Table:
    table = catalog.create_table("a.aside", rows(1).schema, primary_key=["day", "id"], options={"bucket": 1})
    table.write(rows(1))
    return table


TAG_GARBAGE = [
    ("tagCreateTime", "x"),
    ("tagCreateTime", [2024, 13, 45, 1, 1]),
    ("tagCreateTime", 5),
    ("tagTimeRetained", "PT1H"),
    ("tagTimeRetained", 1e999),
    ("timeMillis", 2**62),
    ("timeMillis", -(2**62)),
]


@pytest.mark.parametrize(("key", "value"), TAG_GARBAGE)
def test_a_tag_of_another_writer_that_makes_no_sense_is_named(
    catalog: Catalog, aside: Table, key: str, value: object
) -> None:
    aside.tags.create("x", time_retained=dt.timedelta(days=1))
    path = Path(catalog.warehouse) / "a.db/aside/tag/tag-x"
    document = json.loads(path.read_text())
    del document["snapline.crc32"]
    path.write_text(json.dumps({**document, key: value}))
    acts: list[Callable[[], Any]] = [aside.tags.list, aside.tags.expire, lambda: aside.system_table("tags")]
    for act in acts:
        with pytest.raises(CorruptData, match=rf"tag-x.*{key}"):
            act()
    assert any("tag-x" in problem.what for problem in aside.check())
    aside.tags.delete("x")
    assert aside.check() == []


PROPERTY_GARBAGE = [
    ("snapline.rolled-back-to", "x"),
    ("snapline.reverted", "x"),
    ("snapline.taken-over", "[[]]"),
    ("snapline.taken-over", '[["a", "b", "c"]]'),
    ("snapline.taken-over", "[" * 5000),
    ("snapline.untracked", "x"),
    ("snapline.untracked", "[" * 5000),
    ("snapline.taken-from", '{"a": [1e999, 1]}'),
]


@pytest.mark.parametrize(("key", "value"), PROPERTY_GARBAGE)
def test_a_property_that_makes_no_sense_is_named(catalog: Catalog, aside: Table, key: str, value: str) -> None:
    aside.branches.create("other")
    aside.write(rows(2))
    path = Path(catalog.warehouse) / "a.db/aside/snapshot/snapshot-2"
    document = json.loads(path.read_text())
    del document["snapline.crc32"]
    path.write_text(json.dumps({**document, "properties": {**document.get("properties", {}), key: value}}))
    table = Catalog(catalog.warehouse).table("a.aside")
    (broken,) = table.check()
    assert key in broken.what and "snapshot 2" in broken.where
    acts: list[Callable[[], Any]] = [
        lambda: table.branches.verdict("other"),
        lambda: table.is_taken_back(1),
        lambda: table.changes(after=1),
        lambda: table.system_table("snapshots"),
        lambda: table.write(rows(4), commit_id=CommitId("j", 1, exact=True)),
        lambda: table.branches.merge("other"),
        lambda: table.expire(retain_last=1),
    ]
    for act in acts:
        with suppress(CorruptData):
            act()


@pytest.mark.parametrize(("key", "value"), [("data-file.external-paths", "file:///elsewhere")])
def test_what_other_writers_alone_can_write_is_refused_before_anything_is_written(
    catalog: Catalog, aside: Table, key: str, value: str
) -> None:
    held = aside.to_arrow().num_rows
    path = Path(catalog.warehouse) / "a.db/aside/schema/schema-0"
    document = json.loads(path.read_text())
    document.pop("snapline.crc32", None)
    document["options"][key] = value
    path.write_text(json.dumps(document))
    table = Catalog(catalog.warehouse).table("a.aside")
    assert table.to_arrow().num_rows == held
    acts: list[Callable[[], Any]] = [
        lambda: table.write(rows(2)),
        lambda: table.overwrite(rows(2)),
        lambda: table.delete("id = 1"),
        lambda: table.compact(full=True),
    ]
    for act in acts:
        with pytest.raises(Unsupported, match=key):
            act()
    newest = table.snapshot()
    assert newest is not None and newest.id == 1


def test_a_deletion_vector_of_64_bits_counts_what_stands_around_it(tmp_path: Path) -> None:
    body = struct.pack("<iQ", 1681511377, 0)
    path = tmp_path / "index-1"
    path.write_bytes(struct.pack(">i", len(body)) + body + struct.pack(">I", zlib.crc32(body)))
    assert DeletionVector(str(path), 0, len(body) + 8).read(FileIO("file://")).tolist() == []
    with pytest.raises(CorruptData, match="is damaged"):
        DeletionVector(str(path), 0, len(body) + 7).read(FileIO("file://"))


def test_a_file_of_maps_of_an_old_version_is_unsupported_and_not_damaged() -> None:
    old = Path(__file__).parent.parent / "fixtures" / "paimon" / "map-of-0.8.2.parquet"
    with pytest.raises(Unsupported, match="MAP column whose keys may be null"), damage_named(str(old)):
        pq.ParquetFile(old).read()
