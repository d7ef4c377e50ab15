"""Dynamic buckets: Java and this store write a table in turn, and each finds keys where the other put them."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from storage import Catalog, Table
from storage.metadata.hash_index import hash_files, read_hashes
from tests import scale
from tests.interop.java_paimon import JavaPaimon, since_1_3
from tests.interop.second_reader import JavaReader, read_alike

NAME = "both.t"
COLUMNS = {"day": "STRING NOT NULL", "id": "INT NOT NULL", "name": "STRING NOT NULL", "n": "BIGINT"}
OPTIONS = {"bucket": "-1", "dynamic-bucket.target-row-num": "7"}


class Both:
    """A table that both write."""

    def __init__(
        self, warehouse: Path, java: JavaPaimon, options: Mapping[str, str], key: list[str], days: bool
    ) -> None:
        self.warehouse, self.java = str(warehouse), java
        java.create(
            self.warehouse, NAME, COLUMNS, partition_by=["day"] if days else [], primary_key=key, options=options
        )

    @property
    def ours(self) -> Table:
        return Catalog(self.warehouse).table(NAME)

    def write(self, by_java: bool, rows: pa.Table, kinds: list[str] | None = None) -> None:
        if by_java:
            self.java.write(self.warehouse, NAME, rows, self.ours.schema.fields, kinds=kinds)
        elif kinds is None:
            self.ours.write(rows)
        else:
            self.ours.write(rows.append_column("_kind", pa.array(kinds)), row_kind_column="_kind")

    def overwrite(self, by_java: bool, rows: pa.Table) -> None:
        if by_java:
            self.java.write(self.warehouse, NAME, rows, self.ours.schema.fields, overwrite={})
        else:
            self.ours.overwrite(rows)

    def check(self) -> None:
        table = self.ours
        assert table.check(deep=True) == []
        rows = table.to_arrow()
        read_alike(JavaReader(self.java), self.warehouse, NAME, rows)
        keys = [tuple(row[name] for name in table.schema.primary_keys) for row in rows.to_pylist()]
        assert len(keys) == len(set(keys))

    def places(self) -> dict[int, tuple[bytes, int]]:
        """The place of each hash, which is in no other one."""
        store = self.ours.store
        places: dict[tuple[bytes, int], int] = {}
        for partition, files in hash_files(store, store.snapshots.latest()).items():
            for bucket, file in files.items():
                for number in read_hashes(store, file).tolist():
                    assert places.setdefault((partition, number), bucket) == bucket
        return places


def rows(random: np.random.Generator, ids: int = 60) -> pa.Table:
    count = int(random.integers(1, 20))
    chosen = random.choice(ids, count, replace=False).astype(np.int32)
    return pa.table(
        {
            "day": random.choice(["a", "b"], count).tolist(),
            "id": pa.array(chosen),
            "name": [f"{number}" * (number % 5) for number in chosen.tolist()],
            "n": pa.array(random.integers(0, 1000, count)),
        }
    )


@pytest.mark.parametrize("days", [False, True])
@pytest.mark.parametrize("options", [{}, {"dynamic-bucket.max-buckets": "3"}, {"dynamic-bucket.initial-buckets": "3"}])
@pytest.mark.parametrize("seed", scale.seeds(2, 40))
def test_both_write_in_turn(tmp_path: Path, java: JavaPaimon, seed: int, options: dict[str, str], days: bool) -> None:
    random = np.random.default_rng(seed)
    key = ["day", "id", "name"] if days else ["id", "name"]
    both = Both(tmp_path, java, OPTIONS | options, key, days)
    before: dict[tuple[bytes, int], int] = {}
    for _ in range(8):
        by_java, what = bool(random.random() < 0.5), random.random()
        if what < 0.15:
            both.overwrite(by_java, rows(random))
            before = {}
        elif what < 0.3 and both.ours.snapshot() is not None:
            if by_java:
                java.ask(both.warehouse, NAME, "compact", full=True)
            else:
                both.ours.compact()
        elif what < 0.5:
            some = rows(random)
            both.write(by_java, some, random.choice(["+I", "-D"], some.num_rows).tolist())
        else:
            both.write(by_java, rows(random))
        if both.ours.snapshot() is None:
            continue
        both.check()
        after = both.places()
        assert before.items() <= after.items()
        before = after


def test_keys_are_found_by_both(tmp_path: Path, java: JavaPaimon) -> None:
    both = Both(tmp_path, java, OPTIONS, ["id", "name"], days=False)
    for turn in range(4):
        ids = np.arange(turn * 10, turn * 10 + 20, dtype=np.int32)
        table = pa.table({"day": ["a"] * 20, "id": ids, "name": [str(number) for number in ids], "n": ids * 0 + turn})
        both.write(bool(turn % 2), table.cast(both.ours.schema.to_arrow()))
    for key in (3, 15, 39, 49):
        ours = both.ours.to_arrow(where=f"id = {key}")
        theirs = java.read(both.warehouse, NAME, where=["=", "id", key])
        assert ours.num_rows == theirs.num_rows == 1
        assert ours.to_pylist() == theirs.cast(ours.schema).to_pylist()


@since_1_3
@pytest.mark.parametrize("engine", ["deduplicate", "partial-update", "aggregation", "first-row"])
@pytest.mark.parametrize("seed", scale.seeds(1, 20))
def test_keys_move_between_partitions_alike(tmp_path: Path, java: JavaPaimon, seed: int, engine: str) -> None:
    """The same rows, written by Java and here, in turn into one table and each into its own, give the same rows."""
    random = np.random.default_rng(seed)
    options = {**OPTIONS, "merge-engine": engine}
    if engine == "first-row":
        options["changelog-producer"] = "lookup"
    both = Both(tmp_path / "both", java, options, ["id", "name"], days=True)
    alone = Both(tmp_path / "alone", java, options, ["id", "name"], days=True)
    for turn in range(8):
        some = rows(random, ids=25)
        both.write(bool(turn % 2), some)
        alone.write(True, some)
        if random.random() < 0.3:
            both.ours.compact()
        both.check()
        read_alike(JavaReader(java), alone.warehouse, NAME, both.ours.to_arrow())
