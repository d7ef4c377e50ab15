"""Bring the Iceberg metadata of a table up to its newest snapshot, once a commit has landed.

A version has the number of the snapshot that it shows. What always holds: it is created whole, after the files that it names;
the hint only rises; so readers see a state that the table has had, and never an older one after a newer. Whoever dies on the
way, or does not come to it, leaves it to the next commit: what that shows is compared with what is there. Follows
`docs/format.md`, "Iceberg".
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from ..errors import CommitConflict, CorruptData, NotFound
from ..format.iceberg_types import leaf_types, refuse_misread
from ..identifier import MAIN_BRANCH
from ..metadata.schema import TableSchema
from ..metadata.snapshot import COMPACT, Snapshot
from ..metadata.table_store import TableStore
from ..metadata.trouble import ICEBERG, afterwards
from .clean_up import delete_dropped, delete_old_versions, withdraw
from .data_files import FileRecords, changes, seen_files
from .location import Location, location_of, same_file
from .manifest import Entry, Manifest, read_list
from .manifest_set import ManifestSet
from .metadata import (
    FORMAT_VERSION,
    IcebergSnapshot,
    TableMetadata,
    described_partition,
    described_schemas,
    highest_column,
    identity_of,
    properties_for,
    shown_snapshot,
)
from .names import ambiguous_names

_TRIES = 20
# How many snapshots are followed one by one; more are made up for by comparing all files.
_MOST_FOLLOWED = 50


def publish_after(store: TableStore, snapshot_id: int | None) -> None:
    """Publish what has landed, if the table has the option. Raises nothing: what fails is kept as a trouble."""
    if store.options.metadata_iceberg_storage != "disabled" and store.identifier.branch == MAIN_BRANCH:
        afterwards(store, ICEBERG, lambda: publish(store), default=False, snapshot_id=snapshot_id)


def publish(store: TableStore) -> bool:
    """Make the metadata show the newest snapshot of main; False if the table has none to be made. Raises Unsupported for what
    readers of Iceberg cannot be shown, CommitConflict if others come first each time.
    """
    for _ in range(_TRIES):
        try:
            opened = TableStore(store.file_io, store.paths.root, store.identifier, clock=store.clock)
        except NotFound:
            # It was dropped or renamed since.
            return False
        if opened.options.metadata_iceberg_storage == "disabled":
            return False
        if _Publication(opened).run():
            return True
    raise CommitConflict(f"Others publish metadata of {store.identifier} for Iceberg each time this does.")


def follow_options(before: TableStore, after: TableStore) -> None:
    """After a change of a schema: publish it, and take metadata away that are to be elsewhere, or not to be, from now on."""
    if _directory(before) not in (None, _directory(after)):
        withdraw(before)
    publish_after(after, None)


def _directory(store: TableStore) -> str | None:
    """Where the metadata of a table are to be."""
    is_published = store.options.metadata_iceberg_storage != "disabled" and store.identifier.branch == MAIN_BRANCH
    return location_of(store, store.options).directory if is_published else None


def refuse_unpublishable(store: TableStore, changed: TableSchema) -> None:
    """Raise Unsupported, naming the column, if readers of Iceberg could not follow a table under a changed schema: none of its
    columns has had a type that they do not take for the one that it has.
    """
    if changed.table_options.metadata_iceberg_storage == "disabled" or store.identifier.branch != MAIN_BRANCH:
        return
    location_of(store, changed.table_options)
    is_new = store.options.metadata_iceberg_storage == "disabled"
    for schema in map(store.schemas.get, store.schemas.ids()) if is_new else (store.schema,):
        refuse_misread(schema.fields, changed.fields)


def newest_version(place: Location, until: int) -> tuple[TableMetadata, bytes] | None:
    """The newest version up to a number that can be read, and what its file holds."""
    for version in reversed([number for number in place.versions() if number <= until]):
        path = place.metadata(version)
        content = place.file_io.read_bytes_or_none(path)
        with suppress(CorruptData):
            if content is not None:
                return TableMetadata.from_json(content, path), content
    return None


@dataclass(frozen=True, slots=True)
class _Base:
    """What is there already, and what of it a new version can be made from."""

    metadata: TableMetadata
    # Its manifests, if their entries are as they would be written now.
    manifests: list[Manifest] | None
    # The snapshots since, if what they changed can be put on top of it.
    since: list[Snapshot] | None


class _Publication:
    """One try."""

    def __init__(self, store: TableStore) -> None:
        self._store = store
        place = location_of(store, store.options)
        # Listed first: a version that is newer than the newest snapshot, which is looked for then, has no snapshot any more.
        self._versions = place.versions()
        self._latest = store.snapshots.latest()
        newest = None if self._latest is None else newest_version(place, self._latest.id)
        self._found: TableMetadata | None = None if newest is None else newest[0]
        self._content: bytes | None = None if newest is None else newest[1]
        like = None if self._found is None else self._found.location
        self._place = location_of(store, store.options, like=like)
        self._schemas: list[TableSchema] = [store.schemas.get(number) for number in store.schemas.ids()]
        self._described = described_schemas(self._schemas)
        self._partition = described_partition(store.schema)

    def run(self) -> bool:
        """Publish; False if somebody else came first."""
        latest, metadata = self._latest, self._found
        if latest is None:
            self._delete_abandoned(0)
            return True
        base = self._base(latest)
        if metadata is not None and self._shows(metadata, latest) and base is not None and base.manifests is not None:
            return self._refresh(latest, metadata)
        return self._make(latest, base)

    def _shows(self, metadata: TableMetadata, snapshot: Snapshot) -> bool:
        return metadata.current.id == snapshot.id and metadata.current.identity == identity_of(snapshot)

    # --- what is there

    def _base(self, latest: Snapshot) -> _Base | None:
        metadata = self._found
        if metadata is None:
            return None
        return _Base(metadata, self._reusable(metadata), self._since(metadata, latest))

    def _reusable(self, metadata: TableMetadata) -> list[Manifest] | None:
        """The manifests that a version has, unless they would be written otherwise now."""
        current = next(
            (schema for schema in metadata.schemas if schema["schema-id"] == metadata.current_schema_id), None
        )
        if (
            current is None
            # Others write some partitions otherwise, and leave out all properties.
            or not metadata.properties
            or metadata.format_version != FORMAT_VERSION
            or metadata.location != self._place.table_url
            or list(map(dict, metadata.partition)) != list(self._partition)
        ):
            return None
        if ambiguous_names(self._schemas) and [*map(dict, metadata.schemas)] != list(self._described):
            # Whether files without ids can still be told by their names is looked at anew.
            return None
        before, now = leaf_types(current["fields"]), leaf_types(self._described[-1]["fields"])
        if any(before[field_id][1] != now[field_id][1] for field_id in before.keys() & now.keys()):
            # Bounds of columns are in the form of their type.
            return None
        with suppress(NotFound, CorruptData):
            return read_list(self._place.file_io, self._place.file(metadata.current.manifest_list))
        return None

    def _since(self, metadata: TableMetadata, latest: Snapshot) -> list[Snapshot] | None:
        """The snapshots after the one that a version shows, if it is known what each of them changed."""
        first = metadata.current.id
        if metadata.current.identity is None or not first < latest.id <= first + _MOST_FOLLOWED:
            return None
        snapshots = self._store.snapshots
        read = [snapshots.find(number) for number in range(first, latest.id)]
        history = [snapshot for snapshot in (*read, latest) if snapshot is not None]
        # A snapshot without changes of its own may show another state than the one below it.
        if len(history) <= latest.id - first or any(not self._store.delta_of(snapshot) for snapshot in history[1:]):
            return None
        return history[1:] if identity_of(history[0]) == metadata.current.identity else None

    def _carried(self, latest: Snapshot) -> tuple[IcebergSnapshot, ...]:
        """The older snapshots that readers may still ask for: those that have not expired, or are tagged."""
        metadata = self._found
        if metadata is None or metadata.location != self._place.table_url:
            # Of a table that had another name then its metadata name files that have moved.
            return ()
        known = {number for number in self._store.snapshots.listed_ids() if number < latest.id}
        known |= {number for number in self._tagged().values() if number < latest.id}
        last = metadata.current
        if last.id < latest.id and last.identity is not None:
            here = self._store.snapshots.find(last.id)
            if here is not None and identity_of(here) != last.identity:
                # Another history, which was left for this one.
                return ()
        return tuple(snapshot for snapshot in metadata.snapshots if snapshot.id in known)

    def _tagged(self) -> dict[str, int]:
        """The snapshots that users have tagged, by the tags' names."""
        tags = {}
        for name in self._store.tags.names_for_users():
            with suppress(CorruptData):
                tag = self._store.tags.find(name)
                if tag is not None and tag.is_of_its_branch and name != MAIN_BRANCH:
                    tags[name] = tag.snapshot.id
        return tags

    # --- what is written

    def _make(self, latest: Snapshot, base: _Base | None) -> bool:
        store, metadata = self._store, self._found
        try:
            shown, written = self._shown(latest, base)
        except (NotFound, CorruptData):
            if base is None or base.manifests is None:
                raise
            # One of its manifests may be what is lost or damaged.
            shown, written = self._shown(latest, None)
        snapshots = (*self._carried(latest), shown)
        ids = {snapshot.id for snapshot in snapshots}
        new = TableMetadata(
            metadata.uuid if metadata is not None else store.clock.unique_name(),
            self._place.table_url,
            max(store.clock.now_ms(), latest.time_ms),
            max(highest_column(self._described), 0 if metadata is None else metadata.last_column_id),
            self._described,
            self._schemas[-1].id,
            self._partition,
            snapshots,
            {name: number for name, number in self._tagged().items() if number in ids},
            properties_for(self._schemas),
        )
        if not self._put(latest, new):
            self._place.file_io.delete_quietly(written)
            return False
        self._end(latest, new)
        return True

    def _shown(self, latest: Snapshot, base: _Base | None) -> tuple[IcebergSnapshot, list[str]]:
        """The snapshot to be shown, its manifests and their list written, and the paths of those. If it fails there are none."""
        store, place = self._store, self._place
        partition = store.schema.fields_named(store.schema.partition_keys)
        manifests = ManifestSet(place, store.options, partition, latest.id, store.clock.unique_name())
        try:
            listed = self._listed(latest, base, manifests)
            url = manifests.write_list(listed)
        except BaseException:
            place.file_io.delete_quietly(manifests.written)
            raise
        changed = manifests.changed
        operation = "append"
        if changed.deleted_files:
            operation = "replace" if latest.commit_kind == COMPACT else "overwrite"
        totals = {
            "added-data-files": changed.added_files,
            "added-records": changed.added_rows,
            "deleted-data-files": changed.deleted_files,
            "deleted-records": changed.deleted_rows,
            "total-data-files": sum(sum(manifest.file_counts[:2]) for manifest in listed),
            "total-records": sum(sum(manifest.row_counts[:2]) for manifest in listed),
        }
        carried = self._carried(latest)
        parent = carried[-1].id if carried else None
        return shown_snapshot(latest, parent, operation, totals, url), manifests.written

    def _listed(self, latest: Snapshot, base: _Base | None, manifests: ManifestSet) -> list[Manifest]:
        """The manifests of the snapshot."""
        removed: set[str] | None = None
        if base is not None and base.manifests is not None and base.since is not None:
            added, removed = changes(self._store, base.since)
        else:
            added = seen_files(self._store, latest)
        records = FileRecords(self._store, self._place, {schema.id: schema for schema in self._schemas}, latest.id)
        entries: dict[str, Callable[[], Entry]] = {
            self._key(path): partial(records.entry, path, entry) for path, entry in added.items()
        }
        gone = None if removed is None else set(map(self._key, removed))
        return manifests.follow((base and base.manifests) or [], entries, gone)

    def _key(self, path: str) -> str:
        """By what a file is found in manifests, whoever wrote them."""
        return same_file(self._place.url(path))

    def _refresh(self, latest: Snapshot, metadata: TableMetadata) -> bool:
        """Say in the version that shows the newest snapshot what has changed besides: schemas, tags, snapshots that expired."""
        snapshots = (*self._carried(latest), metadata.current)
        ids = {snapshot.id for snapshot in snapshots}
        new = replace(
            metadata,
            last_column_id=max(highest_column(self._described), metadata.last_column_id),
            schemas=self._described,
            current_schema_id=self._schemas[-1].id,
            snapshots=snapshots,
            tags={name: number for name, number in self._tagged().items() if number in ids},
            properties=properties_for(self._schemas),
        )
        if not new.says_as(metadata):
            new = replace(new, updated_ms=max(self._store.clock.now_ms(), metadata.updated_ms))
            if not self._put(latest, new):
                return False
        self._end(latest, new)
        return True

    def _put(self, latest: Snapshot, new: TableMetadata) -> bool:
        """Create or replace the file of a version; False if somebody else has since it was read."""
        path, data = self._place.metadata(latest.id), new.to_json()
        is_there = self._found is not None and self._found.current.id == latest.id
        expected = self._content if is_there else None
        if expected is None and latest.id in self._versions:
            # One that cannot be read.
            expected = self._place.file_io.read_bytes_or_none(path)
        is_own = self._place.file_io.replace_if(path, expected, data)
        if is_own and not self._store.is_same_table():
            # It was dropped meanwhile, and a later table of its name has metadata of its own.
            self._place.file_io.delete_if(path, data)
        return is_own

    def _end(self, latest: Snapshot, new: TableMetadata) -> None:
        """Point readers to the version, and delete what none needs any more."""
        place = self._place
        self._delete_abandoned(latest.id)
        place.file_io.raise_number(place.hint, latest.id)
        delete_dropped(place, self._found, new)
        delete_old_versions(place, latest.id, self._store.options)

    def _delete_abandoned(self, newest: int) -> None:
        """Delete the versions whose snapshots are there no more, after a rollback by another writer, or of a table before."""
        place = self._place
        abandoned = [version for version in self._versions if version > newest]
        if not abandoned:
            return
        held = place.file_io.read_bytes_or_none(place.hint)
        if held is not None and (place.file_io.read_number(place.hint) or 0) > newest:
            place.file_io.replace_if(place.hint, held, str(newest).encode())
        for version in abandoned:
            place.file_io.delete(place.metadata(version))
