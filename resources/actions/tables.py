"""Actions on whole tables, and what keeps them cheap to read."""

import datetime as dt
from collections.abc import Mapping
from typing import Annotated, Any

from storage import CorruptData, FailedWork, InvalidRequest, KeptAside, StorageError, Unfinished, Unpublished

from .action import Given, Reach, action
from .consumers import is_chosen
from .kinds import AGE, FLAG, PARTITIONS, PATTERN, POSITIVE, TABLE, TEXT
from .outcome import Outcome
from .sentences import counted, shown_table, size_text
from .snapshots import age_of

TheTable = Annotated[str, Given(TABLE)]
Partitions = Annotated[
    list[Mapping[str, str]] | None,
    Given(PARTITIONS, "Only this partition; once for each column.", "--partition"),
]


@action("table drop", "drop-table")
def drop_table(
    reach: Reach,
    table: TheTable,
    discard_damaged: Annotated[
        bool, Given(FLAG, "A table whose schema cannot be read, with all that it holds.", "--discard-damaged")
    ] = False,
) -> Outcome:
    """Delete a table with all its snapshots, tags, branches and files."""
    reach.session.catalog_of(reach.catalog).drop_table(reach.full_name(table), discard_damaged=discard_damaged)
    return Outcome(f"Dropped table {table}.", facts={"table": table})


@action("table compact", "compact")
def compact(
    reach: Reach,
    table: TheTable,
    partitions: Partitions = None,
    compact_strategy: Annotated[
        str | None, Given(TEXT, "As Paimon says it: `full`, or `minor` for --triggers.", "--strategy")
    ] = None,
    triggers: Annotated[
        bool, Given(FLAG, "Merge what the table's options call for, instead of everything.", "--triggers")
    ] = False,
    outdated: Annotated[
        bool,
        Given(
            FLAG,
            "Also write anew what there is nothing to merge with: files of earlier builds that Paimon's Java library does not "
            "read rightly, as `check` names them.",
            "--outdated",
        ),
    ] = False,
) -> Outcome:
    """Merge the files of each bucket so that reading is cheap. Rows do not change, older snapshots stay readable."""
    if compact_strategy not in (None, "full", "minor"):
        raise InvalidRequest(f"'compact_strategy' is full or minor, not {compact_strategy!r}.")
    if triggers and compact_strategy == "full":
        raise InvalidRequest(
            "The strategy 'full' merges everything, 'triggers' what the options call for: leave one out."
        )
    opened = reach.table(table)
    table = shown_table(table, opened)
    before = opened.system_table("files").num_rows
    facts: dict[str, Any] = {"table": table, "files_before": before}
    full = not triggers and compact_strategy != "minor"
    chosen: list[Mapping[str, str] | None] = [*partitions] if partitions else [None]
    made = [opened.compact(full=full, outdated=outdated, partition=partition) for partition in chosen]
    newest = next((each for each in reversed(made) if each is not None), None)
    if newest is None:
        return Outcome(f"{table} needs no compaction.", facts=facts | {"snapshot": None, "files": before})
    facts["snapshot"] = newest.id
    sentence = f"Snapshot {newest.id} of {table} is compacted"
    try:
        after = opened.system_table("files").num_rows
        message = f"{sentence}: {counted(before, 'file')} became {after}."
        return Outcome(message, facts=facts | {"files": after})
    except StorageError:
        # It was renamed, dropped or replaced right after it.
        message = f"{sentence}; how many files are left is not told, since it is another table by now."
        return Outcome(message, facts=facts | {"files": None})


@action("database compact", "compact-database")
def compact_database(
    reach: Reach,
    including_databases: Annotated[str | None, Given(PATTERN, "Only those.", "--including-databases")] = None,
    including_tables: Annotated[
        str | None, Given(PATTERN, "Of `database.table`: only those.", "--including-tables")
    ] = None,
    excluding_tables: Annotated[
        str | None, Given(PATTERN, "Of `database.table`: not those.", "--excluding-tables")
    ] = None,
) -> Outcome:
    """Compact all tables whose database and name (`database.table`) match regular expressions."""
    catalog = reach.session.catalog_of(reach.catalog)
    rows = []
    for database in catalog.databases():
        for name in catalog.tables(database) if is_chosen(database, including_databases, None) else ():
            full_name = name if "." in name else f"{database}.{name}"
            if is_chosen(full_name, including_tables, excluding_tables):
                made = catalog.table(full_name).compact(full=True)
                rows.append((full_name, f"snapshot {made.id}" if made else "needs no compaction"))
    return Outcome("", ["table", "result"], rows)


@action("table rescale", "rescale")
def rescale(
    reach: Reach,
    table: TheTable,
    buckets: Annotated[int, Given(POSITIVE, "The new number of buckets.", "--buckets", also=("bucket_num",))],
    partition: Annotated[
        list[Mapping[str, str]] | None,
        Given(PARTITIONS, "Only this partition; once for each column.", "--partition", also=("partitions",)),
    ] = None,
) -> Outcome:
    """Change the number of buckets and hash the rows anew. Older snapshots stay readable."""
    if partition is not None and len(partition) != 1:
        raise InvalidRequest("One partition is rescaled at a time: repeat it for the others.")
    snapshot = reach.table(table).rescale(buckets, partition=partition[0] if partition else None)
    return Outcome(
        f"{table} has {counted(buckets, 'bucket')}"
        + (f" as of snapshot {snapshot.id}." if snapshot else "; no row moved."),
        facts={"table": table, "buckets": buckets, "snapshot": snapshot and snapshot.id},
    )


@action("table remove-orphan-files", "remove-orphan-files")
def remove_orphan_files(
    reach: Reach,
    table: Annotated[str, Given(TABLE, "A table, or `database.*` for all tables of a database.")],
    older_than: Annotated[
        dt.timedelta | dt.datetime, Given(AGE, "Younger files may be in use. Default: 1 d.", "--older-than")
    ] = dt.timedelta(days=1),
    dry_run: Annotated[bool, Given(FLAG, "Say what would be deleted, delete nothing.", "--dry-run")] = False,
    no_writers: Annotated[
        bool, Given(FLAG, "No writer runs: files younger than an hour may go as well.", "--no-writers")
    ] = False,
) -> Outcome:
    """Delete files that nobody needs: what writers that died left behind."""
    orphans = []
    for name in _tables_of(reach, table):
        opened = reach.table(name)
        age = age_of(older_than, opened)
        assert age is not None
        orphans += opened.remove_orphan_files(older_than=age, dry_run=dry_run, no_writers=no_writers)
    size = size_text(sum(orphan.size_bytes for orphan in orphans))
    return Outcome(
        f"{'Would delete' if dry_run else 'Deleted'} {counted(len(orphans), 'orphan file')} of {table} ({size}).",
        ["orphan_file"],
        [(orphan.path,) for orphan in orphans],
        lines=[f"{orphan.path}: needed by no snapshot, tag or branch" for orphan in orphans],
    )


def _tables_of(reach: Reach, name: str) -> list[str]:
    """The tables that `database.*` names, or the one that another name is."""
    if not name.endswith(".*"):
        return [name]
    database = name[:-2].rpartition(".")[2]
    tables = reach.session.catalog_of(reach.catalog).tables(database)
    return [f"{name[:-1]}{each.rpartition('.')[2]}" for each in tables]


@action("table check", "check")
def check(
    reach: Reach,
    table: TheTable,
    deep: Annotated[bool, Given(FLAG, "Read the data files as well.", "--deep")] = False,
) -> Outcome:
    """Walk all snapshots, tags and branches of a table, and the journals of the warehouse, and report whatever is broken,
    what has failed after commits, what was begun and is not done, publications that are open, and damaged files that are kept
    aside. Exit code 1 if anything is broken, has failed or is not done.
    """
    try:
        opened = reach.table(table)
        reports = [*opened.check(deep=deep), *reach.session.catalog_of(reach.catalog).check()]
    except CorruptData as error:
        # What is damaged is needed to open the table at all.
        return Outcome("", ["where", "what"], [(table, str(error))], lines=[f"{table}: {error}"], sound=False)
    # An open publication refuses no writer.
    broken = [each for each in reports if not isinstance(each, Unpublished)]
    kinds = (FailedWork, Unfinished, KeptAside)
    failed, undone, aside = (sum(isinstance(each, kind) for each in broken) for kind in kinds)
    if len(broken) > failed + undone + aside:
        message = f"{len(broken) - failed - undone - aside} invariants of {table} are broken."
    else:
        work = f"; {failed} kinds of work on it have failed" if failed else ""
        work += "; writers are refused until something is done" if undone else ""
        message = f"{table} is sound{work}{f'; {_aside(aside)}' if aside else ''}."
    return Outcome(
        message,
        ["where", "what"],
        [(each.where, each.what) for each in reports],
        lines=[str(each) for each in reports],
        sound=len(broken) <= aside,
    )


def _aside(count: int) -> str:
    return "1 damaged file is kept aside" if count == 1 else f"{count} damaged files are kept aside"
