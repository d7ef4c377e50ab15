"""Directories of partitions by FLOAT and DOUBLE are looked for, not computed.

Which digits Java writes of such a number depends on its version (decision 0020): a partition is in the directory that is there
and says its number, in whatever digits.
"""

import struct
from collections.abc import Sequence
from typing import Any
from urllib.parse import unquote

from ..data_types import DataField
from ..errors import Unsupported
from ..file_io import FileIO
from ..options import TableOptions
from ..paths import escape, partition_path

# Of numbers below this, those of so many parts of one are written alike by every version of Java, and here.
_PLAIN_BELOW, _PARTS_OF_ONE = 100_000, 8


class NumberDirectories:
    """The directories of partitions below `root`. Remembers what it has listed, and lists again for what is not among it."""

    def __init__(self, file_io: FileIO, root: str, options: TableOptions) -> None:
        self._file_io, self._root, self._options = file_io, root, options
        self._listed: dict[str, list[str]] = {}

    def path(self, fields: Sequence[DataField], values: Sequence[Any], *, for_writing: bool) -> str:
        """`k1=v1/k2=v2` as the directories are called that are there. Raises Unsupported if a number has several, and
        `for_writing` if it has none and Java might call it otherwise.
        """
        path = ""
        for field, value in zip(fields, values, strict=True):
            own = partition_path([field], [value], self._options)
            if field.type.is_float and value is not None and not is_plain(value):
                directories = self._found(path, field, value)
                if len(directories) > 1:
                    raise Unsupported(
                        f"Partition {field.name} = {value!r} has several directories below {self._root}/{path}, by writers that "
                        f"write the number in other digits: {', '.join(directories)}. Move the files of all into the one that "
                        "Java's Double.toString or Float.toString gives."
                    )
                if for_writing and not directories:
                    raise Unsupported(
                        f"Partition {field.name} = {value!r} is new, and no version of Java can be sure to find a directory that "
                        "is made for it here: write its first rows by the other writer of the table, or copy the table to one "
                        "that is partitioned by DECIMAL or text."
                    )
                own = directories[0] if directories else own
            path = f"{path}/{own}" if path else own
        return path

    def _found(self, parent: str, field: DataField, value: float) -> list[str]:
        names = self._listed.get(parent, [])
        directories = [name for name in names if _says(name, field, value)]
        if not directories:
            self._listed[parent] = sorted(self._file_io.list_directories(f"{self._root}/{parent}".rstrip("/")))
            directories = [name for name in self._listed[parent] if _says(name, field, value)]
        return directories


def is_plain(value: float) -> bool:
    """Whether every version of Java writes a number alike."""
    if value != value or value in (float("inf"), float("-inf")):
        return True
    return abs(value) < _PLAIN_BELOW and value * _PARTS_OF_ONE == int(value * _PARTS_OF_ONE)


def _says(name: str, field: DataField, value: float) -> bool:
    column, equals, text = name.partition("=")
    if not equals or column != escape(field.name):
        return False
    try:
        number = float(unquote(text))
        return (struct.unpack("f", struct.pack("f", number))[0] if field.type.root == "FLOAT" else number) == value
    except (ValueError, OverflowError):
        return False
