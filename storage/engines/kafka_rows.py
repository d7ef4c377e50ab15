"""Kafka tables for those who have engines: read and written with the codec that DuckDB is."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from ..errors import Unsupported
from ..identifier import Identifier
from ..kafka.client import topic_ids
from ..kafka.definition import CONNECTORS, KafkaColumn, KafkaTable
from ..kafka.options import KafkaOptions, options_of_reads
from ..kafka.ranges import BEGIN_ANEW, OffsetRange, bounded_ranges, end_offsets, ranges_after, refuse_other_topics
from ..kafka.read import KafkaScan
from ..kafka.table_checks import check_table, check_writable
from ..kafka.write import write_rows
from ..metadata.derived_columns import derived_texts
from ..metadata.schema import TableSchema
from ..topic_range import TopicRange
from .duckdb_json import DuckDbJson

__all__ = [
    "CONNECTORS",
    "KafkaColumn",
    "OffsetRange",
    "TopicReading",
    "check_topic_table",
    "check_topic_writable",
    "ends_of_topic",
    "holds_changes",
    "options_of_reads",
    "read_topic",
    "scan_topic",
    "topic_table_like",
    "write_topic",
]


def check_topic_table(table: KafkaTable) -> None:
    """Raise InvalidRequest, NotFound or Unsupported for a definition whose parts do not fit together."""
    check_table(table, DuckDbJson())


def check_topic_writable(table: KafkaTable) -> None:
    """Raise InvalidRequest for a table that can be read and not written."""
    check_writable(check_table(table, DuckDbJson()))


def topic_table_like(schema: TableSchema, identifier: Identifier, options: Mapping[str, str]) -> KafkaTable:
    """A Kafka table with the columns of a table of the store; its primary key is one where records are upserts. Raises
    Unsupported for a table with columns that are computed.
    """
    if derived_texts(schema.options):
        raise Unsupported(
            "Computed columns and watermarks of a table are not taken over into a Kafka table: list the columns instead of LIKE."
        )
    columns = tuple(KafkaColumn(each.name, each.type, comment=each.description) for each in schema.fields)
    keys = tuple(schema.primary_keys) if options.get("connector") == "upsert-kafka" else ()
    order = tuple(column.name for column in columns)
    return KafkaTable(identifier, columns, options, keys, schema.comment, order=order)


def scan_topic(table: KafkaTable, columns: Sequence[str] | None = None) -> tuple[KafkaScan, list[OffsetRange]]:
    """A read of some columns, by default of all, and the offsets between which it is bounded now."""
    scan = KafkaScan.of(table, DuckDbJson(), columns)
    return scan, bounded_ranges(scan.checked.options, str(table.identifier))


@dataclass
class TopicReading:
    """A read of a Kafka table that is bounded once: whatever is read of it, and however often, are the same records.

    `after`: what was read before, of every partition; then it is read on from there. `advice`: what helps where that is gone.
    """

    table: KafkaTable
    catalog: str
    after: Sequence[TopicRange] = ()
    advice: str = BEGIN_ANEW
    _ranges: list[OffsetRange] | None = field(default=None, init=False)
    _ids: dict[str, str] = field(default_factory=dict, init=False)

    def rows(self, columns: Sequence[str] | None = None) -> pa.Table:
        """The rows of some columns, by default of all."""
        return KafkaScan.of(self.table, DuckDbJson(), columns).to_arrow(self._bounded())

    @property
    def ranges(self) -> list[TopicRange]:
        """The records that are read, of every partition."""
        identifier = self.table.identifier
        return [
            TopicRange(
                *(
                    self.catalog,
                    identifier.database,
                    identifier.table,
                    each.topic,
                    each.partition,
                    each.start,
                    each.end,
                ),
                topic_id=self._ids.get(each.topic, ""),
            )
            for each in self._bounded()
        ]

    def _bounded(self) -> list[OffsetRange]:
        if self._ranges is None:
            options, name = _options(self.table), str(self.table.identifier)
            if self.after:
                known = {each.topic: each.topic_id for each in self.after}
                self._ids = refuse_other_topics(options, name, known, advice=self.advice)
                position = {(each.topic, each.partition): each.end for each in self.after}
                self._ranges = ranges_after(options, name, position, advice=self.advice)
            else:
                self._ranges = bounded_ranges(options, name)
                self._ids = topic_ids(options.client, options.topics)
        return self._ranges


def ends_of_topic(table: KafkaTable) -> dict[str, int]:
    """How far each partition of a Kafka table can be read now, by `topic/0`."""
    return {f"{topic}/{partition}": end for (topic, partition), end in sorted(end_offsets(_options(table)).items())}


def _options(table: KafkaTable) -> KafkaOptions:
    return check_table(table, DuckDbJson()).options


def holds_changes(table: KafkaTable) -> bool:
    """Whether the rows of a Kafka table come with kinds of their own."""
    return KafkaScan.of(table, DuckDbJson()).has_changes


def read_topic(table: KafkaTable, columns: Sequence[str] | None = None) -> pa.Table:
    """The rows of a table, up to where it is bounded."""
    scan, ranges = scan_topic(table, columns)
    return scan.to_arrow(ranges)


def write_topic(table: KafkaTable, batches: Iterable[pa.Table], kinds: Iterable[pa.Array] | None = None) -> int:
    """Write rows of the columns that the table takes; says how many. See `storage.kafka.write.write_rows`."""
    return write_rows(check_table(table, DuckDbJson()), batches, kinds)


def with_options(table: KafkaTable, options: dict[str, str]) -> KafkaTable:
    """The same table with other options, for one read or one write."""
    return replace(table, options={**table.options, **options})
