"""CALL sys.*: procedures by the names and parameters that Paimon's Spark and Flink connectors give them.

Those whose names are the same here take Paimon's parameters as well as their own (`_NAMES_OF_PAIMON`). What has no
operation here is refused by name, with the reason.
"""

import datetime as dt
import re
from collections.abc import Sequence

from sqlglot import exp

from storage import InvalidRequest, NotFound, Snapshot, Table, Unsupported, moment_of

from ..parameters import duration, partition_values
from ..rendering import rolled_back
from . import procedures
from .procedures import PROCEDURES, Context, procedure
from .result import Result, rows_result

# By procedure: a parameter of Paimon's, in lower case, and what it is called here.
_NAMES_OF_PAIMON = {
    "create_tag": {"snapshot": "snapshot_id"},
    "replace_tag": {"snapshot": "snapshot_id"},
    "reset_consumer": {"consumerid": "consumer_id", "nextsnapshotid": "next_snapshot_id"},
    "rescale": {"bucket_num": "buckets"},
    "create_branch": {"ignoreifexists": "ignore_if_exists"},
    "clear_consumers": {"includingconsumers": "including_consumers", "excludingconsumers": "excluding_consumers"},
}
# Parameters that say how Paimon does something, not what comes of it.
_WITHOUT_EFFECT = {
    "remove_orphan_files": ("parallelism", "mode"),
}
_SORTED = "rows are not sorted by other columns here"
_REFUSED_PARAMETERS = {
    "compact": {
        "order_strategy": _SORTED,
        "order_by": _SORTED,
        "where": "name partitions, by 'partitions'",
        "options": "set them on the table, by ALTER TABLE … SET",
        "partition_idle_time": "name partitions, by 'partitions'",
    },
    "compact_database": {"options": "set them on the tables, by ALTER TABLE … SET"},
    "rescale": {
        "partitions": "all partitions get the same number of buckets",
        "where": "all partitions get the same number of buckets",
    },
    "expire_snapshots": {
        "max_deletes": "the option 'snapshot.expire.limit' is for commits",
        "options": "set them on the table",
    },
    "expire_partitions": dict.fromkeys(
        ("expiration_time", "timestamp_formatter", "timestamp_pattern", "expire_strategy", "max_expires", "options"),
        "set the options 'partition.*' on the table",
    ),
    "expire_tags": {"older_than": "tags expire by the time that they were given"},
}
_FUNCTIONS = "functions are not kept in a catalog here; views are"
_INDEXES = "global indexes are not built here; file indexes are, by the options 'file-index.*'"
_USERS = "there are no users and privileges here: whoever reads the warehouse reads all of it"
_COPIES = "copy what you need by CREATE TABLE … AS SELECT"
_REFUSED = {
    "rename_branch": "branches keep their names; create another one at the same snapshot",
    "compact_manifest": "commits merge manifests, by the options 'manifest.*'",
    "remove_unexisting_files": "`snapline check` names missing files, and `drop_lost_files` takes them out",
    "remove_unexisting_manifests": "`snapline check` names them; roll back to a snapshot that has them",
    "purge_files": "TRUNCATE TABLE removes the rows, expire_snapshots and remove_orphan_files the files",
    "mark_partition_done": "partitions are not marked as done here",
    "rewrite_file_index": "files get their indexes when they are written: `compact` writes those that need it",
    "repair": "there is no Hive metastore to repair",
    "migrate_table": _COPIES,
    "migrate_database": _COPIES,
    "copy": _COPIES,
    "copy_files": _COPIES,
    "clone": _COPIES,
    "merge_into": "write MERGE INTO",
    "query_service": "there is no query service here",
    "data_evolution_merge_into": "write MERGE INTO",
    "vector_search": "columns of vectors are not kept here",
    "create_global_index": _INDEXES,
    "drop_global_index": _INDEXES,
    "alter_view_dialect": "views have one text here",
    "create_function": _FUNCTIONS,
    "alter_function": _FUNCTIONS,
    "drop_function": _FUNCTIONS,
    "create_privileged_user": _USERS,
    "drop_privileged_user": _USERS,
    "grant_privilege_to_user": _USERS,
    "revoke_privilege_from_user": _USERS,
    "init_file_based_privilege": _USERS,
}


def call(context: Context, name: str, arguments: Sequence[tuple[str | None, exp.Expr]]) -> Result:
    """Run a procedure by its name here or Paimon's. Raises Unsupported for what Paimon has and this platform has not."""
    plain = name.lower().removeprefix("sys.")
    if plain in _REFUSED:
        raise Unsupported(f"CALL sys.{plain}: {_REFUSED[plain]}.")
    given = []
    for key, value in arguments:
        label = None if key is None else _NAMES_OF_PAIMON.get(plain, {}).get(key.lower(), key)
        reason = _REFUSED_PARAMETERS.get(plain, {}).get((label or "").lower())
        if reason is not None:
            raise Unsupported(f"CALL sys.{plain} with {label!r}: {reason}.")
        if label is None or label.lower() not in _WITHOUT_EFFECT.get(plain, ()):
            given.append((label, value))
    return procedures.call(context, name, given)


def known_procedures() -> list[str]:
    """The names that are carried out or refused with a reason."""
    return sorted({*PROCEDURES, *_REFUSED})


def _partitions(text: str) -> list[dict[str, str]]:
    """`day=2024-05-01,region=eu;day=2024-05-02` as partitions, each by values of its columns."""
    return [partition_values(each.replace("/", ",").split(",")) for each in text.split(";") if each.strip()]


# --- tags and rollbacks


@procedure
def create_tag_from_timestamp(
    context: Context, table: str, tag: str, timestamp: int | str, time_retained: str | None = None
) -> Result:
    """Give the first snapshot at or after a time (milliseconds, or text) a name."""
    moment_ms = int(moment_of(str(timestamp)).timestamp() * 1000)
    store = context.table(table).store
    matching = next((each for each in store.snapshots.all() if each.time_ms >= moment_ms), None)
    if matching is None:
        raise NotFound(f"{table} has no snapshot at {timestamp} or later.")
    return _tagged(context, table, tag, matching, time_retained)


@procedure
def create_tag_from_watermark(
    context: Context, table: str, tag: str, watermark: int, time_retained: str | None = None
) -> Result:
    """Give the first snapshot whose watermark has reached a mark (milliseconds) a name."""
    matching = context.table(table).snapshot(f"watermark-{watermark}")
    if matching is None:
        raise NotFound(f"{table} has no snapshot.")
    return _tagged(context, table, tag, matching, time_retained)


def _tagged(context: Context, table: str, tag: str, snapshot: Snapshot, time_retained: str | None) -> Result:
    retained = duration(time_retained) if time_retained else None
    made = context.table(table).tags.create(tag, snapshot_id=snapshot.id, time_retained=retained)
    return Result(f"Tag {made.name} of {table} names snapshot {made.snapshot.id}.")


@procedure
def trigger_tag_automatic_creation(context: Context, table: str) -> Result:
    """Create the tag of the last period that is over: the same as create_due_tag."""
    return procedures.create_due_tag(context, table)


@procedure
def rollback(
    context: Context, table: str, version: str | int | None = None, snapshot: int | None = None, tag: str | None = None
) -> Result:
    """Make an earlier snapshot or tag the latest state again."""
    given = [each for each in (version, snapshot, tag) if each is not None]
    if len(given) != 1:
        raise InvalidRequest("sys.rollback needs one of version, snapshot and tag.")
    return Result(rolled_back(table, given[0], context.table(table).rollback_to(given[0])))


@procedure
def rollback_to(context: Context, table: str, tag: str | None = None, snapshot_id: int | None = None) -> Result:
    """Make an earlier tag or snapshot the latest state again: the same as rollback."""
    return rollback(context, table, snapshot=snapshot_id, tag=tag)


@procedure
def rollback_to_watermark(context: Context, table: str, watermark: int) -> Result:
    """Make the latest snapshot whose watermark is not beyond a mark (milliseconds) the latest state again."""
    opened = context.table(table)
    marked = (each for each in opened.store.snapshots.backwards() if each.watermark is not None)
    matching = next((each for each in marked if each.watermark is not None and each.watermark <= watermark), None)
    if matching is None:
        raise NotFound(f"{table} has no snapshot whose watermark is {watermark} or earlier.")
    return Result(rolled_back(table, matching.id, opened.rollback_to(matching.id)))


@procedure
def create_branch(
    context: Context,
    table: str,
    branch: str,
    tag: str | None = None,
    snapshot_id: int | None = None,
    empty: bool = False,
    ignore_if_exists: bool = False,
) -> Result:
    """Fork a table at a tag, a snapshot, its latest state, or empty."""
    branches = context.table(table).branches
    if ignore_if_exists and branch in branches.names():
        return Result(f"Branch {branch} of {table} was there already.")
    branches.create(branch, tag=tag, snapshot_id=snapshot_id, empty=empty)
    return Result(f"Branch {branch} of {table} is there: read and write it as `{table}$branch_{branch}`.")


@procedure
def delete_tag(context: Context, table: str, tag: str) -> Result:
    """Forget the names of snapshots, separated by commas, and the files that only they need."""
    names = [each.strip() for each in tag.split(",")]
    for each in names:
        context.table(table).tags.delete(each)
    return Result(
        f"Tag{'s' if len(names) > 1 else ''} {', '.join(names)} of {table} {'are' if len(names) > 1 else 'is'} deleted."
    )


# --- upkeep


@procedure
def compact(
    context: Context, table: str, partitions: str | None = None, full: bool = True, compact_strategy: str | None = None
) -> Result:
    """Merge the files of each bucket; `partitions` as in 'day=2024-05-01', several separated by ';'. `compact_strategy`: full
    or minor.
    """
    if compact_strategy not in (None, "full", "minor"):
        raise InvalidRequest(f"'compact_strategy' is full or minor, not {compact_strategy!r}.")
    full = full if compact_strategy is None else compact_strategy == "full"
    wanted: list[dict[str, str] | None] = [*_partitions(partitions or "")] or [None]
    made = [context.table(table).compact(full=full, partition=each) for each in wanted]
    snapshots = [each for each in made if each is not None]
    return Result(
        f"Snapshot {snapshots[-1].id} of {table} is compacted." if snapshots else f"{table} needs no compaction."
    )


@procedure
def compact_database(
    context: Context,
    including_databases: str | None = None,
    including_tables: str | None = None,
    excluding_tables: str | None = None,
) -> Result:
    """Compact all tables whose database and name (`database.table`) match regular expressions."""
    catalog = context.session.catalog_of(context.catalog)
    rows = []
    for database in catalog.databases():
        for name in catalog.tables(database) if _matches(including_databases, database) else ():
            full_name = name if "." in name else f"{database}.{name}"
            excluded = excluding_tables is not None and _matches(excluding_tables, full_name)
            if _matches(including_tables, full_name) and not excluded:
                made = catalog.table(full_name).compact(full=True)
                rows.append((full_name, f"snapshot {made.id}" if made else "needs no compaction"))
    return rows_result(["table", "result"], rows)


def _matches(pattern: str | None, text: str) -> bool:
    """Whether a text matches a regular expression; any does where none is given. Raises InvalidRequest for what is none."""
    try:
        return pattern is None or re.fullmatch(pattern, text) is not None
    except re.error as error:
        raise InvalidRequest(f"{pattern!r} is no regular expression: {error}.") from None


@procedure
def expire_snapshots(
    context: Context,
    table: str,
    retain_last: int | None = None,
    older_than: str | None = None,
    dry_run: bool = False,
    retain_max: int | None = None,
    retain_min: int | None = None,
) -> Result:
    """Let old snapshots go; without numbers as the options `snapshot.*` say. `older_than` is an age, as '7 d', or a point in
    time. `retain_max` is the same as `retain_last`; `retain_min` stay whatever their age.
    """
    if retain_max is not None and retain_last is not None:
        raise InvalidRequest("Say either retain_max or retain_last.")
    opened, most = context.table(table), retain_max if retain_max is not None else retain_last
    if older_than is None or retain_min is None:
        least = retain_min if most is None else most
        removals = [opened.expire(retain_last=least, older_than=_age(older_than, opened), dry_run=dry_run)]
    else:
        removals = [opened.expire(retain_last=retain_min, older_than=_age(older_than, opened), dry_run=dry_run)]
        removals += [opened.expire(retain_last=max(most, retain_min), dry_run=dry_run)] if most is not None else []
    snapshots = {each for removal in removals for each in removal.snapshot_ids}
    files = {each for removal in removals for each in removal.files}
    return Result(f"{len(snapshots)} snapshots and {len(files)} files {'would go' if dry_run else 'went'}.")


def _age(text: str | None, table: Table) -> dt.timedelta | None:
    """An age such as '7 d', or that of a point in time."""
    if text is None:
        return None
    try:
        return duration(text)
    except InvalidRequest:
        age_ms = table.store.clock.now_ms() - int(moment_of(text).timestamp() * 1000)
        return dt.timedelta(milliseconds=max(age_ms, 0))


@procedure
def remove_orphan_files(
    context: Context, table: str, older_than: str = "1 d", dry_run: bool = False, no_writers: bool = False
) -> Result:
    """Delete files that nobody needs, of a table or, as `database.*`, of all tables. `older_than` is an age or a point in time.
    `no_writers` says that none runs: else ages below an hour are refused.
    """
    if table.endswith(".*"):
        catalog = context.session.catalog_of(context.catalog)
        names = [f"{table[:-1]}{each.rpartition('.')[2]}" for each in catalog.tables(table[:-2].rpartition(".")[2])]
    else:
        names = [table]
    orphans = []
    for name in names:
        opened = context.table(name)
        age = _age(older_than, opened) or dt.timedelta()
        orphans += opened.remove_orphan_files(older_than=age, dry_run=dry_run, no_writers=no_writers)
    return rows_result(["orphan_file"], [(each.path,) for each in orphans])


@procedure
def drop_partition(context: Context, table: str, partitions: str) -> Result:
    """Delete all rows of partitions, as in 'day=2024-05-01', several separated by ';'."""
    wanted = _partitions(partitions)
    snapshot = context.table(table).drop_partition(*wanted)
    said = f" as of snapshot {snapshot.id}" if snapshot else ": there was nothing of them"
    return Result(f"{len(wanted)} partitions of {table} are dropped{said}.")


@procedure
def clear_consumers(
    context: Context, table: str, including_consumers: str | None = None, excluding_consumers: str | None = None
) -> Result:
    """Forget the named readers of changes whose names match regular expressions; without any, all."""
    consumers = context.table(table).consumers
    gone = []
    for each in consumers.list():
        excluded = excluding_consumers is not None and _matches(excluding_consumers, each.name)
        if _matches(including_consumers, each.name) and not excluded:
            consumers.delete(each.name)
            gone.append((each.name,))
    return rows_result(["consumer"], gone)
