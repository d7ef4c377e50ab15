"""The interactive shell: statements that end with a semicolon, with history, completion of names, and progress."""

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console

from storage import StorageError
from storage.engines.spark_errors import own_error

from ..private_files import make_private_directory, write_private
from ..rendering import print_rows
from .ends import is_ended
from .procedures import PROCEDURES
from .result import Result
from .statements import Statements

_WORDS = (
    "ALTER TABLE", "CALL sys.", "CREATE BRANCH", "CREATE CATALOG", "CREATE DATABASE", "CREATE TABLE", "DELETE FROM", "DESCRIBE",
    "DROP TABLE", "EXPLAIN", "FROM", "GROUP BY", "INSERT INTO", "INSERT OVERWRITE", "JOIN", "MERGE INTO", "ORDER BY",
    "PARTITION", "RESET", "SELECT", "SET", "SHOW TABLES", "TIMESTAMP AS OF", "TRUNCATE TABLE", "UPDATE", "USE",
    "VERSION AS OF", "WHERE",
)  # fmt: skip
_HISTORY_LINES = 2000


def print_result(result: Result, form: str, console: Console) -> None:
    """Show what a statement gave; wait for a stream until it ends or Ctrl-C stops it."""
    if result.stream is not None:
        console.print(result.message)
        try:
            while result.stream.isActive:
                result.stream.awaitTermination(1)
        except KeyboardInterrupt:
            result.stream.stop()
        except Exception as error:
            # Of Spark, which raises here what ended the stream.
            raise _failure(error) from None
        failed = result.stream.exception()
        if failed is not None:
            raise _failure(failed)
        console.print(f"{len(result.stream.recentProgress)} micro-batches.")
    elif result.rows is None and result.frame is None:
        console.print(result.message, highlight=False)
    else:
        print_rows(result.to_arrow(), form)


def _failure(error: Exception) -> StorageError:
    """What ended a stream, in a line."""
    return own_error(error) or StorageError(f"The stream failed: {str(error).splitlines()[0]}")


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
        with console.status("running …") if console.is_terminal else contextlib.nullcontext():
            results = statements.run(text, engine)
        for result in results:
            print_result(result, form, console)
        console.print(f"[dim]{time.monotonic() - start:.2f} s[/]")
    except StorageError as error:
        console.print(f"[red]Error:[/] {error}", highlight=False, soft_wrap=True)
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
    readline.set_completer(lambda text, state: [*completions(statements, text), None][state])  # type: ignore[list-item]
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
    known = [*_WORDS, *(one.name + "(" for one in PROCEDURES.values()), *statements.known_names()]
    return sorted({one for one in known if one.lower().startswith(text.lower())})
