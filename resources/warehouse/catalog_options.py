"""The options of catalogs: what CREATE CATALOG takes, and the catalog that they describe.

| option | meaning |
|---|---|
| `warehouse` | path or fsspec URL of the tables; required |
| `type` | `paimon`, `table-store` or `snapline`: all mean the same |
| `table-lineage`, `data-lineage` | record lineage; fixed once the catalog exists |
| `lineage-meta`, `jdbc.*` | the lineage store; by default SQLite in the home, or a database beside that of the platform |
| `storage.<key>` | for fsspec (keys, endpoint …) |
| `table-storage.<key>` | default option of tables; `table-storage.file.path` is another name of `warehouse` |

Other keys are for a lineage store of somebody's own; without one they are refused.

A value, or a part of it, may be `${env:NAME}`: a variable of the environment, looked up when the catalog is opened and kept
as a reference. What is a secret is typed as one.
"""

import difflib
from collections.abc import Mapping
from typing import Any

from lineage import check_jdbc_url
from storage import (
    Catalog,
    InvalidRequest,
    Secret,
    check_table_options,
    guarded_options,
    guarded_storage,
    resolved,
    revealed,
)

from ..setting_values import check_warehouse
from .metastore import METASTORE, check_metastore

STORAGE = "storage."
FIXED = ("table-lineage", "data-lineage")
_TYPES = ("paimon", "table-store", "snapline")
_NOT_KEPT = ("warehouse", "type", "jdbc.username")
_TABLE_DEFAULTS = "table-storage."
_FILE_PATH = "table-storage.file.path"
_KEYS = (
    "warehouse",
    "type",
    *FIXED,
    "lineage-meta",
    "jdbc.url",
    "jdbc.username",
    "jdbc.password",
    "jdbc.database",
    "jdbc.driver",
)


def checked_options(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a new catalog, checked; what is fixed from now on is written out. Raises InvalidRequest."""
    options = _settled(name, options)
    if options.get("type", "paimon") not in _TYPES:
        raise InvalidRequest(f"'type' = {options['type']!r}: a catalog is of type {', '.join(_TYPES)}.")
    if not options.get("warehouse"):
        raise InvalidRequest(f"Catalog {name!r} needs a 'warehouse': the path or URL of its tables.")
    check_warehouse(f"Catalog {name!r}: 'warehouse'", revealed(options["warehouse"]))
    if options.get("jdbc.url") and is_of_jdbc(options):
        check_jdbc_url(f"Catalog {name!r}: 'jdbc.url'", revealed(options["jdbc.url"]))
    return options


def is_of_jdbc(options: Mapping[str, Any]) -> bool:
    """Whether the lineage of a catalog lies in SQL, and not in a store of somebody's own."""
    return bool(options.get("lineage-meta", "jdbc") == "jdbc")


def _settled(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    settled = dict(options)
    check_metastore(name, settled)
    # The warehouse itself says which tables there are: nothing has to be kept.
    settled.pop(METASTORE, None)
    if _FILE_PATH in settled:
        path = settled.pop(_FILE_PATH)
        if settled.setdefault("warehouse", path) != path:
            raise InvalidRequest(f"Catalog {name!r}: 'warehouse' and {_FILE_PATH!r} mean the same. Give one of them.")
    for key, value in settled.items():
        _check(name, key, value, own_store=not is_of_jdbc(settled))
    return {**dict.fromkeys(FIXED, "false"), **settled}


def _check(name: str, key: str, value: str, *, own_store: bool) -> None:
    if key in FIXED and value not in ("true", "false"):
        raise InvalidRequest(f"Catalog {name!r}: {key!r} = {value!r} is neither true nor false.")
    if key.startswith(_TABLE_DEFAULTS):
        check_table_options({key.removeprefix(_TABLE_DEFAULTS): value}, f"of catalog {name!r}")
    elif key not in _KEYS and not key.startswith(STORAGE):
        near = difflib.get_close_matches(key, _KEYS, n=1)
        # What a store of somebody's own takes, it knows itself.
        if near or not own_store:
            hint = (
                f"Did you mean {near[0]!r}?"
                if near
                else f"Options: {', '.join(_KEYS)}, {STORAGE}*, {_TABLE_DEFAULTS}*."
            )
            raise InvalidRequest(f"Catalog {name!r}: there is no option {key!r}. {hint}")


def is_local_path(warehouse: str) -> bool:
    """Whether a checked warehouse is a path of the host itself."""
    return "://" not in warehouse or warehouse.startswith(("file:", "local:"))


def guarded(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a catalog with their secrets typed."""
    storage = guarded_storage(
        {key.removeprefix(STORAGE): value for key, value in options.items() if key.startswith(STORAGE)}
    )
    return {**guarded_options(options), **{f"{STORAGE}{key}": value for key, value in storage.items()}}


def opens(key: str) -> bool:
    """Whether an option says where a catalog lies, rather than what is kept of it."""
    return key == "warehouse" or key.startswith(STORAGE)


def open_catalog(name: str, options: Mapping[str, Any]) -> Catalog:
    """The catalog that options describe. Raises InvalidRequest if it was created with others, or if a variable of the
    environment that they refer to is not set.
    """
    options = guarded(options)
    storage = {key.removeprefix(STORAGE): value for key, value in options.items() if key.startswith(STORAGE)}
    # What refers to the environment of whoever opens the catalog says nothing to others.
    own = {
        key: value
        for key, value in options.items()
        if key not in _NOT_KEPT
        and not key.startswith(STORAGE)
        and not isinstance(value, Secret)
        and resolved(value) == value
    }
    return Catalog(revealed(options["warehouse"]), name=name, options=own, storage_options=storage)
