"""Random histories of a table, and a dictionary of which commit wrote each row: with it metadata of rows are compared."""

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from storage import METADATA_COLUMNS, Catalog, CommitId, Snapshot, Table

SCHEMA = pa.schema([("k", pa.int64()), ("p", pa.string()), ("v", pa.int64()), ("ts", pa.int64())])
KEYED: dict[str, dict[str, str]] = {
    "deduplicate": {},
    "deduplicate orc": {"file.format": "orc"},
    "deduplicate avro": {"file.format": "avro"},
    "sequence field": {"sequence.field": "ts"},
    "partial-update": {"merge-engine": "partial-update"},
    "aggregation": {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"},
    "aggregation lookup": {
        "merge-engine": "aggregation",
        "fields.v.aggregate-function": "sum",
        "changelog-producer": "lookup",
    },
    "first-row": {"merge-engine": "first-row"},
    "deletion vectors": {"deletion-vectors.enabled": "true"},
}
PLAIN: dict[str, dict[str, str]] = {
    "append": {},
    "append orc": {"file.format": "orc"},
    "append avro": {"file.format": "avro"},
    "append vectors": {"deletion-vectors.enabled": "true"},
}


def made(tmp_path: Path, options: dict[str, str], *, key: bool, partitioned: bool) -> Table:
    keys: dict[str, Any] = {"primary_key": ["k", "p"]} if key else {}
    if partitioned:
        keys["partition_by"] = ["p"]
    options = {"bucket": "2" if key else "-1", "num-sorted-run.compaction-trigger": "3"} | options
    return Catalog(str(tmp_path)).create_table("shop.t", SCHEMA, options=options, **keys)


class History:
    """A table, and for each of its snapshots which one wrote each row, by `k`."""

    def __init__(self, table: Table, dice: random.Random, *, key: bool) -> None:
        self.table, self.dice, self.has_key = table, dice, key
        self.rows: dict[int, tuple[int, int]] = {}
        self.states: dict[int, dict[int, tuple[int, int]]] = {}
        self.tags: dict[str, dict[int, tuple[int, int]]] = {}
        # Of the branch that there may be, and its own commits.
        self.of_branch: dict[int, tuple[int, int]] = {}
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
        steps = [self.write, self.write, self.write, self.overwrite, self.compact, self.go_back, self.branch]
        self.dice.choice([*steps, *([self.delete, self.update] if self.retracts else [])])()
        latest = self.table.snapshot()
        if latest is not None:
            self.states[latest.id] = dict(self.rows)
            if self.dice.random() < 0.2 and f"tag {latest.id}" not in self.tags:
                self.table.tags.create(f"tag {latest.id}")
                self.tags[f"tag {latest.id}"] = dict(self.rows)

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
        self.rows = {k: version for k, version in self.rows.items() if k % 2 not in gone}
        self.put(rows, snapshot)

    def compact(self) -> None:
        self.table.compact(full=self.dice.random() < 0.5)

    def delete(self) -> None:
        above = self.dice.randrange(30 + self.next_key)
        self.table.delete(f"k > {above}")
        self.rows = {k: version for k, version in self.rows.items() if k <= above}

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

    def branch(self) -> None:
        """Begin a branch anew, write to it, and merge its files or leave them."""
        if self.table.snapshot() is None:
            return
        main, rows = self.table, dict(self.rows)
        if self.of_branch:
            main.branches.delete("b")
        main.branches.create("b")
        self.table = main.on_branch("b")
        for _ in range(self.dice.randint(1, 2)):
            self.write()
        if self.dice.random() < 0.5:
            self.compact()
        settle(self.table)
        self.table, self.rows, self.of_branch = main, rows, self.rows


def settle(table: Table) -> None:
    """Let a compaction show what it alone shows."""
    if table.schema.primary_keys and table.store.options.hides_level_0:
        table.compact(full=True)


def snapshot_of(table: Table, snapshot_id: int) -> Snapshot:
    """A snapshot of a branch, or of main before it began."""
    snapshot = table.store.snapshots.find(snapshot_id) or table.on_branch("main").snapshot(snapshot_id)
    assert snapshot is not None
    return snapshot


def check(table: Table, expected: dict[int, tuple[int, int]], version: Any = None) -> int:
    """Compare the rows with what is expected, and say of how many the snapshot is not known."""
    rows = table.to_arrow(columns=["k", *METADATA_COLUMNS], version=version).to_pylist()
    assert {row["k"] for row in rows} == set(expected)
    files = {row["file_path"]: row for row in table.system_table("files").to_pylist()} if version is None else {}
    rows_of: dict[str, list[int]] = {}
    unknown = 0
    for row in rows:
        if row["snapshot_id"] is None:
            assert row["job"] is row["barrier"] is row["commit_time"] is None
            unknown += 1
        else:
            assert row["snapshot_id"] == expected[row["k"]][0], row
            snapshot = snapshot_of(table, row["snapshot_id"])
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
