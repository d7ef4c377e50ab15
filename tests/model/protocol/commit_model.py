"""Commit, expiry and rollback on the log of one branch.

The world is a directory of snapshots, a hint, holds, and what expiry remembers. What no process can see, but the properties
need, is in `Ghost`: the history as it really went. A snapshot is *stale* if its number had been used before.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

# The steps that can be left out, or done as somebody might do them who has not read docs/protocols.md.
LOOK_AGAIN = "the base is not read again after the creation (steps 5, 6)"
LISTING = "a base that is gone counts as expired (no step 6)"
OTHER_BASE = "another snapshot at the base's number is a verdict, not a reason to list"
GONE_IS_STALE = "an own snapshot that is gone counts as stale"
GONE_HAS_LANDED = "on a store, an own snapshot that is gone counts as landed, whether its manifest list is gone or not"
EARLY_LOOK = "the own snapshot is looked for before the listing, not at the end"
HINT_RISES = "the hint is written, not raised"
HINT_FIRST = "expiry does not raise the hint before it deletes"
HINT_AGAIN = "the search from the hint does not read the hint again at its end"
LIST_AGAIN = "without a hint, the directory is not listed again after the newest snapshot has been read"
CHAIN = "expiry takes the numbers below the newest for the history, without asking what each follows"
REMEMBER = "expiry does not remember what it deletes"
MEMORY_FIRST = "what is remembered is read before the history"
ASCENDING = "expiry deletes the newest first"
COMPARE = "expiry deletes a number, whatever is there"
SCAN_FIRST = "expiry looks for holders before it deletes snapshots"
HOLD = "a rollback holds nothing"
EXACT = "a rollback is put on top of whatever is the newest by then, not of what it judged"
HOLD_LOOK = "a rollback does not look whether its target is still there when the hold is"
BY_NUMBER = "a commit id is looked for in all numbers, not along what each snapshot follows"
ONE_OF_ID = "a commit id is not looked for in the history"


class Snap(NamedTuple):
    """A snapshot file. `commit` is the commit id; its uuid is commit and number, for no writer makes a number twice."""

    number: int
    commit: str
    follows: str
    live: frozenset[str]

    @property
    def uuid(self) -> str:
        return f"{self.commit}@{self.number}"


class Ghost(NamedTuple):
    """The history as it really went: uuids by number, the state on top, acknowledged commits, what was taken back."""

    history: tuple[str, ...]
    top: Snap
    acked: frozenset[str] = frozenset()
    taken: frozenset[str] = frozenset()
    broken: str | None = None


class World(NamedTuple):
    snaps: tuple[Snap, ...]
    hint: int
    ghost: Ghost
    deleted: frozenset[str] = frozenset()
    remembered: frozenset[str] = frozenset()
    holds: frozenset[tuple[int, Snap]] = frozenset()

    def find(self, number: int) -> Snap | None:
        for snap in self.snaps:
            if snap.number == number:
                return snap
        return None

    def without(self, number: int) -> "World":
        return self._replace(snaps=tuple(snap for snap in self.snaps if snap.number != number))

    def broken(self, text: str) -> "World":
        return self._replace(ghost=self.ghost._replace(broken=text))

    def is_stale(self, snap: Snap) -> bool:
        return self.ghost.history[snap.number - 1] != snap.uuid


class Process(NamedTuple):
    """Where a process is, and what it knows."""

    at: str
    left: tuple[str, ...]
    search: int = 0
    since: int = 0
    base: Snap | None = None
    made: Snap | None = None
    victims: tuple[Snap, ...] = ()
    files: frozenset[str] = frozenset()
    target: Snap | None = None
    judged: Snap | None = None
    owner: int = 0


_SEARCHING = ("begin", "hint", "climb", "get", "hint again", "list for newest", "list again")
NOTHING = Snap(0, "", "", frozenset())
Moves = Iterator[tuple[str, World, Process]]


@dataclass(frozen=True)
class CommitModel:
    """`writers`: the commits of each, one after the other, each named after its data file; the first letter is its id, so that
    "a" and "A" are two calls of one id. `rollbacks`: the numbers that each may choose. `quick`: a writer whose every commit is
    one step; without `quick_hints` it dies before it raises the hint. The snapshots that are there
    in the beginning have overwritten each other. `local`: has a hint and locks.
    """

    writers: tuple[tuple[str, ...], ...]
    expirers: tuple[int, ...] = (2,)
    rollbacks: tuple[tuple[int, ...], ...] = ()
    readers: int = 0
    quick: tuple[str, ...] = ()
    quick_hints: bool = True
    local: bool = True
    begun_with: int = 1
    retained: int = 1
    omitted: frozenset[str] = frozenset()

    def initial(self) -> tuple[World, tuple[Process, ...]]:
        snaps: list[Snap] = []
        for number in range(1, self.begun_with + 1):
            below = snaps[-1] if snaps else NOTHING
            snaps.append(Snap(number, f"x{number}", below.uuid if snaps else "", frozenset({f"x{number}"})))
        ghost = Ghost(tuple(snap.uuid for snap in snaps), snaps[-1] if snaps else NOTHING)
        world = World(tuple(snaps), len(snaps), ghost)
        processes = [Process("begin", commits) for commits in self.writers]
        processes += [Process("begin", ("expire",) * runs) for runs in self.expirers]
        processes += [Process("begin", ("R",), owner=number) for number in range(len(self.rollbacks))]
        processes += [Process("begin", ("read",)) for _ in range(self.readers)]
        processes += [Process("begin", self.quick)] if self.quick else []
        return world, tuple(processes)

    def steps(self, state: tuple[World, tuple[Process, ...]]) -> Iterator[tuple[str, object]]:
        world, processes = state
        if world.ghost.broken:
            return
        for index, process in enumerate(processes):
            if not process.left:
                continue
            name, moves = self._moves(index, world, process)
            for label, after, moved in moves:
                yield f"{name}: {label}", (after, (*processes[:index], moved, *processes[index + 1 :]))

    def wrong(self, state: tuple[World, tuple[Process, ...]]) -> str | None:
        world, processes = state
        ghost = world.ghost
        if ghost.broken:
            return ghost.broken
        numbers = [snap.number for snap in world.snaps if not world.is_stale(snap)]
        if ghost.history and numbers != list(range(len(ghost.history) - len(numbers) + 1, len(ghost.history) + 1)):
            return f"The numbers do not follow each other up to {len(ghost.history)}: {numbers}"
        if ghost.history and not numbers:
            return "The newest snapshot is gone"
        for commit in ghost.acked:
            if commit not in ghost.taken and not any(file.lower() == commit for file in ghost.top.live):
                return f"The acknowledged commit {commit} is not in snapshot {ghost.top.number}"
        # A hold counts from when its creator has looked.
        pending = {(process.owner, process.target) for process in processes if process.at == "look at target"}
        holds = {snap for _, snap in world.holds - pending}
        for snap in (*world.snaps, *holds):
            if snap.live & world.deleted and (snap in holds or not world.is_stale(snap)):
                return f"Files of snapshot {snap.number} are deleted: {sorted(snap.live & world.deleted)}"
        return None

    def _moves(self, index: int, world: World, process: Process) -> tuple[str, Moves]:
        kinds = (len(self.writers), len(self.expirers), len(self.rollbacks), self.readers)
        kind = next((kind for kind in range(4) if index < sum(kinds[: kind + 1])), 4)
        if kind == 4:
            return process.left[0], self._commit_at_once(world, process)
        name = (process.left[0], f"expiry {index}", "rollback", "reader")[kind]
        if process.at == "begin" and kind == 2:
            return name, self._choose(world, process, self.rollbacks[index - kinds[0] - kinds[1]])
        if process.at in _SEARCHING:
            judges = kind == 2 and process.judged is None
            return name, self._search(world, process, "judge" if judges else ("known", "walk", "known", "end")[kind])
        return name, self._expire(world, process) if kind == 1 else self._commit(world, process)

    # The newest snapshot. Ends at `then`, with the snapshot as `base`.

    def _search(self, world: World, process: Process, then: str) -> Moves:
        match process.at:
            case "begin":
                begun = process._replace(at="hint" if self.local else "list for newest")
                if then == "end":
                    begun = begun._replace(since=len(world.ghost.history))
                yield from self._search(world, begun, then)
            case "hint":
                if world.hint == 0:
                    yield from self._search(world, process._replace(at="list for newest"), then)
                else:
                    yield f"reads the hint: {world.hint}", world, process._replace(at="climb", search=world.hint)
            case "climb":
                above = process.search + 1
                if world.find(above) is not None:
                    yield f"sees snapshot {above}", world, process._replace(search=above)
                else:
                    yield f"sees no snapshot {above}", world, process._replace(at="get")
            case "list for newest":
                highest = max((snap.number for snap in world.snaps), default=0)
                moved = process._replace(at="get", search=highest)
                if highest == 0:
                    moved = moved._replace(at=then, search=0, since=0, base=NOTHING)
                    if then == "end":
                        moved = Process("begin", ())
                yield f"lists: {highest} is the highest", world, moved
            case "get":
                snap = world.find(process.search)
                if snap is None:
                    again = process._replace(at="hint" if self.local else "list for newest")
                    yield f"finds snapshot {process.search} gone", world, again
                elif (HINT_AGAIN if self.local else LIST_AGAIN) not in self.omitted:
                    again = process._replace(at="hint again" if self.local else "list again", base=snap, search=0)
                    yield f"reads snapshot {snap.number}", world, again
                else:
                    yield self._newest(world, process, snap, then)
            case "hint again":
                if process.base is not None and world.hint > process.base.number:
                    yield (
                        f"reads the hint again: {world.hint}",
                        world,
                        process._replace(at="climb", search=world.hint, base=None),
                    )
                elif process.base is not None:
                    yield self._newest(world, process, process.base, then)
            case "list again" if process.base is not None:
                highest = max((snap.number for snap in world.snaps), default=0)
                if highest > process.base.number:
                    yield (
                        f"lists again: {highest} is the highest",
                        world,
                        process._replace(at="get", search=highest, base=None),
                    )
                else:
                    yield self._newest(world, process, process.base, then)

    def _newest(self, world: World, process: Process, snap: Snap, then: str) -> tuple[str, World, Process]:
        if then == "end":
            return (
                f"takes snapshot {snap.number} for the newest",
                self._judged(world, process, snap),
                Process("begin", ()),
            )
        world = self._judged(world, process, snap)
        return (
            f"takes snapshot {snap.number} for the newest",
            world,
            process._replace(at=then, base=snap, search=0, since=0),
        )

    @staticmethod
    def _judged(world: World, process: Process, snap: Snap) -> World:
        if world.is_stale(snap):
            return world.broken(f"Somebody takes the stale {snap.uuid} for the newest snapshot")
        if snap.number < process.since:
            return world.broken(f"Somebody takes {snap.number} for the newest: {process.since} was there when he began")
        return world

    # Commit, and rollback, which is one.

    def _commit(self, world: World, process: Process) -> Moves:
        name, base, made = process.left[0], process.base, process.made
        id_ = name.lower()
        done = Process("begin", process.left[1:])
        match process.at:
            case "judge" if process.target is not None and HOLD in self.omitted:
                yield "judges it", world, process._replace(at="begin", base=None, judged=base)
            case "judge" if process.target is not None:
                at = "begin" if HOLD_LOOK in self.omitted else "look at target"
                holds = world.holds | {(process.owner, process.target)}
                yield "writes a hold", world._replace(holds=holds), process._replace(at=at, base=None, judged=base)
            case "look at target":
                here = world.find(process.target.number) if process.target else None
                if here == process.target:
                    yield "its target is still there", world, process._replace(at="begin")
                else:
                    yield (
                        "its target is gone: takes the hold away",
                        world._replace(holds=world.holds - {(process.owner, process.target)}),
                        done,
                    )
            case "known" if process.judged is not None and base != process.judged and EXACT not in self.omitted:
                after = world._replace(holds=world.holds - {(process.owner, process.target)})
                yield "sees that a writer came first: refuses", after, done
            case "known" if process.target is None and self._has_two_calls(id_):
                if MEMORY_FIRST in self.omitted:
                    if self._is_remembered(world, id_):
                        yield "is remembered", self._ack(world, id_), done
                    else:
                        yield "is not remembered", world, process._replace(at="history")
                else:
                    yield from self._look_in_history(world, process, "memory")
            case "history":
                yield from self._look_in_history(world, process, "create")
            case "memory":
                if self._is_remembered(world, id_):
                    yield "is remembered", self._ack(world, id_), done
                else:
                    yield "is not remembered", world, process._replace(at="create")
            case "known" | "create":
                if base is None:
                    return
                if world.find(base.number + 1) is not None:
                    yield f"snapshot {base.number + 1} is there already", world, process._replace(at="begin", base=None)
                else:
                    live = process.target.live if process.target else base.live | {name}
                    snap = Snap(base.number + 1, name, base.uuid, live)
                    moved = process._replace(at="raise", made=snap)
                    if not self.local:
                        moved = moved._replace(at="again")
                    yield f"creates snapshot {snap.number}", self._created(world, snap, base, process.judged), moved
            case "raise":
                if made is None:
                    return
                hint = made.number if HINT_RISES in self.omitted else max(world.hint, made.number)
                yield f"raises the hint to {hint}", world._replace(hint=hint), process._replace(at="again")
            case "again":
                if made is None or base is None:
                    return
                here = world.find(base.number) if base.number else None
                if here == base or LOOK_AGAIN in self.omitted:
                    yield "its base is there: acknowledged", self._ack(world, id_), done
                elif here is None and LISTING in self.omitted:
                    yield "its base is gone: acknowledged", self._ack(world, id_), done
                elif here is not None and OTHER_BASE in self.omitted:
                    yield "there is another base", world, process._replace(at="away")
                else:
                    at = "own first" if EARLY_LOOK in self.omitted else "list"
                    yield f"snapshot {base.number} is gone", world, process._replace(at=at, base=None)
            case "own first":
                if made is not None and world.find(made.number) != made:
                    yield "its snapshot is gone, so it had landed: acknowledged", self._ack(world, id_), done
                else:
                    yield "its snapshot is there", world, process._replace(at="list")
            case "list":
                if made is None:
                    return
                if max((snap.number for snap in world.snaps), default=0) <= made.number:
                    yield "lists: it is the highest: acknowledged", self._ack(world, id_), done
                else:
                    yield "lists: it is not the highest", world, process._replace(at="above")
            case "above":
                if made is None:
                    return
                above = world.find(made.number + 1)
                if above is not None and above.follows == made.uuid:
                    yield "the snapshot above follows it: acknowledged", self._ack(world, id_), done
                elif EARLY_LOOK in self.omitted:
                    yield "nothing follows it", world, process._replace(at="away")
                else:
                    yield "nothing follows it", world, process._replace(at="own")
            case "own":
                if made is None:
                    return
                if world.find(made.number) == made or GONE_IS_STALE in self.omitted:
                    yield "its snapshot is there, and stale", world, process._replace(at="away")
                elif self.local or GONE_HAS_LANDED in self.omitted:
                    yield "its snapshot is gone, so it had landed: acknowledged", self._ack(world, id_), done
                else:
                    yield "its snapshot is gone", world, process._replace(at="expired")
            case "expired":
                if made is None:
                    return
                if made.uuid in world.deleted:
                    yield (
                        "its manifest list is gone as well, so it had landed: acknowledged",
                        self._ack(world, id_),
                        done,
                    )
                else:
                    yield "its manifest list is there: nobody can tell, the outcome is unknown", world, done
            case "away":
                if made is None:
                    return
                after = world.without(made.number) if world.find(made.number) == made else world
                yield f"takes snapshot {made.number} away", after, process._replace(at="begin", base=None, made=None)

    def _has_two_calls(self, id_: str) -> bool:
        return (
            ONE_OF_ID not in self.omitted and sum(name.lower() == id_ for names in self.writers for name in names) > 1
        )

    def _look_in_history(self, world: World, process: Process, then: str) -> Moves:
        base, id_ = process.base or NOTHING, process.left[0].lower()
        if BY_NUMBER in self.omitted:
            history = [snap for snap in world.snaps if snap.number <= base.number]
        else:
            history = self._history(world, base)
        if any(snap.commit.lower() == id_ for snap in history):
            yield "is in the history: acknowledged", self._ack(world, id_), Process("begin", process.left[1:])
        else:
            yield "is not in the history", world, process._replace(at=then)

    def _commit_at_once(self, world: World, process: Process) -> Moves:
        name, top = process.left[0], world.ghost.top
        done = Process("begin", process.left[1:])
        snap = Snap(top.number + 1, name, top.uuid if top.number else "", top.live | {name})
        if world.find(snap.number) is None:
            after = self._ack(self._created(world, snap, top), name)
            hint = max(world.hint, snap.number) if self.local and self.quick_hints else world.hint
            yield "commits, all at once", after._replace(hint=hint), done

    @staticmethod
    def _ack(world: World, id_: str) -> World:
        return world._replace(ghost=world.ghost._replace(acked=world.ghost.acked | ({id_} - {"r"})))

    @staticmethod
    def _created(world: World, snap: Snap, base: Snap, judged: Snap | None = None) -> World:
        """`judged`: what a rollback takes away by name is what it has seen."""
        ghost = world.ghost
        snaps = tuple(sorted((*world.snaps, snap)))
        if snap.number <= len(ghost.history):
            return world._replace(snaps=snaps)
        if ghost.top != base:
            return world.broken(f"Snapshot {snap.number} is on top of {base.uuid} instead of {ghost.top.uuid}")
        if snap.commit != "R" and any(uuid.partition("@")[0].lower() == snap.commit.lower() for uuid in ghost.history):
            return world.broken(f"Commit {snap.commit.lower()} lands twice")
        taken = ghost.taken | {file.lower() for file in (judged or base).live - snap.live}
        return world._replace(
            snaps=snaps, ghost=ghost._replace(history=(*ghost.history, snap.uuid), top=snap, taken=taken)
        )

    # Rollback: what comes before its commit.

    def _choose(self, world: World, process: Process, numbers: tuple[int, ...]) -> Moves:
        if process.target is not None:
            yield from self._search(world, process, "judge" if process.judged is None else "known")
            return
        for number in numbers:
            snap = world.find(number)
            if snap is None or world.is_stale(snap):
                continue
            yield f"chooses snapshot {number}", world, process._replace(target=snap)

    # Expiry.

    def _expire(self, world: World, process: Process) -> Moves:
        omitted, done = self.omitted, Process("begin", process.left[1:])
        match process.at:
            case "walk":
                victims = self._victims(world, process.base or NOTHING)
                if not victims:
                    yield "has nothing to expire", world, done
                    return
                candidates = frozenset(file for snap in victims for file in self._files(snap))
                moved = process._replace(at="raise", base=None, search=process.base.number if process.base else 0)
                moved = moved._replace(victims=victims, files=candidates)
                yield f"wants to expire {[snap.number for snap in victims]}", world, moved
            case "raise" if self.local and HINT_FIRST not in omitted:
                hint = process.search if HINT_RISES in omitted else max(world.hint, process.search)
                moved = process._replace(at="scan" if SCAN_FIRST in omitted else "remember", search=0)
                yield f"raises the hint to {hint}", world._replace(hint=hint), moved
            case "raise":
                yield from self._expire(
                    world, process._replace(at="scan" if SCAN_FIRST in omitted else "remember", search=0)
                )
            case "remember" if self._remembers():
                yield "remembers what it will delete", self._remember(world, process), process._replace(at="delete")
            case "remember":
                yield from self._expire(world, process._replace(at="delete"))
            case "delete" if not process.victims:
                yield from self._expire(world, process._replace(at="files" if SCAN_FIRST in omitted else "scan"))
            case "delete":
                victim = process.victims[-1 if ASCENDING in omitted else 0]
                rest = process.victims[:-1] if ASCENDING in omitted else process.victims[1:]
                moved = process._replace(victims=rest)
                here = world.find(victim.number)
                if here != victim and COMPARE not in omitted:
                    yield f"finds snapshot {victim.number} gone", world, moved
                elif self.local or COMPARE in omitted:
                    yield f"deletes snapshot {victim.number}", world.without(victim.number), moved
                else:
                    yield f"finds snapshot {victim.number} as it was", world, process._replace(at="delete now")
            case "delete now":
                after = world.without(process.victims[0].number)
                yield (
                    f"deletes snapshot {process.victims[0].number}",
                    after,
                    process._replace(at="delete", victims=process.victims[1:]),
                )
            case "scan":
                hold_files = frozenset(file for _, snap in world.holds for file in self._files(snap))
                needed = frozenset(
                    file for snap in world.snaps if snap not in process.victims for file in self._files(snap)
                )
                at = "remember" if SCAN_FIRST in omitted else "files"
                left = process.files - needed - hold_files
                yield f"looks who needs what: nobody needs {sorted(left)}", world, process._replace(at=at, files=left)
            case "files":
                yield f"deletes {sorted(process.files)}", world._replace(deleted=world.deleted | process.files), done

    def _files(self, snap: Snap) -> frozenset[str]:
        """What a snapshot needs: on a store also its manifest list, which writers look for."""
        return snap.live if self.local else snap.live | {snap.uuid}

    def _remembers(self) -> bool:
        """Whether there is somebody who asks."""
        two_calls = any(self._has_two_calls(name.lower()) for names in self.writers for name in names)
        return REMEMBER not in self.omitted and two_calls

    @staticmethod
    def _is_remembered(world: World, id_: str) -> bool:
        return any(uuid.partition("@")[0].lower() == id_ for uuid in world.remembered)

    def _remember(self, world: World, process: Process) -> World:
        return world._replace(remembered=world.remembered | {snap.uuid for snap in process.victims})

    def _victims(self, world: World, newest: Snap) -> tuple[Snap, ...]:
        history = self._history(world, newest, by_number=CHAIN in self.omitted)
        return tuple(history[: max(0, len(history) - self.retained)])

    @staticmethod
    def _history(world: World, newest: Snap, by_number: bool = False) -> list[Snap]:
        history = [newest]
        while (below := world.find(history[0].number - 1)) is not None and (
            by_number or below.uuid == history[0].follows
        ):
            history.insert(0, below)
        return history
