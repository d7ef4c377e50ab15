"""The properties of snapshots by which the store knows what a commit was: nobody else may set them."""

import json
from collections.abc import Mapping
from typing import Any

from ..arguments import shown
from ..errors import InvalidRequest
from ..metadata.change_tracking import UNTRACKED_PROPERTY
from ..metadata.history import REVERTED_PROPERTY, ROLLED_BACK_IDENTITY_PROPERTY, ROLLED_BACK_PROPERTY
from ..metadata.snapshot import FOLLOWS_PROPERTY, RESCALED_BROUGHT_PROPERTY
from ..metadata.time_order import CLOCK_PROPERTY, TIME_DISORDER_PROPERTY
from .close import CLOSED_BY_PROPERTY, CLOSED_PROPERTY, FENCE_PROPERTY
from .taken_from import TAKEN_FROM_PROPERTY
from .taken_over import SOURCES_PROPERTY, TAKEN_NEWEST_PROPERTY, TAKEN_OVER_EXPIRED_PROPERTY, TAKEN_OVER_PROPERTY

_OWN = {
    UNTRACKED_PROPERTY,
    FOLLOWS_PROPERTY,
    CLOCK_PROPERTY,
    TIME_DISORDER_PROPERTY,
    CLOSED_PROPERTY,
    FENCE_PROPERTY,
    TAKEN_OVER_PROPERTY,
    TAKEN_OVER_EXPIRED_PROPERTY,
    ROLLED_BACK_PROPERTY,
    ROLLED_BACK_IDENTITY_PROPERTY,
    REVERTED_PROPERTY,
    TAKEN_FROM_PROPERTY,
    TAKEN_NEWEST_PROPERTY,
    CLOSED_BY_PROPERTY,
    RESCALED_BROUGHT_PROPERTY,
}
# A JSON object with, for each column, a list of the columns that it was computed from: see the lineage package.
COLUMNS_PROPERTY = "snapline.columns"


def refuse_own_properties(properties: Mapping[str, str] | None) -> None:
    """Raise InvalidRequest for properties that are the store's own, or whose names or values are not text, and for those of
    lineage if they are not of its form.
    """
    for key, value in (properties or {}).items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise InvalidRequest(
                f"Properties of a commit are text by text, not {key!r}: {value!r}. Nothing is written."
            )
        if key in _OWN:
            raise InvalidRequest(f"Property {key!r} is the store's own: choose another name. Nothing is written.")
        form = _FORMS.get(key)
        if form is not None and not form[0](_parsed(value)):
            raise InvalidRequest(f"Property {key!r} is {form[1]}, as JSON, not {shown(value)}. Nothing is written.")


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _are_sources(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(each, list)
        and len(each) in (5, 6)
        and all(isinstance(name, str) for name in each[:4])
        and all(isinstance(number, int) and not isinstance(number, bool) for number in each[4:])
        for each in value
    )


def _are_columns(value: Any) -> bool:
    return isinstance(value, dict) and all(
        isinstance(sources, list)
        and all(
            isinstance(source, list) and len(source) == 4 and all(isinstance(x, str) for x in source)
            for source in sources
        )
        for sources in value.values()
    )


_FORMS = {
    SOURCES_PROPERTY: (
        _are_sources,
        "a list of [catalog, database, table, branch, snapshot id] or the same with a time in milliseconds",
    ),
    COLUMNS_PROPERTY: (
        _are_columns,
        "an object of column name to a list of [catalog, database, table, column]",
    ),
}
