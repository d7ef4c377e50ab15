"""The picture of the table graph: sources on the left, a column for each generation. Units are CSS pixels."""

from collections.abc import Mapping, Sequence
from html import escape
from urllib.parse import urlencode

from ..links.address import text_of
from ..links.shown_text import shown
from .svg import shown_time
from .table_graph import TableGraph, TableNode
from .table_layout import Spot, lay_out_tables
from .view import View, is_named

_WIDTH, _HEIGHT, _GAP_X, _GAP_Y, _MARGIN = 230, 46, 70, 14, 16
# The room that a line takes where it passes a column.
_LANE = 6
# Characters that a box has room for.
_MOST_SAID = 36


def table_picture(graph: TableGraph, base: str, view: View) -> str:
    """An `svg` element; a box leads to the newest snapshot of its table."""
    layout = lay_out_tables([node.name for node in graph.nodes], graph.edges)
    tops: dict[Spot, int] = {}
    lowest = 0
    for column in layout.columns:
        top = _MARGIN
        for spot in column:
            tops[spot] = top
            top += (_HEIGHT if spot.is_table else _LANE) + _GAP_Y
        lowest = max(lowest, top)
    width = _MARGIN * 2 + max(1, len(layout.columns)) * (_WIDTH + _GAP_X) - _GAP_X
    height = max(lowest - _GAP_Y, _HEIGHT) + _MARGIN
    places = {spot.name: (_left(spot), tops[spot]) for spot in tops if spot.is_table}
    lines = "".join(_edge(chain, tops) for chain in layout.chains)
    boxes = "".join(_box(node, *places[node.name], base, view) for node in graph.nodes)
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" class="tables" role="group" aria-label="Tables and what they are made from" '
        f'viewBox="0 0 {width} {height}" width="{width}" height="{height}">{lines}{boxes}</svg>'
    )


def _left(spot: Spot) -> int:
    return _MARGIN + spot.level * (_WIDTH + _GAP_X)


def _edge(chain: Sequence[Spot], tops: Mapping[Spot, int]) -> str:
    """A line through the columns: straight where another table's column is passed, bent in between."""
    drawn = ""
    for spot in chain:
        y = tops[spot] + (_HEIGHT if spot.is_table else _LANE) // 2
        left, right = _left(spot), _left(spot) + _WIDTH
        if not drawn:
            drawn, before, height = f"M{right} {y}", right, y
            continue
        middle = (before + left) // 2 if left > before else before + _GAP_X
        drawn += f"C{middle} {height} {middle} {y} {left} {y}" + ("" if spot.is_table else f"H{right}")
        before, height = right, y
    return f'<path class="arc" d="{drawn}"/>'


def _box(node: TableNode, x: int, y: int, base: str, view: View) -> str:
    catalog, database, table = node.name
    if node.members:
        left = [name for name in view.fold.split(",") if name.strip() != f"{catalog}.{database}"]
        href = f"{base}/{view.query(fold=','.join(left))}"
    elif node.latest is not None:
        href = f"{base}/snapshot?{urlencode({'ref': text_of(node.latest)})}"
    else:
        href = f"{base}/history?{urlencode({'tables': f'{catalog}.{database}.{table}'})}"
    is_found = view.find and is_named(node.name, view.find)
    classes = ["box", *([node.state] if node.state else []), *(["found"] if is_found else [])]
    classes += ["mending"] if node.recoveries else []
    classes += ["behind"] if node.behind or node.sources_behind else []
    classes += ["focus"] if view.focus == ".".join(node.name) else []
    text = _short(node.shown, 30)
    return (
        f'<a class="{" ".join(classes)}" href="{escape(href)}"><title>{shown(f"{node.shown}: {_said(node)}")}</title>'
        f'<rect x="{x}" y="{y}" width="{_WIDTH}" height="{_HEIGHT}" rx="6"/>'
        f'<svg x="{x + 10}" y="{y}" width="{_WIDTH - 16}" height="{_HEIGHT}" overflow="hidden">'
        f'<text class="name" x="0" y="19">{shown(text)}</text>'
        f'<text class="facts" x="0" y="36">{escape(_said(node, _MOST_SAID))}</text></svg></a>'
    )


def _said(node: TableNode, most: int = 1_000) -> str:
    """What there is to say of a table in so many characters: what is less important is left out."""
    if node.members:
        return "unfold"
    if node.state:
        return node.state
    if node.latest is None:
        return "no snapshot yet"
    count, what = (node.records, "record") if node.rows is None else (node.rows, "row")
    parts = [f"@{node.latest.snapshot_id}", f"{count:,} {what}{'s' * (count != 1)}"]
    if node.behind:
        parts.append(f"{node.behind} behind")
    elif node.sources_behind:
        parts.append(f"{node.sources_behind} before it behind")
    if node.recoveries:
        parts.append("in recovery")
    elif node.branches:
        parts.append(f"{len(node.branches)} branch{'es' * (len(node.branches) > 1)}")
    if node.time_ms and not (node.behind or node.sources_behind):
        parts.append(shown_time(node.time_ms)[:10])
    while len(parts) > 2 and len(" · ".join(parts)) > most:
        parts.pop()
    return _short(" · ".join(parts), most)


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
