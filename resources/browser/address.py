"""Addresses of pages of the browser, for those who link to it from elsewhere."""

from urllib.parse import quote, urlencode

from storage import SnapshotRef

from .shown_text import in_shell
from .view import text_of


def snapshot_address(base: str, ref: SnapshotRef) -> str:
    """The page of a snapshot; `base`: where the browser is served."""
    return f"{base}/snapshot?{_query(ref)}"


def spoilt_address(base: str, ref: SnapshotRef) -> str:
    """The page of what a snapshot has spoilt."""
    return f"{base}/spoilt?{_query(ref)}"


def plan_address(base: str, ref: SnapshotRef) -> str:
    """The plan of a recovery from a snapshot."""
    return f"{base}/plan?{_query(ref)}"


def recovery_address(base: str, branch: str) -> str:
    """The page of a recovery."""
    return f"{base}/recoveries/{quote(branch, safe='')}"


def command(*parts: str) -> str:
    """A command to copy into a shell, whatever its parts hold."""
    return " ".join(in_shell(part) for part in ("snapline", *parts))


def _query(ref: SnapshotRef) -> str:
    return urlencode({"ref": text_of(ref)}, safe="@$")
