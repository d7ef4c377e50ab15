"""Run SQL: parse, look every name up, and do what the statement says.

A SELECT becomes views of pinned snapshots, read by Spark or DuckDB. An INSERT, or a MERGE, is a job: it knows the snapshots
that it read, and its commit carries them. What SET and USE say stands until the session ends.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
from sqlglot import exp

from storage import (
    InvalidRequest,
    KafkaTable,
    Table,
    View,
)
from storage.sql.commands import (
    AlterTable,
    AlterView,
    AnalyzeTable,
    Call,
    CreateCatalog,
    DescribeTable,
    DropCatalog,
    Explain,
    Export,
    ResetOption,
    SetOption,
    Show,
    UseCatalog,
)

from ..actions import Reach
from ..warehouse.catalogs import CATALOG_NAME
from ..warehouse.warehouse_session import WarehouseSession
from . import changes
from .alter_table import alter_table
from .analyze import analyzed
from .corrections import refuse_beyond_branches, refuse_without_change
from .definitions import Definitions
from .engine import Engine
from .engines import Engines
from .exports import exported
from .kafka_statements import KafkaStatements
from .look import Look
from .names import Names
from .new_tables import NewTables
from .parsing import bounded_depth, parse
from .place import at
from .procedures import call
from .query import described
from .query_preparation import QueryPreparation
from .result import Act, Result, spark_errors
from .row_statements import RowStatements
from .setting_statements import SettingStatements
from .settings import Settings
from .statement_context import StatementContext
from .table_statements import TableStatements
from .unread import refuse_unread, statement_name, take, watch
from .views import ViewStatements

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The statements whose text a commit records.
CHANGES_OF_ROWS = (exp.Insert, exp.Delete, exp.Update, exp.Merge)


def makes_table_of_rows(tree: exp.Expr) -> bool:
    """Whether a statement makes a table with the rows of a query: CREATE TABLE … AS."""
    return isinstance(tree, exp.Create) and isinstance(tree.expression, exp.Query)


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
        self._is_correction = branched is not None
        self.settings = Settings()
        change = (lambda _: target) if target is not None else branched
        self._names = Names(session, self.settings, open_table, opened, change)
        self._context = StatementContext(session, self.settings, self._names)
        self.prepare = QueryPreparation(self._context).prepare
        self._definitions = Definitions(session, self.settings, self._names)
        self._rows = RowStatements(self._context, self.prepare)
        self._tables = TableStatements(self._context, NewTables(self.settings, self._names), self._rows, self.prepare)
        self._setting = SettingStatements(self._context)
        self._look = Look(session, self.settings, self._names)
        self._kafka = KafkaStatements(self._names, self.prepare, self.settings)
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
        for tree in trees if self._is_correction else ():
            refuse_beyond_branches(tree)
        if self._is_correction:
            refuse_without_change(trees)
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
            case Export():
                return exported(tree, self._context, self.prepare, engine)
            case exp.Insert() if (topic := self._topic_of(tree)) is not None:
                return self._kafka.insert(tree, topic, engine())
            case exp.Insert():
                return self._rows.insert(tree, engine())
            case exp.Delete() | exp.Update():
                return self._rows.change_rows(tree, engine())
            case exp.Merge():
                return self._rows.merge(tree, engine())
            case exp.Create() if tree.kind == "TABLE" and self._kafka.is_about(tree):
                return self._kafka.create(tree)
            case exp.Create() if tree.kind == "TABLE":
                return self._tables.create(tree, engine)
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
                return alter_table(tree, self._names)
            case AnalyzeTable():
                return analyzed(tree, self._names)
            case Show():
                return look.show(tree, lambda: engine().functions())
            case DescribeTable():
                return look.describe(tree, self._as_read)
            case Call():
                catalog, name, arguments = *_procedure(tree.this), tree.expressions
                reach = self._reach(catalog or self.settings.catalog)
                return lambda: call(reach, name, arguments)
            case Explain():
                return self._explain(tree, engine())
            case SetOption() | ResetOption():
                return self._setting.run(tree)
        raise at(tree, InvalidRequest(f"{statement_name(tree)} is no statement that is known here."))

    def _as_read(self, node: exp.Table, view: View) -> View:
        """A view with the types that it has now. DuckDB says so whatever the engine is: it is there without a JVM."""
        return self._views.as_read(node, view, self._engines.named("duckdb")().columns_of)

    def _topic_of(self, tree: exp.Insert) -> KafkaTable | None:
        node = tree.this.this if isinstance(tree.this, exp.Schema) else tree.this
        return None if self._is_correction else self._kafka.table(node)

    def _explain(self, explain: Explain, engine: Engine) -> Act:
        tree = explain.this
        if isinstance(tree, exp.Insert):
            tree = changes.query_of(tree, changes.target_of(tree, self._names))
        if not isinstance(tree, exp.Query | exp.Values):
            raise InvalidRequest("EXPLAIN takes a SELECT or an INSERT.")
        query = self.prepare(take(tree))

        def act() -> Result:
            rows = [described(source) for source in query.inputs]
            schema = pa.schema(
                [
                    ("table", pa.string()),
                    ("snapshot", pa.int64()),
                    ("columns", pa.string()),
                    ("condition", pa.string()),
                    ("files", pa.int64()),
                    ("skipped", pa.int64()),
                    ("sql", pa.string()),
                ]
            )
            return Result(rows=pa.Table.from_pylist([{**row, "sql": engine.text(query)} for row in rows], schema))

        return act

    def known_names(self) -> list[str]:
        """Tables of the current catalog, and the columns of those of the current database: what a user may type next."""
        catalog = self._context.session.catalog_of(self.settings.catalog)
        names = []
        for name in catalog.tables():
            database, _, table = name.partition(".")
            names.append(name)
            if database == self.settings.database:
                names += [table, *catalog.table(name).schema.column_names]
        return names

    def _reach(self, catalog: str) -> Reach:
        """What a procedure of a catalog works on: names without a catalog are of that one. Raises NotFound if there is none."""
        self._context.session.catalog_of(catalog)

        def node_of(name: str) -> exp.Table:
            node = _table_node(name)
            if not node.catalog and catalog != self.settings.catalog:
                node.set("db", node.args.get("db") or exp.to_identifier("default", quoted=True))
                node.set("catalog", exp.to_identifier(catalog, quoted=True))
            return node

        def full_name(name: str) -> str:
            place = self._names.place(node_of(name))
            if place.catalog != catalog:
                raise InvalidRequest(
                    f"{name} is of catalog {place.catalog}: CALL {place.catalog}.sys.… reaches its tables."
                )
            return str(place.identifier)

        return Reach(self._context.session, catalog, lambda name: self._names.table(node_of(name)), full_name)


def _procedure(name: str) -> tuple[str, str]:
    """The catalog that stands before the name of a procedure, `catalog.sys.name`, and the rest of it; "" for none."""
    catalog, *rest = name.split(".")
    return (catalog, ".".join(rest)) if len(rest) == 2 and rest[0].lower() == "sys" else ("", name)


def _table_node(name: str) -> exp.Table:
    parts = [exp.to_identifier(part, quoted=True) for part in name.replace("`", "").split(".")]
    if not 1 <= len(parts) <= 3:
        raise InvalidRequest(f"{name!r} is not the name of a table: [catalog.][database.]table.")
    db, catalog = (parts[-2] if len(parts) > 1 else None), (parts[-3] if len(parts) > 2 else None)
    return exp.Table(this=parts[-1], db=db, catalog=catalog)
