"""Parquet files of earlier builds, in forms that Paimon's Java library misreads: named, and written anew when asked."""

from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from storage import Catalog, Table
from storage.format import parquet_file
from tests.interop.java_paimon import JavaPaimon

SCHEMA = pa.schema([pa.field("id", pa.int32(), False), ("d", pa.decimal128(10, 2)), ("w", pa.decimal128(30, 2))])


@contextmanager
def earlier_build(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Decimals of every precision are bytes, and have dictionaries."""
    with monkeypatch.context() as patch:
        writer = pq.ParquetWriter

        def of_before(sink: Any, schema: pa.Schema, **options: Any) -> pq.ParquetWriter:
            return writer(sink, schema, **{**options, "store_decimal_as_integer": False, "use_dictionary": ["w"]})

        patch.setattr(parquet_file.pq, "ParquetWriter", of_before)
        yield


def rows(first: int, count: int) -> pa.Table:
    numbers = list(range(first, first + count))
    return pa.table(
        {"id": numbers, "d": [Decimal(n % 3) for n in numbers], "w": [Decimal(n % 3) for n in numbers]}, SCHEMA
    )


@pytest.mark.java_differs("it does not read files of earlier builds rightly")
@pytest.mark.parametrize("key", [[], ["id"]], ids=["plain", "keyed"])
@pytest.mark.parametrize("target", ["128 mb", "1 kb"], ids=["small files", "large files"])
def test_files_of_earlier_builds_are_named_and_written_anew(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch, key: list[str], target: str
) -> None:
    options = {"target-file-size": target, "write-only": True, **({"bucket": 1} if key else {})}
    table = catalog.create_table("a.t", SCHEMA, primary_key=key, options=options)
    with earlier_build(monkeypatch):
        table.write(rows(0, 500))
        # A keyed table's file of the top level, which there is nothing to merge with.
        table.compact()
    before = table.to_arrow()
    broken = [str(line) for line in table.check()]
    assert broken and all(
        "with d, w in a form" in line and "snapline compact a.t --outdated" in line for line in broken
    )
    assert table.compact() is None
    assert table.compact(outdated=True) is not None
    assert table.check(deep=True) == []
    assert table.to_arrow().equals(before)
    assert table.compact(outdated=True) is None


@pytest.mark.parametrize("key", [[], ["id"]], ids=["plain", "keyed"])
def test_what_is_not_outdated_stays(catalog: Catalog, monkeypatch: pytest.MonkeyPatch, key: list[str]) -> None:
    options = {"target-file-size": "1 kb", "write-only": True, **({"bucket": 1} if key else {})}
    table = catalog.create_table("a.t", SCHEMA, primary_key=key, options=options)
    table.write(rows(0, 500))
    table.compact()
    kept = set(names(table))
    with earlier_build(monkeypatch):
        table.write(rows(500, 500))
        table.compact()
    table.compact(outdated=True)
    assert kept <= set(names(table))
    assert table.check(deep=True) == []
    assert table.count() == 1000


def names(table: Table) -> list[str]:
    return [Path(path).name for path in table.system_table("files")["file_path"].to_pylist()]


def test_java_finds_the_rows_of_files_that_were_written_anew(
    java: JavaPaimon, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = catalog.create_table("a.t", SCHEMA)
    with earlier_build(monkeypatch):
        table.write(rows(0, 500))
    read = partial(java.read, catalog.warehouse, "a.t", columns=["id"])
    with pytest.raises(RuntimeError, match="does not match the schema found in file metadata"):
        read(where=["=", "d", "1.00"])
    table.compact(outdated=True)
    for column in ("d", "w"):
        assert read(where=["=", column, "1.00"]).num_rows == 167
