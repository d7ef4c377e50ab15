"""Drop partitions that are older than `partition.expiration-time`: by the time that their values tell, or by their last
write. Source: `docs/format.md`, "Expiry".
"""

import datetime as dt
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ..date_pattern import python_format
from ..errors import InvalidRequest, RowsChanged
from ..metadata.manifest import ADD, ManifestEntry
from ..metadata.snapshot import Snapshot
from ..metadata.table_store import TableStore
from ..read.scan import Scan
from ..write.attempt import Guard
from .age import now_of_ages

_EPOCH = dt.datetime(1970, 1, 1)
_FORMATS = ("%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%d", "%Y%m%d", "%Y-%m")


def expired_partitions(store: TableStore, snapshot: Snapshot | None) -> list[dict[str, Any]]:
    """The values of the partitions of a snapshot that are to be dropped: `partition.expiration-max-num` of those that are too
    old, oldest first; partitions whose values tell no time never are.

    Raises InvalidRequest unless the table has partitions and an expiration time.
    """
    return _too_old(store, snapshot)[: store.options.partition_expiration_most]


def _too_old(store: TableStore, snapshot: Snapshot | None) -> list[dict[str, Any]]:
    age_ms = store.options.partition_expiration_ms
    keys = store.schema.partition_keys
    if age_ms is None or not keys:
        raise InvalidRequest(
            f"{store.identifier} needs partitions and the option 'partition.expiration-time' for its partitions to expire."
        )
    strategy = store.options.partition_expiration_strategy
    if strategy not in ("values-time", "update-time"):
        raise InvalidRequest(
            f"Option 'partition.expiration-strategy' = {strategy!r}. Supported: values-time, update-time."
        )
    now_ms = now_of_ages(store)
    now = dt.datetime.fromtimestamp(now_ms / 1000)
    written_since = _written_since(store, snapshot, now_ms - age_ms) if strategy == "update-time" else set()
    partitions: dict[bytes, list[ManifestEntry]] = {}
    for entry in Scan(store, snapshot).entries:
        partitions.setdefault(entry.partition, []).append(entry)
    expired = []
    for partition, entries in partitions.items():
        if partition in written_since:
            continue
        values = store.partition_values(partition)
        time = _written(entries) if strategy == "update-time" else _told(store, values)
        if time is not None and (now - time) / dt.timedelta(milliseconds=1) > age_ms:
            expired.append((time, values))
    return [values for _, values in sorted(expired, key=lambda dated: (dated[0], str(dated[1])))]


def refuse_written_since(store: TableStore, judged: Snapshot | None, expired: Sequence[Mapping[str, Any]]) -> Guard:
    """A guard that raises RowsChanged if partitions that had expired at a snapshot have not at the newest one: others have
    written to them.
    """

    def refuse(latest: Snapshot | None) -> None:
        if latest is None or judged is None or latest.identity == judged.identity:
            return
        still = _too_old(store, latest)
        if young := [partition for partition in expired if partition not in still]:
            written = store.partition_text(young[0])
            raise RowsChanged(f"Others have written to partition {written} of {store.identifier} meanwhile.")

    return refuse


def _written_since(store: TableStore, snapshot: Snapshot | None, time_ms: int) -> set[bytes]:
    """The partitions to which snapshots after a moment have added files. Files tell local times alone, which an hour is missing
    from, or in twice, when summer time begins or ends, and which are others where somebody else writes.
    """
    partitions: set[bytes] = set()
    while snapshot is not None and snapshot.time_ms > time_ms:
        partitions.update(entry.partition for entry in store.delta_of(snapshot) if entry.kind == ADD)
        snapshot = store.snapshots.before(snapshot)
    return partitions


def _written(entries: Sequence[ManifestEntry]) -> dt.datetime | None:
    times = [entry.file.creation_time_local_ms for entry in entries if entry.file.creation_time_local_ms is not None]
    return _EPOCH + dt.timedelta(milliseconds=max(times)) if times else None


def _told(store: TableStore, values: Mapping[str, Any]) -> dt.datetime | None:
    """The time that the values of a partition tell."""
    pattern = store.options.partition_timestamp_pattern or f"${store.schema.partition_keys[0]}"
    parts = re.split(r"(\$\w+)", pattern)
    texts = []
    for part in parts:
        if not part.startswith("$"):
            texts.append(part)
            continue
        if part[1:] not in values:
            raise InvalidRequest(
                f"Option 'partition.timestamp-pattern' = {pattern!r} names {part[1:]!r}, which is no partition column. "
                f"Partition columns: {', '.join(values)}."
            )
        value = values[part[1:]]
        if value is None:
            return None
        if store.schema.field(part[1:]).type.root == "DATE":
            value = (_EPOCH + dt.timedelta(days=value)).date()
        texts.append(str(value))
    text = "".join(texts)
    given = store.options.partition_timestamp_formatter
    formats = _FORMATS if given is None else (python_format(given),)
    for form in formats:
        try:
            return dt.datetime.strptime(text, form)
        except ValueError:
            continue
    return None
