"""A session in a home of its own, and the browser's pages without a network."""

from collections.abc import Callable
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from resources import Session
from resources.browser.app import browser_app

Get = Callable[..., TestClient]


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Session:
    monkeypatch.setenv("SNAPLINE_HOME", str(tmp_path / "home"))
    return Session()


@pytest.fixture
def client(session: Session) -> TestClient:
    """Asks the pages; what they raise is an answer, as it is for a browser."""
    return TestClient(browser_app(session), base_url="http://127.0.0.1", raise_server_exceptions=False)
