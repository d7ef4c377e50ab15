"""A walk over every part of every kind of statement: it is carried out, or refused before anything is done.

What is asked of a tree is noted (`resources/sql/unread.py`), and the rest refused; so a clause that a later version of the parser
takes is refused as well. Inside of queries the engines' rules say for each node which parts they know.
"""

import inspect
from pathlib import Path

import pytest
from sqlglot import exp

from resources import Session, Settings
from resources.sql.duckdb_functions import RULES
from resources.sql.parsing import parse
from resources.sql.statements import Statements
from resources.sql.unread import refuse_unread, watch
from storage import StorageError
from storage.sql import commands, dialect

# At least one of each kind, with the clauses that there are nodes of.
STATEMENTS = [
    "CREATE TABLE made (a INT NOT NULL COMMENT 'x', p INT, PRIMARY KEY (a) NOT ENFORCED) WITH ('bucket' = '1')",
    "CREATE TABLE made LIKE t",
    "CREATE TABLE made AS SELECT a FROM t",
    "CREATE OR REPLACE TABLE t (a INT)",
    "REPLACE TABLE t (a INT)",
    "CREATE DATABASE made",
    "CREATE CATALOG made WITH ('warehouse' = '{out}/made')",
    "CREATE VIEW w AS SELECT a FROM t",
    "DROP TABLE t",
    "DROP VIEW v",
    "DROP DATABASE other",
    "DROP CATALOG IF EXISTS nope",
    "USE other",
    "USE CATALOG snapline",
    "TRUNCATE TABLE t PARTITION (p = 1)",
    "INSERT INTO t PARTITION (p = 1) (a) VALUES (1)",
    "INSERT OVERWRITE t SELECT a, p FROM u",
    "DELETE FROM t WHERE a = 1",
    "UPDATE t SET a = 2 WHERE p = 1",
    "MERGE INTO t USING u ON t.a = u.a WHEN MATCHED THEN UPDATE SET a = u.a WHEN NOT MATCHED THEN INSERT (a) VALUES (u.a)",
    "ALTER TABLE t SET ('write-only' = 'true')",
    "ALTER TABLE t ADD COLUMN b INT COMMENT 'x' AFTER a",
    "ALTER TABLE t RENAME COLUMN a TO b",
    "ALTER TABLE t DROP PARTITION (p = 1)",
    "ALTER TABLE t RENAME TO t2",
    "ALTER VIEW v AS SELECT p FROM t",
    "COMMENT ON TABLE t IS 'x'",
    "ANALYZE TABLE t COMPUTE STATISTICS FOR COLUMNS a",
    "SHOW TABLES",
    "SHOW PARTITIONS t",
    "SHOW COLUMNS IN t",
    "DESC t",
    "DESCRIBE t PARTITION (p = 1)",
    "CALL sys.compact('t')",
    "EXPLAIN SELECT a FROM t",
    "EXPLAIN INSERT INTO t SELECT a, p FROM u",
    "SET 'pipeline.name' = 'x'",
    "RESET 'pipeline.name'",
    "COPY t TO '{out}/x.csv'",
    "INSERT OVERWRITE DIRECTORY '{out}/d' USING csv SELECT a FROM t",
    "INSERT OVERWRITE LOCAL DIRECTORY '{out}/d' USING csv SELECT a FROM t",
]
# How a name is written, and parts of names: what they name is looked up, and is not there.
_OF_NAMES = {"quoted", "is_string", "nested", "db", "catalog", "table", "temporary", "global_"}
# What the statements above have not; and marks of joins of other dialects, which no parser makes here.
_CARRIED_OUT = {"Insert.with_", "Table.alias", "Column.join_mark", "Column.shadow"}


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("walk")


@pytest.fixture(scope="module")
def held(out: Path) -> Session:
    """Nothing of it changes: statements are planned alone."""
    home = out / "home"
    settings = Settings(home, str(home / "warehouse"), f"jdbc:sqlite:{home}/l.db", writable_directories=[str(out)])
    session = Session(settings)
    session.sql(
        "CREATE TABLE t (a INT, p INT) PARTITIONED BY (p); CREATE TABLE u (a INT, p INT); CREATE DATABASE other; "
        "INSERT INTO t VALUES (1, 1); CREATE VIEW v AS SELECT a FROM t",
        "duckdb",
    )
    return session


def something(key: str) -> exp.Expr | list[exp.Expr]:
    """What stands for whatever a parser may put into a part."""
    is_list = key.endswith("s") and key not in ("this", "exists", "alias")
    return [exp.var("something")] if is_list else exp.var("something")


def test_there_is_a_statement_of_each_kind_that_is_parsed_or_carried_out() -> None:
    for words in dialect._STATEMENTS:
        assert any(text.startswith(" ".join(words)) for text in STATEMENTS), words
    kinds = {type(tree) for text in STATEMENTS for tree in parse(text)}
    known = {kind for kind in dialect._KNOWN if kind not in (exp.Semicolon, exp.Query, exp.Values)}
    assert known <= kinds
    own = {kind for _, kind in inspect.getmembers(commands, inspect.isclass) if issubclass(kind, exp.Expr)}
    planned = {
        kind for kind in own if f"case {kind.__name__}(" in inspect.getsource(Statements._plan).replace("| ", "case ")
    }
    assert planned and planned <= kinds


@pytest.mark.parametrize("text", STATEMENTS)
def test_every_part_of_every_node_of_a_statement_is_known_or_refused(held: Session, out: Path, text: str) -> None:
    [tree] = parse(text.replace("{out}", str(out)))
    statements = held.statements
    taken = []
    nodes = list(tree.walk())
    for number, node in enumerate(nodes):
        if isinstance(node, exp.Query | exp.Values) or node.find_ancestor(exp.Query, exp.Values):
            continue
        for key in sorted(set(node.arg_types) - _OF_NAMES):
            if node.args.get(key):
                continue
            changed = tree.copy()
            list(changed.walk())[number].set(key, something(key))
            watch(changed)
            try:
                statements._plan(changed, statements._engines.named("duckdb"))
                refuse_unread(changed)
            except StorageError as error:
                assert "\n" not in str(error)
            except (TypeError, ValueError, AttributeError):
                # No parser puts a node there.
                continue
            else:
                taken.append(f"{type(node).__name__}.{key}")
    assert set(taken) <= _CARRIED_OUT


def test_a_hint_on_a_table_that_is_made_from_a_query_is_refused(held: Session) -> None:
    with pytest.raises(StorageError, match="the option 'write-only' has no place behind 'made'"):
        held.sql("CREATE TABLE made /*+ OPTIONS('write-only' = 'true') */ AS SELECT a FROM t", "duckdb")
    assert "default.made" not in held.catalog.tables()


@pytest.mark.parametrize("kind", RULES, ids=lambda kind: kind.__name__)
def test_every_part_of_an_expression_is_known_or_refused_on_duckdb(held: Session, kind: type[exp.Expr]) -> None:
    parts, _ = RULES[kind]
    assert set(parts) <= {*kind.arg_types, "negate", "ignore_nulls"}
    for key in sorted(set(kind.arg_types) - set(parts)):
        node = kind(**{each: exp.Literal.number(1) for each, needed in kind.arg_types.items() if needed})
        node.set(key, something(key))
        with pytest.raises(StorageError):
            held.statements._run(exp.select(node), held.statements._engines.named("duckdb"))
