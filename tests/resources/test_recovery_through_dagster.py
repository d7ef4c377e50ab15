"""The whole of a recovery through Dagster's webserver and daemon, with a run that is killed in the middle."""

import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from resources import Session
from resources.assets.dagster_home import dagster_config
from resources.recovery import Recovery
from tests.resources import shop
from tests.resources.dagster_server import DagsterServer, dagster_server, kill_run, wait
from tests.resources.shop import rows
from tests.resources.test_recovery import CHANGED, CORRECTION, KEYS, RIGHT, Run, bad_day, from_scratch, platform

pytestmark = pytest.mark.dagster
__all__ = ["bad_day", "platform"]


@pytest.fixture
def instance(tmp_path: Path) -> Any:
    """A Dagster that processes share."""
    home = tmp_path / "dagster"
    home.mkdir()
    (home / "dagster.yaml").write_text(dagster_config(home))
    with dg.DagsterInstance.from_config(str(home)) as dagster_instance:
        yield dagster_instance


def op(name: str, **config: Any) -> dict[str, Any]:
    return {"ops": {name: {"config": config}}}


class Reader:
    """Reads all tables of main again and again, as one consistent view, while others write."""

    def __init__(self, session: Session) -> None:
        self.seen: list[tuple[Any, ...]] = []
        self._catalog = Session(session.settings).catalog
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._read)

    def _read(self) -> None:
        while not self._end.is_set():
            view = self._catalog.consistent(CHANGED)
            state = tuple(tuple(rows(view[name])) for name in CHANGED)
            if not self.seen or self.seen[-1] != state:
                self.seen.append(state)

    def __enter__(self) -> "Reader":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()


def _works(instance: dg.DagsterInstance, run_id: str) -> bool:
    """Whether the step of a run has begun."""
    return bool(instance.all_logs(run_id, of_type=dg.DagsterEventType.STEP_START))


def size_of(warehouse: str) -> int:
    return sum(path.stat().st_size for path in Path(warehouse).rglob("*.parquet"))


def test_a_bad_day_is_repaired_from_the_ui_though_a_run_is_killed_in_the_middle(
    bad_day: Run, session: Session, instance: dg.DagsterInstance, tmp_path: Path
) -> None:
    home = session.settings.home
    before = {name: rows(session.table(name)) for name in CHANGED}
    size = size_of(session.settings.warehouse)
    with dagster_server("tests.resources.shop", home, tmp_path / "dagster") as server:
        config = op("start_the_recovery", bad="raw.orders@2", mode="incremental", branch="fix")
        assert server.run("recovery_start", config) == "SUCCESS"
        assert server.run("recovery_correct", op("correct_the_source", branch="fix", sql=CORRECTION)) == "SUCCESS"

        # The run of the backfill is killed while it works, and what failed is run again.
        (home / "slow").touch()
        wanted = [f"fix|{key}" for key in KEYS[1:4]]
        backfill = server.backfill(["recovery", "core", "days"], wanted)
        runs = wait(
            lambda: server.runs_of(backfill), lambda listed: bool(listed) and listed[0]["status"] == "STARTED", 120
        )
        kill_run(instance, runs[0]["runId"])
        assert server.wait_for_run(runs[0]["runId"]) == "FAILURE"
        assert server.wait_for_backfill(backfill) == "COMPLETED_FAILED"
        (home / "slow").unlink()
        again = server.repeat_backfill(backfill)
        (run,) = wait(lambda: server.runs_of(again), bool, 120)
        assert server.wait_for_run(run["runId"]) == "SUCCESS"
        branch = session.table("core.days").on_branch("fix")
        made = [snapshot for snapshot in branch.store.snapshots.all() if snapshot.commit_user == "recovery/core/days"]
        assert [(snapshot.properties or {})["snapline.partitions"] for snapshot in made] == [",".join(KEYS[1:4])]

        assert server.materialize(["recovery", "mart", "totals"], "fix") == "SUCCESS"
        assert server.run("recovery_compare", op("compare_the_branch", branch="fix")) == "SUCCESS"
        # Until here nobody who reads main, and nothing that Dagster says of it, has changed.
        assert {name: rows(session.table(name)) for name in CHANGED} == before
        with Reader(session) as reader:
            assert server.run("recovery_publish", op("publish_the_branch", branch="fix")) == "SUCCESS"
        after = tuple(tuple(rows(session.table(name))) for name in CHANGED)
        assert reader.seen in ([tuple(map(tuple, before.values())), after], [tuple(map(tuple, before.values()))])
        assert rows(session.table("core.days")) == RIGHT
        assert rows(session.table("mart.totals")) == from_scratch(session)
        _check_what_the_ui_shows(server)
    # Lineage tells how main came to be what it is, without Dagster.
    shutil.rmtree(tmp_path / "dagster")
    upstream = {str(ref) for ref in Session(session.settings).lineage(session.ref("mart.totals"), "up").snapshots}
    assert {"core.days@4", "raw.orders@4", "core.days$branch_fix@2", "raw.orders$branch_fix@4"} <= upstream
    # The branch took up what was corrected and computed anew, and nothing was copied.
    assert size_of(session.settings.warehouse) < 2 * size
    assert Recovery(session, "fix").drop() == ["raw.orders", "core.days", "mart.totals"]
    assert [problem for name in CHANGED for problem in session.table(name).check()] == []


def _check_what_the_ui_shows(server: DagsterServer) -> None:
    """Main's cells tell of the published snapshot, and nothing is stale or failed."""
    query = """
    query($k: [AssetKeyInput!]!) { assetNodes(assetKeys: $k) { assetKey { path } staleStatus
        assetMaterializations(limit: 1) { partition metadataEntries { label ... on IntMetadataEntry { intValue } } } } }
    """
    keys = [{"path": name.split(".")} for name in CHANGED]
    nodes = {node["assetKey"]["path"][-1]: node for node in server.ask(query, k=keys)["assetNodes"]}
    for name, node in nodes.items():
        (event,) = node["assetMaterializations"]
        shown = {entry["label"]: entry.get("intValue") for entry in event["metadataEntries"]}
        assert shown["snapshot"] == 4, (name, event)
        assert "recovery" in shown
    assert nodes["totals"]["staleStatus"] == "FRESH"


def test_a_backfill_that_dies_between_commit_and_event_commits_each_partition_once(
    bad_day: Callable[..., Any], session: Session, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit is there, Dagster has not heard of it: what is run again takes the commit for its own."""
    from resources.assets.materialization import Materialization

    tags = {"dagster/asset_partition_range_start": KEYS[0], "dagster/asset_partition_range_end": KEYS[11]}
    result = Materialization.result

    def dying(*_: Any, **__: Any) -> None:
        raise RuntimeError("the machine went down")

    monkeypatch.setattr(Materialization, "result", dying)
    died = bad_day("core.days", tags=tags, raise_on_error=False)
    assert not died.success
    monkeypatch.setattr(Materialization, "result", result)
    latest = session.ref("core.days")
    job = shop.defs.resolve_implicit_global_asset_job_def()
    run = instance.create_run_for_job(
        job.get_subset(asset_selection={dg.AssetKey(["core", "days"])}),
        parent_run_id=died.run_id,
        root_run_id=died.run_id,
        tags=tags,
        asset_selection=frozenset({dg.AssetKey(["core", "days"])}),
    )
    from dagster._core.definitions.job_base import InMemoryJob
    from dagster._core.execution.api import execute_run_iterator

    subset = job.get_subset(asset_selection={dg.AssetKey(["core", "days"])})
    list(execute_run_iterator(InMemoryJob(subset), run, instance))
    assert instance.get_run_by_id(run.run_id).status == dg.DagsterRunStatus.SUCCESS  # type: ignore[union-attr]
    assert session.ref("core.days") == latest
    event = instance.get_latest_materialization_event(dg.AssetKey(["core", "days"]))
    assert event is not None and event.asset_materialization is not None
    assert event.asset_materialization.metadata["snapshot"].value == latest.snapshot_id
    # Asked for anew, it is made anew; its rows are there already.
    assert bad_day("core.days", tags=tags).success
    assert session.ref("core.days") == latest
    again = instance.get_latest_materialization_event(dg.AssetKey(["core", "days"]))
    assert again is not None and again.run_id != event.run_id
