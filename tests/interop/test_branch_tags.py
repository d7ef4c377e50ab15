"""Branches, and what they were made from, beside maintenance by Java, which knows tags of its own branch alone."""

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pytest

from storage import Catalog, InvalidRequest, Table
from tests.interop.java_paimon import JavaPaimon

SCHEMA = pa.schema([pa.field("id", pa.int64(), False), ("item", pa.string())])


@pytest.fixture(params=["keyed", "plain"])
def table(request: pytest.FixtureRequest, catalog: Catalog) -> Table:
    keyed = {"primary_key": ["id"], "options": {"bucket": "1"}} if request.param == "keyed" else {}
    table = catalog.create_table("shop.t", SCHEMA, **keyed)
    for number in range(4):
        write(table, number)
    return table


def write(table: Table, number: int) -> None:
    table.write(pa.table({"id": [number], "item": [f"round {number}"]}, SCHEMA))


def ids(table: Table, **options: object) -> list[int]:
    return sorted(table.to_arrow(**options)["id"].to_pylist())


def own_tags(table: Table) -> list[Path]:
    return sorted(Path(table.store.paths.root).rglob("tag-snapline-branch-*"))


def java_moves_on(java: JavaPaimon, catalog: Catalog, name: str) -> None:
    """Whatever was there is rewritten, and expires."""
    table = catalog.table("shop.t")
    java.write(
        catalog.warehouse, name, pa.table({"id": [9], "item": ["all"]}, SCHEMA), table.schema.fields, overwrite={}
    )
    java.ask(catalog.warehouse, name, "expire", retain=1)


def test_a_branch_survives_the_expiry_of_java(java: JavaPaimon, catalog: Catalog, table: Table) -> None:
    table.branches.create("b", snapshot_id=2)
    java_moves_on(java, catalog, "shop.t")
    assert ids(table.on_branch("b")) == [0, 1]
    write(table.on_branch("b"), 7)
    assert ids(table.on_branch("b")) == [0, 1, 7]
    assert java.read(catalog.warehouse, "shop.t$branch_b").num_rows == 3
    assert catalog.table("shop.t").check(deep=True) == []


def test_a_branch_survives_the_deletion_of_its_tag_by_java(java: JavaPaimon, catalog: Catalog, table: Table) -> None:
    table.tags.create("t", snapshot_id=2)
    table.branches.create("b", tag="t")
    java_moves_on(java, catalog, "shop.t")
    java.ask(catalog.warehouse, "shop.t", "delete tag", tag="t")
    assert ids(table.on_branch("b")) == [0, 1]
    assert catalog.table("shop.t").check(deep=True) == []


def test_main_survives_the_expiry_of_java_on_a_branch(java: JavaPaimon, catalog: Catalog, table: Table) -> None:
    table.branches.create("b", snapshot_id=4)
    java_moves_on(java, catalog, "shop.t$branch_b")
    assert ids(table) == [0, 1, 2, 3]
    assert catalog.table("shop.t").check(deep=True) == []


def test_the_tags_of_a_branch_go_with_it_and_are_no_tags_of_users(catalog: Catalog, table: Table) -> None:
    table.tags.create("t", snapshot_id=2)
    branch = table.branches.create("b", snapshot_id=3)
    assert len(own_tags(table)) == 2
    assert [tag.name for tag in table.tags.list()] == ["t"] == table.system_table("tags")["tag_name"].to_pylist()
    assert table.on_branch("b").tags.list() == [] and branch.identifier.branch == "b"
    with pytest.raises(InvalidRequest, match="goes with the branch"):
        table.tags.delete(own_tags(table)[-1].name.removeprefix("tag-"))
    table.overwrite(pa.table({"id": [5], "item": ["only"]}, SCHEMA))
    table.tags.delete("t")
    table.expire(retain_last=1)
    assert ids(table.on_branch("b")) == [0, 1, 2]
    table.branches.delete("b")
    assert own_tags(table) == []
    assert len(list(Path(table.store.paths.root).rglob("*.parquet"))) == 1
    assert table.check(deep=True) == []


@pytest.mark.java_differs("a main that was replaced has no schema of its own")
@pytest.mark.pypaimon_differs("a main that was replaced has no schema of its own")
def test_the_tags_of_a_branch_go_when_it_becomes_main(catalog: Catalog, table: Table) -> None:
    table.branches.create("b", snapshot_id=3)
    write(table.on_branch("b"), 8)
    table.branches.replace_main("b", discard_main=True)
    assert own_tags(table) == []
    assert {0, 1, 2, 8} <= set(ids(catalog.table("shop.t")))


def test_tags_of_a_branch_that_java_has_deleted_are_cleaned_away(
    java: JavaPaimon, catalog: Catalog, table: Table
) -> None:
    table.branches.create("b", snapshot_id=3)
    table.branches.create("c", snapshot_id=3)
    java.ask(catalog.warehouse, "shop.t", "delete branch", branch="b")
    assert len(own_tags(table)) == 3
    table.remove_orphan_files(older_than=dt.timedelta(0), no_writers=True)
    assert len(own_tags(table)) == 2
    assert ids(table.on_branch("c")) == [0, 1, 2]
