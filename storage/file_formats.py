"""Formats of data files by their names: those of this package, and those that installed packages add.

    [project.entry-points."snapline.file_formats"]
    my-format = "my_platform.my_format:MyFormat"

The entry point names an object with the attributes of `FileFormat`. The name is in lower case, and the suffix of the data files.
Other readers of the tables have to know it as well.
"""

from collections.abc import Mapping
from typing import Any, Protocol

from .extensions import extension_names, load_extension

ENTRY_POINT = "snapline.file_formats"

# What each format of data files calls the compressions that options name.
COMPRESSIONS: dict[str, dict[str, str]] = {
    "parquet": {
        "zstd": "zstd",
        "snappy": "snappy",
        "lz4": "lz4",
        "gzip": "gzip",
        "none": "none",
        "uncompressed": "none",
    },
    "orc": {"zstd": "zstd", "snappy": "snappy", "lz4": "lz4", "zlib": "zlib", "none": "uncompressed"},
    "avro": {
        "zstd": "zstd",
        "snappy": "snappy",
        "gzip": "deflate",
        "zlib": "deflate",
        "deflate": "deflate",
        "none": "none",
        "null": "none",
    },
}
# Names of Avro's that Paimon's Java library does not know: tables that have them are written as before, others get none.
_NOT_OF_JAVA = {"avro": ("gzip", "zlib", "none")}


class FileFormat(Protocol):
    """A format of data files. `compressions`: the values of `file.compression` that it knows, one at least. Tables that name none
    have `zstd` if it knows that, else the first of them.
    """

    compressions: tuple[str, ...]

    def open_reader(self, file_io: Any, path: str, types: Mapping[str, Any], expected: Any) -> Any:
        """A `storage.format.data_file.DataFileReader`. `types`: of the table's columns, by name. Raises CorruptData, naming the
        file, for bytes that are none of the format.
        """

    def open_writer(self, file_io: Any, path: str, schema: Any, fields: Mapping[str, Any], compression: str) -> Any:
        """A `storage.format.data_file.DataFileWriter` of a new file. `schema`: of the Arrow tables that come, `fields`: of the
        table, by name.
        """


def file_format_names() -> list[str]:
    """All formats: those of this package, then those of others, whose names are in lower case, as options are."""
    added = [name for name in extension_names(ENTRY_POINT) if name == name.lower() and name not in COMPRESSIONS]
    return [*COMPRESSIONS, *added]


def added_format(name: str) -> FileFormat | None:
    """The format that a package adds by a name; None if none does. Raises InvalidRequest if it cannot be loaded."""
    added: FileFormat | None = load_extension(ENTRY_POINT, name, "format of data files", COMPRESSIONS)
    return added


def compressions_of(name: str) -> list[str]:
    """The compressions that new tables may name for a format; none for a format that is not known."""
    added = added_format(name)
    if name in COMPRESSIONS:
        return [each for each in COMPRESSIONS[name] if each not in _NOT_OF_JAVA.get(name, ())]
    return [] if added is None else list(added.compressions)
