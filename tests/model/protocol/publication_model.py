"""Publications over one table or two: publishers who merge or replace mains, somebody who works by hand, a recoverer who is
called as often as he likes, a plain writer, a reader of a consistent view, an expirer.

Publication 1 brings the change "1" to every table, by a commit "1" or by its branch, which becomes main. So a view is whole if
all tables show the same publications. A commit on a main is one step here: `commit_model.py` is about what is inside of it. A
fence changes nothing but that whoever was about to follow the snapshot below finds his number taken: no more is kept of it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

# The steps that can be left out, or done otherwise.
LOWER = "who finishes a publication does not look for open entries with a lower number before each try"
HIGHER = "who finishes a publication is refused as long as there is another one, whatever its number"
ASK = "the outcome is not asked for before each try"
ASK_LATE = "the outcome is asked for before the newest snapshot is read, not after"
FENCE = "an undo puts no fence on a main"
DECIDE = "an undo does not decide the outcome first"
OUTCOME = "a publisher overwrites the outcome"
UNDONE_IS_CLOSED = "an undone publication counts as closed at once"
TAG_FIRST = "a reader looks for the tag first, then for the newest snapshot"
TAG_KEPT = "the tag of a publication stays on the snapshot that it was put on first"
READ_AGAIN = "a reader does not list the journal a second time"
OWN_COMMIT = "who repeats a publication does not look whether it has its commit already"
WITHDRAW_AT_ONCE = "a withdrawn entry is closed without being undone"
EXACT = "an undo refuses if somebody has written to a main meanwhile, after it has decided"
CLOSE_FIRST = "mains are replaced as they come, without being closed first"
CLOSE_ALL = "it is decided that mains are replaced before all of them are closed"
GIVE = "a branch that becomes main is not given what main did elsewhere"
OPEN_AGAIN = "an undo does not open what was closed"
OPEN_TWICE = "an undo looks whether main is closed before it puts its fence, not after"
HAND_LOOKS = "who works by hand does not look at the journal with each try"
HAND_HOLDS = "who works by hand leaves no mark before he looks"
HAND_LOOKS_AGAIN = "who replaces main by hand does not look at the journal once it is closed"
STOP_OTHERS = "a publisher puts no fence where somebody holds something"
REFUSE_CLOSED = "a publisher does not look whether a main is closed"
EXPIRER_ASKS = "an expirer does not ask the journal"
EXPIRER_ASKS_FIRST = "an expirer asks the journal before it reads the history"

Live = frozenset[str]
Place = tuple[int, int]
STALE: Place = (-1, -1)


class Entry(NamedTuple):
    """One publication of the journal, and its tags: what each main was before. `before`: the newest number of each main when the
    entry was made; `judged`, which no process sees: whether its publisher has found every main as it must be.
    """

    kind: str
    before: tuple[int, ...] = ()
    outcome: str = ""
    is_closed: bool = False
    tags: tuple[tuple[Place, Live] | None, ...] = ()
    judged: bool = False

    @property
    def is_open(self) -> bool:
        return bool(self.kind) and not self.is_closed and self.outcome != "published"


class Snapshot(NamedTuple):
    """`closes`: who has closed main by it, the number of a publication or "hand"."""

    commit: str
    live: Live
    closes: str = ""


class Table(NamedTuple):
    """Main's log, from number 1 on, those below `earliest` expired; the branches that have become main, one after the other, and
    what of main each of the branches has been given that are to become main.
    """

    log: tuple[Snapshot, ...] = (Snapshot("", frozenset()),)
    earliest: int = 1
    mains: tuple[str, ...] = ()
    given: tuple[tuple[str, Live], ...] = ()

    @property
    def place(self) -> Place:
        return len(self.mains), len(self.log)

    @property
    def top(self) -> Snapshot:
        return self.log[-1]

    def commits(self) -> set[str]:
        return {snapshot.commit for snapshot in self.log[self.earliest - 1 :]}

    def shows(self, number: int) -> bool:
        return str(number) in self.mains or str(number) in self.commits()

    def has_landed(self, commit: str) -> bool:
        """Whether a commit id is known: expiry remembers those that it lets go."""
        return any(snapshot.commit == commit for snapshot in self.log)

    def replaced(self, branch: str) -> "Table":
        given = dict(self.given).get(branch, frozenset())
        return Table((Snapshot(branch, given | {branch}),), mains=(*self.mains, branch))


class World(NamedTuple):
    journal: tuple[Entry, ...]
    tables: tuple[Table, ...]
    holds: bool = False
    acked: Live = frozenset()
    taken: Live = frozenset()
    fenced: int | None = None
    broken: str | None = None

    def entry(self, number: int) -> Entry:
        return self.journal[number - 1]

    def with_entry(self, number: int, **changes: object) -> "World":
        changed = self.journal[number - 1]._replace(**changes)  # type: ignore[arg-type]
        return self._replace(journal=(*self.journal[: number - 1], changed, *self.journal[number:]))

    def with_table(self, table: int, changed: Table) -> "World":
        return self._replace(tables=(*self.tables[:table], changed, *self.tables[table + 1 :]))

    def committed(self, table: int, commit: str, live: Live, closes: str = "") -> "World":
        changed = self.tables[table]
        return self.with_table(table, changed._replace(log=(*changed.log, Snapshot(commit, live, closes))))

    def names(self) -> tuple[tuple[bool, str, bool], ...]:
        return tuple((entry.is_closed, entry.outcome, bool(entry.kind)) for entry in self.journal)

    def open_entries(self) -> list[int]:
        return [number for number, entry in enumerate(self.journal, 1) if entry.is_open]


class Process(NamedTuple):
    """`seen`: the place in the log that a process acts on, STALE once a fence is on top of it."""

    at: str
    number: int = 0
    table: int = 0
    seen: Place = STALE
    view: tuple[Live, ...] = ()
    listed: tuple[tuple[bool, str, bool], ...] = ()
    is_on: bool = False


State = tuple[World, tuple[Process, ...]]
Moves = Iterator[tuple[str, World, Process]]
# Recovery goes from the lowest number on, unless it is asked for those of one branch.
BY_BRANCH = "by the name of its branch, "
END = Process("end")
IDLE = Process("idle")


@dataclass(frozen=True)
class PublicationModel:
    """`publishers`: "merge" or "replace", for each; `by_hand`: "rollback", "merge" or "replace", or nobody; `writes`: how often
    somebody writes to the last table; `diverges`: mains count as diverged then. `alone`: all but readers have died, wherever
    they were, when a recoverer begins; else they sleep, and go on whenever they like.
    """

    publishers: tuple[str, ...] = ("merge",)
    tables: int = 2
    recoverers: int = 1
    readers: int = 0
    writes: int = 0
    diverges: bool = False
    by_hand: str = ""
    expirers: int = 0
    alone: bool = False
    omitted: frozenset[str] = frozenset()

    @property
    def names(self) -> tuple[str, ...]:
        counts = (
            ("publisher", len(self.publishers)),
            ("recoverer", self.recoverers),
            ("reader", self.readers),
            ("writer", int(self.writes > 0)),
            ("hand", int(bool(self.by_hand))),
            ("expirer", self.expirers),
        )
        return tuple(f"{kind} {number + 1}" for kind, count in counts for number in range(count))

    def initial(self) -> State:
        begin = {"recoverer": IDLE, "reader": Process("list"), "writer": Process("read"), "hand": Process("look first")}
        world = World((), (Table(),) * self.tables)
        return world, tuple(begin.get(name.split()[0], Process("begin")) for name in self.names)

    def steps(self, state: State) -> Iterator[tuple[str, State]]:
        world, processes = state
        if world.broken:
            return
        acts = {
            "recoverer": self._recover,
            "reader": self._read,
            "writer": self._write,
            "hand": self._by_hand,
            "expirer": self._expire,
        }
        for index, (name, process) in enumerate(zip(self.names, processes, strict=True)):
            if process.at == "end":
                continue
            if name.startswith("publisher"):
                moves = self._publish(self.publishers[index], world, process)
            else:
                moves = acts[name.split()[0]](world, process)
            for label, after, moved in moves:
                others = processes
                if self.alone and name.startswith("recoverer"):
                    lives = [process_name.startswith(("recoverer", "reader")) for process_name in self.names]
                    others = tuple(other if live else END for other, live in zip(others, lives, strict=True))
                if after.fenced is not None:
                    others = tuple(
                        other._replace(seen=STALE) if other.table == after.fenced and other.at in _ON_TOP else other
                        for other in others
                    )
                    after = after._replace(fenced=None)
                yield f"{name}: {label}", (after, (*others[:index], moved, *others[index + 1 :]))

    def wrong(self, state: State) -> str | None:
        world, _ = state
        if world.broken:
            return world.broken
        tops = [table.top for table in world.tables]
        for number, entry in enumerate(world.journal, 1):
            is_shown = entry.outcome == "published" or (entry.outcome == "replacing" and entry.is_closed)
            if is_shown and not all(str(number) in top.live | world.taken for top in tops):
                return f"Publication {number} is {entry.outcome}, and not on every main"
            if not entry.is_closed:
                continue
            if entry.outcome == "undone" and any(str(number) in top.live for top in tops):
                return f"Publication {number} is undone, and still on a main"
            if any(top.closes == str(number) for top in tops):
                return f"Publication {number} has ended, and a main that it has closed stays closed"
        for commit in world.acked - tops[-1].live - world.taken:
            return f"The acknowledged commit {commit} is not in the newest snapshot"
        for table in world.tables:
            commits = [snapshot.commit for snapshot in table.log if snapshot.commit not in ("open", "close")]
            if len(set(commits)) < len(commits):
                return f"A commit landed twice: {commits}"
        return None

    @staticmethod
    def recovers(label: str) -> bool:
        """Whether a step is one of somebody who recovers all that there is."""
        return label.startswith("recoverer") and BY_BRANCH not in label

    @staticmethod
    def is_over(state: State) -> bool:
        """Whether every publication that was begun is closed."""
        return all(entry.is_closed or not entry.kind for entry in state[0].journal)

    # A publisher, or whoever finishes his publication: the latter has no kind of his own, and is idle afterwards.

    def _publish(self, kind: str, world: World, process: Process) -> Moves:
        omitted, number, table = self.omitted, process.number, process.table
        end = END if kind else IDLE
        match process.at:
            case "begin":
                free = next((n for n, e in enumerate(world.journal, 1) if not e.kind), len(world.journal) + 1)
                yield f"lists the journal: {free} is free", world, process._replace(at="open", number=free)
            case "open" if number <= len(world.journal) and world.entry(number).kind:
                yield f"open-{number} is there already", world, process._replace(number=number + 1)
            case "open":
                before = tuple(len(main.log) for main in world.tables)
                world = world._replace(journal=world.journal + (Entry(""),) * (number - len(world.journal)))
                after = world.with_entry(number, **Entry(kind, before, tags=(None,) * self.tables)._asdict())
                at = "stop others" if self.by_hand else "look"
                yield f"creates open-{number}", after, Process(at, number)
            case "stop others":
                moved = self._next(process, "look")
                if world.holds and table == 0 and STOP_OTHERS not in omitted:
                    yield "sees a hold on table 0: puts a fence on it", world._replace(fenced=0), moved
                else:
                    yield f"sees no hold on table {table}", world, moved
            case "look":
                lower = self._others(world, number, only_lower=True)
                if lower:
                    yield f"sees that {lower[0]} is open", world, Process("withdraw", number)
                else:
                    yield "sees no lower one open", world, Process("judge", number)
            case "judge":
                if self._is_refused(world, table, number):
                    yield f"judges table {table}: refused", world, Process("withdraw", number)
                else:
                    moved = self._next(process, self._first_step(world, number))
                    if moved.table == 0:
                        world = world.with_entry(number, judged=True)
                    yield f"judges table {table}: may be done", world, moved
            case "withdraw":
                # It is undone like any other: somebody may be finishing it.
                yield from self._decide(world, process, "undone")
            case "read" | "read now" | "ask" | "tag" | "ask again" | "commit":
                yield from self._merge(world, process, end)
            case "outcome":
                if OUTCOME in omitted:
                    world = world.with_entry(number, outcome="")
                yield from self._decide(world, process, "published")
            case "clean up":
                yield f"creates closed-{number}", world.with_entry(number, is_closed=True), Process("drop tags", number)
            case "drop tags":
                yield "deletes its tags", world.with_entry(number, tags=(None,) * self.tables), end
            case _ if process.at in ("fence", "open again", "own", "back"):
                yield from self._undo(world, process, end)
            case _:
                yield from self._replace(world, process)

    def _first_step(self, world: World, number: int) -> str:
        if world.entry(number).kind == "merge":
            return "read"
        if world.entry(number).outcome == "replacing":
            return "replace"
        return "decide replacing" if CLOSE_ALL in self.omitted or CLOSE_FIRST in self.omitted else "close read"

    def _next(self, process: Process, then: str) -> Process:
        """The same step on the next table, or, after the last of them, another one."""
        if process.table + 1 < self.tables:
            at = "read" if process.at in ("ask", "tag", "ask again", "commit") else process.at
            at = "close read" if at.startswith("close ") else "fence" if at in ("open again", "own", "back") else at
            return Process(at, process.number, process.table + 1)
        return Process(then, process.number)

    def _others(self, world: World, number: int, *, only_lower: bool) -> list[int]:
        return [
            candidate
            for candidate in world.open_entries()
            if candidate < number or (candidate != number and not only_lower)
        ]

    def _is_diverged(self, world: World, table: int) -> bool:
        return self.diverges and any(name.startswith("w") for name in world.tables[table].top.live)

    def _is_refused(self, world: World, table: int, number: int) -> bool:
        closes = world.tables[table].top.closes
        is_closed = closes not in ("", str(number)) and REFUSE_CLOSED not in self.omitted
        was_replaced = len(world.tables[table].log) < world.entry(number).before[table]
        return is_closed or was_replaced or self._is_diverged(world, table)

    def _may_go_on(self, world: World, number: int) -> str | None:
        """What the guard of each try says: why it refuses, if it does."""
        outcome = world.entry(number).outcome
        others = self._others(world, number, only_lower=HIGHER not in self.omitted)
        if others and LOWER not in self.omitted:
            return f"{others[0]} is open"
        if ASK not in self.omitted and (outcome in ("published", "undone") or world.entry(number).is_closed):
            return f"it is {outcome}"
        return None

    def _decide(self, world: World, process: Process, wish: str) -> Moves:
        """`outcome-<number>`, created if absent: what holds is done."""
        number = process.number
        outcome = world.entry(number).outcome or wish
        after = {"published": "clean up", "undone": "fence", "replacing": "replace"}[outcome]
        if outcome == "undone" and WITHDRAW_AT_ONCE in self.omitted and process.at == "withdraw":
            after = "clean up"
        yield f"outcome-{number} is {outcome}", world.with_entry(number, outcome=outcome), Process(after, number)

    def _pinned(self, world: World, number: int, table: int) -> World:
        """The tag on the newest snapshot: it only moves to newer ones."""
        tags, main = list(world.entry(number).tags), world.tables[table]
        there = tags[table]
        if there is None or (there[0] < main.place and TAG_KEPT not in self.omitted):
            tags[table] = main.place, main.top.live
        return world.with_entry(number, tags=tuple(tags))

    # Merging: one commit on each main.

    def _merge(self, world: World, process: Process, end: Process) -> Moves:
        omitted, number, table = self.omitted, process.number, process.table
        main = world.tables[table]
        refusal = self._may_go_on(world, number)
        match process.at:
            case "read" if main.has_landed(str(number)) and OWN_COMMIT not in omitted:
                yield f"sees its commit on table {table}", world, self._next(process, "outcome")
            case "read" if main.top.closes or self._is_diverged(world, table):
                yield f"cannot merge into table {table}: it stays open", world, end
            case "read" if ASK_LATE in omitted:
                yield (
                    f"asks the journal: {refusal or 'may go on'}",
                    world,
                    end if refusal else process._replace(at="read now"),
                )
            case "read" | "read now":
                moved = process._replace(at="commit" if ASK_LATE in omitted else "ask", seen=main.place)
                yield f"reads the newest of table {table}: {main.place[1]}", world, moved
            case "ask" | "ask again" if refusal:
                yield f"asks the journal: {refusal}", world, end
            case "ask":
                yield "asks the journal: it may go on", world, process._replace(at="tag")
            case "tag" if process.seen != main.place:
                # What it puts the tag on is not the newest any more, and its commit will not land.
                yield (
                    "is about to tag what is not the newest: begins again",
                    world,
                    process._replace(at="read", seen=STALE),
                )
            case "tag":
                is_new = world.entry(number).tags[table] is None
                at = "ask again" if is_new else "commit"
                after = self._pinned(world, number, table)
                if is_new and world.entry(number).is_closed:
                    yield "sees that it has ended: deletes the tag", world, end
                else:
                    yield f"tags the newest of table {table}", after, process._replace(at=at)
            case "ask again":
                yield "asks the journal: it may go on", world, process._replace(at="commit")
            case "commit" if process.seen != main.place:
                yield f"finds its number of table {table} taken", world, process._replace(at="read", seen=STALE)
            case "commit":
                after = world.committed(table, str(number), main.top.live | {str(number)})
                yield f"commits to table {table}", after, self._next(process, "outcome")

    # Replacing mains: close all, judge all again, give, decide, replace.

    def _replace(self, world: World, process: Process) -> Moves:
        omitted, number, table = self.omitted, process.number, process.table
        main, name = world.tables[table], str(number)
        is_main = name in main.mains
        to_undo = Process("decide undone", number)
        refusal = self._may_go_on(world, number)
        match process.at:
            case "close read" if is_main or main.top.closes == name:
                yield f"sees that main of table {table} is closed", world, self._next(process, "settle")
            case "close read" if main.top.closes or self._is_diverged(world, table):
                yield f"judges that main of table {table} must not be replaced", world, to_undo
            case "close read":
                yield f"reads the newest of table {table}", world, process._replace(at="close ask", seen=main.place)
            case "close ask":
                if refusal:
                    yield f"asks the journal: {refusal}", world, to_undo
                else:
                    after = self._pinned(world, number, table) if process.seen == main.place else world
                    yield "asks the journal: it may go on; tags", after, process._replace(at="close now")
            case "close now" if process.seen != main.place:
                yield f"finds its number of table {table} taken", world, Process("close read", number, table)
            case "close now":
                after = world.committed(table, "close", main.top.live, closes=name)
                yield f"closes main of table {table}", after, self._next(process, "settle")
            case "settle" | "give":
                if is_main:
                    yield "sees that it is main", world, self._next(process, "decide replacing")
                elif main.top.closes != name or refusal:
                    yield f"sees that main of table {table} was opened again", world, to_undo
                elif process.at == "settle":
                    yield f"judges table {table} again", world, self._next(process, "give")
                else:
                    after = world if GIVE in omitted else self._given(world, table, name)
                    yield (
                        f"gives the branch what main of table {table} did",
                        after,
                        self._next(process, "decide replacing"),
                    )
            case "decide replacing" | "decide undone":
                wish = process.at.removeprefix("decide ")
                yield from self._decide(world, process, wish)
            case "replace" if is_main:
                yield f"sees that the branch is main of table {table}", world, self._next(process, "clean up")
            case "replace" if refusal:
                yield f"asks the journal: {refusal}", world, END
            case "replace" if CLOSE_FIRST in omitted and not main.top.closes:
                after = self._given(world, table, name)
                yield f"reads table {table}", after, process._replace(at="replace now")
            case "replace" if CLOSE_ALL in omitted and main.top.closes != name:
                if main.top.closes or self._is_diverged(world, table):
                    yield f"cannot replace main of table {table}: it stays open", world, END
                else:
                    after = self._given(world.committed(table, "close", main.top.live, closes=name), table, name)
                    yield f"closes main of table {table}", after, process
            case "replace" if main.top.closes != name:
                yield f"sees that main of table {table} is not closed: refused", world, END
            case "replace" | "replace now":
                after = world.with_table(table, main.replaced(name))
                yield (
                    f"makes the branch main of table {table}",
                    after,
                    self._next(process._replace(at="replace"), "clean up"),
                )

    @staticmethod
    def _given(world: World, table: int, branch: str) -> World:
        main = world.tables[table]
        given = tuple(sorted({**dict(main.given), branch: main.top.live}.items(), key=lambda pair: pair[0]))
        return world.with_table(table, main._replace(given=given))

    # Recovery: finishing is what a publisher does; undoing decides, opens or fences, and takes back what has landed.

    def _recover(self, world: World, process: Process) -> Moves:
        number = process.number
        if process.at == "idle":
            left = [number for number, entry in enumerate(world.journal, 1) if entry.kind and not entry.is_closed]
            for candidate in left:
                entry, prefix = world.entry(candidate), "" if candidate == left[0] else BY_BRANCH
                if entry.outcome in ("published", "undone"):
                    at = "clean up" if entry.outcome == "published" else "fence"
                    yield f"{prefix}goes on with {candidate}, which is {entry.outcome}", world, Process(at, candidate)
                    continue
                yield f"{prefix}finishes {candidate}", world, Process(self._first_step(world, candidate), candidate)
                if entry.outcome != "replacing":
                    at = "fence" if DECIDE in self.omitted else "decide"
                    yield f"{prefix}undoes {candidate}", world, Process(at, candidate)
            return
        yield "dies, and is called again", world, IDLE
        if process.at in ("decide", "decide late"):
            outcome = world.entry(number).outcome or "undone"
            after = world.with_entry(number, outcome=outcome)
            if process.at == "decide late" and outcome == "undone":
                yield f"outcome-{number} is {outcome}", after, Process("clean up", number)
            else:
                yield from self._decide(world, process, "undone")
        else:
            for label, after, moved in self._publish("", world, process):
                yield label, after, IDLE if moved == END else moved

    def _undo(self, world: World, process: Process, end: Process) -> Moves:
        omitted, number, table = self.omitted, process.number, process.table
        main, name = world.tables[table], str(number)
        next_ = self._next(process, "decide late" if DECIDE in omitted else "clean up")
        match process.at:
            case "fence" if main.top.closes == name and OPEN_AGAIN not in omitted and process.seen == STALE:
                after = world.committed(table, "open", main.top.live)
                yield f"opens main of table {table} again", after, process._replace(at="own")
            case "fence":
                at = "own" if OPEN_TWICE in omitted else "open again"
                if OPEN_TWICE in omitted and FENCE not in omitted and process.seen == STALE:
                    yield f"sees that main of table {table} is not closed", world, process._replace(seen=main.place)
                elif main.top.closes or FENCE in omitted:
                    yield f"puts no fence on table {table}", world, process._replace(at=at, seen=STALE)
                else:
                    moved = process._replace(at=at, seen=STALE)
                    yield f"puts a fence on table {table}", world._replace(fenced=table), moved
            case "open again" if main.top.closes == name and OPEN_AGAIN not in omitted:
                after = world.committed(table, "open", main.top.live)
                yield f"opens main of table {table} again", after, process._replace(at="own")
            case "open again":
                yield f"sees that main of table {table} is open", world, process._replace(at="own")
            case "own" if name not in main.commits() or main.has_landed(f"undo {name}"):
                yield f"sees nothing of it to be taken back on table {table}", world, next_
            case "own" if name not in main.top.live:
                yield f"sees that somebody has taken it back on table {table}", world, next_
            case "own" if EXACT in omitted and main.top.commit != name:
                yield "sees that somebody has written since: refuses", world, end
            case "own":
                yield f"reads the newest of table {table}", world, process._replace(at="back", seen=main.place)
            case "back" if process.seen != main.place:
                yield f"finds its number of table {table} taken", world, process._replace(at="own", seen=STALE)
            case "back":
                tag = world.entry(number).tags[table]
                # The tag tells what main was, unless somebody has written since: that stays.
                live = tag[1] if tag is not None and main.top.commit == name else main.top.live - {name}
                yield f"takes table {table} back", world.committed(table, f"undo {name}", live), next_

    # Somebody who works by hand on the first table: he leaves a mark first, then looks at the journal.

    def _by_hand(self, world: World, process: Process) -> Moves:
        omitted, main = self.omitted, world.tables[0]
        others, done = world.open_entries(), world._replace(holds=False)
        match process.at:
            case "look first":
                # To say no at once: nothing rests on it.
                at = "read" if self.by_hand == "replace" or HAND_HOLDS in omitted else "hold"
                yield "begins", world, Process(at)
            case "hold":
                yield "leaves a hold", world._replace(holds=True), Process("read")
            case "read" if main.top.closes:
                yield "sees that main is closed: refused", done, END
            case "read" if self.by_hand == "rollback" and process.view and main.top.live - process.view[0]:
                yield "sees that somebody has written: refused", done, END
            case "read":
                at = "act" if HAND_LOOKS in omitted else "look"
                yield "reads the newest", world, Process(at, seen=main.place, view=process.view or (main.top.live,))
            case "look" if others:
                yield f"asks the journal: {others[0]} is open: refused", done, END
            case "look":
                yield "asks the journal: none is open", world, process._replace(at="act")
            case "act" if process.seen != main.place:
                yield "finds its number taken", world, process._replace(at="read", seen=STALE)
            case "act" if self.by_hand == "replace":
                at = "replace" if HAND_LOOKS_AGAIN in omitted else "look again"
                yield "closes main", world.committed(0, "close", main.top.live, closes="hand"), Process(at)
            case "act":
                live = main.top.live | {"hand"} if self.by_hand == "merge" else frozenset()
                after = self._beside(world.committed(0, "hand", live))
                after = after._replace(taken=after.taken | (main.top.live - live), holds=False)
                yield f"puts its {self.by_hand} on top", after, END
            case "look again" if others:
                after = world.committed(0, "open", main.top.live)
                yield f"asks the journal: {others[0]} is open: opens main again", after, END
            case "look again":
                yield "asks the journal: none is open", world, process._replace(at="replace")
            case "replace":
                given = self._given(world, 0, "hand")
                yield "makes its branch main", self._beside(given.with_table(0, given.tables[0].replaced("hand"))), END

    @staticmethod
    def _beside(world: World) -> World:
        for number, entry in enumerate(world.journal, 1):
            if entry.is_open and entry.judged and not entry.outcome:
                return world._replace(broken=f"Main changes by hand, which publication {number} has judged")
        return world

    # A reader of a consistent view, a plain writer, an expirer.

    def _read(self, world: World, process: Process) -> Moves:
        omitted, table, number = self.omitted, process.table, process.number
        first = next((n for n, entry in enumerate(world.journal, 1) if entry.kind and self._counts_as_open(entry)), 0)
        main = world.tables[table]
        match process.at:
            case "list":
                at = "tag" if TAG_FIRST in omitted else "newest"
                yield (
                    f"lists the journal: {first or 'nothing'} is open",
                    world,
                    Process(at, first, listed=world.names()),
                )
            case "newest":
                # What was read of a main that is replaced since is read again.
                is_on = number != 0 and main.shows(number)
                moved = process._replace(view=(*process.view[:table], main.top.live), seen=main.place, is_on=is_on)
                needs_tag = TAG_FIRST not in omitted and is_on
                yield (
                    f"reads the newest of table {table}",
                    world,
                    moved._replace(at="tag") if needs_tag else self._seen(moved),
                )
            case "tag":
                tag = world.entry(number).tags[table] if number else None
                if tag is None and TAG_FIRST not in omitted:
                    if world.names() == process.listed:
                        world = world._replace(
                            broken="A reader finds nothing that was before a publication which is open"
                        )
                    yield f"finds no tag of table {table}: begins again", world, Process("list")
                elif tag is None:
                    yield f"finds no tag of table {table}", world, process._replace(at="newest")
                else:
                    moved = self._seen(process._replace(view=(*process.view[:table], tag[1])))
                    yield f"takes the tag of table {table}", world, moved
            case "list again":
                if world.names() != process.listed and READ_AGAIN not in omitted:
                    yield "sees another journal", world, Process("list")
                    return
                shown = [{name for name in live if name.isdigit()} for live in process.view]
                if any(publications != shown[0] for publications in shown):
                    world = world._replace(broken=f"A consistent view shows publications {shown[0]} and {shown[-1]}")
                yield "sees the same journal: done", world, END

    def _seen(self, process: Process) -> Process:
        if process.table == self.tables - 1:
            return process._replace(at="list again", table=0)
        return process._replace(at="tag" if TAG_FIRST in self.omitted else "newest", table=process.table + 1)

    def _counts_as_open(self, entry: Entry) -> bool:
        return entry.is_open and not (entry.outcome == "undone" and UNDONE_IS_CLOSED in self.omitted)

    def _write(self, world: World, process: Process) -> Moves:
        table = self.tables - 1
        main, name = world.tables[table], f"w{process.number + 1}"
        match process.at:
            case "read" if process.number == self.writes:
                return
            case "read" if main.top.closes:
                yield "sees that main is closed: refused", world, process._replace(number=process.number + 1)
            case "read":
                yield "reads the newest", world, process._replace(at="create", seen=main.place, table=table)
            case "create" if process.seen != main.place:
                yield "finds its number taken", world, process._replace(at="read", seen=STALE)
            case "create":
                after = world.committed(table, name, main.top.live | {name})
                yield f"commits {name}", after._replace(acked=world.acked | {name}), Process("read", process.number + 1)

    def _expire(self, world: World, process: Process) -> Moves:
        """Expire all of the last table but the newest: `number` is how far it wants to go, `seen` which main it read."""
        last = self.tables - 1
        main = world.tables[last]
        begun = [entry.before[last] for entry in world.journal if entry.is_open]
        bound = 99 if EXPIRER_ASKS in self.omitted else min(begun, default=99)
        match process.at:
            case "begin" if EXPIRER_ASKS_FIRST in self.omitted:
                yield f"asks the journal: up to {bound}", world, Process("history", bound)
            case "begin" | "history":
                moved = Process("ask", len(main.log), seen=main.place)
                if process.at == "history":
                    moved = Process("expire", min(process.number, len(main.log)), seen=main.place)
                yield f"reads the history: {len(main.log)} is the newest", world, moved
            case "ask":
                up_to = min(process.number, bound)
                yield f"asks the journal: up to {up_to}", world, process._replace(at="expire", number=up_to)
            case "expire" if process.seen[0] == len(main.mains):
                after = world.with_table(last, main._replace(earliest=max(main.earliest, process.number)))
                yield f"expires what is below {process.number}", after, END
            case "expire":
                yield "sees that main is another branch", world, END


_ON_TOP = ("ask", "tag", "ask again", "commit", "close ask", "close now", "back", "create", "look", "act")
