"""What a run reads: the tables of its assets, and their newest changes when it began."""

from storage import Table

from .step_commit import Context


def newest_at_start(context: Context, table: Table) -> int | None:
    """The newest change of a table when the run began, which all of its processes find without asking each other; of a table
    that is younger, the newest; None without any.
    """
    record = context.instance.get_run_record_by_id(context.run.run_id)
    began = (record.start_time or record.create_timestamp.timestamp()) if record else 0
    before = (snapshot.id for snapshot in table.snapshots.backwards() if snapshot.time_ms <= began * 1000)
    ref = table.last_change(next(before, None))
    return None if ref is None else ref.snapshot_id


def inputs_of_run(context: Context) -> list[str]:
    """Names of all tables that assets of the run read. The asset layer is not public API: used here alone."""
    layer = context.job_def.asset_layer
    keys = {parent for key in layer.executable_asset_keys for parent in layer.asset_graph.get(key).parent_keys}
    return sorted(".".join(key.path) for key in keys if len(key.path) == 2)
