"""The properties of snapshots by which the store knows what a commit was: nobody else may set them."""

from collections.abc import Mapping

from ..errors import InvalidRequest
from ..metadata.change_tracking import UNTRACKED_PROPERTY
from ..metadata.snapshot import FOLLOWS_PROPERTY
from ..metadata.time_order import CLOCK_PROPERTY, TIME_DISORDER_PROPERTY
from .close import CLOSED_PROPERTY, FENCE_PROPERTY
from .taken_over import TAKEN_OVER_PROPERTY

# The property of a rollback: the number of the snapshot that it went back to.
ROLLED_BACK_PROPERTY = "snapline.rolled-back-to"
# The property of a commit that takes back one earlier snapshot: its number.
REVERTED_PROPERTY = "snapline.reverted"
_OWN = {
    UNTRACKED_PROPERTY, FOLLOWS_PROPERTY, CLOCK_PROPERTY, TIME_DISORDER_PROPERTY, CLOSED_PROPERTY, FENCE_PROPERTY,
    TAKEN_OVER_PROPERTY, ROLLED_BACK_PROPERTY, REVERTED_PROPERTY,
}  # fmt: skip


def refuse_own_properties(properties: Mapping[str, str] | None) -> None:
    """Raise InvalidRequest for properties that are the store's own, or whose names or values are not text."""
    for key, value in (properties or {}).items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise InvalidRequest(
                f"Properties of a commit are text by text, not {key!r}: {value!r}. Nothing is written."
            )
        if key in _OWN:
            raise InvalidRequest(f"Property {key!r} is the store's own: choose another name. Nothing is written.")
