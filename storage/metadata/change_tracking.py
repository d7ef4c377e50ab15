"""Whether a commit produces changes for downstream readers: by option for a table, for partitions, or for one write.

A snapshot that does not says so in its properties, so that the answer does not move when options do. Source: FLIP-188,
option `change-tracking`.
"""

import json
from collections.abc import Collection

from ..errors import InvalidRequest
from ..values import from_literal
from .snapshot import Snapshot
from .table_store import TableStore

# Key of the snapshot property; its value is `true` (nothing is tracked) or a JSON list of partitions as hex text.
UNTRACKED_PROPERTY = "snapline.untracked"


def untracked_property(store: TableStore, partitions: Collection[bytes], *, tracked: bool) -> dict[str, str]:
    """The property of a snapshot that wrote to the given partitions; empty if all of its changes are tracked."""
    if not (tracked and store.options.change_tracking):
        return {UNTRACKED_PROPERTY: "true"}
    silent = sorted(partition.hex() for partition in partitions if not is_tracked(store, partition))
    return {UNTRACKED_PROPERTY: json.dumps(silent)} if silent else {}


def is_tracked(store: TableStore, partition: bytes) -> bool:
    """Whether the options track changes of a partition."""
    if not store.options.change_tracking:
        return False
    untracked = store.options.change_tracking_off_partitions
    if not untracked:
        return True
    values = store.partition_values(partition)
    return not any(_matches(store, text, values) for text in untracked)


def tracks(snapshot: Snapshot, partition: bytes) -> bool:
    """Whether a snapshot's changes in a partition are for downstream readers."""
    silent = untracked_partitions(snapshot)
    return silent is not None and partition.hex() not in silent


def untracked_partitions(snapshot: Snapshot) -> list[str] | None:
    """The partitions, as hex text, in which a snapshot's changes are for nobody; None: nowhere are they for anybody.

    Raises CorruptData for what is no such property.
    """
    text = (snapshot.properties or {}).get(UNTRACKED_PROPERTY, "[]")
    if text == "true":
        return None
    try:
        silent = json.loads(text)
        if isinstance(silent, list) and all(isinstance(each, str) for each in silent):
            return silent
        why = "it is no list of texts"
    except (ValueError, RecursionError) as error:
        why = str(error)
    raise snapshot.unreadable(UNTRACKED_PROPERTY, why)


def _matches(store: TableStore, text: str, values: dict[str, object]) -> bool:
    """Whether a partition has the values of `k1=v1/k2=v2`, which may leave columns out."""
    for part in text.split("/"):
        name, equals, value = part.partition("=")
        if not equals or name not in values:
            raise InvalidRequest(
                f"Option 'change-tracking.off-partitions' has {text!r}: write partitions as column=value/column=value, with "
                f"partition columns ({', '.join(values) or 'the table has none'})."
            )
        if values[name] != from_literal(value, store.schema.field(name).type):
            return False
    return True
