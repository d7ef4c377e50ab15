"""Columns of type VARIANT, written by one side and read, merged and compacted by the other."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.variant_utils import VariantUtils

from storage import Catalog, InvalidRequest, Table, Unsupported, is_variant
from storage.data_types import VARIANT, DataField, DataType, parse_type
from tests.interop.java_paimon import VERSION, JavaPaimon

pytestmark = [
    pytest.mark.skipif(VERSION != "1.4.2", reason="older versions have no variants"),
    pytest.mark.pypaimon_differs("It does not know the type."),
]
NAME = "m.t"
FIELDS: dict[str, Any] = {
    "id": "INT NOT NULL",
    "v": "VARIANT",
    "many": {"type": "ARRAY", "element": "VARIANT"},
    "within": {"type": "ROW", "fields": [{"id": 4, "name": "w", "type": "VARIANT NOT NULL"}]},
}
_OBJECT = '{"a": [1, "x"], "b": {"c": 2.5}}'
TEXTS = [_OBJECT, "7", '"é"', "true", "null", "[]", "{}", "12345678901", '{"long": "' + 300 * "y" + '"}']


@pytest.fixture(params=["appended", "keyed", "keyed with changes"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def _create(java: JavaPaimon, directory: Path, kind: str) -> Table:
    options = {"bucket": "-1"} if kind == "appended" else {"bucket": "1"}
    if kind == "keyed with changes":
        options["changelog-producer"] = "lookup"
    java.create(
        str(directory),
        NAME,
        {name: parse_type(of) for name, of in FIELDS.items()},
        options=options,
        primary_key=[] if kind == "appended" else ["id"],
    )
    return Catalog(str(directory)).table(NAME)


def _json(rows: pa.Table) -> list[tuple[Any, ...]]:
    """The rows, with variants as JSON."""

    def readable(value: Any) -> Any:
        if isinstance(value, dict) and value.keys() == {"value", "metadata"}:
            return json.loads(VariantUtils.to_json(value["value"], value["metadata"]))
        if isinstance(value, dict):
            return {name: readable(each) for name, each in value.items()}
        return [readable(each) for each in value] if isinstance(value, list) else value

    return sorted((tuple(readable(value) for value in row.values()) for row in rows.to_pylist()), key=repr)


def _java_writes(java: JavaPaimon, directory: Path, first: int = 0) -> list[tuple[Any, ...]]:
    rows: list[list[Any]] = [[first + number, text, [text, None], [text]] for number, text in enumerate(TEXTS)]
    rows.append([first + len(TEXTS), None, None, None])
    java.ask(str(directory), NAME, "write", rows=rows, kinds=["+I"] * len(rows))
    expected = [(first + number, json.loads(text)) for number, text in enumerate(TEXTS)]
    return [(id_, value, [value, None], {"w": value}) for id_, value in expected] + [
        (first + len(TEXTS), None, None, None)
    ]


def test_variants_go_from_java_to_here_and_back(java: JavaPaimon, tmp_path: Path, kind: str) -> None:
    ours = _create(java, tmp_path, kind)
    expected = _java_writes(java, tmp_path)
    rows = ours.to_arrow()
    assert is_variant(rows.schema.field("v").type)
    assert _json(rows) == sorted(expected, key=repr)
    # What is read is written again under other keys, merged and compacted by both in turn, and read by Java.
    ours.write(rows.set_column(0, "id", pa.array([row + 5 for row in rows["id"].to_pylist()], pa.int32())))
    later = [(row[0] + 5, *row[1:]) for row in expected]
    kept = [*expected, *later] if kind == "appended" else list({row[0]: row for row in [*expected, *later]}.values())
    for _ in range(2):
        assert _json(ours.to_arrow()) == _json(java.read(str(tmp_path), NAME)) == sorted(kept, key=repr)
        java.ask(str(tmp_path), NAME, "compact", full=True)
        ours.compact()
    assert ours.scan(where="v IS NULL").to_arrow().num_rows == sum(row[2] is None for row in kept)
    assert ours.check(deep=True) == []


def test_a_table_of_ours_is_written_by_java(java: JavaPaimon, tmp_path: Path, kind: str) -> None:
    fields = [DataField(number, name, parse_type(of)) for number, (name, of) in enumerate(FIELDS.items())]
    options: dict[str, Any] = {} if kind == "appended" else {"bucket": 1}
    if kind == "keyed with changes":
        options["changelog-producer"] = "lookup"
    ours = Catalog(str(tmp_path)).create_table(
        NAME, fields, primary_key=[] if kind == "appended" else ["id"], options=options
    )
    expected = [*_java_writes(java, tmp_path), *_java_writes(java, tmp_path, 100)]
    assert _json(ours.to_arrow()) == sorted(expected, key=repr)
    ours.compact()
    assert _json(java.read(str(tmp_path), NAME)) == sorted(expected, key=repr)
    assert ours.check(deep=True) == []


def test_a_variant_in_parts_is_refused_and_not_its_table(java: JavaPaimon, tmp_path: Path) -> None:
    inner = {"type": "ROW", "fields": [{"id": 1, "name": "a", "type": "INT"}]}
    shredding = json.dumps({"type": "ROW", "fields": [{"id": 0, "name": "v", "type": inner}]})
    options = {"bucket": "-1", "parquet.variant.shreddingSchema": shredding}
    java.create(str(tmp_path), NAME, {"id": "INT NOT NULL", "v": "VARIANT"}, options=options)
    java.ask(str(tmp_path), NAME, "write", rows=[[1, '{"a": 5, "b": 6}']], kinds=["+I"])
    table = Catalog(str(tmp_path)).table(NAME)
    assert table.scan(columns=["id"]).to_arrow().num_rows == 1
    with pytest.raises(Unsupported, match="Column 'v' holds variants that are shredded"):
        table.to_arrow()


@pytest.mark.parametrize("file_format", ["orc", "avro"])
def test_variants_are_kept_in_parquet_alone_as_java_keeps_them(
    java: JavaPaimon, catalog: Catalog, tmp_path: Path, file_format: str
) -> None:
    fields = [DataField(0, "id", parse_type("INT")), DataField(1, "v", DataType("VARIANT"))]
    with pytest.raises(Unsupported, match=f"Column 'v' has type VARIANT: .* files of {file_format}"):
        catalog.create_table(NAME, fields, options={"file.format": file_format})
    with pytest.raises(RuntimeError):
        java.create(
            str(tmp_path), NAME, {"id": "INT", "v": "VARIANT"}, options={"bucket": "-1", "file.format": file_format}
        )


@pytest.mark.parametrize(
    ("value", "names"),
    [(b"", b"\x01\x00\x00"), (b"\x0c\x05", b""), (b"\x0c\x05", b"\x02\x00\x00"), (None, b"\x01\x00\x00")],
)
def test_bytes_that_are_no_variant_are_not_written(catalog: Catalog, value: bytes | None, names: bytes) -> None:
    sound = {"value": b"\x0c\x05", "metadata": b"\x01\x00\x00"}
    rows = pa.table({"id": [1, 2, 3], "v": pa.array([sound, None, {"value": value, "metadata": names}], VARIANT)})
    table = catalog.create_table(NAME, rows.schema)
    with pytest.raises(InvalidRequest, match="v is a VARIANT; value 2 of 3 is none"):
        table.write(rows)
    table.write(rows.slice(0, 2))
    assert table.to_arrow()["v"].to_pylist() == [sound, None]
