"""`snapline demo`, `ui` and `browse`: the platform at work."""

import click

from ..session import Session
from ..settings import address_of_pages
from .rendering import console


@click.command()
@click.option("--job", default="demo", show_default=True, help="The Dagster job to run.")
@click.option("--partitions", nargs=2, metavar="FIRST LAST", help="Only these. Default: all.")
@click.pass_obj
def demo(session: Session, job: str, partitions: tuple[str, str] | None) -> None:
    """Materialize the whole demo through Dagster."""
    # Dagster and Spark cost seconds to import: only the commands that need them pay.
    from .demo import run_demo

    run_demo(session, job, partitions)


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option("--port", type=click.IntRange(1, 65535), default=3000, show_default=True)
@click.pass_obj
def ui(session: Session, host: str, port: int) -> None:
    """Open the Dagster UI, with the lineage browser under /snapline/ and the daemon for backfills and schedules."""
    from ..assets.dagster_home import start_ui

    console().print(f"Dagster UI: http://{host}:{port} (stop it with Ctrl-C)", highlight=False)
    console().print(f"Lineage browser: http://{host}:{port}/snapline/", highlight=False)
    start_ui(session.settings, host, port)


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option("--port", type=click.IntRange(1, 65535), default=3001, show_default=True)
@click.option("--dagster-url", default="http://127.0.0.1:3000", show_default=True, help="Where Dagster's UI is.")
@click.pass_obj
def browse(session: Session, host: str, port: int, dagster_url: str) -> None:
    """Open the lineage browser alone, for those who run Dagster's webserver elsewhere. `snapline ui` has it too."""
    from ..browser.server import serve

    def say(address: str) -> None:
        console().print(f"Lineage browser: {address} (stop it with Ctrl-C)", highlight=False)

    serve(session, host, port, address_of_pages("--dagster-url", dagster_url), say)


PLATFORM = (demo, ui, browse)
