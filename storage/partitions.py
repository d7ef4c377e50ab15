"""Partitions as users name them, by the values of their columns, and as the store does."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from .errors import InvalidRequest, NotFound
from .metadata.snapshot import Snapshot
from .metadata.table_store import TableStore
from .read.scan import Scan
from .values import from_arrow, from_literal, to_arrow
from .write.attempt import Guard
from .write.incoming import Data
from .write.overwrite import Overwrite
from .write.table_write import CommitMessage


def partition_values(store: TableStore, partition: Mapping[str, Any]) -> dict[str, Any]:
    """The values of some partition columns as the store holds them. Raises InvalidRequest for other columns."""
    keys = store.schema.partition_keys
    for name in partition:
        if name not in keys:
            raise InvalidRequest(
                f"{name!r} is not a partition column of {store.identifier}. "
                f"Partition columns: {', '.join(keys) or 'none'}."
            )
    return {name: from_literal(value, store.schema.field(name).type) for name, value in partition.items()}


def in_order(store: TableStore, partitions: Iterable[bytes]) -> list[dict[str, Any]]:
    """The values of partitions that manifests name, by column, as users write them, ordered by the values as text."""
    literals = (store.partition_literals(store.partition_values(partition)) for partition in partitions)
    return sorted(literals, key=lambda values: str(list(values.values())))


def refuse_absent(store: TableStore, scan: Scan, covered: Overwrite, partition: Mapping[str, Any]) -> None:
    """Raise NotFound if no rows of a scan are in a partition, which is `covered`."""
    if not any(covered.covers(store, entry.partition) for entry in scan.entries):
        text = store.partition_text(partition_values(store, partition))
        raise NotFound(f"{store.identifier} has no rows in partition {text}. Nothing was done.")


def only_in(
    store: TableStore, messages: Sequence[CommitMessage], partitions: Sequence[Mapping[str, Any]], guard: Guard | None
) -> Guard:
    """A guard of a commit, which asks another one too: raises InvalidRequest if messages hold rows of other partitions than
    these, each given by the values of some partition columns.
    """
    covered = Overwrite(matching=tuple(partition_values(store, partition) for partition in partitions))

    def refuse(latest: Snapshot | None) -> None:
        for partition in {entry.partition for message in messages for entry in message.added}:
            if not covered.covers(store, partition):
                meant = ", ".join(store.partition_text(values) for values in covered.matching or ())
                raise InvalidRequest(
                    f"The rows hold some of partition {store.shown_partition(partition)}, which is none "
                    f"of those that this write to {store.identifier} is for ({meant}). Filter the rows, or write those "
                    "partitions too."
                )
        if guard is not None:
            guard(latest)

    return refuse


def with_partition(
    data: Data, store: TableStore, partition: Mapping[str, Any], values: Mapping[str, Any]
) -> Iterator[pa.Table]:
    """The rows with the partition's columns filled in: `partition` as it was given, `values` as the store holds them. Raises
    InvalidRequest for rows of another partition.
    """
    for rows in [data] if isinstance(data, pa.Table | pa.RecordBatch) else data:
        table = pa.Table.from_batches([rows]) if isinstance(rows, pa.RecordBatch) else rows
        for name, value in values.items():
            field = store.schema.field(name)
            if name not in table.column_names:
                filled = pa.repeat(to_arrow([value], field.type)[0], table.num_rows)
                table = table.append_column(name, filled)
                continue
            given = set(from_arrow(table.column(name).cast(field.type.to_arrow()).unique(), field.type))
            if given - {value}:
                other = store.partition_text({name: sorted(given - {value}, key=str)[0]})
                raise InvalidRequest(
                    f"A row is of partition {other}, but the overwrite is of {store.partition_text(values)}. "
                    "Filter the rows, or overwrite dynamically."
                )
        yield table
