"""Actions on the partitions of a table."""

from collections.abc import Mapping
from typing import Annotated

from .action import Given, Reach, action
from .kinds import FLAG, PARTITIONS, TABLE
from .outcome import Outcome
from .sentences import counted, partition_text, shown_table

TheTable = Annotated[str, Given(TABLE)]


@action("partition drop", "drop-partition")
def drop_partition(
    reach: Reach,
    table: TheTable,
    partitions: Annotated[
        list[Mapping[str, str]],
        Given(PARTITIONS, "Once for each column.", "--partition"),
    ],
) -> Outcome:
    """Delete all rows of a partition. Older snapshots and tags still have them."""
    opened = reach.table(table)
    snapshot, table = opened.drop_partition(*partitions), shown_table(table, opened)
    texts = [*map(partition_text, partitions)]
    dropped, facts = ", ".join(texts), {"table": table, "partitions": texts}
    if snapshot is None:
        return Outcome(f"{table} has no {dropped}.", facts=facts | {"snapshot": None})
    return Outcome(f"Dropped {dropped} of {table}, by snapshot {snapshot.id}.", facts=facts | {"snapshot": snapshot.id})


@action("partition expire", "expire-partitions")
def expire_partitions(
    reach: Reach,
    table: TheTable,
    dry_run: Annotated[bool, Given(FLAG, "Say what would be dropped, drop nothing.", "--dry-run")] = False,
) -> Outcome:
    """Drop the partitions that are older than the table's option 'partition.expiration-time'."""
    dropped = [partition_text(values) for values in reach.table(table).expire_partitions(dry_run=dry_run)]
    message = f"{'Would drop' if dry_run else 'Dropped'} {counted(len(dropped), 'partition')} of {table}."
    return Outcome(message, ["partition"], [(each,) for each in dropped], lines=dropped)


@action("partition mark-done")
def mark_partition_done(
    reach: Reach,
    table: TheTable,
    partitions: Annotated[
        list[Mapping[str, str]],
        Given(PARTITIONS, "Once for each column.", "--partition"),
    ],
) -> Outcome:
    """Write `_SUCCESS` into the directory of a partition, for jobs that wait for it."""
    reach.table(table).mark_partition_done(*partitions)
    marked = [*map(partition_text, partitions)]
    return Outcome(f"Marked {', '.join(marked)} of {table} as done.", facts={"table": table, "partitions": marked})
