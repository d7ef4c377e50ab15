"""The quick shop of the recovery tests after its bad day, and the browser of it."""

import re
from html import unescape
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from starlette.testclient import TestClient

from resources import Session, code_location
from resources.assets.dagster_home import dagster_config
from resources.browser.app import browser_app
from tests.resources.quick_shop import KEYS
from tests.resources.test_recovery_refusals import BAD, Shop

ADDRESS = "http://127.0.0.1:3000"


def bad_day(home: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    """Good days, a bad load by SQL, and what was made from it for two months; the browser's actions find this shop."""
    dagster_home = home / "dagster"
    dagster_home.mkdir(parents=True)
    (dagster_home / "dagster.yaml").write_text(dagster_config(dagster_home))
    monkeypatch.setenv("SNAPLINE_HOME", str(home))
    monkeypatch.setenv("DAGSTER_HOME", str(dagster_home))
    monkeypatch.setattr(code_location, "_MODULE", "tests.resources.quick_shop")
    shop = Shop(Session(), dg.DagsterInstance.from_config(str(dagster_home)))
    for name in ("raw.orders", "raw.weather"):
        assert shop.make(name).success
    shop.produce()
    shop.session.sql(BAD, "duckdb")
    shop.produce(KEYS[2])
    return shop


def client_of(session: Session, **given: Any) -> TestClient:
    """Somebody who visits the browser."""
    return TestClient(browser_app(session, **given), base_url=ADDRESS, follow_redirects=False)


class Form:
    """A form of a page, as a browser would send it."""

    def __init__(self, page: str, action: str) -> None:
        match = re.search(rf'<form method="post" action="([^"]*{re.escape(action)})".*?</form>', page, re.DOTALL)
        assert match is not None, f"no form leads to {action}"
        self.action = unescape(match[1])
        inputs = re.findall(r"<input [^>]*>", match[0])
        self.fields = {
            unescape(name[1]): unescape(value[1])
            for element in inputs
            if "checkbox" not in element
            and (name := re.search(r'name="([^"]*)"', element))
            and (value := re.search(r'value="([^"]*)"', element))
        }

    def send(self, client: TestClient, headers: dict[str, str] | None = None, **changes: str) -> Any:
        given = {"Origin": ADDRESS, "Sec-Fetch-Site": "same-origin"} if headers is None else headers
        return client.post(self.action, data={**self.fields, **changes}, headers=given)
