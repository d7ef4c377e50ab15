"""Which systems of logs there are: Kafka, and those that installed packages add by an entry point.

A system is loaded when a table's log is opened, and not before: who has no log needs no client of one.
"""

import importlib
from collections.abc import Mapping

from ..errors import InvalidRequest
from ..extensions import extension_names, load_extension
from ..log_options import log_system
from .log_store import LogStore, OpenLog

ENTRY_POINT_GROUP = "snapline.log_systems"
_OWN = {"kafka": ".kafka_log:open_kafka_log"}
_registered: dict[str, OpenLog] = {}


def register_log_system(name: str, open_log_store: OpenLog) -> None:
    """Let tables of this process say `log.system` = name."""
    _registered[name] = open_log_store


def known_systems() -> list[str]:
    """The names that `log.system` may have, but for `none`."""
    return sorted({*_OWN, *_registered, *extension_names(ENTRY_POINT_GROUP)})


def open_log(options: Mapping[str, str]) -> LogStore:
    """The system that a table's log is in, as its options say. Raises InvalidRequest that lists which there are, or says what is
    to be installed.
    """
    name = log_system(options)
    added: OpenLog | None = load_extension(ENTRY_POINT_GROUP, name, "system of logs", _OWN)
    opener = _registered.get(name, added)
    if opener is None and name in _OWN:
        module, _, function = _OWN[name].partition(":")
        try:
            opener = getattr(importlib.import_module(module, __package__), function)
        except ModuleNotFoundError as error:
            raise InvalidRequest(
                f"Option 'log.system' = {name!r} needs the package {error.name!r}: install snapline[{name}]."
            ) from None
    if opener is None:
        raise InvalidRequest(
            f"Option 'log.system' = {name!r} is unknown. There are: none, {', '.join(known_systems())}."
        )
    return opener(options)
