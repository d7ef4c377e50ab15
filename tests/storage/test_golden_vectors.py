"""Bytes and texts against what Java Paimon and pypaimon made of the same values."""

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from storage import DataField, InvalidRequest, parse_type
from storage.data_types import DataType
from storage.format.binary_row import buckets_of, decode, encode, hash_rows
from storage.options import TableOptions
from storage.paths import partition_path
from storage.values import to_arrow

FIXTURES = Path(__file__).parent.parent / "fixtures" / "paimon"


def vectors(name: str) -> list[dict[str, Any]]:
    cases = json.loads((FIXTURES / name).read_text())
    assert isinstance(cases, list)
    return cases


def value(data_type: DataType, given: Any) -> Any:
    if given is None:
        return None
    if data_type.is_timestamp:
        return given["millis"] * 10**6 + given["nanos"]
    if data_type.is_bytes:
        return bytes.fromhex(given)
    return Decimal(given) if data_type.root == "DECIMAL" else given


def typed(case: dict[str, Any]) -> tuple[list[DataType], list[Any]]:
    types = [parse_type(text) for text in case["types"]]
    return types, [value(kind, field_value) for kind, field_value in zip(types, case["values"], strict=True)]


@pytest.mark.parametrize("case", vectors("binary_rows.json"), ids=str)
def test_a_row_has_the_bytes_that_java_writes_and_is_read_back(case: dict[str, Any]) -> None:
    types, values = typed(case)
    assert encode(types, values).hex() == case["hex"]
    for spelling in ("hex", "hex_pypaimon"):
        if spelling in case:
            assert list(decode(bytes.fromhex(case[spelling]), types)) == values


@pytest.mark.parametrize("case", [case for case in vectors("binary_rows.json") if case["types"]], ids=str)
def test_a_row_hashes_as_in_java(case: dict[str, Any]) -> None:
    types, values = typed(case)
    columns = [to_arrow([field_value], kind) for kind, field_value in zip(types, values, strict=True)]
    assert hash_rows(columns, types).tolist() == [case["hash"]]


def test_rows_go_to_the_buckets_that_java_picks_however_many_are_hashed_at_once() -> None:
    groups: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for case in vectors("bucket_hashes.json"):
        groups.setdefault(tuple(case["types"]), []).append(case)
    for names, cases in groups.items():
        types = [parse_type(name) for name in names]
        rows = [typed(case)[1] for case in cases]
        columns = [to_arrow([row[index] for row in rows], kind) for index, kind in enumerate(types)]
        hashes = hash_rows(columns, types)
        assert hashes.tolist() == [case["hash"] for case in cases]
        for case, hashed in zip(cases, hashes, strict=True):
            assert buckets_of(hashed.reshape(1), case["num_buckets"]).tolist() == [case["bucket"]]


@pytest.mark.parametrize("case", vectors("partition_paths.json"), ids=str)
@pytest.mark.parametrize(("legacy", "expected"), [("true", "path_legacy"), ("false", "path_cast")])
def test_a_partition_lies_in_the_directory_that_java_names(case: dict[str, Any], legacy: str, expected: str) -> None:
    types, values = typed(case)
    fields = [
        DataField(i, name, kind) for i, (name, kind) in enumerate(zip(case["partition_keys"], types, strict=True))
    ]
    options = TableOptions.read({"partition.legacy-name": legacy})
    assert f"{partition_path(fields, values, options)}/bucket-0" == case[expected]


@pytest.mark.parametrize("case", vectors("type_strings.json"), ids=str)
def test_a_type_is_read_and_printed_as_in_java(case: dict[str, Any]) -> None:
    if case["canonical"] is None:
        with pytest.raises(InvalidRequest, match="not a type"):
            parse_type(case["input"])
    else:
        assert parse_type(case["input"]).to_json() == case["canonical"]
