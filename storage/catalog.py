"""A warehouse: databases of tables in directories, and the catalog's own options in one JSON file.

The directories are the only state. Options of the catalog (`table-lineage`, `data-lineage`, `table-storage.*` defaults …)
are written when the catalog is first used with them; those of lineage cannot be changed afterwards.
"""

import logging
import posixpath
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa

from .arguments import checked
from .branch_set import BranchSet
from .catalog_options import option_text, refuse_other_options, settle_options
from .clock import Clock
from .data_types import DataField
from .derived import check_given
from .errors import (
    AlreadyExists,
    CommitConflict,
    CorruptData,
    DirectoryInPlace,
    InvalidRequest,
    MainReplaced,
    NotFound,
    StorageError,
    StoreUnavailable,
)
from .file_io import FileIO, Witness, split_url
from .iceberg.clean_up import withdraw
from .iceberg.publish import publish_after
from .identifier import DEFAULT_CATALOG, MAIN_BRANCH, Identifier, check_name
from .journal import DISCARD_DAMAGED, UNDONE, Journal, Publication
from .kafka.tables import KafkaTables, name_of_kafka_table
from .lock import CatalogLock
from .log.definition import check_log, drop_topic, with_topic, without_topic
from .log.publish import hold
from .log_options import has_log
from .lsm.merge_engines import check_merge_engine
from .maintain.beside_publication import is_tagged, refuse_open
from .maintain.drop_damaged import drop_damaged, refuse_damaged
from .maintain.findings import BrokenInvariant
from .maintain.lost_schema import is_lost_table, refuse_lost_table
from .maintain.move_table import move_table, refuse_claimed, refuse_renaming
from .maintain.rescale import refuse_rescaling
from .metadata.default_values import check_defaults
from .metadata.derived_columns import ComputedColumn, Watermark, derived_options
from .metadata.discard import delete_moved, discard
from .metadata.first_schema import new_schema
from .metadata.former_names import FormerName, former_names, refuse_name_of_late, write_former_names
from .metadata.main_branch import find_main
from .metadata.schema import SchemaFiles, TableSchema
from .metadata.snapshot import Snapshot
from .metadata.table_store import TableStore
from .notes import Notes
from .options_without_effect import with_an_effect
from .paths import TablePaths
from .publications.clean_up import clean_up
from .publications.consistent_view import consistent_view
from .publications.finish import MadeFrom, finish
from .publications.foresee import foresee
from .publications.open_publication import OpenPublication, open_publications
from .publications.set_aside import SetAside, discard_damaged
from .publications.traces import made_by
from .publications.undo import undo as undo_publication
from .read.version import all_branches
from .secret import Secret
from .store_errors import made_or_told, outcome
from .system_tables import SYSTEM_TABLES
from .table import Table
from .table_names import plain_name, refuse_reserved, whole_table
from .views import Views, name_of_view
from .warehouse_check import check_warehouse, is_name
from .write.close import RENAMING, closed_for, refuse_closed
from .write.listeners import CommitListener, tell_listeners

_log = logging.getLogger(__name__)
_TABLE_DEFAULTS = "table-storage."
# What is being deleted lies here, where nobody looks.
_DISCARDED = ".discarded"


@checked
class Catalog:
    """All tables of a warehouse. Cheap to make."""

    def __init__(
        self,
        warehouse: str,
        *,
        name: str = DEFAULT_CATALOG,
        options: Mapping[str, Any] | None = None,
        storage_options: Mapping[str, Any] | None = None,
        clock: Clock | None = None,
        listeners: Sequence[CommitListener] = (),
        lock: CatalogLock | None = None,
        file_io: FileIO | None = None,
        external_roots: Sequence[str] = (),
    ) -> None:
        """`warehouse` is a local path or any fsspec URL; `storage_options` go to fsspec. `lock` is needed for file systems
        that cannot create a file on condition that there is none. `file_io`: other files than those that fsspec gives.
        `external_roots`: directories outside of the tables, paths or URLs of the warehouse's file system, from which data
        files are read that the tables name there; nothing is ever deleted in them.

        Raises InvalidRequest if `options` contradict what the catalog was created with.
        """
        self.name = check_name(name, "catalog")
        self.warehouse = warehouse
        self._clock = clock or Clock()
        self._file_io = file_io or FileIO(warehouse, dict(storage_options or {}), self._clock, lock, external_roots)
        self._root = split_url(warehouse)
        self._listeners = tuple(listeners)
        given = {key: option_text(value) for key, value in (options or {}).items() if not isinstance(value, Secret)}
        self.options = settle_options(self._file_io, self._root, given)

    def refuse_other_options(self, given: Mapping[str, Any]) -> None:
        """Raise InvalidRequest for options that contradict what the catalog was created with. Nothing is written."""
        refuse_other_options(self._file_io, self._root, {key: option_text(value) for key, value in given.items()})

    def with_listeners(self, *listeners: CommitListener) -> "Catalog":
        """The same catalog; commits to its tables are told to these listeners."""
        return Catalog(
            self.warehouse,
            name=self.name,
            storage_options=self._file_io.storage_options,
            clock=self._clock,
            listeners=listeners,
            lock=self._file_io.lock,
            file_io=self._file_io,
        )

    @property
    def storage_options(self) -> Mapping[str, Any]:
        """What fsspec was given; values that may be secret are guarded."""
        return self._file_io.storage_options

    # --- databases

    def databases(self) -> list[str]:
        """The names of all databases, sorted."""
        names = self._file_io.list_directories(self._root)
        plain = (name.removesuffix(".db") for name in names if name.endswith(".db"))
        return sorted(name for name in plain if is_name(name, "database"))

    def create_database(self, name: str, *, if_not_exists: bool = True) -> None:
        """Create a database. Raises InvalidRequest for a name that none can have, AlreadyExists unless `if_not_exists`."""
        check_name(name, "database")
        refuse_reserved(name)
        if name in self.databases() and not if_not_exists:
            raise AlreadyExists(f"Database {name!r} exists.")
        self._file_io.make_directory(f"{self._root}/{name}.db")

    def drop_database(self, name: str, *, if_exists: bool = False, cascade: bool = False) -> None:
        """Drop a database that is empty, or with `cascade` all of its tables as well.

        Raises NotFound, InvalidRequest, and CommitConflict if somebody creates a table meanwhile.
        """
        if name not in self.databases():
            if if_exists:
                return
            raise NotFound(f"Database {name!r} does not exist. Databases: {', '.join(self.databases()) or 'none'}.")
        held = self.tables(name)
        views = self.views.names(name)
        topics = self.kafka_tables.names(name)
        if (held or views or topics) and not cascade:
            kinds = (("tables", held), ("views", views), ("Kafka tables", topics))
            what = " and ".join(f"{kind} ({', '.join(names)})" for kind, names in kinds if names)
            raise InvalidRequest(f"Database {name!r} has {what}. Drop them first, or drop with CASCADE.")
        for table in held:
            # Before the first goes.
            one = Identifier.parse(table)
            refuse_lost_table(self._file_io, self._path(one), table)
            refuse_damaged(self._file_io, self._path(one), one, self._clock)
        with outcome(f"Database {name!r} is not dropped, though tables of it may be: drop it again."):
            for table in held:
                self.drop_table(table, if_exists=True)
            for view in views:
                with suppress(NotFound):
                    self.views.drop(f"{name}.{view}")
            for topic in topics:
                with suppress(NotFound):
                    self.kafka_tables.drop(f"{name}.{topic}")
            is_gone = self._delete_if_empty(f"{self._root}/{name}.db")
        if not is_gone:
            created = [*self.tables(name), *(f"{name}.{view}" for view in self.views.names(name))]
            raise CommitConflict(
                f"Database {name!r} stays: somebody has created a table or a view in it meanwhile "
                f"({', '.join(created) or 'not done yet'}). Drop the database again."
            )

    def _delete_if_empty(self, directory: str) -> bool:
        """Delete the directory of a database, with what is no table; says whether it is gone."""
        for table in self._file_io.list_directories(directory):
            self._clear(f"{directory}/{table}")
            self._file_io.delete_empty_directory(f"{directory}/{table}")
        for file in self._file_io.list_files(directory):
            if name_of_view(file.name) is not None or name_of_kafka_table(file.name) is not None:
                # Somebody has created it since: those that were there have been dropped by their names.
                return False
            self._file_io.delete(f"{directory}/{file.name}")
        return self._file_io.delete_empty_directory(directory)

    @property
    def views(self) -> Views:
        """The views of the warehouse."""
        return Views(self._file_io, self._root, lambda name: self.exists(name) or self.kafka_tables.exists(name))

    @property
    def kafka_tables(self) -> KafkaTables:
        """The tables of the warehouse that are topics of Kafka. `tables` lists none of them."""
        return KafkaTables(self._file_io, self._root, self._refuse_others_than_kafka)

    def _refuse_others_than_kafka(self, identifier: Identifier) -> None:
        self.views.refuse_taken(identifier)
        if self.exists(identifier.full_name):
            raise AlreadyExists(f"Table {identifier} exists. Drop it first, or choose another name.")

    def _refuse_taken(self, identifier: Identifier) -> None:
        self.views.refuse_taken(identifier)
        self.kafka_tables.refuse_taken(identifier)

    # --- tables

    def tables(self, database: str | None = None) -> list[str]:
        """Full names of all tables, sorted, those among them that are damaged. Raises NotFound for a database that does not
        exist.
        """
        databases = self.databases()
        if database is not None and database not in databases:
            raise NotFound(f"Database {database!r} does not exist. Databases: {', '.join(databases) or 'none'}.")
        found: list[str] = []
        for value in [database] if database else databases:
            directory = f"{self._root}/{value}.db"
            found += [
                f"{value}.{table}"
                for table in self._file_io.list_directories(directory)
                # What has no name that a table can have is left out, and told by `check`.
                if is_name(table, "table")
                and (
                    self._has_schema(TablePaths(f"{directory}/{table}"))
                    or is_lost_table(self._file_io, f"{directory}/{table}")
                )
            ]
        return sorted(found)

    def table(self, name: str) -> Table:
        """The table of that name (`db.t`, `db.t$branch_b`). Raises NotFound that lists the tables of the database."""
        identifier = Identifier.parse(name)
        if identifier.system_table is not None:
            raise InvalidRequest(
                f"{name!r} is a system table: read it by `read({name!r})` or `table.system_table({identifier.system_table!r})`."
            )
        try:
            return self._table(TableStore(self._file_io, self._path(identifier), identifier, clock=self._clock))
        except NotFound:
            raise NotFound(self._missing(identifier)) from None
        except DirectoryInPlace:
            raise
        except CorruptData as error:
            name = identifier.full_name
            ended = f"delete-branch {name} --name {identifier.branch}"
            if identifier.branch == MAIN_BRANCH:
                ended = f"drop-table {name} --discard-damaged"
            raise CorruptData(
                f"{str(error).rstrip('.')}. Restore the file, or give up what it describes by `snapline {ended}`."
            ) from None

    def _missing(self, identifier: Identifier) -> str:
        if identifier.database not in self.databases():
            existing = f"Databases of {self.warehouse}: {', '.join(self.databases()) or 'none'}."
        elif identifier.branch != MAIN_BRANCH and self.exists(identifier.full_name):
            branches = self.table(identifier.full_name).branches.names()
            existing = f"Branches of {identifier.full_name}: {', '.join(branches) or 'none but main'}."
        elif identifier.table in self.kafka_tables.names(identifier.database):
            existing = "It is a Kafka table, which has no snapshots, branches or system tables."
        else:
            existing = f"Tables of {identifier.database}: {', '.join(self.tables(identifier.database)) or 'none'}."
        refuse_lost_table(self._file_io, self._path(identifier), identifier.full_name)
        return f"Table {identifier} does not exist. {existing}"

    def exists(self, name: str) -> bool:
        """Whether there is a table of that name."""
        identifier = Identifier.parse(name)
        if identifier.system_table is not None and identifier.system_table not in SYSTEM_TABLES:
            return False
        return self._has_schema(TablePaths(self._path(identifier), identifier.branch))

    def _has_schema(self, paths: TablePaths) -> bool:
        if SchemaFiles(self._file_io, paths).ids():
            return True
        try:
            # Main may have been replaced with a branch.
            return paths.branch == MAIN_BRANCH and find_main(self._file_io, paths.root) != paths
        except CorruptData:
            # Whichever it names: a table that cannot be opened.
            return True

    def read(self, name: str) -> pa.Table:
        """All rows of a table or system table (`db.t$snapshots`)."""
        identifier = Identifier.parse(name)
        if identifier.system_table is None:
            return self.table(name).to_arrow()
        plain = Identifier(identifier.database, identifier.table, identifier.branch)
        return self.table(str(plain)).system_table(identifier.system_table)

    def create_table(
        self,
        name: str,
        schema: pa.Schema | Sequence[DataField],
        *,
        primary_key: Sequence[str] = (),
        partition_by: Sequence[str] = (),
        options: Mapping[str, Any] | None = None,
        comment: str | None = None,
        if_not_exists: bool = False,
        computed_columns: Sequence[ComputedColumn] = (),
        watermark: Watermark | None = None,
    ) -> Table:
        """Create a table, and its database if need be. Computed columns and the watermark are kept for engines.

        Raises InvalidRequest that names the wrong column or option, AlreadyExists unless `if_not_exists`.
        """
        identifier = plain_name(name)
        first = self._first_schema(schema, primary_key, partition_by, options, comment, computed_columns, watermark)
        self._refuse_taken(identifier)
        self.create_database(identifier.database)
        first = replace(first, uuid=self._clock.unique_name())
        taken = AlreadyExists(f"Table {identifier} exists. Drop it first, or create it if it does not exist.")
        try:
            if self.exists(name):
                raise taken
            with with_topic(identifier, first) as first:
                if not self._create(self._path(identifier), first):
                    raise taken
                self._refuse_view_beside(identifier, first)
        except AlreadyExists as error:
            if if_not_exists and error is taken:
                return self.table(name)
            raise
        store = TableStore(self._file_io, self._path(identifier), identifier, first, self._clock)
        if has_log(first.options):
            hold(store)
        return self._table(store)

    def _refuse_view_beside(self, identifier: Identifier, first: TableSchema) -> None:
        """Take a table away again, and raise AlreadyExists, if somebody has created a view of its name meanwhile."""
        try:
            with outcome(f"Table {identifier} is there."):
                self._refuse_taken(identifier)
        except AlreadyExists:
            self._withdraw(identifier, first)
            raise

    def _withdraw(self, identifier: Identifier, first: TableSchema) -> None:
        """Take a table away that has come second to a view of its name. Raises CommitConflict if somebody has written to it."""
        table = self._table(TableStore(self._file_io, self._path(identifier), identifier, first, self._clock))
        if self.drop_unwritten(table):
            return
        files = SchemaFiles(self._file_io, TablePaths(self._path(identifier)))
        if self._file_io.moves_at_once or table.store.snapshots.latest_id() is not None or not files.delete_if(first):
            raise CommitConflict(
                f"{identifier} is a table and a view: both were created at once, and the table has been written to. Drop one "
                "of them, or rename the table."
            )

    def redefined_table(
        self,
        name: str,
        schema: pa.Schema | Sequence[DataField],
        *,
        primary_key: Sequence[str] = (),
        partition_by: Sequence[str] = (),
        options: Mapping[str, Any] | None = None,
        comment: str | None = None,
        computed_columns: Sequence[ComputedColumn] = (),
        watermark: Watermark | None = None,
    ) -> Table:
        """A table that is there under another definition, which is its own as soon as an overwrite is committed to what is
        returned; until then nobody sees it. The history stays.

        Raises NotFound, and InvalidRequest for a definition by which the history could not be read.
        """
        plain_name(name)
        table = self.table(name)
        new = self._first_schema(schema, primary_key, partition_by, options, comment, computed_columns, watermark)
        return table.redefined(new)

    def _first_schema(
        self,
        schema: pa.Schema | Sequence[DataField],
        primary_key: Sequence[str],
        partition_by: Sequence[str],
        options: Mapping[str, Any] | None,
        comment: str | None,
        computed_columns: Sequence[ComputedColumn],
        watermark: Watermark | None,
    ) -> TableSchema:
        """The first schema of a table, checked."""
        defaults = {
            k.removeprefix(_TABLE_DEFAULTS): v for k, v in self.options.items() if k.startswith(_TABLE_DEFAULTS)
        }
        keyed = bool(primary_key) or bool((options or {}).get("primary-key"))
        partitioned = bool(partition_by) or bool((options or {}).get("partition"))
        defaults = with_an_effect(defaults, keyed=keyed, partitioned=partitioned)
        first = new_schema(
            schema,
            primary_keys=primary_key,
            partition_keys=partition_by,
            options={
                **defaults,
                **(options or {}),
                **derived_options([field.name for field in schema], computed_columns, watermark),
            },
            comment=comment,
            time_ms=self._clock.now_ms(),
        )
        check_merge_engine(first)
        check_given(first)
        check_defaults(first)
        check_log(first)
        return first

    def _create(self, path: str, first: TableSchema) -> bool:
        """Create a table where nothing is left of another one; False if somebody else came first."""
        schemas = SchemaFiles(self._file_io, TablePaths(path), lambda: Witness(path))
        while True:
            self._clear(path)
            self._file_io.make_directory(path)
            # Somebody else may clear what is no table yet.
            with suppress(NotFound):
                return schemas.create(first) and self._is_free(schemas, first, path)

    def _is_free(self, schemas: SchemaFiles, first: TableSchema, path: str) -> bool:
        """Whether no table is on its way to a place where one was created: else that is taken away."""
        if not self._file_io.moves_at_once:
            try:
                refuse_claimed(self._file_io, path)
            except CommitConflict:
                schemas.delete_if(first)
                raise
        return True

    def create_table_like(
        self, name: str, like: str, *, options: Mapping[str, Any] | None = None, if_not_exists: bool = False
    ) -> Table:
        """Create an empty table with the columns, keys, options and comment of another; `options` replace some."""
        model = self.table(like).schema
        return self.create_table(
            name,
            model.fields,
            primary_key=model.primary_keys,
            partition_by=model.partition_keys,
            options={**without_topic(model.options), **(options or {})},
            comment=model.comment,
            if_not_exists=if_not_exists,
        )

    def notes(self, kind: str) -> Notes:
        """Documents of a kind that the warehouse keeps, in the directory `.<kind>`."""
        return Notes(self._file_io, posixpath.join(self._root, f".{check_name(kind, 'kind of notes')}"))

    # --- several tables

    def check(self) -> list[BrokenInvariant]:
        """The files of the warehouse that belong to no table and cannot be read: journals of publications, and notes; and
        directories among the tables with names that no table can have. Then the publications that are open (Unpublished), and the
        files that were set aside (KeptAside).
        """
        publications: list[OpenPublication] = []
        # Journals that cannot be read are among what is broken.
        with suppress(CorruptData):
            publications = self.publications()
        return check_warehouse(self._file_io, self._root, publications)

    @property
    def _journal(self) -> Journal:
        return Journal(self._file_io, self._root)

    def branch_set(self, branch: str, tables: Sequence[str]) -> BranchSet:
        """The branches of one name on several tables, to be created, published and deleted together."""
        return BranchSet(self.table, self._journal, branch, tables)

    def consistent(self, tables: Sequence[str]) -> dict[str, Table]:
        """The tables, fixed at their latest snapshots of which no publication is half to be seen."""
        return consistent_view(self.table, self._journal, tables)

    def publications(self) -> list[OpenPublication]:
        """The publications that have begun and not ended: somebody is at them, or a crash or a conflict left them open."""
        return open_publications(self.table, self._journal)

    def made_by(self, publication: Publication) -> dict[str, Snapshot | None]:
        """For each table the snapshot by which its main has a publication; None if there is none."""
        return made_by(self.table, publication)

    def damaged_publications(self) -> dict[int, str]:
        """The publications whose files in the journal cannot be read, by number, each with why and with what ends it."""
        entries = self._journal.entries()
        return {
            int(entry.name): f"{entry.why} `{DISCARD_DAMAGED}` ends it."
            for entry in (*entries.damaged, *entries.damaged_left)
        }

    def foresee_recovery(
        self, *, discard_main: bool = False, undo: bool = False, branch: str | None = None
    ) -> dict[int, dict[str, str]]:
        """What `recover` would do: for each publication, by number, what would become of each table. Nothing is done."""
        journal = self._journal
        return {
            int(entry.name): foresee(self.table, journal, entry, undo=undo, discard_main=discard_main)
            for entry in journal.all_open()
            if branch in (None, entry.branch)
        }

    def recover(
        self,
        *,
        discard_main: bool = False,
        undo: bool = False,
        branch: str | None = None,
        made_from: MadeFrom | None = None,
    ) -> list[Publication]:
        """Finish, or undo, the publications that a crash or a conflict left open, all or those of a branch; returns them.

        One that somebody has begun to undo is undone. Raises, once the others are done, the error of the first that stays open,
        which names those of the rest: CommitConflict for what would lose somebody's work, unless `discard_main`; CorruptData if
        its journal is damaged.
        """
        journal = self._journal
        entries = journal.entries()
        for ended in entries.left:
            clean_up(self.table, journal, ended)
        begun = [publication for publication in entries.open if branch in (None, publication.branch)]
        refused: list[StorageError] = []
        for publication in begun:
            try:
                if undo or journal.outcome(publication) == UNDONE:
                    undo_publication(self.table, journal, publication, discard_main=discard_main)
                else:
                    insists = publication.discard_main or discard_main
                    finish(self.table, journal, replace(publication, discard_main=insists), made_from)
            except StorageError as error:
                refused.append(error)
        if branch is None and entries.damaged:
            why = f"{entries.damaged[0].why} Nothing can be said of that publication: `{DISCARD_DAMAGED}` ends it."
            refused.append(CorruptData(why))
        if refused:
            raise refused[0] if len(refused) == 1 else type(refused[0])(" ".join(map(str, refused)))
        return begun

    def discard_damaged(self, *, discard_main: bool = False) -> list[SetAside]:
        """End the publications whose files in the journal cannot be read; returns what became of them.

        What they have done is undone, unless they were published already, or replaced mains. The damaged files are kept
        aside, and `check` names them. Tables that cannot be read and have nothing to do with it are passed by, and named.
        Raises CommitConflict if later commits build on it, unless `discard_main`; CorruptData for a table that cannot be read
        and bears its tag.
        """

        def is_marked(name: str, tag: str) -> bool:
            return is_tagged(self._file_io, self._path(Identifier.parse(name)), tag)

        return discard_damaged(self.table, self.tables(), self._journal, is_marked, discard_main=discard_main)

    def rename_table(self, name: str, new_name: str) -> Table:
        """Give a table another name. On a local file system at once; an object store copies every file, and the table takes no
        commits until that is done.

        Raises NotFound, AlreadyExists, or CommitConflict for a table that is being changed as a whole. What a listener raises is
        logged and kept as a trouble: the table is renamed.
        """
        return self._rename(whole_table(name), whole_table(new_name), goes_back=False)

    def _rename(self, identifier: Identifier, target: Identifier, *, goes_back: bool) -> Table:
        """`goes_back`: at once after it got the name that it has, without a look at what may be deleted late."""
        if not self.exists(identifier.full_name):
            raise NotFound(self._missing(identifier))
        taken = AlreadyExists(f"Table {target.full_name} exists. Drop it first, or choose another name.")
        source = self._path(identifier)
        store = TableStore(self._file_io, source, replace(identifier, branch=MAIN_BRANCH), clock=self._clock)
        latest = store.snapshots.latest()
        is_under_way = closed_for(latest) == f"{RENAMING} {target.full_name}"
        if self.exists(target.full_name) and not is_under_way:
            if not self.exists(identifier.full_name):
                # Somebody has just given it that name.
                raise NotFound(self._missing(identifier))
            raise taken
        self._refuse_taken(target)
        self.create_database(target.database)

        def refuse() -> None:
            self._refuse_taken(target)
            refuse_for_others()

        def refuse_for_others() -> None:
            """Asked again once nothing is written into the table any more: who publishes, or closes main, comes first then."""
            refuse_open(self._journal, [store])
            if self._file_io.moves_at_once or not is_under_way:
                # Whoever replaces main would not find the table any more, and leave it closed.
                refuse_closed(store, store.snapshots.latest())
                with suppress(CorruptData, NotFound):
                    # Nor would whoever deletes a branch of several tables find this one's.
                    for branch in all_branches(store):
                        refuse_closed(branch, branch.snapshots.latest())
            refuse_rescaled()

        def refuse_rescaled() -> None:
            # Nor would whoever rescales a branch.
            with suppress(CorruptData, NotFound):
                for branch in all_branches(store):
                    refuse_rescaling(branch)

        def refuse_moving() -> None:
            refuse_open(self._journal, [store])
            refuse_rescaled()

        refuse()
        # Before the move: a name that is still its own does no harm, one that is lost cannot be told any more.
        names = former_names(self._file_io, source)
        try:
            if not is_under_way:
                if not goes_back:
                    refuse_name_of_late(self._file_io, names, target, self._clock.now_ms())
                names.append(FormerName(identifier.full_name, self._clock.now_ms()))
                with outcome(f"Nothing is done: the table is called {identifier.full_name}.", landed=False):
                    write_former_names(self._file_io, source, names, store.read_witness())
            if self._file_io.moves_at_once:
                self._clear(self._path(target))
                self._move(store, target, refuse)
            else:
                with outcome(f"{identifier} may be closed to writers until that is done: rename it again."):
                    move_table(store, target, self._path(target), refuse_moving)
        except NotFound:
            raise self._gone(identifier, store) from None
        except AlreadyExists:
            self._refuse_taken(target)
            raise taken from None
        with outcome(f"The table is called {target.full_name} now."):
            self._refuse_view_since(identifier, target)
            withdraw(store)
            renamed = self.table(target.full_name)
            if not self._file_io.moves_at_once:
                # Until now requests were sent that delete what it left.
                until = FormerName(identifier.full_name, self._clock.now_ms())
                write_former_names(
                    self._file_io, renamed.store.paths.root, [*names[:-1], until], renamed.store.read_witness()
                )
            publish_after(renamed.store, None)
        tell_listeners(renamed.store, self._listeners, lambda one: one.notify_table_renamed(identifier, target))
        return renamed

    def _move(self, store: TableStore, target: Identifier, refuse: Callable[[], None]) -> None:
        """Give the directory of a table another name, at once."""
        of, source, place = store.read_witness(), store.paths.root, self._path(target)

        def move() -> bool:
            self._file_io.move_directory_if(source, place, of, refuse)
            return True

        def has_arrived() -> bool:
            known = None if of.path is None else self._file_io.read_bytes_or_none(place + of.path.removeprefix(source))
            return known is not None and known == of.content

        made_or_told(move, has_arrived, f"table {target.full_name}")

    def _refuse_view_since(self, identifier: Identifier, target: Identifier) -> None:
        """Give a table its old name back if somebody has created a view of the new one while it was moved. Raises AlreadyExists
        that says which name it has.
        """
        try:
            self._refuse_taken(target)
        except AlreadyExists as error:
            with outcome(
                f"The table is called {target.full_name} now, as the view is: drop the view, or rename the table."
            ):
                self._rename(target, identifier, goes_back=True)
            raise AlreadyExists(f"{error} The table is still called {identifier.full_name}.") from None

    def _clear(self, path: str, *, discard_damaged: bool = False) -> None:
        """Put away what a writer who came too late, or a drop that died, has left where a table was. Raises CorruptData if that
        is a table that has lost its schema, unless `discard_damaged`.
        """
        paths = TablePaths(path)
        if not self._file_io.list_directories(path) or self._has_schema(paths):
            return
        if not discard_damaged:
            refuse_lost_table(self._file_io, path, self._name_of(path))
        if not self._file_io.moves_at_once:
            refuse_claimed(self._file_io, path)
            discard(self._file_io, path, lambda: self._file_io.exists(paths.schema(0)))
            return
        discarded = self._discarded()
        if self._file_io.move_directory_unless(path, discarded, lambda: self._has_schema(paths)):
            self._file_io.delete_directory(discarded)

    def _delete_discarded(self) -> None:
        """Delete what others have left who died while they deleted."""
        directory = f"{self._root}/{_DISCARDED}"
        with suppress(OSError, StorageError):
            for name in self._file_io.list_directories(directory):
                with suppress(OSError, StorageError):
                    self._file_io.delete_directory(f"{directory}/{name}")

    def _discarded(self) -> str:
        """A place of its own for a directory that is about to be deleted."""
        return f"{self._root}/{_DISCARDED}/{self._clock.unique_name()}"

    def renamed_to(self, name: str) -> str | None:
        """The table that had a name before, by its name of today; of several the one that had it last. None if there is none, or
        a table of that name.
        """
        if self.exists(name):
            return None
        newest: tuple[int, str] | None = None
        for table in self.tables():
            with suppress(StorageError):
                for former in self.former_names(table):
                    if former.name == name and (newest is None or former.until_ms > newest[0]):
                        newest = (former.until_ms, table)
        return None if newest is None else newest[1]

    def former_names(self, name: str) -> list[FormerName]:
        """The names that a table had before, oldest first."""
        return former_names(self._file_io, self._path(Identifier.parse(name)))

    def drop_table(self, name: str, *, if_exists: bool = False, discard_damaged: bool = False) -> None:
        """Delete a table with all its snapshots, tags, branches and files. `discard_damaged`: one that cannot be opened, and no
        other. Raises InvalidRequest for the name of a branch, MainReplaced if the table gets another main meanwhile.
        """
        identifier = whole_table(name)
        if not self.exists(identifier.full_name):
            is_left = bool(self._file_io.list_directories(self._path(identifier)))
            self._clear(self._path(identifier), discard_damaged=discard_damaged)
            if if_exists or (discard_damaged and is_left):
                return
            raise NotFound(self._missing(identifier))
        root = self._path(identifier)
        if discard_damaged:
            drop_damaged(self._file_io, root, identifier, self._clock, self._journal, self._discarded())
            return
        refuse_damaged(self._file_io, root, identifier, self._clock)
        store: TableStore | None = None
        try:
            store = TableStore(self._file_io, root, replace(identifier, branch=MAIN_BRANCH), clock=self._clock)
            refuse = partial(refuse_open, self._journal, [store])
            refuse()
            # To a place of its own first: who sleeps here deletes what was asked for, and nothing of a later table.
            discarded = self._discarded()
            if not self._file_io.moves_at_once:
                refuse_renaming(store)
            try:
                if self._file_io.moves_at_once:
                    self._file_io.move_directory_if(root, discarded, store.read_witness(), refuse)
                else:
                    self._drop_file_by_file(store)
            except StoreUnavailable as error:
                self._refuse_undropped(identifier, error)
        except NotFound:
            gone = self._gone(identifier, store)
            if if_exists and isinstance(gone, NotFound):
                return
            raise gone from None
        if self._file_io.moves_at_once:
            delete_moved(self._file_io, discarded, f"{identifier} is dropped", "the next table that is dropped")
            self._delete_discarded()
        withdraw(store)
        drop_topic(store.schema.options, str(identifier))

    def drop_unwritten(self, table: Table) -> bool:
        """Drop a table that its creator could not fill, unless somebody has written to it since, or branched it, or it is
        another one by now; says whether it has. Local disks alone: on object stores nobody can be kept out meanwhile, and the
        table stays.
        """
        store = table.store

        def refuse() -> None:
            if store.snapshots.latest_id() is not None or table.branches.names():
                raise AlreadyExists(f"{table.identifier} has been written to.")

        if not self._file_io.moves_at_once:
            return False
        discarded = self._discarded()
        try:
            self._file_io.move_directory_if(store.paths.root, discarded, store.read_witness(), refuse)
        except (NotFound, AlreadyExists):
            return False
        delete_moved(self._file_io, discarded, f"{table.identifier} is dropped", "the next table that is dropped")
        drop_topic(store.schema.options, str(table.identifier))
        return True

    def _refuse_undropped(self, identifier: Identifier, error: StoreUnavailable) -> None:
        """After an error in the middle of a drop on an object store: only told if the table is dropped by then."""
        with outcome(f"Whether {identifier} is dropped cannot be known: drop it again. ({error})"):
            is_there = self.exists(identifier.full_name)
        if is_there:
            with outcome(f"{identifier} is not dropped, or not all of it: drop it again."):
                raise error
        _log.warning(
            "%s is dropped, but files of it may be left, which the next drop, or table of its name, deletes: %s",
            identifier,
            error,
        )

    def _gone(self, identifier: Identifier, opened: TableStore | None) -> StorageError:
        """Why a table has gone since a call began: NotFound, or MainReplaced if it has another main since."""
        if not self.exists(identifier.full_name):
            return NotFound(self._missing(identifier))
        try:
            if opened is not None:
                opened.refuse_other_table()
        except (MainReplaced, NotFound) as error:
            return error
        return NotFound(
            f"{identifier} was made anew since the call began. Nothing is done; repeat it if that one is meant."
        )

    def _drop_file_by_file(self, store: TableStore) -> None:
        """Without schemas there is no table: a crash in the middle leaves none, and what is left goes before the next one."""
        first = TablePaths(store.paths.root).schema(0)
        held = self._file_io.read_bytes_or_none(first)
        store.refuse_other_table()
        paths = TablePaths(store.paths.root)
        if not discard(
            self._file_io,
            paths.root,
            lambda: self._file_io.read_bytes_or_none(first) not in (None, held),
            first=(paths.schema_directory, paths.main_branch_file),
            at_once=True,
        ):
            raise NotFound(f"{store.identifier} was dropped meanwhile.")
        if self._has_schema(paths):
            # Of others, who came after the listing: unless it is another table by now.
            discard(self._file_io, paths.root, lambda: self._file_io.exists(first))

    def _name_of(self, path: str) -> str:
        database, table = path.rsplit("/", 2)[1:]
        return f"{database.removesuffix('.db')}.{table}"

    def _path(self, identifier: Identifier) -> str:
        return f"{self._root}/{identifier.database}.db/{identifier.table}"

    def _table(self, store: TableStore) -> Table:
        return Table(store, self.name, self._listeners)
