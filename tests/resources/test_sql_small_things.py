"""Stars of structs, sums that overflow, options that are checked when they are given, and what SHOW FUNCTIONS lists."""

import datetime
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from resources import Session
from resources.sql.duckdb_select import run_query
from storage import AlreadyExists, InvalidRequest, NotFound, StorageError

pytestmark = pytest.mark.spark
Sql = Callable[[str], Any]


def test_the_star_of_a_struct_is_its_fields(sql: Sql) -> None:
    sql("CREATE TABLE s (id INT, st ROW<a INT, b STRING>); INSERT INTO s VALUES (1, named_struct('a', 5, 'b', 'x'))")
    assert sql("SELECT st.* FROM s") == [(5, "x")]
    assert sql("SELECT id, x.ST.* FROM s AS x WHERE st.a = 5") == [(1, 5, "x")]
    assert sql("SELECT st.* EXCEPT (a) FROM s") == [("x",)]
    assert sql("WITH q AS (SELECT st.* FROM s) SELECT b FROM q WHERE a = 5") == [("x",)]
    sql("CREATE VIEW v AS SELECT st.* FROM s")
    assert sql("SELECT b, a FROM v") == [("x", 5)]
    sql("CREATE TABLE u (a INT, b STRING); INSERT INTO u SELECT st.* FROM s")
    assert sql("SELECT * FROM u") == [(5, "x")]
    # A table goes before a column of its name.
    assert sql("SELECT st.* FROM u AS st") == [(5, "x")]
    for wrong in ("SELECT nope.* FROM s", "SELECT id.* FROM s", "SELECT st.* EXCEPT (z) FROM s"):
        with pytest.raises(InvalidRequest):
            sql(wrong)


@pytest.mark.parametrize(
    ("kind", "function", "values"),
    [
        ("TINYINT", "sum", "(1, 100)"),
        ("BIGINT", "sum", "(1, 4611686018427387904)"),
        ("DECIMAL(3, 0)", "sum", "(1, 900)"),
        ("INT", "product", "(1, 100000)"),
        ("BIGINT", "product", "(1, 4611686018427387904)"),
    ],
)
def test_an_aggregate_that_does_not_fit_is_an_error_that_names_column_and_function(
    sql: Sql, kind: str, function: str, values: str
) -> None:
    options = f"'merge-engine' = 'aggregation', 'fields.v.aggregate-function' = '{function}', 'write-only' = 'true'"
    sql(f"CREATE TABLE t (id INT PRIMARY KEY NOT ENFORCED, v {kind}) WITH ({options})")
    sql(f"INSERT INTO t VALUES {values}; INSERT INTO t VALUES {values}")
    with pytest.raises(StorageError, match=f"Column 'v' is aggregated by '{function}'.* does not fit") as raised:
        sql("SELECT v FROM t")
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("engine", ["duckdb"])
def test_a_sum_up_to_the_limit_is_exact(sql: Sql) -> None:
    options = "'merge-engine' = 'aggregation', 'fields.v.aggregate-function' = 'sum', 'write-only' = 'true'"
    sql(f"CREATE TABLE t (id INT PRIMARY KEY NOT ENFORCED, v BIGINT) WITH ({options})")
    sql("INSERT INTO t VALUES (1, 9223372036854775806); INSERT INTO t VALUES (1, 1)")
    assert sql("SELECT v FROM t") == [(9223372036854775807,)]


VALUES = [
    "'file.compression' = 'brotli'",
    "'file.compression.per.level' = '0:brotli'",
    "'file.compression.zstd-level' = '99'",
    "'metadata.stats-mode' = 'truncate(-1)'",
    "'metadata.stats-mode' = 'truncate(0)'",
    "'manifest.compression' = 'brotli'",
    "'file.format.per.level' = '0:xls'",
    "'file.format' = 'orc', 'file.compression' = 'gzip'",
    "'file.format' = 'xls'",
]


@pytest.mark.parametrize("engine", ["duckdb"])
@pytest.mark.parametrize("options", VALUES)
def test_a_value_that_cannot_be_is_refused_when_it_is_given(sql: Sql, options: str) -> None:
    sql("CREATE TABLE t (a INT)")
    key = options.split("'")[1] if "," not in options else "file.compression"
    for text in (f"CREATE TABLE u (a INT) WITH ({options})", f"ALTER TABLE t SET ({options})"):
        with pytest.raises(StorageError, match=key.removesuffix(".per.level").replace(".", "[.]")):
            sql(text)
    if "," not in options:
        with pytest.raises(StorageError):
            sql("SET " + options.replace("'", "'table-storage.", 1))


NO_EFFECT = [
    "'merge-engine' = 'partial-update'",
    "'sequence.field' = 'a'",
    "'fields.a.aggregate-function' = 'sum'",
    "'num-levels' = '4'",
    "'full-compaction.delta-commits' = '3'",
]


@pytest.mark.parametrize("engine", ["duckdb"])
@pytest.mark.parametrize("options", NO_EFFECT)
def test_options_without_effect_on_a_table_without_a_key_are_refused(sql: Sql, options: str) -> None:
    sql("CREATE TABLE t (a INT)")
    for text in (f"CREATE TABLE u (a INT) WITH ({options})", f"ALTER TABLE t SET ({options})"):
        with pytest.raises(InvalidRequest, match="without a primary key"):
            sql(text)
    sql("CREATE TABLE u (a INT) WITH ('merge-engine' = 'deduplicate')")


@pytest.mark.parametrize("engine", ["duckdb"])
def test_partitions_are_dropped_by_values(sql: Sql) -> None:
    sql("CREATE TABLE t (a INT, p STRING) PARTITIONED BY (p)")
    with pytest.raises(InvalidRequest, match="column = value"):
        sql("ALTER TABLE t DROP PARTITION (p < 'x')")


def test_functions_are_listed(sql: Sql) -> None:
    names = {name for (name,) in sql("SHOW FUNCTIONS")}
    assert {"abs", "upper", "substring", "count", "row_number"} <= names
    assert not names & {"java_method", "reflect"}
    assert ("abs",) in sql("SHOW FUNCTIONS LIKE 'a*'")
    assert ("upper",) not in sql("SHOW FUNCTIONS LIKE 'a*'")


@pytest.mark.parametrize("engine", ["duckdb"])
def test_a_job_that_never_began_is_no_place_to_start_from(sql: Sql) -> None:
    sql("CREATE TABLE t (a INT); CREATE TABLE u (a INT); SET 'pipeline.name' = 'first'; INSERT INTO u SELECT a FROM t")
    sql("INSERT INTO t VALUES (1); INSERT INTO u SELECT a FROM t; INSERT INTO t VALUES (2)")
    with pytest.raises(NotFound, match="Did you mean 'first'"):
        sql("SET 'pipeline.startup-from' = 'frist'")
    sql("SET 'pipeline.startup-from' = 'first'")
    assert sql("SELECT a FROM t") == [(1,)]
    with pytest.raises(NotFound) as raised:
        sql("SELECT a FROM u")
    assert "Did you mean" not in str(raised.value)


def test_the_comment_of_a_table_is_set_and_unset_as_an_option(sql: Sql) -> None:
    sql("CREATE TABLE t (id INT); ALTER TABLE t SET TBLPROPERTIES ('comment' = 'it''s mine')")
    assert "COMMENT" in sql("SHOW CREATE TABLE t")[0][0]
    sql("ALTER TABLE t UNSET TBLPROPERTIES ('comment')")
    assert "COMMENT" not in sql("SHOW CREATE TABLE t")[0][0]
    with pytest.raises(InvalidRequest, match="'comment' is not set"):
        sql("ALTER TABLE t UNSET TBLPROPERTIES ('comment')")
    sql("ALTER TABLE t UNSET TBLPROPERTIES IF EXISTS ('comment')")


@pytest.mark.parametrize("engine", ["duckdb"])
@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("EXPLAIN EXTENDED SELECT 1", r"EXPLAIN … EXTENDED is not supported here"),
        ("CREATE DATABASE x COMMENT 'y'", r"CREATE DATABASE … with COMMENT, LOCATION or properties is not"),
        ("ALTER TABLE words DROP PRIMARY KEY", r"DROP PRIMARY KEY is not known here"),
    ],
)
def test_what_is_refused_is_called_what_was_written(sql: Sql, statement: str, said: str) -> None:
    sql("CREATE TABLE words (id INT)")
    with pytest.raises(StorageError, match=said):
        sql(statement)


@pytest.mark.parametrize("engine", ["duckdb"])
@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("CREATE TABLE u ('a' INT)", "back quotes"),
        ("CREATE TABLE u (a INT, PRIMARY KEY ('a') NOT ENFORCED)", "back quotes"),
        ("CREATE TABLE u (a INT) PARTITIONED BY ('a')", "back quotes"),
        ("CREATE TABLE u (a BLOB)", "BLOB is a type of the format that is not written here"),
        ("CREATE TABLE u (a STRUCT<x: BLOB>)", "BLOB is a type of the format that is not written here"),
    ],
)
def test_texts_are_no_names_of_columns_and_blobs_no_bytes(sql: Sql, statement: str, said: str) -> None:
    with pytest.raises(InvalidRequest, match=said):
        sql(statement)


@pytest.mark.parametrize("engine", ["duckdb"])
@pytest.mark.parametrize(
    ("statement", "said"),
    [
        (
            "CREATE TABLE u (a INT, PRIMARY KEY (a) NOT ENFORCED) WITH ('primary-key' = 'a')",
            "primary key is given twice, once as the option 'primary-key'",
        ),
        (
            "CREATE TABLE u (a INT, b INT) PARTITIONED BY (a) WITH ('partition' = 'a')",
            "partition columns is given twice, once as the option 'partition'",
        ),
        ("CREATE TABLE u (a INT IDENTITY)", "IDENTITY"),
        ("SET 'table-storage.path' = '/x'", "'path' = '/x'"),
        ("ALTER TABLE words RENAME COLUMN id TO `a.b`", "'a.b' has a dot, which leads into a struct"),
    ],
)
def test_what_is_wrong_is_named_as_it_was_written(sql: Sql, statement: str, said: str) -> None:
    sql("CREATE TABLE words (id INT)")
    with pytest.raises(StorageError, match=said):
        sql(statement)


@pytest.mark.parametrize("engine", ["duckdb"])
def test_a_view_gets_no_name_in_a_database_that_is_not_there(sql: Sql) -> None:
    sql("CREATE VIEW v AS SELECT 1 AS a; CREATE DATABASE db")
    with pytest.raises(NotFound, match="There is no database 'nodb'"):
        sql("ALTER VIEW v RENAME TO nodb.v")
    assert ("nodb",) not in sql("SHOW DATABASES")
    sql("ALTER VIEW v RENAME TO db.v")
    assert sql("SELECT a FROM db.v") == [(1,)]


@pytest.mark.parametrize("engine", ["duckdb"])
def test_what_is_renamed_stays_in_its_database_unless_the_name_says_another(sql: Sql) -> None:
    sql("CREATE TABLE db.t (a INT); CREATE VIEW db.v AS SELECT 1 AS a; CREATE DATABASE other")
    sql("ALTER TABLE db.t RENAME TO u; ALTER VIEW db.v RENAME TO w")
    assert (sql("SHOW TABLES IN db"), sql("SHOW VIEWS IN db")) == ([("u",)], [("w",)])
    sql("ALTER TABLE db.u RENAME TO other.t; ALTER VIEW db.w RENAME TO other.v")
    assert (sql("SHOW TABLES IN other"), sql("SHOW VIEWS IN other")) == ([("t",)], [("v",)])


@pytest.mark.parametrize("computed", ["i + 1", "1 + i", "i - -1", "i * 2", "-j", "abs(j)"])
@pytest.mark.parametrize("engine", ["duckdb"])
def test_an_overflow_is_an_error_wherever_it_stands(sql: Sql, computed: str) -> None:
    sql("CREATE TABLE ints (i INT, j INT); INSERT INTO ints VALUES (2147483647, -2147483648), (5, 5)")
    for wanted in ("sum(%s)", "avg(%s)", "count(%s)", "%s IS NULL"):
        with pytest.raises(InvalidRequest, match="Overflow"):
            sql(f"SELECT {wanted % computed} FROM ints")
    for condition in ("%s > 0", "%s = 6", "%s IS NOT NULL"):
        for statement in ("SELECT 1", "DELETE"):
            with pytest.raises(InvalidRequest, match="Overflow"):
                sql(f"{statement} FROM ints WHERE {condition % computed}")
    assert len(sql("SELECT i FROM ints")) == 2


@pytest.mark.parametrize("engine", ["duckdb"])
@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("CREATE TABLE u (a INT) PARTITIONED BY ()", "names no column"),
        ("ALTER TABLE days ADD COLUMN x INT COMMENT 'a' COMMENT 'b'", "COMMENT of column 'x' is given twice"),
        ("ALTER TABLE days ADD PARTITION (d = 'nonsense')", "'nonsense' is not a value of type DATE"),
        ("ALTER TABLE days ADD IF NOT EXISTS PARTITION (d = 'nonsense')", "'nonsense' is not a value of type DATE"),
        ("SET pipeline.name = NULL", "RESET 'key'"),
        ("ALTER TABLE days SET ('bucket' = NULL)", "NULL is no value"),
        ("ALTER TABLE days ALTER COLUMN a COMMENT NULL", "a comment is a text"),
    ],
)
def test_what_would_be_passed_over_is_refused(sql: Sql, statement: str, said: str) -> None:
    sql("CREATE TABLE days (a INT, d DATE) PARTITIONED BY (d); ALTER TABLE days ADD PARTITION (d = '2024-05-01')")
    with pytest.raises(InvalidRequest, match=said):
        sql(statement)


def test_partitions_that_are_not_there_are_dropped_with_none_and_those_that_are_are_not_added(sql: Sql) -> None:
    sql(
        "CREATE TABLE p (id INT, d DATE, k STRING) PARTITIONED BY (d, k); "
        "INSERT INTO p VALUES (1, DATE'2024-01-01', 'a'), (2, DATE'2024-01-01', 'b'), (3, DATE'2024-01-02', 'a')"
    )
    there, absent = "(d = '2024-01-01', k = 'a')", "(d = '2024-01-09', k = 'b')"
    with pytest.raises(NotFound, match=r"no such partition, d = '2024-01-09', k = 'b'; nothing is dropped"):
        sql(f"ALTER TABLE p DROP PARTITION {there}, PARTITION {absent}")
    assert len(sql("SELECT id FROM p")) == 3
    with pytest.raises(AlreadyExists, match="has the partition d = '2024-01-01', k = 'a' already"):
        sql(f"ALTER TABLE p ADD PARTITION {there}")
    with pytest.raises(InvalidRequest, match="values of all its partition columns: d, k"):
        sql("ALTER TABLE p ADD PARTITION (d = '2024-01-05')")
    sql(f"ALTER TABLE p ADD IF NOT EXISTS PARTITION {there}; ALTER TABLE p ADD PARTITION {absent}")
    sql(
        f"ALTER TABLE p DROP IF EXISTS PARTITION {there}, PARTITION {absent}; ALTER TABLE p DROP PARTITION (d = '2024-01-01')"
    )
    assert sql("SELECT id FROM p") == [(3,)]


@pytest.mark.parametrize("engine", ["duckdb"])
def test_numbers_are_partitions_of_texts_as_spark_writes_them(sql: Sql) -> None:
    sql("CREATE TABLE p (id INT, k STRING) PARTITIONED BY (k)")
    for number, constant in enumerate(["01", "-007", "1.50", "5L", "true", "'01'", "0"]):
        sql(f"INSERT INTO p PARTITION (k = {constant}) SELECT {number}")
    assert sql("SELECT k FROM p ORDER BY id") == [("1",), ("-7",), ("1.50",), ("5",), ("true",), ("01",), ("0",)]
    with pytest.raises(InvalidRequest, match="k is a text, and this a number: write it in quotes"):
        sql("INSERT INTO p PARTITION (k = 1e2) SELECT 9")


def test_replace_of_two_arguments_leaves_out_what_it_finds(sql: Sql) -> None:
    assert sql("SELECT replace('abab', 'a') AS r, replace('abab', 'a', 'c') AS s, replace('ab', '') AS t") == [
        ("bb", "cbcb", "ab")
    ]


def test_the_default_database_is_quoted_in_duckdbs_own_sql(session: Session) -> None:
    session.sql("CREATE TABLE words (id INT)", "duckdb")
    with pytest.raises(StorageError, match='write the database as "default", in double quotes'):
        run_query(session, "SELECT * FROM default.words")


def test_a_text_without_letters_needs_no_name(sql: Sql) -> None:
    sql("CREATE TABLE t (id INT, v STRING); INSERT INTO t SELECT 1, ''")
    assert sql("SELECT id, '' FROM t") == [(1, "")]


def test_a_day_of_a_partition_is_written_as_spark_reads_it(sql: Sql) -> None:
    sql("CREATE TABLE t (id INT, d DATE) PARTITIONED BY (d); INSERT INTO t PARTITION (d = '2024-1-2') VALUES (1)")
    assert len(sql("SHOW PARTITIONS t PARTITION (d = '2024-1-2')")) == 1
    sql("ALTER TABLE t DROP PARTITION (d = '2024-1-2')")
    assert sql("SELECT * FROM t") == []
    with pytest.raises(InvalidRequest, match="'2024-1' is not a value of type DATE: write a day, as in 2024-05-01"):
        sql("ALTER TABLE t DROP PARTITION (d = '2024-1')")


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("CREATE TABLE u (id INT) WITH ('bucket' = 'abc')", r"Option 'bucket' = 'abc' is not a whole number\.$"),
        (
            "CREATE TABLE u (id INT) PARTITIONED BY (bucket(2, id))",
            "PARTITIONED BY takes columns, and BUCKET.2, id. is none",
        ),
        (
            "MERGE INTO t USING (SELECT 1 AS id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET *",
            "The source lacks v. Its columns: id. Say what each column gets: in SQL UPDATE SET a = s.x",
        ),
    ],
)
def test_what_is_wrong_is_said_in_words_of_the_statement(sql: Sql, statement: str, message: str) -> None:
    sql("CREATE TABLE t (id INT, v INT, PRIMARY KEY (id) NOT ENFORCED)")
    with pytest.raises(InvalidRequest, match=message):
        sql(statement)


@pytest.mark.parametrize("value", ["CAST('NaN' AS DOUBLE), 1", "1, 1E300"])
def test_duckdb_says_which_engine_stores_what_it_cannot(session: Session, value: str) -> None:
    session.sql("CREATE TABLE t (d DECIMAL(5, 0), f FLOAT)", "duckdb")
    with pytest.raises(InvalidRequest, match=r"cannot hold the values: .* Use the engine spark\.$"):
        session.sql(f"INSERT INTO t VALUES ({value})", "duckdb")
    session.sql(f"INSERT INTO t VALUES ({value})", "spark")


def test_times_are_given_by_python_and_each_engine_says_so(session: Session) -> None:
    session.sql("CREATE TABLE t (id INT, at TIME(3))", "duckdb")
    for statement in ("INSERT INTO t VALUES (1, TIME'12:00:00')", "SELECT * FROM t WHERE at > '12:00:00'"):
        with pytest.raises(InvalidRequest, match="SQL has no values of type TIME, on either engine"):
            session.sql(statement, "duckdb")
    with pytest.raises(InvalidRequest, match="SQL has no values of type TIME, on either engine"):
        session.sql("SELECT TIME'12:00:00' AS a", "spark")


def test_blanks_beyond_a_varchar_are_cut(sql: Sql) -> None:
    sql("CREATE TABLE t (c VARCHAR(4)); INSERT INTO t VALUES ('abc   '), ('a '), ('abcd'), ('    '), (NULL)")
    assert sorted(sql("SELECT c FROM t"), key=str) == [("    ",), ("a ",), ("abc ",), ("abcd",), (None,)]
    with pytest.raises(InvalidRequest, match="has 5 characters"):
        sql("INSERT INTO t VALUES ('abcde'), ('ab  ')")


def test_elements_that_may_be_null_are_asked_by_their_values(sql: Sql) -> None:
    sql("CREATE TABLE s (id INT, a ARRAY<INT>); CREATE TABLE t (id INT, a ARRAY<INT NOT NULL>)")
    sql("INSERT INTO s VALUES (1, array(1, 2)); INSERT INTO t SELECT * FROM s")
    assert sql("SELECT id, a FROM t") == [(1, [1, 2])]
    with pytest.raises(InvalidRequest, match=r"a\.element is NOT NULL, but 1 of 2 values are null there"):
        sql("INSERT INTO t SELECT 2, array(1, NULL) FROM s")


def test_times_inside_of_arrays_are_read_as_they_are(session: Session) -> None:
    table = session.catalog.create_table("default.t", pa.schema([("at", pa.list_(pa.time32("ms")))]))
    table.write(pa.table({"at": pa.array([[datetime.time(1, 2, 3)]], pa.list_(pa.time32("ms")))}))
    assert session.sql("SELECT * FROM t", "duckdb").to_arrow().to_pylist() == [{"at": [datetime.time(1, 2, 3)]}]
