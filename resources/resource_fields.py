"""Fields of a Dagster resource: what it does not have, which Dagster ignores, and what could not work are refused when set."""

import difflib
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import dagster as dg

from storage import InvalidRequest, revealed


def refuse_unknown_fields(resource: str, known: Iterable[str], given: Mapping[str, Any]) -> None:
    """Raise InvalidRequest for a field that a resource does not have, with the one that may be meant."""
    names = sorted(name for name in known if not name.startswith("_"))
    for name in given:
        if name not in names:
            near = difflib.get_close_matches(name, names, n=1)
            hint = f"Did you mean {near[0]!r}?" if near else f"Fields: {', '.join(names)}."
            raise InvalidRequest(f"{resource} has no field {name!r}. {hint}")


def refuse_values(
    resource: str,
    given: Mapping[str, Any],
    checks: Mapping[str, Callable[[str, Any], None]],
    *,
    mappings: Collection[str] = (),
) -> None:
    """Raise InvalidRequest for the first field, by its name, that is no text, or none of the `mappings`, or whose check refuses
    its value. Fields that are empty are taken from the environment, and those that Dagster reads from a variable are checked
    when it has.
    """
    for name, check in checks.items():
        if name not in given or isinstance(given[name], dg.EnvVar):
            continue
        value, kind = revealed(given[name]), Mapping if name in mappings else str
        if not isinstance(value, kind):
            what = "text" if kind is str else "mapping of names to values"
            raise InvalidRequest(
                f"{resource}: {name} is of type {type(value).__name__}, and no {what}. Left out, it is taken from the "
                "environment."
            )
        if value:
            check(f"{resource}: {name}", value)
