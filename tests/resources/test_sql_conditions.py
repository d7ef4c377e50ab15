"""Conditions are booleans, and a clause of a MERGE sees the rows that it is about: Spark refuses all else, and so is it here."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from resources import Session
from storage import InvalidRequest, StorageError
from storage.engines.duckdb_merge import merge_rows
from storage.engines.merge_clauses import MergeClause

Sql = Callable[[str], Any]
pytestmark = pytest.mark.spark
_ROWS = [(1, 1, "true", True), (2, 0, "false", False)]


@pytest.fixture
def tables(sql: Sql) -> Sql:
    """`p` and `v`, and what runs statements."""
    sql(
        "CREATE TABLE p (id INT, n INT, s STRING, b BOOLEAN); INSERT INTO p VALUES (1, 1, 'true', true), "
        "(2, 0, 'false', false); CREATE TABLE v (id INT, g STRING, k INT); INSERT INTO v VALUES (1, 'true', 7), (3, 'x', 8)"
    )
    return sql


def refused(sql: Sql, statements: tuple[str, ...], said: str) -> None:
    """Each statement is refused and changes nothing."""
    for statement in statements:
        with pytest.raises(StorageError, match=said):
            sql(statement)
            pytest.fail(f"accepted: {statement}")
    assert sql("SELECT * FROM p ORDER BY id") == _ROWS


def test_a_condition_of_a_change_is_a_boolean(tables: Sql) -> None:
    merge = "MERGE INTO p USING v ON p.id = v.id WHEN"
    refused(
        tables,
        (
            "DELETE FROM p WHERE n",
            "DELETE FROM p WHERE s",
            "DELETE FROM p WHERE 'true'",
            "DELETE FROM p WHERE NULL",
            "DELETE FROM p WHERE (SELECT max(k) FROM v)",
            "DELETE FROM p WHERE b AND n",
            "DELETE FROM p WHERE CASE WHEN n THEN true END",
            "DELETE FROM p WHERE IF(s, true, true)",
            "DELETE FROM p WHERE NOT n",
            "UPDATE p SET n = 5 WHERE n",
            "UPDATE p SET n = 5 WHERE s",
            "UPDATE p SET n = CASE WHEN s THEN 5 END",
            "MERGE INTO p USING v ON p.id WHEN MATCHED THEN DELETE",
            "MERGE INTO p USING v ON v.g WHEN NOT MATCHED THEN INSERT (id) VALUES (v.id)",
            f"{merge} MATCHED AND p.n THEN DELETE",
            f"{merge} MATCHED AND v.g THEN DELETE",
            f"{merge} NOT MATCHED AND v.k THEN INSERT (id) VALUES (v.id)",
            f"{merge} NOT MATCHED AND g THEN INSERT (id) VALUES (v.id)",
            f"{merge} NOT MATCHED BY SOURCE AND p.s THEN DELETE",
            "INSERT INTO p REPLACE WHERE n SELECT 1, 1, 'a', true",
            "INSERT INTO p REPLACE WHERE s SELECT 1, 1, 'true', true",
        ),
        r"where a condition is needed|BOOLEAN|DATATYPE_MISMATCH",
    )


def test_a_condition_of_a_query_is_a_boolean(tables: Sql) -> None:
    refused(
        tables,
        (
            "SELECT 1 FROM p WHERE n",
            "SELECT 1 FROM p WHERE s",
            "SELECT 1 FROM p JOIN v ON p.n",
            "SELECT count(*) FILTER (WHERE n) FROM p",
            "SELECT IF(s, 1, 2) FROM p",
            "SELECT NOT n FROM p",
            "SELECT b OR n FROM p",
            "SELECT n IS TRUE FROM p",
            "SELECT id FROM p QUALIFY row_number() OVER (ORDER BY id)",
        ),
        r"where a condition is needed|BOOLEAN|DATATYPE_MISMATCH",
    )


def test_a_clause_of_a_merge_sees_the_rows_that_it_is_about(tables: Sql) -> None:
    merge = "MERGE INTO p USING v ON p.id = v.id WHEN"
    refused(
        tables,
        (
            f"{merge} NOT MATCHED BY SOURCE AND v.k > 0 THEN DELETE",
            f"{merge} NOT MATCHED BY SOURCE AND k > 0 THEN DELETE",
            f"{merge} NOT MATCHED BY SOURCE THEN UPDATE SET n = v.k",
            f"{merge} NOT MATCHED BY SOURCE THEN UPDATE SET n = k",
            f"{merge} NOT MATCHED BY SOURCE THEN UPDATE SET *",
            f"{merge} NOT MATCHED BY SOURCE THEN UPDATE SET n = (SELECT max(x.id) FROM v AS x WHERE x.k = v.k)",
            f"{merge} NOT MATCHED AND p.n > 0 THEN INSERT (id) VALUES (v.id)",
            f"{merge} NOT MATCHED AND n > 0 THEN INSERT (id) VALUES (v.id)",
            f"{merge} NOT MATCHED THEN INSERT (id, s) VALUES (v.id, p.s)",
            f"{merge} NOT MATCHED THEN INSERT (id, s) VALUES (v.id, s)",
            f"{merge} NOT MATCHED AND EXISTS (SELECT 1 FROM v AS x WHERE x.id = n) THEN INSERT (id) VALUES (v.id)",
        ),
        r"which has no row here|takes the source's columns|There is no column|UNRESOLVED_COLUMN",
    )
    tables(
        f"{merge} MATCHED AND b THEN UPDATE SET n = 10, s = v.g WHEN NOT MATCHED AND k = 8 THEN INSERT (id, s) "
        "VALUES (id, g) WHEN NOT MATCHED BY SOURCE AND n = 0 THEN UPDATE SET n = n - 1"
    )
    expected = [(1, 10, "true", True), (2, -1, "false", False), (3, None, "x", None)]
    assert tables("SELECT * FROM p ORDER BY id") == expected


def test_no_clause_of_a_merge_stands_behind_one_that_takes_all_rows(tables: Sql) -> None:
    merge = "MERGE INTO p USING v ON p.id = v.id WHEN"
    refused(
        tables,
        (
            f"{merge} MATCHED THEN UPDATE SET n = 9 WHEN MATCHED THEN DELETE",
            f"{merge} MATCHED THEN UPDATE SET n = 9 WHEN MATCHED AND p.n = 1 THEN DELETE",
            f"{merge} NOT MATCHED THEN INSERT (id) VALUES (v.id) WHEN NOT MATCHED AND k = 1 THEN INSERT (id) VALUES (v.id)",
            f"{merge} NOT MATCHED BY SOURCE THEN DELETE WHEN NOT MATCHED BY SOURCE THEN UPDATE SET n = 1",
        ),
        "No row comes to this clause",
    )


def test_a_table_with_an_alias_is_called_by_it(tables: Sql) -> None:
    refused(
        tables,
        (
            "UPDATE p AS x SET p.n = 3",
            "UPDATE p AS x SET n = 3 WHERE p.n = 1",
            "DELETE FROM p AS x WHERE p.n = 1",
            "MERGE INTO p AS x USING v ON p.id = v.id WHEN MATCHED THEN DELETE",
            "DELETE FROM p AS x WHERE EXISTS (SELECT 1 FROM v WHERE v.id = p.id)",
        ),
        r"of no table of this statement|it is no column of the table|There is no column|UNRESOLVED_COLUMN",
    )
    tables("UPDATE p AS x SET x.n = x.n + 1 WHERE EXISTS (SELECT 1 FROM v WHERE v.id = x.id)")
    assert tables("SELECT n FROM p ORDER BY id") == [(2,), (0,)]


def test_merges_of_python_on_duckdb_look_at_conditions_as_well(session: Session) -> None:
    table = session.catalog.create_table("default.m", pa.schema([("id", pa.int32()), ("n", pa.int32())]))
    table.write(pa.table({"id": pa.array([1], pa.int32()), "n": pa.array([1], pa.int32())}))
    source = pa.table({"id": pa.array([2], pa.int32()), "k": pa.array([5], pa.int32())})
    for clauses in (
        [MergeClause("not matched by source", "delete", "target.n")],
        [MergeClause("not matched by source", "update", None, {"n": "source.k"})],
        [MergeClause("not matched", "insert", None, {"id": "source.id", "n": "target.n"})],
        [MergeClause("matched", "delete"), MergeClause("matched", "update", None, {"n": "1"})],
    ):
        with pytest.raises(InvalidRequest):
            merge_rows(table, source, ["id"], clauses)
    assert session.table("default.m").to_arrow().to_pylist() == [{"id": 1, "n": 1}]
