"""Several operations at once, each stopped at any step for any while, some of them dying: at random, by seed.

Each operation has a thread, and exactly one thread goes on at a time: which, is drawn before each step.
"""

import random
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from storage.metadata import manifest
from tests.interleavings.memory_files import Killed, Process, Step
from tests.interleavings.operations import OPERATIONS, SCENARIOS
from tests.interleavings.schedules import Answer, Place, firsts_in, judged, perform, start
from tests.scale import amount, blocks, seeds, try_seeds

_STAYS = 0.8
_SHARE_DYING = 0.2


class Turns:
    """Whose turn it is."""

    def __init__(self, chance: random.Random, names: Sequence[str]) -> None:
        self._chance = chance
        self._changed = threading.Condition()
        self._waiting = list(names)
        self._turn = chance.choice(self._waiting)

    def wait(self, name: str) -> None:
        """Until it is the turn of a thread."""
        with self._changed:
            self._changed.wait_for(lambda: self._turn == name)

    def give(self, name: str) -> None:
        """Let chance say who goes on, and wait for the next turn."""
        if self._chance.random() < _STAYS:
            return
        with self._changed:
            self._turn = self._chance.choice(self._waiting)
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._turn == name)

    def leave(self, name: str) -> None:
        """A thread has ended."""
        with self._changed:
            self._waiting.remove(name)
            if self._waiting:
                self._turn = self._chance.choice(self._waiting)
            self._changed.notify_all()


def at_random(seed: int, _: Path) -> None:
    """Run schedules of a seed, and fail with what is wrong."""
    chance = random.Random(seed)
    for number in range(amount(12, 60)):
        place = Place(chance.choice(SCENARIOS), chance.random() < 0.7)
        names = chance.sample(firsts_in(place.scenario), chance.choice((3, 3, 3, 4)))
        dying = {name: chance.randrange(120) for name in names if chance.random() < _SHARE_DYING}
        wrong = side_by_side(place, names, dying, chance)
        message = "\n".join(wrong)
        assert not wrong, f"[{place}] schedule {number} of seed {seed}: {names}, dying at {dying}:\n{message}"


def side_by_side(place: Place, names: Sequence[str], dying: dict[str, int], chance: random.Random) -> list[str]:
    """Do operations in turns, some dying at a step and being repeated once all have ended; what is wrong then."""
    manifest.forget()
    files = start(place).copy()
    turns = Turns(chance, names)
    answers: dict[str, Answer | None] = {}
    failures: list[str] = []

    def stop(process: Process, step: Step) -> None:
        if len(process.steps) >= dying.get(process.name, sys.maxsize):
            raise Killed
        turns.give(process.name)

    def go(name: str) -> None:
        turns.wait(name)
        try:
            answers[name] = perform(OPERATIONS[name], Process(name, files, place.is_local, stop))
        except Killed:
            answers[name] = None
        except Exception as error:
            failures.append(f"{name}: {type(error).__name__}: {error}")
        finally:
            turns.leave(name)

    threads = [threading.Thread(target=go, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        return failures
    dead = [name for name in names if answers[name] is None]
    ended = [answers[name] for name in names]
    try:
        ended += [perform(OPERATIONS[name].again(), Process(f"again {name}", files, place.is_local)) for name in dead]
    except Exception as error:
        return [f"repeated: {type(error).__name__}: {error}"]
    return judged(place, files, [list(names), *([f"again {name}"] for name in dead)], ended)


@pytest.mark.parametrize("chosen", blocks(seeds(2, 600, full=8), 1), ids=str)
def test_several_operations_at_random_steps(tmp_path: Path, chosen: Sequence[int]) -> None:
    try_seeds(at_random, chosen, tmp_path)
