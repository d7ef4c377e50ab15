"""Every call to the file system fails in turn: the table stays sound, shows a state it may show, and a retry finishes.

`make test-long` also lets a second call fail after the first (for commits and takeovers).
"""

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from storage import (
    AddColumn,
    Catalog,
    CommitId,
    CommitOutcomeUnknown,
    FailedWork,
    Identifier,
    StorageError,
    Table,
    Unfinished,
)
from storage.identifier import RESERVED_TAGS
from storage.maintain.references import needed_files
from storage.metadata.table_store import TableStore
from storage.metadata.tag import Tag
from tests.crash.failing_files import BEFORE, MODES, TORN, FailingFileIO
from tests.scale import FULL, LONG

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.string())])
IDENTIFIER = Identifier("a", "t")
# Of protocols with more calls than these, every third one that only reads fails, and each other one in one of the ways by turns;
# all of them in all ways in `make test-full`.
_MANY = 60


def rows(*ids: int, text: str = "new") -> pa.Table:
    return pa.table({"id": list(ids), "v": [text] * len(ids)})


def keyed(warehouse: Path, **options: Any) -> Table:
    made = Catalog(str(warehouse)).create_table(
        "a.t", SCHEMA, primary_key=["id"], options={"bucket": 1, "write-only": True, **options}
    )
    for number in range(4):
        made.write(rows(number, number + 1, text=f"old{number}"))
    return made


def plain(warehouse: Path) -> Table:
    made = Catalog(str(warehouse)).create_table("a.t", SCHEMA)
    for number in range(3):
        made.write(rows(number, number + 10, text="old"))
    return made


def marked(warehouse: Path) -> Table:
    """Rows of which some are marked as deleted."""
    made = Catalog(str(warehouse)).create_table("a.t", SCHEMA, options={"deletion-vectors.enabled": True})
    for number in range(3):
        made.write(rows(number, number + 10, text="old"))
    made.delete("id = 11")
    return made


def with_branch(warehouse: Path) -> Table:
    made = keyed(warehouse)
    made.tags.create("kept", snapshot_id=2)
    made.branches.create("fix")
    for number in range(2):
        made.on_branch("fix").write(rows(20 + number, text="fixed"))
    return made


def with_two_sides(warehouse: Path) -> Table:
    """Main and a branch have both moved, each in a partition of its own."""
    made = Catalog(str(warehouse)).create_table(
        "a.t", SCHEMA, primary_key=["id", "v"], partition_by=["v"], options={"bucket": 1, "write-only": True}
    )
    made.write(rows(1, 2, text="x"))
    made.branches.create("fix")
    made.on_branch("fix").write(rows(3, text="x"))
    made.on_branch("fix").overwrite(rows(4, text="x"))
    made.write(rows(5, text="y"))
    return made


def dynamic(warehouse: Path) -> Table:
    """A table whose buckets hold two keys each."""
    return keyed(warehouse, **{"bucket": -1, "dynamic-bucket.target-row-num": 2})


def write_beside_another(table: Table) -> None:
    """Two writers give the same new keys other buckets: the rows of the later one go to those of the earlier."""
    with table.new_write() as writer:
        writer.write(rows(9, 8, 7, 6, text="later"))
        message = writer.prepare_commit()
        table.write(rows(6, 7, 8, 9, 10, text="earlier"), commit_id=CommitId("other", 1, exact=True))
        table.commit_messages([message], commit_id=JOB)


def with_orphans(warehouse: Path) -> Table:
    made = keyed(warehouse)
    writer = made.new_write()
    writer.write(rows(*range(30)))
    writer.prepare_commit()
    return made


@dataclass(frozen=True)
class Protocol:
    """Something that takes several steps: how the table is prepared, and what is done to it.

    `states_between`: a reader may see other states than the old and the new one, each of which was committed. `waits`: rows
    are seen once the compaction has come that follows their commit; if it fails, the next one's.
    """

    prepare: Callable[[Path], Table]
    act: Callable[[Table], object]
    states_between: bool = False
    repeats: bool = field(default=False)
    waits: bool = False


JOB = CommitId("job", 7)
PROTOCOLS = {
    "write": Protocol(keyed, lambda table: table.write(rows(1, 50), commit_id=JOB), repeats=True),
    "write and compact": Protocol(
        lambda path: keyed(path, **{"write-only": False}),
        lambda table: table.write(rows(1, 50), commit_id=JOB),
        repeats=True,
    ),
    "write, compact and expire": Protocol(
        lambda path: keyed(
            path, **{"write-only": False, "snapshot.num-retained.min": 1, "snapshot.num-retained.max": 3}
        ),
        lambda table: table.write(rows(1, 50), commit_id=JOB),
        repeats=True,
    ),
    "changelog": Protocol(
        lambda path: keyed(path, **{"changelog-producer": "input"}),
        lambda table: table.write(rows(1, 50), commit_id=JOB),
        repeats=True,
    ),
    "new keys in dynamic buckets": Protocol(
        dynamic, lambda table: table.write(rows(1, 50), commit_id=JOB), repeats=True
    ),
    "keys of others in dynamic buckets": Protocol(dynamic, write_beside_another, states_between=True, repeats=True),
    "overwrite of dynamic buckets": Protocol(
        dynamic, lambda table: table.overwrite(rows(7, 8), commit_id=JOB), repeats=True
    ),
    "roll back dynamic buckets": Protocol(dynamic, lambda table: table.rollback_to(2)),
    "append": Protocol(plain, lambda table: table.write(rows(1, 50), commit_id=JOB), repeats=True),
    "overwrite": Protocol(keyed, lambda table: table.overwrite(rows(7, 8), commit_id=JOB), repeats=True),
    "take away": Protocol(
        plain,
        lambda table: table.write(
            rows(1, 1, text="old").slice(0, 1).append_column("op", pa.array(["-D"])),
            row_kind_column="op",
            commit_id=JOB,
        ),
        repeats=True,
    ),
    "delete": Protocol(plain, lambda table: table.delete("id < 5")),
    "mark rows": Protocol(marked, lambda table: table.delete("id < 5")),
    "write and mark": Protocol(
        lambda path: keyed(path, **{"write-only": False, "deletion-vectors.enabled": True}),
        lambda table: table.write(rows(1, 50), commit_id=JOB),
        repeats=True,
        waits=True,
    ),
    "compact marked rows": Protocol(marked, lambda table: table.compact()),
    "roll marks back": Protocol(marked, lambda table: table.rollback_to(3)),
    "compact": Protocol(keyed, lambda table: table.compact()),
    "compact small files": Protocol(plain, lambda table: table.compact()),
    "rescale": Protocol(keyed, lambda table: table.rescale(3)),
    "alter": Protocol(
        keyed, lambda table: None if "more" in table.schema.column_names else table.alter(AddColumn("more", pa.int64()))
    ),
    "expire": Protocol(keyed, lambda table: table.expire(retain_last=1)),
    "roll back": Protocol(keyed, lambda table: table.rollback_to(2)),
    "create a tag": Protocol(keyed, lambda table: table.tags.create("made", snapshot_id=3)),
    "delete a tag": Protocol(
        with_branch,
        lambda table: table.tags.delete("kept") if any(tag.name == "kept" for tag in table.tags.list()) else None,
    ),
    "create a branch": Protocol(
        keyed, lambda table: None if "made" in table.branches.names() else table.branches.create("made", snapshot_id=2)
    ),
    "delete a branch": Protocol(
        with_branch, lambda table: table.branches.delete("fix") if "fix" in table.branches.names() else None
    ),
    "merge": Protocol(with_branch, lambda table: table.branches.merge("fix")),
    "merge into a main that moved": Protocol(with_two_sides, lambda table: table.branches.merge("fix")),
    "replace main": Protocol(with_branch, lambda table: table.branches.replace_main("fix")),
    "replace a main that moved": Protocol(
        with_two_sides, lambda table: table.branches.replace_main("fix"), states_between=True
    ),
    "fast forward": Protocol(with_branch, lambda table: table.branches.fast_forward("fix")),
    "remove orphan files": Protocol(
        with_orphans, lambda table: table.remove_orphan_files(older_than=timedelta(0), no_writers=True)
    ),
}


def opened(warehouse: Path, file_io: FailingFileIO | None = None) -> Table:
    root = str(warehouse / "a.db" / "t")
    store = TableStore(file_io or FailingFileIO(), root, IDENTIFIER)
    return Table(store, "test")


def is_own(tag: Tag) -> bool:
    """Whether the store itself keeps files by a tag, for as long as something is made of them."""
    return tag.name.startswith(RESERVED_TAGS)


def contents(table: Table, **options: Any) -> list[tuple[Any, ...]]:
    return sorted((row["id"], row["v"]) for row in table.to_arrow(columns=["id", "v"], **options).to_pylist())


def state(warehouse: Path) -> dict[str, Any]:
    """What a reader can see: main, its columns, every tag and every branch."""
    table = opened(warehouse)
    return {
        "main": contents(table),
        "columns": table.schema.column_names,
        **{f"tag {tag.name}": contents(table, version=tag.name) for tag in table.tags.list() if not is_own(tag)},
        **{
            f"branch {name}": contents(table.on_branch(name))
            for name in table.branches.names()
            # The scaffold of a merge.
            if not name.startswith("merge-of-")
        },
    }


def committed(warehouse: Path) -> list[Any]:
    """The rows of every snapshot of main and its branches."""
    table = opened(warehouse)
    every = [table, *(table.on_branch(name) for name in table.branches.names())]
    return [contents(branch, version=number) for branch in every for number in branch.store.snapshots.ids()]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", PROTOCOLS)
def test_any_call_may_fail(name: str, tmp_path: Path) -> None:
    protocol = PROTOCOLS[name]
    template = tmp_path / "template"
    protocol.prepare(template)
    old, allowed = state(template), committed(template)
    counted = FailingFileIO()
    done = tmp_path / "done"
    shutil.copytree(template, done)
    protocol.act(opened(done, counted))
    new = state(done)
    allowed += committed(done)
    calls = counted.calls
    reads = sum(call.startswith(("read", "exists", "list")) for call in calls)
    assert len(calls) > reads, "a protocol changes something"
    for number, call in enumerate(calls):
        only_reads = call.startswith(("read", "exists", "list"))
        is_shared = len(calls) > _MANY and not FULL
        if only_reads and is_shared and number % 3:
            continue
        by_turns = (MODES[number % len(MODES)],) if is_shared else MODES
        for mode in (BEFORE,) if only_reads else by_turns:
            if mode == TORN and call.startswith(("delete /", "delete  ", "replace")):
                continue
            _fail_once(tmp_path / f"{number}-{mode}", template, protocol, number, mode, old, new, allowed)
            if LONG and not only_reads and name in ("write", "overwrite", "fast forward"):
                for second in range(len(calls)):
                    _fail_once(
                        tmp_path / f"{number}-{second}-{mode}",
                        template,
                        protocol,
                        number,
                        mode,
                        old,
                        new,
                        allowed,
                        second,
                    )


def _fail_once(
    warehouse: Path,
    template: Path,
    protocol: Protocol,
    number: int,
    mode: str,
    old: dict[str, Any],
    new: dict[str, Any],
    allowed: list[Any],
    second: int | None = None,
) -> None:
    shutil.copytree(template, warehouse)
    for fails_at in (number,) if second is None else (number, second):
        failing = FailingFileIO(fails_at, mode)
        error = _act(warehouse, protocol, failing)
        failed = error is not None
        where = f"{failing.calls[fails_at]} failed {mode}" if fails_at < len(failing.calls) else "no call failed"
        assert not failed or isinstance(error, StorageError), f"{where}: {error!r}"
        if protocol.repeats and second is None and not isinstance(error, CommitOutcomeUnknown):
            assert len(_made_by_job(warehouse)) == (0 if failed else 1), f"{where}: {error}"
        seen = state(warehouse)
        if failed:
            _check_between(seen, old, new, allowed, protocol, where)
        else:
            done = seen == new or (protocol.waits and seen == old)
            assert done, f"{where}: nothing was raised, but the work is not done"
        assert broken(warehouse, deep=True, torn=mode == TORN) == [], where
    protocol.act(opened(warehouse))
    assert state(warehouse) == new, f"after a retry: {where}"
    assert broken(warehouse, torn=mode == TORN) == [], where
    if protocol.repeats:
        assert len(_made_by_job(warehouse)) == 1, where
    table = opened(warehouse)
    table.remove_orphan_files(older_than=timedelta(0), no_writers=True)
    assert state(warehouse) == new
    _check_files(table, where)
    shutil.rmtree(warehouse)


def _act(warehouse: Path, protocol: Protocol, failing: FailingFileIO) -> Exception | None:
    """What an operation raised."""
    try:
        table = opened(warehouse, failing)
    except OSError as error:
        # Opened below the catalog, which turns what its file system raises.
        return StorageError(str(error))
    try:
        protocol.act(table)
    except Exception as error:
        return error
    return None


def _made_by_job(warehouse: Path) -> list[Any]:
    return [snapshot for snapshot in opened(warehouse).store.snapshots.all() if snapshot.commit_user == "job"]


def broken(warehouse: Path, *, deep: bool = False, torn: bool = False) -> list[Any]:
    """What is broken; work after a commit that has failed is not. `torn`: a hint may be half written, which is said."""
    lines = [
        problem for problem in opened(warehouse).check(deep=deep) if not isinstance(problem, FailedWork | Unfinished)
    ]
    return [problem for problem in lines if not (torn and "It is not believed, and written anew" in problem.what)]


def _check_between(
    seen: dict[str, Any], old: dict[str, Any], new: dict[str, Any], allowed: list[Any], protocol: Protocol, where: str
) -> None:
    for key in seen.keys() | old.keys() | new.keys():
        choices = [old.get(key), new.get(key)]
        if key == "main" and protocol.states_between:
            choices += allowed
        if key.startswith("branch") and protocol.states_between:
            # What is about to become main.
            choices.append(new["main"])
        assert seen.get(key) in choices, f"{where}: {key} is {seen.get(key)}"


def _check_files(table: Table, where: str) -> None:
    """Every data and metadata file on disk is needed by somebody, and every needed one is there."""
    root = Path(table.store.paths.root)
    held = {str(path) for path in root.rglob("*") if path.is_file() and path.parent.name in ("manifest", "index")}
    held |= {str(path) for path in root.rglob("bucket-*/*")}
    assert held == set(needed_files(table.store)), where
