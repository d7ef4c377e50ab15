"""SQL on DuckDB reads tables. Files, the network and extensions it reaches only where whoever runs the platform says so."""

from collections.abc import Callable, Sequence
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from resources import Session, Settings
from resources.sql.duckdb_select import run_query
from storage import InvalidRequest, StorageError
from storage.engines.duckdb_compare import compare
from storage.engines.duckdb_connection import sealed_duckdb
from storage.engines.duckdb_merge import merge_rows
from storage.engines.merge_clauses import MergeClause

MARK = "somebody else's rows"


@pytest.fixture
def open_session(tmp_path: Path) -> Callable[..., Session]:
    """A platform with a table, beside a directory of files."""
    (tmp_path / "files").mkdir()
    for name in ("files/mine.csv", "other.csv"):
        (tmp_path / name).write_text(f"a\n{MARK}\n")
    (tmp_path / "files/link.csv").symlink_to(tmp_path / "other.csv")

    def opened(readable: Sequence[str] = ()) -> Session:
        home = tmp_path / "home"
        settings = Settings(home, str(home / "wh"), f"jdbc:sqlite:{home}/lineage.db", readable_directories=readable)
        session = Session(settings)
        if not session.catalog.exists("shop.t"):
            rows = pa.table({"id": pa.array([1, 2], pa.int64()), "v": ["a", "b"]})
            session.catalog.create_table("shop.t", rows.schema, options={"write-only": True}).write(rows)
        return session

    return opened


def ways(session: Session) -> dict[str, Callable[[str], pa.Table]]:
    """How somebody's SELECT gets to DuckDB."""

    def created(text: str) -> pa.Table:
        session.sql(f"CREATE TABLE made AS {text}", "duckdb")
        rows = session.catalog.table("default.made").to_arrow()
        session.catalog.drop_table("default.made")
        return rows

    return {
        "query": lambda text: run_query(session, text),
        "SQL": lambda text: session.sql(text, "duckdb").to_arrow(),
        "CREATE TABLE AS": created,
    }


READS = [
    "SELECT content FROM read_text('{0}/other.csv')",
    "SELECT * FROM read_csv('{0}/other.csv')",
    "SELECT * FROM read_blob('{0}/other.csv')",
    "SELECT * FROM glob('{0}/*')",
    "SELECT * FROM glob('{0}/files/*')",
    "SELECT * FROM read_parquet('{0}/home/wh/catalog-options.json')",
    "SELECT * FROM sniff_csv('{0}/other.csv')",
    "SELECT * FROM read_csv('{0}/files/mine.csv')",
    "SELECT * FROM read_json('{0}/other.csv')",
    "SELECT * FROM read_csv('{0}/files/../other.csv')",
    "SELECT * FROM read_csv('https://127.0.0.1:1/x')",
    "SELECT * FROM sqlite_scan('{0}/home/lineage.db', 't')",
    "SELECT * FROM shop.t, read_text('{0}/other.csv')",
    "SELECT (SELECT max(content) FROM read_text('{0}/other.csv')) AS x",
    "SELECT * FROM query('FROM read_text(''{0}/other.csv'')')",
]


@pytest.mark.parametrize("text", READS)
def test_no_file_is_read_that_is_not_a_tables(open_session: Callable[..., Session], tmp_path: Path, text: str) -> None:
    for way, run in ways(open_session()).items():
        with pytest.raises(StorageError) as failed:
            run(text.format(tmp_path))
        assert MARK not in str(failed.value), way
        assert "\n" not in str(failed.value), way


def test_directories_that_are_allowed_are_read_and_no_others(
    open_session: Callable[..., Session], tmp_path: Path
) -> None:
    session = open_session([str(tmp_path / "files")])
    for way, run in ways(session).items():
        if way != "query":
            # Statements are Spark's, which has no such function.
            with pytest.raises(InvalidRequest):
                run(f"SELECT a FROM read_csv('{tmp_path}/files/mine.csv')")
            continue
        rows = run(f"SELECT a FROM read_csv('{tmp_path}/files/mine.csv')")
        assert rows.to_pylist() == [{"a": MARK}], way
        for path in ("other.csv", "files/../other.csv", "files/link.csv", "files/../*.csv"):
            with pytest.raises(InvalidRequest, match="SNAPLINE_READABLE_DIRECTORIES"):
                run(f"SELECT a FROM read_csv('{tmp_path}/{path}')")
    for wrong in ("files", "", f"{tmp_path}/files/../x"):
        with pytest.raises(InvalidRequest, match=r"readable_directories: .* no directory"):
            run_query(open_session([wrong]), "SELECT 1")
    given = Settings.from_environment({"SNAPLINE_READABLE_DIRECTORIES": '["/data/in"]', "SNAPLINE_HOME": str(tmp_path)})
    assert given.readable_directories == ("/data/in",)


def test_a_table_is_read_and_its_files_alone(open_session: Callable[..., Session], tmp_path: Path) -> None:
    session = open_session()
    table = session.catalog.table("shop.t")
    [split] = table.scan().splits
    assert split.can_be_read_natively
    assert run_query(session, "SELECT count(*) AS n FROM shop.t").to_pylist() == [{"n": 2}]
    assert session.sql("SELECT max(v) AS v FROM shop.t", "duckdb").to_arrow().to_pylist() == [{"v": "b"}]
    session.sql("DELETE FROM shop.t WHERE id = 1", "duckdb")
    assert compare(table.at(1), session.catalog.table("shop.t"), where="id > 0").removed == 1


def test_conditions_of_python_callers_read_no_file_either(open_session: Callable[..., Session], tmp_path: Path) -> None:
    table = open_session().catalog.table("shop.t")
    condition = f"v = (SELECT max(content) FROM read_text('{tmp_path}/other.csv'))"
    with pytest.raises(duckdb.PermissionException):
        compare(table, table, where=condition)
    source = pa.table({"id": pa.array([1], pa.int64()), "v": ["c"]})
    with pytest.raises(InvalidRequest, match="cannot compute"):
        merge_rows(table, source, "id", [MergeClause("matched", "update", condition.replace("v =", "target.v ="))])


def test_nothing_of_a_sealed_connection_can_be_changed(tmp_path: Path) -> None:
    secret = MARK  # noqa: F841  what a replacement scan would find
    with sealed_duckdb(lambda connection: None) as connection:
        for text in (
            "SET enable_external_access = true",
            "RESET lock_configuration",
            "SET python_enable_replacements = true",
            "INSTALL httpfs",
            "LOAD httpfs",
            f"ATTACH '{tmp_path}/x.db'",
            f"COPY (SELECT 1) TO '{tmp_path}/x.csv'",
            f"EXPORT DATABASE '{tmp_path}/x'",
            "PRAGMA enable_profiling",
            "CREATE SECRET (TYPE s3)",
            "SELECT * FROM secret",
            f"SET temp_directory = '{tmp_path}'",
            "SET autoload_known_extensions = true",
            "CALL enable_logging()",
        ):
            with pytest.raises(duckdb.Error):
                connection.execute(text)
    assert list(tmp_path.iterdir()) == []


def test_what_does_not_fit_into_memory_is_spilled_where_nobody_else_reads(tmp_path: Path) -> None:
    seen: set[str] = set()

    def add(connection: duckdb.DuckDBPyConnection) -> None:
        connection.execute("SET memory_limit = '150MB'")
        [(directory,)] = connection.execute("SELECT current_setting('temp_directory')").fetchall()
        assert Path(directory).stat().st_mode & 0o777 == 0o700
        seen.add(directory)

    with sealed_duckdb(add, threads=1) as connection:
        text = (
            "SELECT a FROM (SELECT a, row_number() OVER (ORDER BY b) AS r FROM (SELECT i AS a, md5(i::VARCHAR) "
            "|| repeat('x', 100) AS b FROM range(2000000) t(i))) WHERE r IN (1, 2000000)"
        )
        assert len(connection.execute(text).fetchall()) == 2
    assert not Path(seen.pop()).exists()
