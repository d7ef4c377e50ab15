"""What runs that end badly leave behind in the lineage tables, swept up. Nothing depends on it: a commit is its own record."""

import dagster as dg

from lineage import LineageUnavailable

from ..session import Session
from .declared import check_sensor
from .tables import TablesResource


def sweep(session: Session, run_id: str) -> int:
    """Forget the versions that a run began with, and the tables of jobs that it recorded and that never committed; returns
    the number of rows.
    """
    session.reconcile_all()
    store = session.lineage_store
    count = store.delete_startups(run_id)
    for job in {row.job for row in store.tables("sink")}:
        if not store.has_snapshots("sink", job=job):
            count += store.delete_tables(job)
    return count


def lineage_sweep_sensors(*, minimum_interval_seconds: int = 30) -> list[dg.SensorDefinition]:
    """Two sensors, for runs that fail and for runs that are cancelled, which sweep up after them. Raises InvalidRequest for an
    interval that is none.
    """
    check_sensor("lineage_sweep_sensors", "sweep", minimum_interval_seconds)
    made = []
    for status in (dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED):
        name = f"sweep_lineage_of_{status.value.lower()}_runs"
        made.append(_sensor(name, status, minimum_interval_seconds))
    return made


def _sensor(name: str, status: dg.DagsterRunStatus, seconds: int) -> dg.SensorDefinition:
    @dg.run_status_sensor(
        name=name,
        run_status=status,
        minimum_interval_seconds=seconds,
        default_status=dg.DefaultSensorStatus.RUNNING,
        monitor_all_code_locations=False,
    )
    def look(context: dg.RunStatusSensorContext, tables: TablesResource) -> dg.SkipReason:
        try:
            rows_deleted = sweep(tables.session, context.dagster_run.run_id)
            return dg.SkipReason(f"Deleted {rows_deleted} rows of lineage of run {context.dagster_run.run_id}.")
        except LineageUnavailable as error:
            return dg.SkipReason(str(error))

    return look
