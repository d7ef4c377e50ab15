"""What tables need from time to time, as a Dagster schedule: tags of periods, compaction, expiry."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import dagster as dg

from storage import CommitConflict, InvalidRequest, Table

from .declared import check_types, named_tables
from .run_progress import progress_in_log
from .tables import TablesResource


def upkeep_schedule(
    name: str,
    tables: Sequence[str],
    *,
    cron_schedule: str,
    compact: bool = False,
    retain_last: int | None = None,
    partitions: bool = False,
) -> dg.ScheduleDefinition:
    """A schedule whose job looks after tables one by one; its run shows what it did to each.

    Always: the tag that is due is created, and tags whose time is over go. `compact`: what the triggers call for is
    merged. `retain_last`: all but so many snapshots expire. `partitions`: those older than 'partition.expiration-time'
    are dropped. A table that fails does not keep the others from their turn; the run fails at its end. Raises InvalidRequest
    for arguments with which it could not work.
    """
    types = {
        "name": (name, str),
        "cron_schedule": (cron_schedule, str),
        "compact": (compact, bool),
        "partitions": (partitions, bool),
    }
    names = _checked(f"upkeep_schedule {name!r}", types, tables, retain_last)

    # A name of its own: in a code location no op and no job may share one.
    @dg.op(name=f"{name}_tables")
    def look_after(context: dg.OpExecutionContext, tables: TablesResource) -> None:
        failed: list[str] = []
        rows: list[dg.TableRecord] = []
        for table_name in names:
            try:
                with progress_in_log(context.log):
                    done = _look_after(tables.session.table(table_name))
                rows.append(dg.TableRecord({"table": table_name, **done}))
            except Exception:
                context.log.exception(f"{table_name} could not be looked after")
                failed.append(table_name)
        context.add_output_metadata({"tables": dg.MetadataValue.table(rows)} if rows else {})
        if failed:
            raise dg.Failure(f"Could not look after {', '.join(failed)}: see the log of this run.")

    def _look_after(table: Table) -> dict[str, Any]:
        steps: dict[str, Callable[[], Any]] = {"tag created": lambda: _name(table.tags.create_due())}
        steps["tags expired"] = lambda: ", ".join(table.tags.expire())
        if partitions:
            steps["partitions dropped"] = lambda: len(table.expire_partitions())
        if compact:
            steps["compacted"] = lambda: _compacted(table)
        if retain_last is not None:
            steps["snapshots expired"] = lambda: len(table.expire(retain_last=retain_last).snapshot_ids)
        return {what: str(step()) for what, step in steps.items()}

    @dg.job(name=name, description=f"Look after {', '.join(names)}.")
    def job() -> None:
        look_after()

    return dg.ScheduleDefinition(name=f"{name}_schedule", job=job, cron_schedule=cron_schedule)


def _checked(
    subject: str, types: Mapping[str, tuple[object, type]], tables: object, retain_last: object
) -> tuple[str, ...]:
    """The names of the tables. Raises InvalidRequest for arguments with which a schedule could not work."""
    check_types(subject, types)
    names = named_tables(subject, "tables", tables)
    if retain_last is not None:
        check_types(subject, {"retain_last": (retain_last, int)})
        if isinstance(retain_last, int) and retain_last < 1:
            raise InvalidRequest(f"retain_last={retain_last}: at least the latest snapshot stays.")
    return names


def _name(tag: Any) -> str:
    return "" if tag is None else tag.name


def _compacted(table: Table) -> str:
    try:
        snapshot = table.compact(full=False)
    except CommitConflict:
        # A writer compacted the same files: they are in good shape now.
        return "by a writer"
    return "" if snapshot is None else f"snapshot {snapshot.id}"
