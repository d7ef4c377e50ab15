"""Questions over histories: what is spoilt, what belongs together, what differs, what is late; against brute force."""

import random
from pathlib import Path

import pyarrow as pa
import pytest

from lineage import (
    LineageStore,
    SnapshotLineage,
    aligned,
    ancestry_difference,
    dot,
    impact,
    open_lineage_store,
    sources_property,
    trace,
)
from lineage.entities import Side
from resources import Session
from resources.warehouse.catalogs import CATALOG_NAME
from storage import CommitId, NotFound, SnapshotRef
from tests.lineage.test_lineage import MOMENT
from tests.scale import seeds


@pytest.fixture
def store(tmp_path: Path) -> LineageStore:
    return open_lineage_store({"jdbc.url": f"jdbc:sqlite:{tmp_path / 'lineage.db'}"})


def ref(table: str, snapshot_id: int) -> SnapshotRef:
    return SnapshotRef("c", "d", table, "main", snapshot_id)


def record(store: LineageStore, sink: SnapshotRef, *sources: SnapshotRef) -> None:
    def row(snapshot: SnapshotRef) -> SnapshotLineage:
        return SnapshotLineage(
            f"job of {sink.table}",
            sink.snapshot_id,
            snapshot.database,
            snapshot.table,
            snapshot.branch,
            snapshot.snapshot_id,
            MOMENT,
        )

    sides: list[tuple[Side, list[SnapshotLineage]]] = [
        ("source", [row(snapshot) for snapshot in sources]),
        ("sink", [row(sink)]),
    ]
    for side, rows in sides:
        store.store_snapshots(side, rows)


def test_what_a_bad_snapshot_has_spoilt(store: LineageStore) -> None:
    for number in (1, 2, 3):
        record(store, ref("raw", number))
        record(store, ref("core", number), ref("raw", number))
        record(store, ref("mart", number), ref("core", number))
    record(store, ref("other", 1), ref("raw", 1))
    stores = {"c": store}
    assert impact(stores, ref("raw", 2)) == [ref("raw", 2), ref("core", 2), ref("mart", 2)]
    # What comes after the bad one holds it too, also where the bad one itself was never read.
    record(store, ref("late", 1), ref("raw", 3))
    assert ref("late", 1) in impact(stores, ref("raw", 2))
    assert impact(stores, ref("mart", 1)) == [ref("mart", 1)]


def test_versions_that_belong_together(store: LineageStore) -> None:
    for number, (a, b) in enumerate([(1, 1), (2, 2), (3, 2)], 1):
        record(store, ref("a", number), ref("raw", a))
        record(store, ref("b", number), ref("raw", b))
    stores = {"c": store}
    histories = [[ref(name, number) for number in (3, 2, 1)] for name in ("a", "b")]
    source = ("c", "d", "raw", "main")
    # a@3 was made from raw@3, which b has not read yet; b@3 and b@2 both from raw@2.
    assert aligned(stores, histories, source) == [ref("a", 2), ref("b", 3)]
    assert aligned(stores, histories, ("c", "d", "nope", "main")) is None


def test_what_two_versions_were_made_from_differently(store: LineageStore) -> None:
    record(store, ref("core", 1), ref("raw", 1), ref("planes", 1))
    record(store, ref("core", 2), ref("raw", 2), ref("planes", 1))
    difference = ancestry_difference({"c": store}, ref("core", 1), ref("core", 2))
    assert difference.only_first == (ref("raw", 1),)
    assert difference.only_second == (ref("raw", 2),)
    assert '"c.d.raw@2" -> "c.d.core@2" [label="job of core"];' in dot(trace({"c": store}, ref("core", 2), "up"))


@pytest.mark.parametrize("seed", seeds(10, 300))
def test_answers_equal_a_brute_force_closure(store: LineageStore, seed: int) -> None:
    chance = random.Random(seed)
    made: list[SnapshotRef] = []
    edges: list[tuple[SnapshotRef, SnapshotRef]] = []
    numbers: dict[str, int] = {}
    for _ in range(40):
        table = chance.choice("abcdef")
        numbers[table] = numbers.get(table, 0) + 1
        snapshot = ref(table, numbers[table])
        sources = [other for other in chance.sample(made, min(len(made), chance.randrange(3))) if other.table != table]
        record(store, snapshot, *sources)
        edges += [(source, snapshot) for source in sources]
        made.append(snapshot)
    stores = {"c": store}
    for snapshot in made:
        up, frontier = set(), {snapshot}
        while frontier:
            frontier = {source for source, sink in edges if sink in frontier} - up
            up |= frontier
        assert set(trace(stores, snapshot, "up").snapshots) == up
        spoilt = {snapshot.table: snapshot.snapshot_id}
        while True:
            before = dict(spoilt)
            for source, sink in edges:
                if source.snapshot_id >= spoilt.get(source.table, 10**9):
                    spoilt[sink.table] = min(spoilt.get(sink.table, 10**9), sink.snapshot_id)
            if spoilt == before:
                break
        actual = {other.table: other.snapshot_id for other in impact(stores, snapshot)}
        actual[snapshot.table] = min(actual[snapshot.table], spoilt[snapshot.table])
        assert actual == spoilt


def test_how_far_a_table_is_behind_and_what_can_be_read_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SNAPLINE_HOME", str(tmp_path))
    session = Session()
    schema = pa.schema([("id", pa.int64())])

    def write(name: str, *sources: SnapshotRef) -> SnapshotRef:
        table = session.catalog.create_table(name, schema, if_not_exists=True)
        barrier = len(list(table.store.snapshots.all())) + 1
        table.write(
            pa.table({"id": [barrier]}),
            commit_id=CommitId(f"job of {name}", barrier),
            properties=sources_property(sources),
        )
        made = table.ref()
        assert made is not None
        return made

    first = write("raw.a")
    write("core.x", first)
    write("core.y", first)
    second = write("raw.a")
    write("core.x", second)
    write("raw.a")
    [lag] = session.freshness("core.x")
    assert (lag.source.snapshot_id, lag.newest.snapshot_id, lag.snapshots_behind) == (2, 3, 1)
    assert session.freshness("raw.a") == []
    together = session.aligned(["core.x", "core.y"], on="raw.a")
    assert [table.to_arrow()["id"].to_pylist() for table in together.values()] == [[1], [1]]
    with pytest.raises(NotFound, match="no snapshots that were made from the same snapshot"):
        session.aligned(["core.x", "raw.a"], on="core.y")
    assert [str(reached) for reached in session.impact(first)] == ["raw.a@1", "core.x@1", "core.y@1"]
    assert first.catalog == CATALOG_NAME
