"""The catalogs of a platform whose lineage lies on a database server: registered there, so that every host knows them."""

import json
from collections.abc import Callable, Mapping

from storage import Clock, CorruptData, InvalidRequest

from .entities import NAME_LENGTH
from .guarded_store import GuardedStore


class CatalogRecords:
    """Names and options of catalogs in a lineage database. What several hosts do at once is done one after the other; every
    method raises LineageUnavailable if the database is away.
    """

    def __init__(self, store: Callable[[], GuardedStore], clock: Clock | None = None) -> None:
        """`store`: gives the one that lies in the database, which is not opened before it is asked."""
        self._store = store
        self._clock = clock or Clock()

    def all(self) -> dict[str, dict[str, str]]:
        """The options of each catalog. Raises CorruptData that names a catalog whose options cannot be read."""
        return {name: _options(name, text) for name, text in self._store().catalogs().items()}

    def insert(self, name: str, options: Mapping[str, str]) -> bool:
        """Register a catalog; false if there is one of that name, which stays. Raises InvalidRequest for a long name."""
        if len(name) > NAME_LENGTH:
            raise InvalidRequest(
                f"Catalog {name[:60]!r}… has a name of {len(name)} characters, of at most {NAME_LENGTH}. Choose a shorter name."
            )
        written = json.dumps(dict(options), sort_keys=True)
        stored = self._store().store_catalog(name, written, self._clock.now().replace(tzinfo=None))
        return bool(stored)

    def delete(self, name: str) -> bool:
        """Forget a catalog, also one whose options cannot be read; false if there is none of that name."""
        return bool(self._store().delete_catalog(name))


def _options(name: str, text: str) -> dict[str, str]:
    try:
        options = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _damaged(name, str(error)) from None
    if not isinstance(options, dict) or not all(isinstance(value, str) for value in options.values()):
        raise _damaged(name, "its options are no texts")
    if "warehouse" not in options:
        raise _damaged(name, "it has no 'warehouse'")
    return options


def _damaged(name: str, why: str) -> CorruptData:
    return CorruptData(
        f"Catalog {name!r}, as the platform's lineage database keeps it in registered_catalog, is damaged: {why}. DROP CATALOG "
        f"{name} and create it again: what lies in its warehouse is not touched."
    )
