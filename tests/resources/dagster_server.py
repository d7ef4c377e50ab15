"""Dagster as users run it, for tests: the webserver and the daemon, talked to over GraphQL."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dagster as dg

from resources.settings import PROJECT_ROOT

_START_SECONDS = 120
_LAUNCH_RUN = """
mutation($p: ExecutionParams!) { launchRun(executionParams: $p) {
    __typename ... on LaunchRunSuccess { run { runId } } ... on PythonError { message }
    ... on RunConfigValidationInvalid { errors { message } } } }
"""
_RUN = "query($id: ID!) { runOrError(runId: $id) { ... on Run { status } } }"
_LAUNCH_BACKFILL = """
mutation($p: LaunchBackfillParams!) { launchPartitionBackfill(backfillParams: $p) {
    __typename ... on LaunchBackfillSuccess { backfillId } ... on PythonError { message } } }
"""
_REEXECUTE = """
mutation($p: ReexecutionParams!) { reexecutePartitionBackfill(reexecutionParams: $p) {
    __typename ... on LaunchBackfillSuccess { backfillId } ... on PythonError { message } } }
"""
_BACKFILL = """
query($id: String!) { partitionBackfillOrError(backfillId: $id) { ... on PartitionBackfill { status } } }
"""
_RUNS = "query($f: RunsFilter!) { runsOrError(filter: $f) { ... on Runs { results { runId status } } } }"


class DagsterServer:
    """A webserver with its daemon, and what tests do through it."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"

    def ask(self, query: str, **variables: Any) -> dict[str, Any]:
        """The data of a GraphQL answer. Raises AssertionError with its errors."""
        body = json.dumps({"query": query, "variables": variables}).encode()
        request = urllib.request.Request(f"{self.url}/graphql", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=30) as answer:
            response = json.loads(answer.read())
        assert "errors" not in response, response["errors"]
        data: dict[str, Any] = response["data"]
        return data

    def launch(self, job: str, config: dict[str, Any]) -> str:
        """Launch a job with one op; returns the run's id."""
        location = self.location()
        selector = {"repositoryLocationName": location, "repositoryName": "__repository__", "jobName": job}
        answer = self.ask(_LAUNCH_RUN, p={"selector": selector, "runConfigData": config, "mode": "default"})[
            "launchRun"
        ]
        assert answer["__typename"] == "LaunchRunSuccess", answer
        return str(answer["run"]["runId"])

    def materialize(self, asset: list[str], partition: str) -> str:
        """Materialize a partition of an asset and wait for the end; returns the status."""
        selector = {
            "repositoryLocationName": self.location(),
            "repositoryName": "__repository__",
            "jobName": "__ASSET_JOB",
            "assetSelection": [{"path": asset}],
        }
        metadata = {"tags": [{"key": "dagster/partition", "value": partition}]}
        given = {"selector": selector, "runConfigData": {}, "mode": "default", "executionMetadata": metadata}
        answer = self.ask(_LAUNCH_RUN, p=given)["launchRun"]
        assert answer["__typename"] == "LaunchRunSuccess", answer
        return self.wait_for_run(str(answer["run"]["runId"]))

    def run(self, job: str, config: dict[str, Any]) -> str:
        """Launch a job and wait for its end; returns the status."""
        return self.wait_for_run(self.launch(job, config))

    def status(self, run_id: str) -> str:
        return str(self.ask(_RUN, id=run_id)["runOrError"]["status"])

    def wait_for_run(self, run_id: str, seconds: float = 180) -> str:
        return wait(lambda: self.status(run_id), lambda status: status in ("SUCCESS", "FAILURE", "CANCELED"), seconds)

    def backfill(self, asset: list[str], partitions: list[str]) -> str:
        """Launch a backfill of an asset; returns its id."""
        given = {"assetSelection": [{"path": asset}], "partitionNames": partitions, "tags": []}
        answer = self.ask(_LAUNCH_BACKFILL, p=given)["launchPartitionBackfill"]
        assert answer["__typename"] == "LaunchBackfillSuccess", answer
        return str(answer["backfillId"])

    def repeat_backfill(self, backfill: str) -> str:
        """Run what failed of a backfill again."""
        answer = self.ask(_REEXECUTE, p={"parentRunId": backfill, "strategy": "FROM_FAILURE"})[
            "reexecutePartitionBackfill"
        ]
        assert answer["__typename"] == "LaunchBackfillSuccess", answer
        return str(answer["backfillId"])

    def wait_for_backfill(self, backfill: str, seconds: float = 240) -> str:
        def status() -> str:
            return str(self.ask(_BACKFILL, id=backfill)["partitionBackfillOrError"]["status"])

        return wait(status, lambda state: state.startswith("COMPLETED") or state in ("FAILED", "CANCELED"), seconds)

    def runs_of(self, backfill: str) -> list[dict[str, str]]:
        filters = {"tags": [{"key": "dagster/backfill", "value": backfill}]}
        return list(self.ask(_RUNS, f=filters)["runsOrError"]["results"])

    def location(self) -> str:
        data = self.ask("{ repositoriesOrError { ... on RepositoryConnection { nodes { location { name } } } } }")
        return str(data["repositoriesOrError"]["nodes"][0]["location"]["name"])


@contextmanager
def dagster_server(module: str, home: Path, dagster_home: Path, services: str = "") -> Iterator[DagsterServer]:
    """`dagster dev` over the definitions of a module, until the end of the `with`; `services`: the module that `snapline ui`
    runs in its place, or one like it.
    """
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    environment = {
        **os.environ,
        "SNAPLINE_HOME": str(home),
        "DAGSTER_HOME": str(dagster_home),
        "PYTHONWARNINGS": "ignore",
        "PYTHONPATH": str(PROJECT_ROOT),
    }
    log = home / "dagster.log"
    program = [
        *([sys.executable, "-m", services] if services else [str(Path(sys.executable).with_name("dagster"))]),
        "dev",
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
        "-m",
        module,
    ]
    with log.open("wb") as output:
        process = subprocess.Popen(
            program,
            cwd=home,
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            # A shell in the background ignores the signal that stops this.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )
    server = DagsterServer(port)

    def loaded() -> bool:
        assert process.poll() is None, log.read_text()[-3000:]
        try:
            return bool(server.location())
        except (OSError, AssertionError, LookupError):
            return False

    try:
        wait(loaded, bool, _START_SECONDS)
        yield server
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def wait(ask: Callable[[], Any], is_it: Callable[[Any], bool], seconds: float) -> Any:
    """Ask until the answer is right. Raises AssertionError with the last one if that takes too long."""
    end = time.monotonic() + seconds
    answer = ask()
    while not is_it(answer):
        assert time.monotonic() < end, f"Not after {seconds} s: {answer}"
        time.sleep(0.25)
        answer = ask()
    return answer


def kill_run(instance: dg.DagsterInstance, run_id: str) -> None:
    """Kill the process of a run, as a machine that goes down would."""
    for record in instance.all_logs(run_id, of_type=dg.DagsterEventType.ENGINE_EVENT):
        event = record.dagster_event
        pid = event.engine_event_data.metadata.get("pid") if event is not None else None
        if pid is not None:
            os.kill(int(str(pid.value)), signal.SIGKILL)
            return
    raise AssertionError(f"Run {run_id} has not told its process.")
