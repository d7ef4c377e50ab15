"""Two snapshots compared: where their ancestries part, every snapshot of either, and how the rows differ."""

from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from storage import InvalidRequest, NotFound, SnapshotRef

from ..links.address import command, snapshot_address
from ..session import Session
from ..warehouse.row_comparison import compare_rows
from .rows_of import change_of
from .spoilt import refuse_unknown
from .view import own_parameters, ref_of

if TYPE_CHECKING:
    from .app import Browser

# Rows of larger tables are compared by a click.
_MOST_COMPARED = 1_000_000
# More snapshots of a side are counted, and shown by a click.
_SHOWN = 200
_LONGEST = 1_000


def routes() -> list[BaseRoute]:
    """The page that compares two snapshots."""
    return [Route("/compare", _page, name="compare")]


def _page(request: Request) -> Response:
    browser: Browser = request.app.state.browser
    parameters = own_parameters(request, "left", "right", switches=("rows", "snapshots"))
    texts = [parameters.get(side, "").strip() for side in ("left", "right")]
    if not all(texts):
        return browser.render(
            request, "compare.html", title="Compare two snapshots", left=texts[0], right=texts[1], compared=None
        )
    left, right = (_named(browser.session, text) for text in texts)
    compared = browser.session.compare_ancestries(left, right)
    is_whole = parameters.get("rows") == "all"
    rows = compare_rows(browser.session, left, right, None if is_whole else _MOST_COMPARED)
    examples = None if rows.comparison is None else rows.comparison.examples
    every = parameters.get("snapshots") == "all"
    sides = [
        (name, refs, refs if every else refs[:_SHOWN])
        for name, refs in (
            (f"only {left}", compared.only_left),
            (f"only {right}", compared.only_right),
            ("both", compared.both),
        )
    ]
    return browser.render(
        request,
        "compare.html",
        title=f"{left} and {right}",
        left=texts[0],
        right=texts[1],
        compared=compared,
        rows=rows,
        sides=sides,
        columns=[] if examples is None else examples.column_names,
        examples=[] if examples is None else [list(row.values()) for row in examples.to_pylist()],
        fates={ref: browser.session.fate(ref) for ref in (left, right)},
        address=snapshot_address,
        command=command("lineage", compare=texts),
    )


def _named(session: Session, text: str) -> SnapshotRef:
    """The snapshot that `[catalog.]db.t[@5]` names. Raises InvalidRequest, NotFound."""
    if len(text) > _LONGEST:
        raise InvalidRequest(f"A snapshot is named as db.table@5; {len(text)} characters are no name.")
    try:
        return session.known_ref(text)
    except (NotFound, InvalidRequest):
        # A name that only an address can tell from a version: it holds an @.
        if text.count("@") < 2:
            raise
        ref = ref_of(text)
        refuse_unknown(session, ref)
        return change_of(session, ref)
