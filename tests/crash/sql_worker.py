"""A process that runs SQL statements as soon as all of its kind are ready.

`python -m tests.crash.sql_worker ENGINE READY NUMBER COUNT TEXT…`: READY is a directory in which each makes a file.

It prints a line for each statement: `done`, or `conflict`; anything else ends it.
"""

import sys
import time
from pathlib import Path

from resources import Session
from storage import CommitConflict


def main(engine: str, ready: str, number: str, count: str, *statements: str) -> None:
    session = Session()
    # Whatever an engine needs to start.
    session.sql("SELECT count(*) FROM d.keyed", engine)
    Path(ready, number).touch()
    until = time.monotonic() + 300
    while len(list(Path(ready).iterdir())) < int(count):
        assert time.monotonic() < until, "the others do not come"
        time.sleep(0.01)
    for statement in statements:
        try:
            session.sql(statement, engine)
        except CommitConflict:
            print("conflict", flush=True)
        else:
            print("done", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
