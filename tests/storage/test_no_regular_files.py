"""What lies in the place of a file and is none, and directories that are no tables by their names: named, and in nobody's way."""

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from storage import Catalog, CorruptData, StorageError, Table, Unpublished

SCHEMA = pa.schema([("k", pa.int64())])


@pytest.fixture(autouse=True)
def _hangs_end() -> Iterator[None]:
    """Whoever opens a pipe waits for good."""

    def stop(*_: object) -> None:
        # No handler of errors may have a look at it.
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(100)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def table(catalog: Catalog) -> Iterator[Table]:
    made = catalog.create_table("d.t", SCHEMA, primary_key=["k"], options={"bucket": 1})
    for number in range(3):
        made.write(pa.table({"k": [number]}))
    made.tags.create("kept", snapshot_id=1)
    yield made
    # Other programs, which read what tests leave, would wait.
    shutil.rmtree(catalog.warehouse)
    os.mkdir(catalog.warehouse)


def put(path: Path, kind: str) -> None:
    path.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(path)


PLACES = ["snapshot/snapshot-2", "tag/tag-kept", "schema/schema-1", "data", "manifest"]


@pytest.mark.parametrize("kind", ["pipe", "link"])
@pytest.mark.parametrize("place", PLACES)
def test_what_is_no_regular_file_is_a_damaged_file(catalog: Catalog, table: Table, place: str, kind: str) -> None:
    root = Path(table.store.paths.root)
    location = {"data": "bucket-0/data-*", "manifest": "manifest/manifest-list-*"}
    path = sorted(root.glob(location[place]))[0] if place in location else root / place
    name = path.name
    put(path, kind)
    opened = Catalog(catalog.warehouse)
    in_place = "a pipe, a device or a socket" if kind == "pipe" else "a link in its place that leads to itself"
    if place == "schema/schema-1":
        with pytest.raises(CorruptData, match=in_place):
            opened.table("d.t")
        assert opened.tables() == ["d.t"]
        return
    said = [str(problem) for problem in opened.table("d.t").check(deep=True)]
    assert any(name in line for line in said), said
    if place not in location:
        assert any(in_place in line for line in said), said
    for act in (
        lambda opened_table: opened_table.to_arrow(),
        lambda opened_table: opened_table.expire(retain_last=1),
        lambda opened_table: opened_table.remove_orphan_files(),
    ):
        try:
            act(opened.table("d.t"))
        except StorageError as error:
            # Named, and nothing of it is deleted.
            assert name in str(error) or "damaged" in str(error)
    assert os.path.lexists(path) or place in location


@pytest.mark.parametrize("kind", ["pipe", "link"])
@pytest.mark.parametrize("name", ["LATEST", "EARLIEST"])
def test_a_hint_that_is_no_regular_file_is_not_believed(catalog: Catalog, table: Table, name: str, kind: str) -> None:
    path = Path(table.store.paths.root) / "snapshot" / name
    put(path, kind)
    opened = Catalog(catalog.warehouse).table("d.t")
    assert sorted(opened.to_arrow()["k"].to_pylist()) == [0, 1, 2]
    assert any(name in str(problem) for problem in opened.check())


@pytest.mark.parametrize("name", [b"a$b", b".hidden", b"a.b", b"\xff"])
def test_a_directory_that_is_no_table_by_its_name_hides_no_other(catalog: Catalog, table: Table, name: bytes) -> None:
    for directory in (
        catalog.warehouse.encode() + b"/d.db/" + name,
        catalog.warehouse.encode() + b"/" + name + b".db/t",
    ):
        os.makedirs(directory + b"/schema")
        Path(os.fsdecode(directory + b"/schema/schema-0")).write_text("x")
    opened = Catalog(catalog.warehouse)
    assert opened.tables() == opened.tables("d") == ["d.t"]
    assert opened.databases() == ["d"]
    said = [str(problem) for problem in opened.check()]
    assert len(said) == 2
    assert all("it is left out" in line for line in said)
    "".join(said).encode()


def test_the_check_of_a_catalog_names_open_publications(
    catalog: Catalog, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    table.branches.create("fix")
    table.on_branch("fix").write(pa.table({"k": [9]}))
    with monkeypatch.context() as patched:
        patched.setattr("storage.branch_set.finish", fails)
        with pytest.raises(KeyboardInterrupt):
            catalog.branch_set("fix", ["d.t"]).publish()
    (line,) = Catalog(catalog.warehouse).check()
    assert isinstance(line, Unpublished)
    assert "Publication 1 of branch 'fix' (merges) is open" in str(line)
    catalog.recover()
    assert catalog.check() == []
