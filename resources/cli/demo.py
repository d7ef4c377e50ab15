"""`snapline demo`: materialize a whole job in one Dagster run, show how it goes, and say what came of it."""

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import click
import dagster as dg

# Not public API: used here alone, so that the UI knows which job of which code location a run is of.
from dagster._core.definitions.repository_definition import SINGLETON_REPOSITORY_NAME
from dagster._core.remote_origin import RemoteJobOrigin, RemoteRepositoryOrigin
from dagster._core.workspace.load import location_origins_from_yaml_paths
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from storage import Clock, InvalidRequest, NotFound, SnapshotRef, StorageError

from ..assets.dagster_home import prepare_dagster_home
from ..assets.dagster_instance import dagster_instance
from ..code_location import platform_definitions
from ..session import Session
from ..settings import PROJECT_ROOT
from .error_log import errors_into
from .parameters import Command
from .rendering import console, rendered_table

_POLL_SECONDS = 0.2
_QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


class RunFailed(StorageError):
    """A Dagster run failed; the message names the steps and says where to look."""


@click.command(cls=Command)
@click.option("--job", default="demo", show_default=True, help="The Dagster job to run.")
@click.option("--partitions", nargs=2, metavar="FIRST LAST", help="Only these. Default: all.")
@click.pass_obj
def demo(session: Session, job: str, partitions: tuple[str, str] | None) -> None:
    """Materialize the whole demo through Dagster."""
    run_demo(session, job, partitions)


def run_demo(session: Session, job_name: str, partitions: tuple[str, str] | None = None) -> None:
    """Run a job over all partitions of its assets, or those from a first to a last, and print what happened.

    Raises RunFailed.
    """
    prepare_dagster_home(session.settings)
    out = console()
    out.print(f"Materializing job [bold]{job_name}[/] into {session.settings.warehouse}", highlight=False)
    log = session.settings.home / "demo.log"
    with errors_into(log), dagster_instance(session.settings) as instance:
        job = _job(job_name)
        origin = _tell_origin(instance, job_name)
        run_id = Clock().unique_name()
        with _progress(out, instance, run_id, len(job.graph.nodes)):
            result = job.execute_in_process(
                run_id=run_id,
                instance=instance,
                tags={**origin, **_partition_tags(job, partitions)},
                run_config=_QUIET,
                raise_on_error=False,
            )
    if not result.success:
        raise RunFailed(f"Run {run_id} failed. {_failures(result)} The log is {log}; `snapline ui` shows the run.")
    _say_what_happened(out, session, result)


def _job(name: str) -> dg.JobDefinition:
    """The job of that name. Raises NotFound that lists them."""
    definitions = platform_definitions()
    names = [job.name for job in definitions.get_repository_def().get_all_jobs() if not job.name.startswith("__")]
    if name not in names:
        raise NotFound(f"Job {name!r} does not exist. Jobs: {', '.join(sorted(names))}.")
    return definitions.resolve_job_def(name)


def _tell_origin(instance: dg.DagsterInstance, job_name: str) -> dict[str, str]:
    """Let the runs that are made on an instance belong to a job of the workspace, and give them these tags besides: the first
    page of the UI shows no others.
    """
    workspace = PROJECT_ROOT / "workspace.yaml"
    if not workspace.exists():
        return {}
    location = location_origins_from_yaml_paths([str(workspace)])[0]
    origin = RemoteJobOrigin(RemoteRepositoryOrigin(location, SINGLETON_REPOSITORY_NAME), job_name)
    vars(instance)["create_run_for_job"] = partial(instance.create_run_for_job, remote_job_origin=origin)
    return {".dagster/repository": f"{SINGLETON_REPOSITORY_NAME}@{location.location_name}"}


def _partition_tags(job: dg.JobDefinition, wanted: tuple[str, str] | None) -> dict[str, str]:
    """Run tags that ask for partitions at once. Raises InvalidRequest for one that there is not."""
    partitions = job.partitions_def
    keys = [] if partitions is None else list(partitions.get_partition_keys())
    first, last = wanted or (keys[0], keys[-1]) if keys else ("", "")
    for key in wanted or ():
        if key not in keys:
            key_range = f"{keys[0]} to {keys[-1]}" if keys else "none"
            raise InvalidRequest(f"Job {job.name} has no partition {key!r}. Partitions: {key_range}.")
    if not keys:
        return {}
    if keys.index(first) > keys.index(last):
        raise InvalidRequest(f"Partition {first!r} comes after {last!r}: give the first one first.")
    return {"dagster/asset_partition_range_start": first, "dagster/asset_partition_range_end": last}


@contextmanager
def _progress(out: Console, instance: dg.DagsterInstance, run_id: str, steps: int) -> Iterator[None]:
    """A bar of steps done on a terminal; elsewhere a line for each step."""
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    done = threading.Event()
    with Progress(*columns, console=out, transient=True, disable=not out.is_terminal) as bar:
        task = bar.add_task("starting", total=steps)

        def follow() -> None:
            cursor = None
            while True:
                ending = done.wait(_POLL_SECONDS)
                connection = instance.get_records_for_run(run_id, cursor)
                cursor = connection.cursor
                for record in connection.records:
                    event = record.event_log_entry.dagster_event
                    if event is None or event.step_key is None:
                        continue
                    name = event.step_key.replace("__", ".", 1)
                    if event.is_step_start:
                        bar.update(task, description=name)
                    elif event.is_step_success or event.is_step_failure:
                        bar.advance(task)
                        mark = "[green]✓[/]" if event.is_step_success else "[red]✗[/]"
                        out.print(f"  {mark} {name}", highlight=False)
                if ending and not connection.has_more:
                    return

        follower = threading.Thread(target=follow, daemon=True)
        follower.start()
        try:
            yield
        finally:
            done.set()
            follower.join(timeout=10)


def _failures(result: dg.ExecuteInProcessResult) -> str:
    lines = []
    for event in result.all_events:
        if event.is_step_failure:
            error = event.step_failure_data.error
            while error is not None and error.cause is not None:
                error = error.cause
            lines.append(f"{event.step_key}: {' '.join(error.message.split()) if error else 'failed'}")
    return "; ".join(lines)


def _say_what_happened(out: Console, session: Session, result: dg.ExecuteInProcessResult) -> None:
    last: dict[str, SnapshotRef] = {}
    for event in result.get_asset_materialization_events():
        name = ".".join(event.asset_key.path)  # type: ignore[union-attr]
        if name not in last and session.catalog.exists(name):
            ref = session.table(name).ref()
            if ref is not None:
                last[name] = ref
    rows = []
    for name, ref in sorted(last.items()):
        table = session.table(name)
        sources = session.lineage(ref, "up", hops=1).snapshots
        rows.append((name, ref.snapshot_id, table.count(), len(table.tags.list()), ", ".join(map(str, sources))))
    out.print(rendered_table(["table", "snapshot", "rows", "tags", "made from"], rows))
    evaluations = result.get_asset_check_evaluations()
    passed = sum(evaluation.passed for evaluation in evaluations)
    out.print(f"{passed} of {len(evaluations)} asset checks passed.\n", highlight=False)
    for evaluation in evaluations:
        if not evaluation.passed:
            out.print(f"  [red]✗[/] {'.'.join(evaluation.asset_key.path)}: {evaluation.check_name}", highlight=False)
    out.print("What next:", highlight=False)
    program = "snapline" if Path(sys.executable).parent in map(Path, os.get_exec_path()) else ".venv/bin/snapline"
    mart = next((name for name in last if name.startswith("marts.")), next(iter(last), "db.table"))
    for command, meaning in (
        ("make ui", "the Dagster UI on http://127.0.0.1:3000"),
        (f"{program} query 'SELECT * FROM {mart} LIMIT 5'", "DuckDB over the tables"),
        (f"{program} lineage {mart}", "which snapshots it was made from"),
        (f"{program} snapshots {mart}", "its history"),
    ):
        out.print(f"  {command:<78} {meaning}", highlight=False, markup=False)
