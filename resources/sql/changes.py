"""INSERT, DELETE, UPDATE and MERGE: each a job that knows what it read, and one commit."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from lineage import LineageRecorder, sources_property
from storage import Clock, CommitId, InvalidRequest, SnapshotRef, StorageError, Table
from storage.engines.merge_clauses import MergeClause
from storage.sql.dialect import HINT_OPTIONS
from storage.sql.predicate_text import literal_of

from .engines import APPEND, DYNAMIC, OVERWRITE, Engine
from .fill import Fill
from .names import Names
from .place import at
from .query import Query
from .result import Result

JOB_OPTION = "pipeline.name"
_DEFAULT_JOB = "sql"
# A barrier is a time in milliseconds, then this many bits of chance.
_CHANCE_BITS = 20
# The parts of each statement that are carried out.
_CLAUSES: dict[type[exp.Expr], set[str]] = {
    exp.Insert: {"this", "expression", "overwrite", "partition", "by_name", "with_"},
    exp.Delete: {"this", "where"},
    exp.Update: {"this", "expressions", "where"},
    exp.Merge: {"this", "using", "on", "whens"},
}
_NAMES_OF_CLAUSES = {
    "alternative": "OR REPLACE | OR IGNORE", "conflict": "ON CONFLICT", "default": "DEFAULT VALUES", "exists": "IF EXISTS",
    "is_function": "FUNCTION", "joins": "JOIN", "sample": "TABLESAMPLE", "stored": "STORED AS", "tables": "without FROM",
    "order": "ORDER BY", "using_cond": "USING (columns)", "version": "VERSION AS OF", "where": "REPLACE WHERE",
}  # fmt: skip
_ADVICE = {
    "conflict": " Rows of a table with a primary key replace those with the same key; otherwise use MERGE INTO.",
    "from_": " Use MERGE INTO.",
    "tables": " Write DELETE FROM t.",
    "using": " Use MERGE INTO.",
    "where": " Use INSERT OVERWRITE … PARTITION (…), or MERGE INTO with WHEN NOT MATCHED BY SOURCE AND … THEN DELETE.",
    "with_": " Use MERGE INTO … USING (WITH … SELECT …).",
}


@dataclass(frozen=True)
class Job:
    """What records the lineage of a change, and under which name."""

    name: str
    recorder: LineageRecorder

    def how(self, sources: Sequence[SnapshotRef], properties: Mapping[str, str]) -> dict[str, Any]:
        """Commit id and properties of a change that was made from snapshots."""
        now_ms = Clock().now_ms()
        identifier = (now_ms << _CHANCE_BITS) | random.getrandbits(_CHANCE_BITS)
        commit_id = CommitId(self.name, identifier, exact=True, not_before_ms=now_ms)
        return {"commit_id": commit_id, "properties": {**sources_property(sources), **properties}}


def job_name(options: Mapping[str, str]) -> str:
    return options.get(JOB_OPTION) or _DEFAULT_JOB


@dataclass(frozen=True)
class Target:
    """Where the rows of an INSERT go: the table, its columns in the order of the query's, and what is replaced."""

    node: exp.Table
    table: Table
    columns: tuple[str, ...]
    partition: Mapping[str, str]
    mode: str
    change_tracking: bool
    by_name: bool = False


def target_of(insert: exp.Insert, names: Names) -> Target:
    """Read the head of an INSERT. Raises InvalidRequest for columns and partitions that are not the table's."""
    refuse_unused(insert)
    schema = insert.this if isinstance(insert.this, exp.Schema) else None
    node = schema.this if schema else insert.this
    if not isinstance(node, exp.Table):
        raise InvalidRequest(f"{node.sql()!r} is not the name of a table.")
    _refuse_more_than_a_name(node, "partition")
    by_name = bool(insert.args.get("by_name"))
    if by_name and (schema is not None or not isinstance(insert.expression, exp.Query)):
        raise at(
            node, InvalidRequest("INSERT … BY NAME takes a SELECT whose columns have names, and no list of columns.")
        )
    table = names.table(node)
    try:
        partition = partition_values(insert.args.get("partition") or node.args.get("partition"), table)
        listed = [one.name for one in schema.expressions] if schema else table.schema.column_names
        for name in listed:
            table.schema.field(name)
        if len(set(listed)) < len(listed):
            raise InvalidRequest(f"A column is named twice: {', '.join(listed)}.")
    except StorageError as error:
        raise at(node, error) from None
    columns = tuple(name for name in listed if name not in partition)
    mode = APPEND
    if insert.args.get("overwrite"):
        by_partition = (
            table.schema.partition_keys and table.schema.options.get("dynamic-partition-overwrite", "true") == "true"
        )
        mode = DYNAMIC if by_partition and not partition else OVERWRITE
    hints = dict(node.meta.get(HINT_OPTIONS) or ())
    tracking = hints.pop("change-tracking", "true").lower() != "false"
    if hints:
        raise at(node, InvalidRequest(f"Option {next(iter(hints))!r} is not known here. Known: 'change-tracking'."))
    return Target(node, table, columns, partition, mode, tracking, by_name)


def refuse_unused(node: exp.Expr) -> None:
    """Raise InvalidRequest for a clause of a statement that would not be carried out."""
    used = _CLAUSES[type(node)]
    for key, value in node.args.items():
        if value and key not in used:
            raise InvalidRequest(
                f"{node.key.upper()} … {_NAMES_OF_CLAUSES.get(key, key.strip('_').upper())} is not supported here."
                f"{_ADVICE.get(key, '')}"
            )


def changed_table(node: exp.Expr | None, names: Names) -> Table:
    """The table of a DELETE, UPDATE or MERGE, at its latest version. Raises InvalidRequest for one that is read otherwise."""
    if not isinstance(node, exp.Table):
        raise InvalidRequest("Name the table: DELETE FROM t, UPDATE t, MERGE INTO t.")
    _refuse_more_than_a_name(node, "alias")
    hints = dict(node.meta.get(HINT_OPTIONS) or ())
    if hints:
        raise at(node, InvalidRequest(f"Option {next(iter(hints))!r} is not known here: the statement takes no hint."))
    return names.table(node)


def _refuse_more_than_a_name(node: exp.Table, allowed: str) -> None:
    for key, value in node.args.items():
        if value and key not in ("this", "db", "catalog", allowed):
            named = _NAMES_OF_CLAUSES.get(key, key.strip("_").upper())
            raise at(node, InvalidRequest(f"{node.name!r} is to be changed: {named} has no place behind it."))


def partition_values(node: exp.Expr | None, table: Table) -> dict[str, str]:
    """`PARTITION (day = '2024-05-01', hour)`: the columns that have a value. Raises InvalidRequest for others than those
    the table is partitioned by.
    """
    found: dict[str, str] = {}
    for one in node.expressions if node else []:
        column = one.this if isinstance(one, exp.EQ) else one
        if column.name not in table.schema.partition_keys:
            raise InvalidRequest(
                f"{column.name!r} is not a partition column of {table.identifier}. Partition columns: "
                f"{', '.join(table.schema.partition_keys) or 'none'}."
            )
        if isinstance(one, exp.EQ):
            if not isinstance(one.expression, exp.Literal | exp.Cast | exp.Neg):
                raise InvalidRequest(f"The value of partition column {column.name!r} is a constant.")
            found[column.name] = literal_of(one.expression)
    return found


def query_of(insert: exp.Insert) -> exp.Expr:
    """The SELECT whose rows are inserted; VALUES become one."""
    source = insert.expression
    if isinstance(source, exp.Values):
        widths = {len(row.expressions) for row in source.expressions}
        if len(widths) != 1:
            raise InvalidRequest("The rows after VALUES have different numbers of values.")
        names = [exp.to_identifier(f"c{number}") for number in range(widths.pop())]
        values = exp.Values(
            expressions=source.expressions, alias=exp.TableAlias(this=exp.to_identifier("v"), columns=names)
        )
        return exp.select("*").from_(values)
    if not isinstance(source, exp.Query):
        raise InvalidRequest("INSERT takes a SELECT or VALUES.")
    before = insert.args.get("with_")
    if before:
        source = source.copy()
        # Those of the SELECT may read those that stand before INSERT.
        both = before.copy()
        inner = source.args.get("with_")
        if inner:
            both.set("expressions", [*both.expressions, *inner.expressions])
            both.set("recursive", both.args.get("recursive") or inner.args.get("recursive"))
        source.set("with_", both)
    return source


def fitted(names: Sequence[str], target: Target) -> list[Fill]:
    """How the columns of a query become the table's: by position or name, those left out null, the partition's filled in.

    Raises InvalidRequest if there are too many or too few, or a column that must not be null gets nothing.
    """
    if target.by_name:
        return _filled(_positions(names, target), target)
    if len(names) != len(target.columns):
        raise InvalidRequest(
            f"{target.table.identifier} takes {len(target.columns)} columns ({', '.join(target.columns)}), the query gives "
            f"{len(names)} ({', '.join(names)})."
        )
    return _filled(dict(zip(target.columns, range(len(names)), strict=True)), target)


def _positions(names: Sequence[str], target: Target) -> dict[str, int]:
    """Where each column of the table stands in a query, by its name in whatever case."""
    found: dict[str, int] = {}
    for position, name in enumerate(names):
        column = name if name in target.columns else None
        if column is None:
            column = next((one for one in target.columns if one.lower() == name.lower()), None)
        if column is None or column in found:
            raise InvalidRequest(
                f"INSERT … BY NAME into {target.table.identifier}: the query's column {name!r} "
                f"{'is there twice' if column else 'is none that it takes'}. Columns: {', '.join(target.columns)}."
            )
        found[column] = position
    return found


def _filled(given: Mapping[str, int], target: Target) -> list[Fill]:
    found = []
    for field in target.table.schema.fields:
        fill = Fill(field.name, given.get(field.name), target.partition.get(field.name))
        if fill.position is None and fill.value is None and not field.type.nullable:
            raise InvalidRequest(f"Column {field.name!r} of {target.table.identifier} is NOT NULL and gets no value.")
        found.append(fill)
    return found


def written(target: Table, snapshot: Any, verb: str) -> Result:
    """What a change did, in a sentence."""
    if snapshot is None:
        return Result(f"Nothing to {verb}: {target.identifier} stays as it is.")
    changes = target.changes_of(snapshot)
    return Result(
        f"Snapshot {snapshot.id} of {target.identifier}: {changes.rows_added} rows in {changes.files_added} files added, "
        f"{changes.files_deleted} files replaced."
    )


# --- rows that are there


def renamed(condition: exp.Expr, names: Mapping[str, str], default: str | None) -> exp.Expr:
    """A condition in which the aliases of a statement have become `target` and `source`."""
    copy = condition.copy()
    for column in copy.find_all(exp.Column):
        if column.find_ancestor(exp.Query):
            raise InvalidRequest("A condition with a query of its own is not supported here: use MERGE.")
        table = names.get(column.table.lower()) if column.table else default
        if column.table and table is None:
            raise at(
                column, InvalidRequest(f"{column.table!r} is no table of this statement. Tables: {', '.join(names)}.")
            )
        if table is not None:
            column.set("table", exp.to_identifier(table))
            column.set("db", None)
            column.set("catalog", None)
    if copy.find(exp.Query):
        raise InvalidRequest("A condition with a query of its own is not supported here: use MERGE.")
    return copy


def assignments(
    expressions: Sequence[exp.Expr], names: Mapping[str, str], default: str | None, engine: Engine
) -> dict[str, str]:
    """`SET column = value, …`: the values in the engine's SQL, by column."""
    found: dict[str, str] = {}
    for one in expressions:
        if not isinstance(one, exp.EQ) or not isinstance(one.this, exp.Column):
            raise InvalidRequest(f"{one.sql()!r} sets no column.")
        column = one.this
        if column.args.get("db") or (column.table and names.get(column.table.lower()) != "target"):
            raise at(
                column, InvalidRequest(f"{column.sql()!r} cannot be set: it is no column of the table that changes.")
            )
        if column.name.lower() in {name.lower() for name in found}:
            raise at(column, InvalidRequest(f"Column {column.name!r} is set twice."))
        found[column.name] = engine.text(renamed(one.expression, names, default))
    return found


def merge_clauses(
    merge: exp.Merge, names: Mapping[str, str], columns: Sequence[str], engine: Engine
) -> list[MergeClause]:
    """The WHEN clauses of a MERGE. Raises InvalidRequest for what the table cannot do."""
    clauses = []
    for when in merge.args["whens"].expressions:
        kind = (
            "matched" if when.args["matched"] else "not matched by source" if when.args.get("source") else "not matched"
        )
        condition = when.args.get("condition")
        text = engine.text(renamed(condition, names, None)) if condition is not None else None
        then = when.args["then"]
        if isinstance(then, exp.Update | exp.Insert):
            _refuse_unused_then(then)
        if isinstance(then, exp.Update):
            values = None
            if not any(isinstance(one, exp.Star) for one in then.expressions):
                default = "target" if kind == "not matched by source" else None
                values = assignments(then.expressions, names, default, engine)
            clauses.append(MergeClause(kind, "update", text, values))  # type: ignore[arg-type]
        elif isinstance(then, exp.Insert):
            clauses.append(MergeClause(kind, "insert", text, _inserted(then, names, columns, engine)))  # type: ignore[arg-type]
        elif then.name.upper() == "DELETE":
            clauses.append(MergeClause(kind, "delete", text))  # type: ignore[arg-type]
        else:
            raise InvalidRequest(f"WHEN … THEN {then.sql()} is not known: UPDATE, DELETE or INSERT.")
    return clauses


def _refuse_unused_then(then: exp.Update | exp.Insert) -> None:
    """Raise InvalidRequest for what UPDATE and INSERT in a MERGE cannot do."""
    used = {"expressions"} if isinstance(then, exp.Update) else {"this", "expression"}
    stars = [one for one in (then.this, *then.expressions) if isinstance(one, exp.Star)]
    if any(value for key, value in then.args.items() if key not in used) or any(
        any(one.args.values()) for one in stars
    ):
        raise InvalidRequest(
            f"WHEN … THEN {then.sql()}: conditions stand before THEN, and * takes all columns: no WHERE, no EXCEPT."
        )
    if len(then.expressions) > 1 and stars:
        raise InvalidRequest(f"WHEN … THEN {then.sql()}: * sets every column, so that nothing stands beside it.")


def _inserted(
    then: exp.Insert, names: Mapping[str, str], columns: Sequence[str], engine: Engine
) -> dict[str, str] | None:
    if isinstance(then.this, exp.Star) or then.expression is None:
        return None
    listed = [one.name for one in then.this.expressions] if then.this is not None else list(columns)
    if len({one.lower() for one in listed}) < len(listed):
        raise InvalidRequest(f"A column is named twice: {', '.join(listed)}.")
    values = then.expression.expressions
    if len(listed) != len(values):
        raise InvalidRequest(f"INSERT names {len(listed)} columns and gives {len(values)} values.")
    return {name: engine.text(renamed(value, names, "source")) for name, value in zip(listed, values, strict=True)}


def references(query: Query) -> list[SnapshotRef]:
    """The snapshots that a query reads, once each, in order."""
    found = {one.source.ref: None for one in query.inputs if one.source.ref is not None}
    return sorted(ref for ref in found if ref is not None)
