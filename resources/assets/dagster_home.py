"""The Dagster instance of this platform: its home, and the UI on it."""

import json
import os
import sys
import tempfile
from pathlib import Path

from ..ports import bound
from ..private_files import make_private_directory
from ..settings import PROJECT_ROOT, Settings

_CODE_LOCATION = "platform_assets.definitions"
# As workspace.yaml says.
_LOCATION_OF_WORKSPACE = "platform"
# Where no checkout is, the wheel has it.
_INSTALLED_CONFIG = Path(__file__).parent.parent / "dagster.yaml"
_STORAGE = "    class: PlatformStorage"
_SERVICES = "resources.ui.services"


def dagster_config(home: Path) -> str:
    """The project's dagster.yaml for a directory: who opens the instance by that alone, without DAGSTER_HOME, finds its files."""
    config = PROJECT_ROOT / "dagster.yaml"
    text = (config if config.exists() else _INSTALLED_CONFIG).read_text()
    return text.replace(_STORAGE, f"{_STORAGE}\n    config:\n      base_dir: {json.dumps(str(home))}")


def prepare_dagster_home(settings: Settings) -> Path:
    """The directory for DAGSTER_HOME, made if need be, with the project's dagster.yaml; it is set in this process too."""
    home = settings.dagster_home
    make_private_directory(settings.home)
    make_private_directory(home)
    config = PROJECT_ROOT / "dagster.yaml"
    if config.exists() or not (home / "dagster.yaml").exists():
        # Whole at any moment: another process may be reading it.
        with tempfile.NamedTemporaryFile(dir=home, delete=False) as copy:
            copy.write(dagster_config(home).encode())
        os.replace(copy.name, home / "dagster.yaml")
    os.environ["DAGSTER_HOME"] = str(home)
    return home


def code_location_name() -> str:
    """The name of the platform's code location in the UI that `start_ui` becomes."""
    return _LOCATION_OF_WORKSPACE if _workspace().exists() else _CODE_LOCATION


def _workspace() -> Path:
    return PROJECT_ROOT / "workspace.yaml"


def start_ui(settings: Settings, host: str, port: int) -> None:
    """Become `dagster dev`: the UI with the lineage browser, the daemon that runs backfills and schedules, the code location.

    Raises InvalidRequest for an address that cannot be had.
    """
    # Dagster would say so, and go on without its UI.
    bound(host, port).close()
    prepare_dagster_home(settings)
    os.environ["SNAPLINE_HOME"] = str(settings.home)
    # Dagster says on every start that another command will replace this one.
    os.environ.setdefault("PYTHONWARNINGS", "ignore")
    workspace = _workspace()
    location = ["-w", str(workspace)] if workspace.exists() else ["-m", _CODE_LOCATION]
    # Dagster warns of a dagster.yaml beside it that is not the one in use: start where there is none.
    os.chdir(settings.home)
    arguments = ["-m", _SERVICES, "dev", "--host", host, "--port", str(port), *location]
    os.execv(sys.executable, [sys.executable, *arguments])
