"""Random tables with file indexes and random conditions on them, for tests of both writers."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pyarrow as pa

from storage import Predicate
from storage.data_types import DataType, parse_type
from storage.read.predicate import And, Comparison, IsIn, IsNull, Or, StartsWith
from tests.interop.java_paimon import to_json

KINDS = ("bloom-filter", "bitmap", "bsi", "range-bitmap")
# The types that have each of the indexes.
_ALL = ["TINYINT", "SMALLINT", "INT", "BIGINT", "DATE", "TIME(3)", "TIMESTAMP(3)", "TIMESTAMP(6)"]
_ALL += ["TIMESTAMP(6) WITH LOCAL TIME ZONE"]
_TEXTS = ["STRING", "CHAR(4)", "VARCHAR(70)"]
TYPES = {
    "bloom-filter": [*_ALL, *_TEXTS, "FLOAT", "DOUBLE", "BYTES", "BINARY(3)", "TIMESTAMP(9)"],
    "bitmap": [*_ALL, *_TEXTS, "FLOAT", "DOUBLE", "BOOLEAN"],
    "bsi": [*_ALL, "DECIMAL(10, 2)", "DECIMAL(18, 0)"],
    "range-bitmap": [*_ALL, *_TEXTS, "FLOAT", "DOUBLE", "BOOLEAN", "DECIMAL(10, 2)", "DECIMAL(18, 0)"],
}
_OPERATORS = ("=", "!=", "<", "<=", ">", ">=")
_OF_JAVA = {"!=": "<>"}
_DAY_MS = 86_400_000
_WORDS = [
    "",
    "a",
    "ab",
    "abc",
    "b",
    "é",
    "éa",
    "\U0001f600",
    "\uffff",
    "a word that is longer than 32 bytes, by " + "x" * 20,
]


@dataclass
class Shape:
    """Columns and options of a table. `plain`: without the numbers that Java compares otherwise, NaN and -0.0, and without
    columns of nulls only, of which it loses rows (decision 0044).
    """

    rng: random.Random
    plain: bool
    columns: dict[str, str] = field(default_factory=dict)
    options: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        names = sorted({kind for kinds in TYPES.values() for kind in kinds})
        chosen = self.rng.sample(names, 5)
        self.columns = {"id": "INT", **{f"c{place}": kind for place, kind in enumerate(chosen)}}
        for kind in KINDS:
            able = [name for name, data_type in self.columns.items() if data_type in TYPES[kind]]
            columns = [name for name in able if self.rng.random() < 0.7]
            if columns:
                self.options[f"file-index.{kind}.columns"] = ",".join(columns)
            for name in columns:
                self.options |= self._settings(kind, name)
        self.options["file-index.in-manifest-threshold"] = self.rng.choice(["0 b", "500 b", "1 mb"])

    def _settings(self, kind: str, name: str) -> dict[str, str]:
        start = f"file-index.{kind}.{name}"
        if kind == "bloom-filter":
            return {f"{start}.items": self.rng.choice(["20", "500"]), f"{start}.fpp": self.rng.choice(["0.3", "0.01"])}
        if kind == "bitmap":
            size = {f"{start}.index-block-size": "128 b"} if self.rng.random() < 0.5 else {}
            return {f"{start}.version": self.rng.choice(["1", "2"]), **size}
        return {f"{start}.chunk-size": self.rng.choice(["0 b", "40 b", "1 kb"])} if kind == "range-bitmap" else {}

    @property
    def types(self) -> Mapping[str, DataType]:
        """The type of each column."""
        return {name: parse_type(kind) for name, kind in self.columns.items()}

    def rows(self, count: int, first_id: int) -> pa.Table:
        """Random rows, few values and many of them; of some columns none."""
        columns = {"id": pa.array(range(first_id, first_id + count), pa.int32())}
        for name, data_type in list(self.types.items())[1:]:
            share = self.rng.choice([0, 0.2] if self.plain else [0, 0.2, 1])
            pool = [self.value(data_type) for _ in range(self.rng.choice([1, 4, 40]))]
            values = [None if self.rng.random() < share else self.rng.choice(pool) for _ in range(count)]
            columns[name] = pa.array(values, data_type.to_arrow())
        return pa.table(columns)

    def value(self, data_type: DataType) -> Any:
        """A value as Arrow takes it; times are whole numbers."""
        rng = self.rng
        if data_type.is_integer:
            least = -(2 ** (data_type.to_arrow().bit_width - 1))
            return rng.choice([rng.randint(-9, 9), least + 1, -least - 1, rng.randint(least + 1, -least - 1)])
        if data_type.is_float:
            special = [] if self.plain else [float("nan"), -0.0, 0.0]
            return rng.choice([*special, float("inf"), float("-inf"), rng.randint(1, 9) / 4, -rng.randint(1, 9) / 4])
        if data_type.is_text:
            word = rng.choice(_WORDS) + rng.choice(["", "", str(rng.randint(0, 9))])
            return word[: 4 if data_type.root == "CHAR" else None]
        if data_type.is_bytes:
            return bytes(rng.randrange(256) for _ in range(3 if data_type.root == "BINARY" else rng.randint(0, 40)))
        if data_type.root == "BOOLEAN":
            return rng.random() < 0.5
        if data_type.root == "DECIMAL":
            return Decimal(rng.choice([rng.randint(-9, 9), rng.randint(-(10**9), 10**9)])).scaleb(-data_type.scale)
        if data_type.root == "TIME":
            return rng.randrange(_DAY_MS)
        return rng.choice([rng.randint(-9, 9), rng.randint(-40_000, 40_000) * (1 if data_type.root == "DATE" else 997)])


def literal(value: Any, data_type: DataType) -> Any:
    """What a user would write for a value of a column."""
    if data_type.root in ("DATE", "TIME") or data_type.is_timestamp:
        return pa.array([value], data_type.to_arrow()).cast(pa.string())[0].as_py()
    return value


def condition(shape: Shape, rows: pa.Table, depth: int = 0) -> tuple[Predicate, list[Any]]:
    """A random condition and what the Java program takes for it; its values are of the rows, or near them."""
    rng = shape.rng
    if depth < 2 and rng.random() < 0.35:
        parts = [condition(shape, rows, depth + 1) for _ in range(rng.randint(2, 3))]
        predicates, texts = tuple(each for each, _ in parts), [text for _, text in parts]
        return (And(predicates), ["and", *texts]) if rng.random() < 0.5 else (Or(predicates), ["or", *texts])
    name = rng.choice(list(shape.columns))
    data_type = shape.types[name]
    chosen = rng.randrange(6)
    if chosen == 0:
        is_negated = rng.random() < 0.5
        return IsNull(name, is_negated), ["is not null" if is_negated else "is null", name]
    values = [_picked(shape, rows, name) for _ in range(rng.randint(1, 3))]
    literals, texts = [literal(each, data_type) for each in values], [to_json(each, data_type) for each in values]
    if chosen == 1:
        is_negated = rng.random() < 0.3
        return IsIn(name, tuple(literals), is_negated), ["not in" if is_negated else "in", name, texts]
    if chosen == 2 and data_type.is_text:
        prefix = values[0][: rng.randint(1, 2)]
        return StartsWith(name, prefix), ["starts with", name, prefix]
    operators = ("=", "!=") if data_type.is_bytes or data_type.root == "BOOLEAN" else _OPERATORS
    operator = rng.choice(operators)
    return Comparison(name, operator, literals[0]), [_OF_JAVA.get(operator, operator), name, texts[0]]


def _picked(shape: Shape, rows: pa.Table, name: str) -> Any:
    data_type = shape.types[name]
    column: pa.ChunkedArray = rows.column(name)
    if data_type.root in ("DATE", "TIME"):
        column = column.cast(pa.int32())
    elif data_type.is_timestamp:
        column = column.cast(pa.int64())
    held = column.slice(shape.rng.randrange(len(column)), 1)[0].as_py()
    return held if held is not None and shape.rng.random() < 0.5 else shape.value(data_type)


def ids(rows: pa.Table) -> Sequence[int]:
    """The ids of rows, ascending."""
    matching: list[int] = sorted(rows.column("id").to_pylist())
    return matching
