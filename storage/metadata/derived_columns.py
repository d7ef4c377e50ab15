"""Computed columns and the watermark of a table: kept as options of its schema, for the engines that compute them.

The keys are those under which Paimon's Flink catalog keeps them.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ..arguments import checked
from ..errors import InvalidRequest

_NAME = re.compile(r"schema\.(\d+)\.name")
_DERIVED = re.compile(r"schema\.(\d+\.(name|expr|data-type)|watermark\..*)")
_WATERMARK = "schema.watermark.0"


@checked
@dataclass(frozen=True, slots=True)
class ComputedColumn:
    """`name AS expression`, of a type in the format's words."""

    name: str
    expression: str
    data_type: str
    comment: str | None = None


@checked
@dataclass(frozen=True, slots=True)
class Watermark:
    """`WATERMARK FOR column AS expression`."""

    column: str
    expression: str
    data_type: str = "TIMESTAMP(3)"


def derived_texts(options: Mapping[str, str]) -> dict[str, str]:
    """The options that describe computed columns and watermarks; empty for nearly every table."""
    return {key: value for key, value in options.items() if key.startswith("schema.") and _DERIVED.fullmatch(key)}


def computed_columns(options: Mapping[str, str]) -> list[ComputedColumn]:
    """The computed columns that options describe, in order."""
    numbers = sorted(int(match[1]) for key in options if (match := _NAME.fullmatch(key)))
    return [
        ComputedColumn(
            options[f"schema.{number}.name"],
            options[f"schema.{number}.expr"],
            options.get(f"schema.{number}.data-type", ""),
            options.get(f"schema.{number}.comment"),
        )
        for number in numbers
        if f"schema.{number}.expr" in options
    ]


def watermark(options: Mapping[str, str]) -> Watermark | None:
    """The watermark that options describe."""
    if f"{_WATERMARK}.rowtime" not in options:
        return None
    column, expression = options[f"{_WATERMARK}.rowtime"], options.get(f"{_WATERMARK}.strategy.expr", "")
    return Watermark(column, expression, options.get(f"{_WATERMARK}.strategy.data-type", "TIMESTAMP(3)"))


def derived_options(
    columns: Iterable[str], computed: Iterable[ComputedColumn], mark: Watermark | None
) -> dict[str, str]:
    """The options that describe computed columns and a watermark. Raises InvalidRequest for names that clash."""
    names = list(columns)
    options: dict[str, str] = {}
    for number, node in enumerate(computed, len(names)):
        if node.name.lower() in [name.lower() for name in names]:
            raise InvalidRequest(
                f"Computed column {node.name!r} has the name of another column, in whatever case. Rename one of them."
            )
        if not node.expression.strip():
            raise InvalidRequest(f"Computed column {node.name!r} has no expression.")
        names.append(node.name)
        options |= {
            f"schema.{number}.name": node.name,
            f"schema.{number}.expr": node.expression,
            f"schema.{number}.data-type": node.data_type,
        }
        if node.comment is not None:
            options[f"schema.{number}.comment"] = node.comment
    if mark is not None:
        if mark.column not in names:
            raise InvalidRequest(
                f"The watermark is for {mark.column!r}, which is no column. Columns: {', '.join(names)}."
            )
        options |= {
            f"{_WATERMARK}.rowtime": mark.column,
            f"{_WATERMARK}.strategy.expr": mark.expression,
            f"{_WATERMARK}.strategy.data-type": mark.data_type,
        }
    return options
