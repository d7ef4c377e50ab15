"""Partitions as a condition on rows."""

from collections.abc import Mapping, Sequence
from typing import Any


def condition(partitions: Sequence[Mapping[str, Any]]) -> str | None:
    """The rows of some partitions, as SQL; None for all of a table without any."""

    def equals(name: str, value: Any) -> str:
        quoted = "`" + name.replace("`", "``") + "`"
        return f"{quoted} IS NULL" if value is None else f"{quoted} = '" + str(value).replace("'", "''") + "'"

    each = [
        " AND ".join(equals(name, value) for name, value in partition.items()) for partition in partitions if partition
    ]
    return " OR ".join(f"({item})" for item in each) or None
