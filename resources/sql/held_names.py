"""The names that a table has for its columns, by names in whatever case: as in Spark, case tells no two apart."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from storage import AddColumn, DataField, InvalidRequest, Table

# What that is called which is inside of an array or a map.
_INSIDE = {"ARRAY": "element", "MAP": "value", "MULTISET": "element"}


def held_name(name: str, names: Sequence[str]) -> str | None:
    """The one of some names that is meant by another; None if there is none. Raises InvalidRequest if there are several."""
    if name in names:
        return name
    matching = [each for each in names if each.lower() == name.lower()]
    if len(matching) > 1:
        raise InvalidRequest(f"{name!r} is one of {', '.join(map(repr, matching))}: write it in the same case.")
    return matching[0] if matching else None


def held_names(given: Sequence[str], names: Sequence[str]) -> list[str]:
    """Those that are meant by some; those that are none stay as they are. Raises InvalidRequest for one that is given twice."""
    held: list[str] = []
    for name in given:
        known_name = held_name(name, names) or name
        if known_name.lower() in [other.lower() for other in held]:
            raise InvalidRequest(f"Column {name!r} is named twice. Name it once.")
        held.append(known_name)
    return held


def held_path(path: str, fields: Sequence[DataField]) -> str:
    """A path to a column, or to a field of a ROW, in the words of the table."""
    first, dot, rest = path.partition(".")
    name = held_name(first, [field.name for field in fields])
    if name is None or not dot:
        return f"{name or first}{dot}{rest}"
    kind = next(field.type for field in fields if field.name == name)
    parts = [name]
    # Inside of arrays and maps the next word is `element` or `value`.
    while kind.element is not None and rest:
        part, _, rest = rest.partition(".")
        kind = kind.element
        parts.append(part.lower())
    return ".".join([*parts, held_path(rest, kind.fields)] if rest else parts)


def is_held(path: str, fields: Sequence[DataField]) -> bool:
    """Whether there is a column, or a field of a ROW, of that path."""
    *parent, last = held_path(path, fields).split(".")
    for name in parent:
        kind = next((field.type for field in fields if field.name == name), None)
        if kind is None:
            return False
        fields = kind.fields if kind.element is None else (DataField(0, _INSIDE[kind.root], kind.element),)
    return last in [field.name for field in fields]


def _held_beside(other: str | None, path: str, fields: Sequence[DataField]) -> str | None:
    """A column, or field, that another one comes after, in the words of the table; `path` is that of the other one."""
    if other is None:
        return None
    parent, dot, _ = path.rpartition(".")
    return held_path(f"{parent}{dot}{other}", fields).removeprefix(f"{parent}{dot}")


def in_words_of(table: Table, action: str, values: Any) -> Any:
    """What an action of ALTER TABLE takes, with the table's own names for the columns that it changes."""
    fields = table.schema.fields
    if action == "drop":
        return [held_path(value, fields) for value in values]
    if action in ("drop not null", "set not null"):
        return held_path(values, fields)
    if action in ("rename", "set default", "type", "comment") and values[0] is not None:
        return (held_path(values[0], fields), *values[1:])
    if action == "move":
        path = held_path(values[0], fields)
        return path, _held_beside(values[1], path, fields), values[2]
    return values


def in_place(added: AddColumn, table: Table) -> AddColumn:
    """A column that is added, with the table's own names for what is around it."""
    fields = table.schema.fields
    parent, dot, name = added.name.rpartition(".")
    path = f"{held_path(parent, fields) if dot else ''}{dot}{name}"
    return replace(added, name=path, after=_held_beside(added.after, path, fields))


def refuse_twins(names: list[str]) -> None:
    """Raise InvalidRequest for columns whose names differ by case alone: statements could not tell them apart."""
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(name.lower(), name)
        if other != name:
            raise InvalidRequest(f"Columns {other!r} and {name!r} differ by case alone. Rename one of them.")
