"""Statements that cannot be: each is answered in one line that helps, by exit code 2, and nothing is written."""

import sys
from pathlib import Path

import pyarrow as pa
import pytest

from resources import Session
from resources.cli import answer

VALID = [
    "SELECT id, v FROM t WHERE id = 1 ORDER BY v",
    "SELECT count(*) AS n FROM t GROUP BY v HAVING count(*) > 1",
    "SELECT a.id FROM t AS a JOIN t AS b ON a.id = b.id",
    "INSERT INTO t (id, v) VALUES (1, 'x')",
    "INSERT OVERWRITE t SELECT id, v, day FROM t",
    "DELETE FROM t WHERE id IN (1, 2)",
    "UPDATE t SET v = 'x' WHERE (id = 1)",
    "MERGE INTO t USING (SELECT 1 AS id, 'x' AS v, 'a' AS day) AS s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = s.v",
    "CREATE TABLE made (id INT, v STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '2')",
    "CREATE TABLE made AS SELECT (id) FROM t",
    "ALTER TABLE t ADD COLUMNS (more INT)",
    "ALTER TABLE t SET ('bucket' = '2')",
    "ALTER TABLE t DROP PARTITION (day = 'a')",
    "CREATE CATALOG other WITH ('warehouse' = '/nowhere')",
    "CALL sys.create_tag('t', 'x')",
    "SELECT * FROM t VERSION AS OF 1 WHERE (id = 1)",
    "TRUNCATE TABLE t PARTITION (day = 'a')",
    "EXPLAIN SELECT (id) FROM t",
]


def broken(text: str) -> list[str]:
    """Ways in which a statement is mistyped."""
    words = text.split(" ")
    mistyped = [
        f"{words[0][:-1]}x {' '.join(words[1:])}",
        f"{text})",
        f"{text} '",
        " ".join([*words[:2], "= =", *words[2:]]),
        " ".join([*words[:1], ",", *words[1:]]),
        f"{text} ) WHERE (",
    ]
    if "(" in text:
        mistyped += [text.replace(")", "", 1), text.replace("(", "((", 1)]
    return mistyped


SPECIFIC = {
    "CREATE VIEW w SCHEMA BINDING AS SELECT 1 AS a": "'SCHEMA' is no part of CREATE VIEW that is known here",
    "CREATE OR REPLACE TEMPORARY VIEW w METRICS AS SELECT 1 AS a": "'METRICS' is no part of CREATE VIEW",
    "CREATE TABLE made (a INT) DEFAULT COLLATION UTF8_LCASE": "'COLLATION' is no part of CREATE TABLE",
    "CREATE TABLE made (a INT) AS SELECT 1 AS a FOR EVER": "'FOR' is no part of CREATE TABLE",
    "CREATE ROLE r": "column 8: CREATE takes one of CATALOG, DATABASE, SCHEMA, TABLE, VIEW",
    "DROP ROLE r": "DROP takes one of",
    "ALTER CATALOG c": "ALTER takes one of TABLE, VIEW",
    "CREATE": "CREATE takes one of",
    "CREATE TABLE": "Expected table name. Near",
    "COPY INTO t": "Expected table name. Near",
    "USE": "Expected table name. Near",
    "SELECT nope FROM t": "no column 'nope'. Columns: day, id, v",
    "SELECT idd FROM t": "Did you mean 'id'",
    "SELECT t.nope FROM t": "no column 'nope'",
    "SELECT * FROM nope": "does not exist",
    "SELECT * FROM tt": "Did you mean default.t?",
    "SELECT * FROM nope.t": "does not exist",
    "SELECT * FROM nope.default.t": "Catalog 'nope' does not exist",
    "SELECT * FROM `t$nope`": "has no system table",
    "SELECT * FROM paimon.nope": "Lineage tables",
    "SELECT * FROM t VERSION AS OF 99": "Existing snapshot",
    "SELECT * FROM t VERSION AS OF nope": "Existing tags",
    "SELECT * FROM t VERSION AS OF": "Expected a snapshot id",
    "SELECT * FROM t VERSION AS OF NULL": "Expected a snapshot id",
    "SELECT * FROM t VERSION AS OF TRUE": "Expected a snapshot id",
    "SELECT * FROM t TIMESTAMP AS OF 'yesterday'": "no date and time",
    "SELECT * FROM t /*+ OPTIONS('scan.snapshot-id'='x') */": "not a whole number",
    "SELECT * FROM t /*+ OPTIONS('scan.snapshot-id'='1', 'scan.tag-name'='x') */": "several versions",
    "SELECT * FROM t /*+ OPTIONS('scan.snapshot'='1') */": "Did you mean 'scan.snapshot-id'",
    "SELECT * FROM t /*+ OPTION('a'='b') */": "A hint of a table is OPTIONS",
    "SELECT * FROM `t$snapshots` VERSION AS OF 1": "tells of all versions",
    "SELECT FROM t": "names what it selects",
    "SELECT id + 'x' * FROM t": "SQL error",
    "SELECT nope(id) FROM t": "is not known",
    "SELECT id FROM t GROUP BY v": "cannot run the query",
    "INSERT INTO nope VALUES (1)": "does not exist",
    "INSERT INTO t VALUES (1)": "takes 3 columns",
    "INSERT INTO t VALUES (1, 'x', 'a'), (2)": "different numbers of values",
    "INSERT INTO t (id, nope) VALUES (1, 2)": "nope",
    "INSERT INTO t (id, id) VALUES (1, 2)": "named twice",
    "INSERT INTO t (v, day) VALUES ('x', 'a')": "NOT NULL and gets no value",
    "INSERT INTO t PARTITION (v='x') SELECT 1, 'a'": "not a partition column",
    "INSERT INTO t SELECT 'word', 'x', 'a'": "is not stored without being told to: CAST it",
    "INSERT INTO t SELECT NULL, 'x', 'a'": "null",
    "INSERT INTO t /*+ OPTIONS('nope'='x') */ VALUES (1, 'x', 'a')": "not known here",
    "INSERT INTO `t$snapshots` SELECT * FROM `t$snapshots`": "only be read",
    "INSERT INTO paimon.job_startup SELECT * FROM paimon.job_startup": "only be read",
    "DELETE FROM nope": "does not exist",
    "DELETE FROM t WHERE nope = 1": "nope",
    "DELETE FROM t WHERE x.id = 1": "no table of this statement",
    "UPDATE t SET nope = 1": "nope",
    "UPDATE t SET id = 1": "cannot be updated",
    "UPDATE t SET v.x = 1": "'v.x' is a field of column 'v', and whole columns are set: v = named_struct",
    "ALTER TABLE t CREATE TAG x": "CREATE TAG is not known here: CALL sys.create_tag",
    "ALTER TABLE t CREATE OR REPLACE TAG x": "CREATE OR REPLACE TAG is not known here: CALL sys",
    "ALTER TABLE t REPLACE TAG x": "REPLACE TAG is not known here: CALL sys",
    "ALTER TABLE t RENAME TAG x TO y": "RENAME TAG is not known here: CALL sys",
    "ALTER TABLE t DELETE TAG x": "DELETE TAG is not known here: CALL sys",
    "SELECT * FROM paimon_incremental_query('t', 1, 2)": "paimon_incremental_query is not known here: `table.changes(1, 2)`",
    "SELECT * FROM t WHERE day = sys.max_pt('t')": "max_pt is not known here: SELECT max",
    "UPDATE nope SET v = 1": "does not exist",
    "MERGE INTO t USING nope ON t.id = nope.id WHEN MATCHED THEN DELETE": "does not exist",
    "MERGE INTO t USING (SELECT 1 AS id) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *": "lacks",
    "MERGE INTO t USING (SELECT 1 AS id) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT (id, v) VALUES (1)": "2 columns and",
    "CREATE TABLE t (id INT)": "exists",
    "CREATE TABLE made (id NOPE)": "NOPE",
    "CREATE TABLE made (id INT, id INT)": "id",
    "CREATE TABLE made (id INT, PRIMARY KEY (nope) NOT ENFORCED)": "nope",
    "CREATE TABLE made (id INT PRIMARY KEY NOT ENFORCED, d INT) PARTITIONED BY (d)": "With 'bucket' = '-1' it need not",
    "CREATE TABLE made (id INT) PARTITIONED BY (nope)": "nope",
    "CREATE TABLE made (id INT) WITH ('bucket' = 'many')": "bucket",
    "CREATE TABLE made (id INT) WITH ('file.format' = 'csv')": "csv",
    "CREATE TABLE made (id INT) WITH ('connector' = 'kafka')": "kafka",
    "CREATE TABLE made (id INT METADATA FROM 'offset')": "Metadata columns",
    "CREATE TABLE made (id INT, WATERMARK FOR nope AS nope)": "nope",
    "CREATE TABLE made (id INT) WITH ('buckt' = '2')": "Did you mean 'bucket'",
    "ALTER TABLE t SET ('file.formats' = 'orc')": "Did you mean 'file.format'",
    "CREATE TABLE made LIKE nope": "does not exist",
    "CREATE TABLE `a b.c` (id INT)": "cannot name a table",
    "CREATE TABLE `a$b` (id INT)": "can only be read: $b names a system table, and no name of a table holds a $",
    "CREATE VIEW made AS SELECT nope": "nope",
    "CREATE DATABASE paimon": "reserved",
    "CREATE CATALOG other": "needs a 'warehouse'",
    "CREATE CATALOG snapline WITH ('warehouse' = '/nowhere')": "exists",
    "CREATE CATALOG other WITH ('type' = 'hive', 'warehouse' = '/nowhere')": "hive",
    "DROP TABLE nope": "does not exist",
    "DROP TABLE `t$snapshots`": "only be read",
    "DROP DATABASE nope": "does not exist",
    "DROP DATABASE default": "has tables",
    "DROP CATALOG nope": "does not exist",
    "DROP CATALOG snapline": "current one",
    "DROP TEMPORARY TABLE t": "no temporary tables",
    "USE nope": "does not exist",
    "USE CATALOG nope": "does not exist",
    "ALTER TABLE nope COMPACT": "does not exist",
    "ALTER TABLE t NOPE": "Expected one of",
    "ALTER TABLE t DROP COLUMN nope": "nope",
    "ALTER TABLE t DROP COLUMN id": "id",
    "ALTER TABLE t ADD COLUMN v STRING": "exists",
    "ALTER TABLE t ADD COLUMN w INT NOT NULL": "nullable",
    "ALTER TABLE t ALTER COLUMN v TYPE INT": "v",
    "ALTER TABLE t RENAME COLUMN nope TO x": "nope",
    "ALTER TABLE t RENAME COLUMN day TO x": "Partition column",
    "ALTER TABLE t SET ('merge-engine' = 'nope')": "merge-engine",
    "ALTER TABLE t PARTITION (day='a') SET ('bucket' = '2')": "Of a partition",
    "ALTER TABLE t PARTITION (nope='a') COMPACT": "not a partition column",
    "TRUNCATE TABLE nope": "does not exist",
    "SHOW NOPE": "SHOW",
    "SHOW PARTITIONS nope": "does not exist",
    "DESCRIBE nope": "does not exist",
    "DESCRIBE TABLE EXTENDED t PARTITION (day='nope')": "has no partition",
    "CALL sys.nope('t')": "SHOW PROCEDURES",
    "CALL sys.create_tag('t')": "needs tag",
    "CALL sys.create_tag('t', 'a', 1, '1 d', NULL, NULL, TRUE, 5)": "takes 7 arguments",
    "CALL sys.create_tag(nope => 't')": "no argument 'nope'",
    "CALL sys.create_tag('t', '123')": "purely numeric",
    "CALL sys.create_tag('t', 'x', 99)": "does not exist",
    "CALL sys.create_tag('t', id)": "no constant",
    "CALL sys.rollback('t', 99)": "does not exist",
    "CALL sys.delete_branch('t', 'nope')": "does not exist",
    "CALL sys.expire_snapshots('t', 0)": "latest snapshot stays",
    "EXPLAIN DROP TABLE t": "EXPLAIN takes",
    "SET 'execution.runtime-mode' = 'fast'": "batch or streaming",
    "": "no statement",
    " -- nothing": "no statement",
    "SELECT id, FROM t": "SQL error",
    "SELECT id v day FROM t": "SQL error",
}
STATEMENTS = [*SPECIFIC, *(statement for text in VALID for statement in broken(text))]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home: Path = tmp_path_factory.mktemp("malformed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SNAPLINE_HOME", str(home))
        table = Session().catalog.create_table(
            "default.t",
            pa.schema([pa.field("id", pa.int64(), False), ("v", pa.string()), pa.field("day", pa.string(), False)]),
            primary_key=["id", "day"],
            partition_by=["day"],
            options={"bucket": 1},
        )
        table.write(pa.table({"id": [1, 2], "v": ["x", "y"], "day": ["a", "b"]}))
    return home


def files(home: Path) -> list[str]:
    return sorted(str(path) for path in (home / "warehouse").rglob("*") if path.is_file())


def test_there_are_enough_of_them() -> None:
    assert len(set(STATEMENTS)) >= 200


@pytest.mark.parametrize("text", STATEMENTS)
def test_a_statement_that_cannot_be(
    text: str, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SNAPLINE_HOME", str(home))
    monkeypatch.setattr(sys, "argv", ["snapline", "sql", "--engine", "duckdb", text])
    before = files(home)
    with pytest.raises(SystemExit) as stopped:
        answer()
    said = capsys.readouterr().err
    assert stopped.value.code == 2, said
    assert said.startswith("Error: ") and said.count("\n") == 1
    assert SPECIFIC.get(text, "") in said
    assert files(home) == before
    assert Session().table("default.t").count() == 2


@pytest.mark.parametrize("text", VALID)
def test_what_they_are_made_from_can_be_parsed(text: str) -> None:
    from resources.sql.parsing import parse

    assert len(parse(text)) == 1
