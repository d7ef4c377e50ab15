"""Actions on lineage."""

from datetime import timedelta
from typing import Annotated

from .action import Given, Reach, action
from .kinds import DURATION, NAME
from .outcome import Outcome
from .sentences import counted

Job = Annotated[str, Given(NAME, "The name of the job.", "--job")]
CatalogName = Annotated[str | None, Given(NAME, "In this catalog alone. Default: in all.", "--catalog")]


@action("", "delete-table-lineage")
def delete_table_lineage(reach: Reach, job: Job, catalog: CatalogName = None) -> Outcome:
    """Forget which tables a job reads and writes, in all catalogs or in one."""
    return _forget(reach, job, catalog, tables=True)


@action("", "delete-data-lineage")
def delete_data_lineage(reach: Reach, job: Job, catalog: CatalogName = None) -> Outcome:
    """Forget which snapshots a job consumed and produced, in all catalogs or in one."""
    return _forget(reach, job, catalog, tables=False)


def _forget(reach: Reach, job: str, catalog: str | None, *, tables: bool) -> Outcome:
    if catalog is not None:
        # Raises NotFound for one that there is not.
        reach.session.catalog_of(catalog)
    chosen = [catalog] if catalog else []
    count = reach.session.forget_job(job, *chosen, tables=tables, snapshots=not tables)
    where = f"catalog {catalog}" if catalog else "all catalogs"
    message = f"Deleted {counted(count, 'row')} of {'table' if tables else 'data'} lineage of job {job} in {where}."
    return Outcome(message, facts={"job": job, "rows": count})


@action("", "forget-lineage")
def forget_lineage(
    reach: Reach, older_than: Annotated[timedelta, Given(DURATION, "As in `90 d`.", "--older-than")]
) -> Outcome:
    """Forget the lineage of snapshots that have expired, or are gone otherwise, and were committed so long ago."""
    count = reach.session.forget_lineage(older_than)
    return Outcome(f"Deleted {counted(count, 'row')} of lineage.", facts={"rows": count})


@action("")
def rebuild_lineage(reach: Reach, catalog: CatalogName = None) -> Outcome:
    """Read all lineage off the tables again, of all catalogs or of one."""
    count, replaced = reach.session.rebuild_lineage(*([catalog] if catalog else []))
    lines = [f"A lineage database that could not be read was replaced. It lies in {file} now." for file in replaced]
    message = f"Read the lineage of {counted(count, 'snapshot')} off the tables."
    return Outcome(
        " ".join([message, *lines]), facts={"snapshots": count, "replaced": [str(file) for file in replaced]}
    )
