"""Act in a fork of this process, so that the process itself never starts a thread and may fork again."""

import json
import os
from collections.abc import Callable
from typing import Any, TextIO


def started(act: Callable[..., object], *arguments: object) -> tuple[int, TextIO]:
    """The process id of a fork that acts, and where its answer comes, as JSON."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        code = 1
        try:
            os.write(writing, json.dumps(act(*arguments)).encode())
            code = 0
        finally:
            os._exit(code)
    os.close(writing)
    return child, os.fdopen(reading)


def forked(act: Callable[..., object], *arguments: object) -> tuple[int, Any]:
    """Exit code of a fork that acts, and what it returned."""
    child, answer = started(act, *arguments)
    with answer:
        text = answer.read()
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status), json.loads(text) if text else None
