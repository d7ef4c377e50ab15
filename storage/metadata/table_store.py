"""One branch of one table: its files, paths, schema, options and clock. What the rooms of the store work on."""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

from ..clock import Clock
from ..data_types import DataType
from ..directory_lock import Witness
from ..errors import CommitOutcomeUnknown, CorruptData, InvalidRequest, MainReplaced, NotFound
from ..file_io import FileIO
from ..format.binary_row import decoder
from ..identifier import MAIN_BRANCH, Identifier
from ..lazy import lazy_property
from ..options import TableOptions
from ..paths import TablePaths, partition_path
from ..values import cast_text
from .branch_origin import parse_origin
from .changelog_files import ChangelogFiles
from .cleaning import CleaningFiles
from .committed import CommittedFiles
from .consumer import ConsumerFiles
from .main_branch import find_main
from .manifest import DataFile, ManifestEntry, ManifestFile, Place
from .manifest_files import ManifestFiles
from .number_directories import NumberDirectories
from .pointed_schema import take_over_schemas
from .schema import SchemaFiles, TableSchema, points_at
from .snapshot import Snapshot
from .snapshot_files import SnapshotFiles
from .tag import TagFiles
from .trouble import TroubleFiles


class TableStore:
    """Holds one schema version: the latest when it was opened, unless `schema` is given. Pickles by that schema.

    `paths` are looked up unless they are given. A branch that has become main goes by the name of main.
    """

    def __init__(
        self,
        file_io: FileIO,
        root: str,
        identifier: Identifier,
        schema: TableSchema | None = None,
        clock: Clock | None = None,
        paths: TablePaths | None = None,
    ) -> None:
        self.file_io = file_io
        self.identifier = identifier
        self.paths = paths or TablePaths(root, identifier.branch)
        self.clock = clock or Clock()
        main: TablePaths | None = None
        while True:
            if paths is None:
                main = find_main(file_io, root)
                if identifier.branch in (MAIN_BRANCH, main.branch):
                    self.paths = main
                    self.identifier = replace(identifier, branch=MAIN_BRANCH)
            self.schemas = SchemaFiles(file_io, self.paths, self.read_witness)
            latest = schema or self.schemas.latest()
            pointed = None if latest is None or self.paths.branch != MAIN_BRANCH else points_at(latest)
            # A main that is replaced once it has been looked up has no schemas of its own any more.
            if (latest is not None and pointed is None) or main is None or main == find_main(file_io, root):
                break
        if pointed is not None:
            raise CorruptData(
                f"{self.paths.main_branch_file} is lost: the newest schema of {identifier} says that branch {pointed!r} is main. "
                "Restore it."
            )
        if latest is None:
            raise NotFound(f"Table {identifier} does not exist at {self.paths.metadata_root}.")
        self.schema = latest
        # By what it is told whether the table is still the one that was opened, whichever schema it is read with.
        self._opened = latest
        self._origin: bytes | None = None
        if schema is None and self.paths.branch != MAIN_BRANCH:
            # As it is, also damaged: it tells the branch from others all the same.
            self._origin = file_io.read_bytes_or_none(self.paths.origin)
            if (
                main == self.paths
                and self._origin is not None
                and take_over_schemas(file_io, main, self.read_witness())
            ):
                self._opened = self.schema = self.schemas.latest() or latest

    def __reduce__(self) -> tuple[object, ...]:
        arguments = (self.file_io, self.paths.root, self.identifier, self.schema, None, self.paths)
        return TableStore, arguments, {"_opened": self._opened, "_origin": self._origin}

    @lazy_property
    def options(self) -> TableOptions:
        """The options of the schema that is held."""
        return self.schema.table_options

    @lazy_property
    def snapshots(self) -> SnapshotFiles:
        """The snapshot files of the branch."""
        return SnapshotFiles(self.file_io, self.paths, self.read_witness)

    @lazy_property
    def tags(self) -> TagFiles:
        """The tag files of the branch."""
        return TagFiles(self.file_io, self.paths, self.read_witness)

    @lazy_property
    def changelogs(self) -> ChangelogFiles:
        """The changelogs of the branch that outlive their snapshots."""
        return ChangelogFiles(self.file_io, self.paths, self.read_witness)

    @lazy_property
    def consumers(self) -> ConsumerFiles:
        """The consumer files of the branch."""
        return ConsumerFiles(self.file_io, self.paths, self.read_witness)

    @lazy_property
    def committed(self) -> CommittedFiles:
        """The commit ids of the branch whose snapshots have expired."""
        return CommittedFiles(self.file_io, self.paths, lambda: self.table_id)

    @lazy_property
    def cleanings(self) -> CleaningFiles:
        """The orphan cleanings of the table that are under way."""
        return CleaningFiles(self.file_io, self.paths.root, self.read_witness)

    @lazy_property
    def troubles(self) -> TroubleFiles:
        """The failed work of the branch."""
        return TroubleFiles(self.file_io, self.paths, self.read_witness)

    @lazy_property
    def manifests(self) -> ManifestFiles:
        """The manifests of the table, and lists of them."""
        return ManifestFiles(self.file_io, self.paths, self.options.manifest_compression, refuse_gone=self._refuse_gone)

    def _refuse_gone(self) -> None:
        # Whoever reads what was main goes on with that.
        with suppress(MainReplaced):
            self.refuse_other_table()

    @lazy_property
    def partition_types(self) -> Sequence[DataType]:
        """The types of the partition columns, in order."""
        return [field.type for field in self.schema.fields_named(self.schema.partition_keys)]

    @lazy_property
    def key_types(self) -> Sequence[DataType]:
        """Types of the trimmed primary key."""
        return [field.type for field in self.schema.fields_named(self.schema.trimmed_primary_keys)]

    @lazy_property
    def decode_partition(self) -> Callable[[bytes], tuple[Any, ...]]:
        """From a manifest's partition to values (`storage.values`)."""
        return decoder(self.partition_types)

    def partition_values(self, partition: bytes) -> dict[str, Any]:
        """The values (`storage.values`) of a manifest's partition, by column."""
        return dict(zip(self.schema.partition_keys, self.decode_partition(partition), strict=True))

    def partition_literals(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Values of partition columns as users write them, which `storage.values.from_literal` reads again: whole numbers and
        texts as they are, all others as text, 2024-05-01 for a day.
        """
        types = {name: self.schema.field(name).type for name in values}
        return {
            name: value
            if value is None or types[name].is_integer or types[name].is_text
            else cast_text(types[name], value)
            for name, value in values.items()
        }

    def partition_text(self, values: Mapping[str, Any]) -> str:
        """`k1=v1/k2=v2` for values of partition columns as users write them, which names of directories need not be."""
        literals = self.partition_literals(values)
        return "/".join(f"{name}={'NULL' if value is None else value}" for name, value in literals.items())

    def shown_partition(self, partition: bytes) -> str:
        """The same of a manifest's partition; empty for tables without."""
        return self.partition_text(self.partition_values(partition))

    def partition_path(self, partition: bytes, *, for_writing: bool = False) -> str:
        """`k1=v1/k2=v2` of a partition; empty for tables without. `for_writing`: InvalidRequest or Unsupported is raised for what
        makes no directory name that every reader finds.
        """
        return self.path_of_values(self.decode_partition(partition), for_writing=for_writing)

    def path_of_values(self, values: Sequence[Any], *, for_writing: bool = False) -> str:
        """The same of the values of all partition columns, in order, as the store holds them."""
        fields = self.schema.fields_named(self.schema.partition_keys)
        path = partition_path(fields, values, self.options, for_writing=for_writing)
        if not any(field.type.is_float for field in fields):
            return path
        return self._number_directories.path(fields, values, for_writing=for_writing)

    @lazy_property
    def _number_directories(self) -> NumberDirectories:
        return NumberDirectories(self.file_io, self.paths.data_root(self.options), self.options)

    def bucket_directory(self, place: Place) -> str:
        """Where the files of a bucket of a partition lie."""
        partition, bucket = place
        return self.paths.bucket(self.partition_path(partition), bucket, self.options)

    def data_path(self, directory: str, file: DataFile) -> str:
        """The path of a data file of the bucket in `directory`, from which it is read."""
        if file.external_path:
            return self.file_io.external_path(file.external_path, f"{directory}/{file.name}")
        return f"{directory}/{file.name}"

    def key_range(self, file: DataFile) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """The first and last key of a data file, as tuples that compare in the order of keys."""
        return self._decode_key(file.min_key), self._decode_key(file.max_key)

    @lazy_property
    def _decode_key(self) -> Callable[[bytes], tuple[Any, ...]]:
        return decoder(self.key_types)

    def at_schema(self, schema: TableSchema) -> "TableStore":
        """The same branch under another version of its schema."""
        store = TableStore(self.file_io, self.paths.root, self.identifier, schema, self.clock, self.paths)
        store._opened, store._origin = self._opened, self._origin
        return store

    def is_same_table(self) -> bool:
        """Whether this is still the table, and the branch, that was opened: neither dropped, nor renamed, nor made anew."""
        same_branch = self._origin is None or self.file_io.read_bytes_or_none(self.paths.origin) == self._origin
        return same_branch and self.schemas.is_still(self._opened)

    def has_schema_of(self, other: "TableStore") -> bool:
        """Whether this branch has the very version of the schema that another one was opened with, or by."""
        return self.schemas.is_still(other._opened)

    def refuse_moved(self, what: str) -> None:
        """Raise CommitOutcomeUnknown if the table has gone while something of it was created: that has gone along."""
        if not self.is_same_table():
            raise CommitOutcomeUnknown(
                f"{what} of {self.identifier} was created, and meanwhile the table was dropped, renamed, or its main replaced: "
                "it has gone the same way. Open the table again and look."
            )

    @lazy_property
    def table_id(self) -> str:
        """What tells this table, or branch, from any other one of its name, whatever versions its schema has and had. Raises
        NotFound if it has gone, CorruptData if it cannot be told.
        """
        content = self._origin
        if content is None and self.paths.branch != MAIN_BRANCH:
            content = self.file_io.read_bytes_or_none(self.paths.origin)
        if content:
            # A damaged file would be taken for another table's.
            parse_origin(content, self.paths)
        else:
            path = self.paths.schema(0)
            text = self.file_io.read_text_or_none(path)
            if text is not None:
                TableSchema.from_json(text, path)
            content = (text or "").encode()
        # What was read is of the table that was opened if that is still there.
        self.refuse_other_table()
        return hashlib.sha256(content).hexdigest()[:32]

    def read_witness(self) -> Witness:
        """By what this table or branch is told from a later one of the same name. Raises NotFound if it is no more."""
        if self._origin is not None:
            return Witness(self.paths.root, self.paths.origin, self._origin)
        content = self.schemas.content_of(self._opened)
        if content is None:
            self.refuse_other_table()
            raise NotFound(f"Schema {self._opened.id} of {self.identifier} does not exist (any more). Nothing is done.")
        return Witness(self.paths.root, self.paths.schema(self._opened.id), content)

    def newest(self) -> Snapshot | None:
        """The newest snapshot, or None for a table without snapshots. Raises NotFound if it is another table by now.

        That there is none is only believed of a table that nobody can rename meanwhile: one that is named back afterwards is
        the same as before.
        """
        newest = self.snapshots.latest()
        if newest is None and self.file_io.is_local:
            with self.file_io.in_place(self.read_witness()):
                newest = self.snapshots.latest()
        return newest

    def refuse_other_table(self) -> None:
        """Raise NotFound unless this is still the table that was opened."""
        if not self.is_same_table():
            if self.identifier.branch == MAIN_BRANCH and find_main(self.file_io, self.paths.root) != self.paths:
                raise MainReplaced(
                    f"Main of {self.identifier} has been replaced with another branch since the table was opened. Open it again."
                )
            raise NotFound(
                f"{self.identifier} is not the table any more that was opened: it was dropped, renamed or made anew since. "
                "Nothing is done; open the table again."
            )

    @contextmanager
    def of_same_table(self) -> Iterator[None]:
        """Read by names that a later table has as well. Raises NotFound if this is another table once that has been read, also
        instead of an error that tells of what was read there.
        """
        try:
            yield
        except (NotFound, CorruptData, InvalidRequest):
            self.refuse_other_table()
            raise
        self.refuse_other_table()

    def delta_of(self, snapshot: Snapshot) -> list[ManifestEntry]:
        """What a snapshot added and took away; nothing if it was taken back because its files cannot be read."""
        try:
            listed = self.manifests.read_list(snapshot.delta_manifest_list, snapshot.delta_manifest_list_size)
            return [entry for each in listed for entry in self.manifests.read(each.name)]
        except (CorruptData, NotFound):
            if self.snapshots.is_taken_back(snapshot):
                return []
            raise

    def changelog_manifests_of(self, snapshot: Snapshot) -> list[ManifestFile]:
        """The manifests of what a snapshot tells of its changes; none if it tells nothing."""
        if snapshot.changelog_manifest_list is None:
            return []
        return [*self.manifests.read_list(snapshot.changelog_manifest_list, snapshot.changelog_manifest_list_size)]

    def manifests_of(self, snapshot: Snapshot) -> list[ManifestFile]:
        """The manifests that together describe the table at a snapshot, in order of commit."""
        return [
            *self.manifests.read_list(snapshot.base_manifest_list, snapshot.base_manifest_list_size),
            *self.manifests.read_list(snapshot.delta_manifest_list, snapshot.delta_manifest_list_size),
        ]
