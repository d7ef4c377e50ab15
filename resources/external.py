"""Tables that others write, as assets: their data version is their snapshot, and new ones start runs."""

import warnings
from collections.abc import Sequence
from typing import Any

import dagster as dg

from storage import Identifier

from .tables import TablesResource


def external_table(name: str, *, description: str | None = None, **spec_arguments: Any) -> dg.SourceAsset:
    """An observable source asset for a table that another program writes in the format, Paimon's own jobs for example.

    Observing it reports the newest snapshot that changed rows, so that what was made from an older one is stale. Further
    arguments go to `dagster.observable_source_asset`. Raises InvalidRequest for what is no name of a table.
    """
    identifier = Identifier.parse(name)
    with warnings.catch_warnings():
        # Observable source assets work, and are called beta.
        warnings.simplefilter("ignore", dg.BetaWarning)

        @dg.observable_source_asset(
            key=dg.AssetKey([identifier.database, identifier.table]),
            description=description or f"{name}, written elsewhere.",
            **({"group_name": identifier.database} | spec_arguments),
        )
        def observe(context: dg.OpExecutionContext, tables: TablesResource) -> dg.ObserveResult:
            table = tables.session.table(name)
            ref = table.last_change()
            if ref is None:
                return dg.ObserveResult(data_version=dg.DataVersion("main@0"), metadata={"snapshot": 0})
            snapshot = table.snapshot(ref.snapshot_id)
            assert snapshot is not None
            metadata: dict[str, Any] = {
                "snapshot": ref.snapshot_id, "branch": ref.branch,
                "dagster/row_count": table.count(version=ref.snapshot_id),
                "commit": f"{snapshot.commit_kind} by {snapshot.commit_user}",
            }  # fmt: skip
            return dg.ObserveResult(data_version=dg.DataVersion(ref.data_version), metadata=metadata)

    return observe


def external_table_sensor(
    name: str, tables: Sequence[str], *, target: Any, minimum_interval_seconds: int = 30,
    default_status: dg.DefaultSensorStatus = dg.DefaultSensorStatus.STOPPED,
) -> dg.SensorDefinition:  # fmt: skip
    """A sensor that starts a run of `target` (a job, or a selection of assets) when one of the tables has a new snapshot
    that changes rows, and reports the observation. Compactions start nothing. `default_status`: whether it runs before
    anybody has switched it on.
    """
    names = tuple(tables)

    @dg.sensor(
        name=name, target=target, minimum_interval_seconds=minimum_interval_seconds, default_status=default_status
    )
    def look(context: dg.SensorEvaluationContext, tables: TablesResource) -> dg.SensorResult | dg.SkipReason:
        found = {}
        for one in names:
            ref = tables.session.table(one).last_change() if tables.session.catalog.exists(one) else None
            if ref is not None:
                found[one] = ref
        cursor = ",".join(f"{one}={ref.data_version}:{ref.time_ms}" for one, ref in found.items())
        if cursor == (context.cursor or ""):
            return dg.SkipReason(f"Nothing new in {', '.join(names)}.")
        before = set((context.cursor or "").split(","))
        new = {one: ref for one, ref in found.items() if f"{one}={ref.data_version}:{ref.time_ms}" not in before}
        events = [
            dg.AssetObservation(
                dg.AssetKey(one.split(".")), metadata={"snapshot": ref.snapshot_id, "branch": ref.branch},
                tags={"dagster/data_version": ref.data_version},
            )
            for one, ref in new.items()
        ]  # fmt: skip
        requests = [dg.RunRequest(run_key=cursor)] if new else []
        return dg.SensorResult(run_requests=requests, cursor=cursor, asset_events=events)

    return look
