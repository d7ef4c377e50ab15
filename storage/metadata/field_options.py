"""Options of single columns, `fields.<column>.…`: those that nobody follows, or that contradict each other, are refused when they
are given.
"""

from collections.abc import Mapping

from ..errors import InvalidRequest
from ..option_texts import parse_names
from .schema import TableSchema

_GROUP = ".sequence-group"
# The functions that follow an option; those of all others are followed whatever the function is.
_FOLLOWED_BY = {
    "list-agg-delimiter": ("listagg",),
    "distinct": ("listagg", "collect"),
    "nested-key": ("nested_update", "nested_partial_update"),
    "count-limit": ("nested_update",),
    "ts-field": ("merge_map_with_keytime",),
}


def declared_function(options: Mapping[str, str], name: str) -> str | None:
    """The function that aggregates a column: its own, or that of all columns; None if none is named."""
    return options.get(f"fields.{name}.aggregate-function") or options.get("fields.default-aggregate-function")


def declared_groups(options: Mapping[str, str]) -> dict[str, tuple[tuple[str, ...], tuple[str, ...]]]:
    """The sequence groups, by the options that declare them: the columns that order one, and those that it holds."""
    return {
        key: (parse_names(key.removeprefix("fields.").removesuffix(_GROUP)), parse_names(text))
        for key, text in options.items()
        if key.startswith("fields.") and key.endswith(_GROUP)
    }


def check_field_option(schema: TableSchema, key: str) -> None:
    """Raise InvalidRequest for an option that names columns that are not there, has no effect, or contradicts another one."""
    engine = schema.table_options.merge_engine
    named, _, what = key.removeprefix("fields.").rpartition(".")
    _refuse_strange(schema, key, parse_names(named))
    if what == "stats-mode":
        return
    if engine not in ("aggregation", "partial-update"):
        raise InvalidRequest(
            f"Option {key!r} has no effect with 'merge-engine' = {engine!r}: it is for aggregation and partial-update. Leave it "
            "out."
        )
    if key.endswith(_GROUP):
        _check_group(schema, key, parse_names(named))
        return
    for name in parse_names(named):
        if name in schema.primary_keys:
            raise InvalidRequest(
                f"Option {key!r} has no effect: column {name!r} is in the primary key, and its value stays. Leave it out."
            )
    function = declared_function(schema.options, named)
    followers = _FOLLOWED_BY.get(what)
    if followers is not None and function not in followers:
        is_said = f"is aggregated by {function!r}" if function else "has no 'aggregate-function'"
        raise InvalidRequest(
            f"Option {key!r} has no effect: it is for {' and '.join(followers)}, and column {named!r} {is_said}. Leave it out."
        )


def _check_group(schema: TableSchema, key: str, order_by: tuple[str, ...]) -> None:
    if schema.table_options.merge_engine != "partial-update":
        raise InvalidRequest(f"Option {key!r} has no effect: sequence groups are for partial-update. Leave it out.")
    columns = parse_names(schema.options[key])
    _refuse_strange(schema, key, columns)
    if not columns:
        raise InvalidRequest(f"Option {key!r} names no column: name those that are updated together.")
    for name in (*order_by, *columns):
        if name in schema.primary_keys:
            raise InvalidRequest(
                f"Option {key!r}: column {name!r} is in the primary key, and its value stays. Leave it out."
            )
        if columns.count(name) + order_by.count(name) > 1:
            raise InvalidRequest(f"Option {key!r} names column {name!r} twice: name it once.")
    for other, (other_order_by, other_columns) in declared_groups(schema.options).items():
        both = [name for name in (*order_by, *columns) if name in (*other_order_by, *other_columns)]
        if other != key and both:
            raise InvalidRequest(
                f"Column {both[0]!r} is in two sequence groups, of {key!r} and {other!r}: a column follows one of them."
            )


def _refuse_strange(schema: TableSchema, key: str, names: tuple[str, ...]) -> None:
    strange = [name for name in names if name not in schema.column_names]
    if strange:
        raise InvalidRequest(
            f"Option {key!r}: there is no column {strange[0]!r}. Columns: {', '.join(schema.column_names)}."
        )
