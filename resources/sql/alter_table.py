"""ALTER TABLE: columns, options, partitions, names."""

from collections.abc import Sequence
from typing import Any

from sqlglot import exp

from storage import (
    AlreadyExists,
    ChangeType,
    DropColumn,
    DropNotNull,
    InvalidRequest,
    MoveColumn,
    NotFound,
    RenameColumn,
    SchemaChange,
    SetComment,
    SetDefault,
    SetNotNull,
    SetOptions,
    StorageError,
    Table,
    options_in_case,
    refuse_without_effect,
)
from storage.sql.commands import AlterTable
from storage.sql.table_definition import constant_of, type_of

from .added_column import added_column
from .changes import partition_values
from .computed import with_renamed, without
from .held_names import in_place, in_words_of, is_held, refuse_twins
from .names import Names
from .place import at
from .result import Act, Result
from .unread import take


def alter_table(node: AlterTable, names: Names) -> Act:
    """ALTER TABLE. With IF EXISTS an unknown table is no error; errors of the store say where in the text they arose."""
    action, values = node.args["action"], node.args.get("values")
    if_exists = bool(node.args.get("exists"))
    if action == "rename to" and isinstance(values, exp.Table):
        return _rename(names, node.this, values, if_exists)
    try:
        table = names.table(node.this)
    except NotFound:
        if if_exists:
            take(node)
            return lambda: Result("There is no such table; nothing to alter.")
        raise
    try:
        act = _act(node, table, action, values)
    except StorageError as error:
        raise at(node.this, error) from None

    def placed() -> Result:
        try:
            return act()
        except StorageError as error:
            raise at(node.this, error) from None

    return placed


def _act(node: AlterTable, table: Table, action: str, values: Any) -> Act:
    where = partition_values(node.args.get("partition"), table)
    if action == "compact":
        return lambda: _compacted(table, where)
    if action == "drop partition":
        partitions = [partition_values(value, table) for value in values]
        if_exists = bool(node.args.get("action_exists"))
        return lambda: _partitions_dropped(table, partitions, if_exists)
    if action == "add partition":
        partitions = [partition_values(value, table) for value in values]
        if_not_exists = bool(node.args.get("action_exists"))
        return lambda: _partitions_added(table, partitions, if_not_exists)
    if where:
        if action in ("set", "reset") and set(dict(values) if action == "set" else values) == {"change-tracking"}:
            tracked = action == "reset" or _boolean("change-tracking", dict(values)["change-tracking"])
            return lambda: _track(table, where, tracked)
        raise InvalidRequest("Of a partition only 'change-tracking' can be set; or compact it.")
    changes = _changes(node, table, action, values)

    def act() -> Result:
        if not changes:
            return Result(f"{table.identifier} stays as it is.")
        changed = table.alter(*changes)
        return Result(f"{table.identifier} has schema {changed.schema.id}.")

    return act


def _changes(node: AlterTable, table: Table, action: str, values: Any) -> list[SchemaChange]:
    """The changes of an ALTER TABLE; none if IF EXISTS or IF NOT EXISTS leave nothing to do."""
    values = in_words_of(table, action, values)
    if action == "add":
        added = [in_place(added_column(value), table) for value in values]
        refuse_twins(
            [*table.schema.column_names, *(each.name for each in added)] if not node.args.get("action_exists") else []
        )
        if node.args.get("action_exists"):
            added = [each for each in added if not is_held(each.name, table.schema.fields)]
        return list(added)
    if action == "drop":
        computed = {column.name.lower() for column in table.computed_columns}
        wanted = [
            partition
            for partition in values
            if not node.args.get("action_exists")
            or partition.lower() in computed
            or is_held(partition, table.schema.fields)
        ]
        held, changes = without(table, wanted)
        return [*changes, *(DropColumn(name) for name in held)]
    if action == "rename":
        old, new = values
        if "." not in old:
            refuse_twins([*(name for name in table.schema.column_names if name.lower() != old.lower()), new])
        return [RenameColumn(*values), *with_renamed(table, *values)]
    if action == "reset":
        values = [*options_in_case(dict.fromkeys(values, ""), table.schema.column_names)]
        is_commented = table.schema.comment is not None and "comment" in values
        missing = [key for key in values if key not in table.schema.options and not (key == "comment" and is_commented)]
        if missing and not node.args.get("action_exists"):
            raise InvalidRequest(f"Option {missing[0]!r} is not set, so that it cannot be reset.")
        kept = tuple(key for key in values if key in table.schema.options)
        return [*([SetComment(None, None)] if is_commented else []), *([SetOptions({}, kept)] if kept else [])]
    if action == "set default":
        name, value = values
        field = table.schema.field(name) if "." not in name else None
        return [SetDefault(name, value if field is None else constant_of(value, field.type, name))]
    if action == "set":
        values = options_in_case(_once(values), table.schema.column_names)
        if "comment" in values:
            # What Paimon's SQL calls a table's comment.
            said = values.pop("comment")
            return [SetComment(None, said), *([SetOptions(values)] if values else [])]
        keyed, partitioned = bool(table.schema.primary_keys), bool(table.schema.partition_keys)
        refuse_without_effect(values, table.schema.options, keyed=keyed, partitioned=partitioned)
        values = tuple(values.items())
    return _plain_changes(action, values)


def _track(table: Table, where: dict[str, str], tracked: bool) -> Result:
    path = "/".join(f"{name}={where[name]}" for name in table.schema.partition_keys if name in where)
    off = [
        key for key in table.schema.options.get("change-tracking.off-partitions", "").split(",") if key and key != path
    ]
    if not tracked:
        off.append(path)
    key = "change-tracking.off-partitions"
    changed = table.alter(SetOptions({key: ",".join(off)}) if off else SetOptions({}, (key,)))
    return Result(f"{table.identifier} has schema {changed.schema.id}.")


def _rename(names: Names, node: exp.Table, new: exp.Table, if_exists: bool) -> Act:
    place = names.place(node)
    target = names.place_beside(new, place)
    if names.kafka(place) is not None:
        raise at(
            node, InvalidRequest(f"{place.identifier} is a Kafka table, which keeps its name: create another one.")
        )
    if place.catalog != target.catalog:
        raise at(new, InvalidRequest("A table stays in its catalog."))
    if target.identifier.database not in names.catalog(target).databases():
        raise at(new, NotFound(f"There is no database {target.identifier.database!r}. Create it first."))

    def act() -> Result:
        catalog = names.catalog(place)
        if if_exists and not catalog.exists(str(place.identifier)):
            return Result("There is no such table; nothing to alter.")
        try:
            catalog.rename_table(str(place.identifier), str(target.identifier))
        except StorageError as error:
            raise at(node, error) from None
        return Result(f"{place.identifier} is called {target.identifier}.")

    return act


def _compacted(table: Table, where: dict[str, str]) -> Result:
    snapshot = table.compact(partition=where or None)
    return Result(
        f"Snapshot {snapshot.id} of {table.identifier} is compacted." if snapshot else "There is nothing to compact."
    )


def _once(options: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Options by key. Raises InvalidRequest for one that is given twice."""
    merged = dict(options)
    if len(merged) < len(options):
        twice = next(key for at, (key, _) in enumerate(options) if key in dict(options[:at]))
        raise InvalidRequest(f"Option {twice!r} is given twice. Give it once.")
    return merged


def _partitions_added(table: Table, partitions: list[dict[str, str]], if_not_exists: bool) -> Result:
    columns = table.schema.partition_keys
    for partition in partitions:
        if len(partition) < len(columns) or not columns:
            raise InvalidRequest(
                f"A partition of {table.identifier} has values of all its partition columns: {', '.join(columns) or 'none'}."
            )
        # Also where it does not matter whether it is there: a value that is none is refused.
        table.partition_values(partition)
    there = [] if if_not_exists else [partition for partition, held in _held(table, partitions) if held]
    if there:
        raise AlreadyExists(
            f"{table.identifier} has the partition {_written(there[0])} already. IF NOT EXISTS lets it be."
        )
    return Result("A partition is there as soon as it has rows.")


def _written(partition: dict[str, str]) -> str:
    return ", ".join(f"{name} = {value!r}" for name, value in partition.items())


def _held(table: Table, partitions: list[dict[str, str]]) -> list[tuple[dict[str, str], bool]]:
    """With each of some values of some columns or all, whether there is a partition that has them."""
    known = [table.partition_values(held) for held in table.partitions()]
    wanted = [table.partition_values(partition) for partition in partitions]
    return [
        (partition, any(values.items() <= held.items() for held in known))
        for partition, values in zip(partitions, wanted, strict=True)
    ]


def _partitions_dropped(table: Table, partitions: list[dict[str, str]], if_exists: bool) -> Result:
    missing = [] if if_exists else [partition for partition, held in _held(table, partitions) if not held]
    if missing:
        raise NotFound(
            f"{table.identifier} has no such partition, {_written(missing[0])}; nothing is dropped. IF EXISTS lets it be."
        )
    snapshot = table.drop_partition(*partitions)
    return Result(f"Snapshot {snapshot.id}: dropped the partition." if snapshot else "There was no such partition.")


def _boolean(key: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise InvalidRequest(f"Option {key!r} = {text!r} is neither true nor false.")
    return text.lower() == "true"


def _plain_changes(action: str, values: Any) -> list[SchemaChange]:
    match action:
        case "set":
            return [SetOptions(dict(values))]
        case "type":
            return [ChangeType(values[0], type_of(values[1]))]
        case "drop not null":
            return [DropNotNull(values)]
        case "set not null":
            return [SetNotNull(values)]
        case "comment":
            return [SetComment(*values)]
        case "move":
            return [MoveColumn(values[0], first=values[2], after=values[1])]
    raise InvalidRequest(f"ALTER TABLE … {action} is not known.")
