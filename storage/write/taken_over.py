"""What one branch has taken over from another: the commits that are in a snapshot, by the marks in its properties.

So nothing is taken over twice, and who repeats one of those commits finds it.
"""

import json
from collections.abc import Mapping, Sequence

from ..errors import CorruptData
from ..metadata.change_tracking import UNTRACKED_PROPERTY
from ..metadata.snapshot import FOLLOWS_PROPERTY, Snapshot
from ..metadata.table_store import TableStore

# A JSON list with, for each commit taken over, its mark, commit user and commit identifier.
TAKEN_OVER_PROPERTY = "snapline.taken-over"
# A JSON list of the snapshots that rows were made from: see the lineage package.
SOURCES_PROPERTY = "snapline.sources"


def mark(store: TableStore, snapshot: Snapshot) -> str:
    """What the other side's commit remembers a snapshot by."""
    return f"{store.identifier.branch}@{snapshot.id} {snapshot.delta_manifest_list}"


def taken_over_properties(store: TableStore, snapshots: Sequence[Snapshot]) -> dict[str, str]:
    """The properties of one commit that holds what some snapshots of a branch did."""
    properties: dict[str, str] = {}
    for snapshot in snapshots:
        properties |= snapshot.properties or {}
    properties.pop(FOLLOWS_PROPERTY, None)
    sources = _united(snapshots, SOURCES_PROPERTY)
    if sources:
        properties[SOURCES_PROPERTY] = json.dumps(sources, ensure_ascii=False)
    properties.pop(UNTRACKED_PROPERTY, None)
    untracked = [(one.properties or {}).get(UNTRACKED_PROPERTY) for one in snapshots]
    if untracked and all(text == "true" for text in untracked):
        properties[UNTRACKED_PROPERTY] = "true"
    elif silent := [part for text in untracked if text not in (None, "true") for part in json.loads(text or "[]")]:
        properties[UNTRACKED_PROPERTY] = json.dumps(sorted(set(silent)))
    taken: list[list[object]] = [[mark(store, one), one.commit_user, one.commit_identifier] for one in snapshots]
    taken += [entry for one in snapshots for entry in _taken(one)]
    return {**properties, TAKEN_OVER_PROPERTY: json.dumps(taken, ensure_ascii=False)}


def marks_of(snapshot: Snapshot) -> set[str]:
    """The marks of the commits that a snapshot holds of another branch."""
    return {str(entry[0]) for entry in _taken(snapshot)}


def branch_taken_over(snapshot: Snapshot) -> str | None:
    """The branch whose commits a snapshot holds, if it holds some."""
    taken = _taken(snapshot)
    # Its own marks stand first, those of what it had taken over itself behind them.
    return str(taken[0][0]).rpartition(" ")[0].rpartition("@")[0] if taken else None


def commits_taken_over(snapshot: Snapshot) -> set[tuple[str, int]]:
    """Users and identifiers of the commits that a snapshot holds of another branch."""
    return {(str(entry[1]), int(str(entry[2]))) for entry in _taken(snapshot) if len(entry) == 3}


def _taken(snapshot: Snapshot) -> list[list[object]]:
    properties: Mapping[str, str] = snapshot.properties or {}
    text = properties.get(TAKEN_OVER_PROPERTY)
    if text is None:
        return []
    if not text.startswith("["):
        # Until version 0.1 there was one mark, as plain text.
        return [[text]]
    try:
        return [list(entry) for entry in json.loads(text)]
    except (ValueError, TypeError) as error:
        raise CorruptData(
            f"Property {TAKEN_OVER_PROPERTY!r} of snapshot {snapshot.id} is unreadable: {error}"
        ) from None


def _united(snapshots: Sequence[Snapshot], key: str) -> list[object]:
    """The elements of JSON lists in a property of some snapshots, each once, in order."""
    united: dict[str, object] = {}
    for snapshot in snapshots:
        for element in json.loads((snapshot.properties or {}).get(key, "[]")):
            united.setdefault(json.dumps(element), element)
    return list(united.values())
