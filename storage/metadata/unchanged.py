"""Whether a file still means what was read from it."""

from collections.abc import Callable
from typing import TypeVar

from ..file_io import FileIO

T = TypeVar("T")


def unchanged(file_io: FileIO, path: str, parse: Callable[[str, str], T], was: T) -> bytes | None:
    """What a file holds, if that still stands for what was read; None if it is gone or stands for something else.

    The bytes are what a comparing delete or replacement takes as witness.
    """
    text = file_io.read_text_or_none(path)
    return None if text is None or parse(text, path) != was else text.encode()
