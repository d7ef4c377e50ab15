"""Write a Spark DataFrame into a table: rows go to the task of their bucket, sorted by key, and become one snapshot.

Spark does the shuffling and spilling, so that a task holds one bucket's buffer in memory at a time.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ..errors import InvalidRequest
from ..lock import FileLock
from ..lsm.key_buckets import BucketRule
from ..metadata.history import Mark
from ..metadata.snapshot import Snapshot
from ..table import Table
from ..write.commit_id import CommitId
from ..write.own_properties import refuse_own_properties
from .spark_bucket import bucket_of
from .spark_errors import own_error
from .spark_task import rows_to_mark
from .spark_types import FORMAT, column_named, storage_texts

APPEND, OVERWRITE_TABLE, OVERWRITE_PARTITIONS = "append", "overwrite", "overwrite-partitions"
WRITE_MODES = (APPEND, OVERWRITE_TABLE, OVERWRITE_PARTITIONS)
_BUCKET = "__snapline_bucket"


def write_frame(
    frame: DataFrame,
    table: Table,
    warehouse: str,
    *,
    mode: str = APPEND,
    commit_id: CommitId | None = None,
    properties: Mapping[str, str] | None = None,
    partitions: Sequence[Mapping[str, Any]] | None = None,
    row_kind_column: str | None = None,
    change_tracking: bool = True,
    operation: str | None = None,
    replaced: tuple[int, Sequence[str]] | None = None,
    marked: pa.Table | None = None,
    basis: Mark | None = None,
    unless_same: bool = False,
    unless_changed_since: int | None = None,
    order_column: str | None = None,
) -> Snapshot | None:
    """Commit a DataFrame and return the snapshot; None if there was nothing to commit.

    `mode`: append (an upsert with a primary key), overwrite (the table), overwrite-partitions (those that occur in the rows).
    With `partitions` both replace exactly those, append adds to those alone, and rows of others are refused. `replaced`: names
    of data files of a snapshot that go when the rows come; `marked`: rows of those, by file name and position, that go instead
    of the files. `basis`: the snapshot that a change of rows was computed from; raises RowsChanged if others have changed the
    same rows since. `unless_same`: see `Table.commit_messages`. `unless_changed_since`: raises CommitConflict if that snapshot
    is not the table's newest change any more. `order_column`: numbers that say which of the rows of one key comes later; it is
    not written. A repeated `commit_id` changes nothing; what is returned then, see `Table.write`. Raises the error of the store
    that a task or the commit raised.
    """
    refuse_own_properties(properties)
    if mode not in WRITE_MODES:
        raise InvalidRequest(f"Write mode {mode!r} is unknown. Use one of: {', '.join(WRITE_MODES)}.")
    if mode == OVERWRITE_PARTITIONS and not table.schema.partition_keys:
        raise InvalidRequest(f"{table.identifier} is not partitioned: overwrite the table, or append to it.")
    commit_id = commit_id or CommitId(table.store.clock.unique_name(), 1, exact=True, is_new=True)
    before = table.snapshot()
    options = {
        **_place_options(table, warehouse),
        **_commit_options(commit_id, properties, operation, change_tracking=change_tracking),
        **_replacement_options(mode, partitions, replaced, marked),
        **_condition_options(basis, unless_changed_since, unless_same=unless_same),
    }
    if row_kind_column:
        options["row-kind-column"] = row_kind_column
    writer = _distributed(frame, table, order_column).write.format(FORMAT).options(**options)
    try:
        writer.mode("append" if mode == APPEND else "overwrite").save(table.identifier.full_name)
    except PySparkException as error:
        raise own_error(error) or error from None
    snapshot, is_certain = _made_since(table, commit_id, before)
    if snapshot is not None:
        table.notify(snapshot)
        return snapshot
    if commit_id.is_new and is_certain:
        return None
    bound = CommitId(commit_id.user, commit_id.identifier, True, commit_id.not_before_ms or _time(before))
    return table.new_commit(bound).find_committed()


def _place_options(table: Table, warehouse: str) -> dict[str, str]:
    """Where the table lies, and how its files are reached."""
    file_io = table.store.file_io
    options = {"warehouse": warehouse, "branch": table.identifier.branch, **storage_texts(file_io.storage_options)}
    if isinstance(file_io.lock, FileLock):
        options["lock-directory"] = file_io.lock.directory
    if file_io.external_roots:
        options["external-roots"] = json.dumps(file_io.external_roots)
    if table.is_new_definition:
        options["new-schema"] = table.schema.to_json()
    return options


def _commit_options(
    commit_id: CommitId, properties: Mapping[str, str] | None, operation: str | None, *, change_tracking: bool
) -> dict[str, str]:
    """Whose commit it is, and what its snapshot says of it."""
    options = {
        "commit-user": commit_id.user,
        "commit-identifier": str(commit_id.identifier),
        "commit-exact": str(commit_id.exact).lower(),
        "properties": json.dumps(dict(properties or {})),
    }
    if commit_id.is_new:
        options["commit-new"] = "true"
    if commit_id.not_before_ms is not None:
        options["commit-not-before-ms"] = str(commit_id.not_before_ms)
    if operation:
        options["operation"] = operation
    if not change_tracking:
        options["change-tracking"] = "false"
    return options


def _replacement_options(
    mode: str,
    partitions: Sequence[Mapping[str, Any]] | None,
    replaced: tuple[int, Sequence[str]] | None,
    marked: pa.Table | None,
) -> dict[str, str]:
    """What goes when the rows come."""
    options: dict[str, str] = {}
    if replaced is not None:
        options |= {"replaced-snapshot": str(replaced[0]), "replaced-files": json.dumps(list(replaced[1]))}
    if marked is not None:
        options["marked-rows"] = rows_to_mark(marked)
    listed = None if partitions is None else json.dumps([dict(partition) for partition in partitions])
    if mode != APPEND:
        options["overwrite"] = listed or ("partitions" if mode == OVERWRITE_PARTITIONS else "table")
    elif listed is not None:
        options["only-partitions"] = listed
    return options


def _condition_options(basis: Mark | None, unless_changed_since: int | None, *, unless_same: bool) -> dict[str, str]:
    """What must not have happened meanwhile."""
    options = {}
    if basis is not None:
        options["basis"] = json.dumps([basis.snapshot_id, basis.delta_manifest_list])
    if unless_same:
        options["unless-same"] = "true"
    if unless_changed_since is not None:
        options["unless-changed-since"] = str(unless_changed_since)
    return options


def _made_since(table: Table, commit_id: CommitId, before: Snapshot | None) -> tuple[Snapshot | None, bool]:
    """The snapshot that an id has made since one was the newest; and whether nothing that came since has expired."""
    first_id = 1 if before is None else before.id + 1
    earliest_id = None
    for snapshot in table.store.snapshots.backwards():
        if snapshot.id < first_id:
            return None, True
        if commit_id.made(snapshot):
            return snapshot, True
        earliest_id = snapshot.id
    return None, earliest_id in (None, first_id)


def _time(snapshot: Snapshot | None) -> int | None:
    return None if snapshot is None else snapshot.time_ms


def _distributed(frame: DataFrame, table: Table, order_column: str | None = None) -> DataFrame:
    """The rows of each bucket of each partition in one task, one bucket after the other, sorted by key; of dynamic buckets those
    of each assigner.
    """
    schema = table.schema
    columns = [name for name in frame.columns if name not in (_BUCKET, order_column)]
    missing = [name for name in (*schema.partition_keys, *schema.bucket_keys) if name not in columns]
    if missing:
        raise InvalidRequest(
            f"The DataFrame lacks {', '.join(missing)}, by which {table.identifier} is partitioned or bucketed. "
            f"Its columns: {', '.join(columns)}."
        )
    buckets = schema.table_options.bucket
    if schema.has_dynamic_buckets:
        # New keys are given buckets by whoever gets them: rows that share an assigner come to one task.
        buckets = BucketRule.of(schema.table_options).assigner_count
    partitions = [column_named(name) for name in schema.partition_keys]
    keys = [column_named(name) for name in schema.trimmed_primary_keys]
    if keys and order_column is not None:
        keys.append(column_named(order_column))
    if schema.crosses_partitions or (buckets <= 1 and not partitions):
        # All rows go to one bucket, or one task has to know where all keys are. Without a key any number of tasks may write
        # to the bucket, so nothing need move.
        placed = frame.repartitionById(1, F.lit(0)).sortWithinPartitions(*keys) if keys else frame
        return placed if order_column is None else placed.select(*map(column_named, columns))
    place: Column = F.lit(0)
    if buckets > 1:
        frame = frame.withColumn(_BUCKET, bucket_of(frame, table, buckets))
        place = F.col(_BUCKET)
    order = keys
    if partitions:
        task_count = int(frame.sparkSession.conf.get("spark.sql.shuffle.partitions") or "200")
        place = F.pmod(F.hash(*partitions, place), F.lit(task_count))
        order = [*partitions, *([F.col(_BUCKET)] if buckets > 1 else []), *keys]
    else:
        # A task has one bucket. To sort by its number first would keep Spark from sorting by prefixes of the key.
        task_count = buckets
    frame = frame.repartitionById(task_count, place.cast("int"))
    return (frame.sortWithinPartitions(*order) if order else frame).select(*columns)
