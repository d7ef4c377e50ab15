"""To what state a recovery takes the corrected table back."""

from storage import InvalidRequest, NotFound, Table


def before_bad(name: str, bad: str) -> int:
    """The snapshot before the bad one, which is named as `table@snapshot`. Raises InvalidRequest if that is the table's first."""
    number = int(bad.rpartition("@")[2])
    if number == 1:
        raise InvalidRequest(
            f"Snapshot 1 is the first of {name}: there is no state before it to go back to. Correct it by SQL: DELETE FROM "
            f"{name} takes all of its rows away."
        )
    return number - 1


def take_back(main: Table, branched: Table, bad: str) -> int:
    """Take the branch of a table back to before its bad snapshot; returns which one that is. Raises InvalidRequest, and NotFound
    for one that has expired.
    """
    before = before_bad(main.identifier.full_name, bad)
    try:
        # A branch begins with one snapshot: those before it are still main's.
        main.branches.lengthen(branched.identifier.branch, before)
        branched.rollback_to(before)
    except NotFound as error:
        raise NotFound(f"{main.identifier} cannot go back to before {bad}: {error} Correct it by SQL.") from None
    return before
