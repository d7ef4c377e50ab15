"""Asset checks written as SQL: a SELECT of the rows that should not be there, run on DuckDB."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import dagster as dg
import pyarrow as pa

from storage import InvalidRequest

from ..sql.duckdb_select import check_query
from .declared import check_types, failing_in_a_line, named_table
from .tables import TablesResource
from .ui_metadata import page_metadata

_SHOWN_ROWS = 10


@dataclass(frozen=True)
class SqlCheck:
    """What is checked of `table`: that `violations`, a SELECT, gives no row."""

    table: str
    name: str
    violations: str
    description: str | None
    blocking: bool


_declared: dict[int, tuple[dg.OpDefinition, SqlCheck]] = {}


def sql_check(
    table: str, name: str, violations: str, *, description: str | None = None, blocking: bool = False
) -> dg.AssetChecksDefinition:
    """A check of the asset of `table` that passes if `violations`, a SELECT, gives no row.

    Tables are read at the snapshots of the run; the first rows found, and the snapshot of `table`, are shown in the UI.
    """
    subject = f"sql_check of {table!r}"
    identifier = named_table(subject, table)
    check_types(subject, {"name": (name, str), "violations": (violations, str), "blocking": (blocking, bool)})
    if not name.strip():
        raise InvalidRequest(f"{subject}: name={name!r} is empty: give the check a name.")
    check_types(subject, {} if description is None else {"description": (description, str)})
    check_query(violations)
    declared = SqlCheck(f"{identifier.database}.{identifier.table}", name, violations, description, blocking)

    @dg.asset_check(
        asset=dg.AssetKey([identifier.database, identifier.table]),
        name=name,
        description=description,
        blocking=blocking,
    )
    def check(context: dg.AssetCheckExecutionContext, tables: TablesResource) -> dg.AssetCheckResult:
        with failing_in_a_line():
            rows = tables.query(context, violations)
            ref = tables.pin(context, table)
        metadata = check_metadata(declared, rows) | {"read_at": str(ref)} | page_metadata(ref)
        return dg.AssetCheckResult(passed=rows.num_rows == 0, metadata=metadata)

    _declared[id(check.node_def)] = (check.op, declared)
    return check


def sql_checks(checks: Sequence[Any]) -> list[SqlCheck]:
    """Those of some checks that are a SELECT."""
    return [
        _declared[id(check.node_def)][1]
        for check in checks
        if isinstance(check, dg.AssetChecksDefinition) and id(check.node_def) in _declared
    ]


def check_metadata(check: SqlCheck, rows: pa.Table) -> dict[str, Any]:
    """What the UI shows of the rows that a check has met: their number, the query, and the first of them."""
    metadata: dict[str, Any] = {
        "violations": rows.num_rows,
        "query": dg.MetadataValue.md(f"```sql\n{check.violations}\n```"),
    }
    if rows.num_rows:
        shown = [{key: str(value) for key, value in row.items()} for row in rows.slice(0, _SHOWN_ROWS).to_pylist()]
        metadata["first_rows"] = dg.MetadataValue.table([dg.TableRecord(row) for row in shown])
    return metadata
