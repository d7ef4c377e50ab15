"""What Java overwrites, as readers of changes see it; and partitions in its system table."""

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

from storage import Catalog
from tests.interop.java_paimon import JavaPaimon, since_1_3

SCHEMA = pa.schema([pa.field("k", pa.int32(), False), pa.field("v", pa.int64())])


@since_1_3
@pytest.mark.pypaimon_differs("It does not look up.")
@pytest.mark.parametrize(
    "options",
    [
        {"changelog-producer": "lookup"},
        {"changelog-producer": "lookup", "deletion-vectors.enabled": "true"},
        {"changelog-producer": "full-compaction"},
    ],
    ids=["lookup", "lookup with vectors", "full-compaction"],
)
def test_a_copy_kept_by_changes_has_what_java_overwrites(
    options: dict[str, str], java: JavaPaimon, catalog: Catalog
) -> None:
    """Java lifts the rows of an overwrite by a compaction that has no changelog."""
    table = catalog.create_table("shop.t", SCHEMA, primary_key=["k"], options={"bucket": "2", **options})
    table.write(pa.table({"k": [1, 2, 3], "v": [1, 2, 3]}, schema=SCHEMA))
    table.compact()
    stream, copy = table.follow(), {}

    def follow() -> dict[int, int]:
        for step in stream:
            for row in step.rows.to_pylist():
                if row["rowkind"].startswith("-"):
                    assert copy.pop(row["k"]) == row["v"]
                else:
                    assert row["k"] not in copy
                    copy[row["k"]] = row["v"]
        return copy

    assert follow() == {1: 1, 2: 2, 3: 3}
    came = pa.table({"k": [1, 2, 4], "v": [1, 22, 4]}, schema=SCHEMA)
    java.write(catalog.warehouse, "shop.t", came, table.schema.fields, overwrite={})
    follow()
    table = catalog.table("shop.t")
    table.compact()
    assert follow() == {row["k"]: row["v"] for row in table.to_arrow().to_pylist()}
    assert len(copy) == 3


@since_1_3
def test_partitions_are_named_as_in_javas_system_table(java: JavaPaimon, catalog: Catalog) -> None:
    schema = pa.schema(
        [("d", pa.date32()), ("s", pa.string()), ("b", pa.bool_()), ("m", pa.decimal128(5, 2)), ("k", pa.int32())]
    )
    table = catalog.create_table("shop.t", schema, partition_by=["d", "s", "b", "m"])
    columns = [
        [dt.date(2024, 5, 14), None, dt.date(1969, 5, 14)],
        ["a/b=c", None, " "],
        [True, None, False],
        [Decimal("1.50"), None, Decimal("-2.00")],
        [1, 2, 3],
    ]
    table.write(pa.table(columns, schema=schema))
    texts = table.system_table("partitions")["partition"].to_pylist()
    assert texts == sorted(java.read(catalog.warehouse, "shop.t$partitions")["partition"].to_pylist())
    assert "d=2024-05-14/s=a/b=c/b=true/m=1.50" in texts
    day = table.system_table("partitions", partition={"d": "2024-05-14", "s": "a/b=c"})
    assert day["partition"].to_pylist() == ["d=2024-05-14/s=a/b=c/b=true/m=1.50"]
