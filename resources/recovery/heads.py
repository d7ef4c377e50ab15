"""Which snapshot every main is at: what a recovery reads of the tables that it does not make anew.

A table that is damaged stops those recoveries alone that it concerns.
"""

import logging
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress

from lineage import LineageUnavailable
from storage import Catalog, CorruptData

from ..session import Session

_log = logging.getLogger(__name__)
# Stands for the snapshot of a main that could not be read; numbers of snapshots begin at 1.
UNREAD = 0


def heads_of_mains(
    session: Session, tables: Collection[str], *, known: Mapping[str, int] | None = None
) -> dict[str, int]:
    """The newest change of every table, of which no publication is half to be seen.

    Raises CorruptData for a damaged table that is among `tables`, or that one of them is made from. Another one is named in a
    warning, and has the number that was `known`, or UNREAD.
    """
    catalog = session.catalog
    names = catalog.tables()
    try:
        return _heads(catalog, names)
    except CorruptData:
        damaged = _damaged(catalog, names)
        if not damaged:
            # A journal, say.
            raise
    concerned = {*tables, *_read_by(session, [name for name in tables if name not in damaged])}
    for name, error in damaged.items():
        if name in concerned:
            raise error
        _log.warning("%s is damaged, and takes no part in the recovery: %s", name, error)
    heads = _heads(catalog, [name for name in names if name not in damaged])
    return {**heads, **{name: (known or {}).get(name, UNREAD) for name in damaged}}


def _heads(catalog: Catalog, names: Sequence[str]) -> dict[str, int]:
    last_changes = {name: table.last_change() for name, table in catalog.consistent(names).items()}
    return {name: ref.snapshot_id for name, ref in last_changes.items() if ref is not None}


def _damaged(catalog: Catalog, names: Sequence[str]) -> dict[str, CorruptData]:
    """The tables of which the newest change cannot be told, and why."""
    errors = {}
    for name in names:
        try:
            catalog.table(name).last_change()
        except CorruptData as error:
            errors[name] = error
    return errors


def _read_by(session: Session, names: Sequence[str]) -> set[str]:
    """The tables that jobs read to write some tables, as lineage knows them."""
    source_tables: set[str] = set()
    for name in names:
        # Who begins a recovery has asked lineage before.
        with suppress(LineageUnavailable):
            source_tables.update(session.neighbour_tables(name, "up"))
    return source_tables
