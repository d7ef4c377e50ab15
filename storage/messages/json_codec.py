"""What a reader and writer of JSON objects does for the formats that stand on JSON.

A codec knows columns and types, no envelope: formats say their envelope as columns too (`before` is a ROW). The one that is used
stands in `storage/engines`, since only engines may import DuckDB.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from ..data_types import DataField, DataType
from ..errors import InvalidRequest, Unsupported

_REFUSED = ("MULTISET", "VARIANT", "BLOB", "GEOMETRY", "GEOGRAPHY", "VECTOR")


@dataclass(frozen=True, kw_only=True)
class JsonStyle:
    """How values stand in JSON where the format leaves a choice."""

    timestamp_format: Literal["SQL", "ISO-8601"] = "SQL"
    # Writing: columns that are null are left out of their object.
    ignore_null_fields: bool = False
    # Reading: a column that its object does not have is a fault.
    fail_on_missing_field: bool = False
    # Reading: MySQL's 0000-00-00 is null, not a fault.
    zero_timestamp_is_null: bool = False
    # Reading: a DECIMAL is base64 of its unscaled bytes.
    decimal_is_base64: bool = False
    # Reading: a number is a DATE in days, a TIME in microseconds, a TIMESTAMP in milliseconds up to precision 3,
    # else in microseconds.
    numbers_are_times: bool = False
    # Reading: "0" and "1" are booleans.
    digits_are_booleans: bool = False
    # Reading: texts may be NaN, Infinity and -Infinity.
    numbers_may_be_infinite: bool = False


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a message, or a field of it, cannot be read. `message`: its place among those given; `field`: the path of the field.

    Without a `field`, the whole message is none of its format.
    """

    message: int
    reason: str
    field: str | None = None


@dataclass(frozen=True)
class JsonRows:
    """As many rows as there were texts, in their order; columns are nullable. What could not be read is null in them."""

    rows: pa.Table
    faults: tuple[Fault, ...] = ()


class JsonCodec(Protocol):
    """Whole batches of JSON objects, to and from Arrow."""

    def read(
        self, texts: pa.Array, fields: Sequence[DataField], style: JsonStyle, *, lenient: bool = False
    ) -> JsonRows:
        """Read one object from each text (`pa.string`, without nulls). Unknown names are left out, missing columns null.

        `lenient`: a field that cannot be read is null without a fault; a text that is no object is a fault nevertheless.
        Of several faults of a text the first is given.
        """

    def write(self, rows: pa.Table, fields: Sequence[DataField], style: JsonStyle) -> pa.Array:
        """One JSON object (`pa.string`) for each row. Raises InvalidRequest for NaN and infinities, which JSON does not have."""


def check_json_fields(fields: Sequence[DataField], what: str) -> None:
    """Raise Unsupported for columns that JSON has no place for, and for names that only their case tells apart."""
    for field in fields:
        _check_type(field.name, field.type, what)
    _check_names(fields, what)


def _check_names(fields: Sequence[DataField], what: str) -> None:
    seen: dict[str, str] = {}
    for field in fields:
        if (twin := seen.setdefault(field.name.lower(), field.name)) != field.name:
            raise Unsupported(f"{what}: {twin!r} and {field.name!r} differ in their case alone. Rename one of them.")


def _check_type(path: str, type_: DataType, what: str) -> None:
    if type_.root in _REFUSED:
        raise Unsupported(f"{what}: column {path!r} is {type_}, which has no form in JSON. Leave it out.")
    if type_.key is not None and not type_.key.is_text:
        raise Unsupported(
            f"{what}: {path!r} is {type_}; names in JSON are texts. Declare the keys of the map as STRING."
        )
    if type_.element is not None:
        _check_type(f"{path}[]", type_.element, what)
    for field in type_.fields:
        _check_type(f"{path}.{field.name}", field.type, what)
    _check_names(type_.fields, what)


def refuse_not_finite(rows: pa.Table) -> None:
    """Raise InvalidRequest that names row and column for the first NaN or infinity at any depth."""
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        for leaf in _floats(whole):
            if pc.all(pc.is_finite(leaf)).as_py() is False:
                raise InvalidRequest(
                    f"Column {name!r}{_place(whole)} holds NaN or an infinity, which JSON does not have, so that it could not be "
                    "read again. Write NULL, or another format."
                )


def _place(column: pa.Array) -> str:
    if not pa.types.is_floating(column.type):
        return ""
    return f", row {pc.index(pc.is_finite(column), pa.scalar(False)).as_py()},"


def _floats(column: pa.Array) -> list[pa.Array]:
    if pa.types.is_floating(column.type):
        return [column]
    if pa.types.is_struct(column.type):
        return [leaf for child in column.flatten() for leaf in _floats(child)]
    if pa.types.is_map(column.type):
        return _floats(column.drop_null().items)
    if pa.types.is_list(column.type):
        return _floats(column.flatten())
    return []
