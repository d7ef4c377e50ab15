"""Merge engines: what becomes of several rows with one key.

An engine gets the rows of many keys at once, those of a key one after the other in merge order (columns of
`sequence.field`, sequence number, retractions before additions), and makes one row of each key. A key with one row never
comes here: that row stands as it is. Source: `docs/format.md`, "Merge engines".
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import InvalidRequest, Unsupported
from ..extensions import INSTALL_IT, load_extension
from ..metadata.field_options import declared_function
from ..metadata.schema import KEY_PREFIX, TableSchema
from ..option_checks import MERGE_ENGINES, MERGE_ENGINES_OF_OTHERS, merge_engine_names
from ..retractable import takes_back
from .aggregators import (
    AggregateOptions,
    Groups,
    aggregate,
    check_function,
    check_type,
    not_taken_back,
    pick,
)
from .collection_aggregates import collection_options
from .key_order import ranks, reversed_ranks
from .record_expiry import record_expiry_of
from .sequence_groups import SequenceGroup, removing_fields, sequence_groups, since_last_removal
from .system_columns import DELETE, FILE, INSERT, LEVEL, POSITION, SEQUENCE_NUMBER, UPDATE_BEFORE, VALUE_KIND, WHOLE

_FIRST_ROW_RETRACTS = "The merge engine first-row takes no rows of kind -U or -D. Set 'ignore-delete' to drop them."
_PARTIAL_UPDATE_RETRACTS = (
    "The merge engine partial-update takes no rows of kind -U or -D. Set 'ignore-delete' to drop them, or make a new table "
    "with 'partial-update.remove-record-on-delete' to remove the row, or with sequence groups."
)


# What a merged row has of the last of its key, whatever becomes of values.
_OF_LAST_ROW = (SEQUENCE_NUMBER, LEVEL, WHOLE, FILE, POSITION)


class MergeEngine(ABC):
    """Makes one row of the rows of a key."""

    # Columns that order the rows of a key before sequence numbers do.
    order_by: tuple[str, ...] = ()
    # Whether of those the lowest value comes last, in place of the highest.
    is_descending: bool = False
    # The primary key, which is the same in all rows of a group.
    keys: frozenset[str] = frozenset()
    # Whether of the rows of a key those above the lowest whole one do not count: it was made of them.
    looks_up: bool = False
    # The columns that are aggregated.
    aggregates: "Mapping[str, ColumnAggregate]" = MappingProxyType({})
    # Whether a row that is the only one of its key is merged as well, instead of standing as it is.
    merges_single_rows: bool = False

    @property
    def last_row_wins(self) -> bool:
        """Whether the row with the highest sequence number stands, so that no other need be looked at."""
        return False

    def order_of(self, column: pa.Array | pa.ChunkedArray) -> np.ndarray:
        """Whole numbers in the order in which the rows of a key come by one of the columns that order them."""
        return reversed_ranks(column) if self.is_descending else ranks(column)

    def needed_for(self, columns: Iterable[str]) -> list[str]:
        """Columns that have to be read so that the given ones can be merged."""
        return list(dict.fromkeys([*columns, *self.order_by]))

    @abstractmethod
    def reduce(self, rows: pa.RecordBatch, groups: Groups) -> pa.RecordBatch:
        """One row for each group, with the same columns."""

    def refusal(self, retractions: pa.Table, kinds: np.ndarray) -> str | None:
        """Why rows of kind -U and -D cannot be merged with others of their keys, and what to do; None if they can."""
        return None


class ColumnEngine(MergeEngine):
    """Makes each value of a row from the values that the rows of the key have in that column: what engines of other packages
    begin with. It takes no rows of kind -U and -D, unless `takes_back`.
    """

    takes_back: bool = False

    def __init__(self, order_by: Sequence[str] = ()) -> None:
        """`order_by`: columns of `sequence.field`, by which the rows of a key come in order."""
        self.order_by = tuple(order_by)

    @abstractmethod
    def merge_column(self, name: str, column: pa.Array, groups: Groups) -> pa.Array:
        """One value for each group, of the column's type. `name`: the column's."""

    def reduce(self, rows: pa.RecordBatch, groups: Groups) -> pa.RecordBatch:
        if not self.takes_back and groups.retracts.any():
            raise InvalidRequest(self._refusal)
        merged = _start(rows, groups, self.keys)
        for name, column in zip(rows.schema.names, rows.columns, strict=True):
            if name not in merged:
                merged[name] = self.merge_column(name, column, groups)
        return _finish(rows, merged)

    def refusal(self, retractions: pa.Table, kinds: np.ndarray) -> str | None:
        return None if self.takes_back else self._refusal

    @property
    def _refusal(self) -> str:
        return (
            f"The merge engine {type(self).__name__} takes no rows of kind -U or -D. Set 'ignore-delete' to drop them."
        )


class Deduplicate(MergeEngine):
    """The last row of a key stands."""

    def __init__(self, order_by: Sequence[str] = ()) -> None:
        self.order_by = tuple(order_by)

    @property
    def last_row_wins(self) -> bool:
        return not self.order_by

    def reduce(self, rows: pa.RecordBatch, groups: Groups) -> pa.RecordBatch:
        return rows.take(pa.array(groups.ends))


class FirstRow(MergeEngine):
    """The first row of a key stands."""

    def reduce(self, rows: pa.RecordBatch, groups: Groups) -> pa.RecordBatch:
        if groups.retracts.any():
            raise InvalidRequest(_FIRST_ROW_RETRACTS)
        return rows.take(pa.array(groups.starts))

    def refusal(self, retractions: pa.Table, kinds: np.ndarray) -> str | None:
        return _FIRST_ROW_RETRACTS


@dataclass(frozen=True, slots=True)
class ColumnAggregate:
    """The function of a column."""

    function: str
    options: AggregateOptions


class Aggregation(MergeEngine):
    """Each column is aggregated by a function of its own."""

    def __init__(
        self,
        aggregates: Mapping[str, ColumnAggregate],
        order_by: Sequence[str],
        *,
        remove_on_delete: bool,
        keeping: Collection[str] = (),
    ) -> None:
        """`keeping`: the columns of `order_by` that keep their value where a row takes values back."""
        self.aggregates = aggregates
        self.order_by = tuple(order_by)
        self._remove_on_delete = remove_on_delete
        self._keeping = keeping

    def reduce(self, rows: pa.RecordBatch, groups: Groups) -> pa.RecordBatch:
        merged = _start(rows, groups, self.keys)
        # What is left after taking back more than was there is a row with that value.
        merged[VALUE_KIND] = pa.array(np.full(groups.count, INSERT, np.int8))
        ordered = rows
        if self._remove_on_delete:
            rows, groups, merged = _since_last_delete(rows, groups, merged, takes_back=True)
        for name, each in self.aggregates.items():
            if name in rows.schema.names:
                merged[name] = aggregate(each.function, rows.column(name), groups, each.options, name)
        for name in self.order_by:
            if name in rows.schema.names:
                # A delete keeps its place in the order, for rows that it meets later.
                last = np.where(groups.retracts[groups.ends], -1, groups.ends)
                if name in self._keeping:
                    last = groups.last_where(~groups.retracts)
                merged[name] = pick(ordered.column(name), last)
        return _finish(rows, merged)

    def refusal(self, retractions: pa.Table, kinds: np.ndarray) -> str | None:
        # A -D that removes the row takes no value back.
        takes_values_back = not self._remove_on_delete or (kinds == UPDATE_BEFORE).any()
        return _first_refusal(self.aggregates) if takes_values_back else None


class PartialUpdate(MergeEngine):
    """Later values that are not null replace earlier ones; columns of a sequence group are replaced together."""

    def __init__(
        self,
        groups: Sequence[SequenceGroup],
        aggregates: Mapping[str, ColumnAggregate],
        order_by: Sequence[str],
        *,
        remove_on_delete: bool,
        removing: Sequence[str] = (),
    ) -> None:
        self._groups = groups
        # A -D that is not late in one of these groups removes the row.
        self._removing = [group for group in groups if set(group.order_by) & set(removing)]
        self.aggregates = aggregates
        self.order_by = tuple(order_by)
        self._remove_on_delete = remove_on_delete
        self._grouped = {name for group in groups for name in (*group.order_by, *group.columns)}

    def needed_for(self, columns: Iterable[str]) -> list[str]:
        wanted = super().needed_for(columns)
        for group in self._groups:
            if set(wanted) & {*group.order_by, *group.columns}:
                wanted += group.order_by
        for group in self._removing:
            wanted += group.order_by
        return list(dict.fromkeys(wanted))

    def reduce(self, rows: pa.RecordBatch, groups: Groups) -> pa.RecordBatch:
        if groups.retracts.any() and not self._remove_on_delete and not self._groups:
            raise InvalidRequest(_PARTIAL_UPDATE_RETRACTS)
        merged = _start(rows, groups, self.keys)
        if self._remove_on_delete:
            ordered = rows
            rows, groups, merged = _since_last_delete(rows, groups, merged)
            for name in self.order_by:
                if name in rows.schema.names:
                    deleted = np.asarray(merged[VALUE_KIND]) == DELETE
                    valid = np.asarray(rows.column(name).is_valid())
                    merged[name] = pick(ordered.column(name), np.where(deleted, groups.ends, groups.last_where(valid)))
        removals = None
        if self._removing and groups.retracts.any():
            rows, groups, merged, removals = since_last_removal(rows, groups, merged, self._removing)
        for name in rows.schema.names:
            if name not in merged and name not in self._grouped:
                valid = np.asarray(rows.column(name).is_valid()) & ~groups.retracts
                merged[name] = pick(rows.column(name), groups.last_where(valid))
        for group in self._groups:
            if set(rows.schema.names).issuperset(group.order_by):
                self._reduce_group(group, rows, groups, merged, removals)
        return _finish(rows, merged)

    def refusal(self, retractions: pa.Table, kinds: np.ndarray) -> str | None:
        if self._remove_on_delete:
            return None
        if not self._groups:
            return _PARTIAL_UPDATE_RETRACTS
        for group in self._groups:
            # A row without an order takes no part in a group.
            if all(retractions.column(name).null_count == retractions.num_rows for name in group.order_by):
                continue
            refused = _first_refusal({name: value for name, value in self.aggregates.items() if name in group.columns})
            if refused is not None:
                return refused
        return None

    def _reduce_group(
        self,
        group: SequenceGroup,
        rows: pa.RecordBatch,
        groups: Groups,
        merged: dict[str, pa.Array],
        removals: np.ndarray | None,
    ) -> None:
        """The row with the highest order is the one that counts; a retraction leaves nulls behind. What a key is since its
        removal counts without an order, too.
        """
        counts = np.zeros(rows.num_rows, bool) if removals is None else removals.copy()
        for name in group.order_by:
            counts |= np.asarray(rows.column(name).is_valid())
        orders = [ranks(rows.column(name)) for name in group.order_by]
        place = np.empty(rows.num_rows, np.int64)
        place[np.lexsort((np.arange(rows.num_rows), *reversed(orders)))] = np.arange(rows.num_rows)
        # The highest place up to each row: keys follow each other, so that those before are lower.
        highest = np.maximum.accumulate(np.where(counts, place, -1) + groups.of_rows * rows.num_rows)
        highest -= groups.of_rows * rows.num_rows
        late = counts & (place < highest)
        last = groups.last_where(counts & ~late)
        for name in group.order_by:
            merged[name] = pick(rows.column(name), last)
        standing = np.where((last >= 0) & ~groups.retracts[np.maximum(last, 0)], last, -1)
        # Functions see, in the order in which they came, the rows that take part.
        taking_part = np.logical_or.reduceat(counts, groups.starts)
        starts = np.append(0, np.cumsum(np.add.reduceat(counts.astype(np.int64), groups.starts)[taking_part]))[:-1]
        inner = Groups(starts, groups.retracts[counts], late[counts])
        indices = np.where(taking_part, np.cumsum(taking_part) - 1, -1)
        for name in group.columns:
            if name not in rows.schema.names:
                continue
            column = rows.column(name)
            aggregation = self.aggregates.get(name)
            if aggregation is None:
                merged[name] = pick(column, standing)
            elif not taking_part.any():
                merged[name] = pa.nulls(groups.count, column.type)
            else:
                values = aggregate(
                    aggregation.function, column.filter(pa.array(counts)), inner, aggregation.options, name
                )
                merged[name] = pick(values, indices)


def _first_refusal(aggregates: Mapping[str, ColumnAggregate]) -> str | None:
    """What there is to say of the first column that cannot take values back, nor ignores those that are."""
    for name, each in aggregates.items():
        if not each.options.ignore_retract and not takes_back(each.function):
            return not_taken_back(each.function, name, each.options)
    return None


def _start(rows: pa.RecordBatch, groups: Groups, keys: frozenset[str]) -> dict[str, pa.Array]:
    """What every engine does alike: keys and sequence number of the last row, kind -D only where nothing was added."""
    merged = {
        name: pick(rows.column(name), groups.ends)
        for name in rows.schema.names
        if name.startswith(KEY_PREFIX) or name in _OF_LAST_ROW or name in keys
    }
    added = np.logical_or.reduceat(~groups.retracts, groups.starts)
    merged[VALUE_KIND] = pa.array(np.where(added, INSERT, DELETE).astype(np.int8))
    return merged


def _since_last_delete(
    rows: pa.RecordBatch, groups: Groups, merged: dict[str, pa.Array], *, takes_back: bool = False
) -> tuple[pa.RecordBatch, Groups, dict[str, pa.Array]]:
    """Rows up to a -D are gone, the -D with them; -U says nothing, unless it `takes_back`. A key that ends with -D stays as a
    delete.
    """
    kinds = rows.column(VALUE_KIND).to_numpy()
    deleted_at = groups.last_where(kinds == DELETE)
    ends_deleted = deleted_at == groups.ends
    counts = np.arange(rows.num_rows) > np.repeat(deleted_at, np.diff(np.append(groups.starts, groups.row_count)))
    if not takes_back:
        counts &= kinds != UPDATE_BEFORE
    columns = [
        column if name in merged else pc.if_else(pa.array(counts), column, pa.scalar(None, column.type))
        for name, column in zip(rows.schema.names, rows.columns, strict=True)
    ]
    merged[VALUE_KIND] = pa.array(np.where(ends_deleted, DELETE, INSERT).astype(np.int8))
    plain = pa.RecordBatch.from_arrays(columns, rows.schema.names)
    return plain, Groups(groups.starts, counts & (kinds == UPDATE_BEFORE)), merged


def _finish(rows: pa.RecordBatch, merged: Mapping[str, pa.Array]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([merged[name] for name in rows.schema.names], rows.schema.names)


def merge_groups(rows: pa.RecordBatch, starts: np.ndarray, engine: MergeEngine) -> pa.RecordBatch:
    """One row for each group, in the order of the groups; a group of one row stays as it is, unless the engine merges those."""
    sizes = np.diff(np.append(starts, rows.num_rows))
    several = sizes > (0 if engine.merges_single_rows else 1)
    if not several.any():
        return rows
    in_several = np.repeat(several, sizes)
    inner = rows.filter(pa.array(in_several))
    kinds = inner.column(VALUE_KIND).to_numpy()
    inner_starts = np.append(0, np.cumsum(sizes[several])[:-1])
    reduced = engine.reduce(inner, Groups(inner_starts, (kinds == UPDATE_BEFORE) | (kinds == DELETE)))
    if several.all():
        return reduced
    single = rows.filter(pa.array(~in_several))
    together = pa.Table.from_batches([reduced.cast(single.schema), single]).combine_chunks().to_batches()[0]
    places = np.empty(len(sizes), np.int64)
    places[several] = np.arange(reduced.num_rows)
    places[~several] = np.arange(single.num_rows) + reduced.num_rows
    return together.take(pa.array(places))


# --- from options


def merge_engine_of(schema: TableSchema) -> MergeEngine:
    """The engine that a table's options ask for. Raises InvalidRequest or Unsupported that names the option."""
    engine = _engine_of(schema)
    engine.keys = frozenset(schema.primary_keys)
    engine.is_descending = schema.table_options.sequence_field_sort_order == "descending"
    engine.looks_up = schema.table_options.looks_up and not engine.last_row_wins and not isinstance(engine, FirstRow)
    return engine


def check_merge_engine(schema: TableSchema) -> None:
    """Raise InvalidRequest or Unsupported for options that ask for what cannot be merged. Asked of what is given: a table of
    another writer is read as long as its rows allow it.
    """
    record_expiry_of(schema, 0)
    of_groups = [name for group in sequence_groups(schema) for name in group.order_by]
    for name in of_groups:
        if schema.options.get(f"fields.{name}.aggregate-function"):
            raise InvalidRequest(f"Column {name!r} orders a sequence group, so that no function aggregates it.")
    for name in (*schema.table_options.sequence_field, *of_groups):
        if (data_type := schema.field(name).type).is_nested:
            raise Unsupported(
                f"Column {name!r} has type {data_type}, whose values have no order: rows have no sequence by it. Name a column "
                "of numbers, times or texts."
            )
    for name, aggregate_ in merge_engine_of(schema).aggregates.items():
        check_type(aggregate_.function, name, schema.field(name).type, aggregate_.options)


def _engine_of(schema: TableSchema) -> MergeEngine:
    options = schema.table_options
    order_by = options.sequence_field
    for name in order_by:
        schema.field(name)
    added: Callable[[TableSchema], MergeEngine] | None = load_extension(
        MERGE_ENGINES_OF_OTHERS, options.merge_engine, "merge engine", MERGE_ENGINES
    )
    if added is not None:
        engine = added(schema)
        engine.order_by = engine.order_by or order_by
        return engine
    if options.merge_engine == "deduplicate":
        return Deduplicate(order_by)
    if options.merge_engine == "first-row" and options.changelog_producer not in ("none", "lookup"):
        raise InvalidRequest("The merge engine first-row goes with 'changelog-producer' = 'none' or 'lookup'.")
    if options.merge_engine == "first-row":
        if order_by:
            raise InvalidRequest(
                "Option 'sequence.field' has no meaning with the merge engine first-row: leave it out."
            )
        return FirstRow()
    values = [name for name in schema.column_names if name not in schema.primary_keys]
    if options.merge_engine == "aggregation":
        aggregates = {name: _aggregate_of(schema, name) for name in values if name not in order_by}
        remove = schema.options.get("aggregation.remove-record-on-delete", "false") == "true"
        keeping = [name for name in order_by if _ignores_retract(schema, name)]
        return Aggregation(aggregates, order_by, remove_on_delete=remove, keeping=keeping)
    if options.merge_engine == "partial-update":
        groups = sequence_groups(schema)
        grouped = {name for group in groups for name in group.columns}
        ordering = {name for group in groups for name in group.order_by}
        # Those that order others are aggregated by nothing, as in Java.
        declared = {name: None if name in ordering else declared_function(schema.options, name) for name in values}
        for name, function in declared.items():
            if function is not None and name not in grouped and function != "last_non_null_value":
                raise InvalidRequest(
                    f"Column {name!r} is aggregated by {function!r}, which partial-update takes in a sequence group only. "
                    f"Name it in a 'fields.<column>.sequence-group'."
                )
        aggregates = {name: _aggregate_of(schema, name) for name in grouped if declared[name] is not None}
        remove = schema.options.get("partial-update.remove-record-on-delete", "false") == "true"
        if remove and groups:
            raise InvalidRequest(
                "'partial-update.remove-record-on-delete' and sequence groups exclude each other: leave one out."
            )
        removing = removing_fields(schema.options, groups)
        return PartialUpdate(groups, aggregates, order_by, remove_on_delete=remove, removing=removing)
    raise Unsupported(
        f"Merge engine {options.merge_engine!r} is not supported. Supported: {', '.join(merge_engine_names())}. {INSTALL_IT}"
    )


def _aggregate_of(schema: TableSchema, name: str) -> ColumnAggregate:
    options = schema.options
    function = check_function(declared_function(schema.options, name) or "last_non_null_value", name)
    return ColumnAggregate(
        function,
        AggregateOptions(
            ignore_retract=_ignores_retract(schema, name),
            delimiter=options.get(f"fields.{name}.list-agg-delimiter", ","),
            distinct=options.get(f"fields.{name}.distinct", "false") == "true",
            may_ignore=options.get("aggregation.remove-record-on-delete", "false") != "true",
            collection=collection_options(options, name, schema.field(name).type),
        ),
    )


def _ignores_retract(schema: TableSchema, name: str) -> bool:
    return schema.options.get(f"fields.{name}.ignore-retract", "false") == "true"
