"""Links to snapshots of tables that have been renamed since: they lead to the page of today's name."""

from collections.abc import Mapping
from dataclasses import replace
from urllib.parse import urlencode

from storage import Identifier, SnapshotRef, StorageError

from ..links.address import text_of
from ..session import Session
from .view import ref_of

# The parameters of addresses that name snapshots.
_REFS = ("ref", "left", "right")


def followed(session: Session, parameters: Mapping[str, str]) -> str:
    """The query of an address with the tables of its snapshots as they are called now; empty if none was renamed."""
    query = dict(parameters)
    for name in _REFS:
        if name in query:
            now = _now(session, query[name])
            query[name] = query[name] if now is None else text_of(now)
    return urlencode(query) if query != dict(parameters) else ""


def _now(session: Session, text: str) -> SnapshotRef | None:
    try:
        ref = ref_of(text)
        now = session.catalog_of(ref.catalog).renamed_to(f"{ref.database}.{ref.table}")
    except StorageError:
        return None
    if now is None:
        return None
    identifier = Identifier.parse(now)
    return replace(ref, database=identifier.database, table=identifier.table)
