"""What lies inside of values on their way in: nulls where the type has none, texts that are too long, and what is no variant."""

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from ..data_types import DataField, DataType
from ..errors import InvalidRequest
from .value_limits import check_limits, is_limited

# The first byte of a variant's names: version 1, whether they are sorted, and how wide their offsets are less one.
_HEADERS = [bytes([1 | is_sorted << 4 | width << 6]) for is_sorted in (0, 1) for width in range(4)]


def check_inner_values(column: pa.ChunkedArray, field: DataField) -> None:
    """Raise InvalidRequest, naming the place, for nulls in parts that are NOT NULL, for parts that are longer or finer than their
    type, and for variants that nobody could read.
    """
    if not _is_checked(field.type):
        return
    for chunk in column.chunks:
        for path, data_type, values in _parts(chunk, field.type, field.name):
            if data_type.root == "VARIANT":
                _check_variants(values, path)
            if path != field.name and is_limited(data_type):
                check_limits(values, data_type, path, each="value")
            if not data_type.nullable and path != field.name and values.null_count:
                raise InvalidRequest(
                    f"Column {field.name!r} has type {field.type}: {path} is NOT NULL, but {values.null_count} of {len(values)} "
                    "values are null there. Fill or drop them."
                )


def _is_checked(data_type: DataType) -> bool:
    """Whether something is to be looked at inside of a type."""
    parts = (*(each.type for each in data_type.fields), data_type.key, data_type.element)
    return data_type.root == "VARIANT" or any(
        not part.nullable or is_limited(part) or _is_checked(part) for part in parts if part is not None
    )


def _parts(column: pa.Array, data_type: DataType, path: str) -> Iterator[tuple[str, DataType, pa.Array]]:
    """The column and what lies in it at any depth, with the names of the places; of rows and lists that are null, nothing."""
    yield path, data_type, column
    if data_type.root == "ROW":
        there = column.drop_null() if column.null_count else column
        for index, part in enumerate(data_type.fields):
            yield from _parts(there.field(index), part.type, f"{path}.{part.name}")
    elif data_type.root == "ARRAY" and data_type.element is not None:
        yield from _parts(column.flatten(), data_type.element, f"{path}.element")
    elif data_type.root == "MAP" and data_type.element is not None:
        there = column.drop_null() if column.null_count else column
        first, last = (there.offsets[0].as_py(), there.offsets[-1].as_py()) if len(there) else (0, 0)
        if data_type.key is not None:
            yield from _parts(there.keys.slice(first, last - first), data_type.key, f"{path}.key")
        yield from _parts(there.items.slice(first, last - first), data_type.element, f"{path}.value")


def _check_variants(variants: pa.Array, path: str) -> None:
    value, names = (pc.struct_field(variants, part) for part in ("value", "metadata"))
    known = pc.is_in(pc.binary_slice(names, 0, 1), pa.array(_HEADERS, pa.binary()))
    sound = pc.fill_null(pc.and_(pc.greater(pc.binary_length(value), 0), known), False)
    row = pc.index(pc.or_(pc.is_null(variants), sound), False).as_py()
    if row >= 0:
        raise InvalidRequest(
            f"{path} is a VARIANT; value {row} of {len(variants)} is none: it needs a value, and names in version 1 of Spark's "
            "and Parquet's encoding, as parse_json makes them."
        )
