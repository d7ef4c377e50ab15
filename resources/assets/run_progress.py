"""Progress of long work in the log of a run of Dagster."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg

from storage import Tell, progress_text, watched_by

# A line for each work, at most so often.
PAUSE_S = 10.0


@contextmanager
def progress_in_log(log: dg.DagsterLogManager) -> Iterator[None]:
    """Log how far long work has come, every ten seconds: work that is done sooner leaves no line."""

    @contextmanager
    def watch(on: str, counted: str) -> Iterator[Tell]:
        said = time.monotonic()

        def tell(done: int, total: int | None) -> None:
            nonlocal said
            if time.monotonic() - said >= PAUSE_S:
                said = time.monotonic()
                log.info(progress_text(on, counted, done, total))

        yield tell

    with watched_by(watch):
        yield
