"""ANALYZE TABLE, by SQL, and what other readers and cleaning make of its file."""

import datetime as dt
import json
from collections.abc import Callable
from typing import Any

import pytest

from resources import Session
from storage import InvalidRequest, Table

Sql = Callable[[str], Any]


def statistics(table: Table) -> dict[str, Any]:
    (row,) = table.system_table("statistics").to_pylist()
    return {**row, "colstat": json.loads(row["colstat"])}


@pytest.mark.spark
def test_analyze_writes_statistics_that_a_snapshot_names(sql: Sql, session: Session) -> None:
    sql("CREATE TABLE t (k INT PRIMARY KEY NOT ENFORCED, `a.b` STRING, many ARRAY<INT>)")
    assert "nothing to analyze" in sql("ANALYZE TABLE t COMPUTE STATISTICS")
    sql("INSERT INTO t VALUES (1, 'x', NULL), (2, NULL, NULL); INSERT INTO t VALUES (2, 'yyy', NULL)")
    sql("ANALYZE TABLE t COMPUTE STATISTICS")
    table = session.catalog.table("default.t")
    table_statistics = statistics(table)
    assert (table_statistics["snapshot_id"], table_statistics["mergedRecordCount"], table_statistics["colstat"]) == (
        2,
        2,
        {},
    )
    newest = table.store.snapshots.latest()
    assert newest is not None and newest.commit_kind == "ANALYZE" and not newest.changes_rows
    sql("ANALYZE TABLE t COMPUTE STATISTICS FOR COLUMNS K, `a.b`")
    assert set(statistics(table)["colstat"]) == {"k", "a.b"}
    assert statistics(table)["colstat"]["a.b"]["maxLen"] == 3
    sql("ANALYZE TABLE default.t COMPUTE STATISTICS FOR ALL COLUMNS")
    assert set(statistics(table)["colstat"]) == {"k", "a.b"}
    with pytest.raises(InvalidRequest, match="no statistics of such a column"):
        sql("ANALYZE TABLE t COMPUTE STATISTICS FOR COLUMNS many")
    assert sql("SELECT k, `a.b` FROM t ORDER BY k") == [(1, "x"), (2, "yyy")]
    assert len(sql("SELECT * FROM `t$statistics`")) == 1
    # Cleaning leaves the files that snapshots name, and takes the others.
    table.expire(retain_last=1)
    table.remove_orphan_files(older_than=dt.timedelta(0), no_writers=True)
    assert len(statistics(table)["colstat"]) == 2
    assert len(table.store.file_io.list_files(f"{table.store.paths.root}/statistics")) == 1
    assert table.check(deep=True) == []
    # Other columns, other statistics.
    sql("ALTER TABLE t ADD COLUMN z INT; INSERT INTO t VALUES (3, 'z', NULL, 1)")
    assert session.catalog.table("default.t").system_table("statistics").num_rows == 0
