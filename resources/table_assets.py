"""`@table_asset`: a plain function from DataFrames to a DataFrame, with its table beside it, as a Dagster asset.

    @table_asset("marts.daily_delays", inputs={"flights": "core.flights"}, primary_key=["day", "origin"])
    def daily_delays(flights: DataFrame) -> DataFrame: ...

A parameter named in `inputs` gets that table at the run's snapshot: a Spark DataFrame, or an Arrow table or a relation of
DuckDB where the parameter is annotated `pa.Table` or `duckdb.DuckDBPyRelation`. `context` and `spark` are passed where the
function asks for them. The function returns any of the three.
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
import duckdb
import pyarrow as pa

from storage import InvalidRequest, StorageError
from storage.engines.spark_writer import APPEND, OVERWRITE_TABLE, WRITE_MODES

from .definition import TableDefinition
from .tables import TablesResource, tag_name

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
    incremental: str | None = None
    partitions_def: dg.PartitionsDefinition[Any] | None = None
    partition_column: str | Mapping[str, str] | None = None
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
        arguments: dict[str, Any] = {}
        for parameter, table in self.inputs.items():
            kind = hints.get(parameter)
            rows = read(table, kind in (pa.Table, duckdb.DuckDBPyRelation))
            arguments[parameter] = duckdb.from_arrow(rows) if kind is duckdb.DuckDBPyRelation else rows
        wanted = inspect.signature(self.transform).parameters
        if "context" in wanted:
            arguments["context"] = context
        if "spark" in wanted:
            arguments["spark"] = spark()
        made = self.transform(**arguments)
        return made.to_arrow_table() if isinstance(made, duckdb.DuckDBPyRelation) else made

    def partitions(self, keys: Sequence[str]) -> dict[str, dict[str, str]] | None:
        """The values of partition columns that Dagster's partition keys mean; None if the whole table is made."""
        if self.partitions_def is None or self.partition_column is None:
            return None
        return {str(key): self._values(key) for key in keys}

    def _values(self, key: str) -> dict[str, str]:
        column = self.partition_column
        if isinstance(column, Mapping):
            # Read by the definition: a key that was stored is plain text, its dimensions in the order of their names.
            values = zip(sorted(column), key.split("|"), strict=True)
            return {column[dimension]: value for dimension, value in values}
        return {str(column): key}

    def tags_of(self, keys: Sequence[str]) -> list[str]:
        """The tags that a run over some partitions sets: of a table whose snapshots are its partitions, that of the last."""
        whole = self.partitions_def is not None and self.partition_column is None
        return [tag_name(keys[-1])] if whole and self.tag_partitions and keys else []

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
                backfill_policy=self._backfill_policy(),
                description=self.definition.comment,
                code_version=self.code_version,
                **({"kinds": {"spark", "paimon"}, "group_name": self.key.path[0]} | dict(self.asset_arguments)),
            )
            def asset(context: dg.AssetExecutionContext, tables: TablesResource) -> dg.MaterializeResult[Any]:
                # All inputs are pinned before the first is read.
                for table in self.inputs.values():
                    tables.pin(context, table)

                source = None if self.incremental is None else self.inputs[self.incremental]
                increment = None if source is None else tables.increment(context, source, self.name, self.key)

                def read(table: str, in_arrow: bool) -> Any:
                    if increment is not None and table == source:
                        return increment if in_arrow else tables.spark.spark_session.createDataFrame(increment)
                    return (tables.read_arrow if in_arrow else tables.read)(context, table)

                rows = self.rows(read, context, lambda: tables.spark.spark_session)
                keys = [] if self.partitions_def is None else list(context.partition_keys)
                # What comes on top is added; without it the table is made as a whole.
                mode = self.mode if source is None else OVERWRITE_TABLE if increment is None else APPEND
                return tables.write(
                    context, rows, self.definition, mode=mode, partitions=self.partitions(keys),
                    tag_partitions=self.tag_partitions, tags=self.tags_of(keys),
                )  # fmt: skip

        # By the operation, which stays the same where Dagster makes copies of an asset: keys may be declared twice.
        _declared[id(asset.op)] = (asset.op, self)
        return asset

    def _backfill_policy(self) -> dg.BackfillPolicy | None:
        if self.partitions_def is None:
            return None
        # Where each partition is a snapshot of the whole table, each has a run of its own.
        return dg.BackfillPolicy.single_run() if self.partition_column else dg.BackfillPolicy.multi_run(1)


_declared: dict[int, tuple[dg.OpDefinition, TableAsset]] = {}


def table_assets(assets: Sequence[Any]) -> dict[str, TableAsset]:
    """The table assets among some assets, by the name of their table."""
    found = {}
    for one in assets:
        if isinstance(one, dg.AssetsDefinition) and one.is_executable and id(one.node_def) in _declared:
            declared = _declared[id(one.node_def)][1]
            found[declared.name] = declared
    return found


def table_asset(
    name: str,
    *,
    inputs: Mapping[str, str] | None = None,
    primary_key: Sequence[str] = (),
    partition_by: Sequence[str] = (),
    options: Mapping[str, Any] | None = None,
    mode: str = OVERWRITE_TABLE,
    partitions_def: dg.PartitionsDefinition[Any] | None = None,
    partition_column: str | Mapping[str, str] | None = None,
    tag_partitions: bool = True,
    partition_mappings: Mapping[str, dg.PartitionMapping] | None = None,
    incremental: str | None = None,
    column_descriptions: Mapping[str, str] | None = None,
    description: str | None = None,
    code_version: str | None = None,
    **asset_arguments: Any,
) -> Callable[[Transform], dg.AssetsDefinition]:
    """Turn a function into the asset that materializes table `name` (`database.table`).

    With a `partitions_def`, `partition_column` names the column that holds the Dagster partition key, or for partitions of
    several dimensions the column of each: the partitions of a run are replaced in one commit, and each becomes a tag. Without
    a column each partition is the whole table: a snapshot, and a tag. Further arguments go to `dagster.asset`.

    `incremental` names an input of which a run gets only the rows that came since the snapshot that the asset consumed last,
    as lineage tells; what the function makes of them is appended, or upserted with a primary key. A full run, over the whole
    input and in place of the whole table, is made the first time, when the code has changed, and when rows of the input were
    deleted or overwritten.

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
            if incremental is not None and (incremental not in inputs or partitions_def is not None):
                raise InvalidRequest(
                    f"incremental={incremental!r} names one of the inputs ({', '.join(inputs) or 'none'}) of an asset without "
                    "partitions."
                )
        except StorageError as error:
            raise dg.DagsterInvalidDefinitionError(f"@table_asset({name!r}): {error}") from None
        return TableAsset(
            definition, transform, inputs, mode, code_version or _source_version(transform), incremental, partitions_def,
            partition_column, tag_partitions, dict(partition_mappings or {}), asset_arguments,
        ).asset()  # fmt: skip

    return decorate


def _check(
    definition: TableDefinition,
    transform: Transform,
    inputs: Mapping[str, str],
    mode: str,
    partitions_def: dg.PartitionsDefinition[Any] | None,
    partition_column: str | Mapping[str, str] | None,
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
    if partitions_def is None and partition_column is not None:
        raise InvalidRequest("partition_column holds Dagster's partition key: it needs a partitions_def.")
    if isinstance(partitions_def, dg.MultiPartitionsDefinition) and partition_column is not None:
        names = sorted(partitions_def.partition_dimension_names)
        if not isinstance(partition_column, Mapping) or sorted(partition_column) != names:
            raise InvalidRequest(f"partition_column must give a column for each of the dimensions {', '.join(names)}.")
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


def _source_version(transform: Transform) -> str:
    """A code version that changes with what the function says, not with its layout or comments."""
    code = ast.dump(ast.parse(textwrap.dedent(inspect.getsource(transform))))
    return hashlib.sha1(code.encode()).hexdigest()[:12]
