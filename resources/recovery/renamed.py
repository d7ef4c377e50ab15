"""Tables that were renamed since a recovery began: it knows them by the names that they have now."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from storage import Catalog, Identifier, SnapshotRef

# By the name that each had when the recovery began: until when it had it, and what it is called now.
Renamed = Mapping[str, tuple[int, str]]


def renamed_since(catalog: Catalog, known: Collection[str], since_ms: int) -> Renamed:
    """The tables among those that are `known` by name that have got another one since a moment. A name that is not known is
    of a table that is new, or was renamed: those alone are asked.
    """
    new = [name for name in catalog.tables() if name not in known and catalog.exists(name)]
    return {name: renaming for name, renaming in former_since(catalog, new, since_ms).items() if name in known}


def former_since(catalog: Catalog, names: Iterable[str], since_ms: int) -> Renamed:
    """The names that some tables have had since a moment."""
    renamings: dict[str, tuple[int, str]] = {}
    for name in names:
        for former in catalog.former_names(name):
            # Of several tables that have had the name since, the first is meant.
            if former.until_ms >= since_ms:
                renamings[former.name] = min(
                    renamings.get(former.name, (former.until_ms, name)), (former.until_ms, name)
                )
    return renamings


def name_now(renamed: Renamed, name: str) -> str:
    """What a table is called now that had a name when the recovery began."""
    return renamed[name][1] if name in renamed else name


def source_now(renamed: Renamed, source: SnapshotRef, then_ms: int) -> SnapshotRef:
    """A source that a snapshot of a moment names, by its table's name of now."""
    until_ms, name = renamed.get(f"{source.database}.{source.table}", (-1, ""))
    if then_ms > until_ms:
        return source
    now = Identifier.parse(name)
    return replace(source, database=now.database, table=now.table)
