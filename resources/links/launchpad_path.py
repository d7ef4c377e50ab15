"""Addresses of launchpads in Dagster's UI, filled in, and the tag of the runs of a recovery."""

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

# The UI leaves this name of a repository out of its addresses.
SINGLETON_REPOSITORY = "__repository__"


RECOVERY_TAG = "snapline/recovery"


def place_of(repository: str, location: str) -> str:
    """A code location as addresses of the UI name it."""
    return quote(location if repository == SINGLETON_REPOSITORY else f"{repository}@{location}", safe="@")


def launchpad_path(place: str, job: str, op: str, config: Mapping[str, Any]) -> str:
    """The launchpad of a job of one op, with its configuration filled in."""
    # Each value as JSON, which is YAML too; a text that is still to be written begins on a line of its own.
    lines = [
        f"      {name}: " + ("|-\n        " if value == "" else json.dumps(value, ensure_ascii=False))
        for name, value in config.items()
    ]
    filled_in = "\n".join(["ops:", f"  {op}:", "    config:", *lines])
    return f"/locations/{place}/jobs/{job}/playground/setup?config={quote(filled_in, safe='')}"
