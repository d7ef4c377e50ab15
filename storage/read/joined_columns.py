"""Rows whose columns lie in several files (`data-evolution.enabled`): files that begin at the same row id hold the same rows in
the same order, each some of their columns, and of each column the newest file counts. Source: `docs/format.md`, "Row tracking".
"""

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from ..data_types import DataField
from ..errors import CorruptData, Unsupported
from ..lsm.sorted_run import Section, SortedRun
from ..metadata.manifest import DataFile

# Files of columns that are kept apart, and are not read here.
_APART = ("blob", "vector")


def row_groups(files: Sequence[DataFile]) -> list[Section]:
    """A section for all files of the same rows, in the order of row ids. Raises Unsupported for files of a part of them."""
    groups: dict[int, list[DataFile]] = {}
    for file in files:
        if file.format in _APART:
            continue
        if file.first_row_id is None:
            raise Unsupported(f"Data file {file.name} has no row ids, in a table with 'data-evolution.enabled'.")
        groups.setdefault(file.first_row_id, []).append(file)
    for together in groups.values():
        if len({file.row_count for file in together}) > 1:
            names = ", ".join(file.name for file in together)
            raise Unsupported(f"Data files {names} begin at the same row and hold different numbers of them.")
    return [
        Section(tuple(SortedRun((file,)) for file in sorted(together, key=lambda member: -member.max_sequence_number)))
        for _, together in sorted(groups.items())
    ]


def columns_of_files(
    fields: Sequence[DataField], files: Sequence[DataFile], schemas: Mapping[int, Sequence[DataField]]
) -> list[tuple[DataFile, list[DataField]]]:
    """Of each file, newest first, the columns that are read from it."""
    chosen: dict[str, list[DataField]] = {}
    for field in fields:
        for file in files:
            names = [schema.name for schema in schemas[file.schema_id] if schema.id == field.id]
            if names and (file.write_columns is None or names[0] in file.write_columns):
                chosen.setdefault(file.name, []).append(field)
                break
    return [(file, chosen[file.name]) for file in files if file.name in chosen]


def side_by_side(
    parts: Sequence[tuple[Sequence[DataField], Iterator[pa.RecordBatch]]], row_count: int
) -> Iterator[tuple[dict[str, pa.Array], int]]:
    """The columns of several streams of the same rows, by name, and how many rows they are; without a stream, all at once."""
    held: list[pa.RecordBatch | None] = [None] * len(parts)
    left = row_count
    while left:
        for number, (_, batches) in enumerate(parts):
            if held[number] is None:
                held[number] = next((batch for batch in batches if batch.num_rows), None)
        here = [batch for batch in held if batch is not None]
        if len(here) < len(parts):
            raise CorruptData("Data files of the same rows hold different numbers of them.")
        step = min((batch.num_rows for batch in here), default=left)
        columns: dict[str, pa.Array] = {}
        for number, ((fields, _), batch) in enumerate(zip(parts, here, strict=True)):
            columns |= {field.name: batch.column(field.name).slice(0, step) for field in fields}
            held[number] = batch.slice(step) if batch.num_rows > step else None
        yield columns, step
        left -= step
