"""A run that the command line starts is one of a job, as the UI sees it."""

import sys
from types import ModuleType

import dagster as dg
import pyarrow as pa
import pytest

from resources import Session, SparkResource, TablesResource, code_location, table_asset
from resources.cli.demo import run_demo
from storage import InvalidRequest

pytestmark = pytest.mark.dagster


def test_a_run_of_the_command_line_belongs_to_its_job_in_the_workspace(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    @table_asset("raw.one")
    def numbers() -> pa.Table:
        return pa.table({"n": [1]})

    spark = SparkResource()
    module = ModuleType("one_asset")
    module.defs = dg.Definitions(  # type: ignore[attr-defined]
        assets=[numbers],
        jobs=[dg.define_asset_job("all_of_it")],
        executor=dg.in_process_executor,
        resources={"tables": TablesResource(spark=spark), "spark": spark},
    )
    monkeypatch.setitem(sys.modules, "one_asset", module)
    monkeypatch.setattr(code_location, "_MODULE", "one_asset")
    monkeypatch.setenv("DAGSTER_HOME", str(session.settings.home / "dagster"))
    run_demo(session, "all_of_it")
    with dg.DagsterInstance.get() as instance:
        (run,) = instance.get_runs()
    origin = run.remote_job_origin
    assert origin is not None
    assert (origin.location_name, origin.job_name) == ("platform", "all_of_it")
    assert run.tags[".dagster/repository"] == "__repository__@platform"


def test_a_range_of_partitions_begins_with_the_first(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    @table_asset("raw.two", partitions_def=dg.StaticPartitionsDefinition(["a", "b"]))
    def numbers() -> pa.Table:
        return pa.table({"n": [1]})

    spark = SparkResource()
    module = ModuleType("an_asset_by_parts")
    module.defs = dg.Definitions(  # type: ignore[attr-defined]
        assets=[numbers],
        jobs=[dg.define_asset_job("parts")],
        executor=dg.in_process_executor,
        resources={"tables": TablesResource(spark=spark), "spark": spark},
    )
    monkeypatch.setitem(sys.modules, "an_asset_by_parts", module)
    monkeypatch.setattr(code_location, "_MODULE", "an_asset_by_parts")
    monkeypatch.setenv("DAGSTER_HOME", str(session.settings.home / "dagster"))
    with pytest.raises(InvalidRequest, match="'b' comes after 'a'"):
        run_demo(session, "parts", ("b", "a"))
    with pytest.raises(InvalidRequest, match="no partition 'c'"):
        run_demo(session, "parts", ("a", "c"))
