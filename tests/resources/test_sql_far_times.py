"""Changes by SQL on machines whose clocks show years far away."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from resources import Session
from storage import Clock


@pytest.mark.parametrize("year", [1500, 2248, 2300, 9000])
def test_changes_are_made_in_any_year_of_the_calendar(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, year: int
) -> None:
    monkeypatch.setenv("SNAPLINE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SNAPLINE_WAREHOUSE", str(tmp_path / "warehouse"))
    monkeypatch.setattr(Clock, "now_ms", lambda self: int(datetime(year, 7, 1, tzinfo=UTC).timestamp() * 1000))
    session = Session()
    session.sql("CREATE TABLE t (id INT PRIMARY KEY NOT ENFORCED, n INT)", "duckdb")
    for statement in (
        "INSERT INTO t VALUES (1, 1), (2, 2)",
        "INSERT INTO t VALUES (3, 3)",
        "UPDATE t SET n = 9 WHERE id = 1",
        "DELETE FROM t WHERE id = 2",
    ):
        session.sql(statement, "duckdb")
    table = session.table("default.t")
    assert sorted(table.to_arrow().to_pydict()["n"]) == [3, 9]
    assert len({snapshot.commit_identifier for snapshot in table.snapshots.all()}) == 4
