"""What the SQL of a session remembers, streams, assets made by SQL, and the shell."""

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from rich.console import Console

from resources import Session
from resources.cli import main
from resources.cli.shell import completions, run_shell
from storage import CommitId, InvalidRequest


@pytest.mark.spark
def test_a_stream_counts_words_and_each_micro_batch_knows_what_it_read(session: Session) -> None:
    session.sql(
        "CREATE TABLE words (word STRING); CREATE TABLE counts (word STRING PRIMARY KEY NOT ENFORCED, cnt BIGINT)"
    )
    for text in ("('a'), ('b')", "('a')", "('c')"):
        session.sql(f"INSERT INTO words VALUES {text}", "duckdb")
    session.sql("SET 'execution.runtime-mode' = 'streaming'")
    insert = "INSERT INTO counts SELECT word, count(*) FROM words GROUP BY word"
    with pytest.raises(InvalidRequest, match=r"pipeline\.name"):
        session.sql(insert)
    session.sql("SET 'pipeline.name' = 'job1'")

    def run() -> None:
        stream = session.sql(insert).stream
        assert stream is not None
        stream.awaitTermination()

    run()
    counts = session.table("default.counts")
    assert sorted(map(tuple, (row.values() for row in counts.to_arrow().to_pylist()))) == [("a", 2), ("b", 1), ("c", 1)]
    # One snapshot of the words in each micro-batch.
    made_from = []
    for snapshot in counts.store.snapshots.all():
        ref = counts.ref(snapshot.id)
        assert ref is not None
        if snapshot.commit_user == "job1" and snapshot.commit_kind == "APPEND":
            made_from.append([str(source) for source in session.lineage(ref, "up", hops=1).snapshots])
    assert made_from[0] == ["default.words@3"] or made_from == [
        ["default.words@1"],
        ["default.words@2"],
        ["default.words@3"],
    ]
    before = counts.snapshot()
    run()
    assert counts.snapshot() == before
    session.sql("SET 'execution.runtime-mode' = 'batch'; INSERT INTO words VALUES ('c')", "duckdb")
    session.sql("SET 'execution.runtime-mode' = 'streaming'")
    run()
    assert ("c", 2) in [tuple(row.values()) for row in counts.to_arrow().to_pylist()]
    latest = counts.ref()
    assert latest is not None
    assert [str(source) for source in session.lineage(latest, "up", hops=1).snapshots] == ["default.words@4"]
    rows = session.sql("SELECT `table` FROM paimon.source_job_lineage WHERE job = 'job1'").to_arrow().to_pylist()
    assert rows == [{"table": "words"}]


@pytest.mark.spark
@pytest.mark.dagster
def test_an_asset_is_made_by_sql_at_the_versions_of_its_run(session: Session, materialize: Callable[..., Any]) -> None:
    import dagster as dg

    from resources import TableDefinition, TablesResource

    raw = session.catalog.create_table("raw.orders", pa.schema([("id", pa.int64()), ("price", pa.int64())]))
    raw.write(pa.table({"id": [1, 2], "price": [10, 20]}))

    @dg.asset(key=["mart", "total"])
    def total(context: dg.AssetExecutionContext, tables: TablesResource) -> dg.MaterializeResult:
        tables.pin(context, "raw.orders")
        raw.write(pa.table({"id": [3], "price": [1000]}))
        rows = tables.sql(context, "SELECT count(*) AS n, sum(price) AS price FROM raw.orders WHERE price > 5")
        return tables.write(context, rows, TableDefinition("mart.total"))

    assert materialize(total).success
    made = session.table("mart.total")
    assert made.to_arrow().to_pylist() == [{"n": 2, "price": 30}]
    ref = made.ref()
    assert ref is not None
    assert [str(source) for source in session.lineage(ref, "up").snapshots] == ["raw.orders@1"]


def test_a_repeated_select_reads_each_table_at_one_snapshot(session: Session) -> None:
    session.sql("CREATE TABLE t (id INT); INSERT INTO t VALUES (1)", "duckdb")
    rows = session.sql("SELECT a.id FROM t a JOIN t b ON a.id = b.id UNION ALL SELECT max(id) FROM t", "duckdb")
    assert rows.to_arrow().column(0).to_pylist() == [1, 1]
    assert session.sql("SHOW CURRENT CATALOG", "duckdb").to_arrow().to_pylist() == [{"catalog": "snapline"}]
    with pytest.raises(InvalidRequest, match="Engine 'flink'"):
        session.sql("SELECT 1", "flink")


def test_nothing_runs_unless_all_statements_can_be_parsed(session: Session) -> None:
    with pytest.raises(InvalidRequest, match="line 2, column 1"):
        session.sql("CREATE TABLE t (id INT);\nSELEC 1", "duckdb")
    assert session.catalog.tables() == []


@pytest.fixture
def run(
    session: Session, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str]]:
    def run(*arguments: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["snapline", "sql", "--engine", "duckdb", *arguments])
        with pytest.raises(SystemExit) as stopped:
            main()
        said = capsys.readouterr()
        return int(stopped.value.code or 0), said.out + said.err

    return run


def test_statements_come_from_the_command_line_a_file_or_standard_input(
    run: Callable[..., tuple[int, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "make.sql"
    script.write_text("-- two tables\nCREATE TABLE a (id INT);\nINSERT INTO a VALUES (1), (2);\n")
    assert run("-f", str(script)) == (
        0,
        "Created table default.a.\nSnapshot 1 of default.a: 2 rows in 1 file added, 0 files replaced.\n",
    )
    code, said = run("--format", "json", "SELECT id FROM a ORDER BY id")
    assert code == 0 and json.loads(said) == [{"id": 1}, {"id": 2}]
    monkeypatch.setattr("sys.stdin", io.StringIO("SELECT count(*) AS n FROM a"))
    assert run("--format", "csv") == (0, "n\n2\n")
    assert run("-f", str(script), "SELECT 1")[0] == 2


def test_the_shell_goes_on_after_an_error(session: Session, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    lines = iter(
        ["CREATE TABLE t", "(id INT);", "SELECT nope FROM t;", "INSERT INTO t VALUES (5);", "SELECT id FROM t;", "exit"]
    )
    monkeypatch.setattr("builtins.input", lambda _: next(lines))
    said = io.StringIO()
    console = Console(file=said, width=200)
    run_shell(session.statements, "duckdb", "table", console, tmp_path / "history")
    assert "Created table default.t." in said.getvalue()
    assert "There is no column 'nope'" in said.getvalue()
    assert "Snapshot 1" in said.getvalue()
    tags = ["sys.create_tag(", "sys.create_tag_from_timestamp(", "sys.create_tag_from_watermark("]
    assert completions(session.statements, "sys.create_t") == tags
    assert {"default.t", "id", "t"} <= set(completions(session.statements, ""))


def test_a_commit_of_sql_stands_beside_others(session: Session) -> None:
    session.sql("CREATE TABLE t (id INT)", "duckdb")
    session.table("default.t").write(pa.table({"id": pa.array([1], pa.int32())}), commit_id=CommitId("nightly", 1))
    session.sql("SET 'pipeline.name' = 'nightly'; INSERT INTO t VALUES (2)", "duckdb")
    assert session.table("default.t").count() == 2
