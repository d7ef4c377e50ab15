"""CREATE TABLE, AS SELECT and OR REPLACE: a table is defined, and filled by the query behind it if there is one."""

from collections.abc import Callable

from sqlglot import exp

from storage import (
    AlreadyExists,
    InvalidRequest,
    NotFound,
)

from . import changes
from .engine import OVERWRITE, Engine
from .names import Place
from .new_tables import NewTables
from .place import at
from .query_preparation import Prepare
from .result import Act, Result
from .row_statements import RowStatements
from .statement_context import StatementContext
from .unread import plain, take


class TableStatements:
    """Plans the statements that define tables; what a plan returns carries one out."""

    def __init__(self, context: StatementContext, new_tables: NewTables, rows: RowStatements, prepare: Prepare) -> None:
        self._context = context
        self._new_tables = new_tables
        self._rows = rows
        self._prepare = prepare

    def create(self, tree: exp.Create, engine: Callable[[], Engine]) -> Act:
        """CREATE TABLE, with rows or without, and CREATE OR REPLACE TABLE."""
        query = tree.expression
        written = plain(tree)
        node = tree.this.this if isinstance(tree.this, exp.Schema) else tree.this
        if_not_exists = tree.args.get("exists")
        if self._is_to_be_replaced(tree, node):
            return self._replace(tree, node, written, engine)
        create = self._new_tables.define(tree)
        if query is None:
            is_there = self._new_tables.exists(tree)

            def define() -> Result:
                table = create(None)
                if is_there:
                    return Result(f"Table {table.identifier} exists already; it stays as it is.")
                return Result(f"Created table {table.identifier}.")

            return define
        prepared = self._prepare(take(query))
        insert = exp.Insert(this=plain(node), expression=prepared.tree)
        # What is made again is the rows, in a table that is there.
        properties = self._rows.properties_of(exp.Insert(this=plain(node), expression=written.expression))

        def fill() -> Result:
            if if_not_exists and self._new_tables.exists(tree):
                return Result("The table exists; nothing was written.")
            rows = engine().rows(prepared)
            try:
                table = create(engine().columns(rows))
            except AlreadyExists:
                if not if_not_exists:
                    raise
                return Result("The table exists; nothing was written.")
            try:
                return self._rows.write(
                    properties, changes.target_of(insert, self._context.names), prepared, rows, engine()
                )
            except BaseException:
                self._new_tables.take_back(tree, table)
                raise

        return fill

    def _is_to_be_replaced(self, tree: exp.Create, node: exp.Table) -> bool:
        """Whether a CREATE OR REPLACE TABLE, or a REPLACE TABLE, finds a table. Raises NotFound if the latter does not."""
        must_exist = bool(tree.args.get("must_exist"))
        if not tree.args.get("replace"):
            return False
        if tree.args.get("exists"):
            raise at(node, InvalidRequest("CREATE OR REPLACE … IF NOT EXISTS says two things: leave one out."))
        if self._new_tables.exists(tree):
            return True
        if must_exist:
            raise at(node, NotFound(f"There is no table {node.name!r} to replace. CREATE OR REPLACE TABLE creates it."))
        return False

    def _replace(self, tree: exp.Create, node: exp.Table, written: exp.Expr, engine: Callable[[], Engine]) -> Act:
        """Give a table another definition and other rows, or none. Its history stays; a query of it reads what it was."""
        names = self._context.names
        written_to = Place(names.place(node).catalog, names.table(node).identifier)
        define = self._new_tables.define(tree, replaces=True)
        if tree.expression is None:

            def empty() -> Result:
                table = define(None)
                table.truncate()
                return Result(
                    f"Table {table.identifier} is replaced; it has no rows. Earlier snapshots are there still."
                )

            return empty
        query = self._prepare(take(tree.expression), writes_to=written_to)

        def fill() -> Result:
            rows = engine().rows(query)
            table = define(engine().columns(rows))
            target = changes.Target(node, table, tuple(table.schema.column_names), {}, OVERWRITE, True)
            return self._rows.write(self._rows.properties_of(written), target, query, rows, engine())

        return fill
