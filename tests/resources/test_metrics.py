"""Metrics of the platform's processes: sent to a collector that speaks OTLP, shown on a console, refused where they cannot go."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from storage.metrics import METRICS

ROOT = Path(__file__).parent.parent.parent
STATEMENTS = (
    "CREATE TABLE raw.a (id BIGINT, PRIMARY KEY (id) NOT ENFORCED); INSERT INTO raw.a VALUES (1), (2), (3); "
    "SELECT count(*) AS rows FROM raw.a WHERE id > 1"
)


class Collector:
    """A server that takes metrics by OTLP over HTTP."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, ExportMetricsServiceRequest]] = []
        collected = self.requests

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                collected.append((self.path, ExportMetricsServiceRequest.FromString(body)))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.endpoint = f"http://127.0.0.1:{self.server.server_port}"

    def points(self, name: str) -> list[tuple[dict[str, str], Any]]:
        """The attributes and the data point of each value of a metric."""
        points = []
        for _, request in self.requests:
            for resource in request.resource_metrics:
                for metric in (metric for scope in resource.scope_metrics for metric in scope.metrics):
                    if metric.name == name:
                        data = getattr(metric, metric.WhichOneof("data"))
                        points += [({a.key: a.value.string_value for a in p.attributes}, p) for p in data.data_points]
        return points

    def service(self) -> str:
        """The name of the service that has sent them."""
        resource = self.requests[0][1].resource_metrics[0].resource
        return next(a.value.string_value for a in resource.attributes if a.key == "service.name")


@pytest.fixture
def collector() -> Iterator[Collector]:
    collector = Collector()
    yield collector
    collector.server.shutdown()
    collector.server.server_close()


def run(tmp_path: Path, *words: str, code: str = "", **environment: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-c", code + "from resources.cli import main; main()", *words]
    own = {"PYTHONPATH": str(ROOT), "SNAPLINE_HOME": str(tmp_path), "HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env={**own, **environment}, check=False)


def test_a_command_sends_what_it_has_measured_when_it_ends(tmp_path: Path, collector: Collector) -> None:
    given = {"SNAPLINE_METRICS": "otlp", "OTEL_EXPORTER_OTLP_ENDPOINT": collector.endpoint}
    done = run(tmp_path, "sql", "--engine", "duckdb", STATEMENTS, **given)
    assert done.returncode == 0, done.stderr
    assert {path for path, _ in collector.requests} == {"/v1/metrics"}
    assert collector.service() == "snapline"
    of_insert = {"table": "raw.a", "kind": "APPEND"}
    assert [(said, point.as_int) for said, point in collector.points("snapline.commit.rows")] == [(of_insert, 3)]
    committed = collector.points("snapline.commit.duration")
    assert [(said, point.count) for said, point in committed] == [({**of_insert, "outcome": "committed"}, 1)]
    # In seconds: the bounds are those of seconds too.
    assert 0 < committed[0][1].sum < 60
    assert 0.01 in committed[0][1].explicit_bounds
    assert [point.as_int for _, point in collector.points("snapline.plan.files")] == [1]
    operations = {said["operation"] for said, _ in collector.points("snapline.store.call.duration")}
    assert {"read", "create"} <= operations


def test_what_opentelemetry_is_told_goes_before(tmp_path: Path, collector: Collector) -> None:
    given = {"SNAPLINE_METRICS": "otlp", "OTEL_EXPORTER_OTLP_ENDPOINT": collector.endpoint}
    done = run(tmp_path, "sql", "--engine", "duckdb", STATEMENTS, OTEL_SERVICE_NAME="lake", **given)
    assert done.returncode == 0, done.stderr
    assert collector.service() == "lake"


def test_a_console_is_standard_error(tmp_path: Path) -> None:
    done = run(tmp_path, "sql", "--engine", "duckdb", "--format", "json", STATEMENTS, SNAPLINE_METRICS="console")
    assert done.returncode == 0, done.stderr
    assert '"rows": 2' in done.stdout
    assert "snapline.commit.rows" in done.stderr
    assert "snapline.commit.rows" not in done.stdout


def test_a_collector_that_is_away_ends_no_command_with_an_error(tmp_path: Path) -> None:
    given = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_EXPORTER_OTLP_TIMEOUT": "1"}
    done = run(tmp_path, "sql", "--engine", "duckdb", STATEMENTS, SNAPLINE_METRICS="otlp", **given)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr


def test_opentelemetry_is_imported_by_those_who_want_it_alone(tmp_path: Path) -> None:
    code = (
        "import os, sys; leave = os._exit; tell = lambda: print('opentelemetry' in ' '.join(sys.modules), file=sys.stderr); "
        "os._exit = lambda code: (tell(), sys.stderr.flush(), leave(code)); "
    )
    assert run(tmp_path, "table", "list", code=code).stderr.strip() == "False"
    assert run(tmp_path, "table", "list", code=code, SNAPLINE_METRICS="console").stderr.strip().endswith("True")


@pytest.mark.parametrize(
    ("code", "place", "message"),
    [
        ("", "prometheus", "SNAPLINE_METRICS = 'prometheus' is no place for metrics: write otlp"),
        ("import sys; sys.modules['opentelemetry'] = None; ", "otlp", "install the extra 'metrics'"),
    ],
)
def test_metrics_that_cannot_be_are_refused_in_a_line(tmp_path: Path, code: str, place: str, message: str) -> None:
    done = run(tmp_path, "table", "list", code=code, SNAPLINE_METRICS=place)
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_second_place_is_refused(tmp_path: Path) -> None:
    code = "from resources.metrics import start_metrics; start_metrics('console'); start_metrics('console'); "
    assert run(tmp_path, "table", "list", code=code, SNAPLINE_METRICS="console").returncode == 0
    done = run(tmp_path, "table", "list", code=code, SNAPLINE_METRICS="otlp")
    assert done.returncode == 2
    assert "go to console already, and not to otlp too" in done.stderr


def test_the_page_on_deploying_names_all_of_them() -> None:
    page = (ROOT / "docs" / "deploy.md").read_text()
    for metric in METRICS:
        said = ", ".join(f"`{name}`" for name in metric.attributes)
        assert f"| `{metric.name}` | {metric.kind} | {metric.unit} | {said} | {metric.meaning} |" in page
