"""Read a table into a Spark DataFrame: natively where no merge is needed, through the data source where one is.

Spark's own Parquet scan prunes columns and pushes filters down for free; it gets the files whose rows stand as they
are. The others go through `snapline`, which merges them.
"""

import json
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import ByteType, StructField, StructType

from ..lsm.system_columns import INSERT, UPDATE_AFTER, VALUE_KIND
from ..read.scan import Scan
from ..table import Table
from .spark_options import MERGED, METADATA
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
        frame = _through_source(spark, table, scan, warehouse, merged_only=False, where=where)
        return frame.select(*map(column_named, schema.names))
    use_native = table.store.file_io.is_local if native is None else native
    # Spark reads no Parquet times of milliseconds.
    use_native = use_native and not any(field.type.root == "TIME" for field in scan.store.schema.fields)
    own = [split for split in scan.splits if use_native and split.can_be_read_natively]
    merged = len(own) < len(scan.splits)
    merged_only = bool(own)
    if narrow is not None:
        own = narrow.narrowed(own)
    parts: list[DataFrame] = []
    if own:
        if table.store.file_io.is_local:
            # Spark looks at the pages, but at neither the footers nor the manifests.
            for split in own:
                split.check_files(whole=False)
        paths = [table.store.file_io.url(path) for split in own for path in split.file_paths]
        # Without this, Spark would guess partition columns from the directories.
        reader = spark.read.option("recursiveFileLookup", "true").option("parquet.page.verify-checksum.enabled", "true")
        if any(split.may_hold_deletes for split in own):
            with_kind = StructType([*schema.fields, StructField(VALUE_KIND, ByteType())])
            frame = reader.schema(with_kind).parquet(*paths)
            parts.append(frame.where(frame[VALUE_KIND].isin(INSERT, UPDATE_AFTER)).drop(VALUE_KIND))
        else:
            parts.append(reader.schema(schema).parquet(*paths))
    if merged:
        parts.append(_through_source(spark, table, scan, warehouse, merged_only=merged_only, where=where))
    return reduce(DataFrame.unionByName, parts) if parts else spark.createDataFrame([], schema)


def _through_source(
    spark: SparkSession, table: Table, scan: Scan, warehouse: str, *, merged_only: bool, where: str
) -> DataFrame:
    assert scan.snapshot is not None
    identifier = scan.store.identifier
    reader = spark.read.format(FORMAT).option("warehouse", warehouse)
    reader = reader.option("branch", identifier.branch).option("version", str(scan.snapshot.id))
    reader = reader.option("schema-id", str(scan.store.schema.id))
    reader = reader.options(**storage_texts(table.store.file_io.storage_options))
    reader = reader.option("external-roots", json.dumps(table.store.file_io.external_roots))
    if merged_only:
        reader = reader.option("splits", MERGED)
    if scan.lowest_level is not None:
        reader = reader.option("lowest-level", str(scan.lowest_level))
    if scan.columns is not None:
        reader = reader.option("columns", json.dumps(scan.request.columns))
    if scan.request.metadata:
        reader = reader.option(METADATA, json.dumps(scan.request.metadata))
    if where:
        reader = reader.option("where", where)
    return reader.load(identifier.full_name)
