"""Exports: what COPY and INSERT OVERWRITE DIRECTORY write, plain DuckDB and Spark read back with the same rows and types."""

import datetime as dt
import os
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from resources import Session, Settings
from resources.exports.destination import destination
from storage import CommitConflict, InvalidRequest, StorageError
from tests.contracts.s3_server import Faults, object_store
from tests.resources.sql_runner import runner

pytestmark = pytest.mark.spark
Sql = Callable[[str], Any]
TEXTS = [
    "plain",
    "",
    None,
    "a,b",
    'say "x"',
    "two\nlines",
    "\\",
    " blank ",
    "null",
    "NULL",
    "ü☃",
    "#x",
    "1.0",
    "\\N",
    '"',
]


@pytest.fixture
def out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory below which files may be written."""
    directory = tmp_path / "out"
    monkeypatch.setenv("SNAPLINE_WRITABLE_DIRECTORIES", f'["{directory}"]')
    return directory


@pytest.fixture
def sql(out: Path, session: Session, engine: str) -> Sql:
    """Runs statements on a platform with a table of texts, and one of all plain types."""
    if not session.settings.writable_directories:
        session = Session()
    rows = pa.table({"id": pa.array(range(len(TEXTS)), pa.int64()), "s": TEXTS})
    session.catalog.create_table("default.t", rows.schema).write(rows)
    kinds = pa.table(
        {
            "b": [True, False, None],
            "i": pa.array([1, -(2**31), None], pa.int32()),
            "l": pa.array([2**63 - 1, -(2**63), None], pa.int64()),
            "f": pa.array([0.1, float("inf"), None], pa.float32()),
            "d": pa.array([1.0, float("-inf"), None], pa.float64()),
            "n": pa.array([Decimal("0.0000000001"), Decimal("-12345.5"), None], pa.decimal128(20, 10)),
            "day": pa.array([dt.date(2024, 2, 29), dt.date(1, 1, 1), None]),
            "at": pa.array(
                [dt.datetime(2024, 5, 1, 12, 0, 0, 123456), dt.datetime(1969, 12, 31, 23, 59, 59), None],
                pa.timestamp("us"),
            ),
            "atz": pa.array(
                [dt.datetime(2024, 5, 1, 12), dt.datetime(1950, 1, 1, 0, 0, 0, 500000), None], pa.timestamp("us", "UTC")
            ),
            "s": ["x", "", None],
        }
    )
    session.catalog.create_table("default.kinds", kinds.schema).write(kinds)
    nested = pa.table(
        {
            "id": pa.array([1, 2], pa.int64()),
            "st": pa.array([{"a": 1, "b": None}, None], pa.struct([("a", pa.int32()), ("b", pa.string())])),
            "li": pa.array([["x", None, 'q"'], []], pa.list_(pa.string())),
            "m": pa.array([[("k", 1.5)], None], pa.map_(pa.string(), pa.float64())),
            "by": pa.array([b"\x00\xff", None], pa.binary()),
        }
    )
    session.catalog.create_table("default.nested", nested.schema).write(nested)
    return runner(session, engine)


@pytest.fixture
def spark(session: Session) -> Iterator[Any]:
    """Plain Spark."""
    from resources.spark_session import start_spark

    yield start_spark(session.settings)


def by_duckdb(text: str) -> list[tuple[Any, ...]]:
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        return connection.sql(text).fetchall()


def rows_of(frame: Any) -> list[tuple[Any, ...]]:
    return sorted((tuple(row.values()) for row in frame.toArrow().to_pylist()), key=repr)


@pytest.mark.parametrize("table", ["t", "kinds", "nested"])
def test_parquet_holds_the_rows_and_the_types_of_the_query(sql: Sql, spark: Any, out: Path, table: str) -> None:
    count = len(sql(f"SELECT * FROM {table}"))
    assert sql(f"COPY {table} TO '{out}/one.parquet'") == f"{count} rows written to {out}/one.parquet"
    assert sql(f"INSERT OVERWRITE DIRECTORY '{out}/many' USING parquet SELECT * FROM {table}").startswith(
        f"{count} rows"
    )
    expected = sorted(sql(f"SELECT * FROM {table}"), key=repr)
    kinds = spark.sql("SELECT 1").schema
    for path in ("one.parquet", "many"):
        frame = spark.read.parquet(f"{out}/{path}")
        assert rows_of(frame) == expected
        kinds = frame.schema.simpleString()
        assert "timestamp_ntz" in kinds or table != "kinds"
    counted = by_duckdb(f"SELECT count(*) FROM '{out}/one.parquet'")
    assert counted == [(count,)]


def test_csv_is_read_back_by_both(sql: Sql, spark: Any, out: Path) -> None:
    sql(f"COPY (SELECT * FROM t) TO '{out}/t.csv' (NULL 'null')")
    expected = sorted(enumerate(TEXTS), key=repr)
    read = f"read_csv('{out}/t.csv', nullstr='null', allow_quoted_nulls=false, types={{'id': 'BIGINT', 's': 'VARCHAR'}}, auto_detect=false, header=true, columns={{'id': 'BIGINT', 's': 'VARCHAR'}}, quote='\"', escape='\"')"  # noqa: E501
    assert sorted(by_duckdb(f"SELECT * FROM {read}"), key=repr) == expected
    sql(f"INSERT OVERWRITE DIRECTORY '{out}/csv' USING csv OPTIONS (header 'true', nullValue '~') SELECT * FROM t")
    frame = spark.read.csv(f"{out}/csv", header=True, multiLine=True, nullValue="~", schema="id BIGINT, s STRING")
    assert rows_of(frame) == expected
    sql(f"COPY kinds TO '{out}/kinds.csv.gz' (NULL '~')")
    kinds = sql("SELECT * FROM kinds")
    schema = "b BOOLEAN, i INT, l BIGINT, f FLOAT, d DOUBLE, n DECIMAL(20,10), day DATE, at TIMESTAMP_NTZ, atz TIMESTAMP, s STRING"  # noqa: E501
    assert rows_of(spark.read.csv(f"{out}/kinds.csv.gz", header=True, nullValue="~", schema=schema)) == sorted(
        kinds, key=repr
    )
    columns = "{'b': 'BOOLEAN', 'i': 'INT', 'l': 'BIGINT', 'f': 'FLOAT', 'd': 'DOUBLE', 'n': 'DECIMAL(20,10)', 'day': 'DATE', 'at': 'TIMESTAMP', 'atz': 'TIMESTAMPTZ', 's': 'VARCHAR'}"  # noqa: E501
    read_back = by_duckdb(
        f"SELECT * REPLACE (epoch_us(atz) AS atz) FROM read_csv('{out}/kinds.csv.gz', columns={columns}, "
        "header=true, nullstr='~', auto_detect=false, quote='\"')"
    )
    began = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    us = [None if row[8] is None else (row[8] - began) // dt.timedelta(microseconds=1) for row in kinds]
    assert sorted(repr(row[8]) for row in read_back) == sorted(map(repr, us))
    assert sorted(map(repr, (row[:7] for row in read_back))) == sorted(map(repr, (row[:7] for row in kinds)))


@pytest.mark.parametrize("table", ["t", "kinds", "nested"])
def test_json_is_read_back(sql: Sql, spark: Any, out: Path, table: str) -> None:
    expected = sorted(sql(f"SELECT * FROM {table}"), key=repr)
    sql(f"COPY {table} TO '{out}/t.json'")
    sql(
        f"INSERT OVERWRITE LOCAL DIRECTORY 'file://{out}/j' USING json OPTIONS (compression = gzip) SELECT * FROM {table}"
    )
    sql(f"COPY {table} TO '{out}/t.parquet'")
    schema = spark.read.parquet(f"{out}/t.parquet").schema
    for path in ("t.json", "j"):
        assert rows_of(spark.read.json(f"{out}/{path}", schema=schema)) == expected
    assert by_duckdb(f"SELECT count(*) FROM read_json('{out}/t.json')") == [(len(expected),)]
    [part] = [name for name in os.listdir(out / "j") if name.startswith("part-")]
    assert part.endswith(".json.gz")


def test_both_engines_write_the_same_texts(out: Path, session: Session) -> None:
    session = Session()
    session.sql(
        "CREATE TABLE p (id INT, d DOUBLE, n DECIMAL(5,2), at TIMESTAMP); INSERT INTO p VALUES (1, 1.5, 2.50, TIMESTAMP '2024-01-01 00:00:00'), (2, NULL, NULL, NULL)",  # noqa: E501
        "duckdb",
    )
    for engine in ("duckdb", "spark"):
        session.sql(
            f"COPY (SELECT *, id + 1 AS next, [id] AS xs FROM (SELECT * FROM p) ORDER BY id) TO '{out}/{engine}.json'".replace(
                "[id]", "array(id)"
            ),
            engine,
        )
        session.sql(f"COPY (SELECT * FROM p ORDER BY id DESC) TO '{out}/{engine}.parquet'", engine)
    assert (out / "duckdb.json").read_text() == (out / "spark.json").read_text()
    assert (out / "duckdb.json").read_text().splitlines()[0] == (
        '{"id":1,"d":1.5,"n":2.50,"at":"2024-01-01T00:00:00","next":2,"xs":[1]}'
    )
    assert pq.read_table(out / "duckdb.parquet").equals(pq.read_table(out / "spark.parquet"))


OPTIONS = {
    "(FORMAT csv, HEADER false, DELIMITER ';', QUOTE '|', NULL '-')": "0;|a;|||\n1;-\n",
    "(FORMAT csv, HEADER, QUOTE_ALL)": '"id","s"\n"0","a;|"\n"1",\n',
    "(FORMAT csv, SEP '\\t', ESCAPE '\\\\')": "id\ts\n0\ta;|\n1\t\n",
    "WITH (FORMAT json)": '{"id":0,"s":"a;|"}\n{"id":1,"s":null}\n',
    "(FORMAT json, ignoreNullFields true)": '{"id":0,"s":"a;|"}\n{"id":1}\n',
}


@pytest.mark.parametrize("engine", ["duckdb"])
@pytest.mark.parametrize("options", OPTIONS)
def test_options_are_carried_out(sql: Sql, out: Path, options: str) -> None:
    sql(f"COPY (VALUES (0, 'a;|'), (1, NULL) AS v (id, s)) TO '{out}/x' {options}")
    assert (out / "x").read_text() == OPTIONS[options]


@pytest.mark.parametrize("engine", ["duckdb"])
def test_an_option_of_sparks_statement_needs_no_equals_sign(sql: Sql, out: Path) -> None:
    for number, options in enumerate(
        (
            "'header' 'true', \"sep\" ';'",
            "header 'true', sep ';'",
            "'header' = 'true', 'sep' = ';'",
            "'header' true, sep = ';'",
        )
    ):
        sql(f"INSERT OVERWRITE DIRECTORY '{out}/{number}' USING csv OPTIONS ({options}) SELECT 1 AS a, 'it''s' AS b")
        [part] = out.glob(f"{number}/part-*.csv")
        assert part.read_text() == "a;b\n1;it's\n"


@pytest.mark.parametrize("table", ["t", "kinds", "nested"])
def test_orc_holds_the_rows_and_the_types_of_the_query(sql: Sql, spark: Any, out: Path, table: str) -> None:
    query = (
        "SELECT * EXCEPT (at, atz) FROM kinds WHERE day > '1583-01-01' OR day IS NULL"
        if table == "kinds"
        else f"SELECT * FROM {table}"
    )
    expected = sorted(sql(query), key=repr)
    sql(f"COPY ({query}) TO '{out}/one.orc' (COMPRESSION snappy); COPY ({query}) TO '{out}/one.parquet'")
    sql(f"INSERT OVERWRITE DIRECTORY '{out}/many' USING orc {query}")
    [part] = [name for name in os.listdir(out / "many") if name.startswith("part-")]
    assert part.endswith(".zstd.orc")
    for path in ("one.orc", "many"):
        frame = spark.read.orc(f"{out}/{path}")
        assert rows_of(frame) == expected
        assert frame.schema == spark.read.parquet(f"{out}/one.parquet").schema
    sql(f"COPY (SELECT 1 AS a WHERE 1 = 0) TO '{out}/empty.orc' (COMPRESSION none)")
    assert spark.read.orc(f"{out}/empty.orc").toArrow().num_rows == 0


@pytest.mark.parametrize("engine", ["duckdb"])
def test_options_of_parquet_are_carried_out(sql: Sql, out: Path) -> None:
    sql(f"COPY t TO '{out}/x' (FORMAT parquet, COMPRESSION 'zstd', COMPRESSION_LEVEL 3, ROW_GROUP_SIZE 4)")
    meta = pq.read_metadata(out / "x")
    assert (meta.num_row_groups, meta.row_group(0).num_rows) == (4, 4)
    assert meta.row_group(0).column(0).compression == "ZSTD"
    sql(f"COPY t (id) TO '{out}/y.parquet'; COPY (SELECT 1 AS a WHERE 1 = 0) TO '{out}/empty.parquet'")
    assert pq.read_table(out / "y.parquet").column_names == ["id"]
    assert pq.read_table(out / "empty.parquet").num_rows == 0


REFUSED = {
    "COPY t TO '{out}/x'": "no format",
    "COPY t TO '{out}/x.xlsx' (FORMAT xlsx)": "'xlsx' is not written",
    "COPY t TO '{out}/x.csv' (FORMAT)": "one format",
    "COPY t TO '{out}/x.csv' (DELIMITER ';;')": "'delimiter' is one character",
    "COPY t TO '{out}/x.csv' (DELIMITER '\"')": "same character",
    "COPY t TO '{out}/x.csv' (HEADER maybe)": "true or false",
    "COPY t TO '{out}/x.csv' (HEADER, HEADER)": "given twice",
    "COPY t TO '{out}/x.csv' (SEP ';', DELIM ';')": "given twice",
    "COPY t TO '{out}/x.csv' (ROW_GROUP_SIZE 5)": "is one of parquet, not of csv",
    "COPY t TO '{out}/x.csv' (DATEFORMAT '%d')": "not carried out: values are written in ISO",
    "COPY t TO '{out}/x.csv' (PARTITION_BY id)": "not carried out: one statement writes one file",
    "COPY t TO '{out}/x.csv' (headr true)": "Did you mean 'header'",
    "COPY t TO '{out}/x.csv' (COMPRESSION xz)": "Compression 'xz'",
    "COPY t TO '{out}/x.parquet' (ROW_GROUP_SIZE 0)": "'row_group_size' is a number",
    "COPY t TO '{out}/x.parquet' (COMPRESSION_LEVEL 3)": "has no levels",
    "COPY t FROM '{out}/x.csv'": "COPY … FROM is not known",
    "COPY (SELECT 1 AS a, 2 AS A) TO '{out}/x.csv'": "Two columns are named",
    "COPY (SELECT NULL AS a) TO '{out}/x.csv'": "only column",
    "COPY (SELECT array(1) AS a) TO '{out}/x.csv'": "nested type",
    "COPY (SELECT nope FROM t) TO '{out}/x.csv'": "nope",
    "COPY (DELETE FROM t) TO '{out}/x.csv'": "COPY takes a table",
    "INSERT OVERWRITE DIRECTORY '{out}/x' SELECT 1 AS a": "Expected USING",
    "INSERT OVERWRITE DIRECTORY '{out}/x' STORED AS orc SELECT 1 AS a": "Expected USING",
    "INSERT OVERWRITE DIRECTORY '{out}/x' USING avro SELECT 1 AS a": "'avro' is not written",
    "COPY (SELECT array(TIMESTAMP '2024-01-01 00:00:00') AS a) TO '{out}/x.orc'": "'a' holds times",
    "COPY kinds (day) TO '{out}/x.orc'": "'day' has the day 0001-01-01",
    "COPY (SELECT struct(array(day)) AS a FROM kinds) TO '{out}/x.orc'": "'a' has the day 0001-01-01",
    "COPY (SELECT array(struct(day)) AS a FROM kinds) TO '{out}/x.orc'": "'a' has the day 0001-01-01",
    "COPY t TO '{out}/x.orc' (COMPRESSION brotli)": "'brotli' is not known for orc",
    "COPY t TO '{out}/x.orc' (ROW_GROUP_SIZE 5)": "is one of parquet, not of orc",
    "COPY t TO '{out}/x.parquet' (PARTITION_BY (id, s))": "'PARTITION_BY' is not carried out: one statement writes one file",
    "COPY t TO '{out}/x.csv' (FORCE_QUOTE *)": "quote_all quotes every value",
    "COPY t TO '{out}/x.csv' (NULL ('a', 'b'))": "takes one value, not the list",
    "COPY t TO '{out}/x' (FORMAT (csv))": "one format",
    "INSERT OVERWRITE DIRECTORY USING csv SELECT 1 AS a": "named once",
    "INSERT OVERWRITE DIRECTORY '{out}/x' USING csv OPTIONS (path '{out}/y') SELECT 1 AS a": "named once",
    "INSERT OVERWRITE LOCAL DIRECTORY 's3://b/x' USING csv SELECT 1 AS a": "no LOCAL DIRECTORY",
    "INSERT OVERWRITE DIRECTORY '{out}/x' USING csv OPTIONS (timestampFormat 'y') SELECT 1 AS a": "not carried out",
    "INSERT OVERWRITE DIRECTORY '{out}/x' USING csv OPTIONS ('header' 'tr' 'ue') SELECT 1 AS a": "Expected",
    "INSERT OVERWRITE DIRECTORY '{out}/x' USING csv OPTIONS ('header' = 'tr' 'ue') SELECT 1 AS a": "Expected",
    "INSERT OVERWRITE DIRECTORY '{out}/x' USING csv OPTIONS ('header') SELECT 1 AS a": "Expected a value",
    "SET 'execution.runtime-mode' = 'streaming'; COPY t TO '{out}/x.csv'": "RESET",
    "EXPLAIN COPY t TO '{out}/x.csv'": "EXPLAIN takes",
}


@pytest.mark.parametrize("engine", ["duckdb"])
@pytest.mark.parametrize("statement", REFUSED)
def test_what_is_not_carried_out_is_refused_by_name_and_leaves_no_file(sql: Sql, out: Path, statement: str) -> None:
    with pytest.raises(StorageError, match=REFUSED[statement]):
        sql(statement.format(out=out))
    assert not out.exists() or os.listdir(out) == []


@pytest.mark.parametrize("engine", ["duckdb"])
def test_places_that_are_not_allowed_are_refused(sql: Sql, out: Path, tmp_path: Path, session: Session) -> None:
    out.mkdir()
    (tmp_path / "other").mkdir()
    (out / "link").symlink_to(tmp_path / "other")
    for path in (
        f"{tmp_path}/x.csv",
        f"{out}x.csv",
        f"{out}/../x.csv",
        f"{out}/link/x.csv",
        str(out),
        f"{out}/.",
        "x.csv",
        "",
        "s3://bucket/x.csv",
        "file://host/x.csv",
        f"{session.settings.home}/x.csv",
    ):
        with pytest.raises(StorageError):
            sql(f"COPY t TO '{path}' (FORMAT csv)")
    assert os.listdir(tmp_path / "other") == []
    assert os.listdir(out) == ["link"]


@pytest.mark.parametrize("engine", ["duckdb"])
def test_nothing_of_the_platform_is_overwritten(sql: Sql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SNAPLINE_WRITABLE_DIRECTORIES", f'["{tmp_path.parent}"]')
    session = Session()
    session.sql(f"CREATE CATALOG c WITH ('warehouse' = '{tmp_path}/second')", "duckdb")
    for path in (session.settings.home, session.settings.warehouse, tmp_path / "second"):
        with pytest.raises(InvalidRequest, match="belongs to the platform"):
            session.sql(f"COPY (SELECT 1 AS a) TO '{path}/x.csv'", "duckdb")
        with pytest.raises(InvalidRequest, match="belongs to the platform"):
            session.sql(f"INSERT OVERWRITE DIRECTORY '{path}/x' USING csv SELECT 1 AS a", "duckdb")
    with pytest.raises(InvalidRequest, match="belongs to the platform"):
        session.sql(f"INSERT OVERWRITE DIRECTORY '{tmp_path}' USING csv SELECT 1 AS a", "duckdb")
    assert session.sql("SELECT count(*) FROM t", "duckdb").to_arrow().column(0).to_pylist() == [len(TEXTS)]


def test_lineage_databases_and_warehouses_below_a_writable_directory_are_not_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "link").symlink_to(out / "linked.db")
    monkeypatch.setenv("THIRD", f"{out}/third")
    monkeypatch.setenv("SNAPLINE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SNAPLINE_WAREHOUSE", f"file://{out}/first")
    monkeypatch.setenv("SNAPLINE_LINEAGE_URL", f"jdbc:sqlite:{out}/first.db")
    monkeypatch.setenv("SNAPLINE_LOCK_DIRECTORY", f"{out}/locks")
    monkeypatch.setenv("SNAPLINE_WRITABLE_DIRECTORIES", f'["{out}"]')
    session = Session()
    of_second = f"'data-lineage' = 'true', 'jdbc.url' = 'jdbc:sqlite:{out}/link'"
    session.sql(f"CREATE CATALOG second WITH ('warehouse' = '{out}/second', {of_second})", "duckdb")
    session.sql("CREATE CATALOG third WITH ('warehouse' = '${env:THIRD}')", "duckdb")
    session.sql("CREATE TABLE t (a INT); INSERT INTO t VALUES (1)", "duckdb")
    held = ["first.db", "first.db-wal", "first.db-journal", "link", "linked.db", "first", "second", "third", "locks"]
    for name in [*held, "first/x.csv", "second/x.csv", "third/default.db/x.csv", "locks/x.csv"]:
        with pytest.raises(InvalidRequest, match="belongs to the platform"):
            session.sql(f"COPY t TO '{out}/{name}' (FORMAT csv)", "duckdb")
        with pytest.raises(InvalidRequest, match="belongs to the platform"):
            session.sql(f"INSERT OVERWRITE DIRECTORY '{out}/{name}' USING csv SELECT 1 AS a", "duckdb")
    assert session.lineage_store.has_snapshots("sink")
    # Also those of others, whom the platform does not know.
    with duckdb.connect(str(out / "other.duckdb")) as connection:
        connection.execute("CREATE TABLE t (a INT)")
    for name in ("other.duckdb",):
        with pytest.raises(InvalidRequest, match="is a database"):
            session.sql(f"COPY t TO '{out}/{name}' (FORMAT csv)", "duckdb")
    session.sql(f"COPY t TO '{out}/first.csv'", "duckdb")


def test_exports_lie_in_an_object_store(tmp_path: Path) -> None:
    with object_store(Faults(page_size=2)) as (endpoint, objects, faults):
        client = {"endpoint_url": endpoint, "region_name": "us-east-1"}
        config = {"retries": {"max_attempts": 6, "mode": "standard"}, "read_timeout": 5, "connect_timeout": 5}
        options = {"key": "k", "secret": "s3cr3t-word", "client_kwargs": client, "config_kwargs": config}
        lineage = f"jdbc:sqlite:{tmp_path}/l.db"
        session = Session(
            Settings(
                tmp_path / "home", "s3://bucket/wh", lineage, options, writable_directories=["s3://bucket/exports"]
            )
        )
        session.sql("CREATE TABLE t (a INT, b STRING); INSERT INTO t VALUES (1, 'x'), (2, NULL)", "duckdb")
        faults.unavailable = 0.2
        session.sql("COPY t TO 's3://bucket/exports/t.csv'", "duckdb")
        assert objects.held["bucket/exports/t.csv"][0] == b"a,b\n1,x\n2,\n"
        for form in ("parquet", "orc", "json"):
            for _ in range(2):
                session.sql(
                    f"INSERT OVERWRITE DIRECTORY 's3://bucket/exports/{form}' USING {form} SELECT * FROM t", "duckdb"
                )
            names = sorted(name for name in objects.held if name.startswith(f"bucket/exports/{form}/"))
            assert [name.rsplit("/", 1)[1][:4] for name in names] == ["_SUC", "part"]
        assert faults.seen["unavailable"] > 0
        faults.unavailable = 0
        objects.put("bucket/exports/json/mine.txt", b"mine", only_new=True)
        before = dict(objects.held)
        for statement, why in {
            "INSERT OVERWRITE DIRECTORY 's3://bucket/exports/json' USING json SELECT 1 AS a": "'mine.txt', which no export",
            "COPY t TO 's3://bucket/exports/json' (FORMAT csv)": "is a directory",
            "COPY t TO 's3://bucket/wh/default.db/t/x.csv'": "below none",
            "COPY t TO 's3://bucket/exports2/x.csv'": "below none",
            "COPY t TO 's3a://bucket/exports/../wh/x.csv'": "no place",
            "COPY (SELECT CAST(b AS INT) AS n FROM t) TO 's3://bucket/exports/t.csv'": "x",
        }.items():
            with pytest.raises(StorageError, match=why):
                session.sql(statement, "duckdb")
        assert {name: data for name, (data, _) in objects.held.items()} == {
            name: data for name, (data, _) in before.items()
        }
        faults.refusal = (403, "AccessDenied")
        with pytest.raises(StorageError) as refused:
            session.sql("COPY (SELECT 1 AS a) TO 's3://bucket/exports/new.csv'", "duckdb")
        assert "s3cr3t-word" not in str(refused.value) and "\n" not in str(refused.value)
        faults.refusal = None
        fsspec.get_filesystem_class("s3").clear_instance_cache()


def test_a_file_is_complete_or_not_there(sql: Sql, out: Path, engine: str) -> None:
    sql(f"COPY t TO '{out}/x.csv'; INSERT OVERWRITE DIRECTORY '{out}/d' USING csv SELECT * FROM t")
    before, parts = (out / "x.csv").read_bytes(), sorted(os.listdir(out / "d"))
    failing = "SELECT CAST(s AS INT) AS n FROM t WHERE s IS NOT NULL"
    for statement in (
        f"COPY ({failing}) TO '{out}/x.csv'",
        f"COPY ({failing}) TO '{out}/new.csv'",
        f"INSERT OVERWRITE DIRECTORY '{out}/d' USING csv {failing}",
    ):
        with pytest.raises(InvalidRequest):
            sql(statement)
    assert sorted(os.listdir(out)) == ["d", "x.csv"]
    assert (out / "x.csv").read_bytes() == before
    assert sorted(os.listdir(out / "d")) == parts


@pytest.mark.parametrize("engine", ["duckdb"])
def test_a_directory_is_replaced_if_it_holds_exports_alone(sql: Sql, out: Path) -> None:
    write = f"INSERT OVERWRITE DIRECTORY '{out}/d' USING csv SELECT "
    sql(f"{write} 1 AS a")
    sql(f"{write} 2 AS a")
    assert sorted(name[:4] for name in os.listdir(out / "d")) == ["_SUC", "part"]
    [part] = out.glob("d/part-*.csv")
    assert part.read_text() == "2\n"
    (out / "d" / "mine.txt").write_text("mine")
    with pytest.raises(InvalidRequest, match=r"'mine.txt', which no export has written"):
        sql(f"{write} 3 AS a")
    assert part.read_text() == "2\n"
    assert os.listdir(out) == ["d"]
    with pytest.raises(InvalidRequest, match="no file"):
        sql(f"COPY t TO '{out}/d' (FORMAT csv)")


def test_object_stores_are_written_too(tmp_path: Path) -> None:
    settings = Settings(
        tmp_path / "home",
        f"{tmp_path}/wh",
        f"jdbc:sqlite:{tmp_path}/l.db",
        writable_directories=["memory://exports/x"],
    )
    session = Session(settings)
    files = fsspec.filesystem("memory")
    session.sql("COPY (SELECT 1 AS a) TO 'memory://exports/x/a.csv'", "duckdb")
    assert files.cat("/exports/x/a.csv") == b"a\n1\n"
    for number in (1, 2):
        session.sql(f"INSERT OVERWRITE DIRECTORY 'memory://exports/x/d' USING json SELECT {number} AS a", "duckdb")
    file_names = [file.rsplit("/", 1)[1] for file in files.ls("/exports/x/d", detail=False)]
    assert sorted(name[:4] for name in file_names) == ["_SUC", "part"]
    for path in (
        "memory://exports/y.csv",
        "memory://wh/x.csv",
        "memory://exports/x/../y.csv",
        "memory://u:p@exports/x/y.csv",
    ):
        with pytest.raises(InvalidRequest):
            session.sql(f"COPY (SELECT 1 AS a) TO '{path}'", "duckdb")
    files.rm("/exports", recursive=True)


def test_a_place_with_credentials_is_refused_without_showing_them() -> None:
    with pytest.raises(InvalidRequest) as raised:
        destination(
            "s3://key:verysecretword@bucket/x.csv",
            allowed=["s3://bucket/x"],
            forbidden=[],
            storage=("/wh", {}),
            is_directory=False,
        )
    assert "verysecretword" not in str(raised.value)


@pytest.mark.parametrize("engine", ["duckdb"])
def test_exports_are_no_corrections(sql: Sql, out: Path) -> None:
    from resources.sql.corrections import refuse_beyond_branches, refuse_without_change
    from resources.sql.parsing import parse

    for text in (f"COPY t TO '{out}/x.csv'", f"INSERT OVERWRITE DIRECTORY '{out}/x' USING csv SELECT 1 AS a"):
        with pytest.raises(InvalidRequest, match=r"(COPY|DIRECTORY) is no correction"):
            refuse_beyond_branches(parse(text)[0])
    for text in ("SELECT 1", "SHOW TABLES; SET 'pipeline.name' = 'x'", "ANALYZE TABLE t COMPUTE STATISTICS"):
        with pytest.raises(InvalidRequest, match="changes nothing, and is no correction"):
            refuse_without_change(parse(text))
    refuse_without_change(parse("SELECT 1; DELETE FROM t WHERE id = 1"))


@pytest.mark.parametrize("engine", ["duckdb"])
def test_constraints_are_refused_by_their_name_and_columns_are_still_added(sql: Sql) -> None:
    for text in ("ADD CONSTRAINT c CHECK (id > 0)", "ADD CONSTRAINT p PRIMARY KEY (id)", "DROP CONSTRAINT c"):
        with pytest.raises(InvalidRequest, match=r"CONSTRAINT is not known here: .*SET NOT NULL"):
            sql(f"ALTER TABLE t {text}")
    with pytest.raises(InvalidRequest, match="CHANGE is not known here"):
        sql("ALTER TABLE t CHANGE s s STRING")
    sql("ALTER TABLE t ADD COLUMN n INT")
    sql("ALTER TABLE t RENAME COLUMN n TO m; ALTER TABLE t ALTER COLUMN m COMMENT 'x'; ALTER TABLE t DROP COLUMN m")


def test_a_directory_itself_below_which_files_may_be_written_is_none_of_them(sql: Sql, out: Path) -> None:
    out.mkdir(exist_ok=True)
    with pytest.raises(InvalidRequest, match="name one in it"):
        sql(f"INSERT OVERWRITE DIRECTORY '{out}' USING json SELECT 1 AS a")


@pytest.mark.parametrize("engine", ["duckdb"])
def test_what_only_begins_as_exports_do_is_not_deleted(sql: Sql, out: Path) -> None:
    write = f"INSERT OVERWRITE DIRECTORY '{out}/d' USING csv SELECT 1 AS a"
    sql(write)
    part = next(out.glob("d/part-*.csv"))
    for name in ("part-numbers.xlsx", "part-00000.csv", part.name.replace("00000", "1"), ".notes.crc"):
        (out / "d" / name).write_text("mine")
        with pytest.raises(InvalidRequest, match="which no export has written"):
            sql(write)
        (out / "d" / name).unlink()
    for directory in ("part-taxes", part.name.replace("00000", "00001"), "_SUCCESS"):
        (out / "d" / directory).unlink(missing_ok=True)
        (out / "d" / directory).mkdir()
        with pytest.raises(InvalidRequest, match=f"holds '{directory}/'"):
            sql(write)
        (out / "d" / directory).rmdir()
    (out / "d" / f"part-00001-{part.stem.removeprefix('part-00000-')}-c000.snappy.parquet").touch()
    sql(write)
    assert sorted(name[:4] for name in os.listdir(out / "d")) == ["_SUC", "part"]


def test_places_are_the_same_whatever_links_lead_to_them(tmp_path: Path) -> None:
    for name in ("home", "disk/warehouse", "disk/out"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("warehouse", "out"):
        (tmp_path / name).symlink_to(tmp_path / "disk" / name)

    def session(*writable: str) -> Session:
        home, warehouse = tmp_path / "home", str(tmp_path / "warehouse")
        return Session(Settings(home, warehouse, f"jdbc:sqlite:{home}/l.db", writable_directories=writable))

    everywhere = session(str(tmp_path / "disk"), f"local://{tmp_path}")
    for directory in ("disk/warehouse", "warehouse", "home"):
        for scheme in ("", "local://", "file://"):
            with pytest.raises(InvalidRequest, match="belongs to the platform"):
                everywhere.sql(f"COPY (SELECT 1 AS a) TO '{scheme}{tmp_path}/{directory}/x.csv'", "duckdb")
    for directory, writable in (("out", "out"), ("out", "disk/out"), ("disk/out", "out")):
        session(str(tmp_path / writable)).sql(f"COPY (SELECT 1 AS a) TO '{tmp_path}/{directory}/x.csv'", "duckdb")
        (tmp_path / "disk" / "out" / "x.csv").unlink()


@pytest.mark.parametrize("engine", ["duckdb"])
def test_places_of_exports_are_refused_by_what_is_wrong_with_them(sql: Sql, out: Path) -> None:
    with pytest.raises(InvalidRequest, match="ends with a slash"):
        sql(f"COPY (SELECT 1 AS a) TO '{out}/x.csv/'")
    sql(f"COPY (SELECT 1 AS a) TO '{out}//y.csv'")
    assert (out / "y.csv").exists()
    longest = f"{'n' * 251}.csv"
    sql(f"COPY (SELECT 1 AS a) TO '{out}/{longest}'")
    assert (out / longest).exists()
    with pytest.raises(InvalidRequest, match="has more than 255 bytes"):
        sql(f"COPY (SELECT 1 AS a) TO '{out}/n{longest}'")
    for clause in ("PARTITIONED BY (a)", "CLUSTERED BY (a) INTO 2 BUCKETS", "COMMENT 'x'"):
        with pytest.raises(InvalidRequest, match=rf"{clause.split(' ')[0]}.* is not known here"):
            sql(f"INSERT OVERWRITE DIRECTORY '{out}/d' USING csv {clause} SELECT 1 AS a")


@pytest.mark.parametrize("engine", ["duckdb"])
@pytest.mark.parametrize("there", [False, True])
def test_of_two_exports_into_one_directory_the_second_is_told_of_the_first(sql: Sql, out: Path, there: bool) -> None:
    directory = out / "d"
    first, second = (
        destination(str(directory), allowed=[str(out)], forbidden=[], storage=("/wh", {}), is_directory=True)
        for _ in range(2)
    )
    if there:
        sql(f"INSERT OVERWRITE DIRECTORY '{directory}' USING csv SELECT 0 AS a")
    with pytest.raises(CommitConflict, match="Another export has written"), second.written(".csv") as late:
        Path(late).write_text("late")
        with first.written(".csv") as early:
            Path(early).write_text("early")
        second._exchange(os.path.dirname(late), None)
    assert [part.read_text() for part in directory.glob("part-*")] == ["early"]
    assert [path.name for path in out.iterdir()] == ["d"]
