"""Read a table into a Spark DataFrame: natively where rows stand as they are in files, through the data source where not.

Spark's own Parquet scan prunes columns and pushes filters down for free; it gets the files whose rows stand as they
are, and those of which keys and vectors tell which rows stand: it leaves out the others. What is left goes through `snapline`,
which merges it.
"""

import json
from collections.abc import Sequence
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import ByteType, StructField, StructType

from ..lsm.system_columns import INSERT, UPDATE_AFTER, VALUE_KIND
from ..read.scan import Scan
from ..read.split import Split
from ..read.standing_rows import splits_told_by_keys, standing_rows
from ..table import Table
from .spark_options import METADATA, UNREADABLE
from .spark_places import frames_of_standing
from .spark_source import SnaplineSource
from .spark_types import FORMAT, column_named, spark_schema, storage_texts


def register(spark: SparkSession) -> None:
    """Make the format `snapline` known to a session."""
    spark.dataSource.register(SnaplineSource)


def read_scan(
    spark: SparkSession,
    table: Table,
    scan: Scan,
    warehouse: str,
    *,
    native: bool | None = None,
    narrow: Scan | None = None,
    where: str = "",
) -> DataFrame:
    """The rows of a planned scan (without a filter) as a DataFrame, pinned to the scan's snapshot.

    `narrow`: the same scan with a filter, `where` as text, of which no more than its rows need be read: the caller leaves the
    others out. `native` decides whether Spark reads files itself; by default it does for a local warehouse, since an object
    store needs Hadoop's file systems for that.
    """
    schema = spark_schema(scan.schema)
    # Metadata of rows are told by the data source alone, which plans for itself.
    if scan.snapshot is None or not (scan.entries if scan.request.metadata else scan.splits):
        return spark.createDataFrame([], schema)
    if scan.request.metadata:
        frame = _through_source(spark, table, scan, warehouse, splits="", where=where)
        return frame.select(*map(column_named, schema.names))
    use_native = table.store.file_io.is_local if native is None else native
    # Spark reads no Parquet times of milliseconds.
    use_native = use_native and not any(field.type.root == "TIME" for field in scan.store.schema.fields)
    own = [split for split in scan.splits if use_native and split.can_be_read_natively]
    told_by_keys = splits_told_by_keys(scan.splits) if use_native else []
    natively = len(own) + len(told_by_keys)
    through_source = natively < len(scan.splits)
    if narrow is not None:
        own, told_by_keys = narrow.narrowed(own), narrow.narrowed(told_by_keys)
    parts = _natively(spark, table, schema, own, told_by_keys)
    if through_source:
        splits = UNREADABLE if natively else ""
        parts.append(_through_source(spark, table, scan, warehouse, splits=splits, where=where))
    return reduce(DataFrame.unionByName, parts) if parts else spark.createDataFrame([], schema)


def _natively(
    spark: SparkSession, table: Table, schema: StructType, own: Sequence[Split], told_by_keys: Sequence[Split]
) -> list[DataFrame]:
    """The rows of splits that Spark's own scan reads."""
    file_io = table.store.file_io
    # Without this, Spark would guess partition columns from the directories.
    reader = spark.read.option("recursiveFileLookup", "true").option("parquet.page.verify-checksum.enabled", "true")
    if file_io.is_local:
        # Spark looks at the pages, but at neither the footers nor the manifests.
        for split in [*own, *told_by_keys]:
            split.check_files(whole=False)
    parts: list[DataFrame] = []
    paths = [file_io.url(path) for split in own for path in split.file_paths]
    if any(split.may_hold_deletes for split in own):
        with_kind = StructType([*schema.fields, StructField(VALUE_KIND, ByteType())])
        frame = reader.schema(with_kind).parquet(*paths)
        parts.append(frame.where(frame[VALUE_KIND].isin(INSERT, UPDATE_AFTER)).drop(VALUE_KIND))
    elif paths:
        parts.append(reader.schema(schema).parquet(*paths))
    if told_by_keys:
        standing = standing_rows(told_by_keys)
        urls = [file_io.url(rows.path) for rows in standing]
        parts += frames_of_standing(spark, reader.schema(schema), standing, urls)
    return parts


def _through_source(
    spark: SparkSession, table: Table, scan: Scan, warehouse: str, *, splits: str, where: str
) -> DataFrame:
    assert scan.snapshot is not None
    identifier = scan.store.identifier
    reader = spark.read.format(FORMAT).option("warehouse", warehouse)
    reader = reader.option("branch", identifier.branch).option("version", str(scan.snapshot.id))
    reader = reader.option("schema-id", str(scan.store.schema.id))
    reader = reader.options(**storage_texts(table.store.file_io.storage_options))
    reader = reader.option("external-roots", json.dumps(table.store.file_io.external_roots))
    if splits:
        reader = reader.option("splits", splits)
    if scan.lowest_level is not None:
        reader = reader.option("lowest-level", str(scan.lowest_level))
    if scan.columns is not None:
        reader = reader.option("columns", json.dumps(scan.request.columns))
    if scan.request.metadata:
        reader = reader.option(METADATA, json.dumps(scan.request.metadata))
    if where:
        reader = reader.option("where", where)
    return reader.load(identifier.full_name)
