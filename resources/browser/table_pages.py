"""The tables of all catalogs: which is made from which, how new each is, and how far behind."""

from collections.abc import Collection
from datetime import UTC
from difflib import get_close_matches
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from storage import Clock

from .table_graph import TableGraph, TableNode
from .table_svg import table_picture
from .view import View, parameters_of

if TYPE_CHECKING:
    from .app import Browser


# Heading, parameter of the address, whether it is a number, and what it is.
_COLUMNS = (
    ("table", "table", False, ""),
    ("newest change", "change", True, "the number of the newest snapshot that changed rows: compactions are left out"),
    ("committed (UTC)", "committed", False, "when the newest change was committed"),
    ("rows", "rows", True, "at most as many as records; empty where reading them all alone would tell"),
    ("records", "records", True, "of files, before rows of a key are merged"),
    (
        "changes behind",
        "behind",
        True,
        "changes that came after what it was made from, of the tables it was made from directly",
    ),
    ("branches", "branches", True, "besides main"),
    ("tags", "tags", True, "of main"),
    ("open recoveries", "recoveries", False, "in which the table is being repaired"),
)


def routes() -> list[BaseRoute]:
    """The first page: the tables and what they are made from."""
    return [Route("/", _page, name="tables")]


def _page(request: Request) -> Response:
    browser: Browser = request.app.state.browser
    view = View.of(parameters_of(request))
    at_ms = None if view.at is None else round(view.at.replace(tzinfo=UTC).timestamp() * 1000)
    platform = browser.facts.so_far()
    graph = browser.table_graphs.read(platform, at_ms)
    shown = graph.around(view.focus, view.hops, view.direction) if view.focus else graph
    folded = frozenset(name.strip() for name in view.fold.split(",") if name.strip())
    matching = shown.matching(view.find) if view.find else shown
    base = request.scope.get("root_path", "").rstrip("/")
    return browser.render(
        request,
        "tables.html",
        title="Tables",
        view=view,
        graph=shown,
        found=matching.sorted_by(view.sort),
        close=[] if matching.nodes else _close(shown, view.find),
        columns=_COLUMNS,
        folded=folded,
        databases=graph.databases,
        picture=table_picture(shown.folded(folded), base, view),
        query=view.query(),
        now=Clock().now(),
        focused=view.focus,
        is_partial=platform.is_partial,
        unfinished=platform.unfinished,
        troubles=[*platform.troubles.values(), *_not_folded(folded, graph.databases)],
    )


def _not_folded(folded: Collection[str], databases: Collection[str]) -> list[str]:
    """That there are no such databases, in a sentence."""
    unknown = sorted(set(folded) - set(databases))
    return (
        [f"Nothing is folded as {', '.join(name[:100] for name in unknown)}: there is no such database."]
        if unknown
        else []
    )


def _close(graph: TableGraph, text: str) -> list[TableNode]:
    """The tables whose name, with its database or without, is nearly a text."""
    by_name = {each: node for node in graph.nodes for each in (node.shown.casefold(), node.name[2].casefold())}
    names = get_close_matches(text.casefold(), by_name, n=3)
    return list({by_name[name].name: by_name[name] for name in names}.values())
