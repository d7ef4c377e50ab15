"""Delete what readers of Iceberg do not need any more: versions, and the manifests of snapshots that have expired."""

import logging
from collections.abc import Iterable
from contextlib import suppress

from ..errors import CorruptData, NotFound, StorageError
from ..identifier import MAIN_BRANCH
from ..metadata.table_store import TableStore
from ..options import TableOptions
from .location import Location, catalog_directory, location_of, same_file
from .manifest import read_list
from .metadata import IcebergSnapshot, TableMetadata

_log = logging.getLogger(__name__)


def delete_old_versions(place: Location, newest: int, options: TableOptions) -> None:
    """Delete the versions before the newest that are not to be kept."""
    if options.metadata_iceberg_delete_after_commit_enabled:
        versions = place.versions()
        first = max([newest, *versions]) - options.metadata_iceberg_previous_versions_max
        place.file_io.delete_quietly([place.metadata(version) for version in versions if version < first])


def delete_dropped(place: Location, before: TableMetadata | None, after: TableMetadata) -> None:
    """Delete the manifests, and lists of them, of the snapshots that a version had and its successor has not."""
    if before is None:
        return
    kept = {same_file(snapshot.manifest_list) for snapshot in after.snapshots}
    dropped = [snapshot for snapshot in before.snapshots if same_file(snapshot.manifest_list) not in kept]
    if not dropped:
        return
    needed = set(_manifests(place, after.snapshots))
    manifests = [path for path in _manifests(place, dropped) if path not in needed]
    place.file_io.delete_quietly([*manifests, *(place.file(snapshot.manifest_list) for snapshot in dropped)])


def withdraw(store: TableStore) -> None:
    """Delete all metadata of a table that its options, as they were when it was opened, asked for. Raises nothing: what is
    left shows what the table was, until the next table of its name has metadata.
    """
    if store.options.metadata_iceberg_storage == "disabled" or store.identifier.branch != MAIN_BRANCH:
        return
    place = location_of(store, store.options)
    in_table = place.directory.startswith(f"{store.paths.root}/")
    try:
        # First what readers begin with.
        place.file_io.delete(place.hint)
        place.file_io.delete_directory(place.directory if in_table else catalog_directory(store.paths.root))
    except (OSError, StorageError) as error:
        _log.warning(
            "Metadata of %s for readers of Iceberg are left in %s: %s", store.identifier, place.directory, error
        )


def left_over(store: TableStore) -> list[tuple[str, int, int | None]]:
    """Path, size and time of the files beside the metadata of a table that no version names: of publications that died."""
    if store.options.metadata_iceberg_storage == "disabled" or store.identifier.branch != MAIN_BRANCH:
        return []
    place = location_of(store, store.options)
    # Listed before what is needed is looked up.
    files = [file for file in place.files() if file.name.endswith((".avro", ".tmp"))]
    needed: set[str] = set()
    for version in place.versions() if files else ():
        content = place.file_io.read_bytes_or_none(place.metadata(version))
        if content is not None:
            snapshots = TableMetadata.from_json(content, place.metadata(version)).snapshots
            needed |= {place.file(snapshot.manifest_list) for snapshot in snapshots} | set(_manifests(place, snapshots))
    paths = ((place.file(file.name), file.size_bytes, file.modified_ms) for file in files)
    return [entry for entry in paths if entry[0] not in needed]


def _manifests(place: Location, snapshots: Iterable[IcebergSnapshot]) -> list[str]:
    """The manifests of some snapshots, without those of lists that cannot be read."""
    paths = []
    for snapshot in snapshots:
        with suppress(NotFound, CorruptData):
            paths += [
                place.file(manifest.url) for manifest in read_list(place.file_io, place.file(snapshot.manifest_list))
            ]
    return paths
