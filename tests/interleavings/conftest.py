"""Schedules are run in one thread, and nothing is parsed twice."""

import pytest

from tests.interleavings.recall import remember_what_is_parsed
from tests.interleavings.schedules import use_one_thread


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    use_one_thread(monkeypatch.setattr)
    remember_what_is_parsed(monkeypatch.setattr)
