"""Visit every state that a model can reach, breadth first, and tell the shortest way to one that is wrong.

A state is a hashable value. A model says where it begins, which steps lead on, and what is wrong with a state. A process that
crashes is one that is never chosen again, and one that sleeps is chosen late: both come of themselves, for every order of
steps is tried. What must be possible whoever has crashed is asked by `stuck`, which goes only by the steps that it is given.
"""

import time
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from storage.metadata.manifest import collector_paused

State = Hashable


class Model(Protocol):
    """A number of processes that change one world by atomic steps."""

    def initial(self) -> Any:
        """Where everything begins."""

    def steps(self, state: Any) -> Iterable[tuple[str, Any]]:
        """Every step that somebody can do next, with what a trace says of it."""

    def wrong(self, state: Any) -> str | None:
        """Which property a state breaks."""


@dataclass(slots=True)
class Exploration:
    """What was visited: every state, or those up to the first that is wrong."""

    states: list[Any]
    parents: list[int]
    transitions: int = 0
    seconds: float = 0.0
    problem: str | None = None
    trace: list[str] = field(default_factory=list)

    def describe(self) -> str:
        """One line of numbers; after it, if something is wrong, the way there."""
        text = f"{len(self.states)} states, {self.transitions} transitions, {self.seconds:.1f} s"
        if self.problem is None:
            return text
        steps = "\n".join(f"  {number:2}. {step}" for number, step in enumerate(self.trace, 1))
        return f"{text}\n{self.problem}:\n{steps}"


# States refer to no state that refers back: looking for such circles among millions costs half of the time.
@collector_paused()
def explore(model: Model, limit: int = 5_000_000) -> Exploration:
    """Visit all states, or stop at the first that is wrong. Raises MemoryError if there are more than `limit`."""
    began = time.perf_counter()
    first = model.initial()
    numbers: dict[Any, int] = {first: 0}
    result = Exploration([first], [-1])
    states, parents, steps, wrong = result.states, result.parents, model.steps, model.wrong
    position = 0
    while position < len(states):
        for _, state in steps(states[position]):
            result.transitions += 1
            if state in numbers:
                continue
            numbers[state] = len(states)
            states.append(state)
            parents.append(position)
            problem = wrong(state)
            if problem is not None:
                result.problem = problem
                result.trace = _trace(model, result, len(states) - 1)
                position = len(states)
                break
        position += 1
        if len(states) > limit:
            raise MemoryError(f"More than {limit} states.")
    result.seconds = time.perf_counter() - began
    return result


@collector_paused()
def stuck(
    model: Model, explored: Exploration, is_end: Callable[[Any], bool], is_allowed: Callable[[str], bool]
) -> list[str] | None:
    """The way to a state from which no allowed steps lead to an end, if there is one.

    Goes backwards from the ends, along the allowed steps alone.
    """
    numbers = {state: number for number, state in enumerate(explored.states)}
    before: list[list[int]] = [[] for _ in explored.states]
    for number, state in enumerate(explored.states):
        for label, after in model.steps(state):
            if is_allowed(label):
                before[numbers[after]].append(number)
    waiting = [number for number, state in enumerate(explored.states) if is_end(state)]
    good = set(waiting)
    while waiting:
        for number in before[waiting.pop()]:
            if number not in good:
                good.add(number)
                waiting.append(number)
    worst = next((number for number in range(len(explored.states)) if number not in good), None)
    return None if worst is None else _trace(model, explored, worst)


def _trace(model: Model, explored: Exploration, number: int) -> list[str]:
    return list(_backwards(model, explored, number))[::-1]


def _backwards(model: Model, explored: Exploration, number: int) -> Iterator[str]:
    while explored.parents[number] >= 0:
        parent = explored.parents[number]
        target = explored.states[number]
        yield next(label for label, state in model.steps(explored.states[parent]) if state == target)
        number = parent
