"""Recording, asking and rebuilding lineage."""

import subprocess
import sys
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pytest

from lineage import (
    JobStartup,
    LineageRecorder,
    LineageStore,
    SnapshotLineage,
    TableLineage,
    mermaid,
    neighbour_tables,
    open_lineage_store,
    rebuild,
    rows,
    sources_of,
    sources_property,
    text_tree,
    trace,
)
from storage import Catalog, CommitId, InvalidRequest, SnapshotRef, Table

MOMENT = datetime(2024, 1, 2, 3, 4, 5, 678000)
SCHEMA = pa.schema([("id", pa.int64())])


@pytest.fixture
def store(tmp_path: Path) -> LineageStore:
    return open_lineage_store({"jdbc.url": f"jdbc:sqlite:{tmp_path / 'lineage.db'}"})


@pytest.fixture
def recorded(tmp_path: Path, store: LineageStore) -> Catalog:
    recorder = LineageRecorder("snapline", {"snapline": store}, tables=True, snapshots=True)
    return Catalog(str(tmp_path / "warehouse"), listeners=[recorder])


def make(catalog: Catalog, name: str, *sources: SnapshotRef, barrier: int = 1) -> SnapshotRef:
    """Commit one more snapshot of a table, made from some others."""
    table = catalog.create_table(name, SCHEMA, if_not_exists=True)
    job = f"job of {name}"
    table.write(pa.table({"id": [barrier]}), commit_id=CommitId(job, barrier), properties=sources_property(sources))
    ref = table.ref()
    assert ref is not None
    return ref


@pytest.fixture
def chain(recorded: Catalog) -> dict[str, SnapshotRef]:
    """raw.a@1 → core.b@1 → mart.c@1; raw.a@2 and raw.d@1 → core.b@2 → mart.c@2."""
    refs = {"a1": make(recorded, "raw.a")}
    refs["b1"] = make(recorded, "core.b", refs["a1"])
    refs["c1"] = make(recorded, "mart.c", refs["b1"])
    refs["a2"], refs["d1"] = make(recorded, "raw.a", barrier=2), make(recorded, "raw.d")
    refs["b2"] = make(recorded, "core.b", refs["a2"], refs["d1"], barrier=2)
    refs["c2"] = make(recorded, "mart.c", refs["b2"], barrier=2)
    return refs


def test_a_snapshot_is_traced_upstream_and_downstream_over_all_hops(
    store: LineageStore, chain: dict[str, SnapshotRef]
) -> None:
    stores = {"snapline": store}
    assert set(trace(stores, chain["c2"], "up").snapshots) == {chain[name] for name in ("b2", "a2", "d1")}
    assert set(trace(stores, chain["c1"], "up").snapshots) == {chain["b1"], chain["a1"]}
    assert set(trace(stores, chain["a1"], "down").snapshots) == {chain["b1"], chain["c1"]}
    assert trace(stores, chain["c2"], "up", hops=1).snapshots == [chain["b2"]]
    assert trace(stores, chain["c2"], "down").snapshots == []


def test_an_edge_names_job_and_barrier(store: LineageStore, chain: dict[str, SnapshotRef]) -> None:
    (edge,) = trace({"snapline": store}, chain["b1"], "up").edges
    assert (edge.source, edge.sink) == (chain["a1"], chain["b1"])
    assert (edge.job, edge.barrier_id) == ("job of core.b", 1)


def test_tables_have_neighbours(store: LineageStore, chain: dict[str, SnapshotRef]) -> None:
    assert neighbour_tables(store, "core", "b", "up") == [("raw", "a"), ("raw", "d")]
    assert neighbour_tables(store, "core", "b", "down") == [("mart", "c")]
    assert neighbour_tables(store, "raw", "a", "up") == []


def test_a_graph_is_drawn(store: LineageStore, chain: dict[str, SnapshotRef]) -> None:
    graph = trace({"snapline": store}, chain["c2"], "up")
    assert text_tree(graph) == "mart.c@2\n└── core.b@2\n    ├── raw.a@2\n    └── raw.d@1"
    assert '    s0["core.b@2"]' in mermaid(graph)
    assert rows(graph)[0] == {
        "source": "core.b",
        "source_snapshot_id": 2,
        "sink": "mart.c",
        "sink_snapshot_id": 2,
        "job": "job of mart.c",
        "barrier_id": 2,
    }


def test_a_diamond_is_unfolded_once(recorded: Catalog, store: LineageStore) -> None:
    a = make(recorded, "raw.a")
    b = make(recorded, "core.b", a)
    c, d = make(recorded, "core.c", b), make(recorded, "core.d", b)
    top = make(recorded, "mart.e", c, d)
    shown = text_tree(trace({"snapline": store}, top, "up"))
    assert shown.count("raw.a@1") == 1
    assert "core.b@1 (shown above)" in shown


def everything(store: LineageStore) -> list[object]:
    sides = ("source", "sink")
    return [[*store.tables(side), *store.snapshots(side)] for side in sides]  # type: ignore[arg-type]


def test_a_lost_database_is_rebuilt_from_the_tables(
    recorded: Catalog, store: LineageStore, chain: dict[str, SnapshotRef], tmp_path: Path
) -> None:
    other = open_lineage_store({"jdbc.url": f"jdbc:sqlite:{tmp_path / 'other.db'}"})
    recorder = LineageRecorder("snapline", {"snapline": other}, tables=True, snapshots=True)
    assert rebuild(recorded, recorder) == len(chain)
    assert everything(other) == everything(store)
    rebuild(recorded, recorder)
    assert everything(other) == everything(store)


def test_the_snapshot_itself_says_what_it_was_made_from(recorded: Catalog, chain: dict[str, SnapshotRef]) -> None:
    snapshot = recorded.table("core.b").snapshot()
    assert snapshot is not None
    assert sources_of(snapshot) == [chain["a2"], chain["d1"]]
    assert (snapshot.commit_user, snapshot.commit_identifier) == ("job of core.b", 2)


def test_sources_in_another_catalog_are_recorded_there(tmp_path: Path, store: LineageStore) -> None:
    second = open_lineage_store({"jdbc.url": f"jdbc:sqlite:{tmp_path / 'second.db'}"})
    stores = {"snapline": store, "other": second}
    foreign = SnapshotRef("other", "raw", "x", "main", 4)
    recorder = LineageRecorder("snapline", stores, tables=True, snapshots=True)
    sink = make(Catalog(str(tmp_path / "w"), listeners=[recorder]), "core.y", foreign)
    assert [row.table for row in second.snapshots("source")] == ["x"]
    assert trace(stores, sink, "up").snapshots == [foreign]
    assert trace(stores, foreign, "down").snapshots == [sink]


@pytest.mark.parametrize(("tables", "snapshots"), [(False, False), (True, False), (False, True)])
def test_only_what_the_catalog_asks_for_is_recorded(
    tmp_path: Path, store: LineageStore, tables: bool, snapshots: bool
) -> None:
    recorder = LineageRecorder("snapline", {"snapline": store}, tables=tables, snapshots=snapshots)
    catalog = Catalog(str(tmp_path / "w"), listeners=[recorder])
    make(catalog, "core.b", make(catalog, "raw.a"))
    assert bool(store.tables("sink")) == tables
    assert bool(store.snapshots("sink")) == snapshots


# --- the store


def test_storing_twice_changes_nothing(store: LineageStore) -> None:
    first = SnapshotLineage("j", 1, "d", "t", "main", 5, MOMENT)
    store.store_snapshots("source", [first])
    store.store_snapshots("source", [SnapshotLineage("j", 1, "d", "t", "main", 5, datetime(2030, 1, 1))])
    assert store.snapshots("source") == [first]
    table = TableLineage("j", "d", "t", "main", MOMENT)
    store.store_tables("sink", [table, table])
    assert store.tables("sink") == [table]
    startup = JobStartup("j", "d", "t", "main", 5)
    store.store_startups([startup])
    store.store_startups([JobStartup("j", "d", "t", "main", 6)])
    assert store.startups(job="j") == [startup]


def test_a_job_may_read_two_versions_of_a_table_at_a_barrier(store: LineageStore) -> None:
    both = [SnapshotLineage("j", 1, "d", "t", "main", number, MOMENT) for number in (5, 6)]
    store.store_snapshots("source", both)
    assert store.snapshots("source", job="j") == both


def test_rows_are_found_by_any_of_their_fields_and_deleted_by_job(store: LineageStore) -> None:
    stored = [
        SnapshotLineage(job, barrier, "d", "t", branch, barrier, MOMENT)
        for job in ("j", "k")
        for barrier in (1, 2)
        for branch in ("fix", "main")
    ]
    store.store_snapshots("sink", stored)
    assert store.snapshots("sink", job="k", barrier_id=[2, 3], branch="main") == [stored[-1]]
    assert store.snapshots("sink", table="none") == []
    assert store.delete_snapshots("j") == 4
    assert {row.job for row in store.snapshots("sink")} == {"k"}
    assert store.delete_tables("j") == 0


def test_two_stores_of_one_database_see_each_other(store: LineageStore, tmp_path: Path) -> None:
    store.store_tables("sink", [TableLineage("j", "d", "t", "main", MOMENT)])
    other = open_lineage_store({"jdbc.url": f"jdbc:sqlite:{tmp_path / 'lineage.db'}"})
    assert other.tables("sink") == store.tables("sink")


def test_many_processes_write_at_once(tmp_path: Path) -> None:
    script = """
import sys
from datetime import datetime
from lineage import SnapshotLineage, open_lineage_store
store = open_lineage_store({"jdbc.url": "jdbc:sqlite:" + sys.argv[1]})
for number in range(25):
    store.store_snapshots("sink", [SnapshotLineage(sys.argv[2], number, "d", "t", "main", number, datetime(2024, 1, 1))])
"""
    url = str(tmp_path / "many.db")
    root = Path(__file__).parent.parent.parent
    processes = [
        subprocess.Popen([sys.executable, "-c", script, url, f"job {number}"], cwd=root, stderr=subprocess.PIPE)
        for number in range(6)
    ]
    for process in processes:
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors.decode()[-2000:]
    assert len(open_lineage_store({"jdbc.url": f"jdbc:sqlite:{url}"}).snapshots("sink")) == 150


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "set 'jdbc.url'"),
        ({"jdbc.url": "jdbc:oracle:thin:@x"}, "Supported: mariadb, mysql, postgresql, sqlite"),
        ({"lineage-meta": "graph", "jdbc.url": "jdbc:sqlite:x"}, "Installed: .*jdbc"),
        ({"jdbc.url": "jdbc:sqlite:/no/such/directory/lineage.db"}, "cannot be opened"),
    ],
)
def test_options_that_lead_to_no_store_are_explained(options: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        open_lineage_store(options)


def test_a_store_of_ones_own_is_found_by_its_entry_point(store: LineageStore, monkeypatch: pytest.MonkeyPatch) -> None:
    class Own:
        name, value, dist = "graph", "of_ones_own", None

        def load(self) -> object:
            return lambda options: store if options["graph.host"] == "here" else None

    monkeypatch.setattr(
        "storage.extensions._installed", lambda group, path: (Own(),) if group == "snapline.lineage_stores" else ()
    )
    assert open_lineage_store({"lineage-meta": "graph", "graph.host": "here"}) is store


def test_urls_of_the_lineage_document_are_understood() -> None:
    from lineage.database_url import database_url

    given = {"jdbc.url": "jdbc:mysql://host:3306/", "jdbc.username": "me", "jdbc.password": "p"}
    url = database_url(given)
    assert url.render_as_string(hide_password=False) == "mysql+pymysql://me:p@host:3306/paimon"
    assert database_url({"jdbc.url": "jdbc:postgresql://h/db?ssl=true"}).drivername == "postgresql+psycopg"
    assert database_url({"jdbc.url": "jdbc:sqlite:/a/b.db"}).database == "/a/b.db"


def test_writing_to_a_branch_is_lineage_of_that_branch(recorded: Catalog, store: LineageStore, tmp_path: Path) -> None:
    import shutil

    table: Table = recorded.create_table("raw.a", SCHEMA)
    schema = tmp_path / "warehouse" / "raw.db" / "a" / "schema"
    shutil.copytree(schema, schema.parent / "branch" / "branch-fix" / "schema")
    table.on_branch("fix").write(pa.table({"id": [1]}))
    assert [(row.branch, row.snapshot_id) for row in store.snapshots("sink")] == [("fix", 1)]
