"""What small files are written `of`: the table or branch that their writer has opened."""

from collections.abc import Callable

from ..directory_lock import Witness

WitnessOf = Callable[[], Witness | None]


def no_witness() -> None:
    """For files that are written whatever table is there."""
