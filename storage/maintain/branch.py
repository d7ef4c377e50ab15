"""Branches: fork a table without copying data, and forget a fork.

A branch has snapshots, schemas and tags of its own; data files are shared and never copied. What always holds: a branch
exists once its `schema-0` does, which is written last and deleted first, so that no step leaves half a branch behind.
"""

from ..errors import AlreadyExists, InvalidRequest
from ..identifier import MAIN_BRANCH, Identifier, check_branch_name
from ..metadata.branch_origin import BranchOrigin, write_origin
from ..metadata.main_branch import find_main
from ..metadata.snapshot import Snapshot
from ..metadata.table_store import TableStore
from ..paths import TablePaths
from ..read.version import branch_names, on_branch
from .references import delete_unneeded, last_needed


def create_branch(
    store: TableStore, name: str, snapshot: Snapshot | None, tag: str | None = None, *, latest_schema: bool = False
) -> TableStore:
    """Fork at a snapshot (with the tag that names it, if given); None makes an empty branch.

    The branch has the snapshot's schema and those before, or all, the latest among them, if it is empty or `latest_schema`
    is set. Raises AlreadyExists if there is one of that name.
    """
    check_branch_name(name)
    file_io = store.file_io
    if name in branch_names(store) or name == find_main(file_io, store.paths.root).branch:
        raise AlreadyExists(
            f"Branch {name!r} of {store.identifier.full_name} exists. Delete it first, or choose another name."
        )
    paths = TablePaths(store.paths.root, name)
    # What an attempt that died left behind.
    file_io.delete_directory(paths.metadata_root)
    begun_at = snapshot.id if snapshot else None
    write_origin(file_io, paths, BranchOrigin(store.identifier.branch, tag, begun_at, store.clock.now_ms()))
    if snapshot is not None:
        plain = snapshot.without_others()
        file_io.write_bytes(paths.snapshot(snapshot.id), plain.to_json().encode())
        for hint in ("EARLIEST", "LATEST"):
            file_io.write_bytes(f"{paths.snapshot_directory}/{hint}", str(snapshot.id).encode())
        if tag is not None:
            file_io.write_bytes(paths.tag(tag), snapshot.to_json(f"tag-{tag}").encode())
    schema_ids = store.schemas.ids()
    if snapshot is not None and not latest_schema:
        schema_ids = [one for one in schema_ids if one <= max(snapshot.schema_id, 0)]
    for schema_id in reversed(schema_ids):
        # Whole or not at all: with the last of them, the branch is there.
        file_io.create_exclusively(paths.schema(schema_id), file_io.read_bytes(store.paths.schema(schema_id)))
    one = store.identifier
    return TableStore(file_io, store.paths.root, Identifier(one.database, one.table, name), clock=store.clock)


def delete_branch(store: TableStore, name: str) -> list[str]:
    """Delete a branch and the files that nobody else needs; returns those. Raises NotFound that lists the branches."""
    branch = on_branch(store, name)
    if branch.identifier.branch == MAIN_BRANCH:
        raise InvalidRequest("The main branch cannot be deleted. Drop the table instead.")
    candidates = last_needed(branch, branch.snapshots.all())
    for tag in branch.tags.all():
        candidates |= last_needed(branch, [tag.snapshot])
    branch.file_io.delete(branch.paths.schema(0))
    branch.file_io.delete_directory(branch.paths.metadata_root)
    return delete_unneeded(on_branch(store, MAIN_BRANCH), candidates)
