"""UPDATE, DELETE and MERGE in SQL that meet others, and what their lineage says."""

from collections.abc import Callable
from typing import Any

import pytest

from lineage import sources_of
from resources import Session
from storage import CommitConflict
from storage.write.table_write import TableWrite

pytestmark = pytest.mark.parametrize("engine", ["duckdb"])
KEYS = ["PRIMARY KEY NOT ENFORCED", ""]


@pytest.fixture
def meanwhile(session: Session, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Runs statements after the next change has been computed, and before it is committed; `times` over."""

    def plan(text: str, times: int = 1) -> None:
        left = [text] * times
        real = TableWrite.prepare_commit
        nested = [False]

        def prepare(self: TableWrite) -> Any:
            message = real(self)
            if left and not nested[0]:
                nested[0] = True
                session.sql(left.pop(), "duckdb")
                nested[0] = False
            return message

        monkeypatch.setattr(TableWrite, "prepare_commit", prepare)

    return plan


@pytest.mark.parametrize("key", KEYS)
def test_a_merge_is_computed_from_what_another_has_made_and_says_so(
    sql: Callable[[str], Any], session: Session, meanwhile: Callable[..., None], key: str
) -> None:
    sql(f"CREATE TABLE t (id BIGINT {key}, v BIGINT); INSERT INTO t VALUES (1, 1), (2, 2)")
    add = "MERGE INTO t USING (SELECT 1 AS id) AS s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = t.v + 10"
    meanwhile(add)
    sql(add)
    assert sorted(sql("SELECT * FROM t")) == [(1, 21), (2, 2)]
    table = session.table("default.t")
    made_from = [[source.snapshot_id for source in sources_of(snapshot)] for snapshot in table.store.snapshots.all()]
    assert made_from == [[], [1], [2]]


@pytest.mark.parametrize("key", KEYS)
def test_a_source_that_is_the_table_itself_is_read_again(
    sql: Callable[[str], Any], meanwhile: Callable[..., None], key: str
) -> None:
    sql(f"CREATE TABLE t (id BIGINT {key}, v BIGINT); INSERT INTO t VALUES (1, 1), (2, 2)")
    add = "MERGE INTO t USING (SELECT id, v + 10 AS more FROM t) AS s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = s.more"
    meanwhile(add)
    sql(add)
    assert sorted(sql("SELECT * FROM t")) == [(1, 21), (2, 22)]


@pytest.mark.parametrize("key", KEYS)
def test_updates_and_deletes_see_what_came_meanwhile_to_their_rows(
    sql: Callable[[str], Any], session: Session, meanwhile: Callable[..., None], key: str
) -> None:
    sql(f"CREATE TABLE t (id BIGINT {key}, v BIGINT); INSERT INTO t VALUES (1, 1), (2, 2)")
    meanwhile("UPDATE t SET v = v + 10 WHERE id = 1")
    sql("UPDATE t SET v = v + 10 WHERE id < 3")
    assert sorted(sql("SELECT * FROM t")) == [(1, 21), (2, 12)]
    assert [source.snapshot_id for source in sources_of(session.table("default.t").snapshot())] == [2]
    meanwhile("UPDATE t SET v = 500 WHERE id = 1")
    sql("DELETE FROM t WHERE v IN (12, 21)")
    assert sorted(sql("SELECT * FROM t")) == [(1, 500)]


def test_a_statement_that_is_always_overtaken_says_so(
    sql: Callable[[str], Any], meanwhile: Callable[..., None]
) -> None:
    sql("CREATE TABLE t (id BIGINT PRIMARY KEY NOT ENFORCED, v BIGINT); INSERT INTO t VALUES (1, 1)")
    meanwhile("UPDATE t SET v = v + 1 WHERE id = 1", times=20)
    with pytest.raises(CommitConflict, match="computed 10 times"):
        sql("UPDATE t SET v = 100 WHERE id = 1")
    assert sql("SELECT v FROM t") == [(11,)]
