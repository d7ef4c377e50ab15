"""The columns that options of a table name: under other names, and in the case that the table has."""

import re
from collections.abc import Mapping, Sequence

from ..format.file_index.wanted import PREFIX, renamed_index_option
from ..option_spelling import in_one_spelling

# Options whose values name columns.
OF_COLUMNS = (
    "bucket-key",
    "sequence.field",
    "rowkind.field",
    "primary-key",
    "partition",
    "record-level.time-field",
    "partial-update.remove-record-on-sequence-group",
)
_PATTERN = "partition.timestamp-pattern"
_MARKS = re.compile(r"[,.;\s$]+")


def renamed_options(options: Mapping[str, str], names: Mapping[str, str]) -> dict[str, str]:
    """The same options after columns have been renamed: `names` gives the new name for each of the old ones."""

    def renamed(text: str) -> str:
        return ",".join(names.get(part.strip(), part.strip()) for part in text.split(","))

    result = {}
    for key, value in options.items():
        if key.startswith(PREFIX):
            key, value = renamed_index_option(key, value, names)
        elif key in OF_COLUMNS:
            value = renamed(value)
        elif key.startswith("fields.") and "." in key.removeprefix("fields."):
            columns, _, rest = key.removeprefix("fields.").rpartition(".")
            key = f"fields.{renamed(columns)}.{rest}"
            value = renamed(value) if rest == "sequence-group" else value
        result[key] = value
    return result


def options_in_case(options: Mapping[str, str], columns: Sequence[str]) -> dict[str, str]:
    """The same options with the names that the table has for its columns, whatever their case was, and in one spelling."""
    held = {name.lower(): name for name in columns}
    words = {word for key, value in options.items() for text in (key, value) for word in _MARKS.split(text)}
    others = {word: held[word.lower()] for word in words if word not in columns and word.lower() in held}
    result = renamed_options(options, others)
    if _PATTERN in result:
        result[_PATTERN] = re.sub(r"\$(\w+)", lambda match: f"${others.get(match[1], match[1])}", result[_PATTERN])
    return in_one_spelling(result)
