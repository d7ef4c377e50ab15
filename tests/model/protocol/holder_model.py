"""Holders of files: snapshots, tags, holds and consumers, beside those who delete what nobody holds.

The log is finished here: snapshots 1, 2 and 3, each with a file of its own; tags point to one of them. Creators write a tag and
then look; deleters take a holder away and then look who needs its files, in two directories, one listing after the other.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

LOOK_BACK = "who made a tag does not look whether what it was made of is still there"
LOOK_FIRST = "who makes a tag looks first and then writes"
UNCONFIRMED = "a tag has its name before its creator has looked; there is no hold before it"
COLLECT_TWICE = "holders are listed once"
SCAN_FIRST = "expiry looks for holders before it deletes snapshots"
OWNER_SCAN = "who deletes a tag looks for holders before"
COMPARE = "a tag is deleted by name, whatever it holds by now"
CONSUMER_LOOKS = "a new consumer does not read how far an expirer wants to go"
EXPIRING_FIRST = "an expirer reads the consumers before it writes how far it wants to go"
EXPIRING_RISES = "an expirer writes over how far another wants to go"

Tags = tuple[tuple[str, int], ...]


class World(NamedTuple):
    """Snapshots are their own files: whoever holds 2 needs file 2. `consumers` are the next snapshots that they read."""

    snapshots: frozenset[int]
    tags: Tags
    deleted: frozenset[int] = frozenset()
    expiring: int = 0
    consumers: frozenset[int] = frozenset()
    ready: frozenset[int] = frozenset()
    broken: str | None = None

    def tag(self, name: str) -> int | None:
        return dict(self.tags).get(name)

    def with_tag(self, name: str, snapshot: int | None) -> "World":
        tags = {**dict(self.tags), name: snapshot}
        return self._replace(tags=tuple(sorted((name, held) for name, held in tags.items() if held is not None)))


class Process(NamedTuple):
    at: str = "begin"
    left: frozenset[int] = frozenset()
    seen: tuple[frozenset[int], ...] = ()
    tags: tuple[Tags, ...] = ()
    source: int = 0


END = Process("end")
State = tuple[World, tuple[Process, ...]]
Moves = Iterator[tuple[str, World, Process]]


@dataclass(frozen=True)
class HolderModel:
    """`roles`, of each process: ("tag", name, of), where `of` is a snapshot or the name of a tag; ("delete", name, snapshot);
    ("replace", name, snapshot, of); ("rename", old, new): a tag of the same snapshot, then the old one goes;
    ("expire", up to); ("consume", snapshot).
    """

    roles: tuple[tuple, ...]
    tags: Tags = ()
    snapshots: frozenset[int] = frozenset({1, 2, 3})
    omitted: frozenset[str] = frozenset()

    def initial(self) -> State:
        return World(self.snapshots, self.tags), (Process(),) * len(self.roles)

    def steps(self, state: State) -> Iterator[tuple[str, State]]:
        world, processes = state
        for index, (role, process) in enumerate(zip(self.roles, processes, strict=True)):
            if process.at == "end":
                continue
            for label, after, moved in self._moves(role, world, process):
                name = " ".join(str(word) for word in role)
                yield f"({name}) {label}", (after, (*processes[:index], moved, *processes[index + 1 :]))

    def wrong(self, state: State) -> str | None:
        world, processes = state
        if world.broken:
            return world.broken
        for snapshot in world.snapshots & world.deleted:
            return f"A file of snapshot {snapshot} is deleted"
        # A holder counts from when its creator has looked: before, nobody was told of it.
        pending = set()
        for role, process in zip(self.roles, processes, strict=True):
            name = role[2] if role[0] == "rename" else role[1]
            pending |= (
                {f"hold for {name}"} if process.at == "look" else {name} if process.at == "look at named" else set()
            )
        for name, snapshot in world.tags:
            if name not in pending and snapshot in world.deleted:
                return f"A file of tag {name} is deleted"
        for snapshot in world.ready - world.snapshots:
            return f"Snapshot {snapshot} expired, and a consumer was told that it is kept"
        return None

    def _moves(self, role: tuple, world: World, process: Process) -> Moves:
        if process.at in (
            "collect tags",
            "collect snapshots",
            "collect tags again",
            "collect snapshots again",
            "files",
        ):
            return self._delete_files(role, world, process)
        match role[0]:
            case "tag" | "replace" | "rename":
                return self._tag(role, world, process)
            case "delete":
                return self._delete(role, world, process)
            case "consume":
                return self._consume(role, world, process)
        return self._expire(role, world, process)

    # Those who make holders.

    def _is_there(self, of: int | str, world: World, source: int) -> bool:
        return of in world.snapshots if isinstance(of, int) else world.tag(of) == source

    def _tag(self, role: tuple, world: World, process: Process) -> Moves:
        """Write a hold, look, give it its name, take the hold away. A hold is a tag of a name that nobody else uses."""
        name, of = (role[2], role[1]) if role[0] == "rename" else (role[1], role[-1])
        hold = f"hold for {name}"
        match process.at:
            case "begin":
                source = of if isinstance(of, int) else world.tag(of)
                if source is None or not self._is_there(of, world, source):
                    yield f"finds no {of}", world, END
                else:
                    at = (
                        "look first"
                        if LOOK_FIRST in self.omitted
                        else "name"
                        if UNCONFIRMED in self.omitted
                        else "hold"
                    )
                    yield f"reads {of}", world, Process(at, source=source)
            case "look first":
                there = self._is_there(of, world, process.source)
                yield f"looks for {of}", world, process._replace(at="hold") if there else END
            case "hold":
                at = "name" if LOOK_BACK in self.omitted or LOOK_FIRST in self.omitted else "look"
                yield "writes a hold", world.with_tag(hold, process.source), process._replace(at=at)
            case "look" if self._is_there(of, world, process.source):
                yield f"sees that {of} is still there", world, process._replace(at="name")
            case "look":
                yield f"sees that {of} is gone: takes the hold away", world.with_tag(hold, None), END
            case "name" if (role[0] == "replace" and world.tag(name) != role[2]) or (
                role[0] != "replace" and world.tag(name) is not None
            ):
                yield f"finds another {name}", world.with_tag(hold, None), END
            case "name":
                at = "look at named" if UNCONFIRMED in self.omitted else "drop hold"
                yield f"writes {name}", world.with_tag(name, process.source), process._replace(at=at)
            case "look at named" if not self._is_there(of, world, process.source):
                after = world.with_tag(name, None) if world.tag(name) == process.source else world
                yield f"sees that {of} is gone: takes {name} away", after, END
            case "look at named" | "drop hold":
                # What a replaced tag held before has lost a holder, and a renamed one goes.
                moved = Process("collect tags", frozenset({role[2]})) if role[0] == "replace" else END
                moved = process._replace(at="away") if role[0] == "rename" else moved
                yield "takes the hold away", world.with_tag(hold, None), moved
            case "away":
                after = world.with_tag(of, None) if world.tag(of) == process.source else world
                yield f"takes {of} away", after, END

    def _consume(self, role: tuple, world: World, process: Process) -> Moves:
        snapshot = role[1]
        match process.at:
            case "begin":
                moved = process._replace(at="there" if CONSUMER_LOOKS in self.omitted else "look")
                yield f"writes that it reads {snapshot}", world._replace(consumers=world.consumers | {snapshot}), moved
            case "look" if world.expiring > snapshot:
                after = world._replace(consumers=world.consumers - {snapshot})
                yield f"reads that an expirer goes up to {world.expiring}: refuses", after, END
            case "look":
                yield f"reads that expirers go up to {world.expiring}", world, process._replace(at="there")
            case "there" if snapshot in world.snapshots:
                yield f"sees snapshot {snapshot}", world._replace(ready=world.ready | {snapshot}), END
            case "there":
                yield f"sees no snapshot {snapshot}", world, END

    # Those who take holders away.

    def _delete(self, role: tuple, world: World, process: Process) -> Moves:
        _, name, snapshot = role
        match process.at:
            case "begin" if OWNER_SCAN in self.omitted:
                others = {held for other, held in world.tags if other != name} | world.snapshots
                yield "looks who needs it", world, Process("away", frozenset({snapshot}) - others)
            case "begin" | "away":
                held = world.tag(name)
                if held is None or (held != snapshot and COMPARE not in self.omitted):
                    yield f"finds another {name}", world, END
                    return
                if held != snapshot:
                    world = world._replace(broken=f"Tag {name} is deleted, which has come to hold {held}")
                moved = Process("collect tags", frozenset({snapshot}))
                if process.at == "away":
                    moved = Process("files", process.left)
                yield f"takes {name} away", world.with_tag(name, None), moved

    def _expire(self, role: tuple, world: World, process: Process) -> Moves:
        match process.at:
            case "begin" if EXPIRING_FIRST in self.omitted:
                bound = min((role[1], *world.consumers))
                yield f"reads the consumers: up to {bound}", world, Process("write bound", source=bound)
            case "begin" | "write bound":
                bound = role[1] if process.at == "begin" else process.source
                expiring = bound if EXPIRING_RISES in self.omitted else max(world.expiring, bound)
                at = "consumers" if process.at == "begin" else "choose"
                yield f"writes EXPIRING {expiring}", world._replace(expiring=expiring), Process(at, source=bound)
            case "consumers":
                bound = min((process.source, *world.consumers))
                yield f"reads the consumers: up to {bound}", world, Process("choose", source=bound)
            case "choose":
                victims = frozenset(number for number in world.snapshots if number < process.source)
                left = victims - {held for _, held in world.tags}
                moved = Process("expire", left if SCAN_FIRST in self.omitted else victims, (victims,))
                yield f"wants to expire {sorted(victims)}", world, moved if victims else END
            case "expire":
                victim = min(process.seen[0])
                rest = process.seen[0] - {victim}
                moved = process._replace(seen=(rest,))
                if not rest:
                    moved = Process("files" if SCAN_FIRST in self.omitted else "collect tags", process.left)
                yield f"deletes snapshot {victim}", world._replace(snapshots=world.snapshots - {victim}), moved

    def _delete_files(self, role: tuple, world: World, process: Process) -> Moves:
        match process.at:
            case "collect tags" | "collect tags again":
                moved = process._replace(at=process.at.replace("tags", "snapshots"), tags=(*process.tags, world.tags))
                yield f"lists the tags: {_shown(world.tags)}", world, moved
            case "collect snapshots":
                at = "files" if COLLECT_TWICE in self.omitted else "collect tags again"
                moved = process._replace(at=at, seen=(world.snapshots,))
                yield (
                    f"lists the snapshots: {sorted(world.snapshots)}",
                    world,
                    self._needed(moved) if at == "files" else moved,
                )
            case "collect snapshots again":
                text = f"lists the snapshots: {sorted(world.snapshots)}"
                first, second = process.tags
                if first == second and process.seen == (world.snapshots,):
                    yield text, world, self._needed(process._replace(at="files"))
                else:
                    yield f"{text}, so something is new: again", world, Process("collect tags", process.left)
            case "files":
                yield (
                    f"deletes {sorted(process.left) or 'no file'}",
                    world._replace(deleted=world.deleted | process.left),
                    END,
                )

    @staticmethod
    def _needed(process: Process) -> Process:
        held = {held for _, held in process.tags[0]} | process.seen[0]
        return Process("files", process.left - held)


def _shown(tags: Tags) -> str:
    return ", ".join(f"{name} of {held}" for name, held in tags) or "none"
