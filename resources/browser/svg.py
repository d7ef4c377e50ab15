"""The picture of a history as SVG text. Every name is escaped; colours are classes, which the page or a style inside explain."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from html import escape

from storage import SnapshotRef

from ..links.shown_text import shown
from .history import Dot, History, Lane
from .lanes import HEAD, MARGIN, RADIUS, Layout
from .path import Path
from .view import View

Link = Callable[[SnapshotRef], str]
_GUTTER = 220
# Characters that fit there.
_LONGEST_NAME = 30
_STUB = 14
# What is told by colour is told by a mark as well: a plus for what came from a branch, a stroke for what takes back.
_MARKS = {"merge": "m-2.5 0h5m-2.5 -2.5v5", "back": "m-2.5 0h5"}
_EPOCH = datetime(1970, 1, 1)


def picture(history: History, layout: Layout, view: View, link: Link, path: Path | None = None) -> str:
    """The lanes with their dots and arcs, an `svg` element. `path`: what is selected, and what leads to it and from it."""
    body = "".join(_lines(history, layout, view, link, path))
    return _svg(layout.width, layout.height, body, "history" + (" has-selection" if path else ""))


@dataclass(frozen=True, slots=True)
class LaneName:
    """The name of a lane beside the picture. `state`: what has become of it; `is_later`: it was made after the moment shown."""

    name: str
    state: str
    is_main: bool
    is_shown: bool
    made_ms: int | None
    is_later: bool


def lane_names(history: History, view: View) -> list[LaneName]:
    """The names of the lanes that have a place."""
    rows = [
        LaneName(lane.name, lane.state, lane.is_main, view.shows_lane(lane), lane.made_ms, _is_later(lane, view))
        for lane in history.lanes
    ]
    return [row for row in rows if row.is_shown or view.gaps]


def _is_later(lane: Lane, view: View) -> bool:
    """Whether a branch was made after the moment that a view is of."""
    return _comes_after(lane.made_ms, view)


def _comes_after(time_ms: int | None, view: View) -> bool:
    return (
        view.at is not None and time_ms is not None and time_ms > round(view.at.replace(tzinfo=UTC).timestamp() * 1000)
    )


def _made(time_ms: int | None, view: View) -> tuple[str, str]:
    """A class, and an attribute, by which a page's script shows what there is from a moment on."""
    made = "" if time_ms is None else f' data-made="{time_ms}"'
    return " unmade" if _comes_after(time_ms, view) else "", made


def standalone(history: History, layout: Layout, view: View, style: str, path: Path | None = None) -> str:
    """The same with the names of the lanes and its style, for a file of its own."""
    labels = "".join(
        f'<text class="lane-name{_made(lane.made_ms, view)[0]}" x="8" y="{layout.y[index] + 4}">{_label(lane.name)}</text>'
        for index, lane in enumerate(history.lanes)
        if layout.lanes[index]
    )
    body = "".join(_lines(history, layout, view, lambda _: "", path))
    moved = f'<g transform="translate({_GUTTER} 0)">{body}</g>'
    return _svg(
        layout.width + _GUTTER,
        layout.height,
        f"<style>{style}</style>{labels}{moved}",
        "history" + (" has-selection" if path else ""),
    )


def _label(name: str) -> str:
    """The name of a lane as it fits beside the picture, whole where one points at it."""
    if len(name) <= _LONGEST_NAME:
        return shown(name)
    half = _LONGEST_NAME // 2
    return f"<title>{shown(name)}</title>{shown(f'{name[:half]}…{name[-half:]}')}"


def described(dot: Dot) -> str:
    """A snapshot in a line: its name, what it was, by whom, how many rows, what became of it."""
    return " · ".join(part for part in (str(dot.ref), facts_of(dot)) if part)


def facts_of(dot: Dot) -> str:
    """The same without its name."""
    parts = [dot.kind, f"job {dot.job}" if dot.job else "", f"{shown_time(dot.time_ms)} UTC"]
    if dot.rows is not None:
        parts.append(f"{dot.rows:,} records ({dot.change or 0:+,})")
    parts += [dot.fate, *(f"tag {name}" for name in dot.tags[:3])]
    if len(dot.tags) > 3:
        parts.append(f"and {len(dot.tags) - 3} more tags")
    return " · ".join(part for part in parts if part)


def shown_time(time_ms: int) -> str:
    """A time in milliseconds, UTC, to the second."""
    return (_EPOCH + timedelta(milliseconds=time_ms)).isoformat(" ", "seconds")


def _svg(width: int, height: int, body: str, classes: str) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="{classes}" role="group" aria-label="History of tables" '
        f'viewBox="0 0 {width} {height}" width="{width}" height="{height}">{body}</svg>'
    )


def _lines(history: History, layout: Layout, view: View, link: Link, path: Path | None) -> Iterable[str]:
    # A page's script stretches it; what keeps its shape is in picture.css.
    yield '<g class="stretched">'
    for left, _ in layout.days:
        yield f'<line class="day" x1="{left}" y1="{HEAD - 8}" x2="{left}" y2="{layout.height}"/>'
    yield from _lanes(history, layout, view)
    yield '<g class="arcs">'
    for source, sink in history.arcs:
        if not (layout.dots[source] and layout.dots[sink]):
            continue
        later, made = _made(history.dots[sink].time_ms, view)
        is_on = path is not None and path.has_arc(source, sink)
        if view.arcs == "all" or (view.arcs == "selected" and is_on):
            side = "up" if path is not None and path.side(source) == "up" else "down"
            yield _arc(layout, history, source, sink, (f"arc on {side}" if is_on else "arc") + later, made)
    yield '</g><g class="hover"></g><g class="dots">'
    newest = {dot.lane: index for index, dot in enumerate(history.dots) if layout.dots[index]}
    for index, dot in enumerate(history.dots):
        # A page's script counts them; a file of its own holds what it shows.
        if layout.dots[index] or link(dot.ref):
            of_lane = _made(history.lanes[dot.lane].made_ms, view)
            is_newest = newest.get(dot.lane) == index
            yield _dot(dot, index, history.changes.get(index), layout, link, path, of_lane, is_newest=is_newest)
    yield "</g>"
    if view.at is not None:
        at_ms = round(view.at.replace(tzinfo=UTC).timestamp() * 1000)
        first_later = next((index for index, dot in enumerate(history.dots) if dot.time_ms > at_ms), len(history.dots))
        left = layout.x[first_later] - 9 if first_later < len(history.dots) else layout.width
        yield f'<rect class="later" x="{left}" y="0" width="{layout.width - left}" height="{layout.height}"/>'
    else:
        yield f'<rect class="later" x="{layout.width}" y="0" width="0" height="{layout.height}"/>'
    # Above all, since a page keeps it in sight.
    yield f'<g class="axis"><rect x="0" y="0" width="{layout.width}" height="{HEAD - 8}"/>'
    yield (
        "".join(f'<text class="day-name" x="{left + 4}" y="16">{day}</text>' for left, day in layout.days) + "</g></g>"
    )


def _lanes(history: History, layout: Layout, view: View) -> Iterable[str]:
    first, last = _ends(history)
    for index, lane in enumerate(history.lanes):
        if not layout.lanes[index]:
            continue
        y = layout.y[index]
        # A branch that has done nothing yet is a stub beside where it was made.
        forks_at = MARGIN if lane.forks_at is None else layout.x[lane.forks_at] + _STUB
        start = layout.x[first[index]] if index in first else forks_at
        end = layout.x[last[index]] if index in last else start + _STUB
        classes = "lane" if lane.is_main else "lane branch"
        if lane.is_main:
            end = layout.width - MARGIN // 2
        classes += " gone" if lane.state else ""
        later, made = _made(lane.made_ms, view)
        yield f'<line class="{classes}{later}" x1="{start}" y1="{y}" x2="{end}" y2="{y}"{made}/>'
        if lane.forks_at is not None and layout.lanes[history.dots[lane.forks_at].lane]:
            above = layout.y[history.dots[lane.forks_at].lane]
            yield _step(f"fork{later}", layout.x[lane.forks_at], above, start, y, made)
    for source, sink in history.joins:
        if not (layout.lanes[history.dots[source].lane] and layout.lanes[history.dots[sink].lane]):
            continue
        later, made = _made(history.dots[sink].time_ms, view)
        (x1, y1), (x2, y2) = ((layout.x[each], layout.y[history.dots[each].lane]) for each in (source, sink))
        yield _step(f"join{later}", x1, y1, x2, y2, made)


def _ends(history: History) -> tuple[dict[int, int], dict[int, int]]:
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for index, dot in enumerate(history.dots):
        first.setdefault(dot.lane, index)
        last[dot.lane] = index
    return first, last


def _step(kind: str, x1: int, y1: int, x2: int, y2: int, made: str = "") -> str:
    middle = (x1 + x2) // 2
    return f'<path class="{kind}" d="M{x1} {y1}C{middle} {y1} {middle} {y2} {x2} {y2}"{made}/>'


def _arc(layout: Layout, history: History, source: int, sink: int, classes: str, made: str) -> str:
    x1, y1 = layout.x[source], layout.y[history.dots[source].lane]
    x2, y2 = layout.x[sink], layout.y[history.dots[sink].lane]
    bend = max(12, (x2 - x1) // 2)
    return f'<path class="{classes}" d="M{x1} {y1}C{x1 + bend} {y1} {x2 - bend} {y2} {x2} {y2}"{made}/>'


def _dot(
    dot: Dot,
    index: int,
    change: int | None,
    layout: Layout,
    link: Link,
    path: Path | None,
    lane: tuple[str, str],
    *,
    is_newest: bool,
) -> str:
    classes = ["dot", _kind_class(dot), lane[0].strip()]
    classes += ["ghost"] if dot.fate else []
    classes += [] if layout.dots[index] else ["off"]
    if path is not None:
        classes.append(path.side(index))
    x, y = layout.x[index], layout.y[dot.lane]
    flag = f'<path class="tag" d="M{x} {y - RADIUS}v-9l6 3l-6 3"/>' if dot.tags else ""
    mark = _MARKS.get(classes[1], "")
    inner = f'<title>{shown(described(dot))}</title>{flag}<circle cx="{x}" cy="{y}" r="{RADIUS}"/>'
    inner += f'<path class="mark" d="M{x} {y}{mark}"/>' if mark else ""
    # The last of each lane says its number; of the others their titles do.
    inner += f'<text class="number" x="{x}" y="{y + 14}">{dot.ref.snapshot_id}</text>' if is_newest else ""
    name = " ".join(each for each in classes if each)
    href = link(dot.ref)
    if not href:
        return f'<g class="{name}">{inner}</g>'
    made = lane[1] + ("" if change is None else f' data-change="{change}"')
    return f'<a class="{name}" href="{escape(href)}" data-index="{index}" data-time="{dot.time_ms}"{made}>{inner}</a>'


def _kind_class(dot: Dot) -> str:
    kind = dot.kind.partition(" ")[0]
    # The statement MERGE is called so alone.
    if kind == "ADOPT" or dot.kind.startswith("MERGE of branch "):
        return "merge"
    if kind in ("ROLLBACK", "REVERT", "UNDO", "TRUNCATE"):
        return "back"
    return "quiet" if dot.is_unchanged else "write"
