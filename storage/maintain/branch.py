"""Branches: fork a table, write apart, and take the work over into main.

A branch has snapshots, schemas and tags of its own; data files are shared and never copied. What always holds: a branch
exists once its `schema-0` does, which is written last and deleted first, so that no step leaves half a branch behind.

Main takes a branch over by making the branch's snapshots its own, one after the other, as a writer would: each is created
only if its number is free, so that a writer who comes first is noticed and nothing of his is lost. A crash in between
leaves main at one of the branch's states; calling it again goes on from there.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ..errors import AlreadyExists, CommitConflict, InvalidRequest
from ..identifier import MAIN_BRANCH, Identifier, check_branch_name
from ..metadata.snapshot import Snapshot
from ..metadata.table_store import TableStore
from ..paths import TablePaths
from ..read.version import branch_names, on_branch
from ..write.commit import CommitId, CommitListener, TableCommit
from .references import files_of, needed_files
from .rollback import rollback_to


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether main can take a branch over.

    clean: main has not moved since they parted. diverged: it has; `lost` are main's snapshots that would go.
    `common` is the last snapshot that both have, None if there is none.
    """

    kind: Literal["clean", "diverged"]
    common: int | None
    new: tuple[Snapshot, ...]
    lost: tuple[Snapshot, ...]

    def describe(self) -> str:
        """The verdict in a sentence, with the jobs whose work would be lost."""
        if self.kind == "clean":
            return (
                f"clean: main has not moved since snapshot {self.common or 0}; {len(self.new)} snapshots to take over"
            )
        lost = ", ".join(f"{one.id} ({one.operation or one.commit_kind} by {one.commit_user})" for one in self.lost)
        return f"diverged: main has moved since snapshot {self.common or 0}. Its snapshots that would be lost: {lost}"


def create_branch(store: TableStore, name: str, snapshot: Snapshot | None, tag: str | None = None) -> TableStore:
    """Fork at a snapshot (with the tag that names it, if given); None makes an empty branch with the latest schema.

    Raises AlreadyExists if there is one of that name.
    """
    check_branch_name(name)
    if name in branch_names(store):
        raise AlreadyExists(
            f"Branch {name!r} of {store.identifier.full_name} exists. Delete it first, or choose another name."
        )
    paths = TablePaths(store.paths.root, name)
    file_io = store.file_io
    # What an attempt that died left behind.
    file_io.delete_directory(paths.metadata_root)
    if snapshot is not None:
        plain = snapshot.without_others()
        file_io.write_bytes(paths.snapshot(snapshot.id), plain.to_json().encode())
        for hint in ("EARLIEST", "LATEST"):
            file_io.write_bytes(f"{paths.snapshot_directory}/{hint}", str(snapshot.id).encode())
        if tag is not None:
            file_io.write_bytes(paths.tag(tag), snapshot.to_json().encode())
    newest = store.schema.id if snapshot is None else max(snapshot.schema_id, 0)
    for schema_id in sorted((one for one in store.schemas.ids() if one <= newest), reverse=True):
        # Whole or not at all: with the last of them, the branch is there.
        file_io.create_exclusively(paths.schema(schema_id), file_io.read_bytes(store.paths.schema(schema_id)))
    one = store.identifier
    return TableStore(file_io, store.paths.root, Identifier(one.database, one.table, name), clock=store.clock)


def delete_branch(store: TableStore, name: str) -> list[str]:
    """Delete a branch and the files that nobody else needs; returns those. Raises NotFound that lists the branches."""
    if name == MAIN_BRANCH:
        raise InvalidRequest("The main branch cannot be deleted. Drop the table instead.")
    branch = on_branch(store, name)
    candidates: set[str] = set()
    for snapshot in [*branch.snapshots.all(), *(tag.snapshot for tag in branch.tags.all())]:
        candidates |= files_of(branch, snapshot)
    branch.file_io.delete(branch.paths.schema(0))
    branch.file_io.delete_directory(branch.paths.metadata_root)
    files = sorted(candidates - needed_files(on_branch(store, MAIN_BRANCH)).keys())
    for path in files:
        branch.file_io.delete(path)
    return files


def judge(main: TableStore, branch: TableStore) -> Verdict:
    """Compare a branch with main."""
    theirs = {snapshot.id: snapshot for snapshot in branch.snapshots.all()}
    ours = {snapshot.id: snapshot for snapshot in main.snapshots.all()}
    shared = [one for one in theirs.keys() & ours.keys() if _same(theirs[one], ours[one])]
    common = max(shared, default=None)
    lost = tuple(snapshot for number, snapshot in ours.items() if number > (common or 0))
    new = tuple(snapshot for number, snapshot in theirs.items() if number > (common or 0))
    return Verdict("diverged" if lost else "clean", common, new, lost)


def _same(one: Snapshot, other: Snapshot) -> bool:
    return (one.uuid, one.delta_manifest_list, one.commit_user) == (
        other.uuid,
        other.delta_manifest_list,
        other.commit_user,
    )


def fast_forward(
    main: TableStore, branch: TableStore, *, discard_main: bool = False, listeners: Sequence[CommitListener] = ()
) -> Verdict:
    """Make the branch's snapshots main's own; returns the verdict. The branch stays.

    Raises CommitConflict, naming what would be lost, if main has moved, unless `discard_main`.
    """
    verdict = judge(main, branch)
    if verdict.kind == "diverged":
        if not discard_main:
            raise CommitConflict(
                f"Branch {branch.identifier.branch!r} cannot be taken over by {main.identifier.full_name}. "
                f"{verdict.describe()}. Insist with discard-main, or apply the change to main again."
            )
        _discard(main, verdict)
    _take_schemas(main, branch)
    for snapshot in verdict.new:
        if not main.snapshots.create(snapshot):
            found = main.snapshots.find(snapshot.id)
            if found is None or not _same(found, snapshot):
                raise CommitConflict(
                    f"A writer came first: {main.identifier.full_name} has another snapshot {snapshot.id} than branch "
                    f"{branch.identifier.branch!r}. Nothing of it is lost; ask for the verdict again."
                )
        TableCommit(main, CommitId(snapshot.commit_user), listeners).notify(snapshot)
    for tag in branch.tags.all():
        if main.tags.find(tag.name) is None:
            main.tags.create(tag.name, tag.snapshot)
    return verdict


def _discard(main: TableStore, verdict: Verdict) -> None:
    if verdict.common is None:
        raise InvalidRequest(
            f"Main of {main.identifier.full_name} and the branch have no snapshot in common: roll back or truncate main."
        )
    rollback_to(main, main.snapshots.get(verdict.common))


def _take_schemas(main: TableStore, branch: TableStore) -> None:
    for schema_id in branch.schemas.ids():
        theirs = branch.schemas.get(schema_id)
        if schema_id in main.schemas.ids():
            if main.schemas.get(schema_id) != theirs:
                raise CommitConflict(
                    f"Version {schema_id} of the schema of {main.identifier.full_name} is another one on branch "
                    f"{branch.identifier.branch!r}: both were altered. Apply the branch's changes of columns to main by hand."
                )
        else:
            main.schemas.create(theirs)
