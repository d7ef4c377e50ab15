"""The age of files: a writer, somebody who puts a fence and somebody who rolls back, who sleep for as long as they like, beside
orphan cleaning.

Files are there before what names them, so that cleaning goes by their age: hours pass, and what was written an hour ago is
old. A snapshot is readable as long as all its files are there. What is rolled back to may expire; then nobody keeps it but a
hold, which cleaning ends once that is old.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

LOOK_AFTER = "a writer who was late does not look for his files once he has committed"
TAKE_BACK = "a writer whose files are lost says that he has committed"
PUT_AGAIN = "who was late with a fence does not put another one on top"
SAME_LISTS = "who was late with a fence writes the same lists again"
AGE = "cleaning takes files of any age"
LIST_FIRST = "cleaning looks who needs what before it lists the files"
MARK = "cleaning does not say how old files it takes"
MARK_FIRST = "cleaning says how old files it takes after it has looked who needs what"
MARK_LOOK = "a late writer looks whether his files are there, not how old files cleaning takes"
MARK_ENDS = "cleaning takes its mark away before it has deleted"
SEEN = "cleaning says that it has seen what came after it looked"
HOLD_LOOK = "who rolls back late does not look whether his hold is there"
HOLD_LATE = "who rolls back late looks whether his hold is there before he commits, not after"

KEPT = "kept"
WRITER, FENCE, ROLLBACK = "writer", "fence", "rollback"


class World(NamedTuple):
    """`snapshots`: who made each, of which file, on top of the one before; `files` that are there, with their hours; `marks`: of
    each cleaning that is under way, the last hour of whose files it takes, and how many snapshots it has seen.
    """

    snapshots: tuple[tuple[str, str], ...] = ()
    files: frozenset[tuple[str, int]] = frozenset({(KEPT, -1)})
    hours: int = 0
    marks: frozenset[tuple[str, int, int]] = frozenset()
    hold: int | None = None
    target: bool = True
    acked: frozenset[tuple[str, str]] = frozenset()
    taken: frozenset[tuple[str, str]] = frozenset()

    def has(self, file: str) -> bool:
        return any(name == file for name, _ in self.files)

    def hour_of(self, file: str) -> int:
        return next((hour for name, hour in self.files if name == file), self.hours)

    @property
    def needed(self) -> frozenset[str]:
        kept = {KEPT} if self.target or self.hold is not None else set()
        return frozenset(
            {file for snapshot in self.snapshots if snapshot not in self.taken for file in snapshot[1:]} | kept
        )

    def without(self, gone: frozenset[str]) -> "World":
        return self._replace(files=frozenset(aged_file for aged_file in self.files if aged_file[0] not in gone))


class Process(NamedTuple):
    at: str
    begun: int = 0
    file: str = ""
    found: frozenset[str] = frozenset()
    until: int = -2


State = tuple[World, tuple[Process, ...]]
Moves = Iterator[tuple[str, World, Process]]
END = Process("end")


@dataclass(frozen=True)
class AgeModel:
    """`who` commits, beside so many cleanings, and an expiry if somebody rolls back, while so many hours pass."""

    who: tuple[str, ...] = (WRITER, FENCE)
    cleaners: int = 1
    hours: int = 1
    omitted: frozenset[str] = frozenset()

    @property
    def names(self) -> tuple[str, ...]:
        cleanings = (f"cleaning {number + 1}" for number in range(self.cleaners))
        return (*self.who, "clock", *cleanings, *(["expiry"] if ROLLBACK in self.who else []))

    def initial(self) -> State:
        return World(), (Process("begin"),) * len(self.names)

    def steps(self, state: State) -> Iterator[tuple[str, State]]:
        world, processes = state
        for index, (name, process) in enumerate(zip(self.names, processes, strict=True)):
            if process.at == "end":
                continue
            others = {"clock": self._tick, "expiry": self._expire}
            act = self._commit if name in self.who else others.get(name, self._clean)
            for label, after, moved in act(name, world, process):
                yield f"{name}: {label}", (after, (*processes[:index], moved, *processes[index + 1 :]))

    def wrong(self, state: State) -> str | None:
        world, processes = state
        for name, file in world.acked - world.taken:
            if not world.has(file):
                return f"What {name} has committed and acknowledged cannot be read"
        # Who has created a snapshot and not looked yet may have died: a rollback takes it back.
        looking = {
            name for name, process in zip(self.names, processes, strict=True) if process.at in ("look after", "back")
        }
        name, file = world.snapshots[-1] if world.snapshots else ("", "")
        if name and (name, file) not in world.taken and name not in looking and not world.has(file):
            return f"The newest snapshot, of {name}, cannot be read, and nobody is about to mend that"
        return None

    def _is_lost(self, name: str, world: World, process: Process) -> bool:
        """Whether who is late finds that his file counts as lost."""
        if process.begun == world.hours:
            return False
        if name == ROLLBACK:
            return world.hold is None and not world.target and HOLD_LOOK not in self.omitted
        hour, own = world.hour_of(process.file), (name, process.file)
        number = world.snapshots.index(own) if own in world.snapshots else len(world.snapshots)
        is_taken = any(hour <= until and seen <= number for _, until, seen in world.marks)
        return not world.has(process.file) or (is_taken and MARK_LOOK not in self.omitted)

    def _commit(self, name: str, world: World, process: Process) -> Moves:
        own = (name, process.file)
        match process.at:
            case "begin" if name == ROLLBACK:
                moved = Process("look back", world.hours, KEPT)
                yield "holds what it goes back to", world._replace(hold=world.hours), moved
            case "look back" if not world.target:
                yield "finds it expired: nothing is done", world._replace(hold=None), END
            case "look back":
                yield "finds it there", world, process._replace(at="look")
            case "begin":
                file = f"{name} {len([snapshot for snapshot in world.snapshots if snapshot[0] == name])}"
                yield f"writes {file}", self._written(world, file), Process("look", world.hours, file)
            case "look" if name != FENCE and self._is_lost(name, world, process):
                yield "was late, and its files are lost: nothing is committed", world, END
            case "look":
                yield "may commit", world, process._replace(at="create")
            case "create" if world.snapshots and not self._is_readable(world):
                yield "cannot read the newest snapshot: refused", world, END
            case "create":
                after = world._replace(snapshots=(*world.snapshots, own))
                yield "creates its snapshot", after, process._replace(at="look after")
            case "look after" if not self._looks_after(name) or not self._is_lost(name, world, process):
                after = world._replace(acked=world.acked | {own}, hold=None if name == ROLLBACK else world.hold)
                yield "acknowledges", after, END
            case "look after" if name == FENCE and SAME_LISTS in self.omitted:
                after = self._written(world, process.file)
                yield "was late: writes its lists again", after._replace(acked=world.acked | {own}), END
            case "look after" if name == WRITER and TAKE_BACK in self.omitted:
                yield "acknowledges", world._replace(acked=world.acked | {own}), END
            case "look after":
                yield "was late, and its files are lost", world, process._replace(at="back")
            case "back" if world.snapshots[-1] != own:
                yield "others came on top: the outcome is unknown", world, END
            case "back":
                # With lists of its own, which are young, and no rows.
                after = world._replace(taken=world.taken | {own})
                yield "takes its commit back", after, Process("begin") if name == FENCE else END

    def _looks_after(self, name: str) -> bool:
        left_out = {WRITER: LOOK_AFTER, FENCE: PUT_AGAIN, ROLLBACK: HOLD_LATE}
        return left_out[name] not in self.omitted

    @staticmethod
    def _is_readable(world: World) -> bool:
        newest = world.snapshots[-1]
        return newest in world.taken or world.has(newest[1])

    @staticmethod
    def _written(world: World, file: str) -> World:
        return world._replace(files=world.without(frozenset({file})).files | {(file, world.hours)})

    def _tick(self, name: str, world: World, process: Process) -> Moves:
        after = world._replace(hours=world.hours + 1)
        yield "an hour passes", after, END if after.hours == self.hours else process

    def _clean(self, name: str, world: World, process: Process) -> Moves:
        until = world.hours if AGE in self.omitted else world.hours - 1
        there = frozenset(file for file, hour in world.files if hour <= until)
        says = MARK not in self.omitted
        match process.at:
            case "begin" if LIST_FIRST in self.omitted:
                yield "looks who needs what", world, Process("list late", found=world.needed)
            case "list late":
                after = self._marked(world, name, until)
                yield "lists old files", after, Process("delete", found=there - process.found, until=until)
            case "begin":
                moved = Process("look" if MARK_FIRST in self.omitted else "mark", found=there, until=until)
                yield f"lists old files: {sorted(there)}", world, moved
            case "mark":
                after = self._marked(world, name, process.until) if says else world
                yield "says how old files it takes", after, process._replace(at="look")
            case "look":
                unneeded = process.found - world.needed
                if MARK_FIRST in self.omitted or SEEN in self.omitted:
                    yield "looks who needs what", world, process._replace(at="mark late", found=unneeded)
                else:
                    after = self._unmarked(world, name) if MARK_ENDS in self.omitted else world
                    yield "looks who needs what", after, process._replace(at="delete", found=unneeded)
            case "mark late":
                after = self._marked(self._unmarked(world, name), name, process.until)
                yield "says how old files it takes", after, process._replace(at="delete")
            case "delete":
                yield (
                    f"deletes {sorted(process.found) or 'nothing'}",
                    world.without(process.found),
                    process._replace(at="end holds"),
                )
            case "end holds" if world.hold is None or world.hold > process.until:
                yield "finds no old hold", self._unmarked(world, name), END
            case "end holds":
                yield "ends a hold", world._replace(hold=None), process._replace(at="look for holders")
            case _:
                for label, after, moved in self._delete_held(world, process):
                    yield label, self._unmarked(after, name) if moved == END else after, moved

    @staticmethod
    def _marked(world: World, name: str, until: int) -> World:
        return world._replace(marks=world.marks | {(name, until, len(world.snapshots))})

    @staticmethod
    def _unmarked(world: World, name: str) -> World:
        return world._replace(marks=frozenset(mark for mark in world.marks if mark[0] != name))

    def _expire(self, name: str, world: World, process: Process) -> Moves:
        if process.at == "begin":
            yield "takes the old snapshot away", world._replace(target=False), process._replace(at="look for holders")
        else:
            yield from self._delete_held(world, process)

    @staticmethod
    def _delete_held(world: World, process: Process) -> Moves:
        match process.at:
            case "look for holders":
                gone = frozenset({KEPT}) - world.needed
                yield "looks who needs what was held", world, process._replace(at="delete held", found=gone)
            case "delete held":
                yield f"deletes {sorted(process.found) or 'nothing'}", world.without(process.found), END
