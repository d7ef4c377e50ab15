"""What becomes of columns that an asset makes and its table does not have, or has with another type."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress

import dagster as dg
import pyarrow as pa

from storage import AddColumn, AlreadyExists, ChangeType, InvalidRequest, SchemaChange, StorageError, Table

REFUSE, ADD, EVOLVE = "refuse", "add", "evolve"
POLICIES = (REFUSE, ADD, EVOLVE)
_TRIES = 3


def check_policy(policy: str) -> None:
    """Raise InvalidRequest for what is no policy."""
    if policy not in POLICIES:
        raise InvalidRequest(f"on_schema_change={policy!r} is unknown. Use one of: {', '.join(POLICIES)}.")


def with_columns_of(
    opened: Callable[[], Table], rows: pa.Table, policy: str, comments: Mapping[str, str]
) -> tuple[Table, list[str]]:
    """The table that `opened` gives with the columns that rows need, and what was changed, a few words each. Of rows that are
    elsewhere `rows` has the columns alone.

    refuse: nothing is changed. add: columns that the table lacks are added, nullable, null in the rows that are there. evolve:
    besides, types become wider where every value fits, as ALTER allows; texts and bytes keep their length. What no policy
    changes is left to the writer, which refuses values that do not fit; no column is added or changed for rows that do not.
    Raises InvalidRequest that says what differs.
    """
    columns = rows.schema
    for tries_left in reversed(range(_TRIES)):
        table = opened()
        new = [column for column in columns if column.name not in table.schema.column_names]
        known = {name.lower(): name for name in table.schema.column_names}
        twins = [
            f"{field.name} ({known[field.name.lower()]} in the table)" for field in new if field.name.lower() in known
        ]
        if twins:
            raise InvalidRequest(
                f"The rows for {table.identifier} have columns whose names differ by case alone from those of the table: "
                f"{', '.join(twins)}. Nothing is written. Name them as the table does."
            )
        added = [AddColumn(field.name, field.type, comments.get(field.name)) for field in new]
        wider = list(_wider(table, columns))
        if added and policy == REFUSE:
            raise InvalidRequest(_refusal(table, new, wider))
        changes: list[SchemaChange] = [*added, *(wider if policy == EVOLVE else ())]
        if not changes:
            return table, []
        sentences = [*(f"column {each.name} added" for each in added)]
        sentences += (
            [f"column {field.name} became {_as_text(table, field)}" for field in wider] if policy == EVOLVE else []
        )
        table.refuse_unfit(rows, changes)
        try:
            return table.alter(*changes), sentences
        except AlreadyExists:
            # Another run has added it meanwhile.
            if not tries_left:
                raise
    raise AssertionError("the last try raises")


def left_null(table: Table, columns: pa.Schema) -> list[str]:
    """The columns of a table that rows do not have: they become null."""
    return [name for name in table.schema.column_names if name not in columns.names]


def _wider(table: Table, columns: pa.Schema) -> Iterator[ChangeType]:
    """Changes of types to those of the rows, where all values that are there fit and some of the rows might not."""
    for column in columns:
        if column.name not in table.schema.column_names or pa.types.is_null(column.type):
            continue
        old = table.schema.field(column.name).type
        change = ChangeType(column.name, column.type)
        # Arrow knows no length of texts: they would all become as long as can be.
        with suppress(StorageError):
            new = change.apply(table.schema).field(column.name).type
            if new != old and not ((old.is_text and new.is_text) or (old.is_bytes and new.is_bytes)):
                yield change


def _as_text(table: Table, change: ChangeType) -> str:
    return str(change.apply(table.schema).field(change.name).type).removesuffix(" NOT NULL")


def _refusal(table: Table, new: Sequence[pa.Field], wider: Sequence[ChangeType]) -> str:
    shown = [f"{field.name} ({field.type})" for field in new]
    types = [f"{field.name} ({table.schema.field(field.name).type} in the table, {field.type} made)" for field in wider]
    differs = f"new: {', '.join(shown)}" + (f"; wider: {', '.join(types)}" if types else "")
    return (
        f"The rows for {table.identifier} have other columns than the table, {differs}. Nothing is written. Say "
        "on_schema_change='add' to add new columns (null in the rows that are there), 'evolve' to widen types too; or leave "
        f"them out. Columns of the table: {', '.join(table.schema.column_names)}."
    )


def columns_told(
    context: dg.AssetExecutionContext, table: Table, altered: list[str], null: list[str]
) -> dict[str, str]:
    """What became of columns, for the metadata of a run; its log says it too."""
    column_changes = {
        name: ", ".join(what) for name, what in (("schema_change", altered), ("columns_left_null", null)) if what
    }
    for name, what in column_changes.items():
        context.log.info(f"{table.identifier}: {name.replace('_', ' ')}: {what}")
    return column_changes
