"""Metadata columns of rows: a dictionary knows which commit wrote each row, whatever has become of the files since."""

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from storage import (
    AddColumn,
    Catalog,
    CommitId,
    InvalidRequest,
    RenameColumn,
    Table,
    Unsupported,
    parse_type,
)
from storage.format.parquet_file import ParquetReader
from storage.read import scan as scans
from storage.read.metadata_columns import metadata_among
from tests.storage.row_histories import KEYED, PLAIN, SCHEMA, History, check, made, settle


@pytest.mark.one_in(2)
@pytest.mark.pypaimon_differs("It merges all levels where compactions look up.")
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("kind", [*KEYED, *PLAIN])
def test_a_dictionary_knows_which_commit_wrote_each_row(kind: str, seed: int, tmp_path: Path) -> None:
    key = kind in KEYED
    table = made(tmp_path, (KEYED | PLAIN)[kind], key=key, partitioned=seed % 2 == 1)
    dice = random.Random(f"{kind} {seed}")
    history = History(table, dice, key=key)
    for _ in range(16):
        history.step()
        settle(table)
        latest = table.snapshot()
        if latest is not None:
            history.states[latest.id] = dict(history.rows)
        unknown = check(table, history.rows)
        # Without a key nothing tells rows of several commits in one file apart.
        assert unknown == 0 or not key
    for version in dice.sample(sorted(history.states), 3):
        check(table, history.states[version], version)
    for tag, expected in history.tags.items():
        check(table, expected, tag)
    if history.of_branch:
        check(table.on_branch("b"), history.of_branch)


@pytest.fixture
def orders(tmp_path: Path) -> Table:
    """Two commits of two rows each, by job one and job two; the second replaces a row of the first."""
    table = made(tmp_path, {"bucket": "1"}, key=True, partitioned=False)
    for number, keys in enumerate(([1, 2], [2, 3]), start=1):
        table.write(rows(keys, number), commit_id=CommitId(f"job {number}", number))
    return table


def rows(keys: list[int], value: int, part: str = "a") -> pa.Table:
    columns: list[Any] = [keys, [part] * len(keys), [value] * len(keys), [0] * len(keys)]
    return pa.table(columns, schema=SCHEMA)


def sources(table: Table, *names: str, **arguments: Any) -> list[tuple[Any, ...]]:
    sorted_rows = table.to_arrow(columns=["k", *names], **arguments).sort_by("k")
    assert sorted_rows.column_names == ["k", *names]
    return [tuple(row.values()) for row in sorted_rows.to_pylist()]


def test_the_winning_row_tells_before_and_after_a_compaction(orders: Table) -> None:
    expected = [(1, 1, "job 1", 1), (2, 2, "job 2", 2), (3, 2, "job 2", 2)]
    assert sources(orders, "snapshot_id", "job", "barrier") == expected
    orders.compact(full=True)
    assert sources(orders, "snapshot_id", "job", "barrier") == expected
    assert sources(orders, "__paimon_job", "level", version=2) == [(1, "job 1", 0), (2, "job 2", 0), (3, "job 2", 0)]
    assert {level for _, level in sources(orders, "level")} != {0}
    assert sources(orders, "job", where="k = 2") == [(2, "job 2")]
    assert sources(orders, "job", "row_index", where="k = 2") == [(2, "job 2", 1)]
    assert orders.scan(columns=["job"], limit=1).to_arrow().num_rows == 1
    [batch] = orders.to_batches(columns=["snapshot_id", "k"])
    assert batch.schema.names == ["snapshot_id", "k"]


def test_what_nobody_asks_for_is_not_read(orders: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    orders.compact(full=True)
    read: list[str] = []
    looked: list[str] = []
    read_batches, origins_of = ParquetReader.read_batches, scans.origins_of

    def counted(self: ParquetReader, columns: Any, *others: Any, **named: Any) -> Any:
        read.extend(columns)
        return read_batches(self, columns, *others, **named)

    def looked_up(*given: Any) -> Any:
        looked.append("history")
        return origins_of(*given)

    monkeypatch.setattr(ParquetReader, "read_batches", counted)
    monkeypatch.setattr(scans, "origins_of", looked_up)
    for columns, expected, history in (
        (["v"], ["v"], []),
        (["v", "file_path", "bucket", "level", "partition", "schema_id", "row_index"], ["v"], []),
        (["v", "sequence_number"], ["_SEQUENCE_NUMBER", "v"], []),
        (["v", "row_kind"], ["_VALUE_KIND", "v"], []),
        (["v", "job"], ["_SEQUENCE_NUMBER", "v"], ["history"]),
    ):
        read.clear()
        looked.clear()
        orders.to_arrow(columns=columns)
        assert (sorted(read), looked) == (expected, history)
    assert orders.scan().schema.names == SCHEMA.names


def test_a_column_of_the_table_comes_before_metadata_of_its_name(tmp_path: Path) -> None:
    schema = pa.schema([("k", pa.int64()), ("job", pa.string())])
    table = Catalog(str(tmp_path)).create_table("shop.t", schema)
    table.write(pa.table([[1], ["baker"]], schema=schema), commit_id=CommitId("nightly"))
    assert sources(table, "job", "__paimon_job") == [(1, "baker", "nightly")]
    assert sources(table, "job", where="job = 'baker'") == [(1, "baker")]
    table = table.alter(RenameColumn("job", "trade"), AddColumn("level", parse_type("STRING")))
    assert sources(table, "job", "level", "schema_id") == [(1, "nightly", None, 0)]


def test_metadata_in_conditions_is_refused_by_name(orders: Table) -> None:
    with pytest.raises(InvalidRequest, match="'job' is metadata of the rows, and a condition takes the table's own"):
        orders.to_arrow(where="job = 'x'")
    with pytest.raises(InvalidRequest, match="'snapshot_id' is metadata of the rows"):
        orders.delete("snapshot_id = 1")
    with pytest.raises(InvalidRequest, match="asked for twice"):
        orders.to_arrow(columns=["job", "job"])
    with pytest.raises(InvalidRequest, match="There is no column 'jobs'"):
        orders.to_arrow(columns=["jobs"])


def test_columns_of_rows_that_lie_in_several_files_have_no_metadata(orders: Table) -> None:
    schema = replace(orders.schema, options={"data-evolution.enabled": "true"})
    with pytest.raises(Unsupported, match="data-evolution"):
        metadata_among(schema, ["job"])


def test_no_answer_is_given_where_none_can_be_true(tmp_path: Path) -> None:
    table = made(tmp_path, {}, key=False, partitioned=False)
    table.write(rows([1, 2], 1), commit_id=CommitId("job 1"))
    table.write(rows([3], 2), commit_id=CommitId("job 2"))
    # The file of one commit stays as it is; a row that was copied beside one that was written is of no known commit.
    table.update("k = 1", {"v": 5})
    assert sources(table, "snapshot_id") == [(1, None), (2, None), (3, 2)]
    table.compact(full=True)
    assert sources(table, "snapshot_id", "job") == [(1, None, None), (2, None, None), (3, None, None)]


def test_a_rescale_keeps_what_is_known(tmp_path: Path) -> None:
    table = made(tmp_path, {"bucket": "1"}, key=True, partitioned=True)
    for part in "ab":
        table.write(rows([0, 1, 2, 3], 1, part), commit_id=CommitId(f"job {part}"))
    table.rescale(2)
    origins = table.to_arrow(columns=["p", "job", "snapshot_id"]).to_pylist()
    assert {tuple(row.values()) for row in origins} == {("a", "job a", 1), ("b", "job b", 2)}


def test_what_expired_snapshots_wrote_is_of_no_known_one(orders: Table) -> None:
    orders.compact(full=True)
    orders.write(rows([4], 3), commit_id=CommitId("job 3"))
    orders.compact(full=True)
    assert [snapshot_id for _, snapshot_id in sources(orders, "snapshot_id")] == [1, 2, 2, 4]
    orders.expire(retain_last=2)
    assert [snapshot_id for _, snapshot_id in sources(orders, "snapshot_id")] == [None, None, None, 4]
    assert [job for _, job in sources(orders, "job")] == [None, None, None, "job 3"]


def test_a_branch_knows_what_main_wrote_before_it_and_main_what_it_takes_over(orders: Table) -> None:
    orders.branches.create("b")
    branch = orders.on_branch("b")
    branch.write(rows([3, 4], 9), commit_id=CommitId("mender"))
    expected = [(1, "job 1"), (2, "job 2"), (3, "mender"), (4, "mender")]
    assert sources(branch, "job") == expected
    branch.compact(full=True)
    assert sources(branch, "job") == expected
    orders.branches.merge("b")
    merged = orders.snapshot()
    assert merged is not None
    assert merged.id == 3
    assert sources(orders, "job", "snapshot_id")[:2] == [(1, "job 1", 1), (2, "job 2", 2)]
    assert [snapshot_id for _, snapshot_id in sources(orders, "snapshot_id")][2:] == [3, 3]
    branch.write(rows([5], 9), commit_id=CommitId("mender", 2))
    orders.branches.merge("b")
    latest = orders.snapshot()
    assert latest is not None
    assert sources(orders, "snapshot_id", where="k = 5") == [(5, latest.id)]
    orders.rollback_to(2)
    assert sources(orders, "job") == [(1, "job 1"), (2, "job 2"), (3, "job 2")]
