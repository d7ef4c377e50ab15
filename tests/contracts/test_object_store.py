"""The store on S3: commits are conditional puts, and land once though the store is unavailable and answers get lost."""

import datetime as dt
import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import fsspec
import pyarrow as pa
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from storage import (
    AlreadyExists,
    Catalog,
    CommitId,
    FileLock,
    NotFound,
    StorageError,
    Table,
    Unsupported,
    View,
    ViewColumn,
)
from storage.file_io import FileIO
from tests.contracts.s3_server import Faults, object_store
from tests.scale import amount

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.string())])


@pytest.fixture
def store() -> Iterator[tuple[dict[str, Any], Faults]]:
    """Storage options of a running object store, and how it fails."""
    with object_store() as (endpoint, _, faults):
        config = {"retries": {"max_attempts": 6, "mode": "standard"}, "read_timeout": 5, "connect_timeout": 5}
        client = {"endpoint_url": endpoint, "region_name": "us-east-1"}
        yield {"key": "k", "secret": "s", "client_kwargs": client, "config_kwargs": config}, faults
        fsspec.get_filesystem_class("s3").clear_instance_cache()


def catalog(options: dict[str, Any]) -> Catalog:
    return Catalog("s3://bucket/warehouse", storage_options=options)


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids), "v": ["x"] * len(ids)})


def make(options: dict[str, Any], **more: Any) -> Table:
    settings = {"bucket": 1, "commit.min-retry-wait": "1 ms", "commit.max-retry-wait": "20 ms", **more}
    return catalog(options).create_table("a.t", SCHEMA, primary_key=["id"], options=settings)


def in_threads(count: int, work: Callable[[int], None]) -> None:
    threads = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=3600)
        assert not thread.is_alive(), "a writer hangs"


def test_tables_live_on_an_object_store(store: tuple[dict[str, Any], Faults]) -> None:
    options, _ = store
    table = make(options)
    for number in range(6):
        table.write(rows(number, number + 1))
    table.tags.create("kept", snapshot_id=2)
    table.branches.create("fix", tag="kept")
    table.on_branch("fix").write(rows(77))
    table.compact()
    assert sorted(table.to_arrow()["id"].to_pylist()) == list(range(7))
    assert sorted(catalog(options).table("a.t$branch_fix").to_arrow()["id"].to_pylist()) == [0, 1, 2, 77]
    assert table.expire(retain_last=1).snapshot_ids
    assert table.check(deep=True) == []
    assert table.location == "s3://bucket/warehouse/a.db/t"


def test_a_database_without_tables_is_there_until_it_is_dropped(store: tuple[dict[str, Any], Faults]) -> None:
    empty_databases_are_there(catalog(store[0]))


def empty_databases_are_there(opened: Catalog) -> None:
    """Created, found, refused a second time, left by its last table, and dropped, as on a local disk."""
    opened.create_database("empty")
    assert opened.databases() == ["empty"]
    assert opened.tables("empty") == []
    assert opened.check() == []
    with pytest.raises(AlreadyExists, match="'empty' exists"):
        opened.create_database("empty", if_not_exists=False)
    opened.create_table("empty.t", SCHEMA).write(rows(1))
    opened.drop_table("empty.t")
    opened.create_table("made.t", SCHEMA)
    opened.drop_table("made.t")
    assert opened.databases() == ["empty", "made"]
    for name in ("empty", "made"):
        opened.drop_database(name)
    assert opened.databases() == []
    with pytest.raises(NotFound, match="'empty' does not exist"):
        opened.drop_database("empty")


def test_a_database_of_nothing_but_a_view_is_left_by_it(store: tuple[dict[str, Any], Faults]) -> None:
    opened = catalog(store[0])
    opened.create_table("a.t", SCHEMA)
    opened.views.create("b.v", View("SELECT 1 AS x", (ViewColumn("x", "INT"),)))
    opened.views.drop("b.v")
    assert opened.databases() == ["a", "b"]


def test_directories_that_other_writers_list_by_empty_objects_are_no_tables_and_no_files(
    store: tuple[dict[str, Any], Faults],
) -> None:
    """Hadoop and Arrow put such an object for each directory that they make."""
    table = make(store[0])
    table.write(rows(1))
    for directory in ("", "schema/", "snapshot/", "manifest/", "bucket-0/", "tag/"):
        table.store.file_io._fs.call_s3("put_object", Bucket="bucket", Key=f"warehouse/a.db/t/{directory}", Body=b"")
    table.store.file_io._fs.call_s3("put_object", Bucket="bucket", Key="warehouse/a.db/lost/", Body=b"")
    again = catalog(store[0]).table("a.t")
    again.write(rows(2))
    again.compact(full=True)
    assert again.count() == 2
    assert again.check(deep=True) == []
    again.expire(retain_last=1)
    again.remove_orphan_files(older_than=dt.timedelta(0), no_writers=True)
    assert again.count() == 2
    catalog(store[0]).drop_database("a", cascade=True)
    assert catalog(store[0]).databases() == []


def test_a_file_that_came_after_its_directory_was_listed_is_there(store: tuple[dict[str, Any], Faults]) -> None:
    options, _ = store
    mine, other = (FileIO("s3://bucket", options | {"skip_instance_cache": True}) for _ in range(2))
    other.write_bytes("bucket/d/first", b"1")
    assert [file.name for file in mine.list_files("bucket/d")] == ["first"]
    other.write_bytes("bucket/d/second", b"2")
    assert mine.read_bytes("bucket/d/second") == b"2"
    assert mine.exists("bucket/d/second")
    with pytest.raises(Unsupported, match="use_listings_cache"):
        FileIO("s3://bucket", options | {"use_listings_cache": True})


def test_a_directory_of_many_pages_is_listed_whole(store: tuple[dict[str, Any], Faults]) -> None:
    options, faults = store
    faults.page_size = 3
    file_io = FileIO("s3://bucket", options)
    files = {f"{number} +&ä%2F.x" for number in range(10)}
    for name in files:
        file_io.write_bytes(f"bucket/d/{name}", b"1")
        file_io.write_bytes(f"bucket/d/below {name}/x", b"1")
    file_io.write_bytes("bucket/d-not/x", b"1")
    assert {file.name for file in file_io.list_files("bucket/d")} == files
    assert set(file_io.list_directories("bucket/d")) == {f"below {name}" for name in files}
    assert file_io.list_files("bucket/d")[0].modified_ms
    assert file_io.list_files("bucket/nothing") == []


def test_an_object_without_content_is_there(store: tuple[dict[str, Any], Faults]) -> None:
    file_io = FileIO("s3://bucket", store[0])
    file_io.write_bytes("bucket/d/empty", b"")
    assert file_io.exists("bucket/d/empty")
    assert file_io.read_bytes("bucket/d/empty") == b""
    assert not file_io.exists("bucket/d")


@pytest.mark.parametrize("key", [["id"], []], ids=["keyed", "without a key"])
def test_a_commit_takes_few_requests_however_long_the_history_is(
    store: tuple[dict[str, Any], Faults], key: list[str]
) -> None:
    options, faults = store
    retained = {"snapshot.num-retained.min": 2, "snapshot.num-retained.max": 500}
    settings = {"bucket": 1 if key else -1, "num-sorted-run.compaction-trigger": 1000, **retained}
    catalog(options).create_table("a.t", SCHEMA, primary_key=key, options=settings)
    counts = []
    for number in range(12):
        before = faults.requests
        catalog(options).table("a.t").write(rows(number), commit_id=CommitId("writer", number))
        counts.append(faults.requests - before)
    # Opened, written, compacted if it had to be, expired if there were anything.
    assert max(counts[3:]) <= 28, counts


def test_requests_of_an_open_table_are_counted(store: tuple[dict[str, Any], Faults]) -> None:
    """A commit of a file, a scan planned, small files read."""
    options, faults = store
    table = make(options, **{"write-only": True})
    table.write(rows(0))

    def requests(act: Callable[[], object]) -> int:
        before = faults.requests
        act()
        return faults.requests - before

    assert [requests(lambda number=number: table.write(rows(number))) for number in (1, 2, 3)] == [15, 15, 15]
    assert requests(lambda: len(table.scan().splits)) <= 5
    # A request for each of the four files.
    assert requests(table.to_arrow) <= 9
    reader = catalog(options).table("a.t")
    assert requests(lambda: reader.to_arrow()) <= 9
    # What another process has committed is looked for once more.
    catalog(options).table("a.t").write(rows(4))
    assert requests(lambda: table.write(rows(5))) <= 18


@pytest.mark.parametrize(("settings", "most"), [({"bucket": 1}, 15), ({}, 17)], ids=["fixed", "dynamic"])
def test_a_writer_that_looks_whether_to_compact_asks_for_no_more(
    store: tuple[dict[str, Any], Faults], settings: dict[str, Any], most: int
) -> None:
    """It knows what it has just written: the snapshot, the manifests, the index of keys."""
    options, faults = store
    table = catalog(options).create_table("a.t", SCHEMA, primary_key=["id"], options=settings)
    counts = []
    for number in range(4):
        before = faults.requests
        table.write(rows(number))
        counts.append(faults.requests - before)
    assert counts[1:] == [most] * 3
    # The fifth run is compacted, with the others.
    table.write(rows(4))
    assert table.snapshots.latest().commit_kind == "COMPACT"


def _others_write(file_io: FileIO, path: str, others: Callable[[], object]) -> None:
    """Let others go between the look at an object and what follows from it."""
    look = file_io._fs.cat_file

    def looked_at(*arguments: Any, **named: Any) -> Any:
        try:
            return look(*arguments, **named)
        finally:
            file_io._fs.cat_file = look
            others()

    file_io._fs.cat_file = looked_at


def changed_between(mine: FileIO, other: FileIO, change: str, others: str) -> None:
    """An object is deleted or replaced by one client while another does something to it."""
    path = "bucket/d/file"
    other.write_bytes(path, b"seen")
    acts: dict[str, Callable[[], object]] = {
        "write": lambda: other.write_bytes(path, b"theirs"),
        "delete": lambda: other.delete(path),
        "write the same": lambda: other.write_bytes(path, b"seen"),
        "nothing": lambda: None,
    }
    _others_write(mine, path, acts[others])
    was_changed = mine.delete_if(path, b"seen") if change == "delete" else mine.replace_if(path, b"seen", b"mine")
    # Of a deletion nobody can say whose it was: its answer may have been lost.
    assert was_changed is (others in ("nothing", "write the same") or (change, others) == ("delete", "delete"))
    expected = {"write": b"theirs", "delete": None}.get(others, None if change == "delete" else b"mine")
    assert other.read_bytes_or_none(path) == expected
    assert not mine.delete_if(path, b"something else")
    assert not mine.replace_if("bucket/d/none", b"seen", b"mine")


@pytest.mark.parametrize("change", ["delete", "replace"])
@pytest.mark.parametrize("others", ["write", "delete", "write the same", "nothing"])
def test_an_object_is_changed_only_if_it_is_still_what_was_seen(
    store: tuple[dict[str, Any], Faults], change: str, others: str
) -> None:
    mine, other = (FileIO("s3://bucket", store[0] | {"skip_instance_cache": True}) for _ in range(2))
    changed_between(mine, other, change, others)


def test_a_change_whose_answer_was_lost_is_made(store: tuple[dict[str, Any], Faults]) -> None:
    options, faults = store
    file_io = FileIO("s3://bucket", options)
    faults.lost_reply = 0.3
    for number in range(20):
        path = f"bucket/d/{number}"
        file_io.write_bytes(path, b"0")
        assert file_io.replace_if(path, b"0", b"1")
        assert file_io.delete_if(path, b"1")
    assert faults.seen["lost"] > 20


@pytest.mark.parametrize("refusal", [(501, "NotImplemented"), (409, "ConditionalRequestConflict")])
def test_a_store_without_these_conditions_and_one_that_is_about_to_change(
    store: tuple[dict[str, Any], Faults], refusal: tuple[int, str]
) -> None:
    options, faults = store
    file_io = FileIO("s3://bucket", options)
    file_io.write_bytes("bucket/d/file", b"0")
    faults.of_conditions, faults.conditions_refused = refusal, 1
    assert file_io.replace_if("bucket/d/file", b"0", b"1")
    faults.conditions_refused = 1
    assert file_io.delete_if("bucket/d/file", b"1")
    assert file_io.read_bytes_or_none("bucket/d/file") is None
    assert faults.conditions_refused == 0


@pytest.mark.parametrize("commit_id", [CommitId("slow", 1), None], ids=["an id", "a batch"])
def test_a_commit_whose_creation_is_asked_for_again_after_it_has_expired_lands_once(
    store: tuple[dict[str, Any], Faults], commit_id: CommitId | None
) -> None:
    options, _ = store
    table = catalog(options).create_table("a.log", SCHEMA)
    table.write(rows(1))

    class AsksAgain(FileIO):
        """The answer is lost, and the client library asks again once others have gone on and the snapshot has expired."""

        def create_exclusively(self, path: str, data: bytes, **arguments: Any) -> bool:
            created = super().create_exclusively(path, data, **arguments)
            if path.endswith("/snapshot-2"):
                for number in range(3, 6):
                    table.write(rows(number))
                table.expire(retain_last=1)
                return super().create_exclusively(path, data)
            return created

    slow = Catalog("s3://bucket/warehouse", storage_options=options, file_io=AsksAgain("s3://bucket", options))
    assert slow.table("a.log").write(rows(2), commit_id=commit_id) is not None
    assert sorted(table.to_arrow()["id"].to_pylist()) == [1, 2, 3, 4, 5]
    assert table.store.snapshots.listed_ids() == [5]
    assert table.check(deep=True) == []


def test_of_many_creators_exactly_one_wins(store: tuple[dict[str, Any], Faults]) -> None:
    file_io = make(store[0]).store.file_io
    won: list[int] = []

    def create(number: int) -> None:
        if file_io.create_exclusively("bucket/file", str(number).encode()):
            won.append(number)

    in_threads(8, create)
    assert [str(winner).encode() for winner in won] == [file_io.read_bytes("bucket/file")]


def test_writers_that_meet_failures_commit_everything_once(store: tuple[dict[str, Any], Faults]) -> None:
    options, faults = store
    writers, commits = amount(4, 16), amount(8, 200)
    make(options, **{"write-only": True})
    faults.unavailable, faults.lost_reply = 0.05, 0.05
    acknowledged: list[int] = []
    given_up: list[str] = []

    def work(number: int) -> None:
        table = catalog(options).table("a.t")
        for commit in range(commits):
            key = number * commits + commit
            for _ in range(20):
                try:
                    table.write(rows(key), commit_id=CommitId(f"writer-{number}", commit + 1))
                    acknowledged.append(key)
                    break
                except (OSError, StorageError) as error:
                    # Whoever is told nothing asks again under the same identifier.
                    given_up.append(str(error))

    in_threads(writers, work)
    faults.unavailable = faults.lost_reply = 0.0
    table = catalog(options).table("a.t")
    assert len(acknowledged) == writers * commits, given_up[-3:]
    assert sorted(table.to_arrow()["id"].to_pylist()) == sorted(acknowledged)
    snapshots = list(table.store.snapshots.all())
    assert [snapshot.id for snapshot in snapshots] == list(range(1, writers * commits + 1))
    assert len({(snapshot.commit_user, snapshot.commit_identifier) for snapshot in snapshots}) == len(snapshots)
    assert table.check(deep=True) == []
    assert faults.seen["unavailable"] > 5
    assert faults.seen["lost"] > 5


class PlainStore(MemoryFileSystem):
    """A store that knows no conditions: a put replaces whatever is there."""

    protocol = "plainstore"
    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **options: Any) -> None:
        assert mode == "overwrite"
        super().pipe_file(path, value, mode=mode, **options)


@pytest.fixture
def plain_store() -> None:
    fsspec.register_implementation("plainstore", PlainStore, clobber=True)
    PlainStore.store.clear()


def test_a_store_without_conditions_needs_a_lock(plain_store: None) -> None:
    with pytest.raises(Unsupported, match="Give the catalog a lock"):
        Catalog("plainstore:///w").create_table("a.t", SCHEMA)


def test_commits_under_a_lock_lose_nothing(plain_store: None, tmp_path: Path) -> None:
    lock = FileLock(str(tmp_path / "locks"))
    Catalog("plainstore:///w", lock=lock).create_table("a.t", SCHEMA)
    commits = 15

    def work(number: int) -> None:
        table = Catalog("plainstore:///w", lock=lock).table("a.t")
        chosen = random.Random(number)
        for commit in range(commits):
            table.write(rows(number * commits + commit, chosen.randrange(10**6)))

    in_threads(6, work)
    table = Catalog("plainstore:///w", lock=lock).table("a.t")
    assert table.store.snapshots.ids() == list(range(1, 6 * commits + 1))
    assert table.count() == 2 * 6 * commits
    assert table.check() == []
