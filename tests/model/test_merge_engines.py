"""Merge engines against a plain fold, row by row, under random writes and compactions."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from storage import Catalog
from tests.scale import amount, seeds

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("seq", pa.int64()),
        ("a", pa.int64()),
        ("b", pa.string()),
        ("c", pa.bool_()),
        ("l", pa.list_(pa.int64())),
    ]
)
Row = dict[str, Any]


def later(old: Any, new: Any) -> bool:
    """Whether a sequence value comes at or after another; null comes first."""
    return old is None or (new is not None and new >= old)


def deduplicate_by_field(old: Row, new: Row) -> Row:
    return new if later(old["seq"], new["seq"]) else old


def first_row(old: Row, new: Row) -> Row:
    return old


def partial_update(old: Row, new: Row) -> Row:
    return {name: old[name] if new[name] is None else new[name] for name in old}


def sequence_group(old: Row, new: Row) -> Row:
    """b and c go by seq, a and l are free. A row without seq says nothing of b and c, unless it is the key's only one."""
    merged = old | ({"b": None, "c": None} if old["seq"] is None else {})
    if new["seq"] is not None and later(old["seq"], new["seq"]):
        merged |= {name: new[name] for name in ("seq", "b", "c")}
    return merged | {name: new[name] for name in ("a", "l") if new[name] is not None}


def combine(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda old, new: old if new is None else new if old is None else function(old, new)


def aggregation(functions: dict[str, Callable[[Any, Any], Any]]) -> Callable[[Row, Row], Row]:
    return lambda old, new: old | {name: function(old[name], new[name]) for name, function in functions.items()}


last_non_null = combine(lambda old, new: new)
ENGINES: dict[str, tuple[dict[str, Any], Callable[[Row, Row], Row]]] = {
    "deduplicate by field": ({"sequence.field": "seq"}, deduplicate_by_field),
    "first-row": ({"merge-engine": "first-row"}, first_row),
    "partial-update": ({"merge-engine": "partial-update"}, partial_update),
    "sequence group": ({"merge-engine": "partial-update", "fields.seq.sequence-group": "b,c"}, sequence_group),
    "sum, listagg, and, collect": (
        {
            "merge-engine": "aggregation",
            "fields.a.aggregate-function": "sum",
            "fields.b.aggregate-function": "listagg",
            "fields.c.aggregate-function": "bool_and",
            "fields.l.aggregate-function": "collect",
        },
        aggregation(
            {
                "a": combine(lambda old, new: old + new),
                "b": combine(lambda old, new: f"{old},{new}"),
                "c": combine(lambda old, new: old and new),
                "l": combine(lambda old, new: old + new),
                "seq": last_non_null,
            }
        ),
    ),
    "max, min, or, first": (
        {
            "merge-engine": "aggregation",
            "fields.a.aggregate-function": "max",
            "fields.b.aggregate-function": "min",
            "fields.c.aggregate-function": "bool_or",
            "fields.l.aggregate-function": "first_value",
            "fields.seq.aggregate-function": "product",
        },
        aggregation(
            {
                "a": combine(max),
                "b": combine(min),
                "c": combine(lambda old, new: old or new),
                "l": lambda old, _: old,
                "seq": combine(lambda old, new: old * new),
            }
        ),
    ),
    "last and first": (
        {
            "merge-engine": "aggregation",
            "fields.default-aggregate-function": "last_value",
            "fields.a.aggregate-function": "first_non_null_value",
        },
        aggregation(
            {
                "a": combine(lambda old, _: old),
                "b": lambda _, new: new,
                "c": lambda _, new: new,
                "l": lambda _, new: new,
                "seq": lambda _, new: new,
            }
        ),
    ),
}


@pytest.mark.parametrize("seed", seeds(4, 300))
@pytest.mark.parametrize("name", ENGINES)
def test_an_engine_does_what_a_fold_does(tmp_path: Path, name: str, seed: int) -> None:
    options, fold = ENGINES[name]
    chance = random.Random(seed)
    print(f"seed {seed}")
    table = Catalog(str(tmp_path)).create_table(
        "m.t", SCHEMA, primary_key=["id"], options={"bucket": 2, "parquet.row-group.rows": 8, **options}
    )
    expected: dict[int, Row] = {}
    for _ in range(amount(20, 1000)):
        written = [
            {
                "id": chance.randrange(25),
                "seq": chance.choice([None, *range(4)]),
                "a": chance.choice([None, chance.randrange(50)]),
                "b": chance.choice([None, *"xyzäö"]),
                "c": chance.choice([None, True, False]),
                "l": chance.choice([None, [1], [chance.randrange(9), 2]]),
            }
            for _ in range(chance.randrange(1, 40))
        ]
        if chance.random() < 0.1:
            table.overwrite(pa.Table.from_pylist(written, SCHEMA))
            expected = {}
        else:
            table.write(pa.Table.from_pylist(written, SCHEMA))
        for row in written:
            key = row["id"]
            expected[key] = fold(expected[key], row) if key in expected else row
        if chance.random() < 0.3:
            table.compact(full=chance.random() < 0.5)
        if chance.random() < 0.2:
            table.expire(retain_last=chance.randint(1, 4))
            table = Catalog(str(tmp_path)).table("m.t")
        rows_by_key = {row["id"]: row for row in table.to_arrow().to_pylist()}
        assert rows_by_key == expected
        column = chance.choice(["a", "b", "c", "l", "seq"])
        narrow = table.to_arrow(columns=[column, "id"], where="a >= 20 OR b = 'x'").to_pylist()
        wanted = {key: row[column] for key, row in expected.items() if (row["a"] or -1) >= 20 or row["b"] == "x"}
        assert {row["id"]: row[column] for row in narrow} == wanted
