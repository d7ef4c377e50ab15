"""Fields of a Dagster resource: what it does not have is refused, where Dagster ignores it."""

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

from storage import InvalidRequest


def refuse_unknown_fields(resource: str, known: Iterable[str], given: Mapping[str, Any]) -> None:
    """Raise InvalidRequest for a field that a resource does not have, with the one that may be meant."""
    names = sorted(name for name in known if not name.startswith("_"))
    for name in given:
        if name not in names and name != "pyspark_config":
            near = difflib.get_close_matches(name, names, n=1)
            hint = f"Did you mean {near[0]!r}?" if near else f"Fields: {', '.join(names)}."
            raise InvalidRequest(f"{resource} has no field {name!r}. {hint}")
