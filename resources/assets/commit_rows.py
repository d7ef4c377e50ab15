"""Commit the rows that an asset has made, the way that its declaration says."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame

from storage import CommitId, Overwrite, Snapshot, Table
from storage.engines import spark_writer

Rows: TypeAlias = "DataFrame | pa.Table"


def commit_rows(
    rows: Rows,
    table: Table,
    warehouse: str,
    mode: str,
    partitions: Sequence[Mapping[str, Any]] | None,
    commit_id: CommitId,
    properties: Mapping[str, str],
    *,
    unless_same: bool = False,
    unless_changed_since: int | None = None,
) -> Snapshot | None:
    """Commit rows as one snapshot; None if there was nothing to commit: no rows, or, with `unless_same`, exactly those that
    an overwrite would replace.

    `mode`: append (an upsert with a primary key), overwrite, overwrite-partitions. With `partitions`, rows are added to these,
    or exactly these are replaced, and rows of others are refused. `unless_changed_since`: raises CommitConflict if that snapshot
    is not the table's newest change any more.
    """
    if isinstance(rows, DataFrame):
        return spark_writer.write_frame(
            rows,
            table,
            warehouse,
            mode=mode,
            commit_id=commit_id,
            properties=properties,
            partitions=partitions,
            unless_same=unless_same,
            unless_changed_since=unless_changed_since,
        )
    guard = None if unless_changed_since is None else table.snapshots.unless_changed_since(unless_changed_since)
    replaces = mode != spark_writer.APPEND
    with table.new_write(replaces=replaces) as writer:
        writer.write(rows)
        message = writer.prepare_commit()
    if not replaces:
        if partitions is not None:
            guard = table.only_in_partitions([message], partitions, guard)
        return table.commit_messages([message], None, commit_id, properties, "WRITE", guard=guard)
    overwrite = Overwrite(dynamic=mode == spark_writer.OVERWRITE_PARTITIONS)
    if partitions is not None:
        overwrite = Overwrite(matching=tuple(table.partition_values(partition) for partition in partitions))
    return table.commit_messages(
        [message], overwrite, commit_id, properties, "OVERWRITE", guard=guard, unless_same=unless_same
    )
