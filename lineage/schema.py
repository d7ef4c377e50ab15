"""The SQL tables of lineage: those of the lineage document, with the branch as part of the key; and the platform's catalogs.

Snapshot ids are unique only within a branch. A job may read two versions of one table at a barrier, so the snapshot id
is part of the key of sources.
"""

from sqlalchemy import BigInteger, Column, DateTime, Index, Integer, MetaData, String, Table, Text
from sqlalchemy.dialects.mysql import DATETIME, LONGTEXT, VARCHAR

from .entities import NAME_LENGTH

metadata = MetaData()

# Names are compared byte by byte everywhere.
_NAME = String(NAME_LENGTH).with_variant(
    VARCHAR(NAME_LENGTH, charset="utf8mb4", collation="utf8mb4_bin"), "mysql", "mariadb"
)
# SQLite has one kind of whole number; MySQL drops milliseconds unless told to keep them.
_LONG = BigInteger().with_variant(Integer, "sqlite")
_TIME = DateTime().with_variant(DATETIME(fsp=3), "mysql", "mariadb")
_DOCUMENT = Text().with_variant(LONGTEXT(charset="utf8mb4", collation="utf8mb4_bin"), "mysql", "mariadb")


def _place() -> list[Column[str]]:
    return [Column(name, _NAME, primary_key=True) for name in ("database", "table", "branch")]


def _job() -> Column[str]:
    return Column("job", _NAME, primary_key=True)


def _job_lineage(name: str) -> Table:
    table = Table(name, metadata, _job(), *_place(), Column("create_time", _TIME, nullable=False))
    Index(f"{name}_by_table", table.c.database, table.c.table, table.c.branch)
    return table


def _snapshot_lineage(name: str, *, snapshot_in_key: bool) -> Table:
    table = Table(
        name,
        metadata,
        _job(),
        Column("barrier_id", _LONG, primary_key=True, autoincrement=False),
        *_place(),
        Column("snapshot_id", _LONG, primary_key=snapshot_in_key, autoincrement=False, nullable=False),
        Column("create_time", _TIME, nullable=False),
        Column("snapshot_time", _TIME),
    )
    Index(f"{name}_by_snapshot", table.c.database, table.c.table, table.c.branch, table.c.snapshot_id)
    return table


source_job_lineage = _job_lineage("source_job_lineage")
sink_job_lineage = _job_lineage("sink_job_lineage")
source_snapshot_lineage = _snapshot_lineage("source_snapshot_lineage", snapshot_in_key=True)
sink_snapshot_lineage = _snapshot_lineage("sink_snapshot_lineage", snapshot_in_key=False)
sink_by_time = Index("sink_snapshot_lineage_by_time", sink_snapshot_lineage.c.create_time)
source_offset_lineage = Table(
    "source_offset_lineage",
    metadata,
    _job(),
    Column("barrier_id", _LONG, primary_key=True, autoincrement=False),
    *(Column(name, _NAME, primary_key=True) for name in ("database", "table", "topic")),
    Column("partition", Integer, primary_key=True, autoincrement=False),
    Column("offset_start", _LONG, primary_key=True, autoincrement=False),
    Column("offset_end", _LONG, nullable=False),
    Column("topic_id", _NAME, nullable=False),
    Column("create_time", _TIME, nullable=False),
)
job_startup = Table(
    "job_startup", metadata, _job(), *_place(), Column("snapshot_id", _LONG, autoincrement=False, nullable=False)
)
column_lineage = Table(
    "column_lineage",
    metadata,
    # The names together are too long for a key: this is their digest.
    Column("digest", String(40), primary_key=True),
    Column("job", _NAME, nullable=False),
    *(Column(name, _NAME, nullable=False) for name in ("database", "table", "branch", "column")),
    *(Column(f"source_{name}", _NAME, nullable=False) for name in ("catalog", "database", "table", "column")),
)
Index("column_lineage_by_job", column_lineage.c.job)
Index("column_lineage_by_table", column_lineage.c.database, column_lineage.c.table, column_lineage.c.branch)
reconciled = Table(
    "reconciled",
    metadata,
    *_place(),
    Column("snapshot_id", _LONG, autoincrement=False, nullable=False),
    Column("snapshot_time", _TIME, nullable=False),
)
# No index of anything: what was registered by CREATE CATALOG stands here alone.
registered_catalog = Table(
    "registered_catalog",
    metadata,
    Column("name", _NAME, primary_key=True),
    Column("options", _DOCUMENT, nullable=False),
    Column("create_time", _TIME, nullable=False),
)
schema_version = Table("lineage_schema_version", metadata, Column("version", Integer, primary_key=True))
