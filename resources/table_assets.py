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
from dataclasses import dataclass, field
from typing import Any, get_type_hints

import dagster as dg
import pyarrow as pa

from storage import InvalidRequest, StorageError
from storage.engines.spark_writer import OVERWRITE_TABLE, WRITE_MODES

from .definition import TableDefinition
from .tables import TablesResource

_SPECIAL = ("context", "spark")
Transform = Callable[..., Any]
# How a parameter gets its rows: the name of a table, and whether it wants them in Arrow.
Read = Callable[[str, bool], Any]


@dataclass(frozen=True)
class TableAsset:
    """A function and the table that it makes: what the asset and all else that runs the function are made from."""

    definition: TableDefinition
    transform: Transform
    inputs: Mapping[str, str]
    mode: str
    code_version: str
    partitions_def: dg.PartitionsDefinition[Any] | None = None
    partition_column: str | None = None
    tag_partitions: bool = True
    partition_mappings: Mapping[str, dg.PartitionMapping] = field(default_factory=dict)
    asset_arguments: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.definition.name

    @property
    def key(self) -> dg.AssetKey:
        return dg.AssetKey(self.name.split("."))

    def rows(self, read: Read, context: Any, spark: Callable[[], Any]) -> Any:
        """What the function makes of its inputs: a Spark DataFrame or an Arrow table."""
        hints = get_type_hints(self.transform)
        arguments = {
            parameter: read(table, hints.get(parameter) is pa.Table) for parameter, table in self.inputs.items()
        }
        wanted = inspect.signature(self.transform).parameters
        if "context" in wanted:
            arguments["context"] = context
        if "spark" in wanted:
            arguments["spark"] = spark()
        return self.transform(**arguments)

    def partitions(self, keys: Sequence[str]) -> dict[str, dict[str, str]] | None:
        """The values of the partition column that Dagster's partition keys mean; None without partitions."""
        return None if self.partitions_def is None else {key: {str(self.partition_column): key} for key in keys}

    def asset(self) -> dg.AssetsDefinition:
        """The asset that materializes the table."""
        with warnings.catch_warnings():
            # Backfill policies work, and are called beta.
            warnings.simplefilter("ignore", dg.BetaWarning)

            @dg.asset(
                key=self.key,
                deps=[
                    dg.AssetDep(dg.AssetKey(one.split(".")), partition_mapping=self.partition_mappings.get(one))
                    for one in dict.fromkeys(self.inputs.values())
                ],
                partitions_def=self.partitions_def,
                backfill_policy=dg.BackfillPolicy.single_run() if self.partitions_def else None,
                description=self.definition.comment,
                code_version=self.code_version,
                **({"kinds": {"spark", "paimon"}, "group_name": self.key.path[0]} | dict(self.asset_arguments)),
            )
            def asset(context: dg.AssetExecutionContext, tables: TablesResource) -> dg.MaterializeResult[Any]:
                # All inputs are pinned before the first is read.
                for table in self.inputs.values():
                    tables.pin(context, table)

                def read(table: str, in_arrow: bool) -> Any:
                    return (tables.read_arrow if in_arrow else tables.read)(context, table)

                rows = self.rows(read, context, lambda: tables.spark.spark_session)
                partitions = None if self.partitions_def is None else self.partitions(context.partition_keys)
                return tables.write(
                    context, rows, self.definition, mode=self.mode, partitions=partitions,
                    tag_partitions=self.tag_partitions,
                )  # fmt: skip

        _declared[asset.key] = self
        return asset


_declared: dict[dg.AssetKey, TableAsset] = {}


def table_assets(assets: Sequence[Any]) -> dict[str, TableAsset]:
    """The table assets among some assets, by the name of their table."""
    keys = [one.key for one in assets if isinstance(one, dg.AssetsDefinition) and len(one.keys) == 1]
    return {_declared[key].name: _declared[key] for key in keys if key in _declared}


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
        return TableAsset(
            definition, transform, inputs, mode, code_version or _source_version(transform), partitions_def,
            partition_column, tag_partitions, dict(partition_mappings or {}), asset_arguments,
        ).asset()  # fmt: skip

    return decorate


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
