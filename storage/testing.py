"""What a merge engine, and a format of data files, of an installed package has to do: test classes that it runs.

class TestHighest(MergeEngineContract):
    merge_engine = "highest"

class TestFeather(FileFormatContract):
    file_format = "feather"
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from .catalog import Catalog
from .errors import CorruptData, InvalidRequest
from .file_formats import compressions_of
from .file_io import FileIO
from .format.data_file import MOST_BATCH_ROWS, DataFileReader, DataFileWriter, ExpectedFile, RowRange
from .format.open_data_file import open_reader, open_writer
from .table import Table


class MergeEngineContract:
    """Tests that an engine passes. `merge_engine`: the value of the option. `columns`: of the rows that are tried, beside the key
    `k`, which is a BIGINT. `options`: further ones of the table. `keeps_single_rows`: whether a row that is the only one of its
    key stands as it is. `ignores_deletes`: whether rows of kind -D change nothing.
    """

    merge_engine: ClassVar[str]
    columns: ClassVar[Mapping[str, pa.DataType]] = {
        "n": pa.int64(),
        "text": pa.string(),
        "price": pa.decimal128(21, 2),
        "flag": pa.bool_(),
        "weight": pa.float64(),
        "tags": pa.list_(pa.string()),
    }
    options: ClassVar[Mapping[str, str]] = {}
    keeps_single_rows: ClassVar[bool] = True
    ignores_deletes: ClassVar[bool] = False

    @pytest.fixture
    def rows(self) -> pa.Table:
        """Rows of seven keys, the first of which has most and the last a single one, in the order in which they come. No two
        columns have their nulls, or their highest values, in the same rows.
        """
        keys = [1, 2, 1, 3, 2, 1, 4, 1, 5, 1, 3, 6, 1, 2, 1, 5, 1, 4, 3, 1, 7]
        values = {name: _spread(kind, len(keys), place) for place, (name, kind) in enumerate(self.columns.items())}
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
        assert sorted(expected) == [1, 2, 3, 4, 5, 6, 7]
        assert _held(one_by_one) == expected
        assert _held(compacted) == expected

    def test_rows_come_in_the_order_of_the_sequence_field(self, tmp_path: Path, rows: pa.Table) -> None:
        """What was written last counts only where that orders nothing."""
        given = rows.set_column(1, "n", pa.array(np.arange(rows.num_rows) * 7 % rows.num_rows, pa.int64()))
        if "n" not in self.columns or self.options.get("sequence.field"):
            pytest.skip("there is no column 'n', or another sequence field")
        expected = None
        for name, order in (("in_order", "n"), ("other_order", "k")):
            table = self.table(tmp_path, name, **{"sequence.field": "n"})
            for place in range(0, rows.num_rows, 4):
                table.write(given.sort_by([(order, "ascending")]).slice(place, 4))
            expected = expected or _held(table)
            assert _held(table) == expected
            table.compact(full=True)
            assert _held(table) == expected

    def test_a_row_that_is_alone_stands_as_it_is(self, tmp_path: Path, rows: pa.Table) -> None:
        """Also beside keys with several rows, and once it is compacted."""
        if not self.keeps_single_rows:
            pytest.skip("this engine makes something else of single rows")
        table = self.table(tmp_path, "t")
        alone = {row["k"]: _row(row, row) for row in rows.to_pylist() if row["k"] in (6, 7)}
        table.write(rows)
        for _ in range(2):
            held = _held(table)
            assert {key: held[key] for key in alone} == alone
            table.compact(full=True)

    def test_a_compaction_changes_no_row(self, tmp_path: Path, rows: pa.Table) -> None:
        """And the rows of its files are in the order of their keys."""
        table = self.table(tmp_path, "t")
        for place in range(0, rows.num_rows, 3):
            table.write(rows.slice(place, 3))
        before = _held(table)
        table.compact(full=True)
        assert _held(table) == before
        assert table.to_arrow(columns=["k"])["k"].to_pylist() == sorted(before)
        assert table.check(deep=True) == []

    def test_columns_can_be_read_alone(self, tmp_path: Path, rows: pa.Table) -> None:
        """A column is what it is beside all others: an engine says by `needed_for` what else it has to see."""
        table = self.table(tmp_path, "t")
        table.write(rows)
        table.write(rows.slice(0, 4))
        whole = table.to_arrow().sort_by("k")
        for name in self.columns:
            alone = table.to_arrow(columns=["k", name]).sort_by("k")
            assert alone.column(name).to_pylist() == whole.column(name).to_pylist(), name
            assert len(table.to_arrow(columns=[name])) == len(whole)

    def test_changes_make_of_earlier_rows_what_the_table_holds(self, tmp_path: Path, rows: pa.Table) -> None:
        """With the changelog of a lookup: each change fits the rows that the ones before it have made."""
        table = self.table(tmp_path, "t", **{"changelog-producer": "lookup", "write-only": "false"})
        table.write(rows.slice(0, 2))
        first, known = table.snapshots.latest_id(), _held(table)
        for place in range(2, rows.num_rows, 2):
            table.write(rows.slice(place, 2))
        for change in table.changes(after=first).to_pylist():
            row = _row(change, ["k", *self.columns])
            if change["rowkind"] in ("+I", "+U"):
                assert known.setdefault(change["k"], row) == row, change
            else:
                assert known.pop(change["k"]) == row, change
        assert known == _held(table)

    def test_deletes_are_merged_or_refused(self, tmp_path: Path, rows: pa.Table) -> None:
        """What is refused leaves the table as it was; what is not takes the row of a key away that has no other."""
        table = self.table(tmp_path, "t")
        table.write(rows)
        before = _held(table)
        gone = rows.filter(pc.equal(rows["k"], 7)).append_column("kind", pa.array(["-D"]))
        try:
            table.write(gone, row_kind_column="kind")
        except InvalidRequest:
            assert _held(table) == before
            return
        if not self.ignores_deletes:
            del before[7]
        for _ in range(2):
            assert _held(table) == before, "Say by `refusal` that rows of kind -D are not taken, or take them."
            table.compact(full=True)


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
                assert _plain(read.column(name)) == _plain(rows.column(name)), name
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

    def test_a_compression_need_not_be_named(self, tmp_path: Path, rows: pa.Table) -> None:
        schema = pa.schema([("k", pa.int64()), *self.types.items()])
        table = Catalog(str(tmp_path)).create_table("contract.t", schema, options={"file.format": self.file_format})
        table.write(rows)
        assert table.count() == rows.num_rows

    def _open_writer(self, directory: Path, schema: pa.Schema, path: str) -> DataFileWriter:
        table = Catalog(str(directory)).create_table(
            "contract.f", schema, options={"file.format": self.file_format}, if_not_exists=True
        )
        fields = {field.name: field for field in table.schema.fields}
        return open_writer(FileIO(path), path, schema, fields, table.schema.table_options, self._compressions()[0])

    def _open_reader(self, directory: Path, path: str, **expected: Any) -> DataFileReader:
        fields = Catalog(str(directory)).table("contract.f").schema.fields
        return open_reader(FileIO(path), path, {field.name: field.type for field in fields}, ExpectedFile(**expected))

    @pytest.fixture
    def file(self, tmp_path: Path, rows: pa.Table) -> str:
        """A data file of the rows, which came in three parts."""
        path = str(tmp_path / f"data-0.{self.file_format}")
        writer = self._open_writer(tmp_path, rows.schema, path)
        for start, count in ((0, 100), (100, 1), (101, rows.num_rows - 101)):
            writer.write(rows.slice(start, count))
        assert writer.bytes_written >= 0
        assert writer.close() == Path(path).stat().st_size
        return path

    def test_a_file_gives_its_rows_in_their_order_and_the_columns_that_are_asked_for(
        self, tmp_path: Path, rows: pa.Table, file: str
    ) -> None:
        with self._open_reader(tmp_path, file, row_count=rows.num_rows, size_bytes=Path(file).stat().st_size) as reader:
            assert set(reader.column_names) == set(rows.schema.names)
            groups = reader.row_groups([])
            for names in (rows.schema.names, rows.schema.names[::-1], ["k"], rows.schema.names[1:2]):
                batches = list(reader.read_batches(names, groups))
                assert all(batch.schema.names == list(names) for batch in batches)
                read = pa.Table.from_batches(batches)
                for name in names:
                    assert _plain(read.column(name)) == _plain(rows.column(name)), name
            assert sum(batch.num_rows for batch in reader.read_batches(["k"], [])) == 0
            if reader.group_starts is not None:
                assert len(reader.group_starts) == len(groups) + 1
                assert reader.group_starts[0] == 0 and reader.group_starts[-1] == rows.num_rows
                assert reader.group_starts == sorted(reader.group_starts)

    def test_what_a_file_tells_of_its_values_is_so(self, tmp_path: Path, rows: pa.Table, file: str) -> None:
        """No row group is left out that has a row within the bounds, and none of them has a value beyond its extremes."""
        with self._open_reader(tmp_path, file) as reader:
            for low, high in ((-5, 5), (0, 0), (rows.num_rows - 3, None), (None, -1)):
                groups = reader.row_groups([RowRange("k", low, high)])
                read = [key for batch in reader.read_batches(["k"], groups) for key in batch.column("k").to_pylist()]
                wanted = [
                    key
                    for key in rows["k"].to_pylist()
                    if (low is None or key >= low) and (high is None or key <= high)
                ]
                assert set(wanted) <= set(read)
            least, most = min(rows["k"].to_pylist()), max(rows["k"].to_pylist())
            of_file = reader.extremes("k")
            assert of_file is None or (of_file[0] <= least and most <= of_file[1])
            for pair, group in zip(reader.group_extremes("k") or [], reader.row_groups([]), strict=False):
                keys = [key for batch in reader.read_batches(["k"], [group]) for key in batch.column("k").to_pylist()]
                assert pair is None or (pair[0] <= min(keys) and max(keys) <= pair[1])

    def test_many_rows_come_in_batches_that_fit_into_memory(self, tmp_path: Path) -> None:
        count = MOST_BATCH_ROWS + 1000
        path = str(tmp_path / f"data-1.{self.file_format}")
        rows = pa.table({"k": pa.array(np.arange(count)), "flag": pa.array(np.arange(count) % 3 == 0)})
        if "flag" not in self.types:
            rows = rows.select(["k"])
        writer = self._open_writer(tmp_path, rows.schema, path)
        writer.write(rows.slice(0, 1))
        writer.write(rows.slice(1))
        writer.close()
        with self._open_reader(tmp_path, path, row_count=count) as reader:
            batches = list(reader.read_batches(["k"], reader.row_groups([])))
        assert max(batch.num_rows for batch in batches) <= MOST_BATCH_ROWS
        assert pa.Table.from_batches(batches)["k"].combine_chunks().equals(rows["k"].combine_chunks())

    def test_a_file_that_its_manifest_does_not_describe_is_named(
        self, tmp_path: Path, rows: pa.Table, file: str
    ) -> None:
        for wrong in ({"row_count": rows.num_rows + 1}, {"size_bytes": Path(file).stat().st_size + 1}):
            with pytest.raises(CorruptData, match="data-0"):
                self._open_reader(tmp_path, file, **wrong)

    def test_a_file_that_is_given_up_raises_nothing(self, tmp_path: Path, rows: pa.Table) -> None:
        writer = self._open_writer(tmp_path, rows.schema, str(tmp_path / f"data-2.{self.file_format}"))
        writer.write(rows)
        writer.abort()

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
    rows = [_row(row, row) for row in table.to_arrow().to_pylist()]
    held = {row[0]: row for row in rows}
    assert len(held) == len(rows), "a key is there twice"
    return held


def _row(values: Mapping[str, Any], names: Any) -> tuple[Any, ...]:
    return tuple(tuple(value) if isinstance(value := values[name], list) else value for name in names)


def _plain(column: pa.ChunkedArray) -> list[Any]:
    """Values that can be compared: NaN as a word."""
    return ["NaN" if value != value else value for value in column.to_pylist()]


def _spread(kind: pa.DataType, count: int, place: int) -> pa.Array:
    """Values of a type for the column at a place: small numbers in an order of their own, and nulls among them."""
    numbers = [None if (row + place) % 5 == 4 else (row * (place + 2) + place) % 13 for row in range(count)]
    if pa.types.is_list(kind):
        return pa.array([None if each is None else [str(each)] for each in numbers], kind)
    if pa.types.is_boolean(kind):
        return pa.array([None if each is None else each % 2 == 0 for each in numbers], kind)
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return pa.array(numbers, kind)
    return pa.array(numbers, pa.int64()).cast(kind)


def _values(kind: pa.DataType, count: int) -> pa.Array:
    """Values of a type, every third of them null, some negative, and one that is empty, or no number, where a type has that."""
    numbers = [None if number % 3 == 0 else number * (-1) ** (number % 2) for number in range(count)]
    if pa.types.is_struct(kind):
        return pa.array([None if each is None else {"a": each, "b": f"é{each}"} for each in numbers], kind)
    if pa.types.is_list(kind):
        return pa.array([None if each is None else [each] * (each % 4) for each in numbers], kind)
    if pa.types.is_boolean(kind):
        return pa.array([None if each is None else each % 2 == 0 for each in numbers], kind)
    if pa.types.is_floating(kind):
        strange = {-1: float("nan"), 2: float("inf"), 4: float("-inf"), -5: -0.0}
        return pa.array([None if each is None else strange.get(each, each / 7) for each in numbers], kind)
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        texts = [None if each is None else "é\0'\"\n" * (each % 5) for each in numbers]
        return pa.array(texts, pa.string()).cast(kind)
    return pa.array(numbers, pa.int32()).cast(kind) if not pa.types.is_timestamp(kind) else pa.array(numbers, kind)
