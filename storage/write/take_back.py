"""Take back a commit whose files are not there: a writer slept so long before it landed that they were cleaned as orphans.

The state before is put on top. The snapshot in between stays in the history until it expires; nobody needs its files, its
commit id counts as never committed, and readers of changes pass it by.
"""

from ..metadata.history import ROLLED_BACK_PROPERTY, rolled_back_properties
from ..metadata.snapshot import TAKE_BACK, Snapshot
from ..metadata.table_store import TableStore
from .close import put_on_top


def take_back(store: TableStore, snapshot: Snapshot, base: Snapshot | None) -> Snapshot | None:
    """Put on top of the newest snapshot, which cannot be read, the state of an earlier one; None if a writer came first."""
    back = {ROLLED_BACK_PROPERTY: "0"} if base is None else rolled_back_properties(base)
    return put_on_top(store, snapshot, base, TAKE_BACK, back)
