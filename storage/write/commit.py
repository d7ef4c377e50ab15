"""Make a change visible: manifests first, then the snapshot file, whose creation is the commit.

What always holds: a reader sees the table before or after a commit, never between; a commit that names its user and
identifier lands once, however often it is tried; what an attempt wrote in vain is deleted. Follows `docs/format.md`,
"Commit protocol".
"""

from collections.abc import Mapping, Sequence
from functools import partial

from .. import metrics
from ..arguments import checked
from ..errors import (
    CommitConflict,
    CommitOutcomeUnknown,
    CorruptData,
    InvalidRequest,
    NotFound,
    StorageError,
    StoreUnavailable,
    TakenBack,
)
from ..iceberg.publish import publish_after
from ..log.publish import send_after
from ..metadata.change_tracking import untracked_property
from ..metadata.live_files import live_files
from ..metadata.manifest import ManifestEntry
from ..metadata.snapshot import (
    ANALYZE,
    COMPACT,
    Snapshot,
)
from ..metadata.table_store import TableStore
from ..metadata.way_back import told_of_way_back
from ..store_errors import outcome
from .attempt import Attempt, Change, Guard, Held
from .close import refuse_closed
from .commit_id import CommitId
from .commit_metrics import measured_commit
from .find_commit import find_commit
from .key_index import KeyIndex
from .landing import create_on_top, take_away_foreign
from .lift import lift_to_top
from .listeners import CommitListener, tell_of_commit
from .overwrite import Overwrite
from .own_properties import refuse_own_properties
from .renumber import NumberedFiles
from .table_write import CommitMessage
from .vectors import GivenVector


@checked
class TableCommit:
    """Commits changes to one branch of a table."""

    def __init__(self, store: TableStore, commit_id: CommitId, listeners: Sequence[CommitListener] = ()) -> None:
        self._store = store
        self._id = commit_id
        self._listeners = listeners

    @outcome("Nothing was committed by this call. Mend the store, then repeat it.", landed=False)
    def commit(
        self,
        messages: Sequence[CommitMessage],
        *,
        overwrite: Overwrite | None = None,
        deleted: Sequence[ManifestEntry] = (),
        kind: str | None = None,
        operation: str | None = None,
        properties: Mapping[str, str] | None = None,
        watermark: int | None = None,
        change_tracking: bool = True,
        guard: Guard | None = None,
        adds_again: bool = False,
        back_to: Snapshot | int = 0,
        held: Held | None = None,
        own_properties: Mapping[str, str] | None = None,
        even_empty: bool = False,
        statistics: str | None = None,
        vectors: Sequence[GivenVector] = (),
    ) -> Snapshot | None:
        """Commit added files, and what they replace. Returns the snapshot, an earlier one if this id landed before,
        or None if there is nothing to commit, unless `even_empty`. If the earlier one has expired, the earliest snapshot that
        there is.

        `guard` is asked again before each try, with the newest snapshot as that try finds it, and raises if the change must
        not be put on top of it. `adds_again`: files may be added that the table has had before, those that are in the paths
        of no message; `back_to`: see `keep_brought_back`; `held` says, once the snapshot is there, whether they have been kept
        until then. `own_properties`: those by which the store knows what the commit was. `statistics`: the file of the table's
        statistics, of kind ANALYZE. `vectors`: the deletion vectors that files get which have been in the table before.

        Raises InvalidRequest if own properties are among `properties`, CommitConflict if another commit made this one
        impossible (its files are deleted), and CommitOutcomeUnknown if the store gave no answer. Raises StoreUnavailable if it
        failed before: then nothing is committed, and the files of the messages are kept for another try.
        """
        refuse_own_properties(properties)
        overwrite, added = self._settled(overwrite, messages)
        untracked = self._untracked([*added, *deleted], kind, tracked=change_tracking)
        said = {**(properties or {}), **(own_properties or {}), **untracked}
        changelog = [entry for message in messages for entry in message.changelog]
        change = Change(
            messages,
            added,
            list(deleted),
            changelog,
            overwrite,
            kind,
            operation,
            said,
            watermark,
            guard,
            NumberedFiles(self._store, messages if overwrite is None else (), added, changelog),
            adds_again,
            even_empty,
            held,
            statistics,
            self._key_index(messages, added, changelog, overwrite, kind, adds_again=adds_again),
            vectors,
            back_to,
        )
        return self._carry_out(change)

    def _carry_out(self, change: Change) -> Snapshot | None:
        """Commit a change, and tell who follows it; the files that its writers have written go unless they are committed, or may
        be.
        """
        try:
            snapshot, is_own = measured_commit(self._store, change, self._commit)
        except (CommitOutcomeUnknown, StoreUnavailable, TakenBack):
            # What has landed may be held by others: its files are left to orphan cleaning.
            raise
        except StorageError:
            self._store.file_io.delete_quietly(change.paths)
            change.numbers.drop()
            change.index.drop()
            raise
        if snapshot is not None and is_own:
            publish_after(self._store, snapshot.id)
            send_after(self._store, snapshot.id)
            self.notify(snapshot)
        elif snapshot is not None:
            self._forget([*change.paths, *change.numbers.written, *change.index.written], snapshot)
        return snapshot

    def _key_index(
        self,
        messages: Sequence[CommitMessage],
        added: list[ManifestEntry],
        changelog: list[ManifestEntry],
        overwrite: Overwrite | None,
        kind: str | None,
        *,
        adds_again: bool,
    ) -> KeyIndex:
        covers = None if overwrite is None else partial(overwrite.covers, self._store)
        return KeyIndex(self._store, messages, added, changelog, covers=covers, kind=kind, adds_again=adds_again)

    def _settled(
        self, overwrite: Overwrite | None, messages: Sequence[CommitMessage]
    ) -> tuple[Overwrite | None, list[ManifestEntry]]:
        """The files that writers have written, on the level where they will stand, and the overwrite, if it is one, settled on
        their partitions.
        """
        added = [entry for message in messages for entry in message.added]
        if overwrite is None:
            return None, added
        overwrite = overwrite.settled(frozenset(entry.partition for entry in added))
        self._check_covered(added, overwrite, messages)
        if self._store.schema.primary_keys:
            added = lift_to_top(added, self._store.key_types, self._store.options.top_level)
        return overwrite, added

    def _untracked(self, changed: Sequence[ManifestEntry], kind: str | None, *, tracked: bool) -> dict[str, str]:
        """The property by which readers of changes pass a commit by that changes rows in such files."""
        if kind in (COMPACT, ANALYZE):
            return {}
        return untracked_property(self._store, {entry.partition for entry in changed}, tracked=tracked)

    def _check_covered(
        self, added: Sequence[ManifestEntry], overwrite: Overwrite, messages: Sequence[CommitMessage]
    ) -> None:
        for entry in added:
            if not overwrite.covers(self._store, entry.partition):
                self._store.file_io.delete_quietly([path for message in messages for path in message.paths])
                store = self._store
                shown = store.shown_partition(entry.partition)
                replaced = ", ".join(map(store.partition_text, overwrite.matching or ()))
                raise InvalidRequest(
                    f"The rows hold some of partition {shown}, which this overwrite of {store.identifier} does not replace "
                    f"({replaced}). Filter the rows, or overwrite those partitions too."
                )

    def find_committed(self, latest: Snapshot | None = None) -> Snapshot | None:
        """The snapshot that this user and identifier made, if they did, up to `latest` or by now. If it has expired, the
        earliest that there is, which holds what they committed and is somebody else's: `CommitId.made` tells.
        """
        committed = find_commit(self._store, self._id, latest)
        # What a writer of a table that was dropped has left here is no commit of this one.
        return find_commit(self._store, self._id) if take_away_foreign(self._store, committed) else committed

    def find_earlier(self, latest: Snapshot | None = None) -> Snapshot | None:
        """As `find_committed`, before committing: an id that is new has made none, and the history is not looked at."""
        return None if self._id.is_new else self.find_committed(latest)

    def _forget(self, paths: Sequence[str], earlier: Snapshot) -> None:
        """Delete the files of a repeated commit, unless they are the very files that were committed."""
        if not self._id.made(earlier):
            # What that commit added cannot be looked up any more.
            return
        manifests = self._store.manifests
        lists = [earlier.delta_manifest_list, earlier.changelog_manifest_list]
        kept = {
            entry.file.name
            for name in lists
            if name is not None
            for manifest in manifests.read_list(name)
            for entry in manifests.read(manifest.name)
        }
        self._store.file_io.delete_quietly([path for path in paths if path.rsplit("/", 1)[-1] not in kept])

    def notify(self, snapshot: Snapshot) -> None:
        """Tell every listener of a commit, which stands whatever they raise."""
        tell_of_commit(self._store, self._listeners, snapshot)

    def _commit(self, change: Change) -> tuple[Snapshot | None, bool]:
        """The snapshot, and whether this call made it; an earlier one of the same id is not."""
        deadline = self._store.clock.now_ms() + self._store.options.commit_timeout_ms
        lost_races = 0
        missed = ""
        while True:
            latest = self._store.snapshots.latest()
            self._store.refuse_other_table()
            # Only now: another process may commit under the same id until the newest snapshot is known.
            earlier = self.find_earlier(latest)
            if earlier is not None:
                return earlier, False
            refuse_closed(self._store, latest)
            made = Attempt(self._store, self._id, change, latest)
            try:
                snapshot = made.prepare()
                if snapshot is not None:
                    made.refuse_lost_files()
            except NotFound as error:
                made.clean_up()
                if latest is not None and self._store.snapshots.find(latest.id) is None:
                    # It has expired while this was put on it: there is a newer one.
                    continue
                if str(error) != missed:
                    # Or one before it, which this looked back at: the next try does not see it any more.
                    missed = str(error)
                    continue
                if take_away_foreign(self._store, latest):
                    continue
                self._refuse_unreadable(latest)
                raise
            except CorruptData:
                made.clean_up()
                with told_of_way_back(self._store, latest):
                    raise
            except BaseException:
                made.clean_up()
                raise
            if snapshot is None:
                return None, True
            try:
                landed = create_on_top(self._store, snapshot, latest, made.files())
            except CommitOutcomeUnknown:
                raise
            except StorageError:
                # Whatever else ends it here may end it after the snapshot was created: its files stay.
                made.clean_up()
                raise
            if landed:
                change.numbers.keep()
                change.index.keep()
                made.take_back_if_lost(snapshot)
                return snapshot, True
            made.clean_up()
            lost_races += 1
            metrics.take(metrics.COMMIT_RETRIES, 1, table=str(self._store.identifier))
            self._wait_for_next_try(change, made, lost_races, deadline)

    def _wait_for_next_try(self, change: Change, made: Attempt, lost_races: int, deadline_ms: int) -> None:
        """Wait after a race that another writer has won. Raises CommitConflict if it was the last try."""
        options = self._store.options
        is_append = change.overwrite is None and not change.deleted and not change.marked
        now_ms = self._store.clock.now_ms()
        if now_ms > deadline_ms or (lost_races > options.commit_max_retries and not is_append):
            raise CommitConflict(
                f"{self._store.identifier}: the commit lost {lost_races} races against other writers. "
                "Try again, or raise 'commit.max-retries' and 'commit.timeout'."
            )
        # Where a try takes long, as on object stores, so does that of each other writer.
        shortest = max(options.commit_min_retry_wait_ms, (now_ms - made.begun_ms) / 2)
        longest = min(options.commit_max_retry_wait_ms, shortest * 2 ** min(lost_races, 5))
        self._store.clock.sleep_up_to_ms(longest)

    def _refuse_unreadable(self, latest: Snapshot | None) -> None:
        """Raise NotFound that says what to do if the newest snapshot cannot be read."""
        try:
            if latest is not None:
                live_files(self._store.manifests_of(latest), self._store.manifests)
        except NotFound as error:
            self._store.refuse_other_table()
            raise NotFound(
                f"{error} Snapshot {latest.id if latest else 0} of {self._store.identifier}, the newest, cannot be read, so that "
                "nothing can be put on top of it. It may be of a writer that slept for days and died; roll back to the one "
                "before it."
            ) from None
