"""The catalogs of a home: the one of the settings, and those made by CREATE CATALOG, kept in `catalogs.json`.

| option | meaning |
|---|---|
| `warehouse` | path or fsspec URL of the tables; required |
| `type` | `paimon`, `table-store` or `snapline`: all mean the same |
| `table-lineage`, `data-lineage` | record lineage; fixed once the catalog exists |
| `lineage-meta`, `jdbc.*` | the lineage store; by default SQLite in the home |
| `storage.<key>` | for fsspec (keys, endpoint …) |
| `table-storage.<key>` | default option of tables; `table-storage.file.path` is another name of `warehouse` |

Other keys are for a lineage store of somebody's own; without one they are refused.

A value, or a part of it, may be `${env:NAME}`: a variable of the environment, looked up when the catalog is opened and kept
as a reference in the file. What is a secret is typed as one, and stands in that file alone, which only its owner can read.
"""

import difflib
import json
import logging
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from lineage import UnreachableStore, check_jdbc_url, open_lineage_store
from storage import (
    DEFAULT_CATALOG,
    AlreadyExists,
    Catalog,
    CorruptData,
    FileLock,
    InvalidRequest,
    NotFound,
    Secret,
    StorageError,
    check_table_options,
    guarded_options,
    guarded_storage,
    hidden,
    resolved,
    revealed,
    written_options,
)

from ..private_files import keep_private, write_private
from ..setting_values import check_warehouse
from .metastore import METASTORE, check_metastore

_log = logging.getLogger(__name__)
_TYPES = ("paimon", "table-store", "snapline")
_STORAGE = "storage."
_NOT_KEPT = ("warehouse", "type", "jdbc.username")
_TABLE_DEFAULTS = "table-storage."
_FILE_PATH = "table-storage.file.path"
_FIXED = ("table-lineage", "data-lineage")
_KEYS = (
    "warehouse",
    "type",
    *_FIXED,
    "lineage-meta",
    "jdbc.url",
    "jdbc.username",
    "jdbc.password",
    "jdbc.database",
    "jdbc.driver",
)


class CatalogRegistry:
    """Names and options of further catalogs, in a file that all processes of a home share."""

    def __init__(self, home: Path) -> None:
        self._file = home / "catalogs.json"
        self._home = home

    def all(self) -> dict[str, dict[str, Any]]:
        """Options by name, secrets typed, references as they were given. Raises CorruptData for a file that cannot be read."""
        # Earlier versions have written it for everybody.
        keep_private(self._file)
        try:
            kept = json.loads(self._file.read_bytes())
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, RecursionError) as error:
            raise self._damaged(str(error)) from None
        if not isinstance(kept, dict):
            raise self._damaged("it is no JSON object")
        for name, options in kept.items():
            if not isinstance(options, dict) or not all(isinstance(value, str) for value in options.values()):
                raise self._damaged(f"catalog {name!r} has no options that are texts")
            if "warehouse" not in options:
                raise self._damaged(f"catalog {name!r} has no 'warehouse'")
        return {name: _guarded(options) for name, options in kept.items()}

    def _damaged(self, why: str) -> CorruptData:
        return CorruptData(
            f"File {self._file}, which keeps the catalogs of this home, is damaged: {why}. Put it back from a backup, or move it "
            "away and create the catalogs again by CREATE CATALOG: what lies in their warehouses is not touched."
        )

    def get(self, name: str) -> dict[str, Any]:
        """The options of a catalog. Raises NotFound that lists the catalogs."""
        known = self.all()
        if name not in known:
            raise NotFound(
                f"Catalog {name!r} does not exist. Catalogs: {', '.join([DEFAULT_CATALOG, *sorted(known)])}."
            )
        return known[name]

    def written(self, name: str) -> dict[str, str]:
        """The options of a catalog as they were given, secrets too; empty if there is no such catalog."""
        return {key: str(value) for key, value in written_options(self.all().get(name, {})).items()}

    def create(self, name: str, options: Mapping[str, str], *, if_not_exists: bool = False) -> None:
        """Remember a catalog, which is opened once, so that options that contradict an existing one are refused.

        Raises AlreadyExists, InvalidRequest.
        """
        options = _guarded(options)
        known = self.all()
        if name in known:
            if if_not_exists:
                return
            raise AlreadyExists(f"Catalog {name!r} exists. Drop it first, or choose another name.")
        options = _settled(name, options)
        if options.get("type", "paimon") not in _TYPES:
            raise InvalidRequest(f"'type' = {options['type']!r}: a catalog is of type {', '.join(_TYPES)}.")
        if not options.get("warehouse"):
            raise InvalidRequest(f"Catalog {name!r} needs a 'warehouse': the path or URL of its tables.")
        check_warehouse(f"Catalog {name!r}: 'warehouse'", revealed(options["warehouse"]))
        if options.get("jdbc.url") and options.get("lineage-meta", "jdbc") == "jdbc":
            check_jdbc_url(f"Catalog {name!r}: 'jdbc.url'", revealed(options["jdbc.url"]))
        # Whatever may refuse the catalog comes before what writes to its warehouse.
        fixed = {key: value for key, value in options.items() if key in _FIXED}
        open_catalog(name, {key: value for key, value in options.items() if _opens(key)}).refuse_other_options(fixed)
        trouble = self._lineage_trouble(name, options)
        open_catalog(name, options)
        # Its database may lie beside the warehouse, whose directory is there now.
        trouble = trouble and self._lineage_trouble(name, options)
        if trouble is not None:
            _log.warning("%s", trouble)
        with self._alone():
            known = self.all()
            if name not in known:
                self._write({**known, name: dict(options)})
            elif not if_not_exists:
                raise AlreadyExists(f"Catalog {name!r} exists: somebody has just created it.")

    def _lineage_trouble(self, name: str, options: Mapping[str, Any]) -> str | None:
        """Open the lineage store once: why it does not answer, which is no reason to refuse the catalog, or None. Raises
        InvalidRequest for options that no store can be opened with.
        """
        try:
            open_lineage_store(revealed(self._lineage_options(name, options))).close()
        except UnreachableStore as error:
            return f"Catalog {name!r}: {error}"
        except StorageError as error:
            raise InvalidRequest(f"Catalog {name!r}: {error}") from None
        except Exception as error:
            return f"The lineage store of catalog {name!r} cannot be opened: {hidden(str(error))}"
        return None

    def drop(self, name: str, *, if_exists: bool = False) -> None:
        """Forget a catalog; its warehouse stays. Raises NotFound."""
        with self._alone():
            known = self.all()
            if name not in known and if_exists:
                return
            self.get(name)
            del known[name]
            self._write(known)

    def _alone(self) -> AbstractContextManager[None]:
        """Keeps others away from the file while it is read and written over."""
        return FileLock(str(self._home / "locks")).hold(str(self._file))

    def lineage_options(self, name: str) -> dict[str, Any]:
        """What the lineage store of a catalog is opened with."""
        return self._lineage_options(name, self.get(name))

    def _lineage_options(self, name: str, options: Mapping[str, Any]) -> dict[str, Any]:
        defaults = {"lineage-meta": "jdbc", "jdbc.url": f"jdbc:sqlite:{self._home / f'lineage-{name}.db'}"}
        return {**defaults, **{key: value for key, value in options.items() if not key.startswith(_STORAGE)}}

    def _write(self, known: Mapping[str, Mapping[str, Any]]) -> None:
        plain = {name: written_options(options) for name, options in known.items()}
        write_private(self._file, json.dumps(plain, indent=2, sort_keys=True))


def _settled(name: str, options: Mapping[str, str]) -> dict[str, str]:
    """The options of a new catalog, checked; what is fixed from now on is written out. Raises InvalidRequest."""
    settled = dict(options)
    check_metastore(name, settled)
    # The warehouse itself says which tables there are: nothing has to be kept.
    settled.pop(METASTORE, None)
    if _FILE_PATH in settled:
        path = settled.pop(_FILE_PATH)
        if settled.setdefault("warehouse", path) != path:
            raise InvalidRequest(f"Catalog {name!r}: 'warehouse' and {_FILE_PATH!r} mean the same. Give one of them.")
    for key, value in settled.items():
        _check(name, key, value, own_store=settled.get("lineage-meta", "jdbc") != "jdbc")
    return {**dict.fromkeys(_FIXED, "false"), **settled}


def _check(name: str, key: str, value: str, *, own_store: bool) -> None:
    if key in _FIXED and value not in ("true", "false"):
        raise InvalidRequest(f"Catalog {name!r}: {key!r} = {value!r} is neither true nor false.")
    if key.startswith(_TABLE_DEFAULTS):
        check_table_options({key.removeprefix(_TABLE_DEFAULTS): value}, f"of catalog {name!r}")
    elif key not in _KEYS and not key.startswith(_STORAGE):
        near = difflib.get_close_matches(key, _KEYS, n=1)
        # What a store of somebody's own takes, it knows itself.
        if near or not own_store:
            hint = (
                f"Did you mean {near[0]!r}?"
                if near
                else f"Options: {', '.join(_KEYS)}, {_STORAGE}*, {_TABLE_DEFAULTS}*."
            )
            raise InvalidRequest(f"Catalog {name!r}: there is no option {key!r}. {hint}")


def _guarded(options: Mapping[str, Any]) -> dict[str, Any]:
    storage = guarded_storage(
        {key.removeprefix(_STORAGE): value for key, value in options.items() if key.startswith(_STORAGE)}
    )
    return {**guarded_options(options), **{f"{_STORAGE}{key}": value for key, value in storage.items()}}


def _opens(key: str) -> bool:
    """Whether an option says where a catalog lies, rather than what is kept of it."""
    return key == "warehouse" or key.startswith(_STORAGE)


def open_catalog(name: str, options: Mapping[str, Any]) -> Catalog:
    """The catalog that options describe. Raises InvalidRequest if it was created with others, or if a variable of the
    environment that they refer to is not set.
    """
    options = _guarded(options)
    storage = {key.removeprefix(_STORAGE): value for key, value in options.items() if key.startswith(_STORAGE)}
    # What refers to the environment of whoever opens the catalog says nothing to others.
    own = {
        key: value
        for key, value in options.items()
        if key not in _NOT_KEPT
        and not key.startswith(_STORAGE)
        and not isinstance(value, Secret)
        and resolved(value) == value
    }
    return Catalog(revealed(options["warehouse"]), name=name, options=own, storage_options=storage)
