"""The rows that are measured: the same for every side, made from a seed."""

import numpy as np
import pyarrow as pa

COLUMNS = pa.schema(
    [
        ("id", pa.int64()),
        ("number", pa.int32()),
        ("price", pa.float64()),
        ("weight", pa.float64()),
        ("at", pa.timestamp("us")),
        ("kind", pa.string()),
        ("name", pa.string()),
        ("day", pa.date32()),
    ]
)
# The same with a key of two texts, `region` and `code`, in place of the number.
TEXT_KEYED = pa.schema([("region", pa.string()), ("code", pa.string()), *list(COLUMNS)[1:]])
# With a column to partition by.
PARTED = pa.schema([pa.field("part", pa.int32()), *COLUMNS])
BUCKETS = 4
_REGIONS = pa.array([f"region {number:02d}" for number in range(40)])
_KINDS = pa.array([f"kind {number:02d}" for number in range(20)])


def rows(keys: np.ndarray, seed: int) -> pa.Table:
    """Rows for the given keys, in their order. Shape: one row for each key, 8 columns."""
    random = np.random.default_rng(seed)
    count = len(keys)
    names = pa.array(np.char.add("name ", random.integers(0, 10**7, count).astype(str)))
    return pa.table(
        [
            pa.array(keys),
            pa.array(random.integers(0, 10**6, count, dtype=np.int32)),
            pa.array(random.random(count) * 100),
            pa.array(random.normal(size=count)),
            pa.array(1_700_000_000_000_000 + random.integers(0, 10**13, count)).cast(pa.timestamp("us")),
            _KINDS.take(pa.array(random.integers(0, len(_KINDS), count))),
            names,
            pa.array(random.integers(19_000, 20_000, count, dtype=np.int32)).cast(pa.date32()),
        ],
        schema=COLUMNS,
    )


def base(count: int) -> pa.Table:
    """Bulk load: keys 0 … count-1 in random order."""
    return rows(np.random.default_rng(1).permutation(count), 2)


def upsert(number: int, base_count: int, count: int) -> pa.Table:
    """Upsert `number`: half of its keys exist, half are new."""
    random = np.random.default_rng(100 + number)
    old = random.choice(base_count, count // 2, replace=False)
    first = base_count + number * (count - count // 2)
    new = np.arange(first, first + count - count // 2)
    return rows(random.permutation(np.concatenate([old, new])), 1000 + number)


def text_keyed(table: pa.Table) -> pa.Table:
    """The rows of `base` and `upsert` with a key of two texts."""
    keys = table["id"].to_numpy()
    region = _REGIONS.take(pa.array(keys % len(_REGIONS)))
    code = pa.array(np.char.add("C-", np.char.zfill(keys.astype(str), 10)))
    return pa.Table.from_arrays([region, code, *table.columns[1:]], schema=TEXT_KEYED)


def small_commit(number: int, count: int, parts: int) -> pa.Table:
    """One of many small commits, to one of some partitions."""
    return _in_part(rows(np.arange(number * count, (number + 1) * count), 5000 + number), number % parts)


def appended(number: int, count: int) -> pa.Table:
    """One of a few large appends, to a partition of its own."""
    keys = np.random.default_rng(number).permutation(count) + number * count
    return _in_part(rows(keys, 9000 + number), number)


def _in_part(table: pa.Table, part: int) -> pa.Table:
    column = pa.array(np.full(table.num_rows, part, np.int32))
    return pa.Table.from_arrays([column, *table.columns], schema=PARTED)
