"""The statements of the documents on tags and on branches, with their placeholders filled in."""

from collections.abc import Callable
from typing import Any

import pytest

from storage import InvalidRequest, NotFound

pytestmark = pytest.mark.spark
Sql = Callable[[str], Any]


@pytest.fixture
def table(sql: Sql) -> Sql:
    """A table t with snapshots 1 to 3, tag-1 on the first, and a branch from it with a snapshot of its own."""
    sql("CREATE TABLE t (id INT PRIMARY KEY NOT ENFORCED, v STRING)")
    sql("INSERT INTO t VALUES (1, 'one')")
    sql("CALL sys.create_tag('t', 'tag-1', 1)")
    sql("INSERT INTO t VALUES (2, 'two'); INSERT INTO t VALUES (3, 'three')")
    sql("CALL sys.create_branch(table => 't', branch => 'branch-name', tag => 'tag-1')")
    sql("INSERT INTO `t$branch_branch-name` VALUES (9, 'nine')")
    return sql


def test_a_version_is_a_snapshot_a_tag_or_either_of_a_branch(table: Sql) -> None:
    def ids(of: str) -> list[int]:
        return sorted(row[0] for row in table(f"SELECT id FROM t {of}"))

    assert ids("VERSION AS OF 1") == [1]
    assert ids("VERSION AS OF 2") == [1, 2]
    assert ids("VERSION AS OF 'tag-1'") == [1]
    assert ids("VERSION AS OF tag-1") == [1]
    assert ids("VERSION AS OF branch-name.tag-1") == [1]
    assert ids("VERSION AS OF branch-name.2") == [1, 9]
    assert ids("/*+ OPTIONS('scan.tag-name'='tag-1') */") == [1]
    assert ids("/*+ OPTIONS('scan.snapshot-id'='2') */") == [1, 2]
    assert ids("/*+ OPTIONS('scan.branch'='branch-name') */") == [1, 9]
    assert ids("/*+ OPTIONS('scan.branch'='branch-name', 'scan.tag-name'='tag-1') */ AS x WHERE x.id > 0") == [1]
    assert ids("TIMESTAMP AS OF '2999-01-01 00:00:00'") == [1, 2, 3]
    assert sorted(table("SELECT a.id FROM t VERSION AS OF 1 a JOIN t VERSION AS OF 3 b ON a.id = b.id")) == [(1,)]


@pytest.mark.parametrize(
    ("of", "message"),
    [
        ("VERSION AS OF 77", "Existing snapshots: 1 to 3"),
        ("VERSION AS OF nope", "Existing tags: tag-1"),
        ("VERSION AS OF nope.1", "Existing branches: branch-name"),
        ("TIMESTAMP AS OF '1999-01-01'", "no snapshot or tag at or before"),
        ("/*+ OPTIONS('scan.branch'='nope') */", "Existing branches: branch-name"),
    ],
)
def test_a_version_that_does_not_exist_is_answered_by_those_that_do(table: Sql, of: str, message: str) -> None:
    with pytest.raises(NotFound, match=message):
        table(f"SELECT * FROM t {of}")


def test_the_system_tables(table: Sql) -> None:
    assert table("SELECT tag_name, snapshot_id, record_count FROM `t$tags`") == [("tag-1", 1, 1)]
    rows = table("SELECT branch_name, tag_name, tagged_snapshot_id FROM t$branches")
    assert rows == [("branch-name", "tag-1", 1)]
    assert table("SELECT max(snapshot_id) FROM `default`.`t$branch_branch-name$snapshots`") == [(2,)]


def test_the_actions_of_the_documents(table: Sql) -> None:
    assert table("SHOW TAGS t")[0][0] == "tag-1"
    with pytest.raises(InvalidRequest, match=r"only digits|purely numeric"):
        table("CALL sys.create_tag('t', '123')")
    assert table("CALL sys.branch_verdict('t', 'branch-name')")[0][0] == "diverged"
    table("CALL sys.rollback('t', 1)")
    table("CALL sys.merge_branch('t', 'branch-name')")
    assert sorted(table("SELECT id FROM t")) == [(1,), (9,)]
    table("INSERT INTO `t$branch_branch-name` VALUES (10, 'ten')")
    table("CALL sys.replace_main_branch('t', 'branch-name')")
    assert sorted(table("SELECT id FROM t")) == [(1,), (9,), (10,)]
    table(
        "CALL sys.create_branch('t', 'other'); CALL sys.delete_branch('t', 'other'); CALL sys.delete_tag('t', 'tag-1')"
    )
    assert table("SELECT * FROM t$branches") == []
    assert table("CALL sys.expire_snapshots(table => 't', retain_last => 1)").startswith("2 snapshots")
