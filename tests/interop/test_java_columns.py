"""Tables that are read and not written here: row tracking, data evolution."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from storage import Catalog, Unsupported
from tests.interop.java_paimon import VERSION, JavaPaimon

pytestmark = pytest.mark.skipif(VERSION != "1.4.2", reason="older versions know less of these")
NAME = "m.t"
TRACKED = {"row-tracking.enabled": "true"}
EVOLVING = TRACKED | {"data-evolution.enabled": "true"}


def _held(table: pa.Table) -> list[tuple[Any, ...]]:
    return sorted((tuple(row.values()) for row in table.to_pylist()), key=repr)


def _write(
    java: JavaPaimon, warehouse: str, columns: list[str], rows: list[Any], first_row_id: int | None = None
) -> None:
    java.ask(warehouse, NAME, "write columns", columns=columns, rows=rows, first_row_id=first_row_id)


# --- row tracking, data evolution


def test_a_table_with_row_tracking_is_read(java: JavaPaimon, tmp_path: Path) -> None:
    warehouse = str(tmp_path)
    java.create(warehouse, NAME, {"id": "INT", "t": "STRING"}, options={"bucket": "-1", **TRACKED})
    for first in (0, 3):
        _write(java, warehouse, ["id", "t"], [[first + number, f"{number}"] for number in range(3)])
    ours = Catalog(warehouse).table(NAME)
    assert _held(ours.to_arrow()) == _held(java.read(warehouse, NAME))
    assert ours.scan(where="id > 3").to_arrow().num_rows == 2
    java.ask(warehouse, NAME, "compact", full=True)
    assert _held(ours.to_arrow()) == _held(java.read(warehouse, NAME))
    with pytest.raises(Unsupported, match=r"row-tracking\.enabled"):
        ours.write(pa.table({"id": pa.array([1], pa.int32()), "t": ["x"]}))


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_columns_of_the_same_rows_are_joined(java: JavaPaimon, tmp_path: Path, file_format: str) -> None:
    warehouse = str(tmp_path)
    fields: dict[str, Any] = {"id": "INT", "a": "STRING", "b": "BIGINT", "c": "STRING"}
    java.create(warehouse, NAME, fields, options={"bucket": "-1", "file.format": file_format, **EVOLVING})
    ours = Catalog(warehouse).table(NAME)
    many = 5000
    _write(java, warehouse, ["id", "a"], [[number, f"a{number}"] for number in range(many)])
    _write(java, warehouse, ["b"], [[10 * number] for number in range(many)], first_row_id=0)
    _write(java, warehouse, ["id", "a", "b", "c"], [[-1, "x", 1, "y"]])
    _write(java, warehouse, ["a"], [[f"later{number}"] for number in range(many)], first_row_id=0)

    def alike(**asked: Any) -> pa.Table:
        rows = ours.scan(**asked).to_arrow()
        assert _held(rows) == _held(
            java.read(warehouse, NAME).select(rows.column_names).cast(rows.schema)
        ) or asked.get("where")
        return rows

    assert alike().num_rows == many + 1 == ours.scan().count()
    for columns in (["id"], ["b", "id"], ["c"], ["a"]):
        alike(columns=columns)
    assert _held(alike(where="b = 70")) == [(7, "later7", 70, None)]
    assert _held(alike(where="a = 'a7'")) == []
    assert _held(alike(where="c = 'y'")) == [(-1, "x", 1, "y")]
    with pytest.raises(Unsupported, match="which rows a commit changed is not told"):
        ours.changes()
    with pytest.raises(Unsupported, match=r"data-evolution\.enabled"):
        ours.compact()


def test_files_without_row_ids_are_refused_by_name(java: JavaPaimon, tmp_path: Path) -> None:
    warehouse = str(tmp_path)
    Catalog(warehouse).create_table(NAME, pa.schema([("id", pa.int32())])).write(
        pa.table({"id": pa.array([1], pa.int32())})
    )
    path = Path(warehouse, "m.db", "t", "schema", "schema-0")
    document = json.loads(path.read_text())
    document.pop("snapline.crc32", None)
    document["options"] |= EVOLVING
    path.write_text(json.dumps(document))
    with pytest.raises(Unsupported, match="has no row ids"):
        Catalog(warehouse).table(NAME).to_arrow()
