"""Keep the list of manifests short: merge small ones as commits pile them up.

`pick_merges` is pure and says what to merge; `merge_manifests` carries it out. Readers see no
difference. Follows `docs/format.md`, "Manifest lists and manifests".
"""

from collections.abc import Callable, Sequence

from ..metadata.live_files import merge_entries
from ..metadata.manifest import ManifestFile
from ..metadata.table_store import TableStore
from ..options import TableOptions


def pick_merges(manifests: Sequence[ManifestFile], options: TableOptions) -> list[list[ManifestFile]]:
    """The manifests in order, in groups: a group of one stays as it is, a larger one becomes one manifest."""
    target = options.manifest_target_file_size_bytes
    loose = [manifest for manifest in manifests if manifest.deleted_file_count or manifest.size_bytes < target]
    if sum(each.size_bytes for each in loose) >= options.manifest_full_compaction_threshold_size_bytes:
        # Deletes may concern any older manifest, so that all of them take part.
        return [list(manifests)]
    groups: list[list[ManifestFile]] = []
    group: list[ManifestFile] = []
    for item in manifests:
        group.append(item)
        if sum(member.size_bytes for member in group) >= target:
            groups.append(group)
            group = []
    if len(group) >= options.manifest_merge_min_count:
        groups.append(group)
    else:
        groups.extend([each] for each in group)
    return groups


def merge_manifests(
    store: TableStore,
    manifests: Sequence[ManifestFile],
    schema_id: int,
    next_name: Callable[[], str],
    *,
    everything: bool = False,
) -> list[ManifestFile]:
    """Carry out the merges; new manifests get their names from `next_name`. `everything`: all become one."""
    result = []
    for group in [list(manifests)] if everything else pick_merges(manifests, store.options):
        if len(group) == 1 and not (everything and group[0].deleted_file_count):
            result.append(group[0])
            continue
        entries = merge_entries(entry for manifest in group for entry in store.manifests.read(manifest.name))
        if entries:
            result.append(store.manifests.write(next_name(), entries, store.partition_types, schema_id))
    return result
