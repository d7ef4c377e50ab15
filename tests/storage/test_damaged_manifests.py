"""Damaged manifests and lists of the newest snapshot, kept changelogs, former names: what stays, and what ends it."""

from pathlib import Path

import pyarrow as pa
import pytest

from storage import Catalog, CorruptData, NotFound, SetOptions, StorageError, Table
from storage.metadata.manifest import forget
from storage.metadata.trouble import EXPIRY

pytestmark = pytest.mark.pypaimon_differs("files are damaged on purpose")

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int64())])
KINDS = ["manifest", "delta list", "base list"]
DAMAGES = ["garbage", "flipped", "gone"]


def rows(number: int) -> pa.Table:
    return pa.table({"k": [number], "v": [number]}, schema=SCHEMA)


@pytest.fixture
def table(catalog: Catalog) -> Table:
    """Six appends."""
    made = catalog.create_table("a.t", SCHEMA, options={"bucket": "-1", "compaction.min.file-num": "50"})
    for number in range(6):
        made.write(rows(number))
    return made


def file_of_newest(table: Table, kind: str) -> Path:
    newest = table.store.snapshots.latest()
    assert newest is not None
    (manifest,) = table.store.manifests.read_list(newest.delta_manifest_list)
    names = {
        "manifest": manifest.name,
        "delta list": newest.delta_manifest_list,
        "base list": newest.base_manifest_list,
    }
    return Path(table.store.paths.manifest(names[kind]))


def damage(path: Path, harm: str) -> None:
    """Also for what this process remembers."""
    if harm == "gone":
        path.unlink()
    elif harm == "garbage":
        path.write_bytes(b"garbage!")
    else:
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
    forget()


def keys(table: Table) -> list[int]:
    return sorted(table.to_arrow()["k"].to_pylist())


@pytest.mark.parametrize("harm", DAMAGES)
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_expires_while_the_newest_cannot_be_read_and_a_rollback_ends_that(
    table: Table, kind: str, harm: str
) -> None:
    damage(file_of_newest(table, kind), harm)
    with pytest.raises((CorruptData, NotFound), match=r"`snapline rollback --version 5`"):
        table.to_arrow()
    with pytest.raises((CorruptData, NotFound), match=r"Snapshot 6 .*Nothing expires.*Roll back to snapshot 5"):
        table.expire(retain_last=1)
    for act in (lambda: table.overwrite(rows(9)), table.truncate, lambda: table.compact(full=True)):
        with pytest.raises((CorruptData, NotFound), match=r"roll ?back"):
            act()
    assert table.store.snapshots.ids() == [1, 2, 3, 4, 5, 6]
    table.rollback_to(5)
    assert keys(table) == [0, 1, 2, 3, 4]
    table.write(rows(7))
    table.expire(retain_last=1)
    assert keys(table) == [0, 1, 2, 3, 4, 7]
    table.compact(full=True)
    assert keys(table) == [0, 1, 2, 3, 4, 7]


@pytest.mark.parametrize("harm", DAMAGES)
def test_commits_on_top_of_what_cannot_be_read_let_nothing_expire(catalog: Catalog, table: Table, harm: str) -> None:
    table.alter(SetOptions({"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "2"}))
    table = catalog.table("a.t")
    damage(file_of_newest(table, "manifest"), harm)
    for number in (7, 8, 9):
        table.write(rows(number))
    with pytest.raises((CorruptData, NotFound), match="Nothing expires"):
        table.expire(retain_last=1)
    assert table.store.snapshots.ids() == list(range(1, 10))
    assert [trouble.kind for trouble in table.store.troubles.all()] == [EXPIRY]
    assert keys(table.at(5)) == [0, 1, 2, 3, 4]
    with pytest.raises(StorageError, match="snapshot 5"):
        table.rollback_to(8)
    table.rollback_to(5)
    assert keys(table) == [0, 1, 2, 3, 4]
    assert table.store.snapshots.ids()[-1] == 10


def test_a_file_of_another_size_is_noticed_beside_what_a_process_remembers(table: Table) -> None:
    path = file_of_newest(table, "manifest")
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(CorruptData, match="Nothing expires"):
        table.expire(retain_last=1)


@pytest.mark.parametrize("harm", ["flipped", "gone"])
def test_a_damaged_data_file_of_the_newest_snapshot_names_the_way_back(table: Table, harm: str) -> None:
    (entry,) = [
        candidate
        for candidate in table.scan().entries
        if candidate.file.name not in {e.file.name for e in table.at(5).scan().entries}
    ]
    (path,) = Path(table.store.paths.root).glob(f"bucket-*/{entry.file.name}")
    damage(path, harm)
    with pytest.raises((CorruptData, NotFound), match=r"`snapline rollback --version 5`") as raised:
        table.to_arrow()
    assert "may have expired" not in str(raised.value)
    table.rollback_to(5)
    assert keys(table) == [0, 1, 2, 3, 4]


def test_the_lost_data_file_of_a_tag_is_told_as_lost(table: Table) -> None:
    old = {entry.file.name for entry in table.at(2).scan().entries}
    table.tags.create("kept", snapshot_id=2)
    table.overwrite(rows(7))
    table.expire(retain_last=1)
    for name in old:
        for path in Path(table.store.paths.root).glob(f"bucket-*/{name}"):
            path.unlink()
    with pytest.raises(NotFound, match=r"It is lost, and needed by tag 'kept': restore it, or read another version"):
        table.at("kept").to_arrow()


def test_a_damaged_kept_changelog_names_what_ends_it_and_that_does(catalog: Catalog) -> None:
    options: dict[str, object] = {
        "bucket": 1,
        "changelog-producer": "input",
        "snapshot.num-retained.max": 20,
        "changelog.num-retained.min": 10,
        "changelog.num-retained.max": 30,
    }
    table = catalog.create_table("a.kept", SCHEMA, primary_key=["k"], options=options)
    for number in range(3):
        table.write(rows(number))
    table.expire(retain_last=1)
    (first, *_) = table.store.changelogs.ids()
    path = Path(table.store.paths.changelog(first))
    damage(path, "garbage")
    table.write(rows(4))
    for act in (lambda: table.expire(retain_last=1), table.remove_orphan_files):
        with pytest.raises(CorruptData, match=f"{path.name}.*delete it by hand"):
            act()
    path.unlink()
    table.expire(retain_last=1)
    table.remove_orphan_files()
    assert keys(table) == [0, 1, 2, 4]


def test_damaged_former_names_name_what_ends_them_and_that_does(catalog: Catalog, table: Table) -> None:
    catalog.rename_table("a.t", "a.u")
    renamed = catalog.rename_table("a.u", "a.t")
    path = Path(renamed.store.paths.root) / "FORMER-NAMES"
    path.write_text("x")
    for act in (lambda: catalog.former_names("a.t"), lambda: catalog.rename_table("a.t", "a.z")):
        with pytest.raises(CorruptData, match=r"FORMER-NAMES.*delete it by hand"):
            act()
    path.unlink()
    assert keys(catalog.rename_table("a.t", "a.z")) == [0, 1, 2, 3, 4, 5]
