"""Dynamic buckets and deletion vectors in one table: one index manifest lists both kinds of index, and neither is lost."""

import random

import pyarrow as pa
import pytest

from storage import Catalog, Table
from storage.metadata.index_manifest import DELETION_VECTORS, HASH, index_files_of
from tests.scale import seeds

SCHEMA = pa.schema([("day", pa.string()), ("id", pa.int64()), ("n", pa.int64())])
OPTIONS = {
    "bucket": -1,
    "deletion-vectors.enabled": True,
    "dynamic-bucket.target-row-num": 5,
    "file-index.bloom-filter.columns": "n",
}


def made(catalog: Catalog, *, moves: bool) -> Table:
    key = ["id"] if moves else ["day", "id"]
    return catalog.create_table("a.t", SCHEMA, primary_key=key, partition_by=["day"], options=OPTIONS)


def rows(*given: tuple[str, int, int]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in given], SCHEMA)


def kinds(table: Table) -> set[str]:
    return {file.kind for file in index_files_of(table.store, table.snapshot())}


def test_both_kinds_of_index_stay_through_what_changes_one_of_them(catalog: Catalog) -> None:
    table = made(catalog, moves=False)
    table.write(rows(*(("a", number, 0) for number in range(12))))
    table.compact()
    table.write(rows(("a", 3, 1), ("a", 20, 1)))
    assert kinds(table) == {HASH, DELETION_VECTORS}
    assert {file.place[1] for file in index_files_of(table.store, table.snapshot()) if file.kind == HASH} > {0}
    table.delete("id = 5")
    table.write(rows(("b", 3, 2)))
    assert kinds(table) == {HASH, DELETION_VECTORS}
    table.compact()
    assert kinds(table) == {HASH}
    assert table.check(deep=True) == []
    assert table.to_arrow(where="n = 1").num_rows == 2
    assert table.count() == 13
    table.rollback_to(1)
    table.write(rows(("a", 3, 9)))
    assert sorted(table.to_arrow(where="n = 9")["id"].to_pylist()) == [3]
    assert table.check(deep=True) == []


@pytest.mark.parametrize("seed", seeds(3, 60))
@pytest.mark.parametrize("moves", [False, True], ids=["key with the partition", "key without it"])
def test_random_changes_are_those_of_a_dictionary(catalog: Catalog, moves: bool, seed: int) -> None:
    chance = random.Random(seed)
    table = made(catalog, moves=moves)
    known: dict[object, tuple[str, int, int]] = {}
    tags: dict[str, list[tuple[str, int, int]]] = {}
    for step in range(25):
        act = chance.choice(["write", "write", "write", "delete", "update", "compact", "tag", "rollback"])
        if act == "write":
            given = [(chance.choice("ab"), chance.randrange(30), step) for _ in range(chance.randrange(1, 9))]
            table.write(rows(*given))
            for row in given:
                known[row[1] if moves else row[:2]] = row
        elif act == "delete":
            number = chance.randrange(30)
            table.delete(f"id = {number}")
            known = {key: row for key, row in known.items() if row[1] != number}
        elif act == "update":
            number = chance.randrange(30)
            table.update(f"id < {number}", {"n": step})
            known = {key: (*row[:2], step) if row[1] < number else row for key, row in known.items()}
        elif act == "compact":
            table.compact()
        elif act == "tag" and table.snapshot() is not None:
            table.tags.create(f"t{step}")
            tags[f"t{step}"] = sorted(known.values())
        elif act == "rollback" and tags:
            name = chance.choice(list(tags))
            table.rollback_to(name)
            known = {row[1] if moves else row[:2]: row for row in tags[name]}
        there = sorted((row["day"], row["id"], row["n"]) for row in table.to_arrow().to_pylist())
        assert there == sorted(known.values()), f"after {act} in step {step}"
    assert table.check(deep=True) == []
    for name, held in tags.items():
        assert sorted((row["day"], row["id"], row["n"]) for row in table.to_arrow(version=name).to_pylist()) == held
