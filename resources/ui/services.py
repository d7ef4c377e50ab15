"""`dagster dev` with the lineage browser on the port of its webserver: what `snapline ui` becomes.

    python -m resources.ui.services dev --host 127.0.0.1 --port 3000 -m platform_assets.definitions

The daemon, the code servers, the ports and Ctrl-C stay those of `dagster dev`: only the module that it starts as its webserver
is another one.
"""

import os
import signal
import sys
import time
from typing import Any

import click

# Not public API: there is no option that names the webserver's module.
from dagster._cli import dev, main

from ..assets.dagster_instance import make_databases

_DAGSTERS = "dagster_webserver"
WEBSERVER = "resources.ui.webserver"
# So long the code servers are waited for, which end themselves.
_PATIENCE_S = 15.0


def start(webserver: str = WEBSERVER) -> None:
    """Run the command line of Dagster, with this module as the webserver of `dagster dev`; return once its processes are gone."""
    sys.argv[0] = "dagster"
    # Who is started behind a shell's `&`, or by nohup, ignores SIGINT. Dagster ends its services by that signal, and does on
    # SIGTERM what is done on SIGINT: nothing would end any of them.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        if os.environ.get("DAGSTER_HOME"):
            make_databases()
        _with_browser(webserver)
        # Click's command, decorated by a function of Dagster without types.
        main()  # type: ignore[no-untyped-call]
    finally:
        _wait_for_children()


def _with_browser(webserver: str) -> None:
    try:
        open_process = dev.open_ipc_subprocess
    except AttributeError:
        click.echo(
            "This version of Dagster starts its webserver in another way: the lineage browser is not on its port. "
            "`snapline browse` serves it.",
            err=True,
        )
        return

    def open_with_browser(parts: list[str], **given: Any) -> Any:
        return open_process([webserver if part == _DAGSTERS else part for part in parts], **given)

    module: Any = dev
    module.open_ipc_subprocess = open_with_browser


def _wait_for_children() -> None:
    """Dagster tells its code servers to end, and does not wait until they have."""
    until = time.monotonic() + _PATIENCE_S
    while time.monotonic() < until:
        try:
            ended, _ = os.waitpid(-1, os.WNOHANG)
        except (ChildProcessError, AttributeError):
            # There are none left, or the system has no such call.
            return
        if not ended:
            time.sleep(0.05)


if __name__ == "__main__":
    start()
