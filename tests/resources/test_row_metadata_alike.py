"""Metadata of rows after random histories: Arrow, DuckDB and Spark tell the same, of tables, versions, tags and branches."""

import random
from collections.abc import Callable
from typing import Any

import pytest

from resources import Session
from storage import METADATA_COLUMNS, Table
from tests.resources.sql_runner import runner
from tests.storage.row_histories import KEYED, PLAIN, SCHEMA, History, check, settle

pytestmark = [pytest.mark.spark, pytest.mark.pypaimon_differs("It merges all levels where compactions look up.")]
NAMES = ", ".join(METADATA_COLUMNS)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "kind", ["deduplicate", "partial-update", "aggregation lookup", "first-row", "deletion vectors", "append vectors"]
)
def test_engines_tell_the_same(kind: str, session: Session) -> None:
    key, dice = kind in KEYED, random.Random(kind)
    layout: dict[str, Any] = {"primary_key": ["k", "p"]} if key else {}
    options = {"bucket": "2" if key else "-1", "num-sorted-run.compaction-trigger": "3"} | (KEYED | PLAIN)[kind]
    table = session.catalog.create_table("default.t", SCHEMA, options=options, partition_by=["p"], **layout)
    history = History(table, dice, key=key)
    history.write()
    for _ in range(14):
        history.step()
        settle(table)
        latest = table.snapshot()
        assert latest is not None
        history.states[latest.id] = dict(history.rows)
    history.branch()
    check(table, history.rows)
    check(table.on_branch("b"), history.of_branch)
    version = dice.choice(sorted(history.states))
    tag = next(iter(history.tags))
    versions: list[tuple[str, Table]] = [
        ("t", table),
        (f"t VERSION AS OF {version}", table.at(version)),
        (f"t VERSION AS OF '{tag}'", table.at(tag)),
        ("`t$branch_b`", table.on_branch("b")),
    ]
    for engine in ("duckdb", "spark"):
        run = runner(session, engine)
        for name, held in versions:
            _compare(run, name, held)


def _compare(run: Callable[[str], Any], name: str, held: Table) -> None:
    expected = held.to_arrow(columns=["k", *METADATA_COLUMNS]).to_pylist()
    rows = sorted(tuple(row.values()) for row in expected)
    assert sorted(run(f"SELECT k, {NAMES} FROM {name}")) == rows, name
    jobs = {row["job"] for row in expected}
    counted = {job: sum(row["job"] == job for row in expected) for job in jobs}
    assert dict(run(f"SELECT job, count(*) FROM {name} GROUP BY job")) == counted, name
    job = max(filter(None, jobs), default="none")
    assert run(f"SELECT count(*) FROM {name} WHERE job = '{job}' AND v >= 0 AND p = 'a'") == [
        (sum(row["job"] == job and row["partition"] == "p=a" for row in expected),)
    ], name
