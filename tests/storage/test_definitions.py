"""What a table is defined by beside its columns, and changing its number of buckets."""

import datetime as dt
import threading
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from storage import (
    Catalog,
    CommitConflict,
    ComputedColumn,
    CorruptData,
    DropNotNull,
    InvalidRequest,
    NotFound,
    SetNotNull,
    Table,
    Watermark,
)
from storage.altering import alter
from storage.file_io import FileIO
from storage.maintain import rescale
from storage.write import attempt, commit

SCHEMA = pa.schema([("day", pa.string()), ("id", pa.int64()), ("at", pa.timestamp("ms"))])


@pytest.fixture
def table(catalog: Catalog) -> Table:
    return catalog.create_table(
        "a.t",
        SCHEMA,
        primary_key=["day", "id"],
        partition_by=["day"],
        options={"bucket": 2, "write-only": True},
        comment="What happened",
        computed_columns=[ComputedColumn("twice", "id * 2", "BIGINT")],
        watermark=Watermark("at", "at - INTERVAL '5' SECOND"),
    )


def rows(days: str, count: int = 50) -> pa.Table:
    size = len(days) * count
    return pa.table(
        {"day": [day for day in days for _ in range(count)], "id": range(size), "at": [dt.datetime(2024, 5, 1)] * size}
    )


def ids(table: Table) -> list[int]:
    return sorted(table.to_arrow(columns=["id"]).column("id").to_pylist())


def test_computed_columns_and_the_watermark_are_kept(table: Table, catalog: Catalog) -> None:
    facts = catalog.table("a.t").describe()
    assert facts["computed-columns"] == "twice AS id * 2"
    assert facts["watermark-definition"] == "at AS at - INTERVAL '5' SECOND"
    assert catalog.table("a.t").schema.column_names == SCHEMA.names


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"computed_columns": [ComputedColumn("id", "1", "INT")]}, "name of another column"),
        ({"computed_columns": [ComputedColumn("x", " ", "INT")]}, "no expression"),
        ({"watermark": Watermark("when", "x")}, "which is no column"),
    ],
)
def test_definitions_that_cannot_be_are_refused(catalog: Catalog, more: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        catalog.create_table("a.u", SCHEMA, **more)  # type: ignore[arg-type]
    assert not catalog.exists("a.u")


def test_a_table_is_made_like_another(table: Table, catalog: Catalog) -> None:
    table.write(rows("x"))
    made = catalog.create_table_like("b.u", "a.t", options={"bucket": 3})
    assert made.schema.fields == table.schema.fields
    assert (made.schema.primary_keys, made.schema.partition_keys) == (table.schema.primary_keys, ("day",))
    assert made.schema.comment == "What happened"
    assert made.schema.options == {**table.schema.options, "bucket": "3"}
    assert made.snapshot() is None


def test_a_table_is_described(table: Table) -> None:
    table.write(rows("xy"))
    table.tags.create("first")
    facts = table.describe()
    assert facts["name"] == "a.t"
    assert facts["file.path"].endswith("/a.db/t")
    assert facts["last-modified"] == dt.datetime.fromtimestamp(1_700_000_000)
    assert {key: facts[key] for key in ("file.format", "bucket", "change-tracking", "log.system", "num-files")} == {
        "file.format": "parquet",
        "bucket": 2,
        "change-tracking": True,
        "log.system": "none",
        "num-files": 4,
    }
    assert (facts["num-partitions"], facts["compacted"], facts["tags"]) == (2, False, "first")
    table.compact(partition={"day": "x"})
    assert table.describe({"day": "x"})["compacted"] is True
    other = table.describe({"day": "y"})
    assert (other["partition"], other["compacted"], other["num-files"], other["bucket"]) == ("day=y", False, 2, 2)
    assert other["file.path"].endswith("/a.db/t/day=y")
    assert other["record-count-unmerged"] == 50
    with pytest.raises(NotFound, match="Partitions: day=x, day=y"):
        table.describe({"day": "z"})


def test_a_table_gets_another_number_of_buckets(table: Table, catalog: Catalog) -> None:
    table.write(rows("xy"))
    table.write(rows("x"))
    snapshot = table.rescale(5)
    assert snapshot is not None
    assert snapshot.operation == "RESCALE"
    again = catalog.table("a.t")
    assert ids(again) == list(range(100))
    assert {row["bucket"] for row in again.system_table("buckets").to_pylist()} == set(range(5))
    again.write(rows("z"))
    assert again.count() == 150
    assert again.count(where="id = 7 AND day = 'x'") == 1
    # No row changed.
    assert again.changes(after=2, until=3).num_rows == 0
    assert again.rescale(5) is None


def test_partitions_are_rescaled_one_by_one(table: Table, catalog: Catalog) -> None:
    table.write(rows("xy"))
    table.rescale(3, partition={"day": "x"})
    again = catalog.table("a.t")
    assert ids(again) == list(range(100))
    again.write(rows("x"))
    with pytest.raises(CommitConflict, match=r"have 2 buckets, the table has 3.*Rescale it to 3"):
        again.write(rows("y"))
    again.rescale(3)
    catalog.table("a.t").write(rows("y"))


def test_who_opened_a_table_before_it_was_rescaled_is_told_so(table: Table, catalog: Catalog) -> None:
    table.write(rows("x"))
    catalog.table("a.t").rescale(3)
    with pytest.raises(CommitConflict, match=r"has 3 buckets since it was rescaled, and had 2 .* Open it again"):
        table.write(rows("x"))
    catalog.table("a.t").write(rows("x"))


@pytest.mark.parametrize("comes", ["compact", "merge", "rollback"])
def test_a_rescale_goes_on_with_what_others_have_made_meanwhile(
    table: Table, catalog: Catalog, comes: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for day in "xyx":
        table.write(rows(day))
    table.branches.create("b")
    table.on_branch("b").write(rows("z"))
    others: list[Callable[[], object]] = [
        {
            "compact": lambda: catalog.table("a.t").compact(full=True),
            "merge": lambda: catalog.table("a.t").branches.merge("b"),
            "rollback": lambda: catalog.table("a.t").rollback_to(2),
        }[comes]
    ]
    create = FileIO.create_exclusively

    def after_others(self: FileIO, path: str, data: bytes, **arguments: object) -> bool:
        if "/snapshot/" in path and others:
            others.pop()()
        return create(self, path, data, **arguments)  # type: ignore[arg-type]

    before = catalog.table("a.t").count()
    catalog.table("a.t").rescale(5)
    assert catalog.table("a.t").count() == before
    monkeypatch.setattr(FileIO, "create_exclusively", after_others)
    catalog.table("a.t").rescale(3)
    # What the rollback brings back it has hashed anew itself.
    newest = catalog.table("a.t").snapshot()
    assert not others and newest is not None and newest.operation == "RESCALE"
    catalog.table("a.t").write(rows("x"))
    assert [str(problem) for problem in catalog.table("a.t").check(deep=True)] == []


def test_a_writer_that_does_not_know_of_the_new_buckets_is_refused(table: Table, catalog: Catalog) -> None:
    table.write(rows("x"))
    writer = table.new_write()
    writer.write(rows("x"))
    message = writer.prepare_commit()
    catalog.table("a.t").rescale(4)
    with pytest.raises(CommitConflict, match="4 buckets by now where the rows were written for 2"):
        table.commit_messages([message])
    assert ids(catalog.table("a.t")) == list(range(50))


def test_a_rescale_that_meets_a_writer_loses_nothing(
    table: Table, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table.write(rows("x"))
    other = catalog.table("a.t")

    def alter_late(*arguments: Any) -> Any:
        other.write(rows("x", 60))
        return alter(*arguments)

    monkeypatch.setattr("storage.table_maintenance.alter", alter_late)
    table.rescale(4)
    assert ids(catalog.table("a.t")) == list(range(60))


@pytest.mark.parametrize("count", [0, -1])
def test_numbers_of_buckets_that_cannot_be_are_refused(table: Table, count: int) -> None:
    with pytest.raises(InvalidRequest, match="positive"):
        table.rescale(count)


@pytest.mark.parametrize("before", ["rows", "nothing"])
def test_a_write_that_began_before_a_rescale_is_rescaled_or_refused(
    table: Table, catalog: Catalog, monkeypatch: pytest.MonkeyPatch, before: str
) -> None:
    """A writer has asked for the number of buckets and is about to commit a new partition: rescale begins, and looks."""
    if before == "rows":
        table.write(rows("x"))
    landing, looking = commit.create_on_top, rescale.hashed_anew
    outcome: list[object] = []
    reached, rescaled, landed = threading.Event(), threading.Event(), threading.Event()

    def stopped(*arguments: Any) -> Any:
        if threading.current_thread() is writer:
            reached.set()
            assert rescaled.wait(60)
            try:
                return landing(*arguments)
            finally:
                landed.set()
        return landing(*arguments)

    def looked(*arguments: Any) -> Any:
        rehashed = looking(*arguments)
        if not rescaled.is_set():
            # It has read the newest snapshot: now the writer comes first.
            rescaled.set()
            assert landed.wait(60)
        return rehashed

    def write() -> None:
        try:
            outcome.append(table.write(rows("y")))
        except CommitConflict as error:
            outcome.append(error)

    writer = threading.Thread(target=write)
    monkeypatch.setattr(commit, "create_on_top", stopped)
    monkeypatch.setattr(rescale, "hashed_anew", looked)
    writer.start()
    assert reached.wait(60)
    catalog.table("a.t").rescale(3)
    rescaled.set()
    writer.join(60)
    again = catalog.table("a.t")
    assert len(outcome) == 1
    assert again.count() == (50 if before == "rows" else 0) + (0 if isinstance(outcome[0], CommitConflict) else 50)
    assert isinstance(outcome[0], CommitConflict) == (before == "nothing")
    again.write(rows("y"))
    assert again.rescale(3) is None


@pytest.mark.java_differs("nulls are let in on purpose")
@pytest.mark.pypaimon_differs("nulls are let in on purpose")
def test_nulls_that_others_let_in_are_named_by_compaction(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    table = catalog.create_table(
        "d.nulls", pa.schema([("k", pa.int64()), ("v", pa.int64())]), primary_key=["k"], options={"bucket": 1}
    )
    old = catalog.table("d.nulls")
    altered = table.alter(SetNotNull("v"))
    with monkeypatch.context() as patch:
        patch.setattr(attempt, "refuse_nulls", lambda *_: None)
        old.write(pa.table({"k": [1], "v": pa.array([None], pa.int64())}))
    with pytest.raises(CorruptData, match=r"'v' .* is NOT NULL, and holds nulls"):
        altered.compact()
    mended = altered.alter(DropNotNull("v"))
    mended.compact()
    assert mended.to_arrow().num_rows == 1
