"""Dagster's webserver with the lineage browser beside it, under `/snapline/` on the same port.

    python -m resources.ui.webserver --host 127.0.0.1 --port 3000 -m platform_assets.definitions

Takes the options of `dagster-webserver`.
"""

import logging
from typing import Any

import click
from dagster_webserver import cli
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import RedirectResponse
from starlette.routing import Mount, Route
from starlette.types import ASGIApp

from storage import StorageError

from ..browser.app import MOUNTED_AT, browser_app
from ..links.known_assets import KnownAssets
from ..session import Session

_log = logging.getLogger("snapline")


def beside(dagster: ASGIApp, browser: ASGIApp, path_prefix: str = "", **given: Any) -> Starlette:
    """Both applications as one: the browser under its own path, everything else is Dagster's."""
    place = f"{path_prefix}{MOUNTED_AT}"

    async def with_slash(request: Request) -> RedirectResponse:
        return RedirectResponse(f"{place}/")

    return Starlette(routes=[Route(place, with_slash), Mount(place, app=browser), Mount("/", app=dagster)], **given)


def start() -> None:
    """Serve both until the process is told to stop. Without the browser, and with a warning, if it cannot be made."""
    create_dagster = cli.create_app_from_workspace_process_context

    def create_both(context: Any, path_prefix: str = "", poll_rate: int | None = None, **given: Any) -> ASGIApp:
        dagster = create_dagster(context, path_prefix, poll_rate)
        try:
            session = Session()
            browser = browser_app(
                session,
                dagster_url=path_prefix,
                location=_location(context),
                read_only=session.settings.browser_read_only,
                hosts=[_host()],
                assets=KnownAssets(lambda: _asset_keys(context)),
            )
        except StorageError as error:
            _log.warning("The lineage browser is not served: %s", error)
            return create_dagster(context, path_prefix, poll_rate, **given)
        browser.state.browser.facts.read_beside()
        return beside(dagster, browser, path_prefix, **given)

    module: Any = cli
    module.create_app_from_workspace_process_context = create_both
    module.main()


def _host() -> str:
    return str(click.get_current_context().params.get("host") or "")


def _asset_keys(context: Any) -> frozenset[tuple[str, ...]]:
    """The assets of all code locations, as they are loaded now."""
    return frozenset(tuple(key.path) for key in context.create_request_context(None).asset_graph.get_all_asset_keys())


def _location(context: Any) -> str:
    """The code location whose launchpads pages link to: the first that there is."""
    names = context.create_request_context(None).code_location_names
    return str(names[0]) if names else ""


if __name__ == "__main__":
    start()
