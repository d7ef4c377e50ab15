"""Addresses of pages of the browser, for those who link to it from elsewhere."""

import shlex
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from storage import InvalidRequest, SnapshotRef, whole_number

# Where a path names a snapshot.
REF_ROUTE = "{catalog}/{database}/{table}/{branch}/{number}"
_LARGEST = 2**63 - 1


def snapshot_address(base: str, ref: SnapshotRef) -> str:
    """The page of a snapshot; `base`: where the browser is served."""
    return f"{base}/snapshot/{_path(ref)}"


def spoilt_address(base: str, ref: SnapshotRef) -> str:
    """The page of what a snapshot has spoilt."""
    return f"{base}/spoilt/{_path(ref)}"


def plan_address(base: str, ref: SnapshotRef) -> str:
    """The plan of a recovery from a snapshot."""
    return f"{base}/plan/{_path(ref)}"


def recovery_address(base: str, branch: str) -> str:
    """The page of a recovery."""
    return f"{base}/recoveries/{quote(branch, safe='')}"


def command(*parts: str) -> str:
    """A command to copy into a shell, whatever its parts hold."""
    return shlex.join(("snapline", *parts))


def _path(ref: SnapshotRef) -> str:
    parts = (ref.catalog, ref.database, ref.table, ref.branch, str(ref.snapshot_id))
    return "/".join(quote(part, safe="") for part in parts)


def ref_of_route(values: Mapping[str, Any]) -> SnapshotRef:
    """The snapshot that the parts of `REF_ROUTE` name. Raises InvalidRequest."""
    number = whole_number(values["number"])
    if number is None or not 0 < number <= _LARGEST:
        raise InvalidRequest(f"{values['number'][:50]!r} is no number of a snapshot.")
    return SnapshotRef(values["catalog"], values["database"], values["table"], values["branch"], number)
