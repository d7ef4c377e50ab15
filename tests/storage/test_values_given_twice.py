"""What a schema's file holds twice, and spans of changes that end before they begin, are refused."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from storage import Catalog, CorruptData, InvalidRequest
from storage.document import CHECKSUM


@pytest.mark.parametrize("twice", ["id", "name", "primaryKeys", "partitionKeys"])
def test_a_schema_with_something_twice_is_damaged(tmp_path: Path, twice: str) -> None:
    columns = pa.schema([("p", pa.string()), ("k", pa.int64()), ("v", pa.string())])
    catalog = Catalog(str(tmp_path))
    catalog.create_table("a.t", columns, primary_key=["p", "k"], partition_by=["p"]).write(
        pa.table({"p": ["x"], "k": [1], "v": ["y"]})
    )
    path = tmp_path / "a.db" / "t" / "schema" / "schema-0"
    value: dict[str, Any] = json.loads(path.read_text())
    if twice in ("id", "name"):
        value["fields"][2][twice] = value["fields"][0][twice]
    else:
        value[twice] = [*value[twice], value[twice][0]]
    # As another writer leaves it, without a checksum.
    path.write_text(json.dumps({key: part for key, part in value.items() if key != CHECKSUM}))
    with pytest.raises(CorruptData, match="more than once"):
        Catalog(str(tmp_path)).table("a.t").to_arrow()


def test_changes_up_to_an_earlier_snapshot_are_refused(catalog: Catalog) -> None:
    table = catalog.create_table("a.t", pa.schema([("k", pa.int64())]))
    for number in (1, 2):
        table.write(pa.table({"k": [number]}))
    with pytest.raises(InvalidRequest, match="Snapshot 1 comes before snapshot 2"):
        table.changes(2, 1)
    assert table.changes(2, 2).num_rows == table.changes(2).num_rows == 0
    assert table.changes(1, 2).num_rows == 1
