"""Make the branch of a recovery main's, on all tables or none, once nothing of it is left to do.

What always holds: no table of main goes behind what production, or another recovery, has put on it, unless that is given up
by name; and what is published in spite of something stands in the recovery's record.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, TypeVar

from lineage import SourceColumn, columns_of, columns_property, sources_property
from storage import (
    Clock,
    CommitConflict,
    InvalidRequest,
    NotFound,
    Snapshot,
    SnapshotRef,
    Table,
    Verdict,
    whole_number,
)

from ..assets.table_asset import TableAsset
from ..session import Session
from .branch_checks import judged_by_checks
from .catch_up import Heads, NeverStill, followed, head_of, left_to_production
from .left_to_do import WHOLE, has_changed, is_corrected, left_to_do, makings
from .on_main import is_published
from .record import PUBLISHED, RecoveryRecord, TableRecord, change_record
from .remarks import no_part_of
from .replay import goes_behind, is_own
from .spoilt import repairs_property
from .stages import Recovery
from .unfinished import finished_before, still_open
from .words import PYTHON, Words

_log = logging.getLogger(__name__)
_T = TypeVar("_T")
# How often what main got is replayed for one publication.
REPLAYS = 3


class _MovedOn(CommitConflict):
    """Production has committed to what is to be published since the recovery began, or since what it did was replayed."""


@dataclass(frozen=True)
class Published:
    """What a table's main branch became: its newest change, and the verdict that it was taken over with."""

    name: str
    ref: SnapshotRef
    verdict: str


def publish(
    session: Session,
    recovery: Recovery,
    assets: Mapping[str, TableAsset],
    *,
    checks: Sequence[Any] = (),
    discard_main: bool = False,
    allow_incomplete: bool = False,
    allow_failed_checks: bool = False,
    follows: bool = False,
    words: Words = PYTHON,
) -> list[Published]:
    """Make every branch main's, all or none. Can be called again after a crash. `follows`: what production commits meanwhile to
    a table whose changes a replay applies is brought along, see `followed`.

    What main had when the recovery began is replaced. What production has written since stays, if it lies in other partitions
    or buckets and the branch began at main's head; else CommitConflict names it, and nothing is done, unless `discard_main`,
    which goes for tables that would go behind what main has too. Raises InvalidRequest, having done nothing, that names what
    is left to do, unless `allow_incomplete`, and the blocking ones of `checks` that fail on the branch, unless
    `allow_failed_checks`. What each of the three made possible is recorded.
    """
    # What is judged and what is done go by one state of what is remembered, also beside a replay.
    recovery = recovery.as_seen()
    tables = recovery.changed()
    if not tables:
        why = " ".join(["there is nothing to publish.", *no_part_of(recovery)])
        raise InvalidRequest(f"Recovery {recovery.branch!r} has changed no table: {why}")
    # What is judged from here on is published, or nothing: who writes to a branch meanwhile is not asked what is complete.
    heads = {name: head_of(recovery.branched(name)) for name in tables}
    try:
        overrides = _judged_complete(recovery, assets, allow_incomplete, words)
        overrides += judged_by_checks(session, recovery, checks, allow_failed_checks, words)
    except InvalidRequest as error:
        # Who drops it takes its branches away: then that is the reason.
        Recovery.open(session, recovery.branch).as_seen()
        raise InvalidRequest(f"{error}{still_open(session.catalog, recovery.branch)}") from None
    # Only what is complete finishes what was begun before: what is refused has changed no main.
    finished = session.catalog.recover(branch=recovery.branch, made_from=MadeFrom(session, recovery, assets))
    made_main = partial(_made_main, session, assets, discard_main, words)
    try:
        overrides += _judged_ahead(session, recovery, assets, discard_main, words)
        if follows:
            recovery, (verdicts, until) = followed(session, recovery, heads, made_main, Clock().now_ms)
        else:
            verdicts, until = made_main(recovery, heads)
    except CommitConflict as error:
        first = finished_before([session.catalog.made_by(each) for each in finished])
        if first:
            error.args = (f"{error} {first}", *error.args[1:])
        raise
    overrides += left_to_production(recovery)
    if discard_main:
        overrides += _given_up(session, recovery)
    _remember(session, recovery.record, overrides)
    described = {name: _described(verdict, name in until) for name, verdict in verdicts.items()}
    return published(session, tables, described)


def _made_main(
    session: Session,
    assets: Mapping[str, TableAsset],
    discard_main: bool,
    words: Words,
    recovery: Recovery,
    heads: Heads,
) -> tuple[dict[str, Verdict], dict[str, int]]:
    """Make main of what is not yet, of the branches with some heads; the verdicts, and up to where each main was replaced."""
    pending = [name for name in heads if not is_published(recovery, name)]
    if not pending:
        return {}, {}
    branches = session.catalog.branch_set(recovery.branch, pending)
    until, given_up = _until(recovery, branches.verdicts(), discard_main, words)
    made_from = MadeFrom(session, recovery, assets)
    points = {} if discard_main else _points(recovery, until)
    judged = {name: heads[name] for name in pending}
    properties = {name: made_from(name, heads[name][0]) for name in until}
    verdicts = branches.adopt(until, properties, made_from, points=points, heads=judged, given_up=given_up)
    return verdicts, until


def replay_and_publish(
    recovery: Recovery, replayed: Callable[[], object], published: Callable[[], _T], words: Words = PYTHON
) -> _T:
    """What a function returns that publishes a recovery, once another one has replayed what main got; both are called again, up
    to three times in all, where production has committed meanwhile to what is published.

    Raises CommitConflict that says which tables' writers have to pause if it did so each time: nothing is published then.
    """
    for replays_left in reversed(range(REPLAYS)):
        replayed()
        try:
            return published()
        except CommitConflict as error:
            moved = recovery.moved()
            is_never_still = isinstance(error, NeverStill)
            if not moved or not (replays_left or is_never_still or isinstance(error, _MovedOn)):
                raise
            if is_never_still or not replays_left:
                raise CommitConflict(_never_still(recovery.branch, moved, words)) from None
            _log.info("%s", error)
    raise AssertionError("the last try raises")


def _never_still(recovery: str, moved: Mapping[str, Sequence[str]], words: Words) -> str:
    """That production goes on too fast for a replay, and what to do."""
    later = "; ".join(f"{name} has {', '.join(commits)}" for name, commits in moved.items())
    return (
        f"Recovery {recovery!r} is not published, on no table: what main got was replayed again and again, and each time main "
        f"moved on before it could be published. {later}. Pause what writes to {', '.join(moved)}, and publish once more with "
        f"what main got ({words.replay}); or give that up ({words.discard_main})."
    )


def moved_on(session: Session, recovery: Recovery, assets: Mapping[str, TableAsset], words: Words) -> str:
    """What a publication would be refused for as things are, since main has what the branch has not; empty if for nothing."""
    recovery = recovery.as_seen()
    pending = [name for name in recovery.changed() if not is_published(recovery, name)]
    try:
        _judged_ahead(session, recovery, assets, False, words)
        if pending:
            _until(recovery, session.catalog.branch_set(recovery.branch, pending).verdicts(), False, words)
    except CommitConflict as error:
        return str(error)
    return ""


def _remember(session: Session, seen: RecoveryRecord, overrides: Sequence[str]) -> None:
    """Write down that a recovery is published, and in spite of what, on what others have written down meanwhile."""

    def changed(record: RecoveryRecord) -> RecoveryRecord:
        known = [override for override in overrides if override not in record.overrides]
        return replace(record, status=PUBLISHED, overrides=[*record.overrides, *known])

    try:
        change_record(session.catalog, seen, changed, ends=True)
    except CommitConflict as error:
        # Main has it all the same.
        _log.warning("Recovery %r is published. %s %s", seen.branch, error, " ".join(overrides))


def published(session: Session, names: Sequence[str], verdicts: Mapping[str, str]) -> list[Published]:
    """What the main branches of tables are now."""
    tables = []
    for name in names:
        ref = session.table(name).last_change()
        if ref is not None:
            tables.append(Published(name, ref, verdicts.get(name, "published already")))
    return tables


def uncorrected(recovery: Recovery) -> list[str]:
    """The tables that the recovery is to correct, and that nothing on the branch has corrected yet."""
    tables = recovery.planned
    return [name for name, table in tables.items() if table.corrected and not is_corrected(recovery, name, table)]


def _with_reason(recovery: Recovery, name: str) -> str:
    """An uncorrected table, with the reason if statements have been run on it, or if its branch is gone."""
    if not recovery.is_branched(name):
        return _with_branch(recovery, name)
    in_vain = has_changed(recovery, name, recovery.record.tables[name])
    return f"{name} (what was run on its branch has left all rows as they were)" if in_vain else name


def _with_branch(recovery: Recovery, name: str) -> str:
    """A table that is left to compute, with the reason if its branch is gone."""
    return name if recovery.is_branched(name) else f"{name} (its branch is gone: what writes to it makes it again)"


def _judged_complete(
    recovery: Recovery, assets: Mapping[str, TableAsset], allow_incomplete: bool, words: Words
) -> list[str]:
    """What is published in spite of being incomplete. Raises InvalidRequest unless that is allowed."""
    left, wrong = left_to_do(recovery, assets), uncorrected(recovery)
    reasons = [f"not corrected: {', '.join(_with_reason(recovery, name) for name in wrong)}"] if wrong else []
    reasons += [f"not computed anew: {', '.join(_with_branch(recovery, name) for name in left)}"] if left else []
    if reasons and not allow_incomplete:
        by_hand = [name for name in left if name not in assets]
        raise InvalidRequest(
            f"Recovery {recovery.branch!r} is not published, on no table: {'; '.join(reasons)}. "
            + ("Correct it first. " if wrong else "")
            + (
                f"Compute what is left by {words.backfill.format(branch=recovery.branch)}. "
                if len(by_hand) < len(left)
                else ""
            )
            + (
                f"No asset makes {', '.join(by_hand)}: write to the branch by SQL, as in a correction. "
                if by_hand
                else ""
            )
            + " ".join(
                [f"Or publish what is there ({words.allow_incomplete}), which is recorded.", *no_part_of(recovery)]
            )
        )
    return [f"published though {reason}" for reason in reasons]


def _judged_ahead(
    session: Session, recovery: Recovery, assets: Mapping[str, TableAsset], discard_main: bool, words: Words
) -> list[str]:
    """The tables of which main loses what it got after the branch's first snapshot, and which the branch has not made anew.
    Raises CommitConflict that names them unless `discard_main`.
    """
    behind = []
    for name, record in recovery.tables.items():
        main = session.catalog.table(name)
        if record.main is None or record.branch_at == record.main or not recovery.is_branched(name):
            continue
        later = [
            snapshot
            for snapshot in main.snapshots.all()
            if (record.branch_at or 0) < snapshot.id <= record.main and recovery.is_productions(snapshot)
        ]
        kept = _not_made_anew(main, recovery, assets.get(name), record)
        if later and kept:
            where = ", ".join(sorted(str(value) for each in kept for value in each.values()))
            commits = ", ".join(f"{snapshot.id} by {snapshot.commit_user}" for snapshot in later)
            behind.append(
                (f"{name}{f' ({where})' if where else ''}", f"to snapshot {record.branch_at or 0}, behind {commits}")
            )
    if behind and not discard_main:
        refused = "; ".join(f"{table} would go back {back}" for table, back in behind)
        raise CommitConflict(
            f"Recovery {recovery.branch!r} is not published, on no table: {refused}. Compute them anew by "
            f"{words.backfill.format(branch=recovery.branch)}, or give up what main has ({words.discard_main})."
        )
    return [f"published though {table} went back {back}" for table, back in behind]


def _given_up(session: Session, recovery: Recovery) -> list[str]:
    """What production had put on main since the recovery began, and its publications have taken from it."""
    given_up = []
    for name, record in recovery.tables.items():
        snapshots = session.catalog.table(name).snapshots.all()
        replaced = [
            snapshot.id
            for snapshot in snapshots
            if snapshot.time_ms >= recovery.record.created_ms
            and snapshot.operation == "ADOPT"
            and is_own(snapshot, recovery.branch)
        ]
        lost = [
            f"{snapshot.id} by {snapshot.commit_user}"
            for snapshot in snapshots
            if (record.main or 0) < snapshot.id < max(replaced, default=0) and recovery.is_productions(snapshot)
        ]
        if lost:
            given_up.append(f"published though main of {name} had {', '.join(lost)}, which was given up")
    return given_up


def _not_made_anew(
    main: Table, recovery: Recovery, asset: TableAsset | None, record: TableRecord
) -> list[Mapping[str, object]]:
    """The partitions that main has changed after the branch's first snapshot, and the branch has not made since."""
    made = makings(recovery, str(main.identifier), record)
    if WHOLE in made and (asset is None or asset.partitions_def is None or asset.partition_column is None):
        return []
    branch = recovery.branched(str(main.identifier))
    ours = branch.changed_partitions(after=record.branch_at)
    try:
        theirs = main.changed_partitions(after=record.branch_at, until=record.main)
    except NotFound:
        # What came first has expired: any partition may have been changed since.
        theirs = main.changed_partitions(until=record.main)
    keyed = asset is not None and asset.partition_column is not None
    return [
        snapshot
        for snapshot in theirs
        if snapshot not in ours and not (keyed and asset is not None and asset.partition_key(snapshot, main) in made)
    ]


def _until(
    recovery: Recovery, verdicts: Mapping[str, Verdict], discard_main: bool, words: Words
) -> tuple[dict[str, int], dict[str, int]]:
    """Up to which snapshot each main is replaced; tables without one are merged. And after which snapshot what production has
    done on it is given up, where anything is. Raises CommitConflict.
    """
    until: dict[str, int] = {}
    given_up: dict[str, int] = {}
    refused: list[str] = []
    known = recovery.tables
    for name, verdict in verdicts.items():
        record = known[name]
        lost = [snapshot for snapshot in verdict.lost if snapshot.id > (record.main or 0)]
        behind = _rolled_behind(recovery, name, record.main or 0)
        later = [snapshot for snapshot in (*lost, *behind) if recovery.is_productions(snapshot, record.main)]
        if later and discard_main:
            given_up[name] = min(snapshot.id for snapshot in later) - 1
        if not later or discard_main:
            # What else there is was published by this recovery, or was taken back.
            until[name] = max(record.main or 0, 0 if verdict.judged is None else verdict.judged.id)
            if discard_main and until[name]:
                # Also of a table that has nothing of the kind: what comes later is not given up by a repetition.
                given_up.setdefault(name, until[name])
        elif verdict.kind != "disjoint" or record.branch_at != record.main:
            commits = ", ".join(f"{snapshot.id} by {snapshot.commit_user}" for snapshot in later)
            refused.append(f"{name} has {commits}")
    if refused:
        raise _MovedOn(
            f"Recovery {recovery.branch!r} is not published, on no table: main has moved on since it began. "
            f"{'; '.join(refused)}. Replay what main got ({words.replay}), or give it up ({words.discard_main})."
        )
    return until, given_up


def _rolled_behind(recovery: Recovery, name: str, main: int) -> list[Snapshot]:
    """The rollbacks of a table's main after a snapshot, to what was before it."""
    return [snapshot for snapshot in recovery.main_after(name, main) if goes_behind(snapshot, main)]


def _points(recovery: Recovery, names: Iterable[str]) -> dict[str, tuple[int, str]]:
    """The change of each main that its branch stands for, as far as it is known which it was."""
    tables = recovery.tables
    known = ((name, tables[name].main, tables[name].main_identity) for name in names)
    return {name: (main, identity) for name, main, identity in known if main is not None and identity is not None}


class MadeFrom:
    """The sources of main's new snapshot of a table, and of its columns: the branch, what the branch began with where it keeps
    rows of it, and what its rows were made from, each as main has it now if it was published before.
    """

    def __init__(self, session: Session, recovery: Recovery, assets: Mapping[str, TableAsset]) -> None:
        self._session, self._recovery, self._assets = session, recovery, assets

    @cached_property
    def _left(self) -> set[str]:
        return {*uncorrected(self._recovery), *left_to_do(self._recovery, self._assets)}

    def __call__(self, name: str, newest: int | None) -> dict[str, str]:
        branch, record = self._recovery.branched(name), self._recovery.tables[name]
        own = branch.last_change(newest) if newest != 0 else None
        read: dict[str, SnapshotRef] = {}
        columns: dict[str, list[SourceColumn]] = {}
        for snapshot in branch.snapshots.all():
            if (record.branch_at or 0) < snapshot.id and (newest is None or snapshot.id <= newest):
                for source in self._recovery.sources(snapshot):
                    if source.table != branch.identifier.table or source.database != branch.identifier.database:
                        read[f"{source.database}.{source.table}"] = source
                for column, computed in columns_of(snapshot).items():
                    columns.setdefault(column, []).extend(computed)
        begun = None if record.branch_at is None else self._session.table(name).ref(record.branch_at)
        if begun is not None and own is not None and own.snapshot_id <= begun.snapshot_id:
            # Nothing was written to the branch: its snapshot is main's.
            listed = [begun]
        else:
            listed = [] if own is None else [own]
            if begun is not None and not record.corrected and WHOLE not in makings(self._recovery, name, record):
                listed.append(begun)
        listed += [self._as_on_main(plain, source) for plain, source in read.items()]
        return {**sources_property(listed), **columns_property(columns), **self._repairs(name)}

    def _as_on_main(self, name: str, source: SnapshotRef) -> SnapshotRef:
        """What a table was made from, as main has it by now; the branch's own snapshot if that has changed since."""
        if source.branch != self._recovery.branch or not self._recovery.is_branched(name):
            # Also of a table that was dropped since, or made anew: no main has that.
            return source
        own = self._recovery.table(name).last_change()
        is_newest = own is not None and own.branch == source.branch and own.snapshot_id <= source.snapshot_id
        return (self._published(name, own.time_ms or 0) if own is not None and is_newest else None) or source

    def _published(self, name: str, since_ms: int) -> SnapshotRef | None:
        """What the recovery has put on a table's main since a time, and is in it."""
        main = self._session.table(name)
        for snapshot in main.snapshots.backwards():
            if snapshot.time_ms < since_ms:
                break
            if snapshot.changes_rows and is_own(snapshot, self._recovery.branch):
                return None if main.is_taken_back(snapshot.id) else main.ref(snapshot.id)
        return None

    def _repairs(self, name: str) -> dict[str, str]:
        """What the commit says that it puts right; nothing if something that it is made of is left to do."""
        record, planned = self._recovery.record, self._recovery.planned
        table, _, bad = record.bad.rpartition("@")
        corrected = planned.get(table)
        if name not in planned or name in self._left or table in self._left:
            return {}
        if corrected is not None:
            newest = corrected.main
        elif table and (not self._session.catalog.exists(table) or self._recovery.is_made_anew(table)):
            # It was dropped, and what was made from it is repaired by hand.
            newest = whole_number(bad)
        else:
            # Main had been put right when the recovery began.
            ref = self._session.table(table).last_change()
            newest = None if ref is None else ref.snapshot_id
        return {} if newest is None else repairs_property(record.branch, record.bad, newest)


def _described(verdict: Verdict, adopted: bool) -> str:
    """How main took a branch over."""
    if not verdict.new and (verdict.made is None or not verdict.made.changes_rows):
        noted = "" if verdict.made is None else f", which snapshot {verdict.made.id} notes"
        return f"main has what the branch has already{noted}: no row was changed"
    if adopted and verdict.lost:
        return f"replaced what main did since snapshot {verdict.common or 0}, by one commit on top"
    return verdict.describe()
