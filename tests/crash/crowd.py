"""A crowd: processes that do their parts at once, some of them killed or stopped at random moments.

One that is killed begins its part again; one that is stopped wakes up later. Every process is a fork of the one that
calls `run`, which itself touches no table, so that it may fork at any time.
"""

import json
import os
import random
import signal
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from storage import CommitConflict, StorageError, StoreUnavailable
from storage.errors import CommitOutcomeUnknown
from tests.crash.forks import forked, started

_DEADLINE_S = 3600
PAUSE_S = 0.05
# Between two disturbances, on average.
_QUIET_S = 0.7
# How often the outcome is looked at where the store is away, and the time between.
_LOOKS = 5
_BETWEEN_LOOKS_S = 2.0


@dataclass(frozen=True)
class Part:
    """What a process does until `Stage.is_over`. The others go once all those have ended that are `leading`."""

    name: str
    act: Callable[[], None]
    leading: bool = False


@dataclass(frozen=True)
class Stage:
    """Where it happens, and what is done to those who act.

    `disturbed`: `no`, `kill` (SIGKILL) or `stop` (SIGSTOP for up to `sleep_s`), at random processes at random moments.
    """

    directory: str
    seed: int
    disturbed: str = "no"
    sleep_s: float = 2.0

    @property
    def is_over(self) -> bool:
        """Whether everybody shall go: the leading parts are done, or who began all this has died."""
        return self.has_written or not (Path(self.directory) / str(os.getppid())).exists()

    @property
    def has_written(self) -> bool:
        """Whether the leading parts are done."""
        return self._done.exists()

    @property
    def _done(self) -> Path:
        return Path(self.directory) / "done"

    def run(
        self, prepare: Callable[[], None], parts: Sequence[Part], verdict: Callable[[], list[str]]
    ) -> dict[str, Any]:
        """Let everybody do their part: how many were disturbed, and all that is wrong."""
        chance = random.Random(self.seed)
        (Path(self.directory) / str(os.getpid())).touch()
        code, _ = forked(prepare)
        assert code == 0, "the tables could not be made"
        members = [_Member(part) for part in parts]
        try:
            disturbances, wrong = self._disturb(members, chance)
        finally:
            # One that sleeps would hold what this process is heard by.
            for member in members:
                member.kill()
        return {"disturbances": disturbances, "wrong": wrong + forked(_judge, verdict)[1]}

    def _disturb(self, members: "list[_Member]", chance: random.Random) -> tuple[int, list[str]]:
        """Until all have ended; those that have not by the deadline are left in `members`."""
        wrong: list[str] = []
        disturbances = 0
        stopped: dict[int, float] = {}
        now = time.monotonic()
        deadline, next_one = now + _DEADLINE_S, now
        while members:
            now = time.monotonic()
            if now > deadline:
                wrong.append(f"{[remaining.part.name for remaining in members]} did not end")
                break
            if not any(remaining.part.leading for remaining in members):
                self._done.touch()
            for process in [stopped_process for stopped_process, until in stopped.items() if until < now]:
                os.kill(process, signal.SIGCONT)
                del stopped[process]
            running = [remaining for remaining in members if remaining.process not in stopped]
            if self.disturbed != "no" and running and not self._done.exists() and now > next_one:
                next_one = now + chance.uniform(0, 2 * _QUIET_S)
                member = chance.choice(running)
                disturbances += 1
                if self.disturbed == "stop":
                    os.kill(member.process, signal.SIGSTOP)
                    stopped[member.process] = now + chance.uniform(0, self.sleep_s)
                else:
                    os.kill(member.process, signal.SIGKILL)
            for member in list(members):
                status = member.ended()
                if status is None:
                    continue
                members.remove(member)
                # It had ended before it was stopped.
                stopped.pop(member.process, None)
                if status == -signal.SIGKILL:
                    members.append(_Member(member.part))
                elif said := member.said():
                    wrong.append(said)
                    if member.part.leading:
                        # What it would have done is missed anyhow.
                        self._done.touch()
            time.sleep(chance.uniform(0, 2 * PAUSE_S))
        return disturbances, wrong


class _Member:
    """A process that does its part."""

    def __init__(self, part: Part) -> None:
        self.part = part
        self.process: int
        self._answer: TextIO
        self.process, self._answer = started(_attempt, part)

    def ended(self) -> int | None:
        """The exit code, or minus the signal; None while it runs."""
        ended, status = os.waitpid(self.process, os.WNOHANG)
        return os.waitstatus_to_exitcode(status) if ended else None

    def said(self) -> str:
        """What went wrong, or nothing."""
        with self._answer:
            text = self._answer.read()
        return json.loads(text) if text else f"{self.part.name} ended without a word"

    def kill(self) -> None:
        os.kill(self.process, signal.SIGKILL)
        os.waitpid(self.process, 0)


def _attempt(part: Part) -> str:
    try:
        part.act()
    except Exception:
        return f"{part.name}: {traceback.format_exc()[-4000:]}"
    return ""


def _judge(verdict: Callable[[], list[str]]) -> list[str]:
    """What is wrong; a store that is away for the last time is waited for."""
    for looks_left in reversed(range(_LOOKS)):
        try:
            return verdict()
        except Exception as error:
            if not looks_left or not isinstance(error, StoreUnavailable):
                return [f"the check: {traceback.format_exc()[-4000:]}"]
        time.sleep(_BETWEEN_LOOKS_S)
    raise AssertionError("the last look returns")


def unless_in_the_way(act: Callable[[], object]) -> None:
    """Do something that others, or a store that is away, may be in the way of; then rest."""
    with suppress(CommitConflict, CommitOutcomeUnknown, StoreUnavailable):
        act()
    time.sleep(PAUSE_S)


def is_overtaken(error: StorageError) -> bool:
    """Whether an expiry has come before a reader had read all, or the store is away: it is told so, and reads again."""
    return isinstance(error, StoreUnavailable) or "expired" in str(error)
