"""The kinds of parameters that actions have: each turns a text of the command line, or a constant of SQL, into a value."""

import datetime as dt
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from storage import InvalidRequest, TagName, moment_of, whole_number

from .values import duration, partition_values

# Of a number below this nobody means milliseconds since 1970: it is 1973.
_FIRST_MOMENT_MS = 100_000_000_000


@dataclass(frozen=True)
class Kind:
    """`label` says in a word or two what is expected, `metavar` stands for a value in help texts, and `read` makes a value of
    what was given. It raises InvalidRequest or ValueError for what is none. `names`: what values are names of, if they are
    of something there is.
    """

    label: str
    metavar: str
    read: Callable[[Any], Any]
    is_flag: bool = False
    repeats: bool = False
    names: str = ""

    def value(self, name: str, given: Any) -> Any:
        """The value of the parameter `name`. Raises InvalidRequest that says what is expected and what was given."""
        try:
            return self.read(given)
        except InvalidRequest as error:
            raise InvalidRequest(f"{name}: {error}") from None
        except ValueError:
            raise InvalidRequest(f"{name}: {self.label} is expected, not {given!r}.") from None


def _text(given: Any) -> str:
    if not isinstance(given, str) or not given:
        raise ValueError
    return given


def _number(given: Any) -> int:
    if isinstance(given, int) and not isinstance(given, bool):
        return given
    number = whole_number(given.removeprefix("-")) if isinstance(given, str) else None
    if number is None:
        raise ValueError
    return -number if given.startswith("-") else number


def _positive(given: Any) -> int:
    number = _number(given)
    if number < 1:
        raise ValueError
    return number


def _flag(given: Any) -> bool:
    if isinstance(given, bool):
        return given
    answers = {"true": True, "false": False}
    if not isinstance(given, str) or given.lower() not in answers:
        raise ValueError
    return answers[given.lower()]


def _moment(given: Any) -> dt.datetime:
    if isinstance(given, bool) or not isinstance(given, int | str):
        raise ValueError
    moment = moment_of(str(given))
    try:
        # The first and the last day of the calendar are none everywhere on Earth.
        _ = moment.timestamp()
    except (ValueError, OverflowError, OSError):
        raise InvalidRequest(f"{given!r} is no date and time, such as 2024-05-01 12:30.") from None
    return moment


def _age(given: Any) -> dt.timedelta | dt.datetime:
    """A length of time, or the point in time before which something is older."""
    number = given if isinstance(given, int) and not isinstance(given, bool) else whole_number(str(given).strip())
    if number is not None and number < _FIRST_MOMENT_MS:
        raise InvalidRequest(f"{given!r} has no unit: write a number and a unit, as in 7 d, or a date and time.")
    if isinstance(given, int) and not isinstance(given, bool):
        return _moment(given)
    try:
        return duration(_text(given))
    except InvalidRequest as error:
        if re.fullmatch(r"\s*\d+\s*[a-z]+\s*", given):
            raise InvalidRequest(str(error)) from None
    try:
        return _moment(given)
    except InvalidRequest:
        raise InvalidRequest(f"{given!r} is not a duration, such as 7 d, nor a date and time.") from None


def _version(given: Any) -> int | str:
    if isinstance(given, int) and not isinstance(given, bool):
        return given
    number = whole_number(_text(given))
    return given if number is None else number


def _texts(given: Any) -> list[str]:
    """Several names: a list, or a text in which commas separate them."""
    parts = given.split(",") if isinstance(given, str) else given
    if not isinstance(parts, list | tuple) or not parts:
        raise ValueError
    return [_text(part.strip() if isinstance(part, str) else part) for part in parts]


def _pattern(given: Any) -> str:
    text = _text(given)
    try:
        re.compile(text)
    except re.error as error:
        raise InvalidRequest(f"{text!r} is no regular expression: {error}.") from None
    return text


def _partitions(given: Any) -> list[Mapping[str, str]]:
    """`day=a,region=eu;day=b`: partitions separated by `;`, each with the values of its columns. A list, as the command line has
    it, is one partition: a text for each column, whose value may hold any of these signs.
    """
    if isinstance(given, list | tuple):
        return [partition_values([*map(_text, given)])]
    texts = [text for text in _text(given).split(";") if text.strip()]
    if not texts:
        raise ValueError
    return [partition_values([part.strip() for part in text.replace("/", ",").split(",")]) for text in texts]


TABLE = Kind("the name of a table", "TABLE", _text, names="table")
TABLES = Kind("names of tables", "TABLE …", _texts, repeats=True, names="table")
TEXT = Kind("a text", "TEXT", _text)
NAME = Kind("a name", "NAME", _text)
TAG = Kind("the name of a tag", "TAG", lambda given: TagName(_text(given)), names="tag")
BRANCH = Kind("the name of a branch", "BRANCH", _text, names="branch")
CONSUMER = Kind("the name of a consumer", "CONSUMER", _text, names="consumer")
PATTERN = Kind("a regular expression", "REGEX", _pattern)
NUMBER = Kind("a whole number", "NUMBER", _number)
POSITIVE = Kind("a whole number above zero", "NUMBER", _positive)
FLAG = Kind("TRUE or FALSE", "", _flag, is_flag=True)
DURATION = Kind("a length of time, such as 7 d", "DURATION", lambda given: duration(_text(given)))
AGE = Kind("an age such as 7 d, or a date and time", "AGE", _age)
MOMENT = Kind("a date and time", "TIMESTAMP", _moment)
VERSION = Kind("the id of a snapshot or a tag", "VERSION", _version)
PARTITIONS = Kind("partitions, such as day=2024-05-01", "COLUMN=VALUE", _partitions, repeats=True)
