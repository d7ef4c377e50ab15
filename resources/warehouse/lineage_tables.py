"""The database `paimon`: lineage, and the options of a catalog, as tables."""

from collections.abc import Callable
from dataclasses import fields

import pyarrow as pa

from lineage import ColumnLineage, JobStartup, LineageStore, OffsetLineage, SnapshotLineage, TableLineage
from storage import Catalog, NotFound, shown_options

LINEAGE_DATABASE = "paimon"


_ARROW_TYPES: dict[str, pa.DataType] = {
    "barrier_id": pa.int64(),
    "snapshot_id": pa.int64(),
    "partition": pa.int32(),
    "offset_start": pa.int64(),
    "offset_end": pa.int64(),
    "create_time": pa.timestamp("ms"),
}


def _rows(kind: type, rows: list[object]) -> pa.Table:
    # Fields that are not compared are the store's own.
    names = [field.name for field in fields(kind) if field.compare]
    columns = [pa.array([getattr(row, name) for row in rows], _ARROW_TYPES.get(name, pa.string())) for name in names]
    return pa.Table.from_arrays(columns, names)


def _catalog_options(catalog: Catalog) -> pa.Table:
    options = shown_options(catalog.options)
    return pa.table({"key": pa.array(options.keys(), pa.string()), "value": pa.array(options.values(), pa.string())})


LINEAGE_TABLES: dict[str, Callable[[LineageStore], pa.Table]] = {
    "source_job_lineage": lambda store: _rows(TableLineage, [*store.tables("source")]),
    "sink_job_lineage": lambda store: _rows(TableLineage, [*store.tables("sink")]),
    "source_snapshot_lineage": lambda store: _rows(SnapshotLineage, [*store.snapshots("source")]),
    "sink_snapshot_lineage": lambda store: _rows(SnapshotLineage, [*store.snapshots("sink")]),
    "source_offset_lineage": lambda store: _rows(OffsetLineage, [*store.offsets()]),
    "job_startup": lambda store: _rows(JobStartup, [*store.startups()]),
    "column_lineage": lambda store: _rows(ColumnLineage, [*store.columns()]),
}


CATALOG_OPTIONS = "catalog_options"


def lineage_rows(name: str, store: LineageStore, catalog: Catalog) -> pa.Table:
    """The rows of a table of the database `paimon`. Raises NotFound that lists them."""
    if name == CATALOG_OPTIONS:
        return _catalog_options(catalog)
    if name not in LINEAGE_TABLES:
        raise NotFound(
            f"There is no {LINEAGE_DATABASE}.{name}. Lineage tables: {', '.join([*LINEAGE_TABLES, CATALOG_OPTIONS])}."
        )
    return LINEAGE_TABLES[name](store)
