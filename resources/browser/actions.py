"""What pages do: start a recovery, publish it, drop it. Nothing else of the browser changes anything.

Each is a form of a page, sent with the token that the page carries; what the page has shown is compared with what there is
before anything is done.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from lineage import NAME_LENGTH
from storage import CommitConflict, InvalidRequest

from ..links.address import plan_address, recovery_address
from ..recovery import Recovery, carry_out, plan_recovery
from ..recovery.words import BROWSER
from ..session import Session
from .recovery_pages import DROP, PUBLISH, hidden_of, state_of
from .spoilt_pages import START, fingerprint, mode_of
from .tokens import TOKEN, form_of
from .view import ref_of

if TYPE_CHECKING:
    from .app import Browser

Fields = Mapping[str, str]
_YES = "yes"
_IN_SPITE = ("discard_main", "allow_incomplete", "allow_failed_checks")


def routes() -> list[BaseRoute]:
    """The forms that start, publish and drop recoveries; they take POST alone."""
    return [
        Route("/recoveries", _start, methods=["POST"], name="start"),
        Route("/recoveries/{branch}/publish", _publish, methods=["POST"], name="publish"),
        Route("/recoveries/{branch}/drop", _drop, methods=["POST"], name="drop"),
    ]


async def _start(request: Request) -> Response:
    fields = await form_of(request)
    hidden = {name: fields.get(name, "") for name in ("bad", "mode", "plan")}
    return await _done(request, fields, START, hidden, start, fields.get("branch", "").strip())


async def _publish(request: Request) -> Response:
    fields, branch = await form_of(request), request.path_params["branch"]
    hidden = hidden_of(branch, fields.get("state", ""))
    return await _done(request, fields, PUBLISH, hidden, publish, branch)


async def _drop(request: Request) -> Response:
    fields, branch = await form_of(request), request.path_params["branch"]
    hidden = hidden_of(branch, fields.get("state", ""))
    return await _done(request, fields, DROP, hidden, drop, branch)


async def _done(
    request: Request,
    fields: Fields,
    action: str,
    hidden: Fields,
    act: Callable[[Session, str, Fields], None],
    branch: str,
) -> Response:
    """Check the token, do it, and lead to the page of the recovery, or to the list. Raises what `act` does."""
    browser: Browser = request.app.state.browser
    browser.tokens.use(fields.get(TOKEN, ""), action, hidden)
    base = request.scope.get("root_path", "").rstrip("/")
    # Where the page of what is refused leads back to.
    request.state.back = (
        plan_address(base, ref_of(fields["bad"]), fields["mode"]) if action == START else recovery_address(base, branch)
    )
    await run_in_threadpool(act, browser.session, branch, fields)
    leads_to = f"{base}/recoveries" if action == DROP else recovery_address(base, branch)
    return RedirectResponse(leads_to, status_code=303)


def start(session: Session, branch: str, fields: Fields) -> None:
    """Begin the recovery whose plan was shown. Raises CommitConflict if it would be another one by now."""
    if not branch:
        raise InvalidRequest(
            "Say what the recovery is to be called: its name is that of its branch. Nothing has been done."
        )
    if len(branch) > NAME_LENGTH:
        raise InvalidRequest(
            f"A recovery whose name has {len(branch)} characters is not begun: at most {NAME_LENGTH} are kept by lineage. "
            "Choose a shorter name. Nothing has been done."
        )
    plan = plan_recovery(session, ref_of(fields["bad"]), mode_of(fields["mode"]))
    if fingerprint(plan) != fields["plan"]:
        raise CommitConflict(
            "The plan has become another one since the page was shown: tables have been written. Nothing has been done. "
            "Look at the plan again."
        )
    carry_out.start(session, branch, plan)


def publish(session: Session, branch: str, fields: Fields) -> None:
    """Make the branch main's, on all tables or none."""
    _refuse_changed(session, branch, fields)
    recovery = Recovery.open(session, branch)
    carry_out.publish(session, recovery, BROWSER, **{name: fields.get(name) == _YES for name in _IN_SPITE})


def drop(session: Session, branch: str, fields: Fields) -> None:
    """Delete the branch of every table."""
    _refuse_changed(session, branch, fields)
    carry_out.drop(session, branch)


def _refuse_changed(session: Session, branch: str, fields: Fields) -> None:
    """Raise CommitConflict if the recovery is not any more what the page has shown."""
    if state_of(session, branch) != fields.get("state"):
        raise CommitConflict(
            f"Recovery {branch!r}, or main of one of its tables, has changed since the page was shown. Nothing has been done. "
            "Look at the page again."
        )
