"""Which data files make up a table at a snapshot: manifests read in order, adds and deletes cancelled."""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain

from ..errors import CorruptData
from .manifest import ADD, POSTPONED_BUCKET, DecodedManifest, ManifestEntry, ManifestFile
from .manifest_columns import FilePlace, KeepPlace
from .manifest_files import ManifestFiles


def merge_entries(entries: Iterable[ManifestEntry]) -> list[ManifestEntry]:
    """Cancel adds against deletes, in the order of commits.

    A delete without an add before it stays: it may cancel an add of an earlier manifest. Raises CorruptData if a live
    file is added again.
    """
    entries = list(entries)
    if len({entry.file.name for entry in entries}) == len(entries):
        # No two of them can speak of the same file.
        return entries
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


def live_entries(entries: Iterable[ManifestEntry]) -> list[ManifestEntry]:
    """What is live of entries in order of commit. Raises CorruptData if a file was deleted that nobody added."""
    merged = merge_entries(entries)
    for entry in merged:
        if entry.kind != ADD:
            raise CorruptData(f"Data file {entry.file.name} was deleted at level {entry.file.level} but never added.")
    return merged


def live_files(
    manifests: Sequence[ManifestFile], files: ManifestFiles, keep: KeepPlace | None = None
) -> list[ManifestEntry]:
    """Live files of the given manifests in order of commit, those of wanted places; of others no entry is made.

    Raises CorruptData if a file was deleted that nobody added.
    """
    decoded = files.read_each(manifests)
    return live_entries(chain.from_iterable(each.entries if keep is None else each.kept(keep) for each in decoded))


def postponed_files(manifests: Sequence[ManifestFile], files: ManifestFiles) -> list[ManifestEntry]:
    """The live files of postponed buckets, whose rows wait for a compaction."""
    return live_files(manifests, files, lambda place: place.bucket == POSTPONED_BUCKET)


def highest_numbers(manifests: Sequence[ManifestFile], files: ManifestFiles) -> list[tuple[FilePlace, int]]:
    """The places of live files, each with the highest sequence number of its files; a place may come several times. Where one
    partition has several numbers of buckets, the last one is that of its last file. Raises CorruptData as `live_files` does.
    """
    decoded = list(files.read_each(manifests))
    unclear = _unclear_names(decoded)
    merged = live_entries(chain.from_iterable(each.of_names(unclear) for each in decoded) if unclear else ())
    numbers = [number for each in decoded for number in each.highest(unclear)]
    numbers += [(entry.file_place, entry.file.max_sequence_number) for entry in merged]
    counts = {(place.partition, place.total_buckets) for place, _ in numbers if place.bucket >= 0}
    if len({partition for partition, _ in counts}) == len(counts):
        return numbers
    live = live_entries(chain.from_iterable(each.entries for each in decoded))
    return [(entry.file_place, entry.file.max_sequence_number) for entry in live]


def _unclear_names(decoded: Sequence[DecodedManifest]) -> set[str]:
    """The names of which not each entry is a live file: those of several entries, and those that are taken away."""
    unclear = {name for each in decoded for name in each.deleted_names}
    if len(set().union(*(each.names for each in decoded))) < sum(map(len, decoded)):
        counted = Counter(name for each in decoded for name in each.names)
        unclear |= {name for name, count in counted.items() if count > 1}
    return unclear
