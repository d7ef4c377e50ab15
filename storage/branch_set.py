"""Branches of several tables at once: created, published and deleted together.

A publication is an entry of the journal. While it is open, whoever asks for a consistent view sees each table as it was
before the publication's commit on it; once it has ended, as it is. A crash leaves it open, and `recover` finishes or undoes
it. Follows `docs/protocols.md`, "Publications".
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from numbers import Integral
from typing import Literal

from .arguments import checked
from .errors import AlreadyExists, CommitConflict, InvalidRequest, NotFound
from .identifier import MAIN_BRANCH, check_branch_name
from .journal import PUBLISHED, REPLACING, UNDO_USER, UNDONE, Journal, Outcome, Publication
from .maintain.branch import delete_branches
from .maintain.revert import revert, reverting
from .maintain.rollback import effective_history, rollback_to
from .maintain.verdict import INSIST, Verdict
from .metadata.snapshot import Snapshot
from .metadata.table_store import TableStore
from .store_errors import outcome
from .table import Table
from .write.close import closed_for, fence
from .write.commit import CommitId, Guard, Overwrite
from .write.own_properties import refuse_own_properties

_VIEW_TRIES = 20
OpenTable = Callable[[str], Table]
# The properties of the commit that a table gets.
MadeFrom = Callable[[str], Mapping[str, str]]


@checked
class BranchSet:
    """The branches of one name on several tables of a catalog."""

    def __init__(self, open_table: OpenTable, journal: "Journal", branch: str, tables: Sequence[str]) -> None:
        if not tables or len(set(tables)) < len(tables):
            raise InvalidRequest(f"Give the tables of the branch, each once: found {', '.join(tables) or 'none'}.")
        check_branch_name(branch)
        self._table = open_table
        self._journal = journal
        self.branch = branch
        self.tables = tuple(tables)

    def create(self, versions: Mapping[str, int | str] | None = None) -> None:
        """Create the branch on every table: at the snapshot or tag given for it, else at its latest state.

        If it cannot be created on one, it is on none. Raises AlreadyExists if a table has it.
        """
        for name in self.tables:
            if self.branch in self._table(name).branches.names():
                raise AlreadyExists(
                    f"Branch {self.branch!r} of {name} exists. Delete it first, or choose another name."
                )
        unknown = sorted((versions or {}).keys() - set(self.tables))
        if unknown:
            raise InvalidRequest(
                f"versions names {', '.join(unknown)}, no table of this branch: it is one of {', '.join(self.tables)}."
            )
        pinned = {name: (versions or {}).get(name) for name in self.tables}
        view = consistent_view(self._table, self._journal, self.tables)
        made: list[str] = []
        try:
            for name, version in pinned.items():
                tag = version if isinstance(version, str) else None
                number = int(version) if isinstance(version, Integral) else None
                if version is None:
                    latest = view[name].snapshot()
                    number = latest.id if latest else None
                self._table(name).branches.create(
                    self.branch, tag=tag, snapshot_id=number, empty=tag is None and number is None
                )
                made.append(name)
        except BaseException:
            for name in made:
                self._table(name).branches.delete(self.branch)
            raise

    @outcome("What was done before stays done. Mend the store, then repeat the call, which goes on from there.")
    def delete(self) -> None:
        """Delete the branch of every table that has it, and the files that only it needs.

        Raises CommitConflict if it is becoming main somewhere, or is part of a publication that is open: it stays everywhere.
        """
        refuse_open = partial(self._journal.refuse_open, self.tables, branch=self.branch)
        refuse_open()
        delete_branches([self._table(name).store for name in self.tables], self.branch, refuse_open)

    def verdicts(self) -> dict[str, Verdict]:
        """Whether each main can take its branch over without losing anything."""
        return {name: self._table(name).branches.verdict(self.branch) for name in self.tables}

    def publish(self, *, discard_main: bool = False) -> dict[str, Verdict]:
        """Make every main take its branch over, all or none; returns the verdicts.

        Raises CommitConflict, before anything is done, if a main has diverged, unless `discard_main`. If a writer comes
        in between, the publication stays open: nobody who asks for a consistent view sees half of it, and `recover` goes
        on with it, or undoes it.
        """
        return self._publish(Publication("", self.branch, {}, discard_main))

    def adopt(
        self,
        until: Mapping[str, int],
        properties: Mapping[str, Mapping[str, str]],
        made_from: "MadeFrom | None" = None,
    ) -> dict[str, Verdict]:
        """Make the rows of every main those of its branch, by one commit on top of each, all or none; returns the verdicts.

        Only what each main did up to the snapshot in `until` is replaced; tables without one are merged as by `publish`.
        `properties`: those of each commit; `made_from` may say better, once the tables before have their commits.
        Raises CommitConflict, before anything is done, if a main has moved on. Its history stays.
        """
        for given in properties.values():
            refuse_own_properties(given)
        return self._publish(
            Publication("", self.branch, {}, False, adopted=dict(until), properties=dict(properties)), made_from
        )

    def replace_main(self, *, discard_main: bool = False) -> dict[str, Verdict]:
        """Make the branch the main of every table, all or none; else as `publish`. Cannot be undone once it has begun."""
        return self._publish(Publication("", self.branch, {}, discard_main, replaces=True))

    def _publish(self, wanted: Publication, made_from: "MadeFrom | None" = None) -> dict[str, Verdict]:
        self._journal.refuse_open(self.tables)
        self._refuse(wanted, self.verdicts())
        before = {name: _id(self._table(name).snapshot()) for name in self.tables}
        # Looked and judged again once it is open: of several that begin at once, one goes on.
        publication = self._journal.open(replace(wanted, before=before))
        try:
            self._journal.refuse_open(self.tables, before=publication.name)
            verdicts = self.verdicts()
            self._refuse(wanted, verdicts)
        except BaseException:
            undo(self._table, self._journal, publication)
            raise
        finish(self._table, self._journal, publication, made_from)
        made = made_by(self._table, publication)
        return {name: replace(one, made=made[name]) for name, one in verdicts.items()}

    def _refuse(self, wanted: Publication, verdicts: Mapping[str, Verdict]) -> None:
        # Who deletes branches closes them first, and then looks which publications are open: one sees the other.
        closed = [name for name, verdict in verdicts.items() if closed_for(verdict.taken) is not None]
        if closed:
            raise CommitConflict(
                f"Branch {self.branch!r} is not published, on no table, for it is being deleted from {', '.join(closed)}. If "
                "whoever does it has died, delete it again."
            )
        diverged = {
            name: verdict
            for name, verdict in verdicts.items()
            if verdict.kind == "diverged" and name not in wanted.adopted
        }
        if diverged and not wanted.discard_main:
            told = "; ".join(f"{name} has {verdict.describe()}" for name, verdict in diverged.items())
            raise CommitConflict(
                f"Branch {self.branch!r} is not published, on no table. {told}. Insist with discard-main, or apply the "
                "changes to main again."
            )


def _id(snapshot: Snapshot | None) -> int | None:
    return snapshot.id if snapshot else None


def finish(
    open_table: OpenTable, journal: Journal, publication: Publication, made_from: "MadeFrom | None" = None
) -> None:
    """Take over what is not taken over yet, and end the publication. Can be called again after a crash, and by several.

    Raises CommitConflict, leaving it open, if a main cannot take its branch over, or if somebody undoes it.
    """
    if publication.replaces and journal.decide(publication, REPLACING) == UNDONE:
        raise _undone(publication)
    for name in publication.before:
        table = open_table(name)
        try:
            _take_over(table, name, journal, publication, made_from)
        except CommitConflict as error:
            if journal.outcome(publication) == UNDONE:
                raise _undone(publication) from None
            raise CommitConflict(
                f"The publication of branch {publication.branch!r} stays open, for {name} cannot take it over: "
                f"{str(error).removesuffix(INSIST)}Readers of a consistent view see none of it. Finish it by `snapline branch "
                "recover --discard-main`, or undo it by `--undo`."
            ) from None
    if not publication.replaces and journal.decide(publication, PUBLISHED) == UNDONE:
        raise _undone(publication)
    clean_up(open_table, journal, publication)


def _take_over(
    table: Table, name: str, journal: Journal, publication: Publication, made_from: "MadeFrom | None"
) -> None:
    branches = table.branches
    # Whoever takes up the publication after a crash, or beside another, commits under the same number.
    commit_id = CommitId(publication.user(name), int(publication.name), exact=True)

    def refuse_ended(latest: Snapshot | None) -> None:
        """Asked with the newest snapshot of each try: who undoes decides first, and then puts a commit on top."""
        outcome = journal.outcome(publication)
        if outcome not in (None, REPLACING):
            raise CommitConflict(f"The publication of branch {publication.branch!r} is {outcome}.")

    guard = _pinned(_main(table), publication, refuse_ended)
    if name in publication.adopted:
        properties = publication.properties.get(name) if made_from is None else made_from(name)
        branches.adopt(
            publication.branch, until=publication.adopted[name], commit_id=commit_id, properties=properties, guard=guard
        )
    elif publication.replaces:
        pinned = _pinned(table.on_branch(publication.branch).store, publication, refuse_ended)
        branches.replace_main(publication.branch, discard_main=publication.discard_main, guard=pinned)
    elif table.new_commit(commit_id).find_committed() is None:
        branches.merge(publication.branch, discard_main=publication.discard_main, commit_id=commit_id, guard=guard)


def _pinned(keeper: TableStore, publication: Publication, refuse: Guard) -> Guard:
    """A guard that also keeps, by a tag, the snapshot that the publication is about to be put on: readers are shown it."""

    def pin(latest: Snapshot | None) -> None:
        refuse(latest)
        while latest is not None:
            pinned = keeper.tags.find(publication.tag)
            # Never backwards: whoever does the same may have slept.
            if pinned is not None and pinned.snapshot.id >= latest.id:
                return
            if pinned is None:
                with suppress(AlreadyExists):
                    keeper.tags.create(publication.tag, latest)
            else:
                keeper.tags.replace_if(pinned, latest)

    return pin


def _main(table: Table) -> TableStore:
    return table.on_branch(MAIN_BRANCH).store


def _undone(publication: Publication) -> CommitConflict:
    return CommitConflict(
        f"The publication of branch {publication.branch!r} is being undone by somebody else: on no table. Publish it again."
    )


def _commit_of(
    main: TableStore, publication: Publication, name: str, newest: Snapshot | None = None
) -> Snapshot | None:
    """The commit by which a publication is on a main, up to its newest snapshot, if it is. It does not expire."""
    own = (publication.user(name), int(publication.name))
    history = _since(main, newest, publication.before[name] or 0)
    return next((one for one in history if (one.commit_user, one.commit_identifier) == own), None)


def undo(open_table: OpenTable, journal: Journal, publication: Publication, *, discard_main: bool = False) -> None:
    """Take every table back to what it was before the publication's commit on it, and end the publication.

    Needs neither the branch nor tables that are gone. Raises CommitConflict, doing nothing, if somebody has written to a
    table since, unless `discard_main`; or if mains are being replaced, or it is published.
    """
    if not discard_main and journal.outcome(publication) is None:
        for name in publication.before:
            _refuse_later(open_table, publication, name)
    outcome = journal.decide(publication, UNDONE)
    if outcome != UNDONE:
        how = "is published already" if outcome == PUBLISHED else "replaces mains already, which cannot be undone"
        raise CommitConflict(f"The publication of branch {publication.branch!r} {how}. Finish it instead.")
    for name in publication.before:
        table = _table_or_none(open_table, name)
        if table is not None:
            _take_back(table, publication, name, discard_main=discard_main)
    clean_up(open_table, journal, publication)


def _refuse_later(open_table: OpenTable, publication: Publication, name: str) -> None:
    table = _table_or_none(open_table, name)
    own = None if table is None else _commit_of(_main(table), publication, name)
    if table is None or own is None:
        return
    for snapshot in _main(table).snapshots.backwards():
        if snapshot.id <= own.id:
            return
        if snapshot.changes_rows:
            raise CommitConflict(
                f"The publication of branch {publication.branch!r} cannot be undone: {snapshot.commit_user} has written "
                f"snapshot {snapshot.id} of {name} since. Finish it instead, or insist with discard-main."
            )


def _take_back(table: Table, publication: Publication, name: str, *, discard_main: bool) -> None:
    """Take a main back to before a publication's commit. Whoever is about to make that commit finds its number taken."""
    main = _main(table)
    # First, so that no commit that was judged before the decision comes after the look.
    fence(main, f"the undo of publication {int(publication.name)}")
    own = _commit_of(main, publication, name)
    commit_id = CommitId(f"{UNDO_USER}{publication.user(name)}", int(publication.name), exact=True)
    if own is None or table.new_commit(commit_id).find_committed() is not None:
        return
    if all(snapshot.id != own.id for snapshot in effective_history(list(main.snapshots.all()))):
        # Somebody has rolled it back already.
        return
    tag = main.tags.find(publication.tag)
    later = [one for one in _since(main, None, own.id) if one.changes_rows]
    if later and not discard_main:
        # Somebody wrote after it was decided: that stays.
        revert(main, own, commit_id)
    elif tag is None:
        commit = table.on_branch(MAIN_BRANCH).new_commit(commit_id)
        commit.commit([], overwrite=Overwrite(), operation="TRUNCATE", own_properties=reverting(own))
    else:
        judged = None if discard_main else own
        rollback_to(main, tag.snapshot, kept_by=tag, judged=judged, commit_id=commit_id)


def clean_up(open_table: OpenTable, journal: Journal, publication: Publication) -> None:
    """Say that a publication has ended, and forget what was kept for it. Can be called again after a crash."""
    journal.close(publication)
    for name in publication.before:
        table = _table_or_none(open_table, name)
        if table is not None:
            table.tags.delete_reserved(publication.tag)
    journal.forget(publication)


def _table_or_none(open_table: OpenTable, name: str) -> Table | None:
    try:
        return open_table(name)
    except NotFound:
        return None


def consistent_view(open_table: OpenTable, journal: Journal, tables: Sequence[str]) -> dict[str, Table]:
    """Tables fixed at snapshots of which no publication is half to be seen. Raises CommitConflict if that takes too long."""
    for _ in range(_VIEW_TRIES):
        state = journal.state()
        open_publications: dict[str, Publication] = {}
        for publication in journal.all_open():
            for name in publication.before:
                open_publications.setdefault(name, publication)
        try:
            view = {name: _fixed(open_table(name), name, open_publications.get(name)) for name in tables}
        except NotFound:
            # What a publication kept goes with it.
            if journal.state() == state:
                raise
            continue
        if journal.state() == state:
            return view
    raise CommitConflict("Publications follow each other too fast for a consistent view. Try again.")


def _fixed(table: Table, name: str, publication: Publication | None) -> Table:
    """A table as it was before the commit of a publication that is open, or as it is."""
    if publication is None:
        return table.pinned()
    # Looked at in this order: the tag is there before the commit is.
    latest = table.pinned()
    main = latest.store
    tag = main.tags.find(publication.tag)
    newest = latest.snapshot()
    if publication.replaces:
        is_on = not table.branches.has_other(publication.branch)
    else:
        is_on = newest is not None and _commit_of(main, publication, name, newest) is not None
    if not is_on:
        return latest
    if tag is None:
        raise NotFound(f"{name} has no snapshot before the publication that is open.")
    return table.at(tag.snapshot)


def _since(main: TableStore, newest: Snapshot | None, after_id: int) -> list[Snapshot]:
    history = []
    for snapshot in main.snapshots.backwards(newest):
        if snapshot.id <= after_id:
            break
        history.append(snapshot)
    return history


@dataclass(frozen=True, slots=True)
class OpenPublication:
    """A publication that has begun and not ended. `done`: the tables whose main has its commit, or is its branch already."""

    number: int
    branch: str
    tables: tuple[str, ...]
    done: tuple[str, ...]
    how: Literal["merges", "replaces main", "adopts"]
    outcome: Outcome | None

    def __str__(self) -> str:
        decided = {None: "nothing is decided", UNDONE: "it is being undone", REPLACING: "mains are being replaced"}
        return (
            f"Publication {self.number} of branch {self.branch!r} ({self.how}) is open: {', '.join(self.done) or 'none'} of "
            f"{', '.join(self.tables)} done, {decided.get(self.outcome, self.outcome)}. {self.advice()}"
        )

    def advice(self) -> str:
        """What to do."""
        if self.outcome == UNDONE:
            return "Unless somebody is at it, go on by `snapline branch recover --undo`."
        undo = "" if self.outcome == REPLACING else ", or undo it by `snapline branch recover --undo`"
        return f"Unless somebody is at it, finish it by `snapline branch recover`{undo}."


def made_by(open_table: OpenTable, publication: Publication) -> dict[str, Snapshot | None]:
    """For each table the snapshot by which its main has a publication; None if there is none, or it had all of it before."""
    made: dict[str, Snapshot | None] = {}
    for name in publication.before:
        table = _table_or_none(open_table, name)
        main = None if table is None else _main(table)
        if main is not None and publication.replaces:
            made[name] = main.snapshots.latest()
        else:
            made[name] = None if main is None else _commit_of(main, publication, name)
    return made


def open_publications(open_table: OpenTable, journal: Journal) -> list[OpenPublication]:
    """The publications that are open, in order."""
    return [
        OpenPublication(
            int(one.name), one.branch, tuple(one.before), tuple(name for name in one.before if _is_done(open_table, one, name)),
            "replaces main" if one.replaces else "adopts" if one.adopted else "merges", journal.outcome(one),
        )
        for one in journal.all_open()
    ]  # fmt: skip


def _is_done(open_table: OpenTable, publication: Publication, name: str) -> bool:
    table = _table_or_none(open_table, name)
    if table is None:
        return False
    if publication.replaces:
        with suppress(NotFound):
            return not table.branches.has_other(publication.branch)
        return False
    return _commit_of(_main(table), publication, name) is not None


def foresee(
    open_table: OpenTable, journal: Journal, publication: Publication, *, undo: bool = False, discard_main: bool = False
) -> dict[str, str]:
    """What finishing a publication, or undoing it, would do to each table, in words. Nothing is done."""
    if journal.outcome(publication) == REPLACING and undo:
        return dict.fromkeys(publication.before, "refused: mains are being replaced already, which cannot be undone")
    undo = undo or journal.outcome(publication) == UNDONE
    return {
        name: _foreseen(open_table, publication, name, undo=undo, discard_main=discard_main)
        for name in publication.before
    }


def _foreseen(open_table: OpenTable, publication: Publication, name: str, *, undo: bool, discard_main: bool) -> str:
    table = _table_or_none(open_table, name)
    is_done = _is_done(open_table, publication, name)
    try:
        if undo:
            if not is_done or table is None:
                return "stays as it is"
            if not discard_main:
                _refuse_later(open_table, publication, name)
            tag = _main(table).tags.find(publication.tag)
            return "becomes empty again" if tag is None else f"goes back to snapshot {tag.snapshot.id}"
        if is_done:
            return "has it already"
        if table is None:
            return "refused: there is no such table any more"
        verdict = table.branches.verdict(publication.branch)
        insists = discard_main or publication.discard_main or name in publication.adopted
        if verdict.kind == "diverged" and not insists:
            return f"refused: {verdict.describe()}"
        return f"takes the branch over ({verdict.describe()})"
    except (CommitConflict, NotFound) as error:
        return f"refused: {error}"
