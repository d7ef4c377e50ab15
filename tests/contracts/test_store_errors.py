"""What a file system or object store refuses reaches users as one error that says what was tried and what to look at."""

import errno
import os
import pickle
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pytest

from resources import cli
from storage import Catalog, CommitId, FileLock, StorageError, StoreUnavailable, Table
from storage.file_io import FileIO
from storage.store_errors import outcome
from tests.contracts.s3_server import Faults, object_store

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.string())])
ROWS = pa.table({"id": [1], "v": ["x" * 10]})


@contextmanager
def files_of_at_most(size_bytes: int) -> Iterator[None]:
    """Writing more fails, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def refuse(monkeypatch: pytest.MonkeyPatch, call: str, number: int) -> None:
    def refused(*paths: Any, **_: Any) -> None:
        raise OSError(number, os.strerror(number), str(paths[0]), None, str(paths[-1]))

    monkeypatch.setattr(os, call, refused)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Catalog(str(tmp_path / "w")).create_table("a.t", SCHEMA, primary_key=["id"], options={"bucket": 1})


def test_an_error_of_a_store_is_an_os_error_too_and_pickles() -> None:
    error = StoreUnavailable("Could not write /x: No space left on device.")
    error.landed = False
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.landed) == (StoreUnavailable, str(error), False)
    assert isinstance(again, OSError)
    assert isinstance(again, StorageError)


def test_nothing_half_is_left_behind_on_a_full_disk(tmp_path: Path) -> None:
    file_io = FileIO("file://")
    file_io.make_directory(str(tmp_path / "d"))
    with files_of_at_most(100):
        for write in (file_io.create_exclusively, file_io.write_bytes, file_io.overwrite):
            with pytest.raises(StoreUnavailable, match=r"Could not \w+ .*/d/file: File too large"):
                write(f"{tmp_path}/d/file", b"x" * 1000)
    assert list((tmp_path / "d").iterdir()) == []


@pytest.mark.parametrize("most_bytes", [0, 100, 400, 700, 900, 1100, 1500])
def test_a_write_on_a_full_disk_says_that_nothing_was_committed(table: Table, most_bytes: int) -> None:
    with files_of_at_most(most_bytes), pytest.raises(StoreUnavailable, match="Nothing was committed") as raised:
        table.write(ROWS, commit_id=CommitId("job", 1))
    assert raised.value.landed is False
    assert table.store.snapshots.ids() == []
    assert not list(Path(table.store.paths.root).rglob("*.tmp"))
    table.write(ROWS, commit_id=CommitId("job", 1))
    assert table.count() == 1


def test_a_file_system_without_hard_links_says_what_to_do(
    table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse(monkeypatch, "link", errno.EPERM)
    with pytest.raises(StoreUnavailable, match=r"no hard links.*another file system.*SNAPLINE_LOCK_DIRECTORY"):
        table.write(ROWS)
    assert not list(Path(table.store.paths.root).rglob("*.tmp"))
    locked = Catalog(str(tmp_path / "w"), lock=FileLock(str(tmp_path / "locks"))).table("a.t")
    locked.write(ROWS)
    locked.tags.create("kept")
    assert locked.count(version="kept") == 1
    assert not locked.store.file_io.create_exclusively(locked.store.paths.snapshot(1), b"")


def test_a_file_system_for_reading_only_is_named(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse(monkeypatch, "link", errno.EROFS)
    with pytest.raises(StorageError, match="mounted for reading only"):
        table.write(ROWS)


def test_a_name_that_is_too_long_is_said_to_be(table: Table) -> None:
    table.write(ROWS)
    with pytest.raises(StorageError, match=r"(?i)(long|200 fit)"):
        table.tags.create("x" * 300)


def test_the_outcome_is_said_once() -> None:
    with pytest.raises(StoreUnavailable) as raised, outcome("Outer."), outcome("Inner.", landed=False):
        raise OSError(errno.EIO, "Input/output error", "/x")
    assert str(raised.value).endswith("Inner.")
    assert raised.value.landed is False


def test_errors_of_callers_are_not_those_of_a_store() -> None:
    with pytest.raises(ZeroDivisionError), outcome("x"):
        raise ZeroDivisionError


@pytest.fixture
def store() -> Iterator[tuple[dict[str, Any], Faults]]:
    with object_store() as (endpoint, _, faults):
        config = {"retries": {"max_attempts": 1, "mode": "standard"}, "read_timeout": 2, "connect_timeout": 2}
        client = {"endpoint_url": endpoint, "region_name": "us-east-1"}
        yield {"key": "k", "secret": "s", "client_kwargs": client, "config_kwargs": config}, faults
        fsspec.get_filesystem_class("s3").clear_instance_cache()


@pytest.mark.parametrize(
    ("refusal", "advice"),
    [
        ((403, "SignatureDoesNotMatch"), "'key', 'secret'"),
        ((403, "AccessDenied"), "'key', 'secret'"),
        ((404, "NoSuchBucket"), "bucket does not exist"),
        ((400, "AuthorizationHeaderMalformed"), "region_name"),
    ],
)
def test_what_an_object_store_refuses_names_the_setting(
    store: tuple[dict[str, Any], Faults], refusal: tuple[int, str], advice: str
) -> None:
    options, faults = store
    table = Catalog("s3://bucket/w", storage_options=options).create_table("a.t", SCHEMA)
    faults.refusal = refusal
    with pytest.raises(StoreUnavailable, match=advice) as raised:
        Catalog("s3://bucket/w", storage_options=options).tables()
    assert "s3://bucket/w" in str(raised.value)
    with pytest.raises(StoreUnavailable, match=advice) as raised:
        table.write(ROWS)
    assert "Nothing was committed" in str(raised.value)
    faults.refusal = None
    table.write(ROWS)
    assert table.count() == 1


def test_a_store_that_does_not_recover_is_given_up(store: tuple[dict[str, Any], Faults]) -> None:
    """Each time takes as long as the client library waits for an answer."""
    options, faults = store
    file_io = FileIO("s3://bucket", {**options, "config_kwargs": {"retries": {"total_max_attempts": 1}}})
    faults.refusal = (503, "SlowDown")
    for act, most in ((lambda: file_io.read_bytes("bucket/x"), 4), (lambda: file_io.write_bytes("bucket/x", b""), 2)):
        before = faults.requests
        with pytest.raises(StoreUnavailable, match="fewer requests"):
            act()
        assert faults.requests - before <= most


def test_errors_while_a_data_file_is_read_or_written_or_copied_name_it(store: tuple[dict[str, Any], Faults]) -> None:
    options, faults = store
    file_io = FileIO("s3://bucket", options)
    written = file_io.open_output("bucket/d/x")
    written.write(b"x" * 100)
    faults.refusal = (403, "AccessDenied")
    with pytest.raises(StoreUnavailable, match=r"Could not write s3://bucket/d/x: .*'key', 'secret'"):
        written.close()
    faults.refusal = None
    file_io.write_bytes("bucket/d/x", b"x" * 100)
    read = file_io.open_input("bucket/d/x")
    faults.refusal = (403, "AccessDenied")
    with pytest.raises(StoreUnavailable, match=r"Could not read s3://bucket/d/x: .*'key', 'secret'"):
        read.read_at(10, 0)
    with pytest.raises(StoreUnavailable, match=r"Could not copy s3://bucket/d/x: .*'key', 'secret'"):
        file_io.copy_files({"bucket/d/x": "bucket/d/y", "bucket/d/z": "bucket/d/w"})


@pytest.mark.parametrize(
    ("refusal", "advice"),
    [
        ((403, "WhoIsThat"), "'key', 'secret'"),
        ((404, "No access key is known by that name"), "'key', 'secret'"),
        ((401, "Unauthorized"), "'key', 'secret'"),
        ((500, "DiskIsBroken"), "failed within itself"),
        ((429, "TooMany"), "overloaded"),
        ((418, "Teapot"), "Teapot"),
    ],
)
def test_errors_that_only_one_kind_of_store_has_are_told_by_their_status(
    store: tuple[dict[str, Any], Faults], refusal: tuple[int, str], advice: str
) -> None:
    options, faults = store
    faults.refusal = refusal
    with pytest.raises(StoreUnavailable, match=advice) as raised:
        FileIO("s3://bucket", options).read_bytes("bucket/x")
    assert "disk or the network" not in str(raised.value)


def test_a_server_that_is_away_is_said_to_be(store: tuple[dict[str, Any], Faults]) -> None:
    options, _ = store
    away = {**options, "client_kwargs": {**options["client_kwargs"], "endpoint_url": "http://127.0.0.1:9"}}
    with pytest.raises(StoreUnavailable, match="endpoint_url"):
        Catalog("s3://bucket/w", storage_options=away).tables()


def test_the_command_line_answers_by_one_line_and_exit_code_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # A file is where the warehouse's directory should be.
    (tmp_path / "w").write_text("")
    monkeypatch.setenv("SNAPLINE_HOME", str(tmp_path))
    monkeypatch.setenv("SNAPLINE_WAREHOUSE", str(tmp_path / "w"))
    monkeypatch.setattr(sys, "argv", ["snapline", "tables"])
    with pytest.raises(SystemExit) as left:
        cli.main()
    assert left.value.code == 2
    shown = capsys.readouterr().err
    assert shown.startswith(f"Error: Could not read {tmp_path}/w/catalog-options.json: Not a directory.")
    assert shown.count("\n") == 1
