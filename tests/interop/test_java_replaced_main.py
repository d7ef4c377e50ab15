"""A main that was replaced with a branch: Java finds the branch under the plain name, and neither creates over it nor reads
what was main.
"""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from storage import AddColumn, Catalog, CorruptData, SetOptions
from storage.data_types import parse_type
from tests.interop.java_paimon import JavaPaimon
from tests.interop.second_reader import SecondReader

FIELDS: dict[str, Any] = {"id": "INT NOT NULL", "n": "INT"}
SCHEMA = pa.schema([("id", pa.int32()), ("n", pa.int32())])
NAME = "m.orders"


def _rows(*pairs: tuple[int, int]) -> pa.Table:
    return pa.Table.from_pylist([{"id": key, "n": value} for key, value in pairs], SCHEMA)


def _held(table: pa.Table) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in table.to_pylist())


@pytest.fixture
def warehouse(tmp_path: Path) -> str:
    """With a table of which branch b became main: row 1 is main's, 2 the branch's."""
    table = Catalog(str(tmp_path)).create_table(NAME, SCHEMA, primary_key=["id"], options={"bucket": "1"})
    table.write(_rows((1, 1)))
    table.branches.create("b")
    Catalog(str(tmp_path)).table(f"{NAME}$branch_b").write(_rows((2, 2)))
    table.branches.replace_main("b")
    return str(tmp_path)


def test_a_statement_that_creates_a_table_if_it_is_not_there_finds_the_new_main(
    warehouse: str, java: JavaPaimon
) -> None:
    with pytest.raises(RuntimeError, match="already exists"):
        java.create(warehouse, NAME, FIELDS, primary_key=["id"])
    java.create(warehouse, NAME, FIELDS, primary_key=["id"], if_not_exists=True)
    assert _held(java.read(warehouse, NAME)) == [(1, 1), (2, 2)]
    java.write(warehouse, NAME, _rows((3, 3)), Catalog(warehouse).table(NAME).schema.fields)
    expected = [(1, 1), (2, 2), (3, 3)]
    assert _held(Catalog(warehouse).table(NAME).to_arrow()) == expected
    assert _held(java.read(warehouse, f"{NAME}$branch_b")) == _held(java.read(warehouse, NAME)) == expected
    java.ask(warehouse, NAME, "compact", full=True)
    assert _held(Catalog(warehouse).table(NAME).to_arrow()) == expected
    assert not Catalog(warehouse).table(NAME).check(deep=True)


def test_changes_of_the_schema_are_seen_by_both(warehouse: str, java: JavaPaimon) -> None:
    Catalog(warehouse).table(NAME).alter(AddColumn("t", pa.string()))
    assert _held(java.read(warehouse, NAME)) == [(1, 1, None), (2, 2, None)]
    java.ask(warehouse, NAME, "change type", column="n", type="BIGINT")
    ours = Catalog(warehouse).table(NAME)
    assert ours.schema.field("n").type == parse_type("BIGINT")
    assert "branch" not in ours.schema.options
    rows = pa.table({"id": pa.array([4], pa.int32()), "n": [1 << 40], "t": ["x"]})
    java.write(warehouse, NAME, rows, ours.schema.fields)
    expected = [(1, 1, None), (2, 2, None), (4, 1 << 40, "x")]
    assert _held(ours.to_arrow()) == _held(java.read(warehouse, f"{NAME}$branch_b")) == expected
    ours.alter(SetOptions({"write-only": "true"}))
    assert _held(java.read(warehouse, NAME)) == expected


def test_a_main_that_is_replaced_again_is_found(warehouse: str, java: JavaPaimon) -> None:
    table = Catalog(warehouse).table(NAME)
    table.branches.create("c")
    Catalog(warehouse).table(f"{NAME}$branch_c").write(_rows((5, 5)))
    table.branches.replace_main("c")
    assert _held(java.read(warehouse, NAME)) == [(1, 1), (2, 2), (5, 5)]
    schemas = Path(warehouse, "m.db", "orders", "schema")
    assert [path.name for path in schemas.iterdir()] == [f"schema-{Catalog(warehouse).table(NAME).schema.id}"]


def test_a_table_that_is_renamed_or_made_anew_is_found(warehouse: str, java: JavaPaimon) -> None:
    catalog = Catalog(warehouse)
    catalog.rename_table(NAME, "m.other")
    assert _held(java.read(warehouse, "m.other")) == [(1, 1), (2, 2)]
    catalog.drop_table("m.other")
    catalog.create_table("m.other", SCHEMA, primary_key=["id"]).write(_rows((7, 7)))
    assert _held(java.read(warehouse, "m.other")) == [(7, 7)]


def test_pypaimon_refuses_the_plain_name_and_reads_the_branch(
    warehouse: str, second_readers: list[SecondReader]
) -> None:
    for reader in second_readers:
        if reader.name == "pypaimon":
            with pytest.raises(RuntimeError):
                reader.read(warehouse, NAME)
            assert _held(reader.read(warehouse, f"{NAME}$branch_b")) == [(1, 1), (2, 2)]


def test_a_lost_name_of_main_is_told_by_the_schema(warehouse: str) -> None:
    Path(warehouse, "m.db", "orders", "MAIN-BRANCH").unlink()
    with pytest.raises(CorruptData, match=r"MAIN-BRANCH is lost.*branch 'b' is main"):
        Catalog(warehouse).table(NAME)
