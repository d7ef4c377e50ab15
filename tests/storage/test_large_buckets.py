"""A bucket that is large is read in pieces by ranges of keys, and a limit reads no more than it must."""

import datetime as dt
import pickle
import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from storage import Catalog, InvalidRequest, Table

KEYS: dict[str, Any] = {
    "bigint": (pa.int64(), lambda number: number - 500),
    "string": (pa.string(), lambda number: f"k{number:04d}"),
    "timestamp": (pa.timestamp("us"), lambda number: dt.datetime(2024, 1, 1) + dt.timedelta(minutes=number)),
    "date": (pa.date32(), lambda number: dt.date(2020, 1, 1) + dt.timedelta(days=number)),
    "decimal": (pa.decimal128(12, 2), lambda number: Decimal(number) / 4),
    "boolean and int": (None, None),
}
OPTIONS = {
    "bucket": 1,
    "write-only": True,
    "target-file-size": "4 kb",
    "parquet.row-group.rows": 64,
    "source.split.target-size": "16 kb",
    "source.split.open-file-cost": "1 b",
}


def filled(catalog: Catalog, kind: str, seed: int = 0) -> tuple[Table, dict[Any, int]]:
    chosen = random.Random(seed)
    key_type, key_of = KEYS[kind]
    if key_type is None:
        names, types = ["flag", "id"], [pa.bool_(), pa.int32()]
        keys = [(bool(number % 2), number // 2) for number in range(1500)]
    else:
        names, types = ["id"], [key_type]
        keys = [(key_of(number),) for number in range(1500)]
    schema = pa.schema([*zip(names, types, strict=True), ("v", pa.int64()), ("text", pa.string())])
    table = catalog.create_table("a.t", schema, primary_key=names, options=OPTIONS)
    expected: dict[Any, int] = {}
    for step, size in enumerate((1500, 200, 200, 100)):
        some = chosen.sample(keys, size)
        columns = [*zip(*some, strict=True), [step] * size, [f"text {chosen.random()}"] * size]
        arrays = [pa.array(list(column), field.type) for column, field in zip(columns, schema, strict=True)]
        table.write(pa.Table.from_arrays(arrays, schema=schema))
        expected |= dict.fromkeys(some, step)
        if step == 0:
            table.compact()
    return table, expected


@pytest.mark.parametrize("kind", KEYS)
def test_pieces_together_hold_every_key_once(catalog: Catalog, kind: str) -> None:
    table, expected = filled(catalog, kind)
    splits = table.scan().splits
    assert len(splits) > 3
    assert any(section.is_cut for split in splits for section in split.sections)
    actual: dict[Any, int] = {}
    for split in pickle.loads(pickle.dumps(splits)):
        for batch in split.read():
            for row in batch.to_pylist():
                key = tuple(list(row.values())[:-2])
                assert key not in actual
                actual[key] = row["v"]
    assert actual == expected
    assert table.count() == len(expected)


@pytest.mark.parametrize("seed", range(3))
def test_filters_and_columns_work_in_pieces(catalog: Catalog, seed: int) -> None:
    table, expected = filled(catalog, "bigint", seed)
    for low in (-500, 0, 321, 999):
        narrow = table.to_arrow(columns=["v"], where=f"id >= {low} AND id < {low + 40} AND v > 0")
        wanted = [v for (key,), v in expected.items() if low <= key < low + 40 and v > 0]
        assert sorted(narrow["v"].to_pylist()) == sorted(wanted)
    assert table.count(where="v = 3") == sum(v == 3 for v in expected.values())


def test_pieces_are_gone_once_the_bucket_is_compacted(catalog: Catalog) -> None:
    table, expected = filled(catalog, "bigint")
    table.compact()
    assert not any(section.is_cut for split in table.scan().splits for section in split.sections)
    assert table.count() == len(expected)


def test_a_limit_reads_only_what_it_needs(catalog: Catalog) -> None:
    table, expected = filled(catalog, "bigint")
    assert table.to_arrow(limit=7).num_rows == 7
    assert table.to_arrow(limit=0).num_rows == 0
    assert table.to_arrow(limit=10**6).num_rows == len(expected)
    assert table.to_arrow(where="v = 3", limit=5)["v"].to_pylist() == [3] * 5
    assert sum(batch.num_rows for batch in table.to_batches(limit=333)) == 333
    table.compact()
    everything = len(table.scan().splits)
    assert len(table.scan(limit=5).splits) == 1 < everything
    assert table.scan(limit=5).count() == table.scan(where="v >= 0", limit=5).count() == 5
    with pytest.raises(InvalidRequest, match="limit = -1"):
        table.scan(limit=-1)
