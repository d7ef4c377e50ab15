"""Bring what production has done to a main to the branch of a recovery, once, and nothing of what that has published itself.

What it has published is on its branch already: main's history is replayed from the one publication to the next. What main has
done up to a publication that replaced it is on the branch by then, or was given up. A publication that was undone, and what
undid it, are left out alike.
"""

from collections.abc import Iterator, Mapping, Sequence

from lineage import SourceColumn, columns_of, columns_property, sources_of, sources_property
from storage import (
    BranchHistory,
    CommitConflict,
    CommitId,
    InvalidRequest,
    NotFound,
    Snapshot,
    SnapshotRef,
    Table,
    Unsupported,
    operation_of,
)
from storage.engines.duckdb_replay import ROW_KIND, corrected_and_changed, rows_to_replay

from .spoilt import ROLLED_BACK

# Who undoes what a publication has committed.
_UNDO = "undo/"
_WAYS_OUT = (
    "Correct its branch by hand as production has changed main and publish with --discard-main; "
    "or drop it, and begin again."
)


def replay_user(recovery: str) -> str:
    """Who brings main's changes to the branch of a recovery."""
    return f"recovery/{recovery}/replay"


def own_snapshots(branch: Table, after: int | None) -> Iterator[Snapshot]:
    """What was committed to the branch of a recovery after a snapshot, newest first; no replays of main, and no compactions."""
    user = replay_user(branch.identifier.branch)
    for snapshot in branch.snapshots.backwards():
        if snapshot.id <= (after or 0):
            return
        if snapshot.commit_kind != "COMPACT" and snapshot.commit_user != user:
            yield snapshot


def is_written(branch: Table, after: int | None) -> bool:
    """Whether the branch of a recovery was written to after a snapshot by other than a replay of main."""
    return any(snapshot.changes_rows or snapshot.operation == "ROLLBACK" for snapshot in own_snapshots(branch, after))


def is_own(snapshot: Snapshot, recovery: str) -> bool:
    """Whether a snapshot of main was put there from the branch of a recovery, by its publication or by hand."""
    if snapshot.commit_user.startswith((f"recovery/{recovery}/", f"publication/{recovery}/")):
        return True
    merge = f"MERGE of branch {recovery}"
    return f"{operation_of(snapshot) or ''} ".startswith((f"{merge} ", f"{merge}, "))


def is_merged_by_hand(snapshot: Snapshot) -> bool:
    """Whether what `is_own` finds was put on one main alone, by no publication."""
    return not snapshot.commit_user.startswith(("recovery/", "publication/"))


def undoes_own(snapshot: Snapshot, recovery: str) -> bool:
    """Whether a snapshot of main undoes what a publication of the recovery put there."""
    return snapshot.commit_user.startswith((f"{_UNDO}recovery/{recovery}/", f"{_UNDO}publication/{recovery}/"))


def goes_behind(snapshot: Snapshot, number: int) -> bool:
    """Whether a snapshot of main rolls it back to what was before the snapshot of that number."""
    target = snapshot.number(ROLLED_BACK)
    return target is not None and target < number


def is_of_production(snapshot: Snapshot, recovery: str, known: int) -> bool:
    """Whether a snapshot of main changes rows, and was neither published by the recovery itself nor undoes that. What goes behind
    the snapshot up to which main is `known` (0: not at all) changes in any case what is known of it.
    """
    if not snapshot.changes_rows or is_own(snapshot, recovery):
        return False
    return goes_behind(snapshot, known) or not undoes_own(snapshot, recovery)


def bring(main: Table, branch: Table, after: int, until: int) -> None:
    """Commit to a branch what production has done to main after one snapshot and up to another. What is remembered of the
    recovery may be older than the branch, if a replay died before it wrote that down.

    Raises CommitConflict if another replay has come meanwhile, or the branch has no more what production has changed;
    InvalidRequest for what cannot be replayed. Nothing is committed then.
    """
    recovery = branch.identifier.branch
    replayed = replayed_until(branch)

    def refuse_overtaken(_: Snapshot | None) -> None:
        if replayed_until(branch) != replayed:
            raise CommitConflict(
                f"Another replay of recovery {recovery!r} has brought changes of {main.identifier} to its branch. "
                "Nothing is committed. Replay again."
            )

    try:
        spans = list(_spans(main, recovery, max(after, replayed), until))
        _refuse_made_from_bad_rows(main, branch, spans)
        changes = [rows_to_replay(main, *span) for span in spans]
    except (NotFound, Unsupported) as error:
        raise InvalidRequest(f"{error} Nothing is done to recovery {recovery!r}. {_WAYS_OUT}") from None
    if not changes:
        return
    with branch.new_write() as writer:
        for rows in changes:
            writer.write(rows, row_kind_column=ROW_KIND)
        message = writer.prepare_commit()
    commit_id = CommitId(replay_user(recovery), until, exact=True)
    try:
        branch.commit_messages(
            [message], None, commit_id, _made_from(main, spans), operation="WRITE", guard=refuse_overtaken
        )
    except CommitConflict as error:
        refuse_overtaken(None)
        raise CommitConflict(
            f"{error} Nothing is done to recovery {recovery!r}: production has changed rows of {main.identifier} that its branch "
            f"has otherwise. {_WAYS_OUT}"
        ) from None


def _made_from(main: Table, spans: Sequence[tuple[int, int]]) -> dict[str, str]:
    """What production made the rows from that are brought, as properties. Without what main itself had: the rows that were
    computed from that are the branch's own, or the replay is refused.
    """
    own = main.identifier
    sources: list[SnapshotRef] = []
    columns: dict[str, list[SourceColumn]] = {}
    for snapshot in (each for span in spans for each in main.snapshots.between(*span) if each.changes_rows):
        sources += [ref for ref in sources_of(snapshot) if (ref.database, ref.table) != (own.database, own.table)]
        for name, computed in columns_of(snapshot).items():
            columns.setdefault(name, []).extend(each for each in computed if each[1:3] != (own.database, own.table))
    return {**sources_property(sources), **columns_property(columns)} if sources else {}


def _refuse_made_from_bad_rows(main: Table, branch: Table, spans: Sequence[tuple[int, int]]) -> None:
    """Raise Unsupported if a statement has computed rows of main from what main held (UPDATE, MERGE), and the branch has
    corrected these: it would bring back what was wrong. Without a key the commit finds out, since it lacks the rows that went.
    """
    begun_at = branch.history().begun_at
    if not main.schema.primary_keys or begun_at is None:
        return
    made = {
        snapshot.id: snapshot
        for after, until in spans
        for snapshot in main.snapshots.between(after, until)
        if snapshot.changes_rows and _reads_itself(main, snapshot)
    }
    if not made:
        return
    for number, keys in corrected_and_changed(main, made, branch, begun_at[1]):
        if keys.num_rows:
            first = ", ".join(f"{name} = {value!r}" for name, value in keys.slice(0, 1).to_pylist()[0].items())
            raise Unsupported(
                f"Snapshot {number} of {main.identifier} ({operation_of(made[number])}) has computed {keys.num_rows} rows "
                f"from what main held, which the branch has corrected (the first: {first}): a replay would bring back what "
                "was wrong."
            )


def _reads_itself(main: Table, snapshot: Snapshot) -> bool:
    own = main.identifier
    return any((ref.database, ref.table) == (own.database, own.table) for ref in sources_of(snapshot))


def _spans(main: Table, recovery: str, after: int, until: int) -> Iterator[tuple[int, int]]:
    """What lies between the publications of a recovery on main, as the snapshots before it and at its end. Raises Unsupported if
    a publication was taken back that a replay has passed, CommitConflict if main is rolled back at this moment.
    """
    history = main.history()
    backwards = [
        snapshot.id
        for snapshot in history.snapshots
        if snapshot.id > after
        and snapshot.changes_rows
        and not is_own(snapshot, recovery)
        and (_takes_back(snapshot) or undoes_own(snapshot, recovery))
    ]
    if backwards and backwards[-1] > until:
        raise CommitConflict(
            f"Main of {main.identifier} was rolled back meanwhile. Nothing is committed. Replay again."
        )
    own = [snapshot for snapshot in history.snapshots if is_own(snapshot, recovery)]
    undone = _undone(history, recovery)
    passed = [
        snapshot.id
        for snapshot in own
        if snapshot.id <= after
        and snapshot.id in history.taken_back
        and _is_lost(history, recovery, snapshot, undone.get(snapshot.id), after)
    ]
    if backwards and passed:
        raise Unsupported(
            f"Main of {main.identifier} has taken back, at the latest by snapshot {backwards[-1]}, what was published from "
            f"branch {recovery!r} by its snapshot {passed[-1]}: the branch would lose it as well."
        )
    begin = after
    for stays_until, resumed_at in _left_out(history, recovery, undone):
        if begin < resumed_at <= until:
            if stays_until is not None and begin < stays_until:
                yield begin, stays_until
            begin = resumed_at
    if begin < until:
        yield begin, until


def _publication(snapshot: Snapshot) -> tuple[str, int]:
    """By whom, and in which publication, what a snapshot is or undoes was committed."""
    return snapshot.commit_user.removeprefix(_UNDO), snapshot.commit_identifier


def _undone(history: BranchHistory, recovery: str) -> dict[int, Snapshot]:
    """What undid those commits of the recovery's publications that are in main no more, by their numbers."""
    undoing = {_publication(snapshot): snapshot for snapshot in history.snapshots if undoes_own(snapshot, recovery)}
    return {
        snapshot.id: undoing[_publication(snapshot)]
        for snapshot in history.snapshots
        if snapshot.id in history.taken_back and is_own(snapshot, recovery) and _publication(snapshot) in undoing
    }


def _is_lost(history: BranchHistory, recovery: str, own: Snapshot, undoing: Snapshot | None, after: int) -> bool:
    """Whether a branch that has what main did up to a snapshot would lose what the recovery had published by then, and is taken
    back since: an undo takes that back alone, unless production had written more.
    """
    if undoing is None:
        return True
    if undoing.id <= after or undoing.operation == "REVERT":
        return False
    return any(
        own.id < snapshot.id <= after and snapshot.changes_rows and not is_own(snapshot, recovery)
        for snapshot in history.snapshots
    )


def _left_out(
    history: BranchHistory, recovery: str, undone: Mapping[int, Snapshot]
) -> Iterator[tuple[int | None, int]]:
    """What of main is not replayed, ascending: up to which snapshot production's work before it is, None if it is not, and the
    snapshot after which it goes on.
    """
    standing: set[tuple[str, int]] = set()
    for snapshot in history.snapshots:
        before, undoing = snapshot.id - 1, undone.get(snapshot.id)
        if is_own(snapshot, recovery) and snapshot.id not in history.taken_back:
            # Put on top of what production had done, which stays; or in its place.
            standing.add(_publication(snapshot))
            is_on_top = snapshot.operation != "ADOPT" and snapshot.number(ROLLED_BACK) is None
            yield before if is_on_top else None, snapshot.id
        elif undoing is not None:
            # One that does not revert it alone takes back what came in between as well.
            yield before, snapshot.id if undoing.operation == "REVERT" else undoing.id
        elif undoes_own(snapshot, recovery) and _publication(snapshot) not in standing:
            yield before if snapshot.operation == "REVERT" else None, snapshot.id


def _takes_back(snapshot: Snapshot) -> bool:
    return snapshot.number(ROLLED_BACK) is not None or snapshot.operation == "REVERT"


def replayed_until(branch: Table) -> int:
    """The newest snapshot of main whose changes a replay has brought to a branch; 0 if there is none."""
    user = replay_user(branch.identifier.branch)
    return next(
        (
            snapshot.commit_identifier
            for snapshot in branch.snapshots.backwards()
            if snapshot.commit_user == user and snapshot.changes_rows
        ),
        0,
    )
