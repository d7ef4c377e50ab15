"""Views of a warehouse: queries under a name, each in a file `<database>.db/<view>.view` beside the tables.

Paimon's catalog of a file system keeps no views, and looks at directories alone, so that the files are nothing to its readers. A
table and a view share their names: who comes second is refused. A view is read as what somebody else may have written: its
parts are checked here, its query where it is run (`sql/pure_query`).
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from .arguments import checked
from .data_types import parse_type, type_from_arrow
from .document import read_document, sealed, text, texts, writable
from .errors import (
    AlreadyExists,
    CommitConflict,
    CorruptData,
    InvalidRequest,
    NotFound,
    StorageError,
    StoreUnavailable,
)
from .file_io import FileIO
from .identifier import MAIN_BRANCH, Identifier, check_name
from .late_requests import generation
from .secret import Secret, guarded_value
from .store_errors import made_or_told, outcome

_SUFFIX = ".view"
_VERSION = 1
_MOST_BYTES = 1 << 20


@dataclass(frozen=True)
class ViewColumn:
    """A column of a view, its type in the words of the format."""

    name: str
    type: str
    comment: str | None = None

    @classmethod
    def of(cls, name: str, kind: pa.DataType, comment: str | None = None) -> "ViewColumn":
        """A column of values of an Arrow type. Raises Unsupported for one that the format does not have."""
        return cls(name, str(type_from_arrow(kind)), comment)


@dataclass(frozen=True)
class View:
    """A query over tables and views of the catalog, each named `database.table`, and the columns that it gives."""

    query: str
    columns: tuple[ViewColumn, ...]
    comment: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)

    def with_options(self, given: Mapping[str, str], removed: tuple[str, ...] = ()) -> "View":
        """The view with other options."""
        kept = {key: value for key, value in self.options.items() if key not in removed}
        return replace(self, options={**kept, **given})


@checked
class Views:
    """The views of a catalog."""

    def __init__(self, file_io: FileIO, root: str, table_exists: Callable[[str], bool]) -> None:
        self._file_io = file_io
        self._root = root
        self._table_exists = table_exists

    def names(self, database: str) -> list[str]:
        """The views of a database, without its name, sorted; of one that does not exist none."""
        try:
            files = self._file_io.list_files(self._directory(Identifier.parse(f"{database}.v")), or_in_place=True)
        except FileNotFoundError:
            return []
        return sorted(name for file in files if (name := name_of_view(file.name)) is not None)

    def exists(self, name: str) -> bool:
        """Whether there is a view of the name."""
        identifier = Identifier.parse(name)
        return _is_plain(identifier) and self._file_io.exists(self._path(identifier))

    def get(self, name: str) -> View | None:
        """The view of a name; None if there is none. Raises CorruptData for one that cannot be read."""
        identifier = Identifier.parse(name)
        if not _is_plain(identifier):
            return None
        content = self._file_io.read_bytes_or_none(self._path(identifier))
        return None if content is None else self._held(identifier, content)

    def damaged(self, database: str) -> list[tuple[str, str]]:
        """The views of a database that cannot be read: the file of each, and why."""
        damaged = []
        for name in self.names(database):
            identifier = Identifier(database, name)
            try:
                content = self._file_io.read_bytes_or_none(self._path(identifier))
                if content is not None:
                    self._held(identifier, content)
            except CorruptData as error:
                damaged.append((self._path(identifier), str(error)))
        return damaged

    def create(self, name: str, view: View, *, if_not_exists: bool = False, replaces: bool = False) -> bool:
        """Keep a view; says whether it was written. Raises AlreadyExists for a name that is taken."""
        identifier = _named(name)
        return self._create(identifier, self._written(identifier, view), if_not_exists=if_not_exists, replaces=replaces)

    def _create(
        self, identifier: Identifier, content: bytes, *, if_not_exists: bool = False, replaces: bool = False
    ) -> bool:
        path = self._path(identifier)
        self._refuse_table(identifier)
        self._file_io.make_directory(self._directory(identifier), listed=True)
        while not made_or_told(
            lambda: self._file_io.create_exclusively(path, content),
            lambda: self._file_io.read_bytes_or_none(path) == content,
            f"the view {identifier}",
        ):
            if if_not_exists:
                return False
            if not replaces:
                raise AlreadyExists(f"View {identifier} exists. CREATE OR REPLACE VIEW gives it another query.")
            held = self._file_io.read_bytes_or_none(self._path(identifier))
            if held is not None and self._file_io.replace_if(path, held, content):
                return True
        try:
            # Somebody may have created a table meanwhile.
            with outcome(f"View {identifier} is there."):
                self._refuse_table(identifier)
        except AlreadyExists:
            self._file_io.delete_if(path, content)
            raise
        return True

    def change(self, name: str, change: Callable[[View], View]) -> View:
        """Make a view another one, computed anew if others change it meanwhile. Raises NotFound."""
        identifier = _named(name)
        path = self._path(identifier)
        while True:
            held = self._file_io.read_bytes_or_none(self._path(identifier))
            if held is None:
                raise self.missing(name)
            made = change(self._held(identifier, held))
            if self._file_io.replace_if(path, held, self._written(identifier, made)):
                return made

    def rename(self, name: str, new_name: str) -> None:
        """Give a view another name. Raises NotFound, AlreadyExists, or CommitConflict if others change it meanwhile."""
        identifier = _named(name)
        held = self._file_io.read_bytes_or_none(self._path(identifier))
        if held is None:
            raise self.missing(name)
        view, target = self._held(identifier, held), _named(new_name)
        content = self._written(target, view)
        self._create(target, content)
        if not self._file_io.delete_if(self._path(identifier), held):
            # Unless it is somebody else's by now.
            self._file_io.delete_if(self._path(target), content)
            raise CommitConflict(f"View {identifier} was changed meanwhile; it keeps its name. Rename it again.")

    def drop(self, name: str) -> None:
        """Delete a view, whatever it holds. Raises NotFound."""
        path = self._path(_named(name))
        if not self._file_io.exists(path):
            raise self.missing(name)
        try:
            if self._file_io.moves_at_once:
                self._file_io.delete(path)
            else:
                # What is deleted late is this content alone.
                self._delete_as_read(path)
        except StoreUnavailable:
            with outcome(f"Whether view {name} is dropped cannot be known: drop it again."):
                is_there = self._file_io.exists(path)
            if is_there:
                with outcome(f"View {name} is not dropped: drop it again.", landed=False):
                    raise

    def _delete_as_read(self, path: str) -> None:
        while (held := self._file_io.read_bytes_or_none(path)) is not None:
            if self._file_io.delete_if(path, held):
                return

    def refuse_taken(self, identifier: Identifier) -> None:
        """Raise AlreadyExists if a view has a name that a table is to get."""
        if self._file_io.exists(self._path(identifier)):
            raise AlreadyExists(f"{identifier.full_name} is a view. DROP VIEW it first, or choose another name.")

    def missing(self, name: str) -> NotFound:
        """The error that there is no such view, with the names there are."""
        identifier = Identifier.parse(name)
        return NotFound(
            f"View {identifier} does not exist. Views of {identifier.database}: "
            f"{', '.join(self.names(identifier.database)) or 'none'}."
        )

    def _refuse_table(self, identifier: Identifier) -> None:
        if self._table_exists(identifier.full_name):
            raise AlreadyExists(f"{identifier} is a table. Choose another name for the view.")

    def _held(self, identifier: Identifier, content: bytes) -> View:
        """The view that its file holds. Raises CorruptData that says what ends that."""
        try:
            return _read(content, self._path(identifier))
        except CorruptData as error:
            raise CorruptData(
                f"{str(error).rstrip('.')}. Restore the file, or create the view again: CREATE OR REPLACE VIEW "
                f"{identifier.full_name}, or DROP VIEW."
            ) from None

    def _written(self, identifier: Identifier, view: View) -> bytes:
        for key, value in view.options.items():
            if isinstance(guarded_value(key, value), Secret):
                raise InvalidRequest(f"Option {key!r} is a secret, which all readers of the warehouse would see.")
        path = self._path(identifier)
        document = {
            "version": _VERSION,
            **generation(self._file_io),
            "query": view.query,
            "comment": view.comment,
            "options": dict(view.options),
            "columns": [
                {"name": column.name, "type": column.type, "comment": column.comment} for column in view.columns
            ],
        }
        name = path.rpartition("/")[2]
        content = writable(
            lambda: json.dumps(sealed(document, name), indent=2, ensure_ascii=False),
            lambda document_text: _read(document_text, path),
            "view",
        )
        if len(content) > _MOST_BYTES:
            raise InvalidRequest(f"The view has {len(content)} bytes, at most {_MOST_BYTES} are kept.")
        return content

    def _directory(self, identifier: Identifier) -> str:
        return f"{self._root}/{identifier.database}.db"

    def _path(self, identifier: Identifier) -> str:
        return f"{self._directory(identifier)}/{identifier.table}{_SUFFIX}"


def name_of_view(file: str) -> str | None:
    """The view that a file of a database's directory is; None for what is somebody else's."""
    name = file.removesuffix(_SUFFIX)
    try:
        return check_name(name, "view") if name != file else None
    except InvalidRequest:
        return None


def _is_plain(identifier: Identifier) -> bool:
    return identifier.system_table is None and identifier.branch == MAIN_BRANCH


def _named(name: str) -> Identifier:
    identifier = Identifier.parse(name)
    if not _is_plain(identifier):
        raise InvalidRequest(f"{name!r} is no name of a view: give a plain name, as in `db.v`.")
    return identifier


def _read(content: str | bytes, path: str) -> View:
    if len(content) > _MOST_BYTES:
        raise CorruptData(f"File {path} is damaged: it has {len(content)} bytes, a view at most {_MOST_BYTES}.")
    document = read_document(content, path)
    if document.get("version") != _VERSION or isinstance(document["version"], bool):
        raise CorruptData(f"File {path} has version {document.get('version')!r} of a view; {_VERSION} is known here.")
    listed = document.get("columns")
    if not isinstance(listed, list) or not listed or not all(isinstance(each, dict) for each in listed):
        raise CorruptData(f"File {path} is damaged: columns is no list of columns.")
    columns = tuple(_column(each, path) for each in listed)
    if len({column.name.lower() for column in columns}) < len(columns):
        raise CorruptData(f"File {path} is damaged: two columns have one name.")
    return View(
        text(document.get("query"), path, "query"),
        columns,
        _comment(document, path),
        texts(document.get("options", {}), path, "options"),
    )


def _column(given: Mapping[str, Any], path: str) -> ViewColumn:
    kind = text(given.get("type"), path, "type")
    try:
        parse_type(kind)
    except StorageError as error:
        raise CorruptData(f"File {path} is damaged: {error}") from None
    return ViewColumn(text(given.get("name"), path, "name"), kind, _comment(given, path))


def _comment(given: Mapping[str, Any], path: str) -> str | None:
    value = given.get("comment")
    return None if value is None else text(value, path, "comment")
