"""Actions on the snapshots of a table."""

import datetime as dt
from typing import Annotated

from storage import InvalidRequest, NotFound, Table, TableOptions

from .action import Given, Reach, action, only_one_of
from .kinds import AGE, FLAG, MOMENT, NUMBER, TABLE, TAG, VERSION
from .outcome import Outcome
from .sentences import counted, rolled_back, shown_table

TheTable = Annotated[str, Given(TABLE)]
DryRun = Annotated[bool, Given(FLAG, "Say what would be deleted, delete nothing.", "--dry-run")]


@action(
    "snapshot rollback",
    "rollback",
    also={
        "rollback_to": ("table", "tag", "snapshot_id"),
        "rollback_to_timestamp": ("table", "timestamp!"),
        "rollback_to_watermark": ("table", "watermark!"),
    },
)
def rollback(
    reach: Reach,
    table: TheTable,
    version: Annotated[int | str | None, Given(VERSION, "The snapshot id or tag to go back to.", "--version")] = None,
    snapshot_id: Annotated[
        int | None, Given(NUMBER, "Or: the id of a snapshot.", "--snapshot", also=("snapshot",))
    ] = None,
    tag: Annotated[str | None, Given(TAG, "Or: the name of a tag.", "--tag")] = None,
    timestamp: Annotated[
        dt.datetime | None, Given(MOMENT, "Or: the latest snapshot at or before this local time.", "--timestamp")
    ] = None,
    watermark: Annotated[
        int | None,
        Given(NUMBER, "Or: the latest snapshot whose watermark is not beyond this (milliseconds).", "--watermark"),
    ] = None,
) -> Outcome:
    """Make the rows of an earlier snapshot or tag the latest state again, by a snapshot on top. Later ones stay until they
    expire.
    """
    only_one_of(version=version, snapshot=snapshot_id, tag=tag, timestamp=timestamp, watermark=watermark)
    opened = reach.table(table)
    if watermark is not None:
        snapshot_id = _last_at_watermark(opened, table, watermark)
    target = next(each for each in (version, snapshot_id, tag, timestamp) if each is not None)
    snapshot = opened.rollback_to(target)
    rolled = shown_table(table, opened)
    return Outcome(rolled_back(rolled, target, snapshot), facts={"table": rolled, "snapshot": snapshot and snapshot.id})


def _last_at_watermark(opened: Table, table: str, watermark: int) -> int:
    """The id of the latest snapshot whose watermark is not beyond a mark. Raises NotFound."""
    for snapshot in opened.snapshots.backwards():
        if snapshot.watermark is not None and snapshot.watermark <= watermark:
            return snapshot.id
    raise NotFound(f"{table} has no snapshot whose watermark is {watermark} or earlier.")


@action("snapshot mend", "mend-snapshots")
def mend_snapshots(reach: Reach, table: TheTable) -> Outcome:
    """Make up for snapshots whose files are damaged, and keep those aside.

    They are restored from tags or branches that have the same snapshot, else from the one that was put on top. What a
    newest snapshot committed is lost with it: the state before is shown.
    """
    mended = [str(each) for each in reach.table(table).mend_snapshots()]
    message = "" if mended else f"Every snapshot of {table} can be read."
    return Outcome(message, ["mended"], [(each,) for each in mended], lines=mended)


@action("snapshot why-kept", "why-kept")
def why_kept(
    reach: Reach, table: TheTable, what: Annotated[int | str, Given(VERSION, "A snapshot or the name of a file.")]
) -> Outcome:
    """Show which snapshots and tags need a file, or the files of a snapshot."""
    holders = [str(each) for each in reach.table(table).why_kept(what)]
    return Outcome("" if holders else f"Nobody needs {what}.", ["holder"], [(each,) for each in holders], lines=holders)


@action("snapshot expire", "expire-snapshots")
def expire_snapshots(
    reach: Reach,
    table: TheTable,
    retain_max: Annotated[int | None, Given(NUMBER, "The same as --retain-last.", "--retain-max")] = None,
    retain_min: Annotated[
        int | None,
        Given(NUMBER, "So many stay, whatever their age. Others as --older-than or the options say.", "--retain-min"),
    ] = None,
    older_than: Annotated[
        dt.timedelta | dt.datetime | None,
        Given(AGE, "Only snapshots of at least this age, as in `7 d`, or from before a time.", "--older-than"),
    ] = None,
    retain_last: Annotated[
        int | None,
        Given(NUMBER, "How many of the latest snapshots stay. Default: as the options say.", "--retain-last"),
    ] = None,
    dry_run: DryRun = False,
) -> Outcome:
    """Let old snapshots go, and the files that no other snapshot, tag or branch needs.

    Without --retain-last the table's options `snapshot.*` say which stay.
    """
    if retain_max is not None and retain_last is not None:
        raise InvalidRequest("retain_max and retain_last mean the same: leave one out.")
    most = retain_max if retain_max is not None else retain_last
    most_name = "retain_last" if retain_max is None else "retain_max"
    for name, count in ((most_name, most), ("retain_min", retain_min)):
        if count is not None and count < 1:
            raise InvalidRequest(f"{name} = {count}: at least the latest snapshot stays. Drop the table to empty it.")
    opened = reach.table(table)
    removals = [
        opened.expire(retain_last=stay, older_than=age, dry_run=dry_run)
        for stay, age in _expiries(opened.schema.table_options, most, retain_min, age_of(older_than, opened), most_name)
    ]
    last_needed_by = {
        path: snapshot_id
        for removal in removals
        for path, snapshot_id in zip(removal.files, removal.last_needed_by, strict=True)
    }
    snapshots = {each for removal in removals for each in removal.snapshot_ids}
    lines = [f"{path}: snapshot {each} is the last that needs it" for path, each in last_needed_by.items()]
    counts = f"{counted(len(snapshots), 'snapshot')} and {counted(len(last_needed_by), 'file')} of {table}"
    return Outcome(
        f"{'Would delete' if dry_run else 'Deleted'} {counts}.",
        lines=lines if dry_run else [],
        facts={"table": table, "snapshots": sorted(snapshots), "files": len(last_needed_by), "deleted": not dry_run},
    )


def _expiries(
    options: TableOptions, most: int | None, least: int | None, age: dt.timedelta | None, name: str
) -> list[tuple[int | None, dt.timedelta | None]]:
    """How many snapshots stay, and from which age on others go, once or twice: with `least`, the newest of so many stay, of the
    others those that are younger and among the newest `most`.
    """
    if least is None:
        return [(most, age)]
    name = name if most is not None else "the option 'snapshot.num-retained.max'"
    most = options.snapshot_num_retained_max if most is None else most
    if most is not None and most < least:
        raise InvalidRequest(f"retain_min = {least} snapshots stay, so that {name} = {most} cannot be all.")
    by_age = (least, dt.timedelta(milliseconds=options.snapshot_time_retained_ms) if age is None else age)
    return [by_age] if most is None else [by_age, (most, None)]


def age_of(age: dt.timedelta | dt.datetime | None, table: Table) -> dt.timedelta | None:
    """A length of time, or how long ago a point in time is by the table's clock; none at all if that is to come."""
    if not isinstance(age, dt.datetime):
        return age
    past_ms = table.clock.now_ms() - int(age.timestamp() * 1000)
    return dt.timedelta(milliseconds=max(past_ms, 0))
