"""The browser beside Dagster's UI, as `snapline ui` starts them: one port, and both are what they are alone."""

import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from dagster._cli import dev

from resources.ui import services as ui_services
from tests.lineage_browser.bad_day import Form, bad_day
from tests.resources.dagster_server import DagsterServer, dagster_server

pytestmark = pytest.mark.dagster


@pytest.fixture
def server(spark_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DagsterServer]:
    home = tmp_path / "home"
    shop = bad_day(home, monkeypatch)
    with dagster_server("tests.resources.quick_shop", home, home / "dagster", "resources.ui.services") as running:
        yield running
    shop.instance.dispose()


def get(address: str, **headers: str) -> tuple[int, str, dict[str, str]]:
    try:
        with urllib.request.urlopen(urllib.request.Request(address, headers=headers), timeout=60) as answer:
            return answer.status, answer.read().decode(), dict(answer.headers)
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode(), dict(error.headers)


def test_both_answer_on_one_port_and_events_lead_to_pages(server: DagsterServer) -> None:
    for path in ("/server_info", "/", "/assets", "/assets/core/days", "/runs"):
        status, text, headers = get(server.url + path)
        assert status == 200
        assert "Snapline</title>" not in text
        assert "nonce" in headers.get("content-security-policy", "nonce")
    assert get(f"{server.url}/snapline")[0] == 200
    status, text, headers = get(f"{server.url}/snapline/")
    assert status == 200 and "Snapline</title>" in text and "raw.orders" in text
    assert "unsafe" not in headers["content-security-policy"]
    assert get(f"{server.url}/snapline/static/browser.css")[0] == 200
    assert get(f"{server.url}/snapline/nowhere")[0] == 404
    # Names that lead here from elsewhere read nothing of ours; Dagster's answers stay Dagster's.
    assert get(f"{server.url}/snapline/", Host="evil.example")[0] == 421

    query = """query($k: AssetKeyInput!) { assetOrError(assetKey: $k) { ... on Asset { assetMaterializations(limit: 9) {
        metadataEntries { label ... on UrlMetadataEntry { url } } } } } }"""
    for key in (["raw", "orders"], ["core", "days"], ["mart", "totals"]):
        events = server.ask(query, k={"path": key})["assetOrError"]["assetMaterializations"]
        assert events
        for event in events:
            (address,) = [entry["url"] for entry in event["metadataEntries"] if entry["label"] == "snapshot_page"]
            status, text, _ = get(server.url + address)
            assert status == 200 and ".".join(key) in text
            assert f"/assets/{'/'.join(key)}" in text

    plan = get(f"{server.url}/snapline/plan?ref=snapline.raw.orders@2")[1]
    form = Form(plan, "/recoveries")
    assert form.action == "/snapline/recoveries"
    assert get(f"{server.url}/snapline/spoilt?ref=snapline.raw.orders@2")[0] == 200


def test_a_dagster_that_starts_its_webserver_otherwise_is_served_without_the_browser(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    started: list[str] = []
    monkeypatch.delattr(dev, "open_ipc_subprocess")
    monkeypatch.setattr(ui_services, "main", lambda: started.append("dagster"))
    monkeypatch.setattr(sys, "argv", ["snapline"])
    ui_services.start()
    assert started == ["dagster"]
    assert "`snapline browse` serves it" in capsys.readouterr().err
