"""Where Dagster keeps runs, events and schedules: PostgreSQL where `SNAPLINE_DAGSTER_URL` names one, else SQLite files in
DAGSTER_HOME. `dagster.yaml` names this class, so that every process of Dagster follows the variable.
"""

import os
from collections.abc import Mapping
from typing import Any

from dagster import Field

# Not public API, but what every storage of Dagster is made of.
from dagster._core.storage.base_storage import DagsterStorage
from dagster._core.storage.sqlite_storage import DagsterSqliteStorage
from dagster._serdes import ConfigurableClass, ConfigurableClassData

from storage import InvalidRequest, revealed

from ..settings import Settings

# SQLAlchemy takes `postgresql:` for psycopg 3 since 2.1, whose parameters are bound by the server: NOTIFY takes none.
_DRIVER = "postgresql+psycopg2://"


class PlatformStorage(DagsterStorage, ConfigurableClass):
    """Gives Dagster the storage that the settings name."""

    @classmethod
    def config_type(cls) -> dict[str, Any]:
        """`base_dir`: the directory of the SQLite files, by default DAGSTER_HOME."""
        return {"base_dir": Field(str, is_required=False)}

    @classmethod
    def from_config_value(  # type: ignore[override]
        cls, inst_data: ConfigurableClassData | None, config_value: Mapping[str, Any]
    ) -> DagsterStorage:
        """The storage. Raises InvalidRequest if the database's packages are not installed, or it cannot be reached."""
        settings = Settings.from_environment()
        if not settings.dagster_url:
            home = config_value.get("base_dir") or os.environ.get("DAGSTER_HOME") or str(settings.dagster_home)
            return DagsterSqliteStorage.from_local(home, inst_data=inst_data)
        return _postgresql(revealed(settings.dagster_url))


def _postgresql(url: str) -> DagsterStorage:
    try:
        # An extra: who needs no database installs none.
        from dagster_postgres import DagsterPostgresStorage
    except ImportError:
        raise InvalidRequest(
            "SNAPLINE_DAGSTER_URL names PostgreSQL, whose packages are not installed: install the extra `postgres`."
        ) from None
    return DagsterPostgresStorage(_DRIVER + url.partition("://")[2])
