"""What is recalled is what would have been done."""

import itertools

import pytest

from tests.interleavings.memory_files import Files, MemoryFileIO, Process
from tests.interleavings.operations import HALF, KEYED, PLAIN
from tests.interleavings.recall import Undetermined, forget_what_was_done, recall
from tests.interleavings.schedules import Place, Run, Schedule, alone, forget_all, run


def _outcomes(schedules: list[Schedule], *, recalled: bool) -> list[Run]:
    forget_all()
    outcomes = []
    for schedule in schedules:
        if not recalled:
            forget_all()
        outcomes.append(run(schedule))
    return outcomes


@pytest.mark.parametrize(
    ("place", "first", "second"),
    [
        (Place(KEYED, is_local=True), "create tag", "expire"),
        (Place(PLAIN, is_local=True), "write", "writes and expiry"),
        (Place(HALF, is_local=True), "drop table", "recover"),
        (Place(KEYED, is_local=False), "create tag", "delete tag"),
    ],
)
def test_schedules_end_alike_whether_they_are_recalled_or_run(place: Place, first: str, second: str) -> None:
    """Step by step, with what each step read and wrote; some of the first operations die."""
    points = range(0, len(alone(place, first)[0]) + 1, 12)
    schedules = [Schedule(place, first, point, second, dies) for point in points for dies in (None, point or None)]
    assert _outcomes(schedules, recalled=True) == _outcomes(schedules, recalled=False)


def test_whoever_does_another_thing_on_the_same_answers_is_noticed() -> None:
    forget_what_was_done()
    files = Files()
    numbers = itertools.count()

    def do(process: Process) -> list[str]:
        file_io = MemoryFileIO(process)
        file_io.exists("/a")
        file_io.exists(f"/{next(numbers)}")
        return [file.name for file in file_io.list_files("/d")]

    first = Process("p", files.copy())
    assert recall("what", first, lambda: do(first)) == []
    again = Process("p", files.copy())
    assert recall("what", again, lambda: do(again)) == []
    assert [str(step) for step in first.steps] == [str(step) for step in again.steps]
    MemoryFileIO(Process("other", files)).write_bytes("/d/b", b"")
    other = Process("p", files)
    with pytest.raises(Undetermined):
        recall("what", other, lambda: do(other))
