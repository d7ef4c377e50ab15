"""What can go wrong, as a caller would act on it.

    StorageError
    ├── InvalidRequest         the call is wrong: change it
    ├── NotFound               a table, tag, snapshot, file … does not exist
    ├── AlreadyExists          … exists already
    ├── CommitConflict         another writer came first: read again, then retry
    │   ├── MainReplaced       the table has another main branch since it was opened: open it again
    │   └── RowsChanged        rows or files that a change was computed from have changed: compute it again
    ├── CommitOutcomeUnknown   the commit may have landed: look for its identifier before retrying
    ├── StoreUnavailable       the file system or object store failed or refused: mend that, then repeat
    ├── CorruptData            bytes on disk contradict the format
    └── Unsupported            a feature of the format that is refused by name

Every error carries one message (what is wrong, what was found, what to do) and survives pickling, for it may be
raised in a Spark task.
"""

from collections.abc import Iterator

from .redaction import hidden


class StorageError(Exception):
    """Base of all errors that the table store raises on purpose. No message shows a secret."""

    def __init__(self, message: object = "", *others: object) -> None:
        super().__init__(hidden(str(message)), *others)


class InvalidRequest(StorageError):
    """The call cannot be carried out as it stands."""


class NotFound(StorageError):
    """Something that was named does not exist."""


class AlreadyExists(StorageError):
    """Something that was to be created exists."""


class CommitConflict(StorageError):
    """Another writer changed what this commit builds on."""


class TakenBack(CommitConflict):
    """A commit that landed, and was taken back since its files had been cleaned as orphans, or may be."""


class MainReplaced(CommitConflict):
    """Main was replaced with a branch after the table had been opened."""


class RowsChanged(CommitConflict):
    """Others changed what a change of rows was computed from."""


class CommitOutcomeUnknown(StorageError):
    """The store did not say whether the snapshot was created."""


class StoreUnavailable(StorageError, OSError):
    """The file system or object store did not do what it was asked.

    `landed`: False if it is known that the commit under way is not there; None if there was none, or nobody knows yet.
    """

    landed: bool | None = None
    # Whether the message says what has become of the operation, and what it is without that.
    says_outcome: bool = False
    reason: str = ""


class CorruptData(StorageError):
    """A file contradicts the format or another file."""


class DirectoryInPlace(CorruptData):
    """There is a directory where a file should be: no command of the store takes that away."""


class Unsupported(StorageError):
    """A feature of the format that this reader or writer does not implement."""


# After these nobody knows what has been done; after any other error, what the caller asked for last has not been.
OUTCOME_UNKNOWN = (CommitOutcomeUnknown, StoreUnavailable)


def causes(error: BaseException) -> Iterator[BaseException]:
    """An error, and what it came from, the nearest first."""
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        yield cause
        cause = cause.__cause__ or cause.__context__
