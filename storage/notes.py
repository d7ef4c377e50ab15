"""Small documents that a warehouse keeps about its tables, as JSON files in a directory of their own."""

import json
from collections.abc import Mapping
from typing import Any

from .arguments import checked
from .document import read_document
from .file_io import FileIO
from .identifier import check_name

_SUFFIX = ".json"


@checked
class Notes:
    """Documents by name. Each is written at once: readers see the old one or the new one."""

    def __init__(self, file_io: FileIO, directory: str) -> None:
        self._file_io = file_io
        self._directory = directory

    def names(self) -> list[str]:
        names = (file.name for file in self._file_io.list_files(self._directory))
        return sorted(name.removesuffix(_SUFFIX) for name in names if name.endswith(_SUFFIX))

    def read(self, name: str) -> dict[str, Any] | None:
        """None if there is none of that name. Raises CorruptData for what is not JSON."""
        text = self._file_io.read_text_or_none(self._path(name))
        return None if text is None else read_document(text, self._path(name))

    def create(self, name: str, document: Mapping[str, Any]) -> bool:
        """Write a document unless there is one of that name; says whether it was written."""
        return self._file_io.create_exclusively(self._path(name), _bytes(document))

    def replace(self, name: str, document: Mapping[str, Any]) -> None:
        self._file_io.overwrite(self._path(name), _bytes(document))

    def delete(self, name: str) -> None:
        self._file_io.delete(self._path(name))

    def _path(self, name: str) -> str:
        return f"{self._directory}/{check_name(name, 'document')}{_SUFFIX}"


def _bytes(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, indent=2, ensure_ascii=False).encode()
