"""Lineage: which snapshots were made from which, by which job. The tables hold the truth; this is their index."""

from .drawing import dot, mermaid, rows, text_tree
from .entities import JobStartup, SnapshotLineage, TableLineage, sources_of, sources_property
from .graph import Direction, Edge, LineageGraph, neighbour_tables, trace
from .questions import AncestryDifference, Lag, aligned, ancestry_difference, freshness, impact
from .recorder import LineageRecorder, rebuild
from .store import LineageStore, open_lineage_store

__all__ = [
    "AncestryDifference",
    "Direction",
    "Edge",
    "JobStartup",
    "Lag",
    "LineageGraph",
    "LineageRecorder",
    "LineageStore",
    "SnapshotLineage",
    "TableLineage",
    "aligned",
    "ancestry_difference",
    "dot",
    "freshness",
    "impact",
    "mermaid",
    "neighbour_tables",
    "open_lineage_store",
    "rebuild",
    "rows",
    "sources_of",
    "sources_property",
    "text_tree",
    "trace",
]
