"""The interactive shell: statements that end with a semicolon, with history, completion of names, and progress."""

import contextlib
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from rich.console import Console
from rich.text import Text

from storage import StorageError

from ..links.shown_text import in_terminal
from ..private_files import make_private_directory, write_private
from ..sql.ends import is_ended
from ..sql.procedures import PROCEDURES
from ..sql.result import Result
from ..sql.statements import Statements
from .progress import RUNNING, beside
from .rendering import print_rows

_WORDS = (
    "ALTER TABLE",
    "CALL sys.",
    "CREATE BRANCH",
    "CREATE CATALOG",
    "CREATE DATABASE",
    "CREATE TABLE",
    "DELETE FROM",
    "DESCRIBE",
    "DROP TABLE",
    "EXPLAIN",
    "FROM",
    "GROUP BY",
    "INSERT INTO",
    "INSERT OVERWRITE",
    "JOIN",
    "MERGE INTO",
    "ORDER BY",
    "PARTITION",
    "RESET",
    "SELECT",
    "SET",
    "SHOW TABLES",
    "TIMESTAMP AS OF",
    "TRUNCATE TABLE",
    "UPDATE",
    "USE",
    "VERSION AS OF",
    "WHERE",
)
_HISTORY_LINES = 2000


def print_results(results: Iterable[Result], form: str, console: Console) -> None:
    """Show what each statement gave as soon as it is there; wait for streams until they end or Ctrl-C stops them."""
    going_on: list[Result] = []
    for result in results:
        if result.stream is None and result.rows is None and result.frame is None:
            console.print(Text(in_terminal(result.message)), soft_wrap=True)
        elif result.stream is None:
            print_rows(result.to_arrow(), form)
        else:
            console.print(Text(in_terminal(result.message)), soft_wrap=True)
            if result.ends:
                _wait(result, console)
            else:
                going_on.append(result)
    for result in going_on:
        _wait(result, console)


def _wait(result: Result, console: Console) -> None:
    assert result.stream is not None
    try:
        result.wait()
    except KeyboardInterrupt:
        result.stream.stop()
    console.print(f"{len(result.stream.recentProgress)} micro-batches.")


def run_shell(statements: Statements, engine: str, form: str, console: Console, history: Path) -> None:
    """Read statements until the end of the input."""
    with _line_editing(statements, history):
        pending = ""
        while True:
            try:
                line = input("snapline> " if not pending else "      ... ")
            except EOFError:
                console.print()
                return
            except KeyboardInterrupt:
                pending = ""
                console.print()
                continue
            if not pending and line.strip().lower() in ("quit", "exit", "quit;", "exit;"):
                return
            pending = f"{pending}\n{line}" if pending else line
            if is_ended(pending):
                _run(statements, pending, engine, form, console)
                pending = ""


def _run(statements: Statements, text: str, engine: str, form: str, console: Console) -> None:
    start = time.monotonic()
    try:
        with console.status(RUNNING) if console.is_terminal else contextlib.nullcontext() as status, beside(status):
            print_results(statements.each(text, engine), form, console)
        console.print(f"[dim]{time.monotonic() - start:.2f} s[/]")
    except StorageError as error:
        console.print(Text.assemble(("Error:", "red"), f" {in_terminal(str(error))}"), soft_wrap=True)
    except KeyboardInterrupt:
        console.print("stopped")


@contextlib.contextmanager
def _line_editing(statements: Statements, history: Path) -> Iterator[None]:
    try:
        import readline
    except ImportError:
        # No line editing on this platform.
        yield
        return
    with contextlib.suppress(OSError):
        readline.read_history_file(history)
    readline.set_history_length(_HISTORY_LINES)
    readline.set_completer(lambda text, state: [*completions(statements, text), None][state])
    readline.set_completer_delims(" \t\n,;()=")
    readline.parse_and_bind("tab: complete")
    try:
        yield
    finally:
        make_private_directory(history.parent)
        with contextlib.suppress(OSError):
            # Statements may hold secrets.
            write_private(history, "")
            readline.write_history_file(history)


def completions(statements: Statements, text: str) -> list[str]:
    """Words, procedures, tables and columns of the current database that begin with a text."""
    known = [*_WORDS, *(f"sys.{name}(" for name in PROCEDURES), *statements.known_names()]
    return sorted({each for each in known if each.lower().startswith(text.lower())})
