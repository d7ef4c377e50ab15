"""Branches of several tables at once: created, published and deleted together.

A publication is journalled in the warehouse: before the first table is touched, the journal names all tables with the
snapshots that they had. While it is open, whoever asks for a consistent view gets those; once it is closed, the new ones.
A crash in between leaves it open, and `recover` finishes it. Journals lie in `<warehouse>/.journal`.
"""

import json
import posixpath
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from .errors import AlreadyExists, CommitConflict, InvalidRequest, NotFound
from .file_io import FileIO
from .maintain.branch import Verdict
from .metadata.snapshot import Snapshot
from .table import Table

_DIRECTORY = ".journal"
_OPEN, _CLOSED = "open-", "closed-"
_VIEW_TRIES = 20
_CLOSED_KEPT = 100
OpenTable = Callable[[str], Table]


@dataclass(frozen=True, slots=True)
class Publication:
    """A publication that was begun: the branch, and the snapshot that each table had before (None: it had none)."""

    name: str
    branch: str
    before: Mapping[str, int | None]
    discard_main: bool

    def to_json(self) -> str:
        value = {"branch": self.branch, "before": dict(self.before), "discardMain": self.discard_main}
        return json.dumps(value, indent=2)


class BranchSet:
    """The branches of one name on several tables of a catalog."""

    def __init__(self, open_table: OpenTable, journal: "Journal", branch: str, tables: Sequence[str]) -> None:
        if not tables or len(set(tables)) < len(tables):
            raise InvalidRequest(f"Give the tables of the branch, each once: found {', '.join(tables) or 'none'}.")
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
        pinned = {name: (versions or {}).get(name) for name in self.tables}
        view = consistent_view(self._table, self._journal, self.tables)
        made: list[str] = []
        try:
            for name, version in pinned.items():
                tag = version if isinstance(version, str) else None
                number = version if isinstance(version, int) else None
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

    def delete(self) -> None:
        """Delete the branch of every table that has it, and the files that only it needs."""
        for name in self.tables:
            if self.branch in self._table(name).branches.names():
                self._table(name).branches.delete(self.branch)

    def verdicts(self) -> dict[str, Verdict]:
        """Whether each main can take its branch over without losing anything."""
        return {name: self._table(name).branches.verdict(self.branch) for name in self.tables}

    def publish(self, *, discard_main: bool = False) -> dict[str, Verdict]:
        """Make every main take its branch over, all or none; returns the verdicts.

        Raises CommitConflict, before anything is done, if a main has diverged, unless `discard_main`. If a writer comes
        in between, the publication stays open: nobody who asks for a consistent view sees half of it, and `recover` goes
        on with it, or undoes it.
        """
        self._journal.refuse_open(self.tables)
        verdicts = self.verdicts()
        diverged = {name: verdict for name, verdict in verdicts.items() if verdict.kind == "diverged"}
        if diverged and not discard_main:
            told = "; ".join(f"{name} has {verdict.describe()}" for name, verdict in diverged.items())
            raise CommitConflict(
                f"Branch {self.branch!r} is not published, on no table. {told}. Insist with discard-main, or apply the "
                "changes to main again."
            )
        before = {name: _id(self._table(name).snapshot()) for name in self.tables}
        publication = self._journal.open(self.branch, before, discard_main)
        finish(self._table, self._journal, publication)
        return verdicts


def _id(snapshot: Snapshot | None) -> int | None:
    return snapshot.id if snapshot else None


def finish(open_table: OpenTable, journal: "Journal", publication: Publication) -> None:
    """Take over what is not taken over yet, and close the publication. Can be called again after a crash."""
    for name in publication.before:
        try:
            open_table(name).branches.fast_forward(publication.branch, discard_main=publication.discard_main)
        except CommitConflict as error:
            raise CommitConflict(
                f"The publication of branch {publication.branch!r} stays open, for {name} cannot take it over: {error} "
                "Readers of a consistent view see none of it. Recover with discard-main, or undo it."
            ) from None
    journal.close(publication)


def undo(open_table: OpenTable, journal: "Journal", publication: Publication) -> None:
    """Roll every table back to what it had before, and close the publication.

    Raises CommitConflict, doing nothing, if somebody has written to one of them since: that would be lost.
    """
    for name, before in publication.before.items():
        table = open_table(name)
        for snapshot in table.branches.verdict(publication.branch).lost:
            if snapshot.id > (before or 0):
                raise CommitConflict(
                    f"The publication of branch {publication.branch!r} cannot be undone: {snapshot.commit_user} has written "
                    f"snapshot {snapshot.id} of {name} since. Finish it instead."
                )
    for name, before in publication.before.items():
        table = open_table(name)
        if before is None:
            if table.snapshot() is not None:
                table.truncate()
        elif _id(table.snapshot()) != before:
            table.rollback_to(before)
    journal.close(publication)


class Journal:
    """The publications of a warehouse."""

    def __init__(self, file_io: FileIO, root: str) -> None:
        self._file_io = file_io
        self._directory = posixpath.join(root, _DIRECTORY)

    def open(self, branch: str, before: Mapping[str, int | None], discard_main: bool) -> Publication:
        """Write down what is about to happen."""
        number = max((int(name.split("-")[1]) for name in self._names()), default=0) + 1
        while True:
            publication = Publication(f"{number:08d}", branch, dict(before), discard_main)
            path = f"{self._directory}/{_OPEN}{publication.name}"
            if self._file_io.create_exclusively(path, publication.to_json().encode()):
                return publication
            number += 1

    def close(self, publication: Publication) -> None:
        """It is done. The closed journal is written before the open one goes, so that a number is never used twice."""
        self._file_io.overwrite(f"{self._directory}/{_CLOSED}{publication.name}", publication.to_json().encode())
        self._file_io.delete(f"{self._directory}/{_OPEN}{publication.name}")
        closed = sorted(name for name in self._names() if name.startswith(_CLOSED))
        self._file_io.delete_quietly([f"{self._directory}/{name}" for name in closed[:-_CLOSED_KEPT]])

    def all_open(self) -> list[Publication]:
        """Publications that were begun and are not done, in order."""
        found = []
        names = self._names()
        for name in sorted(one for one in names if one.startswith(_OPEN)):
            number = name.removeprefix(_OPEN)
            text = self._file_io.read_text_or_none(f"{self._directory}/{name}")
            if text is not None and f"{_CLOSED}{number}" not in names:
                value = json.loads(text)
                found.append(Publication(number, value["branch"], value["before"], value["discardMain"]))
        return found

    def refuse_open(self, tables: Sequence[str]) -> None:
        """Raise CommitConflict if a publication of one of the tables is open."""
        for publication in self.all_open():
            if both := sorted(set(tables) & set(publication.before)):
                raise CommitConflict(
                    f"The publication of branch {publication.branch!r} is open and has to do with {', '.join(both)}. "
                    "Finish or undo it first, by `snapline branch recover`."
                )

    def state(self) -> tuple[str, ...]:
        """What there is: changes whenever a publication begins or ends."""
        return tuple(sorted(self._names()))

    def _names(self) -> list[str]:
        names = (file.name for file in self._file_io.list_files(self._directory))
        return [name for name in names if name.startswith((_OPEN, _CLOSED))]


def consistent_view(open_table: OpenTable, journal: "Journal", tables: Sequence[str]) -> dict[str, Table]:
    """Tables fixed at snapshots of which no publication is half to be seen. Raises CommitConflict if that takes too long."""
    for _ in range(_VIEW_TRIES):
        state = journal.state()
        before: dict[str, int | None] = {}
        for publication in journal.all_open():
            for name, number in publication.before.items():
                before.setdefault(name, number)
        view: dict[str, Table] = {}
        for name in tables:
            table = open_table(name)
            number = before[name] if name in before else _id(table.snapshot())
            if number is not None:
                table = table.at(number)
            elif name in before:
                raise NotFound(f"{name} has no snapshot before the publication that is open.")
            view[name] = table
        if journal.state() == state:
            return view
    raise CommitConflict("Publications follow each other too fast for a consistent view. Try again.")
