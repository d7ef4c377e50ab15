"""The table assets of the platform's definitions."""

from ..code_location import LOADING, platform_definitions
from .table_asset import TableAsset, table_assets


def platform_table_assets() -> dict[str, TableAsset]:
    """The table assets of the platform, by table."""
    with LOADING:
        return table_assets(list(platform_definitions().assets or []))
