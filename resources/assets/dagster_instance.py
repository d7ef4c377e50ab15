"""The Dagster instance that the UI shows, whose databases are made once."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dagster as dg

from storage import FileLock

from ..settings import Settings
from .dagster_home import prepare_dagster_home

# Stands in the home of Dagster once its databases do.
_MADE = "databases-made"


@contextmanager
def dagster_instance(settings: Settings) -> Iterator[dg.DagsterInstance]:
    """The instance of the platform's Dagster home, made if need be. The home is set in this process too."""
    prepare_dagster_home(settings)
    make_databases()
    with dg.DagsterInstance.get() as instance:
        yield instance


def make_databases() -> None:
    """Make the databases of the instance in DAGSTER_HOME, unless they are there: Dagster does so when it is first opened, and
    two who open it at once break them.
    """
    home = Path(os.environ["DAGSTER_HOME"])
    with FileLock(str(home / "locks")).hold(str(home / _MADE)):
        if not (home / _MADE).exists():
            dg.DagsterInstance.get().dispose()
            (home / _MADE).touch()
