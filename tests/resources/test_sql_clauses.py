"""Every part of a statement's tree that the dialect can make: carried out, or refused by name. Nothing is read and ignored."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlglot import exp

from resources import Session
from resources.sql.parsing import parse
from resources.sql.settings import check_setting
from storage import StorageError, TableOptions
from storage.sql import commands

# A statement of each kind, and the parts of its tree that are carried out: tests of their own show that.
STATEMENTS: dict[str, set[str]] = {
    "CREATE TABLE made (a INT, p INT)": {"this", "kind", "expression", "exists", "properties"},
    "CREATE DATABASE made": {"this", "kind", "exists"},
    "CREATE CATALOG made WITH ('warehouse' = '{home}/made')": {"this", "exists", "options"},
    "DROP TABLE t": {"tables", "kind", "exists", "temporary"},
    "DROP DATABASE other": {"tables", "kind", "exists", "cascade", "restrict"},
    "DROP CATALOG IF EXISTS nope": {"this", "exists"},
    "USE other": {"this", "kind"},
    "USE CATALOG snapline": {"this"},
    "TRUNCATE TABLE t": {"expressions", "partition"},
    "INSERT INTO t VALUES (1, 1)": {"this", "expression", "overwrite", "partition", "by_name", "with_"},
    "DELETE FROM t WHERE a = 1": {"this", "where"},
    "UPDATE t SET a = 2": {"this", "expressions", "where"},
    "MERGE INTO t USING u ON t.a = u.a WHEN MATCHED THEN DELETE": {"this", "using", "on", "whens"},
    "ALTER TABLE t SET ('write-only' = 'true')": {"this", "action", "partition", "exists", "action_exists", "values"},
    "SHOW TABLES": {"this", "place", "pattern"},
    "SHOW PARTITIONS t": {"this", "place", "partition"},
    "SHOW TBLPROPERTIES t": {"this", "place", "keys"},
    "DESCRIBE t": {"this", "extended", "partition"},
    "CALL sys.compact('t')": {"this", "expressions"},
    "EXPLAIN SELECT a FROM t": {"this"},
    "SET 'pipeline.name' = 'x'": {"this", "value"},
    "RESET 'pipeline.name'": {"this"},
}
# Of the table that a statement names; and of one that it reads.
OF_A_TABLE = {"this", "db", "catalog"}
NAMED = {
    "DROP TABLE t": set(),
    "TRUNCATE TABLE t": {"partition"},
    "INSERT INTO t VALUES (1, 1)": {"partition"},
    "DELETE FROM t WHERE a = 1": {"alias"},
    "UPDATE t SET a = 2": {"alias"},
    "DESCRIBE t": set(),
    "SHOW PARTITIONS t": set(),
    "MERGE INTO t USING u ON t.a = u.a WHEN MATCHED THEN DELETE": {"alias"},
    "ALTER TABLE t SET ('write-only' = 'true')": set(),
    "CREATE TABLE made (a INT, p INT)": set(),
}
READ = {"alias", "joins", "version"}
PROPERTIES = {exp.Property, exp.SchemaCommentProperty, exp.PartitionedByProperty, exp.LikeProperty}
CONSTRAINTS = {
    exp.NotNullColumnConstraint,
    exp.PrimaryKeyColumnConstraint,
    exp.CommentColumnConstraint,
    exp.ComputedColumnConstraint,
    commands.MetadataConstraint,
    commands.WatermarkConstraint,
}
SELECT_PARTS = {
    "with_",
    "expressions",
    "from_",
    "joins",
    "where",
    "group",
    "having",
    "qualify",
    "windows",
    "order",
    "limit",
    "offset",
    "distinct",
}


@pytest.fixture
def held(session: Session) -> Session:
    session.sql(
        "CREATE TABLE t (a INT, p INT) PARTITIONED BY (p); CREATE TABLE u (a INT, p INT); CREATE DATABASE other; "
        "INSERT INTO t VALUES (1, 1)",
        "duckdb",
    )
    return session


def files(session: Session) -> list[Path]:
    return sorted(session.settings.home.rglob("*"))


def refused(session: Session, tree: exp.Expr, what: str) -> None:
    """The tree is refused in one line that names a part, and nothing has been done."""
    before = files(session)
    statements = session.statements
    with pytest.raises(StorageError) as caught:
        statements._run(tree, statements._engines.named("duckdb"))
    assert files(session) == before, what
    assert "\n" not in str(caught.value) and "<" not in str(caught.value).replace("ARRAY<…>", ""), what


def marked(tree: exp.Expr, node: Callable[[exp.Expr], exp.Expr], key: str) -> exp.Expr:
    """The tree with a part that stands for whatever a parser may put there."""
    copy = tree.copy()
    something = exp.var("something")
    node(copy).set(key, [something] if key.endswith("s") else something)
    return copy


@pytest.mark.parametrize("text", STATEMENTS)
def test_every_part_of_a_statement_is_carried_out_or_refused(held: Session, text: str) -> None:
    [tree] = parse(text.replace("{home}", str(held.settings.home)))
    assert STATEMENTS[text] <= set(tree.arg_types), "a part that is carried out has gone from the tree"
    for key in sorted(set(tree.arg_types) - STATEMENTS[text]):
        refused(held, marked(tree, lambda node: node, key), f"{text}: {key}")


@pytest.mark.parametrize("text", NAMED)
def test_nothing_stands_unread_behind_the_name_of_a_table(held: Session, text: str) -> None:
    [tree] = parse(text)
    for key in sorted(set(exp.Table.arg_types) - OF_A_TABLE - NAMED[text]):
        refused(held, marked(tree, lambda node: next(node.find_all(exp.Table)), key), f"{text}: {key}")


def test_nothing_stands_unread_behind_a_table_in_a_query_on_duckdb(held: Session) -> None:
    [tree] = parse("SELECT a FROM t")
    # What stands in a PIVOT is looked at on the way: a statement of its own is below.
    for key in sorted(set(exp.Table.arg_types) - OF_A_TABLE - READ - {"pivots"}):
        refused(held, marked(tree, lambda node: next(node.find_all(exp.Table)), key), key)
    for key in sorted(set(exp.Select.arg_types) - SELECT_PARTS):
        refused(held, marked(tree, lambda node: node, key), key)


def classes(kind: type[exp.Expr]) -> list[type[exp.Expr]]:
    subclasses = [subclass for sub in kind.__subclasses__() for subclass in (sub, *classes(sub))]
    return sorted(
        {subclass for subclass in subclasses if subclass.__module__.startswith(("sqlglot", "storage"))},
        key=lambda subclass: subclass.__name__,
    )


def made(kind: type[exp.Expr]) -> exp.Expr:
    """A tree of a class with a value for every part that it needs."""
    return kind(**{key: exp.Literal.string("something") for key, needed in kind.arg_types.items() if needed})


def test_every_property_of_a_table_is_carried_out_or_refused(held: Session) -> None:
    kinds = [property_type for property_type in classes(exp.Property) if property_type not in PROPERTIES]
    assert len(kinds) > 80
    for kind in kinds:
        [tree] = parse("CREATE TABLE made (a INT)")
        tree.set("properties", exp.Properties(expressions=[made(kind)]))
        refused(held, tree, kind.__name__)


def test_every_constraint_of_a_column_is_carried_out_or_refused(held: Session) -> None:
    kinds = [
        constraint_type for constraint_type in classes(exp.ColumnConstraintKind) if constraint_type not in CONSTRAINTS
    ]
    assert len(kinds) > 20
    for kind in kinds:
        for text in ("CREATE TABLE made (a INT)", "ALTER TABLE t ADD COLUMN b INT"):
            [tree] = parse(text)
            column = next(tree.find_all(exp.ColumnDef))
            column.set("constraints", [exp.ColumnConstraint(kind=made(kind))])
            refused(held, tree, kind.__name__)


@pytest.mark.parametrize("option", TableOptions.declared(), ids=lambda option: str(option["key"]))
def test_every_option_of_a_table_takes_its_default_and_refuses_nonsense(option: dict[str, Any]) -> None:
    key, kind = option["key"], option["kind"]
    if option["default"]:
        check_setting(f"table-storage.{key}", option["default"], "/w")
    if kind in ("whole number", "true or false", "size", "duration", "values by level") or option["choices"]:
        with pytest.raises(StorageError, match=key.replace(".", r"\.")):
            check_setting(f"table-storage.{key}", "nonsense", "/w")


REFUSED = {
    "SET 'pipeline.nmae' = 'x'": "pipeline.name",
    "SET 'execution.trigger' = 'sometimes'": "available-now",
    "SET 'execution.runtime-mode' = 'fast'": "batch or streaming",
    "SET 'execution.runtime-mode' 'batch'": "with = between them",
    "SET 'table-storage.bukcet' = '1'": "bucket",
    "SET 'table-storage.file.path' = '/elsewhere'": "CREATE CATALOG",
    "SET 'spark.sql.session.timeZone' = 'Asia/Tokyo'": "SNAPLINE_SPARK_CONFIG",
    "SET TIME ZONE 'Asia/Tokyo'": "Times are UTC",
    "SET VAR x = 6": "no variables",
    "CREATE TABLE made (a INT) WITH ('log.system' = 'kafka')": "log.system",
    "CREATE TABLE made (a INT) WITH ('nothing.known' = '1')": "nothing.known",
    "CREATE TABLE made (a INT) WITH ('bucket' = '1', 'bucket' = '2')": "twice",
    "CREATE TABLE made (a VARCHAR)": "VARCHAR(20)",
    "CREATE TABLE made (a CHAR(5))": "blanks",
    "CREATE TABLE made (a ARRAY<CHAR(5)>)": "blanks",
    "ALTER TABLE t ADD COLUMN b CHAR(5)": "blanks",
    "ALTER TABLE t ALTER COLUMN b TYPE CHAR(5)": "blanks",
    "CREATE TABLE made (a DATETIME)": "DATETIME",
    "CREATE TABLE made (a)": "no type",
    "CREATE TABLE made (a INT, A INT)": "case alone",
    "CREATE TABLE made (x INT) LIKE t": "list none",
    "CREATE TABLE made LIKE t EXCLUDING OPTIONS": "EXCLUDING OPTIONS",
    "CREATE GLOBAL TEMPORARY VIEW v AS SELECT 1 AS a": "GLOBAL",
    "CREATE TEMPORARY VIEW IF NOT EXISTS v AS SELECT 1 AS a": "no IF NOT EXISTS",
    "CREATE TEMPORARY VIEW default.v AS SELECT 1 AS a": "lies in no database",
    "DROP TEMPORARY VIEW v": "leave TEMPORARY out",
    "ALTER TABLE t SET ('nothing.known' = '1')": "nothing.known",
    "ALTER TABLE t ADD COLUMN b INT DEFAULT 5": "DEFAULT",
    "ANALYZE TABLE t COMPUTE STATISTICS NOSCAN": "rows are counted",
    "ANALYZE TABLE t PARTITION (a = 1) COMPUTE STATISTICS": "whole tables alone",
    "ANALYZE TABLES IN default COMPUTE STATISTICS": "takes one table",
    "ANALYZE TABLE t COMPUTE STATISTICS FOR COLUMNS nope": "no column 'nope'",
    "SELECT 5 AS": "a name after AS",
    "SELECT a FROM t AS": "a name after AS",
    "SELECT a IN () FROM t": "one value at the least",
    "SELECT a NOT IN () FROM t": "one value at the least",
    "SELECT 0x1F": "0x1F in line 1 is no number",
    "SELECT DISTINCT ON (a) a, b FROM t": "DISTINCT ON is not known",
    "SELECT a FROM t LIMIT 2, 1": "LIMIT n OFFSET m",
    "SELECT a FROM t LIMIT 50 PERCENT": "a number of rows",
    "SELECT a FROM t LIMIT 1 BY a": "a number of rows",
    "SELECT a FROM t FETCH FIRST 1 ROWS ONLY": "FETCH is not known",
    "SELECT a FROM t OFFSET 1 ROWS FETCH NEXT 1 ROW ONLY": "FETCH is not known",
    "(SELECT a FROM t) ORDER BY a LIMIT 2, 1": "LIMIT n OFFSET m",
    "CREATE TABLE made (a INT, PRIMARY KEY (a) ENFORCED)": "ENFORCED",
    "CREATE TABLE made (a INT PRIMARY KEY ENFORCED)": "ENFORCED",
    "SHOW TABLES LIKE 'a%'": "write *",
    "EXPLAIN EXTENDED SELECT 1": "EXTENDED",
    "DROP TABLE t PURGE": "PURGE",
    "INSERT INTO t /*+ OPTIONS('nothing' = '1') */ VALUES (1, 1)": "nothing",
    "SELECT * FROM t PIVOT (sum(a) FOR p IN (1, 2))": "PIVOT",
    "SELECT a FROM t TABLESAMPLE (10 PERCENT)": "SAMPLE",
    "SELECT a FROM t LATERAL VIEW explode(array(1)) v AS x": "LATERALS",
    "SELECT /*+ BROADCAST(t) */ a FROM t": "HINT",
    "SELECT get_json_object('{}', '$.a')": "GET_JSON_OBJECT",
    "SELECT 1 / 0": "Division by zero",
    "SELECT * FROM read_parquet('/etc/passwd')": "PARQUET",
    "CREATE TABLE x (a INT PRIMARY KEY NOT ENFORCED, b INT, PRIMARY KEY (b) NOT ENFORCED)": "PRIMARY KEY is given twice",
    "CREATE TABLE x (a INT PRIMARY KEY NOT ENFORCED, b INT PRIMARY KEY NOT ENFORCED)": "PRIMARY KEY is given twice",
    "CREATE TABLE x (a INT COMMENT 'x' COMMENT 'y')": "COMMENT is given twice",
    "CREATE TABLE x (a INT) COMMENT 'x' COMMENT 'y'": "COMMENT is given twice",
    "CREATE TABLE x (a INT) PARTITIONED BY (a) PARTITIONED BY (a)": "PARTITIONED BY is given twice",
    "ALTER TABLE t RENAME TO nowhere.t": "no database 'nowhere'",
    "CREATE CATALOG c WITH ('warehouse' = 's4://x/y')": "no file system is known by 's4'",
    "SELECT * FROM t VERSION AS OF 1 /*+ OPTIONS('bogus' = '1') */": "bogus",
    "SELECT * FROM t /*+ OPTIONS('scan.mode' = 'full') */": "'scan.mode' is for streams",
    "SELECT * FROM t /*+ OPTIONS('read.changelog' = 'true') */": "'read.changelog' is for streams",
    "SELECT * FROM t /*+ OPTIONS('consumer-id' = 'c') */": "'consumer-id' is for streams",
    "SELECT * FROM t /*+ OPTIONS('scan.mode' = 'from-snapshot', 'scan.snapshot-id' = '1') */": "'scan.mode' is for streams",
    "SELECT 'abc": "column 8",
    "SELECT a FROM t /*+ OPTIONS('nothing' = '1') */": "nothing",
    "CREATE CATALOG c WITH ('warehouse' = '/w', 'tabel-lineage' = 'true')": "table-lineage",
    "CREATE CATALOG c WITH ('warehouse' = '/w', 'table-lineage' = 'maybe')": "neither true nor false",
    "CREATE CATALOG c WITH ('warehouse' = '/w', 'table-storage.bukcet' = '1')": "bucket",
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_not_carried_out_is_refused_by_name(held: Session, text: str) -> None:
    before = files(held)
    with pytest.raises(StorageError) as caught:
        held.sql(text, "duckdb")
    assert REFUSED[text] in str(caught.value) and "\n" not in str(caught.value)
    assert files(held) == before


def test_a_lineage_option_is_fixed_by_the_first_catalog(session: Session) -> None:
    place = session.settings.home / "fixed"
    session.sql(f"CREATE CATALOG c WITH ('warehouse' = '{place}'); DROP CATALOG c", "duckdb")
    with pytest.raises(StorageError, match="table-lineage"):
        session.sql(f"CREATE CATALOG c WITH ('warehouse' = '{place}', 'table-lineage' = 'true')", "duckdb")


def test_an_unknown_variable_of_the_environment_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SNAPLINE_WAREHUOSE", "/w")
    with pytest.raises(StorageError, match="SNAPLINE_WAREHOUSE"):
        Session()
