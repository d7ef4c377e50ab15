"""Stop one operation at a step, run another to its end, let the first go on or die: every pair, every step that matters.

A schedule is run in one thread. A step of the first operation that has nothing to do with what the second reads and writes
may as well come before it: the schedules with the second on either side of that step are one, and only the last is run.
That reduction loses nothing, for the files that each step reads and writes are known, those of lists among them.
"""

import gc
import re
import zlib
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from itertools import chain, permutations, product
from typing import Any, Self

from storage import Catalog, StorageError
from storage.engines import duckdb_merge
from storage.maintain import compaction
from storage.metadata import manifest
from storage.read import scan
from storage.write import table_write
from tests.interleavings.checks import Question, Seen, questions, rewritten_history, settle, unseen
from tests.interleavings.memory_files import Files, Killed, MemoryFileIO, Process, ProcessClock, Step, meet
from tests.interleavings.operations import KEYLESS, OPERATIONS, Operation, prepare
from tests.interleavings.recall import Mark, forget_what_was_done, recall
from tests.scale import LONG

WAREHOUSE = "/warehouse"
DONE, FAILED = "done", "failed"
_FINALS_KEPT = 20_000
_DEATHS = 5
# Files that tables and branches are seen by; holds, lists and data files are told from others by nobody, or left to cleaning.
_MADE_FOR_GOOD = re.compile(r"/(snapshot/snapshot|schema/schema|tag/tag(?!-snapline-hold)|consumer/consumer)-|/ORIGIN$")
# What tells a caller to look again, or that others came first, may be answered whenever others are there.
_OVERTAKEN = ("CommitConflict", "TakenBack", "CommitOutcomeUnknown", "RowsChanged", "Moved", "MainReplaced")
_NOTHING_DONE = "Nothing is done"
# Where others take away what was there, whoever reads it is told that this is why.
_GONE = re.compile(r"NotFound: .*(ha(s|ve) expired|is about to|not the table any more|not in its history)")
_MOST_BEFORE = 3


@dataclass(frozen=True, slots=True)
class Place:
    """Where schedules are run: the tables at the start, and the kind of file system."""

    scenario: str
    is_local: bool

    def __str__(self) -> str:
        return f"{self.scenario} {'local' if self.is_local else 'object store'}"


@dataclass(frozen=True, slots=True)
class Schedule:
    """`second` runs when `first` has made `point` steps; then `first` goes on. Or it dies, when it has made `dies` steps, and
    is repeated: at `point`, before the second runs, or later.
    """

    place: Place
    first: str
    point: int
    second: str
    dies: int | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """How an operation ended: what it returned, if that tells what it saw, or how it failed."""

    kind: str
    said: Any = None


@dataclass(frozen=True, slots=True)
class Violation:
    """What is wrong after a schedule; `step` is where the first was stopped."""

    schedule: Schedule
    step: str
    what: str

    def __str__(self) -> str:
        schedule = self.schedule
        dies = "" if schedule.dies is None else f", the first dies after {schedule.dies} steps and is repeated"
        stopped = f"{schedule.first!r} stopped before step {schedule.point} ({self.step})"
        return f"[{schedule.place}] {stopped}, then {schedule.second!r}{dies}: {self.what}"


class Broken(BaseException):
    """The second operation has failed, in the midst of the first, with an error that is none of the store."""


class _OneThread:
    """Stands for a pool of threads: a schedule has but one, so that each step comes when it is meant to."""

    def __init__(self, *_: object) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    map = staticmethod(map)


def use_one_thread(setattr: Callable[[object, str, Any], None]) -> None:
    """Let this Python process start no threads for tables, for as long as `setattr` lasts."""
    for module in (compaction, scan, table_write):
        setattr(module, "ThreadPoolExecutor", _OneThread)
    # Several give the rows of a merge in an order of their own, and so other numbers to them each time.
    setattr(duckdb_merge, "THREADS", 1)


def open_catalog(process: Process) -> Catalog:
    """The warehouse as a process sees it that knows nothing of others."""
    return Catalog(WAREHOUSE, clock=ProcessClock(process), file_io=MemoryFileIO(process))


def perform(
    operation: Operation, process: Process, *, since: Mark | None = None, marks: list[Mark] | None = None
) -> Answer:
    """Do it as that process, or go on with it. Errors that the store raises on purpose are answers; others go on."""
    try:
        said = recall(operation.act, process, lambda: operation.act(open_catalog(process)), since=since, marks=marks)
    except StorageError as error:
        return Answer(FAILED, f"{type(error).__name__}: {error}")
    return Answer(DONE, said if operation.sees else None)


@cache
def start(place: Place) -> Files:
    """The files that every schedule begins with."""
    files = Files()
    prepare(open_catalog(Process("setup", files, place.is_local)), place.scenario)
    manifest.forget()
    return files.copy()


@lru_cache(1)
def alone(place: Place, name: str) -> tuple[Sequence[Step], Sequence[Mark]]:
    """What an operation does if nobody disturbs it: its steps, and where it can go on."""
    manifest.forget()
    marks: list[Mark] = []
    # The marks are those of what is known: so it is done once more.
    for wanted in (None, marks):
        process = Process("first", start(place).copy(), place.is_local)
        perform(OPERATIONS[name], process, marks=wanted)
    return process.steps, marks


@cache
def serial(place: Place, names: Sequence[str]) -> tuple[list[Answer], Seen]:
    """The answers of operations that follow each other, and what is seen then. `again x` is the repetition."""
    manifest.forget()
    files = start(place).copy()
    answers = [perform(_operation(name), Process(f"{at}", files, place.is_local)) for at, name in enumerate(names)]
    return answers, _judge(place, files, whole=False)[0]


def _operation(name: str) -> Operation:
    return OPERATIONS[name.removeprefix("again ")].again() if name.startswith("again ") else OPERATIONS[name]


_judgements: dict[Any, tuple[Seen, list[str]]] = {}


def _judged(place: Place, files: Files) -> tuple[Seen, list[str]]:
    """What is seen once all are done, and what is wrong with it. The same files are judged once."""
    key = (place, hash(files.key()))
    if key not in _judgements:
        if len(_judgements) > _FINALS_KEPT:
            _judgements.clear()
        _judgements[key] = _judge(place, files.copy())
    return _judgements[key]


def _judge(place: Place, files: Files, *, whole: bool = True) -> tuple[Seen, list[str]]:
    """What is seen, and what is wrong; unless `whole`, with what is seen alone."""
    wrong = list(_asked(place, ("unseen",), unseen, files.copy())) if whole else []
    try:
        asked = _asked(place, ("settled", place.scenario), partial(_settled, place), files)
    except StorageError as error:
        return {}, [
            f"a publication that nobody can end, or tables that nobody can list: {type(error).__name__}: {error}"
        ]
    seen: Seen = {}
    for name, question in asked:
        if not whole and name[0] != "seen":
            continue
        try:
            answer = _asked(place, name, question, files.copy())
        except (StorageError, OSError) as error:
            answer = [f"{' '.join(name)}: {type(error).__name__}: {error}"]
        if name[0] == "seen":
            seen[" ".join(name[1:])] = answer
            wrong += answer if isinstance(answer, list) else []
        else:
            wrong += answer
    return seen, wrong


def _settled(place: Place, catalog: Catalog) -> list[tuple[tuple[str, ...], Question]]:
    """What can be asked once nothing is open any more."""
    settle(catalog)
    return list(questions(catalog, with_changes=place.scenario not in KEYLESS))


def _asked(place: Place, name: Sequence[str], question: Question, files: Files) -> Any:
    # By a name of its own: who settles writes files, and who asks afterwards must not give the same names.
    process = Process(name[0], files, place.is_local)
    return recall(tuple(name), process, lambda: question(open_catalog(process)))


@dataclass
class Run:
    """A schedule that was run: the steps of both operations, and what is wrong."""

    first: list[Step]
    second: list[Step]
    wrong: list[str]


def run(schedule: Schedule) -> Run:
    """Run one schedule and check everything."""
    place = schedule.place
    first, second = OPERATIONS[schedule.first], OPERATIONS[schedule.second]
    manifest.forget()
    since = max(
        (mark for mark in alone(place, schedule.first)[1] if len(mark.steps) <= schedule.point),
        key=lambda mark: len(mark.steps),
    )
    process = since.process("first", is_local=place.is_local)
    files = process.files
    other = Process("second", files, place.is_local)
    answers: dict[str, Answer] = {}

    def stop(process: Process, step: Step) -> None:
        made = len(process.steps)
        if made >= schedule.point and "second" not in answers and schedule.dies != schedule.point:
            try:
                answers["second"] = perform(second, other)
            except Exception as error:
                # No handler of the first may have a look at it.
                raise Broken from error
        if schedule.dies is not None and made >= schedule.dies:
            raise Killed

    process.before = stop
    groups = [[first.name], [second.name]] if schedule.dies == schedule.point else [[first.name, second.name]]
    groups += [] if schedule.dies is None else [[f"again {first.name}"]]
    try:
        with suppress(Killed):
            answers["first"] = perform(first, process, since=since)
        if "second" not in answers:
            answers["second"] = perform(second, other)
        ended = [answers.get("first"), answers["second"]]
        if schedule.dies is not None:
            ended.append(perform(first.again(), Process("again", files, place.is_local)))
    except (Exception, Broken) as error:
        # Only errors of the store may come out of it.
        what = error.__cause__ if isinstance(error, Broken) else error
        return Run(process.steps, other.steps, [f"{type(what).__name__}: {what}"])
    return Run(process.steps, other.steps, judged(place, files, groups, ended))


def judged(place: Place, files: Files, groups: Sequence[Sequence[str]], answers: Sequence[Answer | None]) -> list[str]:
    """What is wrong once all operations have ended. `groups`: those of a group ran side by side, groups after each other;
    `answers` are theirs, in that order; None is the answer of those that died.
    """
    seen, problems = _judged(place, files)
    wrong = [*rewritten_history(files, hints_rise=place.is_local), *problems]
    wrong += _unfounded(place, [name for group in groups for name in group], answers)
    if not wrong and not explained(place, groups, answers, seen):
        names = [name for group in groups for name in group]
        shown = [(name, answer and (answer.kind, answer.said)) for name, answer in zip(names, answers, strict=True)]
        wrong.append(f"no order explains {shown}; then: {_difference(place, names, seen)}")
    return wrong


def explained(place: Place, groups: Sequence[Sequence[str]], answers: Sequence[Answer | None], seen: Seen) -> bool:
    """Whether some serial order of operations gives those answers and is seen so.

    What has failed, or never answered (None), may be left out; so may a repetition that has ended what is in.
    """
    given = [name for group in groups for name in group]
    taken_for = (_taken_for(name, answer) for name, answer in zip(given, answers, strict=True))
    return any(_explained(place, groups, names, answers, seen) for names in product(*taken_for))


def _taken_for(name: str, answer: Answer | None) -> Sequence[str]:
    """What an operation may have been: itself, or its beginning."""
    begins_with = _operation(name).begins_with
    return [name] if begins_with is None or _must_be_in(answer) else [name, begins_with]


def _explained(
    place: Place,
    groups: Sequence[Sequence[str]],
    names: Sequence[str],
    answers: Sequence[Answer | None],
    seen: Seen,
) -> bool:
    numbers = iter(range(len(names)))
    orders = product(*(list(_orders([next(numbers) for _ in group])) for group in groups))
    for order in sorted((tuple(chain(*combination)) for combination in orders), key=len, reverse=True):
        done = {names[index] for index in order}
        if any(_is_twice(name, done) for name in done):
            continue
        left_out = set(range(len(names))) - set(order)
        if any(_must_be_in(answers[index]) and not _is_part(names[index], done) for index in left_out):
            continue
        said, state = serial(place, tuple(names[index] for index in order))
        if state == seen and all(
            _agrees(_operation(names[index]), answers[index], serial_answer)
            or _went_at_once(place, answers[index], serial_answer)
            for index, serial_answer in zip(order, said, strict=True)
        ):
            return True
    return False


def _unfounded(place: Place, names: Sequence[str], answers: Sequence[Answer | None]) -> Iterator[str]:
    """Errors that blame the call or the table, and that an operation does not give after any order of a few of the others."""
    for number, answer in enumerate(answers):
        if answer is None or answer.kind != FAILED or _NOTHING_DONE in answer.said:
            continue
        kind = answer.said.partition(":")[0]
        others = [*names[:number], *names[number + 1 :]]
        if kind in _OVERTAKEN or (_GONE.match(answer.said) and any(_operation(name).takes_away for name in others)):
            continue
        serial_answers = (
            serial(place, (*before, names[number]))[0][-1]
            for count in range(min(len(others), _MOST_BEFORE) + 1)
            for before in permutations(others, count)
        )
        if not any(
            serial_answer.kind == FAILED and serial_answer.said.startswith(f"{kind}:")
            for serial_answer in serial_answers
        ):
            yield f"{names[number]!r} fails as in no order: {answer.said}"


def _must_be_in(answer: Answer | None) -> bool:
    return answer is not None and answer.kind == DONE


def _is_twice(name: str, done: Collection[str]) -> bool:
    """Whether an operation is the repetition of one that is done, and that does nothing when it is repeated."""
    return _is_repetition(name, done) and _operation(name).once


def _is_part(name: str, done: Collection[str]) -> bool:
    """Whether an operation may have been the end of one that is done: both are one then, which took effect in between."""
    return _is_repetition(name, done) and (_operation(name).once or _operation(name).goes_on)


def _is_repetition(name: str, done: Collection[str]) -> bool:
    return name.startswith("again ") and name.removeprefix("again ") in done


def _orders(numbers: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Every order of each part of them."""
    return chain(*(permutations(numbers, count) for count in range(len(numbers) + 1)))


def _agrees(operation: Operation, answer: Answer | None, serial_answer: Answer) -> bool:
    if answer is None or (answer.kind == FAILED and (operation.may_remain or serial_answer.kind == FAILED)):
        return True
    if answer.kind == FAILED and str(answer.said).startswith("CommitOutcomeUnknown"):
        # It may have been done.
        return True
    return answer == serial_answer


def _went_at_once(place: Place, answer: Answer | None, serial_answer: Answer) -> bool:
    """Whether what two processes delete at the same moment counts as deleted by both: an answer to a deletion may be lost on its
    way from an object store, so that nobody can say whose it was.
    """
    return (
        not place.is_local
        and answer == Answer(DONE, None)
        and serial_answer.kind == FAILED
        and "does not exist" in serial_answer.said
    )


def _difference(place: Place, names: Sequence[str], seen: Seen) -> str:
    """Where what is seen differs from one operation after the other."""
    expected = serial(place, tuple(names[:2]))[1]
    parts = []
    for where in sorted({*seen, *expected}):
        ours, theirs = (contents.get(where, {}) for contents in (seen, expected))
        parts += [
            f"{where}: {key} is {ours.get(key)}, in order {theirs.get(key)}"
            for key in sorted({*ours, *theirs})
            if ours.get(key) != theirs.get(key)
        ]
    return "; ".join(parts) or "the same as in order, with other answers"


@dataclass
class Outcome:
    """What came of all schedules of some pairs."""

    points: int
    schedules: int
    violations: list[Violation]


def explore(place: Place, first: str, second: str, *, every_death: bool = LONG, until_found: bool = False) -> Outcome:
    """Every schedule of a pair that can differ from another; unless `every_death`, so many of those in which the first dies
    that each run of the tests is short. `until_found`: no more after one that violates something.
    """
    gc.disable()
    try:
        return _explore(place, first, second, every_death=every_death, until_found=until_found)
    finally:
        # Most of what a schedule makes is remembered: the collector would look at it again and again.
        gc.enable()
        gc.collect(0)


def _explore(place: Place, first: str, second: str, *, every_death: bool, until_found: bool) -> Outcome:
    steps, _ = alone(place, first)
    outcome = Outcome(len(steps) + 1, 0, [])
    point: int | None = 0
    while point is not None:
        done = run(Schedule(place, first, point, second))
        _note(outcome, Schedule(place, first, point, second), steps, done)
        deaths = list(taken_back(done.first, point))
        if 0 < point < len(steps) and steps[point - 1].writes:
            deaths.append(point)
        for dies in deaths:
            dying = Schedule(place, first, point, second, dies)
            if (every_death or _is_drawn(dying)) and not (until_found and outcome.violations):
                _note(outcome, dying, steps, run(dying))
        if until_found and outcome.violations:
            break
        reads = {name for step in done.second for name in step.reads}
        writes = {name for step in done.second for name in step.writes}
        later = range(point, len(steps))
        point = next((at + 1 for at in later if meet(steps[at], reads, writes)), None)
    return outcome


def taken_back(steps: Sequence[Step], point: int) -> Iterator[int]:
    """How many steps come before each by which a process takes away a snapshot, or another file that tables consist of,
    that it has made since a point: what it leaves if it dies there was meant to be seen by nobody.
    """
    made: set[str] = set()
    for number, step in enumerate(steps[point:], point):
        files = {path for path in step.writes if not path.endswith("/") and _MADE_FOR_GOOD.search(path)}
        if step.name.endswith("delete") and files & made:
            yield number
        made |= files


def _is_drawn(schedule: Schedule) -> bool:
    return zlib.crc32(str(schedule).encode()) % _DEATHS == 0


def _note(outcome: Outcome, schedule: Schedule, steps: Sequence[Step], done: Run) -> None:
    outcome.schedules += 1
    at = str(steps[schedule.point]) if schedule.point < len(steps) else "its end"
    outcome.violations += [Violation(schedule, at, what) for what in done.wrong]


def names_in(scenario: str) -> list[str]:
    """The operations that are tried on the tables of a scenario."""
    return [operation.name for operation in OPERATIONS.values() if scenario in operation.scenarios]


def firsts_in(scenario: str) -> list[str]:
    """Those of them that are stopped at each step."""
    return [name for name in names_in(scenario) if not OPERATIONS[name].only_second]


def forget_all() -> None:
    """Know nothing of what operations did before: the code has changed."""
    for known in (start, alone, serial):
        known.cache_clear()
    _judgements.clear()
    forget_what_was_done()
