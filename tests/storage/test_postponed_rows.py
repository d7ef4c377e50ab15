"""Rows that wait in postponed buckets: readers of changes get them as they were written, and changes of rows see them."""

import random
from typing import Any

import pyarrow as pa
import pytest

from storage import Catalog, Table
from storage.maintain import settle_postponed

SCHEMA = pa.schema([pa.field("p", pa.string(), False), pa.field("k", pa.int64(), False), pa.field("v", pa.int64())])


def postponed(catalog: Catalog, **options: str) -> Table:
    return catalog.create_table(
        "shop.t", SCHEMA, primary_key=["p", "k"], partition_by=["p"], options={"bucket": "-2", **options}
    )


def put(table: Table, k: int, v: int, kind: str = "+I") -> None:
    rows = pa.table(
        {"p": ["a"], "k": [k], "v": [v], "kind": [kind]}, schema=SCHEMA.append(pa.field("kind", pa.string()))
    )
    table.write(rows, row_kind_column="kind")


def rows(table: Table) -> dict[int, int]:
    return {row["k"]: row["v"] for row in table.to_arrow().to_pylist()}


def fold(copy: dict[int, int], stream: Any) -> None:
    for step in stream:
        for row in step.rows.to_pylist():
            if row["rowkind"] == "-D":
                copy.pop(row["k"], None)
            else:
                copy[row["k"]] = row["v"]


def test_a_stream_that_begins_gets_rows_that_wait_with_their_kinds_and_in_their_order(catalog: Catalog) -> None:
    table = postponed(catalog)
    for number in range(3):
        put(table, number, number)
    table.compact()
    put(table, 0, 0, "-D")
    # In the order of their names, some of these would come the other way round.
    for value in range(12):
        put(table, 1, value)
    stream = table.follow()
    step = stream.step()
    changes = [(row["rowkind"], row["k"], row["v"]) for row in step.rows.to_pylist()]
    assert changes == [*(("+I", k, k) for k in range(3)), ("-D", 0, 0), *(("+I", 1, value) for value in range(12))]
    copy: dict[int, int] = {}
    fold(copy, table.follow())
    table.compact()
    fold(copy, stream)
    assert copy == rows(table) == {1: 11, 2: 2}


@pytest.mark.parametrize("seed", range(12))
def test_a_copy_kept_by_changes_is_the_table(catalog: Catalog, seed: int) -> None:
    chance = random.Random(seed)
    table = postponed(catalog, **{"changelog-producer": chance.choice(["none", "none", "lookup", "input"])})
    copy: dict[int, int] = {}
    stream = None
    for number in range(chance.randrange(6, 14)):
        match chance.choice(["put", "put", "put", "delete", "compact", "read"]):
            case "put":
                put(table, chance.randrange(3), number)
            case "delete":
                put(table, chance.randrange(3), number, "-D")
            case "compact":
                table.compact()
            case _:
                stream = stream or table.follow()
                fold(copy, stream)
    table.compact()
    fold(copy, stream or table.follow())
    assert copy == rows(table)


def test_changes_of_rows_see_rows_that_wait(catalog: Catalog) -> None:
    table = postponed(catalog)
    put(table, 1, 1)
    assert table.update("v = 1", {"v": 11}) is not None
    assert table.update("v = 11", {"v": 21}) is not None
    put(table, 2, 2)
    assert table.delete("k = 2") is not None
    table.compact()
    assert rows(table) == {1: 21}


def test_changes_of_rows_notice_rows_that_are_written_meanwhile(catalog: Catalog) -> None:
    table = postponed(catalog)
    put(table, 1, 1)
    other = catalog.table("shop.t")
    tries: list[int] = []

    def add(basis: Any) -> Any:
        value = basis.scan().to_arrow()["v"][0].as_py()
        tries.append(value)
        if len(tries) == 1:
            put(other, 1, 100)
            other.compact()
        changed = pa.table(
            {"p": ["a"], "k": [1], "v": [value + 1], "kind": ["+U"]},
            schema=SCHEMA.append(pa.field("kind", pa.string())),
        )
        return table.write_changes(changed, "kind", "UPDATE", basis=basis)

    table.repeated(add)
    table.compact()
    assert tries == [1, 100] and rows(table) == {1: 101}


@pytest.mark.parametrize("act", ["update", "delete", "compact"])
def test_rows_are_moved_again_if_their_snapshot_expires_meanwhile(
    act: str, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = postponed(catalog)
    put(table, 1, 1)
    table.compact()
    put(table, 2, 2)
    real = settle_postponed.in_order_of_arrival

    def meanwhile(*given: Any) -> Any:
        monkeypatch.setattr(settle_postponed, "in_order_of_arrival", real)
        ordered = real(*given)
        other = catalog.table("shop.t")
        other.compact()
        other.expire(retain_last=1)
        return ordered

    monkeypatch.setattr(settle_postponed, "in_order_of_arrival", meanwhile)
    calls = {
        "update": lambda: table.update("k = 1", {"v": 5}),
        "delete": lambda: table.delete("k = 1"),
        "compact": table.compact,
    }
    calls[act]()
    table.compact()
    assert rows(table) == {"update": {1: 5, 2: 2}, "delete": {2: 2}, "compact": {1: 1, 2: 2}}[act]
