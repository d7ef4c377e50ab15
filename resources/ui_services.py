"""`dagster dev` with the lineage browser on the port of its webserver: what `snapline ui` becomes.

    python -m resources.ui_services dev --host 127.0.0.1 --port 3000 -m platform_assets.definitions

The daemon, the code servers, the ports and Ctrl-C stay those of `dagster dev`: only the module that it starts as its webserver
is another one.
"""

import sys
from typing import Any

import click

# Not public API: there is no option that names the webserver's module.
from dagster._cli import dev, main

_DAGSTERS = "dagster_webserver"
WEBSERVER = "resources.ui_webserver"


def start(webserver: str = WEBSERVER) -> None:
    """Run the command line of Dagster, with this module as the webserver of `dagster dev`."""
    sys.argv[0] = "dagster"
    try:
        open_process = dev.open_ipc_subprocess
    except AttributeError:
        click.echo(
            "This version of Dagster starts its webserver in another way: the lineage browser is not on its port. "
            "`snapline browse` serves it.",
            err=True,
        )
        return main()

    def open_with_browser(parts: list[str], **given: Any) -> Any:
        return open_process([webserver if part == _DAGSTERS else part for part in parts], **given)

    module: Any = dev
    module.open_ipc_subprocess = open_with_browser
    return main()


if __name__ == "__main__":
    start()
