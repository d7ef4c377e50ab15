"""The definitions that Dagster loads, for commands that run or look up assets."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import dagster as dg

    from .table_assets import TableAsset

_MODULE = "platform_assets.definitions"


def platform_definitions() -> "dg.Definitions":
    """All definitions of the platform. Loading them takes seconds: Dagster and Spark are imported."""
    definitions: dg.Definitions = import_module(_MODULE).defs
    return definitions


def platform_table_assets() -> "dict[str, TableAsset]":
    """The table assets of the platform, by table."""
    from .table_assets import table_assets

    return table_assets(list(platform_definitions().assets or []))
