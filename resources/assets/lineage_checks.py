"""Asset checks that lineage answers: is a table up to date with its sources, and do tables belong together."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import dagster as dg

from lineage import LineageUnavailable
from storage import InvalidRequest, NotFound

from ..session import Session
from .declared import check_types, failing_in_a_line, named_table, named_tables
from .tables import TablesResource
from .ui_metadata import page_metadata

_INPUT = "dagster/input_data_version/"


def freshness_check(table: str, *, at_most: timedelta, blocking: bool = False) -> dg.AssetChecksDefinition:
    """A check that passes if a table is no more than so much behind any table that it was made from, over any number of
    hops: behind by the time between the change that it was made from and the newest one.
    """
    subject = f"freshness_check of {table!r}"
    identifier = named_table(subject, table)
    check_types(subject, {"at_most": (at_most, timedelta), "blocking": (blocking, bool)})
    if at_most < timedelta(0):
        raise InvalidRequest(f"{table} cannot be {at_most} behind its sources: give a time that is not negative.")

    @dg.asset_check(
        asset=dg.AssetKey([identifier.database, identifier.table]),
        name="is_fresh",
        blocking=blocking,
        description=f"At most {at_most} behind its sources",
    )
    def check(context: dg.AssetCheckExecutionContext, tables: TablesResource) -> dg.AssetCheckResult:
        damaged: list[str] = []
        try:
            with failing_in_a_line():
                lags = tables.session.freshness(table, damaged.append)
        except LineageUnavailable as error:
            return _unanswered(error)
        again = _made_again_from(context.instance, tables.session, table)
        late = [
            lag
            for lag in lags
            if lag.behind_ms > at_most / timedelta(milliseconds=1)
            and again.get(lag.source.table_name, 0) < lag.newest.snapshot_id
        ]
        rows = [
            dg.TableRecord(
                {
                    "source": lag.source.table_name,
                    "made from": max(lag.source.snapshot_id, again.get(lag.source.table_name, 0)),
                    "newest": lag.newest.snapshot_id,
                    "behind": str(timedelta(milliseconds=lag.behind_ms)),
                }
            )
            for lag in lags
        ]
        lags_text = ", ".join(f"{lag.source.table_name} by {timedelta(milliseconds=lag.behind_ms)}" for lag in late)
        return dg.AssetCheckResult(
            passed=not late and not damaged,
            description=". ".join([*([f"Behind {lags_text}"] if late else []), *damaged]) or "Up to date",
            metadata={**({"sources": dg.MetadataValue.table(rows)} if rows else {}), **_page(tables.session, table)},
        )

    return check


def consistency_check(
    table: str, others: Sequence[str], *, on: str, blocking: bool = False
) -> dg.AssetChecksDefinition:
    """A check that passes if the newest snapshots of a table and of others were made from the same snapshot of a source."""
    subject = f"consistency_check of {table!r}"
    identifier = named_table(subject, table)
    check_types(subject, {"blocking": (blocking, bool)})
    others = named_tables(subject, "others", others)
    named_table(subject, on)
    if table in others:
        raise InvalidRequest(f"{subject}: others names {table} itself: name those that it belongs together with.")
    if on in (table, *others):
        raise InvalidRequest(
            f"{subject}: on={on!r} is one of the tables: name a source that all of them are made from."
        )
    names = [table, *others]

    @dg.asset_check(
        asset=dg.AssetKey([identifier.database, identifier.table]),
        name=f"belongs_together_on_{on.replace('.', '_')}",
        blocking=blocking,
        description=f"Made from the same {on} as {', '.join(others)}",
    )
    def check(context: dg.AssetCheckExecutionContext, tables: TablesResource) -> dg.AssetCheckResult:
        session = tables.session
        with failing_in_a_line():
            newest = {name: session.ref(name).snapshot_id for name in names}
        try:
            versions = {name: value.snapshot() for name, value in session.aligned(names, on=on).items()}
        except LineageUnavailable as error:
            return _unanswered(error)
        except NotFound as error:
            return dg.AssetCheckResult(passed=False, description=str(error), metadata=_page(session, table))
        together = {name: snapshot.id for name, snapshot in versions.items() if snapshot is not None}
        behind = [name for name in names if together.get(name) != newest[name]]
        if behind and len({_made_again_from(context.instance, session, name).get(on, name) for name in names}) == 1:
            behind = []
        return dg.AssetCheckResult(
            passed=not behind,
            description=f"{', '.join(behind)} have moved on: together they were last at "
            f"{', '.join(f'{name}@{number}' for name, number in together.items())}"
            if behind
            else "All belong together",
            metadata={
                **{name: f"{number}, together {together.get(name)}" for name, number in newest.items()},
                **_page(session, table),
            },
        )

    return check


def _page(session: Session, name: str) -> dict[str, Any]:
    """The page of the newest snapshot of a table in the lineage browser."""
    ref = session.table(name).last_change()
    return {} if ref is None else page_metadata(ref)


def _made_again_from(instance: dg.DagsterInstance, session: Session, name: str) -> dict[str, int]:
    """The snapshots of main that Dagster knows a table's newest change to come from, by table, over any number of hops. They may
    be newer than those in its commit: a run whose rows are there already commits nothing.
    """
    ref = session.table(name).last_change()
    newest: dict[str, int] = {}
    pending = [] if ref is None else [(dg.AssetKey(name.split(".")), ref.data_version)]
    while pending:
        key, version = pending.pop()
        records = instance.fetch_materializations(key, limit=1).records
        event = records[0].asset_materialization if records else None
        tags = (event.tags if event is not None else None) or {}
        if tags.get("dagster/data_version") != version:
            continue
        for tag, source in tags.items():
            branch, _, number = source.partition("@")
            if tag.startswith(_INPUT) and branch == "main" and number.isdecimal():
                read = dg.AssetKey.from_user_string(tag.removeprefix(_INPUT))
                if int(number) > newest.get(".".join(read.path), 0):
                    newest[".".join(read.path)] = int(number)
                    pending.append((read, source))
    return newest


def _unanswered(error: LineageUnavailable) -> dg.AssetCheckResult:
    """Nobody is stopped because lineage cannot be asked."""
    return dg.AssetCheckResult(passed=False, severity=dg.AssetCheckSeverity.WARN, description=str(error))
