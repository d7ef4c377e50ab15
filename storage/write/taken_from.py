"""How far a branch has been taken over by a commit: what stays known once the branch's own snapshots have expired."""

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from ..errors import CorruptData
from ..metadata.branch_origin import read_origin
from ..metadata.snapshot import Snapshot
from ..metadata.table_store import TableStore

# A JSON object: by the uuid of a branch, the last of its snapshots whose work is in this commit and those before it, and
# whether the rows are those of the branch from then, nothing else.
TAKEN_FROM_PROPERTY = "snapline.taken-from"


@dataclass(frozen=True, slots=True)
class Reach:
    """Up to which snapshot of a branch a commit of main has its work. `whole`: main's rows are the branch's there."""

    until: int
    whole: bool


def branch_uuid(branch: TableStore) -> str | None:
    """What tells a branch from others that had its name; None if nothing does, or what does cannot be read."""
    with suppress(CorruptData):
        origin = read_origin(branch.file_io, branch.paths)
        return None if origin is None else origin.uuid
    return None


def taken_from_property(
    branch: TableStore, snapshots: Iterable[Snapshot], until: Snapshot | None, *, whole: bool
) -> dict[str, str]:
    """The property of a commit that takes a branch over up to a snapshot, and with it what some of its snapshots had taken
    over from others; nothing if it cannot be told from other branches of its name.
    """
    reached: dict[str, Reach] = {}
    for snapshot in snapshots:
        for uuid, reach in reaches(snapshot).items():
            before = reached.get(uuid)
            # The rows are those of the branch by now.
            reached[uuid] = Reach(max(reach.until, before.until if before else 0), False)
    own = branch_uuid(branch)
    if own is not None and until is not None:
        reached[own] = Reach(until.id, whole)
    value = {uuid: [reach.until, reach.whole] for uuid, reach in reached.items()}
    return {TAKEN_FROM_PROPERTY: json.dumps(value)} if value else {}


def reach_of(snapshot: Snapshot, uuid: str | None) -> Reach | None:
    """How far a snapshot has a branch's work, by the branch's uuid; None if it says nothing of that."""
    return None if uuid is None else reaches(snapshot).get(uuid)


def reaches(snapshot: Snapshot) -> dict[str, Reach]:
    """How far a snapshot has the work of branches, by their uuids. Raises CorruptData for what is no such property."""
    properties: Mapping[str, str] = snapshot.properties or {}
    text = properties.get(TAKEN_FROM_PROPERTY)
    try:
        value = {} if text is None else json.loads(text)
        return {str(uuid): Reach(int(until), bool(whole)) for uuid, (until, whole) in value.items()}
    except (ValueError, TypeError, AttributeError, RecursionError, OverflowError) as error:
        raise CorruptData(
            f"Property {TAKEN_FROM_PROPERTY!r} of snapshot {snapshot.id} is unreadable: {error}"
        ) from None
