"""Publications over two tables: publishers, a recoverer who is called as often as he likes, a plain writer, readers.

Each publication brings the same change to both tables, named after its number; so a view is whole if both tables show the same
publications. Commits on a main are one step here: `commit_model.py` is about what is inside of it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

# The steps that can be left out, or done otherwise.
WITHDRAW = "a publisher does not look for open entries with a lower number"
ASK = "the outcome is not asked for before each commit"
ASK_LATE = "the outcome is asked for before the newest snapshot is read, not after"
FENCE = "an undo puts no commit on a main that shows nothing of the publication"
DECIDE = "an undo does not decide the outcome first"
OUTCOME = "a publisher overwrites the outcome"
UNDONE_IS_CLOSED = "an undone publication counts as closed at once"
TAG_FIRST = "a reader looks for the tag first, then for the newest snapshot"
BEFORE_IN_ENTRY = "the snapshots before are looked up before the entry is made, and written into it"
TAG_KEPT = "the tag of a publication is replaced by who repeats it"
READ_AGAIN = "a reader does not list the journal a second time"
OWN_COMMIT = "who repeats a publication does not look whether it has its commit already"
NUMBER_AGAIN = "withdrawing deletes the entry, so that its number is given again"
WITHDRAW_AT_ONCE = "a withdrawn entry is closed without being undone"
EXACT = "an undo refuses if somebody has written to a main meanwhile"

TABLES = (0, 1)
Live = frozenset[str]


class Entry(NamedTuple):
    """One publication of the journal, and its tags: what each table was before."""

    owner: str
    outcome: str = ""
    is_closed: bool = False
    tags: tuple[Live | None, Live | None] = (None, None)

    @property
    def is_open(self) -> bool:
        return not self.is_closed and self.outcome != "published"


class Snapshot(NamedTuple):
    commit: str
    live: Live


class World(NamedTuple):
    journal: tuple[Entry, ...] = ()
    mains: tuple[tuple[Snapshot, ...], ...] = ((Snapshot("", frozenset()),), (Snapshot("", frozenset()),))
    acked: frozenset[str] = frozenset()
    broken: str | None = None

    def entry(self, number: int) -> Entry:
        return self.journal[number - 1]

    def with_entry(self, number: int, **changes: object) -> "World":
        changed = self.journal[number - 1]._replace(**changes)
        return self._replace(journal=(*self.journal[: number - 1], changed, *self.journal[number:]))

    def committed(self, table: int, snapshot: Snapshot) -> "World":
        main = (*self.mains[table], snapshot)
        return self._replace(mains=(main, self.mains[1]) if table == 0 else (self.mains[0], main))

    def names(self) -> tuple[tuple[bool, str, bool], ...]:
        return tuple((entry.is_closed, entry.outcome, bool(entry.owner)) for entry in self.journal)


class Process(NamedTuple):
    at: str = "idle"
    number: int = 0
    table: int = 0
    length: int = 0
    view: tuple[Live, ...] = ()
    listed: tuple[tuple[bool, str, bool], ...] = ()


State = tuple[World, tuple[Process, ...]]
Moves = Iterator[tuple[str, World, Process]]
END = Process("end")


@dataclass(frozen=True)
class PublicationModel:
    """`recoverers` are called again and again, to finish or to undo; `writes`: how often somebody writes to the first table."""

    publishers: tuple[str, ...] = ("P", "Q")
    recoverers: int = 1
    readers: int = 1
    writes: int = 0
    may_undo: bool = True
    omitted: frozenset[str] = frozenset()

    def initial(self) -> State:
        recoverers = (Process(),) * self.recoverers
        readers = (Process("list"),) * self.readers
        return World(), (*(Process("begin"),) * len(self.publishers), *recoverers, *readers, Process("write"))

    def steps(self, state: State) -> Iterator[tuple[str, State]]:
        world, processes = state
        if world.broken:
            return
        publishers, recoverers = len(self.publishers), len(self.recoverers_names)
        for index, process in enumerate(processes):
            if process.at == "end":
                continue
            if index < publishers:
                name, moves = self.publishers[index], self._publish(self.publishers[index], world, process)
            elif index < publishers + recoverers:
                name = self.recoverers_names[index - publishers]
                moves = self._recover(world, process)
            elif index < len(processes) - 1:
                name, moves = "reader", self._read(world, process)
            else:
                name, moves = "writer", self._write(world, process)
            for label, after, moved in moves:
                yield f"{name}: {label}", (after, (*processes[:index], moved, *processes[index + 1 :]))

    @property
    def recoverers_names(self) -> tuple[str, ...]:
        return tuple(f"recoverer {number + 1}" for number in range(self.recoverers))

    def wrong(self, state: State) -> str | None:
        world, _ = state
        if world.broken:
            return world.broken
        tops = [main[-1].live for main in world.mains]
        for number, entry in enumerate(world.journal, 1):
            if entry.outcome == "published" and not all(str(number) in top for top in tops):
                return f"Publication {number} is published, and not on every main"
            if entry.outcome == "undone" and entry.is_closed and any(str(number) in top for top in tops):
                return f"Publication {number} is undone, and still on a main"
        for commit in world.acked:
            if commit not in tops[0]:
                return f"The acknowledged commit {commit} is not in the newest snapshot"
        for main in world.mains:
            commits = [snapshot.commit for snapshot in main]
            if len(set(commits)) < len(commits):
                return f"A commit landed twice: {commits}"
        return None

    @staticmethod
    def is_over(state: State) -> bool:
        """Whether every publication that was begun is closed."""
        return all(entry.is_closed for entry in state[0].journal)

    # A publisher, or whoever finishes his publication.

    def _publish(self, owner: str, world: World, process: Process) -> Moves:
        omitted, number, table = self.omitted, process.number, process.table
        match process.at:
            case "begin" if BEFORE_IN_ENTRY in omitted and table < 2:
                # The views of both tables, one after the other, then the entry.
                view = (*process.view, world.mains[table][-1].live)
                yield f"looks what table {table} is before", world, process._replace(table=table + 1, view=view)
            case "begin":
                free = next((n for n, e in enumerate(world.journal, 1) if not e.owner), len(world.journal) + 1)
                yield f"lists the journal: {free} is free", world, process._replace(at="open", number=free, table=0)
            case "open" if number <= len(world.journal) and world.entry(number).owner:
                yield f"open-{number} is there already", world, process._replace(number=number + 1)
            case "open":
                tags = process.view if BEFORE_IN_ENTRY in omitted else (None, None)
                world = world._replace(journal=world.journal + (Entry(""),) * (number - len(world.journal)))
                after = world.with_entry(number, owner=owner, outcome="", is_closed=False, tags=tags)
                yield f"creates open-{number}", after, Process("look", number)
            case "look":
                lower = [n for n, e in enumerate(world.journal[: number - 1], 1) if e.owner and e.is_open]
                if lower and WITHDRAW not in omitted:
                    # The owner withdraws; somebody who came to finish it leaves it.
                    after = Process("withdraw", number) if owner else Process()
                    yield f"sees that {lower[0]} is open", world, after
                else:
                    at = "read" if BEFORE_IN_ENTRY in omitted else "before"
                    yield "sees no lower one open", world, Process(at, number)
            case "withdraw" if NUMBER_AGAIN in omitted:
                yield "withdraws: deletes the entry", world.with_entry(number, owner="", tags=(None, None)), END
            case "withdraw":
                # It is undone like any other: somebody may be finishing it.
                outcome = world.entry(number).outcome or "undone"
                undo = "close undone" if WITHDRAW_AT_ONCE in omitted else "undo"
                moved = Process("close published" if outcome == "published" else undo, number)
                yield f"withdraws: outcome-{number} is {outcome}", world.with_entry(number, outcome=outcome), moved
            case "before":
                length = len(world.mains[table])
                yield (
                    f"reads that table {table} has {length} snapshots",
                    world,
                    process._replace(at="tag", length=length),
                )
            case "tag":
                tags = list(world.entry(number).tags)
                text = f"finds the tag of table {table}"
                if tags[table] is None or TAG_KEPT in omitted:
                    tags[table] = world.mains[table][process.length - 1].live
                    text = f"tags snapshot {process.length} of table {table}"
                moved = Process("before", number, 1) if table == 0 else Process("read", number)
                yield text, world.with_entry(number, tags=tuple(tags)), moved
            case "read" if ASK_LATE in omitted:
                yield from self._ask(owner, world, process, process._replace(at="read now"))
            case "read" | "read now":
                if OWN_COMMIT not in omitted and any(str(number) == snapshot.commit for snapshot in world.mains[table]):
                    text, moved = f"sees its commit on table {table}", self._next(process)
                else:
                    at = "commit" if ASK_LATE in omitted or ASK in omitted else "ask"
                    moved = process._replace(at=at, length=len(world.mains[table]))
                    text = f"reads that snapshot {moved.length} is the newest of table {table}"
                yield text, world, moved
            case "ask":
                yield from self._ask(owner, world, process, process._replace(at="commit"))
            case "commit" if len(world.mains[table]) > process.length:
                yield (
                    f"snapshot {process.length + 1} of table {table} is there",
                    world,
                    process._replace(at="read", length=0),
                )
            case "commit":
                snapshot = Snapshot(str(number), world.mains[table][-1].live | {str(number)})
                yield f"commits to table {table}", world.committed(table, snapshot), self._next(process)
            case "outcome":
                outcome = "published" if OUTCOME in omitted else world.entry(number).outcome or "published"
                after = world.with_entry(number, outcome=outcome)
                moved = Process("close published", number) if outcome == "published" else self._end(owner)
                yield f"outcome-{number} is {outcome}", after, moved
            case "undo" | "fence":
                yield from self._undo(owner, world, process)
            case "close published" | "close undone":
                yield f"creates closed-{number}", world.with_entry(number, is_closed=True), self._end(owner)

    def _ask(self, owner: str, world: World, process: Process, moved: Process) -> Moves:
        outcome = world.entry(process.number).outcome
        if outcome:
            yield f"outcome-{process.number} is {outcome} already", world, self._end(owner)
        else:
            yield f"outcome-{process.number} is open", world, moved

    @staticmethod
    def _next(process: Process) -> Process:
        return Process("read", process.number, 1) if process.table == 0 else Process("outcome", process.number)

    @staticmethod
    def _end(owner: str) -> Process:
        return END if owner else Process()

    # Recovery: finishing is what a publisher does; undoing decides, fences and closes.

    def _recover(self, world: World, process: Process) -> Moves:
        number = process.number
        if process.at == "idle":
            for candidate, entry in enumerate(world.journal, 1):
                if not entry.owner or entry.is_closed:
                    continue
                if entry.outcome:
                    at = "close published" if entry.outcome == "published" else "undo"
                    yield f"goes on with {candidate}, which is {entry.outcome}", world, Process(at, candidate)
                    continue
                yield f"finishes {candidate}", world, Process("look", candidate)
                if self.may_undo:
                    yield (
                        f"undoes {candidate}",
                        world,
                        Process("undo" if DECIDE in self.omitted else "decide", candidate),
                    )
            return
        yield "dies, and is called again", world, Process()
        match process.at:
            case "decide":
                if EXACT in self.omitted and self._is_foreign(world, number):
                    yield "sees that somebody has written since: refuses", world, Process()
                    return
                outcome = world.entry(number).outcome or "undone"
                moved = Process("close published" if outcome == "published" else "undo", number)
                yield f"outcome-{number} is {outcome}", world.with_entry(number, outcome=outcome), moved
            case "decide late":
                outcome = world.entry(number).outcome or "undone"
                moved = Process(f"close {outcome}", number)
                yield f"outcome-{number} is {outcome}", world.with_entry(number, outcome=outcome), moved
            case _:
                yield from self._publish("", world, process)

    def _undo(self, owner: str, world: World, process: Process) -> Moves:
        number, table = process.number, process.table
        after_all = "decide late" if DECIDE in self.omitted else "close undone"
        next_ = Process("undo", number, 1) if table == 0 else Process(after_all, number)
        match process.at:
            case "undo":
                commits = {snapshot.commit for snapshot in world.mains[table]}
                if None in world.entry(number).tags:
                    yield f"sees no tag, so nothing has begun on table {table}", world, next_
                elif f"undo {number}" in commits:
                    yield f"sees that table {table} is back", world, next_
                elif FENCE in self.omitted and str(number) not in commits:
                    yield f"sees nothing of it on table {table}", world, next_
                elif EXACT in self.omitted and self._is_foreign(world, number):
                    yield "sees that somebody has written since: refuses", world, self._end(owner)
                else:
                    length = len(world.mains[table])
                    yield (
                        f"reads that snapshot {length} is the newest of table {table}",
                        world,
                        process._replace(at="fence", length=length),
                    )
            case "fence" if len(world.mains[table]) > process.length:
                yield f"snapshot {process.length + 1} of table {table} is there", world, Process("undo", number, table)
            case "fence":
                live = world.mains[table][-1].live - {str(number)}
                yield (
                    f"takes table {table} back", world.committed(table, Snapshot(f"undo {number}", live)),
                    next_,
                )  # fmt: skip

    def _is_foreign(self, world: World, number: int) -> bool:
        tags = world.entry(number).tags
        own = {str(number), f"undo {number}"}
        for table in TABLES:
            before = tags[table]
            since = [
                snapshot.commit for snapshot in world.mains[table] if before is not None and snapshot.live - before
            ]
            if set(since) - own:
                return True
        return False

    # Readers of a consistent view, and a plain writer.

    def _read(self, world: World, process: Process) -> Moves:
        table = process.table
        first = next((n for n, entry in enumerate(world.journal, 1) if entry.owner and self._counts_as_open(entry)), 0)
        match process.at:
            case "list":
                at = "tag" if TAG_FIRST in self.omitted else "newest"
                yield (
                    f"lists the journal: {first or 'nothing'} is open",
                    world,
                    Process(at, first, listed=world.names()),
                )
            case "tag" | "look for tag" if process.number == 0 or world.entry(process.number).tags[table] is None:
                at = "newest" if TAG_FIRST in self.omitted else "seen"
                moved = process._replace(at=at)
                if at == "seen":
                    moved = self._seen(process)
                yield f"finds no tag of table {table}", world, moved
            case "tag" | "look for tag":
                live = world.entry(process.number).tags[table]
                view = (*(process.view if TAG_FIRST in self.omitted else process.view[:-1]), live)
                yield f"takes the tag of table {table}", world, self._seen(process._replace(view=view))
            case "newest":
                moved = process._replace(view=(*process.view, world.mains[table][-1].live))
                needs_tag = TAG_FIRST not in self.omitted and process.number != 0
                moved = moved._replace(at="look for tag") if needs_tag else self._seen(moved)
                yield f"reads the newest snapshot of table {table}", world, moved
            case "list again":
                if world.names() != process.listed and READ_AGAIN not in self.omitted:
                    yield "sees another journal", world, Process("list")
                    return
                shown = [{name for name in live if name.isdigit()} for live in process.view]
                if shown[0] != shown[1]:
                    world = world._replace(broken=f"A consistent view shows publications {shown[0]} and {shown[1]}")
                yield "sees the same journal: done", world, END

    def _seen(self, process: Process) -> Process:
        if process.table == 1:
            return process._replace(at="list again", table=0)
        return process._replace(at="tag" if TAG_FIRST in self.omitted else "newest", table=1)

    def _counts_as_open(self, entry: Entry) -> bool:
        return entry.is_open and not (entry.outcome == "undone" and UNDONE_IS_CLOSED in self.omitted)

    def _write(self, world: World, process: Process) -> Moves:
        if process.length < self.writes:
            name = f"w{process.length + 1}"
            after = world.committed(0, Snapshot(name, world.mains[0][-1].live | {name}))
            yield (
                f"commits {name}",
                after._replace(acked=world.acked | {name}),
                process._replace(length=process.length + 1),
            )
