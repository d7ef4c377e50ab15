"""Tables that others write, as assets: their data version is their snapshot, and new ones start runs. And snapshots that others
make of tables which have assets: Dagster is told of them.
"""

import inspect
import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import dagster as dg

from lineage import RUN_PROPERTY, sources_of
from storage import InvalidRequest, Snapshot, Table
from storage.engines.kafka_rows import ends_of_topic

from ..warehouse.snapshot_properties import STATEMENT_PROPERTY
from .declared import check_sensor, check_types, named_table, named_tables, refuse_unknown_argument
from .launchpad import Launchpads, if_it_is_bad
from .provenance import newest_told, provenance_tags
from .table_asset import TableAsset, check_assets, table_assets
from .tables import TablesResource
from .ui_metadata import CommitNumbers, page_metadata, partition_metadata, table_metadata

# Of more snapshots that came since the last look, the newest are told of.
_TOLD_AT_ONCE = 100
_OF_THE_TABLE = ("key", "key_prefix", "name")


def external_table(name: str, *, description: str | None = None, **spec_arguments: Any) -> dg.SourceAsset:
    """An observable source asset for a table that another program writes in the format, Paimon's own jobs for example, or for a
    Kafka table.

    Observing it reports the newest snapshot that changed rows, or how far the topic goes, so that what was made from an older
    one is stale. Further
    arguments go to `dagster.observable_source_asset`. Raises InvalidRequest for what is no name of a table, and for arguments
    that are not those.
    """
    subject = f"external_table of {name!r}"
    identifier = named_table(subject, name)
    check_types(subject, {} if description is None else {"description": (description, str)})
    _check_passed(subject, spec_arguments)
    with warnings.catch_warnings():
        # Observable source assets work, and are called beta.
        warnings.simplefilter("ignore", dg.BetaWarning)

        @dg.observable_source_asset(
            key=dg.AssetKey([identifier.database, identifier.table]),
            description=description or f"{name}, written elsewhere.",
            **({"group_name": identifier.database} | spec_arguments),
        )
        def observe(context: dg.OpExecutionContext, tables: TablesResource) -> dg.ObserveResult:
            topic = tables.topic(name)
            if topic is not None:
                ends = ends_of_topic(topic)
                return dg.ObserveResult(data_version=dg.DataVersion(_version_of(ends)), metadata={"offsets": ends})
            table = tables.session.table(name)
            ref = table.last_change()
            if ref is None:
                return dg.ObserveResult(data_version=dg.DataVersion("main@0"), metadata={"snapshot": 0})
            snapshot = table.snapshot(ref.snapshot_id)
            assert snapshot is not None
            metadata: dict[str, Any] = {
                "snapshot": ref.snapshot_id,
                "branch": ref.branch,
                "dagster/row_count": table.after_commit(ref.snapshot_id).count(),
                "commit": f"{snapshot.commit_kind} by {snapshot.commit_user}",
                **page_metadata(ref),
            }
            return dg.ObserveResult(data_version=dg.DataVersion(ref.data_version), metadata=metadata)

    return observe


def _version_of(ends: Mapping[str, int]) -> str:
    """The data version of a topic: how far each partition goes."""
    return ";".join(f"{place}@{end}" for place, end in ends.items())


def _check_passed(subject: str, given: Mapping[str, Any]) -> None:
    """Raise InvalidRequest for an argument that Dagster does not have, and takes without a word, and for the table's own."""
    known = [
        parameter.name
        for parameter in inspect.signature(dg.observable_source_asset).parameters.values()
        if parameter.kind is parameter.KEYWORD_ONLY and parameter.name not in _OF_THE_TABLE
    ]
    for name in given:
        if name in _OF_THE_TABLE:
            raise InvalidRequest(f"{subject}: {name}=… is not taken: the key is the table's name.")
        try:
            refuse_unknown_argument(name, known, "dagster.observable_source_asset")
        except InvalidRequest as error:
            raise InvalidRequest(f"{subject}: {error}") from None


def external_table_sensor(
    name: str,
    tables: Sequence[str],
    *,
    target: Any,
    minimum_interval_seconds: int = 30,
    default_status: dg.DefaultSensorStatus = dg.DefaultSensorStatus.STOPPED,
) -> dg.SensorDefinition:
    """A sensor that starts a run of `target` (a job, or a selection of assets) when one of the tables has a new snapshot
    that changes rows, and reports the observation. Compactions start nothing. `default_status`: whether it runs before
    anybody has switched it on. Raises InvalidRequest for arguments with which it could not work.
    """
    subject = f"external_table_sensor {name!r}"
    check_sensor(subject, name, minimum_interval_seconds, default_status)
    names = named_tables(subject, "tables", tables)
    if target is None:
        raise InvalidRequest(f"{subject}: target=None starts nothing: give a job, or a selection of assets.")

    @dg.sensor(
        name=name, target=target, minimum_interval_seconds=minimum_interval_seconds, default_status=default_status
    )
    def look(context: dg.SensorEvaluationContext, tables: TablesResource) -> dg.SensorResult | dg.SkipReason:
        newest: dict[str, tuple[str, dict[str, Any]]] = {}
        moments: dict[str, str] = {}
        for table_name in names:
            topic = tables.topic(table_name)
            if topic is not None:
                ends = ends_of_topic(topic)
                if any(ends.values()):
                    newest[table_name] = _version_of(ends), {"offsets": ends}
                continue
            ref = tables.session.table(table_name).last_change() if tables.session.catalog.exists(table_name) else None
            if ref is not None:
                facts = {"snapshot": ref.snapshot_id, "branch": ref.branch, **page_metadata(ref)}
                newest[table_name] = ref.data_version, facts
                moments[table_name] = f":{ref.time_ms}"
        marks = {each: f"{each}={version}{moments.get(each, '')}" for each, (version, _) in newest.items()}
        cursor = ",".join(marks.values())
        if cursor == (context.cursor or ""):
            return dg.SkipReason(f"Nothing new in {', '.join(names)}.")
        before = set((context.cursor or "").split(","))
        new = {each: newest[each] for each, mark in marks.items() if mark not in before}
        events = [
            dg.AssetObservation(
                dg.AssetKey(name.split(".")),
                metadata=facts,
                tags={"dagster/data_version": version},
            )
            for name, (version, facts) in new.items()
        ]
        requests = [dg.RunRequest(run_key=cursor)] if new else []
        return dg.SensorResult(run_requests=requests, cursor=cursor, asset_events=events)

    return look


def commits_of_others_sensor(
    assets: Sequence[Any],
    *,
    name: str = "commits_of_others",
    minimum_interval_seconds: int = 30,
    default_status: dg.DefaultSensorStatus = dg.DefaultSensorStatus.STOPPED,
) -> dg.SensorDefinition:
    """A sensor that tells Dagster of the snapshots which SQL, or another program, has made of the tables of `assets`: each is
    a materialization, of the partitions that it changed, with its statement where that is known, so that what was made from
    older ones is stale.

    A run's own snapshots, and those that a recovery publishes, are told of by themselves. One that a run has overtaken before
    the sensor saw it is an observation, since the newest materialization is what a table is now. The first look begins with
    the newest snapshot that Dagster knows. `default_status`: whether it runs before anybody has switched it on. Raises
    InvalidRequest for arguments with which it could not work.
    """
    subject = f"commits_of_others_sensor {name!r}"
    check_sensor(subject, name, minimum_interval_seconds, default_status)
    check_assets(subject, assets)
    known = table_assets(assets)
    if not known:
        raise InvalidRequest(
            f"{subject}: assets holds no table asset, of which it could tell: give those of @table_asset."
        )

    @dg.sensor(name=name, minimum_interval_seconds=minimum_interval_seconds, default_status=default_status)
    def look(context: dg.SensorEvaluationContext, tables: TablesResource) -> dg.SensorResult | dg.SkipReason:
        seen: dict[str, int] = json.loads(context.cursor or "{}")
        events: list[dg.AssetMaterialization | dg.AssetObservation] = []
        for asset in known.values():
            table = tables.session.table(asset.name) if tables.session.catalog.exists(asset.name) else None
            latest = None if table is None else table.snapshot()
            if table is None or latest is None:
                continue
            newest_known = newest_told(context.instance, asset.key, table.identifier.branch)
            after = seen.get(asset.name, newest_known)
            # One that was dropped and made anew counts from 1 again.
            after = 0 if after > latest.id else after
            later = table.snapshots.between(after, latest.id)
            for snapshot in [each for each in later if _is_of_others(each)][-_TOLD_AT_ONCE:]:
                events += _told(context, asset, table, snapshot, is_overtaken=snapshot.id < newest_known)
            seen[asset.name] = latest.id
        if not events:
            return dg.SensorResult(cursor=json.dumps(seen), skip_reason="Nobody else has written to a table.")
        return dg.SensorResult(cursor=json.dumps(seen), asset_events=events)

    return look


def _is_of_others(snapshot: Snapshot) -> bool:
    """Whether a snapshot changes rows, and neither a run nor a recovery has made it."""
    is_own = RUN_PROPERTY in (snapshot.properties or {}) or snapshot.commit_user.startswith("recovery/")
    return snapshot.changes_rows and not is_own


def _told(
    context: dg.SensorEvaluationContext, asset: TableAsset, table: Table, snapshot: Snapshot, *, is_overtaken: bool
) -> Iterator[dg.AssetMaterialization | dg.AssetObservation]:
    """The events of a snapshot: one for each partition that it changed."""
    ref = table.ref(snapshot.id)
    assert ref is not None
    instance = context.instance
    sources, numbers = sources_of(snapshot), CommitNumbers.of(table, snapshot)
    # What somebody looks for who asks what was done comes first.
    metadata = {**if_it_is_bad(Launchpads.of_sensor(context), ref), "written_by": snapshot.commit_user}
    if STATEMENT_PROPERTY in (snapshot.properties or {}):
        metadata["statement"] = (snapshot.properties or {})[STATEMENT_PROPERTY]
    metadata |= table_metadata(table, snapshot, sources, numbers)
    if is_overtaken:
        yield dg.AssetObservation(asset.key, metadata=metadata)
        return
    tags = {
        "dagster/data_version": ref.data_version,
        "dagster/data_version_is_user_provided": "true",
        **provenance_tags(instance, {dg.AssetKey([source.database, source.table]): source for source in sources}),
    }
    if asset.partitions_def is None or asset.partition_column is None:
        yield dg.AssetMaterialization(asset.key, metadata=metadata, tags=tags)
        return
    partitions = set(asset.partitions_def.get_partition_keys(dynamic_partitions_store=instance))
    metadata = {name: value for name, value in metadata.items() if name not in (*numbers.total, "dagster/row_count")}
    for values, _ in table.changes_by_partition(snapshot):
        key = asset.partition_key(values, table)
        if key in partitions:
            own = partition_metadata(table, snapshot, values, numbers)
            yield dg.AssetMaterialization(asset.key, partition=key, metadata=metadata | own, tags=tags)
