"""How many rows a table has: from metadata where they tell, never the records of its files where these are more."""

import pyarrow as pa
import pytest

from storage import Catalog, Table

SCHEMA = pa.schema([("id", pa.int64()), ("n", pa.int64())])


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids), "n": [1] * len(ids)}, schema=SCHEMA)


def records(table: Table) -> int:
    snapshot = table.snapshot()
    assert snapshot is not None
    return snapshot.total_record_count


def test_a_table_without_rows_has_none(catalog: Catalog) -> None:
    assert catalog.create_table("a.t", SCHEMA).row_count() == 0


def test_metadata_tell_the_rows_of_a_table_without_a_key(catalog: Catalog) -> None:
    table = catalog.create_table("a.t", SCHEMA)
    table.write(rows(1, 2, 3))
    table.delete("id = 2")
    assert table.row_count() == table.count() == 2
    assert table.row_count(1) == 3


@pytest.mark.parametrize("options", [{"bucket": 1}, {"bucket": 2}, {"bucket": -1}])
def test_metadata_tell_the_rows_of_a_table_with_a_key_once_its_files_are_merged(
    catalog: Catalog, options: dict[str, int]
) -> None:
    table = catalog.create_table("a.t", SCHEMA, primary_key=["id"], options={**options, "write-only": True})
    table.write(rows(1, 2, 3))
    table.write(rows(2, 3))
    table.delete("id = 1")
    assert (table.row_count(), table.row_count(reads=True), table.count()) == (None, 2, 2)
    assert records(table) > 2
    table.compact(full=True)
    assert (table.row_count(), table.row_count(reads=True), records(table)) == (2, 2, 2)
    table.write(rows(2))
    assert table.row_count() is None


@pytest.mark.parametrize("key", [(), ("id",)])
def test_metadata_tell_the_rows_beside_those_marked_as_deleted(catalog: Catalog, key: tuple[str, ...]) -> None:
    options = {"deletion-vectors.enabled": True, "bucket": 1 if key else -1}
    table = catalog.create_table("a.t", SCHEMA, primary_key=key, options=options)
    table.write(rows(1, 2, 3))
    table.delete("id = 2")
    assert table.row_count() == table.count() == 2
    assert records(table) > 2


def test_a_table_and_a_partition_say_how_many_rows_they_have(catalog: Catalog) -> None:
    options = {"bucket": 1, "write-only": True}
    table = catalog.create_table("a.t", SCHEMA, primary_key=["id", "n"], partition_by=["n"], options=options)
    table.write(rows(1, 2))
    table.write(rows(2))
    assert table.describe()["row-count"] == table.describe({"n": 1})["row-count"] == "at most 3"
    assert table.describe(counts=True)["row-count"] == table.describe({"n": 1}, counts=True)["row-count"] == 2
    table.compact(full=True)
    assert table.describe()["row-count"] == table.describe({"n": 1})["row-count"] == 2
    assert table.describe()["record-count-unmerged"] == 2
