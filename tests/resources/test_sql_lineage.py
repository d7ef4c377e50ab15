"""The statements of the lineage document, with its placeholders filled in."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from resources import Session
from storage import InvalidRequest, NotFound

pytestmark = pytest.mark.spark
Sql = Callable[[str], Any]


@pytest.fixture
def words(sql: Sql, tmp_path: Path) -> Sql:
    """The document's catalog, tables and job: snapshots 1 and 2 of the words made snapshots 1 and 2 of the counts."""
    sql(
        f"""
        CREATE CATALOG my_catalog WITH (
            'type' = 'paimon',
            'warehouse' = '{tmp_path / "words"}',
            'table-lineage' = 'true',
            'data-lineage' = 'true'
        );
        USE CATALOG my_catalog;
        CREATE TABLE word_table (word STRING);
        CREATE TABLE word_count_table (word STRING PRIMARY KEY NOT ENFORCED, cnt BIGINT);
        INSERT INTO word_table VALUES ('to'), ('be'), ('or'), ('not'), ('to'), ('be');
        SET 'pipeline.name'='job1';
        """
    )
    count = "INSERT INTO word_count_table SELECT word, count(*) FROM word_table GROUP BY word"
    sql(count)
    sql("RESET 'pipeline.name'; INSERT INTO word_table VALUES ('be'); SET 'pipeline.name'='job1'")
    sql(count)
    return sql


def test_the_options_of_the_catalog(words: Sql) -> None:
    assert sorted(words("SELECT * FROM paimon.catalog_options")) == [
        ("data-lineage", "true"),
        ("table-lineage", "true"),
    ]


def test_a_word_count_is_debugged_by_reading_its_source_again(words: Sql) -> None:
    assert sorted(words("SELECT * FROM word_count_table")) == [("be", 3), ("not", 1), ("or", 1), ("to", 2)]
    words("CREATE TABLE word_count_table_snapshot_result LIKE word_count_table")
    words(
        """
        INSERT INTO word_count_table_snapshot_result
            SELECT word, count(*)
            FROM word_table /*+ OPTIONS('scan.snapshot-id'='1') */
            GROUP BY word
        """
    )
    comparison = """
        SELECT * FROM word_count_table_snapshot_result as L
            FULL OUTER JOIN word_count_table /*+ OPTIONS('scan.snapshot-id'='{}') */ as R
            ON L.word = R.word
            where L.word IS NULL OR R.word IS NULL OR L.cnt != R.cnt
        """
    assert words(comparison.format(1)) == []
    assert [row[-1] for row in words(comparison.format(2))] == [3]


def test_the_documents_four_queries(words: Sql) -> None:
    words("USE paimon")
    assert words(
        """
        SELECT S.database, S.table FROM
            source_job_lineage S
            JOIN sink_job_lineage T ON S.job=T.job
            where T.`database`='default' and T.`table`='word_count_table'
        """
    ) == [("default", "word_table")]
    assert words(
        """
        SELECT T.database, T.table FROM
            source_job_lineage S
            JOIN sink_job_lineage T ON S.job=T.job
            where S.`database`='default' and S.`table`='word_table'
        """
    ) == [("default", "word_count_table")]
    assert words(
        """
        SELECT S.database, S.table, S.snapshot_id FROM
            source_snapshot_lineage S
            JOIN sink_snapshot_lineage T
            ON S.job=T.job AND S.barrier_id=T.barrier_id
            where T.`database`='default' and T.`table`='word_count_table' and T.snapshot_id=2
        """
    ) == [("default", "word_table", 2)]
    # The document joins the job tables on barrier_id, which they do not have: the snapshot tables are meant.
    assert words(
        """
        SELECT T.database, T.table, T.snapshot_id FROM
            source_snapshot_lineage S
            JOIN sink_snapshot_lineage T
            ON S.job=T.job AND S.barrier_id=T.barrier_id
            where S.`database`='default' and S.`table`='word_table' and S.snapshot_id=1
        """
    ) == [("default", "word_count_table", 1)]


def test_a_question_over_two_catalogs(words: Sql, tmp_path: Path) -> None:
    words(
        f"""
        CREATE CATALOG catalog2 WITH (
            'warehouse' = '{tmp_path / "second"}', 'table-lineage' = 'true', 'data-lineage' = 'true',
            'lineage-meta' = 'jdbc', 'jdbc.url' = 'jdbc:sqlite:{tmp_path / "second.db"}'
        );
        SET 'pipeline.name' = 'job_name';
        CREATE TABLE catalog2.default.sums (total BIGINT);
        INSERT INTO catalog2.default.sums SELECT sum(cnt) FROM my_catalog.default.word_count_table
        """
    )
    assert words("SELECT * FROM catalog2.default.sums") == [(7,)]
    assert words(
        """
        SELECT k.snapshot_id FROM catalog2.paimon.sink_snapshot_lineage k
            JOIN my_catalog.paimon.source_snapshot_lineage s
            ON s.job = k.job AND s.barrier_id = k.barrier_id
            WHERE s.job='job_name' AND s.snapshot_id=2
        """
    ) == [(1,)]


def test_a_job_is_forgotten_in_the_current_catalog_only(words: Sql, tmp_path: Path) -> None:
    words(
        f"""
        CREATE CATALOG catalog2 WITH (
            'warehouse' = '{tmp_path / "second"}', 'table-lineage' = 'true', 'data-lineage' = 'true',
            'lineage-meta' = 'jdbc', 'jdbc.url' = 'jdbc:sqlite:{tmp_path / "second.db"}'
        );
        SET 'pipeline.name' = 'job1';
        CREATE TABLE catalog2.default.sums (total BIGINT);
        INSERT INTO catalog2.default.sums SELECT 1
        """
    )

    def known(catalog: str) -> list[int]:
        tables = ("sink_job_lineage", "sink_snapshot_lineage")
        return [len(words(f"SELECT * FROM {catalog}.paimon.{table} WHERE job = 'job1'")) for table in tables]

    assert known("catalog2") == [1, 1]
    words("CALL sys.delete_data_lineage('job1', catalog => 'catalog2')")
    assert known("catalog2") == [1, 0]
    assert known("my_catalog")[1] > 0
    words("CALL sys.delete_table_lineage('job1', 'catalog2')")
    assert known("catalog2") == [0, 0]
    assert known("my_catalog")[0] > 0
    with pytest.raises(NotFound, match="nope"):
        words("CALL sys.delete_table_lineage('job1', 'nope')")
    # Those of every catalog, whichever is the current one.
    words("USE CATALOG catalog2; CALL sys.delete_data_lineage('job1'); CALL sys.delete_table_lineage('job1')")
    assert known("my_catalog") == [0, 0]


def test_lineage_tables_are_read_only_and_forgotten_by_procedures(words: Sql) -> None:
    for statement in (
        "INSERT INTO paimon.sink_job_lineage VALUES ('a', 'b', 'c', 'd', NULL)",
        "DELETE FROM paimon.sink_job_lineage WHERE job = 'job1'",
        "DROP TABLE paimon.sink_job_lineage",
        "ALTER TABLE paimon.catalog_options ADD COLUMN x INT",
        "CREATE TABLE paimon.mine (x INT)",
        "TRUNCATE TABLE paimon.source_job_lineage",
    ):
        with pytest.raises(InvalidRequest, match="only be read"):
            words(statement)
    words("CALL sys.delete_data_lineage('job1'); CALL sys.delete_table_lineage(job => 'job1')")
    assert words("SELECT * FROM paimon.source_snapshot_lineage") == []
    assert words("SELECT * FROM paimon.source_job_lineage") == []
    words("CALL sys.rebuild_lineage()")
    assert len(words("SELECT * FROM paimon.source_snapshot_lineage")) == 2


def test_options_of_lineage_stand_once_the_catalog_exists(words: Sql, tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="'table-lineage' is 'true'"):
        words(f"CREATE CATALOG again WITH ('warehouse' = '{tmp_path / 'words'}', 'table-lineage' = 'false')")


def test_an_insert_that_fails_leaves_no_lineage(words: Sql, session: Session) -> None:
    words("SET 'pipeline.name' = 'never'; CREATE TABLE strict (n INT NOT NULL)")
    with pytest.raises(InvalidRequest):
        words("INSERT INTO strict SELECT CAST(NULL AS INT) FROM word_table")
    assert [row for row in words("SELECT job FROM paimon.sink_job_lineage") if row == ("never",)] == []
