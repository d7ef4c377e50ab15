"""Branches: fork a table, write apart, and take the work over into main.

A branch has snapshots, schemas and tags of its own; data files are shared and never copied. What always holds: a branch
exists once its `schema-0` does, which is written last and deleted first, so that no step leaves half a branch behind.

If main has moved elsewhere, the branch's commits are made again on top of it, of the same files. Otherwise main takes a
branch over by making the branch's snapshots its own, one after the other, as a writer would: each is created
only if its number is free, so that a writer who comes first is noticed and nothing of his is lost. A crash in between
leaves main at one of the branch's states; calling it again goes on from there.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from ..errors import AlreadyExists, CommitConflict, InvalidRequest
from ..identifier import MAIN_BRANCH, Identifier, check_branch_name
from ..metadata.manifest import ADD, ManifestEntry, Place
from ..metadata.snapshot import BATCH_COMMIT_IDENTIFIER, Snapshot
from ..metadata.table_store import TableStore
from ..paths import TablePaths
from ..read.version import branch_names, on_branch
from ..write.commit import CommitId, CommitListener, TableCommit
from ..write.table_write import CommitMessage
from .references import delete_unneeded, files_of
from .rollback import rollback_to

# Key of the property by which main knows what it has put on top of its own snapshots.
TAKEN_OVER_PROPERTY = "snapline.taken-over"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether main can take a branch over.

    clean: main has not moved since they parted. disjoint: it has, in other partitions or buckets than the branch, so that
    both survive. diverged: in the same; `lost` are main's snapshots that would go. `new` are the branch's snapshots that
    main does not have yet; `common` is the last snapshot that both have, None if there is none.
    """

    kind: Literal["clean", "disjoint", "diverged"]
    common: int | None
    new: tuple[Snapshot, ...]
    lost: tuple[Snapshot, ...]

    def describe(self) -> str:
        """The verdict in a sentence, with the jobs whose work would be lost."""
        if self.kind == "clean":
            return (
                f"clean: main has not moved since snapshot {self.common or 0}; {len(self.new)} snapshots to take over"
            )
        if self.kind == "disjoint":
            return (
                f"disjoint: main has moved since snapshot {self.common or 0}, but elsewhere; {len(self.new)} snapshots are "
                f"put on top of its {len(self.lost)}"
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
    return delete_unneeded(on_branch(store, MAIN_BRANCH), candidates)


def judge(main: TableStore, branch: TableStore) -> Verdict:
    """Compare a branch with main."""
    theirs = {snapshot.id: snapshot for snapshot in branch.snapshots.all()}
    ours = {snapshot.id: snapshot for snapshot in main.snapshots.all()}
    shared = [one for one in theirs.keys() & ours.keys() if _same(theirs[one], ours[one])]
    common = max(shared, default=None)
    apart = [snapshot for number, snapshot in ours.items() if number > (common or 0)]
    # What was put on top of main before is in both, under another number.
    taken = {(snapshot.properties or {}).get(TAKEN_OVER_PROPERTY) for snapshot in apart}
    lost = tuple(snapshot for snapshot in apart if TAKEN_OVER_PROPERTY not in (snapshot.properties or {}))
    later = (snapshot for number, snapshot in theirs.items() if number > (common or 0))
    new = tuple(snapshot for snapshot in later if _mark(branch, snapshot) not in taken)
    if not apart:
        return Verdict("clean", common, new, lost)
    same_schemas = all(
        schema_id in main.schemas.ids() and main.schemas.get(schema_id) == branch.schemas.get(schema_id)
        for schema_id in branch.schemas.ids()
    )
    untouched = common is not None and same_schemas and not _meet(main, lost, branch, new)
    return Verdict("disjoint" if untouched else "diverged", common, new, lost)


def _mark(branch: TableStore, snapshot: Snapshot) -> str:
    """What main's copy of a branch's snapshot carries, so that it is not made twice."""
    return f"{branch.identifier.branch}@{snapshot.id} {snapshot.delta_manifest_list}"


def _meet(main: TableStore, ours: Sequence[Snapshot], branch: TableStore, theirs: Sequence[Snapshot]) -> bool:
    """Whether both sides did something to one bucket that cannot stand side by side."""
    mine = [entry for snapshot in ours for entry in _delta(main, snapshot)]
    others = [entry for snapshot in theirs for entry in _delta(branch, snapshot)]
    if main.schema.primary_keys:
        return bool(_places(mine) & _places(others))
    # Without a key, rows that were added by both are all there; only files that one side took away are in the way.
    gone = [entry for entry in mine if entry.kind != ADD], [entry for entry in others if entry.kind != ADD]
    return bool(_places(gone[0]) & _places(others) or _places(mine) & _places(gone[1]))


def _places(entries: Sequence[ManifestEntry]) -> set[Place]:
    return {entry.place for entry in entries}


def _delta(store: TableStore, snapshot: Snapshot) -> list[ManifestEntry]:
    listed = store.manifests.read_list(snapshot.delta_manifest_list)
    return [entry for one in listed for entry in store.manifests.read(one.name)]


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
    if verdict.kind == "disjoint":
        for snapshot in verdict.new:
            _put_on_top(main, branch, snapshot, listeners)
        _take_tags(main, branch)
        return verdict
    if verdict.kind == "diverged":
        if not discard_main:
            _refuse_if_diverged(main, branch)
        _discard(main, verdict)
        verdict = replace(verdict, new=judge(main, branch).new)
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
    _take_tags(main, branch)
    return verdict


def _take_tags(main: TableStore, branch: TableStore) -> None:
    for tag in branch.tags.all():
        if main.tags.find(tag.name) is None:
            main.tags.create(tag.name, tag.snapshot)


def _put_on_top(main: TableStore, branch: TableStore, snapshot: Snapshot, listeners: Sequence[CommitListener]) -> None:
    """Commit to main what a snapshot of the branch did; its files are the same. Raises CommitConflict if that cannot be."""
    delta = _delta(branch, snapshot)
    changelog: list[ManifestEntry] = []
    if snapshot.changelog_manifest_list is not None:
        listed = branch.manifests.read_list(snapshot.changelog_manifest_list)
        changelog = [entry for one in listed for entry in branch.manifests.read(one.name)]
    commit_id = CommitId(snapshot.commit_user, snapshot.commit_identifier, exact=True)
    if TableCommit(main, commit_id).find_committed() is not None:
        # Main has a commit of that number of its own.
        commit_id = CommitId(snapshot.commit_user, BATCH_COMMIT_IDENTIFIER)
    TableCommit(main, commit_id, listeners).commit(
        # Without paths: the files are the branch's too, and stay whatever happens here.
        [CommitMessage(tuple(entry for entry in delta if entry.kind == ADD), (), tuple(changelog))],
        deleted=[entry for entry in delta if entry.kind != ADD],
        kind=snapshot.commit_kind,
        operation=snapshot.operation,
        properties={**(snapshot.properties or {}), TAKEN_OVER_PROPERTY: _mark(branch, snapshot)},
        watermark=snapshot.watermark,
        guard=lambda: _refuse_if_diverged(main, branch),
    )


def _refuse_if_diverged(main: TableStore, branch: TableStore) -> None:
    verdict = judge(main, branch)
    if verdict.kind == "diverged":
        raise CommitConflict(
            f"Branch {branch.identifier.branch!r} cannot be taken over by {main.identifier.full_name}. "
            f"{verdict.describe()}. Insist with discard-main, or apply the change to main again."
        )


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
