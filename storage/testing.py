"""What a merge engine, and a format of data files, of an installed package has to do: test classes that it runs.

class TestHighest(MergeEngineContract):
    merge_engine = "highest"

class TestFeather(FileFormatContract):
    file_format = "feather"
"""

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
import pytest

from .catalog import Catalog
from .errors import CorruptData, InvalidRequest
from .file_formats import compressions_of
from .table import Table


class MergeEngineContract:
    """Tests that an engine passes. `merge_engine`: the value of the option. `columns`: of the rows that are tried, beside the key
    `k`, which is a BIGINT. `options`: further ones of the table.
    """

    merge_engine: ClassVar[str]
    columns: ClassVar[Mapping[str, pa.DataType]] = {"n": pa.int64(), "text": pa.string(), "price": pa.decimal128(21, 2)}
    options: ClassVar[Mapping[str, str]] = {}

    @pytest.fixture
    def rows(self) -> pa.Table:
        """Several rows of most keys, nulls among their values, in the order in which they come."""
        keys = [1, 2, 1, 3, 2, 1, 4, 1]
        numbers = [5, None, 3, 2, 7, 3, None, None]
        values = {
            name: pa.array(numbers, pa.int64()).cast(pa.string() if pa.types.is_string(kind) else kind)
            for name, kind in self.columns.items()
        }
        return pa.table({"k": pa.array(keys, pa.int64()), **values})

    def table(self, directory: Path, name: str, **options: str) -> Table:
        schema = pa.schema([("k", pa.int64()), *self.columns.items()])
        given = {"bucket": "1", "write-only": "true", "merge-engine": self.merge_engine, **self.options, **options}
        return Catalog(str(directory)).create_table(f"contract.{name}", schema, primary_key=["k"], options=given)

    def test_rows_of_a_key_make_one_row_however_they_come(self, tmp_path: Path, rows: pa.Table) -> None:
        """Written at once, one by one, and compacted after each."""
        at_once, one_by_one, compacted = (self.table(tmp_path, name) for name in ("at_once", "one_by_one", "compacted"))
        at_once.write(rows)
        for place in range(rows.num_rows):
            one_by_one.write(rows.slice(place, 1))
            compacted.write(rows.slice(place, 1))
            compacted.compact(full=True)
        expected = _held(at_once)
        assert sorted(expected) == [1, 2, 3, 4]
        assert _held(one_by_one) == expected
        assert _held(compacted) == expected

    def test_a_compaction_changes_no_row(self, tmp_path: Path, rows: pa.Table) -> None:
        table = self.table(tmp_path, "t")
        for place in range(rows.num_rows):
            table.write(rows.slice(place, 1))
        before = _held(table)
        table.compact(full=True)
        assert _held(table) == before
        assert table.check(deep=True) == []

    def test_columns_can_be_read_alone(self, tmp_path: Path, rows: pa.Table) -> None:
        table = self.table(tmp_path, "t")
        table.write(rows)
        table.write(rows.slice(0, 4))
        whole = table.to_arrow().sort_by("k")
        for name in self.columns:
            alone = table.to_arrow(columns=["k", name]).sort_by("k")
            assert alone.column(name).to_pylist() == whole.column(name).to_pylist(), name

    def test_changes_make_of_earlier_rows_what_the_table_holds(self, tmp_path: Path, rows: pa.Table) -> None:
        """With the changelog of a lookup: each change fits the rows that the ones before it have made."""
        table = self.table(tmp_path, "t", **{"changelog-producer": "lookup", "write-only": "false"})
        table.write(rows.slice(0, 2))
        first, known = table.snapshots.latest_id(), _held(table)
        for place in range(2, rows.num_rows, 2):
            table.write(rows.slice(place, 2))
        for change in table.changes(after=first).to_pylist():
            row = (change["k"], *(change[name] for name in self.columns))
            if change["rowkind"] in ("+I", "+U"):
                assert known.setdefault(change["k"], row) == row, change
            else:
                assert known.pop(change["k"]) == row, change
        assert known == _held(table)

    def test_deletes_are_merged_or_refused(self, tmp_path: Path, rows: pa.Table) -> None:
        """What is refused leaves the table as it was."""
        table = self.table(tmp_path, "t")
        table.write(rows)
        before = _held(table)
        gone = rows.slice(0, 1).append_column("kind", pa.array(["-D"]))
        try:
            table.write(gone, row_kind_column="kind")
        except InvalidRequest:
            assert _held(table) == before
        else:
            after = _held(table)
            table.compact(full=True)
            assert _held(table) == after


class FileFormatContract:
    """Tests that a format of data files passes. `file_format`: the value of the option. `types`: of the columns that it holds, by
    name, beside the key `k`.
    """

    file_format: ClassVar[str]
    types: ClassVar[Mapping[str, pa.DataType]] = {
        "flag": pa.bool_(),
        "number": pa.int32(),
        "weight": pa.float64(),
        "price": pa.decimal128(20, 4),
        "text": pa.string(),
        "data": pa.binary(),
        "day": pa.date32(),
        "at": pa.timestamp("us"),
        "list": pa.list_(pa.int64()),
        "row": pa.struct([("a", pa.int64()), ("b", pa.string())]),
    }

    @pytest.fixture
    def rows(self) -> pa.Table:
        """Rows with a value in each column, with nulls alone, and with what is empty."""
        count = 300
        values = {name: _values(kind, count) for name, kind in self.types.items()}
        return pa.table({"k": pa.array(range(count), pa.int64()), **values})

    def table(self, directory: Path, name: str = "t", *, keyed: bool = True, compression: str | None = None) -> Table:
        schema = pa.schema([("k", pa.int64()), *self.types.items()])
        buckets = {"bucket": "1"} if keyed else {}
        given = {"file.format": self.file_format, "file.compression": compression or self._compressions()[0]}
        return Catalog(str(directory)).create_table(
            f"contract.{name}", schema, primary_key=["k"] if keyed else [], options=given | buckets
        )

    def _compressions(self) -> list[str]:
        return compressions_of(self.file_format)

    @pytest.mark.parametrize("keyed", [True, False])
    def test_rows_come_back(self, tmp_path: Path, rows: pa.Table, keyed: bool) -> None:
        """As they were, by columns, by a condition, and once they are compacted."""
        table = self.table(tmp_path, keyed=keyed)
        table.write(rows.slice(0, 200))
        table.write(rows.slice(200))
        for _ in range(2):
            read = table.to_arrow().sort_by("k")
            for name in rows.schema.names:
                assert read.column(name).to_pylist() == rows.column(name).to_pylist(), name
            assert table.to_arrow(columns=["k"], where="k >= 290").num_rows == 10
            assert table.count() == rows.num_rows
            assert {each["file_path"].rsplit(".", 1)[-1] for each in table.system_table("files").to_pylist()} == {
                self.file_format
            }
            table.compact(full=True)
        assert table.check(deep=True) == []

    def test_rows_are_changed(self, tmp_path: Path, rows: pa.Table) -> None:
        table = self.table(tmp_path)
        table.write(rows)
        table.delete("k < 100")
        table.write(rows.slice(0, 1))
        assert sorted(table.to_arrow(columns=["k"])["k"].to_pylist()) == [0, *range(100, 300)]

    def test_every_compression_is_written_and_others_are_refused(self, tmp_path: Path, rows: pa.Table) -> None:
        for compression in self._compressions():
            table = self.table(tmp_path, f"of_{compression}", compression=compression)
            table.write(rows)
            assert table.count() == rows.num_rows
        with pytest.raises(InvalidRequest, match="no-such-compression"):
            self.table(tmp_path, "other", compression="no-such-compression")

    @pytest.mark.parametrize("harm", ["cut", "empty", "other bytes"])
    def test_a_damaged_file_is_named(self, tmp_path: Path, rows: pa.Table, harm: str) -> None:
        table = self.table(tmp_path)
        table.write(rows)
        (path,) = tmp_path.rglob(f"data-*.{self.file_format}")
        content = path.read_bytes()
        harmed = {"cut": content[: len(content) // 2], "empty": b"", "other bytes": b"x" * len(content)}
        path.write_bytes(harmed[harm])
        with pytest.raises(CorruptData, match=path.name):
            Catalog(str(tmp_path)).table("contract.t").to_arrow()
        assert any(path.name in str(problem) for problem in table.check(deep=True))


def _held(table: Table) -> dict[int, tuple[object, ...]]:
    """The rows of a table by their key."""
    rows = [tuple(row.values()) for row in table.to_arrow().to_pylist()]
    held = {row[0]: row for row in rows}
    assert len(held) == len(rows), "a key is there twice"
    return held


def _values(kind: pa.DataType, count: int) -> pa.Array:
    """Values of a type, every third of them null, and one that is empty where a type has that."""
    numbers = [None if number % 3 == 0 else number for number in range(count)]
    if pa.types.is_struct(kind):
        return pa.array([None if each is None else {"a": each, "b": f"é{each}"} for each in numbers], kind)
    if pa.types.is_list(kind):
        return pa.array([None if each is None else [each] * (each % 4) for each in numbers], kind)
    if pa.types.is_boolean(kind):
        return pa.array([None if each is None else each % 2 == 0 for each in numbers], kind)
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        texts = [None if each is None else "é\0'\"\n" * (each % 5) for each in numbers]
        return pa.array(texts, pa.string()).cast(kind)
    return pa.array(numbers, pa.int32()).cast(kind) if not pa.types.is_timestamp(kind) else pa.array(numbers, kind)
