"""Changes of a table's schema, and the next version that they make.

Pure: works on schemas alone. A column is named by its name, a field of a nested ROW by the path to it, as in `address.city`,
also inside of arrays (`lines.element.price`) and maps (`prices.value.net`).
Field ids never change and are never used again, so that files of older versions stay readable. Follows
`docs/format.md`, "Schema files".
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import pyarrow as pa

from ..arguments import checked
from ..data_types import STRING, DataField, DataType, nested_fields, parse_type, type_from_arrow
from ..errors import AlreadyExists, InvalidRequest
from ..format.file_index.wanted import PREFIX, is_indexed
from ..option_spelling import in_one_spelling, own_key, refuse_two_spellings
from .case_twins import refuse_new_twins
from .default_values import check_defaults, default_text
from .option_change import check_changed_indexes, check_changed_options, refuse_other_merging
from .option_columns import OF_COLUMNS, renamed_options
from .schema import TableSchema
from .schema_check import check_avro, check_column_options, check_iceberg, check_schema

_INTEGERS = ("TINYINT", "SMALLINT", "INT", "BIGINT")
_MICROSECONDS = 6
_DIGITS = {"TINYINT": 3, "SMALLINT": 5, "INT": 10, "BIGINT": 19}
# What Spark and Paimon call that which is inside of an array or a map.
_PARTS = {"ARRAY": "element", "MAP": "value"}
_TO_TEXT = ("BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "DATE", "DECIMAL")


class SchemaChange(ABC):
    """One change; several may be made in one step."""

    @abstractmethod
    def apply(self, schema: TableSchema) -> TableSchema:
        """The schema with the change. Raises InvalidRequest that says why it cannot be."""


@checked
@dataclass(frozen=True)
class AddColumn(SchemaChange):
    """A nullable column, null in the rows that are there. `type` is an Arrow type or SQL text."""

    name: str
    type: Any
    comment: str | None = None
    first: bool = False
    after: str | None = None

    def apply(self, schema: TableSchema) -> TableSchema:
        numbers = count(schema.highest_field_id + 1)
        parent, name = _split(self.name)
        field_id = next(numbers)
        added = DataField(field_id, name, _type(self.name, self.type, lambda: next(numbers)), self.comment)
        if not added.type.nullable:
            raise InvalidRequest(
                f"Column {self.name!r} must be nullable: the rows that are there have no value for it."
            )
        highest = max(field_id, *(inner.id for inner in nested_fields(added.type)), 0)

        def add(fields: tuple[DataField, ...]) -> tuple[DataField, ...]:
            if name in [field.name for field in fields]:
                raise AlreadyExists(f"Column {self.name!r} exists. Choose another name, or drop it first.")
            return _placed(fields, added, self.first, self.after)

        return replace(schema, fields=_inside(schema.fields, parent, add), highest_field_id=highest)


@checked
@dataclass(frozen=True)
class DropColumn(SchemaChange):
    """The column disappears; its values stay in old files and do not come back with a new column of the same name."""

    name: str

    def apply(self, schema: TableSchema) -> TableSchema:
        _refuse_key(schema, self.name, "dropped")
        _refuse_used(schema, self.name, "dropped")
        parent, name = _split(self.name)

        def drop(fields: tuple[DataField, ...]) -> tuple[DataField, ...]:
            _index(fields, name)
            left = tuple(field for field in fields if field.name != name)
            if not left:
                raise InvalidRequest(f"Column {self.name!r} is the only one. A table, or a ROW, needs at least one.")
            return left

        return replace(schema, fields=_inside(schema.fields, parent, drop))


@checked
@dataclass(frozen=True)
class RenameColumn(SchemaChange):
    """Another name for the same column; options that name it follow."""

    name: str
    new_name: str

    def apply(self, schema: TableSchema) -> TableSchema:
        if self.name in schema.partition_keys:
            raise InvalidRequest(f"Partition column {self.name!r} cannot be renamed: directories carry its name.")
        parent, name = _split(self.name)
        if "." in self.new_name:
            raise InvalidRequest(
                f"{self.new_name!r} has a dot, which leads into a struct when columns are altered. Give a name without "
                "one, that of a field alone."
            )

        def rename(fields: tuple[DataField, ...]) -> tuple[DataField, ...]:
            place = _index(fields, name)
            if self.new_name in [field.name for field in fields]:
                raise AlreadyExists(f"Column {self.new_name!r} exists. Choose another name.")
            return (*fields[:place], replace(fields[place], name=self.new_name), *fields[place + 1 :])

        fields = _inside(schema.fields, parent, rename)
        if parent:
            return replace(schema, fields=fields)
        return replace(
            schema,
            fields=fields,
            primary_keys=tuple(self.new_name if key == name else key for key in schema.primary_keys),
            options=renamed_options(schema.options, {name: self.new_name}),
        )


@checked
@dataclass(frozen=True)
class ChangeType(SchemaChange):
    """A wider type, which every value fits into. `type` is an Arrow type or SQL text."""

    name: str
    type: Any

    def apply(self, schema: TableSchema) -> TableSchema:
        _refuse_key(schema, self.name, "given another type")

        def change(field: DataField) -> DataField:
            new = replace(_type(self.name, self.type, _no_rows), nullable=field.type.nullable)
            if new.is_text and not field.type.is_text:
                _refuse_ranking(schema, self.name)
            if not is_widening(field.type, new):
                raise InvalidRequest(
                    f"Column {self.name!r} of type {field.type} cannot become {new}: values might not fit. Add a column of "
                    "the new type, fill it, and drop the old one."
                )
            return replace(field, type=new)

        return _changed(schema, self.name, change)


@checked
@dataclass(frozen=True)
class DropNotNull(SchemaChange):
    """The column may be null from now on."""

    name: str

    def apply(self, schema: TableSchema) -> TableSchema:
        if self.name in schema.primary_keys:
            raise InvalidRequest(f"Column {self.name!r} belongs to the primary key, which is never null.")
        return _changed(schema, self.name, lambda field: replace(field, type=replace(field.type, nullable=True)))


@checked
@dataclass(frozen=True)
class SetNotNull(SchemaChange):
    """The column must not be null from now on. That no row holds a null is looked at when the table is altered."""

    name: str

    def apply(self, schema: TableSchema) -> TableSchema:
        if "." in self.name:
            raise InvalidRequest(f"{self.name!r} is a field of a ROW: columns of the table alone can become NOT NULL.")
        return _changed(schema, self.name, lambda field: replace(field, type=field.type.not_null()))


@checked
@dataclass(frozen=True)
class SetDefault(SchemaChange):
    """The value of the column in rows that come from now on and do not give it one; None: no default. Rows that are there stay
    as they are.
    """

    name: str
    value: Any

    def apply(self, schema: TableSchema) -> TableSchema:
        if "." in self.name:
            raise InvalidRequest(f"{self.name!r} is a field of a ROW: columns of the table alone have defaults.")

        def change(field: DataField) -> DataField:
            return replace(field, default_value=default_text(self.value, field.type, field.name))

        return _changed(schema, self.name, change)


@checked
@dataclass(frozen=True)
class SetComment(SchemaChange):
    """Another comment of a column, or of the table if `name` is None; None removes it."""

    name: str | None
    comment: str | None

    def apply(self, schema: TableSchema) -> TableSchema:
        if self.name is None:
            return replace(schema, comment=self.comment)
        return _changed(schema, self.name, lambda field: replace(field, description=self.comment))


@checked
@dataclass(frozen=True)
class MoveColumn(SchemaChange):
    """Another place among the columns: first, or after another one."""

    name: str
    first: bool = False
    after: str | None = None

    def apply(self, schema: TableSchema) -> TableSchema:
        if self.first == (self.after is not None):
            raise InvalidRequest(f"Say where column {self.name!r} goes: first=True, or after='another column'.")
        if self.after == _split(self.name)[1]:
            raise InvalidRequest(f"Column {self.name!r} cannot go after itself.")
        parent, name = _split(self.name)

        def move(fields: tuple[DataField, ...]) -> tuple[DataField, ...]:
            place = _index(fields, name)
            others = fields[:place] + fields[place + 1 :]
            return _placed(others, fields[place], self.first, self.after)

        return replace(schema, fields=_inside(schema.fields, parent, move))


@checked
@dataclass(frozen=True)
class SetOptions(SchemaChange):
    """Set options of the table, and remove others."""

    options: Mapping[str, Any]
    removed: Sequence[str] = ()

    def apply(self, schema: TableSchema) -> TableSchema:
        for key, what in (("primary-key", "The primary key"), ("partition", "The partition columns")):
            if key in self.options or key in self.removed:
                raise InvalidRequest(f"{what} of a table cannot change: make another table, and copy the rows.")
        texts = {
            key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in self.options.items()
        }
        refuse_two_spellings(texts)
        removed = {own_key(key) for key in self.removed}
        options = {key: value for key, value in schema.options.items() if key not in removed} | in_one_spelling(texts)
        return replace(schema, options=options)


def next_schema(
    schema: TableSchema, changes: Sequence[SchemaChange], *, written: TableSchema | None, time_ms: int
) -> TableSchema:
    """The version after `schema`, with all changes. `written`: that of the newest snapshot, None if the table has no rows.
    Raises InvalidRequest or Unsupported if the result cannot be.
    """
    has_rows = written is not None
    changed = schema
    for change in changes:
        changed = change.apply(changed)
    check_changed_options(schema, changed, has_rows=has_rows)
    if written is not None:
        refuse_other_merging(schema, changed, written)
    changed = replace(changed, id=schema.id + 1, time_ms=time_ms)
    check_schema(changed)
    refuse_new_twins(changed.to_arrow(), schema.to_arrow())
    check_column_options(changed, {key for key, value in changed.options.items() if schema.options.get(key) != value})
    if {field.id: field.default_value for field in changed.fields} != {
        field.id: field.default_value for field in schema.fields
    }:
        check_defaults(changed)
    check_avro(changed, schema)
    check_iceberg(changed)
    check_changed_indexes(schema, changed)
    return changed


def is_widening(old: DataType, new: DataType) -> bool:
    """Whether every value of a type is one of another."""
    if old.not_null() == new.not_null():
        return True
    if old.is_integer:
        if new.is_integer:
            return _INTEGERS.index(new.root) >= _INTEGERS.index(old.root)
        if new.root == "DECIMAL":
            return new.precision - new.scale >= _DIGITS[old.root]
        if new.is_float:
            return old.root in (("TINYINT", "SMALLINT") if new.root == "FLOAT" else _INTEGERS[:3])
    if old.is_float:
        return new.root == "DOUBLE"
    if old.root == "DECIMAL" and new.root == "DECIMAL":
        return new.scale >= old.scale and new.precision - new.scale >= old.precision - old.scale
    if old.is_text and new.is_text:
        return new.root == "VARCHAR" and new.length >= old.length
    if old.is_bytes and new.is_bytes:
        return new.root == "VARBINARY" and new.length >= old.length
    if old.is_timestamp and new.is_timestamp:
        # Nanoseconds since 1970 are of the years 1677 to 2262 alone.
        is_of_all_years = new.precision <= _MICROSECONDS or old.precision > _MICROSECONDS
        return old.root == new.root and new.precision >= old.precision and is_of_all_years
    if old.root == "DATE" and new.root == "TIMESTAMP":
        return new.precision <= _MICROSECONDS
    return old.root in _TO_TEXT and new.not_null() == STRING.not_null()


def _refuse_key(schema: TableSchema, name: str, what: str) -> None:
    for role, keys in (("the primary key", schema.primary_keys), ("the partition columns", schema.partition_keys)):
        if name in keys:
            raise InvalidRequest(f"Column {name!r} belongs to {role} and cannot be {what}.")


def _refuse_used(schema: TableSchema, name: str, what: str) -> None:
    for key, value in schema.options.items():
        named = [part.strip() for part in value.split(",")]
        in_key = key.startswith("fields.") and name in key.removeprefix("fields.").rpartition(".")[0].split(",")
        in_key = in_key or (key.startswith(PREFIX) and is_indexed(key, value, name))
        if in_key or (name in named and (key.endswith("sequence-group") or key in OF_COLUMNS)):
            raise InvalidRequest(
                f"Column {name!r} is named by option {key!r} and cannot be {what}. Reset the option first."
            )


def _refuse_ranking(schema: TableSchema, name: str) -> None:
    """Refuse to make a text of a column whose order tells which row of a key wins, or which value: texts have another one."""
    options, own = schema.options, f"fields.{name}.aggregate-function"
    functions = own if own in options else "fields.default-aggregate-function"
    for key, value in options.items():
        by = value if key == "sequence.field" else ""
        if key.endswith(".sequence-group"):
            by = key.removeprefix("fields.").removesuffix(".sequence-group")
        is_extreme = key == functions and value.strip().lower() in ("max", "min")
        if is_extreme or name in [part.strip() for part in by.split(",")]:
            raise InvalidRequest(
                f"Column {name!r} is named by option {key!r} and cannot be made a text, which has another order: other rows "
                "would win. Add a column of the new type, and fill it."
            )


def _type(column: str, given: Any, next_id: Callable[[], int]) -> DataType:
    if isinstance(given, str):
        return parse_type(given)
    if isinstance(given, DataType):
        return _renumbered(given, next_id)
    if isinstance(given, pa.DataType):
        try:
            return type_from_arrow(given, True, next_id)
        except InvalidRequest as error:
            raise InvalidRequest(f"Column {column!r}: {error}") from None
    raise InvalidRequest(f"{given!r} is no type: give an Arrow type, or text such as 'DECIMAL(10, 2)'.")


def _renumbered(given: DataType, next_id: Callable[[], int]) -> DataType:
    """A type whose fields of ROWs have ids of their own."""
    return replace(
        given,
        fields=tuple(replace(field, id=next_id(), type=_renumbered(field.type, next_id)) for field in given.fields),
        key=None if given.key is None else _renumbered(given.key, next_id),
        element=None if given.element is None else _renumbered(given.element, next_id),
    )


def _no_rows() -> int:
    raise InvalidRequest("A column cannot become a ROW. Add a column of that type.")


def _split(path: str) -> tuple[tuple[str, ...], str]:
    *parent, name = path.split(".")
    return tuple(parent), name


def _index(fields: Sequence[DataField], name: str) -> int:
    names = [field.name for field in fields]
    if name not in names:
        raise InvalidRequest(f"There is no column {name!r}. Columns: {', '.join(names)}.")
    return names.index(name)


def _placed(fields: tuple[DataField, ...], field: DataField, first: bool, after: str | None) -> tuple[DataField, ...]:
    place = 0 if first else len(fields) if after is None else _index(fields, after) + 1
    return (*fields[:place], field, *fields[place:])


def _inside(
    fields: tuple[DataField, ...],
    parent: Sequence[str],
    act: Callable[[tuple[DataField, ...]], tuple[DataField, ...]],
) -> tuple[DataField, ...]:
    """The columns with those of a nested ROW (or of the table, if there is no parent) changed."""
    if not parent:
        return act(fields)
    place = _index(fields, parent[0])
    field = fields[place]
    changed = replace(field, type=_within(field.type, field.name, parent[1:], act))
    return (*fields[:place], changed, *fields[place + 1 :])


def _within(
    data_type: DataType, path: str, parent: Sequence[str], act: Callable[[tuple[DataField, ...]], tuple[DataField, ...]]
) -> DataType:
    """A type with the fields of a ROW in it changed; `path` leads to the type, and `parent` on from there."""
    if data_type.root == "ROW":
        return replace(data_type, fields=_inside(data_type.fields, parent, act))
    part = _PARTS.get(data_type.root)
    if part is None or data_type.element is None:
        raise InvalidRequest(f"Column {path!r} of type {data_type} has no fields of its own.")
    if not parent or parent[0].lower() != part:
        raise InvalidRequest(
            f"Column {path!r} of type {data_type} has no fields of its own. Those inside of it are called {path}.{part}.…; keys "
            "of maps stay as they are."
        )
    return replace(data_type, element=_within(data_type.element, f"{path}.{part}", parent[1:], act))


def _changed(schema: TableSchema, path: str, act: Callable[[DataField], DataField]) -> TableSchema:
    parent, name = _split(path)

    def change(fields: tuple[DataField, ...]) -> tuple[DataField, ...]:
        place = _index(fields, name)
        return (*fields[:place], act(fields[place]), *fields[place + 1 :])

    return replace(schema, fields=_inside(schema.fields, parent, change))
