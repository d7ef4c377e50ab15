"""The command line: what it prints, and how it answers bad input."""

import csv
import io
import json
import socket
import sys
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lineage import sources_property
from resources.cli import answer
from resources.session import Session
from storage import Catalog, CommitId, StoreUnavailable, Verdict
from storage.branches import Branches
from storage.maintain.hold import held
from storage.write.close import DELETION, close

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Session:
    """Two tables, the second made from the first; SNAPLINE_HOME points to them."""
    monkeypatch.setenv("SNAPLINE_HOME", str(tmp_path / "home"))
    session = Session()
    schema = pa.schema([("id", pa.int64()), ("price", pa.decimal128(8, 2)), ("what", pa.string())])
    orders = session.catalog.create_table("shop.orders", schema, primary_key=["id"], options={"bucket": 1})
    orders.write(pa.table({"id": [1, 2], "price": [1, 2], "what": ["a[b]", None]}), commit_id=CommitId("load", 1))
    totals = session.catalog.create_table("shop.totals", pa.schema([("n", pa.int64())]))
    source = orders.ref()
    assert source is not None
    totals.write(pa.table({"n": [2]}), commit_id=CommitId("sum", 1), properties=sources_property([source]))
    return session


@pytest.fixture
def run(shop: Session, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["snapline", *arguments])
        with pytest.raises(SystemExit) as leaving:
            answer()
        shown = capsys.readouterr()
        return int(leaving.value.code or 0), shown.out, shown.err

    return run


def test_an_error_is_a_line_and_json_for_those_who_asked_for_json(run: Run) -> None:
    code, out, said = run("table", "compact", "shop.nope")
    assert (code, out) == (2, "")
    assert said.startswith("Error: ")
    for form in (["--format", "json"], ["--format=json"]):
        code, out, shown = run("table", "compact", "shop.nope", *form)
        assert (code, out, json.loads(shown)) == (2, "", {"error": said.removeprefix("Error: ").strip()})


def test_what_was_done_is_told_to_programs_by_names(run: Run) -> None:
    def answer_of(*words: str) -> dict[str, Any]:
        (answer,) = json.loads(run(*words, "--format", "json")[1])
        return answer

    assert answer_of("tag", "create", "shop.orders", "held") == {
        "result": "Tag held of shop.orders names snapshot 1.",
        "table": "shop.orders",
        "tag": "held",
        "snapshot": 1,
    }
    assert answer_of("branch", "create", "shop.orders", "shop.totals", "--name", "b")["tables"] == [
        "shop.orders",
        "shop.totals",
    ]
    assert answer_of("branch", "merge", "shop.orders", "b")["snapshot"] is None
    assert answer_of("table", "rescale", "shop.orders", "--buckets", "2")["snapshot"] == 2
    compacted = answer_of("table", "compact", "shop.orders")
    assert (compacted["snapshot"], compacted["files_before"], compacted["files"]) == (None, 1, 1)
    assert answer_of("snapshot", "expire", "shop.orders", "--retain-last", "1")["snapshots"] == [1]


def test_a_query_answers_as_table_json_and_csv(run: Run) -> None:
    sql = "SELECT id, price, what FROM shop.orders ORDER BY id"
    code, out, _ = run("query", sql)
    assert code == 0
    assert "a[b]" in out
    assert json.loads(run("query", "--format", "json", sql)[1]) == [
        {"id": 1, "price": "1.00", "what": "a[b]"},
        {"id": 2, "price": "2.00", "what": None},
    ]
    assert list(csv.reader(io.StringIO(run("query", "--format", "csv", sql)[1]))) == [
        ["id", "price", "what"],
        ["1", "1.00", "a[b]"],
        ["2", "2.00", ""],
    ]
    assert json.loads(run("query", "--format", "json", "SELECT count(*) AS n FROM shop.orders")[1]) == [{"n": 2}]


def test_a_query_sees_system_tables_and_lineage_beside_tables(run: Run) -> None:
    sql = """
        SELECT s.snapshot_id, l.job, t.n
        FROM shop."orders$snapshots" s
        JOIN paimon.source_snapshot_lineage l ON l.snapshot_id = s.snapshot_id AND l."table" = 'orders'
        CROSS JOIN shop.totals t
    """
    assert json.loads(run("query", "--format", "json", sql)[1]) == [{"snapshot_id": 1, "job": "sum", "n": 2}]
    options = json.loads(run("query", "--format", "json", "SELECT * FROM paimon.catalog_options")[1])
    assert {"key": "table-lineage", "value": "true"} in options


def test_tables_are_listed_and_described(run: Run) -> None:
    _, out, _ = run("tables")
    assert "shop.orders" in out
    assert "shop.totals" in out
    _, out, _ = run("describe", "shop.orders")
    for part in ("DECIMAL(8, 2)", "primary key", "bucket=1", "file://"):
        assert part in out


def test_listings_tell_the_rows_that_there_are_or_that_they_are_not_known(run: Run, shop: Session) -> None:
    orders = shop.table("shop.orders")
    orders.write(pa.table({"id": [1], "price": [1], "what": ["x"]}))
    orders.tags.create("two")

    def listed(command: str, *arguments: str) -> list[tuple[object, object]]:
        code, out, err = run(command, *arguments, "--format", "json")
        assert code == 0 and not err
        return [(table["rows"], table["records in files"]) for table in json.loads(out)]

    assert listed("tables") == [(None, 3), (1, 1)]
    assert listed("tables", "--count") == [(2, 3), (1, 1)]
    assert listed("tags", "shop.orders") == [(None, 3)]
    assert listed("tags", "shop.orders", "--count") == [(2, 3)]
    shown = run("tables")[1]
    assert "unknown" in shown and shown.endswith("--count reads them.\n")
    assert "unknown" not in run("tables", "--count")[1]
    assert "at most 3" in run("describe", "shop.orders")[1]
    assert "at most" not in run("describe", "shop.orders", "--count")[1]
    orders.compact(full=True)
    assert listed("tables") == [(2, 2), (1, 1)]
    assert listed("tags", "shop.orders") == [(None, 3)]


def test_a_table_that_is_dropped_while_tables_are_listed_is_left_out(
    run: Run, shop: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = Catalog.tables
    monkeypatch.setattr(Catalog, "tables", lambda *words: [*listed(*words), "shop.gone"])
    code, out, _ = run("tables", "--format", "json")
    assert code == 0
    assert [row["table"] for row in json.loads(out)] == ["shop.orders", "shop.totals"]


def test_a_table_that_cannot_be_read_here_is_listed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("storage.option_checks._REFUSED_FOR_READING", ("bucket",))
    code, out, err = run("tables", "--format", "json")
    assert (code, [table["rows"] for table in json.loads(out)], err) == (0, [None, 1], "")


def test_snapshots_tell_job_barrier_and_sources(run: Run) -> None:
    _, out, _ = run("snapshots", "shop.totals")
    for part in ("sum", "APPEND", "shop.orders@1"):
        assert part in out


def test_tags_are_created_listed_and_deleted(run: Run, shop: Session) -> None:
    assert run("create-tag", "shop.orders", "--name", "v1")[0] == 0
    assert "v1" in run("tags", "shop.orders")[1]
    shop.table("shop.orders").delete("id = 1")
    assert run("create-tag", "shop.orders", "--name", "old", "--snapshot", "1")[0] == 0
    assert [(tag.name, tag.snapshot.id) for tag in shop.table("shop.orders").tags.list()] == [("old", 1), ("v1", 1)]
    assert run("create-tag", "shop.orders", "--name", "v1", "--replace")[0] == 0
    assert shop.table("shop.orders").tags.get("v1").snapshot.id == 2
    assert run("delete-tag", "shop.orders", "--name", "v1")[0] == 0
    assert [tag.name for tag in shop.table("shop.orders").tags.list()] == ["old"]


def test_lineage_is_shown_up_and_down_as_tree_json_and_mermaid(run: Run) -> None:
    assert run("lineage", "shop.totals")[1] == "shop.totals@1\n└── shop.orders@1\n"
    assert run("lineage", "shop.orders@1", "--down")[1] == "shop.orders@1\n└── shop.totals@1\n"
    assert json.loads(run("lineage", "shop.totals", "--format", "json")[1])[0]["job"] == "sum"
    assert run("lineage", "shop.totals", "--format", "mermaid")[1].startswith("flowchart LR")


def test_what_only_looks_like_a_hint_is_none(run: Run) -> None:
    sql = """SELECT '/*+ a */' AS "/*+", count(*) FROM shop.orders -- /*+ b */"""
    assert run("query", sql)[0] == 0


def test_lineage_is_deleted_by_job_and_rebuilt_from_the_tables(run: Run) -> None:
    assert "Deleted 2 rows" in run("delete-data-lineage", "--job", "sum")[1]
    assert "Deleted 2 rows" in run("delete-table-lineage", "--job", "sum")[1]
    assert run("lineage", "shop.totals")[1] == "shop.totals@1\n"
    assert "2 snapshots" in run("lineage", "rebuild")[1]
    assert run("lineage", "shop.totals")[1] == "shop.totals@1\n└── shop.orders@1\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["describe", "shop.order"], "Tables of shop: shop.orders"),
        (["describe", "orders"], "write database.table"),
        (["snapshots", "no.where"], "Databases of"),
        (["tables", "no"], "Databases: shop"),
        (["create-tag", "shop.orders", "--name", "12"], "Call it `v12`"),
        (["create-tag", "shop.orders", "--name", "x", "--snapshot", "9"], "Existing snapshot: 1"),
        (["create-tag", "shop.orders"], "Missing option '--name'. See `snapline create-tag --help`"),
        (
            ["create-tag", "shop.orders", "--name", "x", "--snapshot", "y"],
            "--snapshot: a whole number is expected, not 'y'",
        ),
        (["delete-tag", "shop.orders", "--name", "x"], "Existing tags: none"),
        (["query", "SELECT"], "DuckDB cannot run the query"),
        (["query", "SELECT * FROM shop.orders /*+ OPTIONS('scan.tag-name'='x') */"], "hint"),
        (["query", "SELECT * FROM shop.oders"], "Did you mean shop.orders?"),
        (["query", "SELECT * FROM orders"], "needs its database"),
        (["query", "SELECT nope FROM shop.orders"], "nope"),
        (["query", "SELECT * FROM paimon.nope"], "Lineage tables: source_job_lineage"),
        (["query", 'SELECT * FROM shop."orders$nope"'], "System tables: $snapshots"),
        (["query", "DROP TABLE shop.orders"], "Give one SELECT"),
        (["query", "SELECT 1; SELECT 2"], "Give one SELECT"),
        (["query", "--format", "xml", "SELECT 1"], "'xml' is not one of"),
        (["lineage", "shop.totals@7"], "Snapshot 7"),
        (["lineage", "shop.totals", "--up", "--down"], "two questions"),
        (["lineage", "shop.totals@seven"], "Tag 'seven' does not exist"),
        (["lineage", "shop.totals", "--hops", "0"], "x>=1"),
        (["nonsense"], "No such command 'nonsense'"),
    ],
)
def test_bad_input_is_answered_by_one_line_and_exit_code_2(run: Run, arguments: list[str], message: str) -> None:
    code, out, err = run(*arguments)
    assert code == 2
    assert out == ""
    assert err.startswith("Error: ")
    assert message in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("command", ["ui", "browse"])
def test_a_port_that_is_taken_is_named(run: Run, command: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        code, _, err = run(command, "--port", port)
    assert (code, err) == (
        2,
        f"Error: 127.0.0.1:{port} cannot be had: Address already in use. Choose another --host or --port.\n",
    )


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("SNAPLINE_BROWSER_URL", "data.example.com/snapline", "is no address of pages"),
        ("SNAPLINE_BROWSER_URL", "javascript:alert(1)", "is no address of pages"),
        ("SNAPLINE_BROWSER_URL", "//evil.example/x", "is no address of pages"),
        ("SNAPLINE_BROWSER_URL", "https://", "is no address of pages"),
        ("SNAPLINE_BROWSER_URL", "https://[::1/x", "is no address of pages"),
        ("SNAPLINE_BROWSER_URL", "https://data.example.com/?a=1", "is no address of pages"),
        ("SNAPLINE_BROWSER_URL", "https://me:secret@data.example.com", "is no address of pages"),
        ("SNAPLINE_BROWSER_READ_ONLY", "maybe", "neither true nor false"),
    ],
)
def test_settings_of_the_browser_are_looked_at(
    run: Run, monkeypatch: pytest.MonkeyPatch, name: str, value: str, said: str
) -> None:
    monkeypatch.setenv(name, value)
    code, _, err = run("tables")
    assert code == 2 and name in err and said in err and err.count("\n") == 1
    assert "secret" not in err


def test_a_setting_that_cannot_be_read_is_named(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SNAPLINE_SPARK_CONFIG", "{not json")
    code, _, err = run("tables")
    assert code == 2
    assert "SNAPLINE_SPARK_CONFIG" in err


@pytest.mark.parametrize("value", ["/data", '{"a": 1}', "[1]"])
def test_external_roots_are_a_list_of_directories(run: Run, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("SNAPLINE_EXTERNAL_ROOTS", '["/data/files"]')
    assert run("tables")[0] == 0
    assert Session().catalog._file_io.external_roots == ("/data/files",)
    monkeypatch.setenv("SNAPLINE_EXTERNAL_ROOTS", value)
    code, _, err = run("tables")
    assert code == 2
    assert "SNAPLINE_EXTERNAL_ROOTS" in err


def test_a_table_is_compacted(run: Run, shop: Session) -> None:
    shop.table("shop.orders").delete("id = 1")
    assert "2 files became 1" in run("compact", "shop.orders")[1]
    assert "needs no compaction" in run("compact", "shop.orders", "--triggers")[1]
    assert "column=value" in run("compact", "shop.orders", "--partition", "day")[2]
    assert "Partition columns: none" in run("compact", "shop.orders", "--partition", "day=1")[2]
    assert run("lineage", "shop.orders", "--down")[1].startswith("shop.orders@2\n")


def test_history_is_expired_rolled_back_and_explained(run: Run, shop: Session) -> None:
    orders = shop.table("shop.orders")
    for number in (3, 4):
        orders.overwrite(pa.table({"id": [number], "price": [1], "what": ["x"]}))
    assert run("create-tag", "shop.orders", "--name", "kept", "--snapshot", "1")[0] == 0
    assert run("why-kept", "shop.orders", "1")[1].splitlines()[-1] == "tag kept"
    assert run("why-kept", "shop.orders", "1")[1].startswith("snapshot 1\n")
    assert "has no file 'nothing.parquet'" in run("why-kept", "shop.orders", "nothing.parquet")[2]
    output = run("expire-snapshots", "shop.orders", "--retain-last", "1", "--dry-run")[1]
    assert "2 snapshots" in output
    assert "snapshot 2 is the last that needs it" in output
    assert "0 snapshots" in run("expire-snapshots", "shop.orders", "--retain-last", "1", "--older-than", "1 d")[1]
    assert "2 snapshots" in run("expire-snapshots", "shop.orders", "--retain-last", "1")[1]
    assert "0 orphan files" in run("remove-orphan-files", "shop.orders")[1]
    assert run("rollback", "shop.orders", "--version", "kept")[0] == 0
    assert orders.count() == 2
    assert (
        "is not a duration" in run("expire-snapshots", "shop.orders", "--retain-last", "1", "--older-than", "soon")[2]
    )
    assert "Existing snapshot" in run("rollback", "shop.orders", "--version", "9")[2]


def test_every_command_explains_itself(run: Run) -> None:
    from resources.cli import cli

    for name, command in cli.commands.items():
        assert command.help, name
        code, out, _ = run(name, "--help")
        assert code == 0
        assert command.help.split(".")[0].split("\n")[0][:40] in out


def test_a_table_is_checked(run: Run, shop: Session) -> None:
    assert run("check", "shop.orders", "--deep") == (0, "shop.orders is sound.\n", "")
    data = next(Path(shop.table("shop.orders").store.paths.root).glob("bucket-0/data-*"))
    data.unlink()
    code, out, _ = run("check", "shop.orders")
    assert code == 1
    assert data.name in out
    assert "1 invariants of shop.orders are broken." in out


def test_work_that_has_failed_after_commits_is_shown_and_is_no_corruption(run: Run, shop: Session) -> None:
    name = shop.catalog.tables()[0]
    shop.table(name).store.troubles.record("compaction", StoreUnavailable("The disk is full."), 0, 1)
    code, shown, _ = run("check", name)
    assert code == 1
    assert "compaction has failed since" in shown
    assert "last after snapshot 1: The disk is full." in shown
    assert f"{name} is sound; 1 kinds of work on it have failed." in shown


def test_buckets_are_rescaled(run: Run, shop: Session) -> None:
    assert run("rescale", "shop.orders", "--buckets", "3")[1] == "shop.orders has 3 buckets as of snapshot 2.\n"
    assert shop.table("shop.orders").count() == 2
    assert "no row moved" in run("rescale", "shop.orders", "--buckets", "3")[1]


def test_consumers_are_listed_reset_and_forgotten(run: Run, shop: Session) -> None:
    run("reset-consumer", "shop.orders", "--name", "report", "--snapshot", "1")
    assert "report" in run("consumers", "shop.orders")[1]
    run("reset-consumer", "shop.orders", "--name", "report")
    assert shop.table("shop.orders").consumers.list() == []
    assert "Consumers: none" in run("reset-consumer", "shop.orders", "--name", "report")[2]


def test_tags_are_kept_for_a_time_renamed_and_expired(run: Run, shop: Session) -> None:
    run("create-tag", "shop.orders", "--name", "a", "--time-retained", "1 ms")
    run("create-tag", "shop.orders", "--name", "b", "--time-retained", "30 d")
    run("rename-tag", "shop.orders", "--name", "b", "--to", "c")
    time.sleep(0.01)
    assert run("expire-tags", "shop.orders")[1] == "1 tag of shop.orders expired: a.\n"
    assert [tag.name for tag in shop.table("shop.orders").tags.list()] == ["c"]
    assert run("create-due-tag", "shop.orders")[1] == "shop.orders has no tag due.\n"


def test_partitions_are_dropped_and_expire(run: Run, shop: Session) -> None:
    days = shop.catalog.create_table(
        "shop.days",
        pa.schema([("day", pa.string()), ("n", pa.int64())]),
        partition_by=["day"],
        options={"partition.expiration-time": "10 d"},
    )
    days.write(pa.table({"day": ["2020-01-01", "2020-01-02", "9999-01-01"], "n": [1, 2, 3]}))
    assert (
        "Dropped day=2020-01-01 of shop.days, by snapshot"
        in run("drop-partition", "shop.days", "--partition", "day=2020-01-01")[1]
    )
    assert (
        run("expire-partitions", "shop.days", "--dry-run")[1]
        == "day=2020-01-02\nWould drop 1 partition of shop.days.\n"
    )
    run("expire-partitions", "shop.days")
    assert days.to_arrow()["n"].to_pylist() == [3]


def test_branches_of_several_tables_are_published_together(run: Run, shop: Session) -> None:
    names = ["shop.orders", "shop.totals"]
    assert run("branch", "create", "--name", "fix", "shop.orders@1", "shop.totals")[0] == 0
    shop.table("shop.orders").on_branch("fix").write(pa.table({"id": [1], "price": [9], "what": ["fixed"]}))
    assert "clean" in run("branch", "verdict", "--name", "fix", *names)[1]
    assert run("branch", "publish", "--name", "fix", *names)[0] == 0
    assert shop.table("shop.orders").count(where="what = 'fixed'") == 1
    assert run("branch", "recover")[1] == "No publication is open.\n"
    assert run("branch", "delete", "--name", "fix", *names)[1] == "Deleted branch fix of shop.orders, shop.totals.\n"
    assert "Existing branches: none but main" in run("branch", "publish", "--name", "fix", *names)[2]


def test_a_branch_is_merged_or_becomes_main(run: Run, shop: Session) -> None:
    orders = shop.table("shop.orders")
    assert run("create-branch", "shop.orders", "--name", "fix")[0] == 0
    orders.on_branch("fix").write(pa.table({"id": [1], "price": [9], "what": ["fixed"]}))
    assert "has taken 1 snapshot over from branch fix (clean)" in run("merge-branch", "shop.orders", "--name", "fix")[1]
    orders.on_branch("fix").write(pa.table({"id": [2], "price": [9], "what": ["fixed"]}))
    orders.write(pa.table({"id": [2], "price": [8], "what": ["nightly"]}))
    code, _, error = run("replace-main-branch", "shop.orders", "--name", "fix")
    assert code == 2 and "diverged" in error
    done = run("replace-main-branch", "shop.orders", "--name", "fix", "--discard-main")
    assert done[1] == "Branch fix is the main of shop.orders (diverged), at snapshot 3; main's work of 3 is given up.\n"
    assert shop.table("shop.orders").count(where="what = 'fixed'") == 2
    assert run("branches", "shop.orders")[0] == 0


def test_a_table_is_rolled_back_to_a_time(run: Run, shop: Session) -> None:
    before = shop.table("shop.orders").to_arrow().sort_by("id")
    time.sleep(0.01)
    moment = datetime.now()
    time.sleep(0.01)
    shop.table("shop.orders").write(pa.table({"id": [77], "price": [9], "what": ["late"]}))
    assert run("rollback", "shop.orders", "--timestamp", moment.isoformat())[0] == 0
    assert shop.table("shop.orders").to_arrow().sort_by("id") == before
    assert "Give one of version, snapshot, tag" in run("rollback", "shop.orders")[2]
    assert "is no date and time" in run("rollback", "shop.orders", "--timestamp", "yesterday")[2]


def test_questions_about_lineage_are_answered(run: Run, shop: Session) -> None:
    assert "shop.totals" in run("impact", "shop.orders@1")[1]
    assert "changes behind" in run("freshness", "shop.totals")[1]
    assert run("aligned", "shop.totals", "--on", "shop.orders")[0] == 0
    assert run("lineage", "shop.totals", "--format", "dot")[1].startswith("digraph lineage {")


def test_lineage_of_tables_and_differences_between_versions(run: Run) -> None:
    session = Session()
    run(
        "sql", "--engine", "duckdb", "SET 'pipeline.name' = 'copy'; CREATE TABLE shop.copy AS SELECT * FROM shop.orders"
    )
    run("sql", "--engine", "duckdb", "SET 'pipeline.name' = 'copy'; INSERT INTO shop.copy SELECT * FROM shop.orders")
    assert "shop.orders" in run("lineage", "shop.copy", "--tables")[1]
    assert "shop.copy" in run("lineage", "shop.orders", "--tables", "--down")[1]
    assert session.catalog.exists("shop.copy")
    shown = run("lineage", "shop.copy@2", "--against", "shop.totals@1")[1]
    assert "made from" in shown
    assert run("lineage", "snapline.shop.copy@2")[1] == run("lineage", "shop.copy@2")[1]
    assert run("lineage", "nowhere.shop.copy")[0] == 2


def test_two_snapshots_are_compared_by_ancestry_and_by_rows(run: Run, shop: Session) -> None:
    orders = shop.table("shop.orders")
    orders.write(pa.table({"id": [2, 3], "price": [5, 3], "what": ["b", "c"]}), commit_id=CommitId("load", 2))
    newest = orders.ref()
    assert newest is not None
    shop.table("shop.totals").write(
        pa.table({"n": [3]}), commit_id=CommitId("sum", 2), properties=sources_property([newest])
    )
    code, out, _ = run("lineage", "--compare", "shop.totals@1", "shop.totals@2")
    assert code == 0
    assert out.startswith(
        "They differ first in shop.orders@1 → @2. "
        "No source is common to both, but shop.totals@2 has shop.totals@1 in its history.\n"
    )
    assert "only shop.totals@1" in out and "only shop.totals@2" in out
    assert "Rows: 1 rows added.\n" in out
    by_key = run("lineage", "--compare", "shop.orders@1", "shop.orders@2")[1]
    assert "Rows: 1 rows added, 1 rows changed (price: 1, what: 1).\n" in by_key
    assert "price before" in by_key
    assert "not compared: these are two tables" in run("lineage", "--compare", "shop.orders", "shop.totals")[1]
    assert "both" in run("lineage", "--compare", "shop.orders@1", "shop.totals@1")[1]


@pytest.fixture
def left_open(shop: Session, monkeypatch: pytest.MonkeyPatch) -> Session:
    """A publication that died after the first of two tables."""
    names = ["shop.orders", "shop.totals"]
    shop.table("shop.orders").write(pa.table({"id": [3], "price": [3], "what": ["x"]}))
    branches = shop.catalog.branch_set("fix", names)
    branches.create()
    shop.table("shop.orders").on_branch("fix").write(pa.table({"id": [1], "price": [9], "what": ["fixed"]}))
    shop.table("shop.totals").on_branch("fix").write(pa.table({"n": [3]}))
    merge = Branches.merge

    def dying(self: Branches, name: str, **arguments: Any) -> Verdict:
        if self._store.identifier.table == "totals":
            raise KeyboardInterrupt
        return merge(self, name, **arguments)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Branches, "merge", dying)
        branches.publish()
    return shop


def test_open_publications_are_listed_foreseen_and_named_by_check(run: Run, left_open: Session) -> None:
    before = left_open.table("shop.totals").snapshot(), left_open.table("shop.orders").snapshot()
    shown = run("branch", "recover", "--list")[1]
    for part in ("fix", "shop.orders, shop.totals", "merges", "snapline branch recover --undo"):
        assert part in shown
    code, shown, _ = run("check", "shop.totals")
    assert (code, shown.splitlines()[-1]) == (0, "shop.totals is sound.")
    assert "Publication 1 of branch 'fix' (merges) is open: shop.orders of shop.orders, shop.totals done" in shown
    assert "undo it by `snapline branch recover --undo`" in shown
    shown = run("branch", "recover", "--dry-run")[1]
    assert "has it already" in shown
    assert "takes the branch over (clean: main has not moved since snapshot 1; 1 snapshots to take over)" in shown
    shown = run("branch", "recover", "--dry-run", "--undo")[1]
    assert "goes back to snapshot 2" in shown
    assert "stays as it is" in shown
    left_open.table("shop.orders").write(pa.table({"id": [5], "price": [3], "what": ["later"]}))
    shown = run("branch", "recover", "--dry-run", "--undo")[1]
    assert "refused: The publication of branch 'fix' cannot be undone" in shown
    assert "goes back to snapshot 2" in run("branch", "recover", "--dry-run", "--undo", "--discard-main")[1]
    assert "cannot be combined with list" in run("branch", "recover", "--list", "--undo")[2]
    assert left_open.table("shop.totals").snapshot() == before[0]
    assert (
        run("branch", "recover")[1]
        == "Branch fix is published on shop.orders (snapshot 3), shop.totals (snapshot 2).\n"
    )
    assert "Publication" not in run("check", "shop.totals")[1]
    assert run("branch", "recover", "--list")[1].count("fix") == 0


def test_snapshots_tell_rollbacks_merges_and_undone_publications(run: Run, left_open: Session) -> None:
    left_open.table("shop.totals").branches.create("other")
    assert run("branch", "recover", "--undo")[1] == "Branch fix is taken back from shop.orders, shop.totals.\n"
    shown = run("snapshots", "shop.orders")[1]
    for part in (
        "MERGE of branch fix (WRITE) in publication 1",
        "FENCE for the undo of publication 1",
        "UNDO of publication 1: ROLLBACK to 2",
        "WRITE",
    ):
        assert part in shown
    # A fence is no compaction.
    totals = left_open.table("shop.totals")
    said = "clean: main has changed no row (FENCE for the undo of publication 1) since snapshot 1; 0 snapshots to take over"
    assert totals.branches.verdict("other").describe() == said
    orders = left_open.table("shop.orders")
    orders.rollback_to(1)
    for number in (11, 12):
        orders.on_branch("fix").write(pa.table({"id": [number], "price": [9], "what": ["fixed"]}))
    assert run("merge-branch", "shop.orders", "--name", "fix", "--discard-main")[0] == 0
    newest = orders.snapshot()
    assert newest is not None
    orders.branches.create("dropped")
    orders.branches.delete("dropped")
    operations = orders.system_table("snapshots")["operation"].to_pylist()
    assert operations[-2:] == ["ROLLBACK to 1", "MERGE of branch fix, giving up main's after 2"]
    sql = 'SELECT operation FROM shop."orders$snapshots" ORDER BY snapshot_id'
    assert [row["operation"] for row in json.loads(run("query", "--format", "json", sql)[1])] == operations
    assert "MERGE of branch fix, giving up main's after 2" in run("snapshots", "shop.orders")[1]


def test_a_closing_and_a_compaction_are_told_apart(run: Run, shop: Session) -> None:
    orders = shop.table("shop.orders")
    orders.branches.create("b")
    orders.delete("id = 1")
    orders.compact()
    assert "main has only been compacted" not in orders.branches.verdict("b").describe()
    orders.branches.create("c")
    orders.write(pa.table({"id": [1], "price": [9], "what": ["x"]}))
    orders.compact()
    close(orders.store, orders.snapshot(), f"{DELETION} c")
    assert "CLOSE for the deletion of branch c" in run("snapshots", "shop.orders")[1]


def test_merges_and_publications_say_which_snapshot_they_made(run: Run, shop: Session) -> None:
    orders = shop.table("shop.orders")
    assert run("create-branch", "shop.orders", "--name", "fix")[0] == 0
    for number, command in ((7, "merge-branch"), (8, "fast-forward")):
        orders.on_branch("fix").write(pa.table({"id": [number], "price": [9], "what": ["fixed"]}))
        shown = run(command, "shop.orders", "--name", "fix")[1]
        newest = orders.snapshot()
        assert newest is not None
        assert shown == f"shop.orders has taken 1 snapshot over from branch fix (clean), by snapshot {newest.id}.\n"
    assert "has taken nothing over from branch fix" in run("merge-branch", "shop.orders", "--name", "fix")[1]
    orders.on_branch("fix").write(pa.table({"id": [9], "price": [9], "what": ["fixed"]}))
    shown = run("branch", "publish", "--name", "fix", "shop.orders")[1]
    assert "by snapshot" in shown
    assert orders.count(where="id = 9") == 1
    newest = orders.snapshot()
    assert newest is not None
    assert f" {newest.id} " in shown.splitlines()[-2]


def test_damaged_tags_and_consumers_are_deleted_by_name(run: Run, shop: Session) -> None:
    orders = shop.table("shop.orders")
    for name in ("bad", "good"):
        orders.tags.create(name)
        orders.consumers.reset(name, 1)
    paths = orders.store.paths
    for path in (paths.tag("bad"), paths.consumer("bad")):
        Path(path).write_bytes(Path(path).read_bytes()[:20])
    assert "delete-tag --name bad" in run("check", "shop.orders")[1]
    assert run("tags", "shop.orders")[0] == 2
    assert "Deleted tag bad of shop.orders. It was damaged" in run("delete-tag", "shop.orders", "--name", "bad")[1]
    assert "is forgotten. It was damaged." in run("reset-consumer", "shop.orders", "--name", "bad")[1]
    assert run("check", "shop.orders")[1] == "shop.orders is sound.\n"
    assert run("delete-tag", "shop.orders", "--name", "good")[1] == "Deleted tag good of shop.orders.\n"
    assert run("reset-consumer", "shop.orders", "--name", "good")[1] == "Consumer good of shop.orders is forgotten.\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["lineage", "rebuild", "--down"], "--up or --down cannot be combined with rebuild"),
        (["lineage", "rebuild", "--format", "tree"], "--format tree draws a graph"),
        (["lineage", "shop.totals", "--tables", "--hops", "2"], "--hops cannot be combined with --tables"),
        (["lineage", "shop.totals", "--against", "shop.orders", "--down"], "cannot be combined with --against"),
        (["lineage"], "Say of which snapshot"),
        (
            ["lineage", "shop.totals", "--compare", "shop.orders", "shop.totals"],
            "a table cannot be combined with --compare",
        ),
        (
            ["lineage", "--compare", "shop.orders", "shop.totals", "--hops", "1"],
            "--hops cannot be combined with --compare",
        ),
        (["lineage", "--compare", "shop.orders", "shop.total"], "shop.total"),
        (["merge-branch", "shop.orders", "--name", "main"], "Main is what takes a branch over"),
        (["fast-forward", "shop.orders", "--name", "main"], "Main is what takes a branch over"),
        (["replace-main-branch", "shop.orders", "--name", "main"], "Main is what takes a branch over"),
        (["branch", "publish", "--name", "main", "shop.orders"], "'main' cannot name a branch"),
        (
            ["branch", "create", "shop.orders@", "--name", "x"],
            "'shop.orders@' names no version: write a snapshot or a tag",
        ),
        (["lineage", "shop.orders@"], "'shop.orders@' names no version"),
        (["lineage", "shop.orders", "--against", "shop.totals@ "], "'shop.totals@ ' names no version"),
        (["impact", "shop.orders@"], "'shop.orders@' names no version"),
        (["reproduce", "shop.orders@"], "'shop.orders@' names no version"),
        (["recovery", "plan", "shop.orders@"], "'shop.orders@' names no version"),
        (["recovery", "plan", "shop.orders@", "--since", "2024-01-01"], "'shop.orders@' names no version"),
        (["recovery", "start", "x", "--bad", "shop.orders@"], "'shop.orders@' names no version"),
        (["branch", "delete", "--name", "nope", "shop.orders"], "None of shop.orders has a branch 'nope'"),
        (
            ["reset-consumer", "shop.orders", "--name", "c", "--snapshot", "99"],
            "goes on from 2 at the most. Existing snapshot",
        ),
        (["reproduce", "shop.totals", "--engine", "duckdb"], "was not made by SQL: give no engine"),
        (["recovery", "correct", "x", "--undo-bad", "--engine", "spark"], "--engine runs what --sql says"),
        (["recovery", "publish", "x", "--replay", "--discard-main"], "either brought along"),
        (["recovery", "plan", "shop.orders", "--since", "0001-01-01"], "is no date and time"),
        (
            ["expire-snapshots", "shop.orders", "--retain-last", "1", "--older-than", "9" * 20 + " d"],
            "longer than any duration",
        ),
        (["forget-lineage", "--older-than", "999999999 d"], "is too long"),
        (["rollback", "shop.orders", "--version", "²"], "Tag '²' does not exist"),
    ],
)
def test_options_that_mean_nothing_together_are_refused(run: Run, arguments: list[str], message: str) -> None:
    code, _, err = run(*arguments)
    assert (code, message in err) == (2, True), err


def test_a_snapshot_that_a_tag_has_kept_is_explained(run: Run, shop: Session) -> None:
    orders = shop.table("shop.orders")
    orders.tags.create("kept")
    orders.overwrite(pa.table({"id": [9], "price": [1], "what": ["x"]}))
    orders.expire(retain_last=1)
    code, shown, _ = run("why-kept", "shop.orders", "1")
    assert (code, shown.splitlines()[-1]) == (0, "tag kept")
    assert "Tags: kept (1)" in run("why-kept", "shop.orders", "7")[2]


def test_the_stores_own_tags_are_refused_by_what_they_are_for(run: Run, left_open: Session) -> None:
    orders = left_open.table("shop.orders")
    with held(orders.store, orders.store.snapshots.get(1), lambda name: True):
        [own] = [name for name in orders.store.tags.names() if name.startswith("snapline-hold-")]
        assert "`expire-tags` deletes a day after" in run("delete-tag", "shop.orders", "--name", own)[2]
        assert f"tag {own} (while something is made of it" in run("why-kept", "shop.orders", "1")[1]
    [own] = [name for name in orders.store.tags.names() if name.startswith("snapline-publication-")]
    assert (
        "publication 1 of branch 'fix'. `snapline branch recover`" in run("delete-tag", "shop.orders", "--name", own)[2]
    )
    assert "(until a publication is done: `snapline branch recover`)" in run("why-kept", "shop.orders", "2")[1]
    run("branch", "recover")
    # What a branch keeps for other programs stays until the branch goes.
    [own] = orders.store.tags.names()
    assert own.startswith("snapline-branch-")
    code, _, error = run("delete-tag", "shop.orders", "--name", own)
    assert code == 2
    assert "goes with the branch" in error
    # Of no publication that is known: nobody needs it.
    orders.store.tags.create("snapline-publication-00000077", orders.store.snapshots.get(1))
    assert run("delete-tag", "shop.orders", "--name", "snapline-publication-00000077")[0] == 0


def test_the_lineage_of_a_snapshot_that_has_expired_is_told_by_its_number(run: Run, shop: Session) -> None:
    shop.table("shop.orders").overwrite(pa.table({"id": [9], "price": [1], "what": ["x"]}))
    shop.table("shop.orders").expire(retain_last=1)
    code, shown, said = run("lineage", "shop.orders@1", "--down")
    assert (code, shown) == (0, "shop.orders@1 (expired)\n└── shop.totals@1\n")
    assert said == "Snapshot shop.orders@1 is expired: this is what lineage knows of it.\n"
    code, shown, said = run("impact", "shop.orders@1")
    assert code == 0 and "shop.totals" in shown and "expired" in said
    code, shown, _ = run("recovery", "plan", "shop.orders@1")
    assert code == 0 and "shop.totals" in shown
    assert "Existing snapshot" in run("lineage", "shop.orders@77")[2]
    shop.catalog.drop_table("shop.orders")
    assert run("lineage", "shop.orders@1", "--down")[1].startswith("shop.orders@1 (dropped)\n")
