"""Whether a declaration of a table asset can work: told when it is declared, not when it runs."""

import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, get_type_hints

import dagster as dg

from storage import InvalidRequest
from storage.engines.spark_writer import APPEND, OVERWRITE_PARTITIONS, WRITE_MODES

from .asset_arguments import check_arguments
from .declared import check_types, named_table
from .frames import check_given, check_taken
from .materialization import check_tags
from .schema_policy import check_policy
from .table_declaration import TableDefinition

if TYPE_CHECKING:
    from .table_asset import TableAsset

_SPECIAL = ("context", "spark", "config")
Transform = Callable[..., Any]


def check_declaration(asset: "TableAsset") -> None:
    """Raise InvalidRequest for what is said of an asset and cannot be done."""
    inputs, partitions_def, column = asset.inputs, asset.partitions_def, asset.partition_column
    for each in inputs.values():
        named_table("inputs", each)
        if "@" in each:
            raise InvalidRequest(
                f"inputs: {each!r} names a version; a run reads the newest one. Leave @ and the version out."
            )
    _check_kinds_of(asset)
    check_arguments(asset.asset_arguments)
    check_types("the asset", {"code_version": (asset.code_version, str)})
    check_policy(asset.on_schema_change)
    _check(asset.definition, asset.transform, inputs, asset.mode, partitions_def, column)
    _check_annotations(asset.transform, inputs)
    strange = sorted(set(asset.partition_mappings) - set(inputs.values()))
    if strange:
        raise InvalidRequest(
            f"partition_mappings names {', '.join(strange)}, which the asset does not read: its inputs are "
            f"{', '.join(inputs.values()) or 'none'}."
        )
    for argument in ("skip_unchanged", "tag_partitions"):
        flag = getattr(asset, argument)
        if not isinstance(flag, bool):
            raise InvalidRequest(f"{argument}={flag!r} is neither True nor False.")
    if asset.tag_partitions and isinstance(partitions_def, dg.StaticPartitionsDefinition):
        check_tags(partitions_def.get_partition_keys())
    if not asset.tag_partitions and partitions_def is None:
        raise InvalidRequest("tag_partitions=False says nothing of an asset without partitions_def: leave it out.")
    _refuse_idle(asset)
    if asset.mode_given is not None and asset.incremental is not None:
        raise InvalidRequest(
            f"mode={asset.mode_given!r} beside incremental, which adds the new rows, or upserts them: leave one of the two out."
        )
    policy = asset.asset_arguments.get("backfill_policy")
    if policy is not None and partitions_def is not None and column is None and policy.max_partitions_per_run != 1:
        raise InvalidRequest(
            "each partition is a snapshot of the whole table, made by a run of its own: leave backfill_policy out."
        )
    if asset.incremental is not None and (asset.incremental not in inputs or partitions_def is not None):
        raise InvalidRequest(
            f"incremental={asset.incremental!r} names one of the inputs ({', '.join(inputs) or 'none'}) of an asset without "
            "partitions."
        )


def _refuse_idle(asset: "TableAsset") -> None:
    """Raise InvalidRequest for arguments that others leave without an effect."""
    given = asset.skip_unchanged_given
    if given is not None and asset.incremental is not None:
        raise InvalidRequest(
            f"skip_unchanged={given} says nothing beside incremental, which compares no rows: leave it out."
        )
    if given is not None and asset.mode == APPEND:
        raise InvalidRequest(
            f"skip_unchanged={given} says nothing beside mode={asset.mode!r}, which compares no rows: leave it out."
        )
    if asset.asset_arguments.get("backfill_policy") is not None and asset.partitions_def is None:
        raise InvalidRequest("backfill_policy says nothing of an asset without partitions_def: leave it out.")


def _check_kinds_of(asset: "TableAsset") -> None:
    """Raise InvalidRequest for an argument of another type than it takes, and for a function that gives no rows at once."""
    transform = inspect.unwrap(asset.transform)
    for is_other, called in (
        (inspect.iscoroutinefunction, "an async function"),
        (inspect.isasyncgenfunction, "an async generator"),
        (inspect.isgeneratorfunction, "a generator"),
    ):
        if is_other(transform):
            raise InvalidRequest(f"the function is {called}: it returns its rows, as a plain function does.")
    texts: dict[str, tuple[object, type]] = {
        "mode": (asset.mode, str),
        "on_schema_change": (asset.on_schema_change, str),
    }
    for name, text in (("incremental", asset.incremental), ("description", asset.definition.comment)):
        texts |= {} if text is None else {name: (text, str)}
    check_types("the asset", texts)
    partitions_def, column = asset.partitions_def, asset.partition_column
    if partitions_def is not None and not isinstance(partitions_def, dg.PartitionsDefinition):
        raise InvalidRequest(f"partitions_def={partitions_def!r} is no dagster.PartitionsDefinition.")
    columns = list(column.values()) if isinstance(column, Mapping) else [column]
    if column is not None and not all(isinstance(each, str) for each in columns):
        raise InvalidRequest(f"partition_column={column!r} is no name of a column.")
    for table, given in asset.partition_mappings.items():
        if not isinstance(given, dg.PartitionMapping):
            raise InvalidRequest(f"partition_mappings: {table}={given!r} is no dagster.PartitionMapping.")


def _check(
    definition: TableDefinition,
    transform: Transform,
    inputs: Mapping[str, str],
    mode: str,
    partitions_def: dg.PartitionsDefinition[Any] | None,
    partition_column: str | Mapping[str, str] | None,
) -> None:
    parameters = list(inspect.signature(transform).parameters)
    unknown = [parameter for parameter in parameters if parameter not in inputs and parameter not in _SPECIAL]
    if unknown:
        raise InvalidRequest(
            f"the function's parameter {unknown[0]!r} is no input. Add it to inputs={{{unknown[0]!r}: 'database.table'}}."
        )
    unused = [source for source in inputs if source not in parameters]
    if unused:
        raise InvalidRequest(
            f"input {unused[0]!r} is no parameter of the function ({', '.join(parameters) or 'it has none'})."
        )
    if mode not in WRITE_MODES:
        raise InvalidRequest(f"mode {mode!r} is unknown. Use one of: {', '.join(WRITE_MODES)}.")
    if mode == OVERWRITE_PARTITIONS and not definition.partition_by:
        raise InvalidRequest(f"mode {mode!r} replaces partitions: it needs partition_by.")
    if mode == OVERWRITE_PARTITIONS and partition_column is not None:
        raise InvalidRequest(
            f"mode {mode!r} replaces the partitions that occur in the rows, and with partition_column a run replaces those "
            "that it is for: leave mode out."
        )
    if partitions_def is None and partition_column is not None:
        raise InvalidRequest("partition_column holds Dagster's partition key: it needs a partitions_def.")
    if isinstance(partitions_def, dg.MultiPartitionsDefinition) and partition_column is not None:
        names = sorted(partitions_def.partition_dimension_names)
        if not isinstance(partition_column, Mapping) or sorted(partition_column) != names:
            raise InvalidRequest(f"partition_column must give a column for each of the dimensions {', '.join(names)}.")
        if len(set(partition_column.values())) < len(names):
            raise InvalidRequest(
                f"partition_column={dict(partition_column)!r} gives two dimensions one column, which holds one value: each "
                "dimension has a column of its own."
            )
    elif isinstance(partition_column, Mapping):
        raise InvalidRequest("partition_column is one column: only partitions of several dimensions have several.")
    columns = partition_column.values() if isinstance(partition_column, Mapping) else [partition_column]
    for column in columns:
        if column is not None and column not in definition.partition_by:
            raise InvalidRequest(
                f"partition_column {column!r} must be one of partition_by ({', '.join(definition.partition_by) or 'none'})."
            )
    if partitions_def is not None and partition_column is None and definition.partition_by:
        raise InvalidRequest(
            "A table that is partitioned needs a partition_column: the column that holds the partition key."
        )


def _check_annotations(transform: Transform, inputs: Mapping[str, str]) -> None:
    hints = annotations_of(transform)
    for parameter in inputs:
        check_taken(parameter, hints.get(parameter, Any))
    if "return" in hints:
        check_given(hints["return"])
    config = hints.get("config")
    takes_config = "config" in inspect.signature(transform).parameters and "config" not in inputs
    if takes_config and not (isinstance(config, type) and issubclass(config, dg.Config)):
        raise InvalidRequest(
            "the parameter 'config' is annotated with the class of the configuration, a dagster.Config."
        )


def annotations_of(transform: Transform) -> dict[str, Any]:
    """The annotations of a function. Raises InvalidRequest for one that cannot be resolved."""
    try:
        return get_type_hints(transform)
    except NameError as error:
        raise InvalidRequest(
            f"an annotation of the function cannot be resolved ({error}). Import what it names where the module is loaded, "
            "not only for type checkers."
        ) from None
