"""The Spark data source `snapline`: tables of the store as DataFrames, and DataFrames as commits. No jar needed.

    spark.read.format("snapline").option("warehouse", uri).load("shop.orders")
    df.write.format("snapline").option("warehouse", uri).mode("append").save("shop.orders")

Options for reading: `version` (snapshot id, tag, `branch.tag`) or one of `scan.snapshot-id`, `scan.tag-name`,
`scan.timestamp-millis`, `scan.timestamp`, `scan.watermark`, `scan.version`; `branch` or `scan.branch`; `columns` (names with
commas between them, or a JSON list); `where` (a condition: rows that do not meet it are left out, and files without any are not
read); `metadata-columns` (a list like `columns`, after which they come: metadata of the rows, `job` say); `splits` (`merged`
leaves out what Spark's own Parquet scan can read as it is, `unreadable` also that of which keys tell which rows stand).
Options for streaming reads: `scan.mode` (full, latest, from-snapshot with `scan.snapshot-id`, from-timestamp with
`scan.timestamp-millis`), `columns`, `metadata-columns` (of the commits that made the changes), `snapshots-per-batch`,
`consumer-id`, `read.changelog` (a first column `rowkind`; without it rows of kind -U and -D are left out).
Options for writing: `commit-user`, `commit-identifier`, `row-kind-column`, `change-tracking`, `properties` (JSON), `unless-same`
(an overwrite that brings the rows that it replaces commits nothing), `overwrite` (`table`, `partitions`, or a JSON list of them),
`only-partitions` (a JSON list of those that may be appended to).
Streaming writes take those of them that are of no single commit.
`storage.<key>` goes to fsspec. What a use does not take is refused (`spark_options.py`).
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from ..arguments import shown
from ..catalog import Catalog
from ..condition import as_predicate
from ..errors import InvalidRequest, NotFound
from ..lock import FileLock
from ..maintain.left_over import delete_left_over
from ..read.predicate import Predicate
from ..read.scan import Scan
from ..read.split import Split
from ..read.standing_rows import splits_told_by_keys
from ..read.version import BRANCH_OPTIONS, Pinned, Version, version_of_options
from ..table import Table
from ..write.table_write import CommitMessage, files_of
from .spark_options import (
    MERGED,
    READ,
    STREAM_READ,
    STREAM_WRITE,
    UNREADABLE,
    WRITE,
    columns_of,
    is_true,
    number_of,
    refuse_untaken,
    storage_options,
)
from .spark_stream import SnaplineStreamReader, SnaplineStreamWriter, stream_schema
from .spark_task import (
    FilesWritten,
    change_tracking_of,
    commit_id_of,
    guard_of,
    overwrite_of,
    properties_of,
    replaced_files,
    under_new_definition,
    write_rows,
)
from .spark_types import FORMAT, as_spark_expects, spark_schema


class SnaplineSource(DataSource):
    """Registered once a session under the name `snapline`."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        options = dict(self.options)
        # Spark asks for it first, and does not say yet what for.
        refuse_untaken(options, READ, STREAM_READ)
        if "read.changelog" in options:
            return stream_schema(_table(options), options)
        try:
            return spark_schema(_scan(options).schema)
        except NotFound:
            # A stream may begin at a snapshot that is yet to come; a batch will say what is wrong when it is planned.
            return spark_schema(_table(options).schema.to_arrow())

    def reader(self, schema: StructType) -> "SnaplineReader":
        options = dict(self.options)
        refuse_untaken(options, READ)
        return SnaplineReader(options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> "SnaplineWriter":
        options = dict(self.options)
        refuse_untaken(options, WRITE)
        return SnaplineWriter(options, overwrite)

    def streamReader(self, schema: StructType) -> SnaplineStreamReader:
        options = dict(self.options)
        refuse_untaken(options, STREAM_READ)
        return SnaplineStreamReader(_table(options), options, schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> SnaplineStreamWriter:
        options = dict(self.options)
        refuse_untaken(options, STREAM_WRITE)
        return SnaplineStreamWriter(_table(options), options, overwrite)


def _table(options: dict[str, str]) -> Table:
    name, warehouse = options.get("path"), options.get("warehouse")
    if not warehouse:
        raise InvalidRequest('The format `snapline` needs a warehouse: .option("warehouse", "/data/warehouse").')
    if not name:
        raise InvalidRequest('The format `snapline` needs a table: .load("database.table") or .save("database.table").')
    lock = FileLock(options["lock-directory"]) if "lock-directory" in options else None
    roots = _external_roots(options)
    table = Catalog(warehouse, storage_options=storage_options(options), lock=lock, external_roots=roots).table(name)
    for key in BRANCH_OPTIONS:
        if options.get(key):
            return table.on_branch(options[key])
    return table


def _external_roots(options: dict[str, str]) -> list[str]:
    text = options.get("external-roots", "[]")
    try:
        roots = json.loads(text)
    except ValueError:
        roots = None
    if not isinstance(roots, list) or not all(isinstance(root, str) for root in roots):
        raise InvalidRequest(f"Option 'external-roots' = {text!r} must be a JSON list of directories.")
    return roots


def _scan(options: dict[str, str], where: Predicate | None = None) -> Scan:
    table = _table(options)
    version: Version = options.get("version") or (None if "scan.mode" in options else version_of_options(options))
    if version and "schema-id" in options:
        # The columns that it has for whoever pinned it, perhaps later ones than those it was written with.
        snapshot = table.snapshot(version)
        assert snapshot is not None
        pinned = Pinned(
            snapshot, replace(table.store.schemas.get(int(options["schema-id"])), options=table.schema.options)
        )
        scan = table.scan(columns=columns_of(options, pinned.schema), where=where, version=pinned)
        return replace(scan, lowest_level=number_of(options, "lowest-level"))
    read = table.pinned(version)
    return read.scan(columns=columns_of(options, read.schema), where=where)


@dataclass
class SplitPartition(InputPartition):
    """A split on its way to a task."""

    split: Split


class SnaplineReader(DataSourceReader):
    """Reads the splits of a scan, one in each task.

    It takes no filters from Spark: a reader belongs to a DataFrame, and Spark (4.3) gives the filters of one use of that to all
    others, which then miss rows. The option `where` is part of the DataFrame.
    """

    def __init__(self, options: dict[str, str], schema: StructType) -> None:
        self._options = options
        self._arrow_schema = to_arrow_schema(schema, timezone="UTC", prefers_large_types=False)
        where = options.get("where")
        self._where = None if not where else as_predicate(where)
        if options.get("splits", MERGED) not in (MERGED, UNREADABLE):
            raise InvalidRequest(f"Option 'splits' is {MERGED!r} or {UNREADABLE!r}, not {shown(options['splits'])}.")

    def partitions(self) -> list[InputPartition]:
        scan = _scan(self._options, self._where)
        splits = scan.splits
        if "splits" in self._options:
            # Whoever reads the others planned without a filter.
            whole = _scan(self._options).splits
            by_others = [split for split in whole if split.can_be_read_natively]
            if self._options["splits"] == UNREADABLE:
                by_others += splits_told_by_keys(whole)
            known = {id(split) for split in by_others}
            splits = scan.narrowed(split for split in whole if id(split) not in known)
        return [SplitPartition(split) for split in splits] or [SplitPartition(None)]  # type: ignore[arg-type]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, SplitPartition)
        if partition.split is not None:
            for batch in partition.split.read(use_threads=False):
                yield as_spark_expects(batch, self._arrow_schema)


class SnaplineWriter(DataSourceArrowWriter):
    """Writes level-0 files in the tasks and commits one snapshot on the driver."""

    def __init__(self, options: dict[str, str], overwrite: bool) -> None:
        self._options = options
        self._table = under_new_definition(_table(options), options)
        self._overwrite = overwrite
        self._properties = properties_of(options)
        # What is wrong with it is said before anything is written.
        idle = "only-partitions" if overwrite else "overwrite"
        if idle in options:
            mode = "append" if overwrite else "overwrite"
            raise InvalidRequest(f"Option {idle!r} is for mode({mode!r}): say that, or leave the option out.")
        if overwrite:
            overwrite_of(self._table, options)
        self._write_name = self._table.store.clock.unique_name()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        replaces = self._overwrite or ("replaced-files" in self._options and "marked-rows" not in self._options)
        return write_rows(self._table, self._options, self._write_name, iterator, replaces=replaces)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        written = [message.message for message in messages if isinstance(message, FilesWritten)]
        deleted, marked = replaced_files(self._table, self._options)
        if marked:
            written.append(CommitMessage((), marked=tuple(marked)))
        overwrite = overwrite_of(self._table, self._options) if self._overwrite else None
        self._table.commit_messages(
            written,
            overwrite,
            commit_id_of(self._options),
            self._properties,
            self._options.get("operation") or ("OVERWRITE" if self._overwrite else "WRITE"),
            change_tracking_of(self._options),
            deleted,
            guard_of(self._table, self._options, written),
            unless_same=is_true(self._options, "unless-same"),
        )

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        # Tasks that were killed sent no message, so their files are found by name. Spark aborts also what may have landed.
        store = self._table.store
        delete_left_over(store, files_of(self._write_name, store), "The write has failed")
