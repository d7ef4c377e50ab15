"""The recovery graph: for each table asset a twin under `recovery/` that makes the same table on branches.

A twin is partitioned by branch, and by the asset's own partitions where it has some of one dimension. To add a branch in the
UI ("+ Add a partition") and materialize twins on it is to begin a recovery: tables that are written are branched, at what they
were when the recovery began, and all others are read as they were then. A branch that nobody has added begins nothing. Main's
partitions, versions and automation know nothing of it until it is published.
"""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg
from pydantic import Field

from storage import InvalidRequest, NotFound, SnapshotRef, StorageError, Table
from storage.engines.duckdb_compare import Comparison
from storage.engines.spark_writer import APPEND, OVERWRITE_TABLE

from ..assets.partition_context import PartitionContext
from ..assets.table_asset import TableAsset, table_assets
from ..assets.tables import OnBranch, TablesResource
from ..assets.ui_metadata import recovery_page_metadata
from ..links.launchpad_path import RECOVERY_TAG
from .branch_checks import twin_checks
from .left_to_do import has_changed
from .record import names, read_record
from .refusal import Refused
from .stages import Recovery

PREFIX = "recovery"
BRANCHES = dg.DynamicPartitionsDefinition(name="branch")
_BRANCH, _PARTITION = "branch", "partition"
CHECK = "compared_with_main"


def twin_key(name: str) -> dg.AssetKey:
    """The key of the twin of a table's asset."""
    return dg.AssetKey([PREFIX, *name.split(".")])


def twins(assets: Sequence[Any]) -> list[dg.AssetsDefinition]:
    """A twin for each table asset."""
    known = table_assets(assets)
    return [_twin(each, known) for each in known.values()]


def checks_of_twins(assets: Sequence[Any], checks: Sequence[Any]) -> list[dg.AssetChecksDefinition]:
    """For each twin a check that shows how its branch differs from main, and those of `checks` that can be asked of it."""
    known = table_assets(assets)
    return [*map(_check, known.values()), *twin_checks(checks, known, twin_key, _branches_of)]


class TwinConfig(dg.Config):
    """What a run may do on the branch."""

    overwrite_correction: bool = Field(
        False, description="Make the table anew though it has been corrected on the branch: the correction is given up."
    )


def event_partition(asset: TableAsset, branch: str, partition: str | None) -> str:
    """The partition of a twin."""
    if partition is None or not has_own_partitions(asset):
        return branch
    return dg.MultiPartitionKey({_BRANCH: branch, _PARTITION: partition})


def has_own_partitions(asset: TableAsset) -> bool:
    """Whether a twin is partitioned by the asset's partitions too: Dagster knows two dimensions at the most."""
    several = isinstance(asset.partitions_def, dg.MultiPartitionsDefinition)
    return asset.partition_column is not None and not several


def _twin(asset: TableAsset, known: Mapping[str, TableAsset]) -> dg.AssetsDefinition:
    with warnings.catch_warnings():
        # Backfill policies and mappings between dimensions work, and are called beta.
        warnings.simplefilter("ignore", dg.BetaWarning)

        @dg.asset(
            key=twin_key(asset.name),
            deps=[_dependency(asset, known[name]) for name in dict.fromkeys(asset.inputs.values()) if name in known],
            partitions_def=_partitions_def(asset),
            backfill_policy=dg.BackfillPolicy.single_run(),
            description=f"{asset.name} on the branch of a recovery.",
            code_version=asset.code_version,
            # The nodes of a group show the last part of their keys alone.
            group_name=f"{PREFIX}_{asset.key.path[0]}",
            kinds={"paimon"},
        )
        def twin(
            context: dg.AssetExecutionContext, config: TwinConfig, tables: TablesResource
        ) -> dg.MaterializeResult[Any]:
            wanted = _by_branch(asset, context.partition_keys)
            context.instance.add_run_tags(context.run.run_id, {RECOVERY_TAG: ",".join(wanted)})
            try:
                recoveries = {branch: _opened(context, tables, branch) for branch in wanted}
                for recovery in recoveries.values():
                    _refuse_corrected(recovery, asset.name, config)
            except StorageError as error:
                raise Refused(error) from None
            results = [
                _materialize(context, tables, asset, recoveries[branch], keys) for branch, keys in wanted.items()
            ]
            versions = ",".join(result.data_version.value for result in results if result.data_version)
            return results[-1]._replace(data_version=dg.DataVersion(versions))

    return twin


def _opened(context: dg.AssetExecutionContext, tables: TablesResource, branch: str) -> Recovery:
    """The recovery of a branch; begun, if it was not, on a branch that was added in the UI. Raises NotFound."""
    added = context.instance.get_dynamic_partitions(str(BRANCHES.name))
    if read_record(tables.session.catalog, branch) is None and branch not in added:
        known = ", ".join(dict.fromkeys([*names(tables.session.catalog), *added]))
        raise NotFound(f"There is no recovery {branch!r}. {f'There are: {known}.' if known else 'There is none.'}")
    return Recovery.begin(tables.session, branch)


def _refuse_corrected(recovery: Recovery, name: str, config: TwinConfig) -> None:
    """Raise InvalidRequest if a correction would be overwritten and nobody has asked for it."""
    record = recovery.tables.get(name)
    if (
        record is not None
        and record.corrected
        and has_changed(recovery, name, record)
        and not config.overwrite_correction
    ):
        raise InvalidRequest(
            f"{name} has been corrected on branch {recovery.branch!r}, and making it anew gives that up. Nothing is to be "
            "computed for it; if it is to be loaded again all the same, say overwrite_correction: true in the run's config."
        )


def _materialize(
    context: dg.AssetExecutionContext,
    tables: TablesResource,
    asset: TableAsset,
    recovery: Recovery,
    keys: Sequence[str],
) -> dg.MaterializeResult[Any]:
    """Make the table of an asset on a branch, or some of its partitions."""
    branch = recovery.branch
    refs = {name: _read_at(context, tables, recovery, name) for name in asset.inputs.values()}

    def read(name: str, in_arrow: bool) -> Any:
        ref = refs[name]
        reader = tables.read_arrow if in_arrow else tables.read
        return reader(context, ref.table_name, ref=ref, part=branch)

    own = PartitionContext(keys, asset.partitions_def, context)
    rows = asset.rows(read, own, lambda: tables.spark.spark_session)
    mode = asset.mode
    if mode == APPEND and recovery.record.mode == "full":
        # Computed anew, not once more.
        mode = OVERWRITE_TABLE

    def on_branch(table: Table) -> Table:
        return recovery.branched(asset.name)

    return tables.write(
        context,
        rows,
        asset.definition,
        mode=mode,
        partitions=asset.partitions(keys, context.instance),
        tag_partitions=asset.tag_partitions,
        to=OnBranch(
            on_branch,
            branch,
            event_key=lambda key: event_partition(asset, branch, key),
            source_key=lambda ref: twin_key(f"{ref.database}.{ref.table}"),
        ),
        # What is left to do is told from the commits on the branch.
        unless_same=False,
        on_schema_change=asset.on_schema_change,
    )


def _read_at(context: dg.AssetExecutionContext, tables: TablesResource, recovery: Recovery, name: str) -> SnapshotRef:
    """The snapshot of an input: the run's, of the branch, or else what the table was when the recovery began."""
    table = recovery.table(name)
    if table.identifier.branch == recovery.branch:
        return tables.pin(context, str(table.identifier))
    ref = table.last_change()
    assert ref is not None
    return ref


def _partitions_def(asset: TableAsset) -> dg.PartitionsDefinition[Any]:
    if not has_own_partitions(asset):
        return BRANCHES
    assert asset.partitions_def is not None
    return dg.MultiPartitionsDefinition({_BRANCH: BRANCHES, _PARTITION: asset.partitions_def})


def _dependency(asset: TableAsset, source: TableAsset) -> dg.AssetDep:
    """A branch depends on the same branch; partitions as the asset says."""
    mapping: dg.PartitionMapping
    mine, other = has_own_partitions(asset), has_own_partitions(source)
    if mine and other:
        own = asset.partition_mappings.get(source.name) or dg.IdentityPartitionMapping()
        mapping = dg.MultiPartitionMapping(
            {
                _BRANCH: dg.DimensionPartitionMapping(_BRANCH, dg.IdentityPartitionMapping()),
                _PARTITION: dg.DimensionPartitionMapping(_PARTITION, own),
            }
        )
    elif mine or other:
        mapping = dg.MultiToSingleDimensionPartitionMapping(partition_dimension_name=_BRANCH)
    else:
        mapping = dg.IdentityPartitionMapping()
    return dg.AssetDep(twin_key(source.name), partition_mapping=mapping)


def _by_branch(asset: TableAsset, partition_keys: Sequence[str]) -> dict[str, list[str]]:
    """The asset's own partition keys by branch. A run may span several branches."""
    by_branch: dict[str, list[str]] = {}
    for key in partition_keys:
        if has_own_partitions(asset):
            assert isinstance(key, dg.MultiPartitionKey)
            by_branch.setdefault(key.keys_by_dimension[_BRANCH], []).append(key.keys_by_dimension[_PARTITION])
        else:
            every = [] if asset.partitions_def is None else list(asset.partitions_def.get_partition_keys())
            by_branch[str(key)] = every
    return by_branch


def _check(asset: TableAsset) -> dg.AssetChecksDefinition:
    @dg.asset_check(asset=twin_key(asset.name), name=CHECK, description="How the branch differs from main.")
    def check(context: dg.AssetCheckExecutionContext, tables: TablesResource) -> dg.AssetCheckResult:
        comparisons = {
            branch: Recovery.open(tables.session, branch).compare(asset.name)
            for branch in _branches_of(context.run.tags)
        }
        return dg.AssetCheckResult(
            passed=True,
            description="; ".join(f"{branch}: {comparison.describe()}" for branch, comparison in comparisons.items()),
            metadata=comparison_metadata(
                comparisons, {name: Recovery.open(tables.session, name).sides for name in comparisons}
            ),
        )

    return check


def _branches_of(tags: Mapping[str, str]) -> list[str]:
    """The branches that a run is for."""
    keys = [
        tags[name]
        for name in ("dagster/partition", "dagster/asset_partition_range_start", "dagster/asset_partition_range_end")
        if name in tags
    ]
    return list(dict.fromkeys(key.partition("|")[0] for key in keys))


def comparison_metadata(comparisons: Mapping[str, Comparison], sides: Mapping[str, tuple[str, str]]) -> dict[str, Any]:
    """Comparisons, by branch, as the UI shows them: numbers, columns, and the first rows that differ."""
    metadata: dict[str, Any] = {}
    for branch, comparison in comparisons.items():
        prefix = f"{branch}: " if len(comparisons) > 1 else ""
        metadata |= {
            f"{prefix}rows {sides[branch][0]}": comparison.rows_before,
            f"{prefix}rows {sides[branch][1]}": comparison.rows_after,
            f"{prefix}rows added": comparison.added,
            f"{prefix}rows removed": comparison.removed,
            f"{prefix}rows changed": comparison.changed,
            **{f"{prefix}{name}": value for name, value in recovery_page_metadata(branch).items()},
        }
        if comparison.changed_columns:
            listed = [f"{name} in {count} rows" for name, count in comparison.changed_columns.items()]
            metadata[f"{prefix}columns that differ"] = ", ".join(listed)
        if comparison.examples is not None and comparison.examples.num_rows:
            rows = [{key: _shown(value) for key, value in row.items()} for row in comparison.examples.to_pylist()]
            metadata[f"{prefix}first rows"] = dg.MetadataValue.table([dg.TableRecord(row) for row in rows])
    return metadata


def _shown(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
