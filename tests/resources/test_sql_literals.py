"""Texts in statements: what is written arrives, on every engine, and means what it means in plain Spark."""

import random
import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from resources import Session
from resources.spark_session import start_spark
from storage import InvalidRequest, Table

# Each is written in statements as it stands, and asked of plain Spark as well.
LITERALS = [
    r"'it''s'",
    r"'it\'s'",
    '"it\'s"',
    '"d""q"',
    r'"d\"q"',
    "'d\"\"q'",
    "''",
    "''''",
    "'''a'''",
    r"'\''",
    r"'a\\'",
    "'a' 'b'",
    "'a'\n'b'",
    "'a' \"b\"",
    "'a' 'b''c'",
    "'a' -- c\n 'b'",
    r"r'a\nb'",
    r'R"a\nb"',
    r"r'it''s'",
    r"r'a\'",
    r"r'a' 'b\n'",
    r"'a\n' r'\n'",
    r"'\\n'",
    r"'\n'",
    r"'\b\t\r\Z'",
    r"'\0'",
    r"'\u00e9'",
    r"'\U0001F600'",
    r"'\uD83D\uDE00'",
    r"'\u00'",
    r"'\101'",
    r"'\377'",
    r"'\1'",
    r"'\x41'",
    r"'\a\f\v\q'",
    r"'\%\_%'",
    "'a;b'",
    "'--x'",
    "'/*x*/'",
    "'{# x #}'",
    "'é😀'",
    "'a\nb'",
    "'a\r\nb'",
    "'$$'",
    "'?'",
    "':x'",
    "X'4127'",
]
PATTERNS = [
    r"'a%b' LIKE 'a\%b'",
    r"'axb' LIKE 'a\%b'",
    r"'a\\%b' LIKE 'a\%b'",
    r"'a_b' LIKE 'a\_b'",
    r"'axb' LIKE 'a\_b'",
    r"'a%b' LIKE 'a\\%b'",
    r"'a\\b' LIKE 'a\\\\b'",
    r"'a%b' LIKE r'a\%b'",
    r"'a%b' LIKE 'a!%b' ESCAPE '!'",
    r"'a\\b' LIKE 'a\\b' ESCAPE '!'",
    r"'axb' NOT LIKE 'a\%b'",
    r"'A%B' ILIKE 'a\%b'",
    r"'AxB' ILIKE 'a\%b'",
    r"'axb' LIKE ANY ('a\%b', 'a_b')",
    r"'axb' LIKE ALL ('a\%b', 'a_b')",
    r"'a%b' LIKE concat('a', '\\%', 'b')",
    r"'it''s' LIKE 'it''%'",
]
REFUSED_LITERALS = ["N'x'", "E'x'", "b'x'", "$$x$$", "$t$x$t$", "?", ":x", r"'ab' LIKE 'a\\b'"]
_PIECES = [
    "'",
    '"',
    "''",
    "\\",
    "\\\\",
    "\\n",
    "\\u0041",
    ";",
    "--",
    "/*",
    "*/",
    "${x}",
    "$$",
    "\n",
    "\r\n",
    "\t",
    "\0",
    "\x1a",
    "é",
    "😀",
    "%",
    "_",
    "`",
    "{{",
    "{#",
    ":x",
    "?",
    "a",
    "OR 1=1",
    " ",
]


def written(text: str, chance: random.Random) -> str:
    """One of the ways to write a text in a statement."""
    escaped = text.replace("\\", "\\\\")
    if len(text) > 1 and chance.random() < 0.1:
        at = chance.randrange(1, len(text))
        return f"{written(text[:at], chance)} {written(text[at:], chance)}"
    ways = [
        "'" + escaped.replace("'", "\\'").replace("\n", "\\n").replace("\0", "\\0") + "'",
        "'" + escaped.replace("'", "''") + "'",
        '"' + escaped.replace('"', '""') + '"',
        '"' + escaped.replace('"', '\\"') + '"',
        "'" + "".join(f"\\U{ord(character):08x}" for character in text) + "'",
    ]
    ways += [f"r{quote}{text}{quote}" for quote in "'\"" if quote not in text]
    return chance.choice(ways)


@pytest.fixture
def texts() -> dict[int, str]:
    chance = random.Random(20261122)
    made = {"", *_PIECES}
    while len(made) < 120:
        made.add("".join(chance.choices(_PIECES, k=chance.randint(2, 6))))
    return dict(enumerate(sorted(made)))


@pytest.mark.spark
def test_a_literal_means_what_it_means_in_plain_spark(session: Session, sql: Callable[[str], Any]) -> None:
    spark = start_spark(session.settings)
    for parts in (LITERALS, PATTERNS):
        text = f"SELECT {', '.join(f'{part} AS c{number}' for number, part in enumerate(parts))}"
        plain = spark.sql(text).collect()[0]
        [row] = sql(text)
        got = dict(zip(parts, row, strict=True))
        assert got == {part: bytes(x) if isinstance(x, bytearray) else x for part, x in zip(parts, plain, strict=True)}


@pytest.mark.spark
@pytest.mark.parametrize("text", REFUSED_LITERALS)
def test_what_is_no_literal_in_plain_spark_is_refused(sql: Callable[[str], Any], text: str) -> None:
    with pytest.raises(InvalidRequest):
        sql(f"SELECT {text} AS a")


@pytest.mark.spark
def test_texts_go_through_statements_unchanged(
    session: Session, sql: Callable[[str], Any], texts: dict[int, str], engine: str
) -> None:
    """INSERT, SELECT, UPDATE, MERGE and DELETE against a dictionary; each condition names one text of its own."""
    chance = random.Random(7)

    def say(text: str) -> str:
        return written(text, chance)

    sql("CREATE TABLE t (id INT, t STRING)")
    sql(f"INSERT INTO t VALUES {', '.join(f'({number}, {say(text)})' for number, text in texts.items())}")
    assert dict(sql("SELECT id, t FROM t")) == texts

    every = range(len(texts)) if engine == "duckdb" else (60,)
    for number in every:
        assert sql(f"SELECT id FROM t WHERE t = {say(texts[number])}") == [(number,)], texts[number]
    chosen = " OR ".join(f"(id = {number} AND t = {say(text)})" for number, text in texts.items() if number % 3 == 0)
    assert {number for (number,) in sql(f"SELECT id FROM t WHERE {chosen}")} == set(range(0, len(texts), 3))

    changed = {number: texts[(number + 1) % len(texts)] for number in texts if number % 2}
    cases = " ".join(f"WHEN {say(texts[number])} THEN {say(text)}" for number, text in changed.items())
    olds = ", ".join(say(texts[number]) for number in changed)
    sql(f"UPDATE t SET t = CASE t {cases} END WHERE t IN ({olds})")
    expected = texts | changed
    assert dict(sql("SELECT id, t FROM t")) == expected

    gone = [text for number, text in texts.items() if number % 4 == 0]
    sql(f"DELETE FROM t WHERE t IN ({', '.join(say(text) for text in gone)})")
    expected = {number: text for number, text in expected.items() if text not in gone}
    assert dict(sql("SELECT id, t FROM t")) == expected

    number, text = next(iter(expected.items()))
    sql(
        f"MERGE INTO t USING (SELECT {say(text)} AS t) s ON t.t = s.t "
        f"WHEN MATCHED AND t.t = {say(text)} THEN UPDATE SET t = {say(text + texts[5])}"
    )
    expected = {key: value + texts[5] if value == text else value for key, value in expected.items()}
    assert dict(sql("SELECT id, t FROM t")) == expected


def test_conditions_in_python_take_texts_as_statements_do(session: Session, texts: dict[int, str]) -> None:
    chance = random.Random(11)
    schema = pa.schema([("id", pa.int64()), ("t", pa.string())])
    table = session.catalog.create_table("default.t", schema)
    table.write(pa.table({"id": list(texts), "t": list(texts.values())}, schema))
    for number, text in texts.items():
        assert _ids(table, f"t = {written(text, chance)}") == [number], text
        prefix = re.sub(r"([%_\\])", r"\\\1", text) + "%"
        starting = [key for key, value in texts.items() if value.startswith(text)]
        assert _ids(table, f"t LIKE {written(prefix, chance)}") == starting, text
        others = sorted({*texts} - {*starting})
        assert _ids(table, f"t NOT LIKE {written(prefix, chance)}") == others, text
    gone = list(texts.values())[::2]
    table.delete(where=f"t IN ({', '.join(written(text, chance) for text in gone)})")
    assert _ids(table, "id >= 0") == [number for number, text in texts.items() if text not in gone]


def _ids(table: Table, where: str) -> list[int]:
    return sorted(table.to_arrow(where=where).column("id").to_pylist())


@pytest.mark.parametrize(
    "where",
    [
        "id = 1; id = 2",
        "",
        "s.id = 1",
        "id = -'1'",
        "id BETWEEN SYMMETRIC 2 AND 1",
        "t LIKE 'x!%' ESCAPE '!'",
        "t LIKE ANY ('x%')",
        r"t LIKE 'x\\\\y%z'",
        r"t LIKE 'x\\y%'",
        "t = N'x'",
        "t = 'x' COLLATE UTF8_LCASE",
    ],
)
def test_a_condition_in_python_is_used_whole_or_refused(session: Session, where: str) -> None:
    schema = pa.schema([("id", pa.int64()), ("t", pa.string())])
    table = session.catalog.create_table("default.t", schema)
    table.write(pa.table({"id": [1], "t": ["x"]}, schema))
    with pytest.raises(InvalidRequest):
        table.to_arrow(where=where)
    with pytest.raises(InvalidRequest):
        table.delete(where=where)
    assert table.count() == 1


def test_texts_in_definitions_and_commands(session: Session) -> None:
    run = session.sql
    run("CREATE TABLE t (a INT COMMENT 'it''s', p STRING) PARTITIONED BY (p) COMMENT \"d\"\"q\"", "duckdb")
    assert session.catalog.table("default.t").schema.field("a").description == "it's"
    assert session.catalog.table("default.t").schema.comment == 'd"q'
    run("INSERT INTO t PARTITION (p = 'it''s') VALUES (1)", "duckdb")
    run(r"INSERT INTO t PARTITION (p = r'a\n') VALUES (2)", "duckdb")
    assert sorted(run("SELECT p FROM t", "duckdb").to_arrow().column("p").to_pylist()) == ["a\\n", "it's"]
    run("ALTER TABLE t DROP PARTITION (p = 'it\\'s')", "duckdb")
    assert session.catalog.table("default.t").count() == 1
    run("SET 'pipeline.name' = 'a''b' r'\\n'", "duckdb")
    assert session.statements.settings.options["pipeline.name"] == "a'b\\n"


@pytest.mark.spark
def test_names_hold_quotes(sql: Callable[[str], Any]) -> None:
    names = ["it's", 'd"q', "back``tick", "semi;colon", "--x", "a b", "é😀", "$x", "100%"]
    columns = ", ".join(f"`{name}` STRING" for name in names)
    sql(f"CREATE TABLE t ({columns})")
    sql(
        f"INSERT INTO t ({', '.join(f'`{name}`' for name in reversed(names))}) VALUES "
        f"({', '.join(str(number) for number in reversed(range(len(names))))})"
    )
    for number, name in enumerate(names):
        assert sql(f"SELECT `{name}` FROM t WHERE `{name}` = '{number}'") == [(str(number),)], name
        assert sql(f"SELECT `{name}` FROM t WHERE `{name}` = 'x'") == [], name
    last = names[-1]
    sql(
        f"UPDATE t SET {', '.join(f'`{name}` = concat(`{name}`, `{last}`)' for name in names)} WHERE `{names[2]}` = '2'"
    )
    assert sql("SELECT * FROM t") == [tuple(f"{number}8" for number in range(len(names)))]
    sql(f"DELETE FROM t WHERE {' AND '.join(f'`{name}` LIKE {chr(39)}%8{chr(39)}' for name in names)}")
    assert sql("SELECT * FROM t") == []


# --- clauses of statements that change rows


@pytest.mark.spark
def test_insert_by_name_goes_by_names(sql: Callable[[str], Any]) -> None:
    sql("CREATE TABLE bn (a INT, b STRING, c BIGINT)")
    sql("INSERT INTO bn BY NAME SELECT 5L AS c, 'x' AS b, 77 AS a")
    sql("INSERT INTO bn BY NAME SELECT 6 AS C, 78 AS a")
    assert sql("SELECT a, b, c FROM bn ORDER BY a") == [(77, "x", 5), (78, None, 6)]
    for wrong in ("SELECT 1 AS a, 2 AS d", "SELECT 1 AS a, 2 AS A", "VALUES (1)"):
        with pytest.raises(InvalidRequest, match="BY NAME"):
            sql(f"INSERT INTO bn BY NAME {wrong}")
    with pytest.raises(InvalidRequest, match="BY NAME"):
        sql("INSERT INTO bn (a) BY NAME SELECT 1 AS a")
    assert len(sql("SELECT a FROM bn")) == 2


@pytest.mark.spark
def test_common_table_expressions_on_both_sides_of_insert_are_read(sql: Callable[[str], Any]) -> None:
    sql("CREATE TABLE b (a INT)")
    sql("INSERT INTO b VALUES (100)")
    sql("CREATE TABLE t (a INT)")
    sql("WITH a AS (SELECT 1 AS a) INSERT INTO t WITH b AS (SELECT a + 1 AS a FROM a) SELECT a FROM b")
    assert sql("SELECT a FROM t") == [(2,)]


NOT_CARRIED_OUT = {
    "INSERT INTO t REPLACE USING (a) SELECT 1, 'r'": "USING",
    "INSERT OR REPLACE INTO t VALUES (1, 'r')": "OR REPLACE",
    "INSERT INTO t VALUES (1, 'r') ON CONFLICT DO NOTHING": "ON CONFLICT",
    "INSERT INTO t VALUES (1, 'r') RETURNING a": "RETURNING",
    "INSERT INTO t STORED AS parquet SELECT 1, 'r'": "STORED AS",
    "INSERT INTO t DEFAULT VALUES": "DEFAULT VALUES",
    "INSERT INTO t VERSION AS OF 1 SELECT 1, 'r'": "VERSION",
    "EXPLAIN INSERT INTO t REPLACE WHERE a = 1 SELECT 2, 'r'": "REPLACE WHERE",
    "DELETE t": "DELETE FROM t",
    "DELETE t WHERE a = 1": "DELETE FROM t",
    "DELETE FROM t, u": "JOIN",
    "DELETE FROM t USING u WHERE t.a = u.a": "USING",
    "DELETE FROM t WHERE a > 0 ORDER BY a LIMIT 1": "ORDER BY",
    "DELETE FROM t WHERE a > 0 LIMIT 1": "LIMIT",
    "DELETE FROM t WHERE a > 0 RETURNING a": "RETURNING",
    "DELETE FROM t VERSION AS OF 1 WHERE a = 1": "VERSION AS OF",
    "DELETE FROM t TABLESAMPLE (10 PERCENT)": "TABLESAMPLE",
    "DELETE FROM t /*+ OPTIONS('branch' = 'b') */ WHERE a = 1": "'branch'",
    "WITH x AS (SELECT 1) DELETE FROM t": "WITH",
    "UPDATE t SET a = 2 FROM u WHERE t.a = u.a": "FROM",
    "UPDATE t SET a = 2 LIMIT 1": "LIMIT",
    "UPDATE t JOIN u ON t.a = u.a SET t.a = 2": "JOIN",
    "UPDATE t VERSION AS OF 1 SET a = 2": "VERSION AS OF",
    "UPDATE t SET u.a = 2": "u.a",
    "UPDATE t SET x.t.a = 2": "x.t.a",
    "UPDATE t SET a = 2, A = 3": "twice",
    "WITH x AS (SELECT 1 AS a) MERGE INTO t USING x ON t.a = x.a WHEN MATCHED THEN DELETE": "WITH",
    "MERGE INTO t USING u USING (a) WHEN MATCHED THEN DELETE": "USING",
    "MERGE INTO t VERSION AS OF 1 USING u ON t.a = u.a WHEN MATCHED THEN DELETE": "VERSION AS OF",
    "MERGE INTO t USING u ON t.a = u.a WHEN MATCHED THEN UPDATE SET * EXCEPT (a)": "EXCEPT",
    "MERGE INTO t USING u ON t.a = u.a WHEN NOT MATCHED THEN INSERT * EXCEPT (a)": "EXCEPT",
    "MERGE INTO t USING u ON t.a = u.a WHEN MATCHED THEN UPDATE SET a = 2 WHERE t.b = 'z'": "WHERE",
    "MERGE INTO t USING u ON t.a = u.a WHEN NOT MATCHED THEN INSERT (a) VALUES (1) WHERE u.a = 9": "WHERE",
    "MERGE INTO t USING u ON t.a = u.a WHEN NOT MATCHED THEN INSERT (a, a) VALUES (1, 2)": "twice",
    "MERGE INTO t USING u ON t.a = u.a WHEN MATCHED THEN UPDATE SET u.a = 2": "u.a",
}


@pytest.mark.parametrize("text", NOT_CARRIED_OUT)
def test_a_clause_that_is_not_carried_out_is_refused_by_name(session: Session, text: str) -> None:
    for name in "tu":
        session.sql(f"CREATE TABLE {name} (a INT, b STRING); INSERT INTO {name} VALUES (1, 'x'), (2, 'y')", "duckdb")
    with pytest.raises(InvalidRequest, match=re.escape(NOT_CARRIED_OUT[text])):
        session.sql(text, "duckdb")
    table = session.catalog.table("default.t")
    assert (table.snapshot().id, table.count()) == (1, 2)
