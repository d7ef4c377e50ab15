"""INSERT, DELETE, UPDATE and MERGE: each a job that knows what it read, and one commit."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from sqlglot import exp

from lineage import LineageRecorder, sources_property
from storage import Clock, CommitId, DataField, InvalidRequest, SnapshotRef, StorageError, Table, default_of
from storage.engines.merge_clauses import HIDDEN, MergeClause
from storage.sql.dialect import HINT_OPTIONS, SnaplineSql, shown
from storage.sql.predicate_text import literal_of
from storage.sql.pure_expression import is_of_row_alone

from .default_words import default_tree, is_default
from .engines import APPEND, DYNAMIC, OVERWRITE, Engine
from .fill import Fill
from .names import Names
from .place import at
from .query import Input, Query, as_select, is_count_of_rows
from .result import Result
from .settings import JOB_OPTION
from .unread import plain

# A barrier is a time in milliseconds, then this many bits of chance.
_CHANCE_BITS = 20


@dataclass(frozen=True)
class Job:
    """What records the lineage of a change, and under which name."""

    name: str
    recorder: LineageRecorder

    def how(self, sources: Sequence[SnapshotRef], properties: Mapping[str, str]) -> dict[str, Any]:
        """Commit id and properties of a change that was made from snapshots."""
        clock = Clock()
        now_ms = clock.now_ms()
        identifier = (now_ms << _CHANCE_BITS) | clock.random_bits(_CHANCE_BITS)
        commit_id = CommitId(self.name, identifier, exact=True, not_before_ms=now_ms, is_new=True)
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
    said = {
        "execution.runtime-mode = streaming": streams,
        "OVERWRITE": target.mode != APPEND,
        "PARTITION (…)": bool(target.partition),
        "OPTIONS('change-tracking' = 'false')": not target.change_tracking,
    }
    for name in (one for one, is_there in said.items() if is_there):
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
            if isinstance(one.expression, exp.Null):
                raise InvalidRequest(
                    f"PARTITION ({column.name} = NULL) is not supported: leave the column out there, and give NULL in the rows."
                )
            if not isinstance(one.expression, exp.Literal | exp.Cast | exp.Neg):
                raise InvalidRequest(
                    f"PARTITION ({column.name} = …) takes a constant: '2024-05-01', 5. Other values stand in the rows."
                )
            found[column.name] = literal_of(one.expression)
    return found


def query_of(insert: exp.Insert, target: Target) -> exp.Expr:
    """A copy of the query whose rows are inserted, with the defaults of columns where the word DEFAULT stands."""
    source = insert.expression
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
    rows = [one.expressions for one in query.expressions if isinstance(one, exp.Tuple)]
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
        position, value = given.get(field.name), target.partition.get(field.name)
        fill = Fill(field.name, position, default_of(field) if position is None and value is None else value)
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


class Sources:
    """The queries inside of the conditions and values of a change, and the tables that they read, each at one version."""

    def __init__(
        self,
        prepare: Callable[[exp.Expr], Query],
        names: Mapping[str, str],
        default: str | None,
        engine: Engine,
        tables: Mapping[str, pa.Schema],
        fields: Sequence[DataField],
    ) -> None:
        """`names`: what the tables of the statement are called where the change is computed, by their names in the
        statement; `tables`: their columns, by that name; `default`: whose columns those without a table are; `fields`: the
        columns of the table that changes.
        """
        for name in (name for schema in tables.values() for name in schema.names if name.lower() in HIDDEN):
            raise InvalidRequest(
                f"UPDATE, DELETE and MERGE are not done beside a column {name!r}, a name that the platform uses: rename it "
                "(ALTER TABLE … RENAME COLUMN)."
            )
        self._tables = tables
        self._fields = {field.name: field for field in fields}
        self._prepare = prepare
        self._names = names
        self._default = default
        self._engine = engine
        self.inputs: list[Input] = []

    @property
    def references(self) -> list[SnapshotRef]:
        """The snapshots that are read."""
        return [ref for one in self.inputs if (ref := one.source.ref) is not None]

    def text(self, condition: exp.Expr, default: str | None = None, column: str | None = None) -> str:
        """A condition, or the value of a column, in the engine's SQL. Raises InvalidRequest for columns of tables that are
        none of the statement's.
        """
        if column is not None and is_default(condition) and condition.name not in self._fields:
            condition = default_tree(self._fields[column])
        copy = exp.Paren(this=condition.copy())
        for star in copy.find_all(exp.Star):
            self._refuse_star(star)
        queries = [one for one in copy.find_all(exp.Query) if one.find_ancestor(exp.Query) is None]
        for named in list(copy.find_all(exp.Column)):
            self._rename(named, default or self._default)
        for inner in queries:
            query = self._prepare(inner)
            self.inputs += query.inputs
            inner.replace(query.tree)
        to = None if column is None else self._tables["target"].field(column).type
        try:
            return self._engine.expression(copy.this, self._tables, self.inputs, to, column or "")
        except StorageError as error:
            raise at(condition, error) from None

    def of_source(self, columns: Sequence[str]) -> dict[str, str] | None:
        """The source's columns of those names; None if it is not known, or does not have them all."""
        held = {name.lower() for name in self._tables["source"].names}
        if not columns or not all(name.lower() in held for name in columns):
            return None
        called = next(name for name, table in self._names.items() if table == "source")
        return {name: self.text(_column(name, called), None, name) for name in columns}

    def defaults(self, given: Collection[str]) -> dict[str, str]:
        """The defaults of the columns that are not given a value."""
        return {
            name: self.text(default_tree(field), None, name)
            for name, field in self._fields.items()
            if name not in given and field.default_value is not None
        }

    def column(self, node: exp.Expr) -> str:
        """The table's own name of a column. Raises InvalidRequest."""
        names = self._tables["target"].names
        for name in names:
            if name.lower() == node.name.lower():
                return str(name)
        raise at(node, InvalidRequest(f"There is no column {node.name!r}. Columns: {', '.join(names)}."))

    def _refuse_star(self, star: exp.Star) -> None:
        """Raise InvalidRequest for a * that takes the columns of what changes: beside them stand the platform's own."""
        if is_count_of_rows(star):
            return
        query = star.find_ancestor(exp.Query)
        column = star.parent if isinstance(star.parent, exp.Column) else None
        name = "" if column is None else column.table.lower()
        if (
            query is not None
            and column is not None
            and name
            and (name not in self._names or _names_of_queries(column, name))
        ):
            return
        # One of a query with tables of its own takes theirs.
        if query is not None and not name and (not isinstance(query, exp.Select) or query.args.get("from_")):
            return
        raise at(
            star,
            InvalidRequest(
                "* is not known in the conditions and values of UPDATE, DELETE and MERGE: name the columns."
            ),
        )

    def _rename(self, column: exp.Column, default: str | None) -> None:
        inner = column.find_ancestor(exp.Query) is not None
        name = column.table.lower()
        if (
            inner
            and column.name.lower() not in HIDDEN
            and (not name or name not in self._names or _names_of_queries(column, name))
        ):
            return
        table = self._names.get(name) if name else default
        if column.name.lower() in HIDDEN:
            raise at(
                column,
                InvalidRequest(
                    f"No column {column.name!r} can be named in UPDATE, DELETE and MERGE: the platform uses the name."
                ),
            )
        field = self._field_of_struct(column, default) if name and (table is None or column.args.get("db")) else None
        if field is not None:
            column.replace(field)
            return
        if name and (table is None or column.args.get("db")):
            raise at(
                column,
                InvalidRequest(f"{column.sql()!r} is of no table of this statement. Tables: {', '.join(self._names)}."),
            )
        if table is not None:
            column.set("table", exp.to_identifier(table))
            column.set("db", None)
            column.set("catalog", None)

    def _field_of_struct(self, column: exp.Column, default: str | None) -> exp.Expr | None:
        """A path such as `st.x` or `t.st.x` as the field of a column that is a struct; None if there is no such column."""
        parts = column.parts
        table = self._names.get(parts[0].name.lower())
        first = [default] if default is not None else []
        tables = [*first, *(one for one in self._tables if one != default)] if table is None else [table]
        path = parts if table is None else parts[1:]
        for one in tables if len(path) > 1 else ():
            columns = self._tables[one]
            # Of a query the columns, or their types, are not always known.
            names = [held.name for held in columns if pa.types.is_struct(held.type) or pa.types.is_null(held.type)]
            name = next((held for held in names if held.lower() == path[0].name.lower()), None)
            if name is None and table is not None and not len(columns):
                name = path[0].name
            if name is not None:
                found: exp.Expr = _column(name, one)
                for part in path[1:]:
                    found = exp.Dot(this=found, expression=part.copy())
                return found
        return None


def _column(name: str, table: str) -> exp.Column:
    return exp.column(exp.to_identifier(name, quoted=True), table=table)


def _names_of_queries(column: exp.Column, name: str) -> bool:
    """Whether a query around a column reads something under a name."""
    query = column.find_ancestor(exp.Query)
    while query is not None:
        held = [*query.find_all(exp.Table), *query.find_all(exp.Subquery)]
        if any(one.alias_or_name.lower() == name for one in held):
            return True
        query = query.find_ancestor(exp.Query)
    return False


def assignments(
    expressions: Sequence[exp.Expr], names: Mapping[str, str], sources: Sources, default: str | None = None
) -> dict[str, str]:
    """`SET column = value, …`: the values in the engine's SQL, by column."""
    found: dict[str, str] = {}
    for one in expressions:
        if not isinstance(one, exp.EQ) or not isinstance(one.this, exp.Column):
            raise at(one, InvalidRequest(f"{one.sql(SnaplineSql)!r} sets no column: SET column = value."))
        column = one.this
        if column.args.get("db") or (column.table and names.get(column.table.lower()) != "target"):
            raise at(
                column, InvalidRequest(f"{column.sql()!r} cannot be set: it is no column of the table that changes.")
            )
        if column.name.lower() in {name.lower() for name in found}:
            raise at(column, InvalidRequest(f"Column {column.name!r} is set twice."))
        name = sources.column(column)
        found[name] = sources.text(one.expression, default, name)
    return found


def merge_clauses(
    merge: exp.Merge, names: Mapping[str, str], columns: Sequence[str], sources: Sources, fixed: Collection[str]
) -> list[MergeClause]:
    """The WHEN clauses of a MERGE; `fixed` are the columns that an update does not set. Raises InvalidRequest for what the table
    cannot do.
    """
    clauses = []
    for when in merge.args["whens"].expressions:
        kind = (
            "matched"
            if when.args.get("matched")
            else "not matched by source"
            if when.args.get("source")
            else "not matched"
        )
        condition = when.args.get("condition")
        text = sources.text(condition) if condition is not None else None
        then = when.args["then"]
        if isinstance(then, exp.Update | exp.Insert):
            _refuse_unused_then(then)
        if isinstance(then, exp.Update):
            if any(isinstance(one, exp.Star) for one in then.expressions):
                values = sources.of_source([one for one in columns if one not in fixed])
            else:
                default = "target" if kind == "not matched by source" else None
                values = assignments(then.expressions, names, sources, default)
            clauses.append(MergeClause(kind, "update", text, values))  # type: ignore[arg-type]
        elif isinstance(then, exp.Insert):
            clauses.append(MergeClause(kind, "insert", text, _inserted(then, columns, sources)))  # type: ignore[arg-type]
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


def _inserted(then: exp.Insert, columns: Sequence[str], sources: Sources) -> dict[str, str] | None:
    if isinstance(then.this, exp.Star) or then.expression is None:
        return sources.of_source(columns)
    listed = [one.name for one in then.this.expressions] if then.this is not None else list(columns)
    if len({one.lower() for one in listed}) < len(listed):
        raise InvalidRequest(f"A column is named twice: {', '.join(listed)}.")
    values = then.expression.expressions
    if len(listed) != len(values):
        raise InvalidRequest(f"INSERT names {len(listed)} columns and gives {len(values)} values.")
    named = [sources.column(exp.to_identifier(name)) for name in listed]
    found = {name: sources.text(value, "source", name) for name, value in zip(named, values, strict=True)}
    return {**found, **sources.defaults(named)}


def references(query: Query) -> list[SnapshotRef]:
    """The snapshots that a query reads, once each, in order."""
    found = {one.source.ref: None for one in query.inputs if one.source.ref is not None}
    return sorted(ref for ref in found if ref is not None)
