"""Actions of installed packages: modules that entry points of the group `snapline.actions` name, which register theirs."""

import logging

from storage import InvalidRequest, extension_names, load_extension

from .action import ACTIONS

ENTRY_POINT_GROUP = "snapline.actions"
_log = logging.getLogger(__name__)


def load_extensions() -> None:
    """Import what installed packages add. Of one that cannot be loaded, or adds what is there already, a warning says so and
    nothing is added: everything else goes on working.
    """
    for name in extension_names(ENTRY_POINT_GROUP):
        before = dict(ACTIONS)
        try:
            load_extension(ENTRY_POINT_GROUP, name, "module of actions")
        except InvalidRequest as error:
            ACTIONS.clear()
            ACTIONS.update(before)
            _log.warning("%s Until then its commands and procedures are not there.", error)
