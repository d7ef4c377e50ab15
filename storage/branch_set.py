"""Branches of several tables at once: created, published and deleted together.

A publication is journalled in the warehouse: before the first table is touched, the journal names all tables with the
snapshots that they had. While it is open, whoever asks for a consistent view gets those; once it is closed, the new ones.
A crash in between leaves it open, and `recover` finishes it. Journals lie in `<warehouse>/.journal`.
"""

import json
import posixpath
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from .document import integer, read_document, sealed, texts
from .document import text as document_text
from .errors import AlreadyExists, CommitConflict, CorruptData, InvalidRequest, NotFound
from .file_io import FileIO
from .maintain.verdict import Verdict
from .metadata.snapshot import Snapshot
from .table import Table
from .write.commit import CommitId

_DIRECTORY = ".journal"
_OPEN, _CLOSED = "open-", "closed-"
_VIEW_TRIES = 20
_CLOSED_KEPT = 100
OpenTable = Callable[[str], Table]
# The properties of the commit that a table gets.
MadeFrom = Callable[[str], Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class Publication:
    """A publication that was begun: the branch, and the snapshot that each table had before (None: it had none).

    `replaces`: the branch becomes main itself, instead of being merged into it. `adopted`: tables whose main gets the
    branch's rows by one commit on top, in the place of what it did up to a snapshot; `properties` are those of the commits.
    """

    name: str
    branch: str
    before: Mapping[str, int | None]
    discard_main: bool
    replaces: bool = False
    adopted: Mapping[str, int] = field(default_factory=dict)
    properties: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def pin(self) -> str:
        """The branch that keeps, while this is open, what a main gives up."""
        return f"publication-{self.name}"

    def user(self, name: str) -> str:
        """Who commits to a main that adopts the branch; the number is the publication's."""
        return f"recovery/{self.branch}/{name.replace('.', '/')}"

    def to_json(self) -> str:
        value = {
            "branch": self.branch, "before": dict(self.before), "discardMain": self.discard_main,
            "replaces": self.replaces, "adopted": dict(self.adopted),
            "properties": {name: dict(one) for name, one in self.properties.items()},
        }  # fmt: skip
        return json.dumps(sealed(value, self.name), indent=2)

    @classmethod
    def from_json(cls, name: str, text: str) -> "Publication":
        source = f"{_DIRECTORY}/{_OPEN}{name}"
        value = read_document(text, source, name)
        before, adopted, properties = (value.get(key, {}) for key in ("before", "adopted", "properties"))
        if not all(isinstance(one, dict) for one in (before, adopted, properties)) or not name.isdigit():
            raise CorruptData(f"File {source} is damaged: it describes no publication.")
        return cls(
            name, document_text(value.get("branch"), source, "branch"),
            {key: None if one is None else integer(one, source, "before") for key, one in before.items()},
            value.get("discardMain") is True, value.get("replaces") is True,
            {key: integer(one, source, "adopted") for key, one in adopted.items()},
            {key: texts(one, source, "properties") for key, one in properties.items()},
        )  # fmt: skip


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
        return self._publish(
            Publication("", self.branch, {}, False, adopted=dict(until), properties=dict(properties)), made_from
        )

    def replace_main(self, *, discard_main: bool = False) -> dict[str, Verdict]:
        """Make the branch the main of every table, all or none; else as `publish`. Cannot be undone once it has begun."""
        return self._publish(Publication("", self.branch, {}, discard_main, replaces=True))

    def _publish(self, wanted: Publication, made_from: "MadeFrom | None" = None) -> dict[str, Verdict]:
        self._journal.refuse_open(self.tables)
        verdicts = self.verdicts()
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
        before = {name: _id(self._table(name).snapshot()) for name in self.tables}
        publication = self._journal.open(replace(wanted, before=before))
        finish(self._table, self._journal, publication, made_from)
        return verdicts


def _id(snapshot: Snapshot | None) -> int | None:
    return snapshot.id if snapshot else None


def finish(
    open_table: OpenTable, journal: "Journal", publication: Publication, made_from: "MadeFrom | None" = None
) -> None:
    """Take over what is not taken over yet, and close the publication. Can be called again after a crash."""
    for name in publication.before:
        table = open_table(name)
        try:
            if name in publication.adopted:
                properties = publication.properties.get(name) if made_from is None else made_from(name)
                # Whoever takes up the publication after a crash commits under the same number.
                commit_id = CommitId(publication.user(name), int(publication.name), exact=True)
                table.branches.adopt(
                    publication.branch, until=publication.adopted[name], commit_id=commit_id, properties=properties
                )
            elif publication.replaces:
                if table.branches.has_other(publication.branch):
                    _pin(table, publication)
                table.branches.replace_main(publication.branch, discard_main=publication.discard_main)
            else:
                _pin(table, publication)
                table.branches.merge(publication.branch, discard_main=publication.discard_main)
        except CommitConflict as error:
            raise CommitConflict(
                f"The publication of branch {publication.branch!r} stays open, for {name} cannot take it over: {error} "
                "Readers of a consistent view see none of it. Recover with discard-main, or undo it."
            ) from None
    close(open_table, journal, publication)


def _pin(table: Table, publication: Publication) -> None:
    """Keep what main is about to give up, on a branch, for those who read the state before, and for an undo."""
    verdict = table.branches.verdict(publication.branch)
    if not verdict.lost or (verdict.kind == "disjoint" and not publication.replaces):
        return
    if publication.pin not in table.branches.names():
        table.branches.create(publication.pin)
    table.branches.lengthen(publication.pin, verdict.common or 0)


def undo(open_table: OpenTable, journal: "Journal", publication: Publication) -> None:
    """Take every table back to what it had before, and close the publication.

    Raises CommitConflict, doing nothing, if somebody has written to one of them since: that would be lost; or if a main
    has been replaced.
    """
    for name, before in publication.before.items():
        table = open_table(name)
        if publication.replaces and not table.branches.has_other(publication.branch):
            raise CommitConflict(
                f"The publication of branch {publication.branch!r} cannot be undone: it is the main of {name} already. "
                "Finish it instead."
            )
        kept = _pinned(table, publication)
        for snapshot in table.branches.verdict(publication.branch).lost:
            own = (snapshot.commit_user, snapshot.commit_identifier) == (publication.user(name), int(publication.name))
            if not own and snapshot.uuid not in kept and (kept or snapshot.id > (before or 0)):
                raise CommitConflict(
                    f"The publication of branch {publication.branch!r} cannot be undone: {snapshot.commit_user} has written "
                    f"snapshot {snapshot.id} of {name} since. Finish it instead."
                )
    for name, before in publication.before.items():
        table = open_table(name)
        if _pinned(table, publication):
            table.branches.merge(publication.pin, discard_main=True)
        elif before is None:
            if table.snapshot() is not None:
                table.truncate()
        elif _id(table.snapshot()) != before:
            table.rollback_to(before)
    close(open_table, journal, publication)


def _pinned(table: Table, publication: Publication) -> dict[str | None, Snapshot]:
    """The snapshots that are kept while a publication is open, by uuid."""
    if publication.pin not in table.branches.names():
        return {}
    return {one.uuid: one for one in table.on_branch(publication.pin).store.snapshots.all()}


def close(open_table: OpenTable, journal: "Journal", publication: Publication) -> None:
    """Write down that a publication is done, and forget what was kept for it. Can be called again after a crash."""
    journal.write_closed(publication)
    for name in publication.before:
        branches = open_table(name).branches
        if publication.pin in branches.names():
            branches.delete(publication.pin)
    journal.forget_open(publication)


class Journal:
    """The publications of a warehouse."""

    def __init__(self, file_io: FileIO, root: str) -> None:
        self._file_io = file_io
        self._directory = posixpath.join(root, _DIRECTORY)

    def open(self, wanted: Publication) -> Publication:
        """Write down what is about to happen; returns it with its name."""
        number = max((int(name.split("-")[1]) for name in self._names()), default=0) + 1
        while True:
            publication = replace(wanted, name=f"{number:08d}")
            path = f"{self._directory}/{_OPEN}{publication.name}"
            if self._file_io.create_exclusively(path, publication.to_json().encode()):
                return publication
            number += 1

    def write_closed(self, publication: Publication) -> None:
        """It is done: whoever looks from now on sees the new state."""
        self._file_io.overwrite(f"{self._directory}/{_CLOSED}{publication.name}", publication.to_json().encode())

    def forget_open(self, publication: Publication) -> None:
        """Nothing is left to be done. The closed journal stays, so that a number is never used twice."""
        self._file_io.delete(f"{self._directory}/{_OPEN}{publication.name}")
        closed = sorted(name for name in self._names() if name.startswith(_CLOSED))
        self._file_io.delete_quietly([f"{self._directory}/{name}" for name in closed[:-_CLOSED_KEPT]])

    def all_open(self) -> list[Publication]:
        """Publications that were begun and are not done, in order."""
        names = self._names()
        return [one for one in self._begun(names) if f"{_CLOSED}{one.name}" not in names]

    def all_closing(self) -> list[Publication]:
        """Publications that are done, but for what was kept for them."""
        names = self._names()
        return [one for one in self._begun(names) if f"{_CLOSED}{one.name}" in names]

    def _begun(self, names: Sequence[str]) -> list[Publication]:
        found = []
        for name in sorted(one for one in names if one.startswith(_OPEN)):
            text = self._file_io.read_text_or_none(f"{self._directory}/{name}")
            if text is not None:
                found.append(Publication.from_json(name.removeprefix(_OPEN), text))
        return found

    def damaged(self) -> list[tuple[str, str]]:
        """The journals that cannot be read, and why."""
        found = []
        for name in sorted(self._names()):
            path = f"{self._directory}/{name}"
            try:
                text = self._file_io.read_text_or_none(path)
                if text is not None:
                    Publication.from_json(name.split("-", 1)[1], text)
            except CorruptData as error:
                found.append((path, str(error)))
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
        before: dict[str, Publication] = {}
        for publication in journal.all_open():
            for name in publication.before:
                before.setdefault(name, publication)
        view = {name: _fixed(open_table(name), name, before.get(name)) for name in tables}
        if journal.state() == state:
            return view
    raise CommitConflict("Publications follow each other too fast for a consistent view. Try again.")


def _fixed(table: Table, name: str, publication: Publication | None) -> Table:
    """A table as it was before a publication that is open, or as it is."""
    if publication is None:
        return table.pinned()
    number = publication.before[name]
    if number is None:
        raise NotFound(f"{name} has no snapshot before the publication that is open.")
    for kept in _pinned(table, publication).values():
        if kept.id == number:
            return table.at(kept)
    return table.at(table.snapshot(number))
