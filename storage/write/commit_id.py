"""By what a commit is known, so that it lands once however often it is tried."""

from dataclasses import dataclass

from ..arguments import checked
from ..errors import InvalidRequest
from ..metadata.snapshot import BATCH_COMMIT_IDENTIFIER, Snapshot

_CHANCE_BITS = 20


@checked
@dataclass(frozen=True, slots=True)
class CommitId:
    """Who commits, and the number of the commit. A repeated commit of the same id changes nothing, unless the number is
    `BATCH_COMMIT_IDENTIFIER`, which is that of all batch jobs and tells none from another.

    `exact`: identifiers of the user need not rise, so the same number is looked for; else the newest snapshot of the
    user tells (every identifier up to its own is in). `not_before_ms` bounds the search into the past. `is_new`: it was made
    for this one call and never used before, so that nothing is looked for before the commit.
    """

    user: str
    identifier: int = BATCH_COMMIT_IDENTIFIER
    exact: bool = False
    not_before_ms: int | None = None
    is_new: bool = False

    def __post_init__(self) -> None:
        is_number = isinstance(self.identifier, int) and not isinstance(self.identifier, bool)
        if not isinstance(self.user, str) or not is_number or not -(2**63) <= self.identifier < 2**63:
            raise InvalidRequest(
                f"A commit id has a user, which is text, and a whole number of 64 bits, not {self.user!r} and "
                f"{self.identifier!r}."
            )

    @classmethod
    def of_moment(cls, user: str, time_ms: int, chance: int, *, is_new: bool = False) -> "CommitId":
        """The id of a commit that a job began at a time, in milliseconds since 1970: exact. The number is that time, then the
        lowest 20 bits of `chance`, which tell those of one millisecond apart; every 278 years the times in it begin anew.
        """
        number = (time_ms << _CHANCE_BITS) | (chance & ((1 << _CHANCE_BITS) - 1))
        number = min(number & BATCH_COMMIT_IDENTIFIER, BATCH_COMMIT_IDENTIFIER - 1)
        return cls(user, number, exact=True, not_before_ms=time_ms or None, is_new=is_new)

    def made(self, snapshot: Snapshot) -> bool:
        """Whether a snapshot is the one that this id made: not a later one, which holds what it committed."""
        return (snapshot.commit_user, snapshot.commit_identifier) == (self.user, self.identifier)
