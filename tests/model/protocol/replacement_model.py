"""A branch that becomes main, beside somebody who deletes the branch, and writers of main. Calls may be repeated meanwhile.

Each log is a tuple of what its snapshots did. What comes of a closing snapshot is decided once: `outcomes` holds it, by log and
number.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

LOOK = "who closes a log does not look at the other side"
LOOK_FIRST = "who closes a log looks at the other side first"
DECIDE = "what comes of a closed log is not decided by a file that is created if absent"
GIVES_UP = "a repeated call asks whether there is such a branch before it opens what was closed"
CLOSE = "main is not closed before it is replaced"


class World(NamedTuple):
    main: tuple[str, ...] = ("begun",)
    branch: tuple[str, ...] = ("begun",)
    is_replaced: bool = False
    is_removed: bool = False
    outcomes: frozenset[tuple[str, int, str]] = frozenset()
    acked: frozenset[str] = frozenset()

    def outcome(self, log: str, number: int) -> str | None:
        return next((end for name, at, end in self.outcomes if (name, at) == (log, number)), None)


class Process(NamedTuple):
    at: str = "begin"
    number: int = 0


State = tuple[World, tuple[Process, ...]]
Moves = Iterator[tuple[str, World, Process]]
END = Process("end")


@dataclass(frozen=True)
class ReplacementModel:
    """The last replacer and the last deleter are called again and again, until a log has `longest` snapshots."""

    replacers: int = 2
    deleters: int = 2
    writers: int = 1
    longest: int = 4
    omitted: frozenset[str] = frozenset()

    @property
    def names(self) -> tuple[str, ...]:
        kinds = (("replace", self.replacers), ("delete", self.deleters), ("write", self.writers))
        return tuple(f"{kind} {number + 1}" for kind, count in kinds for number in range(count))

    def initial(self) -> State:
        return World(), (Process(),) * len(self.names)

    def steps(self, state: State) -> Iterator[tuple[str, State]]:
        world, processes = state
        for index, (name, process) in enumerate(zip(self.names, processes, strict=True)):
            again = name in (f"replace {self.replacers}", f"delete {self.deleters}")
            if again and process.at != "begin":
                yield f"{name}: ends or dies, and is called again", _moved(state, index, world, Process())
            if process.at == "end":
                continue
            kind = name.split()[0]
            moves = self._write(world, process, name) if kind == "write" else self._end_log(kind, world, process)
            for label, after, moved in moves:
                yield f"{name}: {label}", _moved(state, index, after, moved)

    def wrong(self, state: State) -> str | None:
        world, _ = state
        if world.is_replaced and world.is_removed:
            return "Main is a branch that is deleted"
        visible = world.branch if world.is_replaced else world.main
        if not world.acked <= set(visible):
            return f"Acknowledged and lost: {sorted(world.acked - set(visible))}"
        return None

    @staticmethod
    def can_be_written(state: State) -> bool:
        """Whether main, whichever it is, takes commits."""
        world, _ = state
        return (world.branch if world.is_replaced else world.main)[-1] != "closed"

    def _end_log(self, kind: str, world: World, process: Process) -> Moves:
        """Close the log that ends, look at the other side, decide, act."""
        own, other = ("main", "branch") if kind == "replace" else ("branch", "main")
        log, other_log = getattr(world, own), getattr(world, other)
        number = process.number
        is_in_the_way = other_log[-1] == "closed" or (kind == "replace" and world.is_removed)
        act = "switch" if kind == "replace" else "remove"
        is_done = world.is_replaced if kind == "replace" else world.is_removed
        gives_up = GIVES_UP in self.omitted
        after_close = act if LOOK in self.omitted or LOOK_FIRST in self.omitted else "look"
        match process.at:
            case "begin" if (
                log[-1] == "closed" and not is_done and not ((world.is_replaced or world.is_removed) and gives_up)
            ):
                yield f"sees that {own} is closed", world, Process(after_close, len(log))
            case "begin" if world.is_replaced or world.is_removed:
                yield "sees that it is done, or that there is no such branch", world, END
            case "begin" if kind == "replace" and any(snapshot.startswith("write") for snapshot in log):
                yield "sees that main has moved on: refuses", world, END
            case "begin" if len(log) >= self.longest:
                return
            case "begin" if LOOK_FIRST in self.omitted:
                yield f"looks at {other}", world, END if is_in_the_way else Process("close", len(log))
            case "begin" if CLOSE in self.omitted and kind == "replace":
                yield f"reads {own}", world, Process("look", len(log))
            case "begin":
                yield f"reads {own}", world, Process("close", len(log))
            case "close" if len(log) > number:
                yield f"finds another snapshot on top of {own}", world, Process()
            case "close":
                closed = world._replace(**{own: (*log, "closed")})
                yield f"closes {own}", closed, Process(after_close, number + 1)
            case "look":
                wish = "open" if is_in_the_way else act
                at = wish if DECIDE in self.omitted else f"decide {wish}"
                yield (
                    f"sees that {other} is {'closed or gone' if is_in_the_way else 'open'}",
                    world,
                    Process(at, number),
                )
            case "decide switch" | "decide remove" | "decide open":
                outcome = world.outcome(own, number) or process.at.split()[1]
                after = world._replace(outcomes=world.outcomes | {(own, number, outcome)})
                yield f"decides, or learns, the outcome of {own} {number}: {outcome}", after, Process(outcome, number)
            case "switch":
                yield "makes the branch main", world._replace(is_replaced=True), END
            case "remove":
                yield "removes the branch", world._replace(is_removed=True), END
            case "open" if len(log) > number:
                yield f"sees that {own} is open", world, END
            case "open":
                yield f"opens {own}", world._replace(**{own: (*log, "opened")}), END

    @staticmethod
    def _write(world: World, process: Process, name: str) -> Moves:
        match process.at:
            case "begin" if world.is_replaced or world.main[-1] == "closed":
                yield "sees that main is closed: refused", world, END
            case "begin":
                yield f"reads that {len(world.main)} is the newest of main", world, Process("create", len(world.main))
            case "create" if len(world.main) > process.number:
                yield f"finds snapshot {process.number + 1}", world, Process()
            case "create":
                after = world._replace(main=(*world.main, name), acked=world.acked | {name})
                yield "commits: acknowledged", after, END


def _moved(state: State, index: int, world: World, process: Process) -> State:
    _, processes = state
    return world, (*processes[:index], process, *processes[index + 1 :])
