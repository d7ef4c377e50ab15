"""A snapshot's ancestry as one HTML file that needs no server and no network."""

import json
from urllib.parse import quote

from storage import Clock, SnapshotRef

from ..links.address import text_of
from ..session import Session
from .app import STATIC, templates
from .facts import Facts
from .history import History, history_of
from .lanes import lay_out
from .path import path_through
from .rows_of import change_of
from .snapshot_pages import graph_of
from .svg import lane_names, picture, shown_time
from .view import View

_DIRECTIONS = {
    "up": "What it was made from",
    "down": "What was made from it",
    "both": "What it was made from, and what was made from it",
}


def _caption(history: History, direction: str, hops: int | None) -> str:
    """What the file shows, and as of when."""
    far = "over any number of hops" if hops is None else "over one hop" if hops == 1 else f"over {hops} hops"
    snapshots, tables = len(history.dots), len({lane.table for lane in history.lanes})
    return (
        f"{_DIRECTIONS[direction]}, {far}: {snapshots:,} snapshot{'s' * (snapshots != 1)} of {tables:,} "
        f"table{'s' * (tables != 1)}, committed from {shown_time(history.dots[0].time_ms)} to "
        f"{shown_time(history.dots[-1].time_ms)}. Written at {Clock().now():%Y-%m-%d %H:%M:%S}; "
        "all times are UTC. What has come since is not in this file."
    )


def alone_page(session: Session, ref: SnapshotRef, direction: str = "both", hops: int | None = None) -> str:
    """The page as text: the picture with what leads to the snapshot and from it, and the same as a table."""
    platform = Facts(session).platform()
    view = View(direction=direction, hops=hops, arcs="all", compactions=True)
    ref = change_of(session, ref)
    graph = graph_of(platform, ref, view)
    history = history_of(platform, graph.edges, [ref])
    layout = lay_out(history, view)
    selected = history.dot_of(ref)
    assert selected is not None
    path = path_through(history, selected, direction, hops)
    style, script = (
        "\n".join((STATIC / name).read_text(encoding="utf-8") for name in names)
        for names in (("picture.css", "browser.css"), ("browser.js",))
    )
    return (
        templates()
        .get_template("alone.html")
        .render(
            dot=history.dots[selected],
            history=history,
            names=lane_names(history, view),
            style=style,
            script=script,
            picture=picture(history, layout, view, lambda other: f"#{quote(text_of(other), safe='')}", path),
            arcs=json.dumps(history.arcs, separators=(",", ":")),
            caption=_caption(history, direction, hops),
        )
    )
