"""Lineage: which snapshots were made from which, by which job. The tables hold the truth; this is their index."""

from .entities import JobStartup, SnapshotLineage, TableLineage, sources_of, sources_property
from .graph import Edge, LineageGraph, neighbour_tables, trace
from .recorder import LineageRecorder, rebuild
from .store import LineageStore, open_lineage_store

__all__ = [
    "Edge",
    "JobStartup",
    "LineageGraph",
    "LineageRecorder",
    "LineageStore",
    "SnapshotLineage",
    "TableLineage",
    "neighbour_tables",
    "open_lineage_store",
    "rebuild",
    "sources_of",
    "sources_property",
    "trace",
]
