"""A publication that no repetition could finish is refused before the first table has it; what is called clean can be done."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from storage import Catalog, CommitConflict, Table
from storage.metadata.schema_change import SetNotNull

SCHEMA = pa.schema([pa.field("p", pa.string(), False), pa.field("k", pa.int64(), False), pa.field("v", pa.int64())])
Rows = tuple[str, int, int | None]
Act = Callable[[Table], object]
MOVING: dict[str, Any] = {"primary_key": ["k"], "options": {"bucket": "-1"}}
DYNAMIC: dict[str, Any] = {
    "primary_key": ["p", "k"],
    "options": {"bucket": "-1", "dynamic-bucket.target-row-num": "2"},
}
FIXED: dict[str, Any] = {"primary_key": ["p", "k"], "options": {"bucket": "1"}}


def rows(*given: Rows) -> pa.Table:
    return pa.Table.from_pylist([dict(zip("pkv", values, strict=True)) for values in given], schema=SCHEMA)


def held(catalog: Catalog, name: str) -> list[Rows]:
    return sorted(tuple(row.values()) for row in catalog.table(name).to_arrow().to_pylist())


def writes(*given: Rows) -> Act:
    return lambda table: table.write(rows(*given))


def forked(catalog: Catalog, made_with: dict[str, Any], on_branch: Act, on_main: Act) -> Any:
    """The branch of two tables, the first of which can be published in any case."""
    for name, made in (("a.one", FIXED), ("a.two", made_with)):
        catalog.create_table(name, SCHEMA, partition_by=["p"], **made).write(rows(("a", 1, 1), ("a", 2, 2)))
    branches = catalog.branch_set("b", ["a.one", "a.two"])
    branches.create()
    writes(("b", 9, 9))(catalog.table("a.one").on_branch("b"))
    on_branch(catalog.table("a.two").on_branch("b"))
    on_main(catalog.table("a.two"))
    return branches


@pytest.mark.parametrize(
    "on_main", [lambda table: None, lambda table: table.compact(full=True)], ids=["untouched", "compacted"]
)
def test_a_key_that_has_moved_on_the_branch_moves_on_main(catalog: Catalog, on_main: Act) -> None:
    branches = forked(catalog, MOVING, writes(("b", 1, 5), ("b", 9, 9)), on_main)
    assert {verdict.kind for verdict in branches.publish().values()} == {"clean"}
    assert catalog.publications() == []
    assert held(catalog, "a.two") == [("a", 2, 2), ("b", 1, 5), ("b", 9, 9)]
    assert catalog.table("a.two").check(deep=True) == []


@pytest.mark.parametrize("by", ["publish", "replace_main"])
@pytest.mark.parametrize(
    ("made_with", "on_branch", "on_main"),
    [
        (MOVING, writes(("b", 9, 9)), writes(("c", 9, 8))),
        (MOVING, writes(("b", 9, 9)), writes(("a", 5, 5))),
        (DYNAMIC, writes(("a", 9, 90)), lambda table: table.overwrite(rows(("a", 9, 91)), partition={"p": "a"})),
    ],
    ids=["moving to two places", "moving", "dynamic buckets"],
)
def test_where_both_may_have_the_same_keys_they_have_diverged(
    catalog: Catalog, made_with: dict[str, Any], on_branch: Act, on_main: Act, by: str
) -> None:
    branches = forked(catalog, made_with, on_branch, on_main)
    before = held(catalog, "a.two")
    with pytest.raises(CommitConflict, match="on no table"):
        getattr(branches, by)()
    assert catalog.publications() == [] and (held(catalog, "a.two"), len(held(catalog, "a.one"))) == (before, 2)
    theirs = sorted(tuple(row.values()) for row in catalog.table("a.two").on_branch("b").to_arrow().to_pylist())
    getattr(branches, by)(discard_main=True)
    assert catalog.publications() == [] and (held(catalog, "a.two"), len(held(catalog, "a.one"))) == (theirs, 3)
    assert catalog.table("a.two").check(deep=True) == []


def test_other_partitions_of_dynamic_buckets_stand_side_by_side(catalog: Catalog) -> None:
    branches = forked(catalog, DYNAMIC, writes(("b", 1, 5)), writes(("c", 1, 6)))
    assert branches.publish()["a.two"].kind == "disjoint"
    assert held(catalog, "a.two") == [("a", 1, 1), ("a", 2, 2), ("b", 1, 5), ("c", 1, 6)]


@pytest.mark.parametrize("discard_main", [False, True])
def test_nulls_that_main_takes_no_more_are_refused_before_anything_is_done(
    catalog: Catalog, discard_main: bool
) -> None:
    branches = forked(catalog, FIXED, writes(("b", 3, None)), lambda table: table.alter(SetNotNull("v")))
    with pytest.raises(CommitConflict, match=r"on no table.*NOT NULL"):
        branches.publish(discard_main=discard_main)
    assert catalog.publications() == [] and len(held(catalog, "a.one")) == 2
