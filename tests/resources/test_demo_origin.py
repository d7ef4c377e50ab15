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


def locate(asset: dg.AssetsDefinition, job: str, session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the code location be one asset and a job of all assets."""
    spark = SparkResource()
    module = ModuleType("one_asset")
    module.defs = dg.Definitions(  # type: ignore[attr-defined]
        assets=[asset],
        jobs=[dg.define_asset_job(job)],
        executor=dg.in_process_executor,
        resources={"tables": TablesResource(spark=spark), "spark": spark},
    )
    monkeypatch.setitem(sys.modules, "one_asset", module)
    monkeypatch.setattr(code_location, "_MODULE", "one_asset")
    monkeypatch.setenv("DAGSTER_HOME", str(session.settings.home / "dagster"))


def test_a_run_of_the_command_line_belongs_to_its_job_in_the_workspace(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    @table_asset("raw.one")
    def numbers() -> pa.Table:
        return pa.table({"n": [1]})

    locate(numbers, "all_of_it", session, monkeypatch)
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

    locate(numbers, "parts", session, monkeypatch)
    with pytest.raises(InvalidRequest, match="'b' comes after 'a'"):
        run_demo(session, "parts", ("b", "a"))
    with pytest.raises(InvalidRequest, match="no partition 'c'"):
        run_demo(session, "parts", ("a", "c"))
