"""A field that a resource does not have is refused, with the one that may be meant; so is a value that cannot work."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest

from resources import Settings, SparkResource, TablesResource, table_asset
from resources import spark_resource as module
from storage import InvalidRequest

pytestmark = pytest.mark.dagster


def test_misspelt_fields_are_refused() -> None:
    with pytest.raises(InvalidRequest, match=r"TablesResource has no field 'warehous'\. Did you mean 'warehouse'"):
        TablesResource(spark=SparkResource(), warehous="x")
    with pytest.raises(InvalidRequest, match=r"SparkResource has no field 'mastr'\. Did you mean 'master'"):
        SparkResource(mastr="local[7]")
    assert TablesResource(spark=SparkResource(master="local[1]"), warehouse="/x").warehouse == "/x"


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"warehouse": "ftp:"}, r"TablesResource: warehouse = 'ftp:' is no absolute path"),
        ({"warehouse": " "}, r"TablesResource: warehouse = ' ' begins or ends with a blank"),
        ({"warehouse": "x"}, r"TablesResource: warehouse = 'x' is no absolute path"),
        ({"warehouse": "nope://x"}, r"TablesResource: warehouse = 'nope://x': no file system"),
        ({"lineage_url": "nope"}, r"TablesResource: lineage_url = 'nope' is no JDBC URL"),
        ({"lineage_url": "jdbc:postgresql://me:s3cretword@h:x/db"}, r"TablesResource: lineage_url = .*cannot be read"),
        ({"warehouse": 5}, r"TablesResource: warehouse is of type int, and no text"),
        ({"warehouse": 0}, r"TablesResource: warehouse is of type int, and no text"),
        ({"warehouse": None}, r"TablesResource: warehouse is of type NoneType, and no text"),
        ({"warehouse": Path("/x")}, r"TablesResource: warehouse is of type PosixPath, and no text"),
        ({"warehouse": dg.EnvVar.int("X")}, r"TablesResource: warehouse is of type IntEnvVar, and no text"),
        ({"lineage_url": ["s3cretword"]}, r"TablesResource: lineage_url is of type list, and no text"),
        ({"spark": 5}, r"TablesResource: spark=5 gives no Spark session: write spark=SparkResource\(\)"),
        ({"spark": None}, r"TablesResource: spark=None gives no Spark session"),
        ({"spark": TablesResource.configure_at_launch()}, r"TablesResource: spark=.* gives no Spark session"),
    ],
)
def test_values_of_tables_that_cannot_work_are_refused_when_they_are_set(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidRequest, match=rf"^{said}[^\n]*$") as refusal:
        TablesResource(**{"spark": SparkResource(), **fields})
    assert "s3cretword" not in str(refusal.value)


def test_tables_without_spark_are_refused() -> None:
    with pytest.raises(InvalidRequest, match="spark=None gives no Spark session"):
        TablesResource()


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"master": 5}, r"SparkResource: master is of type int, and no text"),
        ({"remote": ["x"]}, r"SparkResource: remote is of type list, and no text"),
        ({"spark_config": 5}, r"SparkResource: spark_config is of type int, and no mapping of names to values"),
        ({"spark_config": []}, r"SparkResource: spark_config is of type list, and no mapping"),
        ({"master": "nope"}, r"SparkResource: master = 'nope' is no master"),
        ({"master": "local[x]"}, r"SparkResource: master = 'local\[x\]' is no master"),
        ({"remote": "http://x/;token=s3cretword"}, r"SparkResource: remote is no URL of Spark Connect"),
        ({"master": "local[1]", "remote": "sc://x"}, r"SparkResource: master and remote are two places"),
        ({"spark_config": {"nope": 1}}, r"SparkResource: spark_config: 'nope' is no setting of Spark"),
        ({"spark_config": {1: 2}}, r"SparkResource: spark_config: 1 is no setting of Spark"),
        (
            {"spark_config": {"spark.x": None}},
            r"SparkResource: spark_config: the value of 'spark.x' is no text, number",
        ),
        ({"spark_config": {"spark.x": {"y": "s3cretword"}}}, r"SparkResource: spark_config: the value of 'spark.x' is"),
    ],
)
def test_values_of_spark_that_cannot_work_are_refused_when_they_are_set(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidRequest, match=rf"^{said}[^\n]*$") as refusal:
        SparkResource(**fields)
    assert "s3cretword" not in str(refusal.value)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"warehouse": "w"}, "^warehouse = 'w' is no absolute path"),
        ({"lineage_url": "nope"}, "^lineage_url = 'nope' is no JDBC URL"),
        ({"lock_directory": "locks"}, "^lock_directory = 'locks' is no directory"),
        ({"spark_master": "nope"}, "^spark_master = 'nope' is no master"),
        ({"spark_remote": "nope"}, "^spark_remote is no URL"),
        ({"spark_config": {"nope": "1"}}, "^spark_config: 'nope' is no setting"),
        ({"external_roots": ["x"]}, "^external_roots: 'x' is no directory"),
        ({"readable_directories": ["s3://x/y"]}, "^readable_directories: 's3://x/y' is no directory"),
        ({"writable_directories": ["/"]}, "^writable_directories: '/' is no directory"),
        ({"browser_url": "x"}, "^browser_url = 'x' is no address"),
    ],
)
def test_settings_that_a_program_makes_are_checked_as_those_of_the_environment(
    tmp_path: Path, fields: dict[str, Any], said: str
) -> None:
    given = {"home": tmp_path, "warehouse": str(tmp_path), "lineage_url": f"jdbc:sqlite:{tmp_path}/l.db", **fields}
    with pytest.raises(InvalidRequest, match=said):
        Settings(**given)


def test_what_a_run_fills_in_is_checked_when_it_does(
    materialize: Callable[..., Any], instance: dg.DagsterInstance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @table_asset("core.one")
    def made() -> pa.Table:
        return pa.table({"a": [1]})

    def run() -> bool:
        # Checked neither as a name of a variable, nor before the run has configured what makes sessions.
        spark = SparkResource.configure_at_launch()
        tables = TablesResource(spark=spark, warehouse=dg.EnvVar("THE_WAREHOUSE"))
        resources = {"tables": tables, "spark": spark}
        return dg.materialize([made], instance=instance, resources=resources, raise_on_error=False).success

    monkeypatch.setenv("THE_WAREHOUSE", "ftp:")
    assert not run()
    monkeypatch.setenv("THE_WAREHOUSE", str(tmp_path / "elsewhere"))
    assert run()
    assert (tmp_path / "elsewhere" / "core.db" / "one").is_dir()


def test_a_master_of_the_resource_counts_before_an_address_in_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[Settings] = []
    monkeypatch.setenv("SNAPLINE_HOME", str(tmp_path))
    monkeypatch.setenv("SNAPLINE_SPARK_REMOTE", "sc://elsewhere:15002")
    monkeypatch.setattr(module, "start_spark", started.append)
    for resource in (SparkResource(master="local[1]"), SparkResource()):
        _ = resource.spark_session
    assert [str(settings.spark_remote) == "" for settings in started] == [True, False]
    assert started[0].spark_master == "local[1]"
