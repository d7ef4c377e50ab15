"""What every system of logs has to do: a test class that implementations run.

class TestMyLog(LogStoreContract):
    @pytest.fixture
    def log(self):
        return MyLog(...)
"""

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from ..errors import AlreadyExists, NotFound
from .log_store import SENT, Fenced, LogStore, Position, Topic, TopicDefinition

_TWO = 2


class LogStoreContract:
    """Tests of an implementation, which the fixture `log` gives. Topics have names that begin with `contract_`."""

    @pytest.fixture
    def log(self) -> LogStore:
        """The implementation."""
        raise NotImplementedError

    @pytest.fixture
    def name(self, request: pytest.FixtureRequest) -> str:
        """A topic of each test, which is not there when it begins."""
        return f"contract_{abs(hash((id(request), request.node.nodeid)))}"

    @pytest.fixture
    def topic(self, log: LogStore, name: str) -> Iterator[Topic]:
        """A topic of two partitions."""
        yield log.create_topic(TopicDefinition(name, _TWO))
        log.drop_topic(name)

    def test_a_topic_is_made_once_found_and_dropped(self, log: LogStore, name: str) -> None:
        assert log.find_topic(name) is None
        made = log.create_topic(TopicDefinition(name, _TWO, retention_ms=7_200_000))
        assert log.find_topic(name) == made == Topic(name, made.id, _TWO, 7_200_000)
        with pytest.raises(AlreadyExists):
            log.create_topic(TopicDefinition(name, _TWO))
        assert log.drop_topic(name)
        assert not log.drop_topic(name)

    def test_a_topic_made_anew_has_another_id(self, log: LogStore, name: str) -> None:
        first = log.create_topic(TopicDefinition(name, _TWO))
        with log.publisher(first) as publisher:
            publisher.publish(1, "one", [records((0, b"a"))])
        log.drop_topic(name)
        second = log.create_topic(TopicDefinition(name, _TWO))
        assert second.id != first.id
        assert log.position(second) is None
        log.drop_topic(name)

    def test_retention_is_set_and_taken_back(self, log: LogStore, topic: Topic) -> None:
        log.set_retention(topic.name, 7_200_000)
        current = log.find_topic(topic.name)
        assert current is not None and current.retention_ms == 7_200_000
        log.set_retention(topic.name, None)
        assert log.find_topic(topic.name) == topic

    def test_records_of_a_snapshot_come_with_its_position(self, log: LogStore, topic: Topic) -> None:
        assert log.position(topic) is None
        with log.publisher(topic) as publisher:
            assert publisher.position() is None
            first = publisher.publish(1, "one", [records((0, b"a"), (1, b"b")), records((0, b"c"))])
            second = publisher.publish(2, "two", [records((1, b"d"), (1, None))])
        assert (first.snapshot_id, first.identity) == (1, "one")
        assert log.position(topic) == second == Position(2, "two", second.ends)
        assert second.ends[0] == first.ends[0]
        assert values(log, topic, (0, 0), second) == {0: [(1, b"a"), (1, b"c")], 1: [(1, b"b"), (2, b"d"), (2, None)]}
        assert values(log, topic, first.ends, second) == {0: [], 1: [(2, b"d"), (2, None)]}
        ends = log.end_offsets(topic, committed=True)
        assert all(end >= own for end, own in zip(ends, second.ends, strict=True))
        assert log.first_offsets(topic) == (0, 0)

    def test_a_snapshot_without_records_moves_the_position(self, log: LogStore, topic: Topic) -> None:
        with log.publisher(topic) as publisher:
            first = publisher.publish(1, "one", [records((0, b"a"))])
            second = publisher.publish(2, "two", [])
        assert second == Position(2, "two", first.ends) == log.position(topic)

    def test_what_cannot_be_sent_whole_is_never_read(self, log: LogStore, topic: Topic) -> None:
        def breaks_off() -> Iterator[pa.Table]:
            yield records((0, b"lost"), (1, b"lost"))
            raise NotFound("a file")

        with log.publisher(topic) as publisher:
            first = publisher.publish(1, "one", [records((0, b"a"))])
            with pytest.raises(NotFound, match="a file"):
                publisher.publish(2, "two", breaks_off())
            second = publisher.publish(2, "two", [records((0, b"b"))])
        assert second.ends[0] > first.ends[0]
        assert values(log, topic, (0, 0), second) == {0: [(1, b"a"), (2, b"b")], 1: []}

    def test_a_later_publisher_ends_the_earlier_one(self, log: LogStore, topic: Topic) -> None:
        with log.publisher(topic) as earlier:
            earlier.publish(1, "one", [records((0, b"a"))])
            with log.publisher(topic) as later:
                with pytest.raises(Fenced):
                    earlier.publish(2, "two", [records((0, b"zombie"))])
                position = later.position()
                assert position is not None and position.snapshot_id == 1
                second = later.publish(2, "two", [records((0, b"b"))])
        assert values(log, topic, (0, 0), second) == {0: [(1, b"a"), (2, b"b")], 1: []}

    def test_a_position_that_was_lost_is_told_by_whoever_has_looked(self, log: LogStore, topic: Topic) -> None:
        with log.publisher(topic) as publisher:
            publisher.go_on_from(Position(4, "four", (3, 7)))
            position = publisher.publish(5, "five", [])
        assert log.position(topic) == position == Position(5, "five", (3, 7))

    def test_a_reset_tells_each_partition_where_to_begin_anew(self, log: LogStore, topic: Topic) -> None:
        with log.publisher(topic) as publisher:
            publisher.publish(7, "seven", [records((0, b"a"))])
            reset = publisher.reset(3, "three")
        assert log.position(topic) == reset == Position(3, "three", reset.ends)
        read = pa.concat_tables(log.read(topic, (0, 0), reset.ends)).filter(pc.field("reset").is_valid())
        assert sorted(read["partition"].to_pylist()) == [0, 1]
        assert set(read["reset"].to_pylist()) == {"three"}
        assert read["value"].null_count == _TWO

    def test_of_a_topic_that_is_not_there_nothing_is_altered(self, log: LogStore, name: str) -> None:
        with pytest.raises(NotFound):
            log.set_retention(name, 1000)


def records(*given: tuple[int, bytes | None]) -> pa.Table:
    """Records to send, each by its partition and value."""
    partitions, sent = zip(*given, strict=True)
    count = len(given)
    columns = [
        pa.array(partitions, pa.int32()),
        pa.array([b"key"] * count),
        pa.array(sent, pa.binary()),
        pa.array(["+I"] * count),
    ]
    return pa.table(columns, schema=SENT)


def values(
    log: LogStore, topic: Topic, start: tuple[int, ...], until: Position
) -> dict[int, list[tuple[int, bytes | None]]]:
    """Snapshot and value of each record up to a position, by partition and in order."""
    by_partition: dict[int, list[tuple[int, bytes | None]]] = {number: [] for number in range(topic.partitions)}
    for part in log.read(topic, start, until.ends):
        assert set(part["kind"].to_pylist()) == {"+I"} and set(part["key"].to_pylist()) == {b"key"}
        for partition, number, value in zip(
            part["partition"].to_pylist(), part["snapshot_id"].to_pylist(), part["value"].to_pylist(), strict=True
        ):
            by_partition[partition].append((number, value))
    return by_partition
