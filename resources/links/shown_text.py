"""Text as a page shows it: characters that cannot be seen, or turn the line around, as escapes; right-to-left parts apart."""

import re
import shlex
from html import escape
from unicodedata import bidirectional, category

from markupsafe import Markup

# U+2068 and U+2069 keep what is between them from turning around what stands beside it, in text and in attributes alike.
_APART, _END = "\u2068", "\u2069"
_DIRECTIONS = "\u200e\u200f\u061c\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
_UNSEEN = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")


def is_unseen(character: str) -> bool:
    """Whether a character cannot be seen, or changes how others are: controls, formats, directions."""
    return character not in "\n\t" and category(character) in _UNSEEN


def in_terminal(text: str) -> str:
    r"""The text with what a terminal would obey, or what turns a line around, as `\u001b`. Joined emoji stay as they are."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        _escaped(each)
        if each not in "\n\t" and (each in _DIRECTIONS or category(each) in ("Cc", "Cs", "Zl", "Zp"))
        else each
        for each in text
    )


def spelt_out(text: str) -> str:
    r"""The text with what cannot be seen as `\u202e`."""
    return "".join(_escaped(each) if is_unseen(each) else each for each in text)


def contains(text: str, wanted: str) -> bool:
    """Whether a text contains another one, in capitals or not, and whether what cannot be seen is written as it is or as it is
    shown.
    """
    folded = wanted.casefold()
    return folded in text.casefold() or folded in spelt_out(text).casefold()


def visible(text: str) -> str:
    r"""The text with what cannot be seen as `\u202e`, and each part that is read from right to left kept apart."""
    if text.isascii() and text.isprintable():
        return text
    seen = spelt_out(text)
    return _RIGHT_TO_LEFT.sub(lambda match: f"{_APART}{match[0]}{_END}", seen) if _turns(seen) else seen


def shown(text: str) -> str:
    """The same, escaped for a picture."""
    return escape(visible(text))


def finalized(value: object) -> object:
    """What a template puts into a page for a value; what is marked to be kept stays as it is."""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def copied(text: str) -> Markup:
    r"""A command that is copied off the page: what cannot be seen as `\u202e`, and parts that are read from right to left kept
    apart by elements, which are not copied.
    """
    seen = spelt_out(text)
    return Markup(_RIGHT_TO_LEFT.sub(lambda match: f"<bdi>{match[0]}</bdi>", escape(seen)))


def kept(value: object) -> Markup:
    """A value of a form, which comes back as it is."""
    return Markup(escape(str(value)))


def in_shell(text: str) -> str:
    """A word of a command to copy: in bash and zsh what cannot be seen may be written as an escape."""
    if not any(is_unseen(each) or each in "\n\t" for each in text):
        return shlex.quote(text)
    inner = "".join(
        _escaped(each) if is_unseen(each) or each in "\n\t" else {"\\": "\\\\", "'": "\\'"}.get(each, each)
        for each in text
    )
    return f"$'{inner}'"


def _escaped(character: str) -> str:
    number = ord(character)
    return f"\\u{number:04x}" if number <= 0xFFFF else f"\\U{number:08x}"


def _turns(text: str) -> bool:
    return any(bidirectional(each) in ("R", "AL") for each in text)


# Hebrew, Arabic and their neighbours, with blanks between.
_RTL = "\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff"
_RIGHT_TO_LEFT = re.compile(f"[{_RTL}]+(?: +[{_RTL}]+)*")
