"""How far a recovery has come, in a word: told from its record and the snapshots on its branches."""

from collections.abc import Mapping
from dataclasses import dataclass

from storage import CorruptData

from ..assets.table_asset import TableAsset
from ..session import Session
from .left_to_do import left_to_do
from .on_main import changed_since
from .publish import uncorrected
from .record import DROPPING, OPEN, PUBLISHED, get_record, names
from .remarks import left_out, remarks
from .stages import Recovery
from .unfinished import NOT_WRITTEN_DOWN, damaged_publications, is_on_every_main, open_publications

TO_BE_CORRECTED, TO_BE_PUBLISHED = "to be corrected", "to be published"
# Somebody is at it, or has died over it.
BEING_PUBLISHED = "being published"


@dataclass(frozen=True)
class Progress:
    """`state`: what is done. `left`: the tables that are still to be corrected or computed anew, of which `wrong` are to be
    corrected. `unfinished`: of a publication that has begun and not ended, or may have, how far it has come, and what ends it:
    such a recovery is not to be dropped. `trouble`: why nothing can be said of a damaged one. `changed`: the tables that have
    changed since it was published. `without_branch`: those of the plan whose branches are gone. `remarks`: what is to be said
    of these, and of tables that were dropped or made anew, in sentences.
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
    unfinished: str = ""
    changed: tuple[str, ...] = ()
    without_branch: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()


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
    changed = changed_since(recovery)
    said = remarks(recovery, changed, left)
    is_published = record.status == PUBLISHED or bool(changed)
    if is_published:
        wrong, left = left_out(record, wrong), left_out(record, left)
    tables = recovery.tables
    to_make = [each for each, table in tables.items() if not table.corrected]
    if is_published:
        state = "published in spite of something" if record.overrides else "published"
        state += ", changed since" if changed else ""
    elif record.status == DROPPING:
        state = "being dropped"
    elif wrong:
        state = TO_BE_CORRECTED
    else:
        state = f"{len(to_make) - len(left)} of {len(to_make)} computed anew" if left else TO_BE_PUBLISHED
    unfinished = open_publications(session.catalog, [name]).get(name, "")
    if not unfinished and record.status == OPEN and state == TO_BE_PUBLISHED and is_on_every_main(recovery):
        unfinished = NOT_WRITTEN_DOWN
    state = BEING_PUBLISHED if unfinished else state
    return Progress(
        name,
        record.bad,
        record.mode,
        state,
        tuple(tables),
        (*wrong, *left),
        tuple(wrong),
        tuple(record.overrides),
        is_published=is_published,
        unfinished=unfinished or damaged_publications(session.catalog),
        changed=tuple(changed),
        without_branch=tuple(recovery.without_branch()),
        remarks=said,
    )
