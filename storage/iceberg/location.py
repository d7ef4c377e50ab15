"""Where the Iceberg metadata of a table lie, and how its files are named in them."""

import posixpath
import re
from dataclasses import dataclass

from ..errors import Unsupported
from ..file_io import FileInfo, FileIO
from ..metadata.table_store import TableStore
from ..options import TableOptions

METADATA_FILE = re.compile(r"v(\d+)\.metadata\.json")
_DATABASE = ".db"


@dataclass(frozen=True, slots=True)
class Location:
    """The directory of the metadata of one table, which lies at `root`."""

    file_io: FileIO
    directory: str
    root: str
    # Of local files Paimon's Java library writes the URL, or the path alone, as its warehouse was given.
    scheme: str

    @property
    def table_url(self) -> str:
        """Where the table lies, as its metadata name it."""
        return self.url(self.root)

    @property
    def hint(self) -> str:
        """The file that says which version is the newest."""
        return f"{self.directory}/version-hint.text"

    def metadata(self, version: int) -> str:
        """The file of a version, whose number is that of the snapshot it shows."""
        return f"{self.directory}/v{version}.metadata.json"

    def file(self, name: str) -> str:
        """A manifest, or a list of manifests, by its name or by the URL that names it."""
        return f"{self.directory}/{posixpath.basename(name)}"

    def url(self, path: str) -> str:
        """A path as metadata name it."""
        return f"{self.scheme}{path}" if self.file_io.is_local else self.file_io.url(path)

    def files(self) -> list[FileInfo]:
        """What lies in the directory."""
        return self.file_io.list_files(self.directory)

    def versions(self) -> list[int]:
        """The numbers of the versions that are there, in order."""
        matches = (METADATA_FILE.fullmatch(file.name) for file in self.files())
        return sorted(int(match[1]) for match in matches if match)


def location_of(store: TableStore, options: TableOptions, *, like: str | None = None) -> Location:
    """Where the metadata of a table lie by its options. `like`: a URL that names the table in metadata that are there."""
    root = store.paths.root
    in_table = (options.metadata_iceberg_storage_location or options.metadata_iceberg_storage) == "table-location"
    directory = f"{root}/metadata" if in_table else f"{catalog_directory(root)}/metadata"
    scheme = "" if like is not None and like.startswith("/") else "file:"
    return Location(store.file_io, directory, root, scheme)


def catalog_directory(root: str) -> str:
    """Where an Iceberg catalog of Hadoop's kind, at `iceberg` in the warehouse, has the table that lies at `root`."""
    database, table = posixpath.split(root)
    warehouse, name = posixpath.split(database)
    if not name.endswith(_DATABASE):
        raise Unsupported(
            f"Table {root} does not lie in a directory <database>.db of a warehouse: with 'metadata.iceberg.storage' = "
            "'hadoop-catalog' set 'metadata.iceberg.storage-location' = 'table-location'."
        )
    return f"{warehouse}/iceberg/{name.removesuffix(_DATABASE)}/{table}"


def same_file(url: str) -> str:
    """What URLs of one file have in common: writers name local files with and without `file:`, and S3 by several schemes."""
    scheme, colon, rest = url.partition(":")
    if not colon or not scheme.isalnum():
        return url
    return re.sub(r"^//(?=/)", "", rest) if scheme == "file" else rest
