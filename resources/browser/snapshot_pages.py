"""One snapshot: what it is, what it was made from and what it fed, its schema, files and rows; its ancestry as a table."""

from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pyarrow as pa
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from lineage import LineageGraph, current_columns, dot, mermaid, offsets_of, topic_texts, trace
from storage import DEFAULT_CATALOG, InvalidRequest, NotFound, Snapshot, SnapshotRef, StorageError, Table

from ..actions.sentences import partition_text
from ..links.address import command, text_of
from ..links.shown_text import contains
from ..session import Session
from ..warehouse.silent_catalogs import silent_catalogs
from ..warehouse.snapshot_properties import CODE_PROPERTY, PARTITIONS_PROPERTY, STATEMENT_PROPERTY
from .column_path import column_path
from .facts import Platform, place_of
from .history import Dot, history_of
from .history_pages import as_csv
from .lanes import lay_out
from .path import path_through
from .rows_of import change_of
from .svg import lane_names, picture, standalone
from .view import WHOLE, View, parameters_of, ref_of

if TYPE_CHECKING:
    from .app import Browser

_ROWS = 100
_MOST_PARTITIONS = 200
_OWN = ("ref", "column", "show")
_FATES = {
    "expired": "has expired",
    "taken back": "was taken back",
    "dropped": "was dropped with its table",
    "replaced": "was replaced: its number belongs to another now",
    "damaged": "is damaged",
}


def routes() -> list[BaseRoute]:
    """The pages of a snapshot, of its ancestry (also as a file), and of one of its columns."""
    return [
        Route("/snapshot", _page, name="snapshot"),
        Route("/ancestry", _ancestry, name="ancestry"),
        Route("/ancestry.{form}", _ancestry_file, name="ancestry_file"),
        Route("/column", _column, name="column"),
    ]


def _asked(request: Request) -> tuple[SnapshotRef, View]:
    parameters = parameters_of(request)
    if not parameters.get("ref"):
        raise InvalidRequest("Name a snapshot: ?ref=snapline.db.t@5.")
    ref = ref_of(parameters["ref"])
    return ref, View.of({name: value for name, value in parameters.items() if name not in _OWN})


def graph_of(platform: Platform, ref: SnapshotRef, view: View) -> LineageGraph:
    """The lineage of a snapshot as far as the view says: up, down, or both."""
    if ref.catalog not in platform.stores:
        raise NotFound(f"The lineage of catalog {ref.catalog!r} is not there, or out of reach.")
    directions = ("up", "down") if view.direction == "both" else (view.direction,)
    edges = {edge for way in directions for edge in trace(platform.stores, ref, way, view.hops).edges}  # type: ignore[arg-type]
    return LineageGraph(ref, "up" if view.direction == "both" else view.direction, tuple(sorted(edges)))  # type: ignore[arg-type]


def _asked_graph(browser: "Browser", ref: SnapshotRef, view: View) -> tuple[Platform, LineageGraph]:
    """The lineage of the rows of a snapshot, from the snapshot on that made them, and a platform that is no older than that.
    Raises NotFound for one that nobody knows.
    """
    graph = graph_of(browser.facts.platform(), change_of(browser.session, ref), view)
    platform = browser.facts.platform([ref, graph.root, *graph.snapshots])
    _known(platform, ref, graph)
    return platform, graph


def _known(platform: Platform, ref: SnapshotRef, graph: LineageGraph) -> None:
    """Raise NotFound for a snapshot that neither a table nor lineage knows."""
    history = platform.branches.get(place_of(ref))
    there = history is not None and ref.snapshot_id in history.ids
    if there or graph.edges or (history is not None and ref.snapshot_id in history.tagged_ids):
        return
    store = platform.stores[ref.catalog]
    where = {"database": ref.database, "table": ref.table, "branch": ref.branch, "snapshot_id": ref.snapshot_id}
    if not (store.has_snapshots("sink", **where) or store.has_snapshots("source", **where)):
        raise NotFound(f"No table and no lineage knows a snapshot {ref}.")


def _page(request: Request) -> Response:
    browser: Browser = request.app.state.browser
    ref, view = _asked(request)
    platform, graph = _asked_graph(browser, ref, view)
    history = history_of(platform, graph.edges, [ref, graph.root])
    layout = lay_out(history, WHOLE)
    selected, own = history.dot_of(graph.root), history.dot_of(ref)
    assert selected is not None and own is not None
    path = path_through(history, selected, view.direction, view.hops)
    base = request.scope.get("root_path", "").rstrip("/")
    dot = history.dots[own]
    details = _details(browser, dot)
    ups = [history.dots[source] for source, sink in history.arcs if sink == selected]
    downs = [history.dots[sink] for source, sink in history.arcs if source == selected]
    return browser.render(
        request,
        "snapshot.html",
        title=str(ref),
        view=view,
        dot=dot,
        history=history,
        ups=ups,
        downs=downs,
        names=lane_names(history, WHOLE),
        layout=layout,
        query=view.query(),
        fate=_FATES.get(dot.fate, dot.fate),
        change=graph.root,
        before=_change_before(platform, graph.root),
        earlier=_earlier_of_number(platform, ref),
        open_recoveries=platform.open_recoveries(ref),
        unfinished=platform.unfinished,
        silent_catalogs=silent_catalogs(browser.session),
        reproduce=command("reproduce", str(ref)),
        picture=picture(
            history,
            layout,
            WHOLE,
            lambda other: f"{base}/snapshot?ref={_quoted(other)}",
            path,
        ),
        **details,
    )


def _change_before(platform: Platform, ref: SnapshotRef) -> SnapshotRef | None:
    """The change that a branch had before a snapshot of it, if both are there to be compared."""
    history = None if "~" in ref.branch else platform.branches.get(place_of(ref))
    if history is None or history.find(ref.snapshot_id) is None:
        return None
    earlier = (each for each in reversed(history.known) if each.id < ref.snapshot_id and each.changes_rows)
    change = next(earlier, None)
    return None if change is None else SnapshotRef(*place_of(ref), change.id, change.time_ms)


def _earlier_of_number(platform: Platform, ref: SnapshotRef) -> list[SnapshotRef]:
    """The snapshots that had the number of one before it was given again: links of that time lead here."""
    if "~" in ref.branch or ref.catalog not in platform.stores:
        return []
    where = {"database": ref.database, "table": ref.table, "snapshot_id": ref.snapshot_id}
    store = platform.stores[ref.catalog]
    rows = (*store.snapshots("sink", **where), *store.snapshots("source", **where))
    return sorted({row.ref(ref.catalog) for row in rows if row.branch.partition("~")[0] == ref.branch != row.branch})


def _quoted(ref: SnapshotRef) -> str:
    return quote(text_of(ref), safe="")


def _details(browser: "Browser", dot: Dot) -> dict[str, Any]:
    """What the table's own files tell of a snapshot; empty where they are gone."""
    empty: dict[str, Any] = {
        "snapshot": None,
        "schema": [],
        "schema_changes": [],
        "partitions": [],
        "files": None,
        "rows": None,
        "properties": {},
        "trouble": "",
        "columns": {},
        "silent": "",
        "told": [],
        "topics": [],
        "not_again": f"It cannot be made again: it {_FATES[dot.fate]}." if dot.fate else "",
    }
    if not browser.session.records_lineage(dot.ref.catalog):
        empty["silent"] = f"Catalog {dot.ref.catalog} records no lineage of its snapshots."
    if dot.fate in ("dropped", "replaced"):
        return empty
    try:
        table = browser.session.catalog_of(dot.ref.catalog).table(dot.ref.table_name)
        snapshot = table.snapshot(dot.ref.snapshot_id)
        if snapshot is None:
            return empty
        return empty | _read(browser.session, table, snapshot)
    except NotFound:
        return empty
    except StorageError as error:
        return empty | {"trouble": str(error)}


def _not_again(snapshot: Snapshot, sources: Iterable[tuple[SnapshotRef, str]]) -> str:
    """Why a snapshot cannot be made again; empty if it may be."""
    properties = snapshot.properties or {}
    if not snapshot.changes_rows:
        return "It changed no rows."
    if STATEMENT_PROPERTY not in properties and CODE_PROPERTY not in properties:
        return "It says neither of a statement nor of an asset that made it, so it cannot be made again."
    gone = [f"{ref}, which {_FATES.get(fate, fate)}" for ref, fate in sources if fate not in ("", "taken back")]
    return f"It cannot be made again: it was made from {', and '.join(gone)}." if gone else ""


def _read(session: Session, table: Table, snapshot: Snapshot) -> dict[str, Any]:
    pinned = table.after_commit(snapshot.id)
    schema = [(field.name, str(field.type), field.description or "") for field in pinned.schema.fields]
    properties = snapshot.properties or {}
    sources = session.sources_of(snapshot)
    columns = {
        name: [f"{'' if catalog == DEFAULT_CATALOG else f'{catalog}.'}{'.'.join(rest)}" for catalog, *rest in listed]
        for name, listed in current_columns(snapshot, sources).items()
    }
    changes: Any = None
    partitions: list[tuple[str, Any]] = []
    try:
        changes = table.changes_of(snapshot)
        if pinned.schema.partition_keys:
            listed = table.changes_by_partition(snapshot)[:_MOST_PARTITIONS]
            partitions = [(partition_text(part), each) for part, each in listed]
    except NotFound:
        # Its manifests went with a snapshot that has expired.
        changes = None
    return {
        "snapshot": snapshot,
        "schema": schema,
        "schema_changes": _schema_changes(table, snapshot),
        "files": changes,
        "partitions": partitions,
        "rows": first_rows(pinned),
        "columns": columns,
        "told": sorted(sources.values()),
        "topics": topic_texts(offsets_of(snapshot)),
        "not_again": _not_again(snapshot, [(source, session.fate(source)) for source in sources.values()]),
        "properties": {
            name: properties[key]
            for name, key in (
                ("code version", CODE_PROPERTY),
                ("statement", STATEMENT_PROPERTY),
                ("partitions", PARTITIONS_PROPERTY),
            )
            if key in properties
        },
    }


def _schema_changes(table: Table, snapshot: Snapshot) -> list[str]:
    """In what the schema differs from that of the snapshot before, a line for each column."""
    before = table.snapshots.before(snapshot)
    if before is None or before.schema_id == snapshot.schema_id:
        return []
    old, new = (
        {field.id: (field.name, str(field.type)) for field in table.pinned(number).schema.fields}
        for number in (before.id, snapshot.id)
    )
    lines = [f"+ {name} {kind}" for number, (name, kind) in new.items() if number not in old]
    lines += [f"- {name} {kind}" for number, (name, kind) in old.items() if number not in new]
    both = [(old[number], field) for number, field in new.items() if number in old]
    lines += [f"{before[0]} → {after[0]}" for before, after in both if before[0] != after[0]]
    return lines + [f"{after[0]}: {before[1]} → {after[1]}" for before, after in both if before[1] != after[1]]


def first_rows(table: Table, count: int = _ROWS) -> tuple[list[str], list[list[str]]]:
    """The names of the columns, and the first rows, each value as text."""
    batches: list[pa.RecordBatch] = []
    left = count
    for batch in islice(table.to_batches(), 50):
        batches.append(batch.slice(0, left))
        left -= batches[-1].num_rows
        if left <= 0:
            break
    names = [field.name for field in table.schema.fields]
    if not batches:
        return names, []
    rows = pa.Table.from_batches(batches)
    columns = [[_shown(value) for value in rows.column(index).to_pylist()] for index in range(rows.num_columns)]
    return rows.column_names, [list(row) for row in zip(*columns, strict=True)]


def _shown(value: object) -> str:
    if value is None:
        return "NULL"
    text = value.hex() if isinstance(value, bytes) else str(value)
    return text if len(text) <= 200 else f"{text[:200]}…"


def _ancestry(request: Request) -> Response:
    browser: Browser = request.app.state.browser
    ref, view = _asked(request)
    dots = _listed(browser, ref, view)
    return browser.render(
        request,
        "ancestry.html",
        title=f"Ancestry of {ref}",
        ref=ref,
        view=view,
        dots=dots,
        query=view.query(),
    )


def _listed(browser: "Browser", ref: SnapshotRef, view: View) -> list[tuple[str, Dot]]:
    platform, graph = _asked_graph(browser, ref, view)
    history = history_of(platform, graph.edges, [graph.root])
    selected = history.dot_of(graph.root)
    assert selected is not None
    path = path_through(history, selected, view.direction, None)
    listed = [
        ("made from" if path.side(index) == "up" else "fed", each)
        for index, each in enumerate(history.dots)
        if path.side(index) in ("up", "down")
    ]
    return [(side, each) for side, each in listed if contains(str(each.ref), view.find)]


def _ancestry_file(request: Request) -> Response:
    browser: Browser = request.app.state.browser
    ref, view = _asked(request)
    form = request.path_params["form"]
    if form == "csv":
        text = as_csv(each for _, each in _listed(browser, ref, view))
        return Response(text, media_type="text/csv; charset=utf-8")
    platform, graph = _asked_graph(browser, ref, view)
    if form in ("dot", "mmd"):
        return Response((dot if form == "dot" else mermaid)(graph), media_type="text/plain; charset=utf-8")
    if form != "svg":
        raise NotFound(f"Ancestry is not written as {form[:20]!r}: there are csv, svg, dot and mmd (Mermaid).")
    history = history_of(platform, graph.edges, [graph.root])
    selected = history.dot_of(graph.root)
    assert selected is not None
    path = path_through(history, selected, view.direction, None)
    text = standalone(history, lay_out(history, WHOLE), WHOLE, browser.style, path)
    return Response(text, media_type="image/svg+xml")


def _column(request: Request) -> Response:
    browser: Browser = request.app.state.browser
    ref, view = _asked(request)
    column = parameters_of(request).get("column", "")
    if not column:
        raise InvalidRequest("Name a column: &column=name.")
    platform = browser.facts.platform()
    steps = column_path(browser.session, platform.stores, ref, column)
    return browser.render(
        request, "column.html", title=f"{column} of {ref}", ref=ref, column=column, steps=steps, view=view
    )
