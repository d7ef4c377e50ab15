"""UPDATE and MERGE by several processes at once: what each was told is what the tables hold, every effect once."""

import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from resources import Session

ROOT = Path(__file__).parent.parent.parent
_STATEMENTS = (
    "UPDATE d.{table} SET v = v + 1 WHERE id = 1",
    "MERGE INTO d.{table} AS t USING (SELECT 1 AS id) AS s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = t.v + 1",
    "UPDATE d.{table} SET v = v + 1 WHERE id = 1",
    "MERGE INTO d.{table} AS t USING (SELECT {number} AS id, 1 AS v) AS s ON t.id = s.id "
    "WHEN MATCHED THEN UPDATE SET v = t.v + s.v WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, s.v)",
)


@pytest.mark.parametrize("engine", ["duckdb", pytest.param("spark", marks=pytest.mark.spark)])
def test_every_statement_that_is_acknowledged_has_its_effect_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    monkeypatch.setenv("SNAPLINE_HOME", str(tmp_path / "home"))
    with closing(Session()) as session:
        session.sql("CREATE DATABASE d; CREATE TABLE d.plain (id INT, v INT)", "duckdb")
        session.sql(
            "CREATE TABLE d.keyed (id INT, v INT) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1')", "duckdb"
        )
        session.sql("INSERT INTO d.plain VALUES (1, 0); INSERT INTO d.keyed VALUES (1, 0)", "duckdb")
    ready = tmp_path / "ready"
    ready.mkdir()
    tables = ("keyed", "plain")
    workers = []
    for number in (10, 11):
        texts = [text.format(table=table, number=number) for text in _STATEMENTS for table in tables]
        command = [sys.executable, "-m", "tests.crash.sql_worker", engine, str(ready), str(number), "2", *texts]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        workers.append(subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True))
    try:
        answers = [worker.communicate(timeout=500)[0].split() for worker in workers]
    finally:
        for worker in workers:
            worker.kill()
    assert [worker.returncode for worker in workers] == [0, 0]
    assert all(len(each) == len(_STATEMENTS) * len(tables) for each in answers)
    with closing(Session()) as session:
        for position, table in enumerate(tables):
            table_answers = [each[position :: len(tables)] for each in answers]
            expected = {1: sum(each[:3].count("done") for each in table_answers)}
            expected |= {10 + index: 1 for index, each in enumerate(table_answers) if each[3] == "done"}
            rows = session.table(f"d.{table}").to_arrow().to_pylist()
            assert {row["id"]: row["v"] for row in rows} == expected
            assert len(rows) == len(expected)
            assert session.table(f"d.{table}").check(deep=True) == []
