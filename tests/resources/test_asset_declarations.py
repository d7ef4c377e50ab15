"""Declarations of assets that cannot work are refused in a line that names the asset."""

from collections.abc import Callable
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest

from resources import Session, table_asset


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"primary_key": 5}, r"primary_key=5: give names"),
        ({"partition_by": 5}, r"partition_by=5: give names"),
        ({"primary_key": None}, r"primary_key=None: give names"),
        ({"inputs": ["raw.y"]}, r"inputs=\['raw.y'\] is no mapping"),
        ({"inputs": {"y": 5}}, r"5 is no name of a table"),
        ({"options": "bucket=1"}, r"options='bucket=1' is no mapping"),
        ({"column_descriptions": ["a"]}, r"is no mapping"),
        ({"partition_mappings": "raw.y"}, r"is no mapping"),
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


def test_a_function_without_a_text_needs_a_code_version() -> None:
    space: dict[str, Any] = {}
    exec("def made(): return None", space)
    with pytest.raises(dg.DagsterInvalidDefinitionError, match=r"^@table_asset\('db.t'\): .*code_version"):
        table_asset("db.t")(space["made"])
    assert table_asset("db.t", code_version="1")(space["made"]).key.path == ["db", "t"]


def test_a_description_is_that_of_a_column(session: Session, materialize: Callable[..., Any]) -> None:
    @table_asset("db.t", column_descriptions={"zz": "none"})
    def made() -> pa.Table:
        return pa.table({"a": [1]})

    with pytest.raises(dg.Failure, match=r"column_descriptions names 'zz'"):
        materialize(made)
    assert "db.t" not in session.catalog.tables()
