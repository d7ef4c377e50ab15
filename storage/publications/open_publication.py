"""Publications that have begun and not ended, as operators are shown them."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from ..journal import REPLACING, UNDONE, Journal, Outcome
from .traces import OpenTable, is_done


@dataclass(frozen=True, slots=True)
class OpenPublication:
    """A publication that has begun and not ended. `done`: the tables whose main has its commit, or is its branch already."""

    number: int
    branch: str
    tables: tuple[str, ...]
    done: tuple[str, ...]
    kind: Literal["merges", "replaces main", "adopts"]
    outcome: Outcome | None

    def __str__(self) -> str:
        decided = {None: "nothing is decided", UNDONE: "it is being undone", REPLACING: "mains are being replaced"}
        return (
            f"Publication {self.number} of branch {self.branch!r} ({self.kind}) is open: {', '.join(self.done) or 'none'} of "
            f"{', '.join(self.tables)} done, {decided.get(self.outcome, self.outcome)}. {self.advice()}"
        )

    def advice(self) -> str:
        """What to do."""
        if self.outcome == UNDONE:
            return "Unless somebody is at it, go on by `snapline branch recover --undo`."
        undo = "" if self.outcome == REPLACING else ", or undo it by `snapline branch recover --undo`"
        return f"Unless somebody is at it, finish it by `snapline branch recover`{undo}."


def open_publications(
    open_table: OpenTable, journal: Journal, branches: Collection[str] | None = None
) -> list[OpenPublication]:
    """The publications that are open, in order, as far as their journals can be read; all, or those of some branches."""
    return [
        OpenPublication(
            int(entry.name),
            entry.branch,
            tuple(entry.before),
            tuple(name for name in entry.before if is_done(open_table, entry, name)),
            "replaces main" if entry.replaces else "adopts" if entry.adopted else "merges",
            journal.outcome(entry),
        )
        for entry in journal.all_open()
        if branches is None or entry.branch in branches
    ]
