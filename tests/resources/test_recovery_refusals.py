"""A recovery cannot make things worse: what is refused, what is asked for anew, and what is said of it."""

from collections.abc import Callable
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest

from resources import Session
from resources.assets.table_asset import table_assets
from resources.recovery import Recovery, plan_recovery, stages
from resources.recovery.backfill import backfill
from resources.recovery.left_to_do import left_to_do
from resources.recovery.publish import publish
from storage import CommitConflict, InvalidRequest, NotFound, Table
from tests.resources import quick_shop
from tests.resources.quick_shop import ASSETS, KEYS
from tests.resources.shop import rows
from tests.resources.test_table_asset import range_tags

pytestmark = pytest.mark.dagster
KNOWN = table_assets(ASSETS)
BAD = "UPDATE raw.orders SET price = price * 100 WHERE id >= 3"
MENDED = "UPDATE raw.orders SET price = price / 100 WHERE price >= 100"


class Shop:
    """The small platform: runs its assets and jobs, and its SQL."""

    def __init__(self, session: Session, instance: dg.DagsterInstance) -> None:
        self.session, self.instance = session, instance
        self._job = quick_shop.defs.resolve_implicit_global_asset_job_def()

    def make(self, name: str, **arguments: Any) -> dg.ExecuteInProcessResult:
        return self._job.execute_in_process(
            instance=self.instance, asset_selection=[dg.AssetKey(name.split("."))], **arguments
        )

    def job(self, name: str, **config: Any) -> dg.ExecuteInProcessResult:
        job = quick_shop.defs.resolve_job_def(name)
        (op,) = job.graph.node_dict
        return job.execute_in_process(
            instance=self.instance, run_config={"ops": {op: {"config": config}}} if config else {}, raise_on_error=False
        )

    def refusal(self, name: str, **config: Any) -> str:
        """What a job that fails says, in one line, and no trace of Python with it."""
        done = self.job(name, **config)
        assert not done.success
        (failure,) = [event.step_failure_data for event in done.all_events if event.is_step_failure]
        assert failure.user_failure_data is not None
        said = failure.user_failure_data.description
        assert said is not None and "\n" not in said
        assert failure.error is not None and (failure.error.message, failure.error.stack) == (said, [])
        return said

    def produce(self, first: str = KEYS[0], last: str = KEYS[-1]) -> None:
        assert self.make("core.days", tags=range_tags(first, last)).success
        for name in ("mart.rainy", "mart.totals"):
            assert self.make(name).success

    def backfill(self, branch: str) -> int:
        recovery = Recovery.open(self.session, branch)
        return backfill(recovery, quick_shop.defs, KNOWN, self.instance, lambda _: None)

    def rows(self, name: str) -> list[tuple[object, ...]]:
        return rows(self.session.table(name))

    def start(self, branch: str, bad: str, mode: Any = "incremental") -> Recovery:
        return Recovery.start(self.session, branch, plan_recovery(self.session, self.session.ref(bad), mode))


@pytest.fixture
def shop(session: Session, instance: dg.DagsterInstance) -> Shop:
    """Four good days, then prices in the wrong currency from the third day on."""
    shop = Shop(session, instance)
    for name in ("raw.orders", "raw.weather"):
        assert shop.make(name).success
    shop.produce()
    session.sql(BAD, "duckdb")
    shop.produce(KEYS[2])
    return shop


GOOD = [(KEYS[0], 1.0), (KEYS[1], 2.0), (KEYS[2], 3.0), (KEYS[3], 4.0)]
SPOILT = [(KEYS[0], 1.0), (KEYS[1], 2.0), (KEYS[2], 300.0), (KEYS[3], 400.0)]

JOBS: dict[str, dict[str, Any]] = {
    "recovery_correct": {"sql": MENDED},
    "recovery_backfill": {},
    "recovery_compare": {},
    "recovery_publish": {},
    "recovery_drop": {},
}


def test_a_misspelt_branch_is_refused_everywhere_and_begins_nothing(shop: Shop, session: Session) -> None:
    assert shop.job("recovery_start", bad="raw.orders@2", mode="incremental", branch="fix-hours").success
    said = "There is no recovery 'fix-hour'. There are: fix-hours."
    for name, config in JOBS.items():
        assert said in shop.refusal(name, branch="fix-hour", **config)
    assert said in shop.refusal("recovery_correct", branch="fix-hour", undo_bad=True)
    steps: list[Callable[[], object]] = [
        lambda: Recovery.open(session, "fix-hour"),
        lambda: Recovery(session, "fix-hour").correct(MENDED),
        lambda: Recovery(session, "fix-hour").undo_bad(),
        lambda: Recovery(session, "fix-hour").table("raw.weather"),
        lambda: Recovery(session, "fix-hour").branched("raw.weather"),
        lambda: Recovery(session, "fix-hour").compare("raw.orders"),
        lambda: Recovery(session, "fix-hour").replay(),
        lambda: Recovery(session, "fix-hour").drop(),
        lambda: publish(session, Recovery(session, "fix-hour"), KNOWN),
    ]
    for step in steps:
        with pytest.raises(NotFound, match=said):
            step()
    # Nor does a twin begin one that nobody has added, whoever launches it.
    done = shop.make("recovery.mart.totals", tags={"dagster/partition": "fix-hour"}, raise_on_error=False)
    assert not done.success
    assert session.table("raw.orders").branches.names() == ["fix-hours"]
    assert session.table("raw.weather").branches.names() == []


def test_a_table_that_others_outside_of_the_plan_are_made_from_is_not_corrected(shop: Shop, session: Session) -> None:
    session.sql("CREATE TABLE mart.sky AS SELECT * FROM raw.weather", "duckdb")
    recovery = shop.start("fix", "raw.orders@2")
    before = recovery.record
    with pytest.raises(InvalidRequest, match=r"raw.weather is no table of recovery 'fix', and mart.sky, made from it"):
        recovery.correct("DELETE FROM raw.weather")
    assert recovery.record == before
    assert session.table("raw.weather").branches.names() == []


def test_nothing_is_published_that_is_left_to_compute_unless_that_is_recorded(shop: Shop, session: Session) -> None:
    recovery = shop.start("fix", "raw.orders@2")
    before = {name: session.ref(name) for name in KNOWN}
    with pytest.raises(
        InvalidRequest, match=r"on no table: not corrected: raw.orders; not computed anew: core.days, mart"
    ):
        publish(session, recovery, KNOWN)
    recovery.correct(MENDED)
    said = shop.refusal("recovery_publish", branch="fix")
    assert "not computed anew: core.days, mart.rainy, mart.totals" in said
    assert "the job recovery_backfill" in said and "allow_incomplete: true" in said and "--" not in said
    # What has main's newer partitions in its plan, and made none of them, would take main back behind them.
    with pytest.raises(
        CommitConflict, match=r"core.days \(2024-03, 2024-04\) would go back to snapshot 1, behind 2 by"
    ):
        publish(session, recovery, KNOWN, allow_incomplete=True)
    assert {name: session.ref(name) for name in KNOWN} == before
    assert shop.backfill("fix") == 3
    assert recovery.record.overrides == []
    publish(session, recovery, KNOWN)
    assert shop.rows("mart.totals") == GOOD
    heads = {name: session.ref(name) for name in KNOWN}
    publish(session, recovery, KNOWN)
    assert {name: session.ref(name) for name in KNOWN} == heads


def test_an_override_is_recorded_and_shown(shop: Shop, session: Session) -> None:
    recovery = shop.start("fix", "raw.orders@2", "full")
    recovery.correct(MENDED)
    done = shop.job("recovery_publish", branch="fix", allow_incomplete=True)
    assert done.success
    said = ["published though not computed anew: core.days, mart.rainy, mart.totals"]
    assert recovery.record.overrides == said
    assert shop.rows("mart.totals") == SPOILT and shop.rows("raw.orders")[3][2] == 4.0


def test_what_main_gave_up_for_a_publication_is_recorded(shop: Shop, session: Session) -> None:
    recovery = shop.start("fix", "raw.orders@2")
    session.table("raw.orders").write(session.table("raw.orders").to_arrow().slice(0, 1))
    (kept,) = (snapshot for snapshot in session.table("raw.orders").history().snapshots if snapshot.id == 3)
    with pytest.raises(CommitConflict, match="on no table"):
        publish(session, recovery, KNOWN, allow_incomplete=True)
    for _ in range(2):
        publish(session, recovery, KNOWN, allow_incomplete=True, discard_main=True)
        said = recovery.record.overrides
        assert said[-1] == f"published though main of raw.orders had 3 by {kept.commit_user}, which was given up"
        assert any(
            override.startswith("published though core.days (2024-03, 2024-04) went back to snapshot 1, behind 2 by")
            for override in said
        )
        assert len(said) == len(set(said)) == 6


def test_inputs_outside_of_the_branch_are_moved_by_a_replay_and_what_read_them_is_computed_anew(
    shop: Shop, session: Session
) -> None:
    recovery = shop.start("fix", "raw.orders@2")
    recovery.correct(MENDED)
    shop.backfill("fix")
    session.sql("UPDATE raw.weather SET rain = 9.0", "duckdb")
    assert shop.make("mart.rainy").success
    assert left_to_do(recovery, KNOWN) == []
    assert "mart.rainy has 3 by mart/rainy" in shop.refusal("recovery_publish", branch="fix")
    said = shop.refusal("recovery_publish", branch="fix", replay=True)
    assert "not computed anew: mart.rainy" in said and "mart.totals" not in said
    assert left_to_do(recovery, KNOWN) == ["mart.rainy"]
    assert shop.backfill("fix") == 1
    assert shop.job("recovery_publish", branch="fix").success
    # Production's newer weather, and the right prices.
    assert shop.rows("mart.rainy") == [(day, price, 9.0) for day, price in GOOD]


def test_what_is_corrected_twice_is_computed_twice(shop: Shop, session: Session) -> None:
    recovery = shop.start("fix", "raw.orders@2")
    recovery.correct(MENDED)
    shop.backfill("fix")
    recovery.correct("UPDATE raw.orders SET price = price + 1 WHERE id = 4")
    assert left_to_do(recovery, KNOWN) == ["core.days", "mart.rainy", "mart.totals"]
    assert shop.backfill("fix") == 3
    assert left_to_do(recovery, KNOWN) == []


def test_a_name_that_lineage_cannot_keep_begins_nothing(shop: Shop, session: Session) -> None:
    shop.produce()
    with pytest.raises(InvalidRequest, match="191 characters"):
        shop.start("x" * 191, "raw.orders@1")
    assert session.table("raw.orders").branches.names() == []
    assert shop.start("x" * 190, "raw.orders@1").branch == "x" * 190
    assert session.lineage(session.ref("raw.orders@1"), "down").snapshots


KEYED = ", PRIMARY KEY (k) NOT ENFORCED"
MENDED_ROW = "UPDATE db.src SET v = 20 WHERE k = 2"


def _recovery_of_a_table(session: Session, key: str, options: str = "", correction: str = MENDED_ROW) -> Recovery:
    given = f" WITH ({options})" if options else ""
    session.sql(f"CREATE DATABASE db; CREATE TABLE db.src (k INT, v INT{key}){given}", "duckdb")
    session.sql("INSERT INTO db.src VALUES (1, 10); INSERT INTO db.src VALUES (2, 666)", "duckdb")
    bad = next(snapshot for snapshot in session.table("db.src").snapshots.backwards() if snapshot.changes_rows)
    recovery = Recovery.start(session, "fix", plan_recovery(session, session.ref(f"db.src@{bad.id}")))
    recovery.correct(correction)
    return recovery


@pytest.mark.parametrize("key", [KEYED, ""], ids=["key", "no key"])
def test_a_replay_that_died_before_it_was_remembered_brings_nothing_twice(
    session: Session, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    recovery = _recovery_of_a_table(session, key)
    session.sql("INSERT INTO db.src VALUES (3, 30)", "duckdb")

    class Died(Exception):
        pass

    def dies(*_: object) -> None:
        raise Died

    remembers = stages.change_record
    with monkeypatch.context() as dying, pytest.raises(Died):
        calls: list[object] = []

        def dies_later(*given: Any) -> Any:
            calls.append(given)
            return dies() if len(calls) > 1 else remembers(*given)

        dying.setattr(stages, "change_record", dies_later)
        recovery.replay()
    session.sql("INSERT INTO db.src VALUES (4, 40)", "duckdb")
    Recovery.open(session, "fix").replay()
    mended = [(1, 10), (2, 20), (3, 30), (4, 40)]
    assert rows(session.table("db.src").on_branch("fix")) == mended
    publish(session, Recovery.open(session, "fix"), {})
    assert rows(session.table("db.src")) == mended


@pytest.mark.parametrize("key", [KEYED, ""], ids=["key", "no key"])
def test_two_replays_at_once_bring_nothing_twice(
    session: Session, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    recovery = _recovery_of_a_table(session, key)
    session.sql("INSERT INTO db.src VALUES (3, 30)", "duckdb")
    read = Table.changes

    def overtaken(*given: Any, **named: Any) -> pa.Table:
        changes = read(*given, **named)
        monkeypatch.setattr(Table, "changes", read)
        session.sql("INSERT INTO db.src VALUES (4, 40)", "duckdb")
        Recovery.open(session, "fix").replay()
        return changes

    monkeypatch.setattr(Table, "changes", overtaken)
    with pytest.raises(CommitConflict, match="Another replay"):
        recovery.replay()
    recovery.replay()
    assert rows(session.table("db.src").on_branch("fix")) == [(1, 10), (2, 20), (3, 30), (4, 40)]


@pytest.mark.parametrize(
    ("key", "options", "production"),
    [
        ("", "", "INSERT INTO db.src /*+ OPTIONS('change-tracking'='false') */ VALUES (3, 30)"),
        (
            "",
            "'streaming-read-overwrite'='false'",
            "INSERT OVERWRITE db.src SELECT * FROM db.src UNION ALL SELECT 3, 30",
        ),
        (KEYED, "'changelog-producer'='lookup'", "INSERT INTO db.src VALUES (3, 30)"),
        (KEYED, "'changelog-producer'='lookup', 'write-only'='true'", "INSERT INTO db.src VALUES (3, 30)"),
        (KEYED, "'changelog-producer'='full-compaction'", "INSERT INTO db.src VALUES (3, 30)"),
        (KEYED, "'changelog-producer'='input'", "INSERT INTO db.src VALUES (3, 30)"),
        (KEYED, "'deletion-vectors.enabled'='true'", "INSERT INTO db.src VALUES (3, 30)"),
        (KEYED, "'merge-engine'='partial-update', 'changelog-producer'='lookup'", "INSERT INTO db.src VALUES (3, 30)"),
        (
            KEYED,
            "'changelog-producer'='lookup'",
            "DELETE FROM db.src WHERE k = 1; INSERT INTO db.src VALUES (1, 10), (3, 30)",
        ),
    ],
)
def test_a_replay_brings_all_that_production_has_done(
    session: Session, key: str, options: str, production: str
) -> None:
    mended = "INSERT INTO db.src VALUES (2, 20)" if "partial-update" in options else MENDED_ROW
    recovery = _recovery_of_a_table(session, key, options, mended)
    session.sql(production, "duckdb")
    recovery.replay()
    publish(session, Recovery.open(session, "fix"), {})
    assert rows(session.table("db.src")) == [(1, 10), (2, 20), (3, 30)]
    assert session.table("db.src").check(deep=True) == []


@pytest.mark.parametrize(
    ("options", "production"),
    [
        (
            "'merge-engine'='aggregation', 'fields.v.aggregate-function'='sum', 'changelog-producer'='lookup'",
            "INSERT INTO db.src VALUES (3, 30)",
        ),
        ("'ignore-delete'='true'", "INSERT OVERWRITE db.src VALUES (3, 30)"),
    ],
)
def test_what_cannot_be_replayed_is_refused(session: Session, options: str, production: str) -> None:
    recovery = _recovery_of_a_table(session, KEYED, options, "INSERT INTO db.src VALUES (2, -646)")
    before = rows(session.table("db.src").on_branch("fix"))
    session.sql(production, "duckdb")
    with pytest.raises(InvalidRequest, match=r"cannot be written to a branch.*--discard-main"):
        recovery.replay()
    assert rows(session.table("db.src").on_branch("fix")) == before


@pytest.mark.parametrize(
    "options", ["'changelog-producer'='none'", "'deletion-vectors.enabled'='true', 'write-only'='true'"]
)
@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE db.src SET w = 'main' WHERE k = 2",
        "MERGE INTO db.src t USING (SELECT 2 AS k) s ON t.k = s.k WHEN MATCHED THEN UPDATE SET w = 'main'",
    ],
)
def test_rows_that_production_computed_from_the_bad_ones_are_not_replayed(
    session: Session, options: str, statement: str
) -> None:
    session.sql(
        f"CREATE DATABASE db; CREATE TABLE db.src (k INT {KEYED}, v INT, w STRING) WITH ('bucket'='1', {options}); "
        "INSERT INTO db.src VALUES (1, 10, 'a'), (2, 20, 'a'); UPDATE db.src SET v = v * 10 WHERE k = 2",
        "duckdb",
    )
    recovery = Recovery.start(session, "fix", plan_recovery(session, session.ref("db.src@2")))
    recovery.correct("UPDATE db.src SET v = 20 WHERE k = 2")
    session.sql("UPDATE db.src SET w = 'sound' WHERE k = 1", "duckdb")
    recovery.replay()
    corrected = [(1, 10, "sound"), (2, 20, "a")]
    assert rows(session.table("db.src").on_branch("fix").after_commit()) == corrected
    session.sql(statement, "duckdb")
    with pytest.raises(InvalidRequest, match=r"computed 1 rows .* corrected \(the first: k = 2\).*--discard-main"):
        Recovery.open(session, "fix").replay()
    assert rows(session.table("db.src").on_branch("fix").after_commit()) == corrected


def test_a_start_that_died_is_gone_on_with_as_it_was_planned(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    session.sql("CREATE DATABASE db; CREATE TABLE db.src (k INT, v INT); CREATE TABLE db.log (k INT, v INT)", "duckdb")
    for number, value in ((1, 10), (2, 666)):
        session.sql(f"INSERT INTO db.src VALUES ({number}, {value})", "duckdb")
        session.sql(f"INSERT INTO db.log SELECT k, v FROM db.src WHERE k = {number}", "duckdb")
    plan = plan_recovery(session, session.ref("db.src@2"), "incremental")
    assert [(planned.name, planned.branch_at) for planned in plan.tables] == [("db.src", 2), ("db.log", 1)]

    class Died(Exception):
        pass

    def dies(*_: object) -> None:
        raise Died

    with monkeypatch.context() as dying, pytest.raises(Died):
        dying.setattr(Recovery, "_create_branches", dies)
        Recovery.start(session, "fix", plan)
    recovery = Recovery.open(session, "fix")
    assert rows(recovery.table("db.log")) == [(1, 10)]
    recovery.correct("UPDATE db.src SET v = 20 WHERE k = 2")
    recovery.correct("INSERT INTO db.log SELECT k, v FROM db.src WHERE k = 2")
    publish(session, recovery, {})
    assert rows(session.table("db.log")) == [(1, 10), (2, 20)]


@pytest.mark.parametrize("name", ["db.other", "db.log"])
@pytest.mark.parametrize("is_first", [True, False], ids=["before the correction", "after it"])
def test_what_production_wrote_to_a_table_that_no_asset_makes_is_not_taken_away(
    session: Session, name: str, is_first: bool
) -> None:
    tables = ("src", "log", "other")
    session.sql(
        "CREATE DATABASE db;" + ";".join(f"CREATE TABLE db.{table} (k INT, v INT)" for table in tables), "duckdb"
    )
    session.sql("INSERT INTO db.other VALUES (0, 0)", "duckdb")
    for number, value in ((1, 10), (2, 666)):
        session.sql(f"INSERT INTO db.src VALUES ({number}, {value})", "duckdb")
        session.sql(f"INSERT INTO db.log SELECT k, v FROM db.src WHERE k = {number}", "duckdb")
    recovery = Recovery.start(session, "fix", plan_recovery(session, session.ref("db.src@2")))
    if is_first:
        session.sql(f"INSERT INTO {name} VALUES (5, 5)", "duckdb")
    recovery.correct("UPDATE db.src SET v = 20 WHERE k = 2")
    recovery.correct("INSERT OVERWRITE db.log SELECT k, v FROM db.src")
    recovery.correct("INSERT INTO db.other VALUES (9, 9)")
    if not is_first:
        session.sql(f"INSERT INTO {name} VALUES (5, 5)", "duckdb")
    assert recovery.replay() == [name]
    with pytest.raises(InvalidRequest, match=f"not computed anew: {name}"):
        publish(session, Recovery.open(session, "fix"), {})
    assert (5, 5) in rows(session.table(name))
    recovery.correct(f"INSERT INTO {name} VALUES (5, 5)")
    publish(session, Recovery.open(session, "fix"), {})
    assert (5, 5) in rows(session.table(name)) and (2, 666) not in rows(session.table("db.log"))
