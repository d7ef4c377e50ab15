"""The publications of a warehouse, in files that are created if absent: who is first decides.

`open-<number>` says what is to be published, `outcome-<number>` how it ends, `closed-<number>` that it has ended. They lie
in `<warehouse>/.journal`. Follows `docs/protocols.md`, "Publications".
"""

import json
import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal, get_args

from .document import integer, read_document, sealed, text, texts
from .errors import CommitConflict, CorruptData
from .file_io import FileIO
from .identifier import PUBLICATION_PREFIX

_DIRECTORY = ".journal"
_OPEN, _OUTCOME, _CLOSED = "open-", "outcome-", "closed-"
_KEPT = 1000
# How the names begin of who commits to a main in a publication, and of who undoes that.
PUBLICATION_USER, RECOVERY_USER, UNDO_USER = "publication/", "recovery/", "undo/"
# Published: every main has its commit, and readers see them. Undone: every main goes back. Replacing: mains are being
# replaced, which cannot be undone; readers see it once it is closed.
Outcome = Literal["published", "undone", "replacing"]
PUBLISHED: Final = "published"
UNDONE: Final = "undone"
REPLACING: Final = "replacing"


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
    def tag(self) -> str:
        """The tag that keeps, while this is open, what a main was before."""
        return f"{PUBLICATION_PREFIX}{self.name}"

    def user(self, name: str) -> str:
        """Who commits to a main; the identifier is the publication's number."""
        what = RECOVERY_USER if name in self.adopted else PUBLICATION_USER
        return f"{what}{self.branch}/{name.replace('.', '/')}"

    def to_json(self) -> str:
        value = {
            "branch": self.branch, "before": dict(self.before), "discardMain": self.discard_main,
            "replaces": self.replaces, "adopted": dict(self.adopted),
            "properties": {name: dict(properties) for name, properties in self.properties.items()},
        }  # fmt: skip
        return json.dumps(sealed(value, self.name), indent=2)

    @classmethod
    def from_json(cls, name: str, content: str, source: str) -> "Publication":
        """Read a journal file. Raises CorruptData that names `source`."""
        value = read_document(content, source, name)
        before, adopted, properties = (value.get(key, {}) for key in ("before", "adopted", "properties"))
        if not all(isinstance(part, dict) for part in (before, adopted, properties)) or not name.isdigit():
            raise CorruptData(f"File {source} is damaged: it describes no publication.")
        return cls(
            name, text(value.get("branch"), source, "branch"),
            {key: None if part is None else integer(part, source, "before") for key, part in before.items()},
            value.get("discardMain") is True, value.get("replaces") is True,
            {key: integer(part, source, "adopted") for key, part in adopted.items()},
            {key: texts(part, source, "properties") for key, part in properties.items()},
        )  # fmt: skip


class Journal:
    """The publications of a warehouse."""

    def __init__(self, file_io: FileIO, root: str) -> None:
        self._file_io = file_io
        self._directory = posixpath.join(root, _DIRECTORY)

    @classmethod
    def of_table(cls, file_io: FileIO, table_root: str) -> "Journal":
        """The journal of the warehouse that a table lies in, as `<warehouse>/<database>.db/<table>`."""
        return cls(file_io, posixpath.dirname(posixpath.dirname(table_root)))

    def open(self, wanted: Publication) -> Publication:
        """Write down what is about to happen; returns it with its name.

        Then look, by `refuse_open`, for those with a lower number: whoever has a higher number sees this one.
        """
        number = max((int(name.split("-")[1]) for name in self._names()), default=0) + 1
        while True:
            publication = replace(wanted, name=f"{number:08d}")
            path, content = f"{self._directory}/{_OPEN}{publication.name}", publication.to_json().encode()
            if self._file_io.create_exclusively(path, content):
                if self.outcome(publication) is None:
                    break
                # Begun and ended while this one slept.
                self._file_io.delete_if(path, content)
            number += 1
        return publication

    def decide(self, publication: Publication, outcome: Outcome) -> Outcome:
        """Say how a publication ends, unless somebody has: returns what holds."""
        path = f"{self._directory}/{_OUTCOME}{publication.name}"
        if self._file_io.create_exclusively(path, outcome.encode()):
            return outcome
        return self.outcome(publication) or outcome

    def outcome(self, publication: Publication) -> Outcome | None:
        """How a publication ends; None as long as that is open."""
        path = f"{self._directory}/{_OUTCOME}{publication.name}"
        said = self._file_io.read_text_or_none(path)
        if said is None:
            is_closed = self._file_io.exists(f"{self._directory}/{_CLOSED}{publication.name}")
            return "published" if is_closed else None
        for outcome in get_args(Outcome):
            if said == outcome:
                return outcome
        raise CorruptData(f"{path} says {said[:40]!r}, not how a publication ends.")

    def close(self, publication: Publication) -> None:
        """Say that a publication has ended as was decided."""
        self._file_io.create_exclusively(f"{self._directory}/{_CLOSED}{publication.name}", b"{}")

    def forget(self, publication: Publication) -> None:
        """Nothing of a publication that is closed is left to be done. The newest numbers stay, so that none is given twice."""
        self._file_io.delete(f"{self._directory}/{_OPEN}{publication.name}")
        names = self._names()
        closed = sorted(name.removeprefix(_CLOSED) for name in names if name.startswith(_CLOSED))
        old = [f"{kind}{name}" for name in closed[:-_KEPT] for kind in (_OUTCOME, _CLOSED)]
        self._file_io.delete_quietly([f"{self._directory}/{name}" for name in old])

    def all_open(self) -> list[Publication]:
        """Publications that were begun and have not ended for readers, in order."""
        return [publication for publication in self._begun() if not self._has_ended(publication)]

    def all_left(self) -> list[Publication]:
        """Publications that have ended for readers, of which something is left to be cleaned."""
        return [publication for publication in self._begun() if self._has_ended(publication)]

    def _has_ended(self, publication: Publication) -> bool:
        return self.outcome(publication) == PUBLISHED or self._file_io.exists(
            f"{self._directory}/{_CLOSED}{publication.name}"
        )

    def _begun(self) -> list[Publication]:
        begun = []
        for name in sorted(name for name in self._names() if name.startswith(_OPEN)):
            path = f"{self._directory}/{name}"
            content = self._file_io.read_text_or_none(path)
            if content is not None:
                begun.append(Publication.from_json(name.removeprefix(_OPEN), content, path))
        return begun

    def damaged(self) -> list[tuple[str, str]]:
        """The journal's files that cannot be read, and why."""
        damaged = []
        for name in sorted(self._names()):
            path = f"{self._directory}/{name}"
            try:
                content = self._file_io.read_text_or_none(path)
                if content is not None and name.startswith(_OPEN):
                    Publication.from_json(name.removeprefix(_OPEN), content, path)
                elif content is not None and name.startswith(_OUTCOME) and content not in get_args(Outcome):
                    raise CorruptData(f"{path} says {content[:40]!r}, not how a publication ends.")
            except CorruptData as error:
                damaged.append((path, str(error)))
        return damaged

    def refuse_open(self, tables: Sequence[str], *, before: str | None = None, branch: str | None = None) -> None:
        """Raise CommitConflict if a publication of one of the tables is open. `before`: only those with a lower number
        count; `branch`: only those of the branch.
        """
        for publication in self.all_open():
            both = sorted(set(tables) & set(publication.before))
            counts = (before is None or publication.name < before) and branch in (None, publication.branch)
            if both and counts:
                raise CommitConflict(
                    f"The publication of branch {publication.branch!r} is open and has to do with {', '.join(both)}. "
                    "Finish or undo it first, by `snapline branch recover`."
                )

    def state(self) -> tuple[str, ...]:
        """What there is: changes whenever a publication begins or ends."""
        return tuple(sorted(self._names()))

    def _names(self) -> list[str]:
        names = (file.name for file in self._file_io.list_files(self._directory))
        kinds = (_OPEN, _OUTCOME, _CLOSED)
        return [name for name in names if name.startswith(kinds) and name.split("-")[1].isdigit()]
