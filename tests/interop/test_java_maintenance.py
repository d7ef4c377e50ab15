"""What Java's maintenance leaves of tables that are looked after here too."""

import datetime as dt

import pyarrow as pa
import pytest

from storage import Catalog, Table
from tests.interop.java_paimon import JavaPaimon

SCHEMA = pa.schema([("id", pa.int64()), ("item", pa.string())])


@pytest.fixture
def table(catalog: Catalog) -> Table:
    table = catalog.create_table(
        "shop.t", SCHEMA, primary_key=["id"], options={"bucket": "1", "changelog-producer": "input"}
    )
    for number in range(5):
        table.write(pa.table({"id": [number], "item": [f"round {number}"]}))
    return table


def test_a_tag_whose_changelog_java_let_expire_is_sound(java: JavaPaimon, catalog: Catalog, table: Table) -> None:
    for snapshot_id in (2, 3):
        table.tags.create(f"t{snapshot_id}", snapshot_id=snapshot_id)
    java.ask(catalog.warehouse, "shop.t", "expire", retain=1)
    table = catalog.table("shop.t")
    assert len(table.store.snapshots.ids()) == 1
    assert table.check(deep=True) == []
    assert table.to_arrow(version="t2")["id"].to_pylist() == [0, 1]
    table.write(pa.table({"id": [9], "item": ["later"]}))
    table.expire(retain_last=1)
    table.tags.delete("t2")
    table.remove_orphan_files(older_than=dt.timedelta(0), no_writers=True)
    assert table.check(deep=True) == []
    assert table.to_arrow(version="t3")["id"].to_pylist() == [0, 1, 2]
    assert java.read(catalog.warehouse, "shop.t", options={"scan.tag-name": "t3"}).num_rows == 3


@pytest.mark.parametrize("producer", ["lookup", "full-compaction"])
def test_a_branch_whose_first_changelog_java_let_expire_is_sound(
    java: JavaPaimon, catalog: Catalog, producer: str
) -> None:
    options = {"bucket": "1", "changelog-producer": producer}
    table = catalog.create_table("shop.b", SCHEMA, primary_key=["id"], options=options)
    for number in range(2):
        table.write(pa.table({"id": [number], "item": ["a"]}))
        table.compact()
    table.branches.create("b")
    table.on_branch("b").branches.create("c")
    table.write(pa.table({"id": [9], "item": ["later"]}))
    table.compact()
    java.ask(catalog.warehouse, "shop.b", "expire", retain=1)
    table = catalog.table("shop.b")
    assert table.check(deep=True) == []
    for name in ("b", "c"):
        branch = table.on_branch(name)
        assert branch.to_arrow()["id"].to_pylist() == [0, 1]
        branch.write(pa.table({"id": [5], "item": ["more"]}))
        assert java.read(catalog.warehouse, f"shop.b$branch_{name}").num_rows == 3
    table.expire(retain_last=1)
    table.remove_orphan_files(older_than=dt.timedelta(0), no_writers=True)
    assert catalog.table("shop.b").check(deep=True) == []


def test_vectors_of_files_that_a_full_compaction_of_java_left_out_are_sound(java: JavaPaimon, catalog: Catalog) -> None:
    """Of a file none of whose rows is left, Java drops the file and keeps the vector."""
    columns = {"k": "INT NOT NULL", "p": "INT NOT NULL", "v": "INT"}
    options = {"bucket": "1", "deletion-vectors.enabled": "true"}
    java.create(catalog.warehouse, "shop.v", columns, primary_key=["k", "p"], partition_by=["p"], options=options)
    fields = catalog.table("shop.v").schema.fields
    schema = pa.schema([pa.field(each.name, each.type.to_arrow()) for each in fields])

    def write(keys: list[int], kind: str) -> None:
        rows = pa.Table.from_pylist([{"k": key, "p": 1, "v": 0} for key in keys], schema)
        java.write(catalog.warehouse, "shop.v", rows, fields, kinds=[kind] * len(keys))

    write([0, 1, 2, 3], "+I")
    java.ask(catalog.warehouse, "shop.v", "compact", full=True)
    write([0, 1], "-D")
    java.ask(catalog.warehouse, "shop.v", "compact", full=False)
    write([2, 3], "-D")
    java.ask(catalog.warehouse, "shop.v", "compact", full=True)
    table = catalog.table("shop.v")
    assert table.check(deep=True) == []
    table.write(pa.Table.from_pylist([{"k": 7, "p": 1, "v": 1}], schema))
    table.compact(full=True)
    assert catalog.table("shop.v").check(deep=True) == []
    assert java.read(catalog.warehouse, "shop.v").num_rows == 1
