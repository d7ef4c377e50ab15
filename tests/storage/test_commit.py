"""Commits: once for each identifier, on top of others, or not at all."""

import threading
from pathlib import Path

import pyarrow as pa
import pytest

from storage import Catalog, CommitConflict, CommitId, CommitOutcomeUnknown, FixedClock, Overwrite, Table
from storage.directory_lock import Witness
from storage.file_io import FileIO
from storage.metadata.table_store import TableStore


def batch(*ids: int) -> pa.Table:
    return pa.table(
        {"id": pa.array(ids, pa.int64()), "item": pa.array([f"item {number}" for number in ids], pa.string())}
    )


def files(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file() and "hint" not in path.name}


def test_a_repeated_commit_changes_nothing_and_returns_the_first_snapshot(orders: Table, tmp_path: Path) -> None:
    commit_id = CommitId("job", 7)
    first = orders.write(batch(1), commit_id=commit_id)
    orders.write(batch(2))
    before = files(tmp_path)
    again = orders.write(batch(1), commit_id=commit_id)
    assert first is not None
    assert again == first
    assert orders.count() == 2
    assert files(tmp_path) == before


def test_the_messages_of_a_commit_whose_answer_was_lost_may_be_committed_again(orders: Table) -> None:
    writer = orders.new_write()
    writer.write(batch(1, 2))
    messages = [writer.prepare_commit()]
    first = orders.commit_messages(messages, commit_id=CommitId("job", 1))
    assert orders.commit_messages(messages, commit_id=CommitId("job", 1)) == first
    assert orders.count() == 2


def test_identifiers_of_a_user_rise_unless_they_are_exact(orders: Table) -> None:
    orders.write(batch(1), commit_id=CommitId("job", 5))
    orders.write(batch(2), commit_id=CommitId("job", 4))
    assert orders.count() == 1
    orders.write(batch(2), commit_id=CommitId("job", 4, exact=True))
    orders.write(batch(3), commit_id=CommitId("other", 4))
    assert orders.count() == 3


def test_nothing_written_is_nothing_committed(orders: Table) -> None:
    assert orders.write(batch()) is None
    assert orders.snapshot() is None


def test_a_listener_that_fails_cannot_undo_a_commit(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    class Failing:
        def notify_commit_complete(self, identifier: object, snapshot: object) -> None:
            raise RuntimeError("listener is ill")

        def notify_table_renamed(self, identifier: object, new: object) -> None:
            """Nothing is renamed."""

    catalog = Catalog(str(tmp_path), listeners=[Failing()])
    table = catalog.create_table("a.b", pa.schema([("id", pa.int64()), ("item", pa.string())]))
    assert table.write(batch(1)) is not None
    assert table.count() == 1
    assert "listener is ill" in caplog.text


def through(table: Table, file_io: FileIO) -> Table:
    """The same table over another file system."""
    store = table.store
    return Table(TableStore(file_io, store.paths.root, store.identifier, clock=store.clock), "snapline")


class Interfering(FileIO):
    """Commits of others come in between: `before_create` runs when a snapshot file is about to be created."""

    def __init__(self, before_create: list[object]) -> None:
        super().__init__("file://")
        self.before_create = before_create

    def create_exclusively(self, path: str, data: bytes, *, of: Witness | None = None) -> bool:
        if "/snapshot/snapshot-" in path and self.before_create:
            act = self.before_create.pop(0)
            act()  # type: ignore[operator]
        return super().create_exclusively(path, data, of=of)


def test_a_lost_race_is_tried_again_and_leaves_no_file(orders: Table, tmp_path: Path) -> None:
    rival = Catalog(str(tmp_path / "warehouse")).table("shop.orders")
    orders = through(orders, Interfering([lambda: rival.write(batch(9))] * 3))
    snapshot = orders.write(batch(1))
    assert snapshot is not None
    assert snapshot.id == 4
    assert orders.to_arrow()["id"].to_pylist().count(9) == 1
    manifests = {path.name for path in (tmp_path / "warehouse").rglob("manifest*") if path.is_file()}
    needed = set()
    for listed in orders.store.snapshots.all():
        needed |= {listed.base_manifest_list, listed.delta_manifest_list}
        needed |= {manifest.name for manifest in orders.store.manifests_of(listed)}
    assert manifests == needed


def test_files_that_another_overwrite_took_away_are_a_conflict(orders: Table, tmp_path: Path) -> None:
    orders.write(batch(1))
    victim = orders.scan().entries
    Catalog(str(tmp_path / "warehouse")).table("shop.orders").truncate()
    with pytest.raises(CommitConflict):
        orders.new_commit().commit([], deleted=victim)
    assert orders.count() == 0


def test_an_overwrite_that_lost_a_race_replaces_what_came_in_between(events: Table, tmp_path: Path) -> None:
    rival = Catalog(str(tmp_path / "warehouse")).table("shop.events")
    day = pa.table({"day": ["d"], "what": ["rival"]})
    events = through(events, Interfering([lambda: rival.write(day)]))
    events.overwrite(pa.table({"day": ["d"], "what": ["mine"]}))
    assert events.to_arrow().to_pylist() == [{"day": "d", "what": "mine"}]


class LosesAnswers(FileIO):
    """Creates the snapshot file, or does not, and raises either way."""

    def __init__(self, *, lands: bool, answers_later: bool) -> None:
        super().__init__("file://")
        self.lands = lands
        self.answers_later = answers_later
        self.silent = False

    def create_exclusively(self, path: str, data: bytes, *, of: Witness | None = None) -> bool:
        if "/snapshot/snapshot-" not in path:
            return super().create_exclusively(path, data, of=of)
        if self.lands:
            super().create_exclusively(path, data, of=of)
        self.silent = not self.answers_later
        raise OSError("connection reset")

    def read_text_or_none(self, path: str) -> str | None:
        if self.silent and "/snapshot/snapshot-" in path:
            raise OSError("connection reset")
        return super().read_text_or_none(path)


def test_a_lost_answer_is_looked_up(orders: Table) -> None:
    orders = through(orders, LosesAnswers(lands=True, answers_later=True))
    snapshot = orders.write(batch(1))
    assert snapshot is not None
    assert orders.count() == 1


@pytest.mark.parametrize("lands", [True, False])
def test_an_unknown_outcome_is_said_and_its_files_stay_until_it_is_known(
    orders: Table, tmp_path: Path, lands: bool
) -> None:
    broken = through(orders, LosesAnswers(lands=lands, answers_later=False))
    commit_id = CommitId("job", 1)
    with pytest.raises(CommitOutcomeUnknown, match="cannot be told"):
        broken.write(batch(1), commit_id=commit_id)
    again = Catalog(str(tmp_path / "warehouse")).table("shop.orders")
    assert again.count() == (1 if lands else 0)
    again.write(batch(1), commit_id=commit_id)
    assert again.count() == 1
    assert again.snapshot().id == 1  # type: ignore[union-attr]


def test_threads_that_commit_to_one_table_lose_nothing(orders: Table) -> None:
    def write(first: int) -> None:
        for number in range(5):
            orders.write(batch(first * 5 + number))

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # Compactions come in between.
    assert [snapshot.commit_kind for snapshot in orders.store.snapshots.all()].count("APPEND") == 20
    assert sorted(orders.to_arrow()["id"].to_pylist()) == list(range(20))


def test_manifests_are_merged_so_that_their_number_stays_small(catalog: Catalog, clock: FixedClock) -> None:
    options = {"bucket": 1, "manifest.merge-min-count": 5}
    table = catalog.create_table("a.b", pa.schema([("id", pa.int64())]), primary_key=["id"], options=options)
    for number in range(40):
        table.write(pa.table({"id": [number]}))
    assert catalog.read("a.b$manifests").num_rows <= 6
    assert table.count() == 40


def test_several_partitions_can_be_overwritten_by_one_commit(events: Table) -> None:
    events.write(pa.table({"day": ["a", "b", "c"], "what": ["old"] * 3}))
    writer = events.new_write(replaces=True)
    writer.write(pa.table({"day": ["a"], "what": ["new"]}))
    overwrite = Overwrite(matching=({"day": "a"}, {"day": "b"}))
    events.commit_messages([writer.prepare_commit()], overwrite)
    rows = sorted((row["day"], row["what"]) for row in events.to_arrow().to_pylist())
    assert rows == [("a", "new"), ("c", "old")]


@pytest.mark.parametrize("text", ["", "x", "1", "9", "999", "2\x00"])
def test_a_hint_that_is_half_written_or_old_is_searched_past(orders: Table, catalog: Catalog, text: str) -> None:
    """Hints are written in place, so that a reader may find anything there after a defect."""
    for number in range(1, 21):
        orders.write(batch(number))
    hint = Path(catalog.warehouse) / "shop.db" / "orders" / "snapshot" / "LATEST"
    newest = orders.snapshot()
    assert newest is not None
    assert int(hint.read_text()) == newest.id > 16
    hint.write_text(text)
    assert catalog.table("shop.orders").snapshot() == newest
    # The next commit puts it right.
    orders.write(batch(99))
    assert int(hint.read_text()) == orders.snapshot().id > newest.id  # type: ignore[union-attr]
    assert catalog.table("shop.orders").snapshot() == orders.snapshot()
