"""The history of all tables: lanes and time, as a page, and as files to take along."""

import csv
import io
import json
from collections.abc import Iterable
from datetime import UTC, datetime
from math import inf
from typing import TYPE_CHECKING
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from lineage import LineageGraph, dot, mermaid
from storage import NotFound, SnapshotRef

from ..links.address import text_of
from .facts import SO_FAR
from .filtered import read_filtered
from .history import Dot, History, as_it_was
from .lanes import Layout, lay_out
from .path import Path, path_through
from .svg import lane_names, picture, shown_time, standalone
from .view import MOST_COMMITS, View, parameters_of

if TYPE_CHECKING:
    from .app import Browser

# More would be no diagram that anybody can read.
_MOST_DRAWN = 2_000
# More than there are.
_ALL = 10**9


def routes() -> list[BaseRoute]:
    """The history as a page, and as a file in the format that the address ends with."""
    return [Route("/history", _page, name="history"), Route("/history.{form}", _file, name="history_file")]


def _read(request: Request, view: View, limit: int | None = None) -> tuple[History, Layout, Path | None]:
    """The newest snapshots that the filters leave, at most `limit`, by default as many as the address says."""
    browser: Browser = request.app.state.browser
    platform = browser.facts.so_far()
    history = read_filtered(browser.histories, browser.partitions, platform, view, limit or view.limit)
    if view.at is not None:
        history = as_it_was(history, platform, view.at)
    selected = None if view.selected is None else history.dot_of(view.selected)
    path = None if selected is None else path_through(history, selected, view.direction, view.hops)
    return history, lay_out(history, view), path


def _page(request: Request) -> Response:
    browser: Browser = request.app.state.browser
    view = View.of(parameters_of(request))
    history, layout, path = _read(request, view)
    base = request.scope.get("root_path", "").rstrip("/")

    query = view.query(select="")
    start = f"{base}/history{query}{'&' if query else '?'}select="

    def link(ref: SnapshotRef) -> str:
        return f"{start}{quote(text_of(ref), safe='')}#selected"

    earlier = view.query(until=_moment(history.dots[0])) if history.has_earlier and history.dots else ""
    more = view.query(limit=MOST_COMMITS) if history.has_earlier and view.limit < MOST_COMMITS else ""
    return browser.render(
        request,
        "history.html",
        title="History",
        view=view,
        history=history,
        path_=path,
        names=lane_names(history, view),
        picture=picture(history, layout, view, link, path),
        earlier=earlier,
        more=more,
        newest=view.query(until=None) if view.until else "",
        is_partial=any(text.startswith(SO_FAR) for text in history.troubles),
        selected=None if path is None else history.dots[path.selected],
        query=view.query(),
        shown=list(_shown(history, layout)),
        is_missing=bool(view.select) and path is None,
        arcs=json.dumps(history.arcs, separators=(",", ":")),
        there=sum(each.time_ms <= _until_ms(view) for each in history.dots),
    )


def _shown(history: History, layout: Layout) -> Iterable[Dot]:
    return (each for each, is_shown in zip(history.dots, layout.dots, strict=True) if is_shown)


def _moment(first: Dot) -> datetime:
    # To the millisecond: others may have been committed in the same second.
    return datetime.fromtimestamp(first.time_ms / 1000, UTC).replace(tzinfo=None)


def _until_ms(view: View) -> float:
    return inf if view.at is None else view.at.replace(tzinfo=UTC).timestamp() * 1000


def _file(request: Request) -> Response:
    view = View.of(parameters_of(request))
    form = request.path_params["form"]
    # A table has all that the filters leave, however many a page has.
    history, layout, path = _read(request, view, _ALL if form == "csv" else None)
    browser: Browser = request.app.state.browser
    # A file holds what is not shaded on the page.
    shown = [each for each in _shown(history, layout) if each.time_ms <= _until_ms(view)]
    if form == "svg":
        return Response(standalone(history, layout, view, browser.style, path), media_type="image/svg+xml")
    if form == "csv":
        return Response(as_csv(shown), media_type="text/csv; charset=utf-8")
    if form in ("dot", "mmd"):
        fates = {each.ref: each.fate for each in shown}
        edges = [edge for edge in history.edges if edge.source in fates and edge.sink in fates and view.arcs != "none"]
        graph = LineageGraph(shown[-1].ref, "up", tuple(edges[:_MOST_DRAWN])) if shown else None
        draw = dot if form == "dot" else mermaid
        text = "" if graph is None else draw(graph, list(fates)[-_MOST_DRAWN:], lambda ref: fates.get(ref, ""))
        if max(len(edges), len(fates)) > _MOST_DRAWN:
            comment = "//" if form == "dot" else "%%"
            text = f"{comment} {_MOST_DRAWN} of {len(fates)} snapshots and {len(edges)} arcs: filter, or take the CSV.\n{text}"
        return Response(text, media_type="text/plain; charset=utf-8")
    raise NotFound(f"A history is not written as {form[:20]!r}: there are svg, csv, dot and mmd (Mermaid).")


def as_csv(dots: Iterable[Dot]) -> str:
    """Snapshots as lines with commas between; what a spreadsheet would take for a formula is a text."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(
        ["snapshot", "committed (UTC)", "kind", "job", "barrier", "run", "records", "change", "state", "tags"]
    )
    for row in dots:
        cells = [
            str(row.ref),
            shown_time(row.time_ms),
            row.kind,
            row.job,
            row.barrier,
            row.run,
            row.rows,
            row.change,
            row.fate,
            " ".join(row.tags),
        ]
        writer.writerow([_cell(cell) for cell in cells])
    return out.getvalue()


def _cell(value: object) -> object:
    is_formula = isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r")
    return f"'{value}" if is_formula else value
