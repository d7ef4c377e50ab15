"""Do nothing twice: what a process does follows from what the file system and the clock have answered it.

What was done is kept as calls and their answers. Done again, the calls are made without the code that made them, and their
answers compared. Once an answer differs from all that were ever given there, the code is run: it is told what has been
answered so far, and goes on for itself from there.
"""

from collections.abc import Callable, Hashable
from functools import lru_cache
from typing import Any, NamedTuple

from storage.format import avro
from storage.metadata.schema import TableSchema
from storage.metadata.snapshot import Snapshot
from tests.interleavings.memory_files import Files, MemoryFileIO, Process, ProcessClock, Step

_CALLS_KEPT = 1_000_000
_TEXTS_KEPT = 20_000


class Undetermined(BaseException):
    """A process does another thing than before, though all that it asked was answered alike."""


class _Call(NamedTuple):
    call: Callable[..., Any]
    given: tuple[Any, ...]
    named: tuple[tuple[str, Any], ...]


class _Raised(NamedTuple):
    """The answer of a call that failed, or the end of what was done."""

    kind: type[Exception]
    arguments: tuple[Any, ...]

    def error(self) -> Exception:
        return self.kind(*self.arguments)


class _Told:
    """Calls with their answers, what came of them if they are all, and what followed other answers."""

    def __init__(self) -> None:
        self.calls: list[_Call] = []
        self.answers: list[Any] = []
        self.end: tuple[Any] | _Raised | None = None
        self.others: dict[tuple[int, Any], _Told] = {}


_told: dict[Hashable, _Told] = {}
_interned: dict[Any, Any] = {}
_kept = 0


def forget_what_was_done() -> None:
    """Do everything anew."""
    global _kept
    _told.clear()
    _interned.clear()
    _kept = 0


class Mark(NamedTuple):
    """Where a process was between two of its calls: it can go on from there as often as wanted."""

    files: Files
    steps: list[Step]
    so_far: list[tuple[_Call, Any]]
    told: _Told
    at: int

    def process(self, name: str, *, is_local: bool) -> Process:
        """The process again, with files of its own."""
        return Process(name, self.files.copy(with_events=True), is_local, steps=list(self.steps))


def recall(
    what: Hashable,
    process: Process,
    do: Callable[[], Any],
    *,
    since: Mark | None = None,
    marks: list[Mark] | None = None,
) -> Any:
    """What `do` returns or raises, with the same steps of the process. `what` names it.

    The process has made no step, or is that of a mark (`since`). `marks` gets one for each call, as far as it is known.
    """
    if _kept > _CALLS_KEPT:
        forget_what_was_done()
    if since is None:
        record, at = _told.setdefault((what, process.name, process.is_local), _Told()), 0
        so_far: list[tuple[_Call, Any]] = []
    else:
        record, at, so_far = since.told, since.at, list(since.so_far)
    file_io = MemoryFileIO(process)
    while True:
        if marks is not None and process.is_between:
            marks.append(Mark(process.files.copy(with_events=True), list(process.steps), list(so_far), record, at))
        if at == len(record.calls):
            break
        call = record.calls[at]
        answer = _answer(file_io, call)
        so_far.append((call, answer))
        if answer == record.answers[at]:
            at += 1
            continue
        other = record.others.get((at, answer))
        if other is None:
            record.others[at, answer] = record = _Told()
            break
        record, at = other, 0
    if record.end is None:
        process.heard = _Tape(so_far, record)
        try:
            record.end = (do(),)
        except Exception as error:
            record.end = _Raised(type(error), error.args)
            raise
    elif isinstance(record.end, _Raised):
        raise record.end.error()
    return record.end[0]


def _answer(owner: Any, call: _Call) -> Any:
    try:
        return call.call(owner, *call.given, **dict(call.named))
    except Exception as error:
        return _Raised(type(error), error.args)


class _Tape:
    """Tells a process what was answered so far, and keeps what it asks from then on."""

    def __init__(self, so_far: list[tuple[_Call, Any]], record: _Told) -> None:
        self._so_far = iter(so_far)
        self._told = record
        self._is_asked = False
        self._is_over = False

    def made(
        self,
        owner: MemoryFileIO | ProcessClock,
        call: Callable[..., Any],
        given: tuple[Any, ...],
        named: dict[str, Any],
    ) -> Any:
        if self._is_asked or self._is_over:
            # Part of another call; or the process is dead.
            return call(owner, *given, **named)
        asked = _Call(call, given, tuple(named.items()))
        before = next(self._so_far, None)
        if before is not None:
            if before[0] != asked:
                raise Undetermined(f"{asked} comes where {before[0]} came")
            answer = before[1]
        else:
            answer = self._ask(owner, asked)
        if isinstance(answer, _Raised):
            raise answer.error()
        return answer

    def _ask(self, owner: MemoryFileIO | ProcessClock, asked: _Call) -> Any:
        global _kept
        self._is_asked = self._is_over = True
        # What no answer comes out of is over: the process has died.
        answer = _answer(owner, asked)
        self._is_asked = self._is_over = False
        self._told.calls.append(_interned.setdefault(asked, asked))
        self._told.answers.append(_interned.setdefault(answer, answer))
        _kept += 1
        return answer


def remember_what_is_parsed(setattr: Callable[[object, str, Any], None]) -> None:
    """Parse equal contents of equal names once, for as long as `setattr` lasts. What is damaged is parsed each time."""
    for kind in (Snapshot, TableSchema):
        setattr(kind, "from_json", staticmethod(lru_cache(_TEXTS_KEPT)(kind.from_json)))
    setattr(avro, "read_records", lru_cache(_TEXTS_KEPT)(avro.read_records))
