"""The browser as an ASGI application: below a path of another one, or on its own (`snapline browse`)."""

import logging
from collections.abc import Collection
from datetime import datetime
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount
from starlette.staticfiles import StaticFiles

from lineage import LineageUnavailable
from storage import AlreadyExists, CommitConflict, InvalidRequest, NotFound, StorageError, StoreUnavailable

from ..links.address import text_of
from ..links.dagster_links import DagsterLinks
from ..links.known_assets import KnownAssets
from ..links.shown_text import copied, finalized, kept
from ..session import Session
from ..warehouse.catalogs import CATALOG_NAME
from . import actions, compare_pages, history_pages, recovery_pages, snapshot_pages, spoilt_pages, table_pages
from .facts import Facts
from .guard import Guard
from .history import Histories
from .partitions import PartitionsWritten
from .recovery_pages import Comparisons
from .renamed import followed
from .spoilt import Damages
from .svg import facts_of, shown_time
from .table_graph import TableGraphs
from .tokens import TokenRefused, Tokens

# Its path beside another application, and alone.
MOUNTED_AT = "/snapline"
STATIC = Path(__file__).parent / "static"
# More of an error is not shown.
_LONGEST = 1_200
_log = logging.getLogger(__name__)


class Browser:
    """What all pages share. `dagster_url`: where Dagster's UI is, empty for the same host and port; `location`: its code
    location whose launchpads are linked to, empty if none is known.
    """

    def __init__(self, session: Session, dagster_url: str, read_only: bool, location: str, assets: KnownAssets) -> None:
        self.session = session
        self.dagster_url = dagster_url.rstrip("/")
        self.read_only = read_only
        self.links = DagsterLinks(self.dagster_url, location, assets)
        self.tokens = Tokens()
        self.facts = Facts(session)
        self.histories = Histories()
        self.partitions = PartitionsWritten(session)
        self.table_graphs = TableGraphs()
        self.damages = Damages()
        self.comparisons = Comparisons()
        # What a picture in a file of its own needs.
        self.style = (STATIC / "picture.css").read_text(encoding="utf-8")
        self._templates = templates()

    def render(self, request: Request, template: str, status: int = 200, **values: Any) -> HTMLResponse:
        """A page. Every value is escaped where the template puts it."""
        base = request.scope.get("root_path", "").rstrip("/")
        text = self._templates.get_template(template).render(
            base=base, browser=self, path=request.url.path.removeprefix(base) or "/", **values
        )
        return HTMLResponse(text, status)


def templates() -> Environment:
    """The templates, with what they use to show values."""
    environment = Environment(
        loader=PackageLoader("resources.browser"),
        autoescape=select_autoescape(default=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=finalized,
    )
    environment.filters |= {
        "time": shown_time,
        "target": str,
        "ref": text_of,
        "kept": kept,
        "copied": copied,
        "facts": facts_of,
        "number": _number,
        "moment": _moment,
    }
    environment.globals["own_catalog"] = CATALOG_NAME
    return environment


def browser_app(
    session: Session,
    dagster_url: str = "",
    read_only: bool = False,
    *,
    location: str = "",
    hosts: Collection[str] = (),
    assets: KnownAssets | None = None,
) -> Starlette:
    """All pages. What a GET asks for is read alone; forms act, unless `read_only`. `hosts`: the names under which it is served
    besides localhost, addresses of numbers, and that of SNAPLINE_BROWSER_URL; `assets`: those that can be linked to.
    """
    routes: list[BaseRoute] = [
        *table_pages.routes(),
        *history_pages.routes(),
        *snapshot_pages.routes(),
        *spoilt_pages.routes(),
        *recovery_pages.routes(),
        *actions.routes(),
        *compare_pages.routes(),
        Mount("/static", StaticFiles(directory=STATIC), name="static"),
    ]
    guard = Middleware(Guard, hosts=hosts, url=session.settings.browser_url, read_only=read_only)
    app = Starlette(
        routes=routes, middleware=[guard], exception_handlers={StorageError: _failed, HTTPException: _missing}
    )
    app.state.browser = Browser(session, dagster_url, read_only, location, assets or KnownAssets())
    return app


def _failed(request: Request, error: Exception) -> Response:
    browser: Browser = request.app.state.browser
    status = 400
    if isinstance(error, NotFound):
        if request.method == "GET" and (query := followed(browser.session, request.query_params)):
            return RedirectResponse(f"{request.url.path}?{query}")
        status = 404
    elif isinstance(error, TokenRefused):
        status = 403
    elif isinstance(error, AlreadyExists | CommitConflict):
        status = 409
    elif isinstance(error, LineageUnavailable | StoreUnavailable):
        status = 503
    elif not isinstance(error, InvalidRequest):
        _log.warning("%s: %s", request.url.path, error)
        status = 500
    title = "Not shown" if request.method in ("GET", "HEAD") else "Not done"
    return browser.render(
        request, "error.html", status, title=title, message=_short(str(error)), back=getattr(request.state, "back", "")
    )


def _missing(request: Request, error: Exception) -> Response:
    browser: Browser = request.app.state.browser
    status = error.status_code if isinstance(error, HTTPException) else 404
    said = "There is no such page." if status == 404 else str(getattr(error, "detail", error))
    return browser.render(request, "error.html", status, title="Not shown", message=said, back="")


def _short(text: str) -> str:
    """What was asked for may be of any length, and is not said again as a whole."""
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST // 2]} … {text[-_LONGEST // 2 :]}"


def _moment(at: datetime, between: str = "T") -> str:
    """A moment as addresses have it, with no more digits than it needs."""
    return (
        at.isoformat(between) if at.microsecond % 1000 else at.isoformat(between, "milliseconds").removesuffix(".000")
    )


def _number(value: int | None, sign: bool = False) -> str:
    if value is None:
        return "unknown"
    return f"{value:+,}" if sign else f"{value:,}"
