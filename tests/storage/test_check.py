"""A table is walked and whatever is broken is reported; a sound table has nothing to report."""

import datetime as dt
import errno
import json
import os
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from storage import Catalog, NotFound, Snapshot, StorageError, Table
from storage.metadata import manifest
from storage.metadata.cleaning import Cleaning
from storage.metadata.snapshot_files import SnapshotFiles

TABLES = Path(__file__).parent.parent / "fixtures" / "paimon" / "tables"


@pytest.fixture
def table(catalog: Catalog) -> Table:
    made = catalog.create_table(
        "a.t",
        pa.schema([("id", pa.int64()), ("v", pa.string())]),
        primary_key=["id"],
        options={"bucket": 1, "changelog-producer": "input", "write-only": True},
    )
    for number in range(3):
        made.write(pa.table({"id": [number, number + 1], "v": ["a", "b"]}))
    made.tags.create("kept", snapshot_id=2)
    made.branches.create("fix", tag="kept")
    made.on_branch("fix").write(pa.table({"id": [9], "v": ["branch"]}))
    made.compact()
    return made


def root(table: Table) -> Path:
    return Path(table.store.paths.root)


def edit(path: Path, **values: object) -> None:
    """Change a document as another writer would: without a checksum."""
    kept = {key: value for key, value in json.loads(path.read_text()).items() if key != "snapline.crc32"}
    path.write_text(json.dumps(kept | values))


def remove(kind: str) -> Callable[[Table], None]:
    def act(table: Table) -> None:
        sorted(root(table).glob(kind))[0].unlink()

    return act


def truncate(kind: str) -> Callable[[Table], None]:
    def act(table: Table) -> None:
        path = sorted(root(table).glob(kind))[0]
        path.write_bytes(path.read_bytes()[:-3])

    return act


def test_a_sound_table_has_nothing_to_report(table: Table) -> None:
    assert table.check() == []
    assert table.check(deep=True) == []


@pytest.mark.parametrize("name", sorted(path.name for path in TABLES.iterdir()))
def test_golden_tables_are_sound(name: str) -> None:
    table = Catalog(str(TABLES / name)).table(f"golden.{name}")
    # pypaimon counts no deletes in its manifests (decision 0004).
    assert [problem for problem in table.check(deep=True) if "deletes" not in problem.what] == []


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (remove("bucket-0/data-*"), "is missing"),
        (remove("bucket-0/changelog-*"), "is missing"),
        (remove("manifest/manifest-list-*"), "manifest-list"),
        (truncate("bucket-0/data-*"), "bytes instead of"),
        (lambda table: (root(table) / "snapshot" / "snapshot-2").unlink(), "a gap between 1 and 3"),
        (lambda table: (root(table) / "snapshot" / "snapshot-2").write_text("{"), "not a readable snapshot"),
        (lambda table: edit(root(table) / "snapshot" / "snapshot-3", totalRecordCount=77), "totalRecordCount is 77"),
        (lambda table: edit(root(table) / "snapshot" / "snapshot-3", timeMillis=5), "it is older"),
        (lambda table: edit(root(table) / "snapshot" / "snapshot-3", id=5), "says it is snapshot 5"),
        (lambda table: edit(root(table) / "tag" / "tag-kept", schemaId=5), "schema-5 is missing"),
    ],
)
def test_what_is_broken_is_reported(table: Table, harm: Callable[[Table], None], message: str) -> None:
    harm(table)
    again = Catalog(str(root(table).parent.parent)).table("a.t")
    problems = [str(problem) for problem in again.check()]
    assert any(message in problem for problem in problems), problems


def test_rows_are_checked_on_demand(table: Table) -> None:
    first, second = sorted(root(table).glob("bucket-0/data-*"), key=lambda path: path.stat().st_size)[:2]
    if first.stat().st_size == second.stat().st_size:
        second.write_bytes(first.read_bytes())
    else:
        first.write_bytes(b"x" * first.stat().st_size)
    assert table.check(deep=True)


@pytest.mark.parametrize("harm", ["cut", "gone"])
def test_a_file_that_is_cut_off_or_gone_is_one_line_that_names_it_once(table: Table, harm: str) -> None:
    reported = 0
    for path in sorted(file for file in root(table).rglob("*") if file.is_file()):
        if harm == "gone" and path == root(table) / "schema" / "schema-0":
            # Without it there is no table.
            continue
        content = path.read_bytes()
        if harm == "cut":
            path.write_bytes(content[: len(content) // 2])
        else:
            path.unlink()
        manifest.forget()
        try:
            lines = [str(problem) for problem in table.check(deep=True) if "gap between" not in str(problem)]
        finally:
            path.write_bytes(content)
        assert len(lines) <= 1, lines
        assert all(line.count(str(path)) <= 1 for line in lines), lines
        reported += len(lines)
    assert reported > 10
    manifest.forget()
    assert table.check(deep=True) == []


def test_who_shares_a_broken_file_stands_in_its_line(table: Table) -> None:
    name = table.scan(version=1).entries[0].file.name
    remove(f"bucket-0/{name}")(table)
    [line] = [str(problem) for problem in table.check() if name in str(problem)]
    assert line.startswith("a.t snapshot 1: file ")
    assert " is missing (the same of a.t snapshot 2, a.t snapshot 3, a.t tag kept, " in line
    assert ", a.t$branch_fix snapshot 2" in line


def test_what_a_dead_writer_left_below_the_history_is_no_gap(orders: Table) -> None:
    for number in range(4):
        orders.write(pa.table({"id": [number], "item": ["x"]}))
    path = root(orders) / "snapshot" / "snapshot-2"
    content = path.read_bytes()
    orders.expire(retain_last=1)
    path.write_bytes(content)
    assert orders.check(deep=True) == []
    orders.remove_orphan_files(older_than=dt.timedelta(0), no_writers=True)
    assert not path.exists()


def test_what_others_do_while_it_runs_is_not_broken(orders: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(4):
        orders.write(pa.table({"id": [number], "item": ["x"]}))
    get, expired = SnapshotFiles.get, []

    def expire_then_get(self: SnapshotFiles, snapshot_id: int) -> Snapshot:
        if not expired:
            expired.append(orders.expire(retain_last=1))
        return get(self, snapshot_id)

    monkeypatch.setattr(SnapshotFiles, "get", expire_then_get)
    assert orders.check(deep=True) == []
    assert expired


@pytest.mark.parametrize("said", ["", "soon", "{}", '{"untilMillis": 1, "newest": {"main": [1]}}'])
def test_a_mark_of_orphan_cleaning_that_makes_no_sense_is_named(orders: Table, said: str) -> None:
    orders.write(pa.table({"id": [1], "item": ["x"]}))
    path = Path(orders.store.cleanings.begin("cleaning-x", Cleaning(1, {})))
    assert orders.check() == []
    path.write_text(said)
    (problem,) = orders.check()
    assert str(path) in str(problem)


def test_a_table_that_has_gone_is_not_called_broken(catalog: Catalog, orders: Table) -> None:
    orders.write(pa.table({"id": [1], "item": ["x"]}))
    catalog.drop_table("shop.orders")
    with pytest.raises(NotFound, match="not the table any more"):
        orders.check()


def test_what_says_how_far_expiry_goes_and_what_became_of_closings_is_looked_at(orders: Table) -> None:
    orders.write(pa.table({"id": [1], "item": ["a"]}))
    expiring, closed = Path(orders.store.paths.expiring), Path(orders.store.paths.branch_directory) / ".closed-x"
    closed.parent.mkdir()
    for expiring_text, closed_text, expected in (
        ("2", "done", []),
        ("x", "opened", ["holds no number"]),
        ("3", "opened", ["consumers are refused"]),
        ("1", "opne", ["neither done nor opened"]),
    ):
        expiring.write_text(expiring_text)
        closed.write_text(closed_text)
        problems = [str(problem) for problem in orders.check()]
        assert len(problems) == len(expected)
        assert all(part in problem for part, problem in zip(expected, problems, strict=True)), problems


def test_hints_beyond_the_newest_snapshot_are_lines(orders: Table) -> None:
    orders.write(pa.table({"id": [1], "item": ["a"]}))
    for hint, number in {"LATEST": 77, "EARLIEST": 55}.items():
        path = Path(orders.store.paths.snapshot_directory.removeprefix("file://")) / hint
        before = path.read_text()
        path.write_text(str(number))
        [line] = orders.check()
        assert f"{hint} is damaged: it says {number}, and the newest snapshot is 1" in str(line)
        path.write_text(before)
    assert orders.check() == []


def test_what_a_full_disk_leaves_of_an_expiry_is_no_damage(orders: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        orders.write(pa.table({"id": [number], "item": ["a"]}))

    def full(*given: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full)
        with pytest.raises((OSError, StorageError)):
            orders.expire(retain_last=1)
    assert Path(orders.store.paths.expiring).read_bytes() == b""
    assert orders.check() == []
    assert orders.expire(retain_last=1).snapshot_ids == (1, 2) and orders.check() == []


@pytest.mark.java_differs("its whole numbers wrap around")
@pytest.mark.pypaimon_differs("it aggregates nothing")
def test_a_sum_that_does_not_fit_its_column_is_a_line_of_a_deep_check(catalog: Catalog) -> None:
    options = {"bucket": 1, "merge-engine": "aggregation", "fields.v.aggregate-function": "sum", "write-only": "true"}
    table = catalog.create_table(
        "d.sums", pa.schema([("id", pa.int32()), ("v", pa.int32())]), primary_key=["id"], options=options
    )
    rows = pa.table({"id": pa.array([1, 2], pa.int32()), "v": pa.array([2**31 - 1, 1], pa.int32())})
    table.write(rows)
    assert table.check(deep=True) == []
    table.write(rows)
    assert table.check() == []
    (broken,) = table.check(deep=True)
    assert "bucket-0 cannot be read: Column 'v' is aggregated by 'sum'" in broken.what
