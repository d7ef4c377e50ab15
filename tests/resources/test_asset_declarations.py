"""Declarations of assets that cannot work are refused in a line that names the asset."""

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest

from resources import (
    Session,
    commits_of_others_sensor,
    consistency_check,
    external_table,
    external_table_sensor,
    freshness_check,
    lineage_sweep_sensors,
    openlineage_sensor,
    recovery_definitions,
    sql_check,
    table_asset,
    upkeep_schedule,
)
from storage import InvalidRequest

DAYS = dg.StaticPartitionsDefinition(["a", "b"])


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
        (
            {
                "inputs": {"y": "core.src"},
                "mode": "overwrite-partitions",
                "partitions_def": DAYS,
                "partition_by": "v",
                "partition_column": "v",
            },
            r"with partition_column a run replaces those that it is for: leave mode out",
        ),
        ({"code_version": 3}, r"code_version=3 is no text"),
        ({"options": "bucket=1"}, r"options='bucket=1' is no mapping"),
        ({"column_descriptions": ["a"]}, r"is no mapping"),
        ({"column_descriptions": {"id": 5}}, r"column_descriptions: id=5 is no text"),
        (
            {
                "partitions_def": dg.MultiPartitionsDefinition({"day": DAYS, "region": DAYS}),
                "inputs": {"y": "core.src"},
                "partition_column": {"region": "v", "day": "v"},
                "partition_by": ["v"],
            },
            r"gives two dimensions one column, .*each dimension has a column of its own",
        ),
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
        (
            {"partitions_def": dg.StaticPartitionsDefinition(["1", "p-1"]), "inputs": {"y": "core.src"}},
            r"Partition 'p-1' cannot become a tag of its table: that is the tag of a partition '1'",
        ),
        ({"primary_key": ["p"], "partition_by": ["p"]}, r"consists of partition columns only"),
        ({"primary_key": ["a", "A"]}, r"give names of columns, each once"),
        ({"partition_by": ["a", "A"]}, r"give names of columns, each once"),
        ({"deps": "nope"}, r"deps='nope' is no list"),
        ({"deps": 5}, r"deps=5 is no list"),
        ({"backfill_policy": "x"}, r"backfill_policy='x' is no dagster.BackfillPolicy"),
        *(
            (
                {"metadata": {f"dagster/{name}": "zz"}},
                rf"metadata: 'dagster/{name}' is what the platform says of the table",
            )
            for name in ("column_schema", "row_count", "storage_kind", "table_name", "uri")
        ),
        ({"tags": {"a": "b", "dagster/storage_kind": "zz"}}, r"tags: 'dagster/storage_kind' is what the platform says"),
        ({"retry_policy": 3}, r"retry_policy=3 is no dagster.RetryPolicy"),
        ({"group_name": 3}, r"group_name=3 is no text"),
        ({"partitions_def": "x"}, r"partitions_def='x' is no dagster.PartitionsDefinition"),
        ({"partitions_def": DAYS, "partition_by": "v", "partition_column": 5}, r"partition_column=5 is no name"),
        ({"inputs": {"y": "core.src"}, "partition_mappings": {"core.src": 5}}, r"core.src=5 is no dagster.Part"),
        ({"inputs": {"y": "core.src"}, "incremental": ["y"]}, r"incremental=\['y'\] is no text"),
        ({"inputs": {"y": "core.src@3"}}, r"'core.src@3' names a version"),
        ({"inputs": {"y": "core.src"}, "mode": 5}, r"mode=5 is no text"),
        ({"inputs": {"y": "core.src"}, "on_schema_change": 5}, r"on_schema_change=5"),
        ({"inputs": {"y": "core.src"}, "tag_partitions": False}, r"tag_partitions=False says nothing"),
        *(
            (
                {"inputs": {"y": "core.src"}, "incremental": "y", "partition_by": "p", "mode": mode},
                r"leave one of the two",
            )
            for mode in ("overwrite", "overwrite-partitions", "append")
        ),
        (
            {"inputs": {"y": "core.src"}, "incremental": "y", "skip_unchanged": False},
            r"skip_unchanged=False says nothing",
        ),
        *(
            (
                {"inputs": {"y": "core.src"}, "skip_unchanged": flag, **beside},
                rf"skip_unchanged={flag} says nothing beside",
            )
            for flag in (True, False)
            for beside in ({"mode": "append"}, {"incremental": "y"})
        ),
        (
            {"inputs": {"y": "core.src"}, "backfill_policy": dg.BackfillPolicy.single_run()},
            r"backfill_policy says nothing of an asset without partitions_def",
        ),
        ({"inputs": {"y": "core.src"}, "deps": [5]}, r"Dagster refuses it: "),
        ({"inputs": {"y": "core.src"}, "group_name": "a b"}, r"Dagster refuses it: "),
        ({"inputs": {"y": "core.src"}, "tags": {"a b": "c"}}, r"Dagster refuses it: "),
        ({"inputs": {"y": "core.src"}, "owners": ["nobody"]}, r"Dagster refuses it: "),
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
        (lambda: sql_check("core.t", "", "SELECT 1"), "name='' is empty"),
        (lambda: sql_check("core.t", 5, "SELECT 1"), "name=5 is no text"),
        (lambda: sql_check("core.t", "n", None), "violations=None is no text"),
        (lambda: sql_check("core.t", "n", "SELECT 1", blocking="yes"), "blocking='yes' is no True or False"),
        (lambda: freshness_check("core.t", at_most="zz"), "freshness_check of 'core.t': at_most='zz' is no timedelta"),
        (lambda: freshness_check("core.t", at_most=5), "at_most=5 is no timedelta"),
        (lambda: freshness_check("t", at_most=timedelta(1)), "'t' is no name of a table"),
        (lambda: consistency_check("core.t", "core.u", on="raw.s"), r"give names of tables, as \['core.u'\]"),
        (lambda: consistency_check("core.t", ["u"], on="raw.s"), "'u' is no name of a table"),
        (lambda: consistency_check("core.t", ["core.u"], on=None), "None is no name of a table"),
        (lambda: consistency_check("core.t", ["core.t"], on="raw.s"), "others names core.t itself"),
        (lambda: consistency_check("core.t", ["core.u", "core.u"], on="raw.s"), "others names core.u twice"),
        (lambda: consistency_check("core.t", ["core.u"], on="core.t"), "on='core.t' is one of the tables"),
        (lambda: sql_check("core.t", "n", "SELECT 1", description=5), "description=5 is no text"),
    ],
)
def test_what_cannot_be_a_check_is_said_in_a_line_with_its_table(declare: Callable[[], Any], said: str) -> None:
    with pytest.raises(InvalidRequest, match=rf"^.*{said}[^\n]*$"):
        declare()


@table_asset("core.t")
def _made() -> pa.Table:
    return pa.table({"a": [1]})


_EXTERNAL = partial(external_table_sensor, "s", ["core.t"], target="*")
_UPKEEP = partial(upkeep_schedule, "u", ["core.t"], cron_schedule="* * * * *")


@pytest.mark.parametrize(
    ("declare", "said"),
    [
        (lambda: external_table("t"), "external_table of 't': 't' is no name of a table"),
        (lambda: external_table("core.t", nope=1), "external_table of 'core.t': there is no argument 'nope'"),
        (lambda: external_table("core.t", grup_name="x"), r"no argument 'grup_name'\. Did you mean group_name"),
        (lambda: external_table("core.t", key="x"), "key=… is not taken: the key is the table's name"),
        (lambda: external_table("core.t", description=5), "description=5 is no text"),
        (
            lambda: external_table_sensor("s", "core.t", target="*"),
            r"external_table_sensor 's': tables='core.t' is one text: give names of tables, as \['core.t'\]",
        ),
        (lambda: external_table_sensor("s", [], target="*"), "tables names no table: name some"),
        (lambda: external_table_sensor("s", None, target="*"), "tables=None is no list"),
        (lambda: external_table_sensor("s", ["t"], target="*"), "'t' is no name of a table"),
        (lambda: external_table_sensor("s", ["core.t$snapshots"], target="*"), "is no name of a table"),
        (lambda: external_table_sensor("s", ["core.t", "core.t"], target="*"), "tables names core.t twice"),
        (lambda: external_table_sensor(5, ["core.t"], target="*"), "name=5 is no text"),
        (lambda: external_table_sensor("s", ["core.t"], target=None), "target=None starts nothing"),
        (lambda: _EXTERNAL(minimum_interval_seconds=-1), "minimum_interval_seconds=-1: give at least 1"),
        (lambda: _EXTERNAL(minimum_interval_seconds=True), "minimum_interval_seconds=True is no whole number"),
        (lambda: _EXTERNAL(default_status="RUNNING"), "default_status='RUNNING' is no dagster.DefaultSensorStatus"),
        (lambda: commits_of_others_sensor([5]), "assets holds 5, which is none of assets"),
        (lambda: commits_of_others_sensor(_made), "is no list: give assets"),
        (lambda: commits_of_others_sensor([]), "assets holds no table asset"),
        (lambda: commits_of_others_sensor([_made], minimum_interval_seconds=0), "minimum_interval_seconds=0"),
        (lambda: upkeep_schedule("u", ["t"], cron_schedule="* * * * *"), "upkeep_schedule 'u': 't' is no name"),
        (lambda: upkeep_schedule("u", "core.t", cron_schedule="* * * * *"), "tables='core.t' is one text"),
        (lambda: upkeep_schedule("u", ["core.t"] * 2, cron_schedule="* * * * *"), "tables names core.t twice"),
        (lambda: _UPKEEP(compact="no"), "compact='no' is no True or False"),
        (lambda: _UPKEEP(partitions=1), "partitions=1 is no True or False"),
        (lambda: _UPKEEP(retain_last="3"), "retain_last='3' is no whole number"),
        (lambda: _UPKEEP(retain_last=True), "retain_last=True is no whole number"),
        (
            lambda: lineage_sweep_sensors(minimum_interval_seconds=-5),
            "lineage_sweep_sensors: minimum_interval_seconds=-5",
        ),
        (lambda: openlineage_sensor(url="nope"), "'nope' is no URL of an OpenLineage server: write http"),
        (lambda: openlineage_sensor(url=""), "'' is no URL of an OpenLineage server"),
        (lambda: openlineage_sensor(url="http://x", file="/tmp/x"), "give one of them"),
        (lambda: openlineage_sensor(file=""), "Events go into a file: '' is no name of one"),
        (lambda: openlineage_sensor(file="/tmp/x", namespace=""), "namespace='' is no name"),
        (lambda: openlineage_sensor(minimum_interval_seconds=0), "minimum_interval_seconds=0: give at least 1"),
        (lambda: recovery_definitions([5]), "recovery_definitions: assets holds 5"),
        (lambda: recovery_definitions([], [5]), "recovery_definitions: checks holds 5, which is none of asset checks"),
        (lambda: recovery_definitions("core"), "assets='core' is no list"),
    ],
)
def test_what_cannot_be_a_helper_is_said_when_it_is_declared(declare: Callable[[], Any], said: str) -> None:
    with pytest.raises(InvalidRequest, match=rf"^.*{said}[^\n]*$"):
        declare()


def test_helpers_that_can_work_are_taken() -> None:
    assert external_table("core.u", group_name="x", tags={"a": "b"}).key == dg.AssetKey(["core", "u"])
    others = [external_table("core.u"), dg.AssetSpec("x"), _made]
    assert commits_of_others_sensor(others, minimum_interval_seconds=1).name == "commits_of_others"
    assert openlineage_sensor(url="https://host:5000/api").name == "openlineage"
    assert openlineage_sensor(file="/tmp/x").name == openlineage_sensor().name
    assert _UPKEEP(compact=True, retain_last=1, partitions=True).name == "u_schedule"
    assert recovery_definitions(others[1:], [sql_check("core.t", "n", "SELECT 1")]).jobs


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


@pytest.mark.parametrize("part", [pa.struct([]), pa.list_(pa.struct([])), pa.struct([("x", pa.struct([]))])])
def test_a_struct_without_fields_is_refused_with_its_column(
    materialize: Callable[..., Any], session: Session, part: pa.DataType
) -> None:
    @table_asset("db.t", on_schema_change="add")
    def made() -> pa.Table:
        return pa.table({"a": [1], "s": pa.array([None], part)})

    for _ in range(2):
        with pytest.raises(dg.Failure, match=r"^[^\n]*'s'[^\n]*struct without fields .* Give it a field, or leave"):
            materialize(made)
        # The second time to a table that is there.
        session.catalog.create_table("db.t", pa.schema([("a", pa.int64())]), if_not_exists=True)


def test_functions_that_give_no_rows_at_once_are_refused() -> None:
    async def later() -> pa.Table:
        return pa.table({"a": [1]})

    def one_by_one() -> Any:
        yield pa.table({"a": [1]})

    for function, said in ((later, "an async function"), (one_by_one, "a generator")):
        with pytest.raises(dg.DagsterInvalidDefinitionError, match=rf"db.t.*the function is {said}"):
            table_asset("db.t")(function)
