"""Run SQL: parse, look every name up, and do what the statement says.

A SELECT becomes views of pinned snapshots, read by Spark or DuckDB. An INSERT, or a MERGE, is a job: it knows the snapshots
that it read, and its commit carries them. What SET and USE say stands until the session ends.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, TokenError

from lineage import LineageRecorder, columns_property
from storage import (
    AlreadyExists,
    Basis,
    InvalidRequest,
    NotFound,
    Snapshot,
    SnapshotRef,
    StorageError,
    Table,
    remember,
    secrets_in,
    shown_options,
)
from storage.engines.merge_clauses import SOURCE, TARGET, MergeClause
from storage.sql.commands import (
    AlterTable,
    AlterView,
    AnalyzeTable,
    Call,
    CreateCatalog,
    DescribeTable,
    DropCatalog,
    Explain,
    ResetOption,
    SetOption,
    Show,
    UseCatalog,
)
from storage.sql.dialect import SnaplineSql
from storage.sql.predicate_text import MOST_NESTED

from ..actions import Reach
from ..warehouse.catalogs import CATALOG_NAME
from ..warehouse.snapshot_properties import PLACE_PROPERTY, STATEMENT_PROPERTY
from ..warehouse.warehouse_session import WarehouseSession
from . import changed_rows, changes
from .analyze import analyzed
from .columns import column_sources
from .definitions import Act, Definitions
from .ends import open_piece
from .engine import OVERWRITE, Engine
from .engines import Engines
from .fill import Fill
from .look import Look
from .names import Names, Place, Source
from .numbers import with_doubles
from .place import at, parse_failure
from .procedures import call
from .query import Query, described, prepare, refuse_open
from .result import Result, spark_errors
from .settings import JOB_OPTION, RUNTIME_MODE, STARTUP_OPTION, Settings, check_key, check_setting
from .stream_sources import streamed
from .unread import plain, refuse_clauses, refuse_unread, statement_name, take, watch
from .views import ViewStatements, expanded, without_temporary

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The statements whose text a commit records.
CHANGES_OF_ROWS = (exp.Insert, exp.Delete, exp.Update, exp.Merge)
_views = count()
_PLACES = (exp.CurrentCatalog, exp.CurrentDatabase, exp.CurrentSchema)


class Statements:
    """Runs statements for a session, one after the other."""

    def __init__(
        self,
        session: WarehouseSession,
        start_spark: "Callable[[], SparkSession] | None" = None,
        open_table: Callable[[str], Table] | None = None,
        *,
        opened: str = CATALOG_NAME,
        target: Table | None = None,
        branched: Callable[[str], Table] | None = None,
    ) -> None:
        """`open_table` decides at which version a table of the catalog `opened` is read; by default the latest.

        `target`: what is changed instead of the table that a statement names; `branched` gives it by the table's name.
        """
        self._session = session
        self.settings = Settings()
        change = (lambda _: target) if target is not None else branched
        self._names = Names(session, self.settings, open_table, opened, change)
        self._definitions = Definitions(session, self.settings, self._names)
        self._look = Look(session, self.settings, self._names)
        self._views = ViewStatements(self._names, self.prepare)
        self._engines = Engines(session.settings, start_spark)

    def run(self, text: str, engine: str = "spark") -> list[Result]:
        """The result of each statement. Nothing runs unless all of them can be parsed. Raises InvalidRequest that points
        at the place that is wrong.
        """
        return list(self.each(text, engine))

    def each(self, text: str, engine: str = "spark") -> Iterator[Result]:
        """As `run`, each result as soon as it is there. A stream that ends by itself has ended before the next statement."""
        with bounded_depth():
            trees = parse(text)
        before = Result()
        for tree in trees:
            if before.ends:
                before.wait()
            with bounded_depth():
                before = self._run(tree, self._engines.named(engine))
            yield before

    def select(self, text: str, engine: str = "spark") -> Result:
        """The rows of one SELECT. Raises InvalidRequest for anything else."""
        trees = parse(text)
        if len(trees) != 1 or not isinstance(trees[0], exp.Query | exp.Values):
            raise InvalidRequest("Give one SELECT.")
        with bounded_depth():
            return self._run(trees[0], self._engines.named(engine))

    def _run(self, tree: exp.Expr, engine: Callable[[], Engine]) -> Result:
        """Read a statement, refuse what nobody has read of it, and carry it out."""
        watch(tree)
        act = self._plan(tree, engine)
        refuse_unread(tree)
        with spark_errors():
            return act()

    def _plan(self, tree: exp.Expr, engine: Callable[[], Engine]) -> Act:
        define, look = self._definitions, self._look
        match tree:
            case exp.Query() | exp.Values():
                query = self.prepare(take(tree))
                return lambda: engine().result(engine().rows(query))
            case exp.Insert():
                return self._insert(tree, engine())
            case exp.Delete() | exp.Update():
                return self._change_rows(tree, engine())
            case exp.Merge():
                return self._merge(tree, engine())
            case exp.Create() if tree.kind == "TABLE":
                return self._create_table(tree, engine())
            case exp.Create() if tree.kind == "VIEW":
                return self._views.create(tree, engine().columns_of)
            case exp.Drop() if tree.kind == "VIEW":
                return self._views.drop(tree)
            case AlterView():
                return self._views.alter(tree, engine().columns_of)
            case exp.Create() if tree.kind in ("DATABASE", "SCHEMA"):
                return define.create_database(tree)
            case exp.Drop() if tree.kind == "TABLE":
                return define.drop_tables(tree)
            case exp.Drop() if tree.kind in ("DATABASE", "SCHEMA"):
                return define.drop_database(tree)
            case exp.TruncateTable():
                return define.truncate(tree)
            case exp.Use():
                return define.use(tree)
            case UseCatalog():
                return define.use_catalog(tree)
            case CreateCatalog():
                return define.create_catalog(tree)
            case DropCatalog():
                return define.drop_catalog(tree)
            case AlterTable():
                return define.alter(tree)
            case AnalyzeTable():
                return analyzed(tree, self._names)
            case Show():
                return look.show(tree, lambda: engine().functions())
            case DescribeTable():
                return look.describe(tree)
            case Call():
                name, arguments = tree.this, tree.expressions
                reach = Reach(self._session, self.settings.catalog, self._table_named, self._full_name)
                return lambda: call(reach, name, arguments)
            case Explain():
                return self._explain(tree, engine())
            case SetOption() | ResetOption():
                return self._set(tree)
        raise at(tree, InvalidRequest(f"{statement_name(tree)} is no statement that is known here."))

    # --- reading

    def prepare(self, tree: exp.Expr, outer: Collection[str] = (), *, streaming: bool = False) -> Query:
        """A query with its tables found and pinned, ready for an engine. Lineage that it reads is brought up to date.

        `streaming`: the tables are followed, rather than read once.
        """
        catalogs = self._names.lineage_catalogs(tree)
        if catalogs:
            self._session.stores_to_ask(*catalogs)
        tree = self._with_places(tree)

        def look_up(node: exp.Table) -> Source:
            source = self._names.source(node)
            return streamed(source, node) if streaming else source

        return prepare(tree, look_up, f"__snapline_{next(_views)}", outer, self._expand)

    def _expand(
        self, node: exp.Table, around: tuple[str, ...], error: NotFound
    ) -> tuple[exp.Subquery, tuple[str, ...]]:
        """What stands for a view. By itself first: a name that it lacks is none of the query around it."""
        select = node.find_ancestor(exp.Select)
        may_see_others = bool(around) or (select is not None and select.find_ancestor(exp.Select) is not None)
        made, way = expanded(node, self._names, around, error)
        if not around:
            alone = prepare(made.this, self._names.source, "__view", (), self._expand_within)
            if may_see_others:
                refuse_open(alone, f"View {way[-1]}")
        return made, way

    def _expand_within(
        self, node: exp.Table, around: tuple[str, ...], error: NotFound
    ) -> tuple[exp.Subquery, tuple[str, ...]]:
        return expanded(node, self._names, around, error)

    def _with_places(self, tree: exp.Expr) -> exp.Expr:
        """A copy of a query in which current_catalog() and its like are what USE has said."""
        copy = tree.copy()
        for node in list(copy.find_all(*_PLACES)):
            text = self.settings.catalog if isinstance(node, exp.CurrentCatalog) else self.settings.database
            literal: exp.Expr = exp.Literal.string(text)
            if isinstance(node.parent, exp.Select) and node.arg_key == "expressions":
                literal = exp.alias_(literal, node.sql(SnaplineSql).lower(), quoted=True)
            node.replace(literal)
        return copy

    def _explain(self, explain: Explain, engine: Engine) -> Act:
        tree = explain.this
        if isinstance(tree, exp.Insert):
            tree = changes.query_of(tree, changes.target_of(tree, self._names))
        if not isinstance(tree, exp.Query | exp.Values):
            raise InvalidRequest("EXPLAIN takes a SELECT or an INSERT.")
        query = self.prepare(take(tree))

        def act() -> Result:
            rows = [described(one) for one in query.inputs]
            schema = pa.schema(
                [("table", pa.string()), ("snapshot", pa.int64()), ("columns", pa.string()), ("condition", pa.string()),
                 ("files", pa.int64()), ("skipped", pa.int64()), ("sql", pa.string())]
            )  # fmt: skip
            return Result(rows=pa.Table.from_pylist([{**row, "sql": engine.text(query)} for row in rows], schema))

        return act

    # --- writing

    def _insert(self, tree: exp.Insert, engine: Engine) -> Act:
        refuse_clauses(tree, "this", "expression", "overwrite", "partition", "by_name", "with_", "where")
        written = plain(tree)
        target = changes.target_of(tree, self._names)
        place = self._names.place(target.node)
        if tree.args.get("where") is not None:
            changes.refuse_beside_condition(target, streams=self._streams)
            return self._replace(tree, written, target, engine)
        if self._streams:
            of_stream = self.prepare(changes.query_of(tree, target), streaming=True)
            return lambda: self._stream(of_stream, target, place, engine)
        query = self.prepare(changes.query_of(tree, target))
        return lambda: self._write(self._said(written), target, query, engine.rows(query), engine)

    def _stream(self, query: Query, target: changes.Target, place: Place, engine: Engine) -> Result:
        # PySpark waits behind it.
        from .streams import insert_stream

        return insert_stream(self, query, target, place, engine)

    @property
    def _streams(self) -> bool:
        return self.settings.options.get(RUNTIME_MODE) == "streaming"

    def _replace(self, tree: exp.Insert, written: exp.Expr, target: changes.Target, engine: Engine) -> Act:
        """INSERT … REPLACE WHERE."""
        table, place = target.table, self._names.place(target.node)
        names = {target.node.name.lower(): "target"}

        def read() -> tuple[Query, str]:
            sources = self._sources(table, names, "target", engine)
            return self.prepare(changes.query_of(tree, target)), sources.condition(changes.condition_of(tree))

        read()

        def replace(basis: Basis) -> Snapshot | None:
            # The query may read the table itself, so that it is computed anew each time.
            query, where = read()
            rows, fills = self._fitted(engine.rows(query), target, engine)
            self._record_startup(place, query)
            refs = sorted({*_own(table, basis), *changes.references(query)})
            made = {**self._said(written), **columns_property(column_sources(query, fills))}
            with self._job(place.catalog, table, refs, made) as how:
                return engine.replace(rows, table, self._names.warehouse(place), where, how, basis)

        def act() -> Result:
            try:
                return changes.written(table, table.repeated(replace), "replace")
            except StorageError as error:
                raise at(target.node, error) from None

        return act

    def _fitted(self, rows: Any, target: changes.Target, engine: Engine) -> tuple[Any, list[Fill]]:
        """The rows of a query under the columns of the table, and where those come from."""
        fills = changes.fitted(engine.columns(rows).names, target)
        return engine.fill(rows, fills), fills

    def _record_startup(self, place: Place, query: Query) -> None:
        """Note what a job that has a name begins with."""
        job = self.settings.options.get(JOB_OPTION)
        if job is not None:
            self.recorder(place.catalog).record_startup(job, changes.references(query), anew=True)

    def _write(
        self, said: Mapping[str, str], target: changes.Target, query: Query, rows: Any, engine: Engine
    ) -> Result:
        """Commit the rows of a query, with the statement's text and what its columns are computed from."""
        place = self._names.place(target.node)
        rows, fills = self._fitted(rows, target, engine)
        self._record_startup(place, query)
        made = {**said, **columns_property(column_sources(query, fills))}
        try:
            with self._job(place.catalog, target.table, changes.references(query), made) as how:
                how["change_tracking"] = target.change_tracking
                warehouse = self._names.warehouse(place)
                snapshot = engine.write(rows, target.table, warehouse, target.mode, target.partition, how)
        except StorageError as error:
            raise at(target.node, error) from None
        return changes.written(target.table, snapshot, "insert")

    def _said(self, tree: exp.Expr) -> dict[str, str]:
        """The properties by which a change can be made again."""
        tree = without_temporary(tree, self._names)
        return {STATEMENT_PROPERTY: tree.sql(SnaplineSql), PLACE_PROPERTY: self.settings.place}

    @contextmanager
    def _job(
        self, catalog: str, table: Table, sources: Sequence[SnapshotRef], properties: Mapping[str, str] | None = None
    ) -> Iterator[dict[str, Any]]:
        """What a change's commit carries. The tables of its job are recorded; forgotten if a new job never commits."""
        job = changes.Job(changes.job_name(self.settings.options, catalog, table), self._session.recorder_of(catalog))
        one = table.identifier
        with job.recorder.job(job.name, sources, [SnapshotRef(catalog, one.database, one.table, one.branch, 0)]):
            yield job.how(sources, properties or {})

    def _change_rows(self, tree: exp.Delete | exp.Update, engine: Engine) -> Act:
        refuse_clauses(tree, "this", "expressions", "where")
        written = plain(tree)
        node = tree.this
        table = changes.changed_table(node, self._names)
        place = self._names.place(node)
        warehouse = self._names.warehouse(place)
        names = {node.alias_or_name.lower(): TARGET}
        clause = tree.args.get("where")
        condition = None if clause is None else clause.this
        assigned = tree.expressions if isinstance(tree, exp.Update) else None

        def read() -> tuple[changed_rows.Sources, str, dict[str, str] | None]:
            sources = self._sources(table, names, "target", engine)
            where = "TRUE" if condition is None else sources.condition(condition)
            values = None if assigned is None else changed_rows.assignments(assigned, names, sources)
            return sources, where, values

        # Once for what is wrong with it; then anew each time, for its queries may read the table itself.
        read()

        def change(basis: Basis) -> Snapshot | None:
            sources, where, values = read()
            refs = sorted({*_own(table, basis), *sources.references})
            with self._job(place.catalog, table, refs, self._said(written)) as how:
                if condition is None and values is None:
                    return table.truncate(**how)
                how["views"] = engine.views(sources.inputs)
                if values is not None:
                    return engine.update(table, warehouse, where, values, how, basis)
                return engine.delete(table, warehouse, where, how, basis)

        return lambda: changes.written(table, table.repeated(change), "change")

    def _sources(
        self,
        table: Table,
        names: Mapping[str, str],
        default: str | None,
        engine: Engine,
        others: Mapping[str, pa.Schema] | None = None,
    ) -> changed_rows.Sources:
        tables = {"target": table.schema.to_arrow(), **(others or {})}
        return changed_rows.Sources(self._inner(table), names, default, engine, tables, table.schema.fields)

    def _inner(self, table: Table) -> Callable[[exp.Expr], Query]:
        """Prepares a query inside of a statement that changes a table."""
        return lambda tree: self.prepare(tree, table.schema.column_names)

    def _merge(self, tree: exp.Merge, engine: Engine) -> Act:
        refuse_clauses(tree, "this", "using", "on", "whens")
        written = plain(tree)
        node, using = tree.this, tree.args["using"]
        table = changes.changed_table(node, self._names)
        place = self._names.place(node)
        names = {node.alias_or_name.lower(): TARGET, using.alias_or_name.lower(): SOURCE}

        source_tree = exp.select("*").from_(using.copy())

        def read() -> tuple[changed_rows.Sources, list[MergeClause], str]:
            source = {"source": engine.schema(self.prepare(source_tree))}
            sources = self._sources(table, names, None, engine, source)
            fixed = {*table.schema.primary_keys, *table.schema.partition_keys}
            clauses = changed_rows.merge_clauses(tree, names, table.schema.column_names, sources, fixed)
            return sources, clauses, sources.condition(tree.args["on"], (TARGET, SOURCE))

        if node.alias_or_name.lower() == using.alias_or_name.lower():
            raise at(using, InvalidRequest("MERGE: the table and the source need different names: give one an alias."))
        read()

        def merge(basis: Basis) -> Snapshot | None:
            # The source may be the table itself, so that it is computed anew each time.
            sources, clauses, on = read()
            query = self.prepare(source_tree)
            source = engine.rows(query)
            refs = sorted({*_own(table, basis), *changes.references(query), *sources.references})
            with self._job(place.catalog, table, refs, self._said(written)) as how:
                how["views"] = engine.views(sources.inputs)
                return engine.merge(source, table, self._names.warehouse(place), on, clauses, how, basis)

        return lambda: changes.written(table, table.repeated(merge), "merge")

    def _create_table(self, tree: exp.Create, engine: Engine) -> Act:
        query = tree.expression
        written = plain(tree)
        node = tree.this.this if isinstance(tree.this, exp.Schema) else tree.this
        if_not_exists = tree.args.get("exists")
        if self._is_to_be_replaced(tree, node):
            return self._replace_table(tree, node, written, engine)
        create = self._definitions.create_table(tree)
        if query is None:
            is_there = self._definitions.exists(tree)

            def define() -> Result:
                table = create(None)
                if is_there:
                    return Result(f"Table {table.identifier} is there already; it stays as it is.")
                return Result(f"Table {table.identifier} is there.")

            return define
        prepared = self.prepare(take(query))
        insert = exp.Insert(this=exp.maybe_copy(node), expression=prepared.tree)
        # What is made again is the rows, in a table that is there.
        said = self._said(exp.Insert(this=plain(node), expression=written.expression))

        def fill() -> Result:
            if if_not_exists and self._definitions.exists(tree):
                return Result("The table exists; nothing was written.")
            rows = engine.rows(prepared)
            try:
                table = create(engine.columns(rows))
            except AlreadyExists:
                if not if_not_exists:
                    raise
                return Result("The table exists; nothing was written.")
            try:
                return self._write(said, changes.target_of(insert, self._names), prepared, rows, engine)
            except BaseException:
                self._definitions.take_back(tree, table)
                raise

        return fill

    def _is_to_be_replaced(self, tree: exp.Create, node: exp.Table) -> bool:
        """Whether a CREATE OR REPLACE TABLE, or a REPLACE TABLE, finds a table. Raises NotFound if the latter does not."""
        must_exist = bool(tree.args.get("must_exist"))
        if not tree.args.get("replace"):
            return False
        if tree.args.get("exists"):
            raise at(node, InvalidRequest("CREATE OR REPLACE … IF NOT EXISTS says two things: leave one out."))
        if self._definitions.exists(tree):
            return True
        if must_exist:
            raise at(node, NotFound(f"There is no table {node.name!r} to replace. CREATE OR REPLACE TABLE creates it."))
        return False

    def _replace_table(self, tree: exp.Create, node: exp.Table, written: exp.Expr, engine: Engine) -> Act:
        """Give a table another definition and other rows, or none. Its history stays; a query of it reads what it was."""
        self._names.table(node)
        define = self._definitions.create_table(tree, replaces=True)
        if tree.expression is None:

            def empty() -> Result:
                table = define(None)
                table.truncate()
                return Result(
                    f"Table {table.identifier} is replaced; it has no rows. Earlier snapshots are there still."
                )

            return empty
        query = self.prepare(take(tree.expression))

        def fill() -> Result:
            rows = engine.rows(query)
            table = define(engine.columns(rows))
            target = changes.Target(node, table, tuple(table.schema.column_names), {}, OVERWRITE, True)
            return self._write(self._said(written), target, query, rows, engine)

        return fill

    # --- settings

    def _set(self, tree: SetOption | ResetOption) -> Act:
        key = tree.this
        if isinstance(tree, ResetOption):
            return lambda: self._reset(key)
        value = tree.args.get("value")
        if value is None:
            return lambda: self._settings_shown(key)
        check_setting(key, value, self._session.catalog_of(self.settings.catalog).warehouse)

        if key == STARTUP_OPTION:
            self._names.refuse_unknown_job(value)

        def act() -> Result:
            self.settings.options[key] = value
            return Result(f"{key} = {shown_options({key: value})[key]}")

        return act

    def _reset(self, key: str | None) -> Result:
        if key is None:
            self.settings.options.clear()
        else:
            check_key(key)
            self.settings.options.pop(key, None)
        return Result(f"{key or 'Everything'} is as it was at first.")

    def _settings_shown(self, key: str | None) -> Result:
        if key is not None:
            check_key(key)
        shown = shown_options(
            {one: value for one, value in sorted(self.settings.options.items()) if key in (None, one)}
        )
        return Result(
            rows=pa.table({"key": pa.array(shown.keys(), pa.string()), "value": pa.array(shown.values(), pa.string())})
        )

    def known_names(self) -> list[str]:
        """Tables of the current catalog, and the columns of those of the current database: what a user may type next."""
        catalog = self._session.catalog_of(self.settings.catalog)
        found = []
        for name in catalog.tables():
            database, _, table = name.partition(".")
            found.append(name)
            if database == self.settings.database:
                found += [table, *catalog.table(name).schema.column_names]
        return found

    # --- for streams

    def recorder(self, catalog: str) -> LineageRecorder:
        """What records the commits to a catalog."""
        return self._session.recorder_of(catalog)

    def warehouse(self, place: Place) -> str:
        return self._names.warehouse(place)

    def checkpoint(self, job: str) -> str:
        """Where a stream remembers how far it has come."""
        return str(self._session.settings.home / "checkpoints" / job)

    def changed(self, ref: SnapshotRef) -> SnapshotRef:
        """The snapshot that made the rows of another: compactions came after it."""
        return self._session.catalog_of(ref.catalog).table(ref.table_name).last_change(ref.snapshot_id) or ref

    def _full_name(self, name: str) -> str:
        return str(self._names.place(_table_node(name)).identifier)

    def _table_named(self, name: str) -> Table:
        return self._names.table(_table_node(name))


def _table_node(name: str) -> exp.Table:
    parts = [exp.to_identifier(part, quoted=True) for part in name.replace("`", "").split(".")]
    if not 1 <= len(parts) <= 3:
        raise InvalidRequest(f"{name!r} is not the name of a table: [catalog.][database.]table.")
    db, catalog = (parts[-2] if len(parts) > 1 else None), (parts[-3] if len(parts) > 2 else None)
    return exp.Table(this=parts[-1], db=db, catalog=catalog)


@contextmanager
def bounded_depth() -> Iterator[None]:
    """Raise InvalidRequest for a statement that is nested deeper than it can be read."""
    try:
        yield
    except RecursionError:
        raise InvalidRequest(
            f"The statement is nested too deeply: parentheses and NOT may stand in each other up to {MOST_NESTED} deep, and a "
            "few hundred conditions in a row. Write IN (…) instead of many conditions with OR."
        ) from None


def parse(text: str) -> list[exp.Expr]:
    """The statements of a text. Raises InvalidRequest that points at the place that is wrong."""
    # What an error quotes of the text may be a half of what says that it is a secret.
    for one in secrets_in(text, of_statement=True):
        remember(one)
    try:
        with bounded_depth():
            trees = sqlglot.parse(text, read=SnaplineSql)
    except ParseError as error:
        raise parse_failure(error) from None
    except TokenError as error:
        unclosed = open_piece(text)
        if unclosed is not None:
            raise InvalidRequest(
                f"SQL error at line {unclosed.line}, column {unclosed.column}: {unclosed.what} begins here and is not closed."
            ) from None
        raise InvalidRequest(f"SQL error: {str(error).splitlines()[0]}") from None
    told = (one for one in trees if one is not None and not isinstance(one, exp.Semicolon))
    found = [with_doubles(_schema_as_database(one), text) for one in told]
    if not found:
        raise InvalidRequest("There is no statement in the text.")
    return found


def _schema_as_database(tree: exp.Expr) -> exp.Expr:
    """CREATE and DROP SCHEMA, which are those of a database."""
    if isinstance(tree, exp.Create | exp.Drop) and tree.args.get("kind") == "SCHEMA":
        tree.set("kind", "DATABASE")
        for one in tree.args.get("tables") or [tree.this]:
            if isinstance(one, exp.Table) and one.args.get("this") is None:
                one.set("this", one.args.get("db"))
                one.set("db", one.args.get("catalog"))
                one.set("catalog", None)
    return tree


def _own(table: Table, basis: Basis) -> list[SnapshotRef]:
    """The snapshot whose rows a change begins with."""
    ref = None if basis.snapshot is None else table.last_change(basis.snapshot)
    return [] if ref is None else [ref]
