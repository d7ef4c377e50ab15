"""The picture of the table graph: sources on the left, a column for each generation. Units are CSS pixels."""

from html import escape
from urllib.parse import urlencode

from .svg import shown_time
from .table_graph import Name, TableGraph, TableNode
from .view import View, text_of

_WIDTH, _HEIGHT, _GAP_X, _GAP_Y, _MARGIN = 230, 46, 70, 14, 16
_SWEEPS = 4


def table_picture(graph: TableGraph, base: str, view: View) -> str:
    """An `svg` element; a box leads to the history of its table."""
    columns = _columns(graph)
    places = {
        name: (_MARGIN + x * (_WIDTH + _GAP_X), _MARGIN + y * (_HEIGHT + _GAP_Y))
        for x, column in enumerate(columns)
        for y, name in enumerate(column)
    }
    width = _MARGIN * 2 + max(1, len(columns)) * (_WIDTH + _GAP_X) - _GAP_X
    height = _MARGIN * 2 + max([1, *map(len, columns)]) * (_HEIGHT + _GAP_Y) - _GAP_Y
    lines = [_edge(places[source], places[sink]) for source, sink in graph.edges]
    boxes = [_box(node, *places[node.name], base, view) for node in graph.nodes]
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" class="tables" role="img" aria-label="Tables and what they are made from" '
        f'viewBox="0 0 {width} {height}" width="{width}" height="{height}">{"".join(lines)}{"".join(boxes)}</svg>'
    )


def _columns(graph: TableGraph) -> list[list[Name]]:
    """Tables by generation, each after those that it is made from, near to its neighbours."""
    sources: dict[Name, list[Name]] = {node.name: [] for node in graph.nodes}
    for source, sink in graph.edges:
        sources[sink].append(source)
    level: dict[Name, int] = dict.fromkeys(sources, 0)
    # A circle of tables ends here.
    for _ in range(len(level)):
        moved = False
        for name, listed in sources.items():
            wanted = max((level[source] + 1 for source in listed), default=0)
            if wanted > level[name] and wanted < len(level):
                level[name], moved = wanted, True
        if not moved:
            break
    columns: list[list[Name]] = [[] for _ in range(max(level.values(), default=-1) + 1)]
    for name in sorted(level):
        columns[level[name]].append(name)
    neighbours: dict[Name, list[Name]] = {name: [] for name in level}
    for source, sink in graph.edges:
        neighbours[source].append(sink)
        neighbours[sink].append(source)
    for _ in range(_SWEEPS):
        at = {name: index for column in columns for index, name in enumerate(column)}
        for column in columns:
            centre = {
                name: sum(at[other] for other in neighbours[name]) / len(neighbours[name])
                if neighbours[name]
                else at[name]
                for name in column
            }
            column.sort(key=lambda name: (centre[name], name))
            at.update((name, index) for index, name in enumerate(column))
    return [column for column in columns if column]


def _edge(source: tuple[int, int], sink: tuple[int, int]) -> str:
    x1, y1 = source[0] + _WIDTH, source[1] + _HEIGHT // 2
    x2, y2 = sink[0], sink[1] + _HEIGHT // 2
    bend = max(20, (x2 - x1) // 2)
    return f'<path class="arc" d="M{x1} {y1}C{x1 + bend} {y1} {x2 - bend} {y2} {x2} {y2}"/>'


def _box(node: TableNode, x: int, y: int, base: str, view: View) -> str:
    catalog, database, table = node.name
    if node.members:
        left = [name for name in view.fold.split(",") if name.strip() != f"{catalog}.{database}"]
        href = f"{base}/{view.query(fold=','.join(left))}"
    elif node.latest is not None:
        href = f"{base}/snapshot?{urlencode({'ref': text_of(node.latest)})}"
    else:
        href = f"{base}/history?{urlencode({'tables': f'{catalog}.{database}.{table}'})}"
    is_found = view.find and view.find.casefold() in ".".join(node.name).casefold()
    classes = ["box", *([node.state] if node.state else []), *(["found"] if is_found else [])]
    classes += ["behind"] if node.behind else []
    classes += ["focus"] if view.focus == ".".join(node.name) else []
    text = _short(node.shown, 30)
    return (
        f'<a class="{" ".join(classes)}" href="{escape(href)}"><title>{escape(f"{node.shown}: {_said(node)}")}</title>'
        f'<rect x="{x}" y="{y}" width="{_WIDTH}" height="{_HEIGHT}" rx="6"/>'
        f'<text class="name" x="{x + 10}" y="{y + 19}">{escape(text)}</text>'
        f'<text class="facts" x="{x + 10}" y="{y + 36}">{escape(_short(_said(node), 40))}</text></a>'
    )


def _said(node: TableNode) -> str:
    if node.members:
        return "unfold"
    if node.state:
        return node.state
    if node.latest is None:
        return "no snapshot yet"
    parts = [f"@{node.latest.snapshot_id}", f"{node.rows:,} rows"]
    if node.behind:
        parts.append(f"{node.behind} behind")
    if node.branches:
        parts.append(f"{len(node.branches)} branches")
    return " · ".join(parts) + (f" · {shown_time(node.time_ms)[:10]}" if node.time_ms and not node.behind else "")


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
