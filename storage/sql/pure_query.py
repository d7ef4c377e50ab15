"""Queries that a warehouse carries with it: views, which its readers run.

As for expressions of tables (`pure_expression`): who writes a view is not who reads it. So it is one query over tables and views
of its own catalog, each named `database.table`, made of clauses and functions of a list. It reads no file, no setting, no
system or lineage table, and calls nothing outside of the engine. What is not known to be of that kind is refused by name.
"""

from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.scope import traverse_scope

from ..errors import InvalidRequest, StorageError, Unsupported
from ..identifier import Identifier
from .dialect import HINT_OPTIONS, SnaplineSql, shown
from .pure_expression import is_pure, is_written_safely

_MOST_CHARACTERS = 100_000
_NO_TABLES = ("paimon", "information_schema")


def _words(text: str) -> list[str]:
    return text.split()


_CLAUSES = _words("""
    Alias Aliases All Any Avg ApproxDistinct ArrayAgg ArrayDistinct ArrayFilter ArrayUniqueAgg Corr Count CountIf CovarPop
    CovarSamp CTE Cube CumeDist CurrentDate DenseRank Distinct Except Exists Explode ExplodeOuter Fetch Filter First FirstValue
    From Group GroupConcat Grouping GroupingId GroupingSets Having IgnoreNulls Intersect Join Lag Lambda Last LastValue Lateral
    Lead Limit LogicalAnd LogicalOr Max Median Min Mode NthValue Ntile Offset Order Ordered PercentRank PercentileCont
    PercentileDisc Posexplode PosexplodeOuter Qualify Quantile Rank RespectNulls Rollup RowNumber Select SortArray Star Stddev
    StddevPop StddevSamp Subquery Sum Table TableAlias TableSample Transform Union Values Variance VariancePop Version Where
    Window WindowSpec With WithinGroup ArgMax ArgMin AnyValue ApproxQuantile ArrayConcat ArrayExcept ArrayIntersect ArrayMax
    ArrayMin ArrayRemove ArraySlice ArraySort ArraysZip Flatten GenerateSeries Kurtosis MapEntries RegrSlope Skewness
    SortArray ArrayAny ArrayAll ArrayOverlaps ArrayPosition ArrayCompact ArrayPrepend ArrayAppend ArrayInsert
""")
_NAMED = frozenset(
    _words("""
    array_sort sort_array array_join array_position array_repeat array_union array_overlap arrays_overlap every some forall
    exists_in kurtosis map_concat map_entries map_filter percentile percentile_approx sequence size skewness try_avg try_sum
    transform_keys transform_values zip_with approx_percentile array_agg first last listagg max_by min_by percentile_cont
    percentile_disc regr_avgx regr_avgy regr_sxx regr_sxy regr_syy string_agg
""")
)
_NODES = tuple(getattr(exp, name) for name in _CLAUSES if hasattr(exp, name))
_WINDOW_WORDS = ("CURRENT ROW", "AS OF", "LEFT", "RIGHT")


def parse_query(text: str, what: str, database: str | None = None) -> exp.Query:
    """The tree of a query, without comments; `what` names it in errors. A table without a database is of the `database`.

    Raises InvalidRequest for what is not one query, and Unsupported, naming it, for what a view may not hold.
    """
    if len(text) > _MOST_CHARACTERS:
        raise InvalidRequest(f"{what} has {len(text)} characters, at most {_MOST_CHARACTERS} are read.")
    try:
        trees = SnaplineSql().parse(text)
    except (SqlglotError, LookupError, ValueError, TypeError, AttributeError, AssertionError) as error:
        said = str(error).splitlines()[0] if isinstance(error, SqlglotError) and str(error) else "it cannot be parsed."
        raise InvalidRequest(f"{what} is no query: {said}") from None
    except RecursionError:
        raise InvalidRequest(f"{what} is nested too deeply to be read.") from None
    if len(trees) != 1 or not isinstance(trees[0], exp.Query):
        raise InvalidRequest(f"{what} is not one SELECT.")
    tree = trees[0]
    refuse_impure_query(tree, what)
    for table in tables_of(tree):
        _check_table(table, what, database)
    return tree


def refuse_impure_query(tree: exp.Expr, what: str) -> None:
    """Raise Unsupported for what a view may not hold; takes the comments out."""
    for node in tree.walk():
        node.pop_comments()
        if node.meta_get(HINT_OPTIONS):
            raise Unsupported(
                f"{what}: OPTIONS(…) has no place in a view. Use VERSION AS OF, or ask where the view is read."
            )
        allowed = type(node) in _NODES or is_pure(node) or _is_of_queries(node)
        if not allowed or not _is_written_safely(node):
            raise Unsupported(f"{what}: {shown(node)!r} is not allowed in a view (docs/sql.md, “Views”).")


def tables_of(tree: exp.Expr) -> list[exp.Table]:
    """The tables and views that a query reads; names of its own WITH clauses left out."""
    tables: dict[int, exp.Table] = {}
    for scope in traverse_scope(tree):
        for source in scope.sources.values():
            if isinstance(source, exp.Table):
                tables[id(source)] = source
    for node in tree.find_all(exp.Table):
        if node.db or not isinstance(node.this, exp.Identifier):
            tables[id(node)] = node
    return list(tables.values())


def _check_table(table: exp.Table, what: str, database: str | None) -> None:
    if not isinstance(table.this, exp.Identifier):
        raise Unsupported(f"{what}: {shown(table)!r} is no table of the catalog.")
    if not table.db:
        if database is None:
            raise InvalidRequest(f"{what}: the table {table.name!r} needs its database.")
        table.set("db", exp.to_identifier(database, quoted=True))
    if table.catalog:
        raise Unsupported(
            f"{what}: {shown(table)!r} is a table of a catalog that is named: a view reads those of its own."
        )
    try:
        identifier = Identifier.parse(f"{table.db}.{table.name}")
    except StorageError as error:
        raise InvalidRequest(f"{what}: {error}") from None
    if identifier.database in _NO_TABLES or identifier.system_table is not None:
        raise Unsupported(f"{what}: {identifier} is a system table, which a view does not read.")


def _is_of_queries(node: exp.Expr) -> bool:
    """Whether a node is what an expression of a query has besides those of a row."""
    if isinstance(node, exp.In):
        return not node.args.get("unnest") and not node.args.get("field")
    if isinstance(node, exp.Column):
        *names, last = node.parts
        return isinstance(last, exp.Star) and all(isinstance(name, exp.Identifier) for name in names)
    return isinstance(node, exp.Anonymous) and isinstance(node.this, str) and node.name.lower() in _NAMED


def _is_written_safely(node: exp.Expr) -> bool:
    texts = [value for value in node.args.values() if isinstance(value, str) and value not in _WINDOW_WORDS]
    if isinstance(node, exp.Literal | exp.Identifier) or len(texts) == sum(
        isinstance(value, str) for value in node.args.values()
    ):
        return is_written_safely(node)
    return all(text.isascii() and text.replace("_", "").replace(" ", "").isalnum() for text in texts)
