"""Branches of several tables at once: created, published and deleted together.

A publication is an entry of the journal. While it is open, whoever asks for a consistent view sees each table as it was
before the publication's commit on it; once it has ended, as it is. A crash leaves it open, and `recover` finishes or undoes
it. Follows `docs/protocols.md`, "Publications".
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from numbers import Integral

from .arguments import checked
from .branches import draft_branch, show_branch
from .errors import (
    AlreadyExists,
    CommitConflict,
    CorruptData,
    InvalidRequest,
    StorageError,
    StoreUnavailable,
    Unsupported,
)
from .identifier import check_branch_name
from .journal import Journal, Publication
from .maintain.adopt import made_for, refuse_later_changes, refuse_other_main
from .maintain.beside_publication import highest_number, refuse_open, stop_others
from .maintain.delete_branch import delete_branches, origins_of, take_back_branch
from .maintain.merge_branch import refuse_unmergeable
from .maintain.verdict import Verdict, refuse_altered
from .metadata.branch_origin import read_origin
from .metadata.history import despite_expiry
from .metadata.snapshot import Snapshot
from .metadata.table_store import TableStore
from .paths import TablePaths
from .publications.consistent_view import consistent_view
from .publications.finish import MadeFrom, finish, give_up
from .publications.traces import OpenTable, made_by, main_of
from .redaction import hidden
from .store_errors import outcome
from .write.close import closed_for
from .write.own_properties import refuse_own_properties

# So often it is looked again whether a branch was written to while it was judged.
_TRIES = 20
_HALF_WAY = (
    "Whether the branch is published is not known: `snapline branch recover` ends what of it is open, and "
    "`snapline branch verdict` says what main lacks of the branch."
)


@checked
class BranchSet:
    """The branches of one name on several tables of a catalog."""

    def __init__(self, open_table: OpenTable, journal: Journal, branch: str, tables: Sequence[str]) -> None:
        if not tables or len(set(tables)) < len(tables):
            raise InvalidRequest(f"Give the tables of the branch, each once: found {', '.join(tables) or 'none'}.")
        check_branch_name(branch)
        self._table = open_table
        self._journal = journal
        self.branch = branch
        self.tables = tuple(tables)

    def create(self, versions: Mapping[str, int | str] | None = None) -> None:
        """Create the branch on every table: at the snapshot or tag given for it, else at its latest state.

        If it cannot be created on one, it is on none, but for a table where others have changed it meanwhile: there it stays, and
        the error says so. Raises AlreadyExists if a table has it.
        """
        for name in self.tables:
            if self.branch in self._table(name).branches.names():
                raise AlreadyExists(
                    f"Branch {self.branch!r} of {name} exists. Delete it first, or choose another name."
                )
        self._refuse_others("versions", versions or {})
        pinned = {name: (versions or {}).get(name) for name in self.tables}
        # What is latest nobody has said: if it expires before it is held, there is something newer.
        stores = [self._table(name).store for name, version in pinned.items() if version is None]
        made = despite_expiry(stores, lambda: self._made(pinned))
        for name, branch in zip(pinned, made, strict=True):
            show_branch(self._table(name).branches, branch)

    def _made(self, pinned: Mapping[str, int | str | None]) -> list[TableStore]:
        """The branches, made at the versions that are given, or else at what is latest; all of them, or none."""
        view = consistent_view(self._table, self._journal, self.tables)
        made: list[TableStore] = []
        try:
            with ExitStack() as drafts:
                give_names = []
                for name, version in pinned.items():
                    tag = version if isinstance(version, str) else None
                    number = int(version) if isinstance(version, Integral) else None
                    if version is None:
                        latest = view[name].snapshot()
                        number = latest.id if latest else None
                    empty = tag is None and number is None
                    branches = self._table(name).branches
                    draft = draft_branch(branches, self.branch, tag=tag, snapshot_id=number, empty=empty)
                    give_names.append(drafts.enter_context(draft))
                # All that needs room is written before the first has its name.
                for give_name in give_names:
                    branch = give_name()
                    made.append(branch)
        except BaseException as error:
            self._take_back(made, error)
            raise
        return made

    def _refuse_others(self, what: str, named: Mapping[str, object]) -> None:
        unknown = sorted(named.keys() - set(self.tables))
        if unknown:
            raise InvalidRequest(
                f"{what} names {', '.join(unknown)}, no table of this branch: it is one of {', '.join(self.tables)}."
            )

    def _take_back(self, made: Sequence[TableStore], error: BaseException) -> None:
        """Delete the branches again that were made before an error, and let that say which of them stay."""
        for branch in made:
            try:
                take_back_branch(branch, partial(refuse_open, self._journal, [branch], branch=self.branch))
            except Exception as other:
                message = hidden(
                    f"Branch {self.branch!r} of {branch.identifier.full_name} was not taken away again: {other}"
                )
                if isinstance(error, StoreUnavailable) and isinstance(other, StoreUnavailable):
                    # As on a full disk: what each says of repeating it alone does not hold of the set.
                    message = f"{error.reason or error} {self._stays_on(branch)}"
                    error.args, error.reason = (message, *error.args[1:]), message
                    error.says_outcome, error.landed = True, None
                elif isinstance(error, StorageError):
                    error.args = (f"{error} {message}", *error.args[1:])
                else:
                    error.add_note(message)

    def _stays_on(self, branch: TableStore) -> str:
        table = branch.identifier.full_name
        return (
            f"Branch {self.branch!r} of {table} is there, and could not be taken away again. Mend the store, delete it "
            f"(`snapline delete-branch {table} --name {self.branch}`), then repeat the call."
        )

    @outcome(
        "What was done before stays done. Mend the store, then repeat the call, which goes on from there.",
        of_whole=True,
    )
    def delete(self, guard: Callable[[], None] | None = None) -> None:
        """Delete the branch of every table that has it, and the files that only it needs.

        Raises CommitConflict if it is becoming main somewhere, is part of a publication that is open, or was made anew by others
        since the call began: it stays everywhere. So it does if `guard` raises, which is asked once all are closed.
        """
        stores = [self._table(name).store for name in self.tables]

        def refuse() -> None:
            refuse_open(self._journal, stores, branch=self.branch)
            if guard is not None:
                guard()

        origins = origins_of(stores, self.branch)
        refuse()
        delete_branches(origins, self.branch, refuse)

    def verdicts(self) -> dict[str, Verdict]:
        """Whether each main can take its branch over without losing anything."""
        return self._verdicts({})

    def _verdicts(self, taken: Mapping[str, tuple[int, str]]) -> dict[str, Verdict]:
        """The same of what the branches had at some snapshots."""
        return {name: self._table(name).branches.verdict(self.branch, up_to=taken.get(name)) for name in self.tables}

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
        made_from: MadeFrom | None = None,
        *,
        points: Mapping[str, tuple[int, str]] | None = None,
        heads: Mapping[str, tuple[int, str]] | None = None,
        given_up: Mapping[str, int] | None = None,
    ) -> dict[str, Verdict]:
        """Make the rows of every main those of its branch, by one commit on top of each, all or none; returns the verdicts.

        Only what each main did up to the snapshot in `until` is replaced; tables without one are merged as by `publish`.
        `properties`: those of each commit; `made_from` may say better, once the tables before have their commits.
        `points`: a snapshot of mains, by number and identity, that the branch was made for. `heads`: the newest snapshots that
        branches had when they were judged, by number and identity (0: none). `given_up`: the snapshot of mains after which what
        they did counts as taken back.
        Raises CommitConflict, before anything is done, if a main has moved on, or does not have that snapshot, or a branch has
        been written to since it was judged. Its history stays.
        InvalidRequest that names tables given that are not among these.
        """
        by_table: dict[str, Mapping[str, object] | None] = {
            "until": until,
            "properties": properties,
            "points": points,
            "heads": heads,
            "given_up": given_up,
        }
        for what, named in by_table.items():
            self._refuse_others(what, named or {})
        for given in properties.values():
            refuse_own_properties(given)
        return self._publish(
            Publication(
                "",
                self.branch,
                {},
                False,
                adopted=dict(until),
                properties=dict(properties),
                points=dict(points or {}),
                given_up=dict(given_up or {}),
            ),
            made_from,
            heads,
        )

    def replace_main(self, *, discard_main: bool = False) -> dict[str, Verdict]:
        """Make the branch the main of every table, all or none: all mains are closed to writers before the first is replaced.

        Raises CommitConflict, on no table, if a main has diverged, unless `discard_main`, also by a writer who comes in
        between. Once every main is closed and judged it cannot be undone, and `recover` goes on with it.
        """
        return self._publish(Publication("", self.branch, {}, discard_main, replaces=True))

    def _publish(
        self,
        wanted: Publication,
        made_from: MadeFrom | None = None,
        heads: Mapping[str, tuple[int, str]] | None = None,
    ) -> dict[str, Verdict]:
        refuse_open(self._journal, self._mains())
        judged = self._judged_at_once()
        taken = {name: _point(verdict.taken) for name, verdict in judged.items()}
        written = sorted(name for name, head in (heads or {}).items() if taken[name] != head)
        if written:
            raise CommitConflict(
                f"Branch {self.branch!r} is not published, on no table: it was written to on {', '.join(written)} since it was "
                "judged. Publish it again."
            )
        self._refuse(wanted, judged)
        before = {name: _id(self._table(name).snapshot()) for name in self.tables}
        common = {name: verdict.common or 0 for name, verdict in judged.items()}
        # Looked and judged again once it is open: of several that begin at once, one goes on.
        above = max(highest_number(main, self.branch) for main in self._mains())
        token = main_of(self._table(self.tables[0])).clock.unique_name()
        publication = replace(
            wanted,
            before=before,
            common=common,
            origins=self._origins(),
            token=token,
            # A branch that becomes main itself does so with all that it has by then.
            taken={} if wanted.replaces else taken,
        )
        with outcome(_HALF_WAY, of_whole=True):
            return self._go_on(wanted, publication, above, judged, made_from)

    def _judged_at_once(self) -> dict[str, Verdict]:
        """The verdicts of what all branches had at one moment. Raises CommitConflict if no such moment is found."""
        for _ in range(_TRIES):
            judged = self.verdicts()
            branches = {name: self._table(name).on_branch(self.branch).store for name in self.tables}
            if all(
                _point(branches[name].snapshots.latest()) == _point(verdict.taken) for name, verdict in judged.items()
            ):
                return judged
        raise CommitConflict(
            f"Branch {self.branch!r} is not published, on no table: it is being written to. Publish it once that has ended."
        )

    def _go_on(
        self,
        wanted: Publication,
        written: Publication,
        above: int,
        judged: Mapping[str, Verdict],
        made_from: MadeFrom | None,
    ) -> dict[str, Verdict]:
        """Open a publication, judge once more, and carry it out."""
        publication = self._journal.open(written, above=above)
        verdicts = dict(judged)
        try:
            mains = self._mains()
            for main in mains:
                stop_others(main, publication)
            refuse_open(self._journal, mains, before=int(publication.name))
            verdicts = self._verdicts(publication.taken)
            self._refuse(wanted, verdicts)
            self._refuse_replaced(publication, verdicts)
        except BaseException as error:
            if not give_up(self._table, self._journal, publication) or not isinstance(error, StorageError):
                raise
        else:
            finish(self._table, self._journal, publication, made_from, gives_up=True)
        made = made_by(self._table, publication)
        return {name: replace(verdict, made=made[name]) for name, verdict in verdicts.items()}

    def _origins(self) -> dict[str, str]:
        """What tells each branch from a later one of its name; without those that cannot be told."""
        origins: dict[str, str] = {}
        for main in self._mains():
            with suppress(CorruptData):
                origin = read_origin(main.file_io, TablePaths(main.paths.root, self.branch))
                if origin is not None and origin.uuid is not None:
                    origins[main.identifier.full_name] = origin.uuid
        return origins

    def _mains(self) -> list[TableStore]:
        return [main_of(self._table(name)) for name in self.tables]

    def _refuse_replaced(self, publication: Publication, verdicts: Mapping[str, Verdict]) -> None:
        """Raise CommitConflict if a main is another branch since the publication was written down, with other numbers."""
        replaced = [
            name for name, verdict in verdicts.items() if (_id(verdict.judged) or 0) < (publication.before[name] or 0)
        ]
        if replaced:
            raise CommitConflict(
                f"Branch {self.branch!r} is not published, on no table: main of {', '.join(replaced)} was replaced meanwhile. "
                "Publish it again."
            )

    def _refuse(self, wanted: Publication, verdicts: Mapping[str, Verdict]) -> None:
        # Who deletes branches closes them first, and then looks which publications are open: one sees the other.
        closed = [name for name, verdict in verdicts.items() if closed_for(verdict.taken) is not None]
        if closed:
            raise CommitConflict(
                f"Branch {self.branch!r} is not published, on no table, for it is being deleted from {', '.join(closed)}. If "
                "whoever does it has died, delete it again."
            )
        ending = [
            f"{name} ({reason})"
            for name, verdict in verdicts.items()
            if (reason := closed_for(verdict.judged)) is not None
        ]
        if ending:
            raise CommitConflict(
                f"Branch {self.branch!r} is not published, on no table, for main is closed to writers: {', '.join(ending)} has "
                "begun and is not done. Wait for it; if whoever did it has died, do it again."
            )
        for name, until in wanted.adopted.items():
            table = self._table(name)
            points = made_for(table.on_branch(self.branch).store, wanted.points.get(name))
            refuse_other_main(main_of(table), self.branch, points, until)
            refuse_later_changes(main_of(table), self.branch, until, verdicts[name].judged)
        if not (wanted.replaces and wanted.discard_main):
            for name, verdict in verdicts.items():
                if verdict.altered is not None:
                    refuse_altered(main_of(self._table(name)), self._table(name).on_branch(self.branch).store)
        diverged = {
            name: verdict
            for name, verdict in verdicts.items()
            if verdict.kind == "diverged" and name not in wanted.adopted
        }
        if diverged and not wanted.discard_main:
            differences = "; ".join(f"{name} has {verdict.describe()}" for name, verdict in diverged.items())
            raise CommitConflict(
                f"Branch {self.branch!r} is not published, on no table. {differences}. Insist with discard-main, or apply the "
                "changes to main again."
            )
        for name, verdict in () if wanted.replaces else verdicts.items():
            # What no repetition could finish is found before the first table has it.
            try:
                refuse_unmergeable(main_of(self._table(name)), self._table(name).on_branch(self.branch).store, verdict)
            except (CommitConflict, Unsupported) as error:
                raise type(error)(f"Branch {self.branch!r} is not published, on no table: {error}") from None


def _point(snapshot: Snapshot | None) -> tuple[int, str]:
    """A snapshot by number and identity; 0 for none."""
    return (0, "") if snapshot is None else (snapshot.id, snapshot.identity)


def _id(snapshot: Snapshot | None) -> int | None:
    return snapshot.id if snapshot else None
