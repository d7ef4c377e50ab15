"""Where the branches of tables were forked off, which lineage does not record."""

from collections.abc import Callable
from functools import cache

from storage import Catalog, StorageError

# Catalog, database, table, branch.
_Place = tuple[str, str, str, str]


class Forks:
    """What branches began with, each table asked once."""

    def __init__(self, catalog_of: Callable[[str], Catalog]) -> None:
        self._of_table = cache(lambda place: _forks(catalog_of, place))

    def of(self, place: _Place) -> list[tuple[_Place, int]]:
        """The branches that were forked off one, each with the number of the snapshot that it began with."""
        *table, branch = place
        return [
            ((*place[:3], name), number) for name, (of, number) in self._of_table(tuple(table)).items() if of == branch
        ]

    def begun_at(self, place: _Place) -> tuple[str, int] | None:
        """The branch and the number of the snapshot that a branch began with."""
        known: tuple[str, int] | None = self._of_table(place[:3]).get(place[3])
        return known


def _forks(catalog_of: Callable[[str], Catalog], place: tuple[str, str, str]) -> dict[str, tuple[str, int]]:
    catalog, database, name = place
    try:
        branches = catalog_of(catalog).table(f"{database}.{name}").branches
        names = branches.names()
    except StorageError:
        # It was dropped, or cannot be read: lineage is all there is.
        return {}
    forks: dict[str, tuple[str, int]] = {}
    for branch in names:
        try:
            begun_at = branches.begun_at(branch)
        except StorageError:
            # `snapline check` names it.
            continue
        if begun_at is not None:
            forks[branch] = begun_at
    return forks
