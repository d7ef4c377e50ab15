"""Progress of long work on a terminal: a bar for each work, or a line beside what runs."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.status import Status

from storage import Tell, progress_text, watched_by

from ..links.shown_text import in_terminal

RUNNING = "running …"
_COLUMNS = (
    TextColumn("{task.description}", markup=False),
    BarColumn(),
    MofNCompleteColumn(),
    TextColumn("{task.fields[counted]}", markup=False),
    TimeElapsedColumn(),
)


@contextmanager
def bars() -> Iterator[None]:
    """Show a bar for each work of a command, on standard error, if that is a terminal. They go when the work is done."""
    out = Console(stderr=True)
    if not out.is_terminal:
        yield
        return
    shown = Progress(*_COLUMNS, console=out, transient=True)

    @contextmanager
    def watch(on: str, counted: str) -> Iterator[Tell]:
        is_first = not shown.live.is_started
        task = shown.add_task(in_terminal(on), total=None, counted=counted)
        if is_first:
            shown.start()
        try:
            yield lambda done, total: shown.update(task, completed=done, total=total)
        finally:
            shown.remove_task(task)
            if is_first:
                shown.stop()

    with watched_by(watch):
        yield


@contextmanager
def beside(status: Status | None) -> Iterator[None]:
    """Show how far a statement has come behind the word that says that it runs."""
    if status is None:
        yield
        return

    @contextmanager
    def watch(on: str, counted: str) -> Iterator[Tell]:
        try:
            yield lambda done, total: status.update(in_terminal(f"{RUNNING} {progress_text(on, counted, done, total)}"))
        finally:
            status.update(RUNNING)

    with watched_by(watch):
        yield
