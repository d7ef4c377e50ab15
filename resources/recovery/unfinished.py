"""Publications of recoveries that have begun and not ended: how far each has come, and what ends it.

Whoever published may be at it still, or has died: between two tables, or once every main had its commit, before that was written
down. Publishing again finishes it in either case.
"""

from collections.abc import Collection

from storage import Catalog, OpenPublication, StorageError

from .on_main import is_published
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
    number, missing = publication.number, [name for name in publication.tables if name not in publication.done]
    if publication.outcome == "undone":
        still = f", and {', '.join(publication.done)} still have it" if publication.done else ""
        return (
            f"Publication {number} is being undone{still}. Unless somebody is at it, `snapline branch recover --undo` ends that; "
            "so does publishing again, which publishes it anew then."
        )
    if not publication.done:
        come = f"has come to none of {', '.join(missing)} yet"
    elif missing:
        come = f"has come to {', '.join(publication.done)}, not to {', '.join(missing)}"
    else:
        come = f"has come to all of its tables: {', '.join(publication.done)}"
    undo = "" if publication.outcome == "replacing" else "; `snapline branch recover --undo` takes it back instead"
    return f"Publication {number} is open, and {come}. Unless somebody is at it, publishing again finishes it{undo}."


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
