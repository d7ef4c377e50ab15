"""Schedules are run in one thread."""

import pytest

from tests.interleavings.schedules import use_one_thread


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    use_one_thread(monkeypatch.setattr)
