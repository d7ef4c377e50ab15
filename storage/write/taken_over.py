"""What one branch has taken over from another: the commits that are in a snapshot, by the marks in its properties.

So nothing is taken over twice, and who repeats one of those commits finds it.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace

from ..errors import CorruptData
from ..identifier import MAIN_BRANCH
from ..metadata.branch_origin import read_origin
from ..metadata.change_tracking import UNTRACKED_PROPERTY, untracked_partitions
from ..metadata.committed import Committed, united
from ..metadata.history import REVERTED_PROPERTY, ROLLED_BACK_IDENTITY_PROPERTY, ROLLED_BACK_PROPERTY
from ..metadata.snapshot import BATCH_COMMIT_IDENTIFIER, FOLLOWS_PROPERTY, Snapshot
from ..metadata.table_store import TableStore
from ..metadata.tag import TAG_BRANCH_KEY
from .taken_from import TAKEN_FROM_PROPERTY, taken_from_property

# A JSON list with, for each commit taken over, its mark, commit user and commit identifier.
TAKEN_OVER_PROPERTY = "snapline.taken-over"
# A JSON list of commit ids of the other branch that have no mark: of those whose snapshots have expired there, and of all if
# the rows were taken over whole.
TAKEN_OVER_EXPIRED_PROPERTY = "snapline.taken-over-expired"
# A JSON list of branch, number and commit time of the snapshot that made the rows which are in this commit of another branch.
TAKEN_NEWEST_PROPERTY = "snapline.taken-newest"
# A JSON list of the snapshots that rows were made from: see the lineage package.
SOURCES_PROPERTY = "snapline.sources"


def mark(store: TableStore, snapshot: Snapshot) -> str:
    """What the other side's commit remembers a snapshot by."""
    return f"{store.identifier.branch}@{snapshot.id} {snapshot.delta_manifest_list}"


def taken_over_properties(
    store: TableStore, snapshots: Sequence[Snapshot], until: Snapshot | None, *, whole: bool
) -> dict[str, str]:
    """The properties of one commit that holds what some snapshots of a branch did, and what has expired there before them.

    `until`: the branch's newest snapshot then. `whole`: the commit's rows are the branch's, and nothing else.
    """
    properties: dict[str, str] = {}
    for snapshot in snapshots:
        properties |= snapshot.properties or {}
    # What the branch went back to are numbers of its own.
    for key in (
        FOLLOWS_PROPERTY,
        ROLLED_BACK_PROPERTY,
        ROLLED_BACK_IDENTITY_PROPERTY,
        REVERTED_PROPERTY,
        TAKEN_FROM_PROPERTY,
        TAKEN_NEWEST_PROPERTY,
    ):
        properties.pop(key, None)
    sources = _united(snapshots, SOURCES_PROPERTY)
    if sources:
        properties[SOURCES_PROPERTY] = json.dumps(sources, ensure_ascii=False)
    properties.pop(UNTRACKED_PROPERTY, None)
    untracked = [untracked_partitions(snapshot) for snapshot in snapshots]
    if untracked and all(each is None for each in untracked):
        properties[UNTRACKED_PROPERTY] = "true"
    elif silent := [part for each in untracked for part in each or ()]:
        properties[UNTRACKED_PROPERTY] = json.dumps(sorted(set(silent)))
    taken: list[list[object]] = [
        [mark(store, snapshot), snapshot.commit_user, snapshot.commit_identifier] for snapshot in snapshots
    ]
    taken += [entry for snapshot in snapshots for entry in _taken(snapshot)]
    # Asked after the snapshots were read: what expired meanwhile is there.
    remembered = [*store.committed.all(), *(each for snapshot in snapshots for each in _taken_expired(snapshot))]
    properties.pop(TAKEN_OVER_EXPIRED_PROPERTY, None)
    return {
        **properties,
        **ids_property(_as_taken_over(remembered)),
        **taken_from_property(store, snapshots, until, whole=whole),
        TAKEN_OVER_PROPERTY: json.dumps(taken, ensure_ascii=False),
        **_newest_property(store, snapshots, until if whole else None),
    }


def _newest_property(store: TableStore, snapshots: Sequence[Snapshot], until: Snapshot | None) -> dict[str, str]:
    """Which snapshot of a branch made the rows that are taken over: the newest of `snapshots` that changed some, or else the
    newest up to `until`.
    """
    newest = next((snapshot for snapshot in reversed(snapshots) if snapshot.changes_rows), None)
    while newest is None and until is not None:
        newest, until = (until, None) if until.changes_rows else (None, store.snapshots.before(until))
    if newest is None:
        return {}
    newest_mark = [_begun_on(store, newest), newest.id, newest.time_ms]
    return {TAKEN_NEWEST_PROPERTY: json.dumps(newest_mark, ensure_ascii=False)}


def _begun_on(store: TableStore, snapshot: Snapshot) -> str:
    """The branch that made a snapshot: another one if this began with it, or later."""
    with suppress(CorruptData):
        origin = None if store.identifier.branch == MAIN_BRANCH else read_origin(store.file_io, store.paths)
        if origin is not None and origin.snapshot_id is not None and snapshot.id <= origin.snapshot_id:
            return origin.branch
    return store.identifier.branch


@dataclass(frozen=True, slots=True)
class TakenNewest:
    """The snapshot of another branch that made rows of a commit. `time_ms`: when it was committed; `mark`: what tells it from
    others of its number, where the time is not known.
    """

    branch: str
    snapshot_id: int
    time_ms: int | None = None
    mark: str = ""


def taken_newest(snapshot: Snapshot) -> TakenNewest | None:
    """The snapshot of another branch whose rows a commit has taken over, as far as it says so; of versions before this
    property, the newest of those that it marks.
    """
    text = (snapshot.properties or {}).get(TAKEN_NEWEST_PROPERTY)
    if text is None:
        return _newest_marked(snapshot)
    try:
        branch, number, time_ms = json.loads(text)
        return TakenNewest(str(branch), int(number), int(time_ms))
    except (ValueError, TypeError, RecursionError, OverflowError) as error:
        raise snapshot.unreadable(TAKEN_NEWEST_PROPERTY, error) from None


def _newest_marked(snapshot: Snapshot) -> TakenNewest | None:
    """Of the marks those of the branch itself stand first, in order; what that had taken over follows."""
    own, newest = branch_taken_over(snapshot), None
    for entry in _taken(snapshot):
        text = str(entry[0])
        name, _, number = text.rpartition(" ")[0].rpartition("@")
        if name != own or not number.isdecimal() or (newest is not None and int(number) <= newest.snapshot_id):
            break
        newest = TakenNewest(name, int(number), None, text)
    return newest


def is_marked(store: TableStore, taken: TakenNewest) -> bool | None:
    """Whether a branch's snapshot is the one that was taken over; None if it has none of that number."""
    there = store.snapshots.find(taken.snapshot_id)
    return None if there is None else taken.mark == mark(store, there)


def marks_of_tag(store: TableStore, target: Snapshot) -> dict[str, str]:
    """The properties of a rollback to what a tag has kept of another branch: that branch's commits up to there are in it, as
    far as they can be told. Nothing for a snapshot of the branch's own.
    """
    branch = target.others.get(TAG_BRANCH_KEY)
    if branch is None:
        return {}
    own = [f"{branch}@{target.id} {target.delta_manifest_list}", target.commit_user, target.commit_identifier]
    taken: dict[str, list[object]] = {str(own[0]): own}
    for snapshot in store.snapshots.backwards():
        for entry in _taken(snapshot):
            name, _, number = str(entry[0]).rpartition(" ")[0].rpartition("@")
            if name == branch and number.isdigit() and int(number) <= target.id:
                taken.setdefault(str(entry[0]), entry)
    newest = [branch, target.id, target.time_ms]
    return {
        TAKEN_OVER_PROPERTY: json.dumps(list(taken.values()), ensure_ascii=False),
        **({TAKEN_NEWEST_PROPERTY: json.dumps(newest, ensure_ascii=False)} if target.changes_rows else {}),
    }


def ids_of_branch(store: TableStore, snapshots: Sequence[Snapshot]) -> list[Committed]:
    """The ids of some snapshots of a branch, and of all that have expired there, as another branch takes them over."""
    # What expires meanwhile is remembered first.
    return _as_taken_over([*ids_of(snapshots), *store.committed.all()])


def ids_property(remembered: Sequence[Committed]) -> dict[str, str]:
    """The property of a commit by which commit ids of another branch are in it; nothing if there are none."""
    if not remembered:
        return {}
    return {TAKEN_OVER_EXPIRED_PROPERTY: json.dumps([asdict(each) for each in remembered], ensure_ascii=False)}


def marks_of(snapshot: Snapshot) -> set[str]:
    """The marks of the commits that a snapshot holds of another branch."""
    return {str(entry[0]) for entry in _taken(snapshot)}


def branch_taken_over(snapshot: Snapshot) -> str | None:
    """The branch whose commits a snapshot holds, if it holds some."""
    taken = _taken(snapshot)
    # Its own marks stand first, those of what it had taken over itself behind them.
    return str(taken[0][0]).rpartition(" ")[0].rpartition("@")[0] if taken else None


def ids_taken_over(snapshot: Snapshot) -> dict[str, Committed]:
    """The ids of the commits that a snapshot holds of another branch, by user."""
    taken = [(str(entry[1]), int(str(entry[2]))) for entry in _taken(snapshot) if len(entry) == 3]
    by_user: dict[str, list[tuple[int, int]]] = {}
    for user, identifier in taken:
        if identifier != BATCH_COMMIT_IDENTIFIER:
            by_user.setdefault(user, []).append((identifier, snapshot.time_ms))
    made = [Committed(user).with_commits(commits) for user, commits in by_user.items()]
    return united([*made, *_taken_expired(snapshot)])


def ids_of(snapshots: Iterable[Snapshot]) -> list[Committed]:
    """The ids of some snapshots, and of the commits of other branches that they hold, to be remembered."""
    own: dict[str, list[Snapshot]] = {}
    taken: list[Committed] = []
    for snapshot in snapshots:
        taken += ids_taken_over(snapshot).values()
        if snapshot.commit_identifier != BATCH_COMMIT_IDENTIFIER:
            own.setdefault(snapshot.commit_user, []).append(snapshot)
    made: list[Committed] = []
    for user, of_user in own.items():
        newest = max(of_user, key=lambda user_snapshot: (user_snapshot.commit_identifier, user_snapshot.id))
        commits = [(snapshot.commit_identifier, snapshot.time_ms) for snapshot in of_user]
        made.append(Committed(user, newest.commit_identifier, newest.id).with_commits(commits))
    return list(united([*made, *taken]).values())


def _as_taken_over(remembered: Iterable[Committed]) -> list[Committed]:
    """What a branch remembers, as another one takes it over: that has not all identifiers of a user up to the highest."""
    return list(united(replace(each, highest=None, highest_snapshot_id=None) for each in remembered).values())


def _taken_expired(snapshot: Snapshot) -> list[Committed]:
    text = (snapshot.properties or {}).get(TAKEN_OVER_EXPIRED_PROPERTY)
    source = f"Property {TAKEN_OVER_EXPIRED_PROPERTY!r} of snapshot {snapshot.id}"
    try:
        return [] if text is None else [Committed.from_json(each, source) for each in json.loads(text)]
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise CorruptData(f"{source} is unreadable: {error}") from None


def _taken(snapshot: Snapshot) -> list[list[object]]:
    properties: Mapping[str, str] = snapshot.properties or {}
    text = properties.get(TAKEN_OVER_PROPERTY)
    if text is None:
        return []
    if not text.startswith("["):
        # Until version 0.1 there was one mark, as plain text.
        return [[text]]
    try:
        entries = [list(entry) for entry in json.loads(text)]
        if not all(entries):
            raise ValueError("an entry is empty")
        for entry in entries:
            if len(entry) == 3:
                int(str(entry[2]))
        return entries
    except (ValueError, TypeError, RecursionError) as error:
        raise snapshot.unreadable(TAKEN_OVER_PROPERTY, error) from None


def _united(snapshots: Sequence[Snapshot], key: str) -> list[object]:
    """The elements of JSON lists in a property of some snapshots, each once, in order."""
    united: dict[str, object] = {}
    for snapshot in snapshots:
        try:
            elements = list(json.loads((snapshot.properties or {}).get(key, "[]")))
        except (ValueError, TypeError, RecursionError) as error:
            raise snapshot.unreadable(key, error) from None
        united |= {json.dumps(element): element for element in elements if json.dumps(element) not in united}
    return list(united.values())
