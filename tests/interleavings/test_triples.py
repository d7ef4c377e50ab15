"""Writers, whom others overtake while they commit, and then what they look back at expires: every pair of moments.

The first operation is stopped twice: before one step for writes of others, before the same or a later one for an expiry. In a
pair the expiry leaves nothing that is older than what the first finds next; here it does.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from storage.metadata import manifest
from tests.interleavings.memory_files import Process, Step
from tests.interleavings.operations import EXPIRING, KEYED, OPERATIONS, PLAIN
from tests.interleavings.schedules import Answer, Broken, Place, alone, judged, perform, start
from tests.scale import amount

_SHOWN = 12
# So many schedules of a first operation are tried, about; of longer ones one in so many.
_MOST = amount(150, 100_000, full=400)
OVERTAKING, EXPIRY = "several writes", "expire all"
FIRSTS = [
    (place, name)
    for place, names in (
        (
            KEYED,
            ["write", "write without id", "stream write", "overwrite", "delete", "update", "merge into", "compact"],
        ),
        (KEYED, ["merge", "fast forward", "rollback", "create tag", "create branch", "publish", "write to adopt"]),
        (PLAIN, ["write", "stream write", "overwrite", "delete", "update", "merge into", "compact", "merge"]),
        (EXPIRING, ["write", "write what has expired", "compact"]),
    )
    for name in names
]


@dataclass
class Done:
    """A schedule: how many steps the first took, and what is wrong."""

    steps: int
    wrong: list[str]


def run(place: Place, first: str, overtaken: int, expired: int) -> Done:
    """Let others write before one step of the first, and expire all they can before another, which is not an earlier one."""
    manifest.forget()
    files = start(place).copy()
    process = Process("first", files, place.is_local)
    answers: dict[str, Answer] = {}

    def others(made: int) -> None:
        for name, point in ((OVERTAKING, overtaken), (EXPIRY, expired)):
            if made >= point and name not in answers:
                # Known from now on: it makes steps itself.
                answers[name] = Answer("", None)
                answers[name] = perform(OPERATIONS[name], Process(name, files, place.is_local))

    def stop(process: Process, step: Step) -> None:
        try:
            others(len(process.steps))
        except Exception as error:
            raise Broken from error

    process.before = stop
    try:
        answers["first"] = perform(OPERATIONS[first], process)
        others(max(overtaken, expired))
    except (Exception, Broken) as error:
        what = error.__cause__ if isinstance(error, Broken) else error
        return Done(len(process.steps), [f"{type(what).__name__}: {what}"])
    names = [first, OVERTAKING, EXPIRY]
    answered = [answers["first"], answers[OVERTAKING], answers[EXPIRY]]
    return Done(len(process.steps), judged(place, files, [names], answered))


def schedules(place: Place, first: str) -> Iterator[tuple[int, int, Done]]:
    """All of them, or a share: the moments at which others come, in steps of the first."""
    points = len(alone(place, first)[0]) + 1
    stride = 1 + points**2 // _MOST
    for overtaken in range(0, points, 1 + stride // points):
        # Up to the expiry all is as without one.
        last = run(place, first, overtaken, sys.maxsize)
        yield overtaken, last.steps + 1, last
        for expired in range(overtaken, last.steps + 1):
            if (overtaken + expired) % stride == 0:
                yield overtaken, expired, run(place, first, overtaken, expired)


@pytest.mark.parametrize(("scenario", "first"), FIRSTS, ids=lambda parameter: str(parameter))
def test_what_a_writer_looks_back_at_expires(scenario: str, first: str) -> None:
    place, wrong, count = Place(scenario, is_local=True), [], 0
    for overtaken, expired, done in schedules(place, first):
        count += 1
        wrong += [f"overtaken at {overtaken}, expired at {expired}: {violation}" for violation in done.wrong]
    print(f"{place}: {first}: {count} schedules")
    assert count
    assert not wrong, f"{len(wrong)} violations of {count} schedules:\n" + "\n".join(wrong[:_SHOWN])
