"""Main's checks on the branch of a recovery: on its twins, as a gate of the publication, and on main once it is published.

Only checks that are a SELECT (`sql_check`) can be asked of a branch; what others read is up to them.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import dagster as dg

from storage import InvalidRequest, Table

from ..assets.sql_checks import SqlCheck, check_metadata, sql_checks
from ..assets.tables import TablesResource
from ..assets.ui_metadata import page_metadata, recovery_page_metadata
from ..session import Session
from ..sql.duckdb_select import run_query
from .stages import Recovery
from .words import Words


def twin_checks(
    checks: Sequence[Any],
    names: Iterable[str],
    twin_key: Callable[[str], dg.AssetKey],
    branches_of: Callable[[Mapping[str, str]], list[str]],
) -> list[dg.AssetChecksDefinition]:
    """Main's checks of some tables as checks of their twins: of the same name, and blocking where main's are."""
    known = set(names)
    return [
        _twin_check(check, twin_key(check.table), branches_of) for check in sql_checks(checks) if check.table in known
    ]


def _twin_check(
    check: SqlCheck, key: dg.AssetKey, branches_of: Callable[[Mapping[str, str]], list[str]]
) -> dg.AssetChecksDefinition:
    description = f"{check.description or check.name}: as on main, of the branch."

    @dg.asset_check(asset=key, name=check.name, description=description, blocking=check.blocking)
    def on_branch(context: dg.AssetCheckExecutionContext, tables: TablesResource) -> dg.AssetCheckResult:
        passed = True
        metadata: dict[str, Any] = {}
        branches = branches_of(context.run.tags)
        for branch in branches:
            rows = run_query(tables.session, check.violations, Recovery.open(tables.session, branch).table)
            passed = passed and rows.num_rows == 0
            prefix = f"{branch}: " if len(branches) > 1 else ""
            values = check_metadata(check, rows) | recovery_page_metadata(branch)
            metadata |= {f"{prefix}{name}": value for name, value in values.items()}
        return dg.AssetCheckResult(passed=passed, metadata=metadata)

    return on_branch


def judged_by_checks(
    session: Session, recovery: Recovery, checks: Sequence[Any], allow_failed: bool, words: Words
) -> list[str]:
    """What is published in spite of blocking checks. Raises InvalidRequest that names them, unless that is allowed."""
    changed = set(recovery.changed())
    failures = []
    for check in sql_checks(checks):
        if check.blocking and check.table in changed:
            count = run_query(session, check.violations, recovery.table).num_rows
            if count:
                failures.append(f"{check.name} of {check.table} finds {count} rows")
    if failures and not allow_failed:
        raise InvalidRequest(
            f"Recovery {recovery.branch!r} is not published, on no table: blocking checks fail on the branch. "
            f"{'; '.join(failures)}. Correct the branch, or publish it all the same ({words.allow_failed_checks}), which is "
            "recorded."
        )
    return [f"published though check {failure}" for failure in failures]


def published_checks(
    session: Session, names: Iterable[str], checks: Sequence[Any]
) -> Iterator[dg.AssetCheckEvaluation]:
    """The checks of the tables that were published, as they are on main now."""
    known = set(names)
    view: Mapping[str, Table] = session.catalog.consistent(session.catalog.tables())
    for check in sql_checks(checks):
        if check.table in known:
            rows = run_query(session, check.violations, lambda name: view[name])
            ref = view[check.table].last_change()
            metadata = check_metadata(check, rows) | {"read_at": str(ref)} | ({} if ref is None else page_metadata(ref))
            yield dg.AssetCheckEvaluation(
                asset_key=dg.AssetKey(check.table.split(".")),
                check_name=check.name,
                passed=rows.num_rows == 0,
                metadata={
                    name: dg.MetadataValue.int(value)
                    if isinstance(value, int)
                    else dg.MetadataValue.text(value)
                    if isinstance(value, str)
                    else value
                    for name, value in metadata.items()
                },
                blocking=check.blocking,
            )
