"""Which data files make up a table at a snapshot: manifests read in order, adds and deletes cancelled."""

from collections.abc import Callable, Iterable

from ..errors import CorruptData
from .manifest import ADD, ManifestEntry, ManifestFile


def merge_entries(entries: Iterable[ManifestEntry]) -> list[ManifestEntry]:
    """Cancel adds against deletes, in the order of commits.

    A delete without an add before it stays: it may cancel an add of an earlier manifest. Raises CorruptData if a live
    file is added again.
    """
    merged: dict[tuple[object, ...], ManifestEntry] = {}
    for entry in entries:
        identity = entry.identity
        if entry.kind == ADD:
            existing = merged.get(identity)
            if existing is not None and existing.kind == ADD:
                raise CorruptData(f"Data file {entry.file.name} is added twice at level {entry.file.level}.")
            merged[identity] = entry
        elif merged.get(identity) is not None and merged[identity].kind == ADD:
            del merged[identity]
        else:
            merged[identity] = entry
    return list(merged.values())


def live_files(
    manifests: Iterable[ManifestFile],
    read: Callable[[str], Iterable[ManifestEntry]],
    keep: Callable[[ManifestEntry], bool] | None = None,
) -> list[ManifestEntry]:
    """Live files of the given manifests in order of commit, after `keep`, which must not tell adds from deletes.

    Raises CorruptData if a file was deleted that nobody added.
    """
    entries = (entry for manifest in manifests for entry in read(manifest.name) if keep is None or keep(entry))
    merged = merge_entries(entries)
    for entry in merged:
        if entry.kind != ADD:
            raise CorruptData(f"Data file {entry.file.name} was deleted at level {entry.file.level} but never added.")
    return merged
