"""Recovery of tables that SQL has made: what was made from their sources as they were is left to do."""

import dagster as dg
import pyarrow as pa
import pytest
from click.testing import CliRunner

from lineage import sources_of
from resources import Session, table_asset
from resources.assets.table_asset import table_assets
from resources.cli import cli
from resources.recovery import Recovery, plan_recovery
from resources.recovery.left_to_do import left_to_do
from resources.recovery.progress import progress
from resources.recovery.publish import publish, uncorrected
from resources.recovery.report import report
from storage import InvalidRequest, NotFound

SUM = "INSERT OVERWRITE d.sums SELECT 0, sum(v) FROM d.raw"
MART = "INSERT OVERWRITE d.mart SELECT 0, s + 1 FROM d.sums"


@pytest.fixture
def recovery(session: Session) -> Recovery:
    """The source is bad from snapshot 2 on; a sum and a mart of that were made of it by statements."""
    session.catalog.create_database("d")
    key = "PRIMARY KEY ({}) NOT ENFORCED) WITH ('bucket' = '1')"
    session.sql(f"CREATE TABLE d.raw (k BIGINT, v BIGINT, {key.format('k')}", "duckdb")
    for name in ("sums", "mart"):
        session.sql(f"CREATE TABLE d.{name} (g INT, s BIGINT, {key.format('g')}", "duckdb")
    for rows in ("(1, 1), (2, 2)", "(3, 999999)"):
        session.sql(f"INSERT INTO d.raw VALUES {rows}; {SUM}; {MART}", "duckdb")
    return Recovery.start(session, "fix", plan_recovery(session, session.ref("d.raw@2")))


def value(session: Session, name: str) -> int:
    return int(session.table(name).to_arrow()["s"][0].as_py())


def test_what_sql_made_is_left_until_it_has_read_its_source_as_it_is_now(session: Session, recovery: Recovery) -> None:
    assert left_to_do(recovery, {}) == ["d.sums", "d.mart"]
    recovery.correct(f"UPDATE d.raw SET v = 33 WHERE k = 3; {MART}")
    # The mart was made again of a sum that is still bad.
    assert left_to_do(recovery, {}) == ["d.sums", "d.mart"]
    recovery.correct(SUM)
    assert left_to_do(recovery, {}) == ["d.mart"]
    recovery.correct(MART)
    assert left_to_do(recovery, {}) == []
    recovery.correct("UPDATE d.raw SET v = 44 WHERE k = 3")
    assert left_to_do(recovery, {}) == ["d.sums", "d.mart"]
    with pytest.raises(InvalidRequest, match=r"not computed anew: d\.sums, d\.mart"):
        publish(session, recovery, {})
    # Production writes meanwhile, and what it wrote comes to the branch.
    recovery.correct(f"{SUM}; {MART}")
    session.sql("INSERT INTO d.raw VALUES (4, 4000)", "duckdb")
    recovery.replay()
    assert left_to_do(recovery, {}) == ["d.sums", "d.mart"]
    recovery.correct(f"{SUM}; {MART}")
    publish(session, recovery, {})
    assert (value(session, "d.sums"), value(session, "d.mart")) == (4047, 4048)
    read = {str(ref) for ref in sources_of(session.table("d.sums").snapshot())}
    assert str(session.table("d.raw").last_change()) in read


def test_a_value_that_is_typed_is_current_until_its_source_changes(session: Session, recovery: Recovery) -> None:
    recovery.correct("UPDATE d.raw SET v = 33 WHERE k = 3; UPDATE d.sums SET s = 36; UPDATE d.mart SET s = 37")
    assert left_to_do(recovery, {}) == []
    recovery.correct("UPDATE d.raw SET v = 44 WHERE k = 3")
    assert left_to_do(recovery, {}) == ["d.sums", "d.mart"]


def test_lineage_of_what_is_published_in_spite_names_what_was_read(session: Session, recovery: Recovery) -> None:
    recovery.correct(f"UPDATE d.raw SET v = 33 WHERE k = 3; {SUM}; {MART}")
    recovery.correct("UPDATE d.raw SET v = 44 WHERE k = 3")
    publish(session, recovery, {}, allow_incomplete=True)
    read = {str(ref) for ref in sources_of(session.table("d.sums").snapshot())}
    assert str(session.table("d.raw").last_change()) not in read
    assert "d.raw$branch_fix@3" in read


@pytest.mark.parametrize(
    "statement",
    [
        "DROP TABLE d.raw",
        "CREATE TABLE d.other (a INT)",
        "CREATE TABLE d.other AS SELECT 1 AS a",
        "CREATE OR REPLACE TABLE d.sums AS SELECT 1 AS g",
        "ALTER TABLE d.raw RENAME TO d.zz",
        "CREATE VIEW d.v AS SELECT * FROM d.raw",
        "CREATE TEMPORARY VIEW v AS SELECT 1 AS a",
        "DROP VIEW IF EXISTS d.v",
        "CREATE DATABASE other",
        "DROP DATABASE d CASCADE",
        "CREATE CATALOG c WITH ('type' = 'paimon', 'warehouse' = '/tmp/none')",
        "DROP CATALOG IF EXISTS c",
        "USE CATALOG paimon",
        "USE d",
        "CALL sys.delete_branch('d.raw', 'fix')",
        "CALL sys.create_tag('d.raw', 'x')",
        "CALL sys.publish_branches('d.raw', 'fix')",
        "CALL sys.forget_lineage('1 d')",
    ],
)
def test_a_correction_reaches_nothing_but_branches(session: Session, recovery: Recovery, statement: str) -> None:
    before = {name: session.table(name).snapshot() for name in session.catalog.tables()}
    with pytest.raises(InvalidRequest, match="is no correction"):
        # Nor is what stands before it done.
        recovery.correct(f"UPDATE d.raw SET v = 0; {statement}")
    assert {name: session.table(name).snapshot() for name in session.catalog.tables()} == before
    assert session.table("d.raw").on_branch("fix").to_arrow()["v"].to_pylist() == [1, 2, 999999]
    assert session.catalog.databases() == ["d"]


def test_a_correction_names_tables_alone(session: Session, recovery: Recovery) -> None:
    session.table("d.raw").branches.create("other")
    with pytest.raises(InvalidRequest, match="is a branch already"):
        recovery.correct("DELETE FROM d.`raw$branch_other` WHERE k = 1")
    session.sql(
        "CREATE CATALOG c WITH ('type' = 'paimon', 'warehouse' = '" + session.settings.warehouse + "2')", "duckdb"
    )
    session.sql("CREATE TABLE c.d.raw (k BIGINT, v BIGINT); INSERT INTO c.d.raw VALUES (1, 1)", "duckdb")
    with pytest.raises(InvalidRequest, match="another catalog"):
        recovery.correct("DELETE FROM c.d.raw WHERE k = 1")
    assert session.table("d.raw").on_branch("fix").to_arrow().num_rows == 3


def test_a_correction_changes_the_branch_in_every_way_that_it_can(session: Session, recovery: Recovery) -> None:
    main = session.table("d.raw").to_arrow()
    recovery.correct("TRUNCATE TABLE d.raw")
    recovery.correct("CALL sys.rollback('d.raw', 2); ALTER TABLE d.raw ADD COLUMN note STRING; SHOW TABLES IN d")
    assert session.table("d.raw").on_branch("fix").to_arrow().column_names == ["k", "v", "note"]
    assert session.table("d.raw").to_arrow().equals(main)


def test_a_correction_says_which_branches_it_has_changed(session: Session, recovery: Recovery) -> None:
    session.sql("CREATE TABLE d.beside (a INT, p INT) PARTITIONED BY (p); INSERT INTO d.beside VALUES (1, 1)", "duckdb")
    for statement in (
        "CALL sys.rollback('d.raw', 2)",
        "CALL sys.rollback_to(table => 'd.raw', snapshot_id => 2)",
        "CALL sys.compact('d.raw')",
        "CALL sys.drop_partition('d.beside', 'p=2')",
    ):
        said = recovery.correct(statement)
        assert "$branch_fix " in said[0]
        joined = "d.beside is part of recovery 'fix' from now on, and is published with it."
        assert said[1:] == ([joined] if "beside" in statement else [])
    assert recovery.correct("INSERT INTO d.beside VALUES (2, 2)")[1:] == []


def test_a_backfill_says_what_no_asset_makes(
    session: Session, recovery: Recovery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("resources.cli.recovery._backfill", lambda *given: 0)
    monkeypatch.setattr("resources.cli.recovery.platform_table_assets", dict)
    run = CliRunner().invoke(cli, ["recovery", "backfill", "fix"])
    assert (run.exit_code, run.output) == (1, "0 runs on branch fix. Left to compute: d.sums, d.mart.\n")
    recovery.correct(f"{SUM}; {MART}")
    run = CliRunner().invoke(cli, ["recovery", "backfill", "fix"])
    assert (run.exit_code, run.output) == (0, "Everything on branch fix is computed anew already.\n")


def test_tables_that_are_renamed_meanwhile_are_followed(session: Session, recovery: Recovery) -> None:
    recovery.correct("UPDATE d.raw SET v = 33 WHERE k = 3")
    session.sql("ALTER TABLE d.sums RENAME TO d.totals; ALTER TABLE d.raw RENAME TO d.orders", "duckdb")
    # Somebody takes the name.
    session.sql("CREATE TABLE d.sums (g INT, s BIGINT); INSERT INTO d.sums VALUES (0, 7)", "duckdb")
    renamed = Recovery.open(session, "fix")
    assert list(renamed.record.tables) == ["d.orders", "d.totals", "d.mart"]
    assert renamed.record.bad == "d.orders@2"
    assert left_to_do(renamed, {}) == ["d.totals", "d.mart"]
    renamed.correct(SUM.replace("d.sums", "d.totals").replace("d.raw", "d.orders"))
    assert left_to_do(renamed, {}) == ["d.mart"]
    renamed.correct(MART.replace("d.sums", "d.totals"))
    assert left_to_do(renamed, {}) == []
    publish(session, renamed, {})
    assert (value(session, "d.totals"), value(session, "d.mart"), value(session, "d.sums")) == (36, 37, 7)
    read = {str(ref) for ref in sources_of(session.table("d.totals").snapshot())}
    assert str(session.table("d.orders").last_change()) in read
    assert Recovery.open(session, "fix").record.tables.keys() == {"d.orders", "d.totals", "d.mart"}


def test_a_table_that_is_dropped_meanwhile_stops_no_publication(session: Session, recovery: Recovery) -> None:
    recovery.correct(f"UPDATE d.raw SET v = 33 WHERE k = 3; {SUM}")
    session.sql("DROP TABLE d.mart", "duckdb")
    assert left_to_do(recovery, {}) == []
    assert [published.name for published in publish(session, recovery, {})] == ["d.raw", "d.sums"]
    assert value(session, "d.sums") == 36


def test_columns_that_main_has_altered_are_compared_as_publishing_keeps_them(
    session: Session, recovery: Recovery
) -> None:
    recovery.correct(f"UPDATE d.raw SET v = 33 WHERE k = 3; {SUM}; {MART}")
    session.sql("ALTER TABLE d.raw RENAME COLUMN v TO vv; ALTER TABLE d.sums ADD COLUMN w STRING", "duckdb")
    recovery.correct("ALTER TABLE d.mart ADD COLUMN note STRING")
    expected = {
        "d.raw": "1 rows changed (vv: 1)",
        "d.sums": "1 rows changed (s: 1)",
        "d.mart": "1 rows changed (s: 1), column note added",
    }
    assert {name: recovery.compare(name).describe() for name in recovery.changed()} == expected
    publish(session, recovery, {})
    assert {name: recovery.compare(name).describe() for name in recovery.changed()} == expected
    assert [session.table(name).schema.column_names[-1] for name in expected] == ["vv", "w", "note"]
    recovery.drop()


def test_a_branch_that_was_deleted_is_named_and_made_again(session: Session, recovery: Recovery) -> None:
    recovery.correct(f"UPDATE d.raw SET v = 33 WHERE k = 3; {SUM}; {MART}")
    session.table("d.mart").branches.delete("fix")
    gone = "Branch fix of d.mart is gone, or was never made"
    come = progress(session, "fix", {})
    assert (come.left, come.without_branch) == (("d.mart",), ("d.mart",)) and come.remarks[0].startswith(gone)
    for arguments in (["list"], ["compare", "fix"]):
        shown = CliRunner().invoke(cli, ["recovery", *arguments])
        assert shown.exit_code == 0 and gone in " ".join(shown.output.split()), shown.output
    with pytest.raises(NotFound, match=r"d\.mart has no branch 'fix'"):
        recovery.compare("d.mart")
    with pytest.raises(InvalidRequest, match=r"not computed anew: d\.mart \(its branch is gone"):
        publish(session, recovery, {})
    recovery.correct(MART)
    assert progress(session, "fix", {}).remarks == ()
    publish(session, recovery, {})
    assert value(session, "d.mart") == 37
    # Of what is published nothing is missing.
    session.table("d.mart").branches.delete("fix")
    come = progress(session, "fix", {})
    assert (come.state, come.left) == ("published", ())
    assert come.remarks == ("Branch fix of d.mart is gone; what was published stays.",)


@pytest.mark.parametrize("again", ["", "CREATE TABLE d.{0} (g INT, s BIGINT); INSERT INTO d.{0} VALUES (77, 7)"])
@pytest.mark.parametrize("name", ["mart", "raw"])
def test_a_table_that_was_dropped_or_made_anew_is_no_part_of_a_recovery(
    session: Session, recovery: Recovery, name: str, again: str
) -> None:
    recovery.correct("UPDATE d.raw SET v = 33 WHERE k = 3" if name == "mart" else "UPDATE d.sums SET s = 36")
    recovery.correct(SUM if name == "mart" else MART)
    session.sql(f"DROP TABLE d.{name}; {again.format(name)}", "duckdb")
    come = progress(session, "fix", {})
    assert (come.left, come.without_branch) == ((), ()) and f"d.{name}" not in come.tables
    what = "made anew" if again else "dropped"
    assert come.remarks[0] == f"d.{name} was {what} since the recovery began, and is no part of it any more."
    # Of what was to be corrected it is said what to do.
    assert [each.split(", or drop")[0] for each in come.remarks[1:]] == (
        ["Publish what was made from it on the branch (d.sums, d.mart)"] if name == "raw" else []
    )
    with pytest.raises(NotFound, match="was made anew since recovery 'fix' began" if again else "does not exist"):
        recovery.correct(f"DELETE FROM d.{name}")
    if name == "raw":
        with pytest.raises(InvalidRequest, match=r"the table of d\.raw@2 is no part of it"):
            recovery.undo_bad()
    publish(session, recovery, {})
    assert recovery.record.overrides == []
    shown = CliRunner().invoke(cli, ["recovery", "list"])
    assert f"d.{name} was {what}" in " ".join(shown.output.split())
    if again:
        assert session.table(f"d.{name}").to_arrow().to_pylist() == [{"g": 77, "s": 7}]


@pytest.mark.parametrize("again", ["", "CREATE TABLE d.{0} (g INT, s BIGINT); INSERT INTO d.{0} VALUES (77, 7)"])
@pytest.mark.parametrize(("name", "others"), [("sums", ["d.raw", "d.mart"]), ("raw", ["d.sums", "d.mart"])])
def test_what_was_made_from_a_table_that_is_gone_is_published(
    session: Session, recovery: Recovery, name: str, others: list[str], again: str
) -> None:
    recovery.correct(f"UPDATE d.raw SET v = 33 WHERE k = 3; {SUM}; {MART}")
    session.sql(f"DROP TABLE d.{name}; {again.format(name)}", "duckdb")
    assert [each.name for each in publish(session, recovery, {})] == others
    assert value(session, "d.mart") == 37
    made_from = {str(ref) for ref in sources_of(session.table("d.mart").snapshot())}
    assert ("d.sums$branch_fix@3" if name == "sums" else "d.sums@3") in made_from
    if again:
        assert session.table(f"d.{name}").to_arrow().to_pylist() == [{"g": 77, "s": 7}]


@pytest.mark.parametrize("again", ["", "CREATE TABLE d.raw (g INT, s BIGINT); INSERT INTO d.raw VALUES (77, 7)"])
def test_what_is_published_again_is_told_though_its_source_is_gone(
    session: Session, recovery: Recovery, again: str
) -> None:
    @table_asset("d.raw")
    def raw() -> pa.Table:
        raise AssertionError

    @table_asset("d.sums", inputs={"raw": "d.raw"})
    def sums(raw: pa.Table) -> pa.Table:
        return raw

    recovery.correct(f"UPDATE d.raw SET v = 33 WHERE k = 3; {SUM}; {MART}")
    publish(session, recovery, {})
    session.sql(f"DROP TABLE d.raw; {again}", "duckdb")
    done = publish(session, recovery, {})
    assert [(each.name, each.verdict) for each in done] == [
        (name, "published already") for name in ("d.sums", "d.mart")
    ]
    events: list[dg.AssetMaterialization] = []
    with dg.DagsterInstance.ephemeral() as instance:
        report(session, recovery, done, table_assets([raw, sums]), instance, events.append)
    assert [event.asset_key.path for event in events] == [["d", "sums"]]


def test_what_a_replay_brings_is_made_from_what_production_made_it_from(session: Session, recovery: Recovery) -> None:
    session.sql("CREATE TABLE d.other AS SELECT 4 AS k, 4000 AS v", "duckdb")
    recovery.correct(f"UPDATE d.raw SET v = 33 WHERE k = 3; {SUM}; {MART}")
    session.sql("INSERT INTO d.raw SELECT k, v FROM d.other; INSERT INTO d.raw VALUES (5, 5)", "duckdb")
    recovery.replay()
    branch = session.table("d.raw$branch_fix").last_change()
    assert branch is not None
    assert "d.other@1" in {str(ref) for ref in session.lineage(branch, "up").snapshots}
    # Nothing says that it was made from main, whose bad rows it has not.
    assert [str(ref) for ref in sources_of(session.table("d.raw$branch_fix").snapshot())] == ["d.other@1"]
    recovery.correct(f"{SUM}; {MART}")
    publish(session, recovery, {})
    recovery.drop()
    newest = session.table("d.raw").snapshot()
    assert newest is not None and "d.other@1" in {str(ref) for ref in sources_of(newest)}
    assert {"d.sums@3", "d.mart@3"} <= {str(ref) for ref in session.impact(session.ref("d.other@1"))}
    assert not plan_recovery(session, session.ref("d.raw@2")).tables
    assert value(session, "d.sums") == 1 + 2 + 33 + 4000 + 5


def test_the_first_snapshot_is_not_undone_but_corrected_as_is_said(session: Session) -> None:
    session.sql("CREATE TABLE d.only (k BIGINT); INSERT INTO d.only VALUES (1)", "duckdb")
    recovery = Recovery.start(session, "fix", plan_recovery(session, session.ref("d.only@1")))
    with pytest.raises(
        InvalidRequest, match=r"^Snapshot 1 is the first of d\.only: .* Correct it by SQL: DELETE FROM d\.only"
    ):
        recovery.undo_bad()
    assert recovery.correct("DELETE FROM d.only")
    assert recovery.table("d.only").to_arrow().num_rows == 0


def test_what_has_expired_is_not_gone_back_to_but_corrected_as_is_said(session: Session) -> None:
    session.sql(
        "CREATE TABLE d.aged (k BIGINT); INSERT INTO d.aged VALUES (1); INSERT INTO d.aged VALUES (2)", "duckdb"
    )
    table = session.table("d.aged")
    table.expire(retain_last=1)
    recovery = Recovery.start(session, "fix", plan_recovery(session, session.ref("d.aged@2")))
    with pytest.raises(NotFound, match=r"^d\.aged cannot go back to before d\.aged@2: .* Correct it by SQL\."):
        recovery.undo_bad()
    assert recovery.correct("DELETE FROM d.aged WHERE k = 2")
    assert recovery.table("d.aged").to_arrow()["k"].to_pylist() == [1]


def test_each_partition_of_the_plan_is_left_until_it_is_written(session: Session) -> None:
    session.catalog.create_database("d")
    for name in ("raw", "mart"):
        session.sql(
            f"CREATE TABLE d.{name} (id INT, v INT, day DATE, PRIMARY KEY (id, day) NOT ENFORCED) PARTITIONED BY (day)",
            "duckdb",
        )
    session.sql("INSERT INTO d.raw VALUES (1, 1, DATE '2024-05-01')", "duckdb")
    session.sql("INSERT INTO d.raw VALUES (2, -9, DATE '2024-05-02'), (3, 3, DATE '2024-05-03')", "duckdb")
    mart = "INSERT OVERWRITE d.mart SELECT id, v * 10, day FROM d.raw"
    session.sql(mart, "duckdb")
    recovery = Recovery.start(session, "fix", plan_recovery(session, session.ref("d.raw@2")))
    recovery.correct("DELETE FROM d.raw WHERE id = 2")
    # The overwrite is dynamic: the day without rows keeps those that it had.
    recovery.correct(mart)
    assert left_to_do(recovery, {}) == ["d.mart"]
    with pytest.raises(InvalidRequest, match=r"not computed anew: d\.mart"):
        publish(session, recovery, {})
    recovery.correct("DELETE FROM d.mart WHERE day = DATE '2024-05-02'")
    assert left_to_do(recovery, {}) == []
    publish(session, recovery, {})
    assert session.sql("SELECT id FROM d.mart ORDER BY id", "duckdb").to_arrow()["id"].to_pylist() == [1, 3]


@pytest.mark.parametrize(
    "statements",
    [
        "UPDATE d.raw SET v = v",
        "INSERT INTO d.raw VALUES (3, 999999)",
        "ALTER TABLE d.raw ADD COLUMN e INT; UPDATE d.raw SET e = 1; CALL sys.rollback(table => 'd.raw', version => '2')",
    ],
)
def test_what_leaves_all_rows_as_they_were_corrects_nothing(
    session: Session, recovery: Recovery, statements: str
) -> None:
    recovery.correct(f"{statements}; {SUM}; {MART}")
    with pytest.raises(InvalidRequest, match=r"not corrected: d\.raw \(what was run on its branch has left all rows"):
        publish(session, recovery, {})
    # Neither does what takes its own change back,
    recovery.correct(f"UPDATE d.raw SET v = 5; CALL sys.rollback(table => 'd.raw', version => '2'); {SUM}; {MART}")
    assert uncorrected(recovery) == ["d.raw"]


def test_what_production_wrote_meanwhile_is_no_correction(session: Session, recovery: Recovery) -> None:
    recovery.correct(f"UPDATE d.raw SET v = v; {SUM}; {MART}")
    session.sql("INSERT INTO d.raw VALUES (4, 4000)", "duckdb")
    recovery.replay()
    recovery.correct(f"{SUM}; {MART}")
    assert uncorrected(recovery) == ["d.raw"]
    recovery.correct(f"UPDATE d.raw SET v = 3 WHERE k = 3; {SUM}; {MART}")
    publish(session, recovery, {})
    assert value(session, "d.sums") == 4006
