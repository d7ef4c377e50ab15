"""Postponed buckets: rows that either side has put there are moved to real buckets by compactions here, and both read the same
as from a table whose buckets are fixed.
"""

import datetime as dt
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from storage import Catalog, CommitConflict, InvalidRequest, SetOptions, Table
from storage.maintain import settle_postponed as settling
from storage.metadata.table_store import TableStore
from tests import scale
from tests.interop.java_paimon import JavaPaimon, since_1_3

pytestmark = since_1_3

SEEDS = scale.seeds(8, 1000, full=100)
FIELDS: dict[str, Any] = {"p": "STRING NOT NULL", "id": "INT NOT NULL", "n": "BIGINT", "t": "STRING", "op": "STRING"}
SCHEMA = pa.schema([("p", pa.string()), ("id", pa.int32()), ("n", pa.int64()), ("t", pa.string()), ("op", pa.string())])
PARTITIONS, KEY = ["p"], ["p", "id"]
NAME = "m.postponed"


def _held(rows: pa.Table) -> Counter[str]:
    return Counter(repr(tuple(row.values())) for row in rows.to_pylist())


def _applied(changes: list[tuple[str, tuple[Any, ...]]]) -> Counter[str]:
    """The rows of a reader who keeps the last one of each key."""
    rows: dict[Any, str] = {}
    for kind, row in changes:
        if kind in ("-U", "-D"):
            rows.pop(row[:2], None)
        else:
            rows[row[:2]] = repr(row)
    return Counter(rows.values())


class Postponed:
    def __init__(self, seed: int, directory: Path, java: JavaPaimon) -> None:
        self.random, self.java, self.warehouse = random.Random(seed), java, str(directory)
        chance = self.random
        engine = chance.choice(["deduplicate", "partial-update", "aggregation", "first-row"])
        producers = ["none", "lookup"] if engine == "first-row" else ["none", "input", "lookup", "full-compaction"]
        options = {
            "merge-engine": engine,
            "changelog-producer": chance.choice(producers),
            "rowkind.field": "op",
            "file.format": chance.choice(["parquet", "orc", "avro"]),
        }
        if engine == "aggregation":
            options |= {"fields.n.aggregate-function": "sum"}
        self.options, count = options, chance.choice([1, 2, 3])
        self.takes_deletes = engine == "deduplicate"
        for name, more in (
            (NAME, {"bucket": "-2", "postpone.default-bucket-num": str(count)}),
            ("m.fixed", {"bucket": str(count)}),
        ):
            java.create(self.warehouse, name, FIELDS, partition_by=PARTITIONS, primary_key=KEY, options=options | more)

    def run(self) -> None:
        chance = self.random
        for step in range(4):
            for _ in range(chance.randint(1, 3)):
                rows = pa.Table.from_pylist(
                    [
                        {
                            "p": chance.choice("ab"),
                            "id": chance.randrange(9),
                            "n": chance.randrange(99),
                            "t": f"{step}",
                            "op": chance.choice(["+I", "+I", "-D"]) if self.takes_deletes else "+I",
                        }
                        for _ in range(chance.randint(1, 9))
                    ],
                    SCHEMA,
                )
                before = _held(self.ours.to_arrow())
                if chance.random() < 0.5:
                    self.java.write(self.warehouse, NAME, rows, self.ours.schema.fields)
                else:
                    self.ours.write(rows)
                Catalog(self.warehouse).table("m.fixed").write(rows)
                # Nobody sees them yet.
                assert before == _held(self.ours.to_arrow()) == _held(self.java.read(self.warehouse, NAME))
            self.ours.compact()
            Catalog(self.warehouse).table("m.fixed").compact()
            here = _held(self.ours.to_arrow())
            assert here == _held(Catalog(self.warehouse).table("m.fixed").to_arrow())
            assert here == _held(self.java.read(self.warehouse, NAME))
            assert not self.ours.check(deep=True)
        if self.options["merge-engine"] == "deduplicate" or self.options["changelog-producer"] in (
            "lookup",
            "full-compaction",
        ):
            assert _applied(self.java.changes(self.warehouse, NAME, 1)) == here
            assert _applied(_changes(self.ours)) == here

    @property
    def ours(self) -> Table:
        return Catalog(self.warehouse).table(NAME)


def _changes(table: Table) -> list[tuple[str, tuple[Any, ...]]]:
    """As a reader is told who begins with the first snapshot."""
    rows = table.changes().to_pylist()
    return [(row["rowkind"], tuple(row[name] for name in FIELDS)) for row in rows]


@pytest.mark.parametrize("chosen", scale.blocks(SEEDS, 4), ids=str)
def test_postponed_rows_become_what_fixed_buckets_hold(chosen: list[int], java: JavaPaimon, tmp_path: Path) -> None:
    scale.try_seeds(lambda seed, directory: Postponed(seed, directory, java).run(), chosen, tmp_path)


@pytest.fixture
def table(catalog: Catalog) -> Table:
    """With one postponed row, which is moved, and one which is not."""
    schema = pa.schema([("id", pa.int32()), ("n", pa.int64())])
    table = catalog.create_table(
        "m.t", schema, primary_key=["id"], options={"bucket": -2, "postpone.default-bucket-num": 2}
    )
    table.write(_ids(1))
    table.compact()
    table.write(_ids(2))
    return table


def _ids(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int32()), "n": [10 * number for number in ids]})


def _seen(table: Table) -> list[int]:
    return sorted(table.to_arrow()["id"].to_pylist())


def test_a_partition_keeps_its_number_of_buckets(table: Table) -> None:
    table = table.alter(SetOptions({"postpone.default-bucket-num": "5"}))
    table.compact()
    assert _seen(table) == [1, 2]
    assert {entry["bucket"] for entry in table.system_table("buckets").to_pylist()} <= {0, 1}


def test_an_overwrite_takes_postponed_rows_away(table: Table) -> None:
    table.overwrite(_ids(3))
    assert _seen(table) == []
    table.compact()
    assert _seen(table) == [3]


def test_two_compactions_do_not_move_a_row_twice(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    real = settling.with_buckets

    def meanwhile(store: TableStore, count: int) -> TableStore:
        monkeypatch.setattr(settling, "with_buckets", real)
        assert settling.settle_postponed(store) is not None
        return real(store, count)

    monkeypatch.setattr(settling, "with_buckets", meanwhile)
    with pytest.raises(CommitConflict):
        settling.settle_postponed(table.store)
    table.compact()
    assert _seen(table) == [1, 2]
    assert not table.check(deep=True)
    assert not table.remove_orphan_files(older_than=dt.timedelta(0), no_writers=True)


def test_changes_of_rows_are_postponed_as_well(table: Table) -> None:
    table.delete("id = 1")
    # What waited before was moved first, for it may be what changes.
    assert _seen(table) == [1, 2]
    table.compact()
    assert _seen(table) == [2]


def test_a_reader_of_changes_sees_each_row_once(table: Table) -> None:
    begun = [row["id"] for row in table.changes(after=None).to_pylist()]
    assert sorted(begun) == [1, 2]
    table.compact()
    assert table.changes(after=2).num_rows == 1


def test_postponed_buckets_need_a_key_and_do_not_change(catalog: Catalog, table: Table) -> None:
    schema = pa.schema([("id", pa.int32())])
    with pytest.raises(InvalidRequest, match="with a primary key -2"):
        catalog.create_table("m.u", schema, options={"bucket": -2})
    with pytest.raises(InvalidRequest, match="cannot change from -2 to 3"):
        table.alter(SetOptions({"bucket": "3"}))
    with pytest.raises(InvalidRequest, match="-2 buckets"):
        table.rescale(3)
