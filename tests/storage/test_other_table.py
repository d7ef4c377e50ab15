"""A handle reads nothing of another table that has got the name of its own, nor of a branch made anew."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from storage import NotFound, StorageError, Table
from storage.branches import Branches
from storage.consumers import Consumers
from storage.snapshots import Snapshots
from storage.tags import Tags
from tests.storage.test_arguments import SCHEMA, Ground, use

OTHER = pa.table({"id": [777], "item": ["other"]}, SCHEMA)
DAY = pa.schema([("day", pa.string()), ("n", pa.int64())])
# These read nothing of the table: what they make, or are told of, is looked at when it is used.
UNREAD = {"new_commit", "new_commit_id", "new_write", "notify", "overwrite_by_default", "partition_values", "repeated"}
# These go on from a snapshot.
UNREAD |= {"before", "backwards", "holds", "unless_changed_since"}
# Steps of a publication, which need those before them.
UNREAD |= {"close_main", "settle_main", "replace_closed_main"}
METHODS = [
    (kind, name)
    for kind in (Table, Tags, Consumers, Branches, Snapshots)
    for name, member in vars(kind).items()
    if inspect.isfunction(member) and not name.startswith("_") and name not in UNREAD
]
VERSIONS: list[Any] = [None, 1, "t", "pinned"]


def drop(ground: Ground, name: str) -> None:
    ground.catalog.drop_table(name)
    make(ground, name)


def rename(ground: Ground, name: str) -> None:
    ground.catalog.rename_table(name, f"{name}_before")
    make(ground, name)


def make(ground: Ground, name: str) -> None:
    """A table of the same name, columns and options, in which whatever the first one has means something else."""
    if name == "shop.days":
        options = {"partition.expiration-time": "1 d"}
        table = ground.catalog.create_table(name, DAY, partition_by=["day"], options=options)
        rows = pa.table({"day": ["2023-01-01"], "n": [777]})
    else:
        table = ground.catalog.create_table(name, SCHEMA, primary_key=["id"], options={"bucket": 1})
        rows = OTHER
    for _ in range(2):
        table.write(rows)
    table.tags.create("t")
    table.branches.create("b")
    table.consumers.reset("c", 1)


def fork(ground: Ground, name: str) -> None:
    table = ground.catalog.table(name)
    table.branches.delete("b")
    table.branches.create("b", empty=True)
    branch = table.on_branch("b")
    branch.write(OTHER if name == "shop.orders" else pa.table({"day": ["2023-01-02"], "n": [777]}))
    branch.tags.create("t")
    branch.consumers.reset("c", 1)


def calls_of(table: Table, ground: Ground, kind: type, method: str) -> Callable[[], Any]:
    """A call of a method of a handle, with arguments that are right for the table as it is now."""
    holders: dict[type, Any] = {
        Tags: table.tags,
        Consumers: table.consumers,
        Branches: table.branches,
        Snapshots: table.snapshots,
    }
    positional, named = [], {}
    for parameter in list(inspect.signature(getattr(kind, method)).parameters.values())[1:]:
        if parameter.default is parameter.empty:
            value = ground.right(kind, method, parameter.name)
            if parameter.kind is parameter.VAR_POSITIONAL:
                positional.append(value)
            else:
                named[parameter.name] = value
    subject = holders.get(kind, table)
    return lambda: use(getattr(subject, method)(*positional, **named))


@pytest.mark.parametrize(("branch", "turn"), [("main", drop), ("main", rename), ("b", fork)])
@pytest.mark.parametrize("version", VERSIONS)
def test_no_public_call_of_a_handle_is_about_another_table(
    tmp_path: Path, branch: str, turn: Callable[[Ground, str], None], version: Any
) -> None:
    ground = Ground(tmp_path)
    ground.days.tags.create("t")
    ground.days.branches.create("b")
    handles: dict[str, Table] = {}
    for name in ("shop.orders", "shop.days"):
        table = ground.catalog.table(name).on_branch(branch)
        if branch != "main":
            table.tags.create("t")
            table.consumers.reset("c", 1)
        handles[name] = table if version is None else table.pinned() if version == "pinned" else table.at(version)
    calls = {}
    for kind, method in METHODS:
        is_of_days = "partition" in method or method == "contributors"
        handle = handles["shop.days" if is_of_days else "shop.orders"]
        calls[kind, method] = calls_of(handle, ground, kind, method)
    for name in handles:
        turn(ground, name)
    before = {name: str(ground.catalog.table(name).on_branch(branch).describe()) for name in handles}
    carried_out = []
    for (kind, method), act in calls.items():
        try:
            act()
        except NotFound as refused:
            if "is not the table any more that was opened" not in str(refused):
                carried_out.append(f"{kind.__name__}.{method}: {refused}")
        except StorageError as refused:
            # What was opened at a version refuses to be written, whatever there is.
            if version is None or "was opened as of" not in str(refused):
                carried_out.append(f"{kind.__name__}.{method}: {refused!r}")
        else:
            carried_out.append(f"{kind.__name__}.{method}")
    assert carried_out == []
    after = {name: str(ground.catalog.table(name).on_branch(branch).describe()) for name in handles}
    assert after == before
