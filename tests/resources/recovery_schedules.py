"""Operations on one recovery, and one of them stopped before a call to the file system while another is done to its end."""

import itertools
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from resources import Session
from resources.recovery import Recovery, plan_recovery
from resources.recovery.publish import publish
from storage import StorageError
from storage.file_io import FileIO

LOG = "INSERT OVERWRITE db.log SELECT * FROM db.src"
# What changes something, or looks at one file of the recovery itself.
_CHANGES = (
    "create_exclusively",
    "write_bytes",
    "overwrite",
    "raise_number",
    "delete_if",
    "replace_if",
    "rename_if",
    "delete",
    "delete_directory",
    "move_directory",
    "move_directory_if",
    "move_directory_if_absent",
    "move_directory_unless",
)
_LOOKS = ("read_bytes_or_none", "list_directories")
_CORRECTION = "UPDATE db.src SET v = 20 WHERE k = 2"


class Died(BaseException):
    """The process of the first operation is killed."""


def start(session: Session) -> Any:
    plan = plan_recovery(session, session.ref("db.src@2"))
    return Recovery.start(session, "fix", plan).branch


def correct(session: Session) -> Any:
    return Recovery.open(session, "fix").correct(_CORRECTION)


def beside(session: Session) -> Any:
    """A table that is in no plan is written on the branch."""
    return Recovery.open(session, "fix").correct("INSERT INTO db.other VALUES (9, 9)")


def replay(session: Session) -> Any:
    return Recovery.open(session, "fix").replay()


def publish_it(session: Session) -> Any:
    return publish(session, Recovery.open(session, "fix"), {})


def insist(session: Session) -> Any:
    """Publish, whatever is left to do."""
    return publish(session, Recovery.open(session, "fix"), {}, allow_incomplete=True)


def drop(session: Session) -> Any:
    return Recovery.open(session, "fix").drop()


def produce(session: Session) -> Any:
    return session.sql("INSERT INTO db.src VALUES (4, 40)", "duckdb")


OPERATIONS: Mapping[str, Callable[[Session], Any]] = {
    "start": start,
    "correct": correct,
    "beside": beside,
    "replay": replay,
    "publish": publish_it,
    "insist": insist,
    "drop": drop,
    "produce": produce,
}
# How far a recovery has come: planned alone, begun, corrected; and production has gone on since, which was replayed.
STATES = ("planned", "started", "mended", "moved", "replayed")


def prepare(session: Session, state: str) -> None:
    """A table of which the second snapshot is bad, another one, and a recovery that has come so far."""
    session.sql(
        "CREATE DATABASE db; CREATE TABLE db.src (k INT, v INT); CREATE TABLE db.other (k INT, v INT)", "duckdb"
    )
    session.sql("INSERT INTO db.src VALUES (1, 10); INSERT INTO db.src VALUES (2, 666)", "duckdb")
    session.sql("INSERT INTO db.other VALUES (1, 1)", "duckdb")
    for step in (start, correct, _go_on, replay)[: STATES.index(state)]:
        step(session)


def _go_on(session: Session) -> None:
    session.sql("INSERT INTO db.src VALUES (3, 30); INSERT INTO db.other VALUES (5, 5)", "duckdb")


class Beginnings:
    """States in which a warehouse can be, each made once; a session on a warehouse of its own in one of them."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._directory, self._monkeypatch = directory, monkeypatch
        self._made: dict[str, Path] = {}

    @contextmanager
    def session(self, state: str) -> Iterator[Session]:
        """A session; what it has made is gone afterwards."""
        if state not in self._made:
            place = self._made[state] = self._directory / state
            prepare(self._at(place), state)
        place = self._directory / "now"
        shutil.copytree(self._made[state], place)
        try:
            yield self._at(place)
        finally:
            shutil.rmtree(place)

    def _at(self, place: Path) -> Session:
        self._monkeypatch.setenv("SNAPLINE_HOME", str(place))
        return Session()


@contextmanager
def watched(before: Callable[[int, str], None]) -> Iterator[None]:
    """Call a function before each call to the file system that changes something, or looks at what is remembered of recoveries
    or at journals: with its number and what it is.
    """
    numbers = itertools.count()
    with pytest.MonkeyPatch.context() as patch:
        for name in (*_CHANGES, *_LOOKS):
            patch.setattr(FileIO, name, _watched(name, getattr(FileIO, name), numbers, before))
        yield


def _watched(name: str, call: Any, numbers: Iterator[int], before: Callable[[int, str], None]) -> Any:
    def watched_call(self: FileIO, path: str, *given: Any, **named: Any) -> Any:
        if name in _CHANGES or "/.recovery" in path or "/.journal" in path:
            before(next(numbers), f"{name} {path}")
        return call(self, path, *given, **named)

    return watched_call


def answer(operation: Callable[[Session], Any], session: Session) -> str:
    """What becomes of an operation: `done`, or the error that the store raises on purpose."""
    try:
        operation(session)
    except StorageError as error:
        return f"{type(error).__name__}: {error}"
    return "done"


def steps(operation: Callable[[Session], Any], session: Session) -> list[str]:
    """The calls of an operation that nobody disturbs."""
    calls: list[str] = []
    with watched(lambda _, what: calls.append(what)):
        answer(operation, session)
    return calls


def stopped(
    first: Callable[[Session], Any], at: int, second: Callable[[Session], Any], session: Session, *, dies: bool
) -> tuple[str, str]:
    """Stop the first before one of its calls, do the second to its end, and let the first go on; or it dies there, and is
    repeated. Returns what became of both.
    """
    answers: list[str] = []
    other = Session()

    def before(number: int, _: str) -> None:
        # The second is watched as well: its calls come between.
        if number == at:
            answers.append("")
            answers[0] = answer(second, other)
            if dies:
                raise Died

    with watched(before):
        try:
            outcome = answer(first, session)
        except Died:
            outcome = "died"
    if outcome == "died":
        outcome = answer(first, session)
    return outcome, answers[0] if answers else answer(second, other)


def corrected_recovery(session: Session) -> Recovery:
    """A row had been deleted by mistake; the branch has it again, and so has what is made of that."""
    session.sql("CREATE DATABASE db; CREATE TABLE db.src (k INT, v INT); CREATE TABLE db.log (k INT, v INT)", "duckdb")
    session.sql(f"INSERT INTO db.src VALUES (1, 10), (2, 20); {LOG}; DELETE FROM db.src WHERE k = 2; {LOG}", "duckdb")
    recovery = Recovery.start(session, "fix", plan_recovery(session, session.ref("db.src@2")))
    recovery.correct(f"INSERT INTO db.src VALUES (2, 20); {LOG}")
    return recovery
