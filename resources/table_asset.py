"""`@table_asset`: a plain function from DataFrames to a DataFrame, with its table beside it, as a Dagster asset.

    @table_asset("marts.daily_delays", inputs={"flights": "core.flights"}, primary_key=["day", "origin"])
    def daily_delays(flights: DataFrame) -> DataFrame: ...

A parameter named in `inputs` gets that table at the run's snapshot: a Spark DataFrame, or an Arrow table where the
parameter is annotated `pa.Table`. `context` and `spark` are passed where the function asks for them. The function
returns a Spark DataFrame or an Arrow table.
"""

import ast
import hashlib
import inspect
import textwrap
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, get_type_hints

import dagster as dg
import pyarrow as pa

from storage import InvalidRequest, StorageError
from storage.engines.spark_writer import OVERWRITE_TABLE, WRITE_MODES

from .definition import TableDefinition
from .tables import TablesResource

_SPECIAL = ("context", "spark")
Transform = Callable[..., Any]


def table_asset(
    name: str,
    *,
    inputs: Mapping[str, str] | None = None,
    primary_key: Sequence[str] = (),
    partition_by: Sequence[str] = (),
    options: Mapping[str, Any] | None = None,
    mode: str = OVERWRITE_TABLE,
    partitions_def: dg.PartitionsDefinition[Any] | None = None,
    partition_column: str | None = None,
    tag_partitions: bool = True,
    partition_mappings: Mapping[str, dg.PartitionMapping] | None = None,
    column_descriptions: Mapping[str, str] | None = None,
    description: str | None = None,
    code_version: str | None = None,
    **asset_arguments: Any,
) -> Callable[[Transform], dg.AssetsDefinition]:
    """Turn a function into the asset that materializes table `name` (`database.table`).

    With a `partitions_def`, `partition_column` names the column that holds the Dagster partition key: the partitions of
    a run are replaced in one commit, and each becomes a tag. Further arguments go to `dagster.asset`.

    Raises DagsterInvalidDefinitionError, naming the asset, for a declaration that cannot work.
    """
    inputs = dict(inputs or {})

    def decorate(transform: Transform) -> dg.AssetsDefinition:
        try:
            definition = TableDefinition(
                name,
                tuple(primary_key),
                tuple(partition_by),
                dict(options or {}),
                description or inspect.getdoc(transform),
                dict(column_descriptions or {}),
            )
            _check(definition, transform, inputs, mode, partitions_def, partition_column)
        except StorageError as error:
            raise dg.DagsterInvalidDefinitionError(f"@table_asset({name!r}): {error}") from None
        mappings = partition_mappings or {}
        with warnings.catch_warnings():
            # Backfill policies work, and are called beta.
            warnings.simplefilter("ignore", dg.BetaWarning)

            @dg.asset(
                key=dg.AssetKey(name.split(".")),
                deps=[
                    dg.AssetDep(dg.AssetKey(one.split(".")), partition_mapping=mappings.get(one))
                    for one in dict.fromkeys(inputs.values())
                ],
                partitions_def=partitions_def,
                backfill_policy=dg.BackfillPolicy.single_run() if partitions_def else None,
                description=definition.comment,
                code_version=code_version or _source_version(transform),
                **({"kinds": {"spark", "paimon"}, "group_name": name.split(".")[0]} | asset_arguments),
            )
            def asset(context: dg.AssetExecutionContext, tables: TablesResource) -> dg.MaterializeResult[Any]:
                rows = transform(**_arguments(context, tables, transform, inputs))
                partitions = None
                if partitions_def is not None:
                    partitions = {key: {str(partition_column): key} for key in context.partition_keys}
                return tables.write(
                    context, rows, definition, mode=mode, partitions=partitions, tag_partitions=tag_partitions
                )

        return asset

    return decorate


def _arguments(
    context: dg.AssetExecutionContext, tables: TablesResource, transform: Transform, inputs: Mapping[str, str]
) -> dict[str, Any]:
    # All inputs are pinned before the first is read.
    for table in inputs.values():
        tables.pin(context, table)
    hints = get_type_hints(transform)
    arguments: dict[str, Any] = {
        parameter: (tables.read_arrow if hints.get(parameter) is pa.Table else tables.read)(context, table)
        for parameter, table in inputs.items()
    }
    wanted = inspect.signature(transform).parameters
    if "context" in wanted:
        arguments["context"] = context
    if "spark" in wanted:
        arguments["spark"] = tables.spark.spark_session
    return arguments


def _check(
    definition: TableDefinition,
    transform: Transform,
    inputs: Mapping[str, str],
    mode: str,
    partitions_def: dg.PartitionsDefinition[Any] | None,
    partition_column: str | None,
) -> None:
    parameters = list(inspect.signature(transform).parameters)
    unknown = [one for one in parameters if one not in inputs and one not in _SPECIAL]
    if unknown:
        raise InvalidRequest(
            f"the function's parameter {unknown[0]!r} is no input. Add it to inputs={{{unknown[0]!r}: 'database.table'}}."
        )
    unused = [one for one in inputs if one not in parameters]
    if unused:
        raise InvalidRequest(
            f"input {unused[0]!r} is no parameter of the function ({', '.join(parameters) or 'it has none'})."
        )
    if mode not in WRITE_MODES:
        raise InvalidRequest(f"mode {mode!r} is unknown. Use one of: {', '.join(WRITE_MODES)}.")
    if (partitions_def is None) != (partition_column is None):
        raise InvalidRequest("partitions_def and partition_column go together: the column holds the partition key.")
    if partition_column is not None and partition_column not in definition.partition_by:
        raise InvalidRequest(
            f"partition_column {partition_column!r} must be one of partition_by ({', '.join(definition.partition_by)})."
        )


def _source_version(transform: Transform) -> str:
    """A code version that changes with what the function says, not with its layout or comments."""
    code = ast.dump(ast.parse(textwrap.dedent(inspect.getsource(transform))))
    return hashlib.sha1(code.encode()).hexdigest()[:12]
