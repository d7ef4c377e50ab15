"""The statements of the document on tags, with its placeholders filled in."""

from collections.abc import Callable
from typing import Any

import pytest

from storage import InvalidRequest, NotFound

pytestmark = pytest.mark.spark
Sql = Callable[[str], Any]


@pytest.fixture
def table(sql: Sql) -> Sql:
    """A table t with snapshots 1 to 3, of which the first is tag-1."""
    sql("CREATE TABLE t (id INT PRIMARY KEY NOT ENFORCED, v STRING)")
    sql("INSERT INTO t VALUES (1, 'one')")
    sql("CALL sys.create_tag('t', 'tag-1', 1)")
    sql("INSERT INTO t VALUES (2, 'two'); INSERT INTO t VALUES (3, 'three')")
    return sql


def test_a_version_is_a_snapshot_a_tag_or_a_time(table: Sql) -> None:
    def ids(of: str) -> list[int]:
        return sorted(row[0] for row in table(f"SELECT id FROM t {of}"))

    assert ids("VERSION AS OF 1") == [1]
    assert ids("VERSION AS OF 2") == [1, 2]
    assert ids("VERSION AS OF 'tag-1'") == [1]
    assert ids("VERSION AS OF tag-1") == [1]
    assert ids("/*+ OPTIONS('scan.tag-name'='tag-1') */") == [1]
    assert ids("/*+ OPTIONS('scan.snapshot-id'='2') */") == [1, 2]
    assert ids("TIMESTAMP AS OF '2999-01-01 00:00:00'") == [1, 2, 3]
    assert ids("/*+ OPTIONS('scan.timestamp'='2999-01-01') */") == [1, 2, 3]
    assert sorted(table("SELECT a.id FROM t VERSION AS OF 1 a JOIN t VERSION AS OF 3 b ON a.id = b.id")) == [(1,)]


@pytest.mark.parametrize(
    ("of", "message"),
    [
        ("VERSION AS OF 77", "Existing snapshots: 1 to 3"),
        ("VERSION AS OF nope", "Existing tags: tag-1"),
        ("TIMESTAMP AS OF '1999-01-01'", "no snapshot or tag at or before"),
    ],
)
def test_a_version_that_does_not_exist_is_answered_by_those_that_do(table: Sql, of: str, message: str) -> None:
    with pytest.raises(NotFound, match=message):
        table(f"SELECT * FROM t {of}")


def test_tags_are_listed_renamed_replaced_and_deleted(table: Sql) -> None:
    assert table("SELECT tag_name, snapshot_id, record_count FROM `t$tags`") == [("tag-1", 1, 1)]
    assert table("SHOW TAGS t")[0][0] == "tag-1"
    table(
        "CALL sys.rename_tag('t', 'tag-1', 'first'); CALL sys.replace_tag(table => 't', tag => 'first', snapshot_id => 2)"
    )
    assert table("SELECT tag_name, snapshot_id FROM `t$tags`") == [("first", 2)]
    with pytest.raises(InvalidRequest, match="purely numeric"):
        table("CALL sys.create_tag('t', '123')")
    table("CALL sys.delete_tag('t', 'first')")
    assert table("SHOW TAGS t") == []


def test_a_tag_outlives_its_snapshot_and_is_rolled_back_to(table: Sql) -> None:
    assert table("CALL sys.expire_snapshots(table => 't', retain_last => 1)").startswith("Deleted 2 snapshots")
    assert table("SELECT id FROM t VERSION AS OF 1") == [(1,)]
    table("CALL sys.rollback('t', 'tag-1')")
    assert table("SELECT id FROM t") == [(1,)]
