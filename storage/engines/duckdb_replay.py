"""What has been done to a table between two of its snapshots, as rows that can be written to a branch of it."""

from collections.abc import Iterable, Iterator, Sequence

import duckdb
import pyarrow as pa

from ..errors import Unsupported
from ..metadata.change_tracking import UNTRACKED_PROPERTY
from ..metadata.snapshot import APPEND
from ..table import Table
from .duckdb_connection import sealed_duckdb
from .duckdb_views import quoted as _q

ROW_KIND = "rowkind"
# Merge engines that make another row of a whole row that is written.
_ADD_UP = ("aggregation", "first-row")


def rows_to_replay(table: Table, after: int, until: int) -> pa.Table:
    """The rows by which a table at one snapshot becomes that at another, with their kinds in the column `rowkind`. `after` 0:
    from an empty table.

    They are the rows that were written where these say everything, else the difference between both, in memory. Raises
    Unsupported where neither can be written to another state of the table, NotFound if one of them has expired.
    """
    if _is_told_by_changes(table, after, until):
        return table.changes(after=after or None, until=until).drop_columns(["snapshot_id"])
    options, keys = table.store.options, table.schema.primary_keys
    went, came = _difference(_at(table, after), _at(table, until), keys)
    if keys and options.merge_engine in _ADD_UP:
        raise _cannot(table, after, until, f"'merge-engine' = {options.merge_engine!r} makes other rows of them")
    if options.ignore_delete and went.num_rows:
        raise _cannot(table, after, until, "'ignore-delete' keeps what was deleted")
    return pa.concat_tables([_of_kind(went, "-D"), _of_kind(came, "+U" if keys else "+I")])


def corrected_and_changed(
    table: Table, made: Iterable[int], branch: Table, begun: int
) -> Iterator[tuple[int, pa.Table]]:
    """For each of some snapshots of a table the keys of rows that it has changed, and that a branch of it has changed since
    it began: but for those of which the branch holds what the snapshot was computed from. In memory, the branch read once. Raises
    NotFound if a snapshot has expired.
    """
    then, now = _at(branch, begun), _at(branch, branch.snapshots.latest_id() or begun)
    for number in made:
        yield number, _corrected_and_changed(table, _at(table, number - 1), _at(table, number), then, now)


def _corrected_and_changed(table: Table, before: pa.Table, after: pa.Table, begun: pa.Table, now: pa.Table) -> pa.Table:
    states = {"before": before, "after": after, "begun": begun, "now": now}
    names, keys = ", ".join(map(_q, after.column_names)), ", ".join(map(_q, table.schema.primary_keys))

    def add(connection: duckdb.DuckDBPyConnection) -> Iterable[str]:
        for name, rows in states.items():
            connection.register(name, _as(rows, after.schema))
        return ()

    def only(left: str, right: str) -> str:
        return f"SELECT {keys} FROM (SELECT {names} FROM {left} EXCEPT ALL SELECT {names} FROM {right})"

    changed, corrected = only("after", "before"), f"({only('now', 'begun')} UNION {only('begun', 'now')})"
    other = f"({only('now', 'before')} UNION {only('before', 'now')})"
    with sealed_duckdb(add) as connection:
        return connection.sql(f"({changed}) INTERSECT {corrected} INTERSECT {other} ORDER BY ALL").to_arrow_table()


def _cannot(table: Table, after: int, until: int, why: str) -> Unsupported:
    return Unsupported(
        f"What has been done to {table.identifier} between snapshots {after} and {until} cannot be written to a branch: the "
        f"changes that it tells are not all of it, and of the rows that differ {why}."
    )


def _is_told_by_changes(table: Table, after: int, until: int) -> bool:
    """Whether the changes that readers get are all there was: not those that a compaction tells later, nor those that somebody
    kept from readers, nor overwrites.
    """
    if table.store.options.changelog_producer not in ("none", "input"):
        return False
    made = [snapshot for snapshot in table.snapshots.between(after, until) if snapshot.changes_rows]
    return all(
        snapshot.commit_kind == APPEND and UNTRACKED_PROPERTY not in (snapshot.properties or {}) for snapshot in made
    )


def _at(table: Table, snapshot_id: int) -> pa.Table:
    """The rows of a snapshot, with those that readers see only once a compaction has moved them."""
    if not snapshot_id:
        return table.schema.to_arrow().empty_table()
    return table.after_commit(snapshot_id).to_arrow()


def _difference(before: pa.Table, after: pa.Table, keys: Sequence[str]) -> tuple[pa.Table, pa.Table]:
    """The rows that went, and those that came, each as often as it is missing on the other side; with keys, a row that has
    changed is among those that came alone.
    """
    names = after.column_names
    before = _as(before, after.schema)

    def add(connection: duckdb.DuckDBPyConnection) -> Iterable[str]:
        connection.register("before", before)
        connection.register("after", after)
        return ()

    columns = ", ".join(map(_q, names))
    with sealed_duckdb(add) as connection:

        def only(left: str, right: str, where: str = "") -> pa.Table:
            text = f"SELECT {columns} FROM (SELECT {columns} FROM {left} EXCEPT ALL SELECT {columns} FROM {right}) gone{where}"
            return connection.sql(text).to_arrow_table().cast(after.schema)

        same = " AND ".join(f"now.{_q(key)} IS NOT DISTINCT FROM gone.{_q(key)}" for key in keys)
        return only(
            "before", "after", f" WHERE NOT EXISTS (SELECT 1 FROM after now WHERE {same})" if keys else ""
        ), only("after", "before")


def _as(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Rows with the columns of a schema; those that were added since are null."""
    for field in schema:
        if field.name not in rows.column_names:
            rows = rows.append_column(field.name, pa.nulls(rows.num_rows, field.type))
    return rows.select(schema.names).cast(schema)


def _of_kind(rows: pa.Table, kind: str) -> pa.Table:
    return rows.append_column(ROW_KIND, pa.array([kind] * rows.num_rows, pa.string()))
