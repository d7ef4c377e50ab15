"""The recoveries: how far each has come, what is done and left, how its tables differ from main, and the ways on."""

import json
import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from lineage import LineageUnavailable
from storage import CorruptData, InvalidRequest, NotFound, StorageError
from storage.engines.duckdb_compare import Comparison

from ..assets.platform_tables import platform_table_assets
from ..assets.table_asset import TableAsset
from ..links.address import command
from ..links.dagster_links import DagsterLinks
from ..recovery import Recovery, RecoveryRecord, TableRecord, plan_recovery
from ..recovery.progress import BEING_PUBLISHED, TO_BE_CORRECTED, TO_BE_PUBLISHED, Progress
from ..recovery.progress import progress as progress_of
from ..recovery.publish import moved_on
from ..recovery.record import names
from ..recovery.remarks import difference_since
from ..recovery.unfinished import open_publications
from ..recovery.words import BROWSER, OPS
from ..session import Session
from ..warehouse.snapshot_properties import STATEMENT_PROPERTY
from .tokens import TOKEN
from .view import own_parameters

if TYPE_CHECKING:
    from .app import Browser

PUBLISH, DROP = "publish", "drop"
DONE, NOW, LATER, LEFT_OUT = "done", "now", "later", "left out"
# Rows of larger tables are compared by a click, and kept: whoever comes for the next step does not wait for them.
_MOST_COMPARED = 100_000
_KEPT = 200
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Stage:
    """A step of a recovery. `state`: done, now, later, left out. `ways`: text, address in Dagster or empty, command."""

    name: str
    state: str
    ways: tuple[tuple[str, str, str], ...] = ()


@dataclass(frozen=True)
class TableRow:
    """A table of a recovery. `comparison` None: not compared, and `note` says why."""

    name: str
    what: str
    is_left: bool
    comparison: Comparison | None
    note: str = ""


def routes() -> list[BaseRoute]:
    """The list of recoveries, and the page of each."""
    return [
        Route("/recoveries", _list, methods=["GET"], name="recoveries"),
        Route("/recoveries/{branch}", _recovery, methods=["GET"], name="recovery"),
    ]


def hidden_of(branch: str, state: str) -> dict[str, str]:
    """What the forms of a recovery's page carry, and their tokens are made for."""
    return {"branch": branch, "state": state}


def state_of(session: Session, branch: str) -> str:
    """What a recovery's page shows, in a word: another one once its branches, the mains of its tables, or its record change."""
    try:
        recovery = Recovery.open(session, branch)
        record, tables = recovery.record, recovery.tables
    except (CorruptData, NotFound) as error:
        return type(error).__name__
    parts: list[object] = [record.status, record.created_ms]
    parts += [_newest_of(session, recovery, name) for name in sorted(tables)]
    return sha256(json.dumps(parts).encode()).hexdigest()


def _newest_of(session: Session, recovery: Recovery, name: str) -> list[object]:
    """The newest change of a table on main and on the branch, in what JSON has."""
    try:
        newest = (session.catalog.table(name).last_change(), recovery.table(name).last_change())
    except NotFound:
        newest = (None, None)
    return [name, *(None if ref is None else [ref.branch, ref.snapshot_id, ref.time_ms] for ref in newest)]


class Comparisons:
    """How branches of recoveries differ from main, for as long as neither changes."""

    def __init__(self) -> None:
        self._kept: dict[str, Comparison] = {}

    def find(self, key: str) -> Comparison | None:
        """What is kept under a key, or None."""
        return self._kept.get(key)

    def read(self, key: str, recovery: Recovery, name: str) -> Comparison:
        """As `Recovery.compare`, kept under a key."""
        comparison = self._kept.get(key)
        if comparison is None:
            comparison = recovery.compare(name)
            # Two threads that meet here compare twice.
            self._kept = dict([*self._kept.items(), (key, comparison)][-_KEPT:])
        return comparison


def _list(request: Request) -> Response:
    browser: Browser = request.app.state.browser
    own_parameters(request)
    assets, trouble = _assets()
    listed = [progress_of(browser.session, name, assets) for name in names(browser.session.catalog)]
    return browser.render(request, "recoveries.html", title="Recoveries", listed=listed, trouble=trouble)


def _recovery(request: Request) -> Response:
    browser: Browser = request.app.state.browser
    session, branch = browser.session, request.path_params["branch"]
    assets, trouble = _assets()
    if branch not in names(session.catalog):
        raise NotFound(
            f"There is no recovery {branch!r}. It may have been dropped: the list shows those that there are."
        )
    # Asked first: what is shown is of that state, or of a later one, which the forms are refused for.
    shown_state = state_of(session, branch)
    progress = progress_of(session, branch, assets)
    parameters = own_parameters(request, "table", switches=("compare",))
    shown, is_whole = parameters.get("table", ""), parameters.get("compare") == "all"
    record, rows = _tables(browser, progress, is_whole, shown)
    if shown and shown not in [row.name for row in rows]:
        raise InvalidRequest(
            f"Recovery {branch!r} has no table {shown[:100]!r}: {', '.join(row.name for row in rows)}."
        )
    examples = next((row.comparison.examples for row in rows if row.name == shown and row.comparison), None)
    hidden = hidden_of(branch, shown_state)
    by_hand = [] if trouble else [name for name in progress.left if name not in assets]
    ahead = "" if progress.state != TO_BE_PUBLISHED or trouble else _moved_on(session, branch, assets)
    is_to_be_published = not progress.is_published or progress.state == BEING_PUBLISHED or bool(progress.changed)
    shown_stages = stages(progress, browser.links, {name: by_sql(session, branch, name) for name in by_hand})
    return browser.render(
        request,
        "recovery.html",
        title=f"Recovery {branch}",
        progress=progress,
        record=record,
        rows=rows,
        shown=shown,
        sides=("", "") if record is None else Recovery.open(session, branch).sides,
        stages=shown_stages,
        links=browser.links,
        trouble=trouble,
        hidden=hidden,
        token_name=TOKEN,
        publish_token=browser.tokens.issue(PUBLISH, hidden),
        drop_token=browser.tokens.issue(DROP, hidden),
        commands=[
            command(f"recovery {name}", branch)
            for name, is_a_way in ((PUBLISH, is_to_be_published), (DROP, not progress.unfinished))
            if is_a_way
        ],
        replay_link=browser.links.launchpad(
            "recovery_publish", OPS["recovery_publish"], {"branch": branch, "replay": True}
        ),
        replay=command(f"recovery {PUBLISH}", branch, replay=()),
        is_to_be_published=is_to_be_published,
        needless="" if progress.is_published or progress.unfinished else _needless(session, progress),
        by_hand=by_hand,
        moved_on=ahead,
        is_ready=not ahead and any(stage.name == "published" and stage.state == NOW for stage in shown_stages),
        columns=[] if examples is None else examples.column_names,
        examples=[] if examples is None else [list(row.values()) for row in examples.to_pylist()],
    )


def _moved_on(session: Session, branch: str, assets: Mapping[str, TableAsset]) -> str:
    """Why a recovery of which nothing is left could not be published now; empty if it could, or if something else is wrong."""
    with suppress(StorageError, LineageUnavailable):
        return moved_on(session, Recovery.open(session, branch), assets, BROWSER)
    return ""


def _needless(session: Session, progress: Progress) -> str:
    """That nothing comes from the bad snapshot of a recovery any more, and why, in sentences; empty if something does, if nobody
    can say, or if that is the recovery's own doing, or of a publication that may be taken back yet.
    """
    bad = progress.bad
    if not bad:
        return ""
    try:
        plan = plan_recovery(session, session.known_ref(bad))
    except (StorageError, LineageUnavailable):
        return ""
    repaired_by = {table.repaired_by for table in plan.good}
    if plan.tables or progress.branch in repaired_by or open_publications(session.catalog, repaired_by):
        return ""
    why = "; ".join(f"{table.name} {table.describe()}" for table in plan.good)
    return f"Nothing comes from {bad} now: {why}. This recovery is not needed any more: drop it."


def _assets() -> "tuple[dict[str, TableAsset], str]":
    """The table assets of the platform; none, and why, if its definitions cannot be loaded."""
    try:
        return platform_table_assets(), ""
    except Exception as error:
        # They are anybody's code.
        _log.warning("The definitions of the platform cannot be loaded: %s", error)
        return (
            {},
            f"The definitions of the platform cannot be loaded, so that what is left to compute is not known: {error}",
        )


def _tables(
    browser: "Browser", progress: Progress, is_whole: bool, shown: str
) -> tuple[RecoveryRecord | None, list[TableRow]]:
    try:
        recovery = Recovery.open(browser.session, progress.branch)
        record, tables = recovery.record, recovery.tables
    except CorruptData:
        return None, []
    rows: list[TableRow] = []
    for name, table in tables.items():
        key = json.dumps([record.status, record.created_ms, _newest_of(browser.session, recovery, name)])
        rows.append(_row(browser.comparisons, key, recovery, name, table, progress, is_whole or name == shown))
    return record, rows


def _row(
    kept: Comparisons,
    key: str,
    recovery: Recovery,
    name: str,
    table: TableRecord,
    progress: Progress,
    is_asked: bool,
) -> TableRow:
    is_left = name in progress.left
    are = ("was not", "were not") if progress.is_published else ("is to be", "are to be")
    if table.corrected:
        state = f"{are[0]} corrected" if is_left else "is corrected"
    elif table.partitions is None:
        state = f"{are[0]} computed anew" if is_left else "is computed anew"
    else:
        parts = [", ".join(map(str, partition.values())) for partition in table.partitions]
        listed = f"{parts[0]} … {parts[-1]}" if len(parts) > 3 else ", ".join(parts) or "none"
        verb = (are[0] if len(parts) == 1 else are[1]) if is_left else "is" if len(parts) == 1 else "are"
        state = f"{len(parts)} partition{'s' * (len(parts) != 1)} {verb} computed anew: {listed}"
    try:
        snapshot = recovery.table(name).snapshot()
        records = 0 if snapshot is None else snapshot.total_record_count
        is_large = records > _MOST_COMPARED and not is_asked
        if name in progress.changed:
            state += "; changed since it was published"
            state += "" if is_large else f": {difference_since(recovery, name)}"
        if is_large and kept.find(key) is None:
            return TableRow(name, state, is_left, None, f"{records:,} records")
        return TableRow(name, state, is_left, kept.read(key, recovery, name))
    except StorageError as error:
        return TableRow(name, state, is_left, None, str(error))


def by_sql(session: Session, branch: str, name: str) -> str:
    """The command that writes a table which no asset makes on the branch of a recovery: by the statement that made it on main,
    if that says how all of it is made, else by one that is to be completed.
    """
    statement = f"INSERT OVERWRITE {name} SELECT …"
    # What is damaged, or gone, is told beside.
    with suppress(StorageError):
        made = session.catalog.table(name).last_change()
        snapshot = None if made is None else session.catalog.table(name).snapshot(made.snapshot_id)
        said = "" if snapshot is None else (snapshot.properties or {}).get(STATEMENT_PROPERTY, "")
        is_all = snapshot is not None and snapshot.delta_record_count == snapshot.total_record_count
        if said.startswith("INSERT OVERWRITE ") or (is_all and said.startswith("INSERT INTO ")):
            statement = said.replace("INSERT INTO", "INSERT OVERWRITE", 1)
    return command("recovery correct", branch, sql=statement)


def stages(progress: Progress, links: DagsterLinks, by_hand: Mapping[str, str] | None = None) -> list[Stage]:
    """The steps of a recovery, each with its ways on where it is the one to be taken now. `by_hand`: for tables that are left
    and that no asset makes, the command that writes each.
    """
    by_hand = by_hand or {}
    if progress.trouble:
        return []
    branch = progress.branch
    at = {TO_BE_CORRECTED: 1, TO_BE_PUBLISHED: 3, BEING_PUBLISHED: 3}.get(
        progress.state, 4 if progress.is_published else 2
    )

    def way(text: str, job: str, shown: str, **config: Any) -> tuple[str, str, str]:
        return text, links.launchpad(job, OPS[job], {"branch": branch, **config}), shown

    correct = way(
        "Correct the source by SQL", "recovery_correct", command("recovery correct", branch, sql="UPDATE …"), sql=""
    )
    undo = way(
        "Take the source back to before the bad snapshot",
        "recovery_correct",
        command("recovery correct", branch, undo_bad=()),
        undo_bad=True,
    )
    backfill = way("Compute what is left", "recovery_backfill", command("recovery backfill", branch))
    written = tuple((f"Write {name} by SQL: no asset makes it", "", shown) for name, shown in by_hand.items())
    computed = (*([backfill] if len(by_hand) < len(progress.left) else []), *written, correct)
    ways = [(), (correct, undo) if progress.bad else (correct,), computed, (), ()]
    named = ("branched", "corrected", "computed anew", "published")
    # It was published in spite of them, or somebody has deleted branches.
    gone = bool(progress.without_branch) and not progress.is_published
    left_out = {0: gone, 1: bool(progress.wrong), 2: len(progress.left) > len(progress.wrong)}
    again = way("Publish it again", "recovery_publish", command("recovery publish", branch))
    since = [Stage("changed since it was published", NOW, (again,))] if progress.changed and at == len(named) else []
    return [
        Stage(
            name,
            (LEFT_OUT if left_out.get(number) else DONE) if number < at else NOW if number == at else LATER,
            ways[number] if number == at else (),
        )
        for number, name in enumerate(named)
    ] + since
