"""Asset checks written as SQL: a SELECT of the rows that should not be there, run on DuckDB."""

from typing import Any

import dagster as dg

from storage import Identifier

from .tables import TablesResource

_SHOWN_ROWS = 10


def sql_check(
    table: str, name: str, violations: str, *, description: str | None = None, blocking: bool = False
) -> dg.AssetChecksDefinition:
    """A check of the asset of `table` that passes if `violations`, a SELECT, gives no row.

    Tables are read at the snapshots of the run; the first rows found are shown in the UI.
    """
    identifier = Identifier.parse(table)

    @dg.asset_check(
        asset=dg.AssetKey([identifier.database, identifier.table]),
        name=name,
        description=description,
        blocking=blocking,
    )
    def check(context: dg.AssetCheckExecutionContext, tables: TablesResource) -> dg.AssetCheckResult:
        found = tables.query(context, violations)
        metadata: dict[str, Any] = {
            "violations": found.num_rows,
            "query": dg.MetadataValue.md(f"```sql\n{violations}\n```"),
        }
        if found.num_rows:
            rows = [{key: str(value) for key, value in row.items()} for row in found.slice(0, _SHOWN_ROWS).to_pylist()]
            metadata["first_rows"] = dg.MetadataValue.table([dg.TableRecord(row) for row in rows])
        return dg.AssetCheckResult(passed=found.num_rows == 0, metadata=metadata)

    return check
