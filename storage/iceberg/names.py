"""By which names columns are found in files that do not tell their ids, as earlier versions wrote them. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ..format.iceberg_types import iceberg_fields
from ..metadata.schema import TableSchema


def ambiguous_names(schemas: Iterable[TableSchema]) -> frozenset[str]:
    """The names that several columns, or several fields of a row, have had."""
    ids: dict[tuple[int | None, str], set[int]] = defaultdict(set)
    for schema in schemas:
        for parent, name, field_id, _ in _walk(_named(iceberg_fields(schema.fields)), None):
            ids[parent, name].add(field_id)
    return frozenset(name for (_, name), known in ids.items() if len(known) > 1)


def name_mapping(schemas: Sequence[TableSchema]) -> list[dict[str, Any]]:
    """Iceberg's mapping of names for the last of some versions of a schema: all names that each column has had."""
    ambiguous = ambiguous_names(schemas)
    names: dict[int, set[str]] = defaultdict(set)
    for schema in schemas:
        for _, name, field_id, _ in _walk(_named(iceberg_fields(schema.fields)), None):
            names[field_id].add(name)
    return _mapping(_named(iceberg_fields(schemas[-1].fields)), names, ambiguous)


def _mapping(
    parts: Iterable[tuple[str, int, Any]], names: Mapping[int, set[str]], ambiguous: frozenset[str]
) -> list[dict[str, Any]]:
    mappings = []
    for _, field_id, kind in parts:
        mapped: dict[str, Any] = {"field-id": field_id, "names": sorted(names[field_id] - ambiguous)}
        inner = _mapping(_parts(kind), names, ambiguous)
        mappings.append({**mapped, "fields": inner} if inner else mapped)
    return mappings


def _walk(parts: Iterable[tuple[str, int, Any]], parent: int | None) -> Iterator[tuple[int | None, str, int, Any]]:
    """All parts with the id of what they are in, at any depth."""
    for name, field_id, kind in parts:
        yield parent, name, field_id, kind
        yield from _walk(_parts(kind), field_id)


def _named(fields: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, int, Any]]:
    return ((field["name"], field["id"], field["type"]) for field in fields)


def _parts(kind: Any) -> Iterator[tuple[str, int, Any]]:
    """Name, id and type of the parts of a type of Iceberg's."""
    if isinstance(kind, Mapping):
        yield from _named(kind.get("fields", ()))
        for part in ("element", "key", "value"):
            if part in kind:
                yield part, kind[f"{part}-id"], kind[part]
