"""What installed packages add by entry points: a name stands for one package, which is loaded once the name is asked for."""

import sys
from collections.abc import Container
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from .errors import InvalidRequest

# What a name may stand for that is not known: said beside those that are.
INSTALL_IT = "Another one comes with the package that adds it: install that here too."


def extension_names(group: str) -> list[str]:
    """The names that installed packages add to a group of entry points, sorted."""
    return sorted({entry.name for entry in _installed(group, tuple(sys.path))})


def load_extension(group: str, name: str, what: str, own: Container[str] = ()) -> Any:
    """What a package adds by a name; None if none does. `what` the name is of, for messages; `own`: names that are not theirs.

    Raises InvalidRequest that names the packages, if two add the name, or one a name of our own, or it cannot be loaded.
    """
    entries = [entry for entry in _installed(group, tuple(sys.path)) if entry.name == name]
    packages = " and ".join(sorted(map(package_of, entries)))
    if entries and name in own:
        raise InvalidRequest(
            f"The {what} {name!r} is Snapline's own, and package {packages} adds another one of that name. Uninstall the "
            "package, or let it name its own otherwise."
        )
    if len(entries) > 1:
        raise InvalidRequest(
            f"The {what} {name!r} is added by the packages {packages}: which one is meant cannot be known. Uninstall all but one."
        )
    for entry in entries:
        try:
            return entry.load()
        except (Exception, SystemExit) as error:
            reason = str(error) if isinstance(error, InvalidRequest) else f"{type(error).__name__}: {error}"
            raise InvalidRequest(
                f"The {what} {name!r} of package {packages} cannot be loaded: {reason.rstrip('.')}. Mend or uninstall the "
                "package."
            ) from error
    return None


def package_of(entry: EntryPoint) -> str:
    """The name of the package that an entry point is of."""
    return entry.dist.name if entry.dist else entry.value


@cache
def _installed(group: str, path: tuple[str, ...]) -> tuple[EntryPoint, ...]:
    """Entry points of a group, as long as packages are looked for at the same places: looking takes milliseconds."""
    return tuple(entry_points(group=group))
