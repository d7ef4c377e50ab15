"""`snapline browse`: the lineage browser alone."""

import click

from ..browser.server import serve
from ..session import Session
from ..settings import address_of_pages
from .parameters import PORT, Command
from .rendering import console


@click.command(cls=Command)
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option("--port", type=PORT, default=3001, show_default=True)
@click.option("--dagster-url", default="http://127.0.0.1:3000", show_default=True, help="Where Dagster's UI is.")
@click.pass_obj
def browse(session: Session, host: str, port: int, dagster_url: str) -> None:
    """Open the lineage browser alone, for those who run Dagster's webserver elsewhere. `snapline ui` has it too."""

    def say(address: str) -> None:
        console().print(f"Lineage browser: {address} (stop it with Ctrl-C)", highlight=False)

    serve(session, host, port, address_of_pages("--dagster-url", dagster_url), say)
