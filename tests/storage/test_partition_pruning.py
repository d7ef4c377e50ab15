"""Where a partition may match, so may every manifest with its files: else a deletion is read, and its addition is not."""

import itertools
import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from storage import Catalog
from storage.format.column_stats import ColumnStats, collect
from storage.read.predicate import Comparison, IsIn, IsNull, Predicate, StartsWith
from storage.values import to_arrow

VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "text": (pa.string(), [None, "", "a", "ab", "~", "~x", "é", "\U0001f600"]),
    "number": (pa.int32(), [None, -(2**31), -1, 0, 1, 2**31 - 1]),
    "float": (pa.float64(), [None, math.nan, -math.inf, -0.0, 0.0, 1.5, math.inf]),
}


def _predicates(kind: str, values: list[Any]) -> list[Predicate]:
    known = [value for value in values if value is not None]
    leaves: list[Predicate] = [IsNull("p")]
    leaves += [Comparison("p", operator, value) for operator in ("=", "<", "<=") for value in known]
    leaves += [IsIn("p", chosen) for chosen in itertools.combinations(values, 2)]
    if kind == "text":
        leaves += [StartsWith("p", prefix) for prefix in ("", "a", "~", "é", "\U0001f600", "zz")]
    return [*leaves, *(leaf.negated() for leaf in leaves)]


@pytest.mark.parametrize("kind", VALUES)
def test_a_manifest_may_match_wherever_a_partition_of_it_may(kind: str, tmp_path: Path) -> None:
    arrow_type, values = VALUES[kind]
    table = Catalog(str(tmp_path)).create_table("d.t", pa.schema([("p", arrow_type)]))
    schema = table.schema
    data_type = schema.field("p").type
    missed = []
    for predicate in (leaf.bind(schema) for leaf in _predicates(kind, values)):
        alone = {
            index: predicate.may_match({"p": ColumnStats(value, value, int(value is None))}, 1)
            for index, value in enumerate(values)
        }
        for size in (1, 2, 3):
            for chosen in itertools.combinations(range(len(values)), size):
                column = to_arrow([values[index] for index in chosen], data_type)
                together = predicate.may_match({"p": collect(column, data_type, "full")}, size)
                if any(alone[index] for index in chosen) and not together:
                    missed.append((predicate, [values[index] for index in chosen]))
    assert missed == []


def test_a_prefix_is_looked_for_beside_a_partition_of_nulls(tmp_path: Path) -> None:
    schema = pa.schema([("p", pa.string()), ("v", pa.int32())])
    table = Catalog(str(tmp_path)).create_table("d.t", schema, partition_by=["p"])
    table.write(pa.table({"p": [None, "ab"], "v": [1, 2]}, schema=schema))
    table.write(pa.table({"p": ["~"], "v": [3]}, schema=schema))
    table.overwrite(pa.table({"p": ["~x", None], "v": [4, 5]}, schema=schema), dynamic=False)
    assert table.to_arrow(where="p LIKE '~%'").to_pylist() == [{"p": "~x", "v": 4}]
    assert table.to_arrow(where="p NOT LIKE '~%'").to_pylist() == []
    assert table.delete("p LIKE '~%'") is not None
    assert table.to_arrow().to_pylist() == [{"p": None, "v": 5}]
