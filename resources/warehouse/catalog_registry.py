"""The catalogs that were made by CREATE CATALOG: in the platform's lineage database where that is a server's, so that all hosts
know them, else in `catalogs.json` of the home. What a home kept before the platform had a server stays that host's own.
"""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lineage import LineageUnavailable, UnreachableStore, open_lineage_store
from storage import (
    DEFAULT_CATALOG,
    AlreadyExists,
    InvalidRequest,
    NotFound,
    StorageError,
    hidden,
    revealed,
    written_options,
)

from .catalog_keepers import HomeCatalogs, PlatformCatalogs, Written
from .catalog_options import FIXED, STORAGE, checked_options, guarded, is_local_path, is_of_jdbc, open_catalog, opens

_log = logging.getLogger(__name__)
_ONLY_WHERE_MOUNTED = (
    "Catalog {!r} is known on all hosts, and its warehouse {} is a path, which each of them has to mount."
)
_said: set[tuple[str, str]] = set()


class CatalogRegistry:
    """Names and options of further catalogs. Whoever asks for one by its name, or for all, gets LineageUnavailable if they lie
    in a database that is away and were not read before.
    """

    def __init__(self, home: Path, platform: PlatformCatalogs | None = None) -> None:
        """`platform`: those that all hosts know; without it there are those of the home alone."""
        self._home = HomeCatalogs(home)
        self._platform = platform

    @property
    def home(self) -> HomeCatalogs:
        """What this host keeps for itself."""
        return self._home

    def all(self) -> dict[str, dict[str, Any]]:
        """Options by name, secrets typed, references as they were given. Raises CorruptData for what cannot be read."""
        return _guarded_all(self._known())

    @property
    def is_shared(self) -> bool:
        """Whether other hosts know the catalogs as well, so that a database has to be asked for them."""
        return self._platform is not None

    def names(self, *, anew: bool = False) -> list[str]:
        """In order. While the database is away none but those that were read before, with a warning. `anew`: as they are this
        moment.
        """
        try:
            return sorted(self._known(anew=anew))
        except LineageUnavailable as error:
            error.say_once()
            remembered = None if self._platform is None else self._platform.remembered
            # What the home has may be hidden by what cannot be read.
            return [] if remembered is None else sorted({*self._home.all(), *remembered})

    def has(self, name: str) -> bool:
        """Whether there is a catalog of that name."""
        return name in self._known(name)

    def get(self, name: str) -> dict[str, Any]:
        """The options of a catalog. Raises NotFound that lists the catalogs."""
        known = self._known(name)
        if name not in known:
            raise NotFound(
                f"Catalog {name!r} does not exist. Catalogs: {', '.join([DEFAULT_CATALOG, *sorted(known)])}."
            )
        return guarded(known[name])

    def _known(self, *names: str, anew: bool = False) -> Written:
        """Options by name, as they were given; those of the database as they were read a moment ago, if that has these names."""
        home = self._home.all()
        if self._platform is None:
            return home
        try:
            asked = (name for name in names if name not in home)
            platform = self._platform.all() if anew else self._platform.known(*asked)
        except LineageUnavailable as error:
            raise error.of_registry(*names) from None
        for name in home.keys() & platform.keys():
            self._say_hidden(name, home[name], platform[name])
        return {**home, **platform}

    def _say_hidden(self, name: str, home: Mapping[str, str], platform: Mapping[str, str]) -> None:
        if (name, home["warehouse"]) not in _said:
            _said.add((name, home["warehouse"]))
            _log.warning(
                "Catalog %r is the platform's, of warehouse %s: this host's own of that name, of warehouse %s, is passed over. "
                "To use both, take it out of %s and CREATE CATALOG under another name.",
                name,
                hidden(platform["warehouse"]),
                hidden(home["warehouse"]),
                self._home.file,
            )

    def written(self, name: str) -> dict[str, str]:
        """The options of a catalog as they were given, secrets too; empty if there is no such catalog."""
        return self._known(name).get(name, {})

    def create(self, name: str, options: Mapping[str, str], *, if_not_exists: bool = False) -> None:
        """Remember a catalog, which is opened once, so that options that contradict an existing one are refused.

        Raises AlreadyExists, InvalidRequest.
        """
        if self.has(name):
            if if_not_exists:
                return
            raise AlreadyExists(f"Catalog {name!r} exists. Drop it first, or choose another name.")
        options = checked_options(name, guarded(options))
        keeper = self._platform or self._home
        keeper.check(name, options)
        # Whatever may refuse the catalog comes before what writes to its warehouse.
        fixed = {key: value for key, value in options.items() if key in FIXED}
        open_catalog(name, {key: value for key, value in options.items() if opens(key)}).refuse_other_options(fixed)
        trouble = self._lineage_trouble(name, options)
        open_catalog(name, options)
        # Its database may lie beside the warehouse, whose directory is there now.
        trouble = trouble and self._lineage_trouble(name, options)
        local = self._platform is not None and is_local_path(revealed(options["warehouse"]))
        for warning in (trouble, _ONLY_WHERE_MOUNTED.format(name, options["warehouse"]) if local else None):
            if warning is not None:
                _log.warning("%s", warning)
        try:
            if not keeper.insert(name, written_options(options)) and not if_not_exists:
                raise AlreadyExists(f"Catalog {name!r} exists: somebody has just created it.")
        except LineageUnavailable as error:
            raise error.of_registry(name) from None

    def _lineage_trouble(self, name: str, options: Mapping[str, Any]) -> str | None:
        """Open the lineage store once: why it does not answer, which is no reason to refuse the catalog, or None. Raises
        InvalidRequest for options that no store can be opened with, and if the database cannot be made that it has by itself.
        """
        try:
            open_lineage_store(revealed(self._lineage_options(name, options))).close()
        except UnreachableStore as error:
            if self._platform is not None and is_of_jdbc(options) and not options.get("jdbc.url"):
                raise InvalidRequest(
                    f"Catalog {name!r} needs a lineage database of its own beside the platform's: let it be made for this user, "
                    f"or give 'jdbc.url' of another one. {error}"
                ) from None
            return f"Catalog {name!r}: {error}"
        except StorageError as error:
            raise InvalidRequest(f"Catalog {name!r}: {error}") from None
        except Exception as error:
            return f"The lineage store of catalog {name!r} cannot be opened: {hidden(str(error))}"
        return None

    def drop(self, name: str, *, if_exists: bool = False) -> bool:
        """Forget a catalog, wherever it is kept; its warehouse stays. Whether there was one. Raises NotFound."""
        try:
            gone = [keeper.delete(name) for keeper in (self._platform, self._home) if keeper is not None]
        except LineageUnavailable as error:
            raise error.of_registry(name) from None
        if not any(gone) and not if_exists:
            self.get(name)
        return any(gone)

    def lineage_options(self, name: str) -> dict[str, Any]:
        """What the lineage store of a catalog is opened with."""
        return self._lineage_options(name, self.get(name))

    def lineage_setting(self, name: str, setting: str) -> str:
        """What says where the lineage of a catalog lies, for messages; empty for its own option. `setting`: what says so of the
        platform's.
        """
        if self.get(name).get("jdbc.url"):
            return ""
        return setting if self._is_of_platform(name) else "SNAPLINE_HOME"

    def _is_of_platform(self, name: str) -> bool:
        """Whether all hosts know a catalog, or would if it is not there yet."""
        return self._platform is not None and (
            name in (self._platform.remembered or ()) or name not in self._home.all()
        )

    def _lineage_options(self, name: str, options: Mapping[str, Any]) -> dict[str, Any]:
        given = {key: value for key, value in options.items() if not key.startswith(STORAGE)}
        if not is_of_jdbc(given) or "jdbc.url" in given:
            return {"lineage-meta": "jdbc", **given}
        keeper = self._platform if self._platform is not None and self._is_of_platform(name) else self._home
        return {"lineage-meta": "jdbc", **given, "jdbc.url": keeper.lineage_url(name, options)}


def _guarded_all(known: Written) -> dict[str, dict[str, Any]]:
    return {name: guarded(options) for name, options in known.items()}
