"""CALL sys.*: the actions on tables, tags, branches and lineage, by name. Arguments by position or by name."""

import difflib
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from sqlglot import exp

from storage import InvalidRequest, Table, moment_of

from ..parameters import duration
from ..rendering import merged, published, replaced, rolled_back
from ..session import Session
from .result import Result, rows_result

Open = Callable[[str], Table]


@dataclass(frozen=True)
class Context:
    """What procedures work on: the session, the current catalog's name, and how tables are opened by name."""

    session: Session
    catalog: str
    table: Open
    full_name: Callable[[str], str]


@dataclass(frozen=True)
class Procedure:
    """A procedure: its function takes the context and what the caller gives."""

    name: str
    act: Callable[..., Result]
    meaning: str

    @property
    def parameters(self) -> list[inspect.Parameter]:
        return list(inspect.signature(self.act).parameters.values())[1:]

    @property
    def signature(self) -> str:
        return ", ".join(one.name if one.default is one.empty else f"[{one.name}]" for one in self.parameters)


PROCEDURES: dict[str, Procedure] = {}


def procedure(act: Callable[..., Result]) -> Callable[..., Result]:
    """Make a function known as `sys.<its name>`; its docstring says what it is for."""
    PROCEDURES[act.__name__] = Procedure(f"sys.{act.__name__}", act, inspect.getdoc(act) or "")
    return act


def call(context: Context, name: str, arguments: Sequence[tuple[str | None, exp.Expr]]) -> Result:
    """Run a procedure. Raises InvalidRequest that lists the procedures, or its arguments."""
    plain = name.lower().removeprefix("sys.")
    found = PROCEDURES.get(plain)
    if found is None:
        near = difflib.get_close_matches(plain, PROCEDURES, n=1)
        hint = f" Did you mean sys.{near[0]}?" if near else ""
        raise InvalidRequest(f"There is no procedure {name!r}.{hint} SHOW PROCEDURES lists them.")
    known = [one.name for one in found.parameters]
    given: dict[str, Any] = {}
    for position, (key, value) in enumerate(arguments):
        if key is None and position >= len(known):
            raise InvalidRequest(
                f"{found.name} takes {len(known)} arguments ({found.signature}), {len(arguments)} are given."
            )
        label = known[position] if key is None else key.lower()
        if label not in known or label in given:
            raise InvalidRequest(f"{found.name} has no argument {label!r} left. Arguments: {found.signature}.")
        given[label] = _plain(value)
    # NULL is none given, but for those that may be left out.
    missing = [one.name for one in found.parameters if one.default is one.empty and given.get(one.name) is None]
    if missing:
        raise InvalidRequest(f"{found.name} needs {', '.join(missing)}. Arguments: {found.signature}.")
    return found.act(context, **given)


def _plain(node: exp.Expr) -> Any:
    if isinstance(node, exp.Null):
        return None
    if isinstance(node, exp.Boolean):
        return bool(node.this)
    if isinstance(node, exp.Neg):
        return -_plain(node.this)
    if isinstance(node, exp.Array):
        return [_plain(one) for one in node.expressions]
    if isinstance(node, exp.Literal):
        if node.is_string:
            return node.name
        return int(node.name) if node.is_int else float(node.name)
    raise InvalidRequest(
        f"{node.sql()!r} is no constant: a procedure takes texts, numbers, TRUE, FALSE, NULL and ARRAY(…)."
    )


def _names(value: str | list[str]) -> list[str]:
    return [one.strip() for one in value.split(",")] if isinstance(value, str) else value


# --- tags


@procedure
def create_tag(
    context: Context, table: str, tag: str, snapshot_id: int | None = None, time_retained: str | None = None
) -> Result:
    """Give a snapshot a name."""
    retained = duration(time_retained) if time_retained else None
    made = context.table(table).tags.create(tag, snapshot_id=snapshot_id, time_retained=retained)
    return Result(f"Tag {made.name} of {table} names snapshot {made.snapshot.id}.")


@procedure
def replace_tag(
    context: Context, table: str, tag: str, snapshot_id: int | None = None, time_retained: str | None = None
) -> Result:
    """Make a name stand for another snapshot."""
    retained = duration(time_retained) if time_retained else None
    made = context.table(table).tags.create(tag, snapshot_id=snapshot_id, time_retained=retained, replace=True)
    return Result(f"Tag {made.name} of {table} names snapshot {made.snapshot.id}.")


@procedure
def rename_tag(context: Context, table: str, tag: str, target_tag: str) -> Result:
    """Give a tag another name."""
    context.table(table).tags.rename(tag, target_tag)
    return Result(f"Tag {tag} of {table} is called {target_tag}.")


@procedure
def create_due_tag(context: Context, table: str) -> Result:
    """Create the tag of the last period that is over, as the table's options ask for."""
    made = context.table(table).tags.create_due()
    return Result(
        f"Tag {made.name} of {table} names snapshot {made.snapshot.id}." if made else f"{table} has no tag due."
    )


@procedure
def expire_tags(context: Context, table: str) -> Result:
    """Delete the tags whose time is over."""
    return rows_result(["expired_tags"], [(name,) for name in context.table(table).tags.expire()])


@procedure
def rollback_to_timestamp(context: Context, table: str, timestamp: int | str) -> Result:
    """Make the latest snapshot at or before a time (milliseconds, or text) the latest state again."""
    moment = moment_of(str(timestamp))
    return Result(rolled_back(table, moment, context.table(table).rollback_to(moment)))


# --- branches


@procedure
def delete_branch(context: Context, table: str, branch: str) -> Result:
    """Delete a branch and the files that only it needs."""
    context.table(table).branches.delete(branch)
    return Result(f"Branch {branch} of {table} is deleted.")


@procedure
def branch_verdict(context: Context, table: str, branch: str) -> Result:
    """Say whether main can take a branch over: clean, disjoint or diverged."""
    verdict = context.table(table).branches.verdict(branch)
    return rows_result(["verdict", "meaning"], [(verdict.kind, verdict.describe())])


@procedure
def merge_branch(context: Context, table: str, branch: str, discard_main: bool = False) -> Result:
    """Take a branch over into main; what main did elsewhere stays."""
    verdict = context.table(table).branches.merge(branch, discard_main=discard_main)
    return Result(merged(table, branch, verdict))


@procedure
def fast_forward(context: Context, table: str, branch: str, discard_main: bool = False) -> Result:
    """Make main what a branch is."""
    verdict = context.table(table).branches.fast_forward(branch, discard_main=discard_main)
    return Result(merged(table, branch, verdict))


@procedure
def replace_main_branch(context: Context, table: str, branch: str, discard_main: bool = False) -> Result:
    """Make a branch the main of the table."""
    verdict = context.table(table).branches.replace_main(branch, discard_main=discard_main)
    return Result(replaced(table, branch, verdict, context.table(table).snapshot()))


@procedure
def create_branches(context: Context, tables: str | list[str], branch: str) -> Result:
    """Fork several tables at their latest states, all or none."""
    names = [context.full_name(one) for one in _names(tables)]
    context.session.catalog_of(context.catalog).branch_set(branch, names).create()
    return Result(f"Branch {branch} is there on {len(names)} tables.")


@procedure
def publish_branches(context: Context, tables: str | list[str], branch: str, discard_main: bool = False) -> Result:
    """Make the mains of several tables take a branch over, all or none."""
    names = [context.full_name(one) for one in _names(tables)]
    verdicts = context.session.catalog_of(context.catalog).branch_set(branch, names).publish(discard_main=discard_main)
    return rows_result(*published(verdicts), {"by snapshot": pa.int64()})


@procedure
def recover_branches(context: Context, undo: bool = False, discard_main: bool = False) -> Result:
    """Finish, or undo, publications that a crash or a conflict left open."""
    found = context.session.catalog_of(context.catalog).recover(undo=undo, discard_main=discard_main)
    return rows_result(["branch", "tables"], [(one.branch, ", ".join(one.before)) for one in found])


# --- upkeep


@procedure
def rescale(context: Context, table: str, buckets: int) -> Result:
    """Change the number of buckets and hash the rows anew."""
    snapshot = context.table(table).rescale(buckets)
    return Result(f"{table} has {buckets} buckets" + (f" as of snapshot {snapshot.id}." if snapshot else "."))


@procedure
def expire_partitions(context: Context, table: str, dry_run: bool = False) -> Result:
    """Drop the partitions that are older than 'partition.expiration-time'."""
    gone = context.table(table).expire_partitions(dry_run=dry_run)
    return rows_result(["partition"], [("/".join(f"{key}={value}" for key, value in one.items()),) for one in gone])


@procedure
def check(context: Context, table: str, deep: bool = False) -> Result:
    """Report every broken invariant of a table."""
    return rows_result(["where", "what"], [(one.where, one.what) for one in context.table(table).check(deep=deep)])


@procedure
def why_kept(context: Context, table: str, what: str | int) -> Result:
    """Who needs a file, or the files of a snapshot."""
    return rows_result(["holder"], [(one,) for one in context.table(table).why_kept(what)])


@procedure
def reset_consumer(context: Context, table: str, consumer_id: str, next_snapshot_id: int | None = None) -> Result:
    """Make a named reader of changes go on from a snapshot, or forget it."""
    consumers = context.table(table).consumers
    if next_snapshot_id is None:
        consumers.delete(consumer_id)
        return Result(f"Consumer {consumer_id} of {table} is forgotten.")
    consumers.reset(consumer_id, next_snapshot_id)
    return Result(f"Consumer {consumer_id} of {table} goes on from snapshot {next_snapshot_id}.")


# --- lineage


@procedure
def delete_table_lineage(context: Context, job: str, catalog: str | None = None) -> Result:
    """Forget which tables a job reads and writes, in all catalogs or in one."""
    if catalog is not None:
        # Raises NotFound for one that there is not.
        context.session.catalog_of(catalog)
    count = context.session.forget_job(job, *([catalog] if catalog else []), tables=True)
    where = f"catalog {catalog}" if catalog else "all catalogs"
    return Result(f"Deleted {count} rows of job {job} in {where}.")


@procedure
def delete_data_lineage(context: Context, job: str, catalog: str | None = None) -> Result:
    """Forget which snapshots a job consumed and produced, in all catalogs or in one."""
    if catalog is not None:
        # Raises NotFound for one that there is not.
        context.session.catalog_of(catalog)
    count = context.session.forget_job(job, *([catalog] if catalog else []), snapshots=True)
    where = f"catalog {catalog}" if catalog else "all catalogs"
    return Result(f"Deleted {count} rows of job {job} in {where}.")


@procedure
def rebuild_lineage(context: Context) -> Result:
    """Read all lineage off the tables again."""
    count, replaced = context.session.rebuild_lineage(context.catalog)
    aside = "".join(f" The database could not be read; it lies in {one} now." for one in replaced)
    return Result(f"Read the lineage of {count} snapshots off the tables.{aside}")
