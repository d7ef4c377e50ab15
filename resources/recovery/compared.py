"""How the branches of a recovery differ from main: before it is published, by that, and since."""

from typing import TYPE_CHECKING

from storage import NotFound, Table
from storage.engines.duckdb_compare import Comparison, compare

from .record import PUBLISHED

if TYPE_CHECKING:
    from .stages import Recovery


def compare_branch(recovery: "Recovery", name: str) -> Comparison:
    """As `Recovery.compare`."""
    published = _publications(recovery, name)
    if published:
        main = recovery.main(name)
        before, after = main.after_commit(published[0] - 1), main.after_commit(published[-1])
        return compare(before if _has_brought_columns(recovery, name, after) else before.with_columns_of(after), after)
    if name in recovery.without_branch():
        raise NotFound(f"{name} has no branch {recovery.branch!r} (any more): there is nothing to compare.")
    main = recovery.consistent_main(name)
    return compare(main, recovery.table(name).with_columns_of(main))


def compare_since(recovery: "Recovery", name: str) -> Comparison:
    """As `Recovery.compare_since`."""
    published = _publications(recovery, name)
    main = recovery.main(name).after_commit(published[-1]) if published else recovery.consistent_main(name)
    return compare(main, recovery.table(name).with_columns_of(main))


def _publications(recovery: "Recovery", name: str) -> list[int]:
    """The snapshots of main by which this recovery, if it is published, was taken over."""
    record = recovery.record
    if record.status != PUBLISHED:
        return []
    ids = [
        snapshot.id
        for snapshot in recovery.main(name).snapshots.all()
        if snapshot.time_ms >= record.created_ms
        and any(
            (f"{source.database}.{source.table}", source.branch) == (name, recovery.branch)
            for source in recovery.sources(snapshot)
        )
    ]
    # A branch that became the first snapshot of main replaced nothing.
    return ids if ids and ids[0] > 1 else []


def _has_brought_columns(recovery: "Recovery", name: str, published: Table) -> bool:
    """Whether the newest columns that main had once it was published may have come from the branch: those that production has
    altered before are not in the schema of that.
    """
    schema = published.schema
    if schema.time_ms <= recovery.record.created_ms:
        return False
    return not recovery.is_branched(name) or schema.id <= recovery.branched(name).schema.id
