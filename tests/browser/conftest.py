"""Tests in a real browser take minutes: they are run where they are named (`make browser`), not with all others."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.browser.shops import UiShop

_HERE = Path(__file__).parent


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave this directory out, unless somebody has named it or a file of it."""
    named = any(
        _HERE in [path := Path(argument.partition("::")[0]).absolute(), *path.parents] for argument in config.args
    )
    return None if named else True


@pytest.fixture
def ui_shop(spark_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator["UiShop"]:
    """The quick shop after its bad day, open in a Dagster UI."""
    from tests.browser.shops import ui_shop

    with ui_shop(tmp_path / "home", monkeypatch) as shop:
        yield shop


@pytest.fixture
def pictures() -> Path | None:
    """Where pictures are kept; none unless SNAPLINE_TEST_PICTURES says so."""
    directory = os.environ.get("SNAPLINE_TEST_PICTURES")
    return None if directory is None else Path(directory)
