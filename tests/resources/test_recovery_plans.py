"""A plan shows what is spoilt now; lineage names main's bad snapshot as what it was; the UI is told what is right already."""

import dagster as dg
import pytest

from resources import Session
from resources.recovery import Recovery, plan_recovery
from resources.recovery.backfill import BackfillFailed
from resources.recovery.left_to_do import left_to_do
from resources.recovery.progress import recoveries
from resources.recovery.publish import publish
from resources.recovery.report import report_branch
from resources.recovery.spoilt import Spoilt
from resources.recovery.twins import BRANCHES
from storage import InvalidRequest
from tests.resources import quick_shop
from tests.resources.quick_shop import CHECKS, KEYS
from tests.resources.test_recovery_refusals import GOOD, KNOWN, MENDED, Shop, shop

pytestmark = pytest.mark.dagster
__all__ = ["shop"]


def test_a_plan_shows_what_is_spoilt_now_what_was_repaired_and_what_production_made_good(
    shop: Shop, session: Session
) -> None:
    bad = session.ref("raw.orders@2")
    recovery = shop.start("fix", "raw.orders@2")
    recovery.correct(MENDED)
    # Meanwhile the weather goes wrong too, and production makes a mart of it, which the recovery replaces.
    session.sql("UPDATE raw.weather SET rain = 9.0", "duckdb")
    assert shop.make("mart.rainy").success
    assert [planned.name for planned in plan_recovery(session, session.ref("raw.weather@2")).tables] == [
        "raw.weather",
        "mart.rainy",
    ]
    shop.backfill("fix")
    assert [progress.state for progress in recoveries(session, KNOWN)] == ["to be published"]
    publish(session, recovery, KNOWN, discard_main=True)
    recovery.drop()

    plan = plan_recovery(session, bad, "incremental")
    assert plan.tables == ()
    assert {row[0]: row[4] for row in plan.rows()} == dict.fromkeys(
        ("raw.orders", "core.days", "mart.rainy", "mart.totals"), "stays: repaired by recovery fix"
    )
    with pytest.raises(InvalidRequest, match=r"Nothing comes from raw.orders@2 now: .*repaired by recovery fix"):
        Recovery.start(session, "again", plan)
    # The mart comes from the weather of before: it neither is spoilt, nor is it taken behind its good state.
    other = plan_recovery(session, session.ref("raw.weather@2"), "incremental")
    assert [planned.name for planned in other.tables] == ["raw.weather"]
    assert [(good_table.name, good_table.head, good_table.repaired_by) for good_table in other.good] == [
        ("mart.rainy", 4, "")
    ]

    # Made from bad rows again it is planned again, from its newest good state.
    assert shop.make("mart.rainy").success
    again = plan_recovery(session, session.ref("raw.weather@2"), "incremental")
    assert [row[:4] for row in again.rows()] == [("raw.weather", 2, 2, 2), ("mart.rainy", 5, 5, 4)]


def test_what_a_rollback_has_taken_back_is_spoilt_no_more(shop: Shop, session: Session) -> None:
    session.table("raw.orders").rollback_to(1)
    plan = plan_recovery(session, session.ref("raw.orders@2"), "incremental")
    assert [planned.name for planned in plan.tables] == ["core.days", "mart.rainy", "mart.totals"]
    assert [(good_table.name, good_table.describe()) for good_table in plan.good] == [
        ("raw.orders", "stays: taken back by @3")
    ]
    Recovery.start(session, "fix", plan)
    assert shop.backfill("fix") == 3
    publish(session, Recovery.open(session, "fix"), KNOWN)
    assert shop.rows("mart.totals") == GOOD
    assert plan_recovery(session, session.ref("raw.orders@2")).tables == ()


def test_lineage_of_a_correction_names_the_bad_snapshot_of_main(shop: Shop, session: Session) -> None:
    recovery = shop.start("fix", "raw.orders@2")
    recovery.correct(MENDED)
    corrected = session.ref("raw.orders$branch_fix")
    up = session.lineage(corrected, "up")
    assert [str(ref) for ref in up.next_to(corrected)] == ["raw.orders@2"]
    assert "raw.orders$branch_fix@2" not in map(str, up.snapshots)
    # Down from main's bad snapshot as well, and when the branch is gone.
    recovery.drop()
    down = session.lineage(session.ref("raw.orders@2"), "down", 1)
    assert "raw.orders$branch_fix@3" in map(str, down.snapshots)
    assert [str(ref) for ref in session.lineage(corrected, "up", 1).snapshots] == ["raw.orders@2"]


def _partitions(instance: dg.DagsterInstance, name: str) -> set[str]:
    return instance.get_materialized_partitions(dg.AssetKey(["recovery", *name.split(".")]))


def test_twins_of_what_is_right_already_are_not_missing_and_overwrite_no_correction(
    shop: Shop, session: Session, instance: dg.DagsterInstance
) -> None:
    assert shop.job("recovery_start", bad="raw.orders@2", mode="incremental", branch="fix").success
    # The good months, and an input that is read as main has it; not the source, which is still bad.
    assert _partitions(instance, "core.days") == {f"fix|{key}" for key in KEYS[:2]}
    assert (_partitions(instance, "raw.weather"), _partitions(instance, "raw.orders")) == ({"fix"}, set())
    assert shop.job("recovery_correct", branch="fix", sql=MENDED).success
    assert _partitions(instance, "raw.orders") == {"fix"}
    (record,) = instance.fetch_materializations(dg.AssetKey(["recovery", "raw", "orders"]), limit=1).records
    event = record.asset_materialization
    assert event is not None and event.tags is not None
    assert event.tags["dagster/data_version"] == "fix@3"
    # Told again, it is no news.
    assert (
        report_branch(session, Recovery.open(session, "fix"), KNOWN, instance, instance.report_runless_asset_event) == 0
    )
    before = shop.rows("raw.orders$branch_fix")
    refused = shop.make("recovery.raw.orders", partition_key="fix", raise_on_error=False)
    assert not refused.success
    (failure,) = [
        step_event.step_failure_data.user_failure_data
        for step_event in refused.all_events
        if step_event.is_step_failure
    ]
    assert failure is not None and "raw.orders has been corrected on branch 'fix'" in str(failure.description)
    assert shop.rows("raw.orders$branch_fix") == before
    given = {"ops": {"recovery__raw__orders": {"config": {"overwrite_correction": True}}}}
    assert shop.make("recovery.raw.orders", partition_key="fix", run_config=given).success
    assert [row[2] for row in shop.rows("raw.orders$branch_fix")] == [1.0, 2.0, 3.0, 4.0]
    run = instance.get_run_by_id(refused.run_id)
    assert run is not None and run.tags["snapline/recovery"] == "fix"


def test_checks_of_main_run_on_the_twins_and_blocking_ones_gate_the_publication(
    shop: Shop, session: Session, instance: dg.DagsterInstance
) -> None:
    recovery = shop.start("fix", "raw.orders@2")
    recovery.correct("UPDATE raw.orders SET price = 5000 WHERE id = 4")
    instance.add_dynamic_partitions("branch", ["fix"])
    tags = {
        "dagster/asset_partition_range_start": f"fix|{KEYS[2]}",
        "dagster/asset_partition_range_end": f"fix|{KEYS[3]}",
    }
    done = shop.make("recovery.core.days", tags=tags, raise_on_error=False)
    seen = {
        check_evaluation.check_name: check_evaluation.passed for check_evaluation in done.get_asset_check_evaluations()
    }
    assert (seen["prices_are_small"], seen["prices_are_known"]) == (False, True)
    assert not done.success
    recovery.correct("UPDATE raw.orders SET price = 6000 WHERE id = 4")
    with pytest.raises(
        BackfillFailed, match=r"^Run [^\n]* of core.days failed: [^\n]*prices_are_small[^\n]*$"
    ) as failed:
        shop.backfill("fix")
    assert "File" not in str(failed.value)
    assert shop.backfill("fix") == 2
    assert left_to_do(recovery, KNOWN) == []
    before = session.ref("core.days")
    said = shop.refusal("recovery_publish", branch="fix")
    assert "prices_are_small of core.days finds 1 rows" in said and "allow_failed_checks: true" in said
    with pytest.raises(InvalidRequest, match="allow_failed_checks=True"):
        publish(session, recovery, KNOWN, checks=CHECKS)
    assert session.ref("core.days") == before
    assert shop.job("recovery_publish", branch="fix", allow_failed_checks=True).success
    assert recovery.record.overrides == ["published though check prices_are_small of core.days finds 1 rows"]
    # Main's own checks are told of what was published.
    key = dg.AssetCheckKey(dg.AssetKey(["core", "days"]), "prices_are_small")
    (latest,) = instance.event_log_storage.get_asset_check_execution_history(key, limit=1)
    evaluation = latest.event.dagster_event.asset_check_evaluation_data  # type: ignore[union-attr]
    assert not evaluation.passed and evaluation.metadata["read_at"].value == "core.days@3"


def test_a_job_computes_what_is_left_and_the_list_tells_how_far_each_has_come(
    shop: Shop, session: Session, instance: dg.DagsterInstance
) -> None:
    assert shop.job("recovery_start", bad="raw.orders@2", mode="incremental", branch="fix").success
    (progress,) = recoveries(session, KNOWN)
    assert (progress.state, progress.left[0]) == ("to be corrected", "raw.orders")
    assert shop.job("recovery_correct", branch="fix", sql=MENDED).success
    (progress,) = recoveries(session, KNOWN)
    assert (progress.state, progress.left) == ("0 of 3 computed anew", ("core.days", "mart.rainy", "mart.totals"))
    done = shop.job("recovery_backfill", branch="fix")
    assert done.success
    tagged = instance.get_runs(dg.RunsFilter(tags={"snapline/recovery": "fix"}))
    # Start, correct, backfill, and a run for each of the three tables.
    assert len(tagged) == 6
    assert shop.job("recovery_list").success
    assert shop.job("recovery_publish", branch="fix").success
    assert [progress.state for progress in recoveries(session, KNOWN)] == ["published"]
    assert shop.rows("mart.totals") == GOOD
    said = shop.refusal("recovery_correct", branch="fix")
    assert "by sql or by undo_bad: true" in said
    assert "is no date and time" in shop.refusal("recovery_plan", bad="raw.orders", since="yesterday")


def test_every_field_of_a_job_is_described() -> None:
    for name in ("plan", "start", "correct", "backfill", "compare", "publish", "drop"):
        job = quick_shop.defs.resolve_job_def(f"recovery_{name}")
        (op,) = job.graph.node_defs
        fields = op.config_schema.config_type.fields  # type: ignore[attr-defined]
        assert fields and all(field.description for field in fields.values()), name
    groups = {
        spec.key.path[1]: spec.group_name
        for spec in quick_shop.defs.resolve_all_asset_specs()
        if spec.key.path[0] == "recovery"
    }
    assert groups == {"raw": "recovery_raw", "core": "recovery_core", "mart": "recovery_mart"}


def test_what_was_made_from_a_table_that_was_renamed_or_dropped_since_is_spoilt(session: Session) -> None:
    for name in ("raw.a", "raw.b"):
        session.sql(
            f"CREATE TABLE {name} (id BIGINT); INSERT INTO {name} VALUES (1); INSERT INTO {name} VALUES (2)", "duckdb"
        )
        session.sql(f"CREATE TABLE core.{name[-1]} AS SELECT * FROM {name}", "duckdb")
    session.catalog.rename_table("raw.a", "raw.z")
    session.catalog.drop_table("raw.b")
    session = Session()
    plan = plan_recovery(session, session.ref("raw.z@2"))
    assert ([planned.name for planned in plan.tables], plan.good) == (["raw.z", "core.a"], ())
    plan = plan_recovery(session, session.known_ref("raw.b@2"))
    assert ([planned.name for planned in plan.tables], plan.good) == (["core.b"], ())


def test_what_was_made_from_a_dropped_table_is_repaired_by_hand_and_published(session: Session) -> None:
    session.sql(
        "CREATE TABLE raw.a (id BIGINT); INSERT INTO raw.a VALUES (1); CREATE TABLE core.b AS SELECT * FROM raw.a",
        "duckdb",
    )
    session.sql("INSERT INTO raw.a VALUES (666); INSERT OVERWRITE core.b SELECT * FROM raw.a", "duckdb")
    session.sql("CREATE TABLE mart.c AS SELECT sum(id) AS s FROM core.b", "duckdb")
    session.catalog.drop_table("raw.a")
    session = Session()
    bad = session.known_ref("raw.a@2")
    recovery = Recovery.start(session, "fix", plan_recovery(session, bad))
    recovery.correct("DELETE FROM core.b WHERE id = 666; INSERT OVERWRITE mart.c SELECT sum(id) AS s FROM core.b")
    publish(session, recovery, KNOWN)
    assert session.sql("SELECT * FROM mart.c", "duckdb").to_arrow().to_pylist() == [{"s": 1}]
    after = plan_recovery(Session(), bad)
    assert ([good_table.name for good_table in after.good], after.tables) == (["core.b", "mart.c"], ())
    assert {good_table.repaired_by for good_table in after.good} == {"fix"}


def test_a_branch_is_spoilt_until_all_of_it_is_corrected_or_computed_anew(shop: Shop, session: Session) -> None:
    recovery = shop.start("fix", "raw.orders@2", "full")
    shop.instance.add_dynamic_partitions(BRANCHES.name or "", ["fix"])
    bad = session.ref("raw.orders@2")

    def are_spoilt() -> tuple[bool, ...]:
        heads = [session.table(name).on_branch("fix").last_change() for name in ("core.days", "mart.totals")]
        judge = Spoilt(session, bad)
        return tuple(judge.is_spoilt(head) for head in heads if head is not None)

    assert are_spoilt() == (True, True)
    recovery.correct(MENDED)
    for key in KEYS:
        assert are_spoilt() == (True, True)
        twin = dg.MultiPartitionKey({"branch": "fix", "partition": key})
        assert shop.make("recovery.core.days", partition_key=twin).success
    assert are_spoilt() == (False, True)
    assert shop.make("recovery.mart.totals", partition_key="fix").success
    assert are_spoilt() == (False, False)
