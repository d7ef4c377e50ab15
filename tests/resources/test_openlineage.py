"""Lineage as OpenLineage events: into a file, and to a server."""

import json
import os
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from click.testing import CliRunner
from jsonschema import Draft202012Validator, FormatChecker

from resources import Session, SparkResource, TablesResource, openlineage_sensor
from resources.cli import cli
from resources.openlineage_export import run_id
from storage import InvalidRequest

Events = list[dict[str, Any]]


@pytest.fixture
def history(session: Session) -> Session:
    session.sql(
        """
        SET 'pipeline.name' = 'count';
        CREATE TABLE shop.orders AS SELECT 1 AS id, 'tea' AS item UNION ALL SELECT 2, 'cup';
        CREATE TABLE shop.items AS SELECT item AS what, count(*) AS n, sum(id) AS s FROM shop.orders GROUP BY item;
        """,
        "duckdb",
    )
    return session


def check(events: Events) -> None:
    schema = json.loads((Path(__file__).parent.parent / "fixtures" / "openlineage_event.schema.json").read_text())
    for event in events:
        Draft202012Validator(schema, format_checker=FormatChecker()).validate(event)


def command(*arguments: str) -> str:
    done = CliRunner().invoke(cli, ["export-openlineage", *arguments], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def test_every_commit_is_an_event_with_versions_and_columns(history: Session, tmp_path: Path) -> None:
    target = tmp_path / "events.jsonl"
    assert command("--file", str(target)).startswith("Sent 2 events, up to 20")
    events = [json.loads(line) for line in target.read_text().splitlines()]
    check(events)
    first, second = events
    assert (first["inputs"], first["outputs"][0]["name"]) == ([], "shop.orders")
    assert second["job"] == {"namespace": "snapline", "name": "count", "facets": {}}
    (source,), (sink,) = second["inputs"], second["outputs"]
    assert (source["name"], source["facets"]["version"]["datasetVersion"]) == ("shop.orders", "1")
    assert source["namespace"] == f"file://{history.catalog.warehouse}"
    assert [field["name"] for field in sink["facets"]["schema"]["fields"]] == ["what", "n", "s"]
    columns = {
        name: [field["field"] for field in value["inputFields"]]
        for name, value in sink["facets"]["columnLineage"]["fields"].items()
    }
    assert columns == {"what": ["item"], "s": ["id"]}
    row = history.lineage_store.snapshots("sink", table="items")[0]
    assert second["run"]["runId"] == run_id("count", row.barrier_id)
    # What is sent again is the same.
    command("--file", str(target))
    again = [json.loads(line) for line in target.read_text().splitlines()][2:]
    assert again == events
    assert command("--file", str(target), "--since", "2100-01-01") == "Sent 0 events, up to 2100-01-01 00:00:00 UTC.\n"
    assert command("--file", str(target), "--since", "2100-01-01T02:00+02:00").endswith(
        "up to 2100-01-01 00:00:00 UTC.\n"
    )
    assert command("--file", str(target), "--since", "2024-01-01T00:00:00Z").startswith("Sent 2 events, up to 2")


@pytest.fixture
def server() -> Iterator[tuple[str, Events]]:
    """A server that keeps what it is sent."""
    received: Events = []

    class Sink(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(201)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Sink) as http:
        thread = threading.Thread(target=http.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{http.server_port}", received
        http.shutdown()
        thread.join()


def test_a_sensor_sends_what_is_new_from_where_it_had_come_to(
    history: Session, server: tuple[str, Events], monkeypatch: pytest.MonkeyPatch
) -> None:
    import resources.openlineage_export as module

    url, received = server
    sensor = openlineage_sensor(url=url)
    tables = TablesResource(spark=SparkResource())
    monkeypatch.setattr(module, "_OVERLAP", module.timedelta(0))

    def tick(cursor: str | None) -> str:
        with dg.build_sensor_context(cursor=cursor, resources={"tables": tables}) as context:
            sensor(context)
            assert context.cursor is not None
            return context.cursor

    cursor = tick(None)
    check(received)
    assert len(received) == 2
    history.sql("INSERT INTO shop.orders VALUES (3, 'jug')", "duckdb")
    tick(cursor)
    # The last event is sent again: another commit may have been made in the same millisecond.
    assert [event["outputs"][0]["facets"]["version"]["datasetVersion"] for event in received[2:]] == ["1", "2"]


def test_where_events_go_is_said_once(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    done: Callable[..., Any] = CliRunner().invoke
    result = done(cli, ["export-openlineage", "--file", "x", "--url", "http://x"])
    assert result.exit_code != 0


def test_events_that_would_go_nowhere_are_refused(
    history: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [variable for variable in os.environ if variable.startswith("OPENLINEAGE")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))

    def refused(*arguments: str) -> str:
        done = CliRunner().invoke(cli, ["export-openlineage", *arguments])
        assert isinstance(done.exception, InvalidRequest | OSError)
        return str(done.exception)

    assert "Say where events go" in refused()
    assert str(tmp_path / "none/x") in refused("--file", str(tmp_path / "none/x"))
    monkeypatch.setenv("OPENLINEAGE_DISABLED", "true")
    for arguments in ([], ["--file", str(tmp_path / "x")], ["--url", "http://localhost:1"]):
        assert "switched off" in refused(*arguments)
    monkeypatch.setenv("OPENLINEAGE_DISABLED", "false")
    # Where the console is asked for, it is written to.
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__TYPE", "console")
    assert "Sent 2 events" in command()
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__TYPE", "nonsense")
    assert "configuration of OpenLineage" in refused()
