"""Metadata of rows and of changes in tables that Java wrote: a dictionary knows which of its commits wrote each row."""

import random
from typing import Any

import pyarrow as pa
import pytest

from storage import METADATA_COLUMNS, Catalog, Snapshot, Table
from storage.metadata.snapshot import COMPACT
from tests.interop.java_paimon import JavaPaimon, since_1_3

FIELDS = {"k": "BIGINT NOT NULL", "p": "STRING NOT NULL", "v": "BIGINT"}
SCHEMA = pa.schema([pa.field("k", pa.int64(), False), pa.field("p", pa.string(), False), ("v", pa.int64())])
KINDS: dict[str, dict[str, str]] = {
    "deduplicate": {},
    "orc": {"file.format": "orc"},
    "lookup": {"changelog-producer": "lookup"},
    "full-compaction": {"changelog-producer": "full-compaction"},
    "aggregation": {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"},
    "partial-update": {"merge-engine": "partial-update"},
    "first-row": {"merge-engine": "first-row"},
    "deletion vectors": {"deletion-vectors.enabled": "true"},
    "append": {},
}


def written(java: JavaPaimon, catalog: Catalog, table: Table, keys: dict[int, str], value: int) -> Snapshot:
    """Have Java commit a row of each key, of its kind; returns the snapshot, before a compaction that may follow."""
    before = catalog.table("shop.t").snapshot()
    data = pa.table([list(keys), ["ab"[k % 2] for k in keys], [value] * len(keys)], schema=SCHEMA)
    java.write(catalog.warehouse, "shop.t", data, table.schema.fields, kinds=list(keys.values()))
    return table.store.snapshots.get(1 if before is None else before.id + 1)


def tell(table: Table, rows: list[dict[str, Any]], wrote: dict[int, int]) -> int:
    """Compare rows with the commits that wrote their keys, and say of how many that is known."""
    known = 0
    for row in rows:
        if row["snapshot_id"] is None:
            assert row["job"] is row["barrier"] is row["commit_time"] is None
            continue
        known += 1
        assert row["snapshot_id"] == wrote[row["k"]], row
        snapshot = table.store.snapshots.get(row["snapshot_id"])
        assert (row["job"], row["barrier"]) == (snapshot.commit_user, snapshot.commit_identifier)
    return known


@since_1_3
@pytest.mark.pypaimon_differs("It does not merge all that Java does.")
@pytest.mark.parametrize("kind", KINDS)
def test_a_dictionary_knows_which_commit_of_java_wrote_each_row(kind: str, java: JavaPaimon, catalog: Catalog) -> None:
    key, dice = kind != "append", random.Random(kind)
    # What Java knows no commit of is settled by a compaction before anybody reads it.
    settles = kind in ("first-row", "deletion vectors")
    java.create(
        catalog.warehouse,
        "shop.t",
        FIELDS,
        partition_by=["p"],
        primary_key=["k", "p"] if key else [],
        options={"bucket": "1" if key else "-1"} | ({} if settles else {"write-only": "true"}) | KINDS[kind],
    )
    table = catalog.table("shop.t")
    wrote: dict[int, int] = {}
    for number in range(6):
        fresh = range(number * 9, number * 9 + 9)
        keys = dict.fromkeys(dice.sample(range(9) if key else fresh, 4), "+I")
        if kind in ("deduplicate", "lookup") and number == 4:
            keys = dict.fromkeys(list(wrote)[:2], "-D")
        snapshot = written(java, catalog, table, keys, number)
        for k in keys:
            wrote[k] = wrote.get(k, snapshot.id) if kind == "first-row" else snapshot.id
        wrote = {k: snapshot_id for k, snapshot_id in wrote.items() if keys.get(k) != "-D"}
        if number in (2, 5):
            _check(table, wrote, is_whole=True)
            java.ask(catalog.warehouse, "shop.t", "compact", full=True, options={"write-only": "false"})
        _check(table, wrote, is_whole=key or number < 2)
    if key:
        # Whoever compacts, the rows stay those of their commits.
        catalog.table("shop.t").compact(full=True)
        _check(table, wrote, is_whole=True)


def _check(table: Table, wrote: dict[int, int], *, is_whole: bool) -> None:
    rows = table.to_arrow(columns=["k", *METADATA_COLUMNS]).to_pylist()
    assert {row["k"] for row in rows} == set(wrote)
    known = tell(table, rows, wrote)
    assert known == len(rows) if is_whole else known <= len(rows)
    files = {row["file_path"]: row for row in table.system_table("files").to_pylist()}
    for row in rows:
        file = files[row["file_path"]]
        assert (row["level"], row["bucket"], row["schema_id"]) == (file["level"], file["bucket"], file["schema_id"])
        assert (row["partition"], row["row_kind"]) == (f"p={'ab'[row['k'] % 2]}", row["row_kind"])
        assert (row["sequence_number"] is not None) == bool(table.schema.primary_keys)


@pytest.mark.parametrize("producer", ["lookup", "full-compaction", "input"])
def test_changes_that_java_tells_of_are_those_of_its_commits(producer: str, java: JavaPaimon, catalog: Catalog) -> None:
    java.create(
        catalog.warehouse,
        "shop.t",
        FIELDS,
        partition_by=["p"],
        primary_key=["k", "p"],
        options={"bucket": "1", "write-only": "true", "changelog-producer": producer},
    )
    table = catalog.table("shop.t")
    dice = random.Random(producer)
    last: dict[int, int] = {}
    at: dict[int, dict[int, int]] = {}
    for number in range(7):
        # Java deletes nothing that is not there.
        keys = dict.fromkeys(dice.sample(range(8), 4), "+I")
        snapshot = written(java, catalog, table, keys, number)
        last |= dict.fromkeys(keys, snapshot.id)
        at[snapshot.id] = dict(last)
        if number in (1, 4, 6):
            java.ask(catalog.warehouse, "shop.t", "compact", full=True, options={"write-only": "false"})
            latest = table.snapshot()
            assert latest is not None
            at[latest.id] = dict(last)
    changes = table.changes(columns=["k", "job", "__paimon_snapshot_id"]).to_pylist()
    assert {row["rowkind"] for row in changes} == ({"+I"} if producer == "input" else {"+I", "-U", "+U"})
    for row in changes:
        snapshot = table.store.snapshots.get(row["__paimon_snapshot_id"])
        assert snapshot.commit_kind != COMPACT
        assert (snapshot.id, snapshot.commit_user) == (at[row["snapshot_id"]][row["k"]], row["job"])
