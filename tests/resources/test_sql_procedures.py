"""Procedures by Paimon's names and parameters."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from resources.sql.procedures import known_procedures
from storage import InvalidRequest, NotFound, StorageError, Unsupported

pytestmark = pytest.mark.spark
Sql = Callable[[str], Any]
# Of the Spark and the Flink connector of Paimon 1.4.2.
OF_PAIMON = """
    rollback rollback_to_timestamp rollback_to_watermark purge_files create_tag replace_tag rename_tag delete_tag expire_tags
    create_branch create_global_index drop_global_index delete_branch rename_branch compact compact_database rescale
    migrate_database migrate_table remove_orphan_files remove_unexisting_files expire_snapshots expire_partitions repair
    fast_forward reset_consumer mark_partition_done compact_manifest clear_consumers alter_view_dialect create_function
    alter_function drop_function rewrite_file_index copy clone copy_files create_privileged_user create_tag_from_timestamp
    create_tag_from_watermark data_evolution_merge_into drop_partition drop_privileged_user grant_privilege_to_user
    init_file_based_privilege merge_into query_service remove_unexisting_manifests revoke_privilege_from_user rollback_to
    trigger_tag_automatic_creation vector_search
"""


@pytest.fixture
def table(sql: Sql) -> Sql:
    """A table t of two partitions with snapshots 1 to 3."""
    sql("CREATE TABLE t (day STRING, id INT, PRIMARY KEY (day, id) NOT ENFORCED) PARTITIONED BY (day)")
    for number, day in enumerate(("a", "b", "a")):
        sql(f"INSERT INTO t VALUES ('{day}', {number})")
    return sql


def ids(sql: Sql, of: str = "t") -> list[int]:
    return sorted(row[0] for row in sql(f"SELECT id FROM {of}"))


def test_a_procedure_of_another_catalog_reaches_its_tables(table: Sql, tmp_path: Path) -> None:
    table(f"CREATE CATALOG other WITH ('warehouse' = '{tmp_path / 'other'}')")
    table("USE other.default; CREATE TABLE u (id INT); INSERT INTO u VALUES (1)")
    table("USE snapline.default")
    assert table("SELECT current_catalog() AS c, current_database() AS d") == [("snapline", "default")]
    for name in ("u", "default.u", "other.default.u"):
        table(f"CALL other.sys.create_tag('{name}', 'tag_{len(name)}')")
    assert table("SELECT count(*) FROM other.default.`u$tags`") == [(3,)]
    table("USE other.default; CALL snapline.sys.create_tag(table => 't', tag => 'first')")
    assert table("SELECT tag_name FROM snapline.default.`t$tags`") == [("first",)]
    with pytest.raises(NotFound, match=r"Catalog 'nope' does not exist\. Catalogs: snapline, other"):
        table("CALL nope.sys.create_tag('t', 'x')")
    # A table of the same name in the current catalog is another one.
    table("CREATE TABLE t (id INT)")
    with pytest.raises(InvalidRequest, match=r"CALL snapline.sys.… reaches its tables"):
        table("CALL sys.drop_table('snapline.default.t')")
    assert table("SHOW TABLES") == [("t",), ("u",)]
    table("CALL snapline.sys.drop_table('snapline.default.t')")
    assert table("SHOW TABLES IN snapline.default") == []
    assert len(table("SHOW TABLES")) == 2


@pytest.mark.parametrize("engine", ["duckdb"])
def test_use_takes_a_catalog_and_a_database(sql: Sql) -> None:
    sql("CREATE DATABASE one")
    for statement in ("USE snapline.one", "USE DATABASE snapline.one", "USE CATALOG snapline; USE one"):
        sql(statement)
        assert sql("SELECT current_database() AS d") == [("one",)]
        sql("USE default")
    for statement, message in (
        ("USE nope.default", "Catalog 'nope' does not exist"),
        ("USE snapline.nope", "Database 'nope' does not exist. Databases: default"),
        ("USE a.b.c", "has no place behind 'c'"),
    ):
        with pytest.raises(StorageError, match=message):
            sql(statement)


def test_every_procedure_of_paimon_is_carried_out_or_refused_by_name(sql: Sql) -> None:
    assert set(OF_PAIMON.split()) <= set(known_procedures())
    for name in ("purge_files", "rename_branch", "migrate_table", "create_global_index"):
        with pytest.raises(Unsupported, match=rf"CALL sys\.{name}: \w"):
            sql(f"CALL sys.{name}('t')")
    with pytest.raises(InvalidRequest, match=r"Did you mean sys\.rollback_to"):
        sql("CALL sys.rolback_to('t', 'x')")


def test_an_argument_without_a_name_comes_first(table: Sql) -> None:
    with pytest.raises(InvalidRequest, match="argument 3 has no name and comes behind one that has"):
        table("CALL sys.create_tag('t', tag => 'late', 1)")


def test_tags_by_paimons_parameters(table: Sql) -> None:
    table("CALL sys.create_tag(table => 't', tag => 'first', snapshot => 1)")
    table("CALL sys.create_tag_from_timestamp(table => 't', tag => 'early', `timestamp` => 0)")
    assert table("SELECT tag_name, snapshot_id FROM `t$tags` ORDER BY 1") == [("early", 1), ("first", 1)]
    with pytest.raises(NotFound, match="no snapshot at 2999-01-01"):
        table("CALL sys.create_tag_from_timestamp('t', 'late', '2999-01-01')")
    with pytest.raises(NotFound, match="watermark"):
        table("CALL sys.create_tag_from_watermark('t', 'late', 5)")
    with pytest.raises(NotFound, match="watermark"):
        table("CALL sys.rollback_to_watermark('t', 5)")
    assert "no tag due" in table("CALL sys.trigger_tag_automatic_creation('t')")
    table("CALL sys.delete_tag('t', 'first,early')")
    assert table("SHOW TAGS t") == []


def test_several_branches_are_deleted_by_commas(table: Sql) -> None:
    for name in ("b1", "b2", "b3"):
        table(f"CALL sys.create_branch('t', '{name}')")
    with pytest.raises(NotFound, match="Branch 'nope' does not exist"):
        table("CALL sys.delete_branch('t', 'b1,nope')")
    assert len(table("SHOW BRANCHES t")) == 3
    assert "Deleted branches b1, b2" in table("CALL sys.delete_branch(table => 't', branch => 'b1, b2')")
    assert [row[0] for row in table("SHOW BRANCHES t")] == ["b3"]


def test_rollbacks_by_paimons_parameters(table: Sql) -> None:
    table("CALL sys.create_tag('t', 'first', 1)")
    table("CALL sys.rollback(table => 't', snapshot => 2)")
    assert ids(table) == [0, 1]
    table("CALL sys.rollback_to(table => 't', tag => 'first')")
    assert ids(table) == [0]
    with pytest.raises(InvalidRequest, match="one of version, snapshot, tag, timestamp and watermark"):
        table("CALL sys.rollback(table => 't', snapshot => 2, tag => 'first')")


def test_upkeep_by_paimons_parameters(table: Sql) -> None:
    assert "compacted" in table(
        "CALL sys.compact(table => 't', partitions => 'day=a;day=b', compact_strategy => 'full')"
    )
    with pytest.raises(InvalidRequest, match="full or minor"):
        table("CALL sys.compact(table => 't', compact_strategy => 'some')")
    with pytest.raises(Unsupported, match="'order_by': rows are not sorted"):
        table("CALL sys.compact(table => 't', order_by => 'id')")
    table("CREATE TABLE u (id INT)")
    rows = table("CALL sys.compact_database(including_tables => '.*\\.[tu]', excluding_tables => '.*\\.u')")
    assert [name for name, _ in rows] == ["default.t"]
    assert table("CALL sys.expire_snapshots(table => 't', retain_max => 3, dry_run => TRUE)").startswith(
        "Would delete 2 snapshots"
    )
    said = table("CALL sys.expire_snapshots(table => 't', retain_min => 4, older_than => '2999-01-01 00:00:00')")
    assert said.startswith("Deleted 1 snapshot")
    assert table(
        "CALL sys.expire_snapshots(table => 't', retain_max => 2, retain_min => 1, older_than => '1 d')"
    ).startswith("Deleted 2 ")
    assert (
        table("CALL sys.remove_orphan_files(table => 't', older_than => '2020-01-01 00:00:00', parallelism => 4)") == []
    )
    assert table("CALL sys.remove_orphan_files(table => 'default.*', dry_run => TRUE, mode => 'local')") == []
    for wrong in ("mode => 'nonsense'", "parallelism => 'x'", "parallelism => -3"):
        with pytest.raises(InvalidRequest, match=f"'{wrong.split()[0]}' = "):
            table(f"CALL sys.remove_orphan_files(table => 't', {wrong})")
    assert table("CALL sys.mark_partition_done('t', 'day=a;day=b')") == "Marked day=a, day=b of t as done."
    assert "Dropped day=a of t, by snapshot" in table("CALL sys.drop_partition('t', 'day=a')")
    assert ids(table) == [1]
    assert table("CALL sys.clear_consumers(table => 't', includingConsumers => 'x.*')") == []
    table("CALL sys.create_branch(table => 't', branch => 'b')")
    assert "already" in table("CALL sys.create_branch(table => 't', branch => 'b', ignoreIfExists => TRUE)")
