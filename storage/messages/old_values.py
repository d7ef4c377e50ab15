"""Rows before an update, from the rows after it and the values that were others before: Canal and Maxwell tell those alone."""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from ..data_types import STRING, DataField, DataType
from .debezium_json import nullable
from .json_codec import Fault, JsonCodec, JsonStyle

_NAMES = [DataField(0, "old", DataType("MAP", key=STRING.not_null(), element=STRING))]


def rows_before(
    after: pa.Table, old: pa.Array, fields: Sequence[DataField], codec: JsonCodec, style: JsonStyle, *, lenient: bool
) -> tuple[pa.Table, tuple[Fault, ...]]:
    """`after` with the values that the objects `old` (texts of JSON) name. A name with null was null; one that is not there has
    not changed. Faults are told by the places of the rows.
    """
    read = codec.read(old, [nullable(each) for each in fields], style, lenient=lenient)
    names = codec.read(pc.binary_join_element_wise('{"old":', old, "}", ""), _NAMES, style, lenient=True)
    old_names = names.rows.column("old").combine_chunks()
    columns = []
    for field in fields:
        is_told = pc.is_valid(pc.map_lookup(old_names, pa.scalar(field.name), "all"))
        columns.append(
            pc.if_else(
                is_told, read.rows.column(field.name).combine_chunks(), after.column(field.name).combine_chunks()
            )
        )
    return pa.Table.from_arrays(columns, schema=after.schema), read.faults
