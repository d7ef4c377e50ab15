"""The statement that reads JSON objects: pure, from columns to SQL.

Every scalar is read as the text that stands in the JSON and cast by the rule of its type, so that what DuckDB would round,
guess or make null without a word is found. Each ROW is read by a step of its own (`o0` the whole object, `o1` … those in it);
arrays and maps are taken apart where they stand.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

from ..data_types import DataField, DataType
from ..messages.json_codec import JsonStyle
from .duckdb_json_scalar import read_scalar

NO_OBJECT = -1
# A DECIMAL in a structure makes DuckDB keep all numbers as they are written.
_AS_WRITTEN = "snapline: numbers as they are written"
_AS_JSON = ("DATE", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ")


@dataclass(frozen=True)
class Check:
    """A test of a field: its path, and the reason to give where it fails, with `{value}` for what was found."""

    condition: str
    path: tuple[str, ...]
    reason: str
    says_value: bool = True


def read_query(
    fields: Sequence[DataField], style: JsonStyle, *, lenient: bool, broken: bool = False
) -> tuple[str, list[Check]]:
    """SQL over the view `texts(text)` whose columns are the fields and the number of the check that failed, if any did.

    `broken`: some text is no JSON.
    """
    plan = _Plan(style, lenient)
    parsed = f"from_json(text, {_structure(fields)})"
    start = f"SELECT text, {f'try({parsed})' if broken else parsed} AS o0 FROM texts"
    values = [plan.field("o0", "text", each, ()) for each in fields]
    steps = [start]
    for step in [*plan.steps, *([plan.values] if plan.values else [])]:
        steps.append(f"SELECT *, {', '.join(step)} FROM s{len(steps) - 1}")
    tests = [f"WHEN o0 IS NULL OR NOT starts_with(ltrim(text, E' \\n\\r\\t'), '{{') THEN {NO_OBJECT}"]
    tests += [f"WHEN {check.condition} THEN {number}" for number, check in enumerate(plan.checks)]
    named = "".join(f"{value} AS c{index}, " for index, value in enumerate(values))
    views = ", ".join(f"s{index} AS ({step})" for index, step in enumerate(steps))
    tested = f"CASE {' '.join(tests)} END AS fault"
    return f"WITH {views} SELECT {named}{tested} FROM s{len(steps) - 1}", plan.checks


@dataclass
class _Plan:
    style: JsonStyle
    lenient: bool
    # What to read step by step, and after all of them the values that are no ROW.
    steps: list[list[str]] = field(default_factory=list)
    values: list[str] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)
    _numbers: "count[int]" = field(default_factory=lambda: count(1))

    def field(self, holder: str, text: str, column: DataField, path: tuple[str, ...], depth: int = 0) -> str:
        """The value of a column of an object: `holder` is the object, `text` its JSON."""
        path = (*path, column.name)
        raw = f"struct_extract({holder}, {quoted(column.name)})"
        self._missing(holder, text, column, path)
        if column.type.root == "ROW":
            value = self._row(raw, column.type, path, depth)
        else:
            made, checks = self._value(raw, column.type, path)
            value = f"v{next(self._numbers)}"
            self.values.append(f"{made} AS {value}")
            if not self.lenient:
                self.checks += [replace(check, condition=check.condition.replace(made, value)) for check in checks]
        if not column.type.nullable:
            null = f"{holder} IS NOT NULL AND ({value}) IS NULL"
            self.checks.append(Check(null, path, "It is NOT NULL, and there is no value.", says_value=False))
        return value

    def _missing(self, holder: str, text: str, column: DataField, path: tuple[str, ...]) -> None:
        if self.style.fail_on_missing_field:
            pointer = column.name.replace("~", "~0").replace("/", "~1")
            missing = f"{holder} IS NOT NULL AND json_type({text}, {quoted('/' + pointer)}) IS NULL"
            self.checks.append(Check(missing, path, "It is missing.", says_value=False))

    def _row(self, raw: str, type_: DataType, path: tuple[str, ...], depth: int) -> str:
        if not self.lenient:
            wrong = f"({raw}) IS NOT NULL AND NOT starts_with({raw}, '{{')"
            self.checks.append(Check(wrong, path, "{value} is no object."))
        holder = f"o{next(self._numbers)}"
        if len(self.steps) <= depth:
            self.steps.append([])
        self.steps[depth].append(
            f"CASE WHEN starts_with({raw}, '{{') THEN from_json({raw}, {_structure(type_.fields)}) END AS {holder}"
        )
        inner = [(each.name, self.field(holder, raw, each, path, depth + 1)) for each in type_.fields]
        return f"CASE WHEN {holder} IS NOT NULL THEN {_packed(inner)} END"

    def _value(self, raw: str, type_: DataType, path: tuple[str, ...]) -> tuple[str, list[Check]]:
        """A value wherever it stands, and what has to be true of it."""
        if type_.root == "ROW":
            return self._inner_row(raw, type_, path)
        if type_.root == "ARRAY" and type_.element is not None:
            kind = json.dumps([_kind(type_.element)])
            return self._several(raw, "[", kind, type_, path, lambda listed: listed)
        if type_.root == "MAP" and type_.element is not None:
            kind = json.dumps(f"MAP(VARCHAR, {_kind(type_.element)})")
            return self._several(raw, "{", kind, type_, path, lambda listed: f"map_entries({listed})")
        value, allowed = read_scalar(raw, type_, self.style)
        if type_.is_text:
            return value, []
        wrong = f"({raw}) IS NOT NULL AND ({value}) IS NULL{allowed}"
        return value, [Check(wrong, path, f"{{value}} is no {_worded(type_)}.")]

    def _inner_row(self, raw: str, type_: DataType, path: tuple[str, ...]) -> tuple[str, list[Check]]:
        name = f"x{next(self._numbers)}"
        values: list[tuple[str, str]] = []
        checks = [Check(f"({raw}) IS NOT NULL AND NOT starts_with({raw}, '{{')", path, "{value} is no object.")]
        parsed = f"CASE WHEN starts_with({raw}, '{{') THEN from_json({raw}, {_structure(type_.fields)}) END"
        for each in type_.fields:
            value, tests = self._value(f"struct_extract({name}, {quoted(each.name)})", each.type, (*path, each.name))
            values.append((each.name, value))
            checks += [
                Check(f"list_transform([{parsed}], lambda {name}: {test.condition})[1]", test.path, test.reason)
                for test in tests
            ]
        packed = f"CASE WHEN {name} IS NOT NULL THEN {_packed(values)} END"
        return f"list_transform([{parsed}], lambda {name}: {packed})[1]", checks

    def _several(
        self, raw: str, opening: str, kind: str, type_: DataType, path: tuple[str, ...], entries: Callable[[str], str]
    ) -> tuple[str, list[Check]]:
        """The value of an array or a map, whose elements are read one by one."""
        assert type_.element is not None
        structure = f'{{"v":{kind},{json.dumps(_AS_WRITTEN)}:"DECIMAL(1,0)"}}'
        whole = f"""from_json('{{"v":' || ({raw}) || '}}', {quoted(structure)}).v"""
        listed = entries(f"CASE WHEN starts_with({raw}, '{opening}') THEN {whole} END")
        name = f"x{next(self._numbers)}"
        path = (*path[:-1], f"{path[-1]}[]")
        is_map = type_.root == "MAP"
        value, tests = self._value(f"{name}.value" if is_map else name, type_.element, path)
        made = f"struct_pack(key := {name}.key, value := {value})" if is_map else value
        result = f"list_transform({listed}, lambda {name}: {made})"
        checks = [Check(f"({raw}) IS NOT NULL AND ({listed}) IS NULL", path, f"{{value}} is no {type_.root}.")]
        checks += [
            Check(f"list_bool_or(list_transform({listed}, lambda {name}: {test.condition}))", test.path, test.reason)
            for test in tests
        ]
        return (f"map_from_entries({result})" if is_map else result), checks


def quoted(text: str) -> str:
    """A text as a literal of SQL."""
    return "'" + text.replace("'", "''") + "'"


def _packed(values: Sequence[tuple[str, str]]) -> str:
    inside = ", ".join('"' + name.replace('"', '""') + f'" := {value}' for name, value in values)
    return f"struct_pack({inside})"


def _structure(fields: Sequence[DataField]) -> str:
    kinds = {each.name: _kind(each.type) for each in fields}
    return quoted(json.dumps({**kinds, _AS_WRITTEN: "DECIMAL(1,0)"}, ensure_ascii=False))


def _kind(type_: DataType) -> str:
    # Where a text and a number mean different things, the quotes are kept.
    return "JSON" if type_.is_nested or type_.root in _AS_JSON else "VARCHAR"


def _worded(type_: DataType) -> str:
    return "base64" if type_.is_bytes else str(type_).removesuffix(" NOT NULL")
