"""Tables that Java partitions by FLOAT and DOUBLE are read, and written where every version of Java finds the rows."""

from pathlib import Path

import pyarrow as pa
import pytest

from storage import Catalog, Table, Unsupported
from storage.data_types import parse_type
from tests.interop.java_paimon import JavaPaimon

NAME = "d.t"
FIELDS = {"id": parse_type("INT"), "d": parse_type("DOUBLE"), "f": parse_type("FLOAT")}
SCHEMA = pa.schema([pa.field(name, kind.to_arrow()) for name, kind in FIELDS.items()])
# Of each pair, Java writes one in other digits than the shortest: of some by every version, of others by those before 19.
NUMBERS = [(5e-324, 1.5), (1e23, 1e-45), (2.0, -4.0198997e17), (0.1, 1e10), (None, 0.25), (float("nan"), None)]
pytestmark = pytest.mark.pypaimon_differs("It looks for directories by Python's digits.")


def rows_of(first: int, numbers: list[tuple[float | None, float | None]]) -> pa.Table:
    rows = [{"id": first + place, "d": d, "f": f} for place, (d, f) in enumerate(numbers)]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def by_java(java: JavaPaimon, catalog: Catalog) -> Table:
    java.create(catalog.warehouse, NAME, FIELDS, partition_by=["d", "f"])
    table = catalog.table(NAME)
    java.write(catalog.warehouse, NAME, rows_of(0, NUMBERS), table.schema.fields)
    return table


def ids(rows: pa.Table) -> list[int]:
    return sorted(rows.column("id").to_pylist())


def test_partitions_of_java_are_found_whatever_their_digits(java: JavaPaimon, catalog: Catalog) -> None:
    table = by_java(java, catalog)
    assert ids(table.to_arrow()) == list(range(6))
    assert ids(table.to_arrow(where="d = 1e23")) == [1]
    assert table.check(deep=True) == []
    table.write(rows_of(10, NUMBERS))
    table.write(rows_of(20, [(3.0, -0.125)]))
    assert ids(java.read(catalog.warehouse, NAME)) == [*range(6), *range(10, 16), 20] == ids(table.to_arrow())
    table.compact()
    table.delete("d = 0.1")
    assert ids(java.read(catalog.warehouse, NAME)) == [0, 1, 2, 4, 5, 10, 11, 12, 14, 15, 20] == ids(table.to_arrow())


def test_no_directory_is_made_that_java_may_not_find(java: JavaPaimon, catalog: Catalog) -> None:
    table = by_java(java, catalog)
    for number in (0.3, 1e30, 123456.5):
        with pytest.raises(Unsupported, match="is new, and no version of Java can be sure"):
            table.write(rows_of(10, [(number, 1.0)]))
    assert ids(table.to_arrow()) == list(range(6))


def test_a_number_with_two_directories_is_named(java: JavaPaimon, catalog: Catalog) -> None:
    table = by_java(java, catalog)
    (Path(table.store.paths.root) / "d=5.0E-324").mkdir()
    with pytest.raises(Unsupported, match=r"d = 5e-324 has several directories .*d=4.9E-324, d=5.0E-324"):
        table.to_arrow()
    (Path(table.store.paths.root) / "d=5.0E-324").rmdir()


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()], ids=str)
def test_no_table_is_made_with_such_partitions(catalog: Catalog, kind: pa.DataType) -> None:
    with pytest.raises(
        Unsupported, match=r"Partition column 'v' has type .*depends on the version of Java. Use DECIMAL"
    ):
        catalog.create_table(NAME, pa.schema([("id", pa.int64()), ("v", kind)]), partition_by=["v"])


def test_a_partition_is_found_by_its_value_whatever_its_files_say(java: JavaPaimon, catalog: Catalog) -> None:
    # Java writes times of the last second before 1970 into ORC as ones of the second after.
    java.create(
        catalog.warehouse,
        "d.t",
        {"k": "INT", "p": "TIMESTAMP(3)"},
        partition_by=["p"],
        options={"bucket": "-1", "file.format": "orc"},
    )
    table = catalog.table("d.t")
    moment = pa.array([-1, 5], pa.timestamp("ms"))
    java.write(
        catalog.warehouse, "d.t", pa.table({"k": pa.array([1, 2], pa.int32()), "p": moment}), table.schema.fields
    )
    assert table.to_arrow(where="p = '1969-12-31 23:59:59.999'", columns=["k"]).to_pylist() == [{"k": 1}]
    assert table.to_arrow(where="p < '1970-01-01 00:00:00.004'", columns=["k"]).to_pylist() == [{"k": 1}]
