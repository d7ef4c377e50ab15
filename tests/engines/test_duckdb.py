"""DuckDB views of tables, and DuckDB as a second opinion on what Arrow reads."""

import random
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from storage import AddColumn, Catalog, DropColumn, RenameColumn, Table, parse_type
from storage.engines.duckdb_compare import compare, count_changes
from storage.engines.duckdb_views import add_scan


@pytest.fixture
def busy(catalog: Catalog) -> Table:
    """Partitions that need a merge and partitions that need none, deletes among them."""
    schema = pa.schema(
        [("day", pa.string()), ("id", pa.int64()), ("amount", pa.decimal128(12, 2)), ("what", pa.string())]
    )
    table = catalog.create_table("a.b", schema, primary_key=["day", "id"], partition_by=["day"], options={"bucket": 2})
    chance = random.Random(7)
    for round_number in range(4):
        rows = [
            {
                "day": chance.choice("xyz"),
                "id": chance.randrange(200),
                "amount": chance.randrange(1000),
                "what": f"r{round_number}",
            }
            for _ in range(300)
        ]
        if round_number == 2:
            rows = [row | {"day": "x"} for row in rows]
        kinds = pa.array([chance.choice(["+I", "-D"]) for _ in rows])
        table.write(pa.Table.from_pylist(rows).append_column("op", kinds), row_kind_column="op")
    table.overwrite(pa.table({"id": [1, 2], "amount": [1, 2], "what": ["only", "two"]}), partition={"day": "z"})
    return table


def ask(table: Table, sql: str) -> list[tuple[object, ...]]:
    connection = duckdb.connect()
    add_scan(connection, "a", "b", table.scan())
    return connection.execute(sql).fetchall()


@pytest.mark.parametrize(
    ("sql", "where", "columns"),
    [
        ("SELECT * FROM a.b", None, None),
        ("SELECT id, day FROM a.b WHERE what = 'r3'", "what = 'r3'", ["id", "day"]),
        ("SELECT what FROM a.b WHERE day = 'x' AND id < 50", "day = 'x' AND id < 50", ["what"]),
        ("SELECT id FROM a.b WHERE amount >= 500 OR what IS NULL", "amount >= 500 OR what IS NULL", ["id"]),
        ("SELECT id FROM a.b WHERE NOT (day = 'y' OR id IN (1, 2, 3))", "NOT (day = 'y' OR id IN (1, 2, 3))", ["id"]),
    ],
)
def test_duckdb_and_arrow_read_the_same(busy: Table, sql: str, where: str | None, columns: list[str] | None) -> None:
    rows = [tuple(row.values()) for row in busy.to_arrow(where=where, columns=columns).to_pylist()]
    assert sorted(ask(busy, sql), key=str) == sorted(rows, key=str)


def test_files_that_need_no_merge_are_left_to_duckdb(busy: Table, tmp_path: Path) -> None:
    connection = duckdb.connect()
    add_scan(connection, "a", "b", busy.scan())
    plan = connection.execute("EXPLAIN SELECT what FROM a.b").fetchall()[0][1]
    assert "READ_PARQUET" in plan.upper() or "PARQUET_SCAN" in plan.upper()


def test_files_with_marked_rows_are_read_by_the_store(catalog: Catalog) -> None:
    schema = pa.schema([("id", pa.int64()), ("v", pa.string())])
    options = {"bucket": 1, "deletion-vectors.enabled": True}
    table = catalog.create_table("a.marked", schema, primary_key=["id"], options=options)
    table.write(pa.table({"id": list(range(1000)), "v": ["old"] * 1000}, schema))
    table.write(pa.table({"id": [3, 2000], "v": ["new"] * 2}, schema))
    connection = duckdb.connect()
    paths = add_scan(connection, "a", "marked", table.scan())
    assert len(paths) == 1
    answer = connection.sql("SELECT count(*), sum(id), count(*) FILTER (v = 'new') FROM a.marked").fetchall()
    assert answer == [(1001, sum(range(1000)) + 2000, 2)]


def test_versions_are_compared_through_renames_and_whatever_columns_are_called(catalog: Catalog) -> None:
    schema = pa.schema([("difference", pa.string()), ("d0", pa.int64()), ("k0", pa.int64())])
    table = catalog.create_table("db.t", schema, primary_key=["difference"], options={"bucket": "1"})
    table.write(pa.table({"difference": ["x", "y"], "d0": [1, 2], "k0": [7, 7]}))
    # One gets the name that the other had.
    table = table.alter(RenameColumn("d0", "u"), RenameColumn("k0", "d0"))
    table.write(pa.table({"difference": ["x", "z"], "u": [2, 3], "d0": [7, 7]}))
    comparison = compare(table.at(1), table.at(2))
    assert comparison.describe() == (
        "1 rows added, 1 rows changed (u: 1), column d0 renamed to u, column k0 renamed to d0"
    )
    assert comparison.examples is not None
    assert [
        (row["difference_"], row["difference"], row["u before"], row["u after"])
        for row in comparison.examples.to_pylist()
    ] == [
        ("changed", "x", 1, 2),
        ("added", "z", None, 3),
    ]
    assert count_changes(table.at(1), table.at(2)) == [({}, (1, 1, 0))]
    renamed = table.alter(RenameColumn("difference", "name"))
    renamed.write(pa.table({"name": ["x"], "u": [2], "d0": [8]}))
    assert compare(renamed.at(1), renamed.at(3)).changed_columns == {"u": 1, "d0": 1}
    assert count_changes(renamed.at(1), renamed.at(3)) == [({}, (1, 1, 0))]
    # A value in a column that was not there is a change of its row; a null is none.
    added = renamed.alter(AddColumn("w", parse_type("STRING")))
    added.write(pa.table({"name": ["x", "y"], "u": [2, 2], "d0": [8, 7], "w": ["new", None]}))
    assert count_changes(renamed.at(3), added.at(4))[0][1][1:] == (1, 0)


def test_columns_of_branches_are_matched_by_field_id_unless_both_were_altered(catalog: Catalog) -> None:
    schema = pa.schema([("k", pa.int64()), ("v", pa.int64())])
    table = catalog.create_table("db.t", schema, primary_key=["k"], options={"bucket": "1"})
    table.write(pa.table({"k": [1, 2], "v": [1, 2]}))
    table.branches.create("b")
    table.on_branch("b").write(pa.table({"k": [1], "v": [-1]}))
    main = table.alter(RenameColumn("v", "u"), AddColumn("w", parse_type("STRING")))
    branch = table.on_branch("b")
    assert compare(main, branch).describe() == ("1 rows changed (v: 1), column w removed, column u renamed to v"), (
        "as the two are"
    )
    assert compare(main, branch.with_columns_of(main)).describe() == "1 rows changed (u: 1)", "as main will be"
    assert compare(branch, main.with_columns_of(branch)).columns_added == ("w",)
    # A column that was dropped and added again is another one.
    again = main.alter(DropColumn("u"), AddColumn("u", parse_type("BIGINT")))
    dropped = compare(table.at(1), again)
    assert (dropped.columns_removed, dropped.columns_added) == (("v",), ("w", "u"))
    assert compare(main.pinned(), again).describe() == "column u added, column u removed"
    assert count_changes(main.pinned(), again) == [({}, (0, 0, 0))]
    # The third column of both is another one on each side.
    other = branch.alter(AddColumn("x", parse_type("BIGINT")))
    assert other.with_columns_of(again) is other
    assert compare(other, again).columns_removed == ("v", "x")
