"""How far a recovery has come, in a word: told from its record and the snapshots on its branches."""

from collections.abc import Mapping
from dataclasses import dataclass

from storage import CorruptData

from ..assets.table_asset import TableAsset
from ..session import Session
from .left_to_do import left_to_do
from .publish import uncorrected
from .record import DROPPING, PUBLISHED, get_record, names
from .stages import Recovery

TO_BE_CORRECTED, TO_BE_PUBLISHED = "to be corrected", "to be published"


@dataclass(frozen=True)
class Progress:
    """`state`: what is done. `left`: the tables that are still to be corrected or computed anew, of which `wrong` are to be
    corrected. `trouble`: why nothing can be said of a damaged one.
    """

    branch: str
    bad: str
    mode: str
    state: str
    tables: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    wrong: tuple[str, ...] = ()
    overrides: tuple[str, ...] = ()
    trouble: str = ""
    is_published: bool = False


def recoveries(session: Session, assets: Mapping[str, TableAsset]) -> list[Progress]:
    """Every recovery that there is, by name."""
    return [progress(session, name, assets) for name in names(session.catalog)]


def progress(session: Session, name: str, assets: Mapping[str, TableAsset]) -> Progress:
    """How far one has come. Raises NotFound."""
    try:
        record = get_record(session.catalog, name)
    except CorruptData as error:
        return Progress(name, "", "", "damaged", trouble=str(error))
    recovery = Recovery(session, name)
    wrong, left = uncorrected(recovery), left_to_do(recovery, assets)
    tables = recovery.tables
    to_make = [each for each, table in tables.items() if not table.corrected]
    if record.status == PUBLISHED:
        state = "published in spite of something" if record.overrides else "published"
    elif record.status == DROPPING:
        state = "being dropped"
    elif wrong:
        state = TO_BE_CORRECTED
    else:
        state = f"{len(to_make) - len(left)} of {len(to_make)} computed anew" if left else TO_BE_PUBLISHED
    return Progress(
        name,
        record.bad,
        record.mode,
        state,
        tuple(tables),
        (*wrong, *left),
        tuple(wrong),
        tuple(record.overrides),
        is_published=record.status == PUBLISHED,
    )
