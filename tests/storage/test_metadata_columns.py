"""Metadata columns of rows: a dictionary knows which commit wrote each row, whatever has become of the files since."""

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from storage import (
    METADATA_COLUMNS,
    AddColumn,
    Catalog,
    CommitId,
    InvalidRequest,
    RenameColumn,
    Snapshot,
    Table,
    Unsupported,
    parse_type,
)
from storage.format.parquet_file import ParquetReader
from storage.read import scan as scans
from storage.read.metadata_columns import metadata_among

SCHEMA = pa.schema([("k", pa.int64()), ("p", pa.string()), ("v", pa.int64()), ("ts", pa.int64())])
KEYED: dict[str, dict[str, str]] = {
    "deduplicate": {},
    "deduplicate orc": {"file.format": "orc"},
    "deduplicate avro": {"file.format": "avro"},
    "sequence field": {"sequence.field": "ts"},
    "partial-update": {"merge-engine": "partial-update"},
    "aggregation": {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"},
    "aggregation lookup": {
        "merge-engine": "aggregation", "fields.v.aggregate-function": "sum", "changelog-producer": "lookup"
    },
    "first-row": {"merge-engine": "first-row"},
    "deletion vectors": {"deletion-vectors.enabled": "true"},
}  # fmt: skip
PLAIN: dict[str, dict[str, str]] = {
    "append": {},
    "append orc": {"file.format": "orc"},
    "append avro": {"file.format": "avro"},
    "append vectors": {"deletion-vectors.enabled": "true"},
}


def made(tmp_path: Path, options: dict[str, str], *, key: bool, partitioned: bool) -> Table:
    how: dict[str, Any] = {"primary_key": ["k", "p"]} if key else {}
    if partitioned:
        how["partition_by"] = ["p"]
    options = {"bucket": "2" if key else "-1", "num-sorted-run.compaction-trigger": "3"} | options
    return Catalog(str(tmp_path)).create_table("shop.t", SCHEMA, options=options, **how)


class History:
    """A table, and for each of its snapshots which one wrote each row, by `k`."""

    def __init__(self, table: Table, dice: random.Random, *, key: bool) -> None:
        self.table, self.dice, self.has_key = table, dice, key
        self.rows: dict[int, tuple[int, int]] = {}
        self.states: dict[int, dict[int, tuple[int, int]]] = {}
        self.next_key = 0
        self.first_wins = table.schema.options.get("merge-engine") == "first-row"
        self.by_field = "sequence.field" in table.schema.options
        self.retracts = not {"merge-engine", "sequence.field"} & set(table.schema.options)

    def data(self) -> tuple[list[dict[str, Any]], pa.Table]:
        keys = self.dice.sample(range(40), self.dice.randint(1, 12))
        if not self.has_key:
            keys = list(range(self.next_key, self.next_key + len(keys)))
            self.next_key += len(keys)
        rows = [{"k": k, "p": "ab"[k % 2], "v": self.dice.randrange(99), "ts": self.dice.randrange(9)} for k in keys]
        return rows, pa.Table.from_pylist(rows, SCHEMA)

    def put(self, rows: list[dict[str, Any]], snapshot: Snapshot) -> None:
        for row in rows:
            old = self.rows.get(row["k"])
            if old is None or not (self.first_wins or (self.by_field and old[1] > row["ts"])):
                self.rows[row["k"]] = (snapshot.id, row["ts"])

    def step(self) -> None:
        steps = [self.write, self.write, self.write, self.overwrite, self.compact, self.go_back]
        self.dice.choice([*steps, *([self.delete, self.update] if self.retracts else [])])()
        latest = self.table.snapshot()
        if latest is not None:
            self.states[latest.id] = dict(self.rows)

    def write(self) -> None:
        rows, data = self.data()
        snapshot = self.table.write(data, commit_id=CommitId(f"job {self.dice.randrange(10**9)}", 7))
        assert snapshot is not None
        self.put(rows, snapshot)

    def overwrite(self) -> None:
        rows, data = self.data()
        dynamic = bool(self.table.schema.partition_keys)
        snapshot = self.table.overwrite(data, dynamic=dynamic)
        assert snapshot is not None
        gone = {row["k"] % 2 for row in rows} if dynamic else {0, 1}
        self.rows = {k: one for k, one in self.rows.items() if k % 2 not in gone}
        self.put(rows, snapshot)

    def compact(self) -> None:
        self.table.compact(full=self.dice.random() < 0.5)

    def delete(self) -> None:
        above = self.dice.randrange(30 + self.next_key)
        self.table.delete(f"k > {above}")
        self.rows = {k: one for k, one in self.rows.items() if k <= above}

    def update(self) -> None:
        chosen = self.dice.randrange(30 + self.next_key)
        snapshot = self.table.update(f"k = {chosen}", {"v": 100})
        if snapshot is not None and chosen in self.rows:
            self.rows[chosen] = (snapshot.id, 0)

    def go_back(self) -> None:
        if self.states and self.dice.random() < 0.3:
            to = self.dice.choice(list(self.states))
            self.table.rollback_to(to)
            self.rows = dict(self.states[to])


def check(table: Table, expected: dict[int, tuple[int, int]], version: Any = None) -> int:
    """Compare the rows with what is expected, and say of how many the snapshot is not known."""
    found = table.to_arrow(columns=["k", *METADATA_COLUMNS], version=version).to_pylist()
    assert {row["k"] for row in found} == set(expected)
    files = {row["file_path"]: row for row in table.system_table("files").to_pylist()} if version is None else {}
    rows_of: dict[str, list[int]] = {}
    unknown = 0
    for row in found:
        if row["snapshot_id"] is None:
            assert row["job"] is row["barrier"] is row["commit_time"] is None
            unknown += 1
        else:
            assert row["snapshot_id"] == expected[row["k"]][0], row
            snapshot = table.snapshot(row["snapshot_id"])
            assert snapshot is not None
            assert (row["job"], row["barrier"]) == (snapshot.commit_user, snapshot.commit_identifier)
        if files:
            file = files[row["file_path"]]
            assert (row["level"], row["bucket"]) == (file["level"], file["bucket"])
            assert row["schema_id"] == file["schema_id"]
        if row["file_path"].endswith(".parquet"):
            rows_of[row["file_path"]] = (
                rows_of.get(row["file_path"]) or pq.read_table(row["file_path"])["k"].to_pylist()
            )
            assert rows_of[row["file_path"]][row["row_index"]] == row["k"]
        assert row["partition"] == (f"p={'ab'[row['k'] % 2]}" if table.schema.partition_keys else "")
        assert (row["sequence_number"] is not None) == bool(table.schema.primary_keys)
        assert row["row_kind"] in ("+I", "+U")
    return unknown


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
        if key and table.store.options.hides_level_0:
            history.table.compact(full=True)
            latest = table.snapshot()
            if latest is not None:
                history.states[latest.id] = dict(history.rows)
        unknown = check(table, history.rows)
        # Without a key nothing tells rows of several commits in one file apart.
        assert unknown == 0 or not key
    for version in dice.sample(sorted(history.states), 3):
        check(table, history.states[version], version)


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


def sources(table: Table, *names: str, **how: Any) -> list[tuple[Any, ...]]:
    found = table.to_arrow(columns=["k", *names], **how).sort_by("k")
    assert found.column_names == ["k", *names]
    return [tuple(row.values()) for row in found.to_pylist()]


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


def test_metadata_in_conditions_and_changes_is_refused_by_name(orders: Table) -> None:
    with pytest.raises(InvalidRequest, match="'job' is metadata of the rows, and a condition takes the table's own"):
        orders.to_arrow(where="job = 'x'")
    with pytest.raises(InvalidRequest, match="'snapshot_id' is metadata of the rows"):
        orders.delete("snapshot_id = 1")
    with pytest.raises(InvalidRequest, match="'job' is metadata of the rows, and a read of changes"):
        orders.changes(columns=["job"])
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
    found = table.to_arrow(columns=["p", "job", "snapshot_id"]).to_pylist()
    assert {tuple(row.values()) for row in found} == {("a", "job a", 1), ("b", "job b", 2)}


def test_what_expired_snapshots_wrote_is_of_no_known_one(orders: Table) -> None:
    orders.compact(full=True)
    orders.write(rows([4], 3), commit_id=CommitId("job 3"))
    orders.compact(full=True)
    assert [one for _, one in sources(orders, "snapshot_id")] == [1, 2, 2, 4]
    orders.expire(retain_last=2)
    assert [one for _, one in sources(orders, "snapshot_id")] == [None, None, None, 4]
    assert [one for _, one in sources(orders, "job")] == [None, None, None, "job 3"]


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
    assert [one for _, one in sources(orders, "snapshot_id")][2:] == [3, 3]
    branch.write(rows([5], 9), commit_id=CommitId("mender", 2))
    orders.branches.merge("b")
    latest = orders.snapshot()
    assert latest is not None
    assert sources(orders, "snapshot_id", where="k = 5") == [(5, latest.id)]
    orders.rollback_to(2)
    assert sources(orders, "job") == [(1, "job 1"), (2, "job 2"), (3, "job 2")]
