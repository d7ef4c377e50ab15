"""MERGE: what becomes of rows that match a source, of those that do not, and of source rows that match none.

The clauses become one SELECT over the views `target` and `source`, which Spark and DuckDB both run: a row for each
target row that changes, or that is new, with its new values. Pure text; the engines' modules run it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from ..errors import InvalidRequest, Unsupported
from ..metadata.schema import TableSchema

CLAUSE, FILE, ROW, SINKS, MOVES = "__clause", "__file", "__row", "__sinks", "__moves"
_THERE = "__there"
# The number of the clause that takes away what REPLACE WHERE replaces.
REPLACED = 1
# Columns that stand beside those of the tables while a change is computed.
HIDDEN = frozenset((CLAUSE, FILE, ROW, SINKS, MOVES, _THERE, "__kind", "__action"))
UPDATE: Literal["update"] = "update"
DELETE: Literal["delete"] = "delete"
INSERT: Literal["insert"] = "insert"
_ALLOWED: dict[str, tuple[str, ...]] = {
    "matched": (UPDATE, DELETE),
    "not matched": (INSERT,),
    "not matched by source": (UPDATE, DELETE),
}
Kind = Literal["matched", "not matched", "not matched by source"]
TARGET, SOURCE = "target", "source"
_SEEN: dict[str, tuple[str, ...]] = {
    "matched": (TARGET, SOURCE),
    "not matched": (SOURCE,),
    "not matched by source": (TARGET,),
}
KIND_OF: dict[str, str] = {UPDATE: "+U", DELETE: "-D", INSERT: "+I"}


@dataclass(frozen=True)
class MergeClause:
    """`WHEN <when> [AND <condition>] THEN <then>`; the first clause that holds for a row is taken.

    `condition` and the texts of `values` (by column) are SQL over `target.<column>` and `source.<column>`. Without
    `values` an update sets, and an insert fills, every column from the source's column of that name. `unset`: what the source
    has for columns that an update of all columns cannot set. `may_move`: an update may bring a row of a table with a key into
    another partition.
    """

    when: Kind
    then: Literal["update", "delete", "insert"]
    condition: str | None = None
    values: Mapping[str, str] | None = None
    unset: Mapping[str, str] = field(default_factory=dict)
    may_move: bool = False

    def fixed_columns(self, schema: TableSchema) -> Sequence[str]:
        """The columns that say where a row lies, which this clause cannot change."""
        if self.then != UPDATE:
            return ()
        return (
            schema.primary_keys if self.may_move else [*dict.fromkeys((*schema.primary_keys, *schema.partition_keys))]
        )


def seen_by(when: str) -> tuple[str, ...]:
    """Of which sides a clause sees a row: `TARGET`, `SOURCE`, or both."""
    return _SEEN[when]


def seeing_query(text: str, when: str, views: Mapping[str, str]) -> str:
    """The SELECT of a clause's condition or value from the sides alone of which it sees a row, given by their views."""
    places = [f"{views[side]} AS {side}" for side in seen_by(when) if side in views]
    return f"SELECT ({text}) AS seen FROM {' CROSS JOIN '.join(places)}"


def refuse_unreachable(clauses: Sequence[MergeClause]) -> None:
    """Raise InvalidRequest for a clause behind one of its kind that takes all rows."""
    full: set[str] = set()
    for clause in clauses:
        if clause.when in full:
            raise InvalidRequest(
                f"No row comes to this clause: a WHEN {clause.when.upper()} before it has no condition. Give that one a "
                "condition, or leave this one out."
            )
        if clause.condition is None:
            full.add(clause.when)


def refuse_no_condition(text: str, kind: str) -> None:
    """Raise InvalidRequest for a condition of another type than BOOLEAN."""
    if kind.lower() != "boolean":
        raise InvalidRequest(f"{text} is {kind.lower()}, where a condition is needed.")


def check_clauses(schema: TableSchema, source_columns: Sequence[str], clauses: Sequence[MergeClause]) -> None:
    """Raise InvalidRequest or Unsupported for clauses that the table cannot carry out."""
    if not clauses:
        raise InvalidRequest("A merge needs at least one clause.")
    refuse_unreachable(clauses)
    engine = schema.table_options.merge_engine
    if schema.primary_keys and engine != "deduplicate":
        raise Unsupported(
            f"The merge engine {engine} merges rows that are written again: UPDATE, DELETE and MERGE need 'merge-engine' = "
            "'deduplicate'."
        )
    if schema.primary_keys and schema.table_options.ignore_delete and any(clause.then == DELETE for clause in clauses):
        raise Unsupported(
            "The table has 'ignore-delete', with which no row is deleted by its key. Reset the option first."
        )
    for clause in clauses:
        if clause.then not in _ALLOWED.get(clause.when, ()):
            allowed = ", ".join(f"{when}: {' or '.join(then)}" for when, then in _ALLOWED.items())
            raise InvalidRequest(f"A merge cannot {clause.then!r} rows that are {clause.when!r}. Allowed: {allowed}.")
        if clause.then == DELETE and clause.values:
            raise InvalidRequest("A clause that deletes sets no values.")
        if clause.when == "not matched by source" and clause.then == UPDATE and clause.values is None:
            raise InvalidRequest("Rows without a match in the source are updated to given values: set `values`.")
        for name in clause.values or ():
            schema.field(name)
            if name in clause.fixed_columns(schema):
                raise InvalidRequest(
                    f"Column {name!r} says where a row lies and cannot be updated. Delete the row and insert it anew."
                )
        if clause.values is None and clause.then != DELETE:
            missing = [name for name in schema.column_names if name not in source_columns]
            if missing:
                raise InvalidRequest(
                    f"The source lacks {', '.join(missing)}. Its columns: {', '.join(source_columns)}. Say what each column "
                    "gets: in SQL UPDATE SET a = s.x, or INSERT (a) VALUES (s.x), in Python `values`."
                )


def replacing(schema: TableSchema, where: str) -> tuple[Sequence[str] | None, list[MergeClause]]:
    """What has to be equal, and the clauses, by which the rows of a source come in the place of those for which a condition
    over `target.` is true. With a key, rows of the same keys are replaced too.
    """
    clauses = [MergeClause("not matched by source", DELETE, where), MergeClause("not matched", INSERT)]
    if not schema.primary_keys:
        return None, clauses
    return schema.primary_keys, [*clauses, MergeClause("matched", UPDATE, may_move=True)]


def outside_query(where: str, plan: str) -> str:
    """The SELECT that counts the new rows of a merge's `plan` for which a condition over `target.` is not true."""
    written = f"target.{CLAUSE} <> {REPLACED}"
    return f"SELECT count(*) FROM {plan} AS target WHERE {written} AND NOT COALESCE(({where}), FALSE)"


def refuse_outside(count: int) -> None:
    """Raise InvalidRequest if there are rows that would come to lie outside of what is replaced."""
    if count:
        raise InvalidRequest(
            f"{count} rows of the query do not satisfy the condition of REPLACE WHERE. Nothing is written. Add the condition "
            "to the query, or INSERT those rows by themselves."
        )


def refuse_repeated(count: int) -> None:
    """Raise InvalidRequest if several rows of a query have one key."""
    if count:
        raise InvalidRequest(
            f"{count} keys are given by more than one row of the query, so that it is open which of them stays. Nothing is "
            "written. Make the query unique by the primary key."
        )


def merge_query(
    schema: TableSchema,
    on: str | Sequence[str] | None,
    clauses: Sequence[MergeClause],
    quote: Callable[[str], str],
    *,
    target: str,
    source: str | None,
    addressed: bool,
) -> str:
    """The SELECT that gives `__clause` (from 1 on), the new values, and `__file` and `__row` if rows are `addressed`; of a
    table with a `sequence.field`, `__sinks`: whether the changed row would lie below the one that is there; with a source,
    `__moves`: whether an update of all columns gives a row another place.

    Without a source, the clauses are about the rows of the target alone; with `on` None no row matches another.
    """
    if on is not None and not isinstance(on, str):
        on = " AND ".join(f"target.{quote(name)} = source.{quote(name)}" for name in on)
    chosen = _choice(clauses, has_source=source is not None)
    new_values = {column.name: _new_value(clauses, column.name, schema, chosen, quote) for column in schema.fields}
    columns = [f"{chosen} AS {quote(CLAUSE)}", *(f"{value} AS {quote(name)}" for name, value in new_values.items())]
    if has_order(schema):
        is_there = "TRUE" if source is None else f"target.{_THERE}"
        lower = ">" if schema.table_options.sequence_field_sort_order == "descending" else "<"
        sinks = _sinks(
            [(new_values[name], f"target.{quote(name)}") for name in schema.table_options.sequence_field], lower
        )
        columns.append(f"COALESCE({is_there} AND {sinks}, FALSE) AS {quote(SINKS)}")
    if source is not None:
        columns.append(f"{_moves(schema, clauses, chosen, quote)} AS {quote(MOVES)}")
    if addressed:
        columns += [f"target.{quote(name)} AS {quote(name)}" for name in (FILE, ROW)]
    if source is None:
        return f"SELECT {', '.join(columns)} FROM {target} AS target WHERE {chosen} IS NOT NULL"
    kinds = {clause.when for clause in clauses}
    # Only the sides that a clause speaks of.
    join = {
        frozenset({"matched"}): "INNER",
        frozenset({"matched", "not matched"}): "RIGHT",
        frozenset({"not matched"}): "RIGHT",
    }.get(frozenset(kinds), "FULL")
    selected, there = ", ".join(columns), f"SELECT *, TRUE AS {_THERE} FROM"
    if on is None:
        # Not one FULL JOIN: it would compare each row with each.
        sides = ((f"{target}", f"{source} WHERE FALSE", "LEFT"), (f"{target} WHERE FALSE", f"{source}", "RIGHT"))
        return " UNION ALL ".join(
            f"SELECT {selected} FROM ({there} {each}) AS target {side} JOIN ({there} {other}) AS source ON FALSE "
            f"WHERE {chosen} IS NOT NULL"
            for each, other, side in sides
        )
    return (
        f"SELECT {selected} FROM ({there} {target}) AS target {join} JOIN ({there} {source}) AS source ON {on} "
        f"WHERE {chosen} IS NOT NULL"
    )


def _new_value(
    clauses: Sequence[MergeClause], column: str, schema: TableSchema, chosen: str, quote: Callable[[str], str]
) -> str:
    """What a column of a row becomes by the clause that is chosen for it."""
    cases = []
    for number, clause in enumerate(clauses, 1):
        value = _value(clause, column, schema, quote)
        if value is not None:
            cases.append(f"WHEN {number} THEN {value}")
    kept = f"target.{quote(column)}"
    return f"CASE {chosen} {' '.join(cases)} ELSE {kept} END" if cases else kept


def _choice(clauses: Sequence[MergeClause], *, has_source: bool) -> str:
    """The number of the first clause that holds, or null."""
    sides = {
        "matched": f"target.{_THERE} AND source.{_THERE}",
        "not matched": f"target.{_THERE} IS NULL",
        "not matched by source": f"source.{_THERE} IS NULL" if has_source else "TRUE",
    }
    cases = []
    for number, clause in enumerate(clauses, 1):
        condition = f" AND ({clause.condition})" if clause.condition else ""
        cases.append(f"WHEN {sides[clause.when]}{condition} THEN {number}")
    return f"(CASE {' '.join(cases)} END)"


def _moves(schema: TableSchema, clauses: Sequence[MergeClause], chosen: str, quote: Callable[[str], str]) -> str:
    """Whether an update of all columns would change one that says where a row lies."""
    cases = []
    for number, clause in enumerate(clauses, 1):
        for name, value in _unset(clause, schema, quote).items():
            cases.append(f"WHEN {chosen} = {number} AND ({value}) IS DISTINCT FROM target.{quote(name)} THEN TRUE")
    return f"CASE {' '.join(cases)} ELSE FALSE END" if cases else "FALSE"


def _unset(clause: MergeClause, schema: TableSchema, quote: Callable[[str], str]) -> Mapping[str, str]:
    if clause.then != UPDATE or clause.values is not None:
        return clause.unset
    return {name: f"source.{quote(name)}" for name in clause.fixed_columns(schema)}


def refuse_moving(schema: TableSchema, count: int | None) -> None:
    """Raise InvalidRequest if an update of all columns would change a row's key or partition."""
    if count:
        places = ", ".join(dict.fromkeys((*schema.primary_keys, *schema.partition_keys)))
        raise InvalidRequest(
            f"{count} rows would get other values of the columns that say where a row lies ({places}) by UPDATE SET *. Nothing "
            "is written. Match on these columns too, name the columns to set, or delete the rows and insert them anew."
        )


def has_order(schema: TableSchema) -> bool:
    """Whether columns of the rows say which of those with a key is the later one."""
    return bool(schema.primary_keys and schema.table_options.sequence_field)


def _sinks(pairs: Sequence[tuple[str, str]], lower: str) -> str:
    """Whether new values of some columns come before the old ones, by the comparison `lower`; nulls come first."""
    new, old = pairs[0]
    is_lower = f"(({old}) IS NOT NULL AND (({new}) IS NULL OR ({new}) {lower} ({old})))"
    if len(pairs) == 1:
        return is_lower
    return f"({is_lower} OR (({new}) IS NOT DISTINCT FROM ({old}) AND {_sinks(pairs[1:], lower)}))"


def _value(clause: MergeClause, column: str, schema: TableSchema, quote: Callable[[str], str]) -> str | None:
    """What a clause makes of a column; None if the row keeps what it has."""
    if clause.then == DELETE:
        return None
    if clause.values is None:
        return None if column in clause.fixed_columns(schema) else f"source.{quote(column)}"
    if column in clause.values:
        return f"({clause.values[column]})"
    return "NULL" if clause.then == INSERT else None


def ambiguous(count: int) -> InvalidRequest:
    """The error for target rows that several source rows want to change."""
    return InvalidRequest(
        f"{count} rows of the table match more than one row of the source each, so that it is open what becomes of them. "
        "Make the source unique by the columns of the match."
    )
