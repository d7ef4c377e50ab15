"""Changes of a table whose keys move between partitions: a key leaves before it comes, so that they can be applied."""

import itertools
import random

import pyarrow as pa
import pytest

from storage import Catalog, Table
from storage.read.net_changes import net_changes

SCHEMA = pa.schema([pa.field("p", pa.string(), False), pa.field("k", pa.int64(), False), pa.field("v", pa.int64())])
PRODUCERS = ["none", "input", "lookup"]


def rows(*given: tuple[str, int, int]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip("pkv", values, strict=True)) for values in given], schema=SCHEMA)


def held(table: Table) -> list[tuple[str, int, int]]:
    return sorted(tuple(row.values()) for row in table.to_arrow().to_pylist())


def moving(catalog: Catalog, name: str, **options: str) -> Table:
    return catalog.create_table(
        name, SCHEMA, primary_key=["k"], partition_by=["p"], options={"bucket": "-1", **options}
    )


def mirrored(catalog: Catalog, table: Table, *, step: int | None = None) -> list[tuple[str, int, int]]:
    """What a mirror holds that is fed by the changes, of all snapshots at once or so many at a time."""
    mirror = moving(catalog, f"a.mirror{step or ''}")
    newest = table.snapshot()
    assert newest is not None
    bounds = [*range(0, newest.id, step or newest.id), newest.id]
    for after, until in itertools.pairwise(bounds):
        changes = table.changes(after or None, until)
        if changes.num_rows:
            mirror.write(changes.drop_columns(["snapshot_id"]), row_kind_column="rowkind")
    return held(mirror)


@pytest.mark.parametrize("vectors", ["false", "true"])
@pytest.mark.parametrize("producer", PRODUCERS)
@pytest.mark.parametrize("there", ["ab", "ba"])
def test_a_key_that_moved_is_where_it_went(catalog: Catalog, producer: str, vectors: str, there: str) -> None:
    table = moving(catalog, "a.t", **{"changelog-producer": producer, "deletion-vectors.enabled": vectors})
    before, after = there
    table.write(rows((before, 4, 1), ("b", 5, 1)))
    table.write(rows((after, 4, 2)))
    assert mirrored(catalog, table) == held(table) == mirrored(catalog, table, step=1)


@pytest.mark.parametrize("producer", PRODUCERS)
@pytest.mark.parametrize("seed", range(4))
def test_whatever_moves_changes_replayed_are_the_table(catalog: Catalog, producer: str, seed: int) -> None:
    draw = random.Random(seed)
    table = moving(catalog, "a.t", **{"changelog-producer": producer})
    for number in range(12):
        some = [(draw.choice("abc"), draw.randrange(6), number) for _ in range(draw.randrange(1, 8))]
        if draw.random() < 0.2:
            table.delete("k >= 0")
            table.write(rows(*some))
        elif draw.random() < 0.2:
            table.delete(f"k = {draw.randrange(6)}")
        else:
            table.write(rows(*some))
    assert held(table) == mirrored(catalog, table, step=1)


def test_columns_and_conditions_leave_the_order_as_it_is(catalog: Catalog) -> None:
    table = moving(catalog, "a.t")
    table.write(rows(("b", 4, 1)))
    table.write(rows(("a", 4, 2)))
    changes = [list(row.values()) for row in table.changes(columns=["v"]).to_pylist()]
    assert changes == [["+I", 1, 1], ["-D", 2, 2], ["+I", 2, 2]]
    assert table.changes(columns=["v"]).column_names == ["rowkind", "snapshot_id", "v"]


def test_what_came_and_went_in_all_has_the_key_where_it_is(catalog: Catalog) -> None:
    table = moving(catalog, "a.t")
    table.write(rows(("b", 4, 1)))
    table.write(rows(("a", 4, 2)))
    newest = table.snapshot()
    assert newest is not None
    came, went = net_changes(table.store, 1, newest)
    assert came.to_pylist() == [{"p": "a", "k": 4, "v": 2}] and went.num_rows == 0
