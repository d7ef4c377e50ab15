"""Tables of Java that are not read here: whoever checks one is told so, and not that files of it are missing."""

import pyarrow as pa
import pytest

from storage import Catalog, Unsupported
from storage.data_types import parse_type
from tests.interop.java_paimon import JavaPaimon

FIELDS = {"id": parse_type("INT NOT NULL"), "v": parse_type("STRING")}


def test_check_says_what_is_not_read_here(java: JavaPaimon, catalog: Catalog) -> None:
    options = {"index-file-in-data-file-dir": "TRUE", "deletion-vectors.enabled": "true", "bucket": "1"}
    java.create(catalog.warehouse, "d.t", FIELDS, primary_key=["id"], options=options)
    table = catalog.table("d.t")
    for value in ("a", "b"):
        rows = pa.Table.from_pylist([{"id": 1, "v": value}], schema=table.schema.to_arrow())
        java.write(catalog.warehouse, "d.t", rows, table.schema.fields)
    with pytest.raises(Unsupported, match="'index-file-in-data-file-dir' = 'true', with which it cannot be read here"):
        table.to_arrow()
    [problem] = table.check(deep=True)
    assert "with which it cannot be read here" in problem.what
    assert java.read(catalog.warehouse, "d.t").column("v").to_pylist() == ["b"]
