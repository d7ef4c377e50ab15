"""Row filters: a small tree that can filter batches and tell from statistics that no row can match.

A predicate is built from column names and Python literals, then bound to a schema, which checks the columns and turns
literals into the values that statistics hold (`storage.values`). SQL's logic: a comparison with null is not true.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ..data_types import DataType
from ..errors import InvalidRequest
from ..format.column_stats import ColumnStats
from ..metadata.schema import TableSchema
from ..values import OutOfRange, below_of, bounds_of, from_literal, to_arrow

_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "=": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
# What a comparison with a number means that is above, or below, all numbers of the column: one with the last of them.
_ABOVE_ALL = {"=": ">", "!=": "<=", "<": "<=", "<=": "<=", ">": ">", ">=": ">"}
_BELOW_ALL = {"=": "<", "!=": ">=", "<": "<", "<=": "<", ">": ">=", ">=": ">="}
_OPPOSITE = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}


class Predicate(ABC):
    """A condition on a row. Combine with `&`, `|` and `~`."""

    @abstractmethod
    def columns(self) -> set[str]:
        """The columns that the condition reads."""

    @abstractmethod
    def bind(self, schema: TableSchema) -> "Predicate":
        """Check columns and literals against a schema. Raises InvalidRequest."""

    @abstractmethod
    def mask(self, batch: pa.RecordBatch) -> pa.Array:
        """True, false or null for each row. The predicate must be bound."""

    @abstractmethod
    def may_match(self, stats: Mapping[str, ColumnStats], row_count: int) -> bool:
        """False if no row of a file with these statistics can match; columns without statistics may hold anything."""

    @abstractmethod
    def negated(self) -> "Predicate":
        """The condition that is true where this one is false (null stays null)."""

    def __and__(self, other: "Predicate") -> "Predicate":
        return And((*(self.parts if isinstance(self, And) else (self,)), other))

    def __or__(self, other: "Predicate") -> "Predicate":
        return Or((*(self.parts if isinstance(self, Or) else (self,)), other))

    def __invert__(self) -> "Predicate":
        return self.negated()

    def filter(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that match."""
        return batch.filter(self.mask(batch))


@dataclass(frozen=True, slots=True)
class Comparison(Predicate):
    """`column <operator> literal`, with = != < <= > >=."""

    column: str
    operator: str
    literal: Any
    type: DataType | None = None

    def columns(self) -> set[str]:
        return {self.column}

    def bind(self, schema: TableSchema) -> "Predicate":
        if self.operator not in _COMPARE:
            raise InvalidRequest(f"{self.operator!r} is not a comparison. Use one of: {' '.join(_COMPARE)}.")
        data_type = schema.field(self.column).type
        try:
            return replace(self, literal=from_literal(self.literal, data_type), type=data_type)
        except OutOfRange as error:
            low, high = bounds_of(data_type) or (None, None)
            operator, limit = (_ABOVE_ALL, high) if error.above else (_BELOW_ALL, low)
            return Comparison(self.column, operator[self.operator], limit, data_type)
        except InvalidRequest as error:
            below = below_of(self.literal, data_type)
            if below is None:
                raise InvalidRequest(f"Column {self.column!r}: {error}") from None
        if self.operator in ("=", "!="):
            # No value of the column equals it.
            return IsIn(self.column, (), is_negated=self.operator == "!=", type=data_type)
        lower = Comparison(self.column, "<=" if self.operator in ("<", "<=") else ">", below, data_type)
        return lower if data_type.is_timestamp or data_type.root == "TIME" else lower.bind(schema)

    def mask(self, batch: pa.RecordBatch) -> pa.Array:
        assert self.type is not None
        column = batch.column(self.column)
        if self.type.is_float:
            return _mask_of_float(column, self.operator, self.literal, self.type)
        return _COMPARE[self.operator](column, _scalar(self.literal, self.type))

    def may_match(self, stats: Mapping[str, ColumnStats], row_count: int) -> bool:
        column_stats = stats.get(self.column)
        if self.literal is None:
            return False
        if column_stats is None:
            return True
        if column_stats.null_count == row_count:
            return False
        if column_stats.minimum is None or column_stats.maximum is None:
            return True
        literal, low, high = _placed(self.literal), _placed(column_stats.minimum), _placed(column_stats.maximum)
        match self.operator:
            case "=":
                return bool(low <= literal <= high) or (column_stats.may_hold_nan and literal == _NAN)
            case "!=":
                return not (low == high == literal) or _may_be_truncated(self.type) or column_stats.may_hold_nan
            case "<":
                return bool(low < literal)
            case "<=":
                return bool(low <= literal)
            case ">":
                return bool(high > literal) or (column_stats.may_hold_nan and literal != _NAN)
            case _:
                return bool(high >= literal) or column_stats.may_hold_nan

    def negated(self) -> "Predicate":
        return replace(self, operator=_OPPOSITE[self.operator])


@dataclass(frozen=True, slots=True)
class IsIn(Predicate):
    """`column [NOT] IN (literals)`."""

    column: str
    literals: tuple[Any, ...]
    is_negated: bool = False
    type: DataType | None = None

    def columns(self) -> set[str]:
        return {self.column}

    def bind(self, schema: TableSchema) -> "Predicate":
        data_type = schema.field(self.column).type
        bound = []
        for literal in self.literals:
            # What the column has no place for equals none of its values.
            with suppress(OutOfRange):
                if below_of(literal, data_type) is None:
                    bound.append(from_literal(literal, data_type))
        return replace(self, literals=tuple(bound), type=data_type)

    def mask(self, batch: pa.RecordBatch) -> pa.Array:
        assert self.type is not None
        column = batch.column(self.column)
        known = [literal for literal in self.literals if literal is not None]
        matches = pc.is_in(column, value_set=to_arrow(known, self.type))
        if self.type.is_float and 0.0 in known:
            # Arrow tells 0.0 from -0.0 here, and nowhere else.
            matches = pc.or_(matches, pc.fill_null(pc.equal(column, _scalar(0.0, self.type)), False))
        if len(known) < len(self.literals):
            matches = pc.if_else(matches, True, pa.scalar(None, pa.bool_()))
        matches = pc.if_else(pc.is_null(column), pa.scalar(None, pa.bool_()), matches)
        return pc.invert(matches) if self.is_negated else matches

    def may_match(self, stats: Mapping[str, ColumnStats], row_count: int) -> bool:
        column_stats = stats.get(self.column)
        if column_stats is None:
            return True
        if column_stats.null_count == row_count:
            return False
        if self.is_negated or column_stats.minimum is None or column_stats.maximum is None:
            return True
        low, high = _placed(column_stats.minimum), _placed(column_stats.maximum)
        return any(
            low <= literal <= high or (column_stats.may_hold_nan and literal == _NAN)
            for literal in map(_placed, self.literals)
            if literal is not None
        )

    def negated(self) -> "Predicate":
        return replace(self, is_negated=not self.is_negated)


@dataclass(frozen=True, slots=True)
class IsNull(Predicate):
    """`column IS [NOT] NULL`."""

    column: str
    is_negated: bool = False

    def columns(self) -> set[str]:
        return {self.column}

    def bind(self, schema: TableSchema) -> "Predicate":
        schema.field(self.column)
        return self

    def mask(self, batch: pa.RecordBatch) -> pa.Array:
        column = batch.column(self.column)
        return pc.is_valid(column) if self.is_negated else pc.is_null(column)

    def may_match(self, stats: Mapping[str, ColumnStats], row_count: int) -> bool:
        column_stats = stats.get(self.column)
        if column_stats is None or column_stats.null_count is None:
            return True
        return column_stats.null_count < row_count if self.is_negated else column_stats.null_count > 0

    def negated(self) -> "Predicate":
        return replace(self, is_negated=not self.is_negated)


@dataclass(frozen=True, slots=True)
class StartsWith(Predicate):
    """`column LIKE 'prefix%'`."""

    column: str
    prefix: str
    is_negated: bool = False

    def columns(self) -> set[str]:
        return {self.column}

    def bind(self, schema: TableSchema) -> "Predicate":
        if not schema.field(self.column).type.is_text:
            raise InvalidRequest(f"Column {self.column!r} is no text column: LIKE cannot be applied to it.")
        from_literal(self.prefix, schema.field(self.column).type)
        return self

    def mask(self, batch: pa.RecordBatch) -> pa.Array:
        matches = pc.starts_with(batch.column(self.column), self.prefix)
        return pc.invert(matches) if self.is_negated else matches

    def may_match(self, stats: Mapping[str, ColumnStats], row_count: int) -> bool:
        column_stats = stats.get(self.column)
        if column_stats is not None and column_stats.null_count == row_count:
            return False
        if column_stats is None or column_stats.minimum is None or column_stats.maximum is None or self.is_negated:
            return True
        return bool(column_stats.minimum[: len(self.prefix)] <= self.prefix <= column_stats.maximum)

    def negated(self) -> "Predicate":
        return replace(self, is_negated=not self.is_negated)


@dataclass(frozen=True, slots=True)
class And(Predicate):
    """All parts are true."""

    parts: tuple[Predicate, ...]

    def columns(self) -> set[str]:
        return set().union(*(part.columns() for part in self.parts))

    def bind(self, schema: TableSchema) -> "Predicate":
        return And(tuple(part.bind(schema) for part in self.parts))

    def mask(self, batch: pa.RecordBatch) -> pa.Array:
        result = self.parts[0].mask(batch)
        for part in self.parts[1:]:
            result = pc.and_kleene(result, part.mask(batch))
        return result

    def may_match(self, stats: Mapping[str, ColumnStats], row_count: int) -> bool:
        return all(part.may_match(stats, row_count) for part in self.parts)

    def negated(self) -> "Predicate":
        return Or(tuple(part.negated() for part in self.parts))


@dataclass(frozen=True, slots=True)
class Or(Predicate):
    """At least one part is true."""

    parts: tuple[Predicate, ...]

    def columns(self) -> set[str]:
        return set().union(*(part.columns() for part in self.parts))

    def bind(self, schema: TableSchema) -> "Predicate":
        return Or(tuple(part.bind(schema) for part in self.parts))

    def mask(self, batch: pa.RecordBatch) -> pa.Array:
        result = self.parts[0].mask(batch)
        for part in self.parts[1:]:
            result = pc.or_kleene(result, part.mask(batch))
        return result

    def may_match(self, stats: Mapping[str, ColumnStats], row_count: int) -> bool:
        return any(part.may_match(stats, row_count) for part in self.parts)

    def negated(self) -> "Predicate":
        return And(tuple(part.negated() for part in self.parts))


# Where NaN is in the order of numbers: above all.
_NAN = (math.inf, 1)


def _placed(value: Any) -> Any:
    """A value as it is compared: floating-point numbers with their place beside NaN."""
    return value if not isinstance(value, float) else _NAN if math.isnan(value) else (value, 0)


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _mask_of_float(column: pa.Array, operator: str, literal: Any, kind: DataType) -> pa.Array:
    """Which numbers compare so, as in Spark: NaN equals NaN, and is larger than all others."""
    nan = pc.is_nan(column)
    if literal is None or not _is_nan(literal):
        matches = _COMPARE[operator](column, _scalar(literal, kind))
        return pc.or_(matches, nan) if operator in (">", ">=") and literal is not None else matches
    if operator in ("=", ">="):
        return nan
    if operator in ("!=", "<"):
        return pc.invert(nan)
    everything = operator == "<="
    return pc.if_else(pc.is_null(column), pa.scalar(None, pa.bool_()), pa.scalar(everything))


def _may_be_truncated(data_type: DataType | None) -> bool:
    return data_type is not None and (data_type.is_text or data_type.is_bytes)


def _scalar(value: Any, data_type: DataType) -> pa.Scalar:
    return to_arrow([value], data_type)[0]


def conjuncts(predicate: Predicate | None) -> Iterator[Predicate]:
    """The parts that must all be true."""
    if isinstance(predicate, And):
        for part in predicate.parts:
            yield from conjuncts(part)
    elif predicate is not None:
        yield predicate


def all_of(parts: list[Predicate]) -> Predicate | None:
    """The condition that all parts are true; None if there are none."""
    return None if not parts else parts[0] if len(parts) == 1 else And(tuple(parts))


def restricted_to(predicate: Predicate | None, columns: set[str]) -> Predicate | None:
    """The conjuncts that read the given columns alone: true wherever the whole predicate is."""
    return all_of([part for part in conjuncts(predicate) if part.columns() <= columns])


def value_ranges(predicate: Predicate | None) -> dict[str, tuple[Any, Any, DataType]]:
    """For each column that the conjuncts bound: lowest and highest value (None: open) and its type."""
    ranges: dict[str, tuple[Any, Any, DataType]] = {}
    for part in conjuncts(predicate):
        if isinstance(part, Comparison) and part.type is not None and part.literal is not None:
            if part.type.is_float and (part.operator in (">", ">=") or _is_nan(part.literal)):
                # Files of others may have bounds that leave NaN out, which is above all.
                continue
            low, high = {"=": (1, 1), "<": (0, 1), "<=": (0, 1), ">": (1, 0), ">=": (1, 0)}.get(part.operator, (0, 0))
            _narrow(ranges, part.column, part.literal if low else None, part.literal if high else None, part.type)
        elif isinstance(part, IsIn) and part.type is not None and not part.is_negated:
            known = [literal for literal in part.literals if literal is not None]
            if known and not any(map(_is_nan, known)):
                _narrow(ranges, part.column, min(known), max(known), part.type)
    return ranges


def _narrow(ranges: dict[str, tuple[Any, Any, DataType]], column: str, low: Any, high: Any, kind: DataType) -> None:
    old_low, old_high, _ = ranges.get(column, (None, None, kind))
    low = old_low if low is None else low if old_low is None else max(low, old_low)
    high = old_high if high is None else high if old_high is None else min(high, old_high)
    ranges[column] = (low, high, kind)


def exact_values(predicate: Predicate | None, column: str) -> tuple[Any, ...] | None:
    """The values that a column can have in matching rows, if the conjuncts list them; else None."""
    for part in conjuncts(predicate):
        values: tuple[Any, ...] | None = None
        if isinstance(part, Comparison) and part.column == column and part.operator == "=":
            values = (part.literal,)
        elif isinstance(part, IsIn) and part.column == column and not part.is_negated:
            values = part.literals
        # 0.0 and -0.0 are equal, and two values: each has a bucket of its own.
        if values is not None and not any(isinstance(value, float) and value == 0 for value in values):
            return values
    return None
