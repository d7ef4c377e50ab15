"""Changes of rows that meet others: whoever comes second computes its change again, or says that it could not."""

import datetime as dt
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from storage import Basis, Catalog, CommitConflict, FixedClock, NotFound, Table
from storage.engines.duckdb_merge import merge_rows
from storage.engines.merge_clauses import MergeClause
from storage.errors import RowsChanged
from storage.file_io import FileIO
from storage.metadata import manifest
from storage.write.table_write import TableWrite

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.int64()), ("text", pa.string())])
Meanwhile = Callable[..., None]


@pytest.fixture(params=["keyed", "plain"])
def table(request: pytest.FixtureRequest, catalog: Catalog) -> Table:
    keyed = {"primary_key": ["id"], "options": {"bucket": 1}} if request.param == "keyed" else {}
    made = catalog.create_table("a.t", SCHEMA, **keyed)
    made.write(rows((1, 1, "a"), (2, 2, "b"), (3, 3, "c")))
    return made


@pytest.fixture
def keyed(catalog: Catalog) -> Table:
    made = catalog.create_table("a.k", SCHEMA, primary_key=["id"], options={"bucket": 1, "write-only": True})
    made.write(rows((1, 1, "a"), (2, 2, "b"), (3, 3, "c")))
    return made


def rows(*given: tuple[Any, ...]) -> pa.Table:
    return pa.table(dict(zip(SCHEMA.names, map(list, zip(*given, strict=True)), strict=True)), schema=SCHEMA)


def held(table: Table) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in table.to_arrow().to_pylist())


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Meanwhile:
    """Lets others act after the next changes have been computed, and before they are committed."""

    def plan(*acts: Callable[[], object]) -> list[int]:
        left = list(acts)
        computed: list[int] = []
        real = TableWrite.prepare_commit
        nested = [False]

        def prepare(self: TableWrite) -> Any:
            message = real(self)
            if not nested[0]:
                computed.append(1)
                nested[0] = True
                if left:
                    left.pop(0)()
                nested[0] = False
            return message

        monkeypatch.setattr(TableWrite, "prepare_commit", prepare)
        return computed

    return plan  # type: ignore[return-value]


@contextmanager
def expiring(opened: Table | Callable[[], Table], times: int, *, writes: bool = True) -> Iterator[list[int]]:
    """Before a data file is read, so many times, others compact the table and let all but the newest snapshot go."""
    done: list[int] = []
    nested = [False]
    real = FileIO.open_input

    def open_input(self: FileIO, path: str, size_bytes: int | None = None) -> Any:
        if not nested[0] and len(done) < times and "/bucket-" in path:
            done.append(1)
            nested[0] = True
            table = opened if isinstance(opened, Table) else opened()
            if writes:
                table.write(rows((100 + len(done), 0, "new")))
            table.compact()
            table.expire(retain_last=1)
            nested[0] = False
        return real(self, path, size_bytes)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FileIO, "open_input", open_input)
        yield done


CHANGES: dict[str, Callable[[Table], object]] = {
    "update": lambda table: table.update("id = 1", {"v": 5}),
    "delete": lambda table: table.delete("id = 1"),
    "merge": lambda table: merge_rows(
        table, rows((1, 5, "a")), ["id"], [MergeClause("matched", "update", None, {"v": "source.v"})]
    ),
    "row of kind -D": lambda table: table.write(
        rows((1, 1, "a")).append_column("kind", pa.array(["-D"])), row_kind_column="kind"
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_whose_snapshot_expires_is_computed_again(table: Table, change: str) -> None:
    with expiring(table, 2) as done:
        CHANGES[change](table)
    left = [row for row in held(table) if row[0] < 100]
    expected = [(1, 5, "a")] if change in ("update", "merge") else []
    assert left == [*expected, (2, 2, "b"), (3, 3, "c")]
    if table.schema.primary_keys and change == "row of kind -D":
        # It is blind: nothing is read.
        assert not done
    else:
        assert len(done) == 2


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_whose_snapshot_always_expires_is_a_conflict(table: Table, change: str) -> None:
    if table.schema.primary_keys and change == "row of kind -D":
        pytest.skip("it is blind: nothing is read")
    with expiring(table, 100), pytest.raises(CommitConflict, match="expired"):
        CHANGES[change](table)
    assert {(1, 1, "a"), (2, 2, "b"), (3, 3, "c")} <= set(held(table))
    assert table.remove_orphan_files(older_than=dt.timedelta(0), dry_run=True) == []


def test_what_is_not_there_for_good_is_no_reason_to_compute_a_change_again(table: Table) -> None:
    tried: list[Basis] = []

    def change(basis: Basis) -> None:
        tried.append(basis)
        raise NotFound("something else")

    with pytest.raises(NotFound, match="something else"):
        table.repeated(change)
    assert len(tried) == 1


def test_a_rescale_whose_snapshot_expires_goes_on_with_the_next(keyed: Table, catalog: Catalog) -> None:
    with expiring(lambda: catalog.table("a.k"), 1, writes=False):
        assert keyed.rescale(2) is not None
    assert held(catalog.table("a.k")) == [(1, 1, "a"), (2, 2, "b"), (3, 3, "c")]
    assert catalog.table("a.k").rescale(2) is None


def test_partitions_expire_though_snapshots_do_meanwhile(catalog: Catalog, clock: FixedClock) -> None:
    options = {"partition.expiration-time": "7 d", "partition.expiration-strategy": "values-time"}
    days = catalog.create_table("a.days", pa.schema([("day", pa.string())]), partition_by=["day"], options=options)
    days.write(pa.table({"day": ["1990-01-01"]}))
    real = FileIO.read_bytes
    done: list[int] = []

    def read_bytes(self: FileIO, path: str) -> bytes:
        if not done and "/manifest/manifest-" in path:
            done.append(1)
            others = catalog.table("a.days")
            others.overwrite(pa.table({"day": ["1990-01-02"]}), partition=None, dynamic=False)
            others.expire(retain_last=1)
        return real(self, path)

    manifest.forget()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FileIO, "read_bytes", read_bytes)
        assert [str(partition["day"]) for partition in days.expire_partitions()] == ["1990-01-02"]
    assert done
    assert days.count() == 0


def test_two_updates_of_different_columns_of_a_row_both_stand(table: Table, meanwhile: Meanwhile) -> None:
    meanwhile(lambda: table.update("id = 1", {"text": "theirs"}))
    snapshot = table.update("id = 1", {"v": 100})
    assert snapshot is not None
    assert held(table) == [(1, 100, "theirs"), (2, 2, "b"), (3, 3, "c")]


def test_a_row_that_no_longer_matches_is_not_deleted(table: Table, meanwhile: Meanwhile) -> None:
    meanwhile(lambda: table.update("id = 1", {"v": 500}))
    assert table.delete("v = 1") is None
    assert held(table)[0] == (1, 500, "a")


def test_a_row_that_was_deleted_does_not_come_back(table: Table, meanwhile: Meanwhile) -> None:
    meanwhile(lambda: table.delete("id = 1"))
    table.update("v < 3", {"text": "new"})
    assert held(table) == [(2, 2, "new"), (3, 3, "c")]


def test_rows_that_came_meanwhile_are_not_seen(table: Table, meanwhile: Meanwhile) -> None:
    computed = meanwhile(lambda: table.write(rows((9, 1, "late"))))
    table.update("v = 1", {"text": "new"})
    assert held(table)[0] == (1, 1, "new")
    assert held(table)[-1] == (9, 1, "late")
    assert len(computed) == 1


def test_an_upsert_to_a_key_that_is_deleted_is_seen_and_one_to_its_neighbours_is_not(
    keyed: Table, meanwhile: Meanwhile
) -> None:
    computed = meanwhile(lambda: keyed.write(rows((2, 20, "other"))))
    # Files of both hold the range of keys from 1 to 3.
    keyed.delete("id IN (1, 3)")
    assert held(keyed) == [(2, 20, "other")]
    assert len(computed) == 1
    computed = meanwhile(lambda: keyed.write(rows((2, 500, "kept"))))
    assert keyed.delete("v = 20") is None
    assert held(keyed) == [(2, 500, "kept")]


def test_an_overwrite_meanwhile_is_seen(table: Table, meanwhile: Meanwhile) -> None:
    meanwhile(lambda: table.overwrite(rows((1, 7, "new"), (4, 1, "new"))))
    table.update("v = 1", {"text": "updated"})
    assert held(table) == [(1, 7, "new"), (4, 1, "updated")]


def test_a_compaction_meanwhile_does_no_harm(table: Table, meanwhile: Meanwhile) -> None:
    table.write(rows((5, 5, "e")))
    meanwhile(table.compact)
    table.update("id = 5", {"v": 50})
    assert held(table)[-1] == (5, 50, "e")


def test_a_change_that_cannot_be_told_from_those_of_others_is_computed_again(
    keyed: Table, meanwhile: Meanwhile
) -> None:
    def act() -> None:
        for number in range(3):
            keyed.write(rows((10 + number, 1, "x")))
        keyed.expire(retain_last=1)

    computed = meanwhile(act)
    keyed.update("id = 1", {"v": 100})
    assert held(keyed)[0] == (1, 100, "a")
    assert len(computed) == 2


def test_whoever_is_always_overtaken_says_so_and_writes_nothing(table: Table, meanwhile: Meanwhile) -> None:
    numbers = iter(range(100, 200))
    computed = meanwhile(*[lambda: table.update("id = 1", {"text": str(next(numbers))})] * 20)
    with pytest.raises(CommitConflict, match="computed 10 times") as raised:
        table.update("id = 1", {"v": 100})
    assert not isinstance(raised.value, RowsChanged)
    assert len(computed) == 10
    assert held(table)[0] == (1, 1, "109")
    files = {path.name for path in Path(table.store.paths.root).rglob("bucket-*/*")}
    snapshots = list(table.store.snapshots.all())
    assert files == {entry.file.name for snapshot in snapshots for entry in table.store.delta_of(snapshot)}


def test_whoever_gives_a_basis_of_its_own_is_told_at_once(keyed: Table) -> None:
    basis = Basis(keyed.store, keyed.snapshot())
    keyed.write(rows((1, 5, "theirs")))
    change = rows((1, 6, "mine")).append_column("_k", pa.array(["+U"]))
    with pytest.raises(RowsChanged, match=r"Snapshot 2 of a\.k \(WRITE by .*changed rows that this change"):
        keyed.write_changes(change, "_k", "UPDATE", basis=basis)
    assert keyed.write_changes(change, "_k", "UPDATE", basis=Basis(keyed.store, keyed.snapshot())) is not None


def test_keys_of_several_columns_and_partitions_are_told_apart(catalog: Catalog, meanwhile: Meanwhile) -> None:
    schema = pa.schema([("day", pa.string()), ("a", pa.string()), ("b", pa.int64()), ("v", pa.int64())])
    table = catalog.create_table(
        "a.m", schema, primary_key=["day", "a", "b"], partition_by=["day"], options={"bucket": 2, "write-only": True}
    )
    keys = [(day, a, b) for day in "xy" for a in ("p", "q") for b in range(4)]
    table.write(
        pa.table({"day": [k[0] for k in keys], "a": [k[1] for k in keys], "b": [k[2] for k in keys], "v": [0] * 16})
    )
    others = pa.table({"day": ["x", "x", "y"], "a": ["p", "q", "p"], "b": [0, 3, 1], "v": [9, 9, 9]})
    computed = meanwhile(lambda: table.write(others))
    table.update("day = 'x' AND b IN (1, 2)", {"v": 5})
    assert len(computed) == 1
    computed = meanwhile(lambda: table.write(others))
    table.update("v = 9", {"v": 10})
    assert len(computed) == 2
    assert table.count(where="v = 10") == 3
    assert table.count(where="v = 5") == 4


def add_ten(table: Table) -> None:
    def add(basis: Basis) -> object:
        current = basis.scan().to_arrow()
        more = [value + 10 for value in current["v"].to_pylist()]
        changed = current.set_column(1, "v", pa.array(more)).append_column("_k", pa.repeat("+U", current.num_rows))
        return table.write_changes(changed, "_k", "UPDATE", basis=basis)

    while True:
        try:
            table.repeated(add)
            return
        except CommitConflict:
            continue


def test_threads_that_add_to_one_row_lose_nothing(tmp_path: Path) -> None:
    table = Catalog(str(tmp_path)).create_table("a.t", SCHEMA, primary_key=["id"], options={"bucket": 1})
    table.write(rows((1, 0, "")))
    errors: list[BaseException] = []

    def act() -> None:
        try:
            for _ in range(4):
                add_ten(Catalog(str(tmp_path)).table("a.t"))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=act) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert held(table) == [(1, 160, "")]


SCRIPT = """
import sys
import pyarrow as pa
from storage import Catalog, CommitConflict
from storage.engines.duckdb_merge import merge_rows
from storage.engines.merge_clauses import MergeClause
from tests.storage.test_isolation import add_ten
table = Catalog(sys.argv[1]).table("a.t")
for step in range(int(sys.argv[3])):
    if (int(sys.argv[2]) + step) % 2 and table.schema.primary_keys:
        add_ten(table)
        continue
    while True:
        try:
            clause = MergeClause("matched", "update", values={"v": "target.v + source.more"})
            merge_rows(table, pa.table({"id": [1], "more": [10]}), ["id"], [clause])
            break
        except CommitConflict as error:
            print(error)
"""


def test_eight_processes_that_add_to_one_row_lose_nothing(table: Table, tmp_path: Path) -> None:
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", SCRIPT, str(tmp_path / "warehouse"), str(number), "2"],
            cwd=Path(__file__).parent.parent.parent,
            stderr=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for number in range(8)
    ]
    for process in processes:
        _, errors = process.communicate(timeout=300)
        assert process.returncode == 0, errors.decode()[-2000:]
    assert held(table)[0] == (1, 161, "a")
    assert table.check(deep=True) == []
