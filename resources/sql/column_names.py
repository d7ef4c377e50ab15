"""The names that Spark gives to columns without one, as far as they follow from what was typed."""

from sqlglot import exp

from storage.sql.dialect import SnaplineSql

_OPERATORS: dict[type[exp.Expr], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
    exp.EQ: "=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.And: "AND",
    exp.Or: "OR",
    exp.IntDiv: "div",
    exp.NullSafeEQ: "<=>",
}
_CALLS: dict[type[exp.Expr], str] = {
    exp.Sum: "sum",
    exp.Avg: "avg",
    exp.Min: "min",
    exp.Max: "max",
    exp.Stddev: "stddev",
    exp.StddevSamp: "stddev_samp",
    exp.Upper: "upper",
    exp.Lower: "lower",
    exp.Abs: "abs",
    exp.Coalesce: "coalesce",
    exp.Length: "length",
    exp.Concat: "concat",
    exp.Substring: "substring",
    exp.Round: "round",
    exp.Array: "array",
    exp.Year: "year",
    exp.Sqrt: "sqrt",
    exp.Initcap: "initcap",
}


class _Unknown(Exception):
    """There is no rule for the name."""


def column_name(node: exp.Expr) -> str:
    """The name of a column that has none: Spark's where there is a rule for it, else the expression as SQL."""
    try:
        return _name(node)
    except _Unknown:
        return node.transform(_by_alias).sql(SnaplineSql)


def _by_alias(node: exp.Expr) -> exp.Expr:
    """A table of a query as the query calls it: what it is read as has another name each time."""
    return exp.table_(node.alias) if isinstance(node, exp.Table) and node.alias else node


def _name(node: exp.Expr) -> str:
    kind = type(node)
    if kind in _OPERATORS:
        return f"({_name(node.this)} {_OPERATORS[kind]} {_name(node.expression)})"
    match node:
        case exp.Column() | exp.Dot():
            if isinstance(node.this, exp.Star):
                raise _Unknown
            return node.name
        case exp.Paren():
            return _name(node.this)
        case exp.Literal():
            if node.is_string or node.is_int or "e" not in node.this.lower():
                return str(node.this)
        case exp.Boolean():
            return "true" if node.this else "false"
        case exp.Null():
            return "NULL"
        case exp.Anonymous() if node.name.lower() == "positive" and len(node.expressions) == 1:
            return f"(+ {_name(node.expressions[0])})"
        case exp.Neg() if not isinstance(node.this, exp.Literal):
            return f"(- {_name(node.this)})"
        case exp.Neg() if node.this.is_int:
            return f"-{node.this.this}"
        case exp.Not() if not isinstance(node.this, exp.In | exp.Like | exp.Between | exp.Is):
            return f"(NOT {_name(node.this)})"
        case exp.NEQ():
            return f"(NOT ({_name(node.this)} = {_name(node.expression)}))"
        case exp.Is() if isinstance(node.expression, exp.Null):
            return f"({_name(node.this)} IS NULL)"
        case exp.In() if node.expressions:
            return f"({_name(node.this)} IN ({_listed(node.expressions)}))"
        case exp.Cast() if isinstance(node.this, exp.Column) and kind is exp.Cast:
            return _name(node.this)
        case exp.Subquery() if isinstance(node.this, exp.Query):
            return f"scalarsubquery({_outer(node.this)})"
        case exp.Exists() if isinstance(node.this, exp.Query):
            return f"exists({_outer(node.this)})"
        case exp.Count():
            return _count(node)
        case exp.Case() if node.this is None:
            pairs = [
                f"WHEN {_name(argument.this)} THEN {_name(argument.args['true'])}" for argument in node.args["ifs"]
            ]
            default = node.args.get("default")
            return f"CASE {' '.join(pairs)} {'' if default is None else f'ELSE {_name(default)} '}END"
    if kind in _CALLS:
        return _call(node, _CALLS[kind])
    raise _Unknown


def _outer(query: exp.Query) -> str:
    """The columns of the queries around it that a query names."""
    own = {table.alias_or_name.lower() for table in query.find_all(exp.Table, exp.Subquery)}
    outer = [column.name for column in query.find_all(exp.Column) if column.table and column.table.lower() not in own]
    return ", ".join(dict.fromkeys(outer))


def _count(node: exp.Count) -> str:
    if isinstance(node.this, exp.Star):
        return "count(1)"
    return _call(node, "count")


def _call(node: exp.Expr, word: str) -> str:
    given = node.this
    if isinstance(given, exp.Distinct):
        return f"{word}(DISTINCT {_listed(given.expressions)})"
    arguments = [
        argument
        for key in node.arg_types
        for value in [node.args.get(key)]
        for argument in (value if isinstance(value, list) else [value])
        if isinstance(argument, exp.Expr)
    ]
    return f"{word}({_listed(arguments)})"


def _listed(nodes: list[exp.Expr]) -> str:
    return ", ".join(map(_name, nodes))
