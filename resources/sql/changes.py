"""INSERT, and what all changes have in common: each is a job that knows what it read, and one commit."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from lineage import LineageRecorder, sources_property
from storage import (
    Clock,
    CommitId,
    InvalidRequest,
    NotFound,
    SnapshotRef,
    StorageError,
    Table,
    TopicRange,
    default_of,
)
from storage.sql.dialect import HINT_OPTIONS, shown
from storage.sql.predicate_text import literal_of
from storage.sql.pure_expression import is_of_row_alone

from ..actions import counted
from .default_words import default_tree, is_default
from .engine import APPEND, DYNAMIC, OVERWRITE
from .fill import Fill
from .held_names import held_name, held_names
from .names import Names
from .place import at
from .prepare import as_select
from .query import Query
from .result import Result
from .settings import JOB_OPTION
from .unread import plain

_LEADING_ZEROS = re.compile(r"^(-?)0+(?=\d)")


@dataclass(frozen=True)
class Job:
    """What records the lineage of a change, and under which name."""

    name: str
    recorder: LineageRecorder

    def commit_details(self, sources: Sequence[SnapshotRef], properties: Mapping[str, str]) -> dict[str, Any]:
        """Commit id and properties of a change that was made from snapshots."""
        clock = Clock()
        commit_id = CommitId.of_moment(self.name, clock.now_ms(), clock.random_bits(32), is_new=True)
        return {"commit_id": commit_id, "properties": {**sources_property(sources), **properties}}


def job_name(options: Mapping[str, str], catalog: str, table: Table) -> str:
    """The name of a change's job: the one that was set, or one of its own for each table that is changed."""
    return options.get(JOB_OPTION) or f"insert-into_{catalog}.{table.identifier}"


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
    schema = insert.this if isinstance(insert.this, exp.Schema) else None
    node = schema.this if schema else insert.this
    if not isinstance(node, exp.Table):
        raise InvalidRequest(f"{node.sql()!r} is not the name of a table.")
    by_name = bool(insert.args.get("by_name"))
    if by_name and (schema is not None or not isinstance(insert.expression, exp.Query)):
        raise at(
            node, InvalidRequest("INSERT … BY NAME takes a SELECT whose columns have names, and no list of columns.")
        )
    table = names.table(node)
    try:
        partition = partition_values(insert.args.get("partition") or node.args.get("partition"), table, partly=True)
        listed = table.schema.column_names
        if schema:
            listed = held_names([expression.name for expression in schema.expressions], listed)
        for name in listed:
            table.schema.field(name)
            if schema and name in partition:
                raise InvalidRequest(
                    f"Column {name!r} has its value in PARTITION (…), and is listed as well. Leave it out."
                )
    except StorageError as error:
        raise at(node, error) from None
    columns = tuple(name for name in listed if name not in partition)
    mode = APPEND
    if insert.args.get("overwrite"):
        by_partition = (
            table.schema.partition_keys and table.schema.options.get("dynamic-partition-overwrite", "true") == "true"
        )
        mode = DYNAMIC if by_partition and not partition else OVERWRITE
    hints = dict(node.args.get(HINT_OPTIONS) or node.meta.get(HINT_OPTIONS) or ())
    given = hints.pop("change-tracking", "true")
    if given.lower() not in ("true", "false"):
        raise at(node, InvalidRequest(f"Option 'change-tracking' = {given!r} is neither true nor false."))
    tracking = given.lower() == "true"
    if hints:
        raise at(node, InvalidRequest(f"Option {next(iter(hints))!r} is not known here. Known: 'change-tracking'."))
    return Target(node, table, columns, partition, mode, tracking, by_name)


def refuse_beside_condition(target: Target, *, streams: bool) -> None:
    """Raise InvalidRequest for what is not carried out beside REPLACE WHERE."""
    clauses = {
        "execution.runtime-mode = streaming": streams,
        "OVERWRITE": target.mode != APPEND,
        "PARTITION (…)": bool(target.partition),
        "OPTIONS('change-tracking' = 'false')": not target.change_tracking,
    }
    for name in (each for each, is_there in clauses.items() if is_there):
        raise at(
            target.node,
            InvalidRequest(
                f"{name} is not carried out beside REPLACE WHERE: INSERT INTO t REPLACE WHERE condition SELECT …, in batch."
            ),
        )


def condition_of(insert: exp.Insert) -> exp.Expr:
    """The condition of a REPLACE WHERE, which is asked of the rows that are there and of those that come. Raises InvalidRequest
    for one that is not of a row alone.
    """
    condition: exp.Expr = insert.args["where"]
    for node in condition.walk():
        if not is_of_row_alone(node):
            raise at(
                insert,
                at(
                    node,
                    InvalidRequest(
                        f"{shown(plain(node))!r} has no place in the condition of REPLACE WHERE, which is computed from the "
                        "columns of one row: no queries, no time of the query, no random numbers."
                    ),
                ),
            )
    return condition


def changed_table(node: exp.Expr | None, names: Names) -> Table:
    """The table of a DELETE, UPDATE or MERGE, at its latest version. Raises InvalidRequest for one that is read otherwise."""
    if not isinstance(node, exp.Table):
        raise InvalidRequest("Name the table: DELETE FROM t, UPDATE t, MERGE INTO t.")
    return names.table(node)


def partition_values(node: exp.Expr | None, table: Table, *, partly: bool = False) -> dict[str, str]:
    """`PARTITION (day = '2024-05-01', hour)`: the columns that have a value; `partly`: some may have none, for they stand in
    the rows. Raises InvalidRequest for others than those the table is partitioned by, and for one that is named twice.
    """
    values: dict[str, str] = {}
    named: list[str] = []
    for item in node.expressions if node else []:
        column = item.this if isinstance(item, exp.EQ) else item
        name = held_name(column.name, table.schema.partition_keys)
        if name is None:
            raise InvalidRequest(
                f"{column.name!r} is not a partition column of {table.identifier}. Partition columns: "
                f"{', '.join(table.schema.partition_keys) or 'none'}."
            )
        if name in named:
            raise InvalidRequest(f"PARTITION names {name!r} twice: one partition has one value of each column.")
        named.append(name)
        if isinstance(item, exp.EQ):
            if isinstance(item.expression, exp.Null):
                raise InvalidRequest(
                    f"PARTITION ({name} = NULL) is not supported: leave the column out there, and give NULL in the rows."
                )
            values[name] = _partition_value(name, item.expression, is_text=table.schema.field(name).type.is_text)
        elif not partly:
            raise InvalidRequest(f"PARTITION ({name}) says no value: write {name} = …, or leave the column out.")
    return values


def _partition_value(name: str, constant: exp.Expr, *, is_text: bool) -> str:
    """The text of a constant, as Spark gives its value to a column of texts: 01 is the number 1."""
    if isinstance(constant, exp.Boolean):
        return str(constant.this).lower()
    if not isinstance(constant, exp.Literal | exp.Cast | exp.Neg):
        raise InvalidRequest(
            f"PARTITION ({name} = …) takes a constant: '2024-05-01', 5. Other values stand in the rows."
        )
    text = str(literal_of(constant))
    literal = constant.find(exp.Literal)
    if literal is not None and literal.is_string:
        return text
    if is_text and "e" in text.lower():
        raise InvalidRequest(f"PARTITION ({name} = {text}): {name} is a text, and this a number: write it in quotes.")
    return _LEADING_ZEROS.sub(r"\1", text)


def query_of(insert: exp.Insert, target: Target) -> exp.Expr:
    """A copy of the query whose rows are inserted, with the defaults of columns where the word DEFAULT stands."""
    source: exp.Expr = insert.expression
    before = insert.args.get("with_")
    if not isinstance(source, exp.Query | exp.Values):
        raise at(insert, InvalidRequest("INSERT takes a SELECT, VALUES (…) or TABLE t."))
    source = source.copy()
    _put_defaults(source, target)
    if before:
        # Those of the SELECT may read those that stand before INSERT.
        both = before.copy()
        inner = source.args.get("with_")
        if inner:
            both.set("expressions", [*both.expressions, *inner.expressions])
            both.set("recursive", both.args.get("recursive") or inner.args.get("recursive"))
        if isinstance(source, exp.Values):
            source = as_select(source)
        source.set("with_", both)
    return source


def _put_defaults(query: exp.Expr, target: Target) -> None:
    """Put the default of a column where DEFAULT stands in the place of its value: in VALUES, and in a SELECT from nothing."""
    rows = [expression.expressions for expression in query.expressions if isinstance(expression, exp.Tuple)]
    if isinstance(query, exp.Select) and not query.args.get("from_"):
        rows = [query.expressions]
    for row in rows if isinstance(query, exp.Values | exp.Select) else ():
        for name, value in zip(target.columns, row, strict=False):
            if is_default(value):
                value.replace(default_tree(target.table.schema.field(name)))


def fitted(names: Sequence[str], target: Target) -> list[Fill]:
    """How the columns of a query become the table's: by position or name, those left out by their defaults or null, the
    partition's filled in.

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
    positions: dict[str, int] = {}
    for position, name in enumerate(names):
        column = name if name in target.columns else None
        if column is None:
            column = next((column for column in target.columns if column.lower() == name.lower()), None)
        if column is None or column in positions:
            raise InvalidRequest(
                f"INSERT … BY NAME into {target.table.identifier}: the query's column {name!r} "
                f"{'is there twice' if column else 'is none that it takes'}. Columns: {', '.join(target.columns)}."
            )
        positions[column] = position
    return positions


def _filled(given: Mapping[str, int], target: Target) -> list[Fill]:
    fills = []
    for field in target.table.schema.fields:
        position, value = given.get(field.name), target.partition.get(field.name)
        fill = Fill(field.name, position, default_of(field) if position is None and value is None else value)
        if fill.position is None and fill.value is None and not field.type.nullable:
            raise InvalidRequest(f"Column {field.name!r} of {target.table.identifier} is NOT NULL and gets no value.")
        fills.append(fill)
    return fills


def written(target: Table, snapshot: Any, verb: str) -> Result:
    """What a change did, in a sentence. The snapshot is there, whatever happens to the table from now on."""
    if snapshot is None:
        return Result(f"Nothing to {verb}: {target.identifier} stays as it is.")
    try:
        changes = target.changes_of(snapshot)
    except NotFound:
        return Result(
            f"Snapshot {snapshot.id} of {target.identifier} is committed; how many rows it added is not told, since the table "
            "was dropped, renamed or made anew since."
        )
    except StorageError as error:
        return Result(
            f"Snapshot {snapshot.id} of {target.identifier} is committed; how many rows it added cannot be read: {error}"
        )
    return Result(
        f"Snapshot {snapshot.id} of {target.identifier}: {counted(changes.rows_added, 'row')} in "
        f"{counted(changes.files_added, 'file')} added, {counted(changes.files_deleted, 'file')} replaced."
    )


def topic_ranges(query: Query) -> list[TopicRange]:
    """The records of topics that a query reads, in order."""
    readings = [source.source.reading for source in query.inputs if source.source.reading is not None]
    return sorted({each for reading in readings for each in reading.ranges})


def references(query: Query) -> list[SnapshotRef]:
    """The snapshots that a query reads, once each, in order."""
    refs = {source.source.ref: None for source in query.inputs if source.source.ref is not None}
    return sorted(ref for ref in refs if ref is not None)
