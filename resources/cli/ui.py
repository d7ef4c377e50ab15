"""`snapline ui`: Dagster's UI, with the lineage browser in it."""

import click

from ..assets.dagster_home import start_ui
from ..session import Session
from .parameters import PORT, Command
from .rendering import console


@click.command(cls=Command)
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option("--port", type=PORT, default=3000, show_default=True)
@click.pass_obj
def ui(session: Session, host: str, port: int) -> None:
    """Open the Dagster UI, with the lineage browser under /snapline/ and the daemon for backfills and schedules."""
    console().print(f"Dagster UI: http://{host}:{port} (stop it with Ctrl-C)", highlight=False)
    console().print(f"Lineage browser: http://{host}:{port}/snapline/", highlight=False)
    start_ui(session.settings, host, port)
