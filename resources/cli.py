"""The command line: one command for each thing that can be asked of, or done to, tables and their lineage.

Bad input is answered by one line on standard error and exit code 2.
"""

import atexit
import json
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Literal, NoReturn

import click
from rich.progress import Progress

from lineage import LineageGraph, LineageUnavailable, dot, mermaid, rows, sources_of, text_tree, trace
from storage import (
    BATCH_COMMIT_IDENTIFIER,
    CorruptData,
    FailedWork,
    InvalidRequest,
    KeptAside,
    NotFound,
    SnapshotRef,
    StorageError,
    Table,
    Unfinished,
    Unpublished,
    operation_of,
    whole_number,
)

from .parameters import Duration, OrderedGroup, Timestamp, partition_values
from .quick_reads import run_query
from .recovery.commands import recovery
from .rendering import (
    FORMATS,
    console,
    merged,
    print_rows,
    published,
    rendered_table,
    replaced,
    rolled_back,
    size_text,
)
from .row_comparison import compare_rows
from .session import CATALOG_NAME, Session
from .settings import address_of_pages


@click.group(cls=OrderedGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_name="snapline")
@click.pass_context
def cli(context: click.Context) -> None:
    """Tables, their snapshots, and the lineage between them. State lives under SNAPLINE_HOME (default ./.snapline)."""
    context.obj = Session()


_WAS_DAMAGED = " It was damaged; which files it kept cannot be told: `remove-orphan-files` deletes them."
table_argument = click.argument("table")
discard_main_option = click.option(
    "--discard-main", is_flag=True, help="Give up what main has done since the branch began."
)


@cli.command()
@click.option("--job", default="demo", show_default=True, help="The Dagster job to run.")
@click.option("--partitions", nargs=2, metavar="FIRST LAST", help="Only these. Default: all.")
@click.pass_obj
def demo(session: Session, job: str, partitions: tuple[str, str] | None) -> None:
    """Materialize the whole demo through Dagster."""
    # Dagster and Spark cost seconds to import: only the commands that need them pay.
    from .demo import run_demo

    run_demo(session, job, partitions)


@cli.command()
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option("--port", type=click.IntRange(1, 65535), default=3000, show_default=True)
@click.pass_obj
def ui(session: Session, host: str, port: int) -> None:
    """Open the Dagster UI, with the lineage browser under /snapline/ and the daemon for backfills and schedules."""
    from .dagster_home import start_ui

    console().print(f"Dagster UI: http://{host}:{port} (stop it with Ctrl-C)", highlight=False)
    console().print(f"Lineage browser: http://{host}:{port}/snapline/", highlight=False)
    start_ui(session.settings, host, port)


@cli.command()
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option("--port", type=click.IntRange(1, 65535), default=3001, show_default=True)
@click.option("--dagster-url", default="http://127.0.0.1:3000", show_default=True, help="Where Dagster's UI is.")
@click.pass_obj
def browse(session: Session, host: str, port: int, dagster_url: str) -> None:
    """Open the lineage browser alone, for those who run Dagster's webserver elsewhere. `snapline ui` has it too."""
    from .browser.server import serve

    def say(address: str) -> None:
        console().print(f"Lineage browser: {address} (stop it with Ctrl-C)", highlight=False)

    serve(session, host, port, address_of_pages("--dagster-url", dagster_url), say)


@cli.command()
@click.argument("sql")
@click.option("--format", "form", type=click.Choice(FORMATS), default="table", show_default=True)
@click.pass_obj
def query(session: Session, sql: str, form: str) -> None:
    """Run a SELECT in DuckDB's own SQL, over tables, system tables (core."flights$snapshots") and lineage (paimon.*)."""
    print_rows(run_query(session, sql), form)


@cli.command()
@click.argument("statement", required=False)
@click.option(
    "-f", "--file", "script", type=click.Path(exists=True, dir_okay=False), help="Run the statements of a file."
)
@click.option(
    "--engine", type=click.Choice(["spark", "duckdb"]), default="spark", show_default=True, help="DuckDB needs no JVM."
)
@click.option("--format", "form", type=click.Choice(FORMATS), default="table", show_default=True)
@click.pass_obj
def sql(session: Session, statement: str | None, script: str | None, engine: str, form: str) -> None:
    """Run SQL statements, those of a file, or, with neither, those that are typed in.

    Queries, table definitions, INSERT, DELETE, UPDATE, MERGE, CALL sys.*: what docs/sql.md lists.
    """
    from .sql.shell import print_results, run_shell

    out = console()
    if statement is not None and script is not None:
        raise InvalidRequest("Give a statement or a file, not both.")
    if statement is None and script is None and sys.stdin.isatty():
        run_shell(session.statements, engine, form, out, session.settings.home / "sql_history")
        return
    text = statement
    if text is None:
        try:
            text = Path(script).read_text(encoding="utf-8") if script else sys.stdin.read()
        except UnicodeDecodeError as error:
            raise InvalidRequest(f"{script or 'What is read'} is no text in UTF-8: {error}.") from None
    with out.status("running …") if out.is_terminal else nullcontext():
        print_results(session.statements.each(text, engine), form, out)


@cli.command()
@click.argument("database", required=False)
@click.pass_obj
def tables(session: Session, database: str | None) -> None:
    """List tables, with their latest snapshot. One that is damaged is marked, with why below; exit code 1 then."""
    found: list[tuple[object, ...]] = []
    damaged: dict[str, CorruptData] = {}
    for name in session.catalog.tables(database):
        try:
            table = session.table(name)
            snapshot = table.snapshot()
        except CorruptData as error:
            damaged[name] = error
            found.append((name, "damaged", None, None, "", ""))
            continue
        key, by = ", ".join(table.schema.primary_keys), ", ".join(table.schema.partition_keys)
        found.append(
            (name, snapshot and snapshot.id, snapshot and snapshot.total_record_count, _time(snapshot), key, by)
        )
    _print(["table", "snapshot", "records", "committed", "primary key", "partitioned by"], found)
    for name, why in damaged.items():
        click.echo(f"{name}: {why}")
    if damaged:
        sys.exit(1)


@cli.command("drop-table")
@table_argument
@click.option("--discard-damaged", is_flag=True, help="A table whose schema cannot be read, with all that it holds.")
@click.pass_obj
def drop_table(session: Session, table: str, discard_damaged: bool) -> None:
    """Delete a table with all its snapshots, tags, branches and files."""
    session.catalog.drop_table(table, discard_damaged=discard_damaged)
    click.echo(f"{table} is dropped.")


@cli.command()
@table_argument
@click.option("--partition", multiple=True, metavar="COLUMN=VALUE", help="Only this partition; once for each column.")
@click.pass_obj
def describe(session: Session, table: str, partition: Sequence[str]) -> None:
    """Show columns, keys, options, and what there is on disk."""
    one = session.table(table)
    facts = one.describe(partition_values(partition) or None)
    if not partition:
        columns = [
            (field.name, str(field.type), _roles(one, field.name), field.description or "")
            for field in one.schema.fields
        ]
        _print(["column", "type", "role", "comment"], columns, title=f"{one.identifier}  {facts['comment']}".strip())
    facts["total-size"] = size_text(facts.pop("total-size-bytes"))
    _print(["property", "value"], [(name, "" if value is None else str(value)) for name, value in facts.items()])


@cli.command()
@table_argument
@click.pass_obj
def snapshots(session: Session, table: str) -> None:
    """List the snapshots of a table, newest first: what each did, the job and barrier that made it, and from what."""
    one = session.table(table)
    try:
        stores = session.stores_to_ask(CATALOG_NAME)
    except LineageUnavailable as error:
        # What a snapshot itself says of its sources is as good, but for tables renamed since.
        click.echo(f"Warning: {error}", err=True)
        stores = None
    found = []
    for snapshot in one.store.snapshots.backwards():
        barrier = "" if snapshot.commit_identifier == BATCH_COMMIT_IDENTIFIER else str(snapshot.commit_identifier)
        ref = one.ref(snapshot.id)
        assert ref is not None
        made_from = sources_of(snapshot) if stores is None else trace(stores, ref, "up", hops=1).snapshots
        sources = ", ".join(map(str, made_from))
        found.append(
            (snapshot.id, _time(snapshot), snapshot.commit_kind, operation_of(snapshot) or "",
             snapshot.delta_record_count, snapshot.total_record_count, snapshot.commit_user, barrier, sources)
        )  # fmt: skip
    _print(["snapshot", "committed", "kind", "operation", "change", "records", "job", "barrier", "made from"], found)


@cli.command()
@table_argument
@click.pass_obj
def tags(session: Session, table: str) -> None:
    """List the tags of a table."""
    found = [
        (tag.name, tag.snapshot.id, _time(tag.snapshot), tag.snapshot.total_record_count)
        for tag in session.table(table).tags.list()
    ]
    _print(["tag", "snapshot", "committed", "records"], found)


@cli.command("create-tag")
@table_argument
@click.option("--name", required=True, help="Not only digits: those are snapshot ids.")
@click.option("--snapshot", type=int, help="The snapshot to tag. Default: the latest.")
@click.option("--replace", is_flag=True, help="Move the tag if it exists.")
@click.option("--time-retained", type=Duration(), help="Keep the tag for so long, as in `30 d`. Default: for good.")
@click.pass_obj
def create_tag(
    session: Session, table: str, name: str, snapshot: int | None, replace: bool, time_retained: timedelta | None
) -> None:
    """Give a snapshot a name. It can be read by it for as long as the tag exists; nothing is copied."""
    tag = session.table(table).tags.create(name, snapshot_id=snapshot, replace=replace, time_retained=time_retained)
    click.echo(f"Tag {tag.name} of {table} names snapshot {tag.snapshot.id}.")


@cli.command("create-due-tag")
@table_argument
@click.pass_obj
def create_due_tag(session: Session, table: str) -> None:
    """Create the tag of the last period that is over, as the table's options ask for."""
    tag = session.table(table).tags.create_due()
    click.echo(f"Tag {tag.name} of {table} names snapshot {tag.snapshot.id}." if tag else f"{table} has no tag due.")


@cli.command("rename-tag")
@table_argument
@click.option("--name", required=True)
@click.option("--to", "new_name", required=True, help="The new name.")
@click.pass_obj
def rename_tag(session: Session, table: str, name: str, new_name: str) -> None:
    """Give a tag another name."""
    session.table(table).tags.rename(name, new_name)
    click.echo(f"Tag {name} of {table} is called {new_name}.")


@cli.command("expire-tags")
@table_argument
@click.pass_obj
def expire_tags(session: Session, table: str) -> None:
    """Delete the tags whose time is over, and the files that nobody needs then."""
    gone = session.table(table).tags.expire()
    click.echo(f"{len(gone)} tags of {table} expired{': ' if gone else ''}{', '.join(gone)}.")


@cli.command("delete-tag")
@table_argument
@click.option("--name", required=True)
@click.pass_obj
def delete_tag(session: Session, table: str, name: str) -> None:
    """Forget the name of a snapshot."""
    tags_ = session.table(table).tags
    was_damaged = tags_.is_damaged(name)
    tags_.delete(name)
    click.echo(f"Tag {name} of {table} is deleted.{_WAS_DAMAGED if was_damaged else ''}")


@cli.command()
@table_argument
@click.option("--partition", multiple=True, metavar="COLUMN=VALUE", help="Only this partition; once for each column.")
@click.option("--triggers", is_flag=True, help="Merge what the table's options call for, instead of everything.")
@click.option(
    "--outdated",
    is_flag=True,
    help="Also write anew what there is nothing to merge with: files of earlier builds that Paimon's Java library does not read "
    "rightly, as `check` names them.",
)
@click.pass_obj
def compact(session: Session, table: str, partition: Sequence[str], triggers: bool, outdated: bool) -> None:
    """Merge the files of each bucket so that reading is cheap. Rows do not change, older snapshots stay readable."""
    one = session.table(table)
    before = one.system_table("files").num_rows
    with Progress(console=console(), transient=True, disable=not console().is_terminal) as bar:
        task = bar.add_task("buckets")
        snapshot = one.compact(
            full=not triggers,
            outdated=outdated,
            partition=partition_values(partition) or None,
            progress=lambda done, total: bar.update(task, completed=done, total=total),
        )
    if snapshot is None:
        click.echo(f"{table} needs no compaction.")
    else:
        click.echo(f"Snapshot {snapshot.id} of {table}: {before} files became {one.system_table('files').num_rows}.")


@cli.command()
@table_argument
@click.option("--version", help="The snapshot id or tag to go back to.")
@click.option("--timestamp", type=Timestamp(), help="Or: go back to the latest snapshot at or before this local time.")
@click.pass_obj
def rollback(session: Session, table: str, version: str | None, timestamp: datetime | None) -> None:
    """Make the rows of an earlier snapshot or tag the latest state again, by a snapshot on top. Later ones stay until they
    expire.
    """
    if (version is None) == (timestamp is None):
        raise InvalidRequest("Say what to go back to: --version or --timestamp, one of them.")
    snapshot = session.table(table).rollback_to(version if version is not None else timestamp)
    click.echo(rolled_back(table, version or str(timestamp), snapshot))


@cli.command("mend-snapshots")
@table_argument
@click.pass_obj
def mend_snapshots(session: Session, table: str) -> None:
    """Make up for snapshots whose files are damaged, and keep those aside.

    They are restored from tags or branches that have the same snapshot, else from the one that was put on top. What a
    newest snapshot committed is lost with it: the state before is shown.
    """
    mended = session.table(table).mend_snapshots()
    for one in mended:
        click.echo(one)
    if not mended:
        click.echo(f"Every snapshot of {table} can be read.")


@cli.command()
@table_argument
@click.pass_obj
def branches(session: Session, table: str) -> None:
    """List the branches of a table, and whether main can take them over."""
    one = session.table(table)
    began = {
        row["branch_name"]: (row["tag_name"], row["tagged_snapshot_id"])
        for row in one.system_table("branches").to_pylist()
    }
    found = []
    for name in one.branches.names():
        tag, begun_at = began[name]
        try:
            snapshot, told = one.on_branch(name).snapshot(), one.branches.verdict(name).describe()
        except CorruptData as error:
            # The others are told of all the same.
            snapshot, told = None, str(error)
        found.append((name, tag, begun_at, snapshot and snapshot.id, _time(snapshot), told))
    _print(["branch", "from tag", "from snapshot", "snapshot", "committed", "verdict"], found)


@cli.command("create-branch")
@table_argument
@click.option("--name", required=True)
@click.option("--tag", help="Begin at this tag.")
@click.option("--snapshot", type=int, help="Begin at this snapshot. Default: the latest.")
@click.option("--empty", is_flag=True, help="Take the schema alone.")
@click.pass_obj
def create_branch(session: Session, table: str, name: str, tag: str | None, snapshot: int | None, empty: bool) -> None:
    """Fork a table. No data is copied; what is written to the branch is seen on the branch alone."""
    session.table(table).branches.create(name, tag=tag, snapshot_id=snapshot, empty=empty)
    click.echo(f"Branch {name} of {table} is there: read and write it as {table}$branch_{name}.")


@cli.command("delete-branch")
@table_argument
@click.option("--name", required=True)
@click.pass_obj
def delete_branch(session: Session, table: str, name: str) -> None:
    """Delete a branch and the files that only it needs."""
    session.table(table).branches.delete(name)
    click.echo(f"Branch {name} of {table} is deleted.")


@cli.command("merge-branch")
@table_argument
@click.option("--name", required=True, help="The branch to take over.")
@discard_main_option
@click.pass_obj
def merge_branch(session: Session, table: str, name: str, discard_main: bool) -> None:
    """Take a branch over into main; the branch lives on. What main did elsewhere stays.

    Refused, naming what would be lost, if main has changed the same buckets since.
    """
    verdict = session.table(table).branches.merge(name, discard_main=discard_main)
    click.echo(merged(table, name, verdict))


@cli.command("replace-main-branch")
@table_argument
@click.option("--name", required=True, help="The branch that becomes main.")
@discard_main_option
@click.pass_obj
def replace_main_branch(session: Session, table: str, name: str, discard_main: bool) -> None:
    """Make a branch the main of the table. Jobs that write to the branch go on; what main was is dropped.

    What main did elsewhere is put on top of the branch. Refused, naming what would be lost, if main has changed the same
    buckets since.
    """
    verdict = session.table(table).branches.replace_main(name, discard_main=discard_main)
    click.echo(replaced(table, name, verdict, session.table(table).snapshot()))


@cli.command("fast-forward")
@table_argument
@click.option("--name", required=True, help="The branch to take over.")
@discard_main_option
@click.pass_obj
def fast_forward(session: Session, table: str, name: str, discard_main: bool) -> None:
    """Make main what a branch is. Refused, naming what would be lost, if main has moved at all since."""
    verdict = session.table(table).branches.fast_forward(name, discard_main=discard_main)
    click.echo(merged(table, name, verdict))


@cli.group(cls=OrderedGroup)
def branch() -> None:
    """Branches of several tables at once: created, judged, published and deleted together."""


branch_option = click.option("--name", required=True, help="The name of the branch, the same on all tables.")
tables_argument = click.argument("names", nargs=-1, required=True, metavar="TABLE …")


@branch.command("create")
@branch_option
@click.argument("names", nargs=-1, required=True, metavar="TABLE[@VERSION] …")
@click.pass_obj
def create_branches(session: Session, name: str, names: Sequence[str]) -> None:
    """Fork tables, each at its latest state or at the snapshot or tag behind the @; all or none."""
    parts = [one.partition("@") for one in names]
    versions = {table: _version(version) for table, _, version in parts if version}
    session.catalog.branch_set(name, [table for table, _, _ in parts]).create(versions)
    click.echo(f"Branch {name} is there on {len(parts)} tables.")


@branch.command()
@branch_option
@tables_argument
@click.pass_obj
def verdict(session: Session, name: str, names: Sequence[str]) -> None:
    """Say for each table whether main can take the branch over: clean, disjoint or diverged."""
    verdicts = session.catalog.branch_set(name, names).verdicts()
    _print(["table", "verdict"], [(table, one.describe()) for table, one in verdicts.items()])


@branch.command()
@branch_option
@tables_argument
@discard_main_option
@click.option("--replace-main", is_flag=True, help="Make the branch main itself, instead of merging it into main.")
@click.pass_obj
def publish(session: Session, name: str, names: Sequence[str], discard_main: bool, replace_main: bool) -> None:
    """Make every main take its branch over, all or none. A crash in between is finished by `branch recover`."""
    branches = session.catalog.branch_set(name, names)
    act = branches.replace_main if replace_main else branches.publish
    _print(*published(act(discard_main=discard_main)))


@branch.command("delete")
@branch_option
@tables_argument
@click.pass_obj
def delete_branches(session: Session, name: str, names: Sequence[str]) -> None:
    """Delete the branch of every table that has it."""
    branches = session.catalog.branch_set(name, names)
    having = [one for one in names if name in session.table(one).branches.names()]
    if not having:
        raise NotFound(f"None of {', '.join(names)} has a branch {name!r}. `snapline branches` lists those of a table.")
    branches.delete()
    click.echo(f"Branch {name} is gone from {', '.join(having)}.")


@branch.command()
@click.option("--undo", is_flag=True, help="Roll the tables back instead of going on.")
@click.option("--discard-main", is_flag=True, help="Give up what a main has done meanwhile.")
@click.option("--list", "only_list", is_flag=True, help="List the publications that are open, do nothing.")
@click.option("--dry-run", is_flag=True, help="Say what would become of each table, do nothing.")
@click.option(
    "--discard-damaged", is_flag=True, help="End those whose journal cannot be read, and keep the damaged files aside."
)
@click.pass_obj
def recover(
    session: Session, undo: bool, discard_main: bool, only_list: bool, dry_run: bool, discard_damaged: bool
) -> None:
    """Finish, or undo, publications that a crash or a conflict left open.

    With --discard-damaged: those whose files in the journal are damaged, and no others. What they have done is undone on
    every table, unless they were published already or replaced mains.
    """
    if discard_damaged:
        _refuse_beside("--discard-damaged", {"--undo": undo, "--list": only_list, "--dry-run": dry_run})
        ended = session.catalog.discard_damaged(discard_main=discard_main)
        for publication in ended:
            click.echo(publication)
        if not ended:
            click.echo("No journal of a publication is damaged.")
        return
    if only_list:
        _refuse_beside("--list", {"--undo": undo, "--discard-main": discard_main, "--dry-run": dry_run})
        rows_: list[tuple[Any, ...]] = [
            (one.number, one.branch, one.how, ", ".join(one.tables), ", ".join(one.done), one.outcome or "", one.advice())
            for one in session.catalog.publications()
        ]  # fmt: skip
        rows_ += [
            (number, "", "damaged", "", "", "", why) for number, why in session.catalog.damaged_publications().items()
        ]
        _print(["publication", "branch", "how", "tables", "done", "decided", "what to do"], rows_)
        return
    if dry_run:
        foreseen = session.catalog.foresee_recovery(undo=undo, discard_main=discard_main)
        told = [(number, name, what) for number, tables in foreseen.items() for name, what in tables.items()]
        told += [(number, "", f"damaged: {why}") for number, why in session.catalog.damaged_publications().items()]
        _print(["publication", "table", "what would become of it"], told)
        return
    # What somebody has begun to undo is undone, whatever is asked for.
    undone = {one.number for one in session.catalog.publications() if undo or one.outcome == "undone"}
    found = session.catalog.recover(undo=undo, discard_main=discard_main)
    for one in found:
        if int(one.name) in undone:
            click.echo(f"Branch {one.branch} is taken back from {', '.join(one.before)}.")
            continue
        made = session.catalog.made_by(one).items()
        by = [name if snapshot is None else f"{name} (snapshot {snapshot.id})" for name, snapshot in made]
        click.echo(f"Branch {one.branch} is published on {', '.join(by)}.")
    if not found:
        click.echo("No publication is open.")


@cli.command()
@table_argument
@click.option("--buckets", type=click.IntRange(min=1), required=True, help="The new number of buckets.")
@click.option("--partition", multiple=True, metavar="COLUMN=VALUE", help="Only this partition; once for each column.")
@click.pass_obj
def rescale(session: Session, table: str, buckets: int, partition: Sequence[str]) -> None:
    """Change the number of buckets and hash the rows anew. Older snapshots stay readable."""
    snapshot = session.table(table).rescale(buckets, partition=partition_values(partition) or None)
    click.echo(
        f"{table} has {buckets} buckets" + (f" as of snapshot {snapshot.id}." if snapshot else "; no row moved.")
    )


@cli.command()
@table_argument
@click.pass_obj
def consumers(session: Session, table: str) -> None:
    """List the readers of changes that have a name, and the first snapshot that each has not read."""
    found = [(one.name, one.next_snapshot_id) for one in session.table(table).consumers.list()]
    _print(["consumer", "next snapshot"], found)


@cli.command("reset-consumer")
@table_argument
@click.option("--name", required=True)
@click.option("--snapshot", type=click.IntRange(min=1), help="Go on from here. Default: forget the consumer.")
@click.pass_obj
def reset_consumer(session: Session, table: str, name: str, snapshot: int | None) -> None:
    """Make a named reader of changes go on from a snapshot, or forget it, so that old snapshots can expire."""
    if snapshot is None:
        known = session.table(table).consumers
        was_damaged = known.is_damaged(name)
        known.delete(name)
        click.echo(f"Consumer {name} of {table} is forgotten.{' It was damaged.' if was_damaged else ''}")
    else:
        session.table(table).consumers.reset(name, snapshot)
        click.echo(f"Consumer {name} of {table} goes on from snapshot {snapshot}.")


dry_run_option = click.option("--dry-run", is_flag=True, help="Say what would go, remove nothing.")


@cli.command("expire-snapshots")
@table_argument
@click.option("--retain-last", type=int, help="How many of the latest snapshots stay. Default: as the options say.")
@click.option("--older-than", type=Duration(), help="Only snapshots of at least this age, as in `7 d`.")
@dry_run_option
@click.pass_obj
def expire_snapshots(
    session: Session, table: str, retain_last: int | None, older_than: timedelta | None, dry_run: bool
) -> None:
    """Let old snapshots go, and the files that no other snapshot, tag or branch needs.

    Without --retain-last the table's options `snapshot.*` say which stay.
    """
    one = session.table(table)
    removal = one.expire(retain_last=retain_last, older_than=older_than, dry_run=dry_run)
    if dry_run:
        for path, snapshot_id in zip(removal.files, removal.last_needed_by, strict=True):
            click.echo(f"{path}: snapshot {snapshot_id} is the last that needs it")
    verb = "would go" if dry_run else "went"
    click.echo(f"{len(removal.snapshot_ids)} snapshots and {len(removal.files)} files of {table} {verb}.")


@cli.command("drop-partition")
@table_argument
@click.option("--partition", multiple=True, metavar="COLUMN=VALUE", required=True, help="Once for each column.")
@click.pass_obj
def drop_partition(session: Session, table: str, partition: Sequence[str]) -> None:
    """Delete all rows of a partition. Older snapshots and tags still have them."""
    snapshot = session.table(table).drop_partition(partition_values(partition))
    where = "/".join(partition)
    click.echo(f"{where} of {table} is gone as of snapshot {snapshot.id}." if snapshot else f"{table} has no {where}.")


@cli.command("expire-partitions")
@table_argument
@dry_run_option
@click.pass_obj
def expire_partitions(session: Session, table: str, dry_run: bool) -> None:
    """Drop the partitions that are older than the table's option 'partition.expiration-time'."""
    one = session.table(table)
    gone = one.expire_partitions(dry_run=dry_run)
    for values in gone:
        click.echo("/".join(f"{name}={value}" for name, value in values.items()))
    click.echo(f"{len(gone)} partitions of {table} {'would go' if dry_run else 'went'}.")


@cli.command("remove-orphan-files")
@table_argument
@click.option("--older-than", type=Duration(), default="1 d", show_default=True, help="Younger files may be in use.")
@click.option("--no-writers", is_flag=True, help="No writer runs: files younger than an hour may go as well.")
@dry_run_option
@click.pass_obj
def remove_orphan_files(session: Session, table: str, older_than: timedelta, no_writers: bool, dry_run: bool) -> None:
    """Delete files that nobody needs: what writers that died left behind."""
    orphans = session.table(table).remove_orphan_files(older_than=older_than, dry_run=dry_run, no_writers=no_writers)
    for orphan in orphans:
        click.echo(f"{orphan.path}: needed by no snapshot, tag or branch")
    size = size_text(sum(orphan.size_bytes for orphan in orphans))
    click.echo(f"{len(orphans)} orphan files of {table} ({size}) {'would go' if dry_run else 'went'}.")


@cli.command()
@table_argument
@click.option("--deep", is_flag=True, help="Read the data files as well.")
@click.pass_obj
def check(session: Session, table: str, deep: bool) -> None:
    """Walk all snapshots, tags and branches of a table, and the journals of the warehouse, and report whatever is broken,
    what has failed after commits, what was begun and is not done, publications that are open, and damaged files that are kept
    aside. Exit code 1 if anything is broken, has failed or is not done.
    """
    try:
        broken = [*session.table(table).check(deep=deep), *session.catalog.check()]
    except CorruptData as error:
        # What is damaged is needed to open the table at all.
        click.echo(f"{table}: {error}")
        sys.exit(1)
    for one in broken:
        click.echo(one)
    # An open publication refuses no writer.
    broken = [one for one in broken if not isinstance(one, Unpublished)]
    kinds = (FailedWork, Unfinished, KeptAside)
    failed, undone, aside = (sum(isinstance(one, kind) for one in broken) for kind in kinds)
    if len(broken) > failed + undone + aside:
        click.echo(f"{len(broken) - failed - undone - aside} invariants of {table} are broken.")
    else:
        work = f"; {failed} kinds of work on it have failed" if failed else ""
        work += "; writers are refused until something is done" if undone else ""
        click.echo(f"{table} is sound{work}{f'; {_aside(aside)}' if aside else ''}.")
    sys.exit(1 if len(broken) > aside else 0)


def _aside(count: int) -> str:
    return "1 damaged file is kept aside" if count == 1 else f"{count} damaged files are kept aside"


@cli.command("why-kept")
@table_argument
@click.argument("what", metavar="SNAPSHOT|FILE")
@click.pass_obj
def why_kept(session: Session, table: str, what: str) -> None:
    """Show which snapshots and tags need a file, or the files of a snapshot."""
    found = session.table(table).why_kept(_version(what))
    for holder in found:
        click.echo(holder)
    if not found:
        click.echo(f"Nobody needs {what}.")


@cli.command()
@click.argument("target", required=False, metavar="[CATALOG.]TABLE[@SNAPSHOT|@TAG] | rebuild")
@click.option("--up", is_flag=True, help="What it was made from (default).")
@click.option("--down", is_flag=True, help="What was made from it.")
@click.option("--hops", type=click.IntRange(min=1), help="How far to go. Default: as far as there is.")
@click.option("--partition", multiple=True, metavar="COLUMN=VALUE", help="Of the snapshots that its rows come from.")
@click.option("--tables", "of_tables", is_flag=True, help="Which tables jobs make from which, without snapshots.")
@click.option("--against", metavar="TABLE@SNAPSHOT", help="Only what one of both was made from, and the other was not.")
@click.option(
    "--compare", nargs=2, metavar="LEFT RIGHT", help="Two snapshots: where they part, and how their rows differ."
)
@click.option("--format", "form", type=click.Choice(["tree", "json", "mermaid", "dot"]), show_default="tree")
@click.option("--html", "page", type=click.Path(dir_okay=False), help="Write a page to look at, that needs no server.")
@click.pass_obj
def lineage(
    session: Session,
    target: str | None,
    up: bool,
    down: bool,
    hops: int | None,
    partition: Sequence[str],
    of_tables: bool,
    against: str | None,
    compare: tuple[str, str] | None,
    form: str | None,
    page: str | None,
) -> None:
    """Show which snapshots a snapshot was made from, or which it fed; `rebuild` reads all lineage off the tables.

    Snapshots that were taken back by a rollback, or cannot be read any more, are marked: expired, replaced, dropped.
    """
    if up and down:
        raise InvalidRequest("--up and --down are two questions: ask one after the other.")
    direction: Literal["up", "down"] | None = "up" if up else "down" if down else None
    of_one = {"--hops": hops, "--partition": partition, "--format": form, "--html": page}
    if compare is not None:
        others = {"--up or --down": direction, "--tables": of_tables, "--against": against, **of_one}
        _refuse_beside("--compare", {"a table": target, **others})
        _print_comparison(session, *(_known_ref(session, text) for text in compare))
        return
    if target is None:
        raise click.UsageError("Say of which snapshot: TABLE[@SNAPSHOT|@TAG]; or --compare LEFT RIGHT.")
    if target == "rebuild":
        _refuse_beside("rebuild", {"--up or --down": direction, "--tables": of_tables, "--against": against, **of_one})
        count, files = session.rebuild_lineage()
        for file in files:
            click.echo(f"A lineage database that could not be read was replaced. It lies in {file} now.")
        click.echo(f"Read the lineage of {count} snapshots off the tables.")
        return
    if of_tables:
        _refuse_beside("--tables", {"--against": against, **of_one})
        _print(["table"], [(name,) for name in session.neighbour_tables(target, direction or "up")])
        return
    if against is not None:
        _refuse_beside("--against", {"--up or --down": direction, **of_one})
        one, other = _known_ref(session, target), _known_ref(session, against)
        difference = session.ancestry_difference(one, other)
        rows_ = [(str(ref), str(one)) for ref in difference.only_first]
        _print(["made from", "only"], [*rows_, *((str(ref), str(other)) for ref in difference.only_second)])
        return
    if page is not None:
        _refuse_beside("--html", {"--partition": partition, "--format": form})
        from .browser.alone import alone_page

        ref = _known_ref(session, target)
        Path(page).write_text(alone_page(session, ref, direction or "both", hops), encoding="utf-8")
        click.echo(f"The history of {ref} is in {page}.")
        return
    if partition:
        graphs = session.partition_lineage(target, partition_values(partition), direction or "up", hops)
    else:
        graphs = [session.lineage(_known_ref(session, target), direction or "up", hops)]
    if form == "json":
        click.echo(json.dumps([row for graph in graphs for row in rows(graph)], indent=2, ensure_ascii=False))
        return
    for graph in graphs:
        click.echo(
            {"mermaid": mermaid, "dot": dot}[form](graph) if form in ("mermaid", "dot") else _tree(session, graph)
        )


@cli.command("forget-lineage")
@click.option("--older-than", type=Duration(), required=True, help="As in `90 d`.")
@click.pass_obj
def forget_lineage(session: Session, older_than: timedelta) -> None:
    """Forget the lineage of snapshots that have expired, or are gone otherwise, and were committed so long ago."""
    click.echo(f"Deleted {session.forget_lineage(older_than)} rows of lineage.")


@cli.command("export-openlineage")
@click.option("--url", help="Send to an OpenLineage server.")
@click.option("--file", "path", type=click.Path(dir_okay=False), help="Or: append to a file, an event a line.")
@click.option("--since", type=Timestamp(), help="Only what was committed since then (UTC).")
@click.option("--namespace", default="snapline", show_default=True, help="Of the jobs.")
@click.pass_obj
def export_openlineage(
    session: Session, url: str | None, path: str | None, since: datetime | None, namespace: str
) -> None:
    """Send lineage as OpenLineage events. A period can be sent again: events of a commit always have the same run id."""
    from .openlineage import client_of, export

    client = client_of(url, path)
    try:
        done = export(session, client, since, namespace)
    finally:
        client.close()
    click.echo(f"Sent {done.events} events" + (f", up to {done.until.isoformat(' ')} UTC." if done.until else "."))


@cli.command()
@click.argument("target", metavar="TABLE@SNAPSHOT|TABLE@TAG")
@click.option("--engine", type=click.Choice(["spark", "duckdb"]), show_default="duckdb", help="For SQL.")
@click.option("--keep", is_flag=True, help="Keep the scratch branch, to look at.")
@click.pass_obj
def reproduce(session: Session, target: str, engine: str | None, keep: bool) -> None:
    """Make a snapshot again from exactly the snapshots it was made from, and say how what comes out differs.

    Works for what a table asset or an SQL statement made. Exit code 1 if there are differences.
    """
    from .code_location import platform_table_assets
    from .reproduce import Reproducer
    from .spark import start_spark

    found = Reproducer(session, platform_table_assets, lambda: start_spark(session.settings)).reproduce(
        session.ref(target), engine=engine, keep=keep
    )
    for warning in found.warnings:
        click.echo(f"Warning: {warning}", err=True)
    click.echo(f"{found.ref}: {found.comparison.describe()}")
    if not found.comparison.identical and found.comparison.examples is not None:
        print_rows(found.comparison.examples, "table")
    if found.branch:
        click.echo(f"The rows are on the branch {found.branch}.")
    if not found.comparison.identical:
        raise SystemExit(1)


@cli.command()
@click.argument("target", metavar="TABLE@SNAPSHOT|TABLE@TAG")
@click.pass_obj
def impact(session: Session, target: str) -> None:
    """Show what a bad snapshot has spoilt: of each table downstream the first snapshot that it, or one after it, went into."""
    found = session.impact(_known_ref(session, target))
    _print(["table", "from snapshot on"], [(one.table_name, one.snapshot_id) for one in found])


@cli.command()
@table_argument
@click.pass_obj
def freshness(session: Session, table: str) -> None:
    """Show how far a table is behind the tables that it was made from."""
    found = [
        (one.source.table_name, one.source.snapshot_id, one.newest.snapshot_id, one.snapshots_behind,
         str(timedelta(milliseconds=one.behind_ms)))
        for one in session.freshness(table)
    ]  # fmt: skip
    _print(["source", "made from", "newest", "changes behind", "time behind"], found)


@cli.command()
@click.argument("names", nargs=-1, required=True, metavar="TABLE …")
@click.option("--on", required=True, metavar="SOURCE", help="The table that all of them were made from.")
@click.pass_obj
def aligned(session: Session, names: Sequence[str], on: str) -> None:
    """Show the newest snapshots of tables that were made from the same snapshot of a source."""
    found = session.aligned(names, on)
    rows_ = [
        (name, snapshot and snapshot.id) for name, snapshot in ((one, table.snapshot()) for one, table in found.items())
    ]
    _print(["table", "snapshot"], rows_)


@cli.command("delete-table-lineage")
@click.option("--job", required=True)
@click.pass_obj
def delete_table_lineage(session: Session, job: str) -> None:
    """Forget which tables a job reads and writes."""
    click.echo(f"Deleted {session.forget_job(job, tables=True)} rows of table lineage of job {job}.")


@cli.command("delete-data-lineage")
@click.option("--job", required=True)
@click.pass_obj
def delete_data_lineage(session: Session, job: str) -> None:
    """Forget which snapshots a job consumed and produced."""
    click.echo(f"Deleted {session.forget_job(job, snapshots=True)} rows of data lineage of job {job}.")


def _print_comparison(session: Session, left: SnapshotRef, right: SnapshotRef) -> None:
    """Where the ancestries of two snapshots part, every snapshot of either, and how the rows differ."""
    compared = session.compare_ancestries(left, right)
    click.echo(compared.describe())
    said = {"left": f"only {left}", "right": f"only {right}", "both": "both"}
    _print(["snapshot", "in the ancestry of"], [(str(ref), said[side]) for ref, side in compared.rows()])
    rows_ = compare_rows(session, left, right)
    click.echo(f"Rows: {rows_.describe()}.")
    if rows_.comparison is not None and rows_.comparison.examples is not None and rows_.comparison.examples.num_rows:
        print_rows(rows_.comparison.examples, "table")


def _known_ref(session: Session, target: str) -> SnapshotRef:
    """The snapshot that a target names; if it cannot be read any more, that is said beside the answer."""
    ref = session.known_ref(target)
    if fate := session.fate(ref):
        click.echo(f"Snapshot {ref} is {fate}: this is what lineage knows of it.", err=True)
    return ref


def _tree(session: Session, graph: LineageGraph) -> str:
    return text_tree(graph, session.fate)


def _refuse_beside(chosen: str, others: Mapping[str, object]) -> None:
    """Raise InvalidRequest if options were given that mean nothing beside another one."""
    given = [name for name, value in others.items() if value]
    if given:
        raise InvalidRequest(f"{', '.join(given)} cannot be combined with {chosen}: leave one of them out.")


def _print(names: Sequence[str], found: Sequence[Sequence[Any]], title: str | None = None) -> None:
    console().print(rendered_table(names, found, title))


def _version(text: str) -> int | str:
    number = whole_number(text)
    return text if number is None else number


def _roles(table: Table, column: str) -> str:
    schema = table.schema
    roles = [("primary key", schema.primary_keys), ("partition", schema.partition_keys)]
    return ", ".join(role for role, columns in roles if column in columns)


def _time(snapshot: Any) -> str | None:
    return None if snapshot is None else f"{datetime.fromtimestamp(snapshot.time_ms // 1000):%Y-%m-%d %H:%M:%S}"


cli.add_command(recovery)


def main() -> NoReturn:
    """The console script `snapline`."""
    ended: list[int] = []
    # What is registered first runs last. Behind it libraries would only take themselves apart, not all of them in silence.
    atexit.register(_leave, ended)
    try:
        answer()
    except SystemExit as error:
        ended.append(error.code if isinstance(error.code, int) else 0)
        raise


def _leave(ended: Sequence[int]) -> None:
    """End the process with its exit status at once, unless it ends with an error that nobody expected."""
    if ended:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(ended[0])


def answer() -> NoReturn:
    """Obey the command line and exit: 0, 1 for what was found broken, 2 for an error, which is told in one line."""
    try:
        code = cli.main(prog_name="snapline", standalone_mode=False)
    except click.UsageError as error:
        hint = f" See `{error.ctx.command_path} --help`." if error.ctx else ""
        _fail(f"{error.format_message()}{hint}")
    except click.ClickException as error:
        _fail(error.format_message())
    except StorageError as error:
        _fail(str(error))
    except click.Abort:
        sys.exit(130)
    except BrokenPipeError:
        # Whoever read the output has read enough.
        sys.stderr.close()
        sys.exit(0)
    except OSError as error:
        # Of the machine: a home directory that cannot be written, a full disk.
        _fail(str(error))
    sys.exit(code if isinstance(code, int) else 0)


def _fail(message: str) -> NoReturn:
    print(f"Error: {' '.join(message.split())}", file=sys.stderr)
    sys.exit(2)
