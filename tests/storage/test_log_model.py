"""What the log of a table says, and what its readers make of it, beside the table: crashes at every step, and at random."""

import random
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from storage import AddColumn, Catalog, CommitConflict, InvalidRequest, NotFound, Table
from storage.log import log_systems, publish
from storage.log.log_store import Position, Topic
from storage.log.memory_log import MemoryLog
from storage.log.read import LogStream, Step

COLUMNS = pa.schema([("k", pa.int64()), ("v", pa.string())])
pytestmark = pytest.mark.usefixtures("log")


class Killed(BaseException):
    """What ends a process in the middle."""


class DyingLog(MemoryLog):
    """Ends whoever publishes at a step: 0 before, 1 once he has the topic, 2 before and 3 after the records and the
    position are visible.
    """

    def __init__(self) -> None:
        super().__init__()
        self.steps: Iterable[int] = ()
        self.random: random.Random | None = None

    def at(self, step: int) -> None:
        if step in self.steps or (self.random is not None and self.random.random() < 0.08):
            raise Killed

    def publisher(self, topic: Topic) -> Any:
        self.at(0)
        held = super().publisher(topic)
        self.at(1)
        return held

    def append(self, *given: Any) -> Position:
        self.at(2)
        appended = super().append(*given)
        self.at(3)
        return appended


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> DyingLog:
    log = DyingLog()
    monkeypatch.setitem(log_systems._registered, "memory", lambda options: log)
    return log


def made(path: Path, *, key: bool = True, **options: Any) -> Table:
    given = {"log.system": "memory", "bucket": 3, **({} if key else {"bucket-key": "k"}), **options}
    return Catalog(str(path / "w")).create_table("a.t", COLUMNS, primary_key=["k"] if key else [], options=given)


def rows(*given: tuple[int, str]) -> pa.Table:
    return pa.table([list(column) for column in zip(*given, strict=True)], schema=COLUMNS)


class Mirror:
    """A reader that keeps what it has made and the position together, as whoever writes both in one commit does."""

    def __init__(self, table: Table, stream: LogStream, position: dict[str, Any] | None = None) -> None:
        self.table, self.stream, self.position = table, stream, position
        self.rows: dict[int, str] = {}
        self.bag: list[tuple[int, str]] = []

    def read(self) -> int:
        """Take all steps that there are; returns how many."""
        count = 0
        for step in self.stream:
            self.take(step)
            count += 1
        return count

    def take(self, step: Step) -> None:
        for row in step.rows.to_pylist():
            pair = row["k"], row["v"]
            if row["rowkind"] in ("+I", "+U"):
                if self.stream._normalizes:
                    assert (row["k"] in self.rows) == (row["rowkind"] == "+U"), row
                self.rows[row["k"]] = row["v"]
                self.bag.append(pair)
            else:
                if self.stream._normalizes:
                    assert self.rows[row["k"]] == row["v"], row
                if row["rowkind"] == "-D":
                    self.rows.pop(row["k"], None)
                if pair in self.bag:
                    self.bag.remove(pair)
        self.position = step.position

    def restart(self) -> None:
        """Die, and go on from what was kept."""
        self.stream = self.table.follow(position=self.position) if self.position else self.table.follow()


def held(table: Table, version: Any = None) -> dict[int, str]:
    return {row["k"]: row["v"] for row in table.to_arrow(version=version).to_pylist()}


@pytest.mark.parametrize("step", range(4))
def test_whoever_publishes_may_die_at_any_step(tmp_path: Path, log: DyingLog, step: int) -> None:
    table = made(tmp_path)
    mirror = Mirror(table, table.follow())
    table.write(rows((1, "a"), (2, "b"), (3, "c")))
    mirror.read()
    log.steps = [step]
    with pytest.raises(Killed):
        table.write(rows((1, "x"), (4, "d")))
    log.steps = ()
    late = Mirror(table, table.follow())
    late.read()
    assert late.rows == held(table)
    mirror.read()
    table.delete("k = 2")
    for reader in (mirror, late):
        reader.read()
        assert reader.rows == held(table) == {1: "x", 3: "c", 4: "d"}
    assert table.check() == []


def test_a_snapshot_that_breaks_off_in_its_midst_is_sent_whole_by_the_next(
    tmp_path: Path, log: DyingLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = made(tmp_path, key=False)
    mirror = Mirror(table, table.follow("latest"))
    mirror.read()
    whole = publish._Sending._sent

    def breaks(self: Any, given: pa.Table) -> pa.Table:
        whole(self, given)
        raise Killed

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(publish._Sending, "_sent", breaks)
        table.write(rows((1, "a")))
    assert mirror.read() == 0
    assert [str(each) for each in table.check()] == [
        "a.t: the log has come to snapshot none, the table to 1: the next commit sends what is missing, or `snapline log "
        "catch-up a.t`; `snapline log status` asks what keeps it"
    ]
    assert table.log.catch_up() == 1
    mirror.read()
    assert mirror.bag == [(1, "a")]


def test_what_is_not_sent_does_not_expire_and_what_is_lost_makes_readers_begin_anew(
    tmp_path: Path, log: DyingLog
) -> None:
    table = made(tmp_path)
    mirror = Mirror(table, table.follow())
    table.write(rows((1, "a"), (2, "b")))
    mirror.read()
    log.steps = [0]
    for number in range(4):
        with pytest.raises(Killed):
            table.write(rows((1, f"v{number}")))
    with pytest.raises(Killed):
        table.delete("k = 2")
    table.expire(retain_last=1)
    assert table.snapshots.earliest_id() == 2
    table.consumers.reset("log", 6)
    table.expire(retain_last=1)
    log.steps = ()
    assert table.log.catch_up() == 6
    mirror.read()
    assert mirror.rows == held(table) == {1: "v3"}
    for position in ({"snapshot": 1, "identity": None}, {"snapshot": 6, "identity": "of another table"}):
        with pytest.raises(NotFound, match=r"expired|begins anew behind snapshot 6"):
            table.follow(position=position).step()


def test_a_main_that_was_replaced_is_followed(tmp_path: Path, log: DyingLog) -> None:
    table = made(tmp_path)
    table.write(rows((1, "a"), (2, "b")))
    table.at(1).branches.create("fix")
    mirror, plain = Mirror(table, table.follow()), table.follow(remove_normalize=True)
    mirror.read(), list(plain)
    table.on_branch("fix").write(rows((1, "fixed"), (3, "c")))
    table.on_branch("fix").delete("k = 2")
    table.write(rows((9, "kept")))
    mirror.read()
    table.branches.replace_main("fix", discard_main=True)
    mirror.read()
    assert mirror.rows == held(Catalog(str(tmp_path / "w")).table("a.t"))
    assert (mirror.rows[1], mirror.rows[3]) == ("fixed", "c")
    with pytest.raises(NotFound, match="begins anew behind snapshot"):
        plain.step()


def test_columns_that_come_later_are_read_as_null_before(tmp_path: Path) -> None:
    table = made(tmp_path)
    mirror = Mirror(table, table.follow())
    table.write(rows((1, "a")))
    mirror.read()
    table.write(rows((1, "b")))
    table = table.alter(AddColumn("w", pa.int32()))
    table.write(pa.table({"k": [2], "v": ["c"], "w": pa.array([7], pa.int32())}))
    changes = [
        (row["rowkind"], row["k"], row["v"], row["w"]) for step in mirror.stream for row in step.rows.to_pylist()
    ]
    assert changes == [("-U", 1, "a", None), ("+U", 1, "b", None), ("+I", 2, "c", 7)]


def test_a_position_that_is_lost_is_found_in_the_log(tmp_path: Path, log: DyingLog) -> None:
    table = made(tmp_path)
    table.write(rows((1, "a")))
    topic = log.find_topic(table.schema.options["kafka.topic"])
    assert topic is not None
    log.forget_position(topic)
    mirror = Mirror(table, table.follow())
    table.write(rows((2, "b")))
    position = log.position(topic)
    assert position is not None and position.snapshot_id == 2
    read = pa.concat_tables(log.read(topic, (0,) * 3, position.ends))
    assert sorted(read["snapshot_id"].to_pylist()) == [1, 2] and read["reset"].null_count == 2
    mirror.read()
    assert mirror.rows == held(table)


def test_a_topic_that_was_made_anew_is_refused_until_it_is_taken(tmp_path: Path, log: DyingLog) -> None:
    table = made(tmp_path)
    table.write(rows((1, "a")))
    mirror = Mirror(table, table.follow())
    mirror.read()
    name = table.schema.options["kafka.topic"]
    log.drop_topic(name)
    table.write(rows((2, "b")))
    assert "is gone. `snapline log rebuild a.t` makes it anew" in str(table.check()[0]) + str(table.check()[1])
    with pytest.raises(Exception, match="is gone"):
        mirror.stream.step()
    assert table.log.rebuild() == 2
    table = Catalog(str(tmp_path / "w")).table("a.t")
    table.write(rows((3, "c")))
    mirror.table = table
    mirror.restart()
    mirror.read()
    assert mirror.rows == held(table)
    assert table.check() == []
    assert table.log.status().behind == 0


def test_retention_that_passes_a_reader_sends_it_to_the_files(tmp_path: Path, log: DyingLog) -> None:
    table = made(tmp_path)
    mirror = Mirror(table, table.follow())
    table.write(rows((1, "a"), (2, "b")))
    mirror.read()
    table.write(rows((1, "x")))
    table.delete("k = 2")
    topic = log.find_topic(table.schema.options["kafka.topic"])
    assert topic is not None
    log.let_go(topic)
    mirror.read()
    assert mirror.rows == held(table)
    table.write(rows((5, "e")))
    mirror.restart()
    mirror.read()
    assert mirror.rows == held(table)


def test_streams_begin_where_they_are_told(tmp_path: Path) -> None:
    table = made(tmp_path, key=False)
    for number in range(1, 5):
        table.write(rows((number, "v")))
    third = table.snapshots.get(3)

    def numbers(stream: LogStream) -> list[int]:
        return [k for step in stream for k in step.rows["k"].to_pylist()]

    assert sorted(numbers(table.follow())) == [1, 2, 3, 4]
    assert numbers(table.follow("latest")) == []
    assert numbers(table.follow("from-snapshot", snapshot_id=3)) == [3, 4]
    assert numbers(table.follow("from-timestamp", timestamp_ms=third.time_ms)) in ([3, 4], [2, 3, 4])
    stream = table.follow("latest")
    assert stream.step() is None
    table.write(rows((5, "v")))
    assert numbers(stream) == [5]
    assert numbers(table.follow(position=stream.position)) == []


def random_history(table: Table, log: DyingLog, seed: int, writers: int, commits: int) -> None:
    """Writers in threads, each of which dies and comes back."""
    seeds = random.Random(seed)
    log.random = random.Random(seeds.random())

    def write(own: random.Random) -> None:
        for _ in range(commits):
            try:
                act(table, own)
            except Killed:
                pass
            except CommitConflict:
                pass

    threads = [threading.Thread(target=write, args=(random.Random(seeds.random()),)) for _ in range(writers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not any(thread.is_alive() for thread in threads)
    log.random = None


def act(table: Table, own: random.Random) -> None:
    choice = own.random()
    given = rows(*((own.randrange(8), str(own.randrange(1000))) for _ in range(own.randrange(1, 4))))
    if choice < 0.75:
        table.write(given.group_by("k").aggregate([("v", "max")]).rename_columns(["k", "v"]))
    elif choice < 0.85:
        table.delete(f"k = {own.randrange(8)}")
    elif choice < 0.9:
        table.compact()
    elif choice < 0.95:
        table.overwrite(rows((own.randrange(8), "o")))
    else:
        latest = table.snapshot()
        if latest is not None:
            table.rollback_to(max(1, latest.id - 2))


@pytest.mark.parametrize("key", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_table_log_and_readers_agree_whatever_dies(tmp_path: Path, log: DyingLog, seed: int, key: bool) -> None:
    table = made(tmp_path, key=key)
    readers = [Mirror(table, table.follow())]
    for round_ in range(2):
        random_history(table, log, seed * 100 + round_, writers=4, commits=3)
        readers.append(Mirror(table, table.follow()))
        for reader in readers:
            reader.read()
        table.log.catch_up()
        for number, reader in enumerate(readers):
            if number % 2:
                reader.restart()
            reader.read()
            expected = sorted((row["k"], row["v"]) for row in table.to_arrow().to_pylist())
            actual = sorted(reader.rows.items() if key else reader.bag)
            assert actual == expected, f"seed {seed}, round {round_}, reader {number}"


@pytest.mark.parametrize(
    ("offsets", "message"),
    [
        ({}, "has no offset of partitions 0, 1, 2: the log of a.t has 3 partitions"),
        ({"0": 0, "1": 0}, "has no offset of partition 2:"),
        ({"0": 0, "1": 0, "2": 0, "3": 0}, "has offsets of partition 3, which the log does not have"),
        ({"0": 10**9, "1": 10**9, "2": 10**9}, "from offset 1000000000 of partition 0 of its log, which ends at"),
        ({"0": 0, "1": 0, "2": 99}, "from offset 99 of partition 2 of its log, which ends at"),
    ],
)
@pytest.mark.parametrize("is_at_the_end", [False, True])
def test_a_position_that_the_log_does_not_have_is_refused(
    tmp_path: Path, offsets: dict[str, int], message: str, is_at_the_end: bool
) -> None:
    table = made(tmp_path)
    table.write(rows((1, "a"), (2, "b"), (3, "c")))
    stream = table.follow()
    assert stream.step() is not None and stream.position is not None
    if not is_at_the_end:
        table.write(rows((1, "x"), (2, "y")))
    position = {**stream.position, "log": offsets}
    for remove_normalize in (False, True):
        with pytest.raises(InvalidRequest, match=message):
            table.follow(position=position, remove_normalize=remove_normalize).step()
    # What the error advises: the files tell the same.
    right, advised = (
        list(table.follow(position={**stream.position, "log": log})) for log in (stream.position["log"], None)
    )
    assert [step.rows.to_pylist() for step in advised] == [step.rows.to_pylist() for step in right]
    assert len(right) == (0 if is_at_the_end else 1)


def test_the_position_of_a_topic_that_there_was_before_fits_whatever_its_partitions(
    tmp_path: Path, log: DyingLog
) -> None:
    table = made(tmp_path)
    table.write(rows((1, "a")))
    stream = table.follow()
    assert stream.step() is not None and stream.position is not None
    position = {**stream.position, "topic": "an earlier one", "log": {"0": 10**9}}
    table.write(rows((2, "b")))
    assert [row["k"] for step in table.follow(position=position) for row in step.rows.to_pylist()] == [2]
