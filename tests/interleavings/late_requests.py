"""Requests of an object store that are carried out once more, later.

A client that gets no answer asks again; the first request may still be on its way, and come when its process has long gone on,
or died. Each request that changes something is kept as it was sent, with its condition, and can be sent again at any moment.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from storage import Catalog, StorageError
from storage.directory_lock import Witness
from tests.interleavings.memory_files import Files, MemoryFileIO, Process, ProcessClock
from tests.interleavings.schedules import WAREHOUSE

Act = Callable[[Catalog], Any]
_STEP_MS = 1000


@dataclass(frozen=True)
class Request:
    """A change that was asked for: new content (None: it is to go, or to be a copy of `source`), if there is what is expected.

    `expected`: the content; None for none, `any` for whatever there is.
    """

    path: str
    content: bytes | None
    expected: bytes | str | None = "any"
    source: str | None = None

    def __str__(self) -> str:
        what = f"copy {self.source} to" if self.source else "delete" if self.content is None else "put"
        condition = (
            "" if self.expected == "any" else " if it is not there" if self.expected is None else " if it is the same"
        )
        return f"{what} {self.path}{condition}"

    def carry_out(self, files: Files) -> bool:
        """Do what was asked for; says whether its condition held, and it changed anything."""
        held = files.contents.get(self.path, (None, 0))[0]
        if self.expected not in ("any", held):
            return False
        store = MemoryFileIO(Process("late", files, is_local=False))
        if self.source is not None:
            store.copy_files({self.source: self.path})
        elif self.content is None:
            store.delete(self.path)
        else:
            store.write_bytes(self.path, self.content)
        return files.contents.get(self.path, (None, 0))[0] != held


class Recording(MemoryFileIO):
    """Keeps every request that it sends."""

    def __init__(self, process: Process, sent: list[Request]) -> None:
        super().__init__(process)
        self._sent = sent

    def create_exclusively(self, path: str, data: bytes, *, of: Witness | None = None) -> bool:
        self._sent.append(Request(path, data, None))
        return super().create_exclusively(path, data, of=of)

    def write_bytes(self, path: str, data: bytes) -> None:
        self._sent.append(Request(path, data))
        super().write_bytes(path, data)

    def overwrite(self, path: str, data: bytes, *, of: Witness | None = None) -> None:
        self._sent.append(Request(path, data))
        super().overwrite(path, data, of=of)

    def replace_if(self, path: str, expected: bytes | None, data: bytes, *, of: Witness | None = None) -> bool:
        self._sent.append(Request(path, data, expected))
        return super().replace_if(path, expected, data, of=of)

    def delete_if(self, path: str, expected: bytes) -> bool:
        self._sent.append(Request(path, None, expected))
        return super().delete_if(path, expected)

    def delete(self, path: str) -> None:
        self._sent.append(Request(path, None))
        super().delete(path)

    def copy_files(self, targets: Mapping[str, str]) -> None:
        self._sent += [Request(target, None, source=path) for path, target in targets.items()]
        super().copy_files(targets)


@dataclass(frozen=True)
class State:
    """What there was after a call, what is seen of it, how the call ended, and what it sent."""

    files: Files
    seen: Any
    answer: str
    sent: Sequence[Request] = ()


def opened(name: str, files: Files, sent: list[Request]) -> Catalog:
    process = Process(name, files, is_local=False)
    return Catalog(WAREHOUSE, clock=ProcessClock(process), file_io=Recording(process, sent))


def call(number: int, act: Act, files: Files, observe: Act) -> State:
    """One call, by a process of its own, a second after the one before."""
    files.now_ms += _STEP_MS
    sent: list[Request] = []
    answer = "done"
    try:
        act(opened(f"call {number}", files, sent))
    except StorageError as error:
        answer = type(error).__name__
    return State(files, observe(opened("reader", files.copy(), [])), answer, sent)


def differences(prepare: Act, calls: Sequence[Act], observe: Act) -> list[str]:
    """What is seen, or answered, otherwise because a request of one call was carried out again after a later one, or the same."""
    files = Files()
    prepare(opened("setup", files, []))
    states: list[State] = []
    for number, act in enumerate(calls):
        states.append(call(number, act, states[-1].files.copy() if states else files.copy(), observe))
    descriptions = []
    for first, state in enumerate(states):
        for request in state.sent:
            for moment in range(first, len(calls)):
                wrong = _after(request, moment, states, calls, observe)
                if wrong:
                    descriptions.append(f"{request} of call {first}, carried out after call {moment}: {wrong}")
    return descriptions


def _after(request: Request, moment: int, states: Sequence[State], calls: Sequence[Act], observe: Act) -> str | None:
    files = states[moment].files.copy()
    if not request.carry_out(files):
        return None
    seen = observe(opened("reader", files.copy(), []))
    if seen != states[moment].seen:
        return f"{seen} instead of {states[moment].seen}"
    for number in range(moment + 1, len(calls)):
        after = call(number, calls[number], files, observe)
        if (after.answer, after.seen) != (states[number].answer, states[number].seen):
            return (
                f"call {number} {after.answer}, {after.seen} instead of {states[number].answer}, {states[number].seen}"
            )
    return None
