"""Partition values of blanks: each writer finds the rows of the other, and what Java takes for no blank has its own directory."""

import pyarrow as pa
import pytest

from storage import Catalog
from tests.interop.java_paimon import JavaPaimon

FIELDS = {"p": "STRING", "k": "INT"}
SCHEMA = pa.schema([("p", pa.string()), ("k", pa.int32())])
# Python calls all of them blank, Java but for some; and three that only look so.
BLANKS = [*(code for code in range(1 << 16) if chr(code).isspace()), 0x180E, 0x200B, 0xFEFF]
pytestmark = pytest.mark.pypaimon_differs("It gives blanks directories of their own.")


def test_blanks_are_found_by_both(java: JavaPaimon, catalog: Catalog) -> None:
    for name in ("d.ours", "d.java"):
        java.create(catalog.warehouse, name, FIELDS, partition_by=["p"])
    rows = pa.table({"p": [chr(code) for code in BLANKS], "k": BLANKS}, SCHEMA)
    ours, theirs = catalog.table("d.ours"), catalog.table("d.java")
    ours.write(rows)
    java.write(catalog.warehouse, "d.java", rows, theirs.schema.fields)
    for table, name in ((ours, "d.ours"), (theirs, "d.java")):
        for read in (table.to_arrow(), java.read(catalog.warehouse, name)):
            assert sorted(zip(read["k"].to_pylist(), map(ord, read["p"].to_pylist()), strict=True)) == [
                (code, code) for code in sorted(BLANKS)
            ]
        assert table.check(deep=True) == []
