"""Columns and tables that are read and not written here: VARIANT, row tracking, data evolution."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from storage import Catalog, Table, Unsupported
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


# --- variants


@pytest.fixture
def variants(java: JavaPaimon, tmp_path: Path) -> Table:
    fields: dict[str, Any] = {"id": "INT NOT NULL", "v": "VARIANT", "t": "STRING"}
    java.create(str(tmp_path), NAME, fields, options={"bucket": "-1"})
    java.ask(
        str(tmp_path),
        NAME,
        "write",
        rows=[[1, '{"a": [1, "x"]}', "one"], [2, None, "two"], [3, "7", None]],
        kinds=["+I"] * 3,
    )
    return Catalog(str(tmp_path)).table(NAME)


@pytest.mark.pypaimon_differs("It does not know the type.")
@pytest.mark.java_differs("Its variants are compared below.")
def test_a_variant_is_read_as_its_bytes_and_other_columns_as_they_are(variants: Table) -> None:
    assert _held(variants.scan(columns=["id", "t"], where="id < 3").to_arrow()) == [(1, "one"), (2, "two")]
    rows = variants.to_arrow()
    assert rows.schema.field("v").type == pa.struct(
        [pa.field("value", pa.binary(), nullable=False), pa.field("metadata", pa.binary(), nullable=False)]
    )
    assert [row is None for row in rows["v"].to_pylist()] == [False, True, False]
    first = rows["v"][0].as_py()
    assert b"a" in first["metadata"]
    assert b"x" in first["value"]
    assert variants.scan(where="v IS NULL").to_arrow()["id"].to_pylist() == [2]
    with pytest.raises(Unsupported, match="Column 'v' is of type VARIANT, which is read and not written"):
        variants.write(rows)
    with pytest.raises(Unsupported, match="Column 'v' is of type VARIANT"):
        variants.compact()


@pytest.mark.pypaimon_differs("It does not know the type.")
def test_a_variant_in_parts_is_refused_and_not_its_table(java: JavaPaimon, tmp_path: Path) -> None:
    fields: dict[str, Any] = {"id": "INT NOT NULL", "v": "VARIANT"}
    inner = {"type": "ROW", "fields": [{"id": 1, "name": "a", "type": "INT"}]}
    shredding = json.dumps({"type": "ROW", "fields": [{"id": 0, "name": "v", "type": inner}]})
    options = {"bucket": "-1", "parquet.variant.shreddingSchema": shredding}
    java.create(str(tmp_path), NAME, fields, options=options)
    java.ask(str(tmp_path), NAME, "write", rows=[[1, '{"a": 5, "b": 6}']], kinds=["+I"])
    table = Catalog(str(tmp_path)).table(NAME)
    assert table.scan(columns=["id"]).to_arrow().num_rows == 1
    with pytest.raises(Unsupported, match="Column 'v' holds variants that are shredded"):
        table.to_arrow()


def test_a_variant_is_not_created(catalog: Catalog) -> None:
    from storage.data_types import DataField, DataType, parse_type

    fields = [DataField(0, "id", parse_type("INT")), DataField(1, "v", DataType("VARIANT"))]
    with pytest.raises(Unsupported, match="Column 'v' is of type VARIANT"):
        catalog.create_table(NAME, fields)


# --- row tracking, data evolution


def test_a_table_with_row_tracking_is_read(java: JavaPaimon, tmp_path: Path) -> None:
    warehouse = str(tmp_path)
    java.create(warehouse, NAME, {"id": "INT", "t": "STRING"}, options={"bucket": "-1", **TRACKED})
    for first in (0, 3):
        _write(java, warehouse, ["id", "t"], [[first + one, f"{one}"] for one in range(3)])
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
    _write(java, warehouse, ["id", "a"], [[one, f"a{one}"] for one in range(many)])
    _write(java, warehouse, ["b"], [[10 * one] for one in range(many)], first_row_id=0)
    _write(java, warehouse, ["id", "a", "b", "c"], [[-1, "x", 1, "y"]])
    _write(java, warehouse, ["a"], [[f"later{one}"] for one in range(many)], first_row_id=0)

    def alike(**asked: Any) -> pa.Table:
        found = ours.scan(**asked).to_arrow()
        assert _held(found) == _held(
            java.read(warehouse, NAME).select(found.column_names).cast(found.schema)
        ) or asked.get("where")
        return found

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
