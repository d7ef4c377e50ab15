"""Queries of Spark's SQL in DuckDB's: names are looked up here, by Spark's rules, and every expression has its type.

What has no rule is refused by name, a clause as well as a function: see `duckdb_expressions`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
from sqlglot import exp

from storage import InvalidRequest
from storage.sql.dialect import SnaplineSql

from . import spark_types as st
from .column_names import column_name
from .duckdb_aggregates import ordered
from .duckdb_decimals import Typed
from .duckdb_expressions import Expressions, implied, unknown
from .duckdb_functions import RULES
from .duckdb_keys import compared_rows, group_key
from .duckdb_relations import Compiled, Relation, one_zero, quoted, relation_of, renamed, with_one_zero
from .duckdb_scope import Compiler, Scope, refuse_both, refuse_order_by_others
from .place import at
from .spark_types import SparkType


def compile_query(tree: exp.Expr, views: Mapping[str, pa.Schema]) -> Compiled:
    """A query over views. Raises InvalidRequest for what has no rule."""
    return _Queries(views, {}, None).of(tree)


def compile_expression(node: exp.Expr, relations: Sequence[Relation], views: Mapping[str, pa.Schema]) -> Typed:
    """An expression over the columns of some tables; queries inside of it read views."""
    return _over(relations, views).of(node)


def compile_condition(node: exp.Expr, relations: Sequence[Relation], views: Mapping[str, pa.Schema]) -> str:
    """Likewise what is true, false or null of them. Raises InvalidRequest for values of other types."""
    return _over(relations, views).condition(node)


def _over(relations: Sequence[Relation], views: Mapping[str, pa.Schema]) -> Expressions:
    scope = Scope(_Queries(views, {}, None), None)
    scope.relations = list(relations)
    return Expressions(scope, RULES)


_SELECT_PARTS = {
    "with_",
    "expressions",
    "from_",
    "joins",
    "where",
    "group",
    "having",
    "qualify",
    "windows",
    "order",
    "limit",
    "offset",
    "distinct",
}


class _Queries:
    def __init__(
        self, views: Mapping[str, pa.Schema], expressions: Mapping[str, Compiled], around: Scope | None
    ) -> None:
        self.views = views
        # Common table expressions, of which the text stands before.
        self.expressions = dict(expressions)
        self._around = around

    def within(self, around: Scope) -> "_Queries":
        """The same inside of a SELECT, whose names are known too."""
        return _Queries(self.views, self.expressions, around)

    def of(self, node: exp.Expr) -> Compiled:
        match node:
            case exp.Select():
                _refuse_others(node, _SELECT_PARTS)
                with_text = self._with(node)
                return _prefixed(with_text, self._select(node))
            case exp.SetOperation():
                _refuse_others(node, {"with_", "this", "expression", "distinct", "order", "limit", "offset"})
                with_text = self._with(node)
                return _prefixed(with_text, self._modified(node, self._set_operation(node)))
            case exp.Subquery():
                _refuse_others(node, {"with_", "this", "alias", "order", "limit", "offset"})
                with_text = self._with(node)
                return _prefixed(with_text, self._modified(node, self.of(node.this)))
            case exp.Values():
                return self._values(node)
        raise unknown(node)

    # --- WITH

    def _with(self, node: exp.Expr) -> str:
        with_ = node.args.get("with_")
        if with_ is None:
            return ""
        _refuse_others(with_, {"expressions", "recursive"})
        texts = []
        for cte in with_.expressions:
            _refuse_others(cte, {"this", "alias"})
            name = cte.alias
            names = [column.name for column in cte.args["alias"].args.get("columns") or []]
            if with_.args.get("recursive") and _reads(cte.this, name):
                inner = self._recursive(cte, name, names)
            else:
                inner = renamed(cte, _Queries(self.views, self.expressions, self._around).of(cte.this), names)
            self.expressions[name.lower()] = inner
            columns = ", ".join(map(quoted, inner.held))
            texts.append(f"{quoted(name)} ({columns}) AS ({inner.sql})")
        return f"WITH {'RECURSIVE ' if with_.args.get('recursive') else ''}{', '.join(texts)} "

    def _recursive(self, node: exp.Expr, name: str, names: list[str]) -> Compiled:
        union = node.this
        if not isinstance(union, exp.Union) or union.args.get("distinct"):
            raise unknown(node)
        _refuse_others(union, {"this", "expression", "distinct"})
        first = renamed(node, self.of(union.this), names)
        again = _Queries(self.views, {**self.expressions, name.lower(): first}, self._around)
        second = again.of(union.expression)
        if second.types != first.types:
            raise at(
                node, InvalidRequest(f"{name!r}: both sides of the recursion need the same types. Cast them to one.")
            )
        return Compiled(f"{first.sql} UNION ALL {second.sql}", first.names, first.types)

    # --- set operations, values

    def _set_operation(self, node: exp.Expr) -> Compiled:
        left, right = self.of(node.this), self.of(node.expression)
        if len(left.names) != len(right.names):
            raise at(
                node,
                InvalidRequest(f"Both sides need as many columns: {len(left.names)} and {len(right.names)} are given."),
            )
        kinds = []
        for name, first, second in zip(left.names, left.types, right.types, strict=True):
            kind = st.common([first, second])
            if kind is None:
                raise at(
                    node,
                    InvalidRequest(
                        f"Column {name!r} is {first} on one side and {second} on the other. Cast them to one type."
                    ),
                )
            kinds.append(kind)
        distinct = bool(node.args.get("distinct"))
        word = node.key.upper() + ("" if distinct else " ALL")
        text = f"({_cast(left, kinds, node)}) {word} ({_cast(right, kinds, node)})"
        compiled = Compiled(text, left.names, tuple(kinds))
        if isinstance(node, exp.Union) and not distinct:
            return compiled
        compared_rows(compiled, node, node.key.upper())
        return one_zero(compiled)

    def _modified(self, node: exp.Expr, inner: Compiled) -> Compiled:
        """A query with ORDER BY, LIMIT and OFFSET of its own around it."""
        if not any(node.args.get(key) for key in ("order", "limit", "offset")):
            return inner
        scope = Scope(self, self._around, [inner.relation("__all")])
        columns = ", ".join(map(quoted, inner.held))
        text = f"SELECT * FROM ({inner.sql}) AS __all ({columns})"
        return Compiled(text + self._tail(node, Compiler(scope), inner.names, inner.types), inner.names, inner.types)

    def _values(self, node: exp.Values) -> Compiled:
        _refuse_others(node, {"expressions", "alias"})
        compiler = Compiler(Scope(self, self._around))
        rows = [
            expression.expressions if isinstance(expression, exp.Tuple) else [expression]
            for expression in node.expressions
        ]
        columns = [compiler.same(list(column)) for column in zip(*rows, strict=True)]
        names = tuple(column.name for column in node.args["alias"].columns)
        if len(names) != len(columns):
            raise at(node, InvalidRequest(f"VALUES have {len(columns)} columns, {len(names)} are named."))
        lines = [", ".join(texts[number] for texts, _ in columns) for number in range(len(rows))]
        inner = ", ".join(f"({line})" for line in lines)
        chosen = ", ".join(
            f"CAST({quoted(name)} AS {kind.duckdb}) AS {quoted(name)}"
            for name, (_, kind) in zip(names, columns, strict=True)
        )
        text = f"SELECT {chosen} FROM (VALUES {inner}) AS __values ({', '.join(map(quoted, names))})"
        return Compiled(text, names, tuple(kind for _, kind in columns))

    # --- SELECT

    def _select(self, node: exp.Select) -> Compiled:
        scope = Scope(self, self._around)
        source = self._from(node, scope)
        compiler = Compiler(scope)
        where = node.args.get("where")
        text = f" WHERE {compiler.condition(where.this)}" if where is not None else ""
        for window in node.args.get("windows") or []:
            if window.name.lower() in scope.windows:
                raise at(window, InvalidRequest(f"WINDOW defines {window.name!r} twice. Define it once."))
            scope.windows[window.name.lower()] = window
        chosen = self._chosen(node, scope, compiler)
        chosen, grouped = self._group(node, compiler, chosen)
        text += grouped
        output = {name.lower(): each for name, each in chosen}
        scope.twice = {name for name in output if sum(other.lower() == name for other, _ in chosen) > 1}
        scope.aliases, scope.aliases_first = output, False
        for key in ("having", "qualify"):
            if node.args.get(key) is not None:
                refuse_both(node.args[key], scope)
                text += f" {key.upper()} {compiler.condition(node.args[key].this)}"
        scope.aliases_first = True
        distinct = node.args.get("distinct")
        if distinct is not None:
            _refuse_others(distinct, set())
            refuse_order_by_others(node, compiler, chosen)
        names = tuple(name for name, _ in chosen)
        text += self._tail(node, compiler, names, [field.type for _, field in chosen])
        columns = ", ".join(f"{node.sql} AS {quoted(name)}" for name, node in chosen)
        sql = f"SELECT {'DISTINCT ' if distinct is not None else ''}{columns}{source}{text}"
        compiled = Compiled(sql, names, tuple(field.type for _, field in chosen))
        if distinct is None:
            return compiled
        compared_rows(compiled, node, "DISTINCT")
        return one_zero(compiled)

    def _chosen(self, node: exp.Select, scope: Scope, compiler: Compiler) -> list[tuple[str, Typed]]:
        chosen: list[tuple[str, Typed]] = []
        for projection in node.expressions:
            if isinstance(projection, exp.Star) or (
                isinstance(projection, exp.Column) and isinstance(projection.this, exp.Star)
            ):
                chosen += self._star(projection, scope)
                continue
            value, name = (
                (projection.this, projection.alias)
                if isinstance(projection, exp.Alias)
                else (projection, column_name(projection) or "''")
            )
            typed = compiler.of(value)
            if value.find(exp.AggFunc) is not None:
                scope.aggregated.add(typed.sql)
            chosen.append((name, typed))
            if isinstance(projection, exp.Alias):
                if name.lower() in scope.aliases:
                    scope.twice.add(name.lower())
                scope.aliases.setdefault(name.lower(), typed)
        return chosen

    def _star(self, node: exp.Expr, scope: Scope) -> list[tuple[str, Typed]]:
        star = node if isinstance(node, exp.Star) else node.this
        _refuse_others(star, {"except_"})
        table = node.table if isinstance(node, exp.Column) else None
        columns = scope.star(table)
        if not columns:
            raise at(node, InvalidRequest(f"There is nothing that {node.sql(SnaplineSql)} could stand for."))
        for excepted in star.args.get("except_") or []:
            count = sum(name.lower() == excepted.name.lower() for name, _ in columns)
            if count != 1:
                said = "is no column" if not count else f"are {count} columns"
                raise at(excepted, InvalidRequest(f"EXCEPT names {excepted.name!r}, which {said} of *."))
            columns = [(name, typed) for name, typed in columns if name.lower() != excepted.name.lower()]
        if not columns:
            raise at(node, InvalidRequest("EXCEPT leaves no column."))
        return columns

    def _group(
        self, node: exp.Select, compiler: Compiler, chosen: list[tuple[str, Typed]]
    ) -> tuple[list[tuple[str, Typed]], str]:
        """The columns, in which a group of 0.0 and -0.0 is called 0.0, and the clause."""
        group = node.args.get("group")
        if group is None:
            return chosen, ""
        floats: dict[str, Typed] = {}
        text = self._group_by(group, node, compiler, chosen, floats)
        for key, shown in floats.items():
            chosen = [(name, replace(node, sql=node.sql.replace(key, shown.sql))) for name, node in chosen]
        return chosen, text

    def _group_by(
        self,
        group: exp.Expr,
        node: exp.Select,
        compiler: Compiler,
        chosen: list[tuple[str, Typed]],
        floats: dict[str, Typed],
    ) -> str:
        """GROUP BY; `floats` gets the keys that are floats, by their SQL, and how they are shown."""

        def keyed(value: Typed, expression: exp.Expr) -> str:
            group_key(value, expression, "GROUP BY")
            if value.type.is_float:
                floats[value.sql] = with_one_zero(value)
            return value.sql

        _refuse_others(group, {"expressions", "rollup", "cube", "grouping_sets", "all"})
        if group.args.get("all"):
            plain = [keyed(value, group) for _, value in chosen if value.sql not in compiler.scope.aggregated]
            return f" GROUP BY {', '.join(plain)}" if plain else ""

        def key(expression: exp.Expr) -> str:
            if isinstance(expression, exp.Literal) and expression.is_int:
                position = int(expression.this)
                if not 1 <= position <= len(chosen):
                    raise at(expression, InvalidRequest(f"GROUP BY {position}: the SELECT has {len(chosen)} columns."))
                return keyed(chosen[position - 1][1], expression)
            if isinstance(expression, exp.Tuple) and not expression.expressions and expression in group.expressions:
                raise at(node, InvalidRequest("GROUP BY () is not known: leave it out for one group of all rows."))
            if isinstance(expression, exp.Tuple):
                return f"({', '.join(key(inner) for inner in expression.expressions)})"
            if isinstance(expression, exp.Paren):
                return key(expression.this)
            return keyed(compiler.of(expression), expression)

        texts = [key(expression) for expression in group.expressions]
        for name, word in (("rollup", "ROLLUP"), ("cube", "CUBE"), ("grouping_sets", "GROUPING SETS")):
            for grouping in group.args.get(name) or []:
                if grouping is True or not grouping.expressions:
                    # WITH ROLLUP: of all that stand before.
                    texts = [f"{word} ({', '.join(texts)})"]
                elif texts and name == "grouping_sets":
                    # With a comma between them each set is added to what stands before; without one it is not.
                    raise at(
                        node,
                        InvalidRequest("Expressions before GROUPING SETS: write GROUP BY GROUPING SETS (...) alone."),
                    )
                else:
                    texts.append(f"{word} ({', '.join(key(inner) for inner in grouping.expressions)})")
        return f" GROUP BY {', '.join(texts)}"

    def _tail(self, node: exp.Expr, compiler: Compiler, names: Sequence[str], types: Sequence[SparkType]) -> str:
        text = ""
        order = node.args.get("order")
        if order is not None:
            entries = []
            lower = [name.lower() for name in names]
            for ordering in order.expressions:
                place = None
                if isinstance(ordering.this, exp.Literal) and ordering.this.is_int:
                    place = int(ordering.this.this)
                elif (
                    isinstance(ordering.this, exp.Column)
                    and not ordering.this.table
                    and lower.count(ordering.this.name.lower()) == 1
                ):
                    place = lower.index(ordering.this.name.lower()) + 1
                if place is not None and not 1 <= place <= len(types):
                    raise at(
                        ordering,
                        InvalidRequest(f"ORDER BY {place}: there is no such place, {len(types)} are selected."),
                    )
                chosen = None if place is None else Typed(str(place), types[place - 1])
                entries.append(ordered(compiler, ordering, chosen))
            text = f" ORDER BY {', '.join(entries)}"
        for key in ("limit", "offset"):
            given = node.args.get(key)
            if given is not None:
                if not (isinstance(given.expression, exp.Literal) and given.expression.is_int):
                    raise unknown(given)
                text += f" {key.upper()} {given.expression.this}"
        return text

    # --- FROM

    def _from(self, node: exp.Select, scope: Scope) -> str:
        start = node.args.get("from_")
        if start is None:
            return ""
        text = " FROM " + self._source(start.this, scope)
        for join in [*_inner_joins(start.this), *(node.args.get("joins") or [])]:
            text += self._join(join, scope)
        return text

    def _source(self, node: exp.Expr, scope: Scope) -> str:
        alias = node.args.get("alias")
        names = (
            [argument.name for argument in alias.args.get("columns") or []] if isinstance(alias, exp.TableAlias) else []
        )
        if isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
            _refuse_others(node, {"this", "alias", "joins"})
            inner = self._named(node)
            if names and node.name in self.views:
                raise unknown(node, "alias")
            text = quoted(node.name)
        elif isinstance(node, exp.Subquery):
            _refuse_others(node, {"this", "alias", "with_", "order", "limit", "offset", "joins"})
            plain = node.copy()
            plain.set("joins", None)
            inner = _Queries(self.views, self.expressions, None).of(plain)
            text = f"({inner.sql})"
        elif isinstance(node, exp.Values):
            inner, names = self._values(node), []
            text = f"({inner.sql})"
        else:
            raise unknown(node)
        name = node.alias_or_name or f"__source{len(scope.relations)}"
        inner = renamed(node, inner, names)
        if any(relation.alias.lower() == name.lower() for relation in scope.relations):
            raise at(node, InvalidRequest(f"Two tables are called {name!r}: give one of them another alias."))
        scope.relations.append(inner.relation(name))
        if isinstance(node, exp.Table) and node.name in self.views:
            # The view may hold fewer columns: those that the query needs.
            return f"{text} AS {quoted(name)}"
        return f"{text} AS {quoted(name)} ({', '.join(map(quoted, inner.held))})"

    def _named(self, node: exp.Table) -> Compiled:
        if node.name in self.views:
            relation = relation_of(node.name, self.views[node.name])
            return Compiled(
                "", tuple(name for name, _ in relation.columns), tuple(kind for _, kind in relation.columns)
            )
        named = self.expressions.get(node.name.lower())
        if named is None:
            raise unknown(node)
        return named

    def _join(self, node: exp.Expr, scope: Scope) -> str:
        _refuse_others(node, {"this", "on", "side", "kind", "using"})
        side, kind = (node.args.get("side") or "").upper(), (node.args.get("kind") or "").upper()
        on, using = node.args.get("on"), node.args.get("using")
        word = f"{side} {kind}".strip().removesuffix(" OUTER")
        if kind in ("SEMI", "ANTI"):
            word = kind
        if word not in ("", "INNER", "CROSS", "LEFT", "RIGHT", "FULL", "SEMI", "ANTI"):
            raise unknown(node, "kind")
        before = list(scope.relations)
        text = self._source(node.this, scope)
        if _inner_joins(node.this):
            raise unknown(node.this, "joins")
        condition = None
        if using:
            condition = self._merge(using, before, scope, word, node)
        elif on is not None:
            condition = Compiler(scope).condition(on)
        elif word not in ("", "CROSS", "INNER"):
            raise at(node, InvalidRequest(f"{word} JOIN needs ON or USING."))
        if kind in ("SEMI", "ANTI"):
            scope.relations = before
        if condition is None:
            return f" CROSS JOIN {text}"
        return f" {word or 'INNER'} JOIN {text} ON {condition}"

    def _merge(self, using: list[exp.Expr], before: list[Relation], scope: Scope, word: str, node: exp.Expr) -> str:
        parts = []
        joined = scope.relations[-1]
        for identifier in using:
            name = identifier.name
            left = scope.merged.get(name.lower()) or next(
                (column for relation in before if (column := relation.column(name)) is not None), None
            )
            right = joined.column(name)
            if left is None or right is None:
                raise at(identifier, InvalidRequest(f"USING ({name}): both sides of the join need that column."))
            if left.type != right.type or not left.type.has_order:
                raise unknown(node, "using")
            parts.append(f"{left.sql} = {right.sql}")
            chosen = (
                right.sql if word == "RIGHT" else f"COALESCE({left.sql}, {right.sql})" if word == "FULL" else left.sql
            )
            if word not in ("SEMI", "ANTI"):
                scope.merged[name.lower()] = Typed(chosen, left.type)
        return " AND ".join(parts)


def _inner_joins(node: exp.Expr) -> list[exp.Expr]:
    return node.args.get("joins") or []


def _reads(tree: exp.Expr, name: str) -> bool:
    return any(each.name.lower() == name.lower() for each in tree.find_all(exp.Table))


def _prefixed(with_text: str, inner: Compiled) -> Compiled:
    return Compiled(with_text + inner.sql, inner.names, inner.types) if with_text else inner


def _cast(compiled: Compiled, kinds: Sequence[SparkType], node: exp.Expr) -> str:
    """A query with its columns under other types."""
    if list(compiled.types) == list(kinds):
        return compiled.sql
    names = [f"c{number}" for number in range(len(kinds))]
    chosen = ", ".join(
        f"{implied(Typed(name, given), kind, node)} AS {name}"
        for name, given, kind in zip(names, compiled.types, kinds, strict=True)
    )
    return f"SELECT {chosen} FROM ({compiled.sql}) AS __side ({', '.join(names)})"


def _refuse_others(node: exp.Expr, parts: set[str]) -> None:
    for key, value in node.args.items():
        if value and key not in parts:
            raise unknown(node, key)
