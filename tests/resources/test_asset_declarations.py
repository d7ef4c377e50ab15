"""Declarations of assets that cannot work are refused in a line that names the asset."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest

from resources import Session, consistency_check, freshness_check, sql_check, table_asset
from storage import InvalidRequest


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"primary_key": 5}, r"primary_key=5: give names"),
        ({"partition_by": 5}, r"partition_by=5: give names"),
        ({"primary_key": None}, r"primary_key=None: give names"),
        ({"inputs": ["raw.y"]}, r"inputs=\['raw.y'\] is no mapping"),
        ({"inputs": {"y": 5}}, r"5 is no name of a table"),
        ({"inputs": {"y": "nope"}}, r"'nope' is no name of a table"),
        ({"inputs": {"y": "core.src$x"}}, r"'core.src\$x' is no name of a table"),
        ({"inputs": {"y": "core.src"}, "mode": "overwrite-partitions"}, r"needs partition_by"),
        ({"code_version": 3}, r"code_version=3 is no text"),
        ({"options": "bucket=1"}, r"options='bucket=1' is no mapping"),
        ({"column_descriptions": ["a"]}, r"is no mapping"),
        ({"partition_mappings": "raw.y"}, r"is no mapping"),
        (
            {
                "partitions_def": dg.StaticPartitionsDefinition(["a", "x/y"]),
                "partition_column": "p",
                "partition_by": ["p"],
                "inputs": {"y": "core.src"},
            },
            r"Partition 'x/y' cannot become a tag of its table: .* say tag_partitions=False",
        ),
        ({"name": "sys.x"}, r"reserved"),
        ({"name": "paimon.t"}, r"reserved"),
        ({"name": "information_schema.t"}, r"reserved"),
        ({"name": "db.t$snapshots"}, r"plain name"),
    ],
)
def test_what_cannot_be_an_asset_is_said_in_a_line_with_its_name(arguments: dict[str, Any], said: str) -> None:
    given = {"name": "db.t", **arguments}
    with pytest.raises(
        dg.DagsterInvalidDefinitionError, match=rf"^@table_asset\('{given['name'].split('$')[0]}.*{said}"
    ):

        @table_asset(**given)
        def made(y: Any) -> pa.Table:
            return pa.table({"a": [1]})


@pytest.mark.parametrize(
    ("declare", "said"),
    [
        (lambda: sql_check("nope", "n", "SELECT 1"), "sql_check of 'nope': 'nope' is no name of a table"),
        (lambda: sql_check(None, "n", "SELECT 1"), "None is no name of a table"),
        (lambda: sql_check("core.t", 5, "SELECT 1"), "name=5 is no text"),
        (lambda: sql_check("core.t", "n", None), "violations=None is no text"),
        (lambda: sql_check("core.t", "n", "SELECT 1", blocking="yes"), "blocking='yes' is no True or False"),
        (lambda: freshness_check("core.t", at_most="zz"), "freshness_check of 'core.t': at_most='zz' is no timedelta"),
        (lambda: freshness_check("core.t", at_most=5), "at_most=5 is no timedelta"),
        (lambda: freshness_check("t", at_most=timedelta(1)), "'t' is no name of a table"),
        (lambda: consistency_check("core.t", "core.u", on="raw.s"), r"give names of tables, as \['core.u'\]"),
        (lambda: consistency_check("core.t", ["u"], on="raw.s"), "'u' is no name of a table"),
        (lambda: consistency_check("core.t", ["core.u"], on=None), "None is no name of a table"),
    ],
)
def test_what_cannot_be_a_check_is_said_in_a_line_with_its_table(declare: Callable[[], Any], said: str) -> None:
    with pytest.raises(InvalidRequest, match=rf"^.*{said}[^\n]*$"):
        declare()


def test_a_check_that_fails_says_so_in_a_line(session: Session, materialize: Callable[..., Any]) -> None:
    @table_asset("db.t")
    def made() -> pa.Table:
        return pa.table({"a": [1]})

    for query in ("SELECT * FROM db.nope", "SELECT * FROM read_csv('/etc/passwd')"):
        check = sql_check("db.t", "is_right", query)
        with pytest.raises(dg.Failure) as failed:
            materialize(made, check)
        assert "\n" not in str(failed.value.description)
        assert failed.value.__cause__ is None


def test_a_function_without_a_text_needs_a_code_version() -> None:
    space: dict[str, Any] = {}
    exec("def made(): return None", space)
    with pytest.raises(dg.DagsterInvalidDefinitionError, match=r"^@table_asset\('db.t'\): .*code_version"):
        table_asset("db.t")(space["made"])
    assert table_asset("db.t", code_version="1")(space["made"]).key.path == ["db", "t"]


def test_an_empty_code_version_is_none() -> None:
    def made() -> pa.Table:
        return pa.table({"a": [1]})

    versions = {table_asset("db.t", code_version=given)(made).get_asset_spec().code_version for given in ("", None)}
    assert len(versions) == 1
    assert all(versions)


def test_a_description_is_that_of_a_column(session: Session, materialize: Callable[..., Any]) -> None:
    @table_asset("db.t", column_descriptions={"zz": "none"})
    def made() -> pa.Table:
        return pa.table({"a": [1]})

    with pytest.raises(dg.Failure, match=r"column_descriptions names 'zz'"):
        materialize(made)
    assert "db.t" not in session.catalog.tables()
