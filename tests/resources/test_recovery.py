"""A bad day, repaired: planned, branched, corrected, computed anew, compared, published or dropped."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

import dagster as dg
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from resources import Session, SparkResource, TablesResource, recovery_definitions, table_asset
from resources.assets.table_asset import table_assets
from resources.recovery import Recovery, bad_snapshot, plan_recovery
from resources.recovery.backfill import backfill
from resources.recovery.left_to_do import left_to_do
from resources.recovery.publish import publish
from storage import AlreadyExists, CommitConflict, InvalidRequest, NotFound
from tests.resources import shop
from tests.resources.shop import ASSETS, MONTHS, rows
from tests.resources.test_table_asset import range_tags

pytestmark = pytest.mark.dagster
Run = Callable[..., dg.ExecuteInProcessResult]
KEYS = MONTHS.get_partition_keys()
CHANGED = ("core.days", "mart.totals", "raw.orders")


@pytest.fixture
def platform(session: Session, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a job of the shop, or materializes some of its assets."""
    monkeypatch.setattr(shop, "INCOMING", [])

    def run(
        *names: str, job: str | None = None, config: dict[str, Any] | None = None, **arguments: Any
    ) -> dg.ExecuteInProcessResult:
        if job is not None:
            (op,) = shop.defs.resolve_job_def(job).graph.node_dict
            arguments["run_config"] = {"ops": {op: {"config": config}}}
            return shop.defs.resolve_job_def(job).execute_in_process(instance=instance, **arguments)
        chosen = dg.AssetSelection.assets(*(dg.AssetKey(name.split(".")) for name in names))
        asset_job = dg.define_asset_job("some", chosen)
        some = dg.Definitions.merge(shop.defs, dg.Definitions(jobs=[asset_job])).resolve_job_def("some")
        return some.execute_in_process(instance=instance, **arguments)

    return run


def load(run: Run, *orders: tuple[int, str, float]) -> None:
    shop.INCOMING[:] = [{"id": number, "day": day, "price": price} for number, day, price in orders]
    assert run("raw.orders").success


def produce(run: Run, first: str, last: str) -> None:
    assert run("core.days", tags=range_tags(first, last)).success
    assert run("mart.totals").success


@pytest.fixture
def bad_day(platform: Run, session: Session) -> Run:
    """Two good days, then prices in the wrong currency from the third day on."""
    platform("raw.rates")
    load(platform, (1, KEYS[0], 1.0), (2, KEYS[1], 2.0))
    produce(platform, KEYS[0], KEYS[1])
    load(platform, (3, KEYS[2], 300.0))
    produce(platform, KEYS[2], KEYS[2])
    load(platform, (4, KEYS[3], 400.0), (2, KEYS[1], 200.0))
    produce(platform, KEYS[1], KEYS[3])
    return platform


CORRECTION = "UPDATE raw.orders SET price = price / 100 WHERE price >= 100"
RIGHT = [(KEYS[0], 1, 2.0), (KEYS[1], 2, 4.0), (KEYS[2], 3, 6.0), (KEYS[3], 4, 8.0)]


def twin(run: Run, branch: str, first: str | None, last: str | None, table: str) -> dg.ExecuteInProcessResult:
    name = f"recovery.{table}"
    if first is None:
        return run(name, partition_key=branch)
    return run(name, tags=range_tags(f"{branch}|{first}", f"{branch}|{last}"))


def recompute(run: Run, session: Session, branch: str) -> None:
    """What a user does in the UI: pick the partitions that the plan names, and materialize."""
    record = Recovery(session, branch).record
    days = [partition["day"] for partition in record.tables["core.days"].partitions or []]
    assert twin(run, branch, days[0], days[-1], "core.days").success
    assert twin(run, branch, None, None, "mart.totals").success


def from_scratch(session: Session) -> list[tuple[object, ...]]:
    """What the pipeline gives for right prices, computed by hand."""
    return [(day, price, 1) for day, _, price in RIGHT]


def test_a_plan_names_every_table_that_is_spoilt_and_changes_nothing(bad_day: Run, session: Session) -> None:
    before = {name: session.table(name).ref() for name in session.catalog.tables()}
    plan = plan_recovery(session, session.ref("raw.orders@2"), "incremental")
    assert [row[:4] for row in plan.rows()] == [
        ("raw.orders", 2, 3, 3),
        ("core.days", 2, 3, 1),
        ("mart.totals", 2, 3, 1),
    ]
    assert [planned.describe() for planned in plan.tables] == [
        "is corrected",
        "3 partitions are computed anew: 2024-02, 2024-03, 2024-04",
        "is computed anew",
    ]
    full = plan_recovery(session, session.ref("raw.orders@2"), "full")
    assert [row[:4] for row in full.rows()] == [
        ("raw.orders", 2, 3, 3),
        ("core.days", 2, 3, 3),
        ("mart.totals", 2, 3, 3),
    ]
    assert len(full.tables[1].partitions or ()) == 4
    assert {name: session.table(name).ref() for name in session.catalog.tables()} == before


def test_a_plan_says_what_it_leaves_as_it_is_and_which_sources_are_gone(session: Session) -> None:
    """Branches hold the bad rows too; a table in the middle has been dropped since."""
    for name in ("raw", "core", "mart"):
        session.sql(f"CREATE TABLE shop.{name} (id INT PRIMARY KEY NOT ENFORCED, v INT)")
    session.sql("INSERT INTO shop.raw VALUES (1, 1)")
    session.sql("INSERT INTO shop.raw VALUES (2, -2)")
    session.sql("INSERT INTO shop.core SELECT * FROM shop.raw")
    session.table("shop.core").branches.create("trial")
    session.sql("INSERT INTO shop.mart SELECT * FROM shop.core")
    session.table("shop.mart").branches.create("before", snapshot_id=1)
    bad = session.ref("shop.raw@2")
    plan = plan_recovery(session, bad)
    assert {str(ref) for ref in plan.beyond} == {"shop.core$branch_trial@1", "shop.mart$branch_before@1"}
    assert plan.leaves.endswith("stays as it is: shop.core$branch_trial@1, shop.mart$branch_before@1.")
    session.table("shop.mart").branches.delete("before")
    session.catalog.drop_table("shop.core")
    plan = plan_recovery(session, bad)
    assert not plan.beyond and not plan.leaves
    assert [(planned.name, planned.describe()) for planned in plan.tables] == [
        ("shop.raw", "is corrected"),
        ("shop.mart", "is computed anew, but shop.core, which it was made from, is gone"),
    ]


def test_what_is_bad_is_a_version_a_time_or_a_partition(bad_day: Run, session: Session) -> None:
    table = session.table("raw.orders")
    second = table.snapshot(2)
    assert second is not None
    since = datetime.fromtimestamp(second.time_ms / 1000)
    assert bad_snapshot(session, "raw.orders@2") == bad_snapshot(session, "raw.orders", since=since) == table.ref(2)
    assert bad_snapshot(session, "core.days", partition={"day": KEYS[2]}) == session.table("core.days").ref(3)
    assert bad_snapshot(session, "core.days", partition={"day": KEYS[0]}) == session.table("core.days").ref(1)
    plan = plan_recovery(session, bad_snapshot(session, "core.days", partition={"day": KEYS[0]}))
    assert [planned.name for planned in plan.tables] == ["core.days", "mart.totals"]
    with pytest.raises(NotFound, match="has not changed since"):
        bad_snapshot(session, "raw.orders", since=datetime(2100, 1, 1))
    with pytest.raises(NotFound, match="no rows in that partition"):
        bad_snapshot(session, "core.days", partition={"day": "2030-01-01"})
    with pytest.raises(InvalidRequest, match="Say one thing"):
        bad_snapshot(session, "raw.orders@2", since=since)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("mode", ["full", "incremental"])
def test_both_ways_end_with_the_rows_of_a_rebuild_from_scratch(
    bad_day: Run, session: Session, instance: dg.DagsterInstance, mode: str
) -> None:
    main = {name: rows(session.table(name)) for name in CHANGED}
    stale = instance.get_dynamic_partitions("branch")
    assert bad_day(job="recovery_start", config={"bad": "raw.orders@2", "mode": mode, "branch": "fix"}).success
    assert (stale, instance.get_dynamic_partitions("branch")) == ([], ["fix"])
    assert bad_day(job="recovery_correct", config={"branch": "fix", "sql": CORRECTION}).success
    recovery = Recovery(session, "fix")
    assert left_to_do(recovery, table_assets(ASSETS)) == ["core.days", "mart.totals"]
    recompute(bad_day, session, "fix")
    assert left_to_do(recovery, table_assets(ASSETS)) == []
    # Until now main has seen nothing.
    assert {name: rows(session.table(name)) for name in CHANGED} == main
    compared = recovery.compare("mart.totals")
    assert (compared.changed, dict(compared.changed_columns)) == (3, {"total": 3})
    assert bad_day(job="recovery_publish", config={"branch": "fix"}).success
    # To publish again is to do nothing.
    heads = {name: session.table(name).ref() for name in CHANGED}
    assert bad_day(job="recovery_publish", config={"branch": "fix"}).success
    assert {name: session.table(name).ref() for name in CHANGED} == heads
    assert rows(session.table("core.days")) == RIGHT
    assert rows(session.table("mart.totals")) == from_scratch(session)
    assert rows(session.table("raw.orders")) == [(number, day, price / 2) for day, number, price in RIGHT]
    # Dagster was told, with the versions that the rows were made from.
    event = instance.get_latest_materialization_event(dg.AssetKey(["mart", "totals"])).asset_materialization  # type: ignore[union-attr]
    assert event is not None and event.tags is not None
    newest = session.ref("core.days")
    assert event.tags["dagster/input_data_version/core/days"] == newest.data_version
    assert event.metadata["recovery"].value == "fix"
    materializations = instance.fetch_materializations(
        dg.AssetRecordsFilter(dg.AssetKey(["core", "days"]), asset_partitions=[KEYS[2]]), limit=1
    )
    assert materializations.records[0].asset_materialization.metadata["snapshot"].value == newest.snapshot_id  # type: ignore[union-attr]
    assert session.table("core.days").tags.get(KEYS[2]).snapshot.id == newest.snapshot_id
    # And lineage tells the truth: back to the correction, and to the snapshot that it corrected.
    upstream = [str(ref) for ref in session.lineage(session.ref("mart.totals"), "up").snapshots]
    assert "raw.rates@1" in upstream and any(snapshot.startswith("raw.orders") for snapshot in upstream)
    # Production goes on.
    load(bad_day, (5, KEYS[4], 5.0))
    produce(bad_day, KEYS[4], KEYS[4])
    assert rows(session.table("mart.totals"))[-1] == (KEYS[4], 10.0, 1)
    assert bad_day(job="recovery_drop", config={"branch": "fix"}).success
    assert (session.table("core.days").branches.names(), instance.get_dynamic_partitions("branch")) == ([], [])
    assert session.table("core.days").check() == []


def test_a_branch_begins_by_materializing_a_twin_on_it(
    bad_day: Run, session: Session, instance: dg.DagsterInstance
) -> None:
    instance.add_dynamic_partitions("branch", ["try"])
    load(bad_day, (9, KEYS[0], 9.0))
    before = session.ref("raw.orders")
    done = twin(bad_day, "try", KEYS[0], KEYS[0], "core.days")
    load(bad_day, (10, KEYS[0], 10.0))
    assert twin(bad_day, "try", KEYS[0], KEYS[0], "core.days").success
    # What is not branched is read as it was when the branch began.
    assert rows(session.table("core.days$branch_try"))[:2] == [(KEYS[0], 1, 2.0), (KEYS[0], 9, 18.0)]
    assert len(rows(session.table("core.days"))) == 4
    tags = done.asset_materializations_for_node("recovery__core__days")[0].tags
    assert tags is not None
    assert tags["dagster/data_version"] == "try@4"
    assert tags["dagster/input_data_version/recovery/raw/orders"] == before.data_version
    checked = {evaluation.asset_key.path[-1]: evaluation for evaluation in done.get_asset_check_evaluations()}
    assert checked["days"].metadata["rows added"].value == 1
    assert Recovery(session, "try").drop() == ["core.days"]


def test_a_run_over_several_branches_makes_each_on_its_own(
    bad_day: Run, session: Session, instance: dg.DagsterInstance
) -> None:
    instance.add_dynamic_partitions("branch", ["one", "two"])
    Recovery.begin(session, "one").correct("DELETE FROM core.days WHERE id = 1")
    Recovery.begin(session, "two").correct("DELETE FROM core.days WHERE id = 4")
    assert bad_day("recovery.mart.totals", tags=range_tags("one", "two")).success
    days = {name: [row[0] for row in rows(session.table(f"mart.totals$branch_{name}"))] for name in ("one", "two")}
    assert days == {"one": KEYS[1:4], "two": KEYS[:3]}
    for name in days:
        sources = session.lineage(session.ref(f"mart.totals$branch_{name}"), "up", hops=1).snapshots
        assert [str(ref) for ref in sources] == [f"core.days$branch_{name}@4"]
    assert len(rows(session.table("mart.totals"))) == 4


def test_what_production_writes_meanwhile_is_refused_or_replayed_never_lost(bad_day: Run, session: Session) -> None:
    assert bad_day(job="recovery_start", config={"bad": "raw.orders@2", "mode": "incremental", "branch": "fix"}).success
    bad_day(job="recovery_correct", config={"branch": "fix", "sql": CORRECTION})
    recompute(bad_day, session, "fix")
    load(bad_day, (5, KEYS[4], 5.0))
    produce(bad_day, KEYS[4], KEYS[4])
    main = {name: rows(session.table(name)) for name in CHANGED}
    recovery = Recovery(session, "fix")
    with pytest.raises(
        CommitConflict, match=r"on no table: main has moved on .*raw.orders has 4 by raw/orders.*replay\(\)"
    ):
        publish(session, recovery, table_assets(ASSETS))
    assert {name: rows(session.table(name)) for name in CHANGED} == main
    assert sorted(recovery.replay()) == ["core.days", "mart.totals"]
    assert recovery.replay() == []
    recompute(bad_day, session, "fix")
    publish(session, recovery, table_assets(ASSETS))
    assert rows(session.table("core.days")) == [*RIGHT, (KEYS[4], 5, 10.0)]
    assert rows(session.table("mart.totals")) == [*from_scratch(session), (KEYS[4], 10.0, 1)]
    assert [row[0] for row in rows(session.table("raw.orders"))] == [1, 2, 3, 4, 5]


def test_a_main_that_was_replaced_by_a_branch_made_since_is_noticed(bad_day: Run, session: Session) -> None:
    assert bad_day(job="recovery_start", config={"bad": "raw.orders@2", "mode": "incremental", "branch": "fix"}).success
    bad_day(job="recovery_correct", config={"branch": "fix", "sql": CORRECTION})
    recompute(bad_day, session, "fix")
    orders = session.table("raw.orders")
    orders.branches.create("since", snapshot_id=1)
    for number in range(2):
        orders.on_branch("since").write(orders.to_arrow().slice(number, 1))
    orders.branches.replace_main("since", discard_main=True)
    main = {name: rows(session.table(name)) for name in CHANGED}
    recovery = Recovery(session, "fix")
    with pytest.raises(CommitConflict, match=r"raw.orders was replaced, or made anew, since .* its snapshot 3"):
        publish(session, recovery, table_assets(ASSETS))
    assert {name: rows(session.table(name)) for name in CHANGED} == main
    # Nor can what main has now be given up: what the branch says was computed for another one. Nothing is left open.
    with pytest.raises(CommitConflict, match=r"raw.orders was replaced, or made anew"):
        publish(session, recovery, table_assets(ASSETS), discard_main=True)
    assert session.catalog.publications() == []
    assert {name: rows(session.table(name)) for name in CHANGED} == main


def test_a_source_can_be_taken_back_instead_of_being_corrected(bad_day: Run, session: Session) -> None:
    bad_day(job="recovery_start", config={"bad": "raw.orders@2", "mode": "full", "branch": "fix"})
    assert bad_day(job="recovery_correct", config={"branch": "fix", "undo_bad": True}).success
    recompute(bad_day, session, "fix")
    assert bad_day(job="recovery_publish", config={"branch": "fix"}).success
    assert rows(session.table("raw.orders")) == [(1, KEYS[0], 1.0), (2, KEYS[1], 2.0)]
    assert rows(session.table("core.days")) == RIGHT[:2]


def test_stages_can_be_repeated_and_wrong_ones_are_explained(bad_day: Run, session: Session) -> None:
    plan = plan_recovery(session, session.ref("raw.orders@2"))
    Recovery.start(session, "fix", plan)
    Recovery.start(session, "fix", plan)
    session.table("mart.totals").branches.delete("fix")
    # A start that died half-way is started again.
    assert Recovery.start(session, "fix", plan).changed() == ["raw.orders", "core.days", "mart.totals"]
    other = plan_recovery(session, session.ref("raw.orders@3"))
    with pytest.raises(AlreadyExists, match="Recovery 'fix' exists"):
        Recovery.start(session, "fix", other)
    with pytest.raises(NotFound, match="There are: fix"):
        Recovery(session, "none").drop()
    assert session.table("raw.orders").to_arrow().num_rows == 4
    session.table("raw.orders").write(pa.table({"id": [7], "day": [KEYS[0]], "price": [1.0]}))
    assert Recovery(session, "fix").moved()["raw.orders"][0].startswith("4 by ")


def test_partitions_of_more_columns_than_dagster_knows_are_computed_anew_once(
    session: Session, instance: dg.DagsterInstance
) -> None:
    """A table partitioned by day and shop of which Dagster knows the days, and one of which it knows no partitions."""

    @table_asset("raw.sales", primary_key=["id"])
    def sales() -> pa.Table:
        return pa.table({"id": [1, 2, 3], "day": ["a", "a", "b"], "shop": ["x", "y", "x"]})

    @table_asset(
        "core.sales",
        inputs={"sales": "raw.sales"},
        primary_key=["day", "shop", "id"],
        partition_by=["day", "shop"],
        partitions_def=dg.StaticPartitionsDefinition(["a", "b"]),
        partition_column="day",
    )
    def by_day(context: dg.AssetExecutionContext, sales: pa.Table) -> pa.Table:
        return sales.filter(pc.is_in(sales["day"], pa.array(context.partition_keys)))

    @table_asset("mart.sales", inputs={"sales": "core.sales"}, primary_key=["shop", "id"], partition_by=["shop"])
    def by_shop(sales: pa.Table) -> pa.Table:
        return sales.select(["id", "shop"])

    assets = [sales, by_day, by_shop]
    spark = SparkResource()
    defs = dg.Definitions.merge(
        dg.Definitions(assets=assets, resources={"tables": TablesResource(spark=spark), "spark": spark}),
        recovery_definitions(assets),
    )
    job = defs.resolve_implicit_global_asset_job_def()
    for asset, tags in ((sales, {}), (by_day, range_tags("a", "b")), (by_shop, {})):
        assert job.execute_in_process(instance=instance, asset_selection=[asset.key], tags=tags).success
    recovery = Recovery.start(session, "fix", plan_recovery(session, session.ref("raw.sales@1")))
    known = table_assets(assets)
    assert recovery.record.tables["core.sales"].partitions is not None
    assert left_to_do(recovery, known) == ["core.sales", "mart.sales"]
    said: list[str] = []
    recovery.correct("DELETE FROM raw.sales WHERE id = 3")
    assert backfill(recovery, defs, known, instance, said.append) == 2
    assert said == ["core.sales a to b", "mart.sales"]
    assert left_to_do(recovery, known) == []
    assert backfill(recovery, defs, known, instance, said.append) == 0
    assert sorted(recovery.table("mart.sales").to_arrow()["id"].to_pylist()) == [1, 2]
