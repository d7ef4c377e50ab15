"""Revert one commit and keep those after it: what it added goes, what it took away comes back."""

from ..errors import CommitConflict
from ..metadata.history import REVERTED_PROPERTY
from ..metadata.index_manifest import refuse_index
from ..metadata.manifest import ADD
from ..metadata.snapshot import OVERWRITE, Snapshot
from ..metadata.table_store import TableStore
from ..write.commit import CommitId, TableCommit
from ..write.table_write import CommitMessage
from .compaction import tell_after


def revert(store: TableStore, snapshot: Snapshot, commit_id: CommitId) -> Snapshot | None:
    """Commit the inverse of a snapshot on top of what has come since; returns that commit.

    Raises CommitConflict if later commits have merged its files with their own, Unsupported if it has an index manifest.
    """
    refuse_index(store, snapshot)
    delta = store.delta_of(snapshot)
    try:
        reverted = TableCommit(store, commit_id).commit(
            # Without paths: the files are not its own.
            [CommitMessage(tuple(entry.added() for entry in delta if entry.kind != ADD))],
            deleted=[entry for entry in delta if entry.kind == ADD],
            kind=OVERWRITE,
            operation="REVERT",
            own_properties=reverting(snapshot),
            adds_again=True,
        )
    except CommitConflict as error:
        raise CommitConflict(
            f"Snapshot {snapshot.id} of {store.identifier} cannot be taken back alone, for later commits build on it: {error} "
            "Insist with discard-main, which takes those back as well."
        ) from None
    tell_after(store, reverted, ())
    return reverted


def reverting(snapshot: Snapshot) -> dict[str, str]:
    """The properties of a commit that takes a snapshot back."""
    return {REVERTED_PROPERTY: str(snapshot.id)}
