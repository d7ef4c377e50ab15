"""A statement that changes a table and reads it in a query sees rows that no compaction has lifted yet."""

from collections.abc import Callable
from typing import Any

import pytest

Run = Callable[[str], Any]
CHANGES = {
    "update": "UPDATE t SET v = v + 10 WHERE k = 1",
    "update by a query": "UPDATE t SET v = (SELECT max(v) + 10 FROM t WHERE k = 1) WHERE k = 1",
    "replace": "INSERT INTO t REPLACE WHERE k = 1 SELECT k, v + 10 FROM t WHERE k = 1",
    "merge": "MERGE INTO t USING (SELECT k, v + 10 AS v FROM t WHERE k = 1) x ON t.k = x.k WHEN MATCHED THEN UPDATE SET v = x.v",
    "insert": "INSERT INTO t SELECT k, v + 10 FROM t WHERE k = 1",
    "overwrite": "INSERT OVERWRITE t SELECT k, v + 10 FROM t WHERE k = 1",
    "replace the table": (
        "CREATE OR REPLACE TABLE t (PRIMARY KEY (k) NOT ENFORCED) WITH ({options}) AS "
        "SELECT k, v + 10 AS v FROM t WHERE k = 1"
    ),
    "through a view": "INSERT OVERWRITE t SELECT k, v + 10 FROM seen WHERE k = 1",
    "delete": "DELETE FROM t WHERE v < (SELECT max(v) FROM t)",
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "options",
    [{"deletion-vectors.enabled": "true"}, {"changelog-producer": "lookup"}, {"bucket": "-2"}],
    ids=["vectors", "lookup", "postponed"],
)
@pytest.mark.parametrize("change", CHANGES)
def test_what_was_written_before_is_read(change: str, options: dict[str, str], sql: Run, session: Any) -> None:
    settings = {"bucket": "1", "write-only": "true", **options}
    texts = ", ".join(f"'{key}' = '{value}'" for key, value in settings.items())
    sql(f"CREATE TABLE t (k BIGINT, v BIGINT, PRIMARY KEY (k) NOT ENFORCED) WITH ({texts})")
    sql("CREATE VIEW seen AS SELECT k, v FROM t")
    sql("INSERT INTO t VALUES (1, 0), (2, 0)")
    table = session.table("default.t")
    table.compact()
    sql("UPDATE t SET v = v + 10 WHERE k = 1")
    sql(CHANGES[change].format(options=texts))
    session.table("default.t").compact()
    rows = {row["k"]: row["v"] for row in session.table("default.t").to_arrow().to_pylist()}
    assert rows[1] == (10 if change == "delete" else 20)
    assert (2 in rows) == (change not in ("overwrite", "replace the table", "through a view", "delete"))
