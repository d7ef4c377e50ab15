"""A warehouse: databases of tables in directories, and the catalog's own options in one JSON file.

The directories are the only state. Options of the catalog (`table-lineage`, `data-lineage`, `table-storage.*` defaults …)
are written when the catalog is first used with them; those of lineage cannot be changed afterwards.
"""

import posixpath
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pyarrow as pa

from .arguments import checked
from .branch_set import BranchSet
from .catalog_options import option_text, refuse_other_options, settle_options
from .clock import Clock
from .create_table import create_table
from .data_types import DataField
from .derived import check_given
from .drop_table import drop_table, drop_unwritten
from .errors import CommitConflict, CorruptData, InvalidRequest, NotFound, StorageError
from .file_io import FileIO
from .file_system import split_url
from .identifier import DEFAULT_CATALOG, Identifier, check_name
from .journal import DISCARD_DAMAGED, UNDONE, Journal, Publication
from .kafka.tables import KafkaTables
from .lock import CatalogLock
from .log.definition import check_log, without_topic
from .lsm.merge_engines import check_merge_engine
from .maintain.beside_publication import is_tagged
from .maintain.drop_damaged import refuse_damaged
from .maintain.findings import BrokenInvariant
from .maintain.lost_schema import refuse_lost_table
from .metadata.default_values import check_defaults
from .metadata.derived_columns import ComputedColumn, Watermark, derived_options
from .metadata.first_schema import new_schema
from .metadata.former_names import FormerName, former_names
from .metadata.schema import TableSchema
from .metadata.snapshot import Snapshot
from .metadata.table_store import TableStore
from .notes import Notes
from .options_without_effect import with_an_effect
from .publications.clean_up import clean_up
from .publications.consistent_view import consistent_view
from .publications.finish import MadeFrom, finish
from .publications.foresee import foresee
from .publications.open_publication import OpenPublication, open_publications
from .publications.set_aside import SetAside, discard_damaged
from .publications.traces import made_by
from .publications.undo import undo as undo_publication
from .rename_table import rename_table
from .secret import Secret
from .store_errors import outcome
from .table import Table
from .table_names import plain_name, whole_table
from .views import Views
from .warehouse_check import check_warehouse
from .warehouse_contents import WarehouseContents
from .write.listeners import CommitListener

_TABLE_DEFAULTS = "table-storage."


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
        self._contents = WarehouseContents(warehouse, self._root, self._file_io, self._clock)
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
        parsed: Mapping[str, Any] = self._file_io.storage_options
        return parsed

    # --- databases

    def databases(self) -> list[str]:
        """The names of all databases, sorted."""
        return self._contents.databases()

    def create_database(self, name: str, *, if_not_exists: bool = True) -> None:
        """Create a database. Raises InvalidRequest for a name that none can have, AlreadyExists unless `if_not_exists`."""
        self._contents.create_database(name, if_not_exists=if_not_exists)

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
            identifier = Identifier.parse(table)
            refuse_lost_table(self._file_io, self._contents.path(identifier), table)
            refuse_damaged(self._file_io, self._contents.path(identifier), identifier, self._clock)
        with outcome(f"Database {name!r} is not dropped, though tables of it may be: drop it again."):
            for table in held:
                self.drop_table(table, if_exists=True)
            for view in views:
                with suppress(NotFound):
                    self.views.drop(f"{name}.{view}")
            for topic in topics:
                with suppress(NotFound):
                    self.kafka_tables.drop(f"{name}.{topic}")
            is_gone = self._contents.delete_database_if_empty(name)
        if not is_gone:
            created = [*self.tables(name), *(f"{name}.{view}" for view in self.views.names(name))]
            raise CommitConflict(
                f"Database {name!r} stays: somebody has created a table or a view in it meanwhile "
                f"({', '.join(created) or 'not done yet'}). Drop the database again."
            )

    @property
    def views(self) -> Views:
        """The views of the warehouse."""
        return self._contents.views

    @property
    def kafka_tables(self) -> KafkaTables:
        """The tables of the warehouse that are topics of Kafka. `tables` lists none of them."""
        return self._contents.kafka_tables

    # --- tables

    def tables(self, database: str | None = None) -> list[str]:
        """Full names of all tables, sorted, those among them that are damaged. Raises NotFound for a database that does not
        exist.
        """
        return self._contents.tables(database)

    def table(self, name: str) -> Table:
        """The table of that name (`db.t`, `db.t$branch_b`). Raises NotFound that lists the tables of the database."""
        identifier = Identifier.parse(name)
        if identifier.system_table is not None:
            raise InvalidRequest(
                f"{name!r} is a system table: read it by `read({name!r})` or `table.system_table({identifier.system_table!r})`."
            )
        return self._table(self._contents.open(identifier))

    def exists(self, name: str) -> bool:
        """Whether there is a table of that name."""
        return self._contents.exists(name)

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
        self._contents.refuse_taken(identifier)
        self._contents.make_database(identifier.database)
        first = replace(first, uuid=self._clock.unique_name())
        store = create_table(self._contents, identifier, first, if_not_exists=if_not_exists)
        return self.table(name) if store is None else self._table(store)

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
        defaults = with_an_effect(defaults, options or {}, keyed=keyed, partitioned=partitioned)
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

    def publications(self, branches: Collection[str] | None = None) -> list[OpenPublication]:
        """The publications that have begun and not ended: somebody is at them, or a crash or a conflict left them open. All, or
        those of some branches.
        """
        return open_publications(self.table, self._journal, branches)

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
            return is_tagged(self._file_io, self._contents.path(Identifier.parse(name)), tag)

        return discard_damaged(self.table, self.tables(), self._journal, is_marked, discard_main=discard_main)

    def rename_table(self, name: str, new_name: str) -> Table:
        """Give a table another name. On a local file system at once; an object store copies every file, and the table takes no
        commits until that is done.

        Raises NotFound, AlreadyExists, or CommitConflict for a table that is being changed as a whole. What a listener raises is
        logged and kept as a trouble: the table is renamed.
        """
        source, target = whole_table(name), whole_table(new_name)
        return self._table(rename_table(self._contents, self._journal, source, target, self._listeners))

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
        return former_names(self._file_io, self._contents.path(Identifier.parse(name)))

    def drop_table(self, name: str, *, if_exists: bool = False, discard_damaged: bool = False) -> None:
        """Delete a table with all its snapshots, tags, branches and files. `discard_damaged`: one that cannot be opened, and no
        other. Raises InvalidRequest for the name of a branch, MainReplaced if the table gets another main meanwhile.
        """
        drop_table(
            self._contents, self._journal, whole_table(name), if_exists=if_exists, discard_damaged=discard_damaged
        )

    def drop_unwritten(self, table: Table) -> bool:
        """Drop a table that its creator could not fill, unless somebody has written to it since, or branched it, or it is
        another one by now; says whether it has. Local disks alone: on object stores nobody can be kept out meanwhile, and the
        table stays.
        """
        return drop_unwritten(self._contents, table.store)

    def _table(self, store: TableStore) -> Table:
        return Table(store, self.name, self._listeners)
