"""What a commit was, in words: its operation, and what the store's own properties say of it (`docs/protocols.md`)."""

from ..journal import PUBLICATION_USER, RECOVERY_USER, UNDO_USER
from ..metadata.history import REVERTED_PROPERTY, ROLLED_BACK_PROPERTY
from ..metadata.snapshot import Snapshot
from .close import CLOSED_PROPERTY, FENCE_PROPERTY
from .taken_over import branch_taken_over


def operation_of(snapshot: Snapshot) -> str | None:
    """`WRITE`, `ROLLBACK to 5`, `MERGE of branch b`, `UNDO of publication 3: ROLLBACK to 5` …; None if the writer did not say."""
    properties = snapshot.properties or {}
    operation, user = snapshot.operation, snapshot.commit_user
    back, reverted = properties.get(ROLLED_BACK_PROPERTY), properties.get(REVERTED_PROPERTY)
    in_publication = f" in publication {snapshot.commit_identifier}"
    if CLOSED_PROPERTY in properties:
        return f"CLOSE for {properties[CLOSED_PROPERTY]}"
    if operation == "FENCE":
        return f"FENCE for {properties[FENCE_PROPERTY]}" if FENCE_PROPERTY in properties else operation
    branch = branch_taken_over(snapshot)
    gave_up = {None: "", "0": ", giving up all of main's"}.get(back, f", giving up main's after {back}")
    if branch is not None and operation == "ROLLBACK":
        return f"ROLLBACK to {back} of branch {branch}"
    if branch is not None:
        what = "" if operation in (None, "MERGE") else f" ({operation})"
        return f"MERGE of branch {branch}{what}{gave_up}{in_publication if user.startswith(PUBLICATION_USER) else ''}"
    if operation == "ADOPT" and user.startswith(RECOVERY_USER):
        return f"ADOPT of branch {user.removeprefix(RECOVERY_USER).rsplit('/', 2)[0]}{gave_up}{in_publication}"
    if back is not None:
        said: str | None = f"ROLLBACK to {back}"
    elif reverted is not None:
        said = f"{operation} of {reverted}" if operation == "REVERT" else f"{operation}, to before {reverted}"
    else:
        return operation
    return f"UNDO of publication {snapshot.commit_identifier}: {said}" if user.startswith(UNDO_USER) else said
