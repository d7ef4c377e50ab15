"""pypaimon and this store on the same tables: each reads what the other wrote."""

import datetime as dt
import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from storage import AddColumn, Catalog, CommitConflict, RenameColumn, Table

pytestmark = pytest.mark.pypaimon

WRITE = """
import json, sys
import pyarrow as pa
from pypaimon import CatalogFactory
table = CatalogFactory.create({"warehouse": sys.argv[1]}).get_table(sys.argv[2])
builder = table.new_batch_write_builder()
columns = pa.schema([("day", pa.string()), ("id", pa.int32()), ("text", pa.string())])
for rows in json.loads(sys.argv[3]):
    write, commit = builder.new_write(), builder.new_commit()
    write.write_arrow(pa.Table.from_pylist(rows, schema=columns))
    commit.commit(write.prepare_commit())
    write.close(); commit.close()
"""
READ = """
import json, sys
from pypaimon import CatalogFactory
table = CatalogFactory.create({"warehouse": sys.argv[1]}).get_table(sys.argv[2])
if len(sys.argv) > 3:
    table = table.copy({"scan.tag-name": sys.argv[3]})
builder = table.new_read_builder()
print(json.dumps(builder.new_read().to_arrow(builder.new_scan().plan().splits()).to_pylist(), default=str))
"""
SCHEMA = pa.schema([("day", pa.string()), ("id", pa.int32()), ("text", pa.string())])


@pytest.fixture
def warehouse(tmp_path: Path) -> str:
    return str(tmp_path / "warehouse")


@pytest.fixture(params=["keyed", "plain"])
def table(request: pytest.FixtureRequest, catalog: Catalog) -> Table:
    if request.param == "plain":
        return catalog.create_table("shop.t", SCHEMA, partition_by=["day"])
    return catalog.create_table(
        "shop.t", SCHEMA, primary_key=["day", "id"], partition_by=["day"], options={"bucket": 2}
    )


def rows(start: int, stop: int, text: str) -> list[dict[str, Any]]:
    return [
        {"day": "ab"[number % 2], "id": number, "text": None if number % 5 == 0 else text}
        for number in range(start, stop)
    ]


def as_sorted(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(records, key=lambda row: (row["day"], row["id"], str(row["text"])))


def test_both_write_in_turn_and_both_read_the_same(
    table: Table, catalog: Catalog, warehouse: str, run_pypaimon: Callable[..., str]
) -> None:
    batches = [rows(0, 20, "ours"), rows(10, 30, "theirs"), rows(15, 40, "ours again"), rows(0, 5, "theirs again")]
    table.write(pa.Table.from_pylist(batches[0], SCHEMA))
    run_pypaimon(WRITE, warehouse, "shop.t", json.dumps([batches[1]]))
    table.write(pa.Table.from_pylist(batches[2], SCHEMA))
    table.tags.create("three")
    run_pypaimon(WRITE, warehouse, "shop.t", json.dumps([batches[3]]))
    if table.schema.primary_keys:
        last = {(row["day"], row["id"]): row for batch in batches for row in batch}
        expected = as_sorted(list(last.values()))
    else:
        expected = as_sorted([row for batch in batches for row in batch])
    assert as_sorted(catalog.table("shop.t").to_arrow().to_pylist()) == expected
    assert as_sorted(json.loads(run_pypaimon(READ, warehouse, "shop.t"))) == expected
    at_tag = as_sorted(catalog.table("shop.t").to_arrow(version="three").to_pylist())
    assert as_sorted(json.loads(run_pypaimon(READ, warehouse, "shop.t", "three"))) == at_tag
    assert table.count() == len(expected)


def test_pypaimon_reads_what_was_compacted_and_writes_on(
    table: Table, warehouse: str, run_pypaimon: Callable[..., str]
) -> None:
    for number in range(4):
        table.write(pa.Table.from_pylist(rows(number, number + 10, f"round {number}"), SCHEMA))
    assert table.compact() is not None
    run_pypaimon(WRITE, warehouse, "shop.t", json.dumps([rows(8, 20, "theirs")]))
    ours = as_sorted(table.to_arrow().to_pylist())
    assert as_sorted(json.loads(run_pypaimon(READ, warehouse, "shop.t"))) == ours
    table.compact()
    assert as_sorted(json.loads(run_pypaimon(READ, warehouse, "shop.t"))) == ours


def test_pypaimon_reads_deletes_and_overwrites(table: Table, warehouse: str, run_pypaimon: Callable[..., str]) -> None:
    table.write(pa.Table.from_pylist(rows(0, 20, "first"), SCHEMA))
    if table.schema.primary_keys:
        table.delete("id < 7")
    table.overwrite(pa.table({"id": pa.array([100], pa.int32()), "text": ["only"]}), partition={"day": "a"})
    ours = as_sorted(table.to_arrow().to_pylist())
    assert {"day": "a", "id": 100, "text": "only"} in ours
    assert as_sorted(json.loads(run_pypaimon(READ, warehouse, "shop.t"))) == ours


@pytest.mark.parametrize(
    "options",
    [
        {"file.format": "avro"},
        {"file.format": "orc"},
        {"file.format.per.level": "0:avro,5:parquet", "file.compression.per.level": "0:deflate"},
        {"changelog-producer": "input"},
        {"changelog-producer": "lookup"},
        {"changelog-producer": "full-compaction", "full-compaction.delta-commits": "2"},
    ],
    ids=str,
)
def test_pypaimon_reads_tables_of_every_format_and_producer(
    catalog: Catalog, warehouse: str, run_pypaimon: Callable[..., str], options: dict[str, str]
) -> None:
    columns = pa.schema(
        [
            ("id", pa.int64()),
            ("day", pa.date32()),
            ("amount", pa.decimal128(12, 2)),
            ("at", pa.timestamp("us")),
            ("text", pa.string()),
            ("list", pa.list_(pa.int64())),
            ("flag", pa.bool_()),
            ("n", pa.int16()),
        ]
    )
    table = catalog.create_table("shop.f", columns, primary_key=["id"], options={"bucket": 2, **options})
    for start in (0, 5, 12):
        ids = list(range(start, start + 15))
        values = {
            "id": ids,
            "day": [None if number % 4 == 0 else number for number in ids],
            "amount": [Decimal(number) / 4 for number in ids],
            "at": [number * 1_000_001 for number in ids],
            "text": [f"t{number}" if number % 3 else None for number in ids],
            "list": [[number, 2] if number % 2 else None for number in ids],
            "flag": [number % 2 == 0 for number in ids],
            "n": ids,
        }
        arrays = [
            pa.array(values[field.name], pa.int32()).cast(field.type)
            if field.name == "day"
            else pa.array(values[field.name], pa.int64()).cast(field.type)
            if field.name == "at"
            else pa.array(values[field.name], field.type)
            for field in columns
        ]
        table.write(pa.Table.from_arrays(arrays, schema=columns))
    table.overwrite(table.to_arrow(where="id < 20"))
    theirs = json.loads(run_pypaimon(READ, warehouse, "shop.f"))
    expected = json.loads(json.dumps(table.to_arrow().to_pylist(), default=str))
    assert sorted(theirs, key=lambda row: row["id"]) == sorted(expected, key=lambda row: row["id"])


def test_pypaimon_reads_a_branch_and_main_after_taking_it_over(
    table: Table, warehouse: str, run_pypaimon: Callable[..., str]
) -> None:
    table.write(pa.Table.from_pylist(rows(0, 10, "main"), SCHEMA))
    table.branches.create("fix")
    fix = table.on_branch("fix")
    fix.write(pa.Table.from_pylist(rows(5, 15, "fixed"), SCHEMA))
    on_branch = as_sorted(fix.to_arrow().to_pylist())
    assert as_sorted(json.loads(run_pypaimon(READ, warehouse, "shop.t$branch_fix"))) == on_branch
    table.branches.fast_forward("fix")
    assert as_sorted(json.loads(run_pypaimon(READ, warehouse, "shop.t"))) == on_branch


VERSIONS = """
import json, sys
from pypaimon import CatalogFactory
catalog = CatalogFactory.create({"warehouse": sys.argv[1]})
def read(table):
    builder = table.new_read_builder()
    return builder.new_read().to_arrow(builder.new_scan().plan().splits()).to_pylist()
table = catalog.get_table(sys.argv[2])
tags = {name: read(table.copy({"scan.tag-name": name})) for name in table.list_tags()}
branches = {}
for name in table.branch_manager().branches():
    branch = catalog.get_table(f"{sys.argv[2]}$branch_{name}")
    branches[name] = [read(branch), {tag: read(branch.copy({"scan.tag-name": tag})) for tag in branch.list_tags()}]
print(json.dumps({"tags": tags, "branches": branches}, default=str))
"""
MAKE_VERSIONS = """
import sys
import pyarrow as pa
from pypaimon import CatalogFactory
catalog = CatalogFactory.create({"warehouse": sys.argv[1]})
table = catalog.get_table(sys.argv[2])
columns = pa.schema([("day", pa.string()), ("id", pa.int32()), ("text", pa.string())])
def write(table, *ids):
    builder = table.new_batch_write_builder()
    write, commit = builder.new_write(), builder.new_commit()
    write.write_arrow(pa.table({"day": ["a"] * len(ids), "id": ids, "text": ["theirs"] * len(ids)}, schema=columns))
    commit.commit(write.prepare_commit())
    write.close(); commit.close()
write(table, 1, 2)
table.create_tag("first")
table.branch_manager().create_branch("theirs", "first")
write(table, 3)
write(catalog.get_table(f"{sys.argv[2]}$branch_theirs"), 9)
"""


def test_pypaimon_lists_and_reads_our_tags_and_branches(
    table: Table, warehouse: str, run_pypaimon: Callable[..., str]
) -> None:
    table.write(pa.Table.from_pylist(rows(0, 6, "one"), SCHEMA))
    table.tags.create("first")
    table.tags.create("kept", time_retained=dt.timedelta(days=1))
    table.write(pa.Table.from_pylist(rows(3, 9, "two"), SCHEMA))
    table.branches.create("fix", tag="first")
    table.branches.create("late")
    table.on_branch("fix").write(pa.Table.from_pylist(rows(0, 2, "fixed"), SCHEMA))
    table.on_branch("fix").tags.create("done")
    versions = json.loads(run_pypaimon(VERSIONS, warehouse, "shop.t"))
    # Of a branch the store keeps tags of its own, which pypaimon lists as well.
    assert {name for name in versions["tags"] if not is_own(name)} == {"first", "kept"}
    for name, held in versions["tags"].items():
        assert as_sorted(held) == as_sorted(table.to_arrow(version=name).to_pylist())
    assert set(versions["branches"]) == {"fix", "late"}
    for name, (held, tags) in versions["branches"].items():
        branch = table.on_branch(name)
        assert as_sorted(held) == as_sorted(branch.to_arrow().to_pylist())
        assert {tag for tag in tags if not is_own(tag)} == {tag.name for tag in branch.tags.list()}
        for tag, rows_of_tag in tags.items():
            assert as_sorted(rows_of_tag) == as_sorted(branch.to_arrow(version=tag).to_pylist())


def is_own(tag: str) -> bool:
    return tag.startswith("snapline-branch-")


def test_tags_and_branches_of_pypaimon_are_listed_read_merged_and_kept(
    table: Table, warehouse: str, run_pypaimon: Callable[..., str]
) -> None:
    run_pypaimon(MAKE_VERSIONS, warehouse, "shop.t")
    assert [tag.name for tag in table.tags.list()] == ["first"]
    assert sorted(table.to_arrow(version="first")["id"].to_pylist()) == [1, 2]
    assert table.branches.names() == ["theirs"]
    [described] = table.system_table("branches").to_pylist()
    assert (described["branch_name"], described["tag_name"], described["tagged_snapshot_id"]) == ("theirs", "first", 1)
    assert sorted(table.on_branch("theirs").to_arrow()["id"].to_pylist()) == [1, 2, 9]
    table.expire(retain_last=1)
    table.remove_orphan_files(older_than=dt.timedelta(0), no_writers=True)
    assert sorted(table.on_branch("theirs").to_arrow(version="first")["id"].to_pylist()) == [1, 2]
    if table.schema.primary_keys:
        # Both sides wrote to the same bucket: theirs would be lost silently by a fast-forward of pypaimon's.
        with pytest.raises(CommitConflict, match="diverged"):
            table.branches.merge("theirs")
    else:
        table.branches.merge("theirs")
        assert sorted(table.to_arrow()["id"].to_pylist()) == [1, 2, 3, 9]
        assert sorted(row["id"] for row in json.loads(run_pypaimon(READ, warehouse, "shop.t"))) == [1, 2, 3, 9]


def test_pypaimon_refuses_a_table_whose_main_was_replaced_and_reads_the_branch(
    table: Table, catalog: Catalog, warehouse: str, run_pypaimon: Callable[..., str]
) -> None:
    table.write(pa.Table.from_pylist(rows(0, 6, "one"), SCHEMA))
    table.branches.create("fix")
    table.on_branch("fix").write(pa.Table.from_pylist(rows(3, 9, "fixed"), SCHEMA))
    table.branches.replace_main("fix")
    ours = as_sorted(catalog.table("shop.t").to_arrow().to_pylist())
    with pytest.raises(AssertionError, match="missing 9 required positional arguments"):
        run_pypaimon(READ, warehouse, "shop.t")
    assert as_sorted(json.loads(run_pypaimon(READ, warehouse, "shop.t$branch_fix"))) == ours


def test_pypaimon_reads_a_table_whose_schema_changed(
    table: Table, warehouse: str, run_pypaimon: Callable[..., str]
) -> None:
    table.write(pa.Table.from_pylist(rows(0, 10, "first"), SCHEMA))
    changed = table.alter(AddColumn("more", pa.float64()), RenameColumn("text", "words"))
    changed.write(pa.table({"day": ["a"], "id": pa.array([3], pa.int32()), "words": ["new"], "more": [1.5]}))
    ours = sorted(changed.to_arrow().to_pylist(), key=str)
    assert sorted(json.loads(run_pypaimon(READ, warehouse, "shop.t")), key=str) == ours


CREATE = """
import sys
import pyarrow as pa
from pypaimon import CatalogFactory, Schema
catalog = CatalogFactory.create({"warehouse": sys.argv[1]})
catalog.create_database("theirs", True)
columns = pa.schema([
    ("id", pa.int64()), ("price", pa.decimal128(10, 2)), ("at", pa.timestamp("us")), ("blob", pa.binary()),
    ("flag", pa.bool_()), ("day", pa.date32()),
])
schema = Schema.from_pyarrow_schema(columns, primary_keys=["id"], options={"bucket": "3"})
catalog.create_table("theirs.t", schema, False)
table = catalog.get_table("theirs.t")
builder = table.new_batch_write_builder()
import datetime, decimal
for round_number in range(3):
    write, commit = builder.new_write(), builder.new_commit()
    ids = list(range(round_number * 5, round_number * 5 + 10))
    write.write_arrow(pa.table({
        "id": ids,
        "price": [decimal.Decimal(one) / 4 for one in ids],
        "at": [datetime.datetime(2024, 1, 1, 0, 0, one % 60, one) for one in ids],
        "blob": [bytes([round_number]) * one for one in ids],
        "flag": [None if one % 3 == 0 else one % 2 == 0 for one in ids],
        "day": [datetime.date(2024, 1, 1 + one % 28) for one in ids],
    }, schema=columns))
    commit.commit(write.prepare_commit())
    write.close(); commit.close()
"""


def test_a_table_that_pypaimon_made_is_read_filtered_and_written(
    warehouse: str, run_pypaimon: Callable[..., str]
) -> None:
    run_pypaimon(CREATE, warehouse)
    table = Catalog(warehouse).table("theirs.t")
    rows_by_id = {row["id"]: row for row in table.to_arrow().to_pylist()}
    assert sorted(rows_by_id) == list(range(20))
    assert {len(rows_by_id[number]["blob"]) for number in range(20)} == set(range(20))
    assert rows_by_id[12]["blob"] == bytes([2]) * 12
    assert table.count(where="price >= 3 AND day < '2024-01-15'") == 2
    assert table.to_arrow(where="id = 7", columns=["flag"]).to_pylist() == [{"flag": False}]
    table.write(table.to_arrow(where="id = 7").set_column(0, "id", pa.array([77])))
    theirs = json.loads(run_pypaimon(READ, warehouse, "theirs.t"))
    assert sorted(row["id"] for row in theirs) == [*range(20), 77]
