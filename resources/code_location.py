"""The definitions that Dagster loads, for commands that run or look up assets."""

from importlib import import_module
from threading import RLock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import dagster as dg

_MODULE = "platform_assets.definitions"
# Who imports Dagster and Spark beside other threads holds it: each would see modules of the other that are half there.
LOADING = RLock()


def platform_definitions() -> "dg.Definitions":
    """All definitions of the platform. Loading them takes seconds: Dagster and Spark are imported."""
    with LOADING:
        definitions: dg.Definitions = import_module(_MODULE).defs
        return definitions
