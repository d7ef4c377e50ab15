"""Time travel: from what a reader asked for to one snapshot.

A version is None (the latest), a snapshot id, the name of a tag, `branch.tag`, `branch.3`, `watermark-<n>` (the earliest
snapshot with that watermark or a later one), a point in time (the latest snapshot at or before it; where those have
expired, the latest such tag), or a snapshot that somebody holds.
"""

import datetime as dt
import logging
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from ..errors import CorruptData, InvalidRequest, MainReplaced, NotFound
from ..identifier import MAIN_BRANCH, Identifier, check_branch_name, whole_number
from ..metadata.history import stands_at, told_of_expiry
from ..metadata.main_branch import find_main
from ..metadata.schema import TableSchema
from ..metadata.snapshot import Snapshot
from ..metadata.table_store import TableStore
from ..metadata.tag import TAG_BRANCH_KEY, Tag
from ..paths import TablePaths

_log = logging.getLogger(__name__)
_WATERMARK = re.compile(r"watermark-(\d+)")


@dataclass(frozen=True)
class Pinned:
    """A snapshot and the schema to read it with: what a version was at some moment, whatever happens later. None: it had no
    snapshot, and stays empty. `lowest_level`: with the rows of this level and above; None: with those that readers see.
    """

    snapshot: Snapshot | None
    schema: TableSchema
    lowest_level: int | None = None


class TagName(str):
    """A version that is the name of a tag, or `branch.tag`: it is no snapshot and no watermark, whatever it looks like."""

    __slots__ = ()


Version = int | str | dt.datetime | Snapshot | Pinned | None


VERSION_OPTIONS = (
    "scan.snapshot-id",
    "scan.tag-name",
    "scan.timestamp-millis",
    "scan.timestamp",
    "scan.watermark",
    "scan.version",
)
BRANCH_OPTIONS = ("scan.branch", "branch")


def version_of_options(options: Mapping[str, str]) -> Version:
    """The version that options of a read ask for, None for the latest.

    Raises InvalidRequest for values that make no sense, and if several versions are asked for.
    """
    asked = [_of_option(key, options[key]) for key in VERSION_OPTIONS if key in options]
    if len(asked) > 1:
        given = ", ".join(repr(key) for key in VERSION_OPTIONS if key in options)
        raise InvalidRequest(f"Options {given} ask for several versions: say one.")
    return asked[0] if asked else None


def _of_option(key: str, value: str) -> Version:
    if key in ("scan.snapshot-id", "scan.timestamp-millis", "scan.watermark"):
        number = whole_number(value.strip())
        if number is None:
            raise InvalidRequest(f"Option {key!r} = {value!r} is not a whole number.")
        if key == "scan.timestamp-millis":
            return moment_of(value.strip())
        return number if key == "scan.snapshot-id" else f"watermark-{number}"
    if key == "scan.tag-name":
        return TagName(value)
    return moment_of(value) if key == "scan.timestamp" else value


def moment_of(text: str) -> dt.datetime:
    """A point in time from text: ISO 8601, or milliseconds since 1970. Raises InvalidRequest."""
    number = whole_number(text)
    try:
        return dt.datetime.fromisoformat(text) if number is None else dt.datetime.fromtimestamp(number / 1000)
    except (ValueError, OverflowError, OSError):
        raise InvalidRequest(f"{text!r} is no date and time, such as 2024-05-01 12:30.") from None


def resolve_version(store: TableStore, version: Version) -> tuple[TableStore, Snapshot | None]:
    """The branch that is meant, under the schema to read it with, and the snapshot; None if nothing was ever written.

    The latest state is read with the latest schema; an older one with its own, under the latest options.
    Raises NotFound, listing what exists, for versions that do not; and for a table that was dropped, renamed or made anew
    since it was opened.
    """
    if isinstance(version, Pinned):
        # Its files have names that are given once: they can be read as long as they are kept, also of a main that was replaced.
        with suppress(MainReplaced):
            store.refuse_other_table()
        return find_version(store, version)
    with store.of_same_table():
        return find_version(store, version)


def find_version(store: TableStore, version: Version) -> tuple[TableStore, Snapshot | None]:
    """As `resolve_version`, for callers that read more of the table and look then whether it is still the same
    (`TableStore.of_same_table`).
    """
    if version is None:
        return store, store.newest()
    if isinstance(version, Pinned):
        return store.at_schema(version.schema), version.snapshot
    if isinstance(version, Snapshot):
        return store.at_schema(_schema_of(store, version)), version
    if isinstance(version, bool) or not isinstance(version, int | str | dt.datetime):
        raise InvalidRequest(f"{version!r} is no version: give a snapshot id, the name of a tag, or a datetime.")
    # A main that was replaced meanwhile has no tags, snapshots and schemas any more.
    with told_of_expiry(store):
        if isinstance(version, str):
            store, version = _split_branch(store, version)
            if version is None:
                return store, store.newest()
        snapshot = _find(store, version)
        return store.at_schema(_schema_of(store, snapshot)), snapshot


def named_version(store: TableStore, version: Version) -> tuple[Snapshot | None, Tag | None]:
    """The snapshot of a version of a branch, and the tag if the version is the name of one.

    Raises NotFound, and InvalidRequest for a version of another branch.
    """
    with store.of_same_table():
        return _named(store, version)


def _named(store: TableStore, version: Version) -> tuple[Snapshot | None, Tag | None]:
    resolved, snapshot = find_version(store, version)
    if resolved.identifier != store.identifier:
        raise InvalidRequest(
            f"{version!r} is a version of branch {resolved.identifier.branch!r}, not of {store.identifier}: open that branch."
        )
    tag = store.tags.find(version) if isinstance(version, str) else None
    return snapshot, tag if tag is not None and tag.snapshot == snapshot else None


def version_in_history(store: TableStore, version: Version) -> Snapshot | None:
    """The snapshot of a version, if its number stands for it in the branch's history: what came before and after it is told
    by numbers. Raises InvalidRequest for one of another branch, also if a tag of this one names it.

    The caller looks afterwards whether the table is still the same (`TableStore.of_same_table`).
    """
    snapshot, _ = _named(store, version)
    if snapshot is not None and not stands_at(store, snapshot.id, snapshot.identity):
        origin = snapshot.others.get(TAG_BRANCH_KEY)
        of = "" if origin is None else f", but of branch {origin!r}"
        raise InvalidRequest(
            f"{version!r} is a snapshot {snapshot.id} that is not in the history of {store.identifier}{of}: what changed since "
            f"cannot be told. {store.snapshots.describe_existing()} Ask between two of these, or compare the rows of both."
        )
    return snapshot


def versions_in_history(store: TableStore, after: Version, until: Version) -> tuple[int, Snapshot | None]:
    """The numbers of two versions of the branch's history, the second with its snapshot; 0 for the beginning of the
    history, None where there is none. What comes after a snapshot can be told as long as the next one is there.
    """
    last = version_in_history(store, until)
    number = whole_number(after) if isinstance(after, str) else after
    if isinstance(number, int) and number > 0 and last is not None and number < last.id:
        following = store.snapshots.find(number + 1)
        if following is not None and store.snapshots.is_in_history(following):
            return number, last
    first = None if after is None else version_in_history(store, after)
    return first.id if first else 0, last


def _split_branch(store: TableStore, version: str) -> tuple[TableStore, int | str | None]:
    branch, dot, rest = version.partition(".")
    if dot and store.tags.find(version) is None and (branch == MAIN_BRANCH or _is_branch(branch)):
        store = on_branch(store, branch)
        version = type(version)(rest)
    if isinstance(version, TagName):
        return store, version
    number = whole_number(version)
    return store, version if number is None else number


def _is_branch(name: str) -> bool:
    try:
        return bool(check_branch_name(name))
    except InvalidRequest:
        return False


def on_branch(store: TableStore, branch: str) -> TableStore:
    """The same table on another branch. Raises NotFound that lists the branches."""
    if branch == store.identifier.branch:
        return store
    identifier = Identifier(store.identifier.database, store.identifier.table, branch)
    try:
        if branch != MAIN_BRANCH and not _is_complete(store, branch):
            raise NotFound(f"Branch {branch!r} has no first schema.")
        return TableStore(store.file_io, store.paths.root, identifier, clock=store.clock)
    except NotFound:
        existing = ", ".join(branch_names(store)) or "none but main"
        raise NotFound(
            f"Branch {branch!r} does not exist on {store.identifier.full_name}. Existing branches: {existing}."
        ) from None


def all_branches(store: TableStore) -> list[TableStore]:
    """Main, then every other branch; without those that are deleted meanwhile."""
    main = on_branch(store, MAIN_BRANCH)
    branches = [main]
    for name in branch_names(main):
        try:
            branches.append(on_branch(main, name))
        except (NotFound, CorruptData):
            if _is_complete(main, name):
                raise
    return branches


def readable_branches(store: TableStore) -> list[TableStore]:
    """As `all_branches`, without those of which nothing can be read; a warning names them."""
    branches = []
    for name in [MAIN_BRANCH, *branch_names(store)]:
        try:
            branches.append(on_branch(store, name))
        except NotFound:
            continue
        except CorruptData as error:
            _log.warning("A branch of %s is passed by: %s", store.identifier.full_name, error)
    return branches


def branch_names(store: TableStore) -> list[str]:
    """All branches but main."""
    directories = store.file_io.list_directories(store.paths.branch_directory)
    names = (name.removeprefix("branch-") for name in directories if name.startswith("branch-"))
    main = find_main(store.file_io, store.paths.root).branch
    return sorted(name for name in names if name != main and _is_complete(store, name))


def _is_complete(store: TableStore, branch: str) -> bool:
    """Whether a branch exists: its first schema is written last and deleted first."""
    return store.file_io.exists(TablePaths(store.paths.root, branch).schema(0))


def _find(store: TableStore, version: int | str | dt.datetime) -> Snapshot:
    if isinstance(version, dt.datetime):
        return _at_time(store, version)
    if isinstance(version, str):
        mark = None if isinstance(version, TagName) else _WATERMARK.fullmatch(version)
        if mark and store.tags.find(version) is None:
            return _at_watermark(store, int(mark[1]))
        return store.tags.get(version).snapshot
    snapshot = store.snapshots.find(version)
    if snapshot is not None and store.snapshots.is_in_history(snapshot):
        return snapshot
    for tag in store.tags.all():
        # What a tag keeps of another branch is asked for by the tag's name: its number means something else here.
        if tag.snapshot.id == version and tag.is_of_its_branch:
            return tag.snapshot.without_others()
    tags = ", ".join(f"{tag.name} ({tag.snapshot.id})" for tag in store.tags.all()) or "none"
    raise NotFound(
        f"Snapshot {version} of {store.identifier} does not exist. {store.snapshots.describe_existing(version)} Tags: {tags}."
    )


def _at_watermark(store: TableStore, mark: int) -> Snapshot:
    """The earliest snapshot whose watermark has reached a mark."""
    snapshot = store.snapshots.first_with_watermark(mark)
    if snapshot is not None:
        return snapshot
    latest = store.snapshots.latest()
    raise NotFound(
        f"{store.identifier} has no snapshot with watermark {mark} or later. The latest watermark is "
        f"{latest.watermark if latest and latest.watermark is not None else 'none'}."
    )


def _at_time(store: TableStore, moment: dt.datetime) -> Snapshot:
    """Naive datetimes are local time."""
    time_ms = _milliseconds(moment)
    nearest = store.snapshots.at_or_before(time_ms)
    if nearest is not None:
        return nearest
    tagged = [tag.snapshot for tag in store.tags.all() if tag.is_of_its_branch and tag.snapshot.time_ms <= time_ms]
    if tagged:
        return max(tagged, key=lambda snapshot: snapshot.time_ms).without_others()
    known = (store.snapshots.find(snapshot_id) for snapshot_id in store.snapshots.ids())
    earliest = next((snapshot for snapshot in known if snapshot is not None), None)
    since = "" if earliest is None else f" The earliest, {earliest.id}, is from {_local(earliest.time_ms)}."
    raise NotFound(f"{store.identifier} has no snapshot or tag at or before {moment.isoformat()}.{since}")


def _milliseconds(moment: dt.datetime) -> int:
    """Milliseconds since 1970."""
    try:
        return int(moment.timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        # The first and the last days of the calendar, where adding the time zone would leave it.
        return (moment.replace(tzinfo=None) - dt.datetime(1970, 1, 1)) // dt.timedelta(milliseconds=1)


def _local(time_ms: int) -> str:
    return dt.datetime.fromtimestamp(time_ms / 1000).isoformat(sep=" ", timespec="milliseconds")


def _schema_of(store: TableStore, snapshot: Snapshot) -> TableSchema:
    return replace(store.schemas.get(snapshot.schema_id), options=store.schema.options)
