"""What fails after a commit has landed never looks like a failed commit: it is logged, kept and shown until it succeeds."""

from pathlib import Path

import pyarrow as pa
import pytest

from storage import Catalog, CommitId, FailedWork, FixedClock, Identifier, Snapshot, Table
from tests.crash.failing_files import FailingFileIO

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.string())])


@pytest.fixture
def table(catalog: Catalog) -> Table:
    """Four runs: the next write compacts."""
    options = {"bucket": 1, "num-sorted-run.compaction-trigger": 5}
    made = catalog.create_table("a.t", SCHEMA, primary_key=["id"], options=options)
    for number in range(4):
        write(made, number)
    return made


def write(table: Table, number: int) -> Snapshot | None:
    return table.write(pa.table({"id": [number], "v": ["x"]}))


def lost_file(table: Table) -> Path:
    """A data file of the table that goes; its content comes back by writing it."""
    return sorted(Path(table.store.paths.root).glob("bucket-0/*.parquet"))[0]


def test_a_write_whose_compaction_fails_has_landed(
    table: Table, clock: FixedClock, caplog: pytest.LogCaptureFixture
) -> None:
    path = lost_file(table)
    content = path.read_bytes()
    path.unlink()
    begun = clock.now_ms()
    for number in (4, 5):
        snapshot = write(table, number)
        assert snapshot is not None
        clock.advance_ms(60_000)
    assert "snapshot 5 is committed, but compaction has failed" in caplog.text
    assert "Traceback" not in caplog.text
    (trouble,) = table.troubles()
    assert (trouble.kind, trouble.since_ms, trouble.last_ms) == ("compaction", begun, begun + 60_000)
    assert trouble.snapshot_id == 6
    assert path.name in trouble.error
    path.write_bytes(content)
    (line,) = table.check()
    assert isinstance(line, FailedWork)
    assert "compaction has failed since" in str(line)
    write(table, 6)
    assert table.troubles() == []
    assert table.check() == []
    assert sorted(table.to_arrow()["id"].to_pylist()) == list(range(7))


def test_a_trouble_goes_when_the_work_is_done_by_hand(table: Table) -> None:
    path = lost_file(table)
    content = path.read_bytes()
    path.unlink()
    write(table, 4)
    path.write_bytes(content)
    table.compact()
    assert table.troubles() == []


def test_a_listener_that_fails_is_a_trouble(catalog: Catalog, table: Table) -> None:
    class Deaf:
        hears = False

        def notify_commit_complete(self, identifier: Identifier, snapshot: Snapshot) -> None:
            if not self.hears:
                raise ValueError("the index is away")

        def notify_table_renamed(self, identifier: Identifier, new: Identifier) -> None:
            raise AssertionError

    class Hears(Deaf):
        hears = True
        heard = 0

        def notify_commit_complete(self, identifier: Identifier, snapshot: Snapshot) -> None:
            self.heard += 1

    listener, other = Deaf(), Hears()
    heard = catalog.with_listeners(listener, other).table("a.t")
    assert write(heard, 9) is not None
    # Its commit and its compaction: one that fails does not keep the others from hearing.
    assert other.heard == 2
    (trouble,) = table.troubles()
    assert str(trouble).startswith("telling the listeners has failed since ")
    assert str(trouble).endswith("ValueError: the index is away")
    listener.hears = True
    write(heard, 10)
    assert table.troubles() == []


def test_a_table_whose_listener_fails_is_renamed(catalog: Catalog, table: Table) -> None:
    renamings = []

    class Deaf:
        def notify_commit_complete(self, identifier: Identifier, snapshot: Snapshot) -> None:
            raise ValueError("the index is away")

        def notify_table_renamed(self, identifier: Identifier, new: Identifier) -> None:
            raise ValueError("the index is away")

    class Hears(Deaf):
        def notify_table_renamed(self, identifier: Identifier, new: Identifier) -> None:
            renamings.append((str(identifier), str(new)))

    renamed = catalog.with_listeners(Deaf(), Hears()).rename_table("a.t", "a.u")
    assert renamed.identifier.table == "u"
    assert renamings == [("a.t", "a.u")]
    assert catalog.tables() == ["a.u"]
    (trouble,) = renamed.troubles()
    assert str(trouble).endswith("ValueError: the index is away")


def test_a_trouble_that_cannot_be_kept_is_logged(table: Table, caplog: pytest.LogCaptureFixture) -> None:
    lost_file(table).unlink()
    # A file where the directory should be.
    Path(table.store.paths.trouble_directory).write_text("")
    assert write(table, 4) is not None
    assert "could not be kept" in caplog.text


def test_files_that_expiry_cannot_delete_do_not_undo_it(table: Table) -> None:
    table.compact()
    failing = FailingFileIO()
    table.store.file_io = failing
    counted = Path(table.store.paths.root)

    def refuse(path: str) -> None:
        raise OSError(5, "Input/output error")

    failing.delete = lambda path: refuse(path) if "/bucket-" in path else FailingFileIO.delete(failing, path)  # type: ignore[method-assign]
    removal = table.expire(retain_last=1)
    assert removal.snapshot_ids == (1, 2, 3, 4)
    assert removal.files == ()
    assert [trouble.kind for trouble in table.troubles()] == ["deletion of files that nobody needs"]
    assert len(list(counted.glob("bucket-0/*"))) > 1


def test_a_branch_has_troubles_of_its_own(table: Table) -> None:
    table.branches.create("fix")
    branch = table.on_branch("fix")
    lost_file(table).unlink()
    write(branch, 4)
    assert table.troubles() == []
    assert [trouble.kind for trouble in branch.troubles()] == ["compaction"]
    assert any("$branch_fix" in str(problem) for problem in table.check() if isinstance(problem, FailedWork))
    table.branches.delete("fix")
    assert not Path(branch.store.paths.trouble_directory).exists()


def test_a_commit_id_that_is_repeated_after_its_compaction_failed_lands_once(catalog: Catalog, table: Table) -> None:
    aggregated = catalog.create_table(
        "a.sum",
        SCHEMA.set(1, pa.field("v", pa.int64())),
        primary_key=["id"],
        options={"bucket": 1, "merge-engine": "aggregation", "fields.v.aggregate-function": "sum"},
    )
    for _ in range(4):
        aggregated.write(pa.table({"id": [0], "v": [1]}))
    path = lost_file(aggregated)
    content = path.read_bytes()
    path.unlink()
    for _ in range(2):
        assert aggregated.write(pa.table({"id": [0], "v": [1]}), commit_id=CommitId("job", 1)) is not None
    path.write_bytes(content)
    assert aggregated.to_arrow()["v"].to_pylist() == [5]
