"""Delete and update the rows that match a condition: by key, or, without one, file by file (`row_changes`).

Each is computed from one snapshot, and computed again if others change the same rows meanwhile.
"""

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from .basis import Basis
from .commits import CommitDetails, Commits
from .errors import Unsupported
from .metadata.snapshot import Snapshot
from .read.predicate import Predicate
from .row_changes import Change, refuse_sinking, rewrite_files, sinking, with_values


def delete_matching(commits: Commits, predicate: Predicate) -> Snapshot | None:
    """Delete the rows that a bound predicate matches; None if there are none. Raises Unsupported if the table removes no rows
    by key, CommitConflict if others come first each time.
    """
    if not commits.schema.primary_keys:
        return _rewrite(commits, predicate, lambda rows, mask: rows.filter(pc.invert(mask)), "DELETE")
    _check_removable(commits)

    def delete_at(basis: Basis) -> Snapshot | None:
        rows = basis.scan(predicate).to_arrow()
        kinds = pa.repeat(pa.scalar("-D"), rows.num_rows)
        rows = rows.append_column("_kind", kinds)
        return commits.write(rows, CommitDetails(operation="DELETE"), row_kind_column="_kind", basis=basis)

    return commits.repeated(delete_at)


def update_matching(commits: Commits, predicate: Predicate, values: Mapping[str, pa.Scalar]) -> Snapshot | None:
    """Set columns of the rows that a bound predicate matches to values of their types; None if there are none. Raises
    Unsupported if written rows do not replace those that are there, CommitConflict if others come first each time.
    """
    if not commits.schema.primary_keys:
        return _rewrite(commits, predicate, lambda rows, mask: with_values(rows, mask, values), "UPDATE")
    options = commits.schema.table_options
    if options.merge_engine != "deduplicate":
        raise Unsupported(
            f"Table {commits.store.identifier} has the merge engine {options.merge_engine}: a row that is "
            "written again is merged, not replaced. Write the change as that engine takes it."
        )

    def update_at(basis: Basis) -> Snapshot | None:
        rows = basis.scan(predicate).to_arrow()
        changed = with_values(rows, pa.repeat(pa.scalar(True), rows.num_rows), values)
        sunk = sinking(rows, changed, options.sequence_field, options.sequence_field_sort_order)
        refuse_sinking(commits.store, sunk)
        return commits.write(changed, CommitDetails(operation="UPDATE"), basis=basis)

    return commits.repeated(update_at)


def _check_removable(commits: Commits) -> None:
    """Raise Unsupported if a row of kind -D does not remove the row of its key."""
    options = commits.schema.table_options
    if options.ignore_delete:
        raise Unsupported(
            f"Table {commits.store.identifier} has 'ignore-delete', with which no row is deleted by its key. Reset the option "
            "first, or overwrite the partition with the rows to keep."
        )
    engine = options.merge_engine
    removes = commits.schema.options.get(f"{engine}.remove-record-on-delete") == "true"
    if engine != "deduplicate" and not removes:
        has_option = engine in ("aggregation", "partial-update")
        made = f"Make the table with '{engine}.remove-record-on-delete', or o" if has_option else "O"
        raise Unsupported(
            f"Table {commits.store.identifier} has the merge engine {engine}, for which a row of kind -D does not remove the "
            f"row. {made}verwrite the partition with the rows to keep."
        )


def _rewrite(commits: Commits, predicate: Predicate, change: Change, operation: str) -> Snapshot | None:
    def rewrite_at(basis: Basis) -> Snapshot | None:
        if basis.snapshot is None:
            return None
        deleted, message = rewrite_files(commits.store, basis.snapshot, predicate, change)
        if not deleted and not message.marked:
            return None
        return commits.commit([message], CommitDetails(operation=operation), deleted=deleted)

    return commits.repeated(rewrite_at)
