"""Tables whose data files lie in a directory of their own inside of the table's (`data-file.path-directory`)."""

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pytest

from storage import Catalog, InvalidRequest, SetOptions, Table
from tests.interop.java_paimon import JavaPaimon, since_1_3
from tests.interop.second_reader import counted

SCHEMA = pa.schema([pa.field("day", pa.string(), False), pa.field("id", pa.int32(), False), ("n", pa.int64())])
DIRECTORY = "some/data"


def rows(first: int) -> pa.Table:
    return pa.table({"day": ["x", "x", "y"], "id": [first, first + 1, first + 2], "n": [1, None, 3]}, SCHEMA)


@pytest.fixture(params=["keyed", "plain"])
def table(request: pytest.FixtureRequest, java: JavaPaimon, catalog: Catalog) -> Table:
    options = {"data-file.path-directory": DIRECTORY, **({"bucket": "1"} if request.param == "keyed" else {})}
    java.create(
        catalog.warehouse,
        "d.t",
        {"day": "STRING NOT NULL", "id": "INT NOT NULL", "n": "BIGINT"},
        primary_key=["day", "id"] if request.param == "keyed" else [],
        partition_by=["day"],
        options=options,
    )
    return catalog.table("d.t")


def data_directories(table: Table) -> set[str]:
    root = Path(table.store.paths.root)
    return {str(path.parent.relative_to(root)) for path in root.rglob("*.parquet")}


@since_1_3
def test_both_read_and_compact_what_either_has_written(java: JavaPaimon, catalog: Catalog, table: Table) -> None:
    java.write(catalog.warehouse, "d.t", rows(0), table.schema.fields)
    table.write(rows(2))
    assert data_directories(table) == {f"{DIRECTORY}/day={day}/bucket-0" for day in "xy"}
    assert all(f"/{DIRECTORY}/day=" in path for path in table.system_table("files")["file_path"].to_pylist())
    java.ask(catalog.warehouse, "d.t", "compact", full=True)
    table.write(rows(4))
    table.compact()
    assert counted(java.read(catalog.warehouse, "d.t"), "us") == counted(table.to_arrow(), "us")
    assert table.to_arrow(where="day = 'x' AND id = 4")["n"].to_pylist() == [1] * table.count(
        where="id = 4 AND day = 'x'"
    )
    assert table.check(deep=True) == []


def test_files_are_cleaned_and_branched_where_they_are(table: Table) -> None:
    table.write(rows(0))
    table.branches.create("b")
    table.on_branch("b").write(rows(10))
    root = Path(table.store.paths.root)
    orphan = root / DIRECTORY / "day=x" / "bucket-0" / "data-nobody-0.parquet"
    orphan.write_bytes(b"nothing")
    table.remove_orphan_files(older_than=dt.timedelta(0), no_writers=True)
    assert not orphan.exists()
    table.branches.delete("b")
    table.overwrite(rows(20))
    table.expire(retain_last=1)
    assert len(list(root.rglob("*.parquet"))) == 2
    assert table.check(deep=True) == []


@pytest.mark.parametrize("value", ["../out", "/abs", "a//b", "snapshot", "bucket-0/x", ".hidden", "a\\b"])
def test_directories_outside_or_of_others_are_refused(catalog: Catalog, value: str) -> None:
    with pytest.raises(InvalidRequest, match="path-directory"):
        catalog.create_table("d.t", SCHEMA, options={"data-file.path-directory": value})


def test_the_directory_of_a_table_with_rows_stays(table: Table) -> None:
    table.write(rows(0))
    with pytest.raises(InvalidRequest, match="path-directory"):
        table.alter(SetOptions({"data-file.path-directory": "other"}))
