"""The statements of the document on branches, with its placeholders filled in."""

from collections.abc import Callable
from typing import Any

import pytest

from storage import CommitConflict, NotFound

pytestmark = pytest.mark.spark
Sql = Callable[[str], Any]


@pytest.fixture
def table(sql: Sql) -> Sql:
    """A table t with two snapshots, of which the first is tag-name, and a branch from it with a snapshot of its own."""
    sql("CREATE TABLE t (id INT PRIMARY KEY NOT ENFORCED, v STRING)")
    sql("INSERT INTO t VALUES (1, 'one'); CALL sys.create_tag('t', 'tag-name', 1)")
    sql("CALL sys.create_branch(table => 't', branch => 'branch-name', tag => 'tag-name')")
    sql("INSERT INTO t VALUES (2, 'two'); INSERT INTO `t$branch_branch-name` VALUES (9, 'nine')")
    return sql


def test_a_version_names_a_tag_or_a_snapshot_of_a_branch(table: Sql) -> None:
    def ids(of: str) -> list[int]:
        return sorted(row[0] for row in table(f"SELECT id FROM t {of}"))

    assert ids("VERSION AS OF branch-name.tag-name") == [1]
    assert ids("VERSION AS OF branch-name.2") == [1, 9]
    assert ids("/*+ OPTIONS('scan.branch'='branch-name') */") == [1, 9]
    assert ids("/*+ OPTIONS('scan.branch'='branch-name', 'scan.tag-name'='tag-name') */ AS x WHERE x.id > 0") == [1]
    assert sorted(table("SELECT id FROM `t$branch_branch-name`")) == [(1,), (9,)]
    with pytest.raises(NotFound, match="Existing branches: branch-name"):
        table("SELECT * FROM t VERSION AS OF nope.1")
    with pytest.raises(NotFound, match="Existing branches: branch-name"):
        table("SELECT * FROM t /*+ OPTIONS('scan.branch'='nope') */")


def test_branches_are_listed_with_what_they_began_at(table: Sql) -> None:
    rows = table("SELECT branch_name, tag_name, tagged_snapshot_id FROM t$branches")
    assert rows == [("branch-name", "tag-name", 1)]
    assert table("SELECT max(snapshot_id) FROM `default`.`t$branch_branch-name$snapshots`") == [(2,)]


def test_columns_of_a_branch_are_its_own_until_it_is_merged(table: Sql) -> None:
    table("ALTER TABLE `t$branch_branch-name` ADD COLUMN why STRING")
    table("INSERT INTO `t$branch_branch-name` VALUES (10, 'ten', 'because')")
    assert len(table("DESCRIBE t")) == 2
    assert table("CALL sys.branch_verdict('t', 'branch-name')")[0][0] == "diverged"
    with pytest.raises(CommitConflict, match="diverged"):
        table("CALL sys.merge_branch('t', 'branch-name')")
    table("CALL sys.merge_branch('t', 'branch-name', TRUE)")
    assert sorted(table("SELECT id, why FROM t")) == [(1, None), (9, None), (10, "because")]


def test_main_is_replaced_and_branches_are_deleted(table: Sql) -> None:
    table("CALL sys.rollback('t', 1)")
    table("CALL sys.replace_main_branch('t', 'branch-name')")
    assert sorted(table("SELECT id FROM t")) == [(1,), (9,)]
    table("CALL sys.create_branch('t', 'other'); CALL sys.delete_branch('t', 'other')")
    assert table("SELECT * FROM t$branches") == []


def test_several_tables_are_branched_and_published(table: Sql) -> None:
    table("CREATE TABLE u (id INT); INSERT INTO u VALUES (1)")
    table("CALL sys.create_branches('t, u', 'both')")
    table("INSERT INTO `t$branch_both` VALUES (7, 'seven'); INSERT INTO `u$branch_both` VALUES (7)")
    assert len(table("CALL sys.publish_branches(ARRAY('t', 'u'), 'both')")) == 2
    assert table("SELECT count(*) FROM t JOIN u ON t.id = u.id") == [(2,)]
    assert table("CALL sys.recover_branches()") == []
