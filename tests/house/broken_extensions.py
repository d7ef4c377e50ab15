"""Engines and formats with a mistake each, and the contracts that they are tried with; `test_contracts.py` runs them."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from storage import FileIO, extensions
from storage.file_formats import ENTRY_POINT
from storage.format.data_file import BATCH_ROWS, DataFileReader, DataFileWriter, ExpectedFile, RowRange, damage_named
from storage.lsm.aggregators import Groups, pick
from storage.lsm.merge_engines import MERGE_ENGINES_OF_OTHERS, ColumnEngine, MergeEngine
from storage.testing import FileFormatContract, MergeEngineContract


class Last(ColumnEngine):
    """The last value stands: nothing is wrong with it."""

    def merge_column(self, name: str, column: pa.Array, groups: Groups) -> pa.Array:
        return pick(column, groups.ends)


class DeletesAreValues(Last):
    takes_back = True


class LosesMany(Last):
    """Of more than five rows nothing is left."""

    def merge_column(self, name: str, column: pa.Array, groups: Groups) -> pa.Array:
        return pick(column, np.where(groups.ends - groups.starts > 4, -1, groups.ends))


class LosesAll(Last):
    def merge_column(self, name: str, column: pa.Array, groups: Groups) -> pa.Array:
        return pa.nulls(groups.count, column.type)


class NoNested(Last):
    def merge_column(self, name: str, column: pa.Array, groups: Groups) -> pa.Array:
        if pa.types.is_nested(column.type):
            raise ValueError(name)
        return super().merge_column(name, column, groups)


class _Rows(MergeEngine):
    def refusal(self, retractions: pa.Table, kinds: np.ndarray) -> str | None:
        return "No deletes."


class Fullest(_Rows):
    """The row with most values stands, among the columns that happen to be read."""

    def reduce(self, rows: pa.RecordBatch, groups: Groups) -> pa.RecordBatch:
        values = sum(np.asarray(column.is_valid()).astype(int) for column in rows.columns)
        return rows.take(pa.array(np.lexsort((np.arange(rows.num_rows), values, groups.of_rows))[groups.ends]))


class OutOfOrder(_Rows):
    def reduce(self, rows: pa.RecordBatch, groups: Groups) -> pa.RecordBatch:
        return rows.take(pa.array(np.roll(groups.ends, 1)))


class Reader(DataFileReader):
    is_of_java = False

    def __init__(self, file_io: FileIO, path: str, expected: ExpectedFile) -> None:
        data = file_io.read_bytes(path)
        expected.check_size(path, len(data))
        with damage_named(path):
            self.rows = pa.ipc.open_stream(data).read_all()
        expected.check_rows(path, self.rows.num_rows)

    def close(self) -> None:
        pass

    @property
    def column_names(self) -> list[str]:
        return list(self.rows.schema.names)

    def row_groups(self, ranges: Sequence[RowRange]) -> list[int]:
        return [0]

    def read_batches(
        self, columns: Sequence[str], row_groups: Sequence[int], *, use_threads: bool = True
    ) -> Iterator[pa.RecordBatch]:
        if row_groups:
            yield from self.rows.select(list(columns)).combine_chunks().to_batches(BATCH_ROWS)


class Backwards(Reader):
    def read_batches(
        self, columns: Sequence[str], row_groups: Sequence[int], *, use_threads: bool = True
    ) -> Iterator[pa.RecordBatch]:
        yield from reversed(list(super().read_batches(columns, row_groups)))


class AllColumns(Reader):
    def read_batches(
        self, columns: Sequence[str], row_groups: Sequence[int], *, use_threads: bool = True
    ) -> Iterator[pa.RecordBatch]:
        return super().read_batches(self.column_names, row_groups)


class Unchecked(Reader):
    def __init__(self, file_io: FileIO, path: str, expected: ExpectedFile) -> None:
        super().__init__(file_io, path, ExpectedFile())


class LeavesOut(Reader):
    def row_groups(self, ranges: Sequence[RowRange]) -> list[int]:
        return [] if ranges else [0]


class Writer(DataFileWriter):
    def __init__(self, file_io: FileIO, path: str, schema: pa.Schema) -> None:
        self._file_io, self._path, self._sink = file_io, path, pa.BufferOutputStream()
        self._writer = pa.ipc.new_stream(self._sink, schema)

    def write(self, table: pa.Table) -> None:
        self._writer.write_table(table)

    @property
    def bytes_written(self) -> int:
        return int(self._sink.tell())

    def close(self) -> int:
        self._writer.close()
        data = self._sink.getvalue().to_pybytes()
        self._file_io.write_bytes(self._path, data)
        return len(data)

    def abort(self) -> None:
        self._writer.close()


class FewRows(Writer):
    def write(self, table: pa.Table) -> None:
        super().write(table.slice(0, 1000))


class NoNan(Writer):
    def write(self, table: pa.Table) -> None:
        kept = [
            pc.if_else(pc.is_nan(each), None, each) if pa.types.is_floating(each.type) else each
            for each in table.columns
        ]
        super().write(pa.Table.from_arrays(kept, schema=table.schema))


class Format:
    compressions = ("none",)

    def __init__(self, reader: type[Reader] = Reader, writer: type[Writer] = Writer) -> None:
        self._reader, self._writer = reader, writer

    def open_reader(self, file_io: FileIO, path: str, types: Mapping[str, Any], expected: ExpectedFile) -> Reader:
        return self._reader(file_io, path, expected)

    def open_writer(
        self, file_io: FileIO, path: str, schema: pa.Schema, fields: Mapping[str, Any], compression: str
    ) -> Writer:
        return self._writer(file_io, path, schema)


ENGINES = (Last, DeletesAreValues, LosesMany, LosesAll, NoNested, Fullest, OutOfOrder)
FORMATS = {
    "Stream": Format(),
    **{each.__name__: Format(reader=each) for each in (Backwards, AllColumns, Unchecked, LeavesOut)},
    **{each.__name__: Format(writer=each) for each in (FewRows, NoNan)},
}


def _opened(engine: type[MergeEngine], schema: object) -> MergeEngine:
    return engine()


def _itself(value: Any) -> Any:
    return value


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them, as if a package had added them."""
    engines = {each.__name__.lower(): partial(_opened, each) for each in ENGINES}
    added = {MERGE_ENGINES_OF_OTHERS: engines, ENTRY_POINT: {name.lower(): each for name, each in FORMATS.items()}}

    def entries(group: str, path: tuple[str, ...]) -> tuple[Any, ...]:
        named = added.get(group, {})
        return tuple(
            SimpleNamespace(name=name, dist=None, value=name, load=partial(_itself, value))
            for name, value in named.items()
        )

    monkeypatch.setattr(extensions, "_installed", entries)


for _engine in ENGINES:
    globals()[f"Test{_engine.__name__}"] = type(
        f"Test{_engine.__name__}", (MergeEngineContract,), {"merge_engine": _engine.__name__.lower()}
    )
for _name in FORMATS:
    globals()[f"Test{_name}"] = type(f"Test{_name}", (FileFormatContract,), {"file_format": _name.lower()})
