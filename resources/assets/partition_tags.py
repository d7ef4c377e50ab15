"""Tags that follow a partition: each names the newest snapshot that was made for it, whichever run comes last."""

import json
from collections.abc import Sequence

from storage import Snapshot, Table

from ..warehouse.snapshot_properties import TAGS_PROPERTY


def tag_newest(table: Table, name: str, snapshot_id: int) -> None:
    """Let a tag name a snapshot, or one after it that another run has made for the same tag meanwhile.

    It is looked again once the tag is there: of two runs that meet, whoever comes last puts it right.
    """
    newest = _newest_for(table, name, snapshot_id)
    while True:
        table.tags.create(name, snapshot_id=newest, replace=True)
        later = _newest_for(table, name, newest)
        if later == newest:
            return
        newest = later


def tags_property(names: Sequence[str]) -> dict[str, str]:
    """The property of a commit that says which tags it is to get."""
    return {TAGS_PROPERTY: json.dumps(list(names))} if names else {}


def _newest_for(table: Table, name: str, snapshot_id: int) -> int:
    for snapshot in table.snapshots.backwards():
        if snapshot.id <= snapshot_id:
            break
        if name in _tags_of(snapshot) and not table.snapshots.is_taken_back(snapshot.id):
            return snapshot.id
    return snapshot_id


def _tags_of(snapshot: Snapshot) -> list[str]:
    text = (snapshot.properties or {}).get(TAGS_PROPERTY, "[]")
    try:
        tags = json.loads(text)
    except ValueError:
        return []
    # Written by somebody else, it says nothing.
    return [tag for tag in tags if isinstance(tag, str)] if isinstance(tags, list) else []
