"""What there is: tables, and the snapshots, tags, branches and consumers of one."""

import sys
from collections.abc import Sequence
from datetime import datetime

import click

from lineage import LineageUnavailable, sources_of, trace
from storage import BATCH_COMMIT_IDENTIFIER, CorruptData, Snapshot, Table, operation_of

from ..actions.sentences import size_text
from ..actions.values import partition_values
from ..session import Session
from ..warehouse.catalogs import CATALOG_NAME
from .completion import complete_table
from .output import format_option, print_listing

table_argument = click.argument("table", shell_complete=complete_table)


@click.command()
@click.argument("database", required=False)
@format_option
@click.pass_obj
def tables(session: Session, database: str | None, form: str) -> None:
    """List tables, with their latest snapshot. One that is damaged is marked, with why below; exit code 1 then."""
    rows: list[tuple[object, ...]] = []
    damaged: dict[str, CorruptData] = {}
    for name in session.catalog.tables(database):
        try:
            table = session.table(name)
            snapshot = table.snapshot()
        except CorruptData as error:
            damaged[name] = error
            rows.append((name, "damaged", None, None, "", ""))
            continue
        key, by = ", ".join(table.schema.primary_keys), ", ".join(table.schema.partition_keys)
        rows.append(
            (name, snapshot and snapshot.id, snapshot and snapshot.total_record_count, _time(snapshot), key, by)
        )
    print_listing(["table", "snapshot", "records in files", "committed", "primary key", "partitioned by"], rows, form)
    for name, why in damaged.items():
        click.echo(f"{name}: {why}", err=form != "table")
    if damaged:
        sys.exit(1)


@click.command()
@table_argument
@click.option("--partition", multiple=True, metavar="COLUMN=VALUE", help="Only this partition; once for each column.")
@format_option
@click.pass_obj
def describe(session: Session, table: str, partition: Sequence[str], form: str) -> None:
    """Show columns, keys, options, and what there is on disk. As JSON or CSV: the columns and properties in one list."""
    opened = session.table(table)
    facts = opened.describe(partition_values(partition) or None)
    title = f"{opened.identifier}  {facts['comment']}".strip()
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


@click.command()
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
        click.echo(f"Warning: {error}", err=True)
        stores = None
    rows = []
    for snapshot in opened.snapshots.backwards():
        barrier = "" if snapshot.commit_identifier == BATCH_COMMIT_IDENTIFIER else str(snapshot.commit_identifier)
        ref = opened.ref(snapshot.id)
        assert ref is not None
        made_from = sources_of(snapshot) if stores is None else trace(stores, ref, "up", hops=1).snapshots
        sources = ", ".join(map(str, made_from))
        did = (snapshot.commit_kind, operation_of(snapshot) or "", snapshot.delta_record_count)
        made_by = (snapshot.commit_user, barrier, sources)
        rows.append((snapshot.id, _time(snapshot), *did, snapshot.total_record_count, *made_by))
    names = ["snapshot", "committed", "kind", "operation", "change", "records in files", "job", "barrier", "made from"]
    print_listing(names, rows, form)


@click.command()
@table_argument
@format_option
@click.pass_obj
def tags(session: Session, table: str, form: str) -> None:
    """List the tags of a table."""
    rows = [
        (tag.name, tag.snapshot.id, _time(tag.snapshot), tag.snapshot.total_record_count)
        for tag in session.table(table).tags.list()
    ]
    print_listing(["tag", "snapshot", "committed", "records in files"], rows, form)


@click.command()
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


@click.command()
@table_argument
@format_option
@click.pass_obj
def consumers(session: Session, table: str, form: str) -> None:
    """List the readers of changes that have a name, and the first snapshot that each has not read."""
    rows = [(each.name, each.next_snapshot_id) for each in session.table(table).consumers.list()]
    print_listing(["consumer", "next snapshot"], rows, form)


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
