"""Where state lives and which engine runs, from the environment. Nothing else reads it.

| variable | meaning | default |
|---|---|---|
| `SNAPLINE_HOME` | warehouse, lineage database, Dagster home, log files | `.snapline` in the project |
| `SNAPLINE_WAREHOUSE` | path or fsspec URL of the tables | `$SNAPLINE_HOME/warehouse` |
| `SNAPLINE_STORAGE_OPTIONS` | JSON for fsspec (keys, endpoint …); `${env:NAME}` stands for a variable | `{}` |
| `SNAPLINE_LOCK_DIRECTORY` | directory of the catalog lock, for stores that cannot commit without one | |
| `SNAPLINE_EXTERNAL_ROOTS` | JSON list of directories outside of the tables from which data files are read | `[]` |
| `SNAPLINE_READABLE_DIRECTORIES` | JSON list of directories whose files SQL on DuckDB may read | `[]` |
| `SNAPLINE_WRITABLE_DIRECTORIES` | JSON list of directories, or URLs, below which SQL may write files | `[]` |
| `SNAPLINE_LINEAGE_URL` | `jdbc:` URL of the lineage database | SQLite in `$SNAPLINE_HOME` |
| `SNAPLINE_DAGSTER_URL` | `postgresql://` URL of the database of Dagster's own runs and events | SQLite in `$SNAPLINE_HOME` |
| `SNAPLINE_CHECKPOINTS` | shared directory for how far streams have come | `$SNAPLINE_HOME/checkpoints` |
| `SNAPLINE_SPARK_MASTER` | Spark master | `local[*]` |
| `SNAPLINE_SPARK_REMOTE` | Spark Connect URL; wins over the master | |
| `SNAPLINE_SPARK_CONFIG` | JSON of further Spark settings | `{}` |
| `SNAPLINE_BROWSER_URL` | where the lineage browser is served, for links to it | `/snapline`, beside the Dagster UI |
| `SNAPLINE_BROWSER_READ_ONLY` | `true`: the browser starts, publishes and drops nothing | `false` |
| `SNAPLINE_METRICS` | where metrics go: `otlp`, or `console` | nowhere |
| `SNAPLINE_LOGS` | `json`: logs are lines of JSON on standard error | warnings as text |
"""

import difflib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from lineage import check_jdbc_url
from storage import InvalidRequest, Secret, guarded_options, guarded_storage, hidden, revealed

from .logs import check_logs
from .metrics import check_metrics
from .setting_values import (
    check_dagster_url,
    check_directories,
    check_directory,
    check_home,
    check_spark_config,
    check_spark_master,
    check_spark_remote,
    check_time_zone,
    check_warehouse,
    refuse_unseen,
)

_NAMES = (
    "SNAPLINE_HOME",
    "SNAPLINE_WAREHOUSE",
    "SNAPLINE_STORAGE_OPTIONS",
    "SNAPLINE_LOCK_DIRECTORY",
    "SNAPLINE_EXTERNAL_ROOTS",
    "SNAPLINE_READABLE_DIRECTORIES",
    "SNAPLINE_WRITABLE_DIRECTORIES",
    "SNAPLINE_LINEAGE_URL",
    "SNAPLINE_DAGSTER_URL",
    "SNAPLINE_CHECKPOINTS",
    "SNAPLINE_SPARK_MASTER",
    "SNAPLINE_SPARK_REMOTE",
    "SNAPLINE_SPARK_CONFIG",
    "SNAPLINE_BROWSER_URL",
    "SNAPLINE_BROWSER_READ_ONLY",
    "SNAPLINE_METRICS",
    "SNAPLINE_LOGS",
)
_MAY_BE_SECRET = ("lineage_url", "dagster_url", "spark_remote")
# By variable and field: wherever a value is given, one with which nothing could be done later is refused.
_CHECKS: tuple[tuple[str, str, Callable[[str, str], None]], ...] = (
    ("SNAPLINE_WAREHOUSE", "warehouse", check_warehouse),
    ("SNAPLINE_LOCK_DIRECTORY", "lock_directory", check_directory),
    ("SNAPLINE_LINEAGE_URL", "lineage_url", check_jdbc_url),
    ("SNAPLINE_DAGSTER_URL", "dagster_url", check_dagster_url),
    ("SNAPLINE_CHECKPOINTS", "checkpoints", check_directory),
    ("SNAPLINE_SPARK_MASTER", "spark_master", check_spark_master),
    ("SNAPLINE_SPARK_REMOTE", "spark_remote", check_spark_remote),
    ("SNAPLINE_METRICS", "metrics", check_metrics),
    ("SNAPLINE_LOGS", "logs", check_logs),
)
PROJECT_ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Settings:
    """Plain values, secrets typed as such; `from_environment` reads them."""

    home: Path
    warehouse: str
    lineage_url: str | Secret
    storage_options: Mapping[str, Any] = field(default_factory=dict)
    spark_master: str = "local[*]"
    spark_remote: str | Secret = ""
    spark_config: Mapping[str, Any] = field(default_factory=dict)
    lock_directory: str = ""
    external_roots: Sequence[str] = ()
    readable_directories: Sequence[str] = ()
    browser_url: str = "/snapline"
    browser_read_only: bool = False
    writable_directories: Sequence[str] = ()
    dagster_url: str | Secret = ""
    checkpoints: str = ""
    # What gave the address of the lineage database, for messages.
    lineage_setting: str = "lineage_url"
    metrics: str = ""
    logs: str = ""

    def __post_init__(self) -> None:
        # However they were made: nobody who prints settings prints a secret.
        for name in _MAY_BE_SECRET:
            object.__setattr__(self, name, guarded_options({name: getattr(self, name)})[name])
        object.__setattr__(self, "storage_options", guarded_storage(self.storage_options))
        object.__setattr__(self, "spark_config", guarded_options(self.spark_config))
        for _, name, check in _CHECKS:
            if value := getattr(self, name):
                check(name, revealed(value) if name in _MAY_BE_SECRET else value)
        check_spark_config("spark_config", self.spark_config)
        for name in ("external_roots", "readable_directories", "writable_directories"):
            check_directories(name, getattr(self, name), urls=name != "readable_directories")
        address_of_pages("browser_url", self.browser_url)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> "Settings":
        """Raises InvalidRequest for a value that cannot work, and for a variable that nobody reads."""
        given = os.environ if environment is None else environment
        _refuse_unknown(given)
        _refuse_values(given)
        root = PROJECT_ROOT if (PROJECT_ROOT / "workspace.yaml").exists() else Path.cwd()
        home = Path(given.get("SNAPLINE_HOME") or root / ".snapline").expanduser().resolve()
        return cls(
            home,
            given.get("SNAPLINE_WAREHOUSE") or str(home / "warehouse"),
            given.get("SNAPLINE_LINEAGE_URL") or f"jdbc:sqlite:{home / 'lineage.db'}",
            _json(given, "SNAPLINE_STORAGE_OPTIONS"),
            given.get("SNAPLINE_SPARK_MASTER") or "local[*]",
            given.get("SNAPLINE_SPARK_REMOTE") or "",
            _json(given, "SNAPLINE_SPARK_CONFIG"),
            given.get("SNAPLINE_LOCK_DIRECTORY") or "",
            _directories(given, "SNAPLINE_EXTERNAL_ROOTS"),
            _directories(given, "SNAPLINE_READABLE_DIRECTORIES"),
            address_of_pages("SNAPLINE_BROWSER_URL", given.get("SNAPLINE_BROWSER_URL") or cls.browser_url),
            _switch(given, "SNAPLINE_BROWSER_READ_ONLY"),
            _directories(given, "SNAPLINE_WRITABLE_DIRECTORIES"),
            given.get("SNAPLINE_DAGSTER_URL") or "",
            given.get("SNAPLINE_CHECKPOINTS") or "",
            "SNAPLINE_LINEAGE_URL" if given.get("SNAPLINE_LINEAGE_URL") else "SNAPLINE_HOME",
            given.get("SNAPLINE_METRICS") or "",
            given.get("SNAPLINE_LOGS") or "",
        )

    @property
    def runs_elsewhere(self) -> bool:
        """Whether Spark's tasks run on hosts that do not see this one's files."""
        if self.spark_remote:
            address = urlsplit(revealed(self.spark_remote))
            return address.scheme == "sc" and address.hostname not in ("localhost", "127.0.0.1", "::1")
        return not self.spark_master.startswith("local")

    def checkpoint(self, job: str) -> str:
        """The directory in which a stream remembers how far it has come. Raises InvalidRequest where that would be one host's
        own: the job would begin anew on another.
        """
        if self.checkpoints:
            return str(Path(self.checkpoints) / job)
        if self.runs_elsewhere:
            raise InvalidRequest(
                f"The stream {job!r} would keep its checkpoint in {self.home / 'checkpoints'}, which other hosts do not see: set "
                "SNAPLINE_CHECKPOINTS to a directory that all hosts mount at the same path."
            )
        return str(self.home / "checkpoints" / job)

    @property
    def dagster_home(self) -> Path:
        """The directory of Dagster's own files, `DAGSTER_HOME`."""
        return self.home / "dagster"


def _refuse_unknown(given: Mapping[str, str]) -> None:
    for name in given:
        if name.startswith("SNAPLINE_") and name not in _NAMES and not name.startswith("SNAPLINE_TEST_"):
            near = difflib.get_close_matches(name, _NAMES, n=1)
            hint = f"Did you mean {near[0]}?" if near else f"Variables: {', '.join(_NAMES)}."
            raise InvalidRequest(f"The environment variable {name} is read by nobody. {hint}")


def _refuse_values(given: Mapping[str, str]) -> None:
    """Raise InvalidRequest for a value with which nothing could be done later. What is JSON is read elsewhere."""
    if given.get("SNAPLINE_HOME"):
        check_home("SNAPLINE_HOME", given["SNAPLINE_HOME"])
    for variable, field_name, check in _CHECKS:
        if given.get(variable):
            # Those that may be secrets may also refer to other variables.
            is_secret = field_name in _MAY_BE_SECRET
            check(variable, revealed(given[variable]) if is_secret else given[variable])
    if given.get("TZ"):
        check_time_zone("TZ", given["TZ"])


def address_of_pages(name: str, text: str) -> str:
    """An address under which pages are, without a slash at the end. Raises InvalidRequest that names what gave it."""
    refuse_unseen(name, text)
    try:
        parts = urlsplit(text)
        # Asked for its port, an address whose port cannot be is an error.
        is_of_web = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        is_address = is_of_web or (not parts.scheme and text.startswith("/") and not parts.netloc)
    except ValueError:
        is_address = False
    if not is_address or parts.query or parts.fragment or parts.username:
        raise InvalidRequest(
            f"{name} = {hidden(text)!r} is no address of pages: write https://host/path, or /path on the Dagster UI's host."
        )
    return text.rstrip("/")


def _switch(given: Mapping[str, str], name: str) -> bool:
    text = (given.get(name) or "false").lower()
    if text not in ("true", "false", "1", "0"):
        raise InvalidRequest(f"{name} = {text!r} is neither true nor false.")
    return text in ("true", "1")


def _directories(given: Mapping[str, str], name: str) -> tuple[str, ...]:
    text = given.get(name) or "[]"
    value = _parsed(name, text)
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise InvalidRequest(f"{name} = {text!r} must be a JSON list of directories.")
    check_directories(name, value, urls=name != "SNAPLINE_READABLE_DIRECTORIES")
    return tuple(value)


def _parsed(name: str, text: str) -> Any:
    """The value that JSON says. Raises InvalidRequest, which does not show the text: it may be a secret."""
    try:
        return json.loads(text, object_pairs_hook=partial(_each_once, name))
    except (ValueError, RecursionError) as error:
        said = "it is nested without end" if isinstance(error, RecursionError) else error
        raise InvalidRequest(f"{name} is not JSON: {said}. Its {len(text)} characters are not shown.") from None


def _each_once(name: str, pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    keys = [key for key, _ in pairs]
    if twice := [key for key in keys if keys.count(key) > 1]:
        raise InvalidRequest(f"{name} has the key {twice[0]!r} more than once: leave all but one out.")
    return dict(pairs)


def _json(given: Mapping[str, str], name: str) -> dict[str, str]:
    text = given.get(name) or "{}"
    value = _parsed(name, text)
    if not isinstance(value, dict):
        raise InvalidRequest(f'{name} is JSON, but no object: write {{"key": "value", …}}.')
    if name == "SNAPLINE_SPARK_CONFIG":
        check_spark_config(name, value)
    return {str(key): each if isinstance(each, str) else json.dumps(each) for key, each in value.items()}
