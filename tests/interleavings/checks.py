"""What must be true after any schedule, and what readers see of a warehouse, so that schedules can be compared."""

import datetime as dt
import json
import posixpath
import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pyarrow as pa

from storage import Catalog, StorageError, Table, Unfinished
from storage.maintain.references import Holder, holders_of, needed_files
from storage.metadata.pointed_schema import points_at
from storage.metadata.schema import TableSchema
from tests.interleavings.memory_files import Event, Files
from tests.interleavings.operations import NEXT_DAY, SCHEMA, held, rows

_SNAPSHOT = re.compile(r"(.+)/snapshot/snapshot-(\d+)")
_METADATA = ("schema", "snapshot", "tag", "changelog", "consumer", "committed", "trouble")
_NAMED = ("MAIN-BRANCH", "ORIGIN", "FORMER-NAMES")
_RESERVED = "snapline-"
Seen = dict[str, Any]


def unseen(catalog: Catalog) -> list[str]:
    """Why no consistent view can be had, while publications may still be open."""
    try:
        for table in catalog.consistent(catalog.tables()).values():
            held(table)
    except (StorageError, OSError) as error:
        return [f"a consistent view cannot be had: {type(error).__name__}: {error}"]
    return []


def settle(catalog: Catalog) -> None:
    """End the publications that are open, as an operator would. Raises the last refusal if that cannot be."""
    for insist in ({}, {"undo": True}, {"discard_main": True}):
        try:
            catalog.recover(**insist)
            return
        except StorageError as error:
            refusal = error
    raise refusal


Question = Callable[[Catalog], Any]


def questions(catalog: Catalog, *, with_changes: bool) -> Iterator[tuple[tuple[str, ...], Question]]:
    """What is asked of a warehouse, each with its name: first what is seen, by table and branch; then what is wrong."""
    for name in catalog.tables():
        for branch in ["main", *catalog.table(name).branches.names()]:
            yield ("seen", name, branch), partial(_seen, name, branch)
        yield ("wrong", "check", name), lambda catalog, name=name: _checked(catalog.table(name))
        yield ("wrong", "gaps", name), lambda catalog, name=name: list(_gaps(catalog.table(name)))
        if with_changes:
            yield ("wrong", "changes", name), lambda catalog, name=name: list(_replayed(catalog.table(name)))
        yield ("wrong", "left over", name), lambda catalog, name=name: list(_left_over(catalog.table(name)))
        yield ("wrong", "next write", name), lambda catalog, name=name: list(_next_write(catalog.table(name)))


def _seen(name: str, branch: str, catalog: Catalog) -> Seen:
    table = catalog.table(name) if branch == "main" else catalog.table(f"{name}$branch_{branch}")
    schema = table.schema
    return {
        "columns": [(field.name, str(field.type)) for field in schema.fields],
        "options": dict(schema.options),
        "rows": held(table),
        "tags": {tag.name: held(table, tag.name) for tag in table.tags.list() if not tag.name.startswith(_RESERVED)},
        "consumers": sorted(consumer.name for consumer in table.consumers.list()),
    }


def _checked(table: Table) -> list[str]:
    return [f"check: {problem}" for problem in table.check(deep=True) if not isinstance(problem, Unfinished)]


def _gaps(table: Table) -> Iterator[str]:
    for branch in (table, *(table.on_branch(name) for name in table.branches.names())):
        ids = branch.store.snapshots.ids()
        if ids and ids != list(range(ids[0], ids[-1] + 1)):
            yield f"{branch.identifier} has snapshots {ids}"
        if ids and branch.store.snapshots.latest_id() != ids[-1]:
            yield f"{branch.identifier} takes {branch.store.snapshots.latest_id()} of {ids} for the newest"
        for consumer in branch.consumers.list():
            if ids and consumer.next_snapshot_id < ids[0]:
                yield f"{branch.identifier}: consumer {consumer.name} waits for {consumer.next_snapshot_id} of {ids}"


def _replayed(table: Table) -> Iterator[str]:
    """Whether the oldest snapshot and the changes after it make the newest, as far as it was told; where a compaction writes
    complete changes, each must fit what is there.
    """
    ids = table.store.snapshots.ids()
    if not ids:
        return
    changes = table.changes(after=ids[0]).to_pylist()
    keys, is_complete = table.schema.primary_keys, table.store.options.told_level is not None
    if keys:
        state = {tuple(row[key] for key in keys): row for row in _records(table, ids[0])}
        for change in changes:
            kind, key = change.pop("rowkind"), tuple(change[key] for key in keys)
            change.pop("snapshot_id")
            if is_complete and (key in state if kind in ("+I", "+U") else state.get(key) != change):
                yield f"{table.identifier}: {kind} {change} does not fit {state}"
            if kind in ("+I", "+U"):
                state[key] = change
            elif kind == "-D" or is_complete:
                state.pop(key, None)
        replayed = _texts(state.values())
    else:
        counts = Counter(_texts(_records(table, ids[0])))
        for change in changes:
            kind, _ = change.pop("rowkind"), change.pop("snapshot_id")
            counts.update({_texts([change])[0]: 1 if kind in ("+I", "+U") else -1})
        replayed = sorted(counts.elements())
    if replayed != _texts(_records(table, None)):
        yield f"{table.identifier}: changes after {ids[0]} make {replayed}, the table is {_texts(_records(table, None))}"


def _records(table: Table, version: int | None) -> list[dict[str, Any]]:
    return table.as_told(version).to_arrow().to_pylist()


def _texts(records: Any) -> list[str]:
    return sorted(json.dumps({name: row.get(name) for name in SCHEMA.names}) for row in records)


def _left_over(table: Table) -> Iterator[str]:
    table.remove_orphan_files(older_than=dt.timedelta(0), no_writers=True)
    root = table.store.paths.root
    there = set(table.store.file_io.everything_below(root))
    metadata = {path for path in there if posixpath.basename(posixpath.dirname(path)) in _METADATA}
    metadata |= {path for path in there if posixpath.basename(path) in _NAMED}
    metadata |= {path for path in there if "/branch/.closed-" in path}
    needed = needed_files(table.store).keys()
    for path in sorted(there - metadata - needed):
        yield f"left over: {path}"
    for path in sorted(needed - there):
        if not all(_is_taken_back(table, holder) for holder in holders_of(table.store, [path])):
            yield f"missing: {path}"


def _is_taken_back(table: Table, holder: Holder) -> bool:
    """Whether it is a snapshot that was taken back since its files are not there."""
    if holder.kind != "snapshot":
        return False
    snapshots = (table if holder.branch == "main" else table.on_branch(holder.branch)).store.snapshots
    return snapshots.is_taken_back(snapshots.get(int(holder.name)))


def _next_write(table: Table) -> Iterator[str]:
    before = held(table)
    # To a partition that is new, and to each that has rows: writers may be refused there alone.
    days = sorted({NEXT_DAY, *(row[0] for row in before)})
    try:
        table.write(pa.concat_tables([rows(99 + at, day=day) for at, day in enumerate(days)]))
    except StorageError as error:
        yield f"{table.identifier}: the next write fails: {error}"
        return
    if held(table) != sorted([*before, *((day, 99 + at, 1, 1) for at, day in enumerate(days))], key=str):
        yield f"{table.identifier}: the next write is not seen: {before} became {held(table)}"


def _points(event: Event) -> bool:
    return points_at(TableSchema.from_json((event.data or b"").decode(), event.path)) is not None


def rewritten_history(files: Files, *, hints_rise: bool) -> Iterator[str]:
    """Snapshot numbers that were committed twice, and hints that went down (on object stores nobody reads them).

    Who creates a snapshot at a number that has expired takes it away again, before anybody is told of it.
    """
    committed: dict[tuple[str, str], tuple[str, str]] = {}
    twice: dict[str, tuple[str, str]] = {}
    hints: dict[str, int] = {}
    for event in files.events:
        if event.path.endswith("/schema/schema-0") and (event.data is None or _points(event)):
            # The table or branch is gone, or main is a branch: what comes under its name is another one.
            root = event.path.removesuffix("/schema/schema-0")
            committed = {key: value for key, value in committed.items() if not key[0].startswith(root)}
            hints = {path: value for path, value in hints.items() if not path.startswith(root)}
        match = _SNAPSHOT.fullmatch(event.path)
        if match and event.data is not None:
            who, text = event.process, event.data.decode()
            earlier = committed.get((match[1], match[2]))
            if earlier is not None and earlier[1] != text:
                twice[event.path] = (earlier[0], who)
            else:
                committed[match[1], match[2]] = (who, text)
        elif match and event.path in twice and twice[event.path][1] == event.process:
            del twice[event.path]
        elif match and committed.get((match[1], match[2]), ("", ""))[0] == event.process:
            # Its own creator took it away again.
            del committed[match[1], match[2]]
        if event.path.endswith("/snapshot/LATEST") and event.data is not None and event.data.isdigit():
            number = int(event.data)
            if hints_rise and number < hints.get(event.path, 0):
                yield f"{event.path} went from {hints[event.path]} to {number}, by {event.process}"
            hints[event.path] = number
    for path, (who, again) in twice.items():
        yield f"{path} was written by {who} and again by {again}"
