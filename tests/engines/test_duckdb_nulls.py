"""Conditions that accept nulls, on every type that a table can have, and every pattern of nulls beside one value and two."""

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from storage import Catalog
from storage.engines.duckdb_connection import sealed_duckdb
from storage.engines.duckdb_views import add_scan
from storage.file_io import FileIO
from storage.format.parquet_file import ParquetReader

MOMENTS = (dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 2))
TYPES: dict[str, tuple[pa.DataType, Any, Any]] = {
    "string": (pa.string(), "a", "b"),
    "empty": (pa.string(), "", "b"),
    "binary": (pa.binary(), b"a", b"b"),
    "fixed": (pa.binary(2), b"ab", b"cd"),
    "bool": (pa.bool_(), True, False),
    "int": (pa.int32(), 1, 2),
    "bigint": (pa.int64(), 1, 2),
    "double": (pa.float64(), 1.5, 2.5),
    "decimal": (pa.decimal128(12, 2), Decimal("1.10"), Decimal("2.00")),
    "wide": (pa.decimal128(38, 2), Decimal("1.10"), Decimal("2.00")),
    "date": (pa.date32(), dt.date(2024, 1, 1), dt.date(2024, 1, 2)),
    "timestamp": (pa.timestamp("us"), *MOMENTS),
    "nanoseconds": (pa.timestamp("ns"), *MOMENTS),
    "array": (pa.list_(pa.string()), ["a"], ["b"]),
    "row": (pa.struct([("x", pa.string())]), {"x": "a"}, {"x": "b"}),
}
PATTERNS = [
    (0, None),
    (None, 0),
    (0, None, 0, None),
    (0, None, None, None),
    (0, 0),
    (None, None),
    (0, 1, None),
    (None,) + (0,) * 99,
]
CONDITIONS = {
    "{} IS NULL": lambda value: value is None,
    "NOT {} IS NOT NULL": lambda value: value is None,
    "{} IS NULL AND id >= 0": lambda value: value is None,
    "{} IS NOT DISTINCT FROM NULL": lambda value: value is None,
    "({} = {}) IS NOT TRUE": lambda value: value is None,
    "{} IS DISTINCT FROM NULL": lambda value: value is not None,
    "{} IS NOT NULL": lambda value: value is not None,
    "coalesce(CAST({} AS VARCHAR), '?') = '?'": lambda value: value is None,
}


@pytest.mark.parametrize(
    "pattern", PATTERNS, ids=lambda parameter: "".join("n" if p is None else str(p) for p in parameter)[:8]
)
def test_nulls_beside_one_value_are_found_and_nothing_else_is(
    catalog: Catalog, pattern: tuple[int | None, ...]
) -> None:
    rows = pa.table(
        {
            "id": pa.array(range(len(pattern)), pa.int64()),
            **{
                name: pa.array([None if p is None else values[p] for p in pattern], kind)
                for name, (kind, *values) in TYPES.items()
            },
        }
    )
    table = catalog.create_table(f"shop.t{PATTERNS.index(pattern)}", rows.schema)
    table.write(rows)
    with sealed_duckdb(lambda connection: add_scan(connection, "main", "t", table.scan())) as connection:
        for q in (f'"{name}"' for name in TYPES):
            for condition, holds in CONDITIONS.items():
                sql = f"SELECT id, {q} IS NULL FROM t WHERE {condition.format(q, q)} ORDER BY id"
                expected = [(i, value is None) for i, value in enumerate(pattern) if holds(value)]
                assert connection.sql(sql).fetchall() == expected, sql


@pytest.mark.parametrize(
    "writer_options", [{}, {"column_encoding": {"s": "DELTA_BYTE_ARRAY"}}, {"use_dictionary": True}]
)
def test_the_footer_tells_which_files_are_read_here(tmp_path: Path, writer_options: dict[str, Any]) -> None:
    """Also of files that others have written: each row group counts, and what is in a dictionary is left to DuckDB."""
    path = str(tmp_path / "one.parquet")
    for rows, size, is_constant in (
        (["a", None], 2, True),
        (["a", "b", "b", None], 2, True),
        (["a", "b", None], 3, False),
        (["a", "a"], 2, False),
    ):
        pq.write_table(pa.table({"s": rows}), path, row_group_size=size, **({"use_dictionary": False} | writer_options))
        with ParquetReader(FileIO(path), path) as reader:
            assert reader.has_constant_beside_nulls == (is_constant and "use_dictionary" not in writer_options)
