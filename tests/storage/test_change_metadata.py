"""Metadata columns of changes: each change tells of the commit that made it, also where a compaction tells of the change."""

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from storage import Catalog, CommitId, InvalidRequest, Table
from storage.metadata.snapshot import COMPACT

SCHEMA = pa.schema([("k", pa.int64()), ("p", pa.string()), ("v", pa.int64())])
PRODUCERS: dict[str, dict[str, str]] = {
    "none": {},
    "input": {"changelog-producer": "input"},
    "lookup": {"changelog-producer": "lookup"},
    "full-compaction": {"changelog-producer": "full-compaction"},
    "aggregation": {
        "changelog-producer": "lookup",
        "merge-engine": "aggregation",
        "fields.v.aggregate-function": "sum",
        "aggregation.remove-record-on-delete": "true",
    },
    "deletion vectors": {"changelog-producer": "lookup", "deletion-vectors.enabled": "true"},
    "postponed": {"changelog-producer": "lookup", "bucket": "-2"},
    "expiring": {
        "changelog-producer": "lookup",
        "record-level.expire-time": "1 h",
        "record-level.time-field": "v",
    },
}


def made(tmp_path: Path, options: dict[str, str], **keys: Any) -> Table:
    options = {"bucket": "2", "write-only": "true"} | options
    keys = {"primary_key": ["k", "p"], "partition_by": ["p"]} | keys
    return Catalog(str(tmp_path)).create_table("shop.t", SCHEMA, options=options, **keys)


def written(table: Table, job: str, keys: dict[int, str], value: int) -> int:
    """Commit a row of each key, of its kind; returns the snapshot."""
    columns: list[Any] = [list(keys), ["ab"[k % 2] for k in keys], [value] * len(keys), list(keys.values())]
    data = pa.table(columns, [*SCHEMA.names, "op"])
    snapshot = table.write(data, row_kind_column="op", commit_id=CommitId(job, 7))
    assert snapshot is not None
    return snapshot.id


@pytest.mark.pypaimon_differs("It knows neither all aggregations nor the expiry of rows, and merges all levels.")
@pytest.mark.java_differs("It lets rows expire that are read here as they are.")
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("kind", PRODUCERS)
def test_a_dictionary_knows_which_commit_made_each_change(kind: str, seed: int, tmp_path: Path) -> None:
    table, dice = made(tmp_path, PRODUCERS[kind]), random.Random(f"{kind} {seed}")
    last: dict[int, int] = {}
    # Of each snapshot, which commit was the last that wrote a key.
    wrote: dict[int, dict[int, int]] = {}
    there: set[int] = set()
    for number in range(14):
        if number and dice.random() < 0.3:
            table.compact(full=dice.random() < 0.5)
            latest = table.snapshot()
            assert latest is not None
            wrote[latest.id] = dict(last)
            continue
        keys = dict.fromkeys(dice.sample(range(12), dice.randint(1, 6)), "+I")
        keys |= {k: "-D" for k in keys if k in there and dice.random() < 0.3 and kind != "expiring"}
        there = (there | keys.keys()) - {k for k, op in keys.items() if op == "-D"}
        # Rows do not grow old within a test.
        snapshot_id = written(table, f"job {number}", keys, 4_000_000_000 - number)
        last |= dict.fromkeys(keys, snapshot_id)
        wrote[snapshot_id] = dict(last)
    table.compact(full=True)
    latest = table.snapshot()
    assert latest is not None
    wrote.setdefault(latest.id, dict(last))
    changes = table.changes(
        columns=["k", "job", "__paimon_snapshot_id", "barrier", "row_kind", "partition", "commit_time"]
    ).to_pylist()
    assert changes
    known_count = 0
    for row in changes:
        teller, maker = table.snapshot(row["snapshot_id"]), row["__paimon_snapshot_id"]
        assert teller is not None
        assert (row["row_kind"], row["partition"]) == (row["rowkind"], f"p={'ab'[row['k'] % 2]}")
        if maker is None:
            assert row["job"] is row["barrier"] is row["commit_time"] is None
            assert teller.commit_kind == COMPACT
            # Rows of a postponed bucket get new numbers, and of a row that went nothing is left.
            assert row["rowkind"] == "-D" or kind == "postponed"
            continue
        known_count += 1
        assert maker == wrote[row["snapshot_id"]][row["k"]], row
        snapshot = table.snapshot(maker)
        assert snapshot is not None
        assert snapshot.commit_kind != COMPACT
        assert (row["job"], row["barrier"]) == (snapshot.commit_user, 7)
    assert known_count


def test_a_row_that_was_replaced_is_of_the_commit_that_replaced_it(tmp_path: Path) -> None:
    table = made(tmp_path, {"changelog-producer": "lookup", "bucket": "1"})
    for number, keys in enumerate(({0: "+I", 2: "+I"}, {0: "+I"}, {2: "-D", 4: "+I"})):
        written(table, f"job {number}", keys, number)
        if number == 0:
            table.compact(full=True)
    table.compact(full=True)
    changes = table.changes(after=2, columns=["k", "v", "job"]).to_pylist()
    assert [(row["rowkind"], row["k"], row["v"], row["job"]) for row in changes] == [
        ("-U", 0, 0, "job 1"),
        ("+U", 0, 1, "job 1"),
        ("-D", 2, 0, None),
        ("+I", 4, 2, "job 2"),
    ]
    # What nobody asks for is not made, and the order is that in which it is asked for.
    assert table.changes(columns=["job", "k"]).column_names == ["rowkind", "snapshot_id", "job", "k"]
    assert table.changes().column_names == ["rowkind", "snapshot_id", *SCHEMA.names]


@pytest.mark.parametrize("marks", ["false", "true"])
def test_changes_of_tables_without_a_key(tmp_path: Path, marks: str) -> None:
    table = made(tmp_path, {"bucket": "-1", "deletion-vectors.enabled": marks}, primary_key=[], partition_by=[])
    for number in range(2):
        data = pa.table([[number, number + 10], ["a", "b"], [number] * 2], schema=SCHEMA)
        table.write(data, commit_id=CommitId(f"job {number}"))
    table.compact(full=True)
    table.overwrite(pa.table([[0], ["a"], [0]], schema=SCHEMA), commit_id=CommitId("mender"))
    changes = table.changes(columns=["k", "job"]).to_pylist()
    assert sorted((row["rowkind"], row["k"], row["job"]) for row in changes) == [
        ("+I", 0, "job 0"),
        ("+I", 1, "job 1"),
        ("+I", 10, "job 0"),
        ("+I", 11, "job 1"),
        ("-D", 1, "mender"),
        ("-D", 10, "mender"),
        ("-D", 11, "mender"),
    ]


def test_keys_that_move_to_another_partition_tell_of_their_commit(tmp_path: Path) -> None:
    table = made(tmp_path, {"bucket": "-1"}, primary_key=["k"])
    for number, part in enumerate("ab"):
        table.write(pa.table([[1], [part], [number]], schema=SCHEMA), commit_id=CommitId(f"job {number}"))
    changes = table.changes(after=1, columns=["p", "job", "partition"]).to_pylist()
    assert [(row["rowkind"], row["p"], row["job"], row["partition"]) for row in changes] == [
        ("-D", "a", "job 1", "p=a"),
        ("+I", "b", "job 1", "p=b"),
    ]


def test_what_changes_do_not_have_is_refused_by_name(tmp_path: Path) -> None:
    table = made(tmp_path, {})
    with pytest.raises(
        InvalidRequest, match="'file_path' is metadata of rows in files, and a change tells of its commit"
    ):
        table.changes(columns=["k", "file_path"])
    with pytest.raises(
        InvalidRequest, match=r"'snapshot_id': of the snapshot that told of them\. __paimon_snapshot_id"
    ):
        table.changes(columns=["k", "snapshot_id"])
    with pytest.raises(InvalidRequest, match="There is no column 'jobs'"):
        table.changes(columns=["jobs"])
