"""What there is: tables, and the snapshots, tags, branches and consumers of one."""

import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime

import click

from lineage import LineageUnavailable, offsets_of, sources_of, topic_texts, trace
from storage import BATCH_COMMIT_IDENTIFIER, Catalog, CorruptData, NotFound, Snapshot, Table, Unsupported, operation_of

from ..actions.sentences import size_text
from ..actions.values import partition_values
from ..session import Session
from ..warehouse.catalogs import CATALOG_NAME
from .completion import complete_table
from .output import format_option, print_listing
from .parameters import Command
from .rendering import say

table_argument = click.argument("table", shell_complete=complete_table)


_count = click.option(
    "--count", "counts", is_flag=True, help="Read rows where metadata do not tell how many there are."
)
_UNKNOWN = "unknown"
# Tables that are looked at at once.
_AT_ONCE = 8


@click.command(cls=Command)
@click.argument("database", required=False)
@_count
@format_option
@click.pass_obj
def tables(session: Session, database: str | None, counts: bool, form: str) -> None:
    """List tables, with their latest snapshot. One that is damaged is marked, with why below; exit code 1 then.

    Rows are counted from metadata: of a table with a primary key whose files have to be merged, these tell the records alone.
    """
    catalog = session.catalog
    listed = catalog.tables(database)
    # Far away each waits for some requests: all wait together.
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        summaries = dict(zip(listed, pool.map(lambda name: _summary(catalog, name, counts, form), listed), strict=True))
    damaged = {name: summary for name, summary in summaries.items() if isinstance(summary, CorruptData)}
    rows = [
        (name, "damaged", None, None, None, "", "") if isinstance(summary, CorruptData) else summary
        for name, summary in summaries.items()
        if summary is not None
    ]
    names = ["table", "snapshot", "rows", "records in files", "committed", "primary key", "partitioned by"]
    print_listing(names, rows, form)
    _tell_unknown([row[2] for row in rows])
    for name, why in damaged.items():
        say(f"{name}: {why}", err=form != "table")
    if damaged:
        sys.exit(1)


def _summary(catalog: Catalog, name: str, counts: bool, form: str) -> tuple[object, ...] | CorruptData | None:
    """The line of a table, or why there is none; None for one that was dropped just now."""
    try:
        table = catalog.table(name)
        snapshot = table.snapshot()
        count = _rows(table, snapshot, counts, form)
    except NotFound:
        return None
    except CorruptData as error:
        return error
    key, by = ", ".join(table.schema.primary_keys), ", ".join(table.schema.partition_keys)
    records = snapshot and snapshot.total_record_count
    return name, snapshot and snapshot.id, count, records, _time(snapshot), key, by


@click.command(cls=Command)
@table_argument
@click.option("--partition", multiple=True, metavar="COLUMN=VALUE", help="Only this partition; once for each column.")
@_count
@format_option
@click.pass_obj
def describe(session: Session, table: str, partition: Sequence[str], counts: bool, form: str) -> None:
    """Show columns, keys, options, and what there is on disk. As JSON or CSV: the columns and properties in one list."""
    opened = session.table(table)
    facts = opened.describe(partition_values(partition) or None, counts=counts)
    title = f"{opened.identifier}  {facts.get('comment', '')}".strip()
    columns = [
        (field.name, str(field.type), _roles(opened, field.name), field.description or "")
        for field in opened.schema.fields
    ]
    if form != "table":
        rows: list[tuple[object, ...]] = [] if partition else [("column", *each) for each in columns]
        rows += [("property", name, _fact(value), "", "") for name, value in facts.items()]
        print_listing(["kind", "name", "value", "role", "comment"], rows, form)
        return
    if not partition:
        print_listing(["column", "type", "role", "comment"], columns, form, title)
    facts["total-size"] = size_text(facts.pop("total-size-bytes"))
    print_listing(["property", "value"], [(name, _fact(value)) for name, value in facts.items()], form)


def _fact(value: object) -> str:
    return "" if value is None else str(value)


@click.command(cls=Command)
@table_argument
@format_option
@click.pass_obj
def snapshots(session: Session, table: str, form: str) -> None:
    """List the snapshots of a table, newest first: what each did, the job and barrier that made it, and from what."""
    opened = session.table(table)
    try:
        stores = session.stores_to_ask(CATALOG_NAME)
    except LineageUnavailable as error:
        # What a snapshot itself says of its sources is as good, but for tables renamed since.
        say(f"Warning: {error}", err=True)
        stores = None
    rows = []
    for snapshot in opened.snapshots.backwards():
        barrier = "" if snapshot.commit_identifier == BATCH_COMMIT_IDENTIFIER else str(snapshot.commit_identifier)
        ref = opened.ref(snapshot.id)
        assert ref is not None
        made_from = sources_of(snapshot) if stores is None else trace(stores, ref, "up", hops=1).snapshots
        sources = ", ".join([*map(str, made_from), *topic_texts(offsets_of(snapshot))])
        did = (snapshot.commit_kind, operation_of(snapshot) or "", snapshot.delta_record_count)
        made_by = (snapshot.commit_user, barrier, sources)
        rows.append((snapshot.id, _time(snapshot), *did, snapshot.total_record_count, *made_by))
    names = ["snapshot", "committed", "kind", "operation", "change", "records in files", "job", "barrier", "made from"]
    print_listing(names, rows, form)


@click.command(cls=Command)
@table_argument
@_count
@format_option
@click.pass_obj
def tags(session: Session, table: str, counts: bool, form: str) -> None:
    """List the tags of a table."""
    opened = session.table(table)
    rows = []
    for tag in opened.tags.list():
        count = _rows(opened, tag.snapshot, counts, form)
        rows.append((tag.name, tag.snapshot.id, _time(tag.snapshot), count, tag.snapshot.total_record_count))
    print_listing(["tag", "snapshot", "committed", "rows", "records in files"], rows, form)
    _tell_unknown([row[3] for row in rows])


@click.command(cls=Command)
@table_argument
@format_option
@click.pass_obj
def branches(session: Session, table: str, form: str) -> None:
    """List the branches of a table, and whether main can take them over."""
    opened = session.table(table)
    begun_at = {
        row["branch_name"]: (row["tag_name"], row["tagged_snapshot_id"])
        for row in opened.system_table("branches").to_pylist()
    }
    rows = []
    for name in opened.branches.names():
        try:
            snapshot, verdict = opened.on_branch(name).snapshot(), opened.branches.verdict(name).describe()
        except CorruptData as error:
            # The others are shown all the same.
            snapshot, verdict = None, str(error)
        rows.append((name, *begun_at[name], snapshot and snapshot.id, _time(snapshot), verdict))
    print_listing(["branch", "from tag", "from snapshot", "snapshot", "committed", "verdict"], rows, form)


@click.command(cls=Command)
@table_argument
@format_option
@click.pass_obj
def consumers(session: Session, table: str, form: str) -> None:
    """List the readers of changes that have a name, and the first snapshot that each has not read."""
    rows = [(each.name, each.next_snapshot_id) for each in session.table(table).consumers.list()]
    print_listing(["consumer", "next snapshot"], rows, form)


def _rows(table: Table, snapshot: Snapshot | None, counts: bool, form: str) -> int | str | None:
    """How many rows a snapshot of a table has, by default its latest; for programs nothing where that is not known."""
    try:
        count = table.row_count(snapshot, reads=counts)
    except Unsupported:
        # It can be listed, and not read.
        count = None
    return _UNKNOWN if count is None and form == "table" else count


def _tell_unknown(counts: Sequence[object]) -> None:
    if _UNKNOWN in counts:
        say("Rows are unknown where files have to be merged: there are at most as many as records. --count reads them.")


def _roles(table: Table, column: str) -> str:
    schema = table.schema
    roles = [("primary key", schema.primary_keys), ("partition", schema.partition_keys)]
    return ", ".join(role for role, columns in roles if column in columns)


def _time(snapshot: Snapshot | None) -> str | None:
    return None if snapshot is None else f"{datetime.fromtimestamp(snapshot.time_ms // 1000):%Y-%m-%d %H:%M:%S}"


# By noun and verb; each has a short spelling too, which is its own name.
LISTINGS = {
    ("table", "list"): tables,
    ("table", "describe"): describe,
    ("snapshot", "list"): snapshots,
    ("tag", "list"): tags,
    ("branch", "list"): branches,
    ("consumer", "list"): consumers,
}
