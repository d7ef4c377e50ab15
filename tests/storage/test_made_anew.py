"""Who sleeps while a table or a branch is deleted and made anew under the same name changes nothing of the new one."""

import errno
import fcntl
import os
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any
from uuid import uuid4

import fsspec
import pyarrow as pa
import pytest

from storage import (
    AddColumn,
    Catalog,
    CommitConflict,
    CommitOutcomeUnknown,
    CorruptData,
    InvalidRequest,
    NotFound,
    StoreUnavailable,
    Table,
)
from storage.directory_lock import Witness
from storage.file_io import FileIO
from storage.lock import FileLock
from storage.write.close import close, decide, open_again

SCHEMA = pa.schema([pa.field("k", pa.int64(), False), pa.field("v", pa.int64())])
CHANGELOG = {"bucket": "1", "changelog-producer": "input", "changelog.num-retained.min": "1"}
_CALLS = (
    "create_exclusively",
    "write_bytes",
    "overwrite",
    "raise_number",
    "replace_if",
    "delete_if",
    "delete",
    "list_files",
    "move_directory_if",
    "move_directory_if_absent",
    "move_directory_unless",
    "delete_directory",
    "delete_empty_directory",
)


class Death(BaseException):
    """The process is no more."""


class Sleeping(FileIO):
    """Before the first call of a name, for a path that holds a text, somebody else acts; then it goes on."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.wakes: tuple[str, str, Callable[[], object]] | None = None
        self.has_slept = False

    def sleep_before(self, call: str, text: str, act: Callable[[], object]) -> None:
        self.wakes, self.has_slept = (call, text, act), False

    def asked(self, call: str, path: str) -> None:
        if self.wakes is not None and self.wakes[0] == call and self.wakes[1] in path:
            act, self.wakes, self.has_slept = self.wakes[2], None, True
            act()


def _asking(name: str) -> Callable[..., Any]:
    call = getattr(FileIO, name)

    def asking(self: Sleeping, path: str, *arguments: Any, **named: Any) -> Any:
        self.asked(name, path)
        return call(self, path, *arguments, **named)

    return asking


for _name in _CALLS:
    setattr(Sleeping, _name, _asking(_name))


def rows(*keys: int) -> pa.Table:
    return pa.table({"k": list(keys), "v": list(keys)}, schema=SCHEMA)


def keys(table: Table) -> list[int]:
    return sorted(table.to_arrow()["k"].to_pylist())


@pytest.fixture(params=["local", "object store"])
def warehouse(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "local":
        return str(tmp_path)
    return f"memory://{uuid4()}"


@pytest.fixture
def store(tmp_path: Path) -> str:
    """The URL of an object store."""
    return f"memory://{uuid4()}"


def opened(warehouse: str) -> tuple[Sleeping, Catalog]:
    file_io = Sleeping(warehouse)
    return file_io, Catalog(warehouse, file_io=file_io)


def made_anew(warehouse: str, **arguments: Any) -> Table:
    catalog = Catalog(warehouse)
    catalog.drop_table("d.t")
    table = catalog.create_table("d.t", SCHEMA, primary_key=["k"], **arguments)
    for number in range(8):
        table.write(rows(100 + number))
    return table


def files(warehouse: str) -> dict[str, bytes]:
    """What the table's metadata holds, but for what nobody else reads."""
    filesystem = fsspec.filesystem("memory" if "://" in warehouse else "file")
    root = warehouse.removeprefix("memory:/")
    paths = filesystem.find(f"{root}/d.db/t")
    return {path: filesystem.cat_file(path) for path in paths if "/manifest/" not in path and "/bucket-" not in path}


def prepared(catalog: Catalog) -> Table:
    table = catalog.create_table(
        "d.t", SCHEMA, primary_key=["k"], options={**CHANGELOG, "changelog.num-retained.max": "4"}
    )
    for number in range(8):
        table.write(rows(number))
    table.expire(retain_last=5)
    table.tags.create("good")
    table.consumers.reset("c", 6)
    table.branches.create("b", snapshot_id=5)
    return table


ACTIONS: dict[str, tuple[str, str, Callable[[Table], object]]] = {
    "commit": ("create_exclusively", "/snapshot/snapshot-", lambda table: table.write(rows(1))),
    "a first manifest": ("write_bytes", "/manifest/", lambda table: table.write(rows(1))),
    "tag": ("replace_if", "/tag/tag-more", lambda table: table.tags.create("more")),
    "replace a tag": (
        "replace_if",
        "/tag/tag-good",
        lambda table: table.tags.create("good", snapshot_id=5, replace=True),
    ),
    "new consumer": ("replace_if", "/consumer/consumer-new", lambda table: table.consumers.reset("new", 8)),
    "reset": ("replace_if", "/consumer/consumer-c", lambda table: table.consumers.reset("c", 8)),
    "expire": ("create_exclusively", "/changelog/changelog-5", lambda table: table.expire(retain_last=1)),
    "mark": ("raise_number", "EXPIRING", lambda table: table.expire(retain_last=1)),
    "delete a changelog": ("delete_if", "/changelog/changelog-", lambda table: table.expire(retain_last=1)),
    "alter": ("create_exclusively", "/schema/schema-1", lambda table: table.alter(AddColumn("x", pa.int64()))),
    "branch": ("move_directory_if_absent", "/branch/", lambda table: table.branches.create("mine")),
    "delete a branch": ("move_directory_if", "/branch/branch-b", lambda table: table.branches.delete("b")),
    "replace main": (
        "create_exclusively",
        "/MAIN-BRANCH",
        lambda table: table.branches.replace_main("b", discard_main=True),
    ),
    "drop": ("move_directory_if", "/d.db/t", lambda table: Catalog.drop_table),
}


@pytest.mark.parametrize("action", [name for name in ACTIONS if name != "drop"])
def test_nothing_is_written_into_a_table_that_was_made_anew(tmp_path: Path, action: str) -> None:
    file_io, catalog = opened(str(tmp_path))
    table = prepared(catalog)
    call, text, act = ACTIONS[action]
    left: dict[str, bytes] = {}

    def make_anew() -> None:
        anew = made_anew(str(tmp_path), options={**CHANGELOG, "changelog.num-retained.max": "100"})
        anew.expire(retain_last=3)
        anew.tags.create("good", snapshot_id=7)
        anew.consumers.reset("c", 7)
        left.update(files(str(tmp_path)))

    file_io.sleep_before(call, text, make_anew)
    with pytest.raises((NotFound, CommitOutcomeUnknown)):
        act(table)
    assert file_io.has_slept
    assert files(str(tmp_path)) == left
    anew = Catalog(str(tmp_path)).table("d.t")
    assert keys(anew) == list(range(100, 108))
    assert anew.check(deep=True) == []


@pytest.mark.parametrize("call", ["write_bytes", "create_exclusively", "raise_number"])
def test_a_table_is_made_where_a_writer_has_slept_or_died(warehouse: str, call: str) -> None:
    text = {"write_bytes": "/manifest/", "create_exclusively": "/snapshot/snapshot-1", "raise_number": "/LATEST"}[call]
    if call == "raise_number" and "://" in warehouse:
        # There the hint is written without a look at what it says.
        call = "overwrite"
    file_io, catalog = opened(warehouse)
    table = catalog.create_table("d.t", SCHEMA)
    file_io.sleep_before(call, text, lambda: Catalog(warehouse).drop_table("d.t"))
    if call == "raise_number":
        # The hint comes last: the rows were there, and went with the table.
        assert table.write(rows(666)) is not None
    else:
        with pytest.raises((NotFound, CommitOutcomeUnknown)):
            table.write(rows(666))
    assert file_io.has_slept

    def die() -> None:
        raise Death

    again = Catalog(warehouse).create_table("d.t", SCHEMA)
    file_io.sleep_before("create_exclusively", "/snapshot/snapshot-1", die)
    with pytest.raises(Death):
        catalog.table("d.t").write(rows(666))
    assert keys(again) == []
    assert again.write(rows(1)) is not None
    assert keys(Catalog(warehouse).table("d.t")) == [1]
    assert again.check(deep=True) == []


def test_what_a_dead_writer_left_is_put_away_before_a_table_is_made(warehouse: str) -> None:
    catalog = Catalog(warehouse)
    table = catalog.create_table("d.t", SCHEMA)
    table.write(rows(666))
    table.tags.create("old")
    left = files(warehouse)
    filesystem = fsspec.filesystem("memory" if "://" in warehouse else "file")
    catalog.drop_table("d.t")
    for path, content in left.items():
        if "/schema/" not in path:
            filesystem.makedirs(path.rpartition("/")[0], exist_ok=True)
            filesystem.pipe_file(path, content)
    assert not catalog.exists("d.t")
    if "://" not in warehouse:
        # Nothing dies there and leaves that: it is a table that has lost its schema.
        with pytest.raises(CorruptData, match="--discard-damaged"):
            catalog.create_table("d.t", SCHEMA)
        catalog.drop_table("d.t", discard_damaged=True)
    anew = catalog.create_table("d.t", pa.schema([("k", pa.int64()), ("name", pa.string())]))
    assert anew.to_arrow().num_rows == 0
    assert anew.tags.list() == []
    snapshot = anew.write(pa.table({"k": [1], "name": ["x"]}))
    assert snapshot is not None
    assert snapshot.id == 1


def test_what_is_left_is_not_put_away_once_somebody_else_has_made_the_table(tmp_path: Path) -> None:
    file_io, catalog = opened(str(tmp_path))
    (tmp_path / "d.db/t/manifest").mkdir(parents=True)
    file_io.sleep_before(
        "move_directory_unless", "/d.db/t", lambda: Catalog(str(tmp_path)).create_table("d.t", SCHEMA).write(rows(1))
    )
    catalog.create_table("d.t", SCHEMA, if_not_exists=True)
    assert file_io.has_slept
    assert keys(catalog.table("d.t")) == [1]


@pytest.mark.parametrize("call", ["delete_directory", "delete_empty_directory", "list_files"])
def test_a_database_is_not_dropped_with_a_table_that_is_created_meanwhile(warehouse: str, call: str) -> None:
    file_io, catalog = opened(warehouse)
    catalog.create_table("d.gone", SCHEMA)
    catalog.drop_table("d.gone")
    file_io.sleep_before(call, "/d.db", lambda: Catalog(warehouse).create_table("d.t", SCHEMA).write(rows(1)))
    if call == "delete_directory":
        # It is not deleted with what is in it.
        catalog.drop_database("d")
        assert not file_io.has_slept
        return
    with pytest.raises(CommitConflict, match=r"d\.t"):
        catalog.drop_database("d")
    assert file_io.has_slept
    assert keys(catalog.table("d.t")) == [1]
    with pytest.raises(InvalidRequest, match="has tables"):
        catalog.drop_database("d")
    catalog.drop_database("d", cascade=True)
    assert catalog.databases() == []


def test_a_drop_that_sleeps_leaves_a_table_that_came_meanwhile(store: str) -> None:
    _, catalog = opened(store)
    prepared(catalog)
    for number in count():
        file_io, catalog = opened(store)
        deleted: list[str] = []

        def come() -> None:
            catalog = Catalog(store)
            catalog.drop_table("d.t", if_exists=True)
            table = catalog.create_table("d.t", SCHEMA)
            for number in range(3):
                table.write(rows(number))
            table.tags.create("good")

        def asked(
            call: str, path: str, sleeps_at: int = number, io: Sleeping = file_io, deleted: list[str] = deleted
        ) -> None:
            # What is compared is deleted in the same step, but for what `docs/protocols.md` names.
            if call == "delete_if" or (call == "delete" and path not in deleted):
                deleted.append(path)
                if len(deleted) == sleeps_at + 1:
                    io.has_slept = True
                    come()

        file_io.asked = asked  # type: ignore[method-assign]
        catalog.drop_table("d.t", if_exists=True)
        if not file_io.has_slept:
            break
        table = Catalog(store).table("d.t")
        assert keys(table) == [0, 1, 2]
        assert table.tags.get("good").snapshot.id == 3
        assert table.check(deep=True) == []
    assert number > 10


def test_a_drop_that_dies_is_finished_by_whoever_comes_next(store: str) -> None:
    def die() -> None:
        raise Death

    for path in ("/schema/", "/snapshot/", "/tag/", "/manifest/"):
        file_io, catalog = opened(store)
        prepared(catalog)
        file_io.sleep_before("delete" if "manifest" in path else "delete_if", path, die)
        with pytest.raises(Death):
            catalog.drop_table("d.t")
        Catalog(store).drop_table("d.t", if_exists=True)
        assert files(store) == {}
        anew = Catalog(store).create_table("d.t", pa.schema([("k", pa.int64()), ("name", pa.string())]))
        assert anew.to_arrow().num_rows == 0
        catalog.drop_table("d.t")
        catalog.drop_database("d")
        assert catalog.databases() == []


def test_of_two_who_create_a_branch_on_an_object_store_one_does(store: str) -> None:
    file_io, catalog = opened(store)
    table = catalog.create_table("d.t", SCHEMA)
    for number in range(3):
        table.write(rows(number))

    def create() -> None:
        other = Catalog(store).table("d.t")
        other.branches.create("b", snapshot_id=1)
        other.on_branch("b").write(rows(77))

    file_io.sleep_before("replace_if", "/ORIGIN", create)
    with pytest.raises(CommitConflict, match="is being created"):
        table.branches.create("b", snapshot_id=3)
    assert file_io.has_slept
    assert keys(Catalog(store).table("d.t").on_branch("b")) == [0, 77]


@pytest.mark.parametrize("path", ["branch-b/snapshot/", "branch-b/ORIGIN"])
def test_a_deletion_that_sleeps_leaves_a_branch_that_came_meanwhile(store: str, path: str) -> None:
    file_io, catalog = opened(store)
    table = catalog.create_table("d.t", SCHEMA)
    table.write(rows(0))
    table.branches.create("b")

    def come() -> None:
        other = Catalog(store).table("d.t")
        # As the next one does once an hour is over.
        fsspec.filesystem("memory").rm(f"{store.removeprefix('memory:/')}/d.db/t/branch/branch-b", recursive=True)
        other.branches.create("b")
        other.on_branch("b").write(rows(9))

    file_io.sleep_before("delete_if", path, come)
    table.branches.delete("b")
    assert file_io.has_slept
    branch = Catalog(store).table("d.t").on_branch("b")
    assert keys(branch) == [0, 9]
    assert branch.check(deep=True) == []


def test_how_far_expirers_go_is_never_lowered(warehouse: str) -> None:
    file_io, catalog = opened(warehouse)
    table = catalog.create_table("d.t", SCHEMA)
    table.write(rows(1))
    files = table.store.consumers
    others = Catalog(warehouse).table("d.t").store.consumers
    call = "raise_number" if file_io.is_local else "create_exclusively"
    file_io.sleep_before(call, "EXPIRING", lambda: others.announce_expiry(11))
    files.announce_expiry(5)
    assert file_io.has_slept
    assert files.expiring_below() == others.expiring_below() == 11
    others.announce_expiry(12)
    assert files.expiring_below() == 12


def test_of_two_who_drop_a_table_on_an_object_store_one_has_done_it(store: str) -> None:
    file_io, catalog = opened(store)
    prepared(catalog)
    file_io.sleep_before("list_files", "/d.db/t/tag", lambda: Catalog(store).drop_table("d.t"))
    with pytest.raises(NotFound):
        catalog.drop_table("d.t")
    assert file_io.has_slept
    assert files(store) == {}


def test_what_branches_leave_is_cleaned_away_once_it_is_old(tmp_path: Path) -> None:
    def die() -> None:
        raise Death

    file_io, catalog = opened(str(tmp_path))
    table = catalog.create_table("d.t", SCHEMA)
    table.write(rows(0))
    file_io.sleep_before("move_directory_if_absent", "/branch/", die)
    with pytest.raises(Death):
        table.branches.create("b")
    table.branches.create("b")
    table.on_branch("b").write(rows(1))
    file_io.sleep_before("delete_directory", "/branch/", die)
    with pytest.raises(Death):
        table.branches.delete("b")
    table.branches.create("closed")
    closing = close(
        table.on_branch("closed").store, table.on_branch("closed").snapshot(), "the deletion of branch closed"
    )
    assert closing is not None
    assert decide(table.on_branch("closed").store, closing, "done")
    directory = tmp_path / "d.db/t/branch"
    kept = {"branch-closed", f".closed-{closing.identity}"}
    left = {entry.name for entry in directory.iterdir()}
    assert len(left - kept) == 3
    assert table.remove_orphan_files() == []
    for path in directory.rglob("*"):
        os.utime(path, (1, 1))
    foreseen = table.remove_orphan_files(dry_run=True)
    assert {entry.name for entry in directory.iterdir()} == left
    assert {Path(orphan.path).relative_to(directory).parts[0] for orphan in foreseen} == left - kept
    assert table.remove_orphan_files() == foreseen
    # By the last of them whoever deletes the branch again goes on.
    assert {entry.name for entry in directory.iterdir()} == kept
    table.branches.delete("closed")
    assert keys(table) == [0]
    assert table.check(deep=True) == []


def test_a_decision_that_was_cleaned_away_is_not_made_anew(tmp_path: Path) -> None:
    """A branch that was opened again is deleted by nobody who has slept since it was closed."""
    _, catalog = opened(str(tmp_path))
    table = catalog.create_table("d.t", SCHEMA)
    table.write(rows(0))
    table.branches.create("b")
    branch = table.on_branch("b").store
    closing = close(branch, branch.snapshots.latest(), "the deletion of branch b")
    assert closing is not None
    assert decide(branch, closing, "opened")
    open_again(branch, closing)
    (tmp_path / f"d.db/t/branch/.closed-{closing.identity}").unlink()
    assert not decide(branch, closing, "done")


def test_a_file_system_without_locks_is_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_locks(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    catalog = Catalog(str(tmp_path / "w"))
    table = catalog.create_table("d.t", SCHEMA)
    table.write(rows(1))
    catalog.create_table("d.empty", SCHEMA)
    path = str(tmp_path / "w/file")
    catalog._file_io.write_bytes(path, b"one")
    flock = fcntl.flock
    monkeypatch.setattr(fcntl, "flock", no_locks)
    for act in (
        lambda: table.write(rows(2)),
        lambda: table.tags.create("x"),
        lambda: catalog._file_io.delete_if(path, b"one"),
        lambda: catalog.drop_table("d.t"),
    ):
        with pytest.raises(StoreUnavailable, match="no advisory locks"):
            act()
    # Readers need none.
    assert keys(Catalog(str(tmp_path / "w")).table("d.t")) == [1]
    assert keys(Catalog(str(tmp_path / "w")).table("d.empty")) == []
    monkeypatch.setattr(fcntl, "flock", flock)
    assert keys(table) == [1]


def test_the_lock_of_the_catalog_takes_the_place_of_those_of_the_file_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each lock that the file system would give is asked of the catalog, and none of itself while it is held."""
    held: list[str] = []

    class Noting(FileLock):
        def hold(self, path: str) -> Any:
            held.append(path)
            return super().hold(path)

    flock = fcntl.flock

    def only_lock_files(file: Any, kind: int) -> None:
        if isinstance(file, int):
            raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))
        flock(file, kind)

    monkeypatch.setattr(fcntl, "flock", only_lock_files)
    catalog = Catalog(str(tmp_path / "w"), lock=Noting(str(tmp_path / "locks")))
    table = prepared(catalog)
    table.tags.create("good", snapshot_id=5, replace=True)
    table.tags.rename("good", "better")
    table.branches.replace_main("b", discard_main=True)
    catalog.rename_table("d.t", "d.u")
    assert keys(catalog.table("d.u")) == list(range(8))
    catalog.drop_table("d.u")
    catalog.drop_database("d")
    assert held


def test_a_change_is_made_in_the_directory_that_was_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Though another one gets its name once it is locked."""
    file_io = FileIO(str(tmp_path))
    flock = fcntl.flock
    for act, left in (
        (lambda path: file_io.delete_if(path, b"same"), None),
        (lambda path: file_io.replace_if(path, b"same", b"new"), b"new"),
        (lambda path: file_io.rename_if(path, f"{path}-more", b"same"), None),
    ):
        directory, moved = tmp_path / uuid4().hex, tmp_path / uuid4().hex
        file_io.write_bytes(f"{directory}/file", b"same")

        def move(file: int, kind: int, directory: Path = directory, moved: Path = moved) -> None:
            flock(file, kind)
            directory.rename(moved)
            directory.mkdir()
            (directory / "file").write_bytes(b"same")

        with monkeypatch.context() as patch:
            patch.setattr(fcntl, "flock", move)
            assert act(f"{directory}/file")
        assert [(entry.name, entry.read_bytes()) for entry in directory.iterdir()] == [("file", b"same")]
        assert file_io.read_bytes_or_none(f"{moved}/file") == left


def test_what_is_written_of_a_witness_is_written_where_that_was_read(warehouse: str) -> None:
    file_io = FileIO(warehouse)
    root = f"{warehouse.removeprefix('memory:/')}/table"
    file_io.write_bytes(f"{root}/schema", b"one")
    right, wrong = Witness(root, f"{root}/schema", b"one"), Witness(root, f"{root}/schema", b"other")
    acts: list[Callable[[Witness], object]] = [
        lambda of: file_io.create_exclusively(f"{root}/a/created", b"x", of=of),
        lambda of: file_io.overwrite(f"{root}/a/written", b"x", of=of),
        lambda of: file_io.raise_number(f"{root}/a/raised", 7, of=of),
        lambda of: file_io.replace_if(f"{root}/a/replaced", None, b"x", of=of),
        lambda of: file_io.replace_if(f"{root}/a/replaced", b"x", b"y", of=of),
        lambda of: file_io.replace_if(f"{root}/in-it", None, b"x", of=of),
    ]
    for act in acts:
        before = fsspec.filesystem(file_io.protocol).find(root)
        with pytest.raises(NotFound, match="Nothing is done"):
            act(wrong)
        assert fsspec.filesystem(file_io.protocol).find(root) == before
        act(right)
    assert file_io.read_bytes(f"{root}/a/replaced") == b"y"
    with pytest.raises(NotFound):
        file_io.move_directory_if(root, f"{root}-moved", wrong)
    file_io.move_directory_if(root, f"{root}-moved", right)
    assert file_io.read_number(f"{root}-moved/a/raised") == 7
