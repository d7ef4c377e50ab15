"""Publications of recoveries that have begun and not ended: how far each has come, and what ends it.

Whoever published may be at it still, or has died: between two tables, or once every main had its commit, before that was written
down. Publishing again finishes it in either case.
"""

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress

from storage import Catalog, OpenPublication, Snapshot, StorageError

from .on_main import come_to, is_published
from .stages import Recovery

NOT_WRITTEN_DOWN = (
    "Every main has it, but nobody has written down that it is published, and Dagster may not know. Unless somebody is at it, "
    "publish it again, which does both."
)


def open_publications(catalog: Catalog, branches: Collection[str]) -> dict[str, str]:
    """For those of some recoveries, by the names of their branches, whose publication is open: that it is, and what ends it."""
    said: dict[str, str] = {}
    if not branches:
        return said
    try:
        for each in catalog.publications(branches):
            said[each.branch] = " ".join(filter(None, (said.get(each.branch), _sentences(each))))
    except StorageError as error:
        # Which of them it is about is not known: none is taken for one that may go.
        return dict.fromkeys(branches, f"How far a publication of it has come cannot be told: {error}")
    return said


def _sentences(publication: OpenPublication) -> str:
    number = publication.number
    if publication.outcome == "undone":
        still = f", and {', '.join(publication.done)} still have it" if publication.done else ""
        return (
            f"Publication {number} is being undone{still}. Unless somebody is at it, `snapline branch recover --undo` ends that; "
            "so does publishing again, which publishes it anew then."
        )
    undo = "" if publication.outcome == "replacing" else "; `snapline branch recover --undo` takes it back instead"
    come = come_to(publication)
    return f"Publication {number} is open, and {come}. Unless somebody is at it, publishing again finishes it{undo}."


def still_open(catalog: Catalog, branch: str) -> str:
    """That a publication stays as it is, to be said behind why publishing again was refused; empty if there is none."""
    with suppress(StorageError):
        for each in catalog.publications([branch]):
            if each.outcome is None:
                return (
                    f" Publication {each.number}, which was begun before, stays open ({come_to(each)}); readers of a "
                    "consistent view see none of it. It is finished by publishing once nothing is in the way, or taken back by "
                    "`snapline branch recover --undo`."
                )
    return ""


def finished_before(finished: Sequence[Mapping[str, Snapshot | None]]) -> str:
    """That publications which were begun before have been finished, by the snapshots that have made them, before something else
    was refused; empty if none has.
    """
    made = [each for tables in finished for each in tables.items()]
    by = [f"{name} (snapshot {snapshot.id})" for name, snapshot in made if snapshot is not None]
    if not by:
        return ""
    return (
        f"What had been begun before is finished, though: {', '.join(by)} have the branches as they were then. Dagster is "
        "told of it once the rest is published."
    )


def damaged_publications(catalog: Catalog) -> str:
    """What is said of publications whose journal cannot be read: nobody knows of which recoveries they are. Empty if there are
    none.
    """
    damaged = catalog.damaged_publications()
    return " ".join(
        f"Publication {number}, maybe one of this recovery, is damaged. {why}" for number, why in damaged.items()
    )


def is_on_every_main(recovery: Recovery) -> bool:
    """Whether every table that is branched has been published as it is on the branch now."""
    tables = recovery.changed()
    return bool(tables) and all(is_published(recovery, name) for name in tables)
