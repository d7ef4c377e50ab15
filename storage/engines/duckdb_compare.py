"""Two versions of a table, compared row by row and column by column, by DuckDB."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import duckdb
import pyarrow as pa

from ..errors import InvalidRequest
from ..maintain.verdict import first_other_version
from ..read.scan import Scan
from ..table import Table
from .duckdb_connection import sealed_duckdb
from .duckdb_views import add_scan
from .duckdb_views import quoted as _q

_LEFT, _RIGHT = "before", "after"
_SHOWN_ROWS = 20


@dataclass(frozen=True)
class Comparison:
    """How two versions differ. Rows are matched by key; without one, equal rows are, each as often as it occurs.

    `changed_columns`: for each column in how many matched rows it differs. `columns_renamed`: of versions and branches of one
    table, pairs of the name before and after; such columns are compared under their new name. `examples`: the first rows that
    differ, with the column `difference` (added, removed, changed; with underscores behind it if the table has one of that name),
    the key, and for changed columns `<name> before` and `<name> after`; for tables without a key whole rows.
    """

    rows_before: int
    rows_after: int
    added: int
    removed: int
    changed: int
    changed_columns: Mapping[str, int] = field(default_factory=dict)
    columns_added: tuple[str, ...] = ()
    columns_removed: tuple[str, ...] = ()
    columns_renamed: tuple[tuple[str, str], ...] = ()
    examples: pa.Table | None = None

    @property
    def identical(self) -> bool:
        """Whether both sides have the same rows."""
        rows, columns = (self.added, self.removed, self.changed), (self.columns_added, self.columns_removed)
        return not (any(rows) or any(columns) or self.columns_renamed)

    def describe(self) -> str:
        """A sentence."""
        if self.identical:
            return f"identical: {self.rows_after} rows"
        parts = [
            f"{count} rows {what}"
            for count, what in ((self.added, "added"), (self.removed, "removed"), (self.changed, "changed"))
            if count
        ]
        if self.changed_columns:
            parts[-1] += f" ({', '.join(f'{name}: {count}' for name, count in self.changed_columns.items())})"
        parts += [f"column {name} added" for name in self.columns_added]
        parts += [f"column {name} removed" for name in self.columns_removed]
        parts += [f"column {old} renamed to {new}" for old, new in self.columns_renamed]
        return ", ".join(parts)


def compare(before: Table, after: Table, *, where: str | None = None, tolerance: float = 1e-9) -> Comparison:
    """How the rows of two tables, or of two versions or branches of one, differ.

    `where` restricts both sides. Floating-point numbers count as equal if they differ by no more than `tolerance` of the
    larger one: sums come out differently in the last digits when rows are added up in another order. Columns of versions and
    branches of one table are the same if their field ids are, whatever they are called; those of two tables, and of branches
    of which both were altered, if their names are. Raises InvalidRequest if the keys are not the same.
    """
    left, right = before.scan(), after.scan()
    matched = _matched(before, after)
    key = [matched.get(name, name) for name in left.store.schema.primary_keys]
    if key != list(right.store.schema.primary_keys):
        raise InvalidRequest(
            f"{before.identifier} and {after.identifier} have different primary keys and cannot be compared row by row."
        )
    names = [matched[name] for name in left.schema.names if name in matched]

    def add(connection: duckdb.DuckDBPyConnection) -> list[str]:
        return [*add_scan(connection, "whole", _LEFT, left), *add_scan(connection, "whole", _RIGHT, right)]

    with sealed_duckdb(add) as connection:
        for name, columns in _compared_sides(left, right, matched):
            whole = f"(SELECT {columns} FROM whole.{name})"
            connection.execute(f"CREATE TEMP VIEW {name} AS SELECT * FROM {whole} WHERE {where or 'TRUE'}")
        compared = _Compared(connection, key, names, right.schema, tolerance)
        differences = compared.by_key() if key else compared.as_multisets()
        return Comparison(
            *differences[:-2],
            columns_added=tuple(name for name in right.schema.names if name not in names),
            columns_removed=tuple(name for name in left.schema.names if name not in matched),
            columns_renamed=tuple((old, new) for old, new in matched.items() if old != new),
            changed_columns=differences[-2],
            examples=differences[-1],
        )


def _matched(before: Table, after: Table) -> dict[str, str]:
    """The columns that both sides have, their names after by their names before: by field id in versions and branches of one
    table. By name in two tables, and in branches of which both were altered: they may have given one number to two columns.
    """
    old, new = before.scan(), after.scan()
    there = {*new.schema.names}
    is_one_branch = old.store.paths.branch == new.store.paths.branch
    if before.location != after.location or not (is_one_branch or first_other_version(old.store, new.store) is None):
        return {name: name for name in old.schema.names if name in there}
    now = {field.id: field.name for field in new.store.schema.fields if field.name in there}
    return {field.name: now[field.id] for field in old.store.schema.fields if field.id in now}


def _compared_sides(left: Scan, right: Scan, matched: Mapping[str, str]) -> list[tuple[str, str]]:
    """The two sides by their names, each with the columns that are compared, under the names of the later one."""
    former = {new: old for old, new in matched.items()}
    later = {name: (name, former.get(name)) for name in right.schema.names}
    # What is there no more makes room for another column of its name.
    earlier = {
        name: (matched.get(name, name), matched.get(name))
        for name in left.schema.names
        if name in matched or name not in right.schema.names
    }
    return [(_LEFT, _compared_columns(left, right, earlier)), (_RIGHT, _compared_columns(right, left, later))]


def _compared_columns(scan: Scan, other: Scan, columns: Mapping[str, tuple[str, str | None]]) -> str:
    """Columns of one side, each with what it is called and its name on the other side, if it is there; as text what only the
    other side has as text, since a column that has become a text holds what is no number.
    """
    selected = []
    for name, (shown, there) in columns.items():
        as_text = there is not None and _is_text(other, there) and not _is_text(scan, name)
        value = f"CAST({_q(name)} AS VARCHAR)" if as_text else _q(name)
        selected.append(f"{value} AS {_q(shown)}")
    return ", ".join(selected)


def _is_text(scan: Scan, name: str) -> bool:
    return bool(pa.types.is_string(scan.schema.field(name).type))


def count_changes(
    before: Table, after: Table, where: str | None = None
) -> list[tuple[dict[str, str | None], tuple[int, int, int]]]:
    """How many rows of two versions of a table with a primary key were added, changed and removed: a quick `compare`, for
    each partition with rows, by the values of its columns as text. A table without partitions has the one partition `{}`.
    """
    left, right = before.scan(where=where), after.scan(where=where)
    schema = right.store.schema
    key, partition = list(schema.primary_keys), list(schema.partition_keys)
    matched = _matched(before, after)
    values = [name for name in right.schema.names if name in matched.values() and name not in key]
    added = [name for name in right.schema.names if name not in matched.values()]

    def add(connection: duckdb.DuckDBPyConnection) -> list[str]:
        return [*add_scan(connection, "whole", _LEFT, left), *add_scan(connection, "whole", _RIGHT, right)]

    with sealed_duckdb(add, threads=1) as connection:
        for name, columns in _compared_sides(left, right, matched):
            connection.execute(f"CREATE TEMP VIEW {name} AS SELECT {columns} FROM whole.{name}")
        # In a column that has come in between the rows of before had nulls.
        conditions = [f"l.{_q(name)} IS DISTINCT FROM r.{_q(name)}" for name in values]
        conditions += [f"r.{_q(name)} IS NOT NULL" for name in added]
        differs = " OR ".join(conditions) or "FALSE"
        gone, come = f"r.{_q(key[0])} IS NULL", f"l.{_q(key[0])} IS NULL"
        parts = [f"CAST(coalesce(l.{_q(name)}, r.{_q(name)}) AS VARCHAR)" for name in partition]
        counts = connection.execute(
            f"SELECT {', '.join([*parts, ''])}count(*) FILTER ({come}), "
            f"count(*) FILTER (NOT {gone} AND NOT {come} AND ({differs})), "
            f"count(*) FILTER ({gone}) FROM {_LEFT} l FULL OUTER JOIN {_RIGHT} r "
            f"ON {' AND '.join(f'l.{_q(name)} = r.{_q(name)}' for name in key)}"
            + (f" GROUP BY {', '.join(map(str, range(1, len(parts) + 1)))}" if parts else "")
        ).fetchall()
    width = len(partition)
    return [
        (dict(zip(partition, row[:width], strict=True)), (row[width], row[width + 1], row[width + 2])) for row in counts
    ]


@dataclass
class _Compared:
    connection: duckdb.DuckDBPyConnection
    key: list[str]
    names: list[str]
    schema: pa.Schema
    tolerance: float

    def _one(self, sql: str) -> tuple[int, ...]:
        return tuple(int(value or 0) for value in self.connection.execute(sql).fetchall()[0])

    def by_key(self) -> tuple[int, int, int, int, int, dict[str, int], pa.Table]:
        values = [name for name in self.names if name not in self.key]
        # Columns have numbers here: a table's own names could be any of ours.
        on = " AND ".join(f"l.{_q(name)} = r.{_q(name)}" for name in self.key)
        first = _q(self.key[0])
        differs = [self._differs(name) for name in values]
        selected = ", ".join(f"({condition}) AS d{number}" for number, condition in enumerate(differs))
        both = [f", l.{_q(name)} AS l{number}, r.{_q(name)} AS r{number}" for number, name in enumerate(values)]
        self.connection.execute(
            f"""CREATE TEMP TABLE matched AS SELECT
                CASE WHEN l.{first} IS NULL THEN 'added' WHEN r.{first} IS NULL THEN 'removed'
                     WHEN {" OR ".join(f"({column})" for column in differs) or "FALSE"} THEN 'changed' ELSE '' END AS difference,
                {", ".join(f"coalesce(l.{_q(name)}, r.{_q(name)}) AS k{number}" for number, name in enumerate(self.key))}
                {", " + selected if selected else ""}{"".join(both)}
                FROM {_LEFT} l FULL OUTER JOIN {_RIGHT} r ON {on}"""
        )
        rows = self._one(f"SELECT (SELECT count(*) FROM {_LEFT}), (SELECT count(*) FROM {_RIGHT})")
        kinds = self._one(
            "SELECT "
            + ", ".join(f"count(*) FILTER (difference = '{value}')" for value in ("added", "removed", "changed"))
            + " FROM matched"
        )
        counts: dict[str, int] = {}
        if values and kinds[2]:
            changed_counts = self._one(
                "SELECT "
                + ", ".join(f"count(*) FILTER (d{number})" for number in range(len(values)))
                + " FROM matched WHERE difference = 'changed'"
            )
            counts = {name: count for name, count in zip(values, changed_counts, strict=True) if count}
        shown = ", ".join(
            f"l{number} AS {_q(f'{name} {_LEFT}')}, r{number} AS {_q(f'{name} {_RIGHT}')}"
            for number, name in enumerate(values)
            if name in counts
        )
        keys = ", ".join(f"k{number} AS {_q(name)}" for number, name in enumerate(self.key))
        order = ", ".join(f"k{number}" for number in range(len(self.key)))
        examples = self.connection.sql(
            f"SELECT difference AS {self._difference}, {keys}{', ' + shown if shown else ''} FROM matched "
            f"WHERE difference <> '' ORDER BY {order} LIMIT {_SHOWN_ROWS}"
        ).to_arrow_table()
        return rows[0], rows[1], *kinds[:3], counts, examples

    @property
    def _difference(self) -> str:
        """The name of the column that tells how a row differs."""
        name = "difference"
        while name in {each.casefold() for each in self.names}:
            name += "_"
        return name

    def _differs(self, name: str) -> str:
        left, right = f"l.{_q(name)}", f"r.{_q(name)}"
        if pa.types.is_floating(self.schema.field(name).type) and self.tolerance:
            near = f"abs({left} - {right}) <= {self.tolerance} * greatest(abs({left}), abs({right}))"
            return f"{left} IS DISTINCT FROM {right} AND NOT coalesce({near}, FALSE)"
        return f"{left} IS DISTINCT FROM {right}"

    def as_multisets(self) -> tuple[int, int, int, int, int, dict[str, int], pa.Table]:
        columns = ", ".join(map(_q, self.names))
        for view, each, other in (("gone", _LEFT, _RIGHT), ("come", _RIGHT, _LEFT)):
            self.connection.execute(
                f"CREATE TEMP TABLE {view} AS SELECT {columns} FROM {each} EXCEPT ALL SELECT {columns} FROM {other}"
            )
        counts = self._one(
            f"SELECT (SELECT count(*) FROM {_LEFT}), (SELECT count(*) FROM {_RIGHT}), "
            "(SELECT count(*) FROM come), (SELECT count(*) FROM gone)"
        )
        examples = self.connection.sql(
            f"(SELECT 'removed' AS {self._difference}, * FROM gone LIMIT {_SHOWN_ROWS // 2}) UNION ALL "
            f"(SELECT 'added' AS {self._difference}, * FROM come LIMIT {_SHOWN_ROWS // 2})"
        ).to_arrow_table()
        return counts[0], counts[1], counts[2], counts[3], 0, {}, examples
