"""What a warehouse holds, by name, and where: databases of tables, views and Kafka tables in directories.

The directories are the only state: a table is there if its directory has a schema.
"""

from contextlib import suppress

from .branches import Branches
from .clock import Clock
from .errors import AlreadyExists, CorruptData, DirectoryInPlace, MainReplaced, NotFound, StorageError, Unsupported
from .file_io import FileIO
from .identifier import MAIN_BRANCH, Identifier, check_name
from .kafka.tables import KafkaTables, name_of_kafka_table
from .maintain.lost_schema import is_lost_table, refuse_lost_table
from .maintain.move_table import refuse_claimed
from .metadata.discard import discard
from .metadata.main_branch import find_main
from .metadata.schema import SchemaFiles
from .metadata.table_store import TableStore
from .paths import TablePaths
from .system_tables import SYSTEM_TABLES
from .table_names import refuse_reserved
from .views import Views, name_of_view
from .warehouse_check import is_name

# What is being deleted lies here, where nobody looks.
_DISCARDED = ".discarded"


class WarehouseContents:
    """The databases, tables, views and Kafka tables below the root of a warehouse."""

    def __init__(self, warehouse: str, root: str, file_io: FileIO, clock: Clock) -> None:
        """`warehouse`: its path or URL, as users know it; `root`: its path in the file system."""
        self.warehouse = warehouse
        self.root = root
        self.file_io = file_io
        self.clock = clock

    # --- databases

    def databases(self) -> list[str]:
        """The names of all databases, sorted."""
        names = self.file_io.list_directories(self.root)
        plain = (name.removesuffix(".db") for name in names if name.endswith(".db"))
        return sorted(name for name in plain if is_name(name, "database"))

    def create_database(self, name: str, *, if_not_exists: bool = True) -> None:
        """Create a database. Raises InvalidRequest for a name that none can have, AlreadyExists unless `if_not_exists`,
        Unsupported where a database is there only once something is in it.
        """
        self.make_database(name, if_not_exists=if_not_exists)
        if not self.file_io.is_local and name not in self.databases():
            raise Unsupported(
                f"Database {name!r} is not there: this file system keeps no empty directory. Create a table in it."
            )

    def make_database(self, name: str, *, if_not_exists: bool = True) -> None:
        """Make the directory of a database, for what is about to be created in it too. Raises as `create_database` does."""
        check_name(name, "database")
        refuse_reserved(name)
        if not if_not_exists and name in self.databases():
            raise AlreadyExists(f"Database {name!r} exists.")
        self.file_io.make_directory(f"{self.root}/{name}.db", listed=True)

    def delete_database_if_empty(self, name: str) -> bool:
        """Delete the directory of a database, with what is no table; says whether it is gone."""
        directory = f"{self.root}/{name}.db"
        for table in self.file_io.list_directories(directory):
            self.clear(f"{directory}/{table}")
            self.file_io.delete_empty_directory(f"{directory}/{table}")
        for file in self.file_io.list_files(directory):
            if name_of_view(file.name) is not None or name_of_kafka_table(file.name) is not None:
                # Somebody has created it since: those that were there have been dropped by their names.
                return False
            self.file_io.delete(f"{directory}/{file.name}")
        return self.file_io.delete_empty_directory(directory)

    # --- views and Kafka tables

    @property
    def views(self) -> Views:
        """The views of the warehouse."""
        return Views(self.file_io, self.root, lambda name: self.exists(name) or self.kafka_tables.exists(name))

    @property
    def kafka_tables(self) -> KafkaTables:
        """The tables of the warehouse that are topics of Kafka. `tables` lists none of them."""
        return KafkaTables(self.file_io, self.root, self._refuse_others_than_kafka)

    def _refuse_others_than_kafka(self, identifier: Identifier) -> None:
        self.views.refuse_taken(identifier)
        if self.exists(identifier.full_name):
            raise AlreadyExists(f"Table {identifier} exists. Drop it first, or choose another name.")

    def refuse_taken(self, identifier: Identifier) -> None:
        """Raise AlreadyExists for the name of a view or of a Kafka table."""
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
        names: list[str] = []
        for value in [database] if database else databases:
            directory = f"{self.root}/{value}.db"
            names += [
                f"{value}.{table}"
                for table in self.file_io.list_directories(directory)
                # What has no name that a table can have is left out, and told by `check`.
                if is_name(table, "table")
                and (
                    self.has_schema(TablePaths(f"{directory}/{table}"))
                    or is_lost_table(self.file_io, f"{directory}/{table}")
                )
            ]
        return sorted(names)

    def exists(self, name: str) -> bool:
        """Whether there is a table of that name."""
        identifier = Identifier.parse(name)
        if identifier.system_table is not None and identifier.system_table not in SYSTEM_TABLES:
            return False
        return self.has_schema(TablePaths(self.path(identifier), identifier.branch))

    def has_schema(self, paths: TablePaths) -> bool:
        """Whether there is a table, or branch, at these paths."""
        if SchemaFiles(self.file_io, paths).ids():
            return True
        try:
            # Main may have been replaced with a branch.
            return paths.branch == MAIN_BRANCH and find_main(self.file_io, paths.root) != paths
        except CorruptData:
            # Whichever it names: a table that cannot be opened.
            return True

    def open(self, identifier: Identifier) -> TableStore:
        """The table, or branch, of a name. Raises NotFound that lists the tables of the database, CorruptData that says what
        ends a table that cannot be opened.
        """
        try:
            return TableStore(self.file_io, self.path(identifier), identifier, clock=self.clock)
        except NotFound:
            raise self.missing(identifier) from None
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

    def missing(self, identifier: Identifier) -> NotFound:
        """The error that there is no table of a name, which lists what there is. Raises CorruptData if it has lost its schema."""
        if identifier.database not in self.databases():
            existing = f"Databases of {self.warehouse}: {', '.join(self.databases()) or 'none'}."
        elif identifier.branch != MAIN_BRANCH and self.exists(identifier.full_name):
            branches = Branches(self.open(Identifier.parse(identifier.full_name)), ()).names()
            existing = f"Branches of {identifier.full_name}: {', '.join(branches) or 'none but main'}."
        elif identifier.table in self.kafka_tables.names(identifier.database):
            existing = "It is a Kafka table, which has no snapshots, branches or system tables."
        else:
            existing = f"Tables of {identifier.database}: {', '.join(self.tables(identifier.database)) or 'none'}."
        refuse_lost_table(self.file_io, self.path(identifier), identifier.full_name)
        return NotFound(f"Table {identifier} does not exist. {existing}")

    def gone(self, identifier: Identifier, opened: TableStore | None) -> StorageError:
        """Why a table has gone since a call began: NotFound, or MainReplaced if it has another main since."""
        if not self.exists(identifier.full_name):
            return self.missing(identifier)
        try:
            if opened is not None:
                opened.refuse_other_table()
        except (MainReplaced, NotFound) as error:
            return error
        return NotFound(
            f"{identifier} was made anew since the call began. Nothing is done; repeat it if that one is meant."
        )

    # --- directories

    def path(self, identifier: Identifier) -> str:
        """The directory of a table."""
        return f"{self.root}/{identifier.database}.db/{identifier.table}"

    def clear(self, path: str, *, discard_damaged: bool = False) -> None:
        """Put away what a writer who came too late, or a drop that died, has left where a table was. Raises CorruptData if that
        is a table that has lost its schema, unless `discard_damaged`.
        """
        paths = TablePaths(path)
        if not self.file_io.list_directories(path) or self.has_schema(paths):
            return
        if not discard_damaged:
            database, table = path.rsplit("/", 2)[1:]
            refuse_lost_table(self.file_io, path, f"{database.removesuffix('.db')}.{table}")
        if not self.file_io.moves_at_once:
            refuse_claimed(self.file_io, path)
            discard(self.file_io, path, lambda: self.file_io.exists(paths.schema(0)))
            return
        discarded = self.discarded()
        if self.file_io.move_directory_unless(path, discarded, lambda: self.has_schema(paths)):
            self.file_io.delete_directory(discarded)

    def discarded(self) -> str:
        """A place of its own for a directory that is about to be deleted."""
        return f"{self.root}/{_DISCARDED}/{self.clock.unique_name()}"

    def delete_discarded(self) -> None:
        """Delete what others have left who died while they deleted."""
        directory = f"{self.root}/{_DISCARDED}"
        with suppress(OSError, StorageError):
            for name in self.file_io.list_directories(directory):
                with suppress(OSError, StorageError):
                    self.file_io.delete_directory(f"{directory}/{name}")
