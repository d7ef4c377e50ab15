"""What every file system has to do, run on each of them."""

import errno
import fcntl
import os
import pickle
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from storage import AlreadyExists, Catalog, NotFound, StoreUnavailable, lock
from storage.file_io import FileIO


@pytest.fixture(params=["local", "memory", "s3"])
def warehouse(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return {"local": f"{tmp_path}/w", "memory": f"memory://{tmp_path}/w", "s3": "s3://bucket/w"}[request.param]


@pytest.fixture
def options(request: pytest.FixtureRequest, warehouse: str) -> dict[str, Any]:
    """Storage options of the file system."""
    given: dict[str, Any] = request.getfixturevalue("gateway").options() if warehouse.startswith("s3:") else {}
    return given


@pytest.fixture
def root(warehouse: str) -> str:
    return warehouse.removeprefix("memory://").removeprefix("s3://")


@pytest.fixture
def file_io(warehouse: str, options: dict[str, Any]) -> FileIO:
    return FileIO(warehouse, options)


def test_a_written_file_is_read_back(file_io: FileIO, root: str) -> None:
    file_io.write_bytes(f"{root}/a/b", b"content")
    assert file_io.read_bytes(f"{root}/a/b") == b"content"
    assert file_io.exists(f"{root}/a/b")
    file_io.overwrite(f"{root}/a/b", b"other")
    assert file_io.read_text_or_none(f"{root}/a/b") == "other"


def test_a_missing_file_is_said_to_be_missing(file_io: FileIO, root: str) -> None:
    assert file_io.read_text_or_none(f"{root}/no") is None
    assert not file_io.exists(f"{root}/no")
    with pytest.raises(NotFound, match="no"):
        file_io.read_bytes(f"{root}/no")
    file_io.delete_quietly([f"{root}/no"])


def test_listings_hold_names_sizes_and_no_temporary_files(file_io: FileIO, root: str) -> None:
    assert file_io.list_files(f"{root}/d") == []
    file_io.write_bytes(f"{root}/d/one", b"1")
    file_io.create_exclusively(f"{root}/d/two", b"22")
    file_io.write_bytes(f"{root}/d/sub/three", b"")
    assert sorted((file.name, file.size_bytes) for file in file_io.list_files(f"{root}/d")) == [("one", 1), ("two", 2)]
    assert file_io.list_directories(f"{root}/d") == ["sub"]


def test_of_many_creators_exactly_one_wins(file_io: FileIO, root: str) -> None:
    barrier = threading.Barrier(8)
    won = []

    def create(number: int) -> None:
        barrier.wait()
        if file_io.create_exclusively(f"{root}/x/file", str(number).encode()):
            won.append(number)

    threads = [threading.Thread(target=create, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    assert file_io.read_bytes(f"{root}/x/file") == str(won[0]).encode()


def test_a_table_lives_on_it_and_travels(warehouse: str, options: dict[str, Any]) -> None:
    catalog = Catalog(warehouse, storage_options=options)
    schema = pa.schema([("day", pa.string()), ("id", pa.int64()), ("what", pa.string())])
    table = catalog.create_table("a.b", schema, primary_key=["day", "id"], partition_by=["day"], options={"bucket": 2})
    for what in ("first", "second"):
        table.write(pa.table({"day": ["m", "n"] * 5, "id": range(10), "what": [what] * 10}))
    table.overwrite(pa.table({"id": [0], "what": ["only"]}), partition={"day": "m"})
    table.tags.create("t")
    again = Catalog(warehouse, storage_options=options).table("a.b")
    splits = pickle.loads(pickle.dumps(again.scan(version="t", where="day = 'n'").splits))
    assert sum(batch.num_rows for split in splits for batch in split.read()) == 5
    assert again.count() == 6
    assert again.to_arrow(where="day = 'm'").to_pylist() == [{"day": "m", "id": 0, "what": "only"}]
    assert catalog.tables() == ["a.b"]
    catalog.drop_table("a.b")
    assert Catalog(warehouse, storage_options=options).tables() == []


@pytest.mark.parametrize("is_other", [False, True])
def test_a_link_that_a_network_file_system_makes_and_denies_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_other: bool
) -> None:
    link = os.link

    def answered_twice(source: str, target: str) -> None:
        if is_other:
            Path(target).write_bytes(b"same")
        else:
            link(source, target)
        link(source, target)

    monkeypatch.setattr(os, "link", answered_twice)
    assert FileIO("").create_exclusively(str(tmp_path / "file"), b"same") is not is_other
    assert [file.name for file in tmp_path.iterdir()] == ["file"]


def test_a_commit_whose_link_is_made_and_denied_lands_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = Catalog(str(tmp_path / "w")).create_table("a.b", pa.schema([("id", pa.int64())]))
    table.write(pa.table({"id": [1]}))
    link = os.link

    def answered_twice(source: str, target: str) -> None:
        link(source, target)
        if "/snapshot/" in target:
            raise FileExistsError(target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "link", answered_twice)
        snapshot = table.write(pa.table({"id": [2]}))
    assert snapshot is not None
    assert snapshot.id == 2
    assert sorted(table.to_arrow()["id"].to_pylist()) == [1, 2]
    assert table.store.snapshots.ids() == [1, 2]
    assert table.check(deep=True) == []


@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE, errno.EACCES])
def test_what_cannot_be_told_is_not_taken_for_absent(
    tmp_path: Path, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    file_io, path = FileIO("file://"), str(tmp_path / "there")
    Path(path).touch()
    assert file_io.exists(path)
    assert not file_io.exists(f"{path}/below") and not file_io.exists(f"{path}-not")
    real = os.stat

    def failing(given: Any, *more: Any, **named: Any) -> os.stat_result:
        if str(given).startswith(path):
            raise OSError(number, os.strerror(number), str(given))
        return real(given, *more, **named)

    with monkeypatch.context() as patch:
        patch.setattr(os, "stat", failing)
        with pytest.raises(StoreUnavailable, match="Could not look for"):
            file_io.exists(path)
    with pytest.raises(AlreadyExists, match="in the place of the directory"):
        file_io.make_directory(path)


def test_a_lock_is_not_waited_for_for_good(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "_MOST_SECONDS", 0.2)
    file_io = FileIO("file://")
    file_io.write_bytes(f"{tmp_path}/held", b"x")
    stopped = os.open(tmp_path, os.O_RDONLY)
    try:
        fcntl.flock(stopped, fcntl.LOCK_EX)
        with pytest.raises(StoreUnavailable, match="locked by another process"):
            file_io.delete_if(f"{tmp_path}/held", b"x")
    finally:
        os.close(stopped)
    assert file_io.delete_if(f"{tmp_path}/held", b"x")


def test_a_file_whose_temporary_file_was_cleaned_away_is_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = os.link

    def late(source: str, target: str) -> None:
        os.remove(source)
        link(source, target)

    monkeypatch.setattr(os, "link", late)
    with pytest.raises(NotFound, match=r"took so long that .*\.tmp was cleaned away as left over"):
        FileIO("").create_exclusively(str(tmp_path / "file"), b"late")
    assert os.listdir(tmp_path) == []
