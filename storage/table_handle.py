"""What a handle of a table knows before anything is read: which table, and the nouns that lie on it."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from .branches import Branches
from .clock import Clock
from .commits import Commits
from .consumers import Consumers
from .derived import checked_columns
from .errors import NotFound
from .identifier import MAIN_BRANCH, Identifier
from .metadata.derived_columns import ComputedColumn
from .metadata.schema import TableSchema
from .metadata.table_store import TableStore
from .partitions import partition_values
from .read.version import Version
from .snapshots import Snapshots
from .table_log import TableLog
from .tags import Tags
from .write.listeners import CommitListener

# How errors of a store end, by what becomes of a call that failed.
NOT_COMMITTED = "Nothing was committed. Mend the store, then repeat the call."
PARTLY_DONE = "What was done before stays done. Mend the store, then repeat the call."
NOTHING_CHANGED = "Nothing was changed."


class TableHandle:
    """One branch of a table, optionally fixed at a version. Cheap to make; holds no open files."""

    def __init__(
        self,
        store: TableStore,
        catalog_name: str,
        listeners: Sequence[CommitListener] = (),
        version: Version = None,
        *,
        is_new_definition: bool = False,
    ) -> None:
        """`is_new_definition`: the schema is written with the first commit."""
        self._store = store
        self._commits = Commits(store, listeners, version, is_new_definition=is_new_definition)
        self._catalog_name = catalog_name
        self._listeners = listeners
        self._version = version

    @property
    def identifier(self) -> Identifier:
        """Database, table and branch. A branch that has become main is called main: see `was_branch`."""
        return self._store.identifier

    @property
    def schema(self) -> TableSchema:
        """The latest schema of the branch."""
        return self._store.schema

    @property
    def is_new_definition(self) -> bool:
        """Whether this is the table under a definition that becomes its own with the first commit."""
        return self._commits.is_new_definition

    @property
    def computed_columns(self) -> list[ComputedColumn]:
        """Columns that are not stored: the engines that read the table compute them from others.

        Raises CorruptData or Unsupported, naming it, for one that would do anything else than compute.
        """
        return checked_columns(self.schema, str(self.identifier))

    @property
    def store(self) -> TableStore:
        """What the engines and the other rooms work on."""
        return self._store

    @property
    def location(self) -> str:
        """The table's directory as a URL."""
        return self._store.file_io.url(self._store.paths.root)

    @property
    def made_ms(self) -> int | None:
        """When the table was made, in milliseconds since 1970, by the first version of its schema; None if that is not there."""
        with suppress(NotFound):
            return self._store.schemas.get(0).time_ms
        return None

    @property
    def directory(self) -> str:
        """The table's directory as its file system names it, without a protocol."""
        return self._store.paths.root

    @property
    def was_branch(self) -> str:
        """Of a main that was a branch before, the name it had; else empty."""
        own = self._store.paths.branch
        return own if self.identifier.branch == MAIN_BRANCH != own else ""

    @property
    def clock(self) -> Clock:
        """By what commits are dated and ages counted."""
        return self._store.clock

    @property
    def snapshots(self) -> Snapshots:
        """The snapshots of the branch."""
        return Snapshots(self._store, self._catalog_name, self._version)

    @property
    def tags(self) -> Tags:
        """The tags of the branch; a new one names the version of the handle."""
        return Tags(self._store, self._version)

    @property
    def consumers(self) -> Consumers:
        """The named readers of changes."""
        return Consumers(self._store)

    @property
    def branches(self) -> Branches:
        """The branches of the table; a new one begins at the version of the handle."""
        return Branches(self._store, self._listeners, self._version)

    @property
    def log(self) -> TableLog:
        """The copy of the table's changes in a system such as Kafka."""
        return TableLog(self._store)

    def partition_values(self, partition: Mapping[str, Any]) -> dict[str, Any]:
        """The values of some partition columns as the store holds them. Raises InvalidRequest for other columns."""
        return partition_values(self._store, partition)
