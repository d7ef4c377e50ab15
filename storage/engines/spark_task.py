"""What a Spark task does for a write, and what it sends back to the driver."""

import json
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap
from pyspark.sql.datasource import WriterCommitMessage

from ..arguments import shown
from ..basis import refuse_overtaken
from ..errors import InvalidRequest
from ..metadata.history import Mark
from ..metadata.manifest import ManifestEntry
from ..metadata.schema import TableSchema
from ..read.scan import Scan
from ..row_changes import marks_of_rows
from ..table import Table
from ..write.attempt import Guard
from ..write.commit_id import CommitId
from ..write.overwrite import Overwrite
from ..write.own_properties import refuse_own_properties
from ..write.table_write import CommitMessage
from ..write.vectors import MarkedFile, files_read
from .spark_options import is_true, number_of


@dataclass
class FilesWritten(WriterCommitMessage):
    """What one task wrote, on its way to the commit."""

    message: CommitMessage


def write_rows(
    table: Table, options: Mapping[str, str], write_name: str, rows: Iterator[pa.RecordBatch], *, replaces: bool
) -> FilesWritten:
    """Write the rows of a task to files. `write_name` is shared by all tasks of a write."""
    tracked = change_tracking_of(options)
    with table.new_write(replaces=replaces, write_name=write_name, change_tracking=tracked) as writer:
        for batch in rows:
            writer.write(batch, options.get("row-kind-column"))
        return FilesWritten(writer.prepare_commit())


def change_tracking_of(options: Mapping[str, str]) -> bool:
    """Whether the write says what it changed. Raises InvalidRequest for other words than `true` and `false`."""
    return is_true(options, "change-tracking", default=True)


def overwrite_of(table: Table, options: Mapping[str, str]) -> Overwrite:
    """What an overwriting write replaces: `overwrite` = `table`, `partitions` (those written), a JSON list of
    partitions, or nothing for the table's default."""
    mode = options.get("overwrite", "")
    if mode.startswith("["):
        partitions = _listed("overwrite", mode)
        return Overwrite(matching=tuple(table.partition_values(partition) for partition in partitions))
    if mode not in ("", "table", "partitions"):
        raise InvalidRequest(
            f"Option 'overwrite' is table, partitions or a JSON list of partitions, not {shown(mode)}."
        )
    return table.overwrite_by_default(None if not mode else mode == "partitions")


def _listed(option: str, text: str) -> list[dict[str, object]]:
    """The partitions that an option lists. Raises InvalidRequest."""
    try:
        partitions = json.loads(text)
    except (ValueError, RecursionError):
        partitions = None
    if not isinstance(partitions, list) or not all(isinstance(partition, dict) for partition in partitions):
        raise InvalidRequest(f"Option {option!r} = {shown(text)} must be a JSON list of partitions.")
    return partitions


def replaced_files(table: Table, options: Mapping[str, str]) -> tuple[list[ManifestEntry], list[MarkedFile]]:
    """The files that a write takes the place of: `replaced-files`, names in JSON, of `replaced-snapshot`; and what it says of
    deletion vectors: `marked-rows`, in the form of `rows_to_mark`, of files that stay.
    """
    if "replaced-files" not in options:
        return [], []
    names = set(json.loads(options["replaced-files"]))
    scan = Scan(table.store, table.store.snapshots.get(int(options["replaced-snapshot"])))
    entries = [entry for entry in scan.entries if entry.file.name in names]
    if "marked-rows" not in options:
        return entries, files_read(entries, scan.deletion_vectors) if scan.deletion_vectors else []
    positions = {name: _decoded(text) for name, text in json.loads(options["marked-rows"]).items()}
    return marks_of_rows(entries, scan.deletion_vectors, positions)


def rows_to_mark(rows: pa.Table) -> str:
    """Rows by file name and position, in that order of columns, as an option: JSON of bitmaps in base64 by file."""
    names, positions = rows.columns
    return json.dumps(
        {
            name: b64encode(BitMap(rows.filter(pc.equal(names, name)).column(1).to_numpy()).serialize()).decode()
            for name in names.unique().to_pylist()
        }
        if len(positions)
        else {}
    )


def _decoded(text: str) -> np.ndarray:
    return np.asarray(BitMap.deserialize(b64decode(text)).to_array(), dtype=np.int64)


def guard_of(table: Table, options: Mapping[str, str], messages: Sequence[CommitMessage]) -> Guard | None:
    """What refuses a change of rows that others have overtaken since its `basis`, a mark in JSON, rows that were made for a
    snapshot (`unless-changed-since`) that is not the newest change any more, and rows of other partitions than
    `only-partitions`, a JSON list; None for other writes.
    """
    guard = _overtaken(table, options, messages)
    if "only-partitions" not in options:
        return guard
    return table.only_in_partitions(messages, _listed("only-partitions", options["only-partitions"]), guard)


def _overtaken(table: Table, options: Mapping[str, str], messages: Sequence[CommitMessage]) -> Guard | None:
    since = number_of(options, "unless-changed-since")
    if since is not None:
        return table.snapshots.unless_changed_since(since)
    if "basis" not in options:
        return None
    # Without a key only a change that inserts rows says what it was computed from. With one, a row of the same key is noticed,
    # and a DELETE is computed again for nothing beside a REPLACE WHERE.
    return refuse_overtaken(table.store, Mark(*json.loads(options["basis"])), messages, inserts=True)


def commit_id_of(options: Mapping[str, str]) -> CommitId | None:
    """The commit id that the options name; None for a write that nobody repeats."""
    if "commit-user" not in options:
        return None
    identifier = number_of(options, "commit-identifier")
    return CommitId(
        options["commit-user"],
        1 if identifier is None else identifier,
        is_true(options, "commit-exact", default=True),
        number_of(options, "commit-not-before-ms"),
        is_new=is_true(options, "commit-new"),
    )


def under_new_definition(table: Table, options: Mapping[str, str]) -> Table:
    """The table that is written to: under the schema that comes with its rows (`new-schema`, in JSON), if there is one."""
    if "new-schema" not in options:
        return table
    path = table.store.paths.schema(table.schema.id + 1)
    return table.under_definition(TableSchema.from_json(options["new-schema"], path))


def properties_of(options: Mapping[str, str]) -> dict[str, str]:
    """The properties of a commit: `properties`, a JSON object of texts. Raises InvalidRequest for others, and for those that
    are the store's own.
    """
    text = options.get("properties") or "{}"
    try:
        properties = json.loads(text)
    except (ValueError, RecursionError):
        properties = None
    if not isinstance(properties, dict):
        raise InvalidRequest(f"Option 'properties' is a JSON object of texts, not {shown(text)}.")
    refuse_own_properties(properties)
    return properties
