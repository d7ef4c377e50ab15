"""What a streaming INSERT has to make anew when rows of its sources change: read off its query before it begins.

A query over tables whose rows change stays right if, after each step, the rows that it has made of the changed keys are made
again. That can be shown for queries row by row, aggregates, joins along which one table is the root, and UNION ALL of such;
each row has to be found again in the sink by the sink's key. Whatever cannot be shown is refused by name.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.qualify import qualify

from storage import InvalidRequest, Table
from storage.sql.dialect import SnaplineSql
from storage.sql.pure_expression import is_of_row_alone, named

from . import changes
from .fill import Fill
from .names import Source
from .query import Input, Query, known_columns, sql_type
from .renewal_trees import groups_query, inlined, quoted_column, refused_query, restricted

# Their value is that of a set of rows, whatever their order.
_AGGREGATES = (
    exp.Sum,
    exp.Count,
    exp.CountIf,
    exp.Avg,
    exp.Min,
    exp.Max,
    exp.LogicalAnd,
    exp.LogicalOr,
    exp.Stddev,
    exp.StddevPop,
    exp.StddevSamp,
    exp.Variance,
    exp.VariancePop,
    exp.Corr,
    exp.CovarPop,
    exp.CovarSamp,
    exp.ApproxDistinct,
    exp.Median,
    exp.Quantile,
    exp.BitwiseAndAgg,
    exp.BitwiseOrAgg,
    exp.BitwiseXorAgg,
    exp.Skewness,
    exp.Kurtosis,
)
_AROUND = (*_AGGREGATES, exp.Filter, exp.Where, exp.Distinct, exp.Alias)
_CLAUSES = {"expressions", "from_", "joins", "where", "group", "having", "distinct"}
_ROW_BY_ROW = {"expressions", "from_", "where"}


@dataclass(frozen=True)
class Branch:
    """A SELECT over views of tables, and how it is followed.

    `root`: the view whose keys are followed. `joined`: for each other view the query that gives, of its rows, the root's keys.
    `groups`: the query of the groups that rows belong to, and `restricted` the SELECT of the groups in the view GROUPS alone;
    None if rows are made one by one, or all are one group.
    """

    tree: exp.Select
    inputs: tuple[Input, ...]
    root: str
    joined: Mapping[str, exp.Select]
    groups: exp.Select | None = None
    restricted: exp.Select | None = None


def is_renewed(query: Query) -> bool:
    """Whether a query reads a table whose rows may change, and not their kinds."""
    tables = [source.source for source in query.inputs if source.source.table is not None]
    return any(keys_of(table) for table in tables) and not any(reads_kinds(table) for table in tables)


def reads_kinds(source: Source) -> bool:
    """Whether the changes of a source are asked for as they are, with their kinds."""
    return source.options.get("read.changelog", "false").lower() == "true"


def keys_of(source: Source) -> Sequence[str]:
    """The columns by which rows of a source are told apart."""
    return () if source.table is None else source.table.schema.primary_keys


def branches(query: Query, target: changes.Target) -> tuple[list[Branch], list[Fill]]:
    """How a query is followed, and how its columns become the sink's. Raises InvalidRequest, saying what to do, for one of
    which that is not known.
    """
    _check_sink(query, target.table)
    selects = list(_united(query.tree))
    reader = _Reader(query, target)
    parts = [reader.branch(select) for select in selects]
    reader.refuse_overlaps(parts)
    return parts, reader.fills


def key_constants(query: Query, target: changes.Target) -> dict[str, list[str]]:
    """The constants that each column of the sink's key takes: columns that take others are left out."""
    parts, fills = branches(query, target)
    constants: dict[str, list[str]] = {}
    for fill in fills:
        if fill.name not in target.table.schema.primary_keys:
            continue
        is_text = target.table.schema.field(fill.name).type.is_text
        if fill.position is None:
            if is_text:
                constants[fill.name] = [str(fill.value)]
            continue
        given = [branch.tree.expressions[fill.position].unalias() for branch in parts]
        if all(isinstance(each, exp.Literal) and (each.is_string if is_text else each.is_int) for each in given):
            constants[fill.name] = [node.this if is_text else str(int(node.this)) for node in given]
    return constants


def _check_sink(query: Query, sink: Table) -> None:
    schema, options = sink.schema, sink.schema.table_options
    changing = next(source.source for source in query.inputs if keys_of(source.source))
    why = f"{changing.name} has a primary key, so that its rows may change and go"
    if not schema.primary_keys:
        raise InvalidRequest(
            f"{sink.identifier} has no primary key, by which a stream would find rows again: {why}. Give the sink a primary "
            "key, or read the changes themselves: OPTIONS('read.changelog' = 'true')."
        )
    if any(
        source.source.table is not None and source.source.table.identifier == sink.identifier for source in query.inputs
    ):
        raise InvalidRequest(f"{sink.identifier} would be its own source in a stream without end: name another sink.")
    unfit = [("merge-engine", options.merge_engine)] if options.merge_engine != "deduplicate" else []
    unfit += [("sequence.field", ",".join(options.sequence_field))] if options.sequence_field else []
    unfit += [("rowkind.field", str(options.rowkind_field))] if options.rowkind_field else []
    unfit += [("ignore-delete", "true")] if options.ignore_delete else []
    if unfit:
        key, value = unfit[0]
        raise InvalidRequest(
            f"The sink {sink.identifier} has '{key}' = '{value}', with which rows are not what is written last: {why}. Write "
            "into a table without it, or read the changes themselves: OPTIONS('read.changelog' = 'true')."
        )


def _united(tree: exp.Expr) -> Iterator[exp.Select]:
    tree = tree.unnest()
    if isinstance(tree, exp.Union) and tree.args.get("distinct") is False:
        extra = [key for key, value in tree.args.items() if value and key not in ("this", "expression", "distinct")]
        if extra:
            raise refused_query(f"UNION ALL with {extra[0].strip('_').upper()}")
        yield from _united(tree.this)
        yield from _united(tree.expression)
    elif isinstance(tree, exp.Select):
        yield tree
    else:
        raise refused_query("UNION, which drops equal rows," if isinstance(tree, exp.Union) else named(tree))


@dataclass(frozen=True)
class _Relation:
    """What stands after FROM or JOIN: its name, the view below, and the view's columns by its own names for them."""

    name: str
    view: str
    columns: Mapping[str, str]
    join: exp.Join | None


class _Reader:
    def __init__(self, query: Query, target: changes.Target) -> None:
        self._inputs = {source.view: source for source in query.inputs}
        self._target = target
        self._schema = known_columns(
            {
                source.view: {field.name: sql_type(field.type) for field in source.source.schema}
                for source in query.inputs
            }
        )
        self.fills: list[Fill] = []
        self._literals: list[Mapping[str, exp.Literal]] = []

    def branch(self, select: exp.Select) -> Branch:
        tree = inlined(select)
        for number, node in enumerate(tree.find_all(exp.Subquery)):
            if not node.alias:
                node.set("alias", exp.TableAlias(this=exp.to_identifier(f"__snapline_derived_{number}")))
        try:
            seen = qualify(tree.copy(), schema=self._schema, dialect=SnaplineSql, identify=True)
        except (SqlglotError, KeyError, AttributeError, ValueError) as error:
            raise refused_query("this query", f"Its columns cannot be told: {str(error).splitlines()[0]}") from None
        assert isinstance(seen, exp.Select)
        self._check_clauses(seen, _CLAUSES)
        relations = self._relations(seen)
        views = [relation.view for relation in relations]
        if len(set(views)) < len(views):
            raise refused_query("one common table expression that is read twice", "Write it out twice.")
        projections = [expression.unalias() for expression in seen.expressions]
        output = self._output(seen)
        inputs = tuple(self._with_keys(self._inputs[view], alone=len(views) == 1) for view in views)
        root = relations[0]
        if not keys_of(self._inputs[root.view].source):
            raise refused_query(
                f"{self._inputs[root.view].source.name}, which has no primary key,",
                "Give it one; in a join, one that has a primary key stands first.",
            )
        joined = self._joined(tree, relations)
        aggregated = (
            any(projection.find(exp.AggFunc) for projection in projections) or seen.args.get("group") is not None
        )
        if not (aggregated or seen.args.get("distinct")):
            if seen.args.get("having"):
                raise refused_query("HAVING without GROUP BY")
            self._check_rows(relations, output)
            return Branch(tree, inputs, root.view, joined)
        groups = self._groups(tree, seen, relations, projections, aggregated=aggregated)
        for group in groups:
            if group not in output.values():
                raise InvalidRequest(
                    f"Rows that are grouped by {group.sql(SnaplineSql)} are found again by it alone: it has to be a column of "
                    f"the primary key of {self._target.table.identifier}. Its key: "
                    f"{', '.join(self._target.table.schema.primary_keys)}."
                )
        if not groups:
            return Branch(tree, inputs, root.view, joined, None, tree)
        return Branch(tree, inputs, root.view, joined, groups_query(tree, groups), restricted(tree, groups))

    # --- what a query is made of

    def _check_clauses(self, select: exp.Select, known: set[str]) -> None:
        for key, value in select.args.items():
            if value and key not in known:
                raise refused_query(key.strip("_").replace("laterals", "lateral view").upper())
        distinct = select.args.get("distinct")
        if distinct is not None and distinct.args.get("on"):
            raise refused_query("DISTINCT ON")
        nodes = [node for part in self._parts(select) for node in part.walk()]
        if any(isinstance(node, exp.Query) for node in nodes):
            raise refused_query("a query inside of an expression", "Write it as a JOIN.")
        if any(isinstance(node, exp.Window) for node in nodes):
            raise refused_query("window functions")
        for node in nodes:
            is_star = isinstance(node, exp.Star) and isinstance(node.parent, exp.Count)
            if not (type(node) in _AROUND or is_star or is_of_row_alone(node)):
                raise refused_query(
                    named(node),
                    "Its value may change while no row does, or depends on the order of rows: leave it out.",
                )

    def _parts(self, select: exp.Select) -> Iterator[exp.Expr]:
        yield from select.expressions
        for key in ("where", "having"):
            if select.args.get(key):
                yield select.args[key].this
        group = select.args.get("group")
        if group is not None:
            extra = [key for key, value in group.args.items() if value and key != "expressions"]
            if extra:
                raise refused_query(
                    f"GROUP BY {extra[0].replace('_', ' ').upper()}", "Name the columns after GROUP BY."
                )
            yield from group.expressions
        for join in select.args.get("joins") or []:
            if join.args.get("on"):
                yield join.args["on"]

    def _relations(self, select: exp.Select) -> list[_Relation]:
        start = select.args.get("from_")
        if start is None:
            raise refused_query("a SELECT without a table")
        relations = [self._relation(start.this, None)]
        for join in select.args.get("joins") or []:
            side, kind, method = join.side.upper(), join.kind.upper(), (join.method or "").upper()
            if side not in ("", "LEFT") or kind not in ("", "INNER", "OUTER", "CROSS") or method:
                raise refused_query(
                    f"{' '.join(filter(None, (method, side, kind)))} JOIN", "Known are JOIN and LEFT JOIN."
                )
            relations.append(self._relation(join.this, join))
        return relations

    def _relation(self, node: exp.Expr, join: exp.Join | None) -> _Relation:
        name = node.alias_or_name
        if isinstance(node, exp.Table) and node.name in self._inputs:
            for key in ("pivots", "sample", "joins", "laterals"):
                if node.args.get(key):
                    raise refused_query(key.upper())
            columns = {column.lower(): column for column in self._inputs[node.name].source.schema.names}
            return _Relation(name, node.name, columns, join)
        inner = node.this if isinstance(node, exp.Subquery) else None
        if not isinstance(inner, exp.Select):
            raise refused_query(named(node))
        extra = [key for key, value in node.args.items() if value and key not in ("this", "alias")]
        if extra or (node.args.get("alias") and node.args["alias"].columns):
            raise refused_query("an inner query with names for its columns, or a clause after it")
        self._check_clauses(inner, _ROW_BY_ROW)
        if any(expression.find(exp.AggFunc) for expression in inner.expressions):
            raise refused_query("an aggregate inside of another query")
        below = self._relation(inner.args["from_"].this, None)
        columns = {}
        for projection in inner.expressions:
            made = projection.unalias()
            if isinstance(made, exp.Column) and made.name.lower() in below.columns:
                columns[projection.alias_or_name.lower()] = below.columns[made.name.lower()]
        return _Relation(name, below.view, columns, join)

    def _with_keys(self, read: Input, *, alone: bool) -> Input:
        """An input that holds its keys as well; in a join also the rows that conditions leave out."""
        names = read.source.schema.names
        wanted = {*(read.columns or names), *keys_of(read.source)}
        kept = None if read.columns is None else tuple(name for name in names if name in wanted)
        return replace(read, columns=kept, where=read.where if alone else None)

    def _output(self, select: exp.Select) -> dict[str, exp.Expr]:
        """What the columns of the sink's key are made of."""
        # The parts of a UNION ALL have the names of the first.
        self.fills = self.fills or changes.fitted(
            [expression.alias_or_name for expression in select.expressions], self._target
        )
        if len(select.expressions) != len(self._target.columns) and not self._target.by_name:
            changes.fitted([expression.alias_or_name for expression in select.expressions], self._target)
        keys = self._target.table.schema.primary_keys
        made: dict[str, exp.Expr] = {}
        for fill in self.fills:
            if fill.name in keys:
                made[fill.name] = self._filled(fill, select)
        self._literals.append({name: value for name, value in made.items() if isinstance(value, exp.Literal)})
        return made

    def _filled(self, fill: Fill, select: exp.Select) -> exp.Expr:
        if fill.position is None:
            return exp.null() if fill.value is None else exp.Literal.string(fill.value)
        selected: exp.Expr = select.expressions[fill.position]
        return selected.unalias()

    # --- how rows are found again

    def _check_rows(self, relations: Sequence[_Relation], output: Mapping[str, exp.Expr]) -> None:
        """Raise InvalidRequest if rows of the query are not told apart by the sink's key."""
        held = {(item.table, item.name.lower()) for item in output.values() if isinstance(item, exp.Column)}
        left = list(relations)
        ordered: list[_Relation] = []
        while True:
            determined = next((each for each in left if self._is_determined(each, held, ordered, relations)), None)
            if determined is None:
                break
            left.remove(determined)
            ordered.append(determined)
        if left:
            source = self._inputs[left[0].view].source
            keys = ", ".join(keys_of(source))
            raise InvalidRequest(
                f"Rows of {source.name} are told apart by its primary key ({keys}), which the primary key of "
                f"{self._target.table.identifier} ({', '.join(self._target.table.schema.primary_keys)}) does not hold as it is: "
                "several rows would become one. Select the key into the sink's key, with the same types, or join by it."
                if keys
                else f"Rows of {source.name}, which has no primary key, cannot be told apart. Give it one."
            )

    def _is_determined(
        self,
        relation: _Relation,
        held: set[tuple[str, str]],
        ordered: Sequence[_Relation],
        relations: Sequence[_Relation],
    ) -> bool:
        """Whether there is one row of a relation at the most for a row of the sink."""
        keys = keys_of(self._inputs[relation.view].source)
        equal: set[str] = set()
        condition = None if relation.join is None else relation.join.args.get("on")
        known = {each.name for each in ordered}
        for part in condition.flatten() if isinstance(condition, exp.And) else [condition]:
            part = part.unnest() if part is not None else None
            if not isinstance(part, exp.EQ):
                continue
            for mine, other in ((part.this, part.expression), (part.expression, part.this)):
                same = isinstance(mine, exp.Column) and mine.table == relation.name and isinstance(other, exp.Column)
                if same and other.table in known and self._type_of(mine, relations) == self._type_of(other, relations):
                    equal.add(mine.name.lower())
        own = {name for name, column in relation.columns.items() if (relation.name, name) in held or name in equal}
        return bool(keys) and {relation.columns[name] for name in own} >= set(keys)

    def _type_of(self, made: exp.Expr, relations: Sequence[_Relation]) -> pa.DataType | None:
        """The type of a column; of anything else it is not known."""
        if not isinstance(made, exp.Column):
            return None
        for relation in relations:
            column = relation.columns.get(made.name.lower()) if relation.name == made.table else None
            if column is not None:
                return self._inputs[relation.view].source.schema.field(column).type
        return None

    def _groups(
        self,
        tree: exp.Select,
        seen: exp.Select,
        relations: Sequence[_Relation],
        projections: Sequence[exp.Expr],
        *,
        aggregated: bool,
    ) -> list[exp.Expr]:
        """What a query groups by, constants left out."""
        if not aggregated:
            groups = list(projections)
        elif seen.args.get("distinct"):
            raise refused_query("DISTINCT beside an aggregate", "Leave DISTINCT out: groups differ.")
        else:
            group = seen.args.get("group")
            groups = [] if group is None else [expression.unnest() for expression in group.expressions]
            names = {name for relation in relations for name in relation.columns}
            asked = [] if group is None else tree.args["group"].expressions
            for expression, made in zip(asked, groups, strict=True):
                # Spark takes a column of the table before one of the query; so may not the analysis.
                is_column = isinstance(expression, exp.Column) and expression.name.lower() in names
                if is_column and not (isinstance(made, exp.Column) and made.name.lower() == expression.name.lower()):
                    raise refused_query(
                        f"GROUP BY {expression.name}, which two columns are called,", "Give one another name."
                    )
        return [group for group in groups if not isinstance(group, exp.Literal)]

    def _joined(self, tree: exp.Select, relations: Sequence[_Relation]) -> dict[str, exp.Select]:
        """For each joined view the query of the root's keys beside its rows; what it leaves out of the rest is not asked."""
        root, joined = relations[0], {}
        names = {column: name for name, column in root.columns.items()}
        keys = keys_of(self._inputs[root.view].source)
        for number, relation in enumerate(relations[1:]):
            source = self._inputs[relation.view].source
            if source.table is None:
                continue
            if not keys_of(source):
                raise refused_query(f"a join with {source.name}, which has no primary key,", "Give it one.")
            missing = [key for key in keys if key not in names]
            if missing:
                raise refused_query(f"a join of an inner query that leaves out {missing[0]}", "Select the key in it.")
            columns = [quoted_column(root.name, names[key], key) for key in keys]
            select = exp.select(*columns, copy=False)
            select.set("from_", tree.args["from_"].copy())
            select.set("joins", [join.copy() for join in tree.args["joins"]])
            select.args["joins"][number].set("side", None)
            if select.args["joins"][number].kind.upper() == "OUTER":
                select.args["joins"][number].set("kind", None)
            joined[relation.view] = select
        return joined

    def refuse_overlaps(self, parts: Sequence[Branch]) -> None:
        """Raise InvalidRequest if rows of two parts of a UNION ALL may have the same key."""
        for number, literals in enumerate(self._literals):
            for other in self._literals[:number]:
                apart = any(
                    name in other
                    and literals[name].is_string == other[name].is_string
                    and literals[name].this != other[name].this
                    and self._is_exact(name, literals[name])
                    for name in literals
                )
                if not apart:
                    raise InvalidRequest(
                        "Rows of the parts of a UNION ALL over tables whose rows change may have the same key in "
                        f"{self._target.table.identifier}. Give each part a constant of its own in a column of the sink's key: "
                        "SELECT 'a', … UNION ALL SELECT 'b', …."
                    )

    def _is_exact(self, name: str, literal: exp.Literal) -> bool:
        taken = self._target.table.schema.field(name).to_arrow().type
        return pa.types.is_string(taken) if literal.is_string else literal.is_int and pa.types.is_integer(taken)
