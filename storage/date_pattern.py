"""Patterns of dates as Java writes them, `yyyyMMdd HH:mm`, in the words of Python."""

import re

from .errors import InvalidRequest

_LETTERS = {"yyyy": "%Y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S"}
_PIECES = re.compile(
    f"(?P<known>{'|'.join(_LETTERS)})|'(?P<quoted>[^']*)'|(?P<letter>[A-Za-z'])|(?P<other>.)", re.DOTALL
)


def python_format(pattern: str) -> str:
    """The pattern as `strptime` takes it. Raises InvalidRequest for letters that are none of its words, and without a year: a
    part of a day is no time.
    """
    made, words = "", set()
    for piece in _PIECES.finditer(pattern):
        if piece["letter"] is not None:
            raise InvalidRequest(
                f"{piece['letter']!r} is not known there: its words are {', '.join(_LETTERS)}, others in quotes."
            )
        if piece["known"] is not None:
            words.add(piece["known"])
            made += _LETTERS[piece["known"]]
        else:
            text = piece["other"] if piece["other"] is not None else piece["quoted"] or "'"
            made += text.replace("%", "%%")
    if "yyyy" not in words:
        raise InvalidRequest("it has no year, yyyy.")
    if {"yyyy", "dd"} <= words and "MM" not in words:
        raise InvalidRequest("it has days, dd, and no months, MM.")
    return made
