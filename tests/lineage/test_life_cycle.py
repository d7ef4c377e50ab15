"""Lineage stays true when tables are renamed, dropped, rolled back, expired, merged and replaced, and when writers die."""

import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lineage import LineageRecorder, LineageStore, open_lineage_store, rebuild, sources_property, text_tree
from resources import Session
from resources.warehouse.catalogs import CATALOG_NAME
from storage import CommitId, SnapshotRef, Table
from tests.scale import amount, seeds

SCHEMA = pa.schema([("id", pa.int64())])
ROOT = Path(__file__).parent.parent.parent
Open = Callable[[], Session]


@pytest.fixture
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Open:
    """Opens a session anew, as another process would."""
    monkeypatch.setenv("SNAPLINE_HOME", str(tmp_path / "home"))
    return Session


def write(session: Session, name: str, *sources: SnapshotRef, job: str = "", run: str = "") -> SnapshotRef:
    """Commit one more snapshot of a table, made from some others."""
    plain = name.split("$")[0]
    session.catalog.create_table(plain, SCHEMA, if_not_exists=True)
    table = session.catalog.table(name)
    return commit(table, *sources, job=job or f"job of {plain}", run=run)


def commit(table: Table, *sources: SnapshotRef, job: str, run: str = "") -> SnapshotRef:
    properties = sources_property(sources) | ({"snapline.run": run} if run else {})
    barrier = random.getrandbits(40)
    table.write(pa.table({"id": [barrier]}), commit_id=CommitId(job, barrier, exact=True), properties=properties)
    ref = table.ref()
    assert ref is not None
    return ref


def upstream(session: Session, target: str) -> list[str]:
    return [str(ref) for ref in session.lineage(session.ref(target), "up").snapshots]


def everything(store: LineageStore) -> list[object]:
    contents: list[object] = [store.columns(), store.startups(), store.reconciled()]
    for side in ("source", "sink"):
        contents += [store.tables(side), store.snapshots(side)]  # type: ignore[arg-type]
    return [list(rows) for rows in contents]  # type: ignore[call-overload]


def rebuilt(session: Session, tmp_path: Path) -> LineageStore:
    """A new database, filled from the tables alone."""
    store = open_lineage_store({"jdbc.url": f"jdbc:sqlite:{tmp_path / f'{random.getrandbits(40)}.db'}"})
    rebuild(session.catalog, LineageRecorder(CATALOG_NAME, {CATALOG_NAME: store}, tables=True, snapshots=True))
    return store


def test_two_tables_that_have_swapped_their_names_are_told_apart(opened: Open) -> None:
    session = opened()
    first, second = write(session, "raw.a"), write(session, "raw.b")
    write(session, "core.c", first)
    for name, new in (("raw.a", "raw.x"), ("raw.b", "raw.a"), ("raw.x", "raw.b")):
        session.catalog.rename_table(name, new)
    assert first.time_ms is not None and second.time_ms is not None
    for source in (session.ref("raw.a@1"), session.ref("raw.b@1")):
        write(session, "core.c", source)
    for again in (opened(), opened()):
        made = [
            edge.source for number in (1, 2, 3) for edge in again.lineage(again.ref(f"core.c@{number}"), "up").edges
        ]
        assert [str(each) for each in made] == ["raw.b@1", "raw.a@1", "raw.b@1"]
        again.rebuild_lineage()


def test_a_source_that_was_renamed_and_dropped_comes_once(opened: Open) -> None:
    session = opened()
    made = write(session, "core.b", write(session, "raw.a"))
    session.catalog.rename_table("raw.a", "raw.first")
    session.catalog.drop_table("raw.first")
    for again in (opened(), opened()):
        assert [str(edge.source) for edge in again.lineage(made, "up").edges] == ["raw.first@1"]
        again.rebuild_lineage()


def test_a_renamed_table_keeps_its_lineage(opened: Open, tmp_path: Path) -> None:
    session = opened()
    made = write(session, "core.b", write(session, "raw.a"))
    write(session, "mart.c", made)
    session.catalog.rename_table("core.b", "core.better")
    session.catalog.rename_table("raw.a", "raw.first")
    assert upstream(opened(), "mart.c") == ["core.better@1", "raw.first@1"]
    # A new table of the old name is another one.
    write(session, "mart.c", write(session, "core.b"))
    session = opened()
    assert upstream(session, "mart.c@2") == ["core.b@1"]
    assert upstream(session, "mart.c@1") == ["core.better@1", "raw.first@1"]
    session.reconcile_all()
    assert everything(rebuilt(session, tmp_path)) == everything(session.lineage_store)


def roll_back_as_paimon_does(table: Table, snapshot_id: int) -> None:
    """Paimon's own rollback deletes later snapshots, and gives their numbers again."""
    directory = Path(table.store.paths.snapshot_directory)
    for path in directory.glob("snapshot-*"):
        if int(path.name.removeprefix("snapshot-")) > snapshot_id:
            path.unlink()
    (directory / "LATEST").write_text(str(snapshot_id))


def test_what_a_rollback_takes_back_is_said(opened: Open) -> None:
    session = opened()
    write(session, "raw.a")
    bad = write(session, "raw.a")
    write(session, "core.b", bad)
    session.table("raw.a").rollback_to(1)
    tree = text_tree(session.lineage(session.ref("core.b"), "up"), session.fate)
    assert tree.endswith("raw.a@2 (taken back)")
    assert write(session, "raw.a").snapshot_id == 4
    session.table("raw.a").rollback_to(2)
    assert session.fate(bad) == ""


def test_numbers_that_are_given_again_after_a_rollback_are_told_apart(opened: Open, tmp_path: Path) -> None:
    session = opened()
    write(session, "raw.a")
    bad = write(session, "raw.a")
    write(session, "core.b", bad)
    roll_back_as_paimon_does(session.table("raw.a"), 1)
    assert session.fate(bad) == "taken back"
    tree = text_tree(session.lineage(session.ref("core.b"), "up"), session.fate)
    assert tree.endswith("raw.a@2 (taken back)")
    good = write(session, "raw.a")
    assert good == bad
    write(session, "core.b", good)
    session = opened()
    assert upstream(session, "core.b@2") == ["raw.a@2"]
    (old,) = session.lineage(session.ref("core.b@1"), "up").snapshots
    assert (old.snapshot_id, session.fate(old)) == (2, "replaced")
    assert str(old).startswith("raw.a$branch_main~20")
    # The good one did not spoil what was made from the bad one, nor the other way round.
    assert [str(reached) for reached in session.impact(session.ref("raw.a@2"))] == ["raw.a@2", "core.b@2"]
    sources = rebuilt(session, tmp_path).snapshots("source")
    assert list(sources) == list(session.lineage_store.snapshots("source"))


def test_a_source_that_is_taken_back_while_it_is_read_is_told_apart(opened: Open) -> None:
    session = opened()
    write(session, "raw.a")
    read = write(session, "raw.a")
    roll_back_as_paimon_does(session.table("raw.a"), 1)
    write(session, "raw.a")
    write(session, "core.b", read)
    (source,) = session.lineage(session.ref("core.b"), "up").snapshots
    assert source.branch.startswith("main~")


def test_a_table_that_is_dropped_and_made_anew_is_another(opened: Open) -> None:
    session = opened()
    write(session, "core.b", write(session, "raw.a"))
    session.catalog.drop_table("raw.a")
    session = opened()
    tree = text_tree(session.lineage(session.ref("core.b"), "up"), session.fate)
    assert tree.endswith("raw.a@1 (dropped)")
    write(session, "core.b", write(session, "raw.a"))
    assert upstream(session, "core.b@2") == ["raw.a@1"]
    (old,) = session.lineage(session.ref("core.b@1"), "up").snapshots
    assert session.fate(old) == "replaced"


def test_expired_snapshots_are_marked_and_forgotten_when_the_user_says_so(opened: Open) -> None:
    session = opened()
    for _ in range(3):
        write(session, "core.b", write(session, "raw.a"))
    session.table("raw.a").tags.create("kept", snapshot_id=2)
    for name in ("raw.a", "core.b"):
        session.table(name).expire(retain_last=1)
    assert [session.fate(SnapshotRef(CATALOG_NAME, "raw", "a", "main", number)) for number in (1, 2, 3)] == [
        "expired",
        "",
        "",
    ]
    assert session.forget_lineage(timedelta(days=1)) == 0
    # Barriers that made raw.a@1, core.b@1 and core.b@2 have no product left: the last two read something as well.
    assert session.forget_lineage(timedelta(0)) == 5
    assert upstream(session, "core.b") == ["raw.a@3"]


def test_forgotten_lineage_comes_back_by_a_rebuild_only(opened: Open) -> None:
    session = opened()
    write(session, "core.b", write(session, "raw.a"))
    assert session.forget_job("job of core.b", tables=True, snapshots=True) == 4
    assert upstream(opened(), "core.b") == []
    rebuild(session.catalog, session.recorder)
    assert upstream(opened(), "core.b") == ["raw.a@1"]


def test_a_merged_and_a_replacing_branch_keep_true_numbers(opened: Open) -> None:
    session = opened()
    write(session, "core.b", write(session, "raw.a"))
    session.table("core.b").branches.create("fix")
    second = write(session, "raw.a")
    write(session, "core.b$branch_fix", second, job="fixer")
    assert upstream(session, "core.b$branch_fix@2") == ["raw.a@2"]
    # A branch's first snapshot is main's: both were made by the same barrier.
    assert upstream(session, "core.b$branch_fix@1") == ["raw.a@1"]
    session.table("core.b").branches.merge("fix")
    latest = session.ref("core.b")
    assert upstream(session, "core.b") == ["core.b$branch_fix@2", "raw.a@2"]
    down = session.lineage(second, "down").snapshots
    assert {str(reached) for reached in down} == {"core.b$branch_fix@2", str(latest)}

    session.table("core.b").branches.create("other", snapshot_id=1)
    write(session, "core.b$branch_other", write(session, "raw.a"), job="another")
    session.table("core.b").branches.replace_main("other", discard_main=True)
    session = opened()
    # What main had done elsewhere was put on top of the branch.
    assert upstream(session, "core.b@2") == ["raw.a@3"]
    branch, main, source = upstream(session, "core.b@3")
    assert (branch, source) == ("core.b$branch_fix@2", "raw.a@2") and main.startswith("core.b$branch_main~")
    replaced = [ref for ref in session.lineage(second, "down").snapshots if ref.branch.startswith("main~")]
    assert [ref.snapshot_id for ref in replaced] == [2]


def test_a_partition_is_made_from_what_its_rows_were_made_from(opened: Open) -> None:
    session = opened()
    table = session.catalog.create_table(
        "core.p",
        pa.schema([("day", pa.string()), ("id", pa.int64())]),
        primary_key=["day", "id"],
        partition_by=["day"],
        options={"bucket": 1},
    )

    def upsert(day: str, number: int) -> None:
        source = write(session, "raw.a")
        properties = sources_property([source])
        table.write(pa.table({"day": [day], "id": [number]}), commit_id=CommitId("p", number), properties=properties)

    for number, day in enumerate(["mon", "tue", "mon", "tue"], 1):
        upsert(day, number)
    table.compact(full=True)

    def sources(day: str) -> list[str]:
        graphs = session.partition_lineage("core.p", {"day": day}, "up")
        return [f"{graph.root} from {', '.join(map(str, graph.snapshots))}" for graph in graphs]

    assert sources("mon") == ["core.p@3 from raw.a@3", "core.p@1 from raw.a@1"]
    assert sources("tue") == ["core.p@4 from raw.a@4", "core.p@2 from raw.a@2"]
    table.overwrite(pa.table({"day": ["mon"], "id": [9]}), partition={"day": "mon"}, commit_id=CommitId("p", 9))
    assert sources("mon") == [f"{session.ref('core.p')} from "]
    assert sources("none") == []


# --- writers that die

_WRITER = """
import os, random, signal, sys
import pyarrow as pa
from lineage import LineageRecorder, sources_property
from resources import Session
from storage import CommitId

step = int(sys.argv[1])
session = Session()
source = session.ref("raw.a")
store = session.lineage_store

def dying(method):
    def call(*arguments, **how):
        global step
        step -= 1
        if step < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return method(*arguments, **how)
    return call

table = session.table("core.b")
for name in ("set_apart", "store_tables", "store_columns", "store_snapshots", "has_snapshots"):
    setattr(store, name, dying(getattr(store, name)))
properties = sources_property([source]) | {"snapline.run": "run 7"}
table.write(pa.table({"id": [1]}), commit_id=CommitId("job of core.b", 77, exact=True), properties=properties)
print("done")
"""


def test_a_writer_that_dies_between_commit_and_record_leaves_no_gap(opened: Open, tmp_path: Path) -> None:
    session = opened()
    write(session, "core.b", write(session, "raw.a"))
    write(session, "raw.a")
    session.reconcile_all()
    home = tmp_path / "home"
    shutil.copytree(home, tmp_path / "before")
    died = 0
    for step in range(40):
        shutil.rmtree(home)
        shutil.copytree(tmp_path / "before", home)
        done = subprocess.run(
            [sys.executable, "-c", _WRITER, str(step)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert "done" in done.stdout or done.returncode == -signal.SIGKILL, done.stderr[-2000:]
        # The next session, before it was told to do anything about it.
        session = opened()
        assert upstream(session, "core.b") == ["raw.a@2"], f"killed at step {step}: {done}"
        assert [str(reached) for reached in session.impact(session.ref("raw.a@2"))] == ["raw.a@2", "core.b@2"]
        session.reconcile_all()
        assert everything(rebuilt(session, tmp_path))[3:] == everything(session.lineage_store)[3:]
        session.close()
        if "done" in done.stdout:
            break
        died += 1
    assert died >= 6


@pytest.mark.parametrize("seed", seeds(6, 100))
def test_a_rebuild_gives_the_identical_store(opened: Open, tmp_path: Path, seed: int) -> None:
    """Whatever has happened, but for what is gone from the tables themselves."""
    chance = random.Random(seed)
    session = opened()
    names = ["raw.a", "raw.b", "core.c", "core.d", "mart.e"]
    made: list[SnapshotRef] = []
    for number in range(40):
        name = chance.choice(names)
        sources = [ref for ref in chance.sample(made, min(len(made), 2)) if ref.table != name.split(".")[1]]
        read = list({(ref.database, ref.table, ref.branch): ref for ref in sources}.values())
        made.append(write(session, name, *read, run=f"run {number}"))
        known = session.table(name)
        event = chance.random()
        if event < 0.1:
            known.compact(full=True)
        elif event < 0.2 and name.startswith("raw."):
            new = f"{name.rstrip('0123456789')}{number}"
            session.catalog.rename_table(name, new)
            names[names.index(name)] = new
            database, table = new.split(".")
            old = name.split(".")[1]
            made = [
                SnapshotRef(ref.catalog, database, table, ref.branch, ref.snapshot_id, ref.time_ms)
                if (ref.database, ref.table) == (database, old)
                else ref
                for ref in made
            ]
    session = opened()
    session.reconcile_all()
    fresh = rebuilt(session, tmp_path)
    own = everything(session.lineage_store)
    # Startups are recorded by runs of Dagster; here there were none.
    assert everything(fresh)[2:] == own[2:]
    assert {row.job for row in fresh.startups()} <= {f"run {number}" for number in range(40)}
    fresh.close()


def test_a_hostile_writer_never_comes_between_what_is_read_and_what_is_recorded(opened: Open) -> None:
    """Others commit to the source during every run; what is recorded, read again, gives the output again."""
    session = opened()
    source = session.catalog.create_table("raw.a", pa.schema([("n", pa.int64())]))
    sink = session.catalog.create_table("core.copy", pa.schema([("run", pa.int64()), ("read", pa.int64())]))
    source.overwrite(pa.table({"n": [-1]}))
    runs = amount(100, 5000, full=1000)
    for number in range(runs):
        read = source.pinned()
        source.overwrite(pa.table({"n": [2 * number]}))
        values = read.to_arrow()["n"].to_pylist()
        source.overwrite(pa.table({"n": [2 * number + 1]}))
        ref = read.last_change()
        assert ref is not None
        sink.write(
            pa.table({"run": [number], "read": values}),
            commit_id=CommitId("copy", number),
            properties=sources_property([ref]),
        )
    copied = dict(zip(*(sink.to_arrow()[name].to_pylist() for name in ("run", "read")), strict=True))
    rows: dict[int, Any] = {row.barrier_id: row for row in session.lineage_store.snapshots("source", job="copy")}
    assert sorted(rows) == sorted(copied) == list(range(runs))
    for number in range(runs):
        assert source.at(rows[number].snapshot_id).to_arrow()["n"].to_pylist() == [copied[number]]
