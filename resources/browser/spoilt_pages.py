"""What a snapshot has spoilt, and the plan of a recovery from it, with the button that starts it."""

import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, get_args

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from lineage import NAME_LENGTH, trace
from storage import InvalidRequest, SnapshotRef

from ..links.address import command, plan_address, snapshot_address, text_of
from ..recovery import Mode, RecoveryPlan, plan_recovery
from ..recovery.plan import DEFAULT_MODE
from ..recovery.record import names
from ..recovery.words import free_name
from ..warehouse.catalogs import CATALOG_NAME
from .facts import Platform
from .history import history_of
from .lanes import lay_out
from .path import path_through
from .rows_of import change_of
from .spoilt import SHOWN, refuse_unknown
from .svg import LaneName, lane_names, picture
from .tokens import TOKEN
from .view import WHOLE, own_parameters, ref_of

if TYPE_CHECKING:
    from .app import Browser

START = "start"
_MODES: tuple[Mode, ...] = get_args(Mode)
# More would be no picture that anybody can read.
_MOST_DRAWN = 5_000


def routes() -> list[BaseRoute]:
    """The page of what a bad snapshot has spoilt, and that of the recovery planned from it."""
    return [
        Route("/spoilt", _spoilt, methods=["GET"], name="spoilt"),
        Route("/plan", _plan, methods=["GET"], name="plan"),
    ]


def _spoilt(request: Request) -> Response:
    browser: Browser = request.app.state.browser
    asked = _asked(own_parameters(request, "ref"))
    bad = change_of(browser.session, asked)
    platform = browser.facts.platform()
    damage = browser.damages.read(browser.session, bad, platform)
    base = request.scope.get("root_path", "").rstrip("/")
    names_of_lanes, drawn = _drawn(platform, bad, base)
    return browser.render(
        request,
        "spoilt.html",
        title=f"What {bad} has spoilt",
        bad=bad,
        open_recoveries=platform.open_recoveries(bad),
        unfinished=platform.unfinished,
        damage=damage,
        fate=browser.session.fate(bad),
        shown=SHOWN,
        links=browser.links,
        address=snapshot_address,
        plan=plan_address,
        can_recover=can_recover(bad),
        asked=asked,
        command=command("impact", str(bad)),
        names=names_of_lanes,
        picture=drawn,
    )


def _drawn(platform: Platform, bad: SnapshotRef, base: str) -> tuple[list[LaneName], str]:
    """Names of lanes, and the picture of all that a snapshot itself went into; nothing if that is nothing, or too much."""
    edges = trace(platform.stores, bad, "down").edges
    if not 0 < len(edges) <= _MOST_DRAWN:
        return [], ""
    history = history_of(platform, edges, [bad])
    layout, selected = lay_out(history, WHOLE), history.dot_of(bad)
    assert selected is not None
    path = path_through(history, selected, "down", None)
    return lane_names(history, WHOLE), picture(history, layout, WHOLE, lambda ref: snapshot_address(base, ref), path)


def _asked(parameters: Mapping[str, str]) -> SnapshotRef:
    """The snapshot of a page. Raises InvalidRequest."""
    text = parameters.get("ref", "")
    if not text:
        raise InvalidRequest("Name a snapshot: ?ref=snapline.db.t@5.")
    return ref_of(text)


def can_recover(bad: SnapshotRef) -> bool:
    """Whether a recovery can begin with a snapshot: one of a main branch of this warehouse."""
    return bad.catalog == CATALOG_NAME and bad.branch == "main"


def _plan(request: Request) -> Response:
    browser: Browser = request.app.state.browser
    parameters = own_parameters(request, "ref", "mode")
    asked = _asked(parameters)
    bad = change_of(browser.session, asked)
    platform = browser.facts.platform()
    refuse_unknown(browser.session, bad, platform)
    mode = mode_of(parameters.get("mode", DEFAULT_MODE))
    plan = plan_recovery(browser.session, bad, mode, platform.stores)
    target = f"{bad.table_name}@{bad.snapshot_id}"
    # What the form carries is what its token is made for.
    hidden = {"bad": text_of(bad), "mode": mode, "plan": fingerprint(plan)}
    name = free_name(target, names(browser.session.catalog))
    return browser.render(
        request,
        "plan.html",
        title=f"Plan a recovery from {bad}",
        bad=bad,
        open_recoveries=platform.open_recoveries(bad),
        unfinished=platform.unfinished,
        plan=plan,
        mode=mode,
        modes=_MODES,
        name=name,
        longest=NAME_LENGTH,
        hidden=hidden,
        token_name=TOKEN,
        token=browser.tokens.issue(START, hidden),
        links=browser.links,
        address=snapshot_address,
        plan_address=plan_address,
        asked=asked,
        command=command("recovery start", name, bad=target, mode=mode),
    )


def mode_of(text: str) -> Mode:
    """Raises InvalidRequest that lists the modes."""
    for mode in _MODES:
        if text == mode:
            return mode
    raise InvalidRequest(f"mode = {text[:50]!r}: it is one of {', '.join(_MODES)}.")


def fingerprint(plan: RecoveryPlan) -> str:
    """What tells a plan from one that has become another since it was shown."""
    said = [str(plan.bad), plan.mode, *map(repr, plan.tables)]
    return hashlib.sha256(json.dumps(said).encode()).hexdigest()[:16]
