"""Keep a table in good shape: compact, rescale, roll back, expire, clean and check it.

No row changes but by a rollback and where partitions are dropped.
"""

import datetime as dt
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from .altering import alter
from .basis import Basis, repeated
from .commits import CommitDetails, Commits
from .errors import CorruptData, InvalidRequest, NotFound
from .log.definition import refuse_rescale
from .maintain.beside_publication import beside
from .maintain.check import check_table
from .maintain.compact_in_tries import TRIES, compact_in_tries
from .maintain.compaction import Run
from .maintain.expire import Removal, Retention, expire_snapshots, retention_of
from .maintain.expire_partitions import expired_partitions, refuse_written_since
from .maintain.findings import BrokenInvariant
from .maintain.follow import tell_after
from .maintain.mark_done import mark_done
from .maintain.orphan_files import OrphanFile, has_file, remove_orphan_files
from .maintain.references import files_of, holders_of, needed_files
from .maintain.rescale import rescale_to
from .maintain.rollback import rollback_to
from .maintain.stand_in import Mended, mend_newest, mend_snapshots
from .metadata.history import at_latest, told_of_expiry
from .metadata.manifest import Place
from .metadata.schema_change import SetOptions
from .metadata.snapshot import FOLLOWS_PROPERTY, STAND_IN, Snapshot
from .metadata.table_store import TableStore
from .metadata.trouble import COMPACTION, EXPIRY, FILE_DELETION, RESCALING, Trouble
from .partitions import refuse_absent
from .read.version import Version, find_version, resolve_version
from .same_table import of_same_table
from .store_errors import outcome
from .table_handle import NOT_COMMITTED, NOTHING_CHANGED, PARTLY_DONE
from .table_reading import TableReading
from .write.attempt import Guard
from .write.landing import take_away_foreign
from .write.overwrite import Overwrite


class TableMaintenance(TableReading):
    """What keeps a branch small, sound and quick to read."""

    @outcome(NOT_COMMITTED, landed=False)
    def compact(
        self,
        *,
        full: bool = True,
        outdated: bool = False,
        partition: Mapping[str, Any] | None = None,
        run: Run | None = None,
    ) -> Snapshot | None:
        """Merge the files of every bucket (or of a partition's) so that reading is cheap; rows do not change.

        `full` merges everything into one sorted run, otherwise the triggers of the options decide. `outdated`: Parquet files
        of earlier builds, with decimals or fine timestamps in a form that Paimon's Java library does not read rightly, are
        written anew even if there is nothing to merge them with; the end of each file is looked at. `run` carries the work
        out elsewhere. If another commit takes away the files meanwhile, it is planned anew; raises CommitConflict after
        three tries. Returns the snapshot; None if there was nothing to do.
        """
        self._commits.check_writable()
        wanted = None
        if partition is not None:
            overwrite = Overwrite(matching=(self.partition_values(partition),))
            refuse_absent(self._store, self.scan(), overwrite, partition)

            def wanted(place: Place) -> bool:
                return overwrite.covers(self._store, place[0])

        trouble = self._store.troubles.content(COMPACTION) if partition is None else None
        snapshot = compact_in_tries(
            self._store,
            TRIES,
            full=full,
            outdated=outdated,
            wanted=wanted,
            listeners=self._listeners,
            run=run,
        )
        self._store.troubles.clear_if(COMPACTION, trouble)
        if snapshot is not None:
            self._commits.let_old_snapshots_go(snapshot)
        return snapshot

    @outcome(NOT_COMMITTED, landed=False)
    def rescale(self, bucket_count: int, *, partition: Mapping[str, Any] | None = None) -> Snapshot | None:
        """Change the number of buckets: rows are hashed anew, those of a partition or all. None if there are none.

        Partitions that are left out keep their buckets and can be read; writing to them waits until they are rescaled.
        Raises CommitConflict if somebody writes meanwhile; nothing is lost then, and it can be called again.
        """
        self._commits.check_writable()
        refuse_rescale(self.schema, str(self.identifier))
        if self._store.options.bucket < 1 or bucket_count < 1:
            raise InvalidRequest(
                f"{self.identifier} has {self._store.options.bucket} buckets and should get {bucket_count}: a positive "
                "number of buckets can become another one."
            )
        matching = None if partition is None else (self.partition_values(partition),)
        covered = Overwrite(matching=matching)
        if partition is not None:
            refuse_absent(self._store, self.scan(), covered, partition)

        def altered(store: TableStore, count: int) -> TableStore:
            return alter(store, (SetOptions({"bucket": count}),))

        store, (snapshot, written) = rescale_to(
            self._store,
            bucket_count,
            lambda encoded_partition: covered.covers(self._store, encoded_partition),
            self._listeners,
            altered,
        )
        store.troubles.clear(RESCALING)
        if snapshot is not None:
            Commits(store, self._listeners).follow_up(snapshot, written)
        return snapshot

    @outcome(PARTLY_DONE)
    def rollback_to(self, version: Version) -> Snapshot | None:
        """Make the rows of an earlier snapshot or tag the latest state again, by a commit on top; None if they are.

        What came in between stays in the history until it expires. A newest snapshot whose file cannot be read is kept aside
        and counts as the state before it, also beside a publication. Raises NotFound that lists the versions there are,
        CommitConflict if somebody commits meanwhile, or a publication of the table is open: nothing is done then.
        """
        self._commits.check_writable()
        self._store.refuse_other_table()
        with suppress(CorruptData):
            take_away_foreign(self._store, self._store.snapshots.latest())
        store, target = resolve_version(self._store, version)
        if target is None or store.identifier != self.identifier:
            raise InvalidRequest(f"{version!r} is no version of {self.identifier} to roll back to.")
        mended = mend_newest(self._store)
        is_stand_in = mended is not None and mended.snapshot.operation == STAND_IN
        if mended is not None and is_stand_in and mended.snapshot.properties == {FOLLOWS_PROPERTY: target.identity}:
            # It shows that very state.
            tell_after(self._store, mended.snapshot, self._listeners)
            return mended.snapshot
        made = rollback_to(self._store, target, guard=beside(self._store), listeners=self._listeners)
        if made is not None:
            self._commits.let_old_snapshots_go(made)
        return made

    @outcome(PARTLY_DONE)
    def mend_snapshots(self) -> list[Mended]:
        """Make up for the snapshots of the branch whose files cannot be read, in order; returns what became of each.

        The damaged files are kept aside, and `check` names them. Raises CorruptData if there is nothing to make up from.
        """
        self._commits.check_writable()
        self._store.refuse_other_table()
        return mend_snapshots(self._store)

    @outcome(PARTLY_DONE)
    def expire(
        self, *, retain_last: int | None = None, older_than: dt.timedelta | None = None, dry_run: bool = False
    ) -> Removal:
        """Let old snapshots go, all but the last few, and the files that no snapshot, tag or branch needs any more.

        `older_than`: only those of at least this age. With neither, the table's options `snapshot.*` say what stays.
        `dry_run` says what would go.
        """
        self._commits.check_writable()
        if retain_last is None and older_than is not None:
            raise InvalidRequest("Say how many snapshots stay whatever their age: retain_last.")
        if retain_last is None:
            retention = retention_of(self._store.options)
        else:
            age_ms = None if older_than is None else older_than // dt.timedelta(milliseconds=1)
            retention = Retention(retain_last, age_ms=age_ms)
        removal = expire_snapshots(self._store, retention, dry_run=dry_run)
        if not dry_run:
            self._store.troubles.clear(EXPIRY)
        return removal

    @outcome(NOT_COMMITTED, landed=False)
    def expire_partitions(self, *, dry_run: bool = False) -> list[dict[str, Any]]:
        """Drop the partitions that are older than `partition.expiration-time`; returns their values, as users write them.
        `dry_run` drops nothing.
        """
        self._commits.check_writable()
        store = self._store
        if dry_run:
            expired = at_latest(store, store.snapshots.latest, partial(expired_partitions, store))
            store.refuse_other_table()
            return [store.partition_literals(values) for values in expired]

        def drop(basis: Basis) -> list[dict[str, Any]]:
            expired = expired_partitions(store, basis.snapshot)
            store.refuse_other_table()
            if expired:
                self._drop(expired, refuse_written_since(store, basis.snapshot, expired))
            return [store.partition_literals(values) for values in expired]

        return repeated(store, drop, reads_rows=False)

    @outcome(NOT_COMMITTED, landed=False)
    def drop_partition(self, *partitions: Mapping[str, Any]) -> Snapshot | None:
        """Delete all rows of partitions, each given by the values of some or all partition columns. None if there are none."""
        self._commits.check_writable()
        if not partitions or not all(partitions):
            raise InvalidRequest("Give the partitions to drop, each by values of partition columns.")
        return self._drop([self.partition_values(partition) for partition in partitions])

    @outcome(PARTLY_DONE)
    @of_same_table
    def mark_partition_done(self, *partitions: Mapping[str, Any]) -> list[str]:
        """Write `_SUCCESS` into the directory of partitions, each given by the values of all partition columns, whether it has
        rows or not; returns their paths. It holds when it was written first and last.
        """
        self._commits.check_writable()
        columns = self._store.schema.partition_keys
        if not partitions or any(each.keys() != set(columns) for each in partitions):
            raise InvalidRequest(
                f"Give the partitions to mark, each by the values of all partition columns of {self._store.identifier}: "
                f"{', '.join(columns) or 'it has none'}."
            )
        given = [self.partition_values(partition) for partition in partitions]
        return mark_done(
            self._store, [self._store.path_of_values([values[name] for name in columns]) for values in given]
        )

    def _drop(self, partitions: Sequence[Mapping[str, Any]], guard: Guard | None = None) -> Snapshot | None:
        overwrite = Overwrite(matching=tuple(partitions))
        details = CommitDetails(operation="DROP PARTITION")
        return self._commits.commit([], details, overwrite=overwrite, guard=guard)

    @outcome(PARTLY_DONE)
    def remove_orphan_files(
        self, *, older_than: dt.timedelta = dt.timedelta(days=1), dry_run: bool = False, no_writers: bool = False
    ) -> list[OrphanFile]:
        """Delete files that nobody needs and that are older than a safety age; `dry_run` says which those are.

        Ages below an hour are refused, since writers may need younger files, unless `no_writers` says that none runs.
        """
        self._store.refuse_other_table()
        age_ms = older_than // dt.timedelta(milliseconds=1)
        orphans = remove_orphan_files(self._store, age_ms=age_ms, dry_run=dry_run, no_writers=no_writers)
        if not dry_run:
            self._store.troubles.clear(FILE_DELETION)
        return orphans

    @outcome(NOTHING_CHANGED)
    def check(self, *, deep: bool = False) -> list[BrokenInvariant]:
        """What must be true of the table, with all its branches, and is not, and which work after commits has failed
        (FailedWork); empty for a sound table. `deep` reads the data files as well.
        """
        return check_table(self._store, deep=deep)

    @outcome(NOTHING_CHANGED)
    @of_same_table
    def troubles(self) -> list[Trouble]:
        """The kinds of work that follow commits to this branch and have failed since they last succeeded. Raises CorruptData
        that names a file which should tell of one and cannot be read.
        """
        return self._store.troubles.all()

    @outcome(NOTHING_CHANGED)
    @of_same_table
    def why_kept(self, what: int | str) -> list[str]:
        """Who needs a snapshot's files, or a file (by its path or name): snapshots and tags of all branches.

        The snapshot may have expired, if a tag has kept it. Raises NotFound if there is no such snapshot, or file.
        """
        if isinstance(what, int):
            store, snapshot = find_version(self._store, what)
            with told_of_expiry(store, snapshot):
                paths = set() if snapshot is None else files_of(store, snapshot)
        else:
            paths = {path for path in needed_files(self._store) if path == what or path.endswith(f"/{what}")}
            if not paths and not has_file(self._store, what):
                raise NotFound(f"{self.identifier} has no file {what!r}: give its path, or what its path ends with.")
        return [str(holder) for holder in holders_of(self._store, paths)]
