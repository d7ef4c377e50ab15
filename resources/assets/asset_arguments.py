"""Which arguments of `dagster.asset` a table asset passes on, and why it refuses the others."""

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from typing import Any

import dagster as dg

from storage import InvalidRequest, StorageError

from ..settings import Settings
from ..warehouse.catalogs import CATALOG_NAME
from .declared import refuse_unknown_argument

# Given to Dagster as they are; `deps`, `metadata` and `tags` besides those of the table.
PASSED = (
    "automation_condition",
    "backfill_policy",
    "deps",
    "freshness_policy",
    "group_name",
    "hooks",
    "kinds",
    "metadata",
    "op_tags",
    "owners",
    "pool",
    "retry_policy",
    "tags",
)
# Arguments of `table_asset` itself.
OWN = ("code_version", "description", "name", "partitions_def")
_RESOURCES = "take what the function needs from its module, or write a @dagster.asset around `TablesResource`"
_IO = "rows are committed as the table, and no IO manager has a part in that"
REFUSED = {
    "auto_materialize_policy": "use automation_condition",
    "check_specs": "a function that returns rows reports no checks: use sql_check, or @dagster.asset_check",
    "compute_fn": "the decorated function is given",
    "compute_kind": "use kinds",
    "config_schema": "let the function take a parameter `config` that is annotated with a dagster.Config",
    "dagster_type": _IO,
    "ins": "inputs={parameter: 'database.table'} says what is read, deps=[…] what is not",
    "io_manager_def": _IO,
    "io_manager_key": _IO,
    "is_virtual": "the table is made by this asset",
    "key": "the key is the table's name",
    "key_prefix": "the key is the table's name",
    "kwargs": "it is none",
    "legacy_freshness_policy": "use freshness_policy, or freshness_check",
    "non_argument_deps": "use deps",
    "output_required": "a run that commits nothing still says which version there is",
    "required_resource_keys": _RESOURCES,
    "resource_defs": _RESOURCES,
}


_KINDS: dict[str, type] = {
    "automation_condition": dg.AutomationCondition,
    "backfill_policy": dg.BackfillPolicy,
    "freshness_policy": dg.FreshnessPolicy,
    "group_name": str,
    "pool": str,
    "retry_policy": dg.RetryPolicy,
}
# What Dagster shows of a table, which is told from the table.
_FILLED = {
    "tags": ("dagster/storage_kind",),
    "metadata": (
        "dagster/column_schema",
        "dagster/partition_row_count",
        "dagster/row_count",
        "dagster/storage_kind",
        "dagster/table_name",
        "dagster/uri",
    ),
}


def _called(kind: type) -> str:
    return "text" if kind is str else f"dagster.{kind.__name__}"


def check_arguments(given: Mapping[str, Any]) -> None:
    """Raise InvalidRequest that names an argument which is not passed on, and what to do instead."""
    for name in given:
        if name in REFUSED:
            raise InvalidRequest(f"{name}=… of dagster.asset is not taken: {REFUSED[name]}.")
        own = (*OWN, "inputs", "primary_key", "partition_by", "mode")
        refuse_unknown_argument(name, PASSED, "dagster.asset", own=own)
    for name in ("kinds", "owners"):
        texts = given.get(name)
        # A text is a collection of letters: nobody means that.
        of_texts = isinstance(texts, Collection) and not isinstance(texts, str | bytes | Mapping)
        if texts is not None and not (of_texts and all(isinstance(each, str) for each in texts)):
            raise InvalidRequest(f"{name}={texts!r} is no list of texts: write {name}=[…].")
    deps = given.get("deps")
    if deps is not None and (isinstance(deps, str | bytes | Mapping) or not isinstance(deps, Iterable)):
        raise InvalidRequest(f"deps={deps!r} is no list: write deps=[…], of assets, keys, or names as 'core.flights'.")
    for name, kinds in _KINDS.items():
        if given.get(name) is not None and not isinstance(given[name], kinds):
            raise InvalidRequest(f"{name}={given[name]!r} is no {_called(kinds)}.")
    for name in ("tags", "metadata", "op_tags"):
        keys = mapping(name, given.get(name), "a mapping of names to values")
        filled = [key for key in _FILLED.get(name, ()) if key in keys]
        if filled:
            raise InvalidRequest(
                f"{name}: {filled[0]!r} is what the platform says of the table, and not {keys[filled[0]]!r}: leave it out."
            )


def mapping(name: str, given: Any, shape: str) -> dict[Any, Any]:
    """An argument that maps names; none is empty. Raises InvalidRequest for anything else, with what it maps."""
    if given is None:
        return {}
    if not isinstance(given, Mapping) or not all(isinstance(key, str) for key in given):
        raise InvalidRequest(f"{name}={given!r} is no mapping: give {shape}.")
    return dict(given)


def table_description(name: str, transform: Callable[..., Any]) -> dict[str, Any]:
    """Metadata of an asset by which Dagster shows where its table lies and where its code is."""
    database, _, table = name.partition(".")
    description: dict[str, Any] = {"dagster/table_name": f"{CATALOG_NAME}.{name}", "dagster/storage_kind": "paimon"}
    # Whoever runs anything will be told what is wrong with the settings.
    with suppress(StorageError):
        warehouse = Settings.from_environment().warehouse.rstrip("/")
        warehouse = warehouse if "://" in warehouse else f"file://{warehouse}"
        description["dagster/uri"] = f"{warehouse}/{database}.db/{table}"
    plain = inspect.unwrap(transform)
    with suppress(OSError, TypeError):
        # What has no text has no place either.
        path, line = inspect.getsourcefile(plain), inspect.getsourcelines(plain)[1]
        if path is None:
            return description
        reference = dg.LocalFileCodeReference(file_path=path, line_number=line, label=plain.__name__)
        description["dagster/code_references"] = dg.CodeReferencesMetadataValue(code_references=[reference])
    return description
