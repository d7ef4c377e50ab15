"""Compactions that are planned anew for as long as others take away meanwhile what is to be compacted."""

import logging
from collections.abc import Collection, Sequence
from typing import Any

from ..errors import CommitConflict, NotFound
from ..metadata.manifest import Place
from ..metadata.snapshot import Snapshot
from ..metadata.table_store import TableStore
from ..write.listeners import CommitListener
from .compaction import compact, plan_compaction

_log = logging.getLogger(__name__)
# How often others may do so.
TRIES = 3
# Where nobody sees the rows before.
_TRIES_UNTIL_SEEN = 10


def compact_in_tries(
    store: TableStore, tries: int, *, listeners: Sequence[CommitListener], **options: Any
) -> Snapshot | None:
    """Compact as `compact` does with these options, planned anew for as long as others take away the files meanwhile.

    Raises CommitConflict if all tries were in vain.
    """
    for tries_left in reversed(range(tries)):
        try:
            return compact(store, listeners=listeners, **options)
        except CommitConflict as error:
            if not tries_left:
                raise
            _log.info("%s", error)
    return None


def compact_if_due(
    store: TableStore, snapshot: Snapshot, written: Collection[Place], listeners: Sequence[CommitListener]
) -> Snapshot | None:
    """Compact the buckets that a commit has written to, if its own snapshot asks for it: whoever commits after it looks at what
    is there then. That asks the store for nothing, since this process has just written what is looked at.
    """
    try:
        is_due = bool(plan_compaction(store, snapshot, full=False, wanted=written.__contains__))
    except NotFound:
        # It has expired meanwhile.
        is_due = True
    return compact_after(store, written, listeners) if is_due else None


def compact_after(
    store: TableStore, written: Collection[Place], listeners: Sequence[CommitListener]
) -> Snapshot | None:
    """Compact the buckets that a commit has written to as far as their options ask for it, in a few tries. Raises
    CommitConflict if all were in vain and the rows wait for it.
    """
    is_awaited = store.options.lifts_each_write
    tries = _TRIES_UNTIL_SEEN if is_awaited else TRIES
    try:
        return compact_in_tries(store, tries, listeners=listeners, full=False, wanted=written.__contains__)
    except CommitConflict as error:
        if is_awaited:
            raise
        # The rows are committed, and the next writer will compact them.
        _log.info("%s", error)
        return None
