"""The stages of a recovery. Each asks first what is done already, so that one that broke off is called again."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cached_property, partial

from lineage import sources_of
from storage import (
    MAIN_BRANCH,
    AlreadyExists,
    Clock,
    CommitConflict,
    CorruptData,
    Identifier,
    InvalidRequest,
    NotFound,
    Snapshot,
    SnapshotRef,
    StorageError,
    Table,
    check_branch_name,
    check_new_branch_name,
)
from storage.engines.duckdb_compare import Comparison

from ..session import Session
from ..sql import Statements
from .compared import compare_branch, compare_since
from .heads import UNREAD, heads_of_mains
from .on_main import refuse_being_published, refuse_published
from .plan import RecoveryPlan
from .record import (
    DROPPING,
    PUBLISHED,
    RecoveryRecord,
    TableRecord,
    change_record,
    create_record,
    delete_record,
    get_record,
    read_record,
    refuse_another,
    refuse_dropping,
    with_moved,
    without_identities,
)
from .renamed import Renamed, former_since, source_now
from .replay import bring, is_of_production, is_written, replay_user
from .undo import take_back
from .words import refuse_name


class Recovery:
    """One recovery, known by the name of its branch. `seen`: what is remembered of it, for who judges by one state of that."""

    def __init__(self, session: Session, branch: str, seen: RecoveryRecord | None = None) -> None:
        self._session = session
        self._catalog = session.catalog
        self._seen = seen
        self.branch = branch

    # --- begin

    @classmethod
    def start(cls, session: Session, branch: str, plan: RecoveryPlan) -> "Recovery":
        """Branch all tables of a plan, at the snapshots that it names. Can be called again after a crash.

        Raises AlreadyExists if there is another recovery, or another branch, of that name; InvalidRequest for a plan of which
        nothing is spoilt now.
        """
        recovery = cls(session, check_new_branch_name(branch))
        if not plan.tables:
            listed = "; ".join(f"{table.name} {table.describe()} (snapshot {table.head})" for table in plan.good)
            raise InvalidRequest(
                f"Nothing comes from {plan.bad} now: there is nothing to recover. {listed}. If a repair is wrong itself, "
                "name its snapshot."
            )
        tables = {
            table.name: TableRecord(
                table.head,
                table.branch_at,
                None if table.partitions is None else [dict(part) for part in table.partitions],
                table.corrected,
                recovery._identity(table.name, table.head),
            )
            for table in plan.tables
        }
        known = read_record(session.catalog, branch)
        if known is not None:
            refuse_dropping(known)
        else:
            refuse_name(branch)
            recovery._refuse_taken()
        if (
            known is None
            or without_identities(known.tables) != without_identities(tables)
            or known.bad != str(plan.bad)
        ):
            heads = heads_of_mains(session, tables)
            create_record(
                session.catalog,
                RecoveryRecord(branch, Clock().now_ms(), heads, tables, plan.mode, str(plan.bad)),
            )
        recovery._create_branches()
        return recovery

    @classmethod
    def open(cls, session: Session, branch: str) -> "Recovery":
        """A recovery that was begun. Raises NotFound that lists the recoveries."""
        get_record(session.catalog, branch)
        return cls(session, branch)

    @classmethod
    def begin(cls, session: Session, branch: str) -> "Recovery":
        """A recovery without a plan, with no table branched yet; or the one of that name, if it was begun before."""
        recovery = cls(session, branch)
        if read_record(session.catalog, branch) is None:
            # Another run may begin it at the same moment.
            with suppress(AlreadyExists):
                create_record(session.catalog, RecoveryRecord(branch, Clock().now_ms(), heads_of_mains(session, ())))
        return recovery

    @property
    def record(self) -> RecoveryRecord:
        """What is remembered of it. Raises NotFound."""
        return self._seen or get_record(self._catalog, self.branch)

    def as_seen(self) -> "Recovery":
        """The recovery with what is remembered of it now, whatever others make of that. Raises CommitConflict if somebody is
        dropping it.
        """
        record = self.record
        refuse_dropping(record)
        return Recovery(self._session, self.branch, record)

    @property
    def tables(self) -> dict[str, TableRecord]:
        """The tables of the plan, and those that were branched since, when they were first written; none that were dropped, or
        made anew.
        """
        record, tables = self.record, self.planned
        for name in self._catalog.tables():
            if name not in tables and self.is_branched(name):
                begun_at = self._begun_at(record, name)
                tables[name] = TableRecord(begun_at, begun_at, [])
        return tables

    @property
    def planned(self) -> dict[str, TableRecord]:
        """The tables of the plan, without those that were dropped since, or made anew: these are no part of the recovery."""
        there = {*self._catalog.tables()}
        tables = self.record.tables
        return {name: each for name, each in tables.items() if name in there and not self.is_made_anew(name)}

    def is_made_anew(self, name: str) -> bool:
        """Whether a table of the plan was dropped since the recovery began, and another one made that has its name."""
        record = self.record
        if name not in record.tables or self.is_branched(name) or not self._catalog.exists(name):
            return False
        with suppress(CorruptData):
            return (self._catalog.table(name).made_ms or 0) > record.created_ms
        return False

    def without_branch(self) -> list[str]:
        """The tables of the plan that have no branch of the recovery: it was deleted, or `start` died before it was made."""
        return [name for name in self.planned if not self.is_branched(name)]

    def main(self, name: str) -> Table:
        """A table as production has it. Raises NotFound."""
        return self._catalog.table(name)

    def consistent_main(self, name: str) -> Table:
        """The same, without what a publication that is half to be seen has done."""
        return self._catalog.consistent([name])[name]

    def _begun_at(self, record: RecoveryRecord, name: str) -> int | None:
        """What the branch of a table that is in no plan began with: a replay may have moved what it begins with meanwhile."""
        # A damaged one is told of when the branch is published.
        with suppress(CorruptData):
            begun_at = self._catalog.table(name).branches.begun_at(self.branch)
            if begun_at is not None and begun_at[0] == MAIN_BRANCH:
                return begun_at[1]
        return record.base.get(name)

    @property
    def catalog_name(self) -> str:
        """The catalog of its tables, as lineage names it."""
        return self._catalog.name

    def sources(self, snapshot: Snapshot) -> list[SnapshotRef]:
        """What a snapshot says that it was made from; tables of the recovery that were renamed since, by their names of now."""
        return [source_now(self._former_names, source, snapshot.time_ms) for source in sources_of(snapshot)]

    @cached_property
    def _former_names(self) -> Renamed:
        branched = [name for name in self.record.tables if self._catalog.exists(name)]
        return former_since(self._catalog, branched, self.record.created_ms)

    def snapshot_of_main(self, name: str, number: int) -> Snapshot | None:
        """A snapshot of a table's main; None if it has expired."""
        with suppress(NotFound):
            return self._catalog.table(name).snapshot(number)
        return None

    def _identity(self, name: str, number: int) -> str | None:
        """What tells a snapshot of main from any other one of its number; None if it has expired."""
        snapshot = self.snapshot_of_main(name, number)
        return None if snapshot is None else snapshot.identity

    def _refuse_taken(self) -> None:
        """Raise AlreadyExists if a table has a branch of this name, which is somebody else's: it would be published, or
        dropped, as part of the recovery. Raises InvalidRequest for a name that no branch can have.
        """
        check_branch_name(self.branch)
        taken = [name for name in self._catalog.tables() if self.is_branched(name)]
        if taken:
            raise AlreadyExists(
                f"Branch {self.branch!r} exists on {', '.join(taken)} and is no recovery. Choose another name, or delete the "
                "branch."
            )

    def _create_branches(self) -> None:
        record = self.record
        for name in self.without_branch():
            self._create_branch(record, name, record.tables[name].branch_at)

    def _create_branch(self, record: RecoveryRecord, name: str, begins_at: int | None) -> None:
        """Make the branch of a table as part of the recovery that a record is of. Raises CommitConflict, and takes it away
        again, if that was dropped meanwhile: nobody else would.
        """
        branches = self._catalog.table(name).branches
        # Another run may make it at the same moment.
        with suppress(AlreadyExists):
            if begins_at is None:
                branches.create(self.branch, empty=True)
            else:
                branches.create(self.branch, snapshot_id=begins_at)
        now = read_record(self._catalog, self.branch)
        if now is None or now.status == DROPPING:
            # Or whoever drops it has taken it away.
            with suppress(NotFound):
                branches.delete(self.branch)
        if now is None or now.status == DROPPING or now.created_ms != record.created_ms:
            raise CommitConflict(f"Recovery {self.branch!r} was dropped meanwhile. Start another one.")

    def is_branched(self, name: str) -> bool:
        """Whether a table has the branch of this recovery. Raises CorruptData for a damaged table that has."""
        try:
            return self._catalog.exists(name) and self.branch in self._catalog.table(name).branches.names()
        except CorruptData:
            if self._catalog.exists(f"{name}$branch_{self.branch}"):
                raise
            return False

    # --- read and write

    def table(self, name: str) -> Table:
        """A table as the recovery sees it: its branch, or what it was when the recovery began. Raises NotFound."""
        record = self.record
        if self.is_branched(name):
            return self._session.table(name).on_branch(self.branch)
        base = self._begins_at(record, name)
        if base is None:
            raise NotFound(f"{name} had no snapshot when recovery {self.branch!r} began, and has no branch of it.")
        return self._session.table(name).after_commit(base)

    def branched(self, name: str) -> Table:
        """The branch of a table, made if it is not there: at the snapshot that the table had when the recovery began.

        Raises NotFound if there is no such recovery.
        """
        record = self.record
        if Identifier.parse(name).branch != MAIN_BRANCH:
            raise InvalidRequest(
                f"{name} is a branch already: name the table alone, which means its branch {self.branch}."
            )
        if not self.is_branched(name):
            refuse_dropping(record)
            self._create_branch(record, name, self._begins_at(record, name))
        return self._session.table(name).on_branch(self.branch)

    def _begins_at(self, record: RecoveryRecord, name: str) -> int | None:
        """The snapshot of main that the branch of a table begins with: the planned one, also when the start died before it made
        the branch. Raises NotFound for a table that was made anew since.
        """
        if self.is_made_anew(name):
            raise NotFound(
                f"{name} was made anew since recovery {self.branch!r} began: it is another table, and no part of that. What is "
                "to be changed of it is changed on its main."
            )
        planned = record.tables.get(name)
        begins_at = record.base.get(name) if planned is None else planned.branch_at
        if begins_at == UNREAD:
            raise CorruptData(
                f"{name} was damaged when recovery {self.branch!r} began: which snapshot its main had then is not known. Drop "
                "the recovery, and start it again once the table is mended."
            )
        return begins_at

    # --- correct

    def correct(self, sql: str, engine: str = "duckdb") -> list[str]:
        """Run statements in which the names of tables mean their branches; returns what each says, and which tables are new."""
        # No recovery is begun by correcting one that is misspelt.
        refuse_dropping(self.record)
        refuse_being_published(self, self._catalog)
        refuse_published(self)
        statements = Statements(self._session, None, self.table, branched=self._to_be_corrected)
        statements.settings.options["pipeline.name"] = f"recovery/{self.branch}"
        before = {*self.tables}
        said = [result.message or f"{result.to_arrow().num_rows} rows" for result in statements.run(sql, engine)]
        joined = "{} is part of recovery {!r} from now on, and is published with it."
        return said + [joined.format(name, self.branch) for name in self.tables if name not in before]

    def _to_be_corrected(self, name: str) -> Table:
        """The branch of a table that a statement writes to. Raises InvalidRequest for one outside of the plan that others outside
        of it are made from: nobody would compute those anew.
        """
        planned = self.record.tables
        if planned and name not in planned and not self.is_branched(name):
            made = [
                each
                for each in self._session.neighbour_tables(name, "down")
                if each not in (*planned, name) and self._catalog.exists(each)
            ]
            if made:
                raise InvalidRequest(
                    f"{name} is no table of recovery {self.branch!r}, and {', '.join(made)}, made from it, would not be computed "
                    f"anew. Correct it in a recovery of its own: snapline recovery start <name> --bad {name}@<snapshot>."
                )
        return self.branched(name)

    def undo_bad(self) -> str:
        """Take the corrected table's branch back to before the bad snapshot: what came after it goes as well."""
        record = self.record
        refuse_being_published(self, self._catalog)
        refuse_published(self)
        for name, table in self.planned.items():
            if table.corrected:
                before = take_back(self._catalog.table(name), self.branched(name), record.bad)
                return f"{name} on branch {self.branch} is at snapshot {before}."
        why = f"the table of {record.bad} is no part of it" if record.bad else "it was not begun with a bad snapshot"
        raise InvalidRequest(f"Recovery {self.branch!r} has nothing to go back from: {why}.")

    # --- compare

    @property
    def sides(self) -> tuple[str, str]:
        """What `compare` compares, in words."""
        if self.record.status == PUBLISHED:
            return "before it was published", "after it was published"
        return "on main", "on the branch"

    def compare(self, name: str) -> Comparison:
        """How the branch of a table differs from main as it is seen now, under the columns that main will have, which publishing
        keeps; of a recovery that is published, what the publication changed on main. Raises NotFound if what main was before
        has expired, or if the branch of a table of the plan is gone.
        """
        return compare_branch(self, name)

    def compare_since(self, name: str) -> Comparison:
        """How the branch of a table of a published recovery differs from what was published of it. Raises NotFound if that has
        expired.
        """
        return compare_since(self, name)

    def changed(self) -> list[str]:
        """The tables that have a branch of this recovery, in the order of the plan."""
        return [name for name in self.tables if self.is_branched(name)]

    # --- replay or drop

    @property
    def replay_user(self) -> str:
        """Who brings main's changes to the branch."""
        return replay_user(self.branch)

    def moved(self) -> dict[str, list[str]]:
        """What main got since the recovery began: for each table the commits, by job and number."""
        moved: dict[str, list[str]] = {}
        for name, table in self.tables.items():
            for snapshot in self.main_after(name, table.main or 0):
                if self.is_productions(snapshot, table.main):
                    moved.setdefault(name, []).append(f"{snapshot.id} by {snapshot.commit_user}")
        return moved

    def main_after(self, name: str, number: int) -> list[Snapshot]:
        """What came to a table's main after a snapshot."""
        return [snapshot for snapshot in self._catalog.table(name).snapshots.all() if snapshot.id > number]

    def is_productions(self, snapshot: Snapshot, known: int | None = None) -> bool:
        """Whether a snapshot of main is production's work, where main is `known` up to a snapshot: see `is_of_production`."""
        return is_of_production(snapshot, self.branch, known or 0)

    def replay(self, made_from: Callable[[str, int | None], Mapping[str, str]] | None = None) -> list[str]:
        """Bring what main got since the recovery began to the branch; returns the tables that main has changed and that are
        to be computed anew. A publication of the recovery that died is finished first; `made_from` gives the properties of its
        commits, as of `BranchSet.adopt`.

        The changes of the corrected table are applied to its branch, and so they are to a branch, of a table in no plan, on
        which nothing was written: whoever has made it may be about to. Of the others the partitions that main has changed
        since are computed anew; what no asset makes, and was written by hand before, is left to be written again. Tables
        without a branch are read as main has them now, so that what was computed from older ones is left to do.
        """
        refuse_dropping(self.record)
        self._catalog.recover(branch=self.branch, made_from=made_from)
        seen = self._rebased()
        anew: list[str] = []
        tables = self.tables
        for name in self.moved():
            table = tables[name]
            main = self._catalog.table(name)
            head = main.last_change()
            assert head is not None
            brought = self._brought(name, table, head.snapshot_id)
            if brought:
                partitions = table.partitions
            elif table.partitions is None:
                partitions = None
                anew.append(name)
            else:
                since = main.changed_partitions(after=table.main)
                partitions = [*table.partitions, *(part for part in since if part not in table.partitions)]
                anew.append(name)
            identity = self._identity(name, head.snapshot_id)
            moved = replace(table, main=head.snapshot_id, main_identity=identity, partitions=partitions)
            if not brought and self.is_branched(name):
                moved = replace(moved, replayed_at=self.branched(name).snapshots.latest_id())
            seen = change_record(self._catalog, seen, partial(with_moved, name=name, moved=moved))
        return anew

    def _brought(self, name: str, table: TableRecord, until: int) -> bool:
        """Bring what main has done to the branch of a table, where that is how it is replayed; else False."""
        if not table.corrected and (self.record.mode != "full" or not self._is_unwritten(name, table)):
            return False
        try:
            bring(self._catalog.table(name), self.branched(name), table.main or 0, until)
        except InvalidRequest:
            if table.corrected:
                raise
            return False
        return True

    def _is_unwritten(self, name: str, table: TableRecord) -> bool:
        """Whether a table that is in no plan was branched, and not written on its branch."""
        is_unplanned = table.partitions == [] and table.replayed_at is None
        return is_unplanned and self.is_branched(name) and not is_written(self.branched(name), table.branch_at)

    def _rebased(self) -> RecoveryRecord:
        """Move the tables that are read outside of the branch to main's present state."""
        seen = self.record
        refuse_dropping(seen)
        branched = set(self.tables)
        heads = heads_of_mains(self._session, branched, known=seen.base)

        def rebased(record: RecoveryRecord) -> RecoveryRecord:
            kept = {name: number for name, number in record.base.items() if name in branched}
            # What a publication has left to production's next runs is computed with all that comes now.
            tables = {name: replace(table, computed_at=None) for name, table in record.tables.items()}
            return replace(record, base={**heads, **kept}, tables=tables)

        return change_record(self._catalog, seen, rebased)

    def drop(self) -> list[str]:
        """Delete the branches of the recovery, and what is remembered of it; returns the tables."""
        record = self.record
        # From now on nobody goes on with it: neither by a branch that is made later, nor by publishing what is left of it.
        dropping = change_record(self._catalog, record, lambda now: replace(now, status=DROPPING), ends=True)
        tables = self.changed()
        try:
            if tables:
                # Whoever slept until others have dropped it and begun another one of its name deletes nothing of that.
                guard = partial(refuse_another, self._catalog, dropping)
                self._catalog.branch_set(self.branch, tables).delete(guard)
        except StorageError:
            if self.changed() == tables and record.status != DROPPING:
                # It is part of a publication, say, and stays as it was.
                change_record(
                    self._catalog,
                    dropping,
                    lambda now: replace(now, status=record.status) if now.status == DROPPING else now,
                    ends=True,
                )
            raise
        delete_record(self._catalog, record)
        return tables
