"""Work that takes long tells who watches how far it has come; who does not watch is told nothing."""

import datetime as dt
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
import pytest

from storage import Catalog, Table, Tell, progress_of_each, progress_text, watched_by


class Watcher:
    """Keeps the last thing told of each work, and whether it was ended."""

    def __init__(self) -> None:
        self.told: dict[tuple[str, str], tuple[int, int | None]] = {}
        self.open: list[str] = []

    @contextmanager
    def watch(self, on: str, counted: str) -> Iterator[Tell]:
        def tell(done: int, total: int | None) -> None:
            assert total is None or done <= total
            self.told[on, counted] = done, total

        self.open.append(counted)
        try:
            yield tell
        finally:
            self.open.remove(counted)


@pytest.fixture
def table(catalog: Catalog) -> Table:
    """Four buckets, and a snapshot for each of six writes."""
    options = {"bucket": 4, "write-only": True}
    made = catalog.create_table("a.t", pa.schema([("id", pa.int64())]), primary_key=["id"], options=options)
    for number in range(6):
        made.write(pa.table({"id": range(number, number + 20)}))
    return made


def test_each_work_tells_how_far_it_has_come(table: Table) -> None:
    watcher = Watcher()
    with watched_by(watcher.watch):
        table.compact()
        assert watcher.told == {("a.t", "buckets compacted"): (4, 4)}
        table.check(deep=True)
        assert watcher.told["a.t", "snapshots checked"] == (7, 7)
        assert watcher.told["a.t", "files checked"] == (4, 4)
        table.expire(retain_last=2)
        assert watcher.told["a.t", "snapshots expired"] == (5, 5)
        done, total = watcher.told["a.t", "files deleted"]
        assert done == total > 0
        table.rescale(2)
        assert watcher.told["a.t", "parts written into other buckets"] == (4, 4)
        path = f"{table.store.paths.root}/bucket-0/data-nobodys.parquet"
        table.store.file_io.write_bytes(path, b"x")
        orphans = table.remove_orphan_files(older_than=dt.timedelta(0), no_writers=True)
        assert [orphan.path for orphan in orphans] == [path]
        assert watcher.told["a.t", "orphan files deleted"] == (1, 1)
        assert watcher.told["a.t", "snapshots asked for their files"][0] > 0
    assert watcher.open == []


def test_work_that_fails_is_over(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(path: str) -> None:
        raise KeyboardInterrupt

    watcher = Watcher()
    monkeypatch.setattr(table.store.snapshots, "delete_if", fails)
    with watched_by(watcher.watch), pytest.raises(KeyboardInterrupt):
        table.expire(retain_last=1)
    assert watcher.told["a.t", "snapshots expired"] == (0, 5)
    assert watcher.open == []


def test_who_watched_before_watches_again(table: Table) -> None:
    first, second = Watcher(), Watcher()
    with watched_by(first.watch):
        with watched_by(second.watch):
            table.compact()
        assert list(progress_of_each(iter("ab"), "x", "letters")) == ["a", "b"]
    assert ("a.t", "buckets compacted") in second.told
    # How many there are is not known before the end.
    assert first.told == {("x", "letters"): (2, None)}
    table.write(pa.table({"id": [1]}))
    table.compact()
    assert list(first.told) == [("x", "letters")]


def test_a_line_says_how_many_of_how_many() -> None:
    assert progress_text("a.t", "files deleted", 1200, 4500) == "a.t: 1,200 of 4,500 files deleted"
    assert progress_text("a.t", "files deleted", 3, None) == "a.t: 3 files deleted"
