"""Options of catalogs that other programs for Paimon take, and what this one does instead. Source: Paimon's `CatalogOptions`."""

from collections.abc import Mapping

from storage import InvalidRequest

METASTORE = "metastore"
_FILE_SYSTEM = "filesystem"
_KINDS = ("hive", "jdbc", "rest", "dlf", "dlf-paimon")
_OF_OTHERS = (
    "uri",
    "token",
    "token.",
    "dlf.",
    "hive.",
    "hive-conf-dir",
    "hadoop-conf-dir",
    "client-pool-size",
    "catalog-key",
    "location-in-properties",
    "table.type",
)
_OF_THEIR_CLIENTS = (
    "cache-enabled",
    "cache.",
    "lock.",
    "lock-",
    "case-sensitive",
    "allow-upper-case",
    "sync-all-properties",
    "format-table.",
)


def check_metastore(name: str, options: Mapping[str, str]) -> None:
    """Raise InvalidRequest for a catalog that is kept elsewhere than in its warehouse, and for options of such, unless they may
    be those of somebody's own store of lineage.
    """
    kind = options.get(METASTORE, _FILE_SYSTEM)
    if kind != _FILE_SYSTEM:
        what = "such a catalog" if kind in _KINDS else "that"
        raise InvalidRequest(
            f"Catalog {name!r}: 'metastore' = {kind!r}: {what} is not spoken to. The tables of a warehouse are found by their "
            "directories ('filesystem'). Leave the option out, and give the directory of that catalog as 'warehouse': tables "
            "that lie there are found, those with a location of their own are not."
        )
    for key in options if options.get("lineage-meta", "jdbc") == "jdbc" else ():
        if _is_one_of(key, _OF_OTHERS):
            raise InvalidRequest(
                f"Catalog {name!r}: {key!r} is of catalogs that a server keeps, which are not spoken to. Leave it out."
            )
        if _is_one_of(key, _OF_THEIR_CLIENTS):
            raise InvalidRequest(
                f"Catalog {name!r}: {key!r} sets how Paimon's own library opens a catalog. It has no meaning here: "
                "commits need no lock, and caches are sized by themselves. Leave it out."
            )


def _is_one_of(key: str, known: tuple[str, ...]) -> bool:
    return any(key == each or (each[-1] in ".-" and key.startswith(each)) for each in known)
