"""The browser on a port of its own."""

from collections.abc import Callable

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Mount, Route

from ..assets.dagster_home import code_location_name
from ..links.known_assets import KnownAssets
from ..ports import bound
from ..session import Session
from .app import MOUNTED_AT, browser_app

DAGSTER_URL = "http://127.0.0.1:3000"


def hosted_app(dagster_url: str = DAGSTER_URL) -> Starlette:
    """The browser of the warehouse that the environment names, for a server of somebody's own."""
    return _app(Session(), dagster_url)


def serve(session: Session, host: str, port: int, dagster_url: str, say: Callable[[str], None]) -> None:
    """Answer until the process is told to stop; `say` is told the address once it is there. Raises InvalidRequest for an
    address that cannot be had.
    """
    with bound(host, port) as listening:
        app = _app(session, dagster_url, host)
        shown = f"[{host}]" if ":" in host else host
        say(f"http://{shown}:{port}{MOUNTED_AT}/")
        server = uvicorn.Server(uvicorn.Config(below(app), log_level="warning"))
        server.run(sockets=[listening])


def below(app: Starlette) -> Starlette:
    """The browser under the path that it has beside Dagster's UI, so that a link to one leads to the same page of the other."""

    def home(_: Request) -> Response:
        return RedirectResponse(f"{MOUNTED_AT}/")

    return Starlette(routes=[Route("/", home), Mount(MOUNTED_AT, app)])


def _app(session: Session, dagster_url: str, *hosts: str) -> Starlette:
    assets = KnownAssets()
    assets.load_beside()
    app = browser_app(
        session,
        dagster_url,
        session.settings.browser_read_only,
        location=code_location_name(),
        hosts=hosts,
        assets=assets,
    )
    app.state.browser.facts.read_beside()
    return app
