"""Addresses of pages of the browser, for those who link to it from elsewhere."""

from urllib.parse import quote, urlencode

from storage import SnapshotRef


def snapshot_address(base: str, ref: SnapshotRef) -> str:
    """The page of a snapshot; `base`: where the browser is served."""
    return f"{base}/snapshot?{urlencode({'ref': f'{ref.catalog}.{ref}'})}"


def recovery_address(base: str, branch: str) -> str:
    """The page of a recovery."""
    return f"{base}/recoveries/{quote(branch, safe='')}"
