"""What lineage cannot answer for: catalogs that record no lineage of their snapshots, and what was made from their tables."""

from collections.abc import Callable, Iterable, Mapping

from lineage import LineageStore, reached, sources_of
from storage import NotFound, StorageError, Table

from .catalogs import Catalogs

# Catalog, database, table, branch.
_Place = tuple[str, str, str, str]
# The branches that were forked off one, each with the number of the snapshot that it began with.
_Forks = Callable[[_Place], Iterable[tuple[_Place, int]]]


def silent_catalogs(catalogs: Catalogs) -> list[str]:
    """The catalogs that record no lineage of snapshots."""
    return [name for name in catalogs.catalog_names() if not catalogs.records_lineage(name)]


def past_silent_catalogs(catalogs: Catalogs, stores: Mapping[str, LineageStore], forks: _Forks) -> list[str]:
    """The tables of other catalogs, by `catalog.db.t`, of which nobody can say what went into them: they were made from
    tables of silent catalogs that were themselves made from something.
    """
    silent = silent_catalogs(catalogs)
    read = {
        (name, row.database, row.table) for name in silent if name in stores for row in stores[name].snapshots("source")
    }
    starts: dict[_Place, int] = {}
    for name in read:
        starts |= _unknown_branches(catalogs, name)
    return sorted({".".join(place[:3]) for place in reached(stores, starts, forks) if place[0] not in silent})


def _unknown_branches(catalogs: Catalogs, name: tuple[str, str, str]) -> dict[_Place, int]:
    """The branches of a table that something unknown may have gone into, from their first snapshots on."""
    try:
        table = catalogs.catalog_of(name[0]).table(".".join(name[1:]))
        branches = [table, *map(table.on_branch, table.branches.names())]
        return {(*name, each.identifier.branch): 0 for each in branches if _may_be_made(each)}
    except NotFound:
        return {}
    except StorageError:
        return {(*name, "main"): 0}


def _may_be_made(table: Table) -> bool:
    """Whether a snapshot of a branch says that it was made from others, or has expired and can say nothing."""
    earliest = table.snapshots.earliest_id()
    if earliest is None or earliest > 1:
        return earliest is not None
    return any(sources_of(snapshot) for snapshot in table.snapshots.all())
