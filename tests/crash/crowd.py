"""Many processes at one table, beside everything that tidies it up; every acknowledged commit must be there once.

    python crowd.py ARGUMENTS

ARGUMENTS is a JSON object of `Crowd`. Writers note each commit that is acknowledged, in a file of their own. A writer or a
helper that is killed is started again, and a writer goes on with the commit id that it had; one that is stopped wakes up
later. Prints one JSON object: how many commits were acknowledged, and all that is wrong. Each process is a fork.
"""

import json
import os
import random
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from storage import Catalog, CommitConflict, CommitId, StorageError, StoreUnavailable, Table
from storage.errors import CommitOutcomeUnknown
from tests.crash.forks import forked, started

_DEADLINE_S = 3600
_PAUSE_S = 0.05
# Between two disturbances, on average.
_QUIET_S = 0.7


@dataclass(frozen=True)
class Crowd:
    """Who is there, and what is done to them.

    `disturbed`: `no`, `kill` (SIGKILL) or `stop` (SIGSTOP for up to `sleep_s`), at random processes at random moments.
    """

    directory: str
    warehouse: str
    seed: int
    keyed: bool
    writers: int
    commits: int
    compactors: int = 2
    disturbed: str = "no"
    sleep_s: float = 2.0
    storage_options: dict[str, Any] = field(default_factory=dict)

    def table(self) -> Table:
        return self.catalog().table("shop.orders")

    def catalog(self) -> Catalog:
        return Catalog(self.warehouse, storage_options=self.storage_options)

    def note(self, writer: int) -> Path:
        return Path(self.directory) / f"acknowledged-{writer}"

    def acknowledged(self, writer: int) -> int:
        path = self.note(writer)
        return path.stat().st_size if path.exists() else 0

    @property
    def is_done(self) -> bool:
        return (Path(self.directory) / "done").exists()

    @property
    def is_left(self) -> bool:
        """Whether everybody shall go: the writers are done, or who began all this has died."""
        return self.is_done or not os.path.exists(f"{self.directory}/{os.getppid()}")


def prepare(crowd: Crowd) -> None:
    options = {
        "bucket": 2 if crowd.keyed else -1, "snapshot.num-retained.min": 2, "snapshot.num-retained.max": 12,
        "num-sorted-run.compaction-trigger": 3, "commit.max-retries": 1000, "commit.min-retry-wait": "1 ms",
        "commit.max-retry-wait": "50 ms",
    }  # fmt: skip
    schema = pa.schema([("id", pa.int64()), ("item", pa.string())])
    key = ["id"] if crowd.keyed else []
    crowd.catalog().create_table("shop.orders", schema, primary_key=key, options=options)


def write(crowd: Crowd, number: int) -> None:
    """Commit until all are acknowledged. One byte of the note stands for one of them."""
    while (done := crowd.acknowledged(number)) < crowd.commits and not crowd.is_left:
        rows = pa.table({"id": [number * crowd.commits + done], "item": [f"{number}"]})
        try:
            crowd.table().write(rows, commit_id=CommitId(f"writer-{number}", done))
        except (CommitConflict, CommitOutcomeUnknown, StoreUnavailable):
            continue
        with crowd.note(number).open("ab") as file:
            file.write(b".")


def compact(crowd: Crowd, number: int) -> None:
    chance = random.Random(number)
    while not crowd.is_left:
        _unless_in_the_way(lambda: crowd.table().compact(full=chance.random() < 0.5))


def expire(crowd: Crowd, _: int) -> None:
    while not crowd.is_left:
        _unless_in_the_way(lambda: crowd.table().expire(retain_last=2))


def clean(crowd: Crowd, _: int) -> None:
    while not crowd.is_left:
        _unless_in_the_way(lambda: crowd.table().remove_orphan_files(older_than=timedelta(minutes=1), no_writers=True))


def read(crowd: Crowd, _: int) -> None:
    """See that no acknowledged commit is ever missing, and none there twice."""
    while not crowd.is_left:
        known = [
            number * crowd.commits + at for number in range(crowd.writers) for at in range(crowd.acknowledged(number))
        ]
        counts: Counter[int] = Counter()
        try:
            counts.update(crowd.table().to_arrow()["id"].to_pylist())
        except (StoreUnavailable, StorageError) as error:
            if not _is_overtaken(error):
                raise
            continue
        lost, twice = set(known) - counts.keys(), [one for one, count in counts.items() if count > 1]
        if lost or twice:
            raise AssertionError(f"a reader misses {sorted(lost)} and sees {twice} twice")
        time.sleep(_PAUSE_S)


def _is_overtaken(error: StorageError) -> bool:
    """Whether an expiry has come before a reader had read all: it is told so, and reads again."""
    return isinstance(error, StoreUnavailable) or "expired" in str(error)


def _unless_in_the_way(act: Callable[[], object]) -> None:
    with suppress(CommitConflict, CommitOutcomeUnknown, StoreUnavailable):
        act()
    time.sleep(_PAUSE_S)


ROLES: dict[str, Callable[[Crowd, int], None]] = {
    "write": write, "compact": compact, "expire": expire, "clean": clean, "read": read,
}  # fmt: skip


def act(role: str, crowd: Crowd, number: int) -> str:
    """Do one's part; what went wrong, or nothing."""
    try:
        ROLES[role](crowd, number)
    except Exception:
        return f"{role} {number}: {traceback.format_exc()[-1500:]}"
    return ""


def verdict(crowd: Crowd) -> list[str]:
    """What is wrong once all have gone."""
    table = crowd.table()
    counts = Counter(table.to_arrow()["id"].to_pylist())
    expected = range(crowd.writers * crowd.commits)
    wrong = [f"commit {one} is there {counts[one]} times" for one in expected if counts[one] != 1]
    wrong += [f"nobody wrote {one}" for one in counts.keys() - set(expected)]
    snapshots = list(table.store.snapshots.all())
    ids = [one.id for one in snapshots]
    if ids != list(range(ids[0], ids[0] + len(ids))):
        wrong.append(f"snapshots {ids} do not follow each other")
    wrong += [str(one) for one in table.check(deep=True)]
    table.compact(full=True)
    table.expire(retain_last=1)
    table.remove_orphan_files(older_than=timedelta(0), no_writers=True)
    if Counter(table.to_arrow()["id"].to_pylist()) != Counter(expected):
        wrong.append("other rows once everything was compacted, expired and cleaned")
    return wrong + [str(one) for one in table.check(deep=True)]


@dataclass
class _Member:
    role: str
    number: int
    process: int
    answer: Any


def run(crowd: Crowd) -> dict[str, Any]:
    """Let everybody do their part; what was acknowledged, and what is wrong."""
    chance = random.Random(crowd.seed)
    code, _ = forked(prepare, crowd)
    assert code == 0, "the table could not be made"
    (Path(crowd.directory) / str(os.getpid())).touch()
    roles = [("write", number) for number in range(crowd.writers)]
    roles += [("compact", number) for number in range(crowd.compactors)]
    members = [_begin(crowd, *role) for role in [*roles, ("expire", 0), ("clean", 0), ("read", 0)]]
    wrong: list[str] = []
    disturbances = 0
    stopped: dict[int, float] = {}
    next_one = time.monotonic()
    deadline = time.monotonic() + _DEADLINE_S
    while members:
        if time.monotonic() > deadline:
            wrong.append(f"{[(one.role, one.number) for one in members]} did not end")
            break
        if not any(one.role == "write" for one in members):
            (Path(crowd.directory) / "done").touch()
        for process in [one for one, until in stopped.items() if until < time.monotonic()]:
            os.kill(process, signal.SIGCONT)
            del stopped[process]
        running = [one for one in members if one.process not in stopped]
        if crowd.disturbed != "no" and running and not crowd.is_done and time.monotonic() > next_one:
            member = chance.choice(running)
            next_one = time.monotonic() + chance.uniform(0, 2 * _QUIET_S)
            disturbances += 1
            if crowd.disturbed == "stop":
                os.kill(member.process, signal.SIGSTOP)
                stopped[member.process] = time.monotonic() + chance.uniform(0, crowd.sleep_s)
            else:
                os.kill(member.process, signal.SIGKILL)
        for member in list(members):
            ended, status = os.waitpid(member.process, os.WNOHANG)
            if not ended:
                continue
            members.remove(member)
            with member.answer:
                text = member.answer.read()
            if os.waitstatus_to_exitcode(status) == -signal.SIGKILL:
                members.append(_begin(crowd, member.role, member.number))
            elif said := json.loads(text) if text else f"{member.role} {member.number} ended without a word":
                wrong.append(said)
                if member.role == "write":
                    # Its commits are missed anyhow.
                    (Path(crowd.directory) / "done").touch()
        time.sleep(chance.uniform(0, 2 * _PAUSE_S))
    for member in members:
        os.kill(member.process, signal.SIGKILL)
        os.waitpid(member.process, 0)
    code, found = forked(verdict, crowd)
    wrong += found if code == 0 else ["the check itself failed"]
    acknowledged = sum(crowd.acknowledged(number) for number in range(crowd.writers))
    return {"acknowledged": acknowledged, "disturbances": disturbances, "wrong": wrong}


def _begin(crowd: Crowd, role: str, number: int) -> _Member:
    return _Member(role, number, *started(act, role, crowd, number))


def arguments(crowd: Crowd) -> str:
    """A crowd as this program takes it."""
    return json.dumps(asdict(crowd))


if __name__ == "__main__":
    print(json.dumps(run(Crowd(**json.loads(sys.argv[1])))))
