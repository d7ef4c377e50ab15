"""Aggregate functions of a column: from the values of each key, in merge order, to one value.

They work on whole columns: all keys of a batch at once. Source: `docs/format.md`, "Merge engines".
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..data_types import DataType
from ..errors import InvalidRequest, Unsupported
from ..retractable import takes_back
from .collection_aggregates import CollectionOptions, aggregate_collections, check_collection
from .decimal_product import decimal_product
from .key_order import ranks


@dataclass(frozen=True)
class Groups:
    """Rows of several keys, those of a key one after the other, in merge order.

    `starts` is the first row of each key; `retracts` tells the rows that take a value back (-U and -D). `late`, if given, tells
    those that a sequence group puts before a row that came earlier: functions to which the order matters see to them. `ignored`,
    if given, tells rows that do not count, whose values are null.
    """

    starts: np.ndarray
    retracts: np.ndarray
    late: np.ndarray | None = None
    ignored: np.ndarray | None = None

    @property
    def counted(self) -> np.ndarray:
        """The rows that count."""
        return np.ones(self.row_count, bool) if self.ignored is None else ~self.ignored

    @property
    def row_count(self) -> int:
        """How many rows there are in all groups."""
        return len(self.retracts)

    @property
    def count(self) -> int:
        """How many groups there are."""
        return len(self.starts)

    @property
    def of_rows(self) -> np.ndarray:
        """The number of the group of each row."""
        sizes = np.diff(np.append(self.starts, self.row_count))
        return np.repeat(np.arange(self.count), sizes)

    @property
    def ends(self) -> np.ndarray:
        """The last row of each group."""
        return np.append(self.starts[1:], self.row_count) - 1

    def last_where(self, mask: np.ndarray) -> np.ndarray:
        """The last row of each group for which the mask is set; -1 if there is none."""
        rows = np.where(mask, np.arange(self.row_count), -1)
        return np.maximum.reduceat(rows, self.starts)

    def first_where(self, mask: np.ndarray) -> np.ndarray:
        """The first row of each group for which the mask is set; -1 if there is none."""
        rows = np.where(mask, np.arange(self.row_count), self.row_count)
        first = np.minimum.reduceat(rows, self.starts)
        return np.where(first == self.row_count, -1, first)


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregateOptions:
    """What `fields.<column>.*` says beside the function."""

    ignore_retract: bool = False
    delimiter: str = ","
    distinct: bool = False
    # Whether Paimon lets a table have `ignore-retract` besides: not where a delete removes the row.
    may_ignore: bool = True
    # Of a collection: nested tables, maps, bitmaps.
    collection: CollectionOptions | None = None


Aggregator = Callable[[pa.Array, Groups, AggregateOptions], pa.Array]


def pick(column: pa.Array, rows: np.ndarray) -> pa.Array:
    """The values of those rows; null for -1."""
    return column.take(pa.array(np.maximum(rows, 0), mask=rows < 0))


def aggregate(name: str, column: pa.Array, groups: Groups, options: AggregateOptions, column_name: str) -> pa.Array:
    """One value for each group. Raises InvalidRequest if the function cannot take values back and must, or if a value does not
    fit the column.
    """
    if options.ignore_retract and groups.retracts.any():
        # Rows that are not counted must not leave a group empty: they become nulls, which functions skip.
        ignored = groups.retracts
        column = pc.if_else(pa.array(ignored), pa.scalar(None, column.type), column)
        late = None if groups.late is None else groups.late & ~ignored
        groups = Groups(groups.starts, np.zeros(groups.row_count, bool), late, ignored)
    elif groups.retracts.any() and not takes_back(name):
        raise InvalidRequest(not_taken_back(name, column_name, options))
    try:
        if name in _OF_COLLECTIONS:
            assert options.collection is not None
            late = _late(groups)
            return aggregate_collections(name, column, groups.starts, groups.retracts, late, options.collection)
        return _FUNCTIONS[name](column, groups, options).cast(column.type)
    except ZeroDivisionError:
        raise InvalidRequest(
            f"Column {column_name!r} is aggregated by {name!r}, and of some key a row takes the factor 0 back, which cannot be "
            f"divided by. Set 'fields.{column_name}.ignore-retract', or roll back to before that row."
        ) from None
    except pa.ArrowInvalid as error:
        raise InvalidRequest(
            f"Column {column_name!r} is aggregated by {name!r}, and of some key the result does not fit its type, "
            f"{column.type}: {error}. Widen the column (ALTER COLUMN {column_name} TYPE …), or take rows back."
        ) from None


def not_taken_back(name: str, column_name: str, options: AggregateOptions) -> str:
    """What to say of rows that take values back from a function that cannot."""
    ways = f"Set 'fields.{column_name}.ignore-retract' or 'ignore-delete', or do not write such rows."
    if not options.may_ignore:
        ways = "Write the new row alone ('ignore-update-before' drops rows of kind -U); where they are there already, roll back."
    return (
        f"Column {column_name!r} is aggregated by {name!r}, which cannot take a value back, but there are rows of kind "
        f"-U or -D. {ways}"
    )


def check_function(name: str, column_name: str) -> str:
    """Return the name of a function there is; raise Unsupported that lists them."""
    if name not in _FUNCTIONS and name not in _OF_COLLECTIONS:
        reason = f" ({_REFUSED[name]})" if name in _REFUSED else ""
        raise Unsupported(
            f"Column {column_name!r}: aggregate function {name!r} is not supported{reason}. Supported: "
            f"{', '.join((*_FUNCTIONS, *_OF_COLLECTIONS))}."
        )
    return name


def check_type(name: str, column_name: str, kind: DataType, options: AggregateOptions) -> None:
    """Raise InvalidRequest if a function does not take values of a type. As in Paimon's Java library."""
    if options.collection is not None and name in _OF_COLLECTIONS:
        check_collection(name, column_name, options.collection)
    fits, wanted = _TYPES.get(name, (None, ""))
    if fits is not None and not fits(kind):
        raise InvalidRequest(
            f"Column {column_name!r} of type {kind} cannot be aggregated by {name!r}, which takes {wanted}. Change "
            f"'fields.{column_name}.aggregate-function', or the type."
        )


def _valid(column: pa.Array) -> np.ndarray:
    return np.asarray(column.is_valid())


def _late(groups: Groups) -> np.ndarray:
    """The late rows that add a value: one that takes a value back does so whenever it comes."""
    return np.zeros(groups.row_count, bool) if groups.late is None else groups.late & ~groups.retracts


def _last_value(column: pa.Array, groups: Groups, _: AggregateOptions) -> pa.Array:
    rows = groups.last_where(~_late(groups) & groups.counted)
    return pick(column, np.where(groups.retracts[np.maximum(rows, 0)], -1, rows))


def _last_non_null_value(column: pa.Array, groups: Groups, _: AggregateOptions) -> pa.Array:
    valid, late = _valid(column), _late(groups)
    rows = groups.last_where(valid & ~late)
    taken_back = (rows >= 0) & groups.retracts[np.maximum(rows, 0)]
    if not late.any():
        return pick(column, np.where(taken_back, -1, rows))
    # Where there is no value (any more), the first that comes late fills in.
    after = np.arange(groups.row_count) > rows[groups.of_rows]
    filling = groups.first_where(valid & late & after)
    return pick(column, np.where(taken_back | (rows < 0), filling, rows))


def _first_value(column: pa.Array, groups: Groups, _: AggregateOptions) -> pa.Array:
    late = groups.last_where(_late(groups))
    return pick(column, np.where(late < 0, groups.first_where(groups.counted), late))


def _first_non_null_value(column: pa.Array, groups: Groups, _: AggregateOptions) -> pa.Array:
    valid, late = _valid(column), _late(groups)
    first = groups.first_where(valid & ~late)
    if not late.any():
        return pick(column, first)
    # Whatever comes late once there is a value takes its place, null or not; of those before it the first is such a value as
    # soon as a second one comes.
    numbers = np.arange(groups.row_count)
    of_rows = groups.of_rows
    filling = groups.first_where(valid & late)
    again = groups.first_where(late & (numbers > filling[of_rows]) & (filling >= 0)[of_rows])
    by_filling = (again >= 0) & ((first < 0) | (again < first)) & ((first < 0) | (filling < first))
    settled = np.where(by_filling, again, first)
    value = np.where(by_filling, filling, np.where(first < 0, filling, first))
    replacing = groups.last_where(late & (numbers > settled[of_rows]) & (settled >= 0)[of_rows])
    return pick(column, np.where(replacing >= 0, replacing, value))


def _extreme(column: pa.Array, groups: Groups, sign: int) -> pa.Array:
    order_of = ranks(column) * sign
    order_of = np.where(_valid(column), order_of, np.iinfo(np.int64).min)
    order = np.lexsort((order_of, groups.of_rows))
    return pick(column, order[groups.ends])


def _max(column: pa.Array, groups: Groups, _: AggregateOptions) -> pa.Array:
    return _extreme(column, groups, 1)


def _min(column: pa.Array, groups: Groups, _: AggregateOptions) -> pa.Array:
    return _extreme(column, groups, -1)


def _grouped(column: pa.Array, groups: Groups, function: str) -> pa.Array:
    rows = pa.table({"group": groups.of_rows, "value": column})
    aggregated = rows.group_by("group", use_threads=False).aggregate([("value", function)])
    return aggregated.column(f"value_{function}").combine_chunks()


def _sum(column: pa.Array, groups: Groups, _: AggregateOptions) -> pa.Array:
    if groups.retracts.any():
        column = pc.if_else(pa.array(groups.retracts), pc.negate_checked(column), column)
    if _comes_near_the_limit(column, groups, "sum"):
        # Arrow wraps around without a word; so many digits no sum of rows in memory has.
        column = column.cast(pa.decimal128(38, 0))
    elif pa.types.is_decimal(column.type) and column.type.precision > _DIGITS_SUMMED:
        column = column.cast(pa.decimal256(column.type.precision, column.type.scale))
    return _grouped(column, groups, "sum")


# Of so many digits no sum of rows in memory has more than 38.
_DIGITS_SUMMED = 28


def _comes_near_the_limit(column: pa.Array, groups: Groups, function: str) -> bool:
    """Whether a result of whole numbers may not fit 64 bits."""
    if not pa.types.is_integer(column.type):
        return False
    rough = _grouped(column.cast(pa.float64(), safe=False), groups, function).fill_null(0).to_numpy()
    return bool((np.abs(rough) > 9.2e18).any())


def _product(column: pa.Array, groups: Groups, _: AggregateOptions) -> pa.Array:
    none = pa.scalar(None, column.type)
    retracts = pa.array(groups.retracts)
    factors = pc.if_else(retracts, none, column)
    is_decimal = pa.types.is_decimal(column.type)
    if _comes_near_the_limit(factors, groups, "product"):
        raise pa.ArrowInvalid("it has more than 18 digits")
    if not groups.retracts.any() and not is_decimal:
        return _grouped(column, groups, "product")
    # Before there is a value nothing is taken back.
    begun = np.arange(groups.row_count) > groups.first_where(_valid(factors))[groups.of_rows]
    begun &= (groups.first_where(_valid(factors)) >= 0)[groups.of_rows]
    divisors = pc.if_else(pa.array(groups.retracts & begun), column, none)
    if not pa.types.is_floating(column.type) and pc.any(pc.equal(divisors.cast(pa.float64(), safe=False), 0)).as_py():
        raise ZeroDivisionError
    if is_decimal:
        return decimal_product(factors, divisors, groups.starts)
    if not pa.types.is_integer(column.type):
        return pc.divide(_grouped(factors, groups, "product"), _grouped(divisors, groups, "product").fill_null(1))
    return _whole_product(factors, divisors, groups)


def _whole_product(factors: pa.Array, divisors: pa.Array, groups: Groups) -> pa.Array:
    """Multiplied and divided row by row, since whole numbers lose what is behind the point each time: all keys at once."""
    multiplies, divides = _valid(factors), _valid(divisors)
    values = pc.coalesce(factors, divisors, pa.scalar(1, factors.type)).cast(pa.int64()).to_numpy()
    product, sizes = np.ones(groups.count, np.int64), groups.ends - groups.starts + 1
    for place in range(int(sizes.max(initial=0))):
        keys = np.flatnonzero(sizes > place)
        rows = groups.starts[keys] + place
        value, before = values[rows], product[keys]
        quotient = np.abs(before) // np.maximum(np.abs(value), 1) * np.sign(before) * np.sign(value)
        product[keys] = np.where(multiplies[rows], before * value, np.where(divides[rows], quotient, before))
    known = np.logical_or.reduceat(multiplies, groups.starts)
    return pa.array(product, pa.int64(), mask=~known)


def _bool_and(column: pa.Array, groups: Groups, _: AggregateOptions) -> pa.Array:
    return _grouped(column, groups, "min")


def _bool_or(column: pa.Array, groups: Groups, _: AggregateOptions) -> pa.Array:
    return _grouped(column, groups, "max")


def _late_ones_first(column: pa.Array, groups: Groups) -> pa.Array:
    """The values with each that comes late before all that are there of its group."""
    late = _late(groups)
    if not late.any():
        return column
    numbers = np.arange(groups.row_count)
    return column.take(pa.array(np.lexsort((np.where(late, -numbers, numbers), ~late, groups.of_rows))))


def _listagg(column: pa.Array, groups: Groups, options: AggregateOptions) -> pa.Array:
    column = _late_ones_first(column, groups)
    kept = np.asarray(pc.not_equal(pc.utf8_trim_whitespace(column), "").fill_null(False))
    counts = np.add.reduceat(kept.astype(np.int32), groups.starts)
    offsets = np.append(0, np.cumsum(counts)).astype(np.int32)
    lists = pa.ListArray.from_arrays(pa.array(offsets), column.filter(pa.array(kept)))
    if options.distinct:
        joined = pa.array([_joined_once(items, options.delimiter) for items in lists.to_pylist()], column.type)
    else:
        joined = pc.binary_join(lists, options.delimiter)
    return pc.if_else(pa.array(counts > 0), joined, pa.scalar(None, joined.type))


def _joined_once(texts: list[str], delimiter: str) -> str:
    """The first text, and behind it what is new in the others: the parts between delimiters are what is told apart."""
    if len(texts) < 2:
        return "".join(texts)
    parts = dict.fromkeys(_parts(texts[0], delimiter))
    added = dict.fromkeys(
        part for text in texts[1:] for part in _parts(text, delimiter) if part.strip() and part not in parts
    )
    return delimiter.join([texts[0], *added])


def _parts(text: str, delimiter: str) -> list[str]:
    return text.split(delimiter or None)


def _collect(column: pa.Array, groups: Groups, options: AggregateOptions) -> pa.Array:
    if options.ignore_retract:
        # Java's function that ignores retractions does not tell the one below that a value comes late.
        column = _late_ones_first(column, groups)
    if not options.distinct and not groups.retracts.any():
        lengths = pc.list_value_length(column).fill_null(0).to_numpy()
        offsets = np.append(0, np.cumsum(np.add.reduceat(lengths, groups.starts))).astype(np.int32)
        lists = pa.ListArray.from_arrays(pa.array(offsets), column.flatten())
        present = np.logical_or.reduceat(_valid(column), groups.starts)
        return pc.if_else(pa.array(present), lists, pa.scalar(None, lists.type))
    # Taking elements back, and telling them apart, is done key by key: only keys that several rows have come here.
    collected_lists: list[list[Any] | None] = []
    values = column.to_pylist()
    for start, end in zip(groups.starts, groups.ends, strict=True):
        collected: list[Any] | None = None
        for row in range(start, end + 1):
            if values[row] is None or (collected is None and groups.retracts[row]):
                continue
            collected = [] if collected is None else collected
            for value in values[row]:
                if groups.retracts[row]:
                    if value in collected:
                        collected.remove(value)
                elif not (options.distinct and value in collected):
                    collected.append(value)
        collected_lists.append(collected)
    return pa.array(collected_lists, column.type)


_FUNCTIONS: dict[str, Aggregator] = {
    "sum": _sum,
    "product": _product,
    "max": _max,
    "min": _min,
    "last_value": _last_value,
    "last_non_null_value": _last_non_null_value,
    "first_value": _first_value,
    "first_non_null_value": _first_non_null_value,
    "first_not_null_value": _first_non_null_value,
    "bool_and": _bool_and,
    "bool_or": _bool_or,
    "listagg": _listagg,
    "collect": _collect,
}

_OF_COLLECTIONS = ("nested_update", "nested_partial_update", "merge_map", "merge_map_with_keytime", "rbm32")
_REFUSED = {
    "rbm64": "Java writes its bitmaps of 64 bits in a form of its own library's",
    "hll_sketch": "no two libraries write the same sketch",
    "theta_sketch": "no two libraries write the same sketch",
}


def _is_number(kind: DataType) -> bool:
    return kind.is_integer or kind.is_float or kind.root == "DECIMAL"


# The types that a function takes, and what they are called; the others take all.
_TYPES: dict[str, tuple[Callable[[DataType], bool], str]] = {
    "sum": (_is_number, "numbers"),
    "product": (_is_number, "numbers"),
    "max": (lambda kind: not kind.is_nested and kind.root != "BOOLEAN", "numbers, texts, bytes and times"),
    "min": (lambda kind: not kind.is_nested and kind.root != "BOOLEAN", "numbers, texts, bytes and times"),
    "bool_and": (lambda kind: kind.root == "BOOLEAN", "booleans"),
    "bool_or": (lambda kind: kind.root == "BOOLEAN", "booleans"),
    "listagg": (lambda kind: kind.root == "VARCHAR", "texts without a fixed length"),
    "collect": (lambda kind: kind.root == "ARRAY", "arrays"),
}
