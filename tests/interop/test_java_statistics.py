"""Statistics of tables, as ANALYZE writes them, read by Paimon's Java library."""

import json

import pyarrow as pa

from storage import Catalog
from storage.engines.duckdb_statistics import analyze
from tests.interop.java_paimon import JavaPaimon

SCHEMA = pa.schema(
    [
        ("i", pa.int32()),
        ("l", pa.int64()),
        ("s", pa.string()),
        ("d", pa.decimal128(20, 2)),
        ("f", pa.float64()),
        ("b", pa.bool_()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us")),
        ("bytes", pa.binary()),
        ("many", pa.list_(pa.int32())),
        ("empty", pa.int32()),
    ]
)


def test_java_reads_the_statistics_of_a_table(java: JavaPaimon, catalog: Catalog) -> None:
    table = catalog.create_table("shop.t", SCHEMA)
    texts = {
        "i": [3, 7],
        "l": [2**40, None],
        "s": ["ab", "abcdef"],
        "d": ["1.50", "-2.25"],
        "f": ["1.5", "inf"],
        "b": [True, True],
        "day": [0, 19_000],
        "at": [1_500_000, 86_400_000_000],
        "bytes": [b"x", b"xyz"],
        "many": [[1], []],
        "empty": [None, None],
    }
    columns = [
        pa.array(values).cast(SCHEMA.field(name).type)
        if isinstance(values[0], str) and name != "s"
        else pa.array(values, SCHEMA.field(name).type)
        for name, values in texts.items()
    ]
    table.write(pa.Table.from_arrays(columns, schema=SCHEMA))
    made = analyze(table, None)
    assert made is not None and made.commit_kind == "ANALYZE"
    (row,) = java.read(catalog.warehouse, "shop.t$statistics").to_pylist()
    (own,) = catalog.table("shop.t").system_table("statistics").to_pylist()
    column_statistics = json.loads(row["colstat"])
    assert (row["snapshot_id"], row["schema_id"], row["mergedRecordCount"]) == (1, 0, 2)
    assert row["mergedRecordSize"] == own["mergedRecordSize"] > 0
    assert {
        name: (figures.get("min"), figures.get("max"), figures["nullCount"])
        for name, figures in column_statistics.items()
    } == {
        "i": ("3", "7", 0),
        "l": (str(2**40), str(2**40), 1),
        "s": (None, None, 0),
        "d": ("-2.25", "1.50", 0),
        "f": ("1.5", "Infinity", 0),
        "b": ("true", "true", 0),
        "day": ("0", "19000", 0),
        "at": ("1970-01-01 00:00:01.500000", "1970-01-02 00:00:00.000000", 0),
        "bytes": (None, None, 0),
        "empty": (None, None, 2),
    }
    assert (
        column_statistics["s"]["avgLen"] == 4
        and column_statistics["s"]["maxLen"] == 6
        and column_statistics["d"]["maxLen"] == 16
    )
    assert column_statistics["i"]["distinctCount"] == 2 and column_statistics["b"]["distinctCount"] == 1
    # What follows keeps them, until the columns change.
    java.write(catalog.warehouse, "shop.t", catalog.table("shop.t").to_arrow().slice(0, 1), table.schema.fields)
    table = catalog.table("shop.t")
    assert table.store.snapshots.latest().statistics == made.statistics
    table.write(table.to_arrow().slice(0, 1))
    assert len(java.read(catalog.warehouse, "shop.t$statistics").to_pylist()) == 1
    assert table.check(deep=True) == []
