"""How options are declared: a field of a class is one option, with key, type, default and meaning."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Self

from .errors import InvalidRequest
from .option_spelling import in_one_spelling
from .option_texts import (
    parse_boolean,
    parse_by_level,
    parse_directory,
    parse_duration_ms,
    parse_names,
    parse_size_bytes,
)

READERS: dict[str, Any] = {
    "text": str,
    "whole number": int,
    "true or false": parse_boolean,
    "size": parse_size_bytes,
    "duration": parse_duration_ms,
    "names, separated by commas": parse_names,
    "values by level": parse_by_level,
    "directory": parse_directory,
}

# What Paimon's Java library reads: numbers of 32 bits, sizes and lengths of time of 64.
MOST = {"whole number": 2**31 - 1, "size": 2**63 - 1, "duration": 2**63 - 1}


def option(
    key: str,
    default: str | None,
    meaning: str,
    kind: str = "text",
    *,
    least: int | None = None,
    most: int | None = None,
    choices: str = "",
) -> Any:
    """Declare one option as a dataclass field. `default` is written as a user would write it.

    `least` and `most`: the lowest and the highest value (by default what Paimon's Java library can read), and `choices`: the
    texts, separated by spaces, that make sense when the option is set.
    """
    value = None if default is None else READERS[kind](default)
    most = MOST.get(kind) if most is None else most
    metadata = {
        "key": key,
        "kind": kind,
        "default": default,
        "meaning": meaning,
        "least": least,
        "most": most,
        "choices": choices,
    }
    return field(default=value, metadata=metadata)


@dataclass(frozen=True, kw_only=True)
class Options:
    """Base of option classes: reads its fields from a table's text options."""

    @classmethod
    def read(cls, texts: Mapping[str, str]) -> Self:
        """Return the options of `texts`, defaults filled in. Raises InvalidRequest that names the bad option."""
        return cls._of_items(tuple(texts.items()))

    @classmethod
    @lru_cache(maxsize=256)
    def _of_items(cls, items: tuple[tuple[str, str], ...]) -> Self:
        """The same of pairs. A schema is asked for its options at every turn, and they stay what they are."""
        values = {}
        texts = in_one_spelling(dict(items))
        for declared in dataclasses.fields(cls):
            key = declared.metadata["key"]
            if key in texts:
                try:
                    values[declared.name] = READERS[declared.metadata["kind"]](texts[key])
                except (InvalidRequest, ValueError) as error:
                    kind = declared.metadata["kind"]
                    reason = f": {error}" if isinstance(error, InvalidRequest) else "."
                    raise InvalidRequest(f"Option {key!r} = {texts[key]!r} is not a {kind}{reason}") from None
        return cls(**values)

    @classmethod
    def default_of(cls, key: str) -> str:
        """The default of an option as a user would write it; empty if it has none, or is not declared."""
        return next((str(each["default"] or "") for each in cls.declared() if each["key"] == key), "")

    @classmethod
    def declared(cls) -> list[Mapping[str, Any]]:
        """Key, kind, default text and meaning of each option, in the order of declaration."""
        return [declared.metadata for declared in dataclasses.fields(cls)]
