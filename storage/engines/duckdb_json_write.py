"""The statement that writes rows as JSON objects: pure, from columns to SQL."""

import json
from collections.abc import Sequence
from itertools import count

from ..data_types import DataField, DataType
from ..messages.json_codec import JsonStyle

_AS_TEXT = ("DATE", "TIME")


def write_query(fields: Sequence[DataField], style: JsonStyle) -> str:
    """SQL over the view `rows`, whose columns `c0`, `c1` … are the fields: one column, the objects as text."""
    named = [(each.name, each.type, f"c{index}") for index, each in enumerate(fields)]
    return f"SELECT CAST({_object(named, style, count())} AS VARCHAR) FROM rows"


def _object(columns: Sequence[tuple[str, DataType, str]], style: JsonStyle, numbers: "count[int]") -> str:
    written = [(name, raw, _written(raw, type_, style, numbers)) for name, type_, raw in columns]
    if not style.ignore_null_fields:
        inside = ", ".join('"' + name.replace('"', '""') + f'" := {value}' for name, _, value in written)
        return f"to_json(struct_pack({inside}))" if inside else "'{}'"
    parts = [
        f"CASE WHEN ({raw}) IS NOT NULL THEN {_literal(json.dumps(name, ensure_ascii=False) + ':')} || to_json({value}) END"
        for name, raw, value in written
    ]
    return f"CAST('{{' || concat_ws(',', {', '.join(parts)}) || '}}' AS JSON)"


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _written(raw: str, type_: DataType, style: JsonStyle, numbers: "count[int]") -> str:
    if type_.root in _AS_TEXT:
        return f"CAST({raw} AS VARCHAR)"
    if type_.root == "FLOAT":
        # As a DOUBLE it would have digits that a FLOAT does not have.
        return f"CAST(CAST({raw} AS VARCHAR) AS JSON)"
    if type_.is_bytes:
        return f"to_base64({raw})"
    if type_.is_timestamp:
        text = f"CAST({raw} AS VARCHAR)"
        text = f"replace({text}, ' ', 'T')" if style.timestamp_format == "ISO-8601" else text
        return f"{text} || 'Z'" if type_.root == "TIMESTAMP_LTZ" else text
    if type_.root == "ROW":
        inner = [(each.name, each.type, f"struct_extract({raw}, {_literal(each.name)})") for each in type_.fields]
        return f"CASE WHEN ({raw}) IS NOT NULL THEN {_object(inner, style, numbers)} END"
    if type_.root == "ARRAY" and type_.element is not None:
        name = f"x{next(numbers)}"
        return f"list_transform({raw}, lambda {name}: {_written(name, type_.element, style, numbers)})"
    if type_.root == "MAP" and type_.element is not None:
        name = f"x{next(numbers)}"
        value = _written(f"{name}.value", type_.element, style, numbers)
        entry = f"struct_pack(key := {name}.key, value := {value})"
        return f"map_from_entries(list_transform(map_entries({raw}), lambda {name}: {entry}))"
    return raw
