"""Small documents that a warehouse keeps about its tables, as JSON files in a directory of their own."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from .arguments import checked
from .document import as_text, read_document, sealed
from .errors import CorruptData
from .file_io import FileIO
from .identifier import check_name
from .late_requests import GENERATION_KEY, generation

_SUFFIX = ".json"
_SET_ASIDE = "damaged-"


@checked
class Notes:
    """Documents by name. Each is written at once: readers see the old one or the new one."""

    def __init__(self, file_io: FileIO, directory: str) -> None:
        self._file_io = file_io
        self._directory = directory

    def names(self) -> list[str]:
        """The names of all notes."""
        names = (file.name for file in self._file_io.list_files(self._directory, or_in_place=True))
        return sorted(name.removesuffix(_SUFFIX) for name in names if name.endswith(_SUFFIX))

    def read(self, name: str) -> dict[str, Any] | None:
        """None if there is none of that name. Raises CorruptData for what is not JSON, or has another checksum."""
        return self._read(name, self._file_io.read_bytes_or_none(self.path(name)))

    def _read(self, name: str, content: bytes | None) -> dict[str, Any] | None:
        if content is None:
            return None
        document = read_document(as_text(content, self.path(name)), self.path(name))
        document.pop(GENERATION_KEY, None)
        return document

    def damaged(self) -> list[tuple[str, str]]:
        """The documents that cannot be read: the path of each, and why."""
        damaged = []
        for name in self.names():
            try:
                self.read(name)
            except CorruptData as error:
                damaged.append((self.path(name), str(error)))
        return damaged

    def set_aside(self, name: str) -> str:
        """Put a document where nobody reads it, so that the name is free; returns the path. Others of the name are kept."""
        path, content = self.path(name), self._file_io.read_bytes_or_none(self.path(name))
        number = 0
        while content is not None:
            aside = f"{self._directory}/{_SET_ASIDE}{name}" + (f"-{number}" if number else "")
            if self._file_io.create_exclusively(aside, content) or self._file_io.read_bytes(aside) == content:
                self._file_io.delete_if(path, content)
                return aside
            number += 1
        return path

    def kept_aside(self) -> list[str]:
        """The paths of documents that were set aside."""
        names = sorted(file.name for file in self._file_io.list_files(self._directory))
        return [
            f"{self._directory}/{name}" for name in names if name.startswith(_SET_ASIDE) and not name.endswith(_SUFFIX)
        ]

    def create(self, name: str, document: Mapping[str, Any]) -> bool:
        """Write a document unless there is one of that name; says whether it was written."""
        return self._file_io.create_exclusively(self.path(name), self._bytes(name, document))

    def replace(self, name: str, document: Mapping[str, Any]) -> None:
        """Write a document, whatever there is."""
        self._file_io.overwrite(self.path(name), self._bytes(name, document))

    def change(self, name: str, change: Callable[[dict[str, Any] | None], Mapping[str, Any] | None]) -> None:
        """Make a document another one, computed anew from what it is by then if others change it meanwhile. None: there is none,
        or there is to be none. Raises CorruptData for one that cannot be read, and whatever `change` does.
        """
        path = self.path(name)
        while True:
            held = self._file_io.read_bytes_or_none(path)
            known = self._read(name, held)
            made = change(None if known is None else dict(known))
            if made is None:
                if held is None or self._file_io.delete_if(path, held):
                    return
                continue
            if made == known or self._file_io.replace_if(path, held, self._bytes(name, made)):
                return

    def delete(self, name: str) -> None:
        """Delete a document."""
        path = self.path(name)
        # A request that is carried out late deletes no later document of the name.
        while (held := self._file_io.read_bytes_or_none(path)) is not None:
            if self._file_io.delete_if(path, held):
                return

    def path(self, name: str) -> str:
        """Where a document of that name lies."""
        return f"{self._directory}/{check_name(name, 'document')}{_SUFFIX}"

    def _bytes(self, name: str, document: Mapping[str, Any]) -> bytes:
        whole = {**document, **generation(self._file_io)}
        return json.dumps(sealed(whole, f"{name}{_SUFFIX}"), indent=2, ensure_ascii=False).encode()
