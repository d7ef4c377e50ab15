"""The age of files: a writer and somebody who puts a fence, who sleep for as long as they like, beside orphan cleaning.

Files are there before what names them, so that cleaning goes by their age: one hour passes, once, after which whatever was
written before is old. A snapshot is readable as long as all its files are there.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

LOOK_AFTER = "a writer who was late does not look for his files once he has committed"
TAKE_BACK = "a writer whose files are lost says that he has committed"
WRITE_AGAIN = "who was late with a fence does not look for its lists"
AGE = "cleaning takes files of any age"
LIST_FIRST = "cleaning looks who needs what before it lists the files"

FILES = {"writer": "rows", "fence": "lists"}


class World(NamedTuple):
    """`snapshots`: who made each, on top of the one before; `files` that are there, and which of them are old."""

    snapshots: tuple[str, ...] = ()
    files: frozenset[str] = frozenset()
    old: frozenset[str] = frozenset()
    hours: int = 0
    acked: frozenset[str] = frozenset()
    taken: frozenset[str] = frozenset()

    def is_readable(self, name: str) -> bool:
        return name not in FILES or FILES[name] in self.files


class Process(NamedTuple):
    at: str
    begun: int = 0
    found: frozenset[str] = frozenset()


State = tuple[World, tuple[Process, ...]]
Moves = Iterator[tuple[str, World, Process]]
END = Process("end")


@dataclass(frozen=True)
class AgeModel:
    """`at_once`: cleaning looks who needs what and deletes the rest in one step."""

    cleaners: int = 1
    at_once: bool = True
    omitted: frozenset[str] = frozenset()

    @property
    def names(self) -> tuple[str, ...]:
        return ("writer", "fence", "clock", *(f"cleaning {number + 1}" for number in range(self.cleaners)))

    def initial(self) -> State:
        return World(), (Process("begin"),) * len(self.names)

    def steps(self, state: State) -> Iterator[tuple[str, State]]:
        world, processes = state
        for index, (name, process) in enumerate(zip(self.names, processes, strict=True)):
            if process.at == "end":
                continue
            act = self._commit if name in FILES else self._tick if name == "clock" else self._clean
            for label, after, moved in act(name, world, process):
                yield f"{name}: {label}", (after, (*processes[:index], moved, *processes[index + 1 :]))

    def wrong(self, state: State) -> str | None:
        world, processes = state
        for name in world.acked - world.taken:
            if not world.is_readable(name):
                return f"What {name} has committed and acknowledged cannot be read"
        # Who has created a snapshot and not looked yet may have died: a rollback takes it back.
        looking = {
            name for name, process in zip(self.names, processes, strict=True) if process.at in ("look after", "back")
        }
        newest = world.snapshots[-1] if world.snapshots else ""
        if newest not in looking and not world.is_readable(newest):
            return f"The newest snapshot, of {newest}, cannot be read, and nobody is about to mend that"
        return None

    def _commit(self, name: str, world: World, process: Process) -> Moves:
        file, is_late = FILES[name], process.begun < world.hours
        looks = (LOOK_AFTER if name == "writer" else WRITE_AGAIN) not in self.omitted
        match process.at:
            case "begin":
                yield f"writes its {file}", world._replace(files=world.files | {file}), Process("look", world.hours)
            case "look" if is_late and name == "writer" and file not in world.files:
                yield "was late, and its files are lost: nothing is committed", world, END
            case "look":
                yield "may commit", world, process._replace(at="create")
            case "create" if world.snapshots and not world.is_readable(world.snapshots[-1]):
                yield "cannot read the newest snapshot: refused", world, END
            case "create":
                after = world._replace(snapshots=(*world.snapshots, name))
                yield "creates its snapshot", after, process._replace(at="look after")
            case "look after" if not is_late or not looks or file in world.files:
                yield "acknowledges", world._replace(acked=world.acked | {name}), END
            case "look after" if name == "fence":
                after = world._replace(files=world.files | {file}, old=world.old - {file})
                yield "was late: writes its lists again", after._replace(acked=world.acked | {name}), END
            case "look after" if TAKE_BACK in self.omitted:
                yield "acknowledges", world._replace(acked=world.acked | {name}), END
            case "look after":
                yield "was late, and its files are lost", world, process._replace(at="back")
            case "back":
                after = world._replace(snapshots=(*world.snapshots, "take back"), taken=world.taken | {name})
                yield "takes its commit back", after, END

    @staticmethod
    def _tick(name: str, world: World, process: Process) -> Moves:
        yield "an hour passes", world._replace(hours=world.hours + 1, old=world.files), END

    def _clean(self, name: str, world: World, process: Process) -> Moves:
        needed = frozenset(FILES[one] for one in world.snapshots if one in FILES)
        there = world.files if AGE in self.omitted else world.old
        match process.at:
            case "begin" if LIST_FIRST in self.omitted:
                yield "looks who needs what", world, Process("list late", found=needed)
            case "list late":
                yield "lists old files", world, Process("delete", found=there - process.found)
            case "begin":
                yield f"lists old files: {sorted(there)}", world, Process("look", found=there)
            case "look" if self.at_once:
                yield from self._clean(name, world, Process("delete", found=process.found - needed))
            case "look":
                yield "looks who needs what", world, Process("delete", found=process.found - needed)
            case "delete":
                after = world._replace(files=world.files - process.found, old=world.old - process.found)
                yield f"deletes {sorted(process.found) or 'nothing'}", after, END
