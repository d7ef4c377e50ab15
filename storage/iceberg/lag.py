"""Whether readers of Iceberg see the newest snapshot of a table."""

from ..errors import CorruptData, NotFound
from ..identifier import MAIN_BRANCH
from ..metadata.table_store import TableStore
from .data_files import seen_files
from .location import location_of, same_file
from .manifest import read_list, read_manifest
from .metadata import identity_of
from .publish import newest_version

_WAY_ON = "The next commit makes up for that, and so does setting 'metadata.iceberg.storage' again."


def lag_of(store: TableStore) -> str | None:
    """In what the metadata lag behind main, in a sentence; None if they do not, or are not to be there. Reads every manifest."""
    if store.options.metadata_iceberg_storage == "disabled" or store.identifier.branch != MAIN_BRANCH:
        return None
    latest = store.snapshots.latest()
    if latest is None:
        return None
    place = location_of(store, store.options)
    newest = newest_version(place, latest.id)
    if newest is None:
        return f"there are no metadata for readers of Iceberg in {place.directory}. {_WAY_ON}"
    shown, hint = newest[0].current, place.file_io.read_number(place.hint)
    if shown.id != latest.id or hint != latest.id or shown.identity not in (None, identity_of(latest)):
        if store.snapshots.latest_id() != latest.id:
            # Somebody has committed meanwhile.
            return None
        number = min(shown.id, hint or 0)
        return f"metadata for readers of Iceberg show snapshot {number}, and the newest is {latest.id}. {_WAY_ON}"
    try:
        entries = [
            entry
            for manifest in read_list(place.file_io, place.file(shown.manifest_list))
            for entry in read_manifest(place.file_io, place.file(manifest.url))
        ]
    except (NotFound, CorruptData) as error:
        return f"metadata for readers of Iceberg cannot be read: {error} {_WAY_ON}"
    listed = {same_file(entry.url) for entry in entries if entry.is_live}
    wanted = {same_file(place.url(path)) for path in seen_files(store, latest)}
    if listed == wanted:
        return None
    return (
        f"metadata for readers of Iceberg show {len(listed - wanted)} data files that snapshot {latest.id} has not, and not "
        f"{len(wanted - listed)} that it has. {_WAY_ON}"
    )
