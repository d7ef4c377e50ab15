"""Where a text in the platform's SQL ends: outside of texts, names and comments."""

import re
from dataclasses import dataclass

# A raw text has no escapes; in names a backtick stands twice.
_PIECES = re.compile(
    r"""(?P<comment>--[^\n]*|/\*.*?\*/)
      | (?P<raw>\b[rR](?:'[^']*'|"[^"]*"))
      | (?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`)
      | (?P<open>/\*|\b[rR]['"]|['"`])
      | (?P<end>;)
      | (?P<other>\w+|\s+|.)""",
    re.DOTALL | re.VERBOSE,
)
_NAMES = {"`": "A name in backticks", "/*": "A comment"}


@dataclass(frozen=True)
class Open:
    """Something that is not closed, and where it begins, counted from 1."""

    what: str
    line: int
    column: int


def open_piece(text: str) -> Open | None:
    """The text, name or comment that has no end."""
    for piece in _PIECES.finditer(text):
        if piece.lastgroup == "open":
            before = text[: piece.start()]
            column = len(before) - (before.rfind("\n") + 1) + 1
            return Open(_NAMES.get(piece[0], "A text"), before.count("\n") + 1, column)
    return None


def is_ended(text: str) -> bool:
    """Whether the last statement of a text ends with a semicolon that is one."""
    last = ""
    for piece in _PIECES.finditer(text):
        kind = piece.lastgroup or ""
        if kind == "open":
            return False
        if kind != "comment" and not piece[0].isspace():
            last = kind
    return last == "end"
