"""Columns, and fields of structs, whose names differ by case alone: SQL cannot tell them apart.

A table of another writer may have some. They are refused where a schema gets them, and where a reader would take one for
the other.
"""

from collections.abc import Iterable, Iterator

import pyarrow as pa

from ..errors import InvalidRequest


def case_twins(fields: Iterable[pa.Field], path: str = "") -> Iterator[tuple[str, str]]:
    """Each pair of names that differ by case alone, with the path to the struct that they are in."""
    seen: dict[str, str] = {}
    for field in fields:
        name = f"{path}{field.name}"
        other = seen.setdefault(name.lower(), name)
        if other != name:
            yield other, name
        yield from _inside(field.type, f"{name}.")


def _inside(kind: pa.DataType, path: str) -> Iterator[tuple[str, str]]:
    if pa.types.is_struct(kind):
        yield from case_twins(kind, path)
    elif pa.types.is_map(kind):
        yield from _inside(kind.key_type, path)
        yield from _inside(kind.item_type, path)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        yield from _inside(kind.value_type, path)


def refuse_new_twins(new: Iterable[pa.Field], old: Iterable[pa.Field] = ()) -> None:
    """Raise InvalidRequest for twins among columns that were not there before."""
    known = set(case_twins(old))
    for pair in case_twins(new):
        if pair not in known:
            raise InvalidRequest(
                f"Columns {pair[0]!r} and {pair[1]!r} differ by case alone, so that SQL could not tell them apart. Rename one "
                "of them."
            )


def refuse_read_twins(name: str, fields: Iterable[pa.Field]) -> None:
    """Raise InvalidRequest for twins among columns that are to be read by their names."""
    for first, second in case_twins(fields):
        raise InvalidRequest(
            f"{name} has {first!r} and {second!r}, whose names differ by case alone, so that SQL on DuckDB cannot tell them "
            "apart. Read others, or rename one: ALTER TABLE … RENAME COLUMN."
        )
