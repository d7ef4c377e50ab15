"""The publications of a warehouse, in files that are created if absent: who is first decides.

`open-<number>` says what is to be published, `outcome-<number>` how it ends, `closed-<number>` that it has ended. They lie
in `<warehouse>/.journal`. Of those that have ended only the highest number keeps its files, so that no number is given
twice. Follows `docs/protocols.md`, "Publications".
"""

import json
import posixpath
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from .document import integer, read_document, sealed, text, texts
from .errors import CommitConflict, CorruptData, InvalidRequest
from .file_io import FileIO
from .identifier import PUBLICATION_PREFIX, Identifier, check_branch_name

DIRECTORY = ".journal"
_OPEN, _OUTCOME, _CLOSED = "open-", "outcome-", "closed-"
# Whatever else lies there, such as a copy of one, is none.
_ENTRY = re.compile(r"(?:open|outcome|closed)-([0-9]+)")
# Files that could not be read, kept for whoever wants to know what was in them.
_SET_ASIDE = "damaged-"
DISCARD_DAMAGED = "snapline branch recover --discard-damaged"
# How the names begin of who commits to a main in a publication, and of who undoes that.
PUBLICATION_USER, RECOVERY_USER, UNDO_USER = "publication/", "recovery/", "undo/"
# Published: every main has its commit, and readers see them. Undone: every main goes back. Replacing: mains are being
# replaced, which cannot be undone; readers see it once it is closed. Ended: by one of these, and nobody remembers which.
Outcome = Literal["published", "undone", "replacing", "ended"]
PUBLISHED: Final = "published"
UNDONE: Final = "undone"
REPLACING: Final = "replacing"
ENDED: Final = "ended"
_DECISIONS: Final = (PUBLISHED, UNDONE, REPLACING)


@dataclass(frozen=True, slots=True)
class Publication:
    """A publication that was begun: the branch, and the snapshot that each table had before (None: it had none).

    `replaces`: the branch becomes main itself, instead of being merged into it. `adopted`: tables whose main gets the
    branch's rows by one commit on top, in the place of what it did up to a snapshot; `properties` are those of the commits.
    `common`: the last snapshot that each main and its branch had in common (0: none). `points`: a snapshot that the history of
    a main that adopts must still have, by number and identity. `origins`: what tells each branch from a later one of its name,
    for those that have an ORIGIN. `taken`: the newest snapshot of each branch when it was judged, by number and identity (0: it
    had none): that is published, whatever is written to the branch meanwhile; none of a branch that becomes main itself.
    `given_up`: of tables in `adopted`, the snapshot of main after which what main did is given up.
    `token` tells it from any other one of its number: who has slept may give a number that was forgotten, for a moment. Those of
    versions before have none.
    """

    name: str
    branch: str
    before: Mapping[str, int | None]
    discard_main: bool
    replaces: bool = False
    adopted: Mapping[str, int] = field(default_factory=dict)
    properties: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    common: Mapping[str, int] = field(default_factory=dict)
    points: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    token: str = ""
    origins: Mapping[str, str] = field(default_factory=dict)
    taken: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    given_up: Mapping[str, int] = field(default_factory=dict)

    def first_judged(self, name: str) -> int:
        """The first snapshot of a table's main, and of its branch, by which it is told whether main can take the branch over."""
        # Those of versions before say what was before, and nothing of this.
        return min(self.common.get(name, self.before[name] or 0) + 1, self.before[name] or 1)

    @property
    def tag(self) -> str:
        """The tag that keeps, while this is open, what a main was before."""
        return f"{PUBLICATION_PREFIX}{self.name}"

    def user(self, name: str) -> str:
        """Who commits to a main; the identifier is the publication's number."""
        what = RECOVERY_USER if name in self.adopted else PUBLICATION_USER
        return f"{what}{self.branch}/{name.replace('.', '/')}"

    def to_json(self) -> str:
        """The publication as its file holds it."""
        value = {
            "branch": self.branch,
            "before": dict(self.before),
            "discardMain": self.discard_main,
            "replaces": self.replaces,
            "adopted": dict(self.adopted),
            "common": dict(self.common),
            "properties": {name: dict(properties) for name, properties in self.properties.items()},
            "points": {name: list(point) for name, point in self.points.items()},
            "token": self.token,
            "origins": dict(self.origins),
            "taken": {name: list(point) for name, point in self.taken.items()},
            "givenUp": dict(self.given_up),
        }
        return json.dumps(sealed(value, self.name), indent=2)

    @classmethod
    def from_json(cls, name: str, content: str, source: str) -> "Publication":
        """Read a journal file. Raises CorruptData that names `source`."""
        value = read_document(content, source, name)
        keys = ("before", "adopted", "properties", "common", "points", "origins", "taken", "givenUp")
        parts = [value.get(key, {}) for key in keys]
        before, adopted, properties, common, points, origins, taken, given_up = parts
        if not all(isinstance(part, dict) for part in parts) or not name.isdecimal():
            raise CorruptData(f"File {source} is damaged: it describes no publication.")
        branch = text(value.get("branch"), source, "branch")
        try:
            check_branch_name(branch)
            tables = {table: Identifier.parse(table).full_name for part in parts for table in part}
        except InvalidRequest as error:
            raise CorruptData(f"File {source} is damaged: {error}") from None
        if any(table != plain for table, plain in tables.items()):
            raise CorruptData(f"File {source} is damaged: {', '.join(tables)} are not names of tables.")
        return cls(
            name,
            branch,
            {key: None if part is None else integer(part, source, "before") for key, part in before.items()},
            value.get("discardMain") is True,
            value.get("replaces") is True,
            {key: integer(part, source, "adopted") for key, part in adopted.items()},
            {key: texts(part, source, "properties") for key, part in properties.items()},
            {key: integer(part, source, "common") for key, part in common.items()},
            {key: _point(part, source) for key, part in points.items()},
            text(value.get("token", ""), source, "token"),
            {key: text(part, source, "origins") for key, part in origins.items()},
            {key: _point(part, source) for key, part in taken.items()},
            {key: integer(part, source, "givenUp") for key, part in given_up.items()},
        )


def _point(value: Any, source: str) -> tuple[int, str]:
    if not isinstance(value, list) or len(value) != 2:
        raise CorruptData(f"File {source} is damaged: points are not numbers with identities.")
    return integer(value[0], source, "points"), text(value[1], source, "points")


@dataclass(frozen=True, slots=True)
class DamagedEntry:
    """A publication of which the journal cannot tell whether it is open: the file `path` cannot be read, `why` says that.

    `publication`: what was begun, if that can be read, and only how it ends cannot.
    """

    name: str
    path: str
    why: str
    publication: Publication | None = None

    @property
    def tag(self) -> str:
        """The tag that keeps what a main was before."""
        return f"{PUBLICATION_PREFIX}{self.name}"


@dataclass(frozen=True, slots=True)
class Entries:
    """The publications of a journal, in order: those that have begun and not ended for readers, those that have, of which
    something is left to be cleaned, and those of which that cannot be told. `damaged_left`: those that have ended, too, but
    what was to be published cannot be read.
    """

    open: Sequence[Publication]
    left: Sequence[Publication]
    damaged: Sequence[DamagedEntry]
    damaged_left: Sequence[DamagedEntry]


class Journal:
    """The publications of a warehouse."""

    def __init__(self, file_io: FileIO, root: str) -> None:
        self._file_io = file_io
        self._directory = posixpath.join(root, DIRECTORY)

    @classmethod
    def of_table(cls, file_io: FileIO, table_root: str) -> "Journal":
        """The journal of the warehouse that a table lies in, as `<warehouse>/<database>.db/<table>`."""
        return cls(file_io, posixpath.dirname(posixpath.dirname(table_root)))

    def open(self, wanted: Publication, *, above: int = 0) -> Publication:
        """Write down what is about to happen; returns it with its name, a number above those of the journal and `above`.

        Then look for those with a lower number: whoever has a higher number sees this one.
        """
        number = max((_number(name) for name in self._names()), default=0)
        number = max(number, above) + 1
        while True:
            publication = replace(wanted, name=f"{number:08d}")
            path, content = self._path(_OPEN, publication.name), publication.to_json().encode()
            if self._file_io.create_exclusively(path, content):
                ended = max((_number(name) for name in self._names() if not name.startswith(_OPEN)), default=0)
                if ended < number:
                    return publication
                # Begun and ended while this one slept, and perhaps forgotten.
                self._file_io.delete_if(path, content)
                number = ended
            number += 1

    def decide(self, publication: Publication, outcome: Outcome) -> Outcome:
        """Say how a publication ends, unless somebody has: returns what holds."""
        path = self._path(_OUTCOME, publication.name)
        if not self._file_io.create_exclusively(path, outcome.encode()):
            return self.outcome(publication) or outcome
        if self._is_begun(publication) or self._is_there(_CLOSED, publication.name):
            return outcome
        # It had ended, and was forgotten.
        self._file_io.delete_if(path, outcome.encode())
        return ENDED

    def outcome(self, publication: Publication) -> Outcome | None:
        """How a publication ends; None as long as that is open."""
        name = publication.name
        said = self._decision(name)
        if said is not None:
            return said
        is_closed = self._is_there(_CLOSED, name)
        if not is_closed and self._is_begun(publication):
            return None
        # Decided, or forgotten, since the first look.
        return self._decision(name) or (PUBLISHED if is_closed else ENDED)

    def _decision(self, name: str) -> Outcome | None:
        path = self._path(_OUTCOME, name)
        said = self._file_io.read_text_or_none(path)
        for outcome in _DECISIONS:
            if said == outcome:
                return outcome
        if said is not None:
            raise CorruptData(f"{path} says {said[:40]!r}, not how a publication ends.")
        return None

    def close(self, publication: Publication) -> None:
        """Say that a publication has ended as was decided."""
        self._file_io.create_exclusively(self._path(_CLOSED, publication.name), b"{}")

    def is_closed(self, publication: Publication) -> bool:
        """Whether a publication has ended, whatever its other files say: who cleans up after it says so first."""
        return self._is_there(_CLOSED, publication.name) or not self._is_begun(publication)

    def forget(self, publication: Publication) -> None:
        """Nothing of a publication that is closed is left to be done. Of those that have ended the highest number stays.

        Whoever slept through all that finds no entry any more, by which he knows that it has ended.
        """
        self._file_io.delete(self._path(_OPEN, publication.name))
        names = self._names()
        newest = max((_number(name) for name in names if name.startswith(_CLOSED)), default=0)
        ended = {name.split("-")[1] for name in names if not name.startswith(_OPEN) and _number(name) < newest}
        # An entry comes before its outcome: what has an outcome and no entry has ended, whatever the list has missed.
        old = [name for name in sorted(ended) if not self._is_there(_OPEN, name)]
        self._file_io.delete_quietly([self._path(kind, name) for name in old for kind in (_CLOSED, _OUTCOME)])

    def all_open(self) -> Sequence[Publication]:
        """Publications that were begun and have not ended for readers, in order, as far as their files can be read."""
        return self.entries().open

    def entries(self) -> Entries:
        """What there is of publications that were begun. Those that have ended are no trouble, whatever they look like."""
        begun: list[Publication] = []
        left: list[Publication] = []
        damaged: list[DamagedEntry] = []
        damaged_left: list[DamagedEntry] = []
        for name in sorted(name.removeprefix(_OPEN) for name in self._names() if name.startswith(_OPEN)):
            try:
                publication = self._publication(name)
            except CorruptData as error:
                has_ended = False
                with suppress(CorruptData):
                    has_ended = self._has_ended(name)
                (damaged_left if has_ended else damaged).append(DamagedEntry(name, self._path(_OPEN, name), str(error)))
                continue
            try:
                if publication is not None:
                    (left if self._has_ended(name) else begun).append(publication)
            except CorruptData as error:
                damaged.append(DamagedEntry(name, self._path(_OUTCOME, name), str(error), publication))
        return Entries(begun, left, damaged, damaged_left)

    def _publication(self, name: str) -> Publication | None:
        """What was begun under a number; None if that has gone."""
        path = self._path(_OPEN, name)
        content = self._file_io.read_text_or_none(path)
        return None if content is None else Publication.from_json(name, content, path)

    def _has_ended(self, name: str) -> bool:
        """Whether a publication has ended for readers. Raises CorruptData if that cannot be told."""
        return self._is_there(_CLOSED, name) or self.outcome(_stub(name)) in (PUBLISHED, ENDED)

    def damaged(self) -> list[tuple[str, str]]:
        """The journal's files that cannot be read, each with why and with what ends that; then those that were set aside."""
        damaged: list[tuple[str, str]] = []
        for name in sorted(self._names()):
            try:
                if name.startswith(_OPEN):
                    self._publication(name.removeprefix(_OPEN))
                elif name.startswith(_OUTCOME):
                    self._decision(name.removeprefix(_OUTCOME))
            except CorruptData as error:
                damaged.append((f"{self._directory}/{name}", f"{error} `{DISCARD_DAMAGED}` ends that."))
        return damaged

    def set_aside(self) -> list[str]:
        """The files that were damaged and are kept beside the journal."""
        names = (file.name for file in self._file_io.list_files(self._directory))
        return sorted(f"{self._directory}/{name}" for name in names if name.startswith(_SET_ASIDE))

    def keep_aside(self, entry: DamagedEntry) -> str:
        """Keep what a damaged file holds beside it, for whoever wants to know; returns the path."""
        path = posixpath.join(self._directory, f"{_SET_ASIDE}{posixpath.basename(entry.path)}")
        content = self._file_io.read_bytes_or_none(entry.path)
        if content is not None:
            self._file_io.create_exclusively(path, content)
        return path

    def outcome_path(self, publication: Publication) -> str:
        """The file that says how a publication ends."""
        return self._path(_OUTCOME, publication.name)

    def decide_anew(self, entry: DamagedEntry, outcome: Outcome) -> None:
        """Say how a publication ends whose outcome cannot be read, unless somebody has done so meanwhile."""
        path = self._path(_OUTCOME, entry.name)
        content = self._file_io.read_bytes_or_none(path)
        if content is not None and content not in {decision.encode() for decision in _DECISIONS}:
            self._file_io.replace_if(path, content, outcome.encode())

    def state(self) -> tuple[str, ...]:
        """What there is: changes whenever a publication begins or ends."""
        return tuple(sorted(self._names()))

    def _names(self) -> list[str]:
        names = (file.name for file in self._file_io.list_files(self._directory, or_in_place=True))
        return [name for name in names if _ENTRY.fullmatch(name)]

    def _path(self, kind: str, name: str) -> str:
        return f"{self._directory}/{kind}{name}"

    def _is_begun(self, publication: Publication) -> bool:
        """Whether the entry of a publication is there, and not for a moment that of another one of its number."""
        if not publication.token:
            return self._is_there(_OPEN, publication.name)
        try:
            begun = self._publication(publication.name)
        except CorruptData:
            # As long as it is not set aside, it may be this one's.
            return True
        return begun is not None and begun.token in ("", publication.token)

    def _is_there(self, kind: str, name: str) -> bool:
        return self._file_io.exists(self._path(kind, name))


def _stub(name: str) -> Publication:
    """Stands for a publication of which the number alone is known."""
    return Publication(name, "", {}, False)


def _number(name: str) -> int:
    return int(name.split("-")[1])


def refusal(publication: Publication, outcome: Outcome | None, tables: Sequence[str]) -> CommitConflict:
    """The error that says that a publication of some tables is open, and what ends it."""
    finish, undo = "`snapline branch recover`", "`snapline branch recover --undo`"
    advice = f"Finish or undo it first, by {finish} or {undo}."
    if outcome == UNDONE:
        advice = f"Go on undoing it first, by {undo}."
    elif outcome == REPLACING:
        advice = f"Finish it first, by {finish}."
    return CommitConflict(
        f"Publication {int(publication.name)} of branch {publication.branch!r} is open and has to do with "
        f"{', '.join(tables)}. {advice}"
    )
