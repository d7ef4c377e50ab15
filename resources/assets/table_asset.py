"""`@table_asset`: a plain function from DataFrames to a DataFrame, with its table beside it, as a Dagster asset.

    @table_asset("marts.daily_delays", inputs={"flights": "core.flights"}, primary_key=["day", "origin"])
    def daily_delays(flights: DataFrame) -> DataFrame: ...

A parameter named in `inputs` gets that table at the run's snapshot: a Spark DataFrame, or what it is annotated as, of the
kinds in `frames`. `context`, `spark` and a `config`, annotated with its class, are passed where the function asks for them.
The function returns rows of any of these kinds.
"""

import ast
import hashlib
import inspect
import textwrap
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import dagster as dg

from storage import InvalidRequest, StorageError, Table
from storage.engines.spark_types import spark_schema
from storage.engines.spark_writer import APPEND, OVERWRITE_TABLE

from .asset_arguments import mapping, table_description
from .declaration_checks import Transform, annotations_of, check_declaration
from .declared import check_kinds
from .frames import as_rows, as_wanted, wants_arrow
from .materialization import check_tags, tag_name
from .partition_values import PartitionKey, key_of_values, keys_of
from .schema_policy import REFUSE
from .table_declaration import TableDefinition
from .tables import TablesResource

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
    skip_unchanged: bool = True
    on_schema_change: str = REFUSE
    asset_arguments: Mapping[str, Any] = field(default_factory=dict)
    # What the declaration says; without it `mode` is that of a whole table, and `skip_unchanged` True.
    mode_given: str | None = None
    skip_unchanged_given: bool | None = None

    @property
    def name(self) -> str:
        """The name of the table, `database.table`."""
        return self.definition.name

    @property
    def key(self) -> dg.AssetKey:
        """The asset's key: the parts of the table's name."""
        return dg.AssetKey(self.name.split("."))

    @property
    def config_type(self) -> type[dg.Config] | None:
        """The class of the run configuration that the function takes, if it takes one."""
        return None if "config" in self.inputs else annotations_of(self.transform).get("config")

    def rows(self, read: Read, context: Any, spark: Callable[[], Any], config: dg.Config | None = None) -> Any:
        """What the function makes of its inputs: a Spark DataFrame or an Arrow table. Without a `config`, where it takes one,
        that of the class's defaults is taken. Raises InvalidRequest for what is no rows.
        """
        hints = annotations_of(self.transform)
        arguments: dict[str, Any] = {
            parameter: as_wanted(read(table, wants_arrow(hints.get(parameter))), hints.get(parameter))
            for parameter, table in self.inputs.items()
        }
        wanted = inspect.signature(self.transform).parameters
        if "context" in wanted:
            arguments["context"] = context
        if "spark" in wanted:
            arguments["spark"] = spark()
        if "config" in wanted and "config" not in self.inputs:
            arguments["config"] = self._default_config() if config is None else config
        return as_rows(self.name, self.transform(**arguments))

    def _default_config(self) -> dg.Config:
        kind = self.config_type
        assert kind is not None
        missing = [name for name, value in kind.model_fields.items() if value.is_required()]
        if missing:
            raise InvalidRequest(
                f"{self.name} takes a configuration in which {', '.join(missing)} has no default: on branches of recoveries, and "
                "where a snapshot is made again, it is made with the defaults. Give it one."
            )
        return kind()

    def partitions(
        self, keys: Sequence[str], instance: dg.DagsterInstance | None = None
    ) -> dict[str, dict[str, PartitionKey]] | None:
        """What Dagster's partition keys say of partition columns, which `values_in` a table makes values of; None if the whole
        table is made. With an `instance`, keys of dynamic partitions are compared with all that there are.
        """
        if self.partitions_def is None or self.partition_column is None:
            return None
        return {str(key): keys_of(self.partitions_def, self.partition_column, key, instance) for key in keys}

    def partition_key(self, partition: Mapping[str, object], table: Table) -> str:
        """Dagster's key of a partition of the table, given by column, where there is a partition column."""
        assert self.partitions_def is not None and self.partition_column is not None
        return key_of_values(self.partitions_def, self.partition_column, partition, table)

    def tags_of(self, keys: Sequence[str]) -> list[str]:
        """The tags that a run over some partitions sets: of a table whose snapshots are its partitions, that of the last.

        Raises InvalidRequest for a key that cannot become a tag.
        """
        whole = self.partitions_def is not None and self.partition_column is None
        if not (whole and self.tag_partitions and keys):
            return []
        check_tags(keys[-1:])
        return [tag_name(keys[-1])]

    def asset(self) -> dg.AssetsDefinition:
        """The asset that materializes the table."""
        with warnings.catch_warnings():
            # Backfill policies work, and are called beta.
            warnings.simplefilter("ignore", dg.BetaWarning)

            given = dict(self.asset_arguments)
            tags = {"dagster/storage_kind": "paimon", **(given.pop("tags", None) or {})}
            metadata = {**table_description(self.name, self.transform), **(given.pop("metadata", None) or {})}

            declare: Callable[[Callable[..., dg.MaterializeResult[Any]]], dg.AssetsDefinition] = dg.asset(
                key=self.key,
                deps=self._deps(given.pop("deps", None) or ()),
                partitions_def=self.partitions_def,
                backfill_policy=given.pop("backfill_policy", None) or self._backfill_policy(),
                description=self.definition.comment,
                code_version=self.code_version,
                tags=tags,
                metadata=metadata,
                **({"kinds": {"spark", "paimon"}, "group_name": self.key.path[0]} | given),
            )
            config_type = self.config_type
            # Dagster asks for the configuration that the signature names.
            if config_type is None:

                @declare
                def asset(context: dg.AssetExecutionContext, tables: TablesResource) -> dg.MaterializeResult[Any]:
                    return self._materialize(context, tables, None)

            else:

                @declare
                def asset(
                    context: dg.AssetExecutionContext,
                    config: config_type,  # type: ignore[valid-type]
                    tables: TablesResource,
                ) -> dg.MaterializeResult[Any]:
                    return self._materialize(context, tables, config)

        # By the operation, which stays the same where Dagster makes copies of an asset: keys may be declared twice.
        _declared[id(asset.op)] = (asset.op, self)
        return asset

    def _materialize(
        self, context: dg.AssetExecutionContext, tables: TablesResource, config: dg.Config | None
    ) -> dg.MaterializeResult[Any]:
        # All inputs are pinned before the first is read.
        topics = {table for table in self.inputs.values() if tables.topic(table) is not None}
        for table in self.inputs.values():
            if table not in topics:
                tables.pin(context, table)
        source = None if self.incremental is None else self.inputs[self.incremental]
        increment = None if source is None else tables.increment(context, source, self.name, self.key)
        came = None if increment is None else increment.rows
        is_all = increment is not None and (came is None or increment.is_all)

        def read(table: str, in_arrow: bool) -> Any:
            if table in topics:
                rows = came if came is not None and table == source else tables.read_topic(context, table)
                return rows if in_arrow else tables.spark.spark_session.createDataFrame(rows, spark_schema(rows.schema))
            if came is not None and table == source:
                return came if in_arrow else tables.spark.spark_session.createDataFrame(came)
            return (tables.read_arrow if in_arrow else tables.read)(context, table)

        keys = [] if self.partitions_def is None else list(context.partition_keys)
        # What comes on top is added; without it the table is made as a whole.
        mode = self.mode if source is None else OVERWRITE_TABLE if is_all else APPEND
        with _in_one_line():
            rows = self.rows(read, context, lambda: tables.spark.spark_session, config)
            result = tables.write(
                context,
                rows,
                self.definition,
                mode=mode,
                partitions=self.partitions(keys, context.instance),
                tag_partitions=self.tag_partitions,
                tags=self.tags_of(keys),
                # An incremental asset's snapshot says what it has consumed.
                unless_same=self.skip_unchanged and source is None,
                on_schema_change=self.on_schema_change,
            )
        if increment is None:
            return result
        return result._replace(metadata={**(result.metadata or {}), "incremental": increment.reason})

    def _deps(self, others: Iterable[Any]) -> list[dg.AssetDep]:
        """What is read, and after that what else the asset comes after."""
        deps = {
            dep.asset_key: dep
            for dep in (
                dg.AssetDep(dg.AssetKey(name.split(".")), partition_mapping=self.partition_mappings.get(name))
                for name in dict.fromkeys(self.inputs.values())
            )
        }
        for other in others:
            for dep in _as_deps(other):
                deps.setdefault(dep.asset_key, dep)
        return list(deps.values())

    def _backfill_policy(self) -> dg.BackfillPolicy | None:
        if self.partitions_def is None:
            return None
        # Where each partition is a snapshot of the whole table, each has a run of its own.
        return dg.BackfillPolicy.single_run() if self.partition_column else dg.BackfillPolicy.multi_run(1)


@contextmanager
def _in_one_line() -> Iterator[None]:
    """Say what a user can mend without the trace of the platform's own code."""
    try:
        yield
    except InvalidRequest as error:
        raise dg.Failure(" ".join(str(error).split()), allow_retries=False) from None


def _as_deps(other: Any) -> list[dg.AssetDep]:
    """What `deps` of dagster.asset takes, which also knows `database.table` as a key."""
    if isinstance(other, dg.AssetDep):
        return [other]
    if isinstance(other, str) and other.count(".") == 1:
        return [dg.AssetDep(dg.AssetKey(other.split(".")))]
    if isinstance(other, dg.AssetsDefinition):
        return [dg.AssetDep(key) for key in other.keys]
    return [dg.AssetDep(other)]


_declared: dict[int, tuple[dg.OpDefinition, TableAsset]] = {}


def check_assets(subject: str, assets: object) -> None:
    """Raise InvalidRequest for what is no list of assets of Dagster's."""
    kinds = (dg.AssetsDefinition, dg.SourceAsset, dg.AssetSpec)
    check_kinds(subject, "assets", assets, kinds, "assets, each made by @table_asset, @dagster.asset or the like")


def table_assets(assets: Sequence[Any]) -> dict[str, TableAsset]:
    """The table assets among some assets, by the name of their table."""
    by_name = {}
    for asset in assets:
        if isinstance(asset, dg.AssetsDefinition) and asset.is_executable and id(asset.node_def) in _declared:
            declared = _declared[id(asset.node_def)][1]
            by_name[declared.name] = declared
    return by_name


def function_of(asset: dg.AssetsDefinition) -> Transform:
    """The plain function that a table asset was made from, to be called with rows in a test of its own.

    Raises InvalidRequest for an asset that `table_asset` did not make.
    """
    declared = list(table_assets([asset]).values())
    if not declared:
        raise InvalidRequest(f"{asset} is no @table_asset.")
    return declared[0].transform


def table_asset(
    name: str,
    *,
    inputs: Mapping[str, str] | None = None,
    primary_key: str | Sequence[str] = (),
    partition_by: str | Sequence[str] = (),
    options: Mapping[str, Any] | None = None,
    mode: str | None = None,
    partitions_def: dg.PartitionsDefinition[Any] | None = None,
    partition_column: str | Mapping[str, str] | None = None,
    tag_partitions: bool = True,
    partition_mappings: Mapping[str, dg.PartitionMapping] | None = None,
    incremental: str | None = None,
    skip_unchanged: bool | None = None,
    on_schema_change: str = REFUSE,
    column_descriptions: Mapping[str, str] | None = None,
    description: str | None = None,
    code_version: str | None = None,
    **asset_arguments: Any,
) -> Callable[[Transform], dg.AssetsDefinition]:
    """Turn a function into the asset that materializes table `name` (`database.table`).

    With a `partitions_def`, `partition_column` names the column that holds the Dagster partition key, or for partitions of
    several dimensions the column of each: the partitions of a run are replaced in one commit, and each becomes a tag. Without
    a column each partition is the whole table: a snapshot, and a tag. Further arguments are in `asset_arguments`. A run that
    makes exactly the rows that it would replace commits nothing; `skip_unchanged=False` commits without comparing.
    `on_schema_change`, for columns that the table does not have: `refuse`; `add`, null before; `evolve`: types become wider too.

    `incremental` names an input of which a run gets only the rows that came since the snapshot that the asset consumed last,
    as lineage tells; what the function makes of them is appended, or upserted with a primary key. A full run, over all of it
    and in place of the whole table, is made the first time, when the code has changed, and when rows of the input went.

    Raises DagsterInvalidDefinitionError, naming the asset, for a declaration that cannot work.
    """

    def decorate(transform: Transform) -> dg.AssetsDefinition:
        with _refused_for(name):
            said = description or inspect.getdoc(transform)
            asset = TableAsset(
                _definition(name, primary_key, partition_by, options, said, column_descriptions),
                transform,
                mapping("inputs", inputs, "{parameter: 'database.table'}"),
                OVERWRITE_TABLE if mode is None else mode,
                _source_version(transform) if code_version in (None, "") else code_version,
                incremental,
                partitions_def,
                partition_column,
                tag_partitions,
                mapping("partition_mappings", partition_mappings, "{'database.table': dagster.PartitionMapping}"),
                True if skip_unchanged is None else skip_unchanged,
                on_schema_change,
                asset_arguments,
                mode,
                skip_unchanged,
            )
            check_declaration(asset)
            return asset.asset()

    return decorate


def _definition(
    name: str,
    primary_key: str | Sequence[str],
    partition_by: str | Sequence[str],
    options: Mapping[str, Any] | None,
    comment: str | None,
    column_descriptions: Mapping[str, str] | None,
) -> TableDefinition:
    given = mapping("options", options, "{'bucket': 4}")
    columns = mapping("column_descriptions", column_descriptions, "{column: 'text'}")
    return TableDefinition(name, primary_key, partition_by, given, comment, columns)


@contextmanager
def _refused_for(name: str) -> Iterator[None]:
    """What is wrong with a declaration as Dagster tells it: DagsterInvalidDefinitionError, naming the asset."""
    try:
        yield
    except StorageError as error:
        raise dg.DagsterInvalidDefinitionError(f"@table_asset({name!r}): {error}") from None
    except Exception as error:
        # Of Dagster's many kinds, over what it is passed on.
        said = " ".join(str(error).split())
        raise dg.DagsterInvalidDefinitionError(f"@table_asset({name!r}): Dagster refuses it: {said}") from None


def _source_version(transform: Transform) -> str:
    """A code version that changes with what the function says, not with its layout or comments."""
    try:
        code = ast.dump(ast.parse(textwrap.dedent(inspect.getsource(transform))))
    except (OSError, TypeError, SyntaxError):
        raise InvalidRequest(
            "the text of the function cannot be read, so that nothing tells when it changes: give code_version='…'."
        ) from None
    return hashlib.sha1(code.encode()).hexdigest()[:12]
