"""Runs statements of tests on one engine."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from resources import Session


def runner(session: "Session", engine: str) -> Callable[[str], Any]:
    """Runs statements; rows as tuples, or the sentence about what was done."""

    def run(text: str) -> Any:
        result = session.sql(text, engine)
        if result.rows is None and result.frame is None:
            return result.message
        return [tuple(row.values()) for row in result.to_arrow().to_pylist()]

    return run
