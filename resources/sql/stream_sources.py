"""The tables of a streaming query: which options say where it begins, and the column that holds the kinds of changes."""

from dataclasses import replace

import pyarrow as pa
from sqlglot import exp

from storage import BRANCH_OPTIONS, InvalidRequest

from .names import Source
from .renewal import reads_kinds

ROW_KIND = "rowkind"
STREAM_OPTIONS = (
    "scan.mode",
    "scan.snapshot-id",
    "scan.timestamp-millis",
    "consumer-id",
    "snapshots-per-batch",
    "read.changelog",
)


def streamed(source: Source, node: exp.Table) -> Source:
    """A source as a stream reads it; where changes are asked for with their kinds, these are a column. Raises InvalidRequest
    for a version, which a stream does not stay at.
    """
    if source.kafka is not None:
        return source
    other = [key for key in source.options if key not in (*STREAM_OPTIONS, *BRANCH_OPTIONS)]
    if source.table is not None and (other or node.args.get("version")):
        raise InvalidRequest(
            f"{repr(other[0]) if other else 'AS OF'} is no way for a stream to begin with {source.name}: "
            "OPTIONS('scan.mode' = 'full', 'latest', 'from-snapshot' or 'from-timestamp')."
        )
    if source.table is None or not reads_kinds(source):
        return source
    if ROW_KIND in source.schema.names:
        raise InvalidRequest(f"{source.name} has a column {ROW_KIND!r} of its own, beside which no kinds can be read.")
    return replace(source, schema=source.schema.insert(0, pa.field(ROW_KIND, pa.string(), False)))
