"""Lineage: which snapshots were made from which, by which job. The tables hold the truth; this is their index."""

from .carried_on import KnownSnapshots, carried_from
from .catalog_records import CatalogRecords
from .comparison import AncestryComparison, Parting, compare_ancestries
from .current_names import current_columns, current_sources
from .drawing import dot, mermaid, rows, text_tree, topic_texts
from .entities import (
    NAME_LENGTH,
    ColumnLineage,
    JobStartup,
    OffsetLineage,
    SnapshotLineage,
    SourceColumn,
    TableLineage,
    columns_of,
    columns_property,
    is_of_main,
    offsets_of,
    offsets_property,
    ranges_of_text,
    ranges_text,
    sources_of,
    sources_property,
    startups_of,
    was_replaced,
)
from .forget import forget
from .generations import trial_branch
from .graph import Direction, Edge, LineageGraph, direct_sources, neighbour_tables, same_snapshot, sinks_at, trace
from .guarded_store import GuardedStore, LineageUnavailable, stopping_nobody
from .jdbc_url import check_jdbc_url, is_of_server, on_same_server, server_database
from .questions import AncestryDifference, Lag, aligned, ancestry_difference, freshness, impact, reached
from .rebuild import rebuild
from .reconcile import Until, known_reconciled, reconcile
from .recorder import RUN_PROPERTY, LineageRecorder
from .store import LineageStore, UnreachableStore, open_lineage_store
from .url_parameters import check_libpq_parameters
from .window import Window, made_from, window

__all__ = [
    "NAME_LENGTH",
    "RUN_PROPERTY",
    "AncestryComparison",
    "AncestryDifference",
    "CatalogRecords",
    "ColumnLineage",
    "Direction",
    "Edge",
    "GuardedStore",
    "JobStartup",
    "KnownSnapshots",
    "Lag",
    "LineageGraph",
    "LineageRecorder",
    "LineageStore",
    "LineageUnavailable",
    "OffsetLineage",
    "Parting",
    "SnapshotLineage",
    "SourceColumn",
    "TableLineage",
    "UnreachableStore",
    "Until",
    "Window",
    "aligned",
    "ancestry_difference",
    "carried_from",
    "check_jdbc_url",
    "check_libpq_parameters",
    "columns_of",
    "columns_property",
    "compare_ancestries",
    "current_columns",
    "current_sources",
    "direct_sources",
    "dot",
    "forget",
    "freshness",
    "impact",
    "is_of_main",
    "is_of_server",
    "known_reconciled",
    "made_from",
    "mermaid",
    "neighbour_tables",
    "offsets_of",
    "offsets_property",
    "on_same_server",
    "open_lineage_store",
    "ranges_of_text",
    "ranges_text",
    "reached",
    "rebuild",
    "reconcile",
    "rows",
    "same_snapshot",
    "server_database",
    "sinks_at",
    "sources_of",
    "sources_property",
    "startups_of",
    "stopping_nobody",
    "text_tree",
    "topic_texts",
    "trace",
    "trial_branch",
    "was_replaced",
    "window",
]
