"""To what state a recovery takes the corrected table back."""

from storage import InvalidRequest


def before_bad(name: str, bad: str) -> int:
    """The snapshot before the bad one, which is named as `table@snapshot`. Raises InvalidRequest if that is the table's first."""
    number = int(bad.rpartition("@")[2])
    if number == 1:
        raise InvalidRequest(
            f"Snapshot 1 is the first of {name}: there is no state before it to go back to. Correct it by SQL: DELETE FROM "
            f"{name} takes all of its rows away."
        )
    return number - 1
