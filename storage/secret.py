"""Secrets as a type: what an option's name or its URL says is one becomes a `Secret` where it is read, and is a text again
only where it is used.

`${env:NAME}` in an option of a catalog, or in a setting, stands for a variable of the environment. It is looked up when the
value is used and stays as it is on disk. It is understood only in what whoever runs the platform has given, never in what
is read from a warehouse: somebody else's table could ask for any variable.
"""

import os
import re
from collections.abc import Mapping
from typing import Any

from .errors import InvalidRequest
from .redaction import MASK, hidden_value, holds_secret, is_secret_name, remember, secrets_in

_REFERENCE = re.compile(r"\$\{env:([A-Za-z_][A-Za-z0-9_]*)\}")


class Secret:
    """A text that is shown nowhere: not by `str`, `repr` or a format, not in JSON, in no error. Pickles, for tasks need it."""

    __slots__ = ("_text",)

    def __init__(self, text: "str | Secret") -> None:
        self._text: str = text.written() if isinstance(text, Secret) else text
        _know(self._text)

    def reveal(self) -> str:
        """The secret itself, references to the environment resolved. Raises InvalidRequest that names a missing variable."""
        text = resolved(self._text)
        _know(text)
        return text

    def written(self) -> str:
        """As it was given, with its references: for files that only their owner can read."""
        return self._text

    def __repr__(self) -> str:
        return f"Secret({MASK})"

    def __str__(self) -> str:
        return MASK

    def __format__(self, form: str) -> str:
        return MASK

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self._text == other._text

    def __hash__(self) -> int:
        return hash((Secret, self._text))

    def __reduce__(self) -> tuple[Any, ...]:
        return Secret, (self._text,)


def _know(text: str) -> None:
    for secret in list(secrets_in(text)) or [text]:
        if not _REFERENCE.search(secret):
            remember(secret)


def resolved(text: str, environment: Mapping[str, str] | None = None) -> str:
    """A text with the environment's values in the place of `${env:NAME}`. Raises InvalidRequest that names a missing one."""
    given = os.environ if environment is None else environment

    def value(match: "re.Match[str]") -> str:
        if match[1] not in given:
            raise InvalidRequest(
                f"The variable {match[1]} of the environment is not set, to which an option refers by {match[0]}. Set it "
                "where the platform runs."
            )
        return given[match[1]]

    return _REFERENCE.sub(value, text)


def refers_to_environment(text: str) -> bool:
    """Whether a text has a reference that `resolved` follows."""
    return _REFERENCE.search(text) is not None


def guarded_value(name: str, value: Any) -> Any:
    """The value of an option, as a Secret if it is one; within mappings and lists as well."""
    if isinstance(value, Mapping):
        return {key: guarded_value(str(key), each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [guarded_value(name, each) for each in value]
    if isinstance(value, str) and holds_secret(name, value):
        return Secret(value)
    return value


def guarded_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options with their secrets typed."""
    return {name: guarded_value(name, value) for name, value in options.items()}


def guarded_storage(options: Mapping[str, Any]) -> dict[str, Any]:
    """Storage options with their secrets typed: `key` is half of one there."""
    return {
        name: Secret(value) if name == "key" and isinstance(value, str) else guarded_value(name, value)
        for name, value in options.items()
    }


def revealed(value: Any) -> Any:
    """What options hold, as it is used: secrets, and references in other texts, are plain again."""
    if isinstance(value, Secret):
        return value.reveal()
    if isinstance(value, Mapping):
        return {key: revealed(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [revealed(each) for each in value]
    return resolved(value) if isinstance(value, str) else value


def plain_secrets(options: Mapping[str, Any]) -> list[str]:
    """The names of typed options that hold a secret itself, and not references to the environment in its place."""
    return [name for name, value in options.items() if isinstance(value, Secret) and _is_plain(name, value.written())]


def _is_plain(name: str, text: str) -> bool:
    rest = _REFERENCE.sub("", text)
    return bool(rest) if is_secret_name(name) else any(secrets_in(rest))


def settled(value: Any) -> Any:
    """Options with their references resolved, secrets still typed: what travels to tasks, whose environment is another."""
    if isinstance(value, Secret):
        return Secret(value.reveal())
    if isinstance(value, Mapping):
        return {key: settled(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [settled(each) for each in value]
    return resolved(value) if isinstance(value, str) else value


def written_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options as they were given: for a file that only its owner can read."""
    return {name: value.written() if isinstance(value, Secret) else value for name, value in options.items()}


def shown_options(options: Mapping[str, Any]) -> dict[str, str]:
    """Options as they may be shown."""
    return {name: hidden_value(name, str(value)) for name, value in options.items()}
