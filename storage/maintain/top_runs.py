"""What a commit that replaces its buckets puts there: one run on the top level, where its rows count as told."""

from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter

from ..metadata.manifest import ManifestEntry
from ..metadata.table_store import TableStore
from ..write.lift import lift_to_top
from ..write.table_write import CommitMessage, earliest
from .compaction import BucketCompaction, compact_bucket


def as_top_runs(store: TableStore, messages: Sequence[CommitMessage]) -> tuple[CommitMessage, list[str]]:
    """The messages of a commit that replaces what its buckets hold as one, with their files on the top level, where they
    count as told; and the files that are of no use once it has landed.

    If compactions tell of changes, or settle what readers see, files that overlap or hold deletes are merged; nothing is
    visible yet.
    """
    top_level = store.options.top_level
    tells = store.options.told_level is not None or store.options.deletion_vectors_enabled
    added: list[ManifestEntry] = []
    paths = [path for message in messages for path in message.paths]
    unused: list[str] = []
    written = lift_to_top([entry for message in messages for entry in message.added], store.key_types, top_level)
    try:
        for place, group in groupby(written, attrgetter("place")):
            entries = tuple(group)
            if not tells or all(entry.file.level == top_level for entry in entries):
                added += entries
                continue
            result = compact_bucket(store, BucketCompaction(entries, top_level, drops_deletes=True))
            added += result.message.added
            paths += result.message.paths
            # A large file that overlaps no other stays as it is.
            kept = {entry.file.name for entry in result.message.added}
            names = {entry.file.name for entry in result.deleted} - kept
            unused += [f"{store.bucket_directory(place)}/{name}" for name in names]
    except BaseException:
        store.file_io.delete_quietly(paths)
        raise
    begun_ms = earliest(message.begun_ms for message in messages)
    new_keys = tuple(keys for message in messages for keys in message.new_keys)
    return CommitMessage(tuple(added), tuple(paths), begun_ms=begun_ms, new_keys=new_keys), unused
