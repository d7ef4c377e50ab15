"""Expire snapshots: old ones go, and with them the files that no other snapshot, tag or branch needs.

What always holds: a snapshot that can be seen can be read. So the snapshot goes first, its files after it; a crash in
between leaves files that nobody needs, which `orphan_files` finds. Follows `docs/format.md`, "Expiry".
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from ..errors import CommitConflict, CorruptData, InvalidRequest, NotFound
from ..iceberg.publish import publish_after
from ..identifier import MAIN_BRANCH
from ..journal import Journal
from ..log.publish import LOG_CONSUMER
from ..log_options import has_log
from ..metadata.snapshot import Snapshot, standing
from ..metadata.table_store import TableStore
from ..metadata.tag import Tag
from ..options import TableOptions
from ..progress import progress_of_each
from ..read.changes import reads_before
from ..write.taken_over import ids_of
from .age import NEAR_MS, believed_until, now_of_ages
from .brought_back import tags_in_vain
from .left_over import delete_left_over
from .lost_files import refuse_lost
from .references import Holder, ReferenceReader, changelog_files_of, files_of, last_needed, needed_files

_TRIES = 10


@dataclass(frozen=True, slots=True)
class Retention:
    """What stays: at least so many of the latest, at most so many, and all that are not older than an age.

    `successor_tells`: a snapshot is as old as the one after it, which has been the state of the table since. `limit`: how
    many go at once.
    """

    at_least: int
    at_most: int | None = None
    age_ms: int | None = None
    successor_tells: bool = False
    limit: int | None = None

    def expired(self, snapshots: Sequence[Snapshot], now_ms: int, believed_ms: int | None = None) -> list[Snapshot]:
        """Those of some snapshots, in order, that go: the oldest. `believed_ms`: up to when their times are believed, see
        `believed_until`.
        """
        most = max(0, len(snapshots) - self.at_least)
        if self.limit is not None:
            most = min(most, self.limit)
        times = _believable_times(snapshots, now_ms, now_ms + NEAR_MS if believed_ms is None else believed_ms)
        count = min(most, 0 if self.at_most is None else max(0, len(snapshots) - self.at_most))
        offset = int(self.successor_tells)
        while count < most and (self.age_ms is None or times[count + offset] < now_ms - self.age_ms):
            count += 1
        return list(snapshots[:count])

    def lets_go_by_age(self, snapshots: Sequence[Snapshot], expired: Sequence[Snapshot]) -> bool:
        """Whether some of those that go are not beyond the number of those that stay, so that a clock has judged them."""
        beyond = 0 if self.at_most is None else max(0, len(snapshots) - self.at_most)
        return self.age_ms is not None and len(expired) > beyond

    def keeps_all(self, count: int, oldest: Sequence[Snapshot], now_ms: int) -> bool:
        """Whether none of so many snapshots goes, as far as the oldest of them tell: if it cannot be told, not."""
        times = [snapshot.time_ms for snapshot in oldest[: 1 + int(self.successor_tells)]]
        if count <= self.at_least:
            return True
        if self.age_ms is None or (self.at_most is not None and count > self.at_most) or not times:
            return False
        return now_ms - self.age_ms <= max(times) <= now_ms


def _believable_times(snapshots: Sequence[Snapshot], now_ms: int, believed_ms: int) -> list[int]:
    """The times of snapshots, in order, by which their age is told, whatever clocks of writers did.

    One from the future, later than what is believed, is as old as the one after it, the last of them as now: it keeps nothing
    for years. And none is older than one before it: a clock far back lets nothing go early.
    """
    times: list[int] = []
    later_ms = now_ms
    for snapshot in reversed(snapshots):
        later_ms = snapshot.time_ms if snapshot.time_ms <= believed_ms else later_ms
        times.append(later_ms)
    return list(accumulate(reversed(times), max))


@dataclass(frozen=True, slots=True)
class Removal:
    """Snapshots that went (or would go), and the files that went with them, each with the last snapshot that needed it."""

    snapshot_ids: tuple[int, ...]
    files: tuple[str, ...]
    last_needed_by: tuple[int, ...] = ()


def retention_of(options: TableOptions) -> Retention:
    """What a table's options `snapshot.*` keep. Raises InvalidRequest for options that make no sense."""
    at_least, at_most = options.snapshot_num_retained_min, options.snapshot_num_retained_max
    if at_least < 1 or (at_most is not None and at_most < at_least):
        raise InvalidRequest(
            f"Options 'snapshot.num-retained.min' = {at_least} and 'snapshot.num-retained.max' = {at_most}: the first is 1 "
            "at the least, the second not below it."
        )
    return Retention(at_least, at_most, options.snapshot_time_retained_ms, True, options.snapshot_expire_limit)


def _changelog_retention(options: TableOptions) -> Retention | None:
    """How long changelogs are kept; None if they go with their snapshots."""
    at_least, at_most = options.changelog_num_retained_min, options.changelog_num_retained_max
    if (at_least, at_most, options.changelog_time_retained_ms) == (None, None, None):
        return None
    snapshots = retention_of(options)
    age_ms = options.changelog_time_retained_ms
    return Retention(
        snapshots.at_least if at_least is None else at_least,
        snapshots.at_most if at_most is None else at_most,
        snapshots.age_ms if age_ms is None else age_ms,
        True,
    )


def expire_snapshots(store: TableStore, retention: Retention, *, dry_run: bool = False) -> Removal:
    """Expire what a retention does not keep. Tags and branches keep what they need, consumers what they have not read, a
    publication that is open what came after it began, the options `changelog.*` the changelogs. `dry_run` removes nothing.
    Files of snapshots whose manifests are damaged or lost stay for `orphan_files`; if the newest cannot be read, nothing
    expires. Raises InvalidRequest unless one snapshot stays.
    """
    if retention.at_least < 1:
        raise InvalidRequest(
            f"retain_last = {retention.at_least}: at least the latest snapshot stays. Drop the table to empty it."
        )
    if _keeps_all(store, retention):
        store.refuse_other_table()
        return Removal((), ())
    for tries_left in reversed(range(_TRIES)):
        history = list(store.snapshots.all())
        # Asked once all is read, so that it is the history of one table.
        store.refuse_other_table()
        try:
            removal = _expire(store, retention, history, dry_run=dry_run)
            if removal is not None:
                if removal.snapshot_ids and not dry_run:
                    publish_after(store, history[-1].id)
                return removal
        except NotFound:
            # Somebody else lets the same snapshots expire.
            if not tries_left or list(store.snapshots.all())[:1] == history[:1]:
                raise
        except FileNotFoundError:
            # The directory has gone with the table.
            store.refuse_other_table()
            raise
    raise CommitConflict(
        f"Publications of {store.identifier} begin too fast to tell which snapshots may expire. Try again."
    )


def _keeps_all(store: TableStore, retention: Retention) -> bool:
    """Whether nothing is to expire, as far as the two oldest snapshots tell: after most commits it is so."""
    if _changelog_retention(store.options) is not None:
        return False
    if len(store.snapshots.listed_ids()) <= retention.at_least:
        return True
    ids, oldest = store.snapshots.beginning()
    return retention.keeps_all(len(ids), oldest, store.clock.now_ms())


def _expire(store: TableStore, retention: Retention, history: Sequence[Snapshot], *, dry_run: bool) -> Removal | None:
    """Once; None, nothing having been deleted, if a publication of the table was begun meanwhile."""
    changelogs = _changelog_retention(store.options)
    expired, clocks = _due(store, retention, history, asks=changelogs is not None)
    if expired and not dry_run:
        # Said before the consumers are looked at: a new one is written first and then looks here.
        store.consumers.announce_expiry(expired[-1].id + 1)
    unread = _unread_from(store)
    published = _published_from(store) if expired else None
    to_read = None if unread is None else _needed_to_read(store, unread, history)
    first_kept = min((number for number in (published, to_read) if number is not None), default=None)
    expired = [snapshot for snapshot in expired if first_kept is None or snapshot.id < first_kept]
    ids = tuple(snapshot.id for snapshot in expired)
    # Shared, so that each manifest is read once, whoever needs it.
    reader = ReferenceReader()
    if ids and not dry_run:
        refuse_lost(store, history[-1], reader)
    with_files = [snapshot for snapshot in standing(history) if snapshot.id in ids]
    if changelogs is not None and not dry_run:
        _keep_changelogs(store, with_files)
    lost: CorruptData | NotFound | None = None
    candidates: dict[str, int] = {}
    try:
        candidates = last_needed(store, expired, reader)
    except (CorruptData, NotFound) as error:
        if isinstance(error, NotFound) and store.snapshots.find(expired[0].id) != expired[0]:
            # Somebody else lets it expire.
            raise
        lost = error
    if dry_run and lost is not None:
        return _removal(ids, {}, ())
    earliest_left = next((snapshot for snapshot in history if snapshot.id not in ids), None)
    in_vain = list(tags_in_vain(store, earliest_left, reader))
    for tag in in_vain:
        candidates = {**dict.fromkeys(files_of(store, tag.snapshot), tag.snapshot.id), **candidates}
    if dry_run:
        kept = _kept_files(store, ids, in_vain, candidates, reader)
        if changelogs is not None:
            kept |= changelog_files_of(store, expired)
        return _removal(ids, candidates, candidates.keys() - kept)
    if ids:
        _raise_hints(store, latest_id=history[-1].id, earliest_id=ids[-1] + 1)
        store.committed.remember(ids_of(with_files))
        if _published_from(store) not in (None, published):
            return None
    for snapshot in progress_of_each(expired, str(store.identifier), "snapshots expired"):
        # In ascending order, and only what was judged: `docs/protocols.md`.
        store.snapshots.delete_if(snapshot)
    if changelogs is not None:
        files, damage = _expire_changelogs(store, _expired_changelogs(store, changelogs, clocks, unread), reader)
        candidates, lost = {**files, **candidates}, damage or lost
    for tag in in_vain:
        store.tags.delete_if(tag)
    # Asked only now: a tag may have been made of one of them until it was gone.
    gone_files = delete_left_over(store, lost or candidates, "What needed it has expired", reader)
    return _removal(ids, candidates, gone_files)


def _due(
    store: TableStore, retention: Retention, history: Sequence[Snapshot], *, asks: bool
) -> tuple[list[Snapshot], tuple[int, int]]:
    """The snapshots that a retention does not keep, with the time that it is, and that up to which times are believed. `asks`:
    whether the clock is asked in any case, and not only where an age decides.
    """
    now_ms = store.clock.now_ms()
    expired = retention.expired(history, now_ms)
    if not asks and not (expired and retention.lets_go_by_age(history, expired)):
        return expired, (now_ms, now_ms + NEAR_MS)
    now_ms = now_of_ages(store)
    clocks = now_ms, believed_until(store, now_ms, max((snapshot.time_ms for snapshot in history), default=0))
    return retention.expired(history, *clocks), clocks


def _keep_changelogs(store: TableStore, snapshots: Iterable[Snapshot]) -> None:
    """Keep the changelogs of snapshots that are about to go."""
    for snapshot in snapshots:
        if store.changelogs.keep(snapshot) and store.snapshots.find(snapshot.id) is None:
            # Somebody else was first, and may have let the changelog expire as well.
            store.changelogs.delete_if(snapshot)


def _expired_changelogs(
    store: TableStore, retention: Retention, clocks: tuple[int, int], unread: int | None
) -> list[Snapshot]:
    """The changelogs that go of those that were kept, by the time that it is and that up to which times are believed; none that a
    consumer has not read.
    """
    old = retention.expired([*store.changelogs.all(), *store.snapshots.all()], *clocks)
    kept_ids = set(store.changelogs.ids())
    return [snapshot for snapshot in old if snapshot.id in kept_ids and (unread is None or snapshot.id < unread)]


def _expire_changelogs(
    store: TableStore, expired: Sequence[Snapshot], reader: ReferenceReader
) -> tuple[dict[str, int], CorruptData | NotFound | None]:
    """Delete changelogs that were kept; returns their files, each with its snapshot, or why these cannot be told."""
    files: dict[str, int] = {}
    damage: CorruptData | NotFound | None = None
    # Of a changelog that was kept nothing else is there any more.
    try:
        files = {path: snapshot.id for snapshot in expired for path in reader.changelog_files_of(store, snapshot)}
    except (CorruptData, NotFound) as error:
        damage = error
    for snapshot in expired:
        store.changelogs.delete_if(snapshot)
    store.changelogs.write_hints()
    return files, damage


def _kept_files(
    store: TableStore, ids: Iterable[int], tags: Iterable[Tag], candidates: dict[str, int], reader: ReferenceReader
) -> set[str]:
    """Those files that somebody needs once some snapshots and tags have gone."""
    gone = {Holder(store.identifier.branch, "snapshot", str(number)) for number in ids}
    gone |= {Holder(store.identifier.branch, "tag", tag.name) for tag in tags}
    return set(needed_files(store, gone, candidates, reader))


def _raise_hints(store: TableStore, *, latest_id: int, earliest_id: int) -> None:
    # The search for the newest begins at the hint, and must not begin below the history.
    store.snapshots.raise_hint("LATEST", latest_id)
    store.snapshots.raise_hint("EARLIEST", earliest_id)


def _removal(ids: tuple[int, ...], candidates: dict[str, int], gone: Iterable[str]) -> Removal:
    files = sorted(gone)
    return Removal(ids, tuple(files), tuple(candidates[path] for path in files))


def _published_from(store: TableStore) -> int | None:
    """The first snapshot that an open publication needs: what main was before its commit, since that may be undone, whatever
    becomes of the tag; and, on main and on the branch, what they did since they parted, by which it is judged.

    Looked for once the history is read: an entry is made before the commits.
    """
    name, branch = store.identifier.full_name, store.identifier.branch
    entries = Journal.of_table(store.file_io, store.paths.root).entries()
    parted = [
        entry.first_judged(name)
        for entry in entries.open
        if name in entry.before and branch in (MAIN_BRANCH, entry.branch)
    ]
    if branch != MAIN_BRANCH:
        return min(parted, default=None)
    begun = [*parted, *(entry.before[name] or 1 for entry in entries.open if name in entry.before)]
    # The tag names what the commit was put on, at the earliest.
    marked = [tag.snapshot.id for entry in entries.damaged if (tag := store.tags.find(entry.tag)) is not None]
    return min([*begun, *marked], default=None)


def _needed_to_read(store: TableStore, unread: int, history: Sequence[Snapshot]) -> int:
    """The first snapshot that is needed to read the changes from one on: that, or the one before."""
    snapshot = next((snapshot for snapshot in history if snapshot.id == unread), None)
    return unread if snapshot is None or not reads_before(store, snapshot) else unread - 1


def _unread_from(store: TableStore) -> int | None:
    """The first snapshot that a consumer has not read, unless it has not moved for too long."""
    lifetime_ms = store.options.consumer_expiration_ms
    if lifetime_ms is None:
        return store.consumers.kept_from()
    # When a consumer has moved is told by the file system's clock. The newest snapshot is as well, so that a clock that is
    # ahead of it here lets no consumer go.
    written = [
        file.modified_ms for file in store.file_io.list_files(store.paths.snapshot_directory) if file.modified_ms
    ]
    now_ms = store.clock.now_ms()
    # That of a log moves with commits alone, however long nobody commits.
    always = {LOG_CONSUMER} if has_log(store.schema.options) else set()
    return store.consumers.kept_from(min(now_ms, max(written, default=now_ms)) - lifetime_ms, always)
