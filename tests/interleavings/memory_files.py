"""A file system in memory that many processes share, each with its own view, clock and names.

Each call of a process to the file system, and each look at its clock, is a step. Before a step the process asks whether it
may go on: there another process can run, or this one dies. What a step read and wrote is noted, so that a schedule that
cannot differ from another one need not be run.

Nothing but these calls tells a process anything of the world: what it does next follows from what they have answered. So
whoever wants to can hear of each (`Process.heard`), and give the answer in its place.
"""

import errno
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import wraps
from itertools import count
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

import pyarrow as pa

from storage import AlreadyExists, Clock, NotFound
from storage.directory_lock import Witness, is_lost
from storage.file_io import FileIO

START_MS = 1_700_000_000_000
_MOST_STEPS = 4000
CLOCK = "the clock"
_numbers = count()
P = ParamSpec("P")
T = TypeVar("T")


class Killed(BaseException):
    """The process has died: no handler of its own runs to any effect."""


class Stuck(AssertionError):
    """A process goes on for ever."""


@dataclass(slots=True)
class Step:
    """One call: what it was, and what it read and wrote. A name that ends with `/` is the list of a directory."""

    name: str
    path: str
    reads: set[str] = field(default_factory=set)
    writes: set[str] = field(default_factory=set)

    def __str__(self) -> str:
        return f"{self.name} {self.path}"


@dataclass(slots=True)
class Event:
    """A file that came or changed (`data`), or went (None), and who did it."""

    process: str
    path: str
    data: bytes | None


class Files:
    """What is there: files with the times of their last writing, directories, and the time."""

    def __init__(self) -> None:
        self.contents: dict[str, tuple[bytes, int]] = {}
        self.directories: set[str] = set()
        self.now_ms = START_MS
        self.events: list[Event] = []
        # What is directly in each directory; sets that never change, so that copies can share them.
        self._names: dict[str, frozenset[str]] = {}

    def copy(self, *, with_events: bool = False) -> "Files":
        """The same files; no events have come to them yet, or the same."""
        other = Files()
        other.contents = dict(self.contents)
        other.directories = set(self.directories)
        other.now_ms = self.now_ms
        other._names = dict(self._names)
        other.events = list(self.events) if with_events else []
        return other

    def put(self, process: str, path: str, data: bytes) -> None:
        """Let a file hold something else, or be there."""
        if path not in self.contents:
            self._add_name(path)
        self.contents[path] = data, self.now_ms
        self.events.append(Event(process, path, data))

    def remove(self, process: str, path: str) -> tuple[bytes, int]:
        """Take a file away that is there; what it was."""
        self.events.append(Event(process, path, None))
        gone = self.contents.pop(path)
        self._drop_name(path)
        return gone

    def move(self, process: str, path: str, target: str) -> None:
        """Give a file another name."""
        self.contents[target] = self.remove(process, path)
        self._add_name(target)

    def add_directory(self, path: str) -> None:
        self.directories.add(path)
        self._add_name(path)

    def drop_directory(self, path: str) -> None:
        self.directories.discard(path)
        self._drop_name(path)

    def listed(self, path: str) -> tuple[tuple[str, int, str, int | None], ...]:
        """Name, size in bytes, kind and time of what is directly in a directory, by name."""
        entries: list[tuple[str, int, str, int | None]] = []
        for name in self._names.get(path, ()):
            whole = f"{path}/{name}"
            if whole in self.contents:
                data, modified_ms = self.contents[whole]
                entries.append((name, len(data), "file", modified_ms))
            if whole in self.directories:
                entries.append((name, 0, "directory", None))
        return tuple(sorted(entries))

    def _add_name(self, path: str) -> None:
        parent, _, name = path.rpartition("/")
        self._names[parent] = self._names.get(parent, frozenset()) | {name}

    def _drop_name(self, path: str) -> None:
        if path not in self.contents and path not in self.directories:
            parent, _, name = path.rpartition("/")
            self._names[parent] = self._names.get(parent, frozenset()) - {name}

    def key(self) -> tuple[Any, ...]:
        """Equal for equal states."""
        return frozenset(self.contents.items()), frozenset(self.directories), self.now_ms


class Hearing(Protocol):
    """Who hears of the calls of a process."""

    def made(
        self,
        owner: "MemoryFileIO | ProcessClock",
        call: Callable[..., Any],
        given: tuple[Any, ...],
        named: dict[str, Any],
    ) -> Any:
        """The answer of a call; `call(owner, *given, **named)` makes it."""


@dataclass
class Process:
    """One process: the steps that it made, and what is asked before each."""

    name: str
    files: Files
    is_local: bool = True
    before: Callable[["Process", Step], None] | None = None
    steps: list[Step] = field(default_factory=list)
    names: int = 0
    heard: Hearing | None = None
    # The step of which everything is part that is done meanwhile, what is asked before others, and how many came before.
    _whole: tuple[Step, Callable[["Process", Step], None] | None, int] | None = None

    def step(self, name: str, path: str) -> Step:
        step = Step(name, path)
        if self.before is not None:
            self.before(self, step)
        self.steps.append(step)
        if len(self.steps) > _MOST_STEPS:
            raise Stuck(f"{self.name} made {_MOST_STEPS} steps; the last: {step}")
        return step

    @property
    def is_between(self) -> bool:
        """Whether others can run before the next step."""
        return self._whole is None

    def begin(self, step: Step) -> None:
        """What is done until `end` is part of one step: others wait."""
        self._whole = step, self.before, len(self.steps)
        self.before = None

    def end(self) -> Step:
        """The step with all that it read and wrote."""
        assert self._whole is not None
        step, self.before, made = self._whole
        self._whole = None
        for inner in self.steps[made:]:
            step.reads |= inner.reads
            step.writes |= inner.writes
        return step


Owner = TypeVar("Owner", "MemoryFileIO", "ProcessClock")


def _call(call: Callable[Concatenate[Owner, P], T]) -> Callable[Concatenate[Owner, P], T]:
    """A call by which a process asks or changes the world. Its answer is a value that can be compared and never changes."""

    @wraps(call)
    def made(owner: Owner, *given: P.args, **named: P.kwargs) -> T:
        heard = owner.process.heard
        if heard is None:
            return call(owner, *given, **named)
        answer: T = heard.made(owner, call, given, named)
        return answer

    return made


class ProcessClock(Clock):
    """The time that all processes share, and names that only this one gives."""

    def __init__(self, process: Process) -> None:
        self.process = process

    @_call
    def now_ms(self) -> int:
        self.process.step("look at", CLOCK).reads.add(CLOCK)
        return self.process.files.now_ms

    @_call
    def pass_ms(self, duration_ms: int) -> None:
        """Let time go by, for all."""
        self.process.files.now_ms += duration_ms

    def unique_name(self) -> str:
        self.process.names += 1
        return f"{self.process.name.replace(' ', '-')}-{self.process.names:04d}"

    def sleep_ms(self, duration_ms: float) -> None:
        """Waiting takes no time: whoever comes next has come already."""


class _Output(pa.BufferOutputStream):
    """A stream whose content becomes the file's once it is closed."""

    def __new__(cls, store: Callable[[bytes], None]) -> "_Output":
        return super().__new__(cls)

    def __init__(self, store: Callable[[bytes], None]) -> None:
        self._store: Callable[[bytes], None] | None = store

    def close(self) -> None:
        store, self._store = self._store, None
        if store is not None:
            store(self.getvalue().to_pybytes())


class MemoryFileIO(FileIO):
    """One process's view of the files. Without `is_local`, directories are but parts of names, as on object stores."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.lock = None
        # What is remembered of files is remembered by protocol: no process knows what another has read.
        self.protocol = f"memory-{next(_numbers)}"
        self.storage_options = {}
        self._clock = ProcessClock(process)
        self._local = process.is_local

    def __reduce__(self) -> tuple[Any, ...]:
        raise AssertionError("work goes to another process: the harness has one thread")

    def url(self, path: str) -> str:
        return f"memory://{path}"

    @property
    def _files(self) -> Files:
        return self.process.files

    # --- reading

    @_call
    def read_bytes(self, path: str) -> bytes:
        self.process.step("read", path).reads.add(path)
        return self._content(path)

    def _content(self, path: str) -> bytes:
        if path not in self._files.contents:
            raise NotFound(f"File {path} does not exist.")
        return self._files.contents[path][0]

    @_call
    def exists(self, path: str) -> bool:
        step = self.process.step("look for", path)
        step.reads |= {path, f"{path}/"}
        return path in self._files.contents or path in self._files.directories

    @_call
    def _listed(self, path: str) -> tuple[tuple[str, int, str, int | None], ...]:
        self.process.step("list", path).reads.add(f"{path}/")
        return self._files.listed(path)

    def _list(self, path: str) -> Iterator[tuple[str, int, str, int | None]]:
        return iter(self._listed(path))

    @_call
    def everything_below(self, path: str) -> tuple[str, ...]:
        """The paths of all files below a directory; no step, since no operation asks."""
        return tuple(self._below(path))

    @_call
    def _opened(self, path: str) -> bytes:
        self.process.step("open", path).reads.add(path)
        return self._content(path)

    def open_input(self, path: str, size_bytes: int | None = None) -> pa.NativeFile:
        return pa.BufferReader(self._opened(path))

    def read_range(self, path: str, start: int, end: int) -> bytes:
        return self._opened(path)[start:end]

    # --- writing

    @_call
    def create_exclusively(self, path: str, data: bytes, *, of: Witness | None = None) -> bool:
        step = self._step_of("create", path, of)
        step.reads.add(path)
        if path in self._files.contents:
            return False
        self._put(step, path, data)
        return True

    @_call
    def write_bytes(self, path: str, data: bytes) -> None:
        self._put(self.process.step("write", path), path, data)

    @_call
    def overwrite(self, path: str, data: bytes, *, of: Witness | None = None) -> None:
        self._put(self._step_of("replace", path, of), path, data)

    def _step_of(self, name: str, path: str, of: Witness | None) -> Step:
        """A step that only happens in the directory of a witness: locally at once with the look, else after it."""
        if of is None:
            return self.process.step(name, path)
        step = self.process.step(
            name if self._local else "look at", path if self._local else str(of.path or of.directory)
        )
        step.reads |= {str(of.path)} if of.path else {f"{of.directory}/"}
        held = self._files.contents.get(str(of.path), (None, 0))[0]
        if (of.path and held != of.content) or (self._local and of.directory not in self._files.directories):
            raise NotFound(f"{of.directory} is another one by now. Nothing is done.")
        if self._local:
            step.reads.update(of.needed)
            lost = next((needed for needed in of.needed if needed not in self._files.contents), None)
            if lost is not None:
                raise is_lost(lost)
        return step if self._local else self.process.step(name, path)

    @_call
    def write_in_place(self, path: str, data: bytes) -> None:
        step = self._step_in_directory("write", path)
        if self._local and _parent(path) not in self._files.directories:
            raise FileNotFoundError(path)
        self._put(step, path, data)

    @_call
    def read_number(self, path: str) -> int | None:
        step = self.process.step("read", path)
        step.reads.add(path)
        return self._number(path)

    def _number(self, path: str) -> int | None:
        text = self._files.contents.get(path, (b"", 0))[0].strip()
        return int(text) if text.isdigit() else None

    @_call
    def raise_number(self, path: str, number: int, *, of: Witness | None = None) -> int:
        if not self._local:
            held = self.read_number(path) or 0
            if held < number:
                self.write_bytes(path, str(number).encode())
            return max(held, number)
        step = self._step_of("raise", path, of)
        step.reads |= {path, f"{_parent(path)}/"}
        if _parent(path) not in self._files.directories:
            raise FileNotFoundError(errno.ENOENT, path)
        held = self._number(path) or 0
        if held < number:
            self._put(step, path, str(number).encode())
        return max(held, number)

    @_call
    def replace_if(self, path: str, expected: bytes | None, data: bytes, *, of: Witness | None = None) -> bool:
        if expected is None:
            return self.create_exclusively(path, data, of=of)
        step = self._compare("compare and replace", path, expected, of)
        if step is not None and not self._local:
            step = self._compare("compare and replace", path, expected)
        if step is not None:
            self._put(step, path, data)
        return step is not None

    @_call
    def delete_if(self, path: str, expected: bytes) -> bool:
        step = self._compare("compare and delete", path, expected)
        if step is not None and not self._local:
            step = self._compare("compare and delete", path, expected)
            if step is None:
                # What went in that very moment counts as deleted by this call.
                return path not in self._files.contents
        if step is not None:
            self._remove(step, path)
        return step is not None

    @_call
    def rename_if(self, path: str, target: str, expected: bytes) -> bool:
        assert self._local
        step = self._compare("compare and rename", path, expected)
        if step is None:
            return False
        step.reads.add(target)
        if target in self._files.contents:
            raise AlreadyExists(f"File {target} exists.")
        self._put(step, target, self._files.contents[path][0])
        self._remove(step, path)
        return True

    def _compare(self, name: str, path: str, expected: bytes, of: Witness | None = None) -> Step | None:
        """The step, if the file holds what is expected; on object stores it is made twice: a look, and a request with that
        condition.
        """
        step = self._step_of(name, path, of)
        step.reads.add(path)
        return step if self._files.contents.get(path, (None, 0))[0] == expected else None

    def _step_in_directory(self, name: str, path: str) -> Step:
        step = self.process.step(name, path)
        step.reads |= {path, f"{_parent(path)}/"}
        return step

    @_call
    def make_directory(self, path: str, *, listed: bool = False) -> None:
        self._make_directories(self.process.step("make directory", path), path)

    def open_output(self, path: str) -> pa.NativeFile:
        self._open(path)
        return _Output(lambda data: self._close(path, data))

    @_call
    def _open(self, path: str) -> None:
        step = self.process.step("open for writing", path)
        if self._local:
            self._put(step, path, b"")

    @_call
    def _close(self, path: str, data: bytes) -> None:
        self._put(self.process.step("close", path), path, data)

    @_call
    def delete(self, path: str) -> None:
        self._remove(self.process.step("delete", path), path)

    def copy_files(self, targets: Mapping[str, str]) -> None:
        self._copy(tuple(targets.items()))

    @_call
    def _copy(self, targets: tuple[tuple[str, str], ...]) -> None:
        for path, target in targets:
            step = self.process.step("copy", path)
            step.reads.add(path)
            if path in self._files.contents:
                self._put(step, target, self._content(path))

    @_call
    def delete_directory(self, path: str) -> None:
        """File by file: nothing deletes a directory at once."""
        step = self.process.step("list all of", path)
        step.reads.add(f"{path}//")
        for file_path in self._below(path):
            self._remove(self.process.step("delete", file_path), file_path)
        step = self.process.step("remove directory", path)
        step.reads.add(f"{path}//")
        if self._below(path) and self._local:
            raise OSError(errno.ENOTEMPTY, path)
        if self._local:
            self._forget_directory(step, path)

    def move_directory(self, path: str, target: str) -> None:
        self._move_directory(path, target)

    @_call
    def _move_directory(self, path: str, target: str) -> None:
        self._move(self.process.step("move", path), path, target)

    @_call
    def move_directory_if_absent(self, path: str, target: str, *, of: Witness | None = None) -> bool:
        step = self._step_of("move", path, of)
        try:
            self._move(step, path, target)
        except FileNotFoundError:
            raise NotFound(f"Directory {path} does not exist.") from None
        except OSError as error:
            if error.errno == errno.ENOTEMPTY:
                return False
            raise
        return True

    def move_directory_if(self, path: str, target: str, of: Witness, refuse: Callable[[], None] | None = None) -> None:
        if refuse is None or not self._local:
            if refuse is not None:
                refuse()
            self._move_or_say(path, target, of)
            return
        self._begin("lock", path, of)
        try:
            refuse()
            self._move_or_say(path, target, of)
        finally:
            self._end()

    def _move_or_say(self, path: str, target: str, of: Witness) -> None:
        if not self.move_directory_if_absent(path, target, of=of):
            raise AlreadyExists(f"Directory {target} exists.")

    @_call
    def _begin(self, name: str, path: str, of: Witness | None = None) -> None:
        self.process.begin(self._step_of(name, path, of))

    @_call
    def _end(self) -> None:
        self.process.end()

    @_call
    def wait_for_moves(self, of: Witness) -> None:
        self._step_of("wait for moves", of.directory, of)

    @contextmanager
    def in_place(self, of: Witness) -> Iterator[None]:
        self.wait_for_moves(of)
        yield

    def move_directory_unless(self, path: str, target: str, is_used: Callable[[], bool]) -> bool:
        self._begin("move unless used", path)
        may_move = False
        try:
            may_move = not is_used()
        finally:
            has_moved = self._end_and_move(path, target, may_move)
        return has_moved

    @_call
    def _end_and_move(self, path: str, target: str, may_move: bool) -> bool:
        step = self.process.end()
        if not may_move or path not in self._files.directories:
            return False
        self._move(step, path, target)
        return True

    @_call
    def delete_empty_directory(self, path: str) -> bool:
        step = self.process.step("remove directory", path)
        step.reads |= {f"{path}/", f"{path}//"}
        if self._below(path) or self._inside(path):
            return False
        if self._local:
            self._forget_directory(step, path)
        return True

    def _move(self, step: Step, path: str, target: str) -> None:
        """At once, or on object stores file by file: first each is copied, then each is deleted."""
        step.reads |= {f"{path}//", f"{target}//"}
        if not self._local:
            self._copy_and_delete(self._below(path), path, target)
            return
        if path not in self._files.directories:
            raise FileNotFoundError(errno.ENOENT, path)
        if self._below(target) or self._inside(target):
            raise OSError(errno.ENOTEMPTY, target)
        step.writes |= {f"{path}//", f"{target}//"}
        for file_path in self._below(path):
            self._files.move(self.process.name, file_path, target + file_path.removeprefix(path))
        inside = self._inside(path)
        self._forget_directory(step, path)
        self._make_directories(step, target)
        for directory in inside:
            self._files.add_directory(target + directory.removeprefix(path))

    def _copy_and_delete(self, paths: Sequence[str], path: str, target: str) -> None:
        for file_path in paths:
            step = self.process.step("copy", file_path)
            step.reads.add(file_path)
            self._put(step, target + file_path.removeprefix(path), self._content(file_path))
        for file_path in paths:
            self._remove(self.process.step("delete", file_path), file_path)

    def _below(self, path: str) -> list[str]:
        return sorted(file_path for file_path in self._files.contents if file_path.startswith(f"{path}/"))

    def _inside(self, path: str) -> set[str]:
        return {directory for directory in self._files.directories if directory.startswith(f"{path}/")}

    def _put(self, step: Step, path: str, data: bytes) -> None:
        step.writes.add(path)
        before = self._files.contents.get(path)
        if before is None or (len(before[0]), before[1]) != (len(data), self._files.now_ms):
            step.writes.add(f"{_parent(path)}/")
        self._make_directories(step, _parent(path))
        self._files.put(self.process.name, path, data)

    def _remove(self, step: Step, path: str) -> None:
        step.writes.add(path)
        if path in self._files.contents:
            self._files.remove(self.process.name, path)
            step.writes.add(f"{_parent(path)}/")
            if not self._local:
                self._forget_empty(step, _parent(path))

    def _make_directories(self, step: Step, path: str) -> None:
        while path and path not in self._files.directories:
            self._files.add_directory(path)
            step.writes |= {f"{path}/", f"{_parent(path)}/"}
            path = _parent(path)

    def _forget_directory(self, step: Step, path: str) -> None:
        if path in self._files.directories:
            step.writes |= {f"{path}//", f"{_parent(path)}/"}
            for directory in {path, *self._inside(path)}:
                self._files.drop_directory(directory)

    def _forget_empty(self, step: Step, path: str) -> None:
        """On object stores a directory is there as long as a file is in it."""
        while path and not self._below(path):
            self._files.drop_directory(path)
            step.writes |= {f"{path}/", f"{_parent(path)}/"}
            path = _parent(path)


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


def meet(step: Step, reads: set[str], writes: set[str]) -> bool:
    """Whether it matters if a step is made before or after what reads and writes these."""
    return _overlap(step.writes, reads) or _overlap(step.writes, writes) or _overlap(step.reads, writes)


def _overlap(some: set[str], others: set[str]) -> bool:
    if not some.isdisjoint(others):
        return True
    return any(_below_one(left, others) for left in some if left.endswith("//")) or any(
        _below_one(right, some) for right in others if right.endswith("//")
    )


def _below_one(tree: str, names: set[str]) -> bool:
    root = tree[:-1]
    return any(name.startswith(root) or f"{name}/" == root for name in names)
