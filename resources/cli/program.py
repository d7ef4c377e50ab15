"""The console script: obeys the command line, and ends the process with its exit code."""

import atexit
import json
import logging
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise
from typing import NoReturn

import click

from storage import StorageError

from ..links.shown_text import in_terminal
from .root import cli


def main() -> NoReturn:
    """The console script `snapline`."""
    exit_codes: list[int] = []
    # What is registered first runs last. Behind it libraries would only take themselves apart, not all of them in silence.
    atexit.register(_leave, exit_codes)
    try:
        answer()
    except SystemExit as error:
        exit_codes.append(error.code if isinstance(error.code, int) else 0)
        raise


def _leave(exit_codes: Sequence[int]) -> None:
    """End the process with its exit code at once, unless it ends with an error that nobody expected."""
    if exit_codes:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(exit_codes[0])


def answer() -> NoReturn:
    """Obey the command line and exit: 0, 1 for what was found broken, 2 for an error: a line, as JSON with `--format json`."""
    assert logging.lastResort is not None
    logging.lastResort.setFormatter(_TerminalFormatter())
    try:
        code = cli.main(prog_name="snapline", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        # A group without a command: its help is the answer, as click has it.
        print(error.format_message(), file=sys.stderr)
        sys.exit(2)
    except click.UsageError as error:
        hint = f" See `{error.ctx.command_path} --help`." if error.ctx else ""
        _fail(f"{error.format_message()}{hint}")
    except click.ClickException as error:
        _fail(error.format_message())
    except StorageError as error:
        _fail(str(error))
    except click.Abort:
        sys.exit(130)
    except BrokenPipeError:
        # Whoever read the output has read enough.
        sys.stderr.close()
        sys.exit(0)
    except OSError as error:
        # Of the machine: a home directory that cannot be written, a full disk.
        _fail(str(error))
    sys.exit(code if isinstance(code, int) else 0)


class _TerminalFormatter(logging.Formatter):
    """Warnings, with what a terminal would obey spelt out."""

    def format(self, record: logging.LogRecord) -> str:
        """The text of a record."""
        return in_terminal(super().format(record))


def _fail(message: str) -> NoReturn:
    line = in_terminal(" ".join(message.split()))
    wants_json = "--format=json" in sys.argv or ("--format", "json") in pairwise(sys.argv)
    print(json.dumps({"error": line}) if wants_json else f"Error: {line}", file=sys.stderr)
    sys.exit(2)
