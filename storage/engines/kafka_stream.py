"""Topics in Spark Structured Streaming: the records of a Kafka table as a stream. No connector jar.

    rows = read_topic_stream(spark, catalog.kafka_tables.get("shop.events"), "main", {"records-per-batch": "100000"})
    write_stream(rows, table, uri, commit_user="job", checkpoint="/data/job")

Where a stream has come to stands in its checkpoint alone: the offset of each partition, and the id of each topic, by which one
that was deleted and made again is noticed. A micro-batch that is replayed reads the same offsets, or nothing.
"""

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from ..errors import InvalidRequest
from ..file_io import FileIO
from ..file_system import split_url
from ..kafka.client import topic_ids
from ..kafka.definition import KafkaTable
from ..kafka.ranges import (
    OffsetRange,
    Offsets,
    bound_offsets,
    end_offsets,
    first_offsets,
    refuse_gone,
    refuse_other_topics,
)
from ..kafka.read import KafkaScan
from ..kafka.tables import definition_text, table_of_text
from ..topic_range import TopicRange
from .duckdb_json import DuckDbJson
from .spark_options import is_true, names_of, number_of
from .spark_types import as_spark_expects, spark_schema

FORMAT = "snapline-kafka"
RECORDS_PER_BATCH = "records-per-batch"
# Columns beside those of the table: the kind of a change, and its place among the rows of its partition.
KIND_COLUMN, ORDER_COLUMN = "__snapline_kind", "__snapline_order"
_KINDS = pa.array(["+I", "-U", "+U", "-D"])
_TOPICS, _BEFORE, _NAME = "topics", "before", "name"
_MOST_RECORDS = 1_000_000
# What fewer records cost is the start of the tasks that read them.
_RECORDS_OF_A_TASK = 20_000
_log = logging.getLogger(__name__)


@dataclass
class TopicPartitions(InputPartition):
    """Offsets on their way to a task, with the ids of their topics."""

    ranges: tuple[OffsetRange, ...]
    ids: Mapping[str, str]


def read_topic_stream(
    session: SparkSession,
    table: KafkaTable,
    catalog: str,
    options: Mapping[str, str] | None = None,
    *,
    columns: Sequence[str] | None = None,
    kinds: bool = False,
    order: bool = False,
) -> DataFrame:
    """The records of a Kafka table as a streaming DataFrame, from its `scan.startup.mode` on, up to its `scan.bounded.mode`.

    `options`: `records-per-batch`, how many offsets a micro-batch moves on at most (1,000,000). `kinds`: with the column
    KIND_COLUMN (+I -U +U -D), without which a table of changes is refused; `order`: with ORDER_COLUMN, which rises along the
    rows of each partition within a micro-batch.
    """
    scan = KafkaScan.of(table, DuckDbJson(), columns)
    if scan.has_changes and not kinds:
        raise InvalidRequest(
            f"{table.identifier} holds changes ({scan.checked.value_format.name}), which mean nothing without their kinds: read "
            "them with kinds=True, and write them with row_kind_column."
        )
    for key in options or ():
        if key != RECORDS_PER_BATCH:
            raise InvalidRequest(f"A stream of a Kafka table has no option {key!r}: {RECORDS_PER_BATCH!r} alone.")
    if number_of(options or {}, RECORDS_PER_BATCH) == 0:
        raise InvalidRequest(f"Option {RECORDS_PER_BATCH!r} = 0: a micro-batch holds a record at least.")
    session.dataSource.register(KafkaSource)
    given = {"definition": definition_text(table), "catalog": catalog, **(options or {})}
    given |= {"kinds": str(kinds).lower(), "order": str(order).lower()}
    if columns is not None:
        given["columns"] = json.dumps(list(columns))
    return session.readStream.format(FORMAT).options(**given).load(str(table.identifier))


class KafkaSource(DataSource):
    """Registered by `read_topic_stream`."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def _columns(self) -> list[str] | None:
        return names_of(self.options, "columns") if "columns" in self.options else None

    def _table(self) -> KafkaTable:
        if "definition" not in self.options or "path" not in self.options:
            raise InvalidRequest(f"The format {FORMAT!r} is read by storage.engines.kafka_stream.read_topic_stream.")
        return table_of_text(self.options["definition"], self.options["path"])

    def schema(self) -> StructType:
        fields = [
            field.with_nullable(True) for field in KafkaScan.of(self._table(), DuckDbJson(), self._columns()).schema
        ]
        if is_true(self.options, "kinds"):
            fields.append(pa.field(KIND_COLUMN, pa.string()))
        if is_true(self.options, "order"):
            fields.append(pa.field(ORDER_COLUMN, pa.int64()))
        return spark_schema(pa.schema(fields))

    def streamReader(self, schema: StructType) -> "KafkaStreamReader":
        scan = KafkaScan.of(self._table(), DuckDbJson(), self._columns())
        return KafkaStreamReader(scan, dict(self.options), schema)


class KafkaStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the offsets between two positions; a position is that of all partitions of all topics of a table."""

    def __init__(self, scan: KafkaScan, options: Mapping[str, str], schema: StructType) -> None:
        self._scan = scan
        self._options = scan.checked.options
        self._name = str(scan.checked.table.identifier)
        identifier = scan.checked.table.identifier
        self._place = [options.get("catalog", ""), identifier.database, identifier.table]
        self._most = number_of(options, RECORDS_PER_BATCH) or _MOST_RECORDS
        self._kinds, self._order = is_true(options, "kinds"), is_true(options, "order")
        self._arrow_schema = to_arrow_schema(schema, timezone="UTC", prefers_large_types=False)
        self._until: Offsets | None = None
        self._bound: Offsets | None = None
        self._has_bound = self._options.bounded[0] != "unbounded"

    def initialOffset(self) -> dict[str, Any]:
        first = first_offsets(self._options, self._name)
        return self._offset(first, first, topic_ids(self._options.client, self._options.topics))

    def _offset(self, position: Offsets, before: Offsets, ids: Mapping[str, str]) -> dict[str, Any]:
        """A position as the checkpoint has it. Spark remembers no first position, and another one may be the first when a batch
        is replayed: so a position says where its step began.
        """
        topics = {
            topic: {"id": topic_id, "offsets": _of_topic(position, topic)} for topic, topic_id in sorted(ids.items())
        }
        return {_TOPICS: topics, _BEFORE: {topic: _of_topic(before, topic) for topic in topics}, _NAME: self._place}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        ids = self._refuse_other_topics(start)
        position = _offsets_of(start)
        ends = end_offsets(self._options)
        if self._has_bound and self._bound is None:
            self._bound = bound_offsets(self._options)
        for bound in (self._until, self._bound):
            if bound is not None:
                # A partition that has come since is for the next time.
                ends = {place: min(end, bound.get(place, 0)) for place, end in ends.items()}
        # A partition that is new begins with its first record.
        before = {place: position.get(place, 0) for place in ends}
        after = {place: max(ends[place], begun) for place, begun in before.items()}
        after = _limited(before, after, self._most)
        return start if after == before else self._offset(after, before, ids)

    def _refuse_other_topics(self, offset: Mapping[str, Any]) -> dict[str, str]:
        known = {topic: held["id"] for topic, held in offset[_TOPICS].items()}
        return refuse_other_topics(self._options, self._name, known)

    def reportLatestOffset(self) -> dict[str, Any]:
        ends = end_offsets(self._options)
        return self._offset(ends, ends, topic_ids(self._options.client, self._options.topics))

    def prepareForTriggerAvailableNow(self) -> None:
        self._until = end_offsets(self._options)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        if start == end:
            return [TopicPartitions((), {})]
        ids = self._refuse_other_topics(end)
        ranges = [each for each in _ranges(end) if each.start < each.end]
        refuse_gone(self._options, self._name, ranges)
        tasks: list[list[OffsetRange]] = [[]]
        held = 0
        for each in ranges:
            if held and held + each.end - each.start > _RECORDS_OF_A_TASK:
                tasks.append([])
                held = 0
            tasks[-1].append(each)
            held += each.end - each.start
        return [TopicPartitions(tuple(task), ids) for task in tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, TopicPartitions)
        names = [column.name for column in self._scan.columns]
        count = 0
        for rows, kinds in self._scan.changes(partition.ranges):
            picked = rows.select(names)
            if self._kinds:
                picked = picked.append_column(KIND_COLUMN, _KINDS.take(kinds))
            if self._order:
                picked = picked.append_column(ORDER_COLUMN, pa.array(range(count, count + len(kinds)), pa.int64()))
            count += len(kinds)
            for batch in picked.combine_chunks().to_batches():
                yield as_spark_expects(batch, self._arrow_schema)
        if self._scan.skipped:
            _log.warning("%s: %d malformed records were left out.", self._name, self._scan.skipped)
        if partition.ranges:
            # What was read is of the topic that the offsets are of: its id never comes back.
            refuse_other_topics(self._options, self._name, partition.ids)

    def commit(self, end: dict[str, Any]) -> None:
        """The checkpoint alone says where the stream has come to."""

    def stop(self) -> None:
        """Nothing is open."""


def batch_ranges(checkpoint: str, batch_id: int) -> list[TopicRange]:
    """What a micro-batch has read of topics, as its checkpoint tells: of every partition, be it nothing."""
    earlier = set(_lines(checkpoint, batch_id - 1))
    ranges: list[TopicRange] = []
    for line in _lines(checkpoint, batch_id):
        # The position of a source that gave nothing stays what it was.
        if line not in earlier:
            offset = json.loads(line)
            ids = {topic: held["id"] for topic, held in offset[_TOPICS].items()}
            catalog, database, table = offset[_NAME]
            ranges += [
                TopicRange(catalog, database, table, each.topic, each.partition, each.start, each.end, ids[each.topic])
                for each in _ranges(offset)
            ]
    return sorted(ranges)


def _lines(checkpoint: str, batch_id: int) -> list[str]:
    if batch_id < 0:
        return []
    text = FileIO(checkpoint).read_text_or_none(f"{split_url(checkpoint)}/offsets/{batch_id}") or ""
    lines = [line for line in text.splitlines() if line.startswith("{")]
    return [line for line in lines if {_TOPICS, _BEFORE, _NAME} <= json.loads(line).keys()]


def _ranges(offset: Mapping[str, Any]) -> list[OffsetRange]:
    """The records of each partition between a position and the one before it."""
    position = _offsets_of(offset)
    return sorted(OffsetRange(*place, begun, position[place]) for place, begun in _placed(offset[_BEFORE]).items())


def _offsets_of(offset: Mapping[str, Any]) -> Offsets:
    return _placed({topic: held["offsets"] for topic, held in offset[_TOPICS].items()})


def _placed(offsets: Mapping[str, Mapping[str, int]]) -> Offsets:
    return {(topic, int(number)): at for topic, held in offsets.items() for number, at in held.items()}


def _of_topic(offsets: Offsets, topic: str) -> dict[str, int]:
    # JSON has texts for keys.
    return {str(number): at for (name, number), at in sorted(offsets.items()) if name == topic}


def _limited(before: Offsets, after: Offsets, most: int) -> Offsets:
    """A position that is so many offsets further at most, and one at least: each partition that has records gets its part."""
    left, limited = most, dict(before)
    waiting = sorted(
        (place for place in after if after[place] > before[place]), key=lambda each: after[each] - before[each]
    )
    for number, place in enumerate(waiting):
        step = min(after[place] - before[place], max(left // (len(waiting) - number), 1))
        limited[place] = before[place] + step
        left -= step
    return limited
