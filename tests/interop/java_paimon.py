"""Paimon's Java library, as the program in `tests/interop/java` offers it: reads, writes and maintains tables.

`make java` builds the program into `.venv/java`. `SNAPLINE_TEST_PAIMON` names the version to use, of those that
`make java PAIMON=…` has brought.
"""

import base64
import os
import shutil
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from storage.data_types import DataField, DataType, parse_type

from .line_process import LineProcess

HOME = Path(__file__).parent.parent.parent / ".venv" / "java"
VERSION = os.environ.get("SNAPLINE_TEST_PAIMON", "1.4.2")
_BUNDLE = HOME / "paimon" / f"paimon-bundle-{VERSION}.jar"
# A small heap, and the quick compiler only: most of what it does is done once.
_FLAGS = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Duser.timezone=UTC")
_OF_VARIANTS = ("value", "metadata")
_NOT_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}

Rows = Sequence[Mapping[str, Any]]

# For what the line of 1.0 does not have, or does otherwise than its successors.
since_1_3 = pytest.mark.skipif(VERSION.startswith("1.0"), reason="1.0 does not have it, or does it otherwise")


def why_missing() -> str | None:
    """What is missing for Java to be used, in a sentence; None if nothing is."""
    if not _BUNDLE.exists() or not (HOME / "lib").is_dir():
        return f"Java Paimon {VERSION} is not built: `make java` does it"
    return None if shutil.which("java") else "there is no `java` program to run Java Paimon with"


class JavaPaimon:
    """One process of it."""

    def __init__(self) -> None:
        self._process = LineProcess(["java", *_FLAGS, "-cp", f"{_BUNDLE}:{HOME / 'lib'}/*", "snapline.PaimonProcess"])

    def close(self) -> None:
        self._process.close()

    def ask(self, warehouse: str, table: str, what: str, **more: Any) -> dict[str, Any]:
        """Have something done, as `Requests.java` lists it, and return the answer."""
        given = {name: value for name, value in more.items() if value is not None}
        return self._process.ask({"do": what, "warehouse": warehouse, "table": table, **given})

    def create(
        self,
        warehouse: str,
        table: str,
        fields: Mapping[str, str | DataType],
        *,
        partition_by: Sequence[str] = (),
        primary_key: Sequence[str] = (),
        options: Mapping[str, str] | None = None,
        if_not_exists: bool = False,
    ) -> None:
        """A new table. `fields`: names and types, as texts of the format or as types."""
        typed = [
            [name, data_type if isinstance(data_type, str) else data_type.to_json()]
            for name, data_type in fields.items()
        ]
        self.ask(
            warehouse,
            table,
            "create",
            fields=typed,
            partition_keys=list(partition_by),
            primary_keys=list(primary_key),
            options=dict(options or {}),
            if_not_exists=if_not_exists,
        )

    def read(
        self,
        warehouse: str,
        table: str,
        *,
        where: Sequence[Any] | None = None,
        columns: Sequence[str] | None = None,
        options: Mapping[str, str] | None = None,
    ) -> pa.Table:
        """The rows. `where` is a filter as `Filters.java` takes it, with values made by `to_json`."""
        # Java applies a filter to what it has read: a column that is left out would be taken for the one in its place.
        asked = list(dict.fromkeys([*columns, *_columns_of(where)])) if columns is not None and where else columns
        rows = _to_table(self.ask(warehouse, table, "read", where=where, columns=asked, options=dict(options or {})))
        return rows if columns is None else rows.select(list(columns))

    def changes(self, warehouse: str, table: str, first: int) -> list[tuple[str, tuple[Any, ...]]]:
        """Kind and values of the rows that a streaming read brings, from a snapshot on."""
        answer = self.ask(warehouse, table, "stream", **{"from": first})
        rows = _to_table(answer).to_pylist()
        return [(kind, tuple(row.values())) for kind, row in zip(answer["kinds"], rows, strict=True)]

    def write(
        self,
        warehouse: str,
        table: str,
        rows: pa.Table,
        fields: Sequence[DataField],
        *,
        kinds: Sequence[str] | None = None,
        overwrite: Mapping[str, str] | None = None,
    ) -> None:
        """Commit rows, which have all columns; `fields` are the table's. `kinds`: +I unless given."""
        values = [[to_json(row[field.name], field.type) for field in fields] for row in plain(rows).to_pylist()]
        chosen = list(kinds) if kinds is not None else ["+I"] * len(values)
        self.ask(warehouse, table, "write", rows=values, kinds=chosen, overwrite=overwrite)


def _columns_of(where: Sequence[Any]) -> list[str]:
    """The columns that a filter names."""
    if where[0] in ("and", "or"):
        return [name for part in where[1:] for name in _columns_of(part)]
    return [where[1]]


def to_json(value: Any, data_type: DataType) -> Any:
    """A value as `Values.java` takes it. Times are whole numbers, in the unit of their Arrow type."""
    if value is None:
        return None
    if data_type.is_float:
        return _NOT_FINITE.get(repr(value), repr(value))
    if data_type.root == "DECIMAL":
        return format(value, "f")
    if data_type.is_bytes:
        return base64.b64encode(value).decode()
    if data_type.is_timestamp:
        nanoseconds = value * _NANOSECONDS[_unit(data_type)]
        return [nanoseconds // 1_000_000, nanoseconds % 1_000_000]
    if data_type.root == "ARRAY" and data_type.element is not None:
        return [to_json(member, data_type.element) for member in value]
    if data_type.root in ("MAP", "MULTISET"):
        key, element = _map_types(data_type)
        return [[to_json(name, key), to_json(member, element)] for name, member in value]
    if data_type.root == "ROW":
        return [to_json(value[field.name], field.type) for field in data_type.fields]
    if data_type.root == "VARIANT":
        return [base64.b64encode(value[part]).decode() for part in _OF_VARIANTS]
    return value


def from_json(value: Any, data_type: DataType) -> Any:
    """What `Values.java` sent, as Arrow takes it."""
    if value is None:
        return None
    if data_type.is_float:
        return float(value)
    if data_type.root == "DECIMAL":
        return Decimal(value)
    if data_type.is_bytes:
        return base64.b64decode(value)
    if data_type.is_timestamp:
        nanoseconds = value[0] * 1_000_000 + value[1]
        units, rest = divmod(nanoseconds, _NANOSECONDS[_unit(data_type)])
        assert rest == 0, f"{value} is finer than {data_type}"
        return units
    if data_type.root == "ARRAY" and data_type.element is not None:
        return [from_json(member, data_type.element) for member in value]
    if data_type.root in ("MAP", "MULTISET"):
        key, element = _map_types(data_type)
        return [(from_json(name, key), from_json(member, element)) for name, member in value]
    if data_type.root == "ROW":
        return {field.name: from_json(inner, field.type) for field, inner in zip(data_type.fields, value, strict=True)}
    if data_type.root == "VARIANT":
        return {part: base64.b64decode(held) for part, held in zip(_OF_VARIANTS, value, strict=True)}
    return value


_NANOSECONDS = {"ms": 1_000_000, "us": 1_000, "ns": 1}


def _unit(data_type: DataType) -> str:
    unit: str = data_type.to_arrow().unit
    return unit


def _map_types(data_type: DataType) -> tuple[DataType, DataType]:
    assert data_type.element is not None
    if data_type.root == "MULTISET":
        return data_type.element, DataType("INT", nullable=False)
    assert data_type.key is not None
    return data_type.key, data_type.element


def _to_table(answer: Mapping[str, Any]) -> pa.Table:
    types = {name: parse_type(kind) for name, kind in answer["fields"]}
    columns = list(zip(*answer["rows"], strict=True)) or [()] * len(types)
    arrays = [
        pa.array([from_json(value, kind) for value in column], kind.to_arrow())
        for column, kind in zip(columns, types.values(), strict=True)
    ]
    return pa.table(arrays, names=list(types)) if types else pa.table({})


def plain(rows: pa.Table) -> pa.Table:
    """Rows whose dates and times are whole numbers, at any depth."""
    fields = [field.with_type(_numbers(field.type)) for field in rows.schema]
    return rows.cast(pa.schema(fields))


def _numbers(kind: pa.DataType) -> pa.DataType:
    types = pa.types
    if types.is_timestamp(kind):
        return pa.int64()
    if types.is_date32(kind) or types.is_time32(kind):
        return pa.int32()
    if types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_numbers(kind.value_type)))
    if types.is_map(kind):
        return pa.map_(_numbers(kind.key_type), kind.item_field.with_type(_numbers(kind.item_type)))
    if types.is_struct(kind):
        return pa.struct([field.with_type(_numbers(field.type)) for field in kind])
    return kind
